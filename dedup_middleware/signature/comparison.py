"""Sketches of the figures, names and clauses of a page, and their comparison with stored ones.

Figures and names are entries of 24 bits, 16 of a place and 8 of a value, in three ranges: figures,
names, and the figures a second time (see :mod:`dedup_middleware.text.places`). The sketch keeps the
16 smallest entries, three bytes each: as places are hashes, two pages keep the same ones of the
places that they share (a bottom-k sketch, E. Cohen and H. Kaplan, PODC 2007).

A clause has two hashes, of its words and of its turn (its negations and opposites, see
:mod:`dedup_middleware.text.clauses`). The hash of the words assigns it to one of 12 parts. For each
part the sketch has a 16-bit sum of the hashes of words, and an 8-bit sum, over the clauses with a
turn, of a hash of words and turn. If two pages have the same clauses in a part, the first sums are
equal, and the second ones differ if a clause of one says the opposite in the other. A clause that
only one page has changes the first sum, so the part is not compared: an added sentence with a
negation is no conflict.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base import kerneltypes as types
from dedup_middleware.base.jit import Word, kernel, subkernel
from dedup_middleware.base.kerneltypes import I64, R8, R8_2
from dedup_middleware.text.hashing import mix
from dedup_middleware.text.places import FREE, NAMES, SECONDS

PARTS: Final = 12
CLAUSE_BYTES: Final = 3 * PARTS
_GOLDEN: Final = np.uint64(0x9E3779B97F4A7C15)


@subkernel
def fill_clauses(clauses: NDArray[np.uint64], out: NDArray[np.uint8]) -> None:
    """Write the sketch of clauses, uint64[n, 2] of words and turn, to `out`, uint8[36]."""
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


@subkernel
def turned(a: Word, b: Word) -> Word:
    """Number of parts in which two sketches have equal sums of words and unequal sums of turns."""
    found = np.int64(0)
    for part in range(PARTS):
        at = 3 * part
        same = a[at] == b[at] and a[at + 1] == b[at + 1]
        found += np.int64(same and a[at + 2] != b[at + 2])
    return found


ENTRIES: Final = 16
FIGURE_BYTES: Final = 3 * ENTRIES


@subkernel
def fill_figures(
    entries: NDArray[np.uint32], kept: NDArray[np.uint32], out: NDArray[np.uint8]
) -> None:
    """Write the sketch of entries to `out`, uint8[48]; `kept` is a buffer, uint32[16]."""
    for i in range(np.uint64(ENTRIES)):
        kept[i] = np.uint32(FREE)
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


@subkernel
def _entry(sketch: Word, i: Word) -> Word:
    """Entry i of a sketch, or the mark of a free entry behind the last one."""
    if i >= ENTRIES:
        return np.int64(FREE)
    low, middle = np.int64(sketch[3 * i]), np.int64(sketch[3 * i + 1])
    return low | middle << 8 | np.int64(sketch[3 * i + 2]) << 16


@subkernel
def _known(sketch: Word) -> Word:
    """First place of which a sketch may lack entries: its last place if it is full, else 2**16."""
    last = _entry(sketch, ENTRIES - 1)
    return (last >> 8) if last != FREE else np.int64(1 << 16)


@subkernel
def _has(sketch: Word, entry: Word) -> Word:
    found = False
    for i in range(ENTRIES):
        found = found or _entry(sketch, i) == entry
    return found


@subkernel
def _named_elsewhere(a: Word, b: Word, first: Word, last: Word) -> Word:
    """Whether some name at this place of `a` that `b` lacks here stands at another place in both
    sketches. The place has entries `first` to `last - 1` of `a`."""
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
    """Number of places in which two sketches have different figures or names.

    A place differs if each sketch has a value there that the other lacks. Places are counted up to
    the last one that both sketches surely have in full. A place with different names is not counted
    if both pages have one of them in another place as well: then only one mention was edited. Each
    figure has two entries: places of first and of second entries are counted apart, and the larger
    number plus that of names is returned.
    """
    known = min(_known(a), _known(b))
    firsts, names, seconds, i, j = 0, 0, 0, 0, 0
    while True:
        x, y = _entry(a, i), _entry(b, j)
        place = min(x, y) >> 8
        if place >= known or min(x, y) == FREE:
            return names + max(firsts, seconds)
        mine, theirs, begin, start = False, False, i, j
        while x >> 8 == place or y >> 8 == place:
            if x < y:
                mine = True
            elif y < x:
                theirs = True
            i, j = i + (x <= y), j + (y <= x)
            x, y = _entry(a, i), _entry(b, j)
            if min(x, y) == FREE:
                break
        if mine and theirs:
            firsts += 1 if place < NAMES else 0
            seconds += 1 if place >= SECONDS else 0
            if NAMES <= place < SECONDS:
                elsewhere = _named_elsewhere(a, b, begin, i) or _named_elsewhere(b, a, start, j)
                names += 0 if elsewhere else 1


@kernel(types.Tuple((I64, I64))(R8_2, R8, types.uint64, R8, types.uint64))
def differing_places(
    records: Any, figures: Any, figures_at: Any, clauses: Any, clauses_at: Any
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Compare a page with n records, by :func:`conflicts` and :func:`turned`.

    :param records: uint8[n, m], a record in each row
    :param figures: uint8[48] of the page; those of a record begin at its byte ``figures_at``
    :param clauses: uint8[36] of the page; those of a record begin at its byte ``clauses_at``
    :returns: places with different figures or names int64[n], and parts with a clause that says the
        opposite int64[n]
    """
    count = np.uint64(records.shape[0])
    places, opposites = np.empty(count, np.int64), np.empty(count, np.int64)
    for row in range(count):
        places[row] = conflicts(figures, records[row, figures_at : figures_at + np.uint64(48)])
        opposites[row] = turned(
            clauses, records[row, clauses_at : clauses_at + np.uint64(CLAUSE_BYTES)]
        )
    return places, opposites
