"""Kernels that cut a whole text into tokens. `segment` wraps them for people.

They work on two parallel arrays, the code points and their flags and word classes (see
`characters`), and write tokens as pairs `starts[i], ends[i]`. At most one token starts at a
position, so arrays as long as the text are always large enough.
"""

# NumPy's stubs type an indexed scalar as Any.
# mypy: disable-error-code="no-any-return"
from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base.jit import kernel, subkernel
from dedup_middleware.base.kerneltypes import I32, R8, R64, RF64, U8, U32, int64
from dedup_middleware.text.boundaries import single_characters, words
from dedup_middleware.text.characters import BLOCK, HAN, SEPARATES
from dedup_middleware.text.paths import (
    PAD,
    ROWS,
    best_path,
    longest_matches,
    walk_blocks,
    walk_path,
)

Codes = NDArray[np.uint32]
Flags = NDArray[np.uint8]
Places = NDArray[np.int32]
Nodes = NDArray[np.uint64]
Weights = NDArray[np.float64]
Hints = NDArray[np.uint8]
Kinds = NDArray[np.uint8]

CHAR, WORDS, FMM, JIEBA = 0, 1, 2, 3
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


@kernel(int64(U32, U8, int64, R64, R8, R64, RF64, I32, I32, U8))
def tokenize(
    codes: Codes,
    flags: Flags,
    mode: int,
    roots: Nodes,
    hints: Hints,
    nodes: Nodes,
    values: Weights,
    starts: Places,
    ends: Places,
    named: Kinds,
) -> int:
    """Cut a whole text: Chinese runs by the dictionary, all else by `words`.

    Args:
        mode: CHAR, WORDS, FMM or JIEBA.
        named: zeros; JIEBA writes there what each token may be, see `names`.

    Returns:
        The number of tokens.
    """
    size = flags.size
    if mode == CHAR:
        return single_characters(flags, 0, size, starts, ends, 0)
    if mode == WORDS:
        return words(flags, 0, size, starts, ends, 0)
    if mode == FMM:
        return _by_longest_match(codes, flags, roots, hints, nodes, starts, ends)
    room = _longest_chunk(flags) + PAD
    score, found = np.empty(room, np.float64), np.empty(ROWS * room, np.uint64)
    path = np.empty(size, np.int32)
    return _by_best_path(
        codes, flags, roots, hints, nodes, values, found, score, path, starts, ends, named
    )


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
    codes: Codes,
    flags: Flags,
    roots: Nodes,
    hints: Hints,
    nodes: Nodes,
    values: Weights,
    found: Nodes,
    score: Weights,
    path: Places,
    starts: Places,
    ends: Places,
    named: Kinds,
) -> int:
    """JIEBA for `tokenize`, which makes the arrays: where arrays are made, numba counts references
    to them at each turn of the loop."""
    size, count, i, chunk, done = flags.size, 0, 0, 0, 0
    while True:
        if i < size and flags[i] & HAN != HAN:
            first = _next_block(flags, i)
            count = words(flags, i, first, starts, ends, count)
            i = first
        if i == size:
            return count
        if i >= done:
            chunk, done = i, _chunk_end(flags, i)
            best_path(codes, flags, i, done, roots, hints, nodes, values, found, score, path)
        i, count = walk_blocks(flags, chunk, i, done, path, found, starts, ends, named, count)


@subkernel
def _by_longest_match(
    codes: Codes,
    flags: Flags,
    roots: Nodes,
    hints: Hints,
    nodes: Nodes,
    starts: Places,
    ends: Places,
) -> int:
    """FMM for `tokenize`."""
    count, i = 0, 0
    while i < flags.size:
        first, last = next_window(flags, i)
        count = words(flags, i, first, starts, ends, count)
        count = longest_matches(codes, flags, first, last, roots, hints, nodes, starts, ends, count)
        i = last
    return count


@kernel(int64(U32, U8, int64, R64, R8, R64, RF64, I32, I32, U8))
def lossless(
    codes: Codes,
    flags: Flags,
    mode: int,
    roots: Nodes,
    hints: Hints,
    nodes: Nodes,
    values: Weights,
    starts: Places,
    ends: Places,
    named: Kinds,
) -> int:
    """Cut a whole text by the dictionary alone (FMM or JIEBA); the tokens add up to the text."""
    size = flags.size
    count, i, chunk, done = 0, 0, 0, 0
    room = _longest_chunk(flags) + PAD
    score, found = np.empty(room, np.float64), np.empty(ROWS * room, np.uint64)
    path = np.empty(size, np.int32)
    while i < size:
        last = i
        if mode == JIEBA:
            if i >= done:
                chunk, done = i, _chunk_end(flags, i)
                best_path(codes, flags, i, done, roots, hints, nodes, values, found, score, path)
            last, count = walk_path(flags, chunk, i, done, path, found, starts, ends, named, count)
        else:
            while last < size and not flags[last] & SEPARATES:
                last += 1
            count = longest_matches(codes, flags, i, last, roots, hints, nodes, starts, ends, count)
        if last == i:
            last += 1
            if mode == JIEBA and last < size and codes[i] == 13 and codes[last] == 10:
                last += 1
            starts[count], ends[count] = i, last
            count += 1
        i = last
    return count
