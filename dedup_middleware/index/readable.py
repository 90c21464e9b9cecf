"""What can be read of an index: enough to sample, to look up and to verify it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence

import attrs
import numpy as np
from numpy.typing import NDArray

from dedup_middleware.model.buckets import BucketKey
from dedup_middleware.model.records import PageRecords


@attrs.frozen(kw_only=True)
class IndexStats:
    """State of an index at one moment.

    ``committed``, ``pending`` and ``released`` are numbers of pages (a pending page whose lease
    has run out counts as released), ``buckets`` the number of buckets that hold a record,
    ``bytes`` the memory or the disk the index takes (an estimate from samples on Redis),
    ``corrupt`` the page records this process found damaged, ``overflow`` the records left out
    because their bucket was full.
    """

    committed: int
    pending: int
    released: int
    buckets: int
    bytes: int
    corrupt: int
    overflow: int
    parameters: Mapping[str, str]


class ReadableIndex(ABC):
    """The operations of an index that change nothing."""

    @abstractmethod
    async def read_buckets(self, bucket_keys: Sequence[BucketKey]) -> list[bytes]:
        """What each bucket holds, in all live generations, the oldest first.

        For checks and maintenance, and where a page has more candidates than one reply holds; no
        claim depends on it.
        """

    @abstractmethod
    async def fetch(self, page_ids: NDArray[np.uint64]) -> PageRecords:
        """PageRecords of pages; one that does not exist has state FREE."""

    @abstractmethod
    async def addresses(self, page_ids: Sequence[int]) -> list[str | None]:
        """Addresses of pages, None where none is kept."""

    @abstractmethod
    async def fetch_with_payloads(
        self, page_ids: NDArray[np.uint64]
    ) -> tuple[PageRecords, list[bytes]]:
        """Page records and payloads of pages, b"" where there is none.

        Record and payload of a page are read at one moment: a server that comes back in an older
        state gives the same page id to another page, and the payload of one must never be judged
        with the state of the other.
        """

    async def payloads(self, page_ids: Sequence[int]) -> list[bytes]:
        """Payloads of pages, b"" where there is none."""
        return (await self.fetch_with_payloads(np.array(page_ids, np.uint64)))[1]

    @abstractmethod
    async def count(self) -> int:
        """Number of committed pages."""

    @abstractmethod
    def pages(self) -> AsyncIterator[PageRecords]:
        """All pages by ascending page id, many at a time; ids that are FREE are left out."""

    @abstractmethod
    def buckets(self) -> AsyncIterator[tuple[int, bytes]]:
        """All buckets that hold a record, ascending, each once.

        Other processes may write meanwhile: records written before the walk are included, records
        added during it may or may not be.

        :returns: the bucket (``table << 16 | prefix``) and its bytes of all live generations,
            the oldest first
        """

    @abstractmethod
    async def page_ids(self) -> range:
        """Page ids that may exist: none below, none beyond."""

    @abstractmethod
    async def stats(self) -> IndexStats:
        """State of the index: pages, buckets, bytes, parameters."""
