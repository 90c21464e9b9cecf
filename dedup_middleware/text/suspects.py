"""Finds the lines that may say nothing of a page's subject, by their first and last characters.

Lines are judged in Python, which takes tens of microseconds each, longer than all else. So one
kernel finds the few suspects. It may find too many, but misses none that `pagelines` and `relevant`
recognise, except list items, lines with the kelvin sign in place of a k, labels with more than a
hundred blanks, and Chinese buttons behind a section and a dot (A股·分享): these stay.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base.jit import constant, kernel, subkernel
from dedup_middleware.base.kerneltypes import I32, R32, int64
from dedup_middleware.text.characters import (
    BEGINNING,
    Codes,
    code_points,
    code_set,
    find_code,
    word_lists,
)
from dedup_middleware.text.chineselines import LONGEST as LONGEST_ROW
from dedup_middleware.text.chineselines import PAIRS, SENTENCE_ENDS, TAKEN
from dedup_middleware.text.credits import AGENCIES, CREDIT_ENDS
from dedup_middleware.text.edgelines import FIRST_IDEOGRAPH, SAID
from dedup_middleware.text.englishlines import ENDINGS
from dedup_middleware.text.foreignlines import AROUND as AROUND_FOREIGN
from dedup_middleware.text.foreignlines import ENDINGS as FOREIGN_ENDINGS
from dedup_middleware.text.numerals import among
from dedup_middleware.text.pageforms import NUMBERED
from dedup_middleware.text.pagelines import (
    AROUND,
    AROUND_ENGLISH,
    BEGINNINGS,
    BUTTONS,
    LONGEST,
    LONGEST_NUMBERS,
    OPENING,
    PAGE_ROWS,
)

# Kinds of words in the table; BEGIN is the beginning of a label.
_FORM, _NUMBERED, _LABEL, _END, _SAID, _BEGIN, _MORE = (1 << bit for bit in range(7))
_BITS: Final = 16  # bits of an index into the table
_TAG: Final = 0xFF00  # bits of an entry that tell words with one index apart; 0 is any word
_BASE: Final = 0x9E3779B97F4A7C15
_FIRST_END: Final = 1  # start value of hashes of endings, to keep them apart from beginnings
_SHORTEST, _LONGEST_END, _OF_WORD = 2, 8, 4  # characters
_CASED: Final = 0x2500  # no word of the lists has a capital letter above
_LINE, _SPACE, _AT, _POINT, _SLASH, _CLOSED = map(ord, "\n @./)")
_COLON, _BAR, _DOT, _BULLET, _HASHTAG = map(ord, ":|·•#")
_BEHIND_LABEL: Final = code_set(":：|】]")
# "contribu", and the ends of the words of `credits.CREDITING` with a small о in two alphabets
_N, _R, _I, _B, _U, _E, _G, _T, _O, _RUSSIAN_O = map(ord, "nribuegtoо")
_BLANKS: Final = np.array(sorted(c for c in range(0x3001) if chr(c).isspace() and c > 32), np.int64)
_OPENINGS: Final = code_set(OPENING)
_AROUNDS: Final = code_set(AROUND)
# Not those of list items: they may be what a page is about.
_MARKS: Final = code_set("".join({*AROUND_ENGLISH, *AROUND_FOREIGN} - {*"-–*"}))
_SENTENCE_ENDS: Final = code_set(SENTENCE_ENDS)
_HAN, _ALL_HAN = np.uint32(0x4E00), np.uint32(0x5200)
_CYRILLIC: Final = (ord("а"), ord("ѐ"))
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
    return value


def _folding() -> NDArray[np.uint16]:
    """The small letter of each character; that of the Turkish İ is i, that of ς is σ."""
    lower = [chr(code).lower()[0] for code in range(_CASED)]
    return np.array([ord("σ" if char == "ς" else char) for char in lower], np.uint16)


_FOLDING: Final = constant(_folding)


def _make_table() -> NDArray[np.uint16]:
    """Table, by hash, of the kinds of words with which lines begin or end: of their first twelve
    characters, the last eight of an ending (from the end on), and of whole labels. Of words that
    are said of pages (see `edgelines`) one is in the line, and begins with four characters."""
    labels = {*LABELS, *BUTTONS, *PAGE_ROWS}
    beginnings = [(_FORM, word) for word in BEGINNINGS]
    beginnings += [(_NUMBERED, word) for word in NUMBERED.split()]
    beginnings += [(_BEGIN, label[:_OF_WORD]) for label in labels]
    beginnings += [(_SAID, word[:_OF_WORD]) for word in SAID]
    endings = {word[: -_LONGEST_END - 1 : -1] for word in (*AGENCIES, *ENDINGS, *FOREIGN_ENDINGS)}
    words = [
        (_MORE, "more", 0),
        *((kind, word[:BEGINNING], 0) for kind, word in beginnings),
        *((_LABEL, label, 0) for label in labels),
        *((_END, ending, _FIRST_END) for ending in endings),
    ]
    folding, table = _folding(), np.zeros(1 << _BITS, np.uint16)
    for kind, word, start in words:
        codes = (int(folding[ord(c)]) if ord(c) < _CASED else ord(c) for c in word)
        value = _hash(codes, start)
        place, tag = value >> (64 - _BITS), _tag(value)
        other = int(table[place])
        table[place] = kind | other & ~_TAG | (tag if not other or tag == other & _TAG else 0)
    return table


def _tag(value: int) -> int:
    return value >> (48 - _BITS) & _TAG | 0x100


LABELS: Final = frozenset(word_lists()["labels"])
LONGEST_LABEL: Final = max(map(len, LABELS))
_TABLE: Final = constant(_make_table)


@subkernel
def _small(code: np.uint32) -> np.uint64:
    """A letter in lower case."""
    return np.uint64(_FOLDING[code]) if code < np.uint32(_CASED) else np.uint64(code)


@subkernel
def _kinds_of(value: np.uint64) -> int:
    """Kinds of the words with a hash; 0 if there are none."""
    entry = np.uint64(_TABLE[value >> np.uint64(64 - _BITS)])
    tag = entry & np.uint64(_TAG)
    own = value >> np.uint64(48 - _BITS) & np.uint64(_TAG) | np.uint64(0x100)
    return np.int64(entry & ~np.uint64(_TAG)) if tag == np.uint64(0) or tag == own else 0


@subkernel
def _is_letter(code: np.uint32) -> bool:
    """Whether a character is a letter or a digit, so that no label ends with it."""
    small = _small(code)
    return (
        small - np.uint64(97) < np.uint64(26)
        or code - np.uint32(48) < np.uint32(10)
        or code - _HAN < _ALL_HAN
        or small - np.uint64(_CYRILLIC[0]) < np.uint64(_CYRILLIC[1] - _CYRILLIC[0])
    )


@subkernel
def _is_blank(code: int) -> bool:
    """Whether `str.strip` removes a character."""
    return 9 <= code <= 13 or 28 <= code <= 32 or (code > 32 and among(code, _BLANKS))


@subkernel
def _kinds(raw: Codes, first: int, last: int) -> int:
    """Kinds in the table of all prefixes of raw[first:last]."""
    value, found = np.uint64(0), 0
    for i in range(first, last):
        value = (value + _small(raw[i])) * np.uint64(_BASE)
        if i - first + 1 >= _SHORTEST:
            found |= _kinds_of(value)
    return found


@subkernel
def _may_begin_with_label(raw: Codes, first: int, last: int) -> bool:
    """Whether raw[first:last] begins with a label, and no letter follows."""
    value = np.uint64(0)
    for i in range(first, last):
        value = (value + _small(raw[i])) * np.uint64(_BASE)
        if _kinds_of(value) & _LABEL and (i + 1 == last or not _is_letter(raw[i + 1])):
            return True
    return False


@subkernel
def _has_ending(raw: Codes, first: int, last: int) -> bool:
    value, found = np.uint64(_FIRST_END), 0
    for i in range(last - 1, max(first, last - _LONGEST_END) - 1, -1):
        value = (value + _small(raw[i])) * np.uint64(_BASE)
        found |= _kinds_of(value)
    return found & _END != 0


@subkernel
def _may_say_page(raw: Codes, first: int, last: int) -> bool:
    """Whether a word of a line begins like one that is said of pages."""
    before = False
    for i in range(first, last):
        small, code = _small(raw[i]), np.int64(raw[i])
        letter = small - np.uint64(97) < np.uint64(26) or 0xC0 <= code < _FIRST_IDEOGRAPH
        if letter and not before and i + _OF_WORD <= last:
            value = np.uint64(0)
            for k in range(i, i + _OF_WORD):
                value = (value + _small(raw[k])) * np.uint64(_BASE)
            if _kinds_of(value) & _SAID:
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
        ideograph |= raw[i] - _HAN < _ALL_HAN
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
    found, begin = _kinds(raw, first, min(first + BEGINNING, last)), first
    while begin < last and among(np.int64(raw[begin]), _MARKS):
        begin += 1
    if begin > first:
        found |= _kinds(raw, begin, min(begin + BEGINNING, last)) & _FORM
    longest = first + LONGEST_LABEL
    digit = end > first and (raw[end - 1] - np.uint32(48) < np.uint32(10) or raw[end - 1] >= 128)
    return (
        credited
        or raw[first] == _HASHTAG
        or found & _FORM != 0
        or (found & _NUMBERED != 0 and digit)
        or (found & _BEGIN != 0 and _may_begin_with_label(raw, first, last))
        or (found & _MORE != 0 and _colon(raw, first, min(end, longest + 1)) <= longest)
        or _has_ending(raw, first, last)
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
        one, two, five = np.uint64(1), np.uint64(2), np.uint64(5)
        begin, end = np.uint64(first), np.uint64(i)
        for k in range(begin, end):  # vectorised, as the next ones
            names |= (raw[k] == _AT) | (raw[k] == _BAR) | (raw[k] == _BULLET)
        names |= begin < end and ((raw[begin] == _DOT) | (raw[end - one] == _DOT))
        for k in range(begin + two, end):  # a dot between ideographs is part of a name
            around = (raw[k - two] - _HAN < _ALL_HAN) & (raw[k] - _HAN < _ALL_HAN)
            names |= (raw[k - one] == _DOT) & (not around)
        for k in range(begin + two, end):  # a capital letter and its small one differ in a bit
            last, other = raw[k - one] | np.uint32(32), raw[k - two] | np.uint32(32)
            credit = ((last == _T) & (other == _I)) | ((last == _O) & (other == _T))
            credit |= (last == _E) & ((other == _R) | (other == _G))
            names |= (raw[k] == _COLON) & (credit | (last == _RUSSIAN_O))
        for k in range(begin + five, end):
            names |= (raw[k] == _U) & (raw[k - one] == _B) & (raw[k - five] == _N)
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
