"""Sketches of the clauses of a page, and how many of them another page turns round.

Of a clause two hashes are known, of its words and of its turn, see
:mod:`dedup_middleware.text.clauses`. Clauses are divided by their words into 12 parts. Of each part
the sketch keeps the sum of the words in 16 bits, and the sum over the clauses that have a turn of
words and turn in 8.

Where two pages have the same clauses in a part, the first sums are equal, and the second ones are
not if a clause says the opposite. It shows in both directions, whether a word was put in, left out
or replaced, without keeping a number of every clause. A clause that only one page has changes the
first sum, so its part says nothing: an added sentence with a negation in it turns nothing round.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base.jit import Word, kernel, subkernel
from dedup_middleware.base.kerneltypes import R64_2, U8
from dedup_middleware.text.hashing import mix

PARTS: Final = 12
CLAUSE_BYTES: Final = 3 * PARTS
_GOLDEN: Final = np.uint64(0x9E3779B97F4A7C15)


@subkernel
def fill_clauses(clauses: NDArray[np.uint64], out: NDArray[np.uint8]) -> None:
    """Write the sketch to `out`."""
    for i in range(np.uint64(CLAUSE_BYTES)):
        out[i] = np.uint8(0)
    for row in range(np.uint64(clauses.shape[0])):
        words, turn = clauses[row, 0], clauses[row, 1]
        at = (words >> np.uint64(56)) * np.uint64(PARTS) >> np.uint64(8)
        at *= np.uint64(3)
        total = np.uint64(out[at]) + (np.uint64(out[at + np.uint64(1)]) << np.uint64(8))
        total += words & np.uint64(0xFFFF)
        out[at] = np.uint8(total & np.uint64(0xFF))
        out[at + np.uint64(1)] = np.uint8((total >> np.uint64(8)) & np.uint64(0xFF))
        if turn:
            value = mix(words + turn * _GOLDEN) >> np.uint64(56)
            value += np.uint64(out[at + np.uint64(2)])
            out[at + np.uint64(2)] = np.uint8(value & np.uint64(0xFF))


@kernel(U8(R64_2))
def clause_sketch(clauses: NDArray[np.uint64]) -> NDArray[np.uint8]:
    """The sums of each part, uint8[36]: two bytes, little-endian, of words, and one of turns.

    :param clauses: words and turn of each, uint64[n, 2], any order
    """
    out = np.empty(CLAUSE_BYTES, np.uint8)
    fill_clauses(clauses, out)
    return out


@subkernel
def turned(a: Word, b: Word) -> Word:
    """In how many parts two sketches have equal words and unequal turns."""
    found = np.int64(0)
    for part in range(PARTS):
        at = 3 * part
        same = a[at] == b[at] and a[at + 1] == b[at + 1]
        found += np.int64(same and a[at + 2] != b[at + 2])
    return found
