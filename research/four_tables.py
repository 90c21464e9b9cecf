"""Four tables over one set of fingerprints: exact search within three bits, in memory.

G. Manku, A. Jain, A. Das Sarma: Detecting near-duplicates for web crawling,
2007; LUO's lecture 13 (four tables). Two fingerprints that differ in at most three
of 64 bits are equal in at least one of four 16-bit blocks (pigeonhole principle).
Table t holds every fingerprint in the bucket named by the first 16 bits of
the fingerprint rotated left by 16*t. A bucket is one run of memory that ends with
room to grow, so a look-up reads four runs and an insert writes at four ends.
"""

from __future__ import annotations

import numpy as np
from numba import types
from numpy.typing import NDArray

from dedup_middleware.signature import _inputs
from dedup_middleware.signature._jit import I64, R64, U64, Word, allocating, inlined, kernel
from dedup_middleware.signature._vector import near_mask8, prefetch, trailing_zeros
from dedup_middleware.signature.hamming import with_room

TABLES = 4
BUCKETS = 1 << 16
_FIELDS = 2  # start, size | room << 32
_HEADS = TABLES * BUCKETS
_MAX = (1 << 32) - 1  # positions are kept in 32 bits
_WORD = (1 << 64) - 1


class FourTables:
    """An index of 64-bit fingerprints that answers which lie within three bits of another.

    Positions count the fingerprints in the order they were added, from 0. One
    thread may add at a time and none may query meanwhile; any number may query.

    Costs about 60 to 110 bytes a fingerprint, and 4 MB for the heads of the buckets.

    >>> tables = FourTables()
    >>> tables.add(np.array([0b1000, 0b0111, 0xFFFF], dtype=np.uint64))
    >>> tables.query(0, distance=3).tolist()
    [0, 1]
    """

    __slots__ = ("_size", "_store")

    def __init__(self) -> None:
        self._size = 0
        self._store = _empty_store(0)

    def __len__(self) -> int:
        return self._size

    @property
    def nbytes(self) -> int:
        """Bytes of memory the tables hold."""
        return int(self._store.nbytes)

    def add(self, fingerprints: NDArray[np.uint64]) -> None:
        """Insert fingerprints; their positions follow the last one.

        :param fingerprints: uint64, shape (n,)
        :raises TypeError: fingerprints that are no array of uint64
        :raises ValueError: another shape, or more than 2**32 - 1 fingerprints in all
        """
        new = _inputs.vector(fingerprints, np.uint64, "fingerprints")
        if self._size + new.size > _MAX:
            raise ValueError(f"four tables hold at most {_MAX} fingerprints")
        done = 0
        # Many at once are cheaper to lay out anew than to append one by one.
        if new.size <= self._size // 4:
            done = _append(self._store, new, self._size)
        if done < new.size:
            self._store = _rebuilt(self._store, new[done:], self._size + done)
        self._size += new.size

    def query(self, fingerprint: int | np.uint64, distance: int = 3) -> NDArray[np.int64]:
        """Positions of the fingerprints within a Hamming distance, ascending.

        Complete for a distance of at most 3. Beyond it only fingerprints that share
        one of the four blocks with the query are found.

        :param fingerprint: 64-bit fingerprint
        :param distance: largest number of differing bits, 0..64
        :raises TypeError: a fingerprint or a distance that is no integer
        :raises ValueError: a number out of bounds
        """
        if type(fingerprint) is not int or not 0 <= fingerprint <= _WORD:
            fingerprint = _inputs.word(fingerprint, "fingerprint")
        if type(distance) is not int or not 0 <= distance <= 64:
            distance = _inputs.count(distance, "distance", 0, 64)
        found = _query(self._store, fingerprint, distance)
        return np.empty(0, np.int64) if found is None else found

    def query_many(
        self, fingerprints: NDArray[np.uint64], distance: int = 3
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """``query`` for many fingerprints, several times as fast a query.

        :param fingerprints: uint64, shape (q,)
        :param distance: largest number of differing bits, 0..64
        :return: positions of the queries and, for each, of the fingerprint found: two int64
            arrays of shape (m,), ascending by query, then by fingerprint
        :raises TypeError: fingerprints that are no array of uint64
        :raises ValueError: another shape, or a distance out of bounds
        """
        return _query_many(
            self._store,
            _inputs.vector(fingerprints, np.uint64, "fingerprints"),
            _inputs.count(distance, "distance", 0, 64),
        )


# Everything lies in one array, because each array a kernel is handed costs a
# fifth of a look-up: heads; first free slot; number of slots; slots' fingerprints
# and a vector of slack; slots' positions, two a word.
_FREE = np.uint64(_HEADS * _FIELDS)
_SLOTS = np.uint64(_HEADS * _FIELDS + 1)
_CODES = np.uint64(_HEADS * _FIELDS + 2)
_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_TWO = np.uint64(2)
_EIGHT = np.uint64(8)
_S5 = np.uint64(5)
_S32 = np.uint64(32)
_S48 = np.uint64(48)
_BLOCK = np.uint64(16)
_LOW16 = np.uint64(0xFFFF)
_LOW32 = np.uint64(0xFFFFFFFF)
_ALL_TABLES = np.uint64(TABLES)
_ALL_BUCKETS = np.uint64(_HEADS)
_AHEAD = np.uint64(6)  # queries between asking for a head, its bucket, and reading it


def _empty_store(slots: int) -> NDArray[np.uint64]:
    # From NumPy, not from a kernel: it asks for huge pages, which saves a third of a look-up.
    store = np.zeros(int(_CODES) + slots + 8 + (slots + 1) // 2, np.uint64)
    store[_SLOTS] = slots
    return store


def _rebuilt(store: NDArray[np.uint64], new: NDArray[np.uint64], first: int) -> NDArray[np.uint64]:
    """The same tables with more fingerprints, a quarter of room in each bucket and a half behind.

    Whatever a bucket left behind when it moved is gone. Order in a bucket stays
    that of the positions.
    """
    rooms = _rooms(store, new)
    total = int(rooms.sum())
    larger = _empty_store(total + total // 2 + 4096)
    _fill(store, new, first, rooms, larger)
    return larger


@inlined
def _head(table: Word, fingerprint: Word) -> Word:
    prefix = (fingerprint >> (_S48 - _BLOCK * table)) & _LOW16
    return (table * np.uint64(BUCKETS) + prefix) * _TWO


@inlined
def _position(store: NDArray[np.uint64], slot: Word) -> Word:
    word = _CODES + store[_SLOTS] + _EIGHT + (slot >> _ONE)
    return (store[word] >> ((slot & _ONE) << _S5)) & _LOW32


@inlined
def _put(store: NDArray[np.uint64], slot: Word, fingerprint: Word, position: Word) -> None:
    store[_CODES + slot] = fingerprint
    word = _CODES + store[_SLOTS] + _EIGHT + (slot >> _ONE)
    shift = (slot & _ONE) << _S5
    store[word] = (store[word] & ~(_LOW32 << shift)) | (position << shift)


@inlined
def _copy(
    source: NDArray[np.uint64],
    start: Word,
    size: Word,
    target: NDArray[np.uint64],
    slot: Word,
) -> None:
    for j in range(size):
        _put(target, slot + j, source[_CODES + start + j], _position(source, start + j))


@kernel(types.int64(U64, R64, types.int64))
def _append(store: NDArray[np.uint64], new: NDArray[np.uint64], first: int) -> Word:
    """Insert until there is no room; the number inserted."""
    for i in range(np.uint64(new.size)):
        free = store[_FREE]
        # Room for all four first: an insert is whole or not begun.
        for table in range(_ALL_TABLES):
            sizes = store[_head(table, new[i]) + _ONE]
            if sizes & _LOW32 == sizes >> _S32:
                free += max(_EIGHT, _TWO * (sizes >> _S32))
        if free > store[_SLOTS]:
            return np.int64(i)
        for table in range(_ALL_TABLES):
            head = _head(table, new[i])
            start, sizes = store[head], store[head + _ONE]
            size, room = sizes & _LOW32, sizes >> _S32
            if size == room:
                room = max(_EIGHT, _TWO * room)
                moved = store[_FREE]
                _copy(store, start, size, store, moved)
                start = moved
                store[head] = start
                store[_FREE] = moved + room
            _put(store, start + size, new[i], np.uint64(first) + i)
            store[head + _ONE] = (size + _ONE) | (room << _S32)
    return new.size


@kernel(U64(R64, R64))
def _rooms(store: NDArray[np.uint64], new: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Slots each bucket gets: what it holds, what comes, and a quarter more."""
    rooms = np.empty(_HEADS, np.uint64)
    for bucket in range(_ALL_BUCKETS):
        rooms[bucket] = store[bucket * _TWO + _ONE] & _LOW32
    for i in range(np.uint64(new.size)):
        for table in range(_ALL_TABLES):
            rooms[_head(table, new[i]) >> _ONE] += _ONE
    for bucket in range(_ALL_BUCKETS):
        rooms[bucket] += rooms[bucket] >> _TWO
    return rooms


@kernel(types.void(R64, R64, types.int64, R64, U64))
def _fill(
    store: NDArray[np.uint64],
    new: NDArray[np.uint64],
    first: int,
    rooms: NDArray[np.uint64],
    larger: NDArray[np.uint64],
) -> None:
    free = _ZERO
    for bucket in range(_ALL_BUCKETS):
        head = bucket * _TWO
        size = store[head + _ONE] & _LOW32
        _copy(store, store[head], size, larger, free)
        larger[head] = free
        larger[head + _ONE] = size | (rooms[bucket] << _S32)
        free += rooms[bucket]
    larger[_FREE] = free
    # Table by table: writes go to one part of memory at a time.
    for table in range(_ALL_TABLES):
        for i in range(np.uint64(new.size)):
            head = _head(table, new[i])
            slot = larger[head] + (larger[head + _ONE] & _LOW32)
            _put(larger, slot, new[i], np.uint64(first) + i)
            larger[head + _ONE] += _ONE


@inlined
def _is_new(differing: Word, table: Word) -> bool:
    """Whether no earlier table has this fingerprint in the bucket of the query."""
    seen = False
    for earlier in range(table):
        seen |= (differing >> (_S48 - _BLOCK * earlier)) & _LOW16 == _ZERO
    return not seen


@allocating
def _merge(found: NDArray[np.int64], begin: Word, middle: Word, end: Word) -> None:
    """Make one ascending run of two neighbours."""
    if found[middle - _ONE] < found[middle]:
        return
    left = found[begin:middle].copy()
    i, j, k = _ZERO, middle, begin
    while i < np.uint64(left.size):
        if j < end and found[j] < left[i]:
            found[k] = found[j]
            j += _ONE
        else:
            found[k] = left[i]
            i += _ONE
        k += _ONE


@inlined
def _room_for(store: NDArray[np.uint64], query: Word) -> Word:
    """Most entries a look-up can find; asks for its four buckets before the first is read."""
    total = _ZERO
    for table in range(_ALL_TABLES):
        head = _head(table, query)
        prefetch(store, _CODES + store[head])
        total += store[head + _ONE] & _LOW32
    return total


@allocating
def _look_up(
    store: NDArray[np.uint64],
    query: Word,
    distance: Word,
    found: NDArray[np.int64],
    begin: Word,
) -> Word:
    """Write the ascending positions of all hits from ``begin`` on; where they end."""
    used = begin
    for table in range(_ALL_TABLES):
        head = _head(table, query)
        i = _CODES + store[head]
        stop = i + (store[head + _ONE] & _LOW32)
        middle = used
        while i < stop:
            mask = near_mask8(store, i, query, distance)
            if stop - i < _EIGHT:
                mask &= (_ONE << (stop - i)) - _ONE
            while mask:
                word = i + trailing_zeros(mask)
                mask &= mask - _ONE
                if _is_new(store[word] ^ query, table):
                    found[used] = np.int64(_position(store, word - _CODES))
                    used += _ONE
            i += _EIGHT
        if begin < middle < used:
            _merge(found, begin, middle, used)
    return used


@kernel(types.Optional(I64)(R64, types.uint64, types.uint64))
def _query(store: NDArray[np.uint64], query: int, distance: int) -> NDArray[np.int64] | None:
    found = np.empty(_room_for(store, np.uint64(query)), np.int64)
    used = _look_up(store, np.uint64(query), np.uint64(distance), found, _ZERO)
    # Handing an array to Python costs more than the look-up, and most find nothing.
    if used == _ZERO:
        return None
    return found[:used]


@kernel(types.UniTuple(I64, 2)(R64, R64, types.uint64))
def _query_many(
    store: NDArray[np.uint64], queries: NDArray[np.uint64], distance: Word
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    size = np.uint64(queries.size)
    found = np.empty(4096, np.int64)
    ends = np.empty(size, np.uint64)
    used = _ZERO
    for q in range(size):
        if q + _TWO * _AHEAD < size:
            for table in range(_ALL_TABLES):
                prefetch(store, _head(table, queries[q + _TWO * _AHEAD]))
        if q + _AHEAD < size:
            _room_for(store, queries[q + _AHEAD])
        found = with_room(found, used, _room_for(store, queries[q]))
        used = _look_up(store, queries[q], distance, found, used)
        ends[q] = used
    owners = np.empty(used, np.int64)
    start = _ZERO
    for q in range(size):
        for i in range(start, ends[q]):
            owners[i] = np.int64(q)
        start = ends[q]
    return owners, found[:used]
