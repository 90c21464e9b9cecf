"""Stamps: dates, times and counts that say when a page was made, and how often it was read.

A reprint has another time stamp or number of comments than its original, so figures in them are
marked, and the rules that compare pages leave them out.

A **stamp line** says when a page was made or how often it was read, or is a telephone number: `5
min read`, `24 likes 13 shares`, `Tuesday, 3 November 2031`, `字数：320`, `Tel. 030 5550134`. Either
all of its words are listed and one of them is `STRONG`, or it is a date with a year, or a telephone
number. So a line with an unlisted word, a currency or a percentage is no stamp line.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base.jit import subkernel
from dedup_middleware.text import numerals
from dedup_middleware.text.characters import FIRST_WIDE, Codes, code_set, word_lists
from dedup_middleware.text.clauses import MONTHS
from dedup_middleware.text.numerals import (
    add_letter,
    among,
    at,
    is_digit,
    pack,
    packed,
    search,
    sorted_table,
)
from dedup_middleware.text.signs import PLAIN

# Sorts of figures of dates.
YEAR: Final = 1  # a number that may be a year
DATED: Final = 2  # a figure in a date line, its day repeated, or the number of an item (第一，)
STAMP: Final = 3  # a figure of a time stamp
BRACKETED: Final = 4  # a month or a day in brackets behind a day of the week

NEITHER, WEAK, STRONG, MONTH = 0, 1, 2, 3
_LONGEST: Final = 16  # most letters of a listed word


def _sorts() -> dict[int, int]:
    lists = word_lists()
    sorts = dict.fromkeys(lists["allowed"], WEAK) | dict.fromkeys(lists["counted"], STRONG)
    sorts |= dict.fromkeys([*MONTHS, *lists["short-months"]], MONTH)
    return {pack(word): sort for word, sort in sorts.items()}


_WORDS, _SORTS = sorted_table(_sorts())
_THAI: Final = (0xE00, 0xE80)
# Ranges without letters: punctuation and symbols, and punctuation of Chinese and Japanese.
_NO_LETTERS: Final = ((0x2000, 0x2C00), (0x3000, 0x3040), (0x1F000, 0x20000))
_ARABIC_MARKS: Final = code_set("،؛؟×÷")
#: characters of prices and changes, which no stamp line has
_VALUED: Final = code_set("$£¥€₩₹₽₺₴₪₫฿%‰<>=°★☆")
_PHONE_BEGINS: Final = code_set("+(0")
_PHONE_DIGITS: Final = 7
_DATE_FIGURES: Final = 3


@subkernel
def _is_letter(code: np.uint32) -> bool:
    """Whether a code point in normal form, not a digit, is a letter or a mark on one."""
    if code < np.uint32(0xC0):
        return code - np.uint32(97) < np.uint32(26)
    letter = not among(np.int64(code), _ARABIC_MARKS)
    for first, last in _NO_LETTERS:
        letter &= not np.uint32(first) <= code < np.uint32(last)
    return letter


@subkernel
def _is_unspaced(code: np.uint32) -> bool:
    """Whether a letter is of a script that writes words without spaces, or joins them (Hangul)."""
    thai = np.uint32(_THAI[0]) <= code < np.uint32(_THAI[1])
    return thai or code >= np.uint32(FIRST_WIDE)


@subkernel
def _read_word(codes: Codes, i: int, last: int) -> tuple[int, int]:
    """Sort and end of the longest listed word at i; the sort is `NEITHER` if there is none."""
    unspaced, value, sort, end = _is_unspaced(codes[i]), np.uint64(0), NEITHER, i
    j = i
    while j < last and j - i < _LONGEST and _is_letter(codes[j]):
        value = add_letter(value, codes[j])
        j += 1
        if unspaced or j == last or not _is_letter(codes[j]):
            found = search(packed(value), _WORDS, _SORTS)
            if found != NEITHER:
                sort, end = found, j
    return sort, end


@subkernel
def is_stamp_line(codes: Codes, first: int, last: int, figures: int, year: bool) -> bool:
    """Whether the line from `first` to `last` is a stamp line; `figures` is the number of its
    figures, and `year` whether one of them is a year."""
    strong, month, words, digits, i = False, False, 0, 0, first
    while i < last:
        if is_digit(codes, i):
            digits += 1
            i += 1
        elif not _is_letter(codes[i]):
            if among(np.int64(codes[i]), _VALUED):
                return False
            i += 1
        else:
            sort, i = _read_word(codes, i, last)
            if sort == NEITHER:
                return False
            words += 1
            strong |= sort == STRONG
            month |= sort == MONTH
    phone = words == 0 and digits >= _PHONE_DIGITS and among(np.int64(codes[first]), _PHONE_BEGINS)
    return strong or phone or (year and (month or figures >= _DATE_FIGURES))


MOST_FIGURES: Final = 4  # of a date: day, year, and a month that may be read twice
FULL_STOP, NEW_LINE = map(ord, ".\n")
_COLON, _M, _COPYRIGHT_SIGN, _EDITION = map(ord, ":m©版")
_LONGEST_STAMP: Final = 40  # characters of a date and a time with which the text begins
_STAMP_ENDS: Final = code_set(".,;|-–—\n")
_LAST_HOUR, _SIX, _MINUTES = 24, ord("6"), 60
_COUNT_LINE: Final = 24  # most characters of a line with the number of comments
_STAMP_LINE: Final = 80  # most characters of a line with the time at which a page was made
_NOON: Final = code_set("ap")
_COPYRIGHT: Final = pack("copyright")
_MIN: Final = pack("min")
_SENTENCE_ENDS: Final = code_set(".!?。")
_LONGEST_PREFIX: Final = 16


def prefixes_of(name: str) -> NDArray[np.uint32]:
    """The listed prefixes as rows of code points, padded with zeros."""
    rows = [list(map(ord, word)) for word in word_lists()[name]]
    return np.array([row + [0] * (_LONGEST_PREFIX - len(row)) for row in rows], np.uint32)


@subkernel
def begins_with(codes: Codes, i: int, prefixes: NDArray[np.uint32]) -> bool:
    """Whether the text at i begins with one of the prefixes."""
    for row in range(prefixes.shape[0]):
        size = 0
        while size < _LONGEST_PREFIX and prefixes[row, size] != 0:
            if at(codes, i + size) != np.int64(prefixes[row, size]):
                break
            size += 1
        if size == _LONGEST_PREFIX or prefixes[row, size] == 0:
            return True
    return False


_PUBLISHED, _COUNTED = map(prefixes_of, ("published", "counted-behind"))


@subkernel
def _is_copyright(codes: Codes, first: int) -> bool:
    """Whether a copyright sign or word precedes a number."""
    i = first
    while i > 0 and first - i < 3 and at(codes, i - 1) in (32, 44):
        i -= 1
    before = at(codes, i - 1)
    return before == _COPYRIGHT_SIGN or numerals.word_before(codes, i)[0] == _COPYRIGHT


@subkernel
def _ends_with_minutes(codes: Codes, last: int) -> bool:
    """Whether a line ends as in `Lesedauer 3 Min.`"""
    word = at(codes, last - 1) == FULL_STOP and numerals.word_before(codes, last - 1)[0] == _MIN
    return word and at(codes, last - 5) == 32 and numerals.is_digit(codes, last - 6)


@subkernel
def _line_around(codes: Codes, i: int) -> tuple[int, int]:
    """Begin and end of the line of the character at `i`; (i, i) if long or a sentence."""
    first, last, long = i, i, i > _STAMP_LINE
    if long:  # vectorised check: most lines are long
        for k in range(np.uint64(i - _STAMP_LINE - 1), np.uint64(i)):
            long &= codes[k] != NEW_LINE
        if long:
            return i, i
    while first > 0 and codes[first - 1] != NEW_LINE and last - first <= _STAMP_LINE:
        first -= 1
    while last < codes.size and codes[last] != NEW_LINE and last - first <= _STAMP_LINE:
        last += 1
    noon = at(codes, last - 1) == FULL_STOP and at(codes, last - 2) == _M  # a.m.
    noon = noon and at(codes, last - 3) == FULL_STOP and among(at(codes, last - 4), _NOON)
    ends = among(at(codes, last - 1), _SENTENCE_ENDS) and not noon
    ends &= not _ends_with_minutes(codes, last)
    if last - first > _STAMP_LINE or ends:
        return i, i
    return first, last


@subkernel
def _is_time(codes: Codes, rows: NDArray[np.int64], row: int) -> bool:
    """Whether a figure and the next one are a time of day, 10:25."""
    colon = rows[row, 4]
    minutes = at(codes, colon) == _COLON and rows[row + 1, 3] == colon + 1
    minutes &= numerals.is_digit(codes, colon + 1) and numerals.is_digit(codes, colon + 2)
    if not minutes or numerals.is_digit(codes, colon + 3) or not 0 <= rows[row, 1] <= 1:
        return False
    return rows[row, 0] * 10 ** rows[row, 1] <= _LAST_HOUR and codes[colon + 1] < _SIX


@subkernel
def _mark_lines(codes: Codes, rows: NDArray[np.int64], kinds: NDArray[np.uint8]) -> None:
    """Mark the years of copyright notices and the figures of stamp lines, `Published: 4 March
    2024` and `25 comments` included."""
    for row in range(rows.shape[0]):
        if kinds[row] == YEAR and _is_copyright(codes, rows[row, 3]):
            kinds[row] = STAMP
            following = row + 1 < rows.shape[0] and rows[row + 1, 3] - rows[row, 4] <= 3
            if following and kinds[row + 1] == YEAR:  # 2019-2024
                kinds[row + 1] = STAMP
    row = 0
    while row < rows.shape[0]:
        first, last = _line_around(codes, rows[row, 3])
        behind, plain, year = row + 1, True, False
        if first < last:
            behind = row
        while behind < rows.shape[0] and rows[behind, 3] < last and first < last:
            small = rows[behind, 1] <= 1 and rows[behind, 0] * 10 ** rows[behind, 1] < _MINUTES
            year |= kinds[behind] == YEAR
            plain &= rows[behind, 1] >= 0 and rows[behind, 2] == PLAIN
            plain &= small or kinds[behind] == YEAR
            behind += 1
        counted = behind == row + 1 and rows[row, 3] == first and last - first <= _COUNT_LINE
        space = rows[row, 4] + 1 if at(codes, rows[row, 4]) == 32 else rows[row, 4]
        counted = counted and begins_with(codes, space, _COUNTED)
        dated = year and plain and begins_with(codes, first, _PUBLISHED)
        about = first < last and (
            dated or counted or is_stamp_line(codes, first, last, behind - row, year)
        )
        if about:
            for i in range(row, behind):
                kinds[i] = STAMP if kinds[i] != DATED else kinds[i]
        row = max(behind, row + 1)


@subkernel
def _mark_first(codes: Codes, rows: NDArray[np.int64], kinds: NDArray[np.uint8]) -> None:
    """Mark the date and time that begin a text: `5 марта 2020, 14:35.`"""
    if rows.shape[0] == 0 or rows[0, 3] > 0:
        return
    year = False
    for row in range(min(rows.shape[0] - 1, MOST_FIGURES + 1)):
        if year and _is_time(codes, rows, row) and rows[row + 1, 4] <= _LONGEST_STAMP:
            space = rows[row + 1, 4] + 1 if at(codes, rows[row + 1, 4]) == 32 else rows[row + 1, 4]
            if among(at(codes, space), _STAMP_ENDS):
                for i in range(row + 2):
                    kinds[i] = STAMP
            return
        year |= kinds[row] == YEAR


@subkernel
def _mark_edition(rows: NDArray[np.int64], kinds: NDArray[np.uint8], row: int) -> None:
    """Mark the figure of a newspaper's page and the date before it. 5.3版 alone is a version."""
    first, dated = row, False
    while first > 0 and row - first < 4 and rows[first, 3] - rows[first - 1, 4] <= 5:
        first -= 1
        dated |= kinds[first] == YEAR
    for i in range(first, row + 1 if dated else first):
        kinds[i] = STAMP


@subkernel
def mark_stamps(codes: Codes, rows: NDArray[np.int64], kinds: NDArray[np.uint8]) -> None:
    """Mark the figures of time stamps.

    A stamp is three adjacent figures, one of them a year, followed by two with a colon between
    them, as in 2020-03-05 10:22 and 3/5/2020, 10:22:00; or a newspaper page behind a date, as in
    2006年05月01日 星期一 第05版. All figures of a short line with a time of day belong to its
    stamp: `14 March, 10:25 | 12 comments`.
    """
    for row in range(rows.shape[0]):
        if at(codes, rows[row, 4]) == _EDITION:
            _mark_edition(rows, kinds, row)
    for row in range(rows.shape[0] - 4):
        joined, year = True, False
        for i in range(row, row + 3):
            joined = joined and rows[i + 1, 3] - rows[i, 4] <= 2
            year = year or kinds[i] == YEAR
        colon = rows[row + 4, 3] == rows[row + 3, 4] + 1 and codes[rows[row + 3, 4]] == _COLON
        if not (joined and year and colon):
            continue
        last = row + 4
        if last + 1 < rows.shape[0] and rows[last + 1, 3] == rows[last, 4] + 1:
            last += 1 if codes[rows[last, 4]] == _COLON else 0
        for i in range(row, last + 1):
            kinds[i] = STAMP
    _mark_lines(codes, rows, kinds)
    _mark_first(codes, rows, kinds)
    for row in range(rows.shape[0] - 1):
        if not _is_time(codes, rows, row):
            continue
        first, last = _line_around(codes, rows[row, 3])
        i = row
        while i >= 0 and rows[i, 3] >= first and first < last:
            kinds[i] = STAMP if kinds[i] != DATED else kinds[i]
            i -= 1
        i = row + 1
        while i < rows.shape[0] and rows[i, 4] <= last and first < last:
            kinds[i] = STAMP if kinds[i] != DATED else kinds[i]
            i += 1
