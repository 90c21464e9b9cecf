"""Which addresses are asked for, and how the others are counted."""

from __future__ import annotations

from collections import Counter

from crawler.discovery import Sites
from crawler.frontier import Frontier, Skip

HOME = "https://daily.example/"


def frontier_of(counts: Counter[Skip], depth: int | None = None) -> Frontier:
    """A frontier of one site that counts into ``counts``."""

    def count(reason: Skip, change: int) -> None:
        counts[reason] += change

    return Frontier(Sites.of([HOME]), depth, count)


def test_an_address_is_admitted_once() -> None:
    """Other forms of the same address are not asked for again, and not counted."""
    counts: Counter[Skip] = Counter()
    frontier = frontier_of(counts)
    assert frontier.admit(HOME + "x?a=1&b=2", 1)
    assert not frontier.admit(HOME + "x?b=2&a=1", 1)
    assert not counts


def test_refusals_are_counted_once_by_reason() -> None:
    """Every address that is left out counts once, however often it is linked."""
    counts: Counter[Skip] = Counter()
    frontier = frontier_of(counts, depth=1)
    for _ in range(3):
        assert not frontier.admit("https://other.example/", 1)
        assert not frontier.admit(HOME + "photo.jpg", 1)
        assert not frontier.admit(HOME + "ad", 1, nofollow=True)
        assert not frontier.admit(HOME + "deep", 2)
    assert counts == {Skip.OFFSITE: 1, Skip.NOT_HTML: 1, Skip.NOFOLLOW: 1, Skip.DEPTH: 1}


def test_a_shorter_way_takes_the_refusal_back() -> None:
    """An address that was too deep is requested when a nearer page links to it."""
    counts: Counter[Skip] = Counter()
    frontier = frontier_of(counts, depth=1)
    assert not frontier.admit(HOME + "x", 2)
    assert frontier.admit(HOME + "x", 1)
    assert counts[Skip.DEPTH] == 0


def test_a_full_crawl_leaves_out_the_rest() -> None:
    """At the limit, what was not fetched and what is found later is counted; what was is not."""
    counts: Counter[Skip] = Counter()
    frontier = frontier_of(counts)
    for name in ("read", "failed", "waiting"):
        assert frontier.admit(HOME + name, 1)
    frontier.done(HOME + "read")
    frontier.leave_out(HOME + "failed", Skip.ERROR)
    frontier.fill()
    assert not frontier.admit(HOME + "later", 1)
    assert counts == {Skip.ERROR: 1, Skip.PAGES: 2}
