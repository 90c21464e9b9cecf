"""Compaction of buckets, which all back ends share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs
import numpy as np
from numpy.typing import NDArray

from dedup_middleware.model.records import (
    BAND_RECORD,
    SIMHASH_RECORD,
    PageRecords,
    State,
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
