"""Table of characters: the normal form, word class and role in numerals of each.

`build()` packs for every code point below 2**17 into one uint32:

    bits  0-20  the normal form if it is one code point; its index in `expansions` if it is several
    bits 21-28  flags and word class of the normal form; its length if it is several code points
    bits 29-30  PLAIN, DROP, EXPAND or CONTEXT (the form depends on the neighbours)

Code points from 2**17 on need no table: see `_beyond`.
"""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import import_module
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import attrs
import numpy as np
from numpy.typing import DTypeLike, NDArray

from dedup_middleware.base.cachefolder import load_or_build
from dedup_middleware.base.jit import allocating_subkernel, kernel, subkernel
from dedup_middleware.base.kerneltypes import R32, U8, U32, Tuple, boolean
from dedup_middleware.text import normalize
from dedup_middleware.text.normalize import compose

# Arrays of kernels: code points, flags and word classes, indexes into a text, hashes.
Codes = NDArray[np.uint32]
Flags = NDArray[np.uint8]
Places = NDArray[np.int32]
Hashes = NDArray[np.uint64]

FIRST_WIDE: Final = 0x2E80  # the radicals before the first ideograph
STEP: Final = 32  # code points that are read together


def code_set(characters: str) -> NDArray[np.int64]:
    """The code points of some characters, for `numerals.among`."""
    return np.array(sorted(map(ord, characters)), np.int64)


def by_code_point(values: Mapping[int, int], dtype: DTypeLike, nothing: int = 0) -> NDArray[Any]:
    """A table with 2**16 entries for `of_code_point`."""
    table = np.full(1 << 16, nothing, dtype)
    table[list(values)] = list(values.values())
    return table


@subkernel
def of_code_point(table: NDArray[Any], code: int | np.uint32) -> int:
    """The value of a code point in a table; beyond 2**16 that of U+FFFF, which is no character."""
    return np.int64(table[min(np.uint64(code), np.uint64(0xFFFF))])


@subkernel
def find_code(codes: Codes, code: np.uint32, i: int) -> int:
    """The first place of a code point from i on; the size of the text if there is none."""
    place, size, there = np.uint64(i), np.uint64(codes.size), False
    while place + np.uint64(STEP) <= size:  # without a branch for each character: vectorised
        for step in range(np.uint64(STEP)):
            there |= codes[place + step] == code
        if there:
            break
        place += np.uint64(STEP)
    while place < size and codes[place] != code:
        place += np.uint64(1)
    return np.int64(place)


class Tokens(NamedTuple):
    """The arrays to which kernels write tokens: begin, end, and what each may be (see `names`)."""

    starts: Places
    ends: Places
    sorts: NDArray[np.uint8]


class CutText(NamedTuple):
    """A normalised text and its tokens, as kernels read it."""

    codes: Codes
    flags: Flags
    starts: Places
    ends: Places
    sorts: NDArray[np.uint8]


TABLE_BITS: Final = 17
TABLE_SIZE: Final = 1 << TABLE_BITS
CODE_MASK: Final = 0x1FFFFF
CLASS_SHIFT: Final = 21
KIND_SHIFT: Final = 29
PLAIN, DROP, EXPAND, CONTEXT = 0, 1, 2, 3

# Word classes (UAX #29, table 3), merged where this package treats them alike.
SEPARATOR, EXTEND, LETTER, HEBREW, NUMERIC, KATAKANA, CONNECTOR = 0, 1, 2, 3, 4, 5, 6
SINGLE, SA, EMOJI, REGIONAL = 7, 8, 9, 10
MID_LETTER, MID_NUMBER, MID_BOTH, SINGLE_QUOTE, DOUBLE_QUOTE = 11, 12, 13, 14, 15
CLASS_MASK: Final = 0xF
SEPARATES: Final = 0x10  # white space, punctuation, symbols, marks: never a token alone
NUMERAL: Final = 0x20  # a digit or a Chinese numeral
SYMBOL: Final = SEPARATES | NUMERAL  # both: a symbol or a private-use character, no numeral
ALNUM: Final = 0x40  # jieba's re_eng: [a-zA-Z0-9]
BLOCK: Final = 0x80  # jieba's re_han: [\u4E00-\u9FD5a-zA-Z0-9+#&._%-]
HAN: Final = BLOCK | SINGLE  # both: a Han character of a jieba block

CHINESE_NUMERALS: Final = (
    "〇零一二三四五六七八九十百千万亿两壹贰叁肆伍陆柒捌玖拾佰仟萬億兩貳參陸點廿卅"
)

_CLASS_NAMES: Final = (
    "extend letter hebrew numeric katakana connector single sa emoji regional "
    "mid_letter mid_number mid_both single_quote double_quote"
)
CLASSES: Final = {name: number for number, name in enumerate(_CLASS_NAMES.split(), EXTEND)}


@attrs.frozen(eq=False)
class Characters:
    """The packed table (uint32[2**17]) and the pool of longer normal forms (uint32[n])."""

    table: NDArray[np.uint32]
    expansions: NDArray[np.uint32]


BEGINNING: Final = 12  # most characters by which lines of fixed forms are found


@cache
def word_lists() -> Mapping[str, tuple[str, ...]]:
    """The lists of words in `data/words.txt` by name, read once."""
    lists: dict[str, tuple[str, ...]] = {}
    text = (files("dedup_middleware.text") / "data" / "words.txt").read_text("utf-8")
    for name, *words in (line.split() for line in text.splitlines() if line[:1] not in ("", "#")):
        lists[name] = lists.get(name, ()) + tuple(word.replace("_", " ") for word in words)
    return lists


class Beginnings:
    """The beginnings of lines of fixed forms: a check before slow patterns.

    >>> beginnings = Beginnings(["by ", "follow"])
    >>> "by ann" in beginnings, "followed" in beginnings, "folly" in beginnings
    (True, True, False)
    """

    def __init__(self, words: Iterable[str]) -> None:
        by_two: dict[str, set[str]] = {}
        for word in words:
            by_two.setdefault(word[:2], set()).add(word[:BEGINNING])
        self._by_two = {two: tuple(some) for two, some in by_two.items()}

    def __contains__(self, text: str) -> bool:
        words = self._by_two.get(text[:2])  # None for most lines
        return words is not None and text.startswith(words)


@cache
def word_classes() -> NDArray[np.uint8]:
    """Flags and word class of every code point, uint8[0x110000], read from the package data."""
    classes = np.zeros(sys.maxunicode + 1, np.uint8)
    text = (files("dedup_middleware.text") / "data" / "character_classes.txt").read_text("utf-8")
    symbols = np.zeros(classes.size, np.bool_)
    for line in text.splitlines():
        if not line.startswith("#"):
            first, last, name = line.split(" ")
            there = slice(int(first, 16), int(last, 16) + 1)
            if name == "symbol":
                symbols[there] = True
            else:
                classes[there] = CLASSES[name]
    # Later Unicode versions put further Han characters into planes 2 and 3.
    classes[0x20000:0x40000] = SINGLE
    classes[(classes <= EXTEND) | (classes == CONNECTOR) | (classes >= MID_LETTER)] |= SEPARATES
    classes[0x4E00:0x9FD6] |= BLOCK
    for character in "+#&._%-":
        classes[ord(character)] |= BLOCK
    for first, last in ("az", "AZ", "09"):
        classes[ord(first) : ord(last) + 1] |= BLOCK | ALNUM
    for character in "0123456789" + CHINESE_NUMERALS:
        classes[ord(character)] |= NUMERAL
    classes[symbols] |= SYMBOL
    classes.flags.writeable = False
    return classes


def _varying() -> NDArray[np.bool_]:
    """Mask of the code points below `TABLE_SIZE` that normalisation may change. It only saves time:
    40,000 of the others are unified ideographs and Hangul syllables."""
    varying = np.ones(TABLE_SIZE, np.bool_)
    for first, last in ((0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xAC00, 0xD7A3), (0xD800, 0xF8FF)):
        varying[first : last + 1] = False
    varying[0x17000:0x18D00] = False
    return varying


def build(simplified: Mapping[int, int] | None = None) -> Characters:
    """Compute the table from unicodedata; `simplified` maps traditional code points."""
    classes = word_classes().astype(np.uint32)
    codes = np.arange(TABLE_SIZE, dtype=np.uint32)
    table = codes | classes[:TABLE_SIZE] << CLASS_SHIFT
    pool: list[int] = []
    places: dict[str, int] = {}
    special = normalize.special()
    folds = {**special.folds, **(simplified or {})}

    def entry(kind: int, value: int, flags: int) -> int:
        return kind << KIND_SHIFT | flags << CLASS_SHIFT | value

    for code in np.flatnonzero(_varying()).tolist():
        character = chr(code)
        if code in special.dropped:
            table[code] = entry(DROP, 0, 0)
            continue
        if unicodedata.category(character) == "Cn":
            continue
        if normalize.needs_context(character):
            value = folds.get(code, code)
            table[code] = entry(CONTEXT, value, int(classes[value]))
            continue
        form = normalize.normalize(character).translate(simplified or {})
        if len(form) == 1:
            table[code] = entry(PLAIN, ord(form), int(classes[ord(form)]))
        else:
            if form not in places:
                places[form] = len(pool)
                pool.extend(map(ord, form))
            table[code] = entry(EXPAND, places[form], len(form))
    for code, value in (simplified or {}).items():
        if code < TABLE_SIZE and not int(table[code]) >> KIND_SHIFT:
            table[code] = entry(PLAIN, value, int(classes[value]))
    return Characters(table.astype(np.uint32), np.array(pool, np.uint32))


@cache
def simplified() -> MappingProxyType[int, int]:
    """Traditional code points: those that OpenCC's `t2s` changes, mapped to their normal forms.

    They are mapped one by one, which costs a page nothing; words that a phrase table would convert
    by context stay equal in traditional and simplified pages.

    :raises ImportError: no OpenCC package is installed.
    """
    try:
        opencc = import_module("opencc")
    except ImportError as error:
        raise ImportError(
            "OpenCC is missing: pip install 'dedup-middleware[traditional]'"
        ) from error
    convert = opencc.OpenCC("t2s").convert
    found = {}
    for code in word_classes()[:TABLE_SIZE].nonzero()[0].tolist():
        if code < 0x2E80:
            continue
        before = chr(code)
        after = normalize.normalize(convert(before))
        if len(after) == 1 and after != before and normalize.normalize(before) == before:
            found[code] = ord(after)
    return MappingProxyType(found)


FORMAT: Final = 4
LONGEST: Final = 18  # code points of the longest normal form of a character (U+FDFA)
NEIGHBOURS, NO_ROOM = -1, -2
_ONE: Final = np.uint64(1)
_BYTE: Final = np.uint32(0xFF)


def code_points(text: str) -> Codes:
    """The code points of any string, lone surrogates included."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)


def load_characters(simplified: Mapping[int, int], name: str) -> Characters:
    """Load the character table from the cache, or build it (about half a second).

    :param simplified: traditional code points and the simplified ones they become; may be empty.
    :param name: names `simplified` in the cache; another mapping needs another name.
    """

    def make() -> dict[str, Codes]:
        made = build(simplified)
        return {"table": made.table, "expansions": made.expansions}

    file = f"characters-{FORMAT}-{unicodedata.unidata_version}{name and '-'}{name}.bin"
    arrays = load_or_build(file, make)
    return Characters(arrays["table"], arrays["expansions"])


@subkernel
def _beyond(code: np.uint32) -> np.uint32:
    """The table entry of a code point from 2**17 on."""
    kind, flags = PLAIN, SEPARATES
    if code >= 0xF0000:  # private use, except the last two code points of a plane
        flags = SYMBOL if code & 0xFFFF < 0xFFFE else SEPARATES
    elif 0x20000 <= code < 0x40000:  # ideographs; the compatibility ones among them have a form
        flags = SINGLE
        if 0x2F800 <= code < 0x2FA20:
            kind = CONTEXT
    elif 0xE0000 <= code < 0xE1000:
        kind = DROP
    return np.uint32(kind << KIND_SHIFT | flags << CLASS_SHIFT | code)


@subkernel
def _fold_plain(
    raw: Codes, begin: np.uint64, table: Codes, codes: Codes, flags: Flags, size: np.uint64
) -> bool:
    """Fold the next STEP code points as if all were plain; False if any is not."""
    special = np.uint32(0)
    for i in range(np.uint64(STEP)):
        code = raw[begin + i]
        entry = table[code & np.uint32(TABLE_SIZE - 1)]
        special |= (entry >> np.uint32(KIND_SHIFT)) | (code >> np.uint32(TABLE_BITS))
        codes[size + i] = entry & np.uint32(CODE_MASK)
        flags[size + i] = np.uint8((entry >> np.uint32(CLASS_SHIFT)) & _BYTE)
    return special == 0


@subkernel
def _fold_into(
    raw: Codes,
    composed: bool,
    table: Codes,
    expansions: Codes,
    codes: Codes,
    flags: Flags,
    shifts: Places,
) -> tuple[int, int]:
    """Write the normal form; return its length, NEIGHBOURS or NO_ROOM, and the rows of `shifts`."""
    shifted = 0
    size, capacity = np.uint64(0), np.uint64(codes.size - STEP - LONGEST)
    i, end = np.uint64(0), np.uint64(raw.size)
    while i < end:
        stop = i + np.uint64(STEP)
        if size > capacity:
            return NO_ROOM, 0
        # Nearly all characters are plain; without branches the loop is vectorised.
        if stop <= end and _fold_plain(raw, i, table, codes, flags, size):
            size += np.uint64(STEP)
            i = stop
        while i < stop and i < end and size <= capacity:
            code = raw[i]
            entry = table[code] if code < TABLE_SIZE else _beyond(code)
            kind = entry >> KIND_SHIFT
            if kind == EXPAND:
                shifts[shifted, 0], shifts[shifted, 1] = size, raw.size
                shifted += 1
                first = np.uint64(entry & CODE_MASK)
                for place in range(first, first + np.uint64((entry >> CLASS_SHIFT) & _BYTE)):
                    part = expansions[place]
                    codes[size] = part
                    flags[size] = (table[part] >> CLASS_SHIFT) & _BYTE
                    size += _ONE
            elif kind == CONTEXT and not composed:
                return NEIGHBOURS, 0
            else:
                codes[size] = entry & CODE_MASK
                flags[size] = (entry >> CLASS_SHIFT) & _BYTE
                if kind != DROP:
                    size += _ONE
            i += _ONE
            if kind in (EXPAND, DROP):
                shifts[shifted, 0], shifts[shifted, 1] = size, np.int64(i) - np.int64(size)
                shifted += 1
    return np.int64(size), shifted


@allocating_subkernel
def fold_and_align(
    raw: Codes, composed: bool, table: Codes, expansions: Codes
) -> tuple[bool, Codes, Flags, Places]:
    """Fold a text as `fold` does, and align the result with `raw`; return also rows (place, shift).

    From a row's place in the normal form up to the next row's, ``place + shift`` is the index in
    `raw`; before the first row the shift is 0. If one code point of `raw` became several, they map
    to the index behind it.
    """
    capacity = raw.size + raw.size // 8 + STEP + LONGEST
    codes, flags = np.empty(capacity, np.uint32), np.empty(capacity, np.uint8)
    shifts = np.empty((2 * raw.size, 2), np.int32)
    size, shifted = _fold_into(raw, composed, table, expansions, codes, flags, shifts)
    if size == NO_ROOM:
        capacity = LONGEST * (raw.size + 1) + STEP
        codes, flags = np.empty(capacity, np.uint32), np.empty(capacity, np.uint8)
        size, shifted = _fold_into(raw, composed, table, expansions, codes, flags, shifts)
    if size == NEIGHBOURS:
        return False, codes[:0], flags[:0], shifts[:0]
    return True, codes[:size], flags[:size], shifts[:shifted]


@kernel(Tuple((boolean, U32, U8))(R32, boolean, R32, R32))
def fold(raw: Codes, composed: bool, table: Codes, expansions: Codes) -> tuple[bool, Codes, Flags]:
    """Compute the normal form of a text.

    :param raw: code points, any values below 0x110000.
    :param composed: whether `raw` went through `normalize.compose`.
    :returns: False if neighbours matter and `raw` is not composed; then the rest is meaningless.
        Else True, the code points of the normal form, and their flags and word classes.
    """
    ready, codes, flags, _ = fold_and_align(raw, composed, table, expansions)
    return ready, codes, flags


def fold_text(text: str, characters: Characters) -> tuple[Codes, Flags]:
    """The normal form of `text`: code points, and their flags and word classes."""
    table, expansions = characters.table, characters.expansions
    ready, codes, flags = fold(code_points(text), False, table, expansions)
    if not ready:
        raw = code_points(compose(text))
        _, codes, flags = fold(raw, True, table, expansions)
    return codes, flags
