"""What numbers the parts of something without a numeral: 上, 中, 下, 前 and 后.

All are words of their own as well, so they count only

- 上, 中 and 下 in brackets (（上）) and before 旬;
- 上 and 下 before 篇, 集, 册 and 卷;
- 上, 下, 前 and 后 before 半 with 年, 场, 月, 时, 段, 程 or 期 behind it.
"""

# NumPy's stubs type an indexed scalar as Any.
# mypy: disable-error-code="no-any-return"
from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base.kernels import allocating_subkernel, subkernel
from dedup_middleware.text.characters import NUMERAL
from dedup_middleware.text.numerals import Codes, among, at

PARTS: Final = "上中下前后"
_UPPER: Final = ord("上")
_MIDDLE: Final = ord("中")
_LOWER: Final = ord("下")
_FRONT: Final = ord("前")
_BACK: Final = ord("后")
_HALF: Final = ord("半")
_DECADE: Final = ord("旬")
_EMOJI, _EMOJI_SIZE = 0x1F000, 0xB00  # where those are that count as words
_OPENING: Final = np.array(sorted(map(ord, "([{【〔〖")), np.uint32)
_CLOSING: Final = np.array(sorted(map(ord, ")]}】〕〗")), np.uint32)
_VOLUMES: Final = np.array(sorted(map(ord, "篇集册卷")), np.uint32)
_HALVES: Final = np.array(sorted(map(ord, "年场月时段程期")), np.uint32)


@subkernel
def is_bracketed(codes: Codes, i: int) -> bool:
    """Whether brackets stand around the character at i."""
    return among(at(codes, i - 1), _OPENING) and among(at(codes, i + 1), _CLOSING)


@subkernel
def part_number(codes: Codes, i: int) -> int:
    """The place in `PARTS`, from 1 on, of the character at i if it numbers a part; else 0."""
    code = np.int64(codes[i])
    if code == _UPPER:
        number = 1
    elif code == _MIDDLE:
        number = 2
    elif code == _LOWER:
        number = 3
    elif code == _FRONT:
        number = 4
    elif code == _BACK:
        number = 5
    else:
        return 0
    after = at(codes, i + 1)
    counts = number <= 3 and (after == _DECADE or is_bracketed(codes, i))
    counts = counts or (number in (1, 3) and among(after, _VOLUMES))
    half = number != 2 and after == _HALF and among(at(codes, i + 2), _HALVES)
    return number if counts or half else 0


@allocating_subkernel
def candidates(codes: Codes, flags: NDArray[np.uint8]) -> tuple[NDArray[np.int32], int]:
    """Where a figure or a run of symbols may begin: at a numeral, at one of `PARTS`, or at a
    symbol; and how many there are."""
    some, where = np.empty(codes.size, np.uint8), np.empty(codes.size, np.int32)
    for i in range(np.uint64(codes.size)):
        code = codes[i]
        part = (code == _UPPER) | (code == _LOWER) | (code == _MIDDLE)
        part |= (code == _FRONT) | (code == _BACK)
        part |= code - np.uint32(_EMOJI) < np.uint32(_EMOJI_SIZE)
        some[i] = ((flags[i] & np.uint8(NUMERAL)) != 0) | part
    room = np.uint64(0)
    for i in range(np.uint64(codes.size)):
        where[room] = i  # counted only if it stays: no branch
        room += np.uint64(some[i])
    return where, np.int64(room)
