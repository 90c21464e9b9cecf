"""Sketches of 512 bits that estimate Jaccard similarity.

P. Li, A. C. König: b-bit minwise hashing, WWW 2010.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base import kerneltypes as types
from dedup_middleware.base.jit import Word, kernel, subkernel
from dedup_middleware.base.kerneltypes import F64, R32, R64, R64_2, U64
from dedup_middleware.signature._vector import differing_groups
from dedup_middleware.signature.minhash import mix32

BITS = 512
WORDS = BITS // 64
# Bits taken from each minimum -> the lowest bit of each group of so many.
_LOWEST = {bits: np.uint64(((1 << 64) - 1) // ((1 << bits) - 1)) for bits in (1, 2, 4, 8)}


def bits_each(num_perm: int) -> int:
    """Bits b a sketch takes from each of K minima: 512 / K, or 1 from each of the first 512.

    :raises ValueError: K below 512 other than 64, 128 and 256

    >>> [bits_each(k) for k in (64, 128, 256, 512, 1024)]
    [8, 4, 2, 1, 1]
    """
    if num_perm >= BITS:
        return 1
    if num_perm not in (64, 128, 256):
        raise ValueError(
            f"a sketch of {BITS} bits needs 64, 128, 256 or at least {BITS} minima, got {num_perm}"
        )
    return BITS // num_perm


def sketch(minhash: NDArray[np.uint32]) -> NDArray[np.uint64]:
    """Keep b bits of each minimum, shape (8,).

    Bits i*b .. i*b + b - 1, counted from the lowest of word 0, come from minimum i;
    ``bits_each`` gives b. They are taken from the mixed minimum: with odd a the
    lowest bit of ``a * h + b`` is that of ``h ^ b``, the same for every permutation.

    :param minhash: uint32
    :raises ValueError: a number of minima that ``bits_each`` refuses
    """
    return _sketch(minhash, bits_each(minhash.size))


def jaccards(
    query: NDArray[np.uint64], sketches: NDArray[np.uint64], bits: int = 1
) -> NDArray[np.float64]:
    """Estimate the Jaccard similarity of a set and each of others from their sketches, in 0..1.

    Minima that differ still agree in b bits by chance, once in 2**b; the
    estimate is (agreement - 2**-b) / (1 - 2**-b), clipped. Its standard error at
    b=1 and 512 minima is at most 4.5 points, 2.6 at J=0.8.

    :param query: shape (8,)
    :param sketches: shape (n, 8)
    :param bits: b of all of them, 1, 2, 4 or 8 (``bits_each``)
    :returns: shape (n,)
    :raises ValueError: another number of words than 8, or another b
    """
    if query.shape != (WORDS,) or sketches.shape[1:] != (WORDS,):
        raise ValueError(f"sketches have {WORDS} words, got {query.shape} and {sketches.shape}")
    # A column of records is neither contiguous nor aligned.
    return _jaccards(query, np.array(sketches, order="C"), bits, lowest_bits(bits))


def lowest_bits(bits: int) -> Word:
    """A word with the lowest bit of each group of so many.

    :raises ValueError: another number than 1, 2, 4 or 8
    """
    try:
        return _LOWEST[bits]
    except (KeyError, TypeError):
        raise ValueError(f"bits must be 1, 2, 4 or 8, got {bits!r}") from None


_S64 = np.uint64(64)
_BYTES = np.uint64(BITS // 8)


@subkernel
def fill_sketch(minhash: NDArray[np.uint32], bits: int, out: NDArray[np.uint64]) -> None:
    """Write the sketch of the first 512 / bits minima."""
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
    """Jaccard similarity from the number of groups of bits that differ."""
    chance = 1.0 / (1 << bits)
    agreement = 1.0 - differing * bits / BITS
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
