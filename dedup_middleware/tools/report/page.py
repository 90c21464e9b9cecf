"""One HTML file that needs no network: styles, scripts and data are in it."""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from importlib.resources import files
from pathlib import Path
from typing import Any

from dedup_middleware.base.errors import DedupError
from dedup_middleware.base.newfiles import write_whole

# In the order of the page; each builds on those before it.
SCRIPTS = ("words", "reasons", "memory", "dom", "route", "data", "filters", "difference", "files",
           "charts", "overview", "lists", "restore", "decisions", "explorer", "clusters", "changes",
           "comparison", "pair", "review", "start")  # fmt: skip

_HEAD = b"<!doctype html>"


class ReportError(DedupError):
    """The report can't be written; the message names the file and the reason."""


def render(contents: dict[str, Any]) -> str:
    """The report as HTML.

    The data are compressed, because 100,000 decisions are 30 MB otherwise, and written in base64,
    in which no word of a page can end a script. Texts and other details are apart from what the
    first view needs. Scripts and styles run by their hashes alone, so that even markup that slipped
    in would do nothing.
    """
    script = "\n".join(
        ['"use strict";', "(() => {", *(_asset(f"{name}.js") for name in SCRIPTS), "})();"]
    )
    style = _asset("report.css")
    first = {name: value for name, value in contents.items() if name != "details"}
    values = {
        "policy": f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}",
        "style": style,
        "script": script,
        "data": _packed(first),
        "details": _packed(contents["details"]),
    }
    page = _asset("report.html")
    for name, value in values.items():
        page = page.replace(f"{{{{ {name} }}}}", value, 1)
    return page


def check_replaceable(path: Path) -> None:
    """Refuse to write over something else than a report, such as a feed or the journal.

    :raises ReportError: names the file
    :raises OSError: it can't be read
    """
    if not path.exists():
        return
    if path.is_file():
        with path.open("rb") as file:
            head = file.read(len(_HEAD))
        if not head or head.lower() == _HEAD:
            return
    raise ReportError(f"{path} exists and is no report: name another file by -o")


def write(contents: dict[str, Any], path: Path) -> int:
    """Write the report; an earlier one of that name is replaced whole or not at all.

    :returns: its bytes
    :raises ReportError: the file can't be written, or is no report
    """
    page = render(contents).encode()
    try:
        check_replaceable(path)
        write_whole(path, page)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ReportError(f"{path} can't be written: {reason}; name another file by -o") from None
    return len(page)


def _packed(value: Any) -> str:
    raw = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    packed = zlib.compress(raw.encode("utf-8", "replace"), 6)
    return base64.b64encode(packed).decode("ascii")


def _asset(name: str) -> str:
    return (files(__package__) / "assets" / name).read_text("utf-8").rstrip("\n")


def _hash(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")
    return f"'sha256-{digest}'"
