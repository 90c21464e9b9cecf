"""The protocol over many masters, in every interleaving of few pages and random ones of more."""

from __future__ import annotations

from functools import cache

import attrs
import pytest

from tests.index.cluster_interleavings import Explored, explore, walk
from tests.index.cluster_model import PROTOCOL, BrokenError, Crawl, Rules
from tests.index.cluster_states import Phase

BOTH = (0, 1)  # the two buckets that all pages share
LIKE_PAIR = Crawl((BOTH,) * 2, (0, 0), (0, 1))
LIKE_THREE = Crawl((BOTH,) * 3, (0, 0, 0), (0, 1))


@cache
def explored(crawl: Crawl) -> Explored:
    """Every interleaving without faults."""
    return explore(crawl, crawl.start())


@pytest.mark.parametrize("order", range(3))
def test_a_pair_of_like_pages_is_stored_once_in_every_interleaving(order: int) -> None:
    """Of two like pages one is stored, in whatever order their messages arrive and their ids
    follow."""
    found = explored(attrs.evolve(LIKE_PAIR, order=order))
    assert found.states > 100
    assert found.ends >= 2


@pytest.mark.parametrize("reads_first", range(2))
def test_deaths_stalls_and_failed_items_of_a_pair(reads_first: int) -> None:
    """Between any two messages clients die and leases lapse: what is left over is settled, whether
    pages read all buckets before they are announced or one."""
    crawl = attrs.evolve(LIKE_PAIR, reads_first=reads_first)
    found = explore(crawl, crawl.start(crashes=2, lapses=2, failures=1))
    assert found.states > 3_000


def test_a_pair_that_reads_different_buckets_first() -> None:
    """Pages whose first reads have no bucket in common meet when they are announced."""
    crawl = Crawl(((0, 1), (1, 0)), (0, 0), (0, 1), reads_first=1)
    found = explore(crawl, crawl.start(crashes=1, lapses=1))
    assert found.states > 1_000


def test_a_sweeper_beside_a_pair() -> None:
    """A sweeper takes no record of a page that is still on its way."""
    assert explored(attrs.evolve(LIKE_PAIR, sweeps=True)).states > 10_000


@pytest.mark.slow
@pytest.mark.parametrize("faults", [{}, {"crashes": 1}, {"failures": 1}], ids=str)
def test_three_like_pages_over_two_shared_buckets(faults: dict[str, int]) -> None:
    """Every interleaving of three like pages, with a death between any two messages."""
    assert explore(LIKE_THREE, LIKE_THREE.start(**faults)).states > 10_000


@pytest.mark.slow
@pytest.mark.parametrize(
    "crawl",
    [
        Crawl(((0, 1), (1, 2), (0, 2)), (0, 0, 0), (0, 1, 2)),
        Crawl((BOTH,) * 3, (0, 0, 1), (0, 1)),
    ],
    ids=["ring", "one is unlike"],
)
def test_three_pages_that_meet_otherwise(crawl: Crawl) -> None:
    """Three pages that share a bucket pair by pair, and three of which some are unlike the
    others."""
    assert explore(crawl, crawl.start()).states > 10_000


@pytest.mark.slow
def test_random_interleavings_of_six_pages() -> None:
    """Six pages over four shards, half of the ways with faults of every kind."""
    lost = 0
    stored = 0
    for seed in range(3_000):
        state = walk(seed)
        lost += state.lost
        stored += sum(client.phase == Phase.STORED for client in state.clients)
    assert lost > 10
    assert stored > 3_000


@cache
def _is_caught(rules: Rules) -> bool:
    """Whether a search that the protocol passes finds a fault in a mutant of it."""
    for crawl in (LIKE_PAIR, attrs.evolve(LIKE_PAIR, sweeps=True)):
        try:
            explored(attrs.evolve(crawl, rules=rules))
        except BrokenError:
            return True
    return False


@pytest.mark.parametrize("rule", [field.name for field in attrs.fields(Rules)])
def test_no_rule_can_be_left_out(rule: str) -> None:
    """A protocol without one of its rules breaks a promise for two like pages already."""
    assert not _is_caught(PROTOCOL)
    assert _is_caught(attrs.evolve(PROTOCOL, **{rule: False}))


@pytest.mark.parametrize(
    "rule", ["checks_what_stood_before", "smaller_stands", "creates_by_compare"]
)
def test_random_interleavings_find_the_same_faults(rule: str) -> None:
    """The random search finds them too: a few hundred walks are enough."""
    rules = attrs.evolve(PROTOCOL, **{rule: False})
    assert _any_breaks(rules)
    assert not _any_breaks(PROTOCOL)


@cache
def _any_breaks(rules: Rules) -> bool:
    return any(_breaks(seed, rules) for seed in range(0, 2_000, 2))


def _breaks(seed: int, rules: Rules) -> bool:
    try:
        walk(seed, rules)
    except BrokenError:
        return True
    return False
