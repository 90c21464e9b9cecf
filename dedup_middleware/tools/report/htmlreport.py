"""The report from Python: what ``scrapy dedup report`` writes, of a journal that is open."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dedup_middleware.base.options import Options
from dedup_middleware.journal.access import Filters, Journal, query_of
from dedup_middleware.journal.base import JournalStore
from dedup_middleware.journal.entries import Query
from dedup_middleware.methods.choose import choose_method
from dedup_middleware.tools.report.contents import Limits, Other, collect, line_of
from dedup_middleware.tools.report.page import render, write

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Report:
    """What was dropped and why, read from a journal when it is made.

    :param journal: it is read once and may be closed afterwards
    :param options: those of the crawl: the report shows its method and threshold
    :param against: a journal to compare with
    :param decisions: newest decisions that are shown
    :param texts: bytes of UTF-8 of all texts together
    :param filters: which decisions, as for :class:`.Journal`
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
            raise ValueError(
                f"decisions={decisions} and texts={texts} can't be used: give 1 or more decisions "
                "and 0 or more bytes of texts"
            )
        other = None if against is None else against.open()
        self.contents: dict[str, Any] = contents_of(
            journal.open(),
            options or Options(),
            query_of(filters, frozenset()),
            limits=Limits(decisions, texts),
            other=None if other is None else Other(other, other.where),
        )

    @property
    def decisions(self) -> int:
        """Number of decisions that the report shows."""
        return len(self.contents["pages"]["key"])

    def html(self) -> str:
        """The report as one HTML page."""
        return render(self.contents)

    def write(self, path: str | Path) -> int:
        """Write the report; a file of that name is replaced whole or not at all.

        :returns: its bytes
        :raises ReportError: the file can't be written
        """
        return write(self.contents, Path(path))


def contents_of(
    journal: JournalStore,
    options: Options,
    query: Query,
    *,
    limits: Limits,
    other: Other | None = None,
    chosen: Mapping[str, str] | None = None,
    given: Mapping[str, str] | None = None,
    progress: Callable[[float], None] | None = None,
) -> dict[str, Any]:
    """What a report shows of a journal under the settings of a crawl.

    :param chosen: filters, as the reader of the report sees them
    :param given, progress: as for :func:`.collect`
    :raises JournalError: a journal can't be read
    """
    method = choose_method(options)
    return collect(
        journal,
        query=query,
        threshold=method.threshold,
        about={
            "DEDUP_JOURNAL": journal.where,
            "DEDUP_NAMESPACE": options.namespace,
            "DEDUP_METHOD": options.method,
            "DEDUP_THRESHOLD": f"{method.threshold:g}",
            **(chosen or {}),
        },
        now=time.time(),
        limits=limits,
        line=line_of(method),
        other=other,
        given=given,
        progress=progress,
    )
