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

Every setting of the plugin, with its default. They go into `settings.py`, a spider's
`custom_settings`, or behind `-s` on the command line. A value that can't be used, or a misspelt
name, ends the crawl at its start with a message that names the setting and the fix.

`Options` takes the same names in lower case without `DEDUP_`.

| setting | default | meaning |
|---|---|---|
"""

FOOT = """
`DEDUP_INDEX_URL` is `memory:` for `Options()`. In a Scrapy project it is by default a SQLite file,
`dedup/index.db` in the project's data directory (`.scrapy`).

## Item fields

An item needs a text field or an HTML field, and should have a field that names the page. Items may
be dicts, `scrapy.Item`, dataclasses, attrs classes or pydantic models. An item without a key is
named by a hash of its content. A list of strings in the text field is joined.

## Priority

`ADDONS = {"dedup_middleware.Addon": 500}` puts the pipeline at priority 450 of `ITEM_PIPELINES`:
behind the pipelines that clean items, before those that store them. To choose another place, name
it there:

```python
ITEM_PIPELINES = {"dedup_middleware.DedupPipeline": 600}
```
"""


def _shown(value: Any) -> str:
    return f"`{value!r}`"


def render() -> str:
    """The whole page."""
    rows = [
        f"| `{setting_name(field.name)}` | {_shown(field.default)} | {field.metadata['help']} |"
        for field in attrs.fields(Options)
    ]
    return HEAD + "\n".join(rows) + "\n" + FOOT


if __name__ == "__main__":
    (Path(__file__).parent / "settings.md").write_text(render(), encoding="utf-8")
