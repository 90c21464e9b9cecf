"""Looking up and drawing pages: what works alike on every index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from dedup_middleware.index.records import Satellites, State, chosen, joined
from dedup_middleware.index.tables import KEY_TABLE, Slot, narrow_slot

if TYPE_CHECKING:
    from dedup_middleware.index.base import Index

_DRAWN = 1_000  # numbers asked for at once
_RARE = 0.05  # share of numbers that belong to committed pages, below which all are read


async def lookup(index: Index, key_hash: int) -> tuple[int, ...]:
    """Numbers of the committed pages with a key; see :meth:`.Index.lookup`."""
    from dedup_middleware.index.scan import neighbours  # numba stays lazy

    slot = narrow_slot(KEY_TABLE, key_hash)
    near = neighbours([slot], await index.read_buckets([slot]), 0)
    found = await index.fetch(near.numbers)
    same = (found.states == State.COMMITTED) & (found.content["key"] == np.uint64(key_hash))
    return tuple(found.numbers[same].tolist())


async def newest_if_enterable(
    index: Index, number: int, slots: Sequence[Slot], buckets: Sequence[bytes]
) -> int | None:
    """The newest page in some buckets, if a page may be entered anew; see :meth:`.Index.refresh`.

    :param slots: places of the page, that of its key first
    :param buckets: what their buckets hold
    :returns: a page id; None: the page is not committed, or a page with its key is pending
    """
    from dedup_middleware.index.scan import neighbours  # numba stays lazy

    near = neighbours(slots[:1], buckets[:1], 0)
    found = await index.fetch(np.append(near.numbers, np.uint64(number)))
    same = found.content["key"] == found.content["key"][-1]
    pending = bool(np.any(same & (found.states == State.PENDING)))
    if found.states[-1] != State.COMMITTED or pending:
        return None
    every = neighbours(slots, buckets, 0).numbers
    return max(number, int(every[-1]) if len(every) else 0)


async def sample(index: Index, count: int, seed: int) -> Satellites:
    """Committed pages drawn at random; see :meth:`.Index.sample`.

    :raises ValueError: a negative number of pages
    """
    if count < 0:
        raise ValueError(f"count is {count}: ask for 0 pages or more")
    numbers = await index.numbers()
    random = np.random.default_rng(seed)
    # Drawing more than a quarter by number would ask for nearly every page, many of them twice.
    if 4 * count < len(numbers):
        drawn = await _drawn(index, count, numbers, random)
        if drawn is not None:
            return drawn
    return await _of_all(index, count, random)


async def _drawn(
    index: Index, count: int, numbers: range, random: np.random.Generator
) -> Satellites | None:
    """Pages by random numbers; None: too few of the numbers belong to committed pages."""
    parts: list[Satellites] = []
    seen = np.empty(0, np.uint64)
    hits = 0
    while hits < count:
        asked = random.integers(numbers.start, numbers.stop, _DRAWN, np.uint64)
        # The first of equal ones counts, so that the order of drawing decides who is cut off.
        asked = asked[np.sort(np.unique(asked, return_index=True)[1])]
        asked = asked[~np.isin(asked, seen)]
        seen = np.concatenate([seen, asked])
        found = await index.fetch(asked)
        found = chosen(found, found.states == State.COMMITTED)
        parts.append(found)
        hits += len(found)
        if hits < count and (hits < _RARE * len(seen) or 2 * len(seen) > len(numbers)):
            return None
    return _sorted(joined(parts), count)


async def _of_all(index: Index, count: int, random: np.random.Generator) -> Satellites:
    """Pages with the smallest of random marks, in one walk over all of them."""
    best, marks = joined([]), np.empty(0)
    async for pages in index.pages():
        found = chosen(pages, pages.states == State.COMMITTED)
        best = joined([best, found])
        marks = np.concatenate([marks, random.random(len(found))])
        if len(best) > 2 * count:
            kept = np.isin(np.arange(len(best)), np.argsort(marks, kind="stable")[:count])
            best, marks = chosen(best, kept), marks[kept]
    kept = np.isin(np.arange(len(best)), np.argsort(marks, kind="stable")[:count])
    return chosen(best, kept)


def _sorted(pages: Satellites, count: int) -> Satellites:
    """The first pages, by ascending number."""
    order = np.argsort(pages.numbers[:count], kind="stable")
    return Satellites(
        pages.numbers[order], pages.content[order], pages.states[order], pages.times[order]
    )
