"""Where figures stand: for each numeral of a text the letters around it, and its value.

Two pages on one template say other things in the same places, so a figure is compared with the
one in the same place of the other page, not with all that occur there. A **place** is what stands
on either side of a numeral: two ideographs, kana or syllables, or six letters of an alphabet.
White space and punctuation are passed over, and another numeral counts as one ideograph whatever
its value, so that 10:30 and 11:45 stand in the same places.

A date line (3月2日电) says when an agency sent a report, which differs from one reprint to the
next: its figures have no place.
"""

# NumPy's stubs type an indexed scalar as Any.
# mypy: disable-error-code="no-any-return"
from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.kernels import allocating_subkernel, subkernel
from dedup_middleware.text.characters import NUMERAL, SEPARATES
from dedup_middleware.text.hashing import FIGURE_START, TEXT_BASE, mix
from dedup_middleware.text.numerals import Codes

WIDTH: Final = 6  # letters on each side
WIDE: Final = 3  # letters that an ideograph, a kana, a syllable or a numeral counts for
REACH: Final = 24  # characters that are looked at on each side
FREE: Final = 0xFFFFFF  # no entry has this value
_FIRST_WIDE: Final = 0x2E80  # the radicals before the first ideograph
_MASK: Final = 0x110000  # stands for a numeral; no code point
_SIDE: Final = 0x110001  # between the two sides
_DAY: Final = ord("日")
_MONTH: Final = ord("月")
_YEAR: Final = ord("年")
_WIRE: Final = ord("电")
_WIRE_TRADITIONAL: Final = ord("電")
_NEWS: Final = ord("讯")
_NEWS_TRADITIONAL: Final = ord("訊")
_NO_LINE, _WANTS_MONTH, _WANTS_YEAR = 0, 1, 2


@subkernel
def _beside(
    codes: Codes,
    flags: NDArray[np.uint8],
    i: int,
    step: int,
    base: np.uint64,
    value: np.uint64,
) -> np.uint64:
    """Take the letters from i on, outwards, into a hash."""
    room, numeral = WIDTH, False
    end = i + step * REACH
    while i != end and 0 <= i < codes.size and room > 0:
        code = np.int64(codes[i])
        if flags[i] & NUMERAL:
            if not numeral:
                value = value * base + np.uint64(_MASK)
                room -= WIDE
            numeral = True
        elif not flags[i] & SEPARATES:
            value = value * base + np.uint64(code)
            room -= WIDE if code >= _FIRST_WIDE else 1
            numeral = False
        i += step
    return value


@subkernel
def _at(codes: Codes, i: int) -> int:
    return np.int64(codes[i]) if 0 <= i < codes.size else 0


@subkernel
def _ends_date_line(codes: Codes, last: int) -> bool:
    """Whether 日电 or 日讯 stands behind a numeral that ends at `last`."""
    if _at(codes, last) != _DAY:
        return False
    word = _at(codes, last + 2) if _at(codes, last + 1) == 32 else _at(codes, last + 1)
    return word in (_WIRE, _WIRE_TRADITIONAL, _NEWS, _NEWS_TRADITIONAL)


@allocating_subkernel
def locate(
    codes: Codes,
    flags: NDArray[np.uint8],
    rows: NDArray[np.int64],
    values: NDArray[np.uint64],
    keys: NDArray[np.uint64],
) -> NDArray[np.uint32]:
    """An entry of 24 bits for each figure outside date lines: 16 of its place, 8 of its value.

    Args:
        flags: of the code points; the names of months among the figures become numerals.
        rows: what `find_figures` gives.
        values: the hash of the value of each row.
    """
    for row in range(rows.shape[0]):
        for i in range(rows[row, 3], rows[row, 4]):
            flags[i] |= np.uint8(NUMERAL)
    entries = np.empty(rows.shape[0], np.uint32)
    count, state, begin = 0, _NO_LINE, 0
    for row in range(rows.shape[0] - 1, -1, -1):
        first, last = rows[row, 3], rows[row, 4]
        joined = last + 1 == begin
        if state == _WANTS_MONTH and joined and _at(codes, last) == _MONTH:
            state = _WANTS_YEAR
        elif state == _WANTS_YEAR and joined and _at(codes, last) == _YEAR:
            state = _NO_LINE
        elif _ends_date_line(codes, last):
            state = _WANTS_MONTH
        else:
            state = _NO_LINE
            place = _beside(codes, flags, first - 1, -1, keys[TEXT_BASE], keys[FIGURE_START])
            place = place * keys[TEXT_BASE] + np.uint64(_SIDE)
            place = mix(_beside(codes, flags, last, 1, keys[TEXT_BASE], place))
            entry = (place >> np.uint64(48) << np.uint64(8)) | (values[row] >> np.uint64(56))
            entries[count] = entry if entry != FREE else FREE - 1
            count += 1
        begin = first
    return entries[:count]
