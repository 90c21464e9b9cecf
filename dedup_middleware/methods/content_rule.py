"""The kernels of the method ``content``: its rule by sketches, and the bucket keys of a page.

Either is one call: a page against all of its candidates, and all keys of a page.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base import kerneltypes as types
from dedup_middleware.base.jit import kernel, subkernel
from dedup_middleware.base.kerneltypes import F64, I64, R64, RI64, U64
from dedup_middleware.base.options import SKETCH_BITS
from dedup_middleware.methods.base import (
    COMMON_CODE,
    CONTAINED_CODE,
    EXACT_CODE,
    LONG,
    OTHER_FIGURES_CODE,
    OTHER_TITLE_CODE,
    TOO_LITTLE_CODE,
    TOO_SHORT_CODE,
    TURNED_CODE,
)
from dedup_middleware.model.buckets import (
    ANCHOR_TABLES,
    FIRST_BAND_TABLE,
    KEY_TABLE,
    SIMHASH_TABLES,
)
from dedup_middleware.model.records import BAND_SUFFIX_BITS, CONTENT, SIMHASH_SUFFIX_BITS

_RECORDS = types.Array(CONTENT, 1, readonly=True)


@subkernel
def _error(jaccard: Any, sketch_bits: Any) -> Any:
    """Standard error of a Jaccard index estimated from a 512-bit sketch.

    The square root of the variance of b-bit minwise hashing (Li and Konig 2010, theorem 2) over
    512 / b minima.
    """
    chance = 0.5**sketch_bits
    agreement = jaccard + (1.0 - jaccard) * chance
    variance = agreement * (1.0 - agreement) / (SKETCH_BITS // sketch_bits)
    return np.sqrt(variance / ((1.0 - chance) * (1.0 - chance)))


@subkernel
def _is_same_host(one: Any, host: Any, key: Any) -> Any:
    return host != 0 and one.host == host and one.key != key


@subkernel
def _is_other_title(one: Any, host: Any, key: Any, title: Any) -> Any:
    titled = title != 0 and one.title != 0
    other = titled and one.title != title
    return other and _is_same_host(one, host, key)


@kernel(
    types.void(
        _RECORDS,
        F64,
        RI64,
        RI64,
        F64,
        F64,
        I64,
        I64,
        *[types.int64] * 3,
        types.uint64,
        types.uint64,
        types.float64,
        types.float64,
        types.int64,
        types.int64,
        types.int64,
    )
)
def decide(
    candidates: Any,
    jaccards: Any,
    figures: Any,
    turned: Any,
    similarities: Any,
    sure: Any,
    shared: Any,
    codes: Any,
    size: Any,
    host: Any,
    title: Any,
    exact: Any,
    key: Any,
    need: Any,
    strict: Any,
    min_features: Any,
    sketch_bits: Any,
    both_alike: Any,
) -> None:
    """Judge each candidate: whether it makes the page a duplicate, and the reason.

    :param jaccards: as estimated; 1 afterwards where the text is equal
    :param figures, turned: what :func:`~dedup_middleware.signature.comparison.compare` gives
    :param similarities, sure, shared, codes: results. Share of the page that each holds; the same
        in the measure of the method, less its standard error; number of shingles in common; code
        of the reason
    :param size, host, title, exact, key: of the page
    :param need: similarity that makes a duplicate; ``strict`` the same under another title
    :param both_alike: 1: the measure is the Jaccard index, not containment
    """
    # The largest shares that others of the host are sure to hold, the third one first.
    third = second = first = 0.0
    any_kept = False
    whole = max(size, 1)
    long_page = size >= min_features
    for i in range(np.uint64(candidates.size)):
        one = candidates[i]
        equal = one.exact == exact and np.int64(one.size) == size
        other_title = _is_other_title(one, host, key, title)
        jaccard = 1.0 if equal else jaccards[i]
        both = np.float64(size + np.int64(one.size))
        common = jaccard * both / (1.0 + jaccard)
        similarity = 1.0 if equal else min(1.0, max(0.0, common / whole))
        error = _error(jaccard, sketch_bits)
        compared = jaccard
        if not both_alike:
            # The error times the derivative of the containment by the Jaccard index.
            compared = similarity
            error *= both / (whole * ((1.0 + jaccard) * (1.0 + jaccard)))
        jaccards[i], similarities[i], sure[i] = jaccard, similarity, compared - error
        shared[i] = np.int64(np.rint(min(common, np.float64(min(size, np.int64(one.size))))))
        alike, other = sure[i] >= need, figures[i] > 0 or turned[i] > 0
        code = COMMON_CODE
        if equal and not (other_title and size < LONG):
            code = EXACT_CODE
        elif not (long_page and np.int64(one.size) >= min_features):
            code = TOO_SHORT_CODE
        elif not alike:
            code = TOO_LITTLE_CODE
        elif other:
            code = OTHER_FIGURES_CODE if figures[i] > 0 else TURNED_CODE
        elif other_title and (sure[i] < strict or equal):
            code = OTHER_TITLE_CODE
        else:
            any_kept = True
        codes[i] = code
        near = long_page and np.int64(one.size) >= min_features and alike and not other
        if not near and _is_same_host(one, host, key):
            held = sure[i] - error
            first, held = max(first, held), min(first, held)
            second, held = max(second, held), min(second, held)
            third = max(third, held)
    if any_kept:
        rest = max(1.0 - third, 1e-9)
        for i in range(np.uint64(candidates.size)):
            if codes[i] == COMMON_CODE and (sure[i] - third) / rest >= need:
                codes[i] = CONTAINED_CODE


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
