"""Clauses: the words between two punctuation marks, and whether they are negated.

A page that denies what another one says has nearly all of its words. So of each clause two numbers
are made:

* its **words**: a hash that does not change when a word that turns it round is put in, left out, or
  replaced by an alternative (see :mod:`dedup_middleware.text.polarity`);
* its **turn**: the sum of a number for each such word; 0 without any. A name (an occupation, a
  place that jieba's dictionary tags as one) adds its hash.

Two clauses with equal words and another turn say different things: guilty and not guilty, before
the war and after the war, a red coat and a blue one. Negations, and words in their place
(all, always, 有; some; must), are no part of the words. That one of several alternatives (before,
after) is there is part of the words, and which one only of the turn. So a clause to which "for" is
added has other words, and is only another clause.

Order and stop words are no part of either, nor are numerals, which are compared by their places.

An ideograph with a polarity (不, 前, 内) also counts where it begins or ends a longer word of the
dictionary, and so does a word that ends one: 不能, 饭前, 国内, 价格上涨.
"""

# NumPy's stubs type an indexed scalar as Any.
# mypy: disable-error-code="no-any-return"
from __future__ import annotations

from bisect import bisect_right
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base.jit import subkernel
from dedup_middleware.text.characters import SEPARATES, SYMBOL
from dedup_middleware.text.hashing import hash_slice, kind_of, mix_int
from dedup_middleware.text.names import PLACE
from dedup_middleware.text.numerals import Codes, among, is_wrap
from dedup_middleware.text.polarity import (
    ALTERNATIVES,
    MOST,
    MUST,
    NAME,
    NOT,
    SOME,
    has_polarity,
    polarity,
    polarity_of,
)

Hashes = NDArray[np.uint64]

#: kinds of the table of words: 1 for a stop word, plus twice the polarity, plus 512 for a numeral
#: written as a word
STOP: Final = 1
NUMBER: Final = 512
#: added to the kind of a token that is in no list: `ends_turn` holds for it
TURNING: Final = 1024
_SPACE: Final = ord(" ")
_HYPHEN: Final = ord("-")


def _weights() -> tuple[Hashes, Hashes]:
    words, turns = [0] * MOST, [0] * MOST
    turns[NOT] = 0x9E3779B97F4A7C15
    turns[SOME], turns[MUST] = mix_int(2 * MOST), mix_int(2 * MOST + 1)
    words[NAME] = mix_int(MOST)
    for value in range(ALTERNATIVES, MOST):
        # Mixed, so that two other words in a clause do not add up to the same.
        words[value] = mix_int(bisect_right(polarity().classes, value))
        turns[value] = mix_int(MOST + value)
    return np.array(words, np.uint64), np.array(turns, np.uint64)


#: what each polarity adds to the words and to the turn of its clause
WORDS, TURNS = _weights()
_LONGEST: Final = 8  # ideographs of a word that is looked into
_LEVELS: Final = np.array(sorted(map(ord, "省市县縣区區州镇鎮乡鄉村")), np.int64)


@subkernel
def divides(codes: Codes, flags: NDArray[np.uint8], first: np.uint64, last: np.uint64) -> bool:
    """Whether a clause ends between two words, of which the first ends at `first` and the second
    begins at `last`: what follows the first at once is no space, hyphen or symbol, nor the end of
    a wrapped line."""
    if first >= last:
        return False
    joins = (codes[first] == np.uint32(_SPACE)) | (codes[first] == np.uint32(_HYPHEN))
    joins |= is_wrap(codes, np.int64(first))
    return (flags[first] & SYMBOL == SEPARATES) & (not joins)


@subkernel
def ends_turn(codes: Codes, first: np.uint64, last: np.uint64) -> bool:
    """Whether a word from `first` to `last` begins or ends with an ideograph that has a polarity,
    and has others."""
    ends = has_polarity(codes[first]) | has_polarity(codes[last - np.uint64(1)]) != np.uint8(0)
    return ends & (last - first - np.uint64(2) <= np.uint64(_LONGEST - 2))


@subkernel
def kind_or_place(table: Hashes, value: np.uint64, sort: np.uint8) -> np.uint64:
    """The kind of a word by its hash; that of a name if it is in no list, but `sort` says that the
    dictionary tags it as a place."""
    kind = kind_of(table, value)
    placed = (kind == np.uint64(0)) & (sort & np.uint8(PLACE) != np.uint8(0))
    return np.uint64(2 * NAME) if placed else kind


@subkernel
def turn_of(polar: np.uint64, value: np.uint64) -> np.uint64:
    """What a word adds to the turn of its clause, from its polarity and its hash."""
    return TURNS[polar] + (value if polar == np.uint64(NAME) else np.uint64(0))


@subkernel
def name_hash(
    codes: Codes,
    prefixes: Hashes,
    powers: Hashes,
    start: np.uint64,
    first: np.uint64,
    last: np.uint64,
) -> np.uint64:
    """The hash of a name; 河北省 and 河北 are one."""
    last -= np.uint64((last - first > np.uint64(2)) & among(codes[last - np.uint64(1)], _LEVELS))
    return hash_slice(prefixes, powers, first, last, start)


@subkernel
def weigh_parts(
    codes: Codes,
    prefixes: Hashes,
    powers: Hashes,
    table: Hashes,
    start: np.uint64,
    first: np.uint64,
    last: np.uint64,
) -> tuple[np.uint64, np.uint64]:
    """What a word for which `ends_turn` holds adds to the words and to the turn of its clause.

    Args:
        table: of the words with a kind.
        start: of the hashes of tokens.
    """
    one, two, none = np.uint64(1), np.uint64(2), np.uint64(0)
    polar, part = polarity_of(codes[first]), none
    if polar:
        first += one
    else:
        if last - first > two:
            part = hash_slice(prefixes, powers, last - two, last, start)
            polar = kind_of(table, part) % np.uint64(NUMBER) >> one
        last -= two if polar else one
        polar = polar if polar else polarity_of(codes[last])
    rest = hash_slice(prefixes, powers, first, last, start)
    kind = kind_of(table, rest) % np.uint64(NUMBER)
    words = WORDS[polar] + (rest if kind == none else WORDS[kind >> one])
    return words, turn_of(polar, part) + turn_of(kind >> one, rest)
