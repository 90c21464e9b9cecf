"""Bulk loading of stored pages, in steps short enough not to delay concurrent crawls.

A bucket of a large index gets few records from each page, but many from a million of them. So all
pages of a block are entered together, each bucket once:

1. their rows, as RELEASED: the pages are not visible yet;
2. their records, bucket after bucket;
3. their rows as COMMITTED, which makes the pages visible.

A crash before the third step leaves released pages, which compaction removes like all others.
While a load is under way, compaction must not take its records for those of pages that are gone:
the index holds the first page number of each load under a lease, and compaction leaves that number
and all above it alone.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable

import attrs
import numpy as np
from numpy.typing import NDArray

from dedup_middleware.errors import IndexUnavailableError
from dedup_middleware.index.pages import Pages, Records, records_of

BLOCK = 250_000  # pages: what all of them take in memory is about 1 KB each
LEASE = 300.0  # seconds from one step of a load to the next


@attrs.define
class Pace:
    """How much goes into one step.

    :param size: into the first one
    :param seconds: that a step should take; 0: the size stays
    """

    size: int
    seconds: float = 0.0
    lowest: int = 500
    highest: int = 50_000

    def took(self, seconds: float) -> None:
        """Choose the next size by how long a step has taken."""
        if self.seconds:
            wanted = int(self.size * min(2.0, self.seconds / max(seconds, 1e-6)))
            self.size = max(self.lowest, min(self.highest, wanted))


class Steps(ABC):
    """The steps of loading one block; each of them is atomic, and each extends the lease.

    :raises IndexUnavailableError: the index can't be reached, or the lease has run out
    """

    pages: Pace
    buckets: Pace

    @abstractmethod
    async def enter(self, pages: Pages) -> NDArray[np.uint64]:
        """Enter the rows of pages as RELEASED; returns their numbers."""

    @abstractmethod
    async def add(self, records: Records) -> None:
        """Add records to their buckets."""

    @abstractmethod
    async def commit(self, numbers: NDArray[np.uint64], times: NDArray[np.uint32]) -> None:
        """Make pages COMMITTED, at the times given (0: now)."""

    @abstractmethod
    async def end(self) -> None:
        """Give back the lease."""


async def load(pages: Pages, begin: Callable[[], Steps]) -> int:
    """Load pages block by block; see :meth:`.Index.load`."""
    for start in range(0, len(pages), BLOCK):
        await _load_block(pages.part(start, start + BLOCK), begin())
    return len(pages)


async def _load_block(pages: Pages, steps: Steps) -> None:
    numbers = np.empty(len(pages), np.uint64)
    at = 0
    while at < len(pages):
        began, size = time.perf_counter(), steps.pages.size
        numbers[at : at + size] = await steps.enter(pages.part(at, at + size))
        steps.pages.took(time.perf_counter() - began)
        at += size
    for records in records_of(pages, numbers):
        at = 0
        while at < len(records):
            began, size = time.perf_counter(), steps.buckets.size
            await steps.add(records.part(at, at + size))
            steps.buckets.took(time.perf_counter() - began)
            at += size
    at = 0
    while at < len(pages):
        began, size = time.perf_counter(), steps.pages.size
        await steps.commit(numbers[at : at + size], pages.times[at : at + size])
        steps.pages.took(time.perf_counter() - began)
        at += size
    await steps.end()


def lapsed(where: str) -> IndexUnavailableError:
    """The error for a load that has lost its lease."""
    return IndexUnavailableError(
        f"loading pages into {where} was interrupted for more than {LEASE:.0f} seconds, or took "
        "longer than half of DEDUP_WINDOW: the pages that were not entered yet must be loaded again"
    )
