"""MinHash, bit-identical to datasketch's ``affine32`` scheme.

A. Broder: On the resemblance and containment of documents, 1997. The
permutations are those of datasketch 2: h is mixed once by MurmurHash3's
finalizer, then ``a * h + b mod 2**32`` with odd a permutes the 32-bit numbers.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base import kerneltypes as types
from dedup_middleware.base.jit import Word, allocating_subkernel, kernel, subkernel
from dedup_middleware.base.kerneltypes import R32_2, R64, U32
from dedup_middleware.signature._vector import MINIMA, minima64

EMPTY = 0xFFFFFFFF  # every minimum of a set without elements


def permutations(num_perm: int, seed: int) -> NDArray[np.uint32]:
    """What datasketch draws for a seed, shape (2, K): the factors (odd), then the offsets."""
    draw = np.random.RandomState(seed)
    factors = draw.randint(0, 1 << 31, num_perm, dtype=np.uint32)
    offsets = draw.randint(0, 1 << 32, num_perm, dtype=np.uint32)
    return np.array([factors * np.uint32(2) + np.uint32(1), offsets])


class MinHasher:
    """Turns the features of a set into its MinHash.

    :param num_perm: number K of permutations
    :param seed: chooses them, 0..2**32-1

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
        # The kernel works on whole blocks; what the padding yields is cut off.
        padding = -num_perm % MINIMA
        self.padded = np.pad(permutations(num_perm, seed), ((0, 0), (0, padding)))

    def of_features(self, features: NDArray[np.uint64]) -> NDArray[np.uint32]:
        """MinHash of a set, shape (K,).

        :param features: uint64, one hash an element, of which the low half counts; order and
            repetition don't matter
        :return: K minima; all of them ``EMPTY`` for no element at all
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
    """Minima of features under all permutations, those of the padding too."""
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
