"""The table at the end of a crawl."""

from __future__ import annotations

import errno
import sys
from collections import Counter
from io import StringIO
from types import SimpleNamespace

import pytest
from rich.console import Console
from scrapy.exceptions import DropItem
from scrapy.utils.test import get_crawler

from crawler.summary import (
    MAX_ADDRESS,
    MAX_ROWS,
    DroppedPage,
    Summary,
    Tally,
    dropped_page,
    percent,
    print_summary,
    printable,
)
from dedup_middleware import NearDuplicate
from dedup_middleware.model.documents import Match, Verdict


def duplicate(key: str, similarity: float = 0.957) -> DroppedPage:
    """A dropped page."""
    return DroppedPage("near-duplicate", key, "https://daily.example/original", similarity)


def printed(tally: Tally) -> str:
    """The table in a terminal of 80 columns."""
    output = StringIO()
    print_summary(tally, Console(file=output, width=80, highlight=False))
    return output.getvalue()


def test_the_table_tells_what_happened() -> None:
    """Seen, stored, dropped by reason, skipped by reason, and the pair with its similarity."""
    tally = Tally(stored=7, failed=1, skipped={"offsite": 12, "robots": 3})
    tally.drop(duplicate("https://copies.example/a"), listed=True)
    tally.drop(DroppedPage("unchanged", "https://daily.example/b", None, None), listed=False)
    lines = [line.split() for line in printed(tally).splitlines()]
    assert ["near-duplicate", "https://copies.example/a"] in lines
    assert ["95.7", "%", "https://daily.example/original"] in lines
    assert ["seen", "10"] in lines
    assert ["stored", "7"] in lines
    assert ["dropped,", "near-duplicate", "1"] in lines
    assert ["dropped,", "unchanged", "1"] in lines
    assert ["failed", "in", "a", "pipeline,", "see", "the", "log", "1"] in lines
    assert ["offsite:", "on", "another", "site", "12"] in lines
    assert "https://daily.example/b" not in printed(tally)


def test_it_fits_80_columns_and_loses_no_address() -> None:
    """Long addresses are folded, not cut."""
    tally = Tally()
    address = "https://copies.example/2024/05/06/" + "-".join(f"word{i}" for i in range(20))
    tally.drop(duplicate(address), listed=True)
    lines = printed(tally).splitlines()
    assert max(map(len, lines)) <= 80
    # The first column holds the reason and, below it, the similarity.
    assert address in "".join(line.split()[-1] for line in lines if line.split())


def test_rows_are_capped_and_the_rest_counted() -> None:
    """Beyond the cap only a number is kept, in the table and in memory."""
    tally = Tally()
    for i in range(MAX_ROWS + 37):
        tally.drop(duplicate(f"https://copies.example/{i}"), listed=True)
    text = printed(tally)
    assert len(tally.rows) == MAX_ROWS
    assert text.count("https://copies.example/") == MAX_ROWS
    assert "and 37 more dropped pages" in text
    assert f"dropped, near-duplicate {MAX_ROWS + 37}" in " ".join(text.split())


def test_an_empty_crawl_has_a_table() -> None:
    """Nothing seen is said so."""
    assert "seen" in printed(Tally())


def test_text_of_others_cannot_steer_the_terminal() -> None:
    """Control characters and rich's markup in an address are shown, not obeyed."""
    tally = Tally(dropped=Counter())
    tally.drop(duplicate("https://evil.example/\x1b[2J\r[bold]x[/bold][/]"), listed=True)
    text = printed(tally)
    assert "\x1b" not in text
    assert "?[2J?[bold]x[/bold][/]" in text
    assert len(printable("x" * 10_000)) <= MAX_ADDRESS + 3


@pytest.mark.parametrize(
    ("similarity", "shown"), [(1.0, "100 %"), (0.99999, "99.9 %"), (0.8, "80.0 %"), (0.0, "0.0 %")]
)
def test_only_whole_containment_is_100_per_cent(similarity: float, shown: str) -> None:
    """Rounding never makes pages more alike than they are."""
    assert percent(similarity) == shown


def test_the_plugins_exception_is_read() -> None:
    """Reason, key, match and similarity come from the verdict of the real exception."""
    verdict = Verdict(
        key="https://copies.example/a",
        outcome="duplicate",
        reason="near-duplicate",
        match=Match(
            key="https://daily.example/original",
            number=1,
            similarity=0.957,
            jaccard=0.9,
            distance=2,
        ),
    )
    page, is_revisit = dropped_page(NearDuplicate(verdict))
    assert page == duplicate("https://copies.example/a")
    assert not is_revisit


def test_revisits_are_told_apart() -> None:
    """An unchanged page is counted and has no row: it matches itself."""
    verdict = SimpleNamespace(reason="unchanged", outcome="revisit", match=None)
    error = DropItem("x")
    error.verdict = verdict  # type: ignore[attr-defined]
    assert dropped_page(error) == (DroppedPage("unchanged", "", None, None), True)


def test_other_drops_count_by_their_class() -> None:
    """Another pipeline that drops items appears under its exception."""
    page, is_revisit = dropped_page(DropItem("no title"))
    assert (page.reason, page.key, is_revisit) == ("DropItem", "no title", False)


class Closed(StringIO):
    """Standard output whose reader has ended."""

    def write(self, _text: str) -> int:
        """Refuse."""
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")


def test_a_reader_that_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with `| head`: the handler of Scrapy's signal returns, or its engine would never stop."""
    monkeypatch.setattr(sys, "stdout", Closed())
    summary = Summary(get_crawler().stats)
    summary.engine_stopped()
