"""All buckets of one generation in one array, looked through and written by kernels.

A page is compared with some dozen buckets at unpredictable addresses. Reading them is bound by the
latency of memory, so all of them are prefetched before the first one is read.
"""

from __future__ import annotations

import contextlib
import mmap
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base import kerneltypes as types
from dedup_middleware.base.jit import compile_all, kernel, subkernel
from dedup_middleware.base.kerneltypes import R8, R64, RI64, U8, U64
from dedup_middleware.model.buckets import (
    ANCHOR_TABLES,
    BUCKET_LIMIT,
    COMMON_ANCHOR,
    FULL_BUCKET,
    SIMHASH_TABLES,
)
from dedup_middleware.model.records import BAND_RECORD, PAGE_ID_BITS, PAGE_ID_MASK, SIMHASH_RECORD
from dedup_middleware.signature._vector import load_word, prefetch, trailing_zeros
from dedup_middleware.signature.hamming import RECORDS, nearest_records

MOST = 256  # candidates of one page that a look can return
NEEDS_GROWTH = -1  # what a kernel returns where the array is full
_TABLE = 1 << 16  # buckets of a table
_FIRST_TABLES = 16
_FIRST_WORDS = 1 << 14
_SLACK = 8  # words behind the last bucket
_STEPS = 16  # in which buckets are laid out anew
_HUGE = 1 << 21  # bytes of a huge page

# The array begins with four numbers. Then there is a head for each bucket: where its words begin,
# its length in bytes (21 bits), and its capacity in words, as a power of two.
_END = np.uint64(0)  # the first word that no bucket has
_BYTES = np.uint64(1)
_FILLED = np.uint64(2)  # buckets that hold anything
_HEADS = np.uint64(3)
_FIRST = np.uint64(8)  # the first head: on a cache line
_START_SHIFT = np.uint64(27)
_LENGTH_SHIFT = np.uint64(6)
_LENGTH = np.uint64((1 << 21) - 1)
_CAPACITY = np.uint64(63)
_LEAST_CAPACITY = np.uint64(2)

_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_TWO = np.uint64(2)
_THREE = np.uint64(3)
_SEVEN = np.uint64(7)
_EIGHT = np.uint64(8)
_LOW8 = np.uint64(0xFF)
_S16 = np.uint64(16)
_S63 = np.uint64(63)
_MASK = np.uint64(PAGE_ID_MASK)
_SHIFT = np.uint64(PAGE_ID_BITS)
_PAGE_ID = np.uint64(PAGE_ID_BITS // 8)
_BAND, _SIMHASH = np.uint64(BAND_RECORD), np.uint64(SIMHASH_RECORD)
_LIMIT, _FULL = np.uint64(BUCKET_LIMIT), np.uint64(FULL_BUCKET)
_FIRST_SIMHASH, _LAST_SIMHASH = np.uint64(SIMHASH_TABLES[0]), np.uint64(SIMHASH_TABLES[-1])
_FIRST_ANCHOR, _LAST_ANCHOR = np.uint64(ANCHOR_TABLES[0]), np.uint64(ANCHOR_TABLES[-1])
_MOST = np.uint64(MOST)
# Behind the candidates, as ids and as tables, a look leaves these.
_FULL_MET = np.uint64(2 * MOST)  # full buckets
_CORRUPT = np.uint64(2 * MOST + 1)  # bytes behind the last whole record
_BLOCKED = np.uint64(2 * MOST + 2)  # whether an unknown page was met in a table of band records
_LEFT_OUT = np.uint64(2 * MOST + 3)  # records that a full bucket did not take
_SCANNED = np.uint64(2 * MOST + 4)  # SimHash records compared
_FOUND = 2 * MOST + 5
_COUNT_BITS = 10  # of a reply: candidates, one more than MOST at the most
_COUNT = (1 << _COUNT_BITS) - 1
_NOTHING_YET = -1  # candidates, where what a former page has left must be cleared


Ids = tuple[int, NDArray[np.uint64]]  # pages up to an id, and further ones, ascending
NO_IDS: Ids = (0, np.empty(0, np.uint64))


class Look:
    """What one page met in the buckets of all generations."""

    __slots__ = ("count", "found", "has_counts", "scanned")

    def __init__(self) -> None:
        self.found = np.zeros(_FOUND, np.uint64)
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
    def page_ids(self) -> NDArray[np.uint64]:
        """Ids of the candidates, ascending."""
        page_ids: NDArray[np.uint64] = self.found[: min(self.count, MOST)].copy()
        return page_ids

    @property
    def tables(self) -> NDArray[np.uint64]:
        """The tables in which each was found, as bit masks."""
        tables: NDArray[np.uint64] = self.found[MOST : MOST + min(self.count, MOST)].copy()
        return tables

    def counts(self) -> tuple[int, int, int]:
        """Full buckets that the page met, bytes in its buckets behind the last whole record, and
        records of the page that full buckets did not take."""
        full, corrupt, _, left_out, _ = self.found[2 * MOST :].tolist()
        return full, corrupt, left_out


class Buckets:
    """Buckets by their number (``table << 16 | prefix``), as byte strings that grow in place.

    An empty bucket costs 8 bytes, one with records 32 and more: up to twice its own length.

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
        return int(self._store[_FILLED])

    @property
    def nbytes(self) -> int:
        """Bytes of all buckets."""
        return int(self._store[_BYTES])

    def names(self) -> list[int]:
        """Buckets that hold anything, ascending."""
        names: list[int] = self._filled().tolist()
        return names

    def _filled(self) -> NDArray[np.int64]:
        heads = self._store[int(_FIRST) : int(_FIRST + self._store[_HEADS])]
        return np.flatnonzero(heads >> _LENGTH_SHIFT & _LENGTH)

    def get(self, bucket: int) -> bytes:
        """What a bucket holds."""
        if bucket >= self._store[_HEADS]:
            return b""
        head = int(self._store[int(_FIRST) + bucket])
        start = head >> int(_START_SHIFT) << 3
        return self._raw[start : start + (head >> int(_LENGTH_SHIFT) & int(_LENGTH))].tobytes()

    def put(self, bucket: int, data: bytes) -> None:
        """Let a bucket hold ``data``, and nothing else."""
        self.extend([bucket], b"", [0, 0], 1)  # there is a head
        head = int(_FIRST) + bucket
        length = int(self._store[head]) >> int(_LENGTH_SHIFT) & int(_LENGTH)
        self._store[_BYTES] -= np.uint64(length)
        self._store[_FILLED] -= np.uint64(length > 0)
        self._store[head] &= ~(_LENGTH << _LENGTH_SHIFT)
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
        while not _extend(self._store, self._raw, names, ends, raw, width, counts):
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
        look.count = _look(self._store, words, distance, ids, upto, look.found, look.count)

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
            result: int = _propose(
                self._store,
                self._raw,
                words,
                places,
                distance,
                page_id,
                ids,
                upto,
                look.found,
                look.count,
            )
            if result != NEEDS_GROWTH:
                look.count = result >> 2 & _COUNT
                look.scanned = result >> 2 + _COUNT_BITS
                look.has_counts = result & 2 != 0
                return not result & 1
            self._grow(int(words[::2].max()), len(words) // 2)

    def _grow(self, bucket: int, places: int) -> None:
        """Lay out all buckets anew, with half as much capacity again, and more for full buckets.

        In the order in which they lie in memory, so that what was read is given back meanwhile:
        both arrays together take little more than one.
        """
        heads = max(int(self._store[_HEADS]), (bucket // _TABLE + 1) * _TABLE)
        words = int(_capacities(self._store))
        room = words + words // 2 + places * (BUCKET_LIMIT >> 3) + _FIRST_WORDS
        larger = _Memory(heads, room)
        order = self._in_memory_order()
        released = int(_FIRST + self._store[_HEADS])  # the heads are read until the end
        for part in np.array_split(order, _STEPS):
            if len(part):
                _lay_out(self._store, larger.words, part)
                last = int(self._store[_FIRST + part[-1]] >> _START_SHIFT)
                self._memory.release(released, last)
                released = last
        larger.words[_BYTES], larger.words[_FILLED] = self._store[_BYTES], self._store[_FILLED]
        self._use(larger)

    def _in_memory_order(self) -> NDArray[np.uint64]:
        """Buckets that hold anything, by where they begin."""
        filled = self._filled()
        starts = self._store[int(_FIRST) + filled] >> _START_SHIFT
        return filled[np.argsort(starts)].astype(np.uint64)

    def _use(self, memory: _Memory) -> None:
        self._memory = memory
        self._store = memory.words
        self._raw = memory.words.view(np.uint8)


class _Memory:
    """An array for buckets; what was never written to costs nothing but addresses."""

    __slots__ = ("_map", "words")

    def __init__(self, heads: int, words: int) -> None:
        size = int(_FIRST) + heads + words + _SLACK
        self._map = None
        if hasattr(mmap, "MAP_PRIVATE"):
            self._map = mmap.mmap(-1, 8 * size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            if 8 * size >= 2 * _HUGE and hasattr(mmap, "MADV_HUGEPAGE"):
                with contextlib.suppress(OSError):  # a kernel without huge pages
                    self._map.madvise(mmap.MADV_HUGEPAGE)  # as NumPy does for its own arrays
            self.words = np.frombuffer(self._map, np.uint64)
        else:
            self.words = np.zeros(size, np.uint64)
        self.words[_END] = int(_FIRST) + heads
        self.words[_HEADS] = heads

    def release(self, first: int, end: int) -> None:
        """Give words back, which are not read again, where the system can do so."""
        start, stop = -(-8 * first // _HUGE) * _HUGE, 8 * end // _HUGE * _HUGE
        if self._map is not None and start < stop and hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED, start, stop - start)


@subkernel
def _capacity_for(length: Any) -> Any:
    """Power of two of the words that hold so many bytes."""
    capacity = _LEAST_CAPACITY
    while _EIGHT << capacity < length:
        capacity += _ONE
    return capacity


@subkernel
def _has_capacity(head: Any, length: Any) -> Any:
    return head != _ZERO and length <= _EIGHT << (head & _CAPACITY)


@subkernel
def _moved(store: Any, bucket: Any, length: Any) -> Any:
    """The head of a bucket after it has moved to where ``length`` bytes fit."""
    head = store[_FIRST + bucket]
    capacity, start, end = _capacity_for(length), head >> _START_SHIFT, store[_END]
    for i in range((((head >> _LENGTH_SHIFT) & _LENGTH) + _SEVEN) >> _THREE):
        store[end + np.uint64(i)] = store[start + np.uint64(i)]
    store[_END] = end + (_ONE << capacity)
    return end << _START_SHIFT | head & _LENGTH << _LENGTH_SHIFT | capacity


@subkernel
def _width(bucket: Any) -> Any:
    table = bucket >> _S16
    return _SIMHASH if _FIRST_SIMHASH <= table <= _LAST_SIMHASH else _BAND


@subkernel
def _note(found: Any, count: Any, page_id: Any, table: Any) -> Any:
    """Take note of a neighbour among those found; how many there are then."""
    at = count
    while at > _ZERO and found[at - _ONE] >= page_id:
        at -= _ONE
    bit = _ONE << table
    if at < count and found[at] == page_id:
        found[_MOST + at] |= bit
        return count
    if count == _MOST:
        return count + _ONE
    for i in range(count, at, -1):
        found[np.uint64(i)] = found[np.uint64(i) - _ONE]
        found[_MOST + np.uint64(i)] = found[_MOST + np.uint64(i) - _ONE]
    found[at] = page_id
    found[_MOST + at] = bit
    return count + _ONE


@subkernel
def _room_is_left(store: Any, words: Any, places: Any) -> Any:
    """Whether the records of a page fit, each in a bucket of its own."""
    heads = store[_HEADS]
    end = store[_END]
    for i in range(np.uint64(places)):
        bucket = words[_TWO * i]
        if bucket >= heads:
            return False
        head = store[_FIRST + bucket]
        length = (head >> _LENGTH_SHIFT & _LENGTH) + _width(bucket)
        if length <= _LIMIT and not _has_capacity(head, length):
            end += _ONE << _capacity_for(length)
    return end + np.uint64(_SLACK) <= np.uint64(store.size)


@subkernel
def _is_common(store: Any, bucket: Any, suffix: Any) -> Any:
    """Whether so many pages have this suffix in the bucket of an anchor that it is ignored."""
    if not _FIRST_ANCHOR <= bucket >> _S16 <= _LAST_ANCHOR:
        return False
    head, pages = store[_FIRST + bucket], 0
    at = head >> _START_SHIFT
    for i in range((head >> _LENGTH_SHIFT & _LENGTH) >> _THREE):
        pages += np.int64(store[at + i] >> _SHIFT == suffix)
    return pages >= COMMON_ANCHOR


@subkernel
def _write(store: Any, raw: Any, words: Any, places: Any, page_id: Any) -> Any:
    """Write the records of a page; how many were left out."""
    out = 0
    for i in range(np.uint64(places)):
        bucket, suffix = words[_TWO * i], words[_TWO * i + _ONE]
        if _is_common(store, bucket, suffix):
            continue
        width = _width(bucket)
        head = store[_FIRST + bucket]
        length = head >> _LENGTH_SHIFT & _LENGTH
        is_new = length == _ZERO
        odd = length % width
        if odd != _ZERO:  # no record behind it could be read
            length -= odd
            head -= odd << _LENGTH_SHIFT
            store[_FIRST + bucket] = head
            store[_BYTES] -= odd
        if length + width > _LIMIT:
            out += 1
            continue
        if not _has_capacity(head, length + width):
            capacity = _ONE << _capacity_for(length + width)
            if store[_END] + capacity + np.uint64(_SLACK) > np.uint64(store.size):
                out += 1  # places that share a bucket may need more than was reserved
                continue
            head = _moved(store, bucket, length + width)
        store[_FILLED] += np.uint64(is_new)
        byte = ((head >> _START_SHIFT) << _THREE) + length
        if width == _BAND and byte & _SEVEN == _ZERO:
            store[byte >> _THREE] = suffix << _SHIFT | page_id
        else:
            for j in range(_PAGE_ID):
                raw[byte + j] = np.uint8((page_id >> (_EIGHT * j)) & _LOW8)
            for j in range(width - _PAGE_ID):
                raw[byte + _PAGE_ID + j] = np.uint8((suffix >> (_EIGHT * j)) & _LOW8)
        store[_FIRST + bucket] = head + (width << _LENGTH_SHIFT)
        store[_BYTES] += width
    return out


@subkernel
def _ask_for(store: Any, words: Any) -> Any:
    """Let all buckets of a page come from memory at once. False: the array has no head for one."""
    bucket_keys = np.uint64(words.size) >> _ONE
    for i in range(bucket_keys):
        if words[_TWO * i] >= store[_HEADS]:
            return False
        prefetch(store, _FIRST + words[_TWO * i])
    for i in range(bucket_keys):
        prefetch(store, store[_FIRST + words[_TWO * i]] >> _START_SHIFT)
    return True


@subkernel
def _is_known(known: Any, upto: Any, page_id: Any) -> Any:
    if page_id <= upto:
        return True
    at, beyond = 0, known.size
    while at < beyond:
        middle = (at + beyond) >> 1
        if known[middle] < page_id:
            at = middle + 1
        else:
            beyond = middle
    return at < known.size and known[at] == page_id


@subkernel
def _equal(
    store: Any,
    at: Any,
    length: Any,
    suffix: Any,
    table: Any,
    known: Any,
    upto: Any,
    found: Any,
    count: Any,
) -> Any:
    """Add the pages with this suffix in a band, key or exact bucket."""
    for i in range(length >> _THREE):
        word = store[at + i]
        if word >> _SHIFT == suffix and not _is_known(known, upto, word & _MASK):
            found[_BLOCKED] = _ONE
            if count <= _MOST:
                count = _note(found, count, word & _MASK, table)
    return count


@subkernel
def _near(
    store: Any,
    at: Any,
    length: Any,
    suffix: Any,
    table: Any,
    distance: Any,
    known: Any,
    upto: Any,
    found: Any,
    count: Any,
) -> Any:
    """Take note of the pages within a distance in a SimHash bucket."""
    byte, left = at << _THREE, length // _SIMHASH
    found[_SCANNED] += left
    while left > _ZERO and count <= _MOST:
        near = nearest_records(store, byte, left, suffix, distance)
        while near != _ZERO and count <= _MOST:
            page_id = load_word(store, byte + trailing_zeros(near) * _SIMHASH) & _MASK
            near &= near - _ONE
            if not _is_known(known, upto, page_id):
                count = _note(found, count, page_id, table)
        byte += RECORDS
        left -= min(left, _EIGHT)
    return count


@subkernel
def _scan(
    store: Any, words: Any, distance: Any, known: Any, upto: Any, found: Any, count: Any
) -> Any:
    """Take note of all candidates in the buckets of a page; how many there are then."""
    for i in range(np.uint64(words.size) >> _ONE):
        bucket, suffix = words[_TWO * i], words[_TWO * i + _ONE]
        if bucket >= store[_HEADS]:
            continue
        head = store[_FIRST + bucket]
        at, length, table = head >> _START_SHIFT, head >> _LENGTH_SHIFT & _LENGTH, bucket >> _S16
        found[_FULL_MET] += np.uint64(length > _FULL)
        found[_CORRUPT] += length % _width(bucket)
        if _is_common(store, bucket, suffix):
            continue
        if _width(bucket) == _BAND:
            count = _equal(store, at, length, suffix, table, known, upto, found, count)
        else:
            count = _near(store, at, length, suffix, table, distance, known, upto, found, count)
    return count


@subkernel
def _begun(found: Any, count: Any) -> Any:
    """How many candidates there are before a look."""
    if count >= 0:
        return np.uint64(count)
    for place in range(_FULL_MET, np.uint64(found.size)):
        found[place] = _ZERO
    return _ZERO


@kernel(types.int64(R64, R64, types.uint64, R64, types.uint64, U64, types.int64))
def _look(
    store: Any, words: Any, distance: Any, known: Any, upto: Any, found: Any, count: Any
) -> Any:
    _ask_for(store, words)
    return np.int64(_scan(store, words, distance, known, upto, found, _begun(found, count)))


@kernel(
    types.int64(
        U64,
        U8,
        R64,
        types.int64,
        types.uint64,
        types.uint64,
        R64,
        types.uint64,
        U64,
        types.int64,
    )
)
def _propose(
    store: Any,
    raw: Any,
    words: Any,
    places: Any,
    distance: Any,
    page_id: Any,
    known: Any,
    upto: Any,
    found: Any,
    count: Any,
) -> Any:
    if not _ask_for(store, words) or not _room_is_left(store, words, places):
        return NEEDS_GROWTH
    met = _scan(store, words, distance, known, upto, found, _begun(found, count))
    if found[_BLOCKED] == _ZERO:
        found[_LEFT_OUT] = np.uint64(_write(store, raw, words, places, page_id))
    notable = found[_FULL_MET] | found[_CORRUPT] | found[_LEFT_OUT]
    result = np.int64(found[_SCANNED]) << _COUNT_BITS | np.int64(met)
    return result << 2 | np.int64(notable > _ZERO) << 1 | np.int64(found[_BLOCKED])


@kernel(types.boolean(U64, U8, R64, RI64, R8, types.uint64, U64))
def _extend(store: Any, raw: Any, names: Any, cuts: Any, data: Any, width: Any, counts: Any) -> Any:
    """Add records until the array is full; whether all are in."""
    for i in range(counts[0], np.uint64(names.size)):
        bucket = names[i]
        counts[0] = i
        if bucket >= store[_HEADS]:
            return False
        start, size = np.uint64(cuts[i]), np.uint64(cuts[i + _ONE] - cuts[i])
        head = store[_FIRST + bucket]
        length = head >> _LENGTH_SHIFT & _LENGTH
        is_new = length == _ZERO
        odd = length % width if size > _ZERO else _ZERO
        if odd != _ZERO:  # no record behind it could be read
            length -= odd
            head -= odd << _LENGTH_SHIFT
            store[_FIRST + bucket] = head
            store[_BYTES] -= odd
        fits = size
        if length + size > _LIMIT:
            fits = (_LIMIT - min(_LIMIT, length)) // width * width
        if fits > _ZERO:
            if not _has_capacity(head, length + fits):
                capacity = _ONE << _capacity_for(length + fits)
                if store[_END] + capacity + np.uint64(_SLACK) > np.uint64(store.size):
                    return False
                head = _moved(store, bucket, length + fits)
            byte = ((head >> _START_SHIFT) << _THREE) + length
            for j in range(fits):
                raw[byte + j] = data[start + j]
            store[_FIRST + bucket] = head + (fits << _LENGTH_SHIFT)
            store[_BYTES] += fits
            store[_FILLED] += np.uint64(is_new)
        counts[1] += (size - fits) // width
    counts[0] = np.uint64(names.size)
    return True


@kernel(types.uint64(R64))
def _capacities(store: Any) -> Any:
    """Words of all buckets when each has the least capacity that holds it."""
    words = _ZERO
    for bucket in range(store[_HEADS]):
        length = store[_FIRST + bucket] >> _LENGTH_SHIFT & _LENGTH
        if length > _ZERO:
            words += _ONE << _capacity_for(length)
    return words


@kernel(types.void(R64, U64, R64))
def _lay_out(store: Any, larger: Any, buckets: Any) -> None:
    """Copy buckets behind those that are in the larger array by now."""
    end = larger[_END]
    for bucket in buckets:
        head = store[_FIRST + bucket]
        length = head >> _LENGTH_SHIFT & _LENGTH
        capacity, start = _capacity_for(length), head >> _START_SHIFT
        for i in range((length + _SEVEN) >> _THREE):
            larger[end + np.uint64(i)] = store[start + np.uint64(i)]
        larger[_FIRST + bucket] = end << _START_SHIFT | length << _LENGTH_SHIFT | capacity
        end += _ONE << capacity
    larger[_END] = end


def warm() -> None:
    """Compile what looks pages up, enters them, and grows the array; loading is left out."""
    compile_all(_look, _propose, _capacities, _lay_out)
