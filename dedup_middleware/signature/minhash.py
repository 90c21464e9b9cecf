"""MinHash, bit-identical to datasketch's ``affine32`` scheme.

A. Broder: On the resemblance and containment of documents, 1997. The
permutations are those of datasketch 2: h is mixed once by MurmurHash3's
finalizer, then ``a * h + b mod 2**32`` with odd a permutes the 32-bit numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import types
from numpy.typing import NDArray

from dedup_middleware.signature import _inputs
from dedup_middleware.signature._jit import (
    R32,
    R32_2,
    R64,
    REFUSED,
    RI64,
    U32,
    U32_2,
    Word,
    inlined,
    kernel,
)
from dedup_middleware.signature._vector import MINIMA, minima64

if TYPE_CHECKING:
    from datasketch import LeanMinHash, MinHash

MAX_PERMUTATIONS = 1 << 16
EMPTY = 0xFFFFFFFF  # every minimum of a set without elements
_SCHEME = "affine32"


def permutations(num_perm: int, seed: int) -> NDArray[np.uint32]:
    """What datasketch draws for a seed, shape (2, K): the factors (odd), then the offsets."""
    draw = np.random.RandomState(seed)
    factors = draw.randint(0, 1 << 31, num_perm, dtype=np.uint32)
    offsets = draw.randint(0, 1 << 32, num_perm, dtype=np.uint32)
    return np.array([factors * np.uint32(2) + np.uint32(1), offsets])


def low32(features: NDArray[np.uint64]) -> NDArray[np.uint32]:
    """The 32-bit hash MinHash takes from a 64-bit feature: its low half.

    :raises TypeError: features that are no array of uint64
    """
    return _inputs.vector(features, np.uint64, "features").astype(np.uint32)


class MinHasher:
    """Turns the hashes of a set into its MinHash.

    :param num_perm: number K of permutations, 1..65536
    :param seed: chooses the permutations, 0..2**32-1
    :raises ValueError: a number out of these bounds

    >>> hasher = MinHasher(num_perm=4)
    >>> once = hasher(np.array([5, 7], dtype=np.uint32))
    >>> again = hasher(np.array([7, 5, 7], dtype=np.uint32))
    >>> once.tolist() == again.tolist()
    True
    """

    __slots__ = ("_padded", "num_perm", "seed")

    def __init__(self, num_perm: int = 512, seed: int = 1) -> None:
        self.num_perm = _inputs.count(num_perm, "num_perm", 1, MAX_PERMUTATIONS)
        self.seed = _inputs.count(seed, "seed", 0, (1 << 32) - 1)
        # The kernel works on whole blocks; what the padding yields is cut off.
        padding = -self.num_perm % MINIMA
        self._padded = np.pad(permutations(self.num_perm, self.seed), ((0, 0), (0, padding)))

    @property
    def padded(self) -> NDArray[np.uint32]:
        """The permutations as the kernels take them, up to a whole number of blocks."""
        return self._padded

    def __call__(self, hashes32: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """MinHash of a set, shape (K,).

        :param hashes32: one 32-bit hash an element; order and repetition don't matter
        :return: K minima; all of them ``EMPTY`` for no element at all
        :raises TypeError: hashes that are no array of uint32
        :raises ValueError: more than one dimension
        """
        # The kernel knows its types: asking first would cost as much as the call.
        try:
            return _minhash(hashes32, self._padded, self.num_perm)
        except REFUSED:
            hashes = _inputs.vector(hashes32, np.uint32, "hashes32")
            return _minhash(hashes, self._padded, self.num_perm)

    def of_features(self, features: NDArray[np.uint64]) -> NDArray[np.uint32]:
        """The same as ``self(low32(features))`` in one pass.

        :raises TypeError: features that are no array of uint64
        :raises ValueError: more than one dimension
        """
        try:
            return _minhash_features(features, self._padded, self.num_perm)
        except REFUSED:
            values = _inputs.vector(features, np.uint64, "features")
            return _minhash_features(values, self._padded, self.num_perm)

    def flat(self, hashes32: NDArray[np.uint32], offsets: NDArray[np.int64]) -> NDArray[np.uint32]:
        """MinHashes of n sets whose hashes stand one set after the other, shape (n, K).

        :param hashes32: the hashes of all sets
        :param offsets: int64, shape (n + 1,): set i has ``hashes32[offsets[i]:offsets[i + 1]]``
        :raises TypeError: arrays of other dtypes
        :raises ValueError: offsets that descend or do not run from 0 to the number of hashes
        """
        hashes = _inputs.vector(hashes32, np.uint32, "hashes32")
        ends = _inputs.vector(offsets, np.int64, "offsets")
        if not ends.size or ends[0] != 0 or ends[-1] != hashes.size or (np.diff(ends) < 0).any():
            raise ValueError(f"offsets must ascend from 0 to the number of hashes, {hashes.size}")
        return _minhash_flat(hashes, ends, self._padded, self.num_perm)

    def to_datasketch(self, minhash: NDArray[np.uint32]) -> MinHash:
        """The same MinHash as an object of datasketch, of this seed.

        :raises ValueError: another number of minima than this hasher makes
        """
        from datasketch import MinHash  # late: it would slow down every start

        return MinHash(
            seed=self.seed,
            hashvalues=self._checked(minhash).copy(),
            permutations=permutations(self.num_perm, self.seed),
            scheme=_SCHEME,
        )

    def to_lean(self, minhash: NDArray[np.uint32]) -> LeanMinHash:
        """The same MinHash as datasketch's LeanMinHash, of this seed.

        :raises ValueError: another number of minima than this hasher makes
        """
        from datasketch import LeanMinHash  # late: it would slow down every start

        return LeanMinHash(seed=self.seed, hashvalues=self._checked(minhash).copy(), scheme=_SCHEME)

    def from_datasketch(self, minhash: MinHash | LeanMinHash) -> NDArray[np.uint32]:
        """The minima of a MinHash or LeanMinHash of datasketch.

        :raises ValueError: made with another scheme, seed or number of permutations,
            so that its minima can't be compared with those made here
        """
        found = (getattr(minhash, "scheme", "legacy"), minhash.seed, len(minhash.hashvalues))
        wanted = (_SCHEME, self.seed, self.num_perm)
        if found != wanted:
            raise ValueError(
                f"the MinHash has (scheme, seed, num_perm) = {found}, this hasher has {wanted}: "
                "they can't be compared"
            )
        return np.array(minhash.hashvalues, dtype=np.uint32)

    def _checked(self, minhash: NDArray[np.uint32]) -> NDArray[np.uint32]:
        return _inputs.words(minhash, np.uint32, self.num_perm, "minhash")


_M1 = np.uint32(0x85EBCA6B)
_M2 = np.uint32(0xC2B2AE35)
_S13 = np.uint32(13)
_S16 = np.uint32(16)


@inlined
def mix32(h: Word) -> Word:
    """MurmurHash3's finalizer, a permutation of the 32-bit numbers."""
    # numba widens 32-bit arithmetic to 64 bits, hence the casts.
    h = np.uint32(h ^ (h >> _S16))
    h = np.uint32(h * _M1)
    h = np.uint32(h ^ (h >> _S13))
    h = np.uint32(h * _M2)
    return np.uint32(h ^ (h >> _S16))


@inlined
def fill_minima(
    mixed: NDArray[np.uint32], padded: NDArray[np.uint32], out: NDArray[np.uint32]
) -> None:
    """Minima of mixed hashes under all permutations, those of the padding too."""
    for start in range(0, out.size, MINIMA):
        minima64(mixed, padded[0], padded[1], np.uint64(start), out)


@kernel(U32(R32, R32_2, types.int64))
def _minhash(
    hashes: NDArray[np.uint32], padded: NDArray[np.uint32], num_perm: int
) -> NDArray[np.uint32]:
    mixed = np.empty(hashes.size, np.uint32)
    # Unsigned indices: the wrap-around check of signed ones blocks vectorisation.
    for i in range(np.uint64(hashes.size)):
        mixed[i] = mix32(hashes[i])
    minima = np.empty(padded.shape[1], np.uint32)
    fill_minima(mixed, padded, minima)
    return minima[:num_perm]


@kernel(U32(R64, R32_2, types.int64))
def _minhash_features(
    features: NDArray[np.uint64], padded: NDArray[np.uint32], num_perm: int
) -> NDArray[np.uint32]:
    mixed = np.empty(features.size, np.uint32)
    for i in range(np.uint64(features.size)):
        mixed[i] = mix32(np.uint32(features[i]))
    minima = np.empty(padded.shape[1], np.uint32)
    fill_minima(mixed, padded, minima)
    return minima[:num_perm]


@kernel(U32_2(R32, RI64, R32_2, types.int64))
def _minhash_flat(
    hashes: NDArray[np.uint32],
    offsets: NDArray[np.int64],
    padded: NDArray[np.uint32],
    num_perm: int,
) -> NDArray[np.uint32]:
    mixed = np.empty(hashes.size, np.uint32)
    for i in range(np.uint64(hashes.size)):
        mixed[i] = mix32(hashes[i])
    out = np.empty((offsets.size - 1, num_perm), np.uint32)
    minima = np.empty(padded.shape[1], np.uint32)
    for row in range(offsets.size - 1):
        fill_minima(mixed[offsets[row] : offsets[row + 1]], padded, minima)
        for i in range(np.uint64(num_perm)):  # numba takes seconds to compile a slice's assignment
            out[row, i] = minima[i]
    return out
