"""Which shingles and values of a page the evidence of another one holds.

A filter reports some shingles as held that the other page lacks, and holds a sample of those of a
long page: see :mod:`.evidence`.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from dedup_middleware.base.jit import subkernel
from dedup_middleware.signature.ribbon import holds
from dedup_middleware.text.hashing import mix

_SAMPLED: Final = 4  # shingles of a page in the sample of a longer one that say something of all
LEVEL: Final = np.uint8(0x1F)  # of the first byte of evidence: one shingle in 2 ** level is entered
TITLE_BEHIND: Final = np.uint8(0x20)  # set there if words of the title stand behind the filter
# Their number, in the last byte; its upper bits have the number of words of the title, modulo 8.
COUNT: Final = np.uint8(0x1F)
_LEVEL_SHIFT: Final = np.uint64(58)
# What the hash of a value and of a word of a title is mixed with, each of the two times.
VALUE: Final = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F))
TITLE: Final = (np.uint64(0x165667B19E3779F9), np.uint64(0xD6E8FEB86659FD93))
_ONE: Final = np.uint64(1)


@subkernel
def filter_bytes(data: Any, first: Any, end: Any) -> Any:
    """Bytes of the filter in the evidence of a page, which is there from ``first`` to ``end``."""
    size = end - first - 1
    if size > 0 and data[first] & TITLE_BEHIND != 0:
        size -= 2 * np.int64(data[end - 1] & COUNT) + 1
    return size


@subkernel
def holds_twice(data: Any, start: Any, size: Any, value: Any, places: Any) -> Any:
    """Whether a value is held that was entered twice, as `places` say."""
    held = holds(data, start, size, mix(value ^ places[0]))
    return held & holds(data, start, size, mix(value ^ places[1]))


@subkernel
def holds_value(data: Any, start: Any, size: Any, value: Any) -> Any:
    """Whether the numeral or word with this hash is held."""
    return holds_twice(data, start, size, value, VALUE)


@subkernel
def is_sampled(value: Any, level: Any) -> Any:
    """Whether a shingle is in the sample that is entered of a long page."""
    return (value >> _LEVEL_SHIFT) & ((_ONE << np.uint64(level)) - _ONE) == np.uint64(0)


@subkernel
def mark_common(order: Any, data: Any, start: Any, size: Any, level: Any, common: Any) -> Any:
    """Write whether the other page holds each shingle; how many of all it holds.

    One that is not in the sample counts as the one before it, those before the first as that; none
    is common if fewer than `_SAMPLED` are in the sample, which would say nothing of the others.
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
            held = holds(data, start, size, order[i])
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
    """Write which common shingles are hardly false positives: the one next to it is common too, or
    the one of the words just before or behind it, as where words between were deleted."""
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
