"""Places of numerals and names: for each of them the letters around it, and its value.

Two pages on one template say other things in the same places, so a figure is compared with the
one in the same place of the other page, not with all that occur there. A **place** is the text
on either side of a numeral: two ideographs, kana or syllables, or six letters of an alphabet.
White space and punctuation are passed over, and another numeral counts as one ideograph whatever
its value, so that 10:30 and 11:45 stand in the same places.

A date line (3月2日电) says when an agency sent a report, which differs from one reprint to the
next: its figures have no place.

Names have places too (see :mod:`dedup_middleware.text.names` and
:mod:`dedup_middleware.text.capitals`); around a name, other names count as one ideograph each, as
numerals do.

An **entry** has 24 bits: 16 of the place, 8 of the value. Pages keep the smallest entries they
have, so entries come in ranges by their importance: the figures below `SYMBOLS`, the runs of
symbols (see :mod:`dedup_middleware.text.symbols`) below `NAMES`, the names below `SECONDS`, and
from there on a second entry for each figure and run, with other bits of its place and of its value.
It uses bits that would stay free, and a changed figure then goes unseen once in 65,536 times
instead of once in 256. Of the names with capital letters those of several words lie below
`SINGLES`, those of one word above.
"""

# NumPy's stubs type an indexed scalar as Any.
# mypy: disable-error-code="no-any-return"
from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base.jit import allocating_subkernel, subkernel
from dedup_middleware.text.characters import CLASS_MASK, LETTER, NUMERAL, SEPARATES, SYMBOL
from dedup_middleware.text.hashing import FIGURE_START, TEXT_BASE, hash_token, mix
from dedup_middleware.text.names import is_credit
from dedup_middleware.text.numerals import Codes, at
from dedup_middleware.text.symbols import is_symbol, read_symbols

WIDTH: Final = 6  # letters on each side
WIDE: Final = 3  # letters that an ideograph, a kana, a syllable or a numeral counts for
_LONG: Final = 3  # characters of a name from which on the last one does not count
REACH: Final = 24  # characters that are looked at on each side
FREE: Final = 0xFFFFFF  # no entry has this value
SYMBOLS: Final = 0x7000  # the first place of symbols
NAMES: Final = 0x8000  # the first place of a name
SINGLES: Final = 0xA000  # the first place of a name that is one word with a capital letter
SECONDS: Final = 0xC000  # the first place of a second entry
_FIRST_WIDE: Final = 0x2E80  # the radicals before the first ideograph
_MASK: Final = 0x110000  # in place of a numeral; no code point
_SIDE: Final = 0x110001  # between the two sides
_NAME: Final = 0x110002  # in place of a name
_DAY: Final = ord("日")
_MONTH: Final = ord("月")
_YEAR: Final = ord("年")
_WIRE: Final = ord("电")
_WIRE_TRADITIONAL: Final = ord("電")
_NEWS: Final = ord("讯")
_NEWS_TRADITIONAL: Final = ord("訊")
_NO_LINE, _WANTS_MONTH, _WANTS_YEAR = 0, 1, 2


@subkernel
def _beside(
    codes: Codes,
    flags: NDArray[np.uint8],
    i: int,
    step: int,
    base: np.uint64,
    value: np.uint64,
) -> np.uint64:
    """Take the letters from i on, outwards, into a hash."""
    left, numeral = WIDTH, False
    end = i + step * REACH
    while i != end and 0 <= i < codes.size and left > 0:
        code = np.int64(codes[i])
        if flags[i] & SYMBOL == NUMERAL:
            if not numeral:
                value = value * base + np.uint64(_MASK)
                left -= WIDE
            numeral = True
        elif not flags[i] & SEPARATES:
            value = value * base + np.uint64(code)
            left -= WIDE if code >= _FIRST_WIDE else 1
            numeral = False
        i += step
    return value


@subkernel
def _ends_date_line(codes: Codes, last: int) -> bool:
    """Whether 日电 or 日讯 follows a numeral that ends at `last`."""
    if at(codes, last) != _DAY:
        return False
    word = at(codes, last + 2) if at(codes, last + 1) == 32 else at(codes, last + 1)
    return word in (_WIRE, _WIRE_TRADITIONAL, _NEWS, _NEWS_TRADITIONAL)


@subkernel
def _beside_name(
    codes: Codes,
    flags: NDArray[np.uint8],
    names: NDArray[np.int32],
    name: int,
    step: int,
    base: np.uint64,
    value: np.uint64,
) -> tuple[np.uint64, bool]:
    """`_beside` for a row of `names`, in which other names count as one letter each; and
    whether there is a letter."""
    left, numeral, other, some = WIDTH, False, name + step, False
    i = np.int64(names[name, 0]) - 1 if step < 0 else np.int64(names[name, 1])
    end = i + step * REACH
    while (end - i) * step > 0 and 0 <= i < codes.size and left > 0:
        if 0 <= other < names.shape[0] and names[other, 0] <= i < names[other, 1]:
            value = value * base + np.uint64(_NAME)
            left -= WIDE
            i = np.int64(names[other, 0]) if step < 0 else np.int64(names[other, 1]) - 1
            other += step
            numeral = False
        elif flags[i] & SYMBOL == NUMERAL:
            if not numeral:
                value = value * base + np.uint64(_MASK)
                left -= WIDE
            numeral = True
        else:  # without a branch on letter or separator, which the CPU could not predict
            code, letter = np.uint64(codes[i]), not flags[i] & SEPARATES
            value = value * (base if letter else np.uint64(1)) + (code if letter else np.uint64(0))
            left -= (WIDE if code >= np.uint64(_FIRST_WIDE) else 1) if letter else 0
            numeral &= not letter
            some |= letter
        i += step
    return value, some


@subkernel
def _entry(place: np.uint64, value: np.uint64) -> np.uint32:
    """16 bits of a place and the lowest 8 of a value."""
    entry = np.uint32(place << np.uint64(8) | (value & np.uint64(0xFF)))
    return entry if entry != FREE else np.uint32(FREE - 1)


@subkernel
def _second(place: np.uint64) -> np.uint64:
    """Other bits of a place, for a second entry."""
    return np.uint64(SECONDS) | (place >> np.uint64(35) & np.uint64(0x3FFF))


@subkernel
def _name_entry(
    codes: Codes,
    flags: NDArray[np.uint8],
    names: NDArray[np.int32],
    name: int,
    keys: NDArray[np.uint64],
) -> np.uint32:
    """The entry of a Chinese name. Of three characters and more the last one does not count: it
    may be part of the next word, or be missing."""
    base, first, last = keys[TEXT_BASE], np.int64(names[name, 0]), np.int64(names[name, 1])
    place, _ = _beside_name(codes, flags, names, name, -1, base, keys[FIGURE_START])
    place = place * base + np.uint64(_SIDE)
    place = mix(_beside_name(codes, flags, names, name, 1, base, place)[0])
    last = last if last - first < _LONG else last - 1
    value = hash_token(codes, first, last, keys) >> np.uint64(56)
    return _entry(np.uint64(NAMES) | place >> np.uint64(50), value)


@subkernel
def _capital_entry(
    codes: Codes,
    flags: NDArray[np.uint8],
    names: NDArray[np.int32],
    name: int,
    base: np.uint64,
    start: np.uint64,
) -> np.uint32:
    """The entry of a name with capital letters; `FREE` if it is left out, is the name of a month
    next to a number, or has no letter next to it, as in a table."""
    words = np.uint64(names[name, 2])
    if words == 0 or flags[names[name, 0]] & SYMBOL == NUMERAL:
        return np.uint32(FREE)
    place, left = _beside_name(codes, flags, names, name, -1, base, start)
    place = place * base + np.uint64(_SIDE)
    place, right = _beside_name(codes, flags, names, name, 1, base, place)
    if not left and not right:
        return np.uint32(FREE)
    place = mix(place * base + words)
    value = mix(place + np.uint64(names[name, 3])) >> np.uint64(56)
    lowest = np.uint64(NAMES if words > 1 else SINGLES)
    return _entry(lowest | place >> np.uint64(51), value)


@subkernel
def _locate_symbols(
    codes: Codes,
    flags: NDArray[np.uint8],
    where: NDArray[np.int32],
    rows: NDArray[np.int64],
    keys: NDArray[np.uint64],
    entries: NDArray[np.uint32],
    count: int,
) -> int:
    """Write the entries of the runs of symbols that are no part of a figure; returns their number
    added to `count`."""
    base, start = keys[TEXT_BASE], keys[FIGURE_START]
    row, done = 0, 0
    for candidate in range(where.size):
        i = np.int64(where[candidate])
        if i < done or not is_symbol(flags[i]):
            continue
        while row < rows.shape[0] and rows[row, 4] <= i:
            row += 1
        if row < rows.shape[0] and rows[row, 3] <= i:
            continue
        has_place, value, done = read_symbols(codes, flags, i, keys)
        if not has_place:
            continue
        place = _beside(codes, flags, i - 1, -1, base, start)
        alone = place == start
        before = place * base + np.uint64(_SIDE)
        place = _beside(codes, flags, done, 1, base, before)
        if alone and place == before:
            continue
        place = mix(place)
        lowest = np.uint64(SYMBOLS) | place >> np.uint64(52)
        entries[count] = _entry(lowest, value >> np.uint64(56))
        entries[count + 1] = _entry(_second(place), value >> np.uint64(48))
        count += 2
    return count


@subkernel
def _placed_as(rows: NDArray[np.int64], row: int) -> int:
    """The row whose place a figure takes: its own, but a month behind its day changes places with
    it, so that 5 March and March 5 have the same entries."""
    if row + 1 < rows.shape[0] and rows[row + 1, 3] < rows[row, 3]:
        return row + 1
    if row > 0 and rows[row, 3] < rows[row - 1, 3]:
        return row - 1
    return row


@allocating_subkernel
def locate(
    codes: Codes,
    flags: NDArray[np.uint8],
    where: NDArray[np.int32],
    rows: NDArray[np.int64],
    values: NDArray[np.uint64],
    dated: NDArray[np.uint8],
    names: NDArray[np.int32],
    keys: NDArray[np.uint64],
) -> NDArray[np.uint32]:
    """The entries of the figures outside date lines, two each, of the runs of symbols, two each,
    and of the names that are no credits, one each.

    Args:
        flags: of the code points; the names of months among the figures become numerals, and units.
        where: what `candidates` gives.
        rows: what `find_figures` gives.
        values: the hash of the value of each row.
        dated: becomes 0 for each row outside date lines.
        names: what `find_names` gives, in order, no two overlapping.
    """
    for row in range(rows.shape[0]):
        for i in range(rows[row, 3], rows[row, 4]):
            flags[i] |= np.uint8(0 if flags[i] & SEPARATES else NUMERAL)
    base, start = keys[TEXT_BASE], keys[FIGURE_START]
    entries = np.empty(2 * (rows.shape[0] + where.size) + names.shape[0], np.uint32)
    count, state, begin = 0, _NO_LINE, 0
    for row in range(rows.shape[0] - 1, -1, -1):
        first, last = rows[row, 3], rows[row, 4]
        joined = last + 1 == begin
        if state == _WANTS_MONTH and joined and at(codes, last) == _MONTH:
            state = _WANTS_YEAR
        elif state == _WANTS_YEAR and joined and at(codes, last) == _YEAR:
            state = _NO_LINE
        elif _ends_date_line(codes, last):
            state = _WANTS_MONTH
        else:
            state = _NO_LINE
            dated[row] = np.uint8(0)
            placed = _placed_as(rows, row)
            place = _beside(codes, flags, rows[placed, 3] - 1, -1, base, start)
            place = place * base + np.uint64(_SIDE)
            place = mix(_beside(codes, flags, rows[placed, 4], 1, base, place))
            value = values[row] >> np.uint64(48)
            lowest = (place >> np.uint64(32)) * np.uint64(SYMBOLS) >> np.uint64(32)
            entries[count] = _entry(lowest, value >> np.uint64(8))
            entries[count + 1] = _entry(_second(place), value)
            count += 2
        begin = first
    count = _locate_symbols(codes, flags, where, rows, keys, entries, count)
    before = -1
    for name in range(names.shape[0]):
        first, last = np.int64(names[name, 0]), np.int64(names[name, 1])
        if flags[first] & CLASS_MASK == LETTER:
            entry, before = _capital_entry(codes, flags, names, name, base, start), -1
        elif is_credit(codes, flags, first, last, before):
            entry, before = np.uint32(FREE), last
        else:
            entry, before = _name_entry(codes, flags, names, name, keys), -1
        entries[count] = entry
        count += entry != FREE
    return entries[:count]
