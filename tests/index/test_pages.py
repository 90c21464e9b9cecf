"""Many pages as columns, and the records they get."""

from __future__ import annotations

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedup_middleware.index.pages import fitting, joined, packed_keys, pages_of, records_of
from dedup_middleware.model.buckets import BUCKET_LIMIT, BucketKey, record
from dedup_middleware.model.records import BAND_RECORD, SIMHASH_RECORD
from tests.index.bulk import (
    page,
    some_pages,
)
from tests.index.harness import (
    bucket_keys_of,
)

_HASHES = st.integers(0, (1 << 64) - 1)


@given(st.lists(st.tuples(_HASHES, _HASHES, st.integers(0, 3)), max_size=20), st.integers(1, 99))
def test_records_of_pages(values: list[tuple[int, int, int]], first: int) -> None:
    """Many pages together get the same records as one by one."""
    entries, wanted = [], {}
    for number, (key, simhash, tables) in enumerate(values, first):
        bucket_keys: tuple[BucketKey, ...] = bucket_keys_of(key, simhash, (key ^ simhash, key))
        entry = attrs.evolve(page(key, simhash), bucket_keys=bucket_keys[: 2 * tables + 1])
        entries.append(entry)
        for bucket_key in entry.bucket_keys:
            wanted[bucket_key.bucket] = wanted.get(bucket_key.bucket, b"") + record(
                bucket_key, number
            )
    pages = pages_of(entries)
    numbers = np.arange(first, first + len(entries), dtype=np.uint64)
    found: dict[int, bytes] = {}
    for records in records_of(pages, numbers):
        for i, bucket in enumerate(records.buckets):
            found[bucket] = records.data[records.cuts[i] : records.cuts[i + 1]]
            assert records.part(i, i + 1).data == found[bucket]
    assert found == wanted
    assert list(found) == sorted(found)


def test_bucket_keys_as_numbers() -> None:
    """A slot's number holds its table and the first 40 bits of its hash, so its bucket too."""
    bucket_keys = bucket_keys_of(7, 0x0123_4567_89AB_CDEF, (5 << 40, 6 << 50))
    packed = packed_keys([bucket_keys[:2], (), bucket_keys[2:]]).tolist()
    for bucket_key, number in zip(bucket_keys, packed, strict=True):
        assert number >> 24 == bucket_key.bucket
        assert (number & 0xFFFFFF) == (
            bucket_key.suffix >> 24 if bucket_key.is_simhash else bucket_key.suffix
        )


@given(st.integers(0, 10), st.integers(0, 10), st.sampled_from([BAND_RECORD, SIMHASH_RECORD]))
def test_fitting(free: int, count: int, width: int) -> None:
    """As many whole records are taken as fit."""
    records = bytes(range(count * width % 256)).ljust(count * width, b"x")
    length = BUCKET_LIMIT - free * width - width // 2
    assert fitting(length, records, width) == records[: min(free, count) * width]


def test_parts_of_pages() -> None:
    """Pages can be cut, chosen from and joined without a value going astray."""
    pages = some_pages(50)
    again = joined([pages.part(0, 7), pages.part(7, 20), pages.part(20, 99)])
    odd = np.arange(50) % 2 == 1
    chosen = joined([pages.part(i, i + 1) for i in range(1, 50, 2)])
    for one, two in ((again, pages), (pages.chosen(odd), chosen)):
        assert one.content.tobytes() == two.content.tobytes()
        assert list(one.addresses) == list(two.addresses)
        assert list(one.payloads) == list(two.payloads)
        assert one.times.tolist() == two.times.tolist()
        assert one.bucket_keys.tolist() == two.bucket_keys.tolist()
        assert one.starts.tolist() == two.starts.tolist()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"addresses": [None]}, "addresses has 1 values for 3 pages"),
        ({"payloads": [b""] * 4}, "payloads has 4 values"),
        ({"times": np.zeros(2, np.uint32)}, "times has 2 values"),
        ({"payloads": [b"", b"", bytes(1 << 17)]}, "payloads holds one of 131072 bytes"),
        ({"addresses": [None, b"x" * 9999, None]}, "addresses holds one of 9999 bytes"),
        ({"starts": np.array([0, 1])}, "starts must have 4 values"),
        ({"starts": np.array([0, 9, 3, 0])}, "starts must have 4 values"),
        ({"starts": np.array([0, 12, 3, 21])}, "starts must ascend"),
        ({"content": np.zeros(3, "u8")}, "content has dtype"),
        ({"bucket_keys": np.zeros(21, np.uint64) + (2 << 40 | 5)}, "keys in SimHash tables"),
        ({"bucket_keys": np.full(21, 1 << 48, np.uint64)}, "more than 48 bits"),
    ],
)
def test_columns_that_do_not_fit(change: dict[str, object], message: str) -> None:
    """Columns of different lengths, or with values no index takes, are refused by name."""
    with pytest.raises(ValueError, match=message):
        attrs.evolve(some_pages(3), **change)
