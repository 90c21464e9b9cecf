"""Neighbours among buckets at hand are those that the kernel finds."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dedup_middleware.index.beside import beside
from dedup_middleware.index.layout import record
from dedup_middleware.index.scan import neighbours
from dedup_middleware.index.tables import Slot

NARROW, WIDE = Slot(7 << 16, 0x010101), Slot(3 << 16, 0xF0F0_F0F0_F0F0)


def bucket(slot: Slot, heads: list[int], first: int) -> bytes:
    """Records of pages with these heads, numbered on."""
    return b"".join(record(Slot(slot.bucket, head), first + i) for i, head in enumerate(heads))


# Bytes of 1 in numbers and heads make matches that lie across two records.
narrow_heads = st.lists(st.sampled_from((0x010101, 0x010102, 0x010100, 0xFFFFFF)), max_size=100)
wide_heads = st.lists(
    st.integers(0, 6).map(lambda bits: WIDE.head ^ (1 << bits) - 1) | st.integers(0, (1 << 48) - 1),
    max_size=60,
)


@given(narrow_heads, wide_heads, st.sampled_from((1, 0x0101010101, 7)), st.integers(0, 12))
def test_same_as_the_kernel(narrow: list[int], wide: list[int], first: int, distance: int) -> None:
    """Few or many records, matches at any byte: numbers and tables are the kernel's."""
    slots = (NARROW, WIDE)
    data = [bucket(NARROW, narrow, first), bucket(WIDE, wide, first + 50)]
    expected = neighbours(slots, data, distance)
    for held in (data, [bytearray(raw) for raw in data], [raw or None for raw in data]):
        found = beside(slots, held, distance)
        assert found is not None
        np.testing.assert_array_equal(found.numbers, expected.numbers)
        np.testing.assert_array_equal(found.tables, expected.tables)


@given(st.binary(min_size=1, max_size=7), narrow_heads, wide_heads)
def test_bytes_of_no_record(odd: bytes, narrow: list[int], wide: list[int]) -> None:
    """Bytes behind the last whole record are noticed in any bucket."""
    data = [bucket(NARROW, narrow, 1), bucket(WIDE, wide, 1)]
    assert beside((NARROW, WIDE), [data[0] + odd, data[1]], 12) is None
    assert beside((NARROW, WIDE), [data[0], data[1] + odd], 12) is None
