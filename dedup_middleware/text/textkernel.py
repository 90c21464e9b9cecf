"""One kernel from code points to what is compared: shingles, numerals, clauses, anchors."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base.jit import allocating_subkernel, kernel, prefetch, subkernel
from dedup_middleware.base.kerneltypes import I32, R64, U8, U32, U64, U64_2, Tuple, int64, uint64
from dedup_middleware.text import cutting
from dedup_middleware.text.characters import (
    NUMERAL,
    SEPARATES,
    Codes,
    CutText,
    Flags,
    Hashes,
    Places,
    fold_and_align,
)
from dedup_middleware.text.clauses import (
    LONG,
    NAME,
    NUMBER,
    STOP,
    TURNING,
    TURNS,
    WORDS,
    divides,
    ends_turn,
    kind_or_place,
    name_hash,
    weigh_parts,
)
from dedup_middleware.text.datelines import date_line, editors_line
from dedup_middleware.text.figures import hash_figures
from dedup_middleware.text.hashing import (
    TEXT_BASE,
    TOKEN_START,
    HashedText,
    bucket_of,
    hash_prefixes,
    hash_slice,
    hash_token,
    mix,
    shingle_features,
)
from dedup_middleware.text.names import find_names, mark, places_of_names
from dedup_middleware.text.places import NamedText, symbols_dominate
from dedup_middleware.text.scriptclauses import NONE, script_clauses, script_of
from dedup_middleware.text.wording import NO_NEWS, find_anchors, locate_values

#: whether the text need not be composed, then the parts of `Shingles`: features, counts, figures,
#: places, clauses, tokens, exact, order, values, positions, sorts, anchors, words
TextParts = tuple[
    bool, Hashes, NDArray[np.uint32], Hashes, NDArray[np.uint32], Hashes, int, np.uint64, Hashes,
    Hashes, Places, NDArray[np.uint8], Hashes, NDArray[np.uint32],
]  # fmt: skip


@subkernel
def _hash_tokens(
    text: HashedText, cut: CutText, keys: Hashes, hashes: Hashes, kinds: NDArray[np.uint16]
) -> None:
    """Write the hash and the kind of as many tokens as `kinds` holds, and whether their ends turn
    a clause round; apart from what depends on it, because a mispredicted branch would wait for each
    look-up. Long tokens are hashed letter by letter."""
    for token in range(np.uint64(kinds.size)):
        first, last = np.uint64(cut.starts[token]), np.uint64(cut.ends[token])
        if last - first < np.uint64(LONG):
            hashes[token] = hash_slice(text, first, last)
        else:
            hashes[token] = hash_token(text.codes, first, last, keys)
        prefetch(text.kinds, bucket_of(text.kinds, hashes[token]))
    for token in range(np.uint64(kinds.size)):
        kind = kind_or_place(text.kinds, hashes[token], cut.sorts[token])
        turns = ends_turn(text.codes, np.uint64(cut.starts[token]), np.uint64(cut.ends[token]))
        turns &= kind & np.uint64(NUMBER - 1) == np.uint64(0)
        kinds[token] = kind | (np.uint64(TURNING) if turns else np.uint64(0))


@kernel(
    Tuple((int64, uint64, int64))(
        U32, U8, I32, I32, int64, U8, R64, R64, U64, U64_2, U8, U8
    )
)  # fmt: skip
def keep_words(
    codes: Codes, flags: Flags, starts: Places, ends: Places, count: int, sorts: NDArray[np.uint8],
    stops: Hashes, keys: Hashes, hashes: Hashes, clauses: Hashes, cuts: Flags, numbers: Flags,
) -> tuple[int, np.uint64, int]:  # fmt: skip
    """Hashes of the tokens that are neither punctuation nor stop words; moves their places to
    the front of `starts` and `ends`, and writes to `cuts` whether a clause begins before a token,
    to `numbers` whether it is a numeral written as a word. Returns the number of tokens, the hash
    of the whole text, and the number of clauses that are written to `clauses`, which has a row for
    each token. `sorts` says which words the dictionary tags as places.

    A text of stop words alone keeps them: it says something, so it can be compared.
    """
    kept = np.uint64(0)
    prefixes, powers = np.empty(codes.size + 1, np.uint64), np.empty(LONG, np.uint64)
    exact = hash_prefixes(codes, flags, keys, prefixes, powers)
    text = HashedText(codes, flags, prefixes, powers, stops, keys[TOKEN_START])
    begin, end = (starts[0], ends[0]) if count else (np.int32(0), np.int32(0))
    kinds = np.empty(count, np.uint16)
    _hash_tokens(text, CutText(codes, flags, starts, ends, sorts), keys, hashes, kinds)
    earliest = hashes[0] if count else np.uint64(0)
    written = np.uint64(0)
    for every in (False, True):
        written, words, turn, before = np.uint64(0), np.uint64(0), np.uint64(0), np.uint64(begin)
        cut = np.uint8(0)
        for token in range(np.uint64(count)):
            first, last = np.uint64(starts[token]), np.uint64(ends[token])
            i = first
            while i < last and flags[i] & SEPARATES:
                i += np.uint64(1)
            value = hashes[token]
            # Always written, and counted only if it stays: a branch would be mispredicted.
            hashes[kept] = value
            starts[kept] = starts[token]
            ends[kept] = ends[token]
            kind, says = np.uint64(kinds[token]), i < last
            numbers[kept] = np.uint8(kind & np.uint64(NUMBER) != 0)
            turning = kind & np.uint64(TURNING) != 0
            kind &= np.uint64(NUMBER - 1)
            ends_clause = says and divides(codes, flags, before, first)
            cut |= np.uint8(ends_clause)
            cuts[kept] = cut
            counts = says & (every | (kind & np.uint64(STOP) == 0))
            kept += np.uint64(counts)
            cut = np.uint8(0) if counts else cut
            if ends_clause:
                clauses[written, 0], clauses[written, 1] = mix(words), turn
                written += np.uint64(words != 0)
                words = turn = np.uint64(0)
            before = last if says else before
            plain = says & (flags[first] & NUMERAL == 0)
            if turning and plain:
                more, turned = weigh_parts(text, first, last)
                words += more
                turn += turned
            else:  # no branch: it would be mispredicted
                known = kind >> np.uint64(1) if plain else np.uint64(0)
                words += WORDS[known] + (value if plain & (kind == 0) else np.uint64(0))
                turn += name_hash(text, first, last) if known == np.uint64(NAME) else TURNS[known]
        if count:
            clauses[written, 0], clauses[written, 1] = mix(words), turn
            written += np.uint64(words != 0)
        if kept or not count:
            break
        # The one place that was overwritten.
        starts[0], ends[0], hashes[0] = begin, end, earliest
    return np.int64(kept), exact, np.int64(written)


@allocating_subkernel
def read_text(
    raw: Codes, composed: bool, table: Codes, expansions: Codes, mode: int, width: int,
    roots: Hashes, hints: NDArray[np.uint8], nodes: Hashes, weights: NDArray[np.float64],
    stops: Hashes, keys: Hashes,
) -> TextParts:  # fmt: skip
    """Code points in, the parts of `Shingles` out; first False if the text must be composed.

    With a width of 0 they are empty but for `order`, the hashes of the tokens.
    """
    ready, codes, flags, shifts = fold_and_align(raw, composed, table, expansions)
    kept, exact = 0, keys[0]
    hashes = np.empty(codes.size, np.uint64)
    names, named = np.empty((0, 4), np.int32), 0
    clauses, written = np.empty((0, 2), np.uint64), 0
    starts, ends = np.empty(codes.size, np.int32), np.empty(codes.size, np.int32)
    cuts, numbers = np.empty(codes.size, np.uint8), np.empty(codes.size, np.uint8)
    if ready:
        tagged = np.zeros(codes.size, np.uint8)
        count = cutting.tokenize(
            codes, flags, mode, roots, hints, nodes, weights, starts, ends, tagged
        )
        names = np.empty((count, 4), np.int32)
        marks = np.empty(count, np.uint8)
        text = CutText(codes, flags, starts[:count], ends[:count], tagged[:count])
        if mode == cutting.CHAR or not mark(raw, shifts, text, marks):
            marks = marks[:0]
        named = find_names(text, marks, names)
        clauses = np.empty((count, 2), np.uint64)
        kept, exact, written = keep_words(
            codes, flags, starts, ends, count, tagged, stops, keys, hashes, clauses, cuts, numbers
        )
        script = script_of(codes)
        if script != NONE:
            clauses = script_clauses(codes, flags, script, stops, keys)
            written = clauses.shape[0]
    if width == 0:
        none, nowhere, few = hashes[:0], codes[:0], cuts[:0]
        return (
            ready, none, nowhere, none, nowhere, clauses[:0], kept, exact, hashes[:kept], none,
            starts[:0], few, none, nowhere,
        )  # fmt: skip
    features, counts, order = shingle_features(hashes, kept, width, keys)
    figures, places, stated, spans, kinds, line = hash_figures(
        NamedText(codes, flags, names[:named], keys)
    )
    # Punctuation is not in the text's hash: 3.5 is not 35, and -5 and 5 are not 5 and -5.
    for figure in stated:
        exact = exact * keys[TEXT_BASE] + figure
    own = places_of_names(codes, flags, names[:named])
    # Words do not say what a page of symbols says: only one with the same text holds it.
    whole = exact if symbols_dominate(flags, kept) else np.uint64(0)
    located = locate_values(starts, hashes, numbers, kept, stated, spans, kinds, own, line, whole)
    values, positions, sorts = located
    anchors = find_anchors(hashes, cuts, kept, keys)
    begin, end = date_line(codes, line)
    editors = editors_line(codes)
    words = np.empty(kept, np.uint32)
    for i in range(np.uint64(kept)):
        said = starts[i] < begin or end <= starts[i] < editors
        words[i] = max(np.uint32(hashes[i]), np.uint32(1)) if said else np.uint32(NO_NEWS)
    return (
        ready, features, counts, figures, places, clauses[:written], kept, exact, order, values,
        positions, sorts, anchors, words,
    )  # fmt: skip
