"""Bands of MinHash, and how many pages they find."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base import kerneltypes as types
from dedup_middleware.base.jit import Word, kernel, subkernel
from dedup_middleware.base.kerneltypes import R32, U64

_BITS = 16  # of a SimHash that must be equal in one of the four tables
_TABLES = 4


def band_recall(jaccard: float, bands: int, rows: int) -> float:
    """Chance that two sets share at least one band of MinHash.

    ``1 - (1 - J^r)^b``, Leskovec, Rajaraman and Ullman, Mining of Massive Datasets, chapter 3.4.

    >>> round(band_recall(0.8, 8, 3), 3)
    0.997
    """
    return 1.0 - (1.0 - jaccard**rows) ** bands


def simhash_recall(jaccard: float) -> float:
    """Chance that two SimHashes share at least one of their four 16-bit blocks.

    A bit differs with probability angle / pi (Charikar 2002); two sets of one size with Jaccard
    index J have the cosine ``2 J / (1 + J)`` between them. The bits are taken as independent.

    >>> round(simhash_recall(1.0), 3), round(simhash_recall(0.8), 3)
    (1.0, 0.259)
    """
    angle = math.acos(min(1.0, 2.0 * jaccard / (1.0 + jaccard)))
    equal = (1.0 - angle / math.pi) ** _BITS
    return 1.0 - (1.0 - equal) ** _TABLES


_M1 = np.uint64(0xFF51AFD7ED558CCD)
_M2 = np.uint64(0xC4CEB9FE1A85EC53)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_S33 = np.uint64(33)


def bands(minhash: NDArray[np.uint32], bands: int, rows: int) -> NDArray[np.uint64]:
    """Hash each band of minima to 64 well-mixed bits, shape (B,).

    Band i takes the minima i*R .. i*R + R - 1; minima beyond B*R are left out.
    The band's number is hashed too, so equal minima in two bands give different hashes.

    :raises ValueError: fewer minima than B*R
    """
    check_bands(bands, rows, minhash.size)
    return _bands(minhash, bands, rows)


def check_bands(bands: int, rows: int, num_perm: int) -> None:
    """Raise ValueError if a MinHash has fewer minima than the bands need."""
    if bands * rows > num_perm:
        raise ValueError(
            f"bands={bands} of rows={rows} need {bands * rows} minima, the MinHash has "
            f"{num_perm}: lower one of them or raise num_perm"
        )


@subkernel
def mix64(h: Word) -> Word:
    """MurmurHash3's finalizer, a permutation of the 64-bit numbers."""
    h = (h ^ (h >> _S33)) * _M1
    h = (h ^ (h >> _S33)) * _M2
    return h ^ (h >> _S33)


@subkernel
def fill_bands(minhash: NDArray[np.uint32], rows: int, out: NDArray[np.uint64]) -> None:
    """Hash as many bands as `out` holds."""
    for band in range(np.uint64(out.size)):
        h = band * _GOLDEN
        for row in range(np.uint64(rows)):
            h = mix64(h ^ np.uint64(minhash[band * np.uint64(rows) + row])) + _GOLDEN
        out[band] = h


@kernel(U64(R32, types.int64, types.int64))
def _bands(minhash: NDArray[np.uint32], bands: int, rows: int) -> NDArray[np.uint64]:
    out = np.empty(bands, np.uint64)
    fill_bands(minhash, rows, out)
    return out
