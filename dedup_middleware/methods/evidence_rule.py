"""The default rule as one kernel: a page against all of its candidates in one call."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from dedup_middleware.base import kerneltypes as types
from dedup_middleware.base.jit import kernel, subkernel
from dedup_middleware.base.kerneltypes import F64, I64, RI64, RI64_2, U8
from dedup_middleware.methods.base import (
    COMMON_CODE,
    CONTAINED_CODE,
    EXACT_CODE,
    LONG,
    OTHER_FIGURES_CODE,
    OTHER_TITLE_CODE,
    SAME_HOST,
    TOO_LITTLE_CODE,
    TOO_SHORT_CODE,
    TURNED_CODE,
)
from dedup_middleware.model.records import CONTENT
from dedup_middleware.signature.evidence import (
    COMMON,
    FALSE_POSITIVES,
    LONGEST,
    LONGEST_OF_ALL,
    LOOSE_VALUES,
    NEW,
    NEW_FRAME,
    NEW_SUBJECT,
    NEW_TITLE,
    NEW_VALUES,
)

JACCARD, NOVELTY = 1, 2  # codes of measures; 0 is containment
_RECORDS = types.Array(CONTENT, 1, readonly=True)
# Shares of its shingles that must be common, of a short page and of any other one.
_SHARE_OF_SHORT, _SHARE = 0.8, 0.7
_SHORT: Final = 60  # words; on so short a page a false positive covers a large part
_DEFAULT: Final = 0.8  # the threshold at which the limits below hold
_BODY, _ALL, _ROW = 0.12, 0.16, 0.04  # shares of new words
_ROW_LEAST, _ROW_MOST, _FRAME_MOST = 4.0, 12.0, 16.0  # new words
_FRAME, _FRAME_LEAST = 0.1, 4.0  # the same of lead and tail, date lines and editors left out
# Where the stored page has all numerals of a page with so many words and numerals, both are one
# report: its shares are a quarter larger, and its passage may be longer.
_REPORT, _FIGURES = 250, 8
_WIDER, _ROW_MOST_OF_REPORT = 1.25, 13.5
# A page of fewer words than the first is held whole by one of more shingles than the second, whose
# words are not known: a false positive may cover all that is new in so short a page.
_TINY, _LONGER = 24, 58
_TITLE: Final = 0.25  # share of the words of the title that may be other ones
_PLACED: Final = 8  # numerals whose places are surely known, see signature/comparison.py
# Shares of a stored page's shingles that a page holding it must have, by the estimate with one
# standard deviation added and with two taken off.
_HELD, _SURELY_HELD = 0.97, 0.8
_SIBLINGS: Final = 3  # pages of a host that show what all of its pages say
# Two pages of a host with fewer shingles than _FORM and other words are on one template if they
# have equally many shingles, or if one has up to _SLOT more, and lacks _REPLACED of the other one.
_FORM, _SLOT, _REPLACED = 64, 4, 3


def most_lacking(threshold: float) -> float:
    """The share of its shingles that a duplicate may lack at a threshold, short pages apart."""
    return (1.0 - _SHARE) * (1.0 - threshold) / (1.0 - _DEFAULT)


@subkernel
def _similarity(found: Any, words: Any, numerals: Any, measure: Any) -> Any:
    """The largest threshold at which the new words of a page are few and scattered enough."""
    counted = np.float64(max(1, min(words, LONG) if measure == NOVELTY else words))
    is_report = counted >= _REPORT and numerals >= _FIGURES
    share = (_WIDER if is_report else 1.0) * counted
    longest = _ROW_MOST_OF_REPORT if is_report else _ROW_MOST
    longest = min(longest, max(_ROW_LEAST, _ROW * share))
    new, frame = 0.5 * found[NEW], 0.5 * found[NEW_FRAME]
    used = max(new / (_BODY * share), (new + frame) / (_ALL * share))
    used = max(used, 0.5 * found[LONGEST] / longest)
    # Behind the lead a sentence that the page begins with would have a row of its own.
    used = max(used, max(frame, 0.5 * found[LONGEST_OF_ALL]) / _FRAME_MOST)
    used = max(used, frame / max(_FRAME_LEAST, _FRAME * counted))
    return max(0.0, 1.0 - (1.0 - _DEFAULT) * used)


@subkernel
def _is_held(size: Any, their_size: Any, share: Any, mistaken: Any, shingles: Any) -> Any:
    """Whether a page holds nearly all shingles of a shorter one."""
    spread = np.sqrt(mistaken * shingles) / max(1e-6, 1.0 - mistaken)
    holds = size > their_size and share * size + spread >= _HELD * their_size
    return holds and share * size - 2.0 * spread >= _SURELY_HELD * their_size


@subkernel
def _is_sibling(one: Any, host: Any, key: Any) -> Any:
    return host != 0 and one.host == host and one.key != key


@subkernel
def _fills_template(found: Any, size: Any, their_size: Any, shared: Any) -> Any:
    """Whether a page says other words than another page of its host in the same place."""
    more = abs(their_size - size)
    replaced = more == 0 or (more <= _SLOT and their_size - shared >= _REPLACED)
    return replaced and found[NEW] + found[NEW_FRAME] > 0


@subkernel
def _leave_out_common(
    candidates: Any, host: Any, key: Any, threshold: Any, similarities: Any, codes: Any
) -> None:
    """Keep a page that is alike only in what three other pages of its host say too."""
    third, second, first, others = 0.0, 0.0, 0.0, 0
    for i in range(np.uint64(candidates.size)):
        if _is_sibling(candidates[i], host, key) and codes[i] > CONTAINED_CODE:
            others += 1
            value = similarities[i]
            first, value = max(first, value), min(first, value)
            second, value = max(second, value), min(second, value)
            third = max(third, value)
    if others < _SIBLINGS:
        return
    for i in range(np.uint64(candidates.size)):
        above = (similarities[i] - third) / max(1e-9, 1.0 - third)
        if codes[i] == CONTAINED_CODE and above < threshold:
            codes[i] = COMMON_CODE


@kernel(
    types.void(
        _RECORDS,
        RI64_2,
        RI64,
        RI64,
        F64,
        F64,
        I64,
        I64,
        U8,
        *[types.int64] * 6,
        *[types.int64] * 2,
        types.uint64,
        types.uint64,
        types.float64,
        types.int64,
        types.int64,
    )
)
def decide(
    candidates: Any,
    found: Any,
    figures: Any,
    turned: Any,
    similarities: Any,
    jaccards: Any,
    shared: Any,
    codes: Any,
    held: Any,
    size: Any,
    shingles: Any,
    compared: Any,
    words: Any,
    numerals: Any,
    title_words: Any,
    host: Any,
    title: Any,
    exact: Any,
    key: Any,
    threshold: Any,
    min_features: Any,
    measure: Any,
) -> None:
    """Judge each candidate: whether it makes the page a duplicate, and the reason.

    :param found: what :func:`~dedup_middleware.signature.evidence.examine` gives, ``figures`` and
        ``turned`` what :func:`~dedup_middleware.signature.comparison.differing_places` gives
    :param similarities, jaccards, shared, codes, held: results. Similarity; Jaccard index and
        number of shingles in common, as estimated; code of the reason; whether the page holds
        nearly all that the candidate says
    :param size, shingles, compared, words, numerals, title_words, host, title, exact, key: of the
        page: distinct shingles, shingles, those among which common ones were counted, words,
        numerals, words of the title, and hashes
    """
    # Words that are said again and again make a page no longer.
    counted = min(words, 2 * (size + words - shingles))
    has_title = title != 0
    for i in range(np.uint64(candidates.size)):
        one = candidates[i]
        their_size = np.int64(one.size)
        equal = one.exact == exact and their_size == size
        mistaken = found[i, FALSE_POSITIVES] / 1e6
        rest = max(1e-6, 1.0 - mistaken)
        share = (found[i, COMMON] / max(1, compared) - mistaken) / rest
        share = 1.0 if equal else min(1.0, max(0.0, share))
        shared[i] = min(np.int64(np.rint(share * size)), their_size)
        jaccards[i] = shared[i] / max(1, size + their_size - shared[i])
        similarity = _similarity(found[i], counted, numerals, measure)
        lacking = (1.0 - share) / (1.0 - (_SHARE_OF_SHORT if counted < _SHORT else _SHARE))
        similarity = min(similarity, max(0.0, 1.0 - (1.0 - _DEFAULT) * lacking))
        if measure == JACCARD:
            similarity = min(similarity, jaccards[i])
        if words < _TINY and their_size >= _LONGER and found[i, COMMON] < compared:
            similarity = 0.0
        similarity = 1.0 if equal else similarity
        similarities[i] = similarity
        is_other_title = found[i, NEW_TITLE] > _TITLE * title_words
        is_other_subject = has_title and one.title != title and found[i, NEW_SUBJECT] > 0
        titled = _is_sibling(one, host, key) and title != 0 and one.title not in (0, title)
        changed = found[i, NEW_VALUES] > 0 or figures[i] > 0
        changed |= numerals > _PLACED and found[i, LOOSE_VALUES] > 0
        strict = similarity >= SAME_HOST and size >= LONG and not equal
        code = CONTAINED_CODE
        if equal and not is_other_title and not (titled and size < LONG):
            code = EXACT_CODE
        elif min(size, their_size) < min_features:
            code = TOO_SHORT_CODE
        elif similarity < threshold:
            code = TOO_LITTLE_CODE
        elif changed:
            code = OTHER_FIGURES_CODE
        elif turned[i] > 0:
            code = TURNED_CODE
        elif is_other_title or is_other_subject or (titled and not strict):
            code = OTHER_TITLE_CODE
        elif (
            _is_sibling(one, host, key)
            and min(size, their_size) < _FORM
            and _fills_template(found[i], size, their_size, shared[i])
        ):
            code = COMMON_CODE
        codes[i] = code
        held[i] = (
            their_size >= min_features
            and not equal
            and _is_held(size, their_size, share, mistaken, compared)
            and figures[i] == 0
            and turned[i] == 0
        )
    _leave_out_common(candidates, host, key, threshold, similarities, codes)
