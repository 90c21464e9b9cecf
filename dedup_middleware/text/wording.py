"""Wording of a page in text order: numerals with their positions, and anchors of clauses.

An **anchor** is the hash of a clause: the words between two punctuation marks, four at least; from
the eighth word on a clause ends behind the first word whose hash is a multiple of 8. In every
window the clause with the smallest hash is an anchor (winnowing: S. Schleimer, D. Wilkerson, A.
Aiken, SIGMOD 2003). A window is an eighth of a page, but at least three and at most eight clauses
in a row. The windows of an excerpt are no longer than those of its page, so an excerpt that has a
whole window of the page shares an anchor with it. The first three clauses are always anchors, since
leads are often sent on their own, and so are all clauses if there are at most twenty.

A **value** is the hash of a numeral, with the position of its word among the words of the page. A
numeral written in words (eight million) has the same value as in digits; an ordinal or a word such
as half is a value of its own. On a page of fewer than 60 words all words are values, and those of
names are marked: there a single name tells one product or report from another.

Numerals of a **time stamp**, a whole date and a time of day (2020-03-05 10:22), are ignored in the
first 16 and the last 10 words, where they say when a page was made.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base.jit import allocating_subkernel
from dedup_middleware.text.characters import CutText, Hashes, Places
from dedup_middleware.text.clauses import BEGINS
from dedup_middleware.text.figures import hash_spelt
from dedup_middleware.text.hashing import SHINGLE_BASE, SHINGLE_START, mix
from dedup_middleware.text.stamps import DATED, STAMP, YEAR

NO_NEWS: Final = 0  # hash of each word that says who reported something, and when
SHORT: Final = 60  # words; a page with fewer is short, and all its words are values
NAME: Final = 5  # sort of a value: a word of a name
WORD: Final = 6  # sort of a value: any other word of a short page
WINDOWS: Final = 8  # windows of a page, each with one clause that is an anchor
SHORTEST_WINDOW, LONGEST_WINDOW = 3, 8  # clauses
FEW_CLAUSES: Final = 20  # clauses; of up to so many each is an anchor
LEAD: Final = 3  # clauses at the beginning of a page that are always anchors
MOST_ANCHORS: Final = 128  # with bands and probes 251 buckets; Redis numbers them in a byte
_WINNOWED: Final = MOST_ANCHORS - LEAD
_LEAST: Final = 4  # least words of a clause; a shorter one is joined to the next
# Words; from _LONG on a clause ends behind the first word whose hash has no bit of _END, and at the
# latest behind the last of _LONGEST.
_LONG: Final = 8
_LONGEST: Final = 48
_END: Final = np.uint64(7)
_BEFORE_MONTH: Final = 4  # most characters between a day and its month


@allocating_subkernel
def locate_values(
    text: CutText, hashes: Hashes, numbers: NDArray[np.uint8], figures: Hashes, spans: Places,
    kinds: NDArray[np.uint8], names: Places, line: int, whole: np.uint64, keys: Hashes,
) -> tuple[Hashes, Places, NDArray[np.uint8]]:  # fmt: skip
    """Values of a page, the positions of their words, ascending, and their sorts.

    :param text: the words.
    :param hashes, numbers: of each word the hash, and whether it is a numeral written as a word (1)
        or a unit of time that says when (3).
    :param figures, spans, kinds: of each figure in text order the hash, its begin and end, and its
        sort if it is a year, in a date line or in a time stamp.
    :param names: begin and end of each name, in text order.
    :param line: end of the date line that begins the text; 0 if it has none.
    :param whole: one more value of the page, at its first word; 0 if there is none.
    """
    starts, count = text.starts, text.starts.size
    short = count < SHORT
    capacity = np.uint64(figures.size) + np.uint64(1)
    for word in range(np.uint64(count)):
        capacity += np.uint64(short) + np.uint64(numbers[word] != 0)
    values, positions = np.empty(capacity, np.uint64), np.empty(capacity, np.int32)
    sorts = np.empty(capacity, np.uint8)
    found, figure, name = np.uint64(0), np.uint64(0), 0
    end = np.int32(0)  # of the last figure
    if whole and count:
        values[0], positions[0], sorts[0] = whole, np.int32(0), np.uint8(0)
        found += np.uint64(1)
    for word in range(np.uint64(count)):
        is_last = word + np.uint64(1) == np.uint64(count)
        while figure < np.uint64(figures.size) and (
            is_last or spans[figure, 0] < starts[word + np.uint64(1)]
        ):
            values[found], positions[found] = figures[figure], np.int32(word)
            sorts[found] = kinds[figure]
            end = max(end, spans[figure, 1])
            found += np.uint64(1)
            figure += np.uint64(1)
        if not (short or numbers[word]):
            continue
        # Months, millions and days that belong to a figure are not values of their own.
        spelt = numbers[word] != 0 and starts[word] >= end
        of_line = starts[word] < line
        if spelt and numbers[word] == 1:
            first, last = np.int64(starts[word]), np.int64(text.ends[word])
            value, last = hash_spelt(text.codes, text.flags, first, last, keys)
            if value:
                values[found], positions[found] = value, np.int32(word)
                sorts[found] = np.uint8(DATED * of_line)
                end, spelt = np.int32(last), False
                found += np.uint64(1)
        while name < names.shape[0] and names[name, 1] <= starts[word]:
            name += 1
        in_name = name < names.shape[0] and names[name, 0] <= starts[word]
        values[found], positions[found] = hashes[word], np.int32(word)
        # The name behind the day of a date line is an agency; which one does not matter.
        agency = of_line and figures.size > 0 and spans[0, 0] < starts[word]
        # A month belongs to the time stamp whose day precedes it: 5 de marzo de 2020, 10:22.
        month = figure > 0 and kinds[figure - np.uint64(1)] == STAMP
        month = month and starts[word] - spans[figure - np.uint64(1), 1] <= _BEFORE_MONTH
        sort = DATED if of_line else STAMP if month else YEAR if numbers[word] > 1 else 0
        named = in_name and not agency
        sorts[found] = np.uint8(sort if spelt else NAME if named else WORD)
        found += np.uint64(spelt or short)
    return values[:found], positions[:found], sorts[:found]


@allocating_subkernel
def _clause_hashes(hashes: Hashes, cuts: NDArray[np.uint8], count: int, keys: Hashes) -> Hashes:
    """The hash of each clause of a page, in text order."""
    base, start = keys[SHINGLE_BASE], keys[SHINGLE_START]
    clauses, number = np.empty(np.uint64(count) // np.uint64(_LEAST) + np.uint64(1), np.uint64), 0
    value, words = start, 0
    for word in range(np.uint64(count)):
        if (cuts[word] & BEGINS and words >= _LEAST) or words >= _LONGEST:
            clauses[number] = mix(value)
            number += 1
            value, words = start, 0
        value = value * base + hashes[word]
        words += 1
        if words >= _LONG and hashes[word] & _END == np.uint64(0):
            clauses[number] = mix(value)
            number += 1
            value, words = start, 0
    if words >= (_LEAST if number else 1):
        clauses[number] = mix(value)
        number += 1
    return clauses[:number]


@allocating_subkernel
def find_anchors(hashes: Hashes, cuts: NDArray[np.uint8], count: int, keys: Hashes) -> Hashes:
    """The distinct anchors of a page, at most `MOST_ANCHORS`: those of windows and of the lead.

    :param hashes: of the words of the page.
    :param cuts: whether a clause begins before each word.
    :param count: number of words.
    """
    clauses = _clause_hashes(hashes, cuts, count, keys)
    number = clauses.size
    anchors, found = np.empty(MOST_ANCHORS, np.uint64), 0
    window = 1
    if number > FEW_CLAUSES:
        part = (number + WINDOWS - 1) // WINDOWS
        window = min(max(part, SHORTEST_WINDOW), LONGEST_WINDOW)
    for first in range(min(number, max(1, number - window + 1))):
        least = clauses[first]
        for i in range(first + 1, min(number, first + window)):
            least = min(least, clauses[i])
        if found == _WINNOWED and least >= anchors[found - 1]:
            continue
        at = found
        while at > 0 and anchors[at - 1] > least:
            at -= 1
        if at > 0 and anchors[at - 1] == least:
            continue
        found += 1 if found < _WINNOWED else 0
        for i in range(found - 1, at, -1):
            anchors[i] = anchors[i - 1]
        anchors[at] = least
    for i in range(min(number, LEAD)):
        is_there = False
        for at in range(found):
            is_there |= anchors[at] == clauses[i]
        if not is_there:
            anchors[found] = clauses[i]
            found += 1
    for i in range(np.uint64(found)):
        anchors[i] = mix(anchors[i] ^ keys[SHINGLE_START])  # the smallest hashes begin with zeros
    return anchors[:found]
