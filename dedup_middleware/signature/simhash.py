"""SimHash of weighted features, and its volatile bits, which a small edit may flip.

M. Charikar: Similarity estimation techniques from rounding algorithms, 2002; G. Manku, A. Jain, A.
Das Sarma: Detecting near-duplicates for web crawling, 2007.
"""

from __future__ import annotations

import math
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base import kerneltypes as types
from dedup_middleware.base.jit import Word, kernel, subkernel
from dedup_middleware.base.kerneltypes import I64, R32, R64
from dedup_middleware.signature._vector import add_weights, count_bits

BITS = 64
BLOCK_BITS = 16
_WEIGHT_BITS = 30  # float weights are scaled so that the largest is 2**30 .. 2**31


@attrs.frozen(eq=False)
class SimHash:
    """A SimHash and the sums from which it is made.

    :param value: 64 bits; bit p is set if ``sums[p]`` is positive
    :param sums: int64, shape (64,): weight of the features with bit p less that of the others
    """

    value: int
    sums: NDArray[np.int64]

    def volatile(self, block: int, n: int) -> tuple[int, ...]:
        """The n bit positions of a block with the smallest ``abs(sum)``, smallest first.

        A small edit flips these bits first, so ``value ^ (1 << position)`` is worth looking up. Of
        equal sums the lower position comes first.

        :param block: 0..3; block i is the 16-bit prefix of the value rotated left by 16*i, so block
            0 has the positions 48..63 and block 3 the positions 0..15
        :param n: 0..16
        """
        lowest = BITS - BLOCK_BITS * (block + 1)
        margins = np.abs(self.sums[lowest : lowest + BLOCK_BITS])
        order = np.argsort(margins, kind="stable")[:n]
        return tuple(int(position) + lowest for position in order)


def simhash(
    features: NDArray[np.uint64], weights: NDArray[np.uint32] | NDArray[np.float64] | None = None
) -> SimHash | None:
    """SimHash of 64-bit feature hashes; ``None`` if no feature has any weight.

    Sums are exact integers, so the result depends neither on the order of the features nor on the
    processor. Float weights are first scaled by the power of two that takes the largest to 2**30 ..
    2**31, and rounded.

    :param features: uint64, shape (n,)
    :param weights: uint32 or float64, shape (n,); 1 each if not given
    :raises ValueError: shapes that differ, or weights that are negative or not finite
    """
    if weights is None:
        weights = np.ones(len(features), np.uint32)
    if len(features) != len(weights):
        raise ValueError(
            f"weights must have one entry a feature: got {len(weights)} for {len(features)}"
        )
    value, total, sums = _weigh(features, _integers(weights))
    return SimHash(value=value, sums=sums) if total else None


def _integers(weights: NDArray[Any]) -> NDArray[np.uint32]:
    if weights.dtype == np.uint32:
        return weights
    heaviest = float(weights.max(initial=0.0))
    # Written so that NaN fails too.
    if not (math.isfinite(heaviest) and bool(np.all(weights >= 0.0))):
        raise ValueError("weights must be finite and not negative")
    exponent = math.frexp(heaviest)[1] if heaviest else 0
    scaled: NDArray[np.float64] = np.ldexp(weights, _WEIGHT_BITS + 1 - exponent)
    return np.rint(scaled).astype(np.uint32)


_ROUND = 255  # features counted at once, the largest value of the 8-bit counters
_RESULT = types.Tuple((types.uint64, types.int64, I64))


@subkernel
def centred(sums: NDArray[np.int64], total: Word) -> Word:
    """Turn ``sums[p]``, the weight of the features with bit p, into the sums of :class:`SimHash`,
    in place; return the value of the SimHash."""
    value = np.uint64(0)
    for p in range(np.uint64(BITS)):
        sums[p] = 2 * sums[p] - total
        value |= np.uint64(sums[p] > 0) << p
    return value


@subkernel
def sum_bits(
    features: NDArray[np.uint64], counters: NDArray[np.uint8], sums: NDArray[np.int64]
) -> None:
    """Write to ``sums[p]`` how many features have bit p; `counters` is a buffer, uint8[64]."""
    for p in range(np.uint64(BITS)):
        sums[p] = 0
    for start in range(0, features.size, _ROUND):
        stop = min(start + _ROUND, features.size)
        count_bits(features, np.uint64(start), np.uint64(stop), counters)
        for p in range(np.uint64(BITS)):
            sums[p] += counters[p]


@kernel(_RESULT(R64, R32))
def _weigh(
    features: NDArray[np.uint64], weights: NDArray[np.uint32]
) -> tuple[int, int, NDArray[np.int64]]:
    """SimHash, total weight, and sums of :class:`SimHash`."""
    sums = np.empty(BITS, np.int64)
    add_weights(features, weights, sums)
    total = np.int64(0)
    for i in range(np.uint64(weights.size)):
        total += np.int64(weights[i])
    return centred(sums, total), total, sums
