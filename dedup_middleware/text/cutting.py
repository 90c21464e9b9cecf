"""Segmenters: kernels that cut a whole text into tokens.

    jieba   the most probable path through jieba's dictionary, token for token what
            `jieba.lcut(text, HMM=False)` gives, in every block of jieba's that has a Han character
    fmm     forward maximum matching over the same dictionary (Long Jun et al., patent
            CN102024065): the longest entry at each position, else one character; a run of ASCII
            letters and digits is one token; punctuation ends a matching window
    words   Unicode word boundaries (UAX #29); Thai, Khmer, Lao and Burmese as overlapping
            groups of three letters; ideographs and hiragana one by one
    char    single characters

With the first two, what has no Han character is left to `words`, which keeps "3.6" and
"example.com" whole; next to a Han character `fmm` cuts them at the point.

Kernels work on two parallel arrays, the code points and their flags and word classes (see
`characters`), and write tokens as pairs `starts[i], ends[i]`. At most one token starts at a
position, so arrays as long as the text are always large enough.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base.jit import kernel, subkernel
from dedup_middleware.base.kerneltypes import I32, R8, R64, RF64, U8, U32, int64
from dedup_middleware.text.characters import (
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
    SEPARATES,
    SEPARATOR,
    SINGLE,
    SINGLE_QUOTE,
    Codes,
    Flags,
    Hashes,
    Places,
    Tokens,
)
from dedup_middleware.text.paths import (
    PAD,
    ROWS,
    PathSearch,
    best_path,
    longest_matches,
    walk_blocks,
)
from dedup_middleware.text.trie import Trie

# Thai, Khmer, Lao, Burmese: overlapping groups of this many letters (with their marks) stand
# for the words that no space divides.
GRAM: Final = 3


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
    j = np.uint64(first + 1)
    while j < np.uint64(last) and flags[j] == flags[first]:  # most words are letters alone
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
    """Overlapping groups of `GRAM` letters of a run without spaces; the number and the end."""
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
    """The words of flags[first:last] by UAX #29; what is no word (see `SEPARATES`) is left
    out, and scripts without spaces give groups of letters."""
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
    """Each character with its marks, separators left out."""
    i = first
    while i < last:
        end = _skip_marks(flags, i + 1, last)
        if not flags[i] & SEPARATES:
            tokens.starts[count], tokens.ends[count] = i, end
            count += 1
        i = end
    return count


CHAR, WORDS, FMM, JIEBA = 0, 1, 2, 3
SEGMENTERS: Final = {"char": CHAR, "words": WORDS, "fmm": FMM, "jieba": JIEBA}
# So many characters are looked up together: few enough that the rows of `found` stay in the
# fastest memory, and that a Chinese word in an English page costs little.
_CHUNK: Final = 256
_STEP: Final = 64


@subkernel
def _next_block(flags: Flags, i: int) -> int:
    """Start of the next run of characters accepted by jieba that has a Han character in it."""
    first, size = np.uint64(i), np.uint64(flags.size)
    i, step = first, np.uint64(_STEP)
    # Most pages in other languages have none: many flags at once.
    some = False
    while i + step <= size and not some:
        for j in range(i, i + step):
            some |= flags[j] & HAN == HAN
        i += np.uint64(0) if some else step
    while i < size and flags[i] & HAN != HAN:
        i += np.uint64(1)
    if i < size:
        while i > first and flags[i - np.uint64(1)] & BLOCK:
            i -= np.uint64(1)
    return np.int64(i)


@subkernel
def _chunk_end(flags: Flags, first: int) -> int:
    """The end of the block that goes over the end of a chunk, so that no word is cut in two."""
    last = min(first + _CHUNK, flags.size)
    while last < flags.size and flags[last] & BLOCK:
        last += 1
    return last


@subkernel
def _next_window(flags: Flags, i: int) -> tuple[int, int]:
    """The next run without separators that has a Han character in it."""
    size = flags.size
    first = i
    while i < size and flags[i] & HAN != HAN:
        if flags[i] & SEPARATES:
            first = i + 1
        i += 1
    if i == size:
        return size, size
    while i < size and not flags[i] & SEPARATES:
        i += 1
    return first, i


@kernel(int64(U32, U8, int64, R64, R8, R64, RF64, I32, I32, U8))
def tokenize(
    codes: Codes, flags: Flags, mode: int, roots: Hashes, hints: NDArray[np.uint8], nodes: Hashes,
    values: NDArray[np.float64], starts: Places, ends: Places, sorts: NDArray[np.uint8],
) -> int:  # fmt: skip
    """Cut a whole text; the number of tokens.

    :param mode: CHAR, WORDS, FMM or JIEBA.
    :param roots, hints, nodes, values: those of the dictionary's `Trie`.
    :param sorts: zeros; JIEBA writes there what each token may be, see `names`.
    """
    size = flags.size
    tokens = Tokens(starts, ends, sorts)
    if mode == CHAR:
        return single_characters(flags, 0, size, tokens, 0)
    if mode == WORDS:
        return words(flags, 0, size, tokens, 0)
    trie = Trie(roots, hints, nodes, values)
    if mode == FMM:
        return _by_longest_match(codes, flags, trie, tokens)
    room = _longest_chunk(flags) + PAD
    score, found = np.empty(room, np.float64), np.empty(ROWS * room, np.uint64)
    search = PathSearch(found, score, np.empty(size, np.int32))
    return _by_best_path(codes, flags, trie, search, tokens)


@subkernel
def _longest_chunk(flags: Flags) -> int:
    """Characters of a chunk, wherever in the text it begins, at the most."""
    longest, run = 0, 0
    for i in range(flags.size):
        run = run + 1 if flags[i] & BLOCK else 0
        longest = max(longest, run)
    return min(flags.size, _CHUNK + longest)


@subkernel
def _by_best_path(
    codes: Codes, flags: Flags, trie: Trie, search: PathSearch, tokens: Tokens
) -> int:
    """JIEBA for `tokenize`, which makes the arrays: where arrays are made, numba counts references
    to them at each turn of the loop."""
    size, count, i, chunk, done = flags.size, 0, 0, 0, 0
    while True:
        if i < size and flags[i] & HAN != HAN:
            first = _next_block(flags, i)
            count = words(flags, i, first, tokens, count)
            i = first
        if i == size:
            return count
        if i >= done:
            chunk, done = i, _chunk_end(flags, i)
            best_path(codes, flags, i, done, trie, search)
        i, count = walk_blocks(flags, chunk, i, done, search, tokens, count)


@subkernel
def _by_longest_match(codes: Codes, flags: Flags, trie: Trie, tokens: Tokens) -> int:
    """FMM for `tokenize`."""
    count, i = 0, 0
    while i < flags.size:
        first, last = _next_window(flags, i)
        count = words(flags, i, first, tokens, count)
        count = longest_matches(codes, flags, first, last, trie, tokens, count)
        i = last
    return count
