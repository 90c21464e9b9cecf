"""Kernels that cut code points into tokens. `segment` wraps them for people.

All work on two parallel arrays, the code points and their flags and word classes (see
`characters`), and write tokens as pairs `starts[i], ends[i]`. A token starts at most once at a
position, so arrays as long as the text are always large enough.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.kernels import kernel, subkernel
from dedup_middleware.text.characters import (
    ALNUM,
    BLOCK,
    CLASS_MASK,
    CONNECTOR,
    DOUBLE_QUOTE,
    EMOJI,
    EXTEND,
    HAN,
    HEBREW,
    KATAKANA,
    LETTER,
    MID_BOTH,
    MID_LETTER,
    MID_NUMBER,
    NUMERIC,
    REGIONAL,
    SA,
    SEPARATOR,
    SINGLE,
    SINGLE_QUOTE,
)
from dedup_middleware.text.trie import ROOT

Codes = NDArray[np.uint32]
Flags = NDArray[np.uint8]
Places = NDArray[np.int32]

CHAR, WORDS, FMM, JIEBA = 0, 1, 2, 3
# Thai, Khmer, Lao, Burmese: overlapping groups of this many letters (with their marks) stand
# for the words that no space divides.
GRAM: Final = 3


@subkernel
def is_separator(flag: int) -> bool:
    """White space, punctuation, symbols, marks and connectors: no token by themselves."""
    kind = flag & CLASS_MASK
    return kind in (SEPARATOR, EXTEND, CONNECTOR) or kind >= MID_LETTER


@subkernel
def best_path(
    codes: Codes,
    first: int,
    last: int,
    units: NDArray[np.int32],
    weights: NDArray[np.float64],
    unknown: float,
    score: NDArray[np.float64],
    ends: Places,
) -> None:
    """The most probable path through codes[first:last], all of which lie below `trie.GUARD`.

    Writes to ends[i] where the best word from i on ends. Sums and ties are those of
    `jieba.Tokenizer.calc`: the same additions in the same order, and the longer word of equals.

    Args:
        score: room for last + 1 numbers.
    """
    score[last] = 0.0
    for i in range(last - 1, first - 1, -1):
        best, end = -np.inf, i + 1
        slot = np.uint64(codes[i])
        if units[np.uint64(4) * slot + np.uint64(1)] == ROOT:
            j = np.uint64(i + 1)
            best = weights[np.uint64(2) * slot + np.uint64(1)] + score[j]
            base = units[np.uint64(4) * slot]
            while base >= 0 and j < np.uint64(last):
                child = np.uint64(base) + np.uint64(codes[j])
                if units[np.uint64(4) * child + np.uint64(1)] != np.int32(slot):
                    break
                slot = child
                j += np.uint64(1)
                total = weights[np.uint64(2) * slot + np.uint64(1)] + score[j]
                if total >= best:
                    best, end = total, np.int64(j)
                base = units[np.uint64(4) * slot]
        if best == -np.inf:
            best, end = unknown + score[i + 1], i + 1
        score[i] = best
        ends[i] = end


@subkernel
def walk_path(
    flags: Flags, first: int, last: int, path: Places, starts: Places, ends: Places, count: int
) -> int:
    """Tokens of the best path; single letters and digits in a row are one, as in jieba."""
    i = first
    while i < last:
        end = np.int64(path[i])
        if end == i + 1 and flags[i] & ALNUM:
            while end < last and path[end] == end + 1 and flags[end] & ALNUM:
                end += 1
        starts[count], ends[count] = i, end
        count += 1
        i = end
    return count


@subkernel
def longest_matches(
    codes: Codes,
    flags: Flags,
    first: int,
    last: int,
    units: NDArray[np.int32],
    weights: NDArray[np.float64],
    starts: Places,
    ends: Places,
    count: int,
) -> int:
    """Forward maximum matching inside one window: the longest entry, else one character.

    A run of ASCII letters and digits is one token, so no entry ends inside such a run.
    """
    slots = units.size // 4
    i = first
    while i < last:
        end = i + 1
        if flags[i] & ALNUM:
            while end < last and flags[end] & ALNUM:
                end += 1
        else:
            base, parent, j = np.int64(0), np.int64(ROOT), i
            while base >= 0 and j < last:
                slot = base + np.int64(codes[j])
                if slot >= slots or units[4 * slot + 1] != parent:
                    break
                parent, base = slot, np.int64(units[4 * slot])
                j += 1
                inside = j < last and flags[j - 1] & flags[j] & ALNUM
                if weights[2 * slot + 1] != -np.inf and not inside:
                    end = j
        starts[count], ends[count] = i, end
        count += 1
        i = end
    return count


@subkernel
def _skip_marks(flags: Flags, i: int, last: int) -> int:
    while i < last and flags[i] & CLASS_MASK == EXTEND:
        i += 1
    return i


@subkernel
def _bridges(before: int, middle: int, after: int) -> bool:
    """Rules WB6, WB7, WB7b, WB7c, WB11 and WB12: a mark between two letters or two digits."""
    if before == HEBREW and middle == DOUBLE_QUOTE:
        return after == HEBREW
    if before in (LETTER, HEBREW):
        return middle in (MID_LETTER, MID_BOTH, SINGLE_QUOTE) and after in (LETTER, HEBREW)
    if before == NUMERIC:
        return middle in (MID_NUMBER, MID_BOTH, SINGLE_QUOTE) and after == NUMERIC
    return False


@subkernel
def word_end(flags: Flags, first: int, last: int) -> int:
    """Where the word of letters, digits, katakana or connectors that starts at `first` ends."""
    before = flags[first] & CLASS_MASK
    i = _skip_marks(flags, first + 1, last)
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
def _grams(
    flags: Flags, first: int, last: int, starts: Places, ends: Places, count: int
) -> tuple[int, int]:
    """Overlapping groups of `GRAM` letters of a run without spaces; the number and the end."""
    begin = count
    i = first
    while i < last and flags[i] & CLASS_MASK == SA:
        starts[count] = i
        i = _skip_marks(flags, i + 1, last)
        ends[count] = i
        count += 1
    grams = max(1, count - begin - GRAM + 1)
    for gram in range(begin, begin + grams):
        ends[gram] = ends[min(count, gram + GRAM) - 1]
    return begin + grams, i


@subkernel
def words(flags: Flags, first: int, last: int, starts: Places, ends: Places, count: int) -> int:
    """The words of flags[first:last] by UAX #29; what is no word (see `is_separator`) is left
    out, and scripts without spaces give groups of letters."""
    i = first
    while i < last:
        kind = flags[i] & CLASS_MASK
        end = _skip_marks(flags, i + 1, last)
        if kind == SA:
            count, end = _grams(flags, i, last, starts, ends, count)
        elif kind in (SINGLE, EMOJI, REGIONAL):
            if kind == REGIONAL and end < last and flags[end] & CLASS_MASK == REGIONAL:
                end = _skip_marks(flags, end + 1, last)
            starts[count], ends[count] = i, end
            count += 1
        elif kind in (LETTER, HEBREW, NUMERIC, KATAKANA, CONNECTOR):
            end = word_end(flags, i, last)
            start = i
            while start < end and flags[start] & CLASS_MASK in (CONNECTOR, EXTEND):
                start += 1
            if start < end:
                starts[count], ends[count] = i, end
                count += 1
        i = end
    return count


@subkernel
def single_characters(
    flags: Flags, first: int, last: int, starts: Places, ends: Places, count: int
) -> int:
    """Each character with its marks, separators left out."""
    i = first
    while i < last:
        end = _skip_marks(flags, i + 1, last)
        if not is_separator(flags[i]):
            starts[count], ends[count] = i, end
            count += 1
        i = end
    return count


@subkernel
def next_block(flags: Flags, i: int) -> tuple[int, int]:
    """The next run of characters jieba accepts that has a Han character in it."""
    size = flags.size
    first = i
    while i < size and flags[i] & HAN != HAN:
        if not flags[i] & BLOCK:
            first = i + 1
        i += 1
    if i == size:
        return size, size
    while i < size and flags[i] & BLOCK:
        i += 1
    return first, i


@subkernel
def next_window(flags: Flags, i: int) -> tuple[int, int]:
    """The next run without separators that has a Han character in it."""
    size = flags.size
    first = i
    while i < size and flags[i] & HAN != HAN:
        if is_separator(flags[i]):
            first = i + 1
        i += 1
    if i == size:
        return size, size
    while i < size and not is_separator(flags[i]):
        i += 1
    return first, i


@kernel
def tokenize(
    codes: Codes,
    flags: Flags,
    mode: int,
    units: NDArray[np.int32],
    weights: NDArray[np.float64],
    unknown: float,
    starts: Places,
    ends: Places,
) -> int:
    """Cut a whole text: Chinese runs by the dictionary, all else by `words`.

    Args:
        mode: CHAR, WORDS, FMM or JIEBA.

    Returns:
        The number of tokens.
    """
    size = flags.size
    if mode == CHAR:
        return single_characters(flags, 0, size, starts, ends, 0)
    if mode == WORDS:
        return words(flags, 0, size, starts, ends, 0)
    count, i = 0, 0
    path = np.empty(size, np.int32)
    score = np.empty(size + 1, np.float64)
    while i < size:
        if mode == FMM:
            first, last = next_window(flags, i)
        else:
            first, last = next_block(flags, i)
        if first > i:
            count = words(flags, i, first, starts, ends, count)
        if mode == FMM:
            count = longest_matches(codes, flags, first, last, units, weights, starts, ends, count)
        elif last > first:
            best_path(codes, first, last, units, weights, unknown, score, path)
            count = walk_path(flags, first, last, path, starts, ends, count)
        i = last
    return count


@kernel
def lossless(
    codes: Codes,
    flags: Flags,
    mode: int,
    units: NDArray[np.int32],
    weights: NDArray[np.float64],
    unknown: float,
    starts: Places,
    ends: Places,
) -> int:
    """Cut a whole text by the dictionary alone (FMM or JIEBA); the tokens add up to the text."""
    size = flags.size
    count, i = 0, 0
    path = np.empty(size, np.int32)
    score = np.empty(size + 1, np.float64)
    while i < size:
        last = i
        if mode == JIEBA:
            while last < size and flags[last] & BLOCK:
                last += 1
            best_path(codes, i, last, units, weights, unknown, score, path)
            count = walk_path(flags, i, last, path, starts, ends, count)
        else:
            while last < size and not is_separator(flags[last]):
                last += 1
            count = longest_matches(codes, flags, i, last, units, weights, starts, ends, count)
        if last == i:
            last += 1
            if mode == JIEBA and last < size and codes[i] == 13 and codes[last] == 10:
                last += 1
            starts[count], ends[count] = i, last
            count += 1
        i = last
    return count
