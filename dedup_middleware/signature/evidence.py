"""Evidence of a stored page: which words of another page it holds, and where new ones stand.

It is a filter (:mod:`.ribbon`) of the hashes of the page's shingles and numerals and, if the page
is short, of its words and those of its title. The wording of another page is compared
with it: each of its shingles is in the stored page or is not, so the words that are in no common
shingle are new, and where they stand is known. How long the stored page is makes no difference.

A filter reports 6 % of the shingles that a page lacks as held (false positives). A shingle
therefore counts as common only if one near it is common too. Numerals are entered twice, which
lowers their rate of false positives to .4 %.

The bytes: one that says how shingles were sampled (a page of more than 8,192 enters one in 2, in 4,
in 8, ..., chosen by their hashes) and whether the words of the title are in it, then the filter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base import kerneltypes as types
from dedup_middleware.base.jit import kernel, subkernel
from dedup_middleware.base.kerneltypes import R8, R64, RI64, U8
from dedup_middleware.model.fingerprint import Wording
from dedup_middleware.signature.evidence_columns import (
    COMMON,
    FALSE_POSITIVES,
    LONGEST,
    LOOSE_VALUES,
    NEW,
    NEW_FRAME,
    NEW_TITLE,
    NEW_VALUES,
)
from dedup_middleware.signature.ribbon import (
    COLUMNS,
    PADDING,
    count_bytes,
    enter,
    holds,
    is_filter,
    solve,
)
from dedup_middleware.signature.ribbon import FALSE_POSITIVES as MISTAKEN
from dedup_middleware.text.figures import DATED, STAMP, YEAR
from dedup_middleware.text.hashing import mix
from dedup_middleware.text.wording import NAME, WORD

MOST: Final = 8192  # shingles of a page that are entered
LEAD: Final = 16  # words at the beginning, and
TAIL: Final = 10  # at the end of a page that say where it comes from; of a short page fewer
FRAME: Final = 6  # of so many words one is in the lead at the most
_NEAR: Final = 3  # shingles on each side of which one more must be common
_STAMPED: Final = 60  # words of a page whose lead or tail may say when it was made
_SAMPLED: Final = 4  # shingles of a page in the sample of a longer one that say something of all
_MISTAKEN: Final = round(1e6 * MISTAKEN)
_LEVEL: Final = np.uint8(0x3F)  # of the first byte
_TITLED: Final = np.uint8(0x40)
_YEARS: Final = np.uint8(0x80)
_LEVEL_SHIFT: Final = np.uint64(58)
_VALUE: Final = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F))
_TITLE: Final = (np.uint64(0x165667B19E3779F9), np.uint64(0xD6E8FEB86659FD93))
_ONE: Final = np.uint64(1)
_R32I: Final = types.Array(types.int32, 1, readonly=True)
_COLUMNS: Final = 8


def make_evidence(wording: Wording) -> bytes:
    """The evidence of a page.

    None of a page with more than ``MOST`` values, which would be too long for an index: only an
    equal text is a copy of it.
    """
    if len(wording.values) > MOST:
        return b""
    order = wording.order
    if len(order) > MOST:
        order = np.unique(order)  # each is entered once, so a sample of them keeps more
    made: bytes = _fill(order, wording.values, wording.sorts, wording.title).tobytes()
    return made


def examine(wording: Wording, evidence: Sequence[bytes]) -> NDArray[np.int64]:
    """Compare the wording of a page with the evidence of n others, int64[n, 8].

    The columns count, of the page:

    * ``COMMON``: shingles that the other one holds
    * ``NEW``: new words between lead and tail
    * ``LONGEST``: words of the longest passage of mostly new words there: one more for each new
      shingle, one less for each common one
    * ``NEW_FRAME``: new words in lead and tail
    * ``NEW_VALUES``: numerals and new words of names that the other one has nowhere
    * ``LOOSE_VALUES``: numerals between lead and tail that replace something, one new word or two
      in a row; those of the date line do not count
    * ``NEW_TITLE``: words of the title that the other title lacks, -1 if either has none
    * ``FALSE_POSITIVES``: of a million shingles those that are taken for common ones by mistake

    Without evidence, or with evidence that no page can have, everything is new.
    """
    lengths = np.array([0, *map(len, evidence)], np.int64)
    found: NDArray[np.int64] = _examine(
        wording.order,
        wording.words,
        wording.values,
        wording.positions,
        wording.sorts,
        wording.title,
        np.frombuffer(b"".join((*evidence, bytes(PADDING))), np.uint8),
        np.cumsum(lengths),
    )
    return found


@subkernel
def _is_sampled(value: Any, level: Any) -> Any:
    return (value >> _LEVEL_SHIFT) & ((_ONE << np.uint64(level)) - _ONE) == np.uint64(0)


@kernel(U8(R64, R64, R8, R64))
def _fill(order: Any, values: Any, sorts: Any, title: Any) -> Any:
    level, count = 0, np.int64(order.size)
    while count >> level > MOST:
        level += 1
    size = count_bytes((count >> level) + 2 * (values.size + title.size))
    out = np.zeros(1 + size, np.uint8)
    rows = np.zeros(8 * size // COLUMNS, np.uint64)
    out[0] = np.uint8(level) | (_TITLED if title.size else np.uint8(0))
    for i in range(np.uint64(order.size)):
        if _is_sampled(order[i], level):
            enter(rows, order[i])
    for i in range(np.uint64(values.size)):
        enter(rows, mix(values[i] ^ _VALUE[0]))
        enter(rows, mix(values[i] ^ _VALUE[1]))
        out[0] |= _YEARS if sorts[i] == YEAR else np.uint8(0)
    for i in range(np.uint64(title.size)):
        enter(rows, mix(title[i] ^ _TITLE[0]))
        enter(rows, mix(title[i] ^ _TITLE[1]))
    solve(rows, out[1:])
    return out


@subkernel
def _mark_common(order: Any, data: Any, start: Any, size: Any, level: Any, common: Any) -> Any:
    """Write whether the other page holds each shingle; how many of all it holds.

    One that is not in the sample counts as the one before it, those before the first as that; none
    is common if fewer than `_SAMPLED` are in the sample, which would say nothing of the others.
    """
    held, total, begun = np.uint8(0), 0, level == 0
    if level:
        sampled = 0
        for i in range(np.uint64(order.size)):
            sampled += np.int64(_is_sampled(order[i], level))
        if sampled < _SAMPLED:
            common[:] = np.uint8(0)
            return 0
    for i in range(np.uint64(order.size)):
        if level == 0 or _is_sampled(order[i], level):
            held = holds(data, start, size, order[i])
            if not begun:
                begun = True
                for k in range(i):
                    common[k] = held
                total += np.int64(i) * np.int64(held)
        common[i] = held
        total += np.int64(held)
    return total


@subkernel
def _is_alone(common: Any, shingle: Any) -> Any:
    """Whether no other shingle near one is common, so that it may be a false positive."""
    if common.size <= _NEAR:
        return False
    others = 0
    for i in range(max(0, shingle - _NEAR), min(common.size, shingle + _NEAR + 1)):
        others += np.int64(common[i])
    return others < 2


@subkernel
def _is_replaced(is_new: Any, word: Any) -> Any:
    """Whether a word is new, alone or with one other new word next to it."""
    first, last = max(0, word - 2), min(is_new.size, word + 3)
    before, behind = 0, 0
    while word - before - 1 >= first and is_new[word - before - 1]:
        before += 1
    while word + behind + 1 < last and is_new[word + behind + 1]:
        behind += 1
    return is_new[word] != 0 and before + behind <= 1


@subkernel
def _is_of_date_line(values: Any, sorts: Any, value: Any) -> Any:
    """Whether the date line of the page has a numeral: the day of the report, said again."""
    said = False
    for i in range(values.size):
        said |= sorts[i] == DATED and values[i] == value
    return said


@subkernel
def _count_values(
    values: Any, positions: Any, sorts: Any, data: Any, start: Any, size: Any, head: Any,
    is_new: Any, lead: Any, tail: Any, found: Any,
) -> None:  # fmt: skip
    """Count the numerals and names that the filter lacks, and numerals that replace others."""
    for i in range(values.size):
        word = np.int64(positions[i])
        inside = lead <= word < tail
        # A year that an agency adds to its dates is no news; one that replaces another is.
        if sorts[i] == DATED or (sorts[i] == YEAR and not head & _YEARS):
            continue
        if sorts[i] == STAMP and not inside and is_new.size >= _STAMPED:
            continue
        if sorts[i] == WORD or (sorts[i] == NAME and not is_new[word]):
            continue
        held = holds(data, start, size, mix(values[i] ^ _VALUE[0]))
        held &= holds(data, start, size, mix(values[i] ^ _VALUE[1]))
        found[NEW_VALUES] += np.int64(held == 0)
        if sorts[i] == NAME:
            continue
        if inside and _is_replaced(is_new, word):
            found[LOOSE_VALUES] += np.int64(not _is_of_date_line(values, sorts, values[i]))


@kernel(types.I64_2(R64, types.int64, R64, _R32I, R8, R64, R8, RI64))
def _examine(
    order: Any,
    words: Any,
    values: Any,
    positions: Any,
    sorts: Any,
    title: Any,
    data: Any,
    ends: Any,
) -> Any:
    count = ends.size - 1
    found = np.zeros((count, _COLUMNS), np.int64)
    shingles = np.int64(order.size)
    common, is_new = np.empty(shingles, np.uint8), np.empty(words, np.uint8)
    width = words - shingles + 1
    lead, tail = min(LEAD, words // FRAME), words - min(TAIL, words // FRAME)
    for row in range(count):
        start = np.uint64(ends[row]) + _ONE
        size = ends[row + 1] - ends[row] - 1
        if not is_filter(size):
            found[row, NEW], found[row, LONGEST] = words, words
            found[row, NEW_VALUES], found[row, NEW_TITLE] = values.size, -1
            continue
        head = data[start - _ONE]
        level = np.int64(head & _LEVEL)
        found[row, COMMON] = _mark_common(order, data, start, size, level, common)
        found[row, FALSE_POSITIVES] = _MISTAKEN
        until, passage = 0, 0
        for word in range(words):
            if word < shingles and common[word] and not _is_alone(common, word):
                until = word + width
            new = word >= until
            is_new[word] = new
            in_frame = word < lead or word >= tail
            found[row, NEW] += np.int64(new and not in_frame)
            found[row, NEW_FRAME] += np.int64(new and in_frame)
            if word < shingles and word >= lead and word + width <= tail:
                # The largest sum of a stretch, where a common shingle cancels a new one.
                passage = max(0, passage + (-1 if common[word] else 1))
                found[row, LONGEST] = max(found[row, LONGEST], passage - width + 1)
        _count_values(
            values, positions, sorts, data, start, size, head, is_new, lead, tail, found[row]
        )
        found[row, NEW_TITLE] = 0 if title.size and head & _TITLED else -1
        if found[row, NEW_TITLE] == 0:
            for i in range(title.size):
                held = holds(data, start, size, mix(title[i] ^ _TITLE[0]))
                held &= holds(data, start, size, mix(title[i] ^ _TITLE[1]))
                found[row, NEW_TITLE] += np.int64(held == 0)
    return found
