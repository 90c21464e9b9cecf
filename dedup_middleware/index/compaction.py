"""Removing records of pages that are gone from their buckets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs
import numpy as np
from numpy.typing import NDArray

from dedup_middleware.index.records import NARROW, WIDE, Satellites, State, numbers_of


class Living:
    """Which page numbers up to ``last`` belong to a page that is pending or committed.

    Numbers beyond it were given later; nothing is known of them, so their records are kept.
    """

    def __init__(self, last: int) -> None:
        self._alive = np.zeros(last + 1, np.bool_)

    def add(self, pages: Satellites) -> bool:
        """Add pages; True if any of them is alive or beyond the last page id."""
        wanted = (pages.states == State.PENDING) | (pages.states == State.COMMITTED)
        known = pages.numbers < np.uint64(len(self._alive))
        self._alive[pages.numbers[known & wanted].astype(np.int64)] = True
        return bool((wanted | ~known).any())

    def without(self, numbers: Iterable[int]) -> list[int]:
        """Those of some numbers whose pages are gone."""
        every = np.fromiter(numbers, np.uint64)
        gone: list[int] = every[~self.keep(every)].tolist()
        return gone

    def keep(self, numbers: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Which of these numbers keep their records."""
        known: NDArray[np.bool_] = numbers < np.uint64(len(self._alive))
        kept: NDArray[np.bool_] = self._alive[np.where(known, numbers, 0).astype(np.int64)]
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


def compacted(buckets: Sequence[bytes | bytearray], living: Living, *, wide: bool) -> Compacted:
    """Buckets without the records of pages that are gone, and without bytes of no record.

    :param buckets: as many as memory allows; all are looked at together
    :param wide: whether they are of a SimHash table
    :returns: those that change
    """
    width = WIDE if wide else NARROW
    lengths = np.fromiter(map(len, buckets), np.int64, len(buckets))
    counts = lengths // width
    torn = lengths % width != 0
    if torn.any():
        whole = (lengths - lengths % width).tolist()
        raw = b"".join([data[:end] for data, end in zip(buckets, whole, strict=True)])
    else:
        raw = b"".join(buckets)
    keep = living.keep(numbers_of(raw, width))
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
