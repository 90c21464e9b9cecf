"""Which lines of a page may say nothing of its subject, by their first and last characters.

Whether they do is decided in Python, which takes a microsecond a line: a third of a page's time if
it were asked of each. So one kernel names the few lines that have to be looked at. It may name
others. Of those that `pagelines` and `relevant` know none is missing, but for lines with the sign
of the unit kelvin in place of a k, and labels with more than a hundred blanks: these stay.
"""

# NumPy's stubs type an indexed scalar as Any.
# mypy: disable-error-code="no-any-return"
from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base.jit import kernel, subkernel
from dedup_middleware.base.kerneltypes import I32, R8, R32, int64
from dedup_middleware.text.fold import code_points
from dedup_middleware.text.numerals import Codes, among
from dedup_middleware.text.pagelines import AROUND, CREDIT_ENDS, LONGEST, OPENING

Table = NDArray[np.uint8]
_FORM, _NUMBERED, _LABEL, _END = 1, 2, 4, 8
_BITS: Final = 16  # of a place in the table
_BASE: Final = 0x9E3779B97F4A7C15
_FIRST_END: Final = 1  # where the hash of an ending starts, so that it is no beginning
_SHORTEST, _LONGEST_BEGINNING, _ENDING = 2, 4, 3  # characters
_LINE, _SPACE, _AT, _POINT, _SLASH, _COLON, _WIDE_COLON, _CLOSED = map(ord, "\n @./:：)")
_I, _B, _U = map(ord, "ibu")  # of "contributed"
_BLANKS: Final = np.array(sorted(c for c in range(0x3001) if chr(c).isspace() and c > 32), np.int64)
_OPENINGS: Final = np.array(sorted(map(ord, OPENING)), np.int64)
_AROUNDS: Final = np.array(sorted(map(ord, AROUND)), np.int64)


def _hash(codes: Iterable[int], value: int = 0) -> int:
    for code in codes:
        value = (value + code) * _BASE & (1 << 64) - 1
    return value >> (64 - _BITS)


def _in_any_case(word: str) -> Iterable[str]:
    """A word of small letters, and all others that become it; ASCII letters stay small."""
    letters = ((one,) if one.isascii() else {one, one.upper()} for one in word)
    return map("".join, itertools.product(*letters))


def make_table(
    beginnings: str, numbered: str, labels: Iterable[str], endings: Iterable[str]
) -> Table:
    """A table for `suspects` of what lines begin and end with, in small letters.

    :param beginnings: words, _ is a space; of longer ones four characters count
    :param numbered: the same of lines that end with a numeral
    :param labels: whole lines, or what stands before a colon
    """
    kinds = [(_FORM, word.replace("_", " ")) for word in beginnings.split()]
    kinds += [(_NUMBERED, word) for word in numbered.split()]
    kinds += [(_LABEL, label) for label in labels]
    table = np.zeros(1 << _BITS, np.uint8)
    for kind, word in kinds:
        for one in _in_any_case(word[:_LONGEST_BEGINNING]):
            table[_hash(map(ord, one))] |= kind
    for ending in endings:
        table[_hash(map(ord, ending[-_ENDING:]), _FIRST_END)] |= _END
    table.flags.writeable = False
    return table


@subkernel
def _small(code: np.uint32) -> np.uint64:
    """An ASCII letter as a small one."""
    capital = code - np.uint32(65) < np.uint32(26)
    return np.uint64(code) + np.uint64(32 * capital)


@subkernel
def _is_blank(code: int) -> bool:
    """Whether `str.strip` takes it away."""
    return 9 <= code <= 13 or 28 <= code <= 32 or (code > 32 and among(code, _BLANKS))


@subkernel
def _kinds(raw: Codes, first: int, last: int, begin: int, table: Table) -> int:
    """What the table says of raw[first:last], of all its beginnings if it is one."""
    value, found = np.uint64(begin), 0
    for i in range(first, last):
        value = (value + _small(raw[i])) * np.uint64(_BASE)
        if i - first + 1 >= _SHORTEST:
            found |= np.int64(table[value >> np.uint64(64 - _BITS)])
    return found


@subkernel
def _has_credit(raw: Codes, first: int, last: int) -> bool:
    """Whether a line may be a caption with its credit in brackets."""
    closed = False
    for i in range(max(first, last - CREDIT_ENDS), last):
        closed |= raw[i] == _CLOSED
    if closed:
        for i in range(first, last):
            if raw[i] == _COLON:
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
def _colon(raw: Codes, first: int, last: int) -> int:
    """Where the first colon is, else the end."""
    while first < last and raw[first] != _COLON and raw[first] != _WIDE_COLON:
        first += 1
    return first


@subkernel
def _is_suspect(raw: Codes, first: int, last: int, table: Table, label: int) -> bool:
    """Whether the line raw[first:last] is to be looked at."""
    while first < last and _is_blank(np.int64(raw[first])):
        first += 1
    while first < last and _is_blank(np.int64(raw[last - 1])):
        last -= 1
    if first == last or last - first > LONGEST:
        return False
    credited = _has_credit(raw, first, last)
    end = last
    while first < end and among(np.int64(raw[end - 1]), _AROUNDS):
        end -= 1
    if among(np.int64(raw[first]), _OPENINGS):
        last = end
        while first < last and among(np.int64(raw[first]), _AROUNDS):
            first += 1
    found = _kinds(raw, first, min(first + _LONGEST_BEGINNING, last), 0, table)
    digit = end > first and (raw[end - 1] - np.uint32(48) < np.uint32(10) or raw[end - 1] >= 128)
    return (
        credited
        or found & _FORM != 0
        or (found & _NUMBERED != 0 and digit)
        or (
            found & _LABEL != 0 and _colon(raw, first, min(end, first + label + 1)) <= first + label
        )
        or _kinds(raw, max(first, last - _ENDING), last, _FIRST_END, table) & _END != 0
        or _may_be_address(raw, first, last)
    )


# All arrays are made in `suspects` and `make_table`.
@kernel(int64(R32, R8, int64, I32), check=False)
def _find(raw: Codes, table: Table, label: int, lines: NDArray[np.int32]) -> int:
    """Write the numbers of lines to be looked at; how many they are."""
    found, line, i = 0, 0, 0
    while i <= raw.size:
        first, names = i, False
        while i < raw.size and raw[i] != _LINE:
            names |= raw[i] == _AT
            if raw[i] == _U and i - first > 1:
                names |= raw[i - 1] == _B and raw[i - 2] == _I
            i += 1
        if names or _is_suspect(raw, first, i, table, label):
            lines[found] = line
            found += 1
        line += 1
        i += 1
    return found


def suspects(text: str, table: Table, label: int) -> list[int]:
    """The numbers of the lines that have to be looked at, ascending.

    :param label: characters of the longest label in the table
    """
    lines = np.empty(text.count("\n") + 1, np.int32)
    found = _find(code_points(text), table, label, lines)
    return lines[:found].tolist()
