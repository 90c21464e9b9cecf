"""Words of the list of polarities in texts whose tokens are no words, see
:mod:`dedup_middleware.text.scriptclauses`: where one begins, and what it says of its clause."""

# NumPy's stubs type an indexed scalar as Any.
# mypy: disable-error-code="no-any-return"
from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base.jit import subkernel
from dedup_middleware.text.characters import CLASS_MASK, EXTEND, SEPARATES
from dedup_middleware.text.clauses import TURNS, WORDS
from dedup_middleware.text.hashing import hash_slice, kind_of
from dedup_middleware.text.numerals import Codes
from dedup_middleware.text.polarity import BODY, GIVEN, NAME, polarity

Flags = NDArray[np.uint8]
Hashes = NDArray[np.uint64]

LONG: Final = 32  # characters of what is hashed at once
SPACE: Final = ord(" ")


def _reach(words: Iterable[str]) -> NDArray[np.uint8]:
    """The length of the longest word that begins with each code point below 2**16."""
    longest = np.zeros(1 << 16, np.uint8)
    for word in words:
        longest[ord(word[0])] = max(int(longest[ord(word[0])]), len(word))
    return longest


REACH: Final = _reach([*polarity().words, *(word[1:] for word in polarity().own)])


@subkernel
def is_letter(flags: Flags, i: int) -> bool:
    """Whether the character at i is a part of a word."""
    return flags[i] & SEPARATES == 0 or flags[i] & CLASS_MASK == EXTEND


@subkernel
def is_digit(code: np.uint32) -> bool:
    """Whether a code point is one of 0 to 9."""
    return code - np.uint32(0x30) < np.uint32(10)


@subkernel
def run_end(flags: Flags, i: int) -> int:
    """Where the letters and digits from i on end."""
    while i < flags.size and is_letter(flags, i):
        i += 1
    return i


@subkernel
def polarity_of(
    prefixes: Hashes, powers: Hashes, table: Hashes, start: np.uint64, first: int, last: int
) -> int:
    """The polarity of codes[first:last]; 0 if they are no word of the list."""
    value = hash_slice(prefixes, powers, np.uint64(first), np.uint64(last), start)
    return np.int64(kind_of(table, value) & np.uint64(511)) >> 1


@subkernel
def longest_word(
    codes: Codes,
    flags: Flags,
    prefixes: Hashes,
    powers: Hashes,
    table: Hashes,
    start: np.uint64,
    first: int,
    last: int,
) -> tuple[int, int]:
    """The end and the polarity of the longest word of the list that begins at `first`, ends at
    `last` at most, and not before a mark; `first` and 0 if there is none."""
    reach = np.int64(REACH[min(np.uint64(codes[first]), np.uint64(0xFFFF))])
    end = min(last, first + reach)
    while end > first:
        whole = end == codes.size or flags[end] & CLASS_MASK != EXTEND
        found = polarity_of(prefixes, powers, table, start, first, end) if whole else 0
        if found:
            return end, found
        end -= 1
    return first, 0


@subkernel
def name_value(
    prefixes: Hashes, powers: Hashes, start: np.uint64, first: int, last: int
) -> np.uint64:
    """What a name adds to the turn of its clause."""
    last = min(last, first + LONG - 1)
    return hash_slice(prefixes, powers, np.uint64(first), np.uint64(last), start)


@subkernel
def weigh(polar: int, value: np.uint64) -> tuple[np.uint64, np.uint64]:
    """What a word of the list adds to the words and to the turn of its clause; `value` is its
    hash."""
    if polar >= BODY and polar != GIVEN:
        return value, np.uint64(0)
    if polar in (NAME, GIVEN):
        return WORDS[NAME], value
    return WORDS[polar], TURNS[polar]
