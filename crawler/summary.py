"""Prints tables at the end of a crawl: pages seen, stored, dropped and skipped, and why."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import attrs
from scrapy import signals

from crawler.arguments import BAD_ARGUMENT
from crawler.frontier import EXPLANATIONS, Skip
from dedup_middleware.base.writing import discard_output

if TYPE_CHECKING:
    from rich.console import Console
    from scrapy.crawler import Crawler
    from scrapy.statscollectors import StatsCollector
    from typing_extensions import Self

# Most dropped pages listed; others are only counted.
MAX_ROWS = 200
# Most columns of a printed address; longer ones are cut in the middle.
MAX_ADDRESS = 300


@attrs.frozen
class DroppedPage:
    """A page dropped because of the page ``match``; similarity from 0 to 1."""

    reason: str
    key: str
    match: str | None
    similarity: float | None


@attrs.define
class Tally:
    """Counts for the table, updated during the crawl; memory is bounded."""

    stored: int = 0
    failed: int = 0
    dropped: Counter[str] = attrs.field(factory=Counter)
    skipped: dict[str, int] = attrs.field(factory=dict)
    rows: list[DroppedPage] = attrs.field(factory=list)
    more_rows: int = 0

    @property
    def seen(self) -> int:
        """Number of article pages passed to the pipelines."""
        return self.stored + self.failed + self.dropped.total()

    def drop(self, page: DroppedPage, *, listed: bool) -> None:
        """Count a dropped page and, if ``listed``, keep it as a row."""
        self.dropped[page.reason] += 1
        if listed and len(self.rows) < MAX_ROWS:
            self.rows.append(page)
        elif listed:
            self.more_rows += 1


class Summary:
    """Extension that prints the table to standard output after the crawl."""

    def __init__(self, stats: StatsCollector) -> None:
        self.tally = Tally()
        self._stats = stats
        self._reason = ""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Connect the signals."""
        summary = cls(crawler.stats)
        connect = crawler.signals.connect
        connect(summary.item_scraped, signals.item_scraped)
        connect(summary.item_dropped, signals.item_dropped)
        connect(summary.item_error, signals.item_error)
        connect(summary.spider_closed, signals.spider_closed)
        # The last signal, so the table follows all log lines.
        connect(summary.engine_stopped, signals.engine_stopped)
        return summary

    def item_scraped(self) -> None:
        """Count an item that passed every pipeline, storage included."""
        self.tally.stored += 1

    def item_error(self) -> None:
        """Count an item on which a pipeline failed."""
        self.tally.failed += 1

    def item_dropped(self, exception: BaseException) -> None:
        """Count an item that the plugin or another pipeline dropped."""
        page, is_revisit = dropped_page(exception)
        # An unchanged page matches itself, so a row would add nothing.
        self.tally.drop(page, listed=not is_revisit)

    def spider_closed(self, reason: str) -> None:
        """Remember why the crawl ended."""
        self._reason = reason

    def engine_stopped(self) -> None:
        """Print the table, unless an argument was refused."""
        if self._reason == BAD_ARGUMENT:
            return
        from rich.console import Console  # not needed during the crawl

        prefix = "news/skipped/"
        self.tally.skipped = {
            name.removeprefix(prefix): count
            for name, count in self._stats.get_stats().items()
            if name.startswith(prefix) and count
        }
        try:
            print_summary(self.tally, Console(highlight=False))
        except (SystemExit, OSError):  # its reader has ended: rich would end the process
            discard_output()


def dropped_page(exception: BaseException) -> tuple[DroppedPage, bool]:
    """Return the dropped page described by a ``DropItem``, and whether it is a revisit.

    The plugin's exception is read by its attributes; for any other the class is the reason.
    """
    verdict = getattr(exception, "verdict", None)
    key = str(getattr(exception, "key", ""))
    if verdict is None:
        return DroppedPage(type(exception).__name__, key or str(exception), None, None), False
    match = verdict.match
    page = DroppedPage(
        reason=str(verdict.reason),
        key=key,
        # An index without addresses names pages by id.
        match=None if match is None else str(match.key or f"page {match.number}"),
        similarity=None if match is None else float(match.similarity),
    )
    return page, str(verdict.outcome) == "revisit"


def print_summary(tally: Tally, console: Console) -> None:
    """Print the tables, at most 80 columns wide."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    console.print()
    if tally.rows:
        pages = Table(
            title="Dropped pages",
            box=box.SIMPLE_HEAD,
            title_justify="left",
            pad_edge=False,
            padding=(0, 2, 0, 0),
        )
        # Two lines per page: two addresses do not fit side by side into 80 columns.
        pages.add_column("Why\nsimilar", justify="right", no_wrap=True)
        pages.add_column("dropped page\nstored page it matches", overflow="fold")
        for row in tally.rows:
            why, addresses = Text(printable(row.reason)), Text(printable(row.key))
            if row.match is not None:
                similar = "" if row.similarity is None else percent(row.similarity)
                why.append(f"\n{similar}", style="dim")
                addresses.append(f"\n{printable(row.match)}", style="dim")
            pages.add_row(why, addresses)
        console.print(pages)
        if tally.more_rows:
            console.print(f"... and {tally.more_rows} more dropped pages\n")
    totals = Table(title="Crawl", box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False)
    totals.add_column("Article pages")
    totals.add_column("Count", justify="right")
    for name, count in totals_of(tally):
        totals.add_row(Text(name), str(count), style="bold" if name == "stored" else None)
    if tally.skipped:
        totals.add_section()
        totals.add_row(Text("Other addresses, skipped", style="bold"), "")
        for reason, count in sorted(tally.skipped.items(), key=lambda pair: (-pair[1], pair[0])):
            totals.add_row(Text(f"{reason}: {_explanation(reason)}"), str(count))
    console.print(totals)


def totals_of(tally: Tally) -> list[tuple[str, int]]:
    """Return lines for article pages: seen, stored, dropped by reason, failed."""
    lines = [("seen", tally.seen), ("stored", tally.stored)]
    lines += [
        (f"dropped, {printable(reason)}", count) for reason, count in tally.dropped.most_common()
    ]
    if tally.failed:
        lines.append(("failed in a pipeline, see the log", tally.failed))
    return lines


def percent(similarity: float) -> str:
    """Format a share in per cent; only equal pages get 100 %.

    >>> percent(0.9996), percent(1.0), percent(0.83)
    ('99.9 %', '100 %', '83.0 %')
    """
    if similarity >= 1:
        return "100 %"
    return f"{min(similarity, 0.999):.1%}".replace("%", " %")


def printable(text: str) -> str:
    """Return text that can't control the terminal, cut in the middle if long.

    >>> printable("https://a.example/\\x1b[31m")
    'https://a.example/?[31m'
    """
    if len(text) > MAX_ADDRESS:
        half = MAX_ADDRESS // 2
        text = f"{text[:half]}...{text[-half:]}"
    return "".join(char if char.isprintable() else "?" for char in text)


def _explanation(reason: str) -> str:
    try:
        return EXPLANATIONS[Skip(reason)]
    except ValueError:
        return "see the log"
