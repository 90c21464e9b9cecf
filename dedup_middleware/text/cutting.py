"""Segmenters: kernels that cut a whole text into tokens.

    jieba   the most probable path through jieba's dictionary, token for token the result of
            `jieba.lcut(text, HMM=False)`, in every jieba block that has a Han character
    fmm     forward maximum matching over the same dictionary (Long Jun et al., patent
            CN102024065): the longest entry at each position, else one character; a run of ASCII
            letters and digits is one token; punctuation ends a matching window
    words   Unicode word boundaries (UAX #29); Thai, Khmer, Lao and Burmese as overlapping
            groups of three letters; ideographs and hiragana one by one
    char    single characters

With the first two, text without a Han character is left to `words`, which keeps "3.6" and
"example.com" whole; next to a Han character `fmm` cuts them at the point.

Kernels read two parallel arrays, the code points and their flags and word classes (see
`characters`), and write tokens as pairs `starts[i], ends[i]`. At most one token starts at a
position, so arrays as long as the text are always large enough.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base.jit import kernel, prefetch, subkernel
from dedup_middleware.base.kerneltypes import I32, R8, R64, RF64, U8, U32, int64
from dedup_middleware.text.boundaries import single_characters, words
from dedup_middleware.text.characters import (
    ALNUM,
    BLOCK,
    CLASS_MASK,
    HAN,
    SEPARATES,
    SEPARATOR,
    Codes,
    Flags,
    Hashes,
    Places,
    Tokens,
)
from dedup_middleware.text.names import KIND_BITS
from dedup_middleware.text.trie import (
    BASE_BITS,
    KIND_SHIFT,
    LABEL_SHIFT,
    NO_LABEL,
    VALUE_SHIFT,
    Trie,
)

# Segmentation by the dictionary: best path and longest match.

ROWS, PAD = 3, 4


class PathSearch(NamedTuple):
    """Buffers of the search for the best paths through a chunk of n characters.

    :param found: uint64[ROWS * (n + PAD)], trie nodes of the one, two and three characters from
        each position on; a longer best word replaces the node in the third row.
    :param score: float64[n + PAD].
    :param path: int32, for each character of the text the end of the best word that begins there.
    """

    found: Hashes
    score: NDArray[np.float64]
    path: Places


_ZERO, _ONE, _TWO, _THREE, _PAD = map(np.uint64, range(5))
_EIGHT, _TWENTY, _BYTE = np.uint64(8), np.uint64(20), np.uint64(0xFF)
_BLOCK_SHIFT: Final = np.uint64(BLOCK.bit_length() - 1)
_FLOORS: Final = np.array([0.0, -np.inf])  # lowest score of characters jieba refuses, and of others
_BASES: Final = np.uint64((1 << BASE_BITS) - 1)
_LABEL: Final = np.uint64(LABEL_SHIFT)
_LABELS: Final = np.uint64(NO_LABEL)
_VALUE: Final = np.uint64(VALUE_SHIFT)
_KIND: Final = np.uint64(KIND_SHIFT)
_KINDS: Final = np.uint64((1 << KIND_BITS) - 1)


@subkernel
def _child(trie: Trie, node: np.uint64, root: np.uint64) -> np.uint64:
    """The child of `node` for the character whose root entry is `root`; 0 if there is none."""
    label = (root >> _LABEL) & _LABELS
    slot = (node & _BASES) + label
    # Most look-ups fail, nearly all by the hints, which take an eighth of the nodes' memory.
    child = trie.nodes[slot if trie.hints[slot] == np.uint8(label) else _ZERO]
    return child if (child >> _LABEL) & _LABELS == label else _ZERO


@subkernel
def _if_hinted(slot: np.uint64, hint: np.uint8, label: np.uint64) -> np.uint64:
    """`slot` if its hint is that of the label, else 0; a comparison would be an unpredictable
    branch."""
    return slot & ((np.uint64(hint) ^ (label & _BYTE)) - _ONE) >> _EIGHT


@subkernel
def _look_up(codes: Codes, flags: Flags, first: int, last: int, trie: Trie, found: Hashes) -> None:
    """Write the trie nodes of the one, two and three characters from each position on to `found`.
    Characters that jieba does not accept (see `BLOCK`) are in no word. The passes have no branch,
    so that the processor has many memory accesses in flight."""
    size, begin = np.uint64(last - first), np.uint64(first)
    row = size + _PAD
    base = _ZERO
    for i in range(size):
        accepted = _ZERO - (np.uint64(flags[begin + i]) >> _BLOCK_SHIFT & _ONE)
        node = trie.roots[np.uint64(codes[begin + i]) & accepted]
        prefetch(trie.hints, base + (node >> _LABEL & _LABELS))
        found[i] = node
        base = node & _BASES
    for i in range(size, row):
        found[i] = _ZERO
    for length in range(_ONE, _THREE):
        before, after = (length - _ONE) * row, length * row
        # Indexes first, so that many loads are in flight at once.
        for i in range(size):
            label = found[i + length] >> _LABEL
            slot = (found[before + i] & _BASES) + (label & _LABELS)
            slot = _if_hinted(slot, trie.hints[slot], label)
            prefetch(trie.nodes, slot)
            found[after + i] = slot
        for i in range(size):
            child, label = trie.nodes[found[after + i]], found[i + length] >> _LABEL
            differing = (child >> _LABEL ^ label) & _LABELS
            equal = (differing - _ONE) >> _TWENTY
            child &= equal | equal << _TWENTY
            found[after + i] = child
            prefetch(trie.hints, (child & _BASES) + (found[i + length + _ONE] >> _LABEL & _LABELS))


@subkernel
def best_path(
    codes: Codes, flags: Flags, first: int, last: int, trie: Trie, search: PathSearch
) -> None:
    """Find the most probable path through each block of codes[first:last]; none leaves its block.

    Sums and ties are those of `jieba.Tokenizer.calc`: the same additions in the same order, and of
    equal scores the longer word.
    """
    _look_up(codes, flags, first, last, trie, search.found)
    size = last - first
    begin, row = np.uint64(first), np.uint64(size) + _PAD
    found, score, values = search.found, search.score, trie.values
    unknown = values[np.uint64(values.size) - _ONE]
    score[np.uint64(size)] = 0.0
    one, two, three = 0.0, 0.0, 0.0  # the scores one, two and three characters further on
    # No branch depends on which word wins: it would be mispredicted. Only one addition and one
    # choice depend on the score of the previous iteration.
    for back in range(size):
        i = np.uint64(size - 1 - back)
        node = found[row + row + i]
        longer, total = values[found[row + i] >> _VALUE] + two, values[node >> _VALUE] + three
        length = _TWO + np.uint64(total >= longer)
        longer = total if total > longer else longer
        j, longest = i + _THREE, node
        while node & _BASES:  # inlined by hand: a call would cost as much as all the rest
            node = _child(trie, node, found[j])
            if node == _ZERO:
                break
            j += _ONE
            total = values[node >> _VALUE] + score[j]
            if total >= longer:
                longer, length, longest = total, j - i, node
        found[row + row + i] = longest
        alone = values[found[i] >> _VALUE]
        nothing = (alone == -np.inf) & (longer == -np.inf)
        best = (unknown if nothing else alone) + one
        # A character that jieba does not accept ends a path: its score is 0, above any word's.
        floor = _FLOORS[np.uint64(flags[begin + i]) >> _BLOCK_SHIFT & _ONE]
        longer = longer if longer > floor else floor
        wins = np.uint64(longer >= best)
        best = longer if longer > best else best
        score[i] = best
        search.path[begin + i] = begin + i + _ONE + wins * (length - _ONE)
        one, two, three = best, one, two


@subkernel
def walk_path(
    flags: Flags, chunk: int, first: int, last: int, search: PathSearch, tokens: Tokens, count: int
) -> tuple[int, int]:
    """Write the tokens of the best path through the block at `first`; return its end and the number
    of tokens. As in jieba, single letters and digits in a row are one token.

    :param chunk: begin of the chunk whose nodes `best_path` left in `found`.
    """
    i, stop, n = np.uint64(first), np.uint64(last), np.uint64(count)
    found, path = search.found, search.path
    origin, row = np.uint64(chunk), np.uint64(last - chunk) + _PAD
    while i < stop and flags[i] & BLOCK:
        end = np.uint64(path[i])
        node = found[(min(end - i, _THREE) - _ONE) * row + i - origin]
        if flags[i] & ALNUM and end == i + _ONE:
            node = _ZERO  # the run is not in the dictionary, even if its first letter is
            while end < stop and flags[end] & ALNUM and np.uint64(path[end]) == end + _ONE:
                end += _ONE
        tokens.starts[n], tokens.ends[n] = i, end
        tokens.sorts[n] = node >> _KIND & _KINDS
        n += _ONE
        i = end
    return np.int64(i), np.int64(n)


@subkernel
def walk_blocks(
    flags: Flags, chunk: int, first: int, last: int, search: PathSearch, tokens: Tokens, count: int
) -> tuple[int, int]:
    """Apply `walk_path` to the block at `first` and to the blocks after it that begin with a Han
    character, as long as there are only separators between them, which are no tokens."""
    i = first
    while True:
        i, count = walk_path(flags, chunk, i, last, search, tokens, count)
        # Between two clauses there is little more than a comma.
        while i < last and flags[i] & (BLOCK | CLASS_MASK) == SEPARATOR:
            i += 1
        if i == last or flags[i] & HAN != HAN:
            return i, count


@subkernel
def longest_matches(
    codes: Codes, flags: Flags, first: int, last: int, trie: Trie, tokens: Tokens, count: int
) -> int:
    """Forward maximum matching inside one window: the longest entry, else one character.

    A run of ASCII letters and digits is one token, and no entry may end inside it.
    """
    i = first
    while i < last:
        end = i + 1
        if flags[i] & ALNUM:
            while end < last and flags[end] & ALNUM:
                end += 1
        else:
            node, j = _root(trie.roots, codes[i]), i + 1
            while j < last and node & _BASES:
                node = _child(trie, node, _root(trie.roots, codes[j]))
                j += 1
                inside = j < last and flags[j - 1] & flags[j] & ALNUM
                if node >> _VALUE and not inside:
                    end = j
        tokens.starts[count], tokens.ends[count] = i, end
        count += 1
        i = end
    return count


@subkernel
def _root(roots: Hashes, code: int) -> np.uint64:
    return roots[np.uint64(code)] if code < roots.size else _ZERO


CHAR, WORDS, FMM, JIEBA = 0, 1, 2, 3
SEGMENTERS: Final = {"char": CHAR, "words": WORDS, "fmm": FMM, "jieba": JIEBA}
# Characters that are looked up together: so few that the rows of `found` stay in the L1 cache, and
# that a Chinese word in an English page costs little.
_CHUNK: Final = 256
_STEP: Final = 64


@subkernel
def _next_block(flags: Flags, i: int) -> int:
    """Start of the next run of characters accepted by jieba that has a Han character in it."""
    first, size = np.uint64(i), np.uint64(flags.size)
    i, step = first, np.uint64(_STEP)
    # Vectorised: most pages in other languages have none.
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
    """End of the block that crosses the end of a chunk, so that no word is cut in two."""
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
    """Cut a whole text into tokens; return their number.

    :param mode: CHAR, WORDS, FMM or JIEBA.
    :param roots, hints, nodes, values: those of the dictionary's `Trie`.
    :param sorts: zeros; JIEBA writes what each token may be, see `names`.
    """
    size = flags.size
    tokens = Tokens(starts, ends, sorts)
    if mode == CHAR:
        return single_characters(flags, 0, size, tokens, 0)
    if mode == WORDS or _next_block(flags, 0) == size:
        return words(flags, 0, size, tokens, 0)
    trie = Trie(roots, hints, nodes, values)
    if mode == FMM:
        return _by_longest_match(codes, flags, trie, tokens)
    # One array, as making and freeing three takes longer. Only its last part is used in full, the
    # others as far as the longest chunk needs.
    row = size + PAD
    room = np.empty((ROWS + 2) * row, np.uint64)
    score, path = room[-2 * row : -row].view(np.float64), room[-row:].view(np.int32)
    search = PathSearch(room, score, path)
    return _by_best_path(codes, flags, trie, search, tokens)


@subkernel
def _by_best_path(
    codes: Codes, flags: Flags, trie: Trie, search: PathSearch, tokens: Tokens
) -> int:
    """Write the tokens of mode JIEBA; return their number. Not in `tokenize`: in the function that
    makes arrays, numba counts references to them in each iteration."""
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
    count, i = 0, 0
    while i < flags.size:
        first, last = _next_window(flags, i)
        count = words(flags, i, first, tokens, count)
        count = longest_matches(codes, flags, first, last, trie, tokens, count)
        i = last
    return count
