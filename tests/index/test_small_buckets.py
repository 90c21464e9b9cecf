"""The scan of small buckets finds the neighbours that the kernel finds."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dedup_middleware.index.scan import neighbours
from dedup_middleware.index.sqlite.propose import unknown_neighbours
from dedup_middleware.model.buckets import BucketKey, record

BAND_RECORD, SIMHASH_RECORD = BucketKey(11 << 16, 0x010101), BucketKey(3 << 16, 0xF0F0_F0F0_F0F0)


def bucket(bucket_key: BucketKey, suffixes: list[int], first: int) -> bytes:
    """Records of pages with these heads, numbered on."""
    return b"".join(
        record(BucketKey(bucket_key.bucket, suffix), first + i) for i, suffix in enumerate(suffixes)
    )


# Bytes of 1 in numbers and heads make matches that lie across two records.
band_suffixes = st.lists(st.sampled_from((0x010101, 0x010102, 0x010100, 0xFFFFFF)), max_size=100)
simhash_suffixes = st.lists(
    st.integers(0, 6).map(lambda bits: SIMHASH_RECORD.suffix ^ (1 << bits) - 1)
    | st.integers(0, (1 << 48) - 1),
    max_size=60,
)


@given(band_suffixes, simhash_suffixes, st.sampled_from((1, 0x0101010101, 7)), st.integers(0, 12))
def test_same_as_the_kernel(narrow: list[int], wide: list[int], first: int, distance: int) -> None:
    """Few or many records, matches at any byte: numbers and tables are the kernel's."""
    bucket_keys = (BAND_RECORD, SIMHASH_RECORD)
    data = [bucket(BAND_RECORD, narrow, first), bucket(SIMHASH_RECORD, wide, first + 50)]
    expected = neighbours(bucket_keys, data, distance)
    for held in (data, [raw or None for raw in data]):
        found, is_blocked = unknown_neighbours(bucket_keys, [[raw] for raw in held], distance)
        assert is_blocked == any(mask >> 11 & 1 for mask in expected.tables.tolist())
        np.testing.assert_array_equal(found.page_ids, expected.page_ids)
        np.testing.assert_array_equal(found.tables, expected.tables)


@given(
    st.lists(band_suffixes, min_size=1, max_size=3),
    st.lists(simhash_suffixes, min_size=3, max_size=3),
    st.sets(st.integers(1, 600)),
    st.integers(0, 300),
)
def test_generations_and_known_pages(
    narrow: list[list[int]], wide: list[list[int]], known: set[int], upto: int
) -> None:
    """Buckets of several generations are scanned as one; known pages are left out."""
    bucket_keys = (BAND_RECORD, SIMHASH_RECORD)
    held = [
        [bucket(BAND_RECORD, suffixes, 1 + 200 * i) for i, suffixes in enumerate(narrow)],
        [
            bucket(SIMHASH_RECORD, suffixes, 50 + 200 * i)
            for i, suffixes in enumerate(wide[: len(narrow)])
        ],
    ]
    expected = neighbours(bucket_keys, [b"".join(some) for some in held], 5)
    found, is_blocked = unknown_neighbours(bucket_keys, held, 5, frozenset(known), upto)
    keep = [n > upto and n not in known for n in expected.page_ids.tolist()]
    np.testing.assert_array_equal(found.page_ids, expected.page_ids[keep])
    np.testing.assert_array_equal(found.tables, expected.tables[keep])
    assert is_blocked == any(mask >> 11 & 1 for mask in found.tables.tolist())


@given(st.binary(min_size=1, max_size=7), band_suffixes, simhash_suffixes)
def test_bytes_of_no_record(odd: bytes, narrow: list[int], wide: list[int]) -> None:
    """Bytes behind the last whole record are counted in any bucket and hide nothing."""
    data = [bucket(BAND_RECORD, narrow, 1), bucket(SIMHASH_RECORD, wide, 1)]
    expected = neighbours((BAND_RECORD, SIMHASH_RECORD), data, 12)
    for held in ([data[0] + odd, data[1]], [data[0], data[1] + odd]):
        found, _ = unknown_neighbours(
            (BAND_RECORD, SIMHASH_RECORD), [[raw, raw] for raw in held], 12
        )
        np.testing.assert_array_equal(found.page_ids, expected.page_ids)
        assert found.corrupt == 2 * len(odd)
