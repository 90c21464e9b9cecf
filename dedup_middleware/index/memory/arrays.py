"""All buckets of one generation in one array, which grows (see :mod:`.bucket_kernels`)."""

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
_STEPS = 32  # in which buckets are laid out anew
_HUGE = 1 << 21  # bytes of a huge page
_NOTHING_YET = -1  # candidates, where what a former page has left must be cleared

Ids = tuple[int, NDArray[np.uint64]]  # pages up to an id, and further ones, ascending
NO_IDS: Ids = (0, np.empty(0, np.uint64))


class Look:
    """What one page met in the buckets of all generations."""

    __slots__ = ("count", "found", "has_counts", "scanned")

    def __init__(self) -> None:
        self.found = np.zeros(FOUND, np.uint64)
        self.count = _NOTHING_YET
        self.has_counts = False  # whether any of the counts of a proposal is above 0
        self.scanned = 0  # SimHash records that a proposal has compared

    def begin(self) -> None:
        """Forget what the page before has met."""
        self.count = _NOTHING_YET

    @property
    def is_cut(self) -> bool:
        """Whether there are more candidates than MOST."""
        return self.count > MOST

    @property
    def left_out(self) -> int:
        """Records of the page that full buckets did not take."""
        return int(self.found[LEFT_OUT]) if self.has_counts else 0

    def neighbours(self) -> Neighbours:
        """The candidates."""
        count = min(self.count, MOST)
        full, corrupt = self.found[2 * MOST : 2 * MOST + 2].tolist()
        page_ids, tables = self.found[:count], self.found[MOST : MOST + count]
        return Neighbours(page_ids.copy(), tables.copy(), corrupt, full)


class Buckets:
    """Buckets by their number (``table << 16 | prefix``), as byte strings that grow in place.

    An empty bucket costs 8 bytes, one with records 32 and more: up to a quarter more than its own
    length. Words that a bucket leaves when it grows are for the next one that needs as many.

    >>> buckets = Buckets()
    >>> buckets.put(0x20001, b"elevenbytes")
    >>> buckets.get(0x20001), len(buckets), buckets.nbytes, buckets.names()
    (b'elevenbytes', 1, 11, [131073])
    """

    __slots__ = ("_memory", "_raw", "_store")

    def __init__(self) -> None:
        self._use(_Memory(_FIRST_TABLES * _TABLE, _FIRST_WORDS))

    def __len__(self) -> int:
        """Buckets that hold anything."""
        return int(self._store[FILLED])

    @property
    def nbytes(self) -> int:
        """Bytes of all buckets."""
        return int(self._store[BYTES])

    def names(self) -> list[int]:
        """Buckets that hold anything, ascending."""
        heads = self._store[int(FIRST) : int(FIRST + self._store[HEADS])]
        names: list[int] = np.flatnonzero(heads >> LENGTH_SHIFT & LENGTH).tolist()
        return names

    def get(self, bucket: int) -> bytes:
        """What a bucket holds."""
        if bucket >= self._store[HEADS]:
            return b""
        head = int(self._store[int(FIRST) + bucket])
        start = head >> int(START_SHIFT) << 3
        return self._raw[start : start + (head >> int(LENGTH_SHIFT) & int(LENGTH))].tobytes()

    def put(self, bucket: int, data: bytes) -> None:
        """Let a bucket hold ``data``, and nothing else."""
        self.extend([bucket], b"", [0, 0], 1)  # there is a head
        head = int(FIRST) + bucket
        length = int(self._store[head]) >> int(LENGTH_SHIFT) & int(LENGTH)
        self._store[BYTES] -= np.uint64(length)
        self._store[FILLED] -= np.uint64(length > 0)
        self._store[head] &= ~(LENGTH << LENGTH_SHIFT)
        self.extend([bucket], data, [0, len(data)], 1)

    def extend(self, buckets: list[int], data: bytes, cuts: list[int], width: int) -> int:
        """Add records behind those of many buckets, as far as their capacity allows.

        :param cuts: the records of bucket i are ``data[cuts[i]:cuts[i + 1]]``
        :param width: bytes of a record
        :returns: records left out
        """
        names, ends = np.array(buckets, np.uint64), np.array(cuts, np.int64)
        raw = np.frombuffer(data, np.uint8)
        counts = np.zeros(2, np.uint64)  # buckets done, records left out
        while not kernels.extend(self._store, self._raw, names, ends, raw, width, counts):
            self._grow(buckets[int(counts[0])], 1)
        return int(counts[1])

    def look(self, words: NDArray[np.uint64], distance: int, known: Ids, look: Look) -> None:
        """Gather the candidates of a page.

        :param words: uint64[2 n], of each place its bucket and its head
        :param distance: largest Hamming distance of SimHashes, 0..64
        :param known: pages to pass over
        :param look: what other generations hold, if any; what is found is added
        """
        upto, ids = known
        look.count = kernels.look(self._store, words, distance, ids, upto, look.found, look.count)

    def propose(
        self,
        words: NDArray[np.uint64],
        places: int,
        distance: int,
        page_id: int,
        known: Ids,
        look: Look,
    ) -> bool:
        """Gather the candidates of a page; unless one blocks it, enter the page.

        :param places: of these so many get a record, the first ones
        :param page_id: of the page
        :returns: whether the page is entered
        """
        upto, ids = known
        # A kernel that needs growth has changed nothing.
        while True:
            result: int = kernels.propose(
                self._store, self._raw, words, places, distance, page_id, ids, upto,
                look.found, look.count,
            )  # fmt: skip
            if result != NEEDS_GROWTH:
                look.count = result >> 2 & COUNT
                look.scanned = result >> 2 + COUNT_BITS
                look.has_counts = result & 2 != 0
                return not result & 1
            self._grow(int(words[::2].max()), len(words) // 2)

    def _grow(self, bucket: int, places: int) -> None:
        """Lay out all buckets anew, with half as much capacity again, and more for full buckets.

        In parts by where they lie in memory, so that what was read is given back meanwhile: both
        arrays together take little more than one.
        """
        heads = max(int(self._store[HEADS]), (bucket // _TABLE + 1) * _TABLE)
        words = int(kernels.capacities(self._store))
        capacity = words + words // 2 + places * (BUCKET_LIMIT >> 3) + _FIRST_WORDS
        larger = _Memory(heads, capacity)
        stopped: BaseException | None = None
        while self._memory is not larger:
            try:
                self._move(larger)
            except BaseException as error:
                # What has moved is gone here, so the rest must follow, after each interrupt.
                if stopped is not None and not isinstance(error, KeyboardInterrupt):
                    raise
                stopped = error
        if stopped is not None:
            raise stopped

    def _move(self, larger: _Memory) -> None:
        first = int(FIRST + self._store[HEADS])  # the heads are read until the end
        bounds = np.linspace(first, int(self._store[END]), _STEPS + 1).astype(np.uint64)
        for begin, end in pairwise(bounds):
            kernels.lay_out(self._store, larger.words, begin, end)
            # From the first word on: a huge page in which two parts meet goes with the second.
            self._memory.release(first, int(end))
        larger.words[BYTES], larger.words[FILLED] = self._store[BYTES], self._store[FILLED]
        self._use(larger)

    def _use(self, memory: _Memory) -> None:
        raw = memory.words.view(np.uint8)
        self._memory, self._store, self._raw = memory, memory.words, raw


class _Memory:
    """An array for buckets; what was never written to costs nothing but addresses."""

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
        """Give words back, which are not read again."""
        start, stop = -(-8 * first // _HUGE) * _HUGE, 8 * end // _HUGE * _HUGE
        if start < stop:
            self._map.madvise(mmap.MADV_DONTNEED, start, stop - start)
