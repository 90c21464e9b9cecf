"""Lines of figures that say when a page was made, how often it was read, or a telephone number.

`5 min read`, `24 likes 13 shares`, `Tuesday, 3 November 2031`, `字数：320`, `Tel. 030 5550134`:
each site writes such lines around an article. A line is one if all of its words are in a list and
one of them is `STRONG`, if it is a date with a year, or a telephone number. So no line with a word
of its own is one, nor one with a currency or a percentage.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from dedup_middleware.base.jit import subkernel
from dedup_middleware.text.characters import FIRST_WIDE, Codes, code_set, word_lists
from dedup_middleware.text.numerals import among, is_digit, search, sorted_table
from dedup_middleware.text.stopwords import MONTHS

NEITHER, WEAK, STRONG, MONTH = 0, 1, 2, 3
_LONGEST: Final = 16  # letters of a word
_BASE: Final = 0x100000001B3
_MASK: Final = (1 << 63) - 1  # of a hash


def _hash(word: str) -> int:
    value = 0
    for letter in word:
        value = (value + ord(letter)) * _BASE & _MASK
    return value


def _sorts() -> dict[int, int]:
    lists = word_lists()
    sorts = dict.fromkeys(lists["beside"], WEAK) | dict.fromkeys(lists["counted"], STRONG)
    sorts |= dict.fromkeys([*MONTHS, *lists["short-months"]], MONTH)
    return {_hash(word): sort for word, sort in sorts.items()}


_WORDS, _SORTS = sorted_table(_sorts())
_THAI: Final = (0xE00, 0xE80)
# Ranges without letters: punctuation and symbols, and punctuation of Chinese and Japanese.
_NO_LETTERS: Final = ((0x2000, 0x2C00), (0x3000, 0x3040), (0x1F000, 0x20000))
_ARABIC_MARKS: Final = code_set("،؛؟×÷")
#: a line with one of these says what something costs, or by how much it rose
_VALUED: Final = code_set("$£¥€₩₹₽₺₴₪₫฿%‰<>=°★☆")
_PHONE_BEGINS: Final = code_set("+(0")
_PHONE_DIGITS: Final = 7
_DATE_FIGURES: Final = 3


@subkernel
def _is_letter(code: np.uint32) -> bool:
    """Whether a code point in normal form, no digit, is a letter or a mark of one."""
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
    """The sort of the longest listed word at i, and where it ends; `NEITHER` if there is none."""
    unspaced, value, sort, end = _is_unspaced(codes[i]), np.uint64(0), NEITHER, i
    j = i
    while j < last and j - i < _LONGEST and _is_letter(codes[j]):
        value = (value + np.uint64(codes[j])) * np.uint64(_BASE)
        j += 1
        if unspaced or j == last or not _is_letter(codes[j]):
            found = search(np.int64(value & np.uint64(_MASK)), _WORDS, _SORTS)
            if found != NEITHER:
                sort, end = found, j
    return sort, end


@subkernel
def is_stamp_line(codes: Codes, first: int, last: int, figures: int, year: bool) -> bool:
    """Whether the line from `first` to `last`, which has so many figures and perhaps a year among
    them, is about the page."""
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
