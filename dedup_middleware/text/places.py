"""Places of numerals, symbols and names: the letters around each of them, with its value.

Pages on one template say different things in the same places, so a figure is compared with the one
in the same place of the other page, not with all its figures. A **place** is the text on both sides
of a numeral: two ideographs, kana or syllables, or six letters of an alphabet. White space and
punctuation are skipped, and another numeral counts as one ideograph whatever its value, so that
10:30 and 11:45 stand in the same places. Names have places too (see
:mod:`dedup_middleware.text.names`); around a name, other names count as one ideograph each.

A date line (3月2日电) says when an agency sent a report, which differs from one reprint to the
next: its figures have no place.

Stars, suns, chess men, Braille and private-use characters say something that no letter says. A
**run** of such symbols, with or without white space between them, has a place as a figure has, and
its value is its characters in order. So ★★★★★ and ★☆☆☆☆ between the same letters make different
pages; a run that only one of two pages has is ignored. Decoration has no place:

- one bullet (■ ● ▶ → ★ ...) at the beginning of a line, since each site has another;
- a run of only | ~ + © ® and the like, which separate, or follow names;
- a run without a letter or a numeral within reach.

A sign, a comparison or a currency (-, $, >) is part of a numeral's value instead, see
:mod:`dedup_middleware.text.signs`.

An **entry** has 24 bits: 16 of the place, 8 of the value. A page's record keeps its smallest
entries, so entries lie in ranges by importance: figures below `SYMBOLS`, runs of symbols below
`NAMES`, names below `SECONDS`, and from there on a second entry for each figure and run, with other
bits of its place and value. Second entries use room that would stay free; with them a changed
figure is missed once in 65,536 times instead of once in 256. Of names with capital letters, those
of several words lie below `SINGLES` and those of one word above.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base.jit import allocating_subkernel, subkernel
from dedup_middleware.text.characters import (
    CLASS_MASK,
    EMOJI,
    FIRST_WIDE,
    LETTER,
    NUMERAL,
    REGIONAL,
    SEPARATES,
    SYMBOL,
    Codes,
    Flags,
    Hashes,
    Places,
    code_set,
)
from dedup_middleware.text.hashing import FIGURE_START, TEXT_BASE, TEXT_START, hash_token, mix
from dedup_middleware.text.names import is_credit
from dedup_middleware.text.numerals import among, at

WIDTH: Final = 6  # letters on each side
WIDE: Final = 3  # letters that an ideograph, a kana, a syllable or a numeral counts for
_LONG: Final = 3  # characters; of a name of at least so many the last one does not count
REACH: Final = 24  # characters on each side that are searched for letters
FREE: Final = 0xFFFFFF  # no entry has this value
SYMBOLS: Final = 0x7000  # the first place of symbols
NAMES: Final = 0x8000  # the first place of a name
SINGLES: Final = 0xA000  # the first place of a name that is one word with a capital letter
SECONDS: Final = 0xC000  # the first place of a second entry
_MASK: Final = 0x110000  # in place of a numeral; no code point
_SIDE: Final = 0x110001  # between the two sides
_NAME: Final = 0x110002  # in place of a name
_DAY, _MONTH, _YEAR = map(ord, "日月年")
WIRE, WIRE_TRADITIONAL, NEWS, NEWS_TRADITIONAL = map(ord, "电電讯訊")
KINDS_OF_WIRE: Final = code_set("专專急")  # 日专电
_SOURCE_WORD_1, _SOURCE_WORD_2 = map(ord, "消息")
_REPORTED: Final = code_set("报報")
_REPORTED_ENDS: Final = code_set("道导導")
_HALVES: Final = code_set("上下晚凌早午中")
_HALF_ENDS: Final = code_set("午间間晨")
_BEHIND_SOURCE: Final = code_set(" \n,:(。据據称稱说")
_SOURCE_REACH: Final = 160  # first characters of a page in which 消息 ends a date line
_NO_LINE, _WANTS_MONTH, _WANTS_YEAR = 0, 1, 2
DIVIDERS: Final = "|~+©®°¦¬￨"
# Bullets at the beginning of a line: geometric shapes, stars and all arrows.
_GEOMETRIC, _SHAPES_END = 0x25A0, 0x2600
_ARROWS, _ARROWS_END = 0x2190, 0x2200
_DINGBAT_ARROWS, _DINGBATS_END = 0x2794, 0x27C0
_MORE_ARROWS, _MORE_END = 0x2B00, 0x2B60
_OTHERS: Final = "★☆※✦✧✱✲✳✴✵✶✷✸✹✺✻✼✽"
_DIVIDING: Final = code_set(DIVIDERS)
_BULLETS: Final = code_set(_OTHERS)
_LINE, _RETURN = map(ord, "\n\r")


class NamedText(NamedTuple):
    """A normalised text, the rows of `find_names`, and the keys that places are hashed with."""

    codes: Codes
    flags: Flags
    names: Places
    keys: Hashes


@subkernel
def source_word_end(codes: Codes, day: int) -> int:
    """End of 消息 or 报道 behind the 日 at `day`, with a part of the day before it (日上午消息); 0
    if there is none, if it goes on as another word (消息人士), or far down the page."""
    i = day + 1
    if among(at(codes, i), _HALVES) and among(at(codes, i + 1), _HALF_ENDS):
        i += 2
    found = at(codes, i) == _SOURCE_WORD_1 and at(codes, i + 1) == _SOURCE_WORD_2
    found |= among(at(codes, i), _REPORTED) and among(at(codes, i + 1), _REPORTED_ENDS)
    return i + 2 if found and day < _SOURCE_REACH and among(at(codes, i + 2), _BEHIND_SOURCE) else 0


@subkernel
def _ends_date_line(codes: Codes, last: int) -> bool:
    """Whether 日电, 日专电, 日讯 or, near the beginning, 日消息 follows a numeral that ends at
    `last`."""
    if at(codes, last) != _DAY:
        return False
    word, behind = at(codes, last + 1), at(codes, last + 2)
    if word == 32 or (among(word, KINDS_OF_WIRE) and behind in (WIRE, WIRE_TRADITIONAL)):
        word = behind
    return (
        word in (WIRE, WIRE_TRADITIONAL, NEWS, NEWS_TRADITIONAL) or source_word_end(codes, last) > 0
    )


@subkernel
def _beside(
    text: NamedText, i: int, step: int, value: np.uint64, other: int
) -> tuple[np.uint64, bool]:
    """Hash of the letters from i on, outwards, starting from `value`; and whether there is one.
    Names from row `other` on, in the direction of `step`, count as one letter each; -1: none does.
    """
    left, numeral, some, base = WIDTH, False, False, text.keys[TEXT_BASE]
    end = i + step * REACH
    while (end - i) * step > 0 and 0 <= i < text.codes.size and left > 0:
        if 0 <= other < text.names.shape[0] and text.names[other, 0] <= i < text.names[other, 1]:
            value = value * base + np.uint64(_NAME)
            left -= WIDE
            i = np.int64(text.names[other, 0]) if step < 0 else np.int64(text.names[other, 1]) - 1
            other += step
            numeral = False
        elif text.flags[i] & SYMBOL == NUMERAL:
            if not numeral:
                value = value * base + np.uint64(_MASK)
                left -= WIDE
            numeral = True
        else:  # without a branch on letter or separator, which the CPU could not predict
            code, letter = np.uint64(text.codes[i]), not text.flags[i] & SEPARATES
            value = value * (base if letter else np.uint64(1)) + (code if letter else np.uint64(0))
            left -= (WIDE if code >= np.uint64(FIRST_WIDE) else 1) if letter else 0
            numeral &= not letter
            some |= letter
        i += step
    return value, some


@subkernel
def _around(
    text: NamedText, first: int, last: int, before: int, behind: int
) -> tuple[np.uint64, bool]:
    """Hash of the letters on both sides of codes[first:last], and whether there are any. Names up
    to row `before` and from row `behind` on count as one letter each; -1: none does."""
    place, left = _beside(text, first - 1, -1, text.keys[FIGURE_START], before)
    place = place * text.keys[TEXT_BASE] + np.uint64(_SIDE)
    place, right = _beside(text, last, 1, place, behind)
    return place, left or right


@subkernel
def _around_name(text: NamedText, name: int) -> tuple[np.uint64, bool]:
    """Hash of the letters on both sides of a row of `names`, and whether there are any."""
    first, last = np.int64(text.names[name, 0]), np.int64(text.names[name, 1])
    return _around(text, first, last, name - 1, name + 1)


@subkernel
def _entry(place: np.uint64, value: np.uint64) -> np.uint32:
    """The entry of 16 bits of a place and the lowest 8 bits of a value."""
    entry = np.uint32(place << np.uint64(8) | (value & np.uint64(0xFF)))
    return entry if entry != FREE else np.uint32(FREE - 1)


@subkernel
def _second(place: np.uint64) -> np.uint64:
    """Other bits of a place, for the second entry."""
    return np.uint64(SECONDS) | (place >> np.uint64(35) & np.uint64(0x3FFF))


@subkernel
def _name_entry(text: NamedText, name: int) -> np.uint32:
    """The entry of a Chinese name. The last of three or more characters is ignored: it may be
    missing, or part of the next word."""
    first, last = np.int64(text.names[name, 0]), np.int64(text.names[name, 1])
    place = mix(_around_name(text, name)[0])
    last = last if last - first < _LONG else last - 1
    value = hash_token(text.codes, first, last, text.keys) >> np.uint64(56)
    return _entry(np.uint64(NAMES) | place >> np.uint64(50), value)


@subkernel
def _capital_entry(text: NamedText, name: int) -> np.uint32:
    """The entry of a name with capital letters; `FREE` if it is left out, is the name of a month
    next to a number, or has no letter next to it, as in a table."""
    words, base = np.uint64(text.names[name, 2]), text.keys[TEXT_BASE]
    if words == 0 or text.flags[text.names[name, 0]] & SYMBOL == NUMERAL:
        return np.uint32(FREE)
    place, some = _around_name(text, name)
    if not some:
        return np.uint32(FREE)
    place = mix(place * base + words)
    value = mix(place + np.uint64(text.names[name, 3])) >> np.uint64(56)
    lowest = np.uint64(NAMES if words > 1 else SINGLES)
    return _entry(lowest | place >> np.uint64(51), value)


@subkernel
def is_symbol(flags: np.uint8) -> bool:
    """Whether the flags are those of a symbol, an emoji or half a flag."""
    kind = flags & CLASS_MASK
    return flags & SYMBOL == SYMBOL or kind in (EMOJI, REGIONAL)


@subkernel
def symbols_dominate(flags: Flags, words: int) -> bool:
    """Whether a text has more symbols than words; emoji are words, not symbols."""
    symbols = np.uint64(0)
    for i in range(np.uint64(flags.size)):
        symbols += np.uint64(flags[i] & SYMBOL == SYMBOL)
    return symbols > np.uint64(max(words, 0))


@subkernel
def is_bullet(code: int) -> bool:
    """Whether a character usually marks the items of a list."""
    shape = _GEOMETRIC <= code < _SHAPES_END or _ARROWS <= code < _ARROWS_END
    arrow = _DINGBAT_ARROWS <= code < _DINGBATS_END or _MORE_ARROWS <= code < _MORE_END
    return shape or arrow or among(code, _BULLETS)


@subkernel
def is_blank(code: int) -> bool:
    """Whether a character is white space that remains in the normal form."""
    return code in (0x20, 0x85, 0x2028) or 9 <= code <= 13 or 0x1C <= code <= 0x1F


@subkernel
def _begins_line(codes: Codes, i: int) -> bool:
    i -= 1
    while i >= 0 and codes[i] != _LINE and codes[i] != _RETURN:
        if not is_blank(np.int64(codes[i])):
            return False
        i -= 1
    return True


@subkernel
def read_symbols(text: NamedText, first: int) -> tuple[bool, np.uint64, int]:
    """Read the run that begins with a symbol: whether it has a place, its value, and its end."""
    value, i, end, count = text.keys[TEXT_START], first, first, 0
    divides = True
    while i < text.codes.size:
        code = np.int64(text.codes[i])
        if is_symbol(text.flags[i]):
            value = mix(value + np.uint64(code))
            divides = divides and among(code, _DIVIDING)
            end, count = i + 1, count + 1
        elif not is_blank(code):
            break
        i += 1
    mark = count == 1 and is_bullet(np.int64(text.codes[first])) and _begins_line(text.codes, first)
    return not divides and not mark, value, end


@subkernel
def _locate_symbols(
    text: NamedText, where: Places, rows: NDArray[np.int64], entries: Codes, count: int
) -> int:
    """Write the entries of the runs of symbols outside figures; return the new `count`."""
    nothing = text.keys[FIGURE_START] * text.keys[TEXT_BASE] + np.uint64(_SIDE)
    row, done = 0, 0
    for candidate in range(where.size):
        i = np.int64(where[candidate])
        if i < done or not is_symbol(text.flags[i]):
            continue
        while row < rows.shape[0] and rows[row, 4] <= i:
            row += 1
        if row < rows.shape[0] and rows[row, 3] <= i:
            continue
        has_place, value, done = read_symbols(text, i)
        if not has_place:
            continue
        place, _ = _around(text, i, done, -1, -1)
        if place == nothing:  # neither letter nor numeral
            continue
        place = mix(place)
        lowest = np.uint64(SYMBOLS) | place >> np.uint64(52)
        entries[count] = _entry(lowest, value >> np.uint64(56))
        entries[count + 1] = _entry(_second(place), value >> np.uint64(48))
        count += 2
    return count


@subkernel
def _placed_as(rows: NDArray[np.int64], row: int) -> int:
    """The row whose place a figure gets: its own, except that a month behind its day swaps
    places with it, so that 5 March and March 5 have the same entries."""
    if row + 1 < rows.shape[0] and rows[row + 1, 3] < rows[row, 3]:
        return row + 1
    if row > 0 and rows[row, 3] < rows[row - 1, 3]:
        return row - 1
    return row


@allocating_subkernel
def locate(
    text: NamedText, where: Places, rows: NDArray[np.int64], values: Hashes, dated: Flags
) -> Codes:
    """Make the entries of a text: two for each figure outside date lines and each run of symbols,
    one for each name that is no credit.

    :param text: the flags of months among the figures are changed to those of numerals and units.
    :param where: the indexes that `_candidates` found.
    :param rows: the rows of `find_figures`.
    :param values: hash of the value of each row.
    :param dated: set to 0 for each row outside date lines.
    """
    codes, flags, names = text.codes, text.flags, text.names
    for row in range(rows.shape[0]):
        for i in range(rows[row, 3], rows[row, 4]):
            flags[i] |= np.uint8(0 if flags[i] & SEPARATES else NUMERAL)
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
            place = mix(_around(text, rows[placed, 3], rows[placed, 4], -1, -1)[0])
            value = values[row] >> np.uint64(48)
            lowest = (place >> np.uint64(32)) * np.uint64(SYMBOLS) >> np.uint64(32)
            entries[count] = _entry(lowest, value >> np.uint64(8))
            entries[count + 1] = _entry(_second(place), value)
            count += 2
        begin = first
    count = _locate_symbols(text, where, rows, entries, count)
    before = -1
    for name in range(names.shape[0]):
        first, last = np.int64(names[name, 0]), np.int64(names[name, 1])
        if flags[first] & CLASS_MASK == LETTER:
            entry, before = _capital_entry(text, name), -1
        elif is_credit(codes, flags, first, last, before):
            entry, before = np.uint32(FREE), last
        else:
            entry, before = _name_entry(text, name), -1
        entries[count] = entry
        count += entry != FREE
    return entries[:count]
