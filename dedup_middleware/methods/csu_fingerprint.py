"""Min-wise fingerprints of the patent, 16 bits a position.

龙军, 张祖平, 袁鑫攀, 罗跃逸: patent CN102024065, 基于SIMD优化的网页去重并行方法 (2011).
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from dedup_middleware.signature.minhash import MinHasher

POSITION_BITS: Final = 16
FINGERPRINT_SEED: Final = 1
VERIFICATION_SEED: Final = 2
VERIFICATION_MINIMA: Final = 512


def fold16(minima: NDArray[np.uint32]) -> NDArray[np.uint16]:
    """16 bits of each 32-bit minimum.

    Minima are small numbers and their lowest bits go together over the positions, so they are
    mixed first (MurmurHash3's finalizer, bit for bit) and the high half is kept.
    """
    values = (minima ^ minima >> np.uint32(16)) * np.uint32(0x85EBCA6B)
    values = (values ^ values >> np.uint32(13)) * np.uint32(0xC2B2AE35)
    # Of `values ^ values >> 16` the high half is that of `values`.
    return np.asarray(values >> np.uint32(16), np.uint16)


@lru_cache(maxsize=8)
def _hasher(minima: int, seed: int) -> MinHasher:
    from dedup_middleware.signature.minhash import MinHasher

    return MinHasher(minima, seed)


def fingerprint(sample: NDArray[np.uint64], positions: int) -> NDArray[np.uint16]:
    """Fingerprint of M positions of a sample that is not empty, uint16[M].

    The permutations are those of the package's MinHash.
    """
    return fold16(_hasher(positions, FINGERPRINT_SEED).of_features(sample))


def verification_sketch(shingles: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Sketch of all shingles, uint64[8], from which the Jaccard index is estimated.

    Its permutations are other ones than those of the fingerprint, so it verifies independently.
    """
    from dedup_middleware.signature.sketch import sketch

    return sketch(_hasher(VERIFICATION_MINIMA, VERIFICATION_SEED).of_features(shingles))
