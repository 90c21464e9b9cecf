"""The kernel that normalises code points by table, and the table's place on disk."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from typing import Final

import numpy as np

from dedup_middleware.base.jit import allocating_subkernel, kernel, subkernel
from dedup_middleware.base.kerneltypes import R32, U8, U32, Tuple, boolean
from dedup_middleware.text.characters import (
    CLASS_SHIFT,
    CODE_MASK,
    CONTEXT,
    DROP,
    EXPAND,
    KIND_SHIFT,
    PLAIN,
    SEPARATES,
    SINGLE,
    SYMBOL,
    TABLE_BITS,
    TABLE_SIZE,
    Characters,
    Codes,
    Flags,
    Places,
    build,
)
from dedup_middleware.text.normalize import compose
from dedup_middleware.text.store import load_or_build

FORMAT: Final = 4
LONGEST: Final = 18  # no character's normal form has more code points (U+FDFA)
NEIGHBOURS, NO_ROOM = -1, -2
STEP: Final = 32
_ONE: Final = np.uint64(1)
_BYTE: Final = np.uint32(0xFF)


def code_points(text: str) -> Codes:
    """The code points of any string, lone surrogates included."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)


def load_characters(simplified: Mapping[int, int], name: str) -> Characters:
    """The character table, from the cache or built anew (about half a second).

    Args:
        simplified: traditional code points and the simplified ones they become; may be empty.
        name: names `simplified`; another mapping needs another name.
    """

    def make() -> dict[str, Codes]:
        made = build(simplified)
        return {"table": made.table, "expansions": made.expansions}

    file = f"characters-{FORMAT}-{unicodedata.unidata_version}{name and '-'}{name}.bin"
    arrays = load_or_build(file, make)
    return Characters(arrays["table"], arrays["expansions"])


@subkernel
def _beyond(code: np.uint32) -> np.uint32:
    """The table entry of a code point that has none."""
    kind, flags = PLAIN, SEPARATES
    if code >= 0xF0000:  # private use, but for the last two code points of a plane
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
    """Fold the next STEP code points as if all were plain; False if one is not."""
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
    """Write the normal form; its length, or NEIGHBOURS or NO_ROOM, and the number of shifts."""
    shifted = 0
    size, capacity = np.uint64(0), np.uint64(codes.size - STEP - LONGEST)
    i, end = np.uint64(0), np.uint64(raw.size)
    while i < end:
        stop = i + np.uint64(STEP)
        if size > capacity:
            return NO_ROOM, 0
        # Nearly all characters are plain, and without branches the processor does many at once.
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
    """What `fold` gives, and where its code points come from: rows (place, shift).

    From a row's place in the normal form up to the next row's, ``place + shift`` is the place in
    `raw`; before the first row the shift is 0. Where one code point of `raw` has become several,
    theirs leads behind its end.
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
    """The normal form of a text.

    Args:
        raw: code points, any values below 0x110000.
        composed: whether `raw` went through `normalize.compose`.

    Returns:
        False if neighbours matter and `raw` is not composed; then the rest is void. Else True,
        the code points of the normal form, and their flags and word classes.
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
