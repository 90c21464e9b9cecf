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

# By the dictionary: the best path, and the longest match.

ROWS, PAD = 3, 4


class PathSearch(NamedTuple):
    """Where the best paths through a chunk of n characters are searched for.

    :param found: uint64[ROWS * (n + PAD)], the nodes of one, two and three characters from each
        position on; in the third row that of a best word of more.
    :param score: float64[n + PAD].
    :param path: int32, of each character of the text where the best word from it on ends.
    """

    found: Hashes
    score: NDArray[np.float64]
    path: Places


_ZERO, _ONE, _TWO, _THREE, _PAD = map(np.uint64, range(5))
_EIGHT, _TWENTY, _BYTE = np.uint64(8), np.uint64(20), np.uint64(0xFF)
_BLOCK_SHIFT: Final = np.uint64(BLOCK.bit_length() - 1)
_FLOORS: Final = np.array([0.0, -np.inf])  # of the scores of what is in no word, and of all else
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
    # Most look-ups fail. The hints are an eighth of the nodes, so that these touch less memory.
    child = trie.nodes[slot if trie.hints[slot] == np.uint8(label) else _ZERO]
    return child if (child >> _LABEL) & _LABELS == label else _ZERO


@subkernel
def _if_hinted(slot: np.uint64, hint: np.uint8, label: np.uint64) -> np.uint64:
    """`slot` if its hint is that of the label, else 0; a comparison would become a branch, which
    can't be predicted."""
    return slot & ((np.uint64(hint) ^ (label & _BYTE)) - _ONE) >> _EIGHT


@subkernel
def _look_up(codes: Codes, flags: Flags, first: int, last: int, trie: Trie, found: Hashes) -> None:
    """The nodes of one, two and three characters from each position on: three rows of `found`.

    Passes without a branch, because then the processor waits for many look-ups at once.
    What jieba does not accept (see `BLOCK`) is in no word.
    """
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
        # Places first, so that the processor can ask for many at once.
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
    """The most probable path through each block of codes[first:last]; none goes on behind it.

    Sums and ties are those of `jieba.Tokenizer.calc`: the same additions in the same order, and the
    longer word of equals.
    """
    _look_up(codes, flags, first, last, trie, search.found)
    size = last - first
    begin, row = np.uint64(first), np.uint64(size) + _PAD
    found, score, values = search.found, search.score, trie.values
    unknown = values[np.uint64(values.size) - _ONE]
    score[np.uint64(size)] = 0.0
    one, two, three = 0.0, 0.0, 0.0  # the scores one, two and three characters on
    # No branch depends on which word wins, because it would be mispredicted; and only one addition
    # and one choice wait for the score of the character before.
    for back in range(size):
        i = np.uint64(size - 1 - back)
        node = found[row + row + i]
        longer, total = values[found[row + i] >> _VALUE] + two, values[node >> _VALUE] + three
        length = _TWO + np.uint64(total >= longer)
        longer = total if total > longer else longer
        j, longest = i + _THREE, node
        while node & _BASES:  # written out: as a call it would cost as much as all the rest
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
        # What is in no word ends a path: its score is 0, which no other one exceeds.
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
    """Tokens of the best path through the block that begins at `first`; single letters and digits
    in a row are one, as in jieba. Returns where the block ends, and the number of tokens.

    :param chunk: where what `found` holds begins, as `best_path` left it.
    """
    i, stop, n = np.uint64(first), np.uint64(last), np.uint64(count)
    found, path = search.found, search.path
    origin, row = np.uint64(chunk), np.uint64(last - chunk) + _PAD
    while i < stop and flags[i] & BLOCK:
        end = np.uint64(path[i])
        node = found[(min(end - i, _THREE) - _ONE) * row + i - origin]
        if flags[i] & ALNUM and end == i + _ONE:
            node = _ZERO  # the whole run is no word of the dictionary, as its first letter may be
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
    """`walk_path` through the block at `first` and all that follow it behind separators alone and
    begin with a Han character; the tokens of the separators are none."""
    i = first
    while True:
        i, count = walk_path(flags, chunk, i, last, search, tokens, count)
        # Between two clauses there is a comma, or little else.
        while i < last and flags[i] & (BLOCK | CLASS_MASK) == SEPARATOR:
            i += 1
        if i == last or flags[i] & HAN != HAN:
            return i, count


@subkernel
def longest_matches(
    codes: Codes, flags: Flags, first: int, last: int, trie: Trie, tokens: Tokens, count: int
) -> int:
    """Forward maximum matching inside one window: the longest entry, else one character.

    A run of ASCII letters and digits is one token, so no entry ends inside such a run.
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
    if mode == WORDS or _next_block(flags, 0) == size:
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
