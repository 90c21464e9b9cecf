"""A filter of 64-bit hashes in 4.3 bits each: one in 16 that it lacks is reported as held.

It is a homogeneous ribbon filter (P. C. Dillinger, L. Huebschle-Schneider, P. Sanders, S. Walzer,
"Fast Succinct Retrieval and Approximate Membership using Ribbon", SEA 2022). A hash names 56
neighbouring positions, and some of them by its coefficients. The filter gives each position four
bits, one a column, such that those at the named positions add up to zero for every hash entered.
Making one solves these equations, which always has a solution. A Bloom filter with as many false
positives takes 5.8 bits a hash.

Bytes: the columns one after the other, a bit a position. Each column is XORed with a pattern of its
own, so that zeroed bytes hold no more hashes than a random filter.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from dedup_middleware.base.jit import subkernel
from dedup_middleware.signature._vector import load_word, parity, trailing_zeros
from dedup_middleware.text.hashing import mix

BITS_EACH: Final = 4  # of a position, one in each column
MISTAKEN: Final = 1 / (1 << BITS_EACH)  # share of hashes that are held by mistake
SLACK: Final = 64  # rows behind the last position, which are not used
TURNS: Final = 4  # equations that are entered together
PADDING: Final = 8  # bytes that must be readable behind a filter
_WIDTH: Final = 56  # positions of a hash: with a shift below eight, they are in one word
#: hashes at both ends are moved inwards by up to so many positions, which fills the ends
_CLAMPED: Final = 14
_LEAST: Final = 64  # positions
_SPREAD: Final = np.uint64(0x9E3779B97F4A7C15)
# Sums of any of the patterns have as many ones as zeros, so no column decides for another.
_PATTERNS: Final = (
    np.uint64(0x3333333333333333),
    np.uint64(0x5555555555555555),
    np.uint64(0x0F0F0F0F0F0F0F0F),
    np.uint64(0xC3C3C3C3C3C3C3C3),
)
_LOW, _ONE, _EIGHT, _HALF = np.uint64(0xFFFFFFFF), np.uint64(1), np.uint64(8), np.uint64(32)
_HIGHEST: Final = np.uint64(1 << 63)
_THREE, _SEVEN, _BYTE = np.uint64(3), np.uint64(7), np.uint64(0xFF)


def filter_size(hashes: int) -> int:
    """Bytes of a filter for some hashes, repeated ones counted.

    >>> filter_size(0), filter_size(280), filter_size(8192)
    (32, 156, 4440)
    """
    return BITS_EACH * (max(_LEAST, hashes + hashes // 12 + 4 + 7) // 8)


count_bytes = subkernel(filter_size)


@subkernel
def is_filter(size: Any) -> Any:
    """Whether a filter can have so many bytes."""
    return size % BITS_EACH == 0 and size >= _LEAST * BITS_EACH // 8


@subkernel
def _coefficients(value: Any) -> Any:
    return value * _SPREAD >> _EIGHT | _ONE


@subkernel
def _start(value: Any, positions: Any) -> Any:
    last = positions - _WIDTH
    at = (value & _LOW) * np.uint64(last + 1 + 2 * _CLAMPED) >> _HALF
    return min(max(np.int64(at) - _CLAMPED, 0), last)


@subkernel
def equation(value: Any, positions: Any) -> Any:
    """The position from which on a hash names positions, and its coefficients, the lowest first."""
    return np.uint64(_start(value, positions)), _coefficients(value)


@subkernel
def _step(rows: Any, at: Any, left: Any, starts: Any, lefts: Any, following: Any) -> Any:
    """One step of a Gaussian elimination: an equation less the one that has its place already. If
    it has found its own place, or says nothing new, the following one begins; and its number."""
    zeros = trailing_zeros(left | _HIGHEST)
    at, left = at + zeros, left >> zeros
    row = rows[at]
    # All but zeros are odd here. A comparison would be compiled into a branch.
    goes_on = row & left & _ONE
    others = goes_on - _ONE
    rows[at] = row | left & (row & _ONE) - _ONE
    at ^= (at ^ starts[following]) & others
    left ^= row
    left ^= (left ^ lefts[following]) & others
    return at, left, following - others


@subkernel
def enter(rows: Any, starts: Any, lefts: Any, count: Any) -> None:
    """Add the equations of hashes to those of a filter, which are zeros at first.

    Four take turns, and no branch depends on which of them has found its place: a step waits for
    the one before, and when an equation is done can't be predicted. Their order does not matter.

    :param rows: uint64[positions + SLACK], of each position the coefficients that begin there
    :param starts: uint64[count + TURNS], and lefts uint64[count + TURNS], of :func:`equation`;
        the last are 0
    """
    following, end = np.uint64(0), np.uint64(count)
    a = b = c = d = np.uint64(0)
    p = q = r = s = np.uint64(0)
    while True:
        a, p, following = _step(rows, a, p, starts, lefts, following)
        b, q, following = _step(rows, b, q, starts, lefts, following)
        c, r, following = _step(rows, c, r, starts, lefts, following)
        d, s, following = _step(rows, d, s, starts, lefts, following)
        if following >= end:
            following = end
            if p | q | r | s == np.uint64(0):
                return


@subkernel
def solve(rows: Any, out: Any) -> None:
    """Write the filter whose equations are given.

    :param out: uint8[positions / 2]
    """
    stride = out.size // BITS_EACH
    # The bits of each column at a position and behind it, the lowest one its own.
    first = second = third = fourth = np.uint64(0)
    for at in range(8 * stride - 1, -1, -1):
        if rows[at]:
            behind = rows[at] >> _ONE
            first = first << _ONE | parity(first & behind)
            second = second << _ONE | parity(second & behind)
            third = third << _ONE | parity(third & behind)
            fourth = fourth << _ONE | parity(fourth & behind)
        else:  # any bits will do
            free = mix(np.uint64(at))
            first = first << _ONE | free & _ONE
            second = second << _ONE | free >> np.uint64(1) & _ONE
            third = third << _ONE | free >> np.uint64(2) & _ONE
            fourth = fourth << _ONE | free >> np.uint64(3) & _ONE
        if at & 7 == 0:
            byte = at >> 3
            out[byte] = np.uint8((first ^ _PATTERNS[0]) & _BYTE)
            out[stride + byte] = np.uint8((second ^ _PATTERNS[1]) & _BYTE)
            out[2 * stride + byte] = np.uint8((third ^ _PATTERNS[2]) & _BYTE)
            out[3 * stride + byte] = np.uint8((fourth ^ _PATTERNS[3]) & _BYTE)


@subkernel
def holds(data: Any, first: Any, size: Any, value: Any) -> Any:
    """Whether a filter of `size` bytes that begins at byte `first` holds a hash: 1 or 0."""
    stride = size // BITS_EACH
    at, wanted = np.uint64(_start(value, 8 * stride)), _coefficients(value)
    byte, shift, odd = np.uint64(first) + (at >> _THREE), at & _SEVEN, np.uint64(0)
    for column in range(BITS_EACH):
        word = load_word(data, byte) ^ _PATTERNS[column]
        odd |= parity(word >> shift & wanted)
        byte += np.uint64(stride)
    return np.uint8(odd ^ _ONE)
