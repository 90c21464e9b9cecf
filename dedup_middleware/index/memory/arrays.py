"""The buckets of one generation in a single growing array (see :mod:`.bucket_kernels`)."""

from __future__ import annotations

import contextlib
import mmap
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.index.memory import bucket_kernels as kernels
from dedup_middleware.index.memory.bucket_kernels import (
    BYTES,
    COUNT,
    COUNT_BITS,
    END,
    FILLED,
    FIRST,
    FOUND,
    HEADS,
    LEFT_OUT,
    LENGTH,
    LENGTH_SHIFT,
    MOST,
    NEEDS_GROWTH,
    SLACK,
    START_SHIFT,
)
from dedup_middleware.model.buckets import BUCKET_LIMIT, Neighbours

_TABLE = 1 << 16  # buckets of a table
_FIRST_TABLES = 16
_FIRST_WORDS = 1 << 14
_STEPS = 32  # parts in which buckets are copied when the array grows
_HUGE = 1 << 21  # bytes of a huge page
_NOTHING_YET = -1  # value of ``count`` that makes a kernel clear the results of the previous page

Ids = tuple[int, NDArray[np.uint64]]  # page ids: all up to the number, and those listed, ascending
NO_IDS: Ids = (0, np.empty(0, np.uint64))


class Hits:
    """Buffer of the candidates of one page, found in the buckets of all generations."""

    __slots__ = ("count", "found", "has_counts", "scanned")

    def __init__(self) -> None:
        self.found = np.zeros(FOUND, np.uint64)
        self.count = _NOTHING_YET
        self.has_counts = False  # whether any counter after the candidates is above 0
        self.scanned = 0  # SimHash records that a proposal has compared

    def begin(self) -> None:
        """Discard the candidates of the previous page."""
        self.count = _NOTHING_YET

    @property
    def is_cut(self) -> bool:
        """Whether there are more candidates than MOST, so that some are missing."""
        return self.count > MOST

    @property
    def left_out(self) -> int:
        """Number of the page's records that were not written to full buckets."""
        return int(self.found[LEFT_OUT]) if self.has_counts else 0

    def neighbours(self) -> Neighbours:
        """A copy of the candidates."""
        count = min(self.count, MOST)
        full, corrupt = self.found[2 * MOST : 2 * MOST + 2].tolist()
        page_ids, tables = self.found[:count], self.found[MOST : MOST + count]
        return Neighbours(page_ids.copy(), tables.copy(), corrupt, full)


class Buckets:
    """Buckets by number (``table << 16 | prefix``), as byte strings that grow in place.

    An empty bucket costs 8 bytes, another one 32 or more, up to a quarter above its length. When a
    bucket moves to grow, its words are reused by the next bucket that needs the same capacity.

    >>> buckets = Buckets()
    >>> buckets.put(0x20001, b"elevenbytes")
    >>> buckets.get(0x20001), len(buckets), buckets.nbytes, buckets.names()
    (b'elevenbytes', 1, 11, [131073])
    """

    __slots__ = ("_memory", "_raw", "_store")

    def __init__(self) -> None:
        self._use(_Memory(_FIRST_TABLES * _TABLE, _FIRST_WORDS))

    def __len__(self) -> int:
        """Number of non-empty buckets."""
        return int(self._store[FILLED])

    @property
    def nbytes(self) -> int:
        """Total bytes of all records, without unused capacity."""
        return int(self._store[BYTES])

    def names(self) -> list[int]:
        """The non-empty buckets, ascending."""
        heads = self._store[int(FIRST) : int(FIRST + self._store[HEADS])]
        names: list[int] = np.flatnonzero(heads >> LENGTH_SHIFT & LENGTH).tolist()
        return names

    def get(self, bucket: int) -> bytes:
        """The bytes of a bucket."""
        if bucket >= self._store[HEADS]:
            return b""
        head = int(self._store[int(FIRST) + bucket])
        start = head >> int(START_SHIFT) << 3
        return self._raw[start : start + (head >> int(LENGTH_SHIFT) & int(LENGTH))].tobytes()

    def put(self, bucket: int, data: bytes) -> None:
        """Replace the bytes of a bucket by ``data``."""
        self.extend([bucket], b"", [0, 0], 1)  # ensures that the bucket has a head
        head = int(FIRST) + bucket
        length = int(self._store[head]) >> int(LENGTH_SHIFT) & int(LENGTH)
        self._store[BYTES] -= np.uint64(length)
        self._store[FILLED] -= np.uint64(length > 0)
        self._store[head] &= ~(LENGTH << LENGTH_SHIFT)
        self.extend([bucket], data, [0, len(data)], 1)

    def extend(self, buckets: list[int], data: bytes, cuts: list[int], width: int) -> int:
        """Append records to many buckets, up to BUCKET_LIMIT bytes each.

        :param cuts: the records of bucket i are ``data[cuts[i]:cuts[i + 1]]``
        :param width: bytes of a record
        :returns: number of records left out
        """
        names, ends = np.array(buckets, np.uint64), np.array(cuts, np.int64)
        raw = np.frombuffer(data, np.uint8)
        counts = np.zeros(2, np.uint64)  # buckets done, records left out
        while not kernels.extend(self._store, self._raw, names, ends, raw, width, counts):
            self._grow(buckets[int(counts[0])], 1)
        return int(counts[1])

    def look(self, words: NDArray[np.uint64], distance: int, known: Ids, hits: Hits) -> None:
        """Add the candidates of a page in this generation to ``hits``.

        :param words: uint64[2 n], bucket and suffix of each bucket key
        :param distance: largest Hamming distance of SimHashes, 0..64
        :param known: pages to ignore
        :param hits: the candidates from other generations so far
        """
        upto, ids = known
        hits.count = kernels.look(self._store, words, distance, ids, upto, hits.found, hits.count)

    def propose(
        self,
        words: NDArray[np.uint64],
        places: int,
        distance: int,
        page_id: int,
        known: Ids,
        hits: Hits,
    ) -> bool:
        """Add the candidates of a page to ``hits`` and, unless one blocks it, write its records.

        :param words: as in :meth:`look`
        :param places: how many of the bucket keys, the first ones, get a record
        :returns: whether the records were written
        """
        upto, ids = known
        # A kernel that returns NEEDS_GROWTH has changed nothing.
        while True:
            result: int = kernels.propose(
                self._store, self._raw, words, places, distance, page_id, ids, upto,
                hits.found, hits.count,
            )  # fmt: skip
            if result != NEEDS_GROWTH:
                hits.count = result >> 2 & COUNT
                hits.scanned = result >> 2 + COUNT_BITS
                hits.has_counts = result & 2 != 0
                return not result & 1
            self._grow(int(words[::2].max()), len(words) // 2)

    def _grow(self, bucket: int, places: int) -> None:
        """Copy all buckets to an array 1.5 times as large, with room for ``places`` more full ones.
        Copied parts are returned to the system, so both arrays take little more memory than one."""
        heads = max(int(self._store[HEADS]), (bucket // _TABLE + 1) * _TABLE)
        words = int(kernels.capacities(self._store))
        capacity = words + words // 2 + places * (BUCKET_LIMIT >> 3) + _FIRST_WORDS
        larger = _Memory(heads, capacity)
        stopped: BaseException | None = None
        while self._memory is not larger:
            try:
                self._move(larger)
            except BaseException as error:
                # Copied parts are gone from the old array, so finish even after interrupts.
                if stopped is not None and not isinstance(error, KeyboardInterrupt):
                    raise
                stopped = error
        if stopped is not None:
            raise stopped

    def _move(self, larger: _Memory) -> None:
        first = int(FIRST + self._store[HEADS])  # keep the heads: they are read until the end
        bounds = np.linspace(first, int(self._store[END]), _STEPS + 1).astype(np.uint64)
        for begin, end in pairwise(bounds):
            kernels.lay_out(self._store, larger.words, begin, end)
            # From the first word on, so that a huge page shared by two parts is released as well.
            self._memory.release(first, int(end))
        larger.words[BYTES], larger.words[FILLED] = self._store[BYTES], self._store[FILLED]
        self._use(larger)

    def _use(self, memory: _Memory) -> None:
        raw = memory.words.view(np.uint8)
        self._memory, self._store, self._raw = memory, memory.words, raw


class _Memory:
    """An anonymous memory map as uint64 array; words never written take no physical memory."""

    __slots__ = ("_map", "words")

    def __init__(self, heads: int, words: int) -> None:
        size = int(FIRST) + heads + words + SLACK
        self._map = mmap.mmap(-1, 8 * size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if 8 * size >= 2 * _HUGE and hasattr(mmap, "MADV_HUGEPAGE"):
            with contextlib.suppress(OSError):  # a kernel without huge pages
                self._map.madvise(mmap.MADV_HUGEPAGE)  # as NumPy does for its own arrays
        self.words = np.frombuffer(self._map, np.uint64)
        self.words[END] = int(FIRST) + heads
        self.words[HEADS] = heads

    def release(self, first: int, end: int) -> None:
        """Return the memory of words that are not read again to the system."""
        start, stop = -(-8 * first // _HUGE) * _HUGE, 8 * end // _HUGE * _HUGE
        if start < stop:
            self._map.madvise(mmap.MADV_DONTNEED, start, stop - start)
