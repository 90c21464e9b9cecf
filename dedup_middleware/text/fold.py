"""The kernel that normalises code points by table, and the table's place on disk."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.kernels import kernel, subkernel
from dedup_middleware.text.characters import (
    CLASS_MASK,
    CLASS_SHIFT,
    CODE_MASK,
    CONTEXT,
    DROP,
    EXPAND,
    EXTEND,
    KIND_SHIFT,
    MID_LETTER,
    PLAIN,
    SEPARATOR,
    SINGLE,
    TABLE_SIZE,
    Characters,
    build,
)
from dedup_middleware.text.hashing import TEXT_BASE, TEXT_START, mix
from dedup_middleware.text.normalize import compose
from dedup_middleware.text.store import load_or_build

FORMAT: Final = 1
_BYTE: Final = np.uint32(0xFF)


def code_points(text: str) -> NDArray[np.uint32]:
    """The code points of any string, lone surrogates included."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)


def load_characters(simplified: Mapping[int, int], name: str) -> Characters:
    """The character table, from the cache or built anew (about half a second).

    Args:
        simplified: traditional code points and the simplified ones they become; may be empty.
        name: names `simplified`; another mapping needs another name.
    """

    def make() -> dict[str, NDArray[np.uint32]]:
        made = build(simplified)
        return {"table": made.table, "expansions": made.expansions}

    file = f"characters-{FORMAT}-{unicodedata.unidata_version}{name and '-'}{name}.bin"
    arrays = load_or_build(file, make)
    return Characters(arrays["table"], arrays["expansions"])


@subkernel
def _beyond(code: np.uint32) -> np.uint32:
    """The table entry of a code point that has none."""
    kind, flags = PLAIN, SEPARATOR
    if 0x20000 <= code < 0x40000:  # ideographs; the compatibility ones among them have a form
        flags = SINGLE
        if 0x2F800 <= code < 0x2FA20:
            kind = CONTEXT
    elif 0xE0000 <= code < 0xE1000:
        kind = DROP
    return np.uint32(kind << KIND_SHIFT | flags << CLASS_SHIFT | code)


@kernel
def fold(
    raw: NDArray[np.uint32],
    composed: bool,
    table: NDArray[np.uint32],
    expansions: NDArray[np.uint32],
    keys: NDArray[np.uint64],
) -> tuple[bool, NDArray[np.uint32], NDArray[np.uint8], np.uint64]:
    """The normal form of a text.

    Args:
        raw: code points, any values below 0x110000.
        composed: whether `raw` went through `normalize.compose`.

    Returns:
        False if neighbours matter and `raw` is not composed; then the rest is void. Else True,
        the code points of the normal form, their flags and word classes, and the hash of those
        that are neither white space nor punctuation.
    """
    room = raw.size + raw.size // 8 + 32
    codes, flags = np.empty(room, np.uint32), np.empty(room, np.uint8)
    size = np.uint64(0)
    exact, base = keys[TEXT_START], keys[TEXT_BASE]
    for code in raw:
        entry = table[code] if code < TABLE_SIZE else _beyond(code)
        kind = entry >> KIND_SHIFT
        if kind == PLAIN or (kind == CONTEXT and composed):
            if size == np.uint64(codes.size):
                codes, flags = _grow(codes), _grow(flags)
            code = entry & CODE_MASK
            codes[size] = code
            flag = np.uint8((entry >> CLASS_SHIFT) & _BYTE)
            flags[size] = flag
            size += np.uint64(1)
            word_class = flag & CLASS_MASK
            if EXTEND <= word_class < MID_LETTER:
                exact = exact * base + np.uint64(code)
        elif kind == CONTEXT:
            return False, codes[:0], flags[:0], exact
        elif kind == EXPAND:
            first = np.int64(entry & CODE_MASK)
            length = np.int64((entry >> CLASS_SHIFT) & _BYTE)
            if size + np.uint64(length) > np.uint64(codes.size):
                codes, flags = _grow(codes), _grow(flags)
            for i in range(first, first + length):
                code = expansions[i]
                flag = np.uint8((table[code] >> CLASS_SHIFT) & _BYTE)
                codes[size] = code
                flags[size] = flag
                size += np.uint64(1)
                word_class = flag & CLASS_MASK
                if EXTEND <= word_class < MID_LETTER:
                    exact = exact * base + np.uint64(code)
    return True, codes[:size], flags[:size], mix(exact)


@subkernel
def _grow(array):  # type: ignore[no-untyped-def]  # any element type
    grown = np.empty(2 * array.size, array.dtype)
    grown[: array.size] = array
    return grown


def fold_text(
    text: str, characters: Characters, keys: NDArray[np.uint64]
) -> tuple[NDArray[np.uint32], NDArray[np.uint8], int]:
    """The normal form of `text`: code points, flags and word classes, and the exact hash."""
    table, expansions = characters.table, characters.expansions
    ready, codes, flags, exact = fold(code_points(text), False, table, expansions, keys)
    if not ready:
        raw = code_points(compose(text))
        _, codes, flags, exact = fold(raw, True, table, expansions, keys)
    return codes, flags, int(exact)
