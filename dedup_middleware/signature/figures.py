"""Sketches of the figures and names of a page, and in how many places two pages differ.

They are entries of 24 bits, 16 of a place and 8 of a value, in three ranges: figures, names, and
the figures a second time (see :mod:`dedup_middleware.text.places`). The sketch keeps the 16
smallest, three bytes each: as places are hashes, two pages keep the same ones of the places they
share (a bottom-k sketch, E. Cohen and H. Kaplan, PODC 2007).
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base.jit import Word, kernel, subkernel
from dedup_middleware.base.kerneltypes import R32, U8
from dedup_middleware.text.places import NAMES, SECONDS

ENTRIES: Final = 16
FIGURE_BYTES: Final = 3 * ENTRIES
_FREE: Final = 0xFFFFFF


@subkernel
def fill_figures(
    entries: NDArray[np.uint32], kept: NDArray[np.uint32], out: NDArray[np.uint8]
) -> None:
    """Write the sketch to `out`; `kept` is a buffer for its entries."""
    for i in range(np.uint64(ENTRIES)):
        kept[i] = np.uint32(_FREE)
    for entry in entries:
        place = ENTRIES
        while place > 0 and kept[place - 1] > entry:
            place -= 1
        if place < ENTRIES and (place == 0 or kept[place - 1] != entry):
            for i in range(ENTRIES - 1, place, -1):
                kept[i] = kept[i - 1]
            kept[place] = entry
    for i in range(ENTRIES):
        for byte in range(3):
            out[3 * i + byte] = np.uint8((kept[i] >> np.uint32(8 * byte)) & np.uint32(0xFF))


@kernel(U8(R32))
def figure_sketch(entries: NDArray[np.uint32]) -> NDArray[np.uint8]:
    """The 16 smallest distinct entries, ascending, little-endian, uint8[48]; 0xFF where free.

    :param entries: numbers below 2**24 - 1, any order, repetition allowed
    """
    out = np.empty(FIGURE_BYTES, np.uint8)
    fill_figures(entries, np.empty(ENTRIES, np.uint32), out)
    return out


@subkernel
def _entry(sketch: Word, i: Word) -> Word:
    """Entry i, or the free one behind the last."""
    if i >= ENTRIES:
        return np.int64(_FREE)
    low, middle = np.int64(sketch[3 * i]), np.int64(sketch[3 * i + 1])
    return low | middle << 8 | np.int64(sketch[3 * i + 2]) << 16


@subkernel
def _known(sketch: Word) -> Word:
    """The places below this one are known in full: a full sketch may have lost part of its last."""
    last = _entry(sketch, ENTRIES - 1)
    return (last >> 8) if last != _FREE else np.int64(1 << 16)


@subkernel
def _has(sketch: Word, entry: Word) -> Word:
    found = False
    for i in range(ENTRIES):
        found = found or _entry(sketch, i) == entry
    return found


@subkernel
def _named_elsewhere(a: Word, b: Word, first: Word, last: Word) -> Word:
    """Whether a name among the entries first to last - 1 of `a`, and not of `b`, is in another
    place of both."""
    found = False
    for i in range(first, last):
        name = _entry(a, i)
        if _has(b, name):
            continue
        for k in range(ENTRIES):
            other = _entry(a, k)
            is_name = NAMES <= other >> 8 < SECONDS
            if is_name and other & 0xFF == name & 0xFF:
                found = found or _has(b, other)
    return found


@subkernel
def conflicts(a: Word, b: Word) -> Word:
    """In how many places two sketches have different figures or names.

    A place differs when each of the two has a value there that the other lacks. Only places up to
    the last that both sketches are sure to know are counted. Names count as figures do, unless both
    pages have one of the names in another place too: then one mention was edited. Of the first and
    the second entries of figures those that differ in more places count, so that no figure counts
    twice.
    """
    known = min(_known(a), _known(b))
    firsts, names, seconds, i, j = 0, 0, 0, 0, 0
    while True:
        x, y = _entry(a, i), _entry(b, j)
        place = min(x, y) >> 8
        if place >= known or min(x, y) == _FREE:
            return names + max(firsts, seconds)
        mine, theirs, begin, start = False, False, i, j
        while x >> 8 == place or y >> 8 == place:
            if x < y:
                mine = True
            elif y < x:
                theirs = True
            i, j = i + (x <= y), j + (y <= x)
            x, y = _entry(a, i), _entry(b, j)
            if min(x, y) == _FREE:
                break
        if mine and theirs:
            firsts += 1 if place < NAMES else 0
            seconds += 1 if place >= SECONDS else 0
            if NAMES <= place < SECONDS:
                elsewhere = _named_elsewhere(a, b, begin, i) or _named_elsewhere(b, a, start, j)
                names += 0 if elsewhere else 1
