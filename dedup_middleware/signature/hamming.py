"""Hamming kernels: they compare one SimHash with those of many pages.

Codes are 64-bit words of an array, or the suffixes of SimHash records in the bytes of a bucket.
Both are compared eight at a time: the population counts of eight 64-bit lanes are one instruction
with AVX-512 VPOPCNTDQ (``vpopcntq``), and table look-ups (``vpshufb``) on other x86-64 processors.
With fewer than eight the other lanes are masked out.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base import kerneltypes as types
from dedup_middleware.base.jit import REFUSED, Word, kernel, subkernel
from dedup_middleware.base.kerneltypes import I64, R64
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
    :raises TypeError: ``fingerprints`` is not an array of uint64, or a number not an integer
    :raises ValueError: another shape, or a number out of bounds
    """
    if type(query) is not int or not 0 <= query <= _WORD:
        query = _number(query, "query", _WORD)
    if type(distance) is not int or not 0 <= distance <= 64:
        distance = _number(distance, "distance", 64)
    # Try the kernel first, which checks types itself: a check here costs as much as a short scan.
    try:
        found = _within(fingerprints, query, distance)
    except REFUSED:
        found = _within(_vector(fingerprints), query, distance)
    return np.empty(0, np.int64) if found is None else found


def _vector(values: Any) -> NDArray[np.uint64]:
    """A copy of the fingerprints as the kernel needs them: contiguous and aligned."""
    if not isinstance(values, np.ndarray) or values.dtype != np.uint64:
        found = getattr(values, "dtype", type(values).__name__)
        raise TypeError(f"fingerprints must be a NumPy array of uint64, got {found}")
    if values.ndim != 1:
        raise ValueError(f"fingerprints must have one dimension, got shape {values.shape}")
    # np.require would keep a subclass; the kernels accept plain arrays only.
    return np.array(values, order="C", copy=True, subok=False)


def _number(value: int | np.integer[Any], name: str, most: int) -> int:
    """Check that a number is an integer (else TypeError) from 0 to ``most`` (else ValueError)."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{name} must be an integer, got {type(value).__name__}")
    if not 0 <= value <= most:
        raise ValueError(f"{name} must lie in 0..{most}, got {value}")
    return int(value)


_ONE = np.uint64(1)
_EIGHT = np.uint64(LANES64)
RECORDS = np.uint64(LANES64 * RECORD)  # bytes of the records that are compared at once
_SHARED = np.uint64(3)  # codes within this distance share one of four 16-bit words
_NEAR = np.uint64(NEAR)


@subkernel
def nearest_records(array: Word, byte: Word, count: Word, query: Word, distance: Word) -> Word:
    """Mask of the records, at most 8, whose suffix is within a distance of the query.

    :param byte: where the first record begins in ``array``
    :param count: number of records from there on, at least 1
    :param query: suffix to compare with, 48 bits
    """
    if count >= _EIGHT:
        return near_records8(array, byte, query, distance)
    return near_records(array, byte, count, query, distance)


@subkernel
def _take(mask: Word, base: Word, out: NDArray[np.int64], used: Word) -> Word:
    """Append ``base + j`` to `out` for every set bit j of the mask; return the entries used."""
    while mask:
        out[used] = np.int64(base + trailing_zeros(mask))
        used += _ONE
        mask &= mask - _ONE
    return used


@kernel(types.Optional(I64)(R64, types.uint64, types.uint64))
def _within(
    fingerprints: NDArray[np.uint64], query: int | np.uint64, distance: int
) -> NDArray[np.int64] | None:
    size, at, used = np.uint64(fingerprints.size), np.uint64(0), np.uint64(0)
    # Room for all hits; memory that is never written to is not allocated by the system.
    out = np.empty(fingerprints.size, np.int64)
    while at + _NEAR <= size:
        if distance > _SHARED or share_word64(fingerprints, at, query):
            used = _take(near_mask64(fingerprints, at, query, distance), at, out, used)
        at += _NEAR
    while at < size:
        mask = near_words(fingerprints, at, min(_EIGHT, size - at), query, distance)
        used = _take(mask, at, out, used)
        at += _EIGHT
    # Returning an array to Python costs more than a short scan, and most scans find nothing.
    if used == np.uint64(0):
        return None
    found: NDArray[np.int64] = out[:used].copy()
    return found
