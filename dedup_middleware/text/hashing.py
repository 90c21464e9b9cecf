"""Kernels that hash tokens, shingles and texts with a key, and that count distinct hashes.

The hash of a token is a polynomial of its code points modulo 2**64, with a base and a start derived
from the key, finished by the mixer of SplitMix64 (Steele, Lea, Flood 2014). The hash of a shingle
is a polynomial of token hashes, so order counts; it is rolled along the text and finished by the
same mixer.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base.jit import kernel, subkernel
from dedup_middleware.base.kerneltypes import R64, U32, U64, Tuple, int64
from dedup_middleware.text.characters import (
    CLASS_MASK,
    EXTEND,
    MID_LETTER,
    SYMBOL,
    Codes,
    Flags,
    Hashes,
)

_GOLDEN: Final = 0x9E3779B97F4A7C15
_FIRST: Final = np.uint64(0xBF58476D1CE4E5B9)
_SECOND: Final = np.uint64(0x94D049BB133111EB)
_ZERO: Final = np.uint64(0)
_ONE: Final = np.uint64(1)
_BUCKET: Final = np.uint64(4)
_LINE: Final = 8  # 64-bit words in a cache line
_KIND_BITS: Final = np.uint64(14)
_KIND: Final = np.uint64(16383)
_S30, _S27, _S31 = np.uint64(30), np.uint64(27), np.uint64(31)

# Indexes into the array that `constants` derives from a key.
TOKEN_START, TOKEN_BASE, SHINGLE_START, SHINGLE_BASE, SHINGLE_DROP = 0, 1, 2, 3, 4
TEXT_START, TEXT_BASE, FIGURE_START = 5, 6, 7


# Masks by the flags of a character: no bit for white space and punctuation, else all bits. LLVM
# would make a conditional a part of the chain of dependent steps.
_FLAGS, _CLASSES = np.arange(256), np.arange(256) & CLASS_MASK
_IN_WORDS: Final = (_CLASSES >= EXTEND) & (_CLASSES < MID_LETTER)
_COUNTED: Final = np.where(
    _IN_WORDS | (_FLAGS & SYMBOL == SYMBOL), np.uint64((1 << 64) - 1), np.uint64(0)
)


def mixed(value: Any) -> Any:
    """The mixer of SplitMix64, a bijection in which each input bit affects each output bit; for
    arrays, and as `mix` for numbers in kernels."""
    value = (value ^ (value >> _S30)) * _FIRST
    value = (value ^ (value >> _S27)) * _SECOND
    return value ^ (value >> _S31)


mix = subkernel(mixed)


def mix_int(value: int) -> int:
    """`mix` in Python."""
    return int(mixed(np.array([value], np.uint64))[0])


class HashedText(NamedTuple):
    """A normalised text in a kernel, with what is needed to hash and look up any part of it.

    ``prefixes`` and ``powers`` are those of `hash_prefixes`, ``kinds`` is the table of words with a
    kind, and ``start`` is the start of the hashes of words.
    """

    codes: Codes
    flags: Flags
    prefixes: Hashes
    powers: Hashes
    kinds: Hashes
    start: np.uint64


def constants(key: int, width: int) -> Hashes:
    """Derive starts and odd bases of the polynomials from a 64-bit key; see the indexes above."""
    mask = (1 << 64) - 1
    drawn = [mix_int((key + (place + 1) * _GOLDEN) & mask) for place in range(8)]
    for base in (TOKEN_BASE, SHINGLE_BASE, TEXT_BASE):
        drawn[base] |= 1
    drawn[SHINGLE_DROP] = pow(drawn[SHINGLE_BASE], width, 1 << 64)
    made = np.array(drawn, np.uint64)
    made.flags.writeable = False
    return made


@subkernel
def hash_token(codes: Codes, first: int, last: int, keys: Hashes) -> np.uint64:
    """The hash of the token codes[first:last]; never 0."""
    value = keys[TOKEN_START]
    base = keys[TOKEN_BASE]
    for i in range(np.uint64(first), np.uint64(last)):
        value = value * base + np.uint64(codes[i])
    value = mix(value)
    return value if value != _ZERO else _ONE


@subkernel
def hash_number(number: int, keys: Hashes) -> np.uint64:
    """`hash_token` of a number of at most three digits."""
    value = keys[TOKEN_START]
    for power in (100, 10, 1):
        if number >= power:
            value = value * keys[TOKEN_BASE] + np.uint64(48 + number // power % 10)
    return mix(value)


@subkernel
def hash_prefixes(
    codes: Codes, flags: Flags, keys: Hashes, prefixes: Hashes, powers: Hashes
) -> np.uint64:
    """Fill `prefixes` (one more than codes) and `powers` so that `hash_slice` needs no loop; return
    the hash of the text without white space and punctuation, symbols included. Each hash is a chain
    of dependent steps, so one loop for both takes the time of one."""
    base, value, power = keys[TOKEN_BASE], _ZERO, _ONE
    text, text_base = keys[TEXT_START], keys[TEXT_BASE]
    for i in range(np.uint64(codes.size)):
        code, counted = np.uint64(codes[i]), _COUNTED[flags[i]]
        text = text * (_ONE + ((text_base - _ONE) & counted)) + (code & counted)
        prefixes[i] = value
        value = value * base + code
    prefixes[np.uint64(codes.size)] = value
    for i in range(np.uint64(powers.size)):
        powers[i] = power
        power *= base
    return mix(text)


@subkernel
def hash_slice(text: HashedText, first: np.uint64, last: np.uint64) -> np.uint64:
    """`hash_token` of a token shorter than `powers`, from the difference of two prefixes."""
    prefixes = text.prefixes
    value = mix(prefixes[last] + (text.start - prefixes[first]) * text.powers[last - first])
    return value if value != _ZERO else _ONE


@subkernel
def bucket_of(table: Hashes, value: np.uint64) -> np.uint64:
    """Index of the first entry of the bucket of `value` in a table of `make_table`."""
    return (value >> _KIND_BITS) * _BUCKET & np.uint64(table.size - 1)


@subkernel
def kind_of(table: Hashes, value: np.uint64) -> np.uint64:
    """The kind of `value` in a table of `make_table`; 0 if it is not there."""
    mask = np.uint64(table.size - 1)
    place = bucket_of(table, value)
    value &= ~_KIND
    while True:
        # Compares the whole bucket: leaving the loop early is a branch that is mispredicted.
        found = _ZERO
        for i in range(_BUCKET):
            entry = table[place + i]
            found |= entry if entry & ~_KIND == value else _ZERO
        if (found != _ZERO) | (table[place + _BUCKET - _ONE] == _ZERO):
            return found & _KIND
        place = (place + _BUCKET) & mask


def hash_words(words: NDArray[np.str_], keys: Hashes) -> Hashes:
    """The `hash_token` of each of many words, uint64[n]."""
    codes = np.ascontiguousarray(words).view(np.uint32).reshape(len(words), -1)
    value, longer = np.full(len(words), keys[TOKEN_START]), np.arange(len(words))
    for column in codes.T:
        longer = longer[column[longer] != 0]  # a word is followed by zeros
        value[longer] = value[longer] * keys[TOKEN_BASE] + column[longer]
    return np.maximum(mixed(value), _ONE)


def make_table(hashes: Hashes, kinds: Hashes) -> Hashes:
    """Make a hash table from hashes to kinds, 1 to 16383, which replace the lowest 14 bits of the
    hash. A bucket has four entries, filled from the first on, 0 is a free one; a full bucket
    overflows into the next. Of hashes that differ only in these bits the last one counts."""
    values, last = np.unique(hashes[::-1] & ~_KIND, return_index=True)
    entries = values | kinds[::-1][last]
    size = int(_BUCKET)
    while size < 5 * len(values) / 2 + 1:
        size *= 2
    # Aligned, so that a bucket is in one cache line, which `prefetch` loads.
    room = np.zeros(size + _LINE, np.uint64)
    table = room[-room.ctypes.data // room.itemsize % _LINE :][:size]
    begins = ((values >> _KIND_BITS) * _BUCKET % np.uint64(size)).astype(np.int64)
    order = np.argsort(begins, kind="stable")
    entries, begins, steps = entries[order], begins[order], np.arange(len(entries))
    while True:  # each entry gets the first place that those before it leave free in its bucket
        places = np.maximum.accumulate(begins - steps) + steps
        beyond = np.count_nonzero(places >= size)
        if not beyond:
            break
        entries = np.roll(entries, beyond)  # the last ones overflow into the first bucket
        begins = np.append(np.zeros(beyond, np.int64), begins[:-beyond])
    table[places] = entries
    table.flags.writeable = False
    return table


@kernel(Tuple((U64, U32))(U64, int64))
def distinct(values: Hashes, number: int) -> tuple[Hashes, NDArray[np.uint32]]:
    """Distinct values of values[:number] in order of first occurrence, and how often each occurs.
    `values` is overwritten, and its first part returned."""
    size = 8
    while size < 3 * number:
        size *= 2
    mask = np.uint64(size - 1)
    places = np.zeros(size, np.uint32)
    counts = np.empty(number, np.uint32)
    found = np.uint64(0)
    for i in range(np.uint64(number)):
        value = values[i]
        place = value & mask
        while places[place] != 0 and values[np.uint64(places[place]) - _ONE] != value:
            place = (place + _ONE) & mask
        if places[place] == 0:
            values[found] = value
            counts[found] = 1
            found += _ONE
            places[place] = found
        else:
            counts[np.uint64(places[place]) - _ONE] += np.uint32(1)
    return values[:found], counts[:found]


_MAX_WIDTH: Final = 64
# Wider shingles are tried if the share of distinct ones is below _DISTINCT, and used if at least
# _GAIN times as many of them are distinct.
_DISTINCT, _GAIN = 0.6, 1.6


@subkernel
def _roll(
    hashes: Hashes, count: int, width: int, drop: np.uint64, keys: Hashes, shingles: Hashes
) -> int:
    """Write the hashes of the shingles; return their number. `drop` is the base ** `width`."""
    base, start = keys[SHINGLE_BASE], keys[SHINGLE_START]
    rolled = np.uint64(0)
    window = np.uint64(width if width < count else count)
    for i in range(window):
        rolled = rolled * base + hashes[i]
    if count > 0:
        shingles[0] = mix(rolled ^ start)
    number = np.uint64(1 if count > 0 else 0)
    for i in range(window, np.uint64(count)):
        rolled = rolled * base + hashes[i] - hashes[i - window] * drop
        shingles[number] = mix(rolled ^ start)
        number += np.uint64(1)
    return np.int64(number)


@kernel(Tuple((U64, U32, U64))(U64, int64, int64, R64))
def shingle_features(
    hashes: Hashes, count: int, width: int, keys: Hashes
) -> tuple[Hashes, NDArray[np.uint32], Hashes]:
    """Distinct shingles of a text, their counts, and all in order, from its tokens' hashes.

    A text of few distinct tokens shares most of its shingles with any other text of these tokens,
    so their width is doubled until they are rare. A text that is simply repeated keeps its
    shingles, as wider ones are no more distinct.
    """
    shingles, drop = np.empty(count, np.uint64), keys[SHINGLE_DROP]
    number = _roll(hashes, count, width, drop, keys, shingles)
    order = shingles[:number].copy()
    features, counts = distinct(shingles, number)
    while features.size < _DISTINCT * number and 2 * width <= _MAX_WIDTH:
        width, drop = 2 * width, drop * drop
        shingles = np.empty(count, np.uint64)  # the other array has the best so far
        number = _roll(hashes, count, width, drop, keys, shingles)
        wider_order = shingles[:number].copy()
        wider, again = distinct(shingles, number)
        if wider.size < _GAIN * features.size:
            break
        features, counts, order = wider, again, wider_order
    return features, counts, order
