"""A stored page's evidence as plain columns of bits, and which shingles of a page it holds."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.model.fingerprint import Wording
from dedup_middleware.signature import evidence as kernels
from dedup_middleware.text.stamps import YEAR
from dedup_middleware.text.wording import NAME
from tests.text.oracles import MASK, mix

VALUE = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F)
TITLE = (0x165667B19E3779F9, 0xD6E8FEB86659FD93)
WIDTH = 3


def equation(value: int, positions: int) -> int:
    """The positions that a hash names, as a mask of bits."""
    last = positions - 56
    at = ((value & 0xFFFFFFFF) * (last + 1 + 2 * 14) >> 32) - 14
    coefficients = (value * 0x9E3779B97F4A7C15 & MASK) >> 8 | 1
    return coefficients << min(max(at, 0), last)


def solved(equations: list[int], positions: int) -> list[int]:
    """Four solutions of some equations by Gaussian elimination, each as a mask of bits."""
    rows: dict[int, int] = {}  # by the lowest position of each
    for one in equations:
        left = one
        while left and (lowest := (left & -left).bit_length() - 1) in rows:
            left ^= rows[lowest]
        if left:
            rows[lowest] = left
    columns = [0] * 4
    for at in range(positions - 1, -1, -1):
        for column in range(4):
            bit = mix(at) >> column & 1
            if at in rows:
                bit = (columns[column] & rows[at]).bit_count() & 1
            columns[column] |= bit << at
    return columns


class PlainFilter:
    """A stored page's evidence as four columns of bits."""

    def __init__(self, page: Wording) -> None:
        self.level = 0
        order = page.order.tolist()
        if len(order) > kernels.MOST:
            order = sorted(set(order))
        while len(order) >> self.level > kernels.MOST:
            self.level += 1
        values = page.values.tolist()
        title = page.title.tolist() if page.words < kernels.TITLED else []
        entries = (len(order) >> self.level) + 2 * (len(page.values) + len(title))
        self.positions = max(64, (entries + entries // 12 + 4 + 7) // 8 * 8)
        wanted = [one for one in order if self.is_sampled(one)]
        wanted += [mix(one ^ salt) for one in values for salt in VALUE]
        wanted += [mix(one ^ salt) for one in title for salt in TITLE]
        self.columns = solved([equation(one, self.positions) for one in wanted], self.positions)
        self.titled, self.years = bool(title), bool((page.sorts == YEAR).any())

    def to_bytes(self) -> bytes:
        """The columns, each with its pattern."""
        size = self.positions // 8
        return b"".join(
            bytes(byte ^ pattern for byte in column.to_bytes(size, "little"))
            for column, pattern in zip(self.columns, (0x33, 0x55, 0x0F, 0xC3), strict=True)
        )

    def is_sampled(self, value: int) -> bool:
        """Whether a shingle is entered."""
        return (value << 6 | value >> 58) & ((1 << self.level) - 1) == 0

    def holds(self, *values: int) -> bool:
        """Whether all of the values are in the filter."""
        return not any(
            (equation(one, self.positions) & column).bit_count() & 1
            for one in values
            for column in self.columns
        )

    def holds_value(self, value: int) -> bool:
        """Whether a numeral is in the filter."""
        return self.holds(*(mix(value ^ salt) for salt in VALUE))


def plain_common(page: Wording, stored: PlainFilter) -> list[bool]:
    """Of each shingle whether it is common; one outside of the sample is as the one before it."""
    shingles = page.order.tolist()
    sampled = [i for i, one in enumerate(shingles) if stored.is_sampled(one)]
    if len(sampled) < (4 if stored.level else 1):
        return [False] * len(shingles)
    before = [max((k for k in sampled if k <= i), default=sampled[0]) for i in range(len(shingles))]
    common = [stored.holds(shingles[k]) for k in before]
    width, sorts = page.words - len(shingles) + 1, page.sorts.tolist()
    words = [
        (place, stored.holds_value(value))
        for value, place, sort in zip(
            page.values.tolist(), page.positions.tolist(), sorts, strict=True
        )
        if sort >= NAME
    ]
    if 2 * sum(held for _, held in words) > len(words):
        for last in [place for place, held in words if not held]:
            first = max(0, last - width + 1)
            common[first : last + 1] = [False] * len(common[first : last + 1])
    return common


def page_of(order: NDArray[np.uint64]) -> Wording:
    """A page with these shingles and no numerals."""
    nothing = np.empty(0, np.uint64)
    return Wording(
        order,
        len(order) + WIDTH - 1,
        nothing,
        np.empty(0, np.int32),
        np.empty(0, np.uint8),
        nothing,
        np.arange(1, len(order) + WIDTH, dtype=np.uint64),
    )
