"""Looks up the shingles and values of a page in the evidence of another page.

The evidence has false positives, and of a long page only a sample of the shingles: see
:mod:`.evidence`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base.jit import subkernel
from dedup_middleware.signature.ribbon import PADDING, holds
from dedup_middleware.text.hashing import mix

_SAMPLED: Final = 4  # fewer sampled shingles of a page do not represent all of them
LEVEL: Final = np.uint8(0x0F)  # bits of the head: one shingle in 2 ** level is entered
SAMPLED_BY_SIX_BITS: Final = 6  # the highest level that earlier versions could sample
#: flag of the head of each higher level; without it all shingles of level 6 are in the filter
SAMPLED_BY_ALL_BITS: Final = np.uint8(0x10)
TITLE_BEHIND: Final = np.uint8(0x20)  # flag of the head: title words follow the filter
# Bits of the last byte with the number of these words; the other bits have the number of all words
# of the title, modulo 8.
COUNT: Final = np.uint8(0x1F)
_TURN, _TURN_BACK = np.uint64(6), np.uint64(58)
# The hash of a value, or of a word of a title, is XORed with these for its two entries.
VALUE: Final = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F))
TITLE: Final = (np.uint64(0x165667B19E3779F9), np.uint64(0xD6E8FEB86659FD93))
_ONE: Final = np.uint64(1)


@subkernel
def filter_bytes(data: Any, first: Any, end: Any) -> Any:
    """Size in bytes of the filter in the evidence ``data[first:end]``; 0 if it can't be trusted.

    Earlier versions entered too many shingles of a page of more than 524,288: the filter holds
    those of all pages.
    """
    size = end - first - 1
    if size > 0:
        head = data[first]
        if (head & LEVEL) > SAMPLED_BY_SIX_BITS and head & SAMPLED_BY_ALL_BITS == 0:
            size = np.int64(0)
    if size > 0 and data[first] & TITLE_BEHIND != 0:
        size -= 2 * np.int64(data[end - 1] & COUNT) + 1
    return size


@subkernel
def holds_twice(other: Any, value: Any, places: Any) -> Any:
    """Whether both entries of a value are held; `places` is `VALUE`, or `TITLE` for title words."""
    return holds(other, mix(value ^ places[0])) & holds(other, mix(value ^ places[1]))


@subkernel
def is_sampled(value: Any, level: Any) -> Any:
    """Whether a shingle is in the sample of a page with this level."""
    # First the highest six bits of the hash, then its lowest ones.
    turned = value << _TURN | value >> _TURN_BACK
    return turned & ((_ONE << np.uint64(level)) - _ONE) == np.uint64(0)


@subkernel
def mark_common(order: Any, other: Any, level: Any, common: Any) -> Any:
    """Mark in `common` the shingles that the other page holds; return their number.

    A shingle outside the sample gets the mark of the sampled one before it, or else of the first
    one. With fewer than `_SAMPLED` sampled shingles none is common.
    """
    held, total, begun = np.uint8(0), 0, level == 0
    if level:
        sampled = 0
        for i in range(np.uint64(order.size)):
            sampled += np.int64(is_sampled(order[i], level))
        if sampled < _SAMPLED:
            common[:] = np.uint8(0)
            return 0
    for i in range(np.uint64(order.size)):
        if level == 0 or is_sampled(order[i], level):
            held = holds(other, order[i])
            if not begun:
                begun = True
                for k in range(i):
                    common[k] = held
                total += np.int64(i) * np.int64(held)
        common[i] = held
        total += np.int64(held)
    return total


@subkernel
def mark_sure(common: Any, width: Any, sure: Any) -> None:
    """Mark in `sure` the common shingles that are hardly false positives: a common one is next to
    them or, as where words were deleted, just before or behind all their words."""
    size, far = np.uint64(common.size), np.uint64(width)
    for i in range(size):
        others = np.uint8(0)
        if i >= _ONE:
            others |= common[i - _ONE]
        if i + _ONE < size:
            others |= common[i + _ONE]
        if i >= far:
            others |= common[i - far]
        if i + far < size:
            others |= common[i + far]
        sure[i] = common[i] & others


@subkernel
def shingles_around(common: Any, word: Any, width: Any) -> Any:
    """How many shingles with the word at this place are common, and how many there are."""
    first, end = max(0, word - width + 1), min(word + 1, common.size)
    held = 0
    for shingle in range(first, end):
        held += np.int64(common[shingle])
    return held, end - first


def joined(evidence: Sequence[bytes]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The evidence of n pages as kernels read it: all bytes, and int64[n + 1], where each ends."""
    ends = list(accumulate(map(len, evidence), initial=0))
    return np.frombuffer(b"".join((*evidence, bytes(PADDING))), np.uint8), np.array(ends, np.int64)
