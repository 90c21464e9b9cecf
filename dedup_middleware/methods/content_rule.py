"""Kernels of the method ``content``: its two rules, each for all candidates at once, and the bucket
keys of a page."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from dedup_middleware.base import kerneltypes as types
from dedup_middleware.base.jit import kernel, subkernel
from dedup_middleware.base.kerneltypes import F64, I64, R64, RF64, RI64, RI64_2, U8, U64
from dedup_middleware.base.options import SKETCH_BITS
from dedup_middleware.methods import base
from dedup_middleware.model.buckets import (
    ANCHOR_TABLES,
    FIRST_BAND_TABLE,
    KEY_TABLE,
    SIMHASH_TABLES,
)
from dedup_middleware.model.records import BAND_SUFFIX_BITS, CONTENT, SIMHASH_SUFFIX_BITS
from dedup_middleware.signature import evidence
from dedup_middleware.signature.exchanged import TRIPLE

_RECORDS = types.Array(CONTENT, 1, readonly=True)

# Shared by both rules.


@subkernel
def _is_sibling(stored: Any, host: Any, key: Any) -> Any:
    """Whether a candidate is another page of the same host."""
    return host != 0 and stored.host == host and stored.key != key


@subkernel
def _is_other_title(stored: Any, host: Any, key: Any, title: Any) -> Any:
    """Whether a candidate is another page of the same host under another title."""
    return _is_sibling(stored, host, key) and title != 0 and stored.title not in (0, title)


@subkernel
def _first_code(
    is_exact: Any, is_short: Any, is_little: Any, other_figures: Any, turned: Any, other_title: Any
) -> Any:
    """Code of the first rule that decides; the rules on templates are applied afterwards."""
    if is_exact:
        return base.EXACT_CODE
    if is_short:
        return base.TOO_SHORT_CODE
    if is_little:
        return base.TOO_LITTLE_CODE
    if other_figures:
        return base.OTHER_FIGURES_CODE
    if turned:
        return base.TURNED_CODE
    return base.OTHER_TITLE_CODE if other_title else base.CONTAINED_CODE


@subkernel
def _leave_out_common(
    candidates: Any, host: Any, key: Any, need: Any, shares: Any, apart: Any, codes: Any
) -> None:
    """Keep a page that shares little with a candidate beyond the text that three siblings hold.

    :param shares: share of the page that each candidate holds
    :param apart: this share for candidates judged to be different pages, 0 for the others
    """
    third = second = first = 0.0
    for i in range(np.uint64(candidates.size)):
        if _is_sibling(candidates[i], host, key):
            value = apart[i]
            first, value = max(first, value), min(first, value)
            second, value = max(second, value), min(second, value)
            third = max(third, value)
    for i in range(np.uint64(candidates.size)):
        above = (shares[i] - third) / max(1e-9, 1.0 - third)
        if codes[i] == base.CONTAINED_CODE and above < need:
            codes[i] = base.COMMON_CODE


# The rule by sketches.


@subkernel
def _error(jaccard: Any, sketch_bits: Any) -> Any:
    """Standard error of a Jaccard index estimated from a 512-bit sketch: the square root of the
    variance of b-bit minwise hashing (Li and Konig 2010, theorem 2) over 512 / b minima."""
    chance = 0.5**sketch_bits
    agreement = jaccard + (1.0 - jaccard) * chance
    variance = agreement * (1.0 - agreement) / (SKETCH_BITS // sketch_bits)
    return np.sqrt(variance / ((1.0 - chance) * (1.0 - chance)))


@kernel(
    types.Tuple((F64, F64, I64, I64))(
        _RECORDS, RF64, RI64, RI64, types.int64, types.int64, types.int64, types.uint64,
        types.uint64, types.float64, types.float64, types.int64, types.int64, types.int64,
    )
)  # fmt: skip
def decide_by_sketch(
    candidates: Any, estimates: Any, figures: Any, turned: Any, size: Any, host: Any, title: Any,
    exact: Any, key: Any, need: Any, strict: Any, min_features: Any, sketch_bits: Any,
    by_jaccard: Any,
) -> Any:  # fmt: skip
    """Judge each candidate by its sketch: whether it makes the page a duplicate, and the reason.

    :param estimates: Jaccard indexes of :func:`~dedup_middleware.signature.minhash.jaccards`
    :param figures, turned: counts of
        :func:`~dedup_middleware.signature.comparison.differing_places`
    :param size, host, title, exact, key: number of shingles and hashes of the page
    :param need: similarity of a duplicate; ``strict``: of one under another title
    :param by_jaccard: 1 if the measure is the Jaccard index, not containment
    :returns: for each candidate the share of the page that it holds, the Jaccard index (1 if the
        text is equal), the number of common shingles, and the code of the reason
    """
    count = candidates.size
    similarities, jaccards = np.empty(count), np.empty(count)
    shared, codes = np.empty(count, np.int64), np.empty(count, np.int64)
    sure, apart = np.empty(count), np.empty(count)  # the measure less one, or two, standard errors
    whole = max(size, 1)
    for i in range(np.uint64(count)):
        stored = candidates[i]
        their_size = np.int64(stored.size)
        equal = stored.exact == exact and their_size == size
        jaccard = 1.0 if equal else estimates[i]
        both = np.float64(size + their_size)
        common = jaccard * both / (1.0 + jaccard)
        similarity = 1.0 if equal else min(1.0, max(0.0, common / whole))
        error = _error(jaccard, sketch_bits)
        compared = jaccard
        if not by_jaccard:
            # Error propagation: times the derivative of containment by the Jaccard index.
            compared = similarity
            error *= both / (whole * ((1.0 + jaccard) * (1.0 + jaccard)))
        jaccards[i], similarities[i], sure[i] = jaccard, similarity, compared - error
        shared[i] = np.int64(np.rint(min(common, np.float64(min(size, their_size)))))
        is_short = min(size, their_size) < min_features
        other_title = _is_other_title(stored, host, key, title)
        codes[i] = _first_code(
            equal and not (other_title and size < base.LONG),
            is_short,
            not sure[i] >= need,
            figures[i] > 0,
            turned[i] > 0,
            other_title and (sure[i] < strict or equal),
        )
        other = is_short or sure[i] < need or figures[i] > 0 or turned[i] > 0
        apart[i] = sure[i] - error if other else 0.0
    _leave_out_common(candidates, host, key, need, sure, apart, codes)
    return similarities, jaccards, shared, codes


# The rule by evidence.

JACCARD, NOVELTY = 1, 2  # codes of measures; 0 is containment
# Share of a page's shingles that must be common, for a short page and for any other one.
_SHARE_OF_SHORT, _SHARE = 0.8, 0.7
_SHORT: Final = 60  # words; of a shorter page a false positive covers a large part
_DEFAULT: Final = 0.8  # the threshold at which the limits below hold
_BODY, _ALL, _ROW = 0.12, 0.16, 0.04  # shares of new words: between lead and tail; all; in a row
_ROW_LEAST, _ROW_MOST, _FRAME_MOST = 4.0, 12.0, 16.0  # bounds for numbers of new words
_FRAME, _FRAME_LEAST = 0.1, 4.0  # share and number in lead and tail, less date lines and editors
# A report has at least this many words and numerals. As a numeral of its own keeps it in any case,
# its limits on other words are a quarter larger, and its longest passage may be longer.
_REPORT, _FIGURES = 250, 8
_WIDER, _ROW_MOST_OF_REPORT = 1.25, 13.5
# A page of fewer than _TINY words must be held whole by a page of _LONGER or more shingles. The
# words of the longer page are not in its evidence, so a false positive may cover all that is new.
_TINY, _LONGER = 24, 58
_TITLE: Final = 0.25  # largest share of the title's words that may differ
_RENAMED: Final = 2  # mentions of a different name that make another page; one may be a slip
_SUBJECT: Final = 3  # places where a word replaces others, which make it another subject
_PLACED: Final = 8  # numerals whose places a sketch surely has, see signature/comparison.py
# A page holds a stored one if the estimated share of the latter's shingles is at least _HELD with
# one standard deviation added, and at least _SURELY_HELD with two subtracted.
_HELD, _SURELY_HELD = 0.97, 0.8
# Two pages of a host, the shorter with fewer than base.LONG shingles, fill one template if the new
# one has words of its own and
# - both have equally many shingles,
# - or their numbers of shingles differ by at most _SLOT (_SLOT_OF_LONGER if the shorter has _FORM
#   shingles or more) and the new page lacks _REPLACED shingles of the stored one,
# - or the numbers differ by at most _SLOT and the new words are at the beginning or end.
_FORM, _SLOT, _SLOT_OF_LONGER, _REPLACED = 64, 4, 1, 3


def most_lacking(threshold: float) -> float:
    """Largest share of shingles that a duplicate may lack at a threshold, unless it is short."""
    return (1.0 - _SHARE) * (1.0 - threshold) / (1.0 - _DEFAULT)


@subkernel
def _similarity(found: Any, words: Any, numerals: Any, measure: Any, elsewhere: Any) -> Any:
    """The largest threshold at which the new words of a page are few and scattered enough. Another
    site (`elsewhere`) may put a headline of its own above the text."""
    counted = np.float64(max(1, min(words, base.LONG) if measure == NOVELTY else words))
    is_report = counted >= _REPORT and numerals >= _FIGURES
    share = (_WIDER if is_report else 1.0) * counted
    longest = _ROW_MOST_OF_REPORT if is_report else _ROW_MOST
    longest = min(longest, max(_ROW_LEAST, _ROW * share))
    new, frame = 0.5 * found[evidence.NEW], 0.5 * found[evidence.NEW_FRAME]
    counts = frame - 0.5 * found[evidence.NEW_HEADLINE] if elsewhere else frame
    used = max(new / (_BODY * share), (new + counts) / (_ALL * share))
    used = max(used, 0.5 * found[evidence.LONGEST] / longest)
    # A new sentence at the very beginning would otherwise be split by the end of the lead.
    used = max(used, max(frame, 0.5 * found[evidence.LONGEST_OF_ALL]) / _FRAME_MOST)
    used = max(used, counts / max(_FRAME_LEAST, _FRAME * counted))
    return max(0.0, 1.0 - (1.0 - _DEFAULT) * used)


@subkernel
def _is_held(size: Any, their_size: Any, share: Any, mistaken: Any, shingles: Any) -> Any:
    """Whether a page holds nearly all shingles of a shorter one."""
    spread = np.sqrt(mistaken * shingles) / max(1e-6, 1.0 - mistaken)
    holds = size > their_size and share * size + spread >= _HELD * their_size
    return holds and share * size - 2.0 * spread >= _SURELY_HELD * their_size


@subkernel
def _says_other_word(lacking: Any, more: Any) -> Any:
    """Whether one word in place of another is all that is new in a page. If the numbers of shingles
    differ by one, two words may have become one (imposed and introduced, proposed); that counts
    only if the word is at two places or more, as at one place it is as often an abbreviation."""
    return lacking > TRIPLE * abs(more) and abs(more) <= 1


@subkernel
def _fills_template(found: Any, size: Any, their_size: Any, shared: Any) -> Any:
    """Whether a page and another page of its host say different words in the same place."""
    more = abs(their_size - size)
    inner, outer = found[evidence.NEW] > 0, found[evidence.NEW_FRAME] > 0
    # A word at the beginning or end of a page is in fewer shingles, so one of them is enough.
    ending = outer and not inner and more <= _SLOT and their_size > shared
    shorter = min(size, their_size)
    slot = _SLOT if shorter < _FORM else _SLOT_OF_LONGER
    replaced = more == 0 or (more <= slot and their_size - shared >= _REPLACED)
    return shorter < base.LONG and (ending or (replaced and (inner or outer)))


@kernel(
    types.Tuple((F64, F64, I64, I64, U8))(
        _RECORDS, RI64_2, RI64, RI64, *[types.int64] * 6, *[types.int64] * 2, types.uint64,
        types.uint64, types.float64, types.int64, types.int64,
    )
)  # fmt: skip
def decide_by_evidence(
    candidates: Any, found: Any, figures: Any, turned: Any, size: Any, shingles: Any,
    compared: Any, words: Any, numerals: Any, title_words: Any, host: Any, title: Any, exact: Any,
    key: Any, threshold: Any, min_features: Any, measure: Any,
) -> Any:  # fmt: skip
    """Judge each candidate by its evidence: whether it makes the page a duplicate, and the reason.

    :param found: counts of :func:`~dedup_middleware.signature.evidence.examine`
    :param figures, turned: counts of
        :func:`~dedup_middleware.signature.comparison.differing_places`
    :param size, shingles, compared: numbers of the page's distinct shingles, of all its shingles,
        and of those among which the common ones were counted
    :param words, numerals, title_words: numbers of words, numerals and words of the title
    :param host, title, exact, key: hashes of the page
    :returns: for each candidate the similarity, the estimated Jaccard index and number of common
        shingles, the code of the reason, and whether the page holds nearly all its shingles
    """
    count = candidates.size
    similarities, jaccards, apart = np.empty(count), np.empty(count), np.empty(count)
    shared, codes = np.empty(count, np.int64), np.empty(count, np.int64)
    held = np.empty(count, np.uint8)
    # Repeated words do not make a page longer.
    counted = min(words, 2 * (size + words - shingles))
    has_title = title != 0
    for i in range(np.uint64(count)):
        stored = candidates[i]
        their_size = np.int64(stored.size)
        equal = stored.exact == exact and their_size == size
        mistaken = found[i, evidence.FALSE_POSITIVES] / 1e6
        rest = max(1e-6, 1.0 - mistaken)
        share = (found[i, evidence.COMMON] / max(1, compared) - mistaken) / rest
        share = 1.0 if equal else min(1.0, max(0.0, share))
        shared[i] = min(np.int64(np.rint(share * size)), their_size)
        jaccards[i] = shared[i] / max(1, size + their_size - shared[i])
        elsewhere = not _is_sibling(stored, host, key)
        similarity = _similarity(found[i], counted, numerals, measure, elsewhere)
        lacking = (1.0 - share) / (1.0 - (_SHARE_OF_SHORT if counted < _SHORT else _SHARE))
        similarity = min(similarity, max(0.0, 1.0 - (1.0 - _DEFAULT) * lacking))
        if measure == JACCARD:
            similarity = min(similarity, jaccards[i])
        if words < _TINY and their_size >= _LONGER and found[i, evidence.COMMON] < compared:
            similarity = 0.0
        similarity = 1.0 if equal else similarity
        similarities[i] = similarity
        is_other_title = found[i, evidence.NEW_TITLE] > _TITLE * title_words
        is_other_subject = has_title and stored.title != title
        is_other_subject = is_other_subject and found[i, evidence.NEW_SUBJECT] > 0
        titled = _is_other_title(stored, host, key, title)
        changed = found[i, evidence.NEW_VALUES] > 0 or figures[i] > 0
        changed |= numerals > _PLACED and found[i, evidence.LOOSE_VALUES] > 0
        # One full name is enough if it replaces as many words: the stored page is then no shorter.
        is_full = 2 * (size - their_size) <= found[i, evidence.NEW_FRAME]
        changed |= found[i, evidence.RENAMED] + is_full >= 2 * _RENAMED
        changed |= found[i, evidence.OTHER_SUBJECT] >= _SUBJECT
        # Copies have years and dates added, but yearly pages of one site differ only in them.
        changed |= _is_sibling(stored, host, key) and found[i, evidence.PUT_IN] > 0
        strict = similarity >= base.SAME_HOST and size >= base.LONG and not equal
        code = _first_code(
            equal and not is_other_title and not (titled and size < base.LONG),
            min(size, their_size) < min_features,
            similarity < threshold,
            changed,
            turned[i] > 0 or found[i, evidence.EXCHANGED] > 0,
            is_other_title or is_other_subject or (titled and not strict),
        )
        if (
            code == base.CONTAINED_CODE
            and _is_sibling(stored, host, key)
            and _fills_template(found[i], size, their_size, shared[i])
        ):
            code = base.COMMON_CODE
        if (
            code == base.CONTAINED_CODE
            and counted >= _SHORT
            and _says_other_word(found[i, evidence.OTHER_WORD], size - their_size)
        ):
            code = base.OTHER_FIGURES_CODE
        codes[i] = code
        apart[i] = similarity if code > base.CONTAINED_CODE else 0.0
        held[i] = (
            their_size >= min_features
            and not equal
            and _is_held(size, their_size, share, mistaken, compared)
            and figures[i] == 0
            and turned[i] == 0
            and found[i, evidence.EXCHANGED] == 0
        )
    _leave_out_common(candidates, host, key, threshold, similarities, apart, codes)
    return similarities, jaccards, shared, codes, held


# The bucket keys.

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


@subkernel
def _write_key(words: Any, at: Any, table: Any, value: Any) -> None:
    words[at] = table << _PREFIX | value >> _PREFIX_SHIFT
    words[at + _ONE] = value >> _SUFFIX_SHIFT & _SUFFIX


@kernel(U64(types.uint64, types.uint64, R64, R64))
def whole_page(key: Any, simhash: Any, bands: Any, anchors: Any) -> Any:
    """Bucket keys of a page in the tables of keys, SimHashes, bands and anchors.

    :param key: 64-bit hash of the document key
    :param simhash: 64 bits
    :param bands: uint64[B]
    :param anchors: uint64[a], distinct; of anchors that share a bucket only the first gets a key
    :returns: words of :class:`.BucketKeys`, uint64[2 * (5 + B + a)] at most
    """
    words = np.empty(2 * (1 + len(SIMHASH_TABLES) + bands.size + anchors.size), np.uint64)
    at = np.uint64(0)
    _write_key(words, at, _KEY, key)
    for i in range(_TABLES):
        at += _TWO
        turn = _PREFIX * i
        # In two steps, because a shift by 64 bits is undefined.
        turned = simhash << turn | (simhash >> _ONE) >> (_S63 - turn)
        words[at] = (_FIRST_SIMHASH + i) << _PREFIX | turned >> _PREFIX_SHIFT
        words[at + _ONE] = turned & _MASK48
    for i in range(np.uint64(bands.size)):
        at += _TWO
        _write_key(words, at, _FIRST_BAND + i, bands[i])
    first = at + _TWO
    for i in range(np.uint64(anchors.size)):
        at += _TWO
        _write_key(words, at, _FIRST_ANCHOR + (anchors[i] >> _S62), anchors[i] << _TWO)
        for before in range(first, at, 2):
            if words[before] == words[at]:
                at -= _TWO
                break
    return words[: at + _TWO].copy()
