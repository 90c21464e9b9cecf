"""Ribbon filter: a set of 64-bit hashes in 4.3 bits each, with a false-positive rate of 1 in 16.

It is a homogeneous ribbon filter (P. C. Dillinger, L. Huebschle-Schneider, P. Sanders, S. Walzer,
"Fast Succinct Retrieval and Approximate Membership using Ribbon", SEA 2022). A hash selects a
window of 56 positions, and its coefficients select some of these. The filter has four bits at each
position, one per column; in each column the bits that an entered hash selects have an even sum.
Building it solves these homogeneous equations, which always have a solution. A Bloom filter with
the same rate takes 5.8 bits a hash.

Bytes: the columns one after the other, one bit a position. Each column is XORed with its own
pattern, so that a filter of zero bytes holds no more hashes than a random one.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from dedup_middleware.base.jit import subkernel
from dedup_middleware.signature._vector import load_word, parity, trailing_zeros
from dedup_middleware.text.hashing import mix

BITS_EACH: Final = 4  # bits of a position, one in each column
MISTAKEN: Final = 1 / (1 << BITS_EACH)  # rate of false positives
SLACK: Final = 64  # unused rows behind the last position
TURNS: Final = 4  # equations that are reduced in turns
PADDING: Final = 8  # bytes that must be readable behind a filter
_WIDTH: Final = 56  # positions of a window; shifted by up to seven bits it still fits into a word
#: positions by which windows at both ends are moved inwards at most, to fill the ends
_CLAMPED: Final = 14
_LEAST: Final = 64  # positions
_SPREAD: Final = np.uint64(0x9E3779B97F4A7C15)
# Any XOR of patterns has as many ones as zeros, so the false positives of columns stay independent.
_PATTERNS: Final = (
    np.uint64(0x3333333333333333),
    np.uint64(0x5555555555555555),
    np.uint64(0x0F0F0F0F0F0F0F0F),
    np.uint64(0xC3C3C3C3C3C3C3C3),
)
_LOW, _ONE, _EIGHT, _HALF = np.uint64(0xFFFFFFFF), np.uint64(1), np.uint64(8), np.uint64(32)
_HIGHEST: Final = np.uint64(1 << 63)
_THREE, _SEVEN, _BYTE = np.uint64(3), np.uint64(7), np.uint64(0xFF)


class Filter(NamedTuple):
    """A filter of ``size`` bytes that begins at byte ``start`` of ``data``."""

    data: Any
    start: Any
    size: Any


def filter_size(hashes: int) -> int:
    """Size in bytes of a filter for a number of hashes, repeated ones counted.

    >>> filter_size(0), filter_size(280), filter_size(8192)
    (32, 156, 4440)
    """
    return BITS_EACH * (max(_LEAST, hashes + hashes // 12 + 4 + 7) // 8)


count_bytes = subkernel(filter_size)


@subkernel
def is_filter(size: Any) -> Any:
    """Whether a filter can have this size in bytes."""
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
    """The equation of a hash: first position of its window, and coefficients, lowest first."""
    return np.uint64(_start(value, positions)), _coefficients(value)


@subkernel
def _step(rows: Any, at: Any, left: Any, starts: Any, lefts: Any, following: Any) -> Any:
    """One step of Gaussian elimination: add the equation that already owns this row, if any. An
    equation that has found its own row, or has become zero, is replaced by the following one.
    Returns the row, the coefficients left, and the number of the next equation."""
    zeros = trailing_zeros(left | _HIGHEST)
    at, left = at + zeros, left >> zeros
    row = rows[at]
    # Coefficients are odd here unless zero. A comparison would be compiled into a branch.
    goes_on = row & left & _ONE
    others = goes_on - _ONE
    rows[at] = row | left & (row & _ONE) - _ONE
    at ^= (at ^ starts[following]) & others
    left ^= row
    left ^= (left ^ lefts[following]) & others
    return at, left, following - others


@subkernel
def enter(rows: Any, starts: Any, lefts: Any, count: Any) -> None:
    """Add the equations of hashes to the rows of a filter, which are zeros at first.

    Four equations are reduced in turns, because each step of one waits for the step before. The
    code has no branch that depends on which of them is finished: it could not be predicted.

    :param rows: uint64[positions + SLACK], the coefficients that begin at each position
    :param starts, lefts: uint64[count + TURNS] each, of :func:`equation`; the last TURNS are 0
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
    """Solve the equations and write the filter to `out`, uint8[positions / 2]."""
    stride = out.size // BITS_EACH
    # For each column the bits from this position on, the lowest being its own.
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
def holds(entered: Any, value: Any) -> Any:
    """Whether a `Filter` holds a hash: 1 or 0."""
    stride = entered.size // BITS_EACH
    at, wanted = np.uint64(_start(value, 8 * stride)), _coefficients(value)
    byte, shift, odd = np.uint64(entered.start) + (at >> _THREE), at & _SEVEN, np.uint64(0)
    for column in range(BITS_EACH):
        word = load_word(entered.data, byte) ^ _PATTERNS[column]
        odd |= parity(word >> shift & wanted)
        byte += np.uint64(stride)
    return np.uint8(odd ^ _ONE)
