"""Symbols: runs of characters that are no letters and no punctuation, and their places.

Stars, suns, chess men, Braille and private-use characters say something that no letter says. A
**run** of them, with white space between them or not, has a place as a figure has (see
:mod:`dedup_middleware.text.places`), and what it is worth is its characters in order. So ★★★★★ and
★☆☆☆☆ between the same letters make other pages; a run that only one of two pages has says nothing.

No run has a place that decorates:

- one bullet (■ ● ▶ → ★ ...) at the beginning of a line, since each site has another;
- a run of nothing but | ~ + © ® and the like, which separate, or follow names;
- one without a letter or a numeral within reach.

What belongs to a numeral (-, $, >) is part of its value instead, see
:mod:`dedup_middleware.text.signs`.
"""

# NumPy's stubs type an indexed scalar as Any.
# mypy: disable-error-code="no-any-return"
from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base.jit import subkernel
from dedup_middleware.text.characters import CLASS_MASK, EMOJI, REGIONAL, SYMBOL
from dedup_middleware.text.hashing import TEXT_START, mix
from dedup_middleware.text.numerals import Codes, among

Flags = NDArray[np.uint8]

DIVIDERS: Final = "|~+©®°¦¬￨"
# Single ones at the beginning of a line: geometric shapes, stars and all arrows.
_GEOMETRIC, _SHAPES_END = 0x25A0, 0x2600
_ARROWS, _ARROWS_END = 0x2190, 0x2200
_DINGBAT_ARROWS, _DINGBATS_END = 0x2794, 0x27C0
_MORE_ARROWS, _MORE_END = 0x2B00, 0x2B60
_OTHERS: Final = "★☆※✦✧✱✲✳✴✵✶✷✸✹✺✻✼✽"
_DIVIDING: Final = np.array(sorted(map(ord, DIVIDERS)), np.int64)
_BULLETS: Final = np.array(sorted(map(ord, _OTHERS)), np.int64)
_LINE: Final = ord("\n")
_RETURN: Final = ord("\r")


@subkernel
def is_symbol(flags: np.uint8) -> bool:
    """Whether the flags are those of a symbol, an emoji or half a flag."""
    kind = flags & CLASS_MASK
    return flags & SYMBOL == SYMBOL or kind in (EMOJI, REGIONAL)


@subkernel
def symbols_dominate(flags: NDArray[np.uint8], words: int) -> bool:
    """Whether a text has more symbols than words, symbols that are words (emoji) not counted."""
    symbols = np.uint64(0)
    for i in range(np.uint64(flags.size)):
        symbols += np.uint64(flags[i] & SYMBOL == SYMBOL)
    return symbols > np.uint64(max(words, 0))


@subkernel
def is_bullet(code: int) -> bool:
    """Whether a character usually marks the items of a list."""
    shape = _GEOMETRIC <= code < _SHAPES_END or _ARROWS <= code < _ARROWS_END
    arrow = _DINGBAT_ARROWS <= code < _DINGBATS_END or _MORE_ARROWS <= code < _MORE_END
    return shape or arrow or among(code, _BULLETS)


@subkernel
def is_blank(code: int) -> bool:
    """Whether it is white space that the normal form leaves."""
    return code in (0x20, 0x85, 0x2028) or 9 <= code <= 13 or 0x1C <= code <= 0x1F


@subkernel
def _begins_line(codes: Codes, i: int) -> bool:
    i -= 1
    while i >= 0 and codes[i] != _LINE and codes[i] != _RETURN:
        if not is_blank(np.int64(codes[i])):
            return False
        i -= 1
    return True


@subkernel
def read_symbols(
    codes: Codes, flags: Flags, first: int, keys: NDArray[np.uint64]
) -> tuple[bool, np.uint64, int]:
    """The run that begins with a symbol: whether it has a place, its value, and its end."""
    value, i, end, count = keys[TEXT_START], first, first, 0
    divides = True
    while i < codes.size:
        code = np.int64(codes[i])
        if is_symbol(flags[i]):
            value = mix(value + np.uint64(code))
            divides = divides and among(code, _DIVIDING)
            end, count = i + 1, count + 1
        elif not is_blank(code):
            break
        i += 1
    mark = count == 1 and is_bullet(np.int64(codes[first])) and _begins_line(codes, first)
    return not divides and not mark, value, end
