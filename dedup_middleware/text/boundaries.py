"""Cuts text without a dictionary: at Unicode word boundaries (UAX #29), or at each character.

Another kernel makes the signs of C++ and C# parts of words. Tokens are written as pairs `starts[i],
ends[i]` from index `count` on; the new count is returned.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from dedup_middleware.base.jit import kernel, subkernel
from dedup_middleware.base.kerneltypes import R32, U8, boolean
from dedup_middleware.text.characters import (
    ALNUM,
    BLOCK,
    CLASS_MASK,
    CONNECTOR,
    DOUBLE_QUOTE,
    EMOJI,
    EXTEND,
    HEBREW,
    KATAKANA,
    LETTER,
    MID_BOTH,
    MID_LETTER,
    MID_NUMBER,
    NUMERIC,
    REGIONAL,
    SA,
    SEPARATES,
    SEPARATOR,
    SINGLE,
    SINGLE_QUOTE,
    Codes,
    Flags,
    Tokens,
)

# Letters (with their marks) of the overlapping tokens of Thai, Khmer, Lao and Burmese, which have
# no spaces between words.
GRAM: Final = 3
_JOINED: Final = BLOCK | EXTEND
_PLUS, _SHARP = map(np.uint32, map(ord, "+#"))


@subkernel
def _is_in_word(flags: Flags, i: int) -> bool:
    """Whether a letter, a digit or a mark is at i; False before the beginning of the text."""
    return i >= 0 and EXTEND <= flags[i] & CLASS_MASK <= CONNECTOR


@subkernel
def _is_ascii_letter(flags: Flags, i: int) -> bool:
    return i < flags.size and flags[i] & ALNUM != 0 and flags[i] & CLASS_MASK == LETTER


@kernel(boolean(R32, U8))
def join_signs(codes: Codes, flags: Flags) -> bool:
    """Make the signs of names such as C++, C# and A+ parts of words; False if there is no + or #.

    Such signs are two plus signs behind a letter, or # behind a single letter, unless an ASCII
    letter follows; and one plus sign behind a letter, unless a letter or a digit follows, as it may
    join words then (AI+健康). They get the class of marks.
    """
    some, size = np.uint8(0), codes.size
    for i in range(np.uint64(size)):  # vectorised check: most texts have none
        some |= np.uint8(codes[i] == _PLUS) | np.uint8(codes[i] == _SHARP)
    if not some:
        return False
    i = 1
    while i < size:
        sign, end = codes[i], i + 1
        if sign in (_PLUS, _SHARP) and flags[i - 1] & CLASS_MASK == LETTER:
            while end < size and codes[end] == sign:
                end += 1
            count = end - i
            if sign == _SHARP:
                joins = count == 1 and not _is_in_word(flags, i - 2)
            else:
                joins = count == 2 or (count == 1 and (end == size or flags[end] & SEPARATES != 0))
            if joins and not _is_ascii_letter(flags, end):
                for place in range(i, end):
                    flags[place] |= np.uint8(EXTEND)
        i = end
    return True


@subkernel
def without_signs(flags: Flags, first: np.uint64, last: np.uint64) -> np.uint64:
    """The end of the word from `first` to `last` without the signs that `join_signs` added, which
    no list of words has. They are the only marks with the flag BLOCK."""
    one = np.uint64(1)
    while last > first + one and flags[last - one] & (BLOCK | CLASS_MASK) == _JOINED:
        last -= one
    return last


@subkernel
def _skip_marks(flags: Flags, i: int, last: int) -> int:
    while i < last and flags[i] & CLASS_MASK == EXTEND:
        i += 1
    return i


@subkernel
def _bridges(before: int, middle: int, after: int) -> bool:
    """Whether a mark joins letters or digits next to it: rules WB6, WB7, WB7b, c, WB11, WB12."""
    if before == HEBREW and middle == DOUBLE_QUOTE:
        return after == HEBREW
    if before in (LETTER, HEBREW):
        return middle in (MID_LETTER, MID_BOTH, SINGLE_QUOTE) and after in (LETTER, HEBREW)
    if before == NUMERIC:
        return middle in (MID_NUMBER, MID_BOTH, SINGLE_QUOTE) and after == NUMERIC
    return False


@subkernel
def word_end(flags: Flags, first: int, last: int) -> int:
    """The end of the word of letters, digits, katakana or connectors that starts at `first`."""
    before = flags[first] & CLASS_MASK
    j = np.uint64(first + 1)
    while j < np.uint64(last) and flags[j] == flags[first]:  # most words have only letters
        j += np.uint64(1)
    i = _skip_marks(flags, np.int64(j), last)
    while i < last:
        kind = flags[i] & CLASS_MASK
        if kind in (LETTER, HEBREW, NUMERIC):
            if before == KATAKANA:
                return i
        elif kind == KATAKANA:
            if before not in (KATAKANA, CONNECTOR):
                return i
        elif kind != CONNECTOR:
            after = _skip_marks(flags, i + 1, last)
            if after < last and _bridges(before, kind, flags[after] & CLASS_MASK):
                i, kind = after, flags[after] & CLASS_MASK
            elif before == HEBREW and kind == SINGLE_QUOTE:  # WB7a
                return after
            else:
                return i
        before = kind
        i = _skip_marks(flags, i + 1, last)
    return i


@subkernel
def _grams(flags: Flags, first: int, last: int, tokens: Tokens, count: int) -> tuple[int, int]:
    """Write overlapping groups of `GRAM` letters of a run without spaces; return count and end."""
    begin = count
    i = first
    while i < last and flags[i] & CLASS_MASK == SA:
        tokens.starts[count] = i
        i = _skip_marks(flags, i + 1, last)
        tokens.ends[count] = i
        count += 1
    if count - begin <= GRAM:
        tokens.ends[begin] = i
        return begin + 1, i
    for gram in range(begin, count - GRAM + 1):
        tokens.ends[gram] = tokens.ends[gram + GRAM - 1]
    return count - GRAM + 1, i


@subkernel
def words(flags: Flags, first: int, last: int, tokens: Tokens, count: int) -> int:
    """Write the words of flags[first:last] by UAX #29, without separators (`SEPARATES`); scripts
    without spaces give groups of letters."""
    i = first
    while i < last:
        kind = flags[i] & CLASS_MASK
        if kind == SEPARATOR:
            i += 1
            continue
        if kind == LETTER:  # most words are letters of one kind between two spaces
            j = np.uint64(i + 1)
            while j < np.uint64(last) and flags[j] == flags[i]:
                j += np.uint64(1)
            end = np.int64(j)
            if end == last or flags[end] & CLASS_MASK == SEPARATOR:
                tokens.starts[count], tokens.ends[count] = i, end
                count += 1
                i = end
                continue
        end = _skip_marks(flags, i + 1, last)
        if kind == SA:
            count, end = _grams(flags, i, last, tokens, count)
        elif kind in (SINGLE, EMOJI, REGIONAL):
            if kind == REGIONAL and end < last and flags[end] & CLASS_MASK == REGIONAL:
                end = _skip_marks(flags, end + 1, last)
            tokens.starts[count], tokens.ends[count] = i, end
            count += 1
        elif kind in (LETTER, HEBREW, NUMERIC, KATAKANA, CONNECTOR):
            end = word_end(flags, i, last)
            start = i
            while start < end and flags[start] & SEPARATES:
                start += 1
            if start < end:
                tokens.starts[count], tokens.ends[count] = i, end
                count += 1
        i = end
    return count


@subkernel
def single_characters(flags: Flags, first: int, last: int, tokens: Tokens, count: int) -> int:
    """Write each character with its marks as a token; separators are left out."""
    i = first
    while i < last:
        end = _skip_marks(flags, i + 1, last)
        if not flags[i] & SEPARATES:
            tokens.starts[count], tokens.ends[count] = i, end
            count += 1
        i = end
    return count
