"""The Hamming kernel: every comparison of SimHashes with those of many pages.

Codes lie as words of 64 bits in an array, or as the suffixes of SimHash records in the bytes of a
bucket. Both are compared eight at a time: population counts of eight 64-bit lanes are one
instruction with AVX-512 VPOPCNTDQ (``vpopcntq``), and table look-ups (``vpshufb``) on other x86-64
processors. Fewer than eight go through the same instructions with the rest of the lanes masked out.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base import kerneltypes as types
from dedup_middleware.base.jit import REFUSED, Word, allocating_subkernel, kernel, subkernel
from dedup_middleware.base.kerneltypes import I64, R64
from dedup_middleware.signature import _inputs
from dedup_middleware.signature._vector import (
    LANES64,
    NEAR,
    RECORD,
    near_mask64,
    near_records,
    near_records8,
    near_words,
    share_word64,
    trailing_zeros,
)

_WORD = (1 << 64) - 1


def within(
    fingerprints: NDArray[np.uint64], query: int | np.uint64, distance: int
) -> NDArray[np.int64]:
    """Positions of the fingerprints within a Hamming distance of the query, ascending.

    :param fingerprints: uint64, shape (n,)
    :param query: 64-bit fingerprint
    :param distance: largest number of differing bits, 0..64
    :return: int64, shape (m,)
    :raises TypeError: fingerprints that are no array of uint64, or a query that is no integer
    :raises ValueError: another shape, or a number out of bounds
    """
    if type(query) is not int or not 0 <= query <= _WORD:
        query = _inputs.count(query, "query", 0, _WORD)
    if type(distance) is not int or not 0 <= distance <= 64:
        distance = _inputs.count(distance, "distance", 0, 64)
    # The kernel knows its types: asking first would cost as much as a short scan.
    try:
        found = _within(fingerprints, query, distance)
    except REFUSED:
        found = _within(_inputs.vector(fingerprints, np.uint64, "fingerprints"), query, distance)
    return np.empty(0, np.int64) if found is None else found


_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_EIGHT = np.uint64(LANES64)
RECORDS = np.uint64(LANES64 * RECORD)  # bytes of the records that one comparison takes
_SHARED = np.uint64(3)
_NEAR = np.uint64(NEAR)


@subkernel
def nearest_records(array: Word, byte: Word, count: Word, query: Word, distance: Word) -> Word:
    """Mask of the first SimHash records, 8 at most, whose suffix is within a distance.

    :param array: any array; ``count`` records begin at this byte of it, at least one
    :param query: the suffix to compare with, 48 bits
    """
    if count >= _EIGHT:
        return near_records8(array, byte, query, distance)
    return near_records(array, byte, count, query, distance)


@allocating_subkernel
def with_room(array: NDArray[np.int64], used: Word, more: Word) -> NDArray[np.int64]:
    """The array if ``more`` entries fit behind the first ``used``, else a larger copy."""
    size = np.uint64(array.size)
    if used + more <= size:
        return array
    larger = np.empty(max(used + more, size + size), np.int64)
    larger[:used] = array[:used]
    return larger


@subkernel
def take(mask: Word, base: Word, out: NDArray[np.int64], used: Word) -> Word:
    """Append ``base + j`` for every one bit j of the mask; the new number of entries."""
    while mask:
        out[used] = np.int64(base + trailing_zeros(mask))
        used += _ONE
        mask &= mask - _ONE
    return used


@subkernel
def _gather(
    codes: NDArray[np.uint64],
    start: Word,
    stop: Word,
    query: Word,
    distance: Word,
    out: NDArray[np.int64],
    used: Word,
) -> tuple[Word, Word]:
    """Take the hits of whole blocks from ``start`` while they fit; the next block, and used.

    The list stays the same here: a loop that may replace it counts references in every turn.
    """
    i = start
    last = np.uint64(out.size) - _NEAR
    if distance <= _SHARED:
        while i + _NEAR <= stop and used <= last:
            if share_word64(codes, i, query):
                used = take(near_mask64(codes, i, query, distance), i, out, used)
            i += _NEAR
    else:
        while i + _NEAR <= stop and used <= last:
            used = take(near_mask64(codes, i, query, distance), i, out, used)
            i += _NEAR
    return i, used


@allocating_subkernel
def scan(
    codes: NDArray[np.uint64],
    start: Word,
    stop: Word,
    query: Word,
    distance: Word,
    out: NDArray[np.int64],
    used: Word,
) -> tuple[NDArray[np.int64], Word]:
    """Append the positions in start..stop-1 within the distance; the list and its length.

    :param out: at least 64 entries long, ``used`` of them taken
    """
    i, used = _gather(codes, start, stop, query, distance, out, used)
    while i + _NEAR <= stop:
        out = with_room(out, used, _NEAR)
        i, used = _gather(codes, i, stop, query, distance, out, used)
    # Fewer than 64 codes are left.
    out = with_room(out, used, _NEAR)
    while i < stop:
        mask = near_words(codes, i, min(_EIGHT, stop - i), query, distance)
        used = take(mask, i, out, used)
        i += _EIGHT
    return out, used


@kernel(types.Optional(I64)(R64, types.uint64, types.uint64))
def _within(
    fingerprints: NDArray[np.uint64], query: int | np.uint64, distance: int
) -> NDArray[np.int64] | None:
    out = np.empty(2 * NEAR, np.int64)
    size = np.uint64(fingerprints.size)
    out, used = scan(fingerprints, _ZERO, size, np.uint64(query), np.uint64(distance), out, _ZERO)
    # Handing an array to Python costs more than a short scan, and most find nothing.
    if used == _ZERO:
        return None
    return out[:used]
