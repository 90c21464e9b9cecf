"""MinHash, bit-identical to datasketch's ``affine32`` scheme, with its bands and 512-bit sketches.

A. Broder: On the resemblance and containment of documents, 1997. The permutations are those of
datasketch 2: a hash h is mixed by MurmurHash3's finalizer, then ``a * h + b mod 2**32`` with odd a
permutes the 32-bit numbers. A sketch estimates the Jaccard similarity (P. Li, A. C. König: b-bit
minwise hashing, WWW 2010).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base import kerneltypes as types
from dedup_middleware.base.jit import Word, allocating_subkernel, kernel, subkernel
from dedup_middleware.base.kerneltypes import F64, R32, R32_2, R64, R64_2, U32, U64
from dedup_middleware.base.options import SKETCH_BITS
from dedup_middleware.signature._vector import MINIMA, differing_groups, minima64

EMPTY = 0xFFFFFFFF  # every minimum of an empty set


def permutations(num_perm: int, seed: int) -> NDArray[np.uint32]:
    """The permutations that datasketch draws for a seed, shape (2, K): odd factors, offsets."""
    draw = np.random.RandomState(seed)
    factors = draw.randint(0, 1 << 31, num_perm, dtype=np.uint32)
    offsets = draw.randint(0, 1 << 32, num_perm, dtype=np.uint32)
    return np.array([factors * np.uint32(2) + np.uint32(1), offsets])


class MinHasher:
    """Computes the MinHash of a set of features.

    :param num_perm: number K of permutations
    :param seed: seed of the permutations, 0..2**32-1

    >>> hasher = MinHasher(num_perm=4)
    >>> once = hasher.of_features(np.array([5, 7], dtype=np.uint64))
    >>> again = hasher.of_features(np.array([7, 5, 7], dtype=np.uint64))
    >>> once.tolist() == again.tolist()
    True
    """

    __slots__ = ("num_perm", "padded", "seed")

    def __init__(self, num_perm: int = 512, seed: int = 1) -> None:
        self.num_perm = num_perm
        self.seed = seed
        # The kernel computes whole blocks; the minima of the padding are cut off.
        padding = -num_perm % MINIMA
        self.padded = np.pad(permutations(num_perm, seed), ((0, 0), (0, padding)))

    def of_features(self, features: NDArray[np.uint64]) -> NDArray[np.uint32]:
        """MinHash of a set, shape (K,); all minima of an empty set are ``EMPTY``.

        :param features: uint64 hashes; only the low 32 bits matter, order and repetition do not
        """
        return _minhash(features, self.padded, self.num_perm)


_M1 = np.uint32(0x85EBCA6B)
_M2 = np.uint32(0xC2B2AE35)
_S13 = np.uint32(13)
_S16 = np.uint32(16)


@subkernel
def mix32(h: Word) -> Word:
    """MurmurHash3's finalizer, a permutation of the 32-bit numbers."""
    # numba widens 32-bit arithmetic to 64 bits, hence the casts.
    h = np.uint32(h ^ (h >> _S16))
    h = np.uint32(h * _M1)
    h = np.uint32(h ^ (h >> _S13))
    h = np.uint32(h * _M2)
    return np.uint32(h ^ (h >> _S16))


@allocating_subkernel
def fill_minima(
    features: NDArray[np.uint64], padded: NDArray[np.uint32], out: NDArray[np.uint32]
) -> None:
    """Write the minima of features under all permutations, padding included, to `out`."""
    mixed = np.empty(features.size, np.uint32)
    for i in range(np.uint64(features.size)):
        mixed[i] = mix32(np.uint32(features[i]))
    for start in range(0, out.size, MINIMA):
        minima64(mixed, padded[0], padded[1], np.uint64(start), out)


@kernel(U32(R64, R32_2, types.int64))
def _minhash(
    features: NDArray[np.uint64], padded: NDArray[np.uint32], num_perm: int
) -> NDArray[np.uint32]:
    minima = np.empty(padded.shape[1], np.uint32)
    fill_minima(features, padded, minima)
    return minima[:num_perm]


_BLOCK = 16  # bits of a SimHash that must be equal in one of the four tables
_TABLES = 4


def band_recall(jaccard: float, bands: int, rows: int) -> float:
    """Probability that two sets share at least one MinHash band.

    ``1 - (1 - J^r)^b``, Leskovec, Rajaraman and Ullman, Mining of Massive Datasets, chapter 3.4.

    >>> round(band_recall(0.8, 8, 3), 3)
    0.997
    """
    return 1.0 - (1.0 - jaccard**rows) ** bands


def simhash_recall(jaccard: float) -> float:
    """Probability that two SimHashes share at least one of their four 16-bit blocks.

    A bit differs with probability angle / pi (Charikar 2002); for two sets of equal size with
    Jaccard index J, the cosine of the angle is ``2 J / (1 + J)``. Bits are taken as independent.

    >>> round(simhash_recall(1.0), 3), round(simhash_recall(0.8), 3)
    (1.0, 0.259)
    """
    angle = math.acos(min(1.0, 2.0 * jaccard / (1.0 + jaccard)))
    equal = (1.0 - angle / math.pi) ** _BLOCK
    return 1.0 - (1.0 - equal) ** _TABLES


_M3 = np.uint64(0xFF51AFD7ED558CCD)
_M4 = np.uint64(0xC4CEB9FE1A85EC53)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_S33 = np.uint64(33)


def bands(minhash: NDArray[np.uint32], bands: int, rows: int) -> NDArray[np.uint64]:
    """Hash each band of minima, i*R .. i*R + R - 1, to 64 well-mixed bits, shape (B,).

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
    h = (h ^ (h >> _S33)) * _M3
    h = (h ^ (h >> _S33)) * _M4
    return h ^ (h >> _S33)


@subkernel
def fill_bands(minhash: NDArray[np.uint32], rows: int, out: NDArray[np.uint64]) -> None:
    """Hash as many bands as `out` has room for."""
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


WORDS = SKETCH_BITS // 64
# Bits b of each minimum -> a word with the lowest bit of each group of b bits set.
_LOWEST = {bits: np.uint64(((1 << 64) - 1) // ((1 << bits) - 1)) for bits in (1, 2, 4, 8)}


def bits_each(num_perm: int) -> int:
    """Bits b a sketch takes from each of K minima: 512 / K, or 1 from each of the first 512.

    :raises ValueError: K below 512 other than 64, 128 and 256

    >>> [bits_each(k) for k in (64, 128, 256, 512, 1024)]
    [8, 4, 2, 1, 1]
    """
    if num_perm >= SKETCH_BITS:
        return 1
    if num_perm not in (64, 128, 256):
        raise ValueError(
            f"a sketch of {SKETCH_BITS} bits needs 64, 128, 256 or at least {SKETCH_BITS} minima, "
            f"got {num_perm}"
        )
    return SKETCH_BITS // num_perm


def sketch(minhash: NDArray[np.uint32]) -> NDArray[np.uint64]:
    """Sketch of a MinHash: b bits of each mixed minimum (see ``bits_each``), shape (8,).

    Bits i*b .. i*b + b - 1, counted from the lowest of word 0, come from minimum i. Minima are
    mixed first because with odd a the lowest bit of ``a * h + b`` is that of ``h ^ b``, the same
    for every permutation.

    :param minhash: uint32
    :raises ValueError: a number of minima that ``bits_each`` refuses
    """
    return _sketch(minhash, bits_each(minhash.size))


def jaccards(
    query: NDArray[np.uint64], sketches: NDArray[np.uint64], bits: int = 1
) -> NDArray[np.float64]:
    """Estimate the Jaccard similarity of one set to n others from their sketches, shape (n,), 0..1.

    Minima that differ still agree in b bits by chance, once in 2**b; the estimate is (agreement -
    2**-b) / (1 - 2**-b), clipped. Its standard error at b=1 and 512 minima is at most 4.5 points,
    2.6 at J=0.8.

    :param query: shape (8,)
    :param sketches: shape (n, 8)
    :param bits: b of all sketches: 1, 2, 4 or 8 (``bits_each``)
    :raises ValueError: another shape, or another number of bits
    """
    if query.shape != (WORDS,) or sketches.shape[1:] != (WORDS,):
        raise ValueError(f"sketches have {WORDS} words, got {query.shape} and {sketches.shape}")
    # A column of records is neither contiguous nor aligned.
    return _jaccards(query, np.array(sketches, order="C"), bits, lowest_bits(bits))


def lowest_bits(bits: int) -> Word:
    """A word in which the lowest bit of each group of ``bits`` bits is set.

    :raises ValueError: another number than 1, 2, 4 or 8
    """
    try:
        return _LOWEST[bits]
    except (KeyError, TypeError):
        raise ValueError(f"bits must be 1, 2, 4 or 8, got {bits!r}") from None


_S64 = np.uint64(64)
_BYTES = np.uint64(SKETCH_BITS // 8)


@subkernel
def fill_sketch(minhash: NDArray[np.uint32], bits: int, out: NDArray[np.uint64]) -> None:
    """Write the sketch of the first 512 / bits minima to `out`."""
    # The high bits of the mixed minimum: all of its bits have passed two multiplications.
    width, shift = np.uint64(bits), np.uint64(32 - bits)
    each = _S64 // width
    for word in range(np.uint64(WORDS)):
        gathered = np.uint64(0)
        for i in range(each):
            value = np.uint64(mix32(minhash[word * each + i])) >> shift
            gathered |= value << (i * width)
        out[word] = gathered


@kernel(U64(R32, types.int64))
def _sketch(minhash: NDArray[np.uint32], bits: int) -> NDArray[np.uint64]:
    out = np.empty(WORDS, np.uint64)
    fill_sketch(minhash, bits, out)
    return out


@subkernel
def estimate(differing: Word, bits: int) -> Word:
    """Jaccard similarity estimated from the number of b-bit groups that differ."""
    chance = 1.0 / (1 << bits)
    agreement = 1.0 - differing * bits / SKETCH_BITS
    return max(0.0, (agreement - chance) / (1.0 - chance))


@kernel(F64(R64, R64_2, types.int64, types.uint64))
def _jaccards(
    query: NDArray[np.uint64], sketches: NDArray[np.uint64], bits: int, lowest: Word
) -> NDArray[np.float64]:
    out = np.empty(sketches.shape[0], np.float64)
    for row in range(np.uint64(sketches.shape[0])):
        differing = differing_groups(sketches, row * _BYTES, query, bits, lowest)
        out[row] = estimate(differing, bits)
    return out
