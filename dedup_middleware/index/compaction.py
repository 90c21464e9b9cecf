"""Taking records of pages that are gone out of their buckets."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.index.records import (
    NARROW,
    NARROW_RECORD,
    NUMBER_MASK,
    WIDE,
    WIDE_RECORD,
    Satellites,
    State,
)


class Living:
    """Which page numbers up to ``last`` belong to a page that is pending or committed.

    Numbers beyond it were given later; nothing is known of them, so their records are kept.
    """

    def __init__(self, last: int) -> None:
        self._alive = np.zeros(last + 1, np.bool_)

    def add(self, pages: Satellites) -> bool:
        """Take note of pages; True if any of them is alive or beyond the last number."""
        wanted = (pages.states == State.PENDING) | (pages.states == State.COMMITTED)
        known = pages.numbers < np.uint64(len(self._alive))
        self._alive[pages.numbers[known & wanted].astype(np.int64)] = True
        return bool((wanted | ~known).any())

    def keep(self, numbers: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Which of these numbers keep their records."""
        known: NDArray[np.bool_] = numbers < np.uint64(len(self._alive))
        kept: NDArray[np.bool_] = self._alive[np.where(known, numbers, 0).astype(np.int64)]
        return np.logical_or(kept, ~known)


def compacted(bucket: bytes | bytearray, living: Living, *, wide: bool) -> tuple[bytes, int] | None:
    """A bucket without the records of pages that are gone, and without bytes of no record.

    :returns: what is left, and the number of records taken out; None: nothing to do
    """
    width = WIDE if wide else NARROW
    whole = len(bucket) - len(bucket) % width
    if wide:
        records = np.frombuffer(bucket, WIDE_RECORD, count=whole // width)
        numbers = records["number"] & np.uint64(NUMBER_MASK)
    else:
        records = np.frombuffer(bucket, NARROW_RECORD, count=whole // width)
        numbers = records & np.uint64(NUMBER_MASK)
    keep = living.keep(numbers)
    if keep.all() and whole == len(bucket):
        return None
    return records[keep].tobytes(), int(len(keep) - keep.sum())
