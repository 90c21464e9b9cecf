"""Kernels that cut a whole text into tokens. `segment` wraps them for people.

They work on two parallel arrays, the code points and their flags and word classes (see
`characters`), and write tokens as pairs `starts[i], ends[i]`. At most one token starts at a
position, so arrays as long as the text are always large enough.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.kernels import kernel, subkernel
from dedup_middleware.text.boundaries import single_characters, words
from dedup_middleware.text.characters import BLOCK, HAN, SEPARATES
from dedup_middleware.text.paths import PAD, ROWS, best_path, longest_matches, walk_path

Codes = NDArray[np.uint32]
Flags = NDArray[np.uint8]
Places = NDArray[np.int32]
Nodes = NDArray[np.uint64]
Weights = NDArray[np.float64]

CHAR, WORDS, FMM, JIEBA = 0, 1, 2, 3
# Blocks are short (a clause); those no further apart than this are looked up together.
_GAP: Final = 32
_STRETCH: Final = 2048


@subkernel
def _stretch_end(flags: Flags, last: int, limit: int) -> int:
    """Where the last of the blocks ends that follow closely on the one that ends at `last`."""
    while last < limit:
        following, end = next_block(flags, last)
        if following - last > _GAP or end == following:
            break
        last = end
    return last


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
        if flags[i] & SEPARATES:
            first = i + 1
        i += 1
    if i == size:
        return size, size
    while i < size and not flags[i] & SEPARATES:
        i += 1
    return first, i


@kernel
def tokenize(
    codes: Codes,
    flags: Flags,
    mode: int,
    roots: Nodes,
    nodes: Nodes,
    values: Weights,
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
    count, i, done = 0, 0, 0
    path = np.empty(size, np.int32)
    found, score = np.empty(0, np.uint64), np.empty(0, np.float64)
    while i < size:
        if mode == FMM:
            first, last = next_window(flags, i)
        else:
            first, last = next_block(flags, i)
        if first > i:
            count = words(flags, i, first, starts, ends, count)
        if mode == FMM:
            count = longest_matches(codes, flags, first, last, roots, nodes, starts, ends, count)
        elif last > first:
            if last > done:
                done = _stretch_end(flags, last, first + _STRETCH)
                if score.size < done - first + PAD:
                    score = np.empty(done - first + PAD, np.float64)
                    found = np.empty(ROWS * (done - first + PAD), np.uint64)
                best_path(codes, flags, first, done, roots, nodes, values, found, score, path)
            count = walk_path(flags, first, last, path, starts, ends, count)
        i = last
    return count


@kernel
def lossless(
    codes: Codes,
    flags: Flags,
    mode: int,
    roots: Nodes,
    nodes: Nodes,
    values: Weights,
    starts: Places,
    ends: Places,
) -> int:
    """Cut a whole text by the dictionary alone (FMM or JIEBA); the tokens add up to the text."""
    size = flags.size
    count, i, done = 0, 0, 0
    path = np.empty(size, np.int32)
    found, score = np.empty(0, np.uint64), np.empty(0, np.float64)
    while i < size:
        last = i
        if mode == JIEBA:
            if i == done:
                done = i + _STRETCH if i + _STRETCH < size else size
                while done < size and flags[done] & BLOCK:
                    done += 1
                if score.size < done - i + PAD:
                    score = np.empty(done - i + PAD, np.float64)
                    found = np.empty(ROWS * (done - i + PAD), np.uint64)
                best_path(codes, flags, i, done, roots, nodes, values, found, score, path)
            while last < done and flags[last] & BLOCK:
                last += 1
            count = walk_path(flags, i, last, path, starts, ends, count)
        else:
            while last < size and not flags[last] & SEPARATES:
                last += 1
            count = longest_matches(codes, flags, i, last, roots, nodes, starts, ends, count)
        if last == i:
            last += 1
            if mode == JIEBA and last < size and codes[i] == 13 and codes[last] == 10:
                last += 1
                done = last if last > done else done
            starts[count], ends[count] = i, last
            count += 1
        i = last
    return count
