"""Writes the report of ``scrapy dedup report``: one HTML file that needs no network.

Styles, scripts and data are embedded.
"""

from __future__ import annotations

import base64
import hashlib
import json
import time
import zlib
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

from dedup_middleware.base.errors import DedupError, os_errors
from dedup_middleware.base.options import Options
from dedup_middleware.base.writing import is_replaceable, write_whole
from dedup_middleware.journal.access import Filters, Journal, query_of
from dedup_middleware.journal.entries import JournalStore
from dedup_middleware.methods.choose import choose_method
from dedup_middleware.tools.report.contents import collect, line_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

# In the order of the page; each script depends on those before it.
SCRIPTS = ("words", "reasons", "memory", "dom", "route", "data", "filters", "difference", "files",
           "charts", "overview", "lists", "restore", "decisions", "explorer", "clusters", "changes",
           "comparison", "pair", "review", "start")  # fmt: skip

_HEAD = b"<!doctype html>"


def render(contents: dict[str, Any]) -> str:
    """Render the report as HTML.

    The data are compressed (100,000 decisions are 30 MB otherwise) and written in base64, so no
    text of a page can end a script. Texts and other details are separate from the data of the first
    view. Only scripts and styles with known hashes run, so injected markup has no effect.
    """
    script = "\n".join(
        ['"use strict";', "(() => {", *(_asset(f"{name}.js") for name in SCRIPTS), "})();"]
    )
    style = _asset("report.css")
    first = {name: value for name, value in contents.items() if name != "details"}
    return Template(_asset("report.html")).substitute(
        policy=f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}",
        style=style,
        script=script,
        data=_packed(first),
        details=_packed(contents["details"]),
    )


def write(contents: dict[str, Any], path: Path) -> int:
    """Write the report atomically; an earlier one with this name is replaced.

    :returns: its size in bytes
    :raises DedupError: the file can't be written, or exists and is no report
    """
    page = render(contents).encode()
    with os_errors(f"{path} can't be written", fix="; name another file by -o"):
        if not is_replaceable(path, _HEAD):  # such as a feed or the journal
            raise DedupError(f"{path} exists and is no report: name another file by -o")
        write_whole(path, page)
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


class Report:
    """A report of what was dropped and why, read from a journal when it is created.

    :param journal: read once; may be closed afterwards
    :param options: those of the crawl, for its method and threshold
    :param against: a journal to compare with
    :param decisions: number of decisions shown, the newest
    :param texts: limit for all texts together, in bytes of UTF-8
    :param filters: select decisions, as for :class:`.Journal`
    :raises ValueError: ``decisions`` is below 1, or ``texts`` below 0
    :raises JournalError: a journal can't be read
    """

    def __init__(
        self,
        journal: Journal,
        *,
        options: Options | None = None,
        against: Journal | None = None,
        decisions: int = 200_000,
        texts: int = 24_000_000,
        **filters: Unpack[Filters],
    ) -> None:
        if decisions < 1 or texts < 0:
            fix = "give 1 or more decisions and 0 or more bytes of texts"
            raise ValueError(f"decisions={decisions} and texts={texts} can't be used: {fix}")
        store = journal.open()
        self.contents: dict[str, Any] = collect(
            store,
            query=query_of(filters, frozenset()),
            decisions=decisions,
            text_bytes=texts,
            other=None if against is None else against.open(),
            **settings_of(options or Options(), store),
        )

    @property
    def decisions(self) -> int:
        """Number of decisions shown."""
        return len(self.contents["pages"]["key"])

    def html(self) -> str:
        """The report as one HTML page."""
        return render(self.contents)

    def write(self, path: str | Path) -> int:
        """Write the report, as :func:`write` does."""
        return write(self.contents, Path(path))


def settings_of(
    options: Options, journal: JournalStore, chosen: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return arguments of :func:`.collect` from the settings: threshold, line, names and time."""
    method = choose_method(options)
    about = {
        "DEDUP_JOURNAL": journal.where,
        "DEDUP_NAMESPACE": options.namespace,
        "DEDUP_METHOD": options.method,
        "DEDUP_THRESHOLD": f"{method.threshold:g}",
        **(chosen or {}),
    }
    line, now = line_of(method), time.time()
    return {"threshold": method.threshold, "line": line, "about": about, "now": now}
