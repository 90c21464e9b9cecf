"""Writes the table of settings in docs/settings.md from the options themselves.

Run ``python docs/reference.py`` after a change of ``dedup_middleware/base/options.py``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs

from dedup_middleware.base.options import Options
from dedup_middleware.base.settingfields import setting_name

HEAD = """# Settings

Every setting of the plugin with its default, for `settings.py`, a spider's `custom_settings`, or
the command line (`-s`). An unusable value, or a name with `DEDUP_` that is not listed here, ends
the crawl at its start; the message names the setting and the fix. [Without
Scrapy](without-scrapy.md), `Options` takes the same names in lower case without `DEDUP_`.

| setting | default | meaning |
|---|---|---|
"""

FOOT = """
`memory:` is the default of `DEDUP_INDEX_URL` for `Options()` only. In a Scrapy project it is a
SQLite file, `dedup/index.db` in the project's data directory (`.scrapy`), or, without a
`scrapy.cfg`, as under scrapyd, in `.scrapy` of the working directory.

The fields of an item: [What an item needs](items.md#what-an-item-needs). The place of the pipeline
among others: [Priority](items.md#priority).
"""


ENVIRONMENT = """
Some things belong to the machine and not to a crawl. They are environment variables, not settings:

| variable | meaning |
|---|---|
| `DEDUP_CACHE_DIR` | Folder for compiled code and dictionary, by default in `~/.cache`. |
| `DEDUP_COMPILE` | `1`: numba compiles all kernels; `0`: only those that don't come compiled. |
| `DEDUP_SHIP_KERNELS` | `0`: an installation from sources does not compile them. |
"""


def _shown(value: Any) -> str:
    return "`{}`" if value == () else f"`{value!r}`"  # a dict, which the options keep frozen


def _default(field: Any) -> str:
    shown = _shown(field.default)
    return f"a SQLite file; {shown} for `Options()`" if field.name == "index_url" else shown


def render() -> str:
    """The whole page."""
    rows = [
        f"| `{setting_name(field.name)}` | {_default(field)} | {field.metadata['help']} |"
        for field in attrs.fields(Options)
    ]
    return HEAD + "\n".join(rows) + "\n" + ENVIRONMENT + FOOT


if __name__ == "__main__":
    (Path(__file__).parent / "settings.md").write_text(render(), encoding="utf-8")
