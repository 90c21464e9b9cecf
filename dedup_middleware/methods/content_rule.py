"""The default rule as one kernel: a page against all of its candidates in one call."""

from __future__ import annotations

from typing import Any

import numpy as np

from dedup_middleware.base import kerneltypes as types
from dedup_middleware.base.jit import kernel, subkernel
from dedup_middleware.base.kerneltypes import F64, I64, RI64
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
from dedup_middleware.model.records import CONTENT

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
