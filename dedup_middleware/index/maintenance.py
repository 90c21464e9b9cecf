"""What maintenance of all back ends shares: compaction of buckets, and samples of pages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs
import numpy as np
from numpy.typing import NDArray

from dedup_middleware.index.base import Index
from dedup_middleware.model.records import (
    BAND_RECORD,
    SIMHASH_RECORD,
    PageRecords,
    State,
    chosen,
    joined,
    page_ids_of,
)


class Living:
    """Which page ids up to ``last`` belong to a page that is pending or committed.

    Higher ids were assigned later; their state is not known, so their records are kept.
    """

    def __init__(self, last: int) -> None:
        self._alive = np.zeros(last + 1, np.bool_)

    def add(self, pages: PageRecords) -> bool:
        """Add pages; True if any of them is alive or beyond the last page id."""
        wanted = (pages.states == State.PENDING) | (pages.states == State.COMMITTED)
        known = pages.page_ids < np.uint64(len(self._alive))
        self._alive[pages.page_ids[known & wanted].astype(np.int64)] = True
        return bool((wanted | ~known).any())

    def without(self, page_ids: Iterable[int]) -> list[int]:
        """Those of some page ids whose pages are gone."""
        every = np.fromiter(page_ids, np.uint64)
        gone: list[int] = every[~self.keep(every)].tolist()
        return gone

    def keep(self, page_ids: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Which of these page ids keep their records."""
        known: NDArray[np.bool_] = page_ids < np.uint64(len(self._alive))
        kept: NDArray[np.bool_] = self._alive[np.where(known, page_ids, 0).astype(np.int64)]
        return np.logical_or(kept, ~known)


@attrs.frozen(eq=False)
class Compacted:
    """Buckets that change, column by column.

    ``positions``: of the buckets among those given; ``data``: what is left of each; ``removed``:
    number of records taken out of each.
    """

    positions: list[int]
    data: list[bytes]
    removed: list[int]

    def __len__(self) -> int:
        return len(self.positions)


def compacted(
    buckets: Sequence[bytes | bytearray], living: Living, *, of_simhashes: bool
) -> Compacted:
    """Buckets without the records of pages that are gone, and without bytes of no record.

    :param buckets: as many as memory allows; all are looked at together
    :param of_simhashes: whether they are of a SimHash table
    :returns: the changed ones
    """
    width = SIMHASH_RECORD if of_simhashes else BAND_RECORD
    lengths = np.fromiter(map(len, buckets), np.int64, len(buckets))
    counts = lengths // width
    torn = lengths % width != 0
    if torn.any():
        whole = (lengths - lengths % width).tolist()
        raw = b"".join([data[:end] for data, end in zip(buckets, whole, strict=True)])
    else:
        raw = b"".join(buckets)
    keep = living.keep(page_ids_of(raw, width))
    # Records kept before each bucket, and behind the last one.
    kept = np.concatenate([[0], np.cumsum(keep)])[np.concatenate([[0], np.cumsum(counts)])]
    removed = counts - np.diff(kept)
    changed = np.flatnonzero((removed > 0) | torn)
    if not len(changed):
        return Compacted([], [], [])
    left = np.frombuffer(raw, np.uint8).reshape(-1, width)[keep].tobytes()
    starts, ends = (width * kept[changed]).tolist(), (width * kept[changed + 1]).tolist()
    data = [left[start:end] for start, end in zip(starts, ends, strict=True)]
    return Compacted(changed.tolist(), data, removed[changed].tolist())


_DRAWN = 1_000  # page ids read at once
_RARE = 0.05  # share of page ids that belong to committed pages, below which all are read


async def sample(index: Index, count: int, seed: int = 0) -> PageRecords:
    """Committed pages drawn at random, all with the same chance, none twice.

    A small share of a large index is drawn by page id, without reading the rest.

    :param count: how many; all, if there are no more
    :param seed: the same one draws the same pages from an index that has not changed
    :returns: the pages by ascending page id
    :raises ValueError: a negative number of pages
    """
    if count < 0:
        raise ValueError(f"count is {count}: ask for 0 pages or more")
    page_ids = await index.page_ids()
    random = np.random.default_rng(seed)
    # Drawing more than a quarter by page id would read nearly every page, many of them twice.
    if 4 * count < len(page_ids):
        drawn = await _drawn(index, count, page_ids, random)
        if drawn is not None:
            return drawn
    return await _of_all(index, count, random)


async def _drawn(
    index: Index, count: int, page_ids: range, random: np.random.Generator
) -> PageRecords | None:
    """Pages by random ids; None: too few of the ids belong to committed pages."""
    parts: list[PageRecords] = []
    seen = np.empty(0, np.uint64)
    hits = 0
    while hits < count:
        asked = random.integers(page_ids.start, page_ids.stop, _DRAWN, np.uint64)
        # The first of equal ones counts, so that the order of drawing decides who is cut off.
        asked = asked[np.sort(np.unique(asked, return_index=True)[1])]
        asked = asked[~np.isin(asked, seen)]
        seen = np.concatenate([seen, asked])
        found = await index.fetch(asked)
        found = chosen(found, found.states == State.COMMITTED)
        parts.append(found)
        hits += len(found)
        if hits < count and (hits < _RARE * len(seen) or 2 * len(seen) > len(page_ids)):
            return None
    drawn = joined(parts)
    return chosen(drawn, np.argsort(drawn.page_ids[:count], kind="stable"))


async def _of_all(index: Index, count: int, random: np.random.Generator) -> PageRecords:
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
