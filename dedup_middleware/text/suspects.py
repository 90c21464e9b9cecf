"""Finds the lines that may say nothing of a page's subject, by their first and last characters.

Lines are judged in Python, a microsecond each, which would take a third of a page's time for all of
them. So one kernel finds the few suspects. It may find too many, but misses none that `pagelines`
and `relevant` recognise, except lines with the kelvin sign in place of a k, and labels with more
than a hundred blanks: these stay.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base.jit import constant, kernel, subkernel
from dedup_middleware.base.kerneltypes import I32, R32, int64
from dedup_middleware.text.characters import Codes, code_points, code_set, find_code, word_lists
from dedup_middleware.text.chineselines import LONGEST as LONGEST_ROW
from dedup_middleware.text.chineselines import PAIRS, SENTENCE_ENDS, TAKEN
from dedup_middleware.text.credits import AGENCIES, CREDIT_ENDS
from dedup_middleware.text.edgelines import FIRST_IDEOGRAPH, SAID
from dedup_middleware.text.englishlines import ENDINGS
from dedup_middleware.text.foreignlines import ENDINGS as FOREIGN_ENDINGS
from dedup_middleware.text.numerals import among
from dedup_middleware.text.pageforms import NUMBERED
from dedup_middleware.text.pagelines import (
    AROUND,
    BEGINNINGS,
    BUTTONS,
    LONGEST,
    LONGEST_NUMBERS,
    OPENING,
    PAGE_ROWS,
)

_FORM, _NUMBERED, _LABEL, _END, _SAID = 1, 2, 4, 8, 16
_BITS: Final = 16  # bits of an index into the table
_BASE: Final = 0x9E3779B97F4A7C15
_FIRST_END: Final = 1  # start value of hashes of endings, to keep them apart from beginnings
_SHORTEST, _LONGEST_BEGINNING, _ENDING = 2, 4, 3  # characters
_LINE, _SPACE, _AT, _POINT, _SLASH, _CLOSED = map(ord, "\n @./)")
_COLON, _BAR, _DOT, _BULLET, _HASHTAG = map(ord, ":|·•#")
_BEHIND_LABEL: Final = code_set(":：|】]")
_I, _B, _U, _T, _O, _E, _RUSSIAN_O = map(ord, "ibutoeо")  # of "contributed"; "credit:", "фото:"
_BLANKS: Final = np.array(sorted(c for c in range(0x3001) if chr(c).isspace() and c > 32), np.int64)
_OPENINGS: Final = code_set(OPENING)
_AROUNDS: Final = code_set(AROUND)
_SENTENCE_ENDS: Final = code_set(SENTENCE_ENDS)
_IDEOGRAPHS: Final = (0x4E00, 0xA000)
_FIRST_IDEOGRAPH: Final = ord(FIRST_IDEOGRAPH)
_STOP: Final = ord("。")
_TAKEN: Final = code_set(TAKEN)
_CREDITED: Final = code_set(":/oOvV")  # one is in each caption: "photo", "video", "via"


def _pairs() -> NDArray[np.bool_]:
    """Hash table of the `PAIRS` of characters."""
    table = np.zeros(1 << 16, np.bool_)
    for first, second in map(tuple, PAIRS):
        table[(ord(first) << 5 ^ ord(second)) % table.size] = True
    return table


_PAIRS: Final = constant(_pairs)


def _hash(codes: Iterable[int], value: int = 0) -> int:
    for code in codes:
        value = (value + code) * _BASE & (1 << 64) - 1
    return value >> (64 - _BITS)


def _in_any_case(word: str) -> Iterable[str]:
    """All spellings of a lower-case word in which letters outside ASCII may be capitals, and i the
    Turkish one."""
    letters = (
        "iİ" if char == "i" else (char,) if char.isascii() else {char, char.upper()}
        for char in word
    )
    return map("".join, itertools.product(*letters))


def _make_table() -> NDArray[np.uint8]:
    """Table, by hash, of the kinds of words with which lines begin or end: of their first four
    characters, or the last three of an ending. Labels are whole lines or precede a colon. Of words
    that are said of pages (see `edgelines`) one is in the line, and begins with them."""
    kinds = [(_FORM, word) for word in BEGINNINGS]
    kinds += [(_NUMBERED, word) for word in NUMBERED.split()]
    kinds += [(_LABEL, label) for label in {*LABELS, *BUTTONS, *PAGE_ROWS, "more stories"}]
    kinds += [(_SAID, word) for word in SAID]
    table = np.zeros(1 << _BITS, np.uint8)
    for kind, word in kinds:
        for spelling in _in_any_case(word[:_LONGEST_BEGINNING]):
            table[_hash(map(ord, spelling))] |= kind
    for ending in (*AGENCIES, *ENDINGS, *FOREIGN_ENDINGS):
        table[_hash(map(ord, ending[-_ENDING:]), _FIRST_END)] |= _END
    return table


LABELS: Final = frozenset(word_lists()["labels"])
LONGEST_LABEL: Final = max(map(len, LABELS))
_LONGEST_SUSPECT: Final = max(LONGEST_LABEL, *map(len, BUTTONS))
_TABLE: Final = constant(_make_table)


@subkernel
def _small(code: np.uint32) -> np.uint64:
    """An ASCII letter in lower case."""
    capital = code - np.uint32(65) < np.uint32(26)
    return np.uint64(code) + np.uint64(32 * capital)


@subkernel
def _is_blank(code: int) -> bool:
    """Whether `str.strip` removes a character."""
    return 9 <= code <= 13 or 28 <= code <= 32 or (code > 32 and among(code, _BLANKS))


@subkernel
def _kinds(raw: Codes, first: int, last: int, begin: int) -> int:
    """Kinds in the table of all prefixes of raw[first:last], hashed from the value `begin` on."""
    value, found = np.uint64(begin), 0
    for i in range(first, last):
        value = (value + _small(raw[i])) * np.uint64(_BASE)
        if i - first + 1 >= _SHORTEST:
            found |= np.int64(_TABLE[value >> np.uint64(64 - _BITS)])
    return found


@subkernel
def _may_say_page(raw: Codes, first: int, last: int) -> bool:
    """Whether a word of a line begins like one that is said of pages."""
    before = False
    for i in range(first, last):
        small, code = _small(raw[i]), np.int64(raw[i])
        letter = small - np.uint64(97) < np.uint64(26) or 0xC0 <= code < _FIRST_IDEOGRAPH
        if letter and not before and i + _LONGEST_BEGINNING <= last:
            value = np.uint64(0)
            for k in range(i, i + _LONGEST_BEGINNING):
                value = (value + _small(raw[k])) * np.uint64(_BASE)
            if _TABLE[value >> np.uint64(64 - _BITS)] & _SAID:
                return True
        before = letter
    return False


@subkernel
def _has_credit(raw: Codes, first: int, last: int) -> bool:
    """Whether a line may be a caption with its credit in brackets, or begins with a number."""
    if last - first <= LONGEST_NUMBERS and raw[first] - np.uint32(48) < np.uint32(10):
        return True
    closed = False
    for i in range(max(first, last - CREDIT_ENDS), last):
        closed |= raw[i] == _CLOSED
    if closed:
        for i in range(first, last):
            if among(np.int64(raw[i]), _CREDITED):
                return True
    return False


@subkernel
def _may_be_address(raw: Codes, first: int, last: int) -> bool:
    point = False
    for i in range(first, last):
        if raw[i] >= 128 or raw[i] == _SPACE:
            return False
        point |= raw[i] == _SLASH or (raw[i] == _POINT and i + 1 < last)
    return point


@subkernel
def _may_be_row(raw: Codes, first: int, last: int, end: int) -> bool:
    """Whether a line is short, has an ideograph and a pair of `_pairs`, and no sentence unless
    it is a caption. `end` is the end of the line without surrounding characters."""
    if last - first > LONGEST_ROW or among(np.int64(raw[last - 1]), _SENTENCE_ENDS):
        return False
    ideograph, pair, stop, before = False, False, False, np.uint32(0)
    for i in range(np.uint64(first), np.uint64(last)):
        ideograph |= raw[i] - np.uint32(_IDEOGRAPHS[0]) < np.uint32(_IDEOGRAPHS[1] - _IDEOGRAPHS[0])
        stop |= raw[i] == _STOP
    if not ideograph or (stop and not among(np.int64(raw[end - 1]), _TAKEN)):
        return False
    for i in range(np.uint64(first), np.uint64(last)):
        pair |= _PAIRS[(before << np.uint32(5) ^ raw[i]) & np.uint32(_PAIRS.size - 1)]
        before = raw[i]
    return pair


@subkernel
def _colon(raw: Codes, first: int, last: int) -> int:
    """Index of the first colon, bar or closing bracket, or the end."""
    while first < last and not among(np.int64(raw[first]), _BEHIND_LABEL):
        first += 1
    return first


@subkernel
def _is_suspect(raw: Codes, first: int, last: int) -> bool:
    """Whether the line raw[first:last] has to be examined."""
    while first < last and _is_blank(np.int64(raw[first])):
        first += 1
    while first < last and _is_blank(np.int64(raw[last - 1])):
        last -= 1
    if first == last or last - first > LONGEST:
        return False
    end = last
    while first < end and among(np.int64(raw[end - 1]), _AROUNDS):
        end -= 1
    credited = _has_credit(raw, first, last) or (end > first and _may_be_row(raw, first, last, end))
    if among(np.int64(raw[first]), _OPENINGS):
        last = end
        while first < last and among(np.int64(raw[first]), _AROUNDS):
            first += 1
    found = _kinds(raw, first, min(first + _LONGEST_BEGINNING, last), 0)
    longest = first + _LONGEST_SUSPECT
    digit = end > first and (raw[end - 1] - np.uint32(48) < np.uint32(10) or raw[end - 1] >= 128)
    return (
        credited
        or raw[first] == _HASHTAG
        or found & _FORM != 0
        or (found & _NUMBERED != 0 and digit)
        or (found & _LABEL != 0 and _colon(raw, first, min(end, longest + 1)) <= longest)
        or _kinds(raw, max(first, last - _ENDING), last, _FIRST_END) & _END != 0
        or _may_be_address(raw, first, last)
    )


# All arrays are made in `suspects`.
@kernel(int64(R32, I32), check=False)
def _find(raw: Codes, lines: NDArray[np.int32]) -> int:
    """Write the numbers of the lines to examine; return how many there are. Of lines that only have
    a word said of pages the complement (~) is written."""
    found, line, i = 0, 0, 0
    while i <= raw.size:
        first, i, names = i, find_code(raw, np.uint32(_LINE), i), False
        one, two, begin, end = np.uint64(1), np.uint64(2), np.uint64(first), np.uint64(i)
        for k in range(begin, end):  # vectorised, as the next two
            names |= (raw[k] == _AT) | (raw[k] == _BAR) | (raw[k] == _DOT) | (raw[k] == _BULLET)
        for k in range(begin + one, end):  # a capital letter and its small one differ in a bit
            small = raw[k - one] | np.uint32(32)
            credit = (small == _T) | (small == _O) | (small == _E) | (small == _RUSSIAN_O)
            names |= (raw[k] == _COLON) & credit
        for k in range(begin + two, end):
            names |= (raw[k] == _U) & (raw[k - one] == _B) & (raw[k - two] == _I)
        if names or _is_suspect(raw, first, i):
            lines[found] = line
            found += 1
        elif i - first <= LONGEST and _may_say_page(raw, first, i):
            lines[found] = ~line
            found += 1
        line += 1
        i += 1
    return found


def suspects(text: str) -> tuple[list[int], set[int]]:
    """The numbers of the lines to examine, ascending; and of these and others that may have a word
    said of pages (see `edgelines`)."""
    lines = np.empty(text.count("\n") + 1, np.int32)
    found: list[int] = lines[: _find(code_points(text), lines)].tolist()
    examined = [line for line in found if line >= 0]
    return examined, {*examined, *(~line for line in found if line < 0)}
