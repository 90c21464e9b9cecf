"""Hashes of the shingles of a text, from those of its tokens."""

# NumPy's stubs type an indexed scalar as Any.
# mypy: disable-error-code="no-any-return"
from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base.jit import kernel, subkernel
from dedup_middleware.base.kerneltypes import R64, U32, U64, Tuple, int64
from dedup_middleware.text.hashing import (
    SHINGLE_BASE,
    SHINGLE_DROP,
    SHINGLE_START,
    distinct,
    mix,
)

MAX_WIDTH: Final = 64
# Of a text with fewer distinct shingles than this share of all, longer ones are tried,
_DISTINCT: Final = 0.6
_GAIN: Final = 1.6  # and taken if there are so many times more of them.


@subkernel
def _roll(
    hashes: NDArray[np.uint64],
    count: int,
    width: int,
    drop: np.uint64,
    keys: NDArray[np.uint64],
    shingles: NDArray[np.uint64],
) -> int:
    """Write the hashes of the shingles; returns how many there are.

    `drop` is the base to the power of the width.
    """
    base, start = keys[SHINGLE_BASE], keys[SHINGLE_START]
    rolled = np.uint64(0)
    window = np.uint64(width if width < count else count)
    for i in range(window):
        rolled = rolled * base + hashes[i]
    if count > 0:
        shingles[0] = mix(rolled ^ start)
    number = np.uint64(1 if count > 0 else 0)
    for i in range(window, np.uint64(count)):
        rolled = rolled * base + hashes[i] - hashes[i - window] * drop
        shingles[number] = mix(rolled ^ start)
        number += np.uint64(1)
    return np.int64(number)


@kernel(Tuple((U64, U32, U64))(U64, int64, int64, R64))
def shingle_features(
    hashes: NDArray[np.uint64], count: int, width: int, keys: NDArray[np.uint64]
) -> tuple[NDArray[np.uint64], NDArray[np.uint32], NDArray[np.uint64]]:
    """The distinct shingles of a text, how often each occurs, and all of them in order; `hashes`
    are those of its tokens.

    A text of few different tokens holds most shingles that can be made of them, and so does any
    other such text. Its shingles are made twice as wide, and again, until they are rare. A text
    that is written twice keeps its shingles: wider ones are as few.
    """
    shingles, drop = np.empty(count, np.uint64), keys[SHINGLE_DROP]
    number = _roll(hashes, count, width, drop, keys, shingles)
    order = shingles[:number].copy()
    features, counts = distinct(shingles, number)
    while features.size < _DISTINCT * number and 2 * width <= MAX_WIDTH:
        width, drop = 2 * width, drop * drop
        shingles = np.empty(count, np.uint64)  # what is found so far lies in the other one
        number = _roll(hashes, count, width, drop, keys, shingles)
        wider_order = shingles[:number].copy()
        wider, again = distinct(shingles, number)
        if wider.size < _GAIN * features.size:
            break
        features, counts, order = wider, again, wider_order
    return features, counts, order
