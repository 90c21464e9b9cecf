"""The bucket keys of a page, as numbers, in one call."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base import kerneltypes as types
from dedup_middleware.base.jit import kernel, subkernel
from dedup_middleware.base.kerneltypes import R64, U64
from dedup_middleware.model.buckets import (
    ANCHOR_TABLES,
    FIRST_BAND_TABLE,
    KEY_TABLE,
    SIMHASH_TABLES,
)
from dedup_middleware.model.records import BAND_SUFFIX_BITS, SIMHASH_SUFFIX_BITS

_TABLES = np.uint64(len(SIMHASH_TABLES))
_FIRST_SIMHASH, _FIRST_BAND = np.uint64(SIMHASH_TABLES[0]), np.uint64(FIRST_BAND_TABLE)
_FIRST_ANCHOR = np.uint64(ANCHOR_TABLES[0])
_KEY = np.uint64(KEY_TABLE)
_PREFIX = np.uint64(16)
_PREFIX_SHIFT = np.uint64(48)
_SUFFIX_SHIFT = np.uint64(48 - BAND_SUFFIX_BITS)
_SUFFIX = np.uint64((1 << BAND_SUFFIX_BITS) - 1)
_MASK48 = np.uint64((1 << SIMHASH_SUFFIX_BITS) - 1)
_ONE, _TWO = np.uint64(1), np.uint64(2)
_S63, _S62 = np.uint64(63), np.uint64(62)


def whole_page(
    key: int, simhash: int, bands: NDArray[np.uint64], anchors: NDArray[np.uint64]
) -> NDArray[np.uint64]:
    """Bucket keys of a page in the tables of keys, SimHashes, bands and anchors.

    :param key: 64-bit hash of its key
    :param simhash: 64 bits
    :param bands: uint64[B]
    :param anchors: uint64[a], distinct
    :returns: words of :class:`.BucketKeys`, uint64[2 * (5 + B + a)]; of two anchors in one bucket
        the first has it
    """
    words: NDArray[np.uint64] = _whole_page(key, simhash, bands, anchors)
    return words


@subkernel
def _band_suffix(words: Any, at: Any, table: Any, value: Any) -> None:
    words[at] = table << _PREFIX | value >> _PREFIX_SHIFT
    words[at + _ONE] = value >> _SUFFIX_SHIFT & _SUFFIX


@kernel(U64(types.uint64, types.uint64, R64, R64))
def _whole_page(key: Any, simhash: Any, bands: Any, anchors: Any) -> Any:
    words = np.empty(2 * (1 + len(SIMHASH_TABLES) + bands.size + anchors.size), np.uint64)
    at = np.uint64(0)
    _band_suffix(words, at, _KEY, key)
    for i in range(_TABLES):
        at += _TWO
        turn = _PREFIX * i
        # In two steps: a shift by 64 is not defined.
        turned = simhash << turn | (simhash >> _ONE) >> (_S63 - turn)
        words[at] = (_FIRST_SIMHASH + i) << _PREFIX | turned >> _PREFIX_SHIFT
        words[at + _ONE] = turned & _MASK48
    for i in range(np.uint64(bands.size)):
        at += _TWO
        _band_suffix(words, at, _FIRST_BAND + i, bands[i])
    first = at + _TWO
    for i in range(np.uint64(anchors.size)):
        at += _TWO
        _band_suffix(words, at, _FIRST_ANCHOR + (anchors[i] >> _S62), anchors[i] << _TWO)
        for before in range(first, at, 2):
            if words[before] == words[at]:
                at -= _TWO
                break
    return words[: at + _TWO].copy()
