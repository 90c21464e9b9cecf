"""The kernel that scans all buckets at once against the scan bucket by bucket, and SQLite's scan of
small buckets against the kernel."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from dedup_middleware.index import scan
from dedup_middleware.index.base import Index
from dedup_middleware.index.scan import neighbours
from dedup_middleware.index.sqlite.propose import unknown_neighbours
from dedup_middleware.model.buckets import (
    ANCHOR_TABLES,
    COMMON_ANCHOR,
    FIRST_BAND_TABLE,
    SIMHASH_TABLES,
    BucketKey,
    Neighbours,
    record,
)
from dedup_middleware.model.claims import Claimed
from dedup_middleware.model.records import BAND_RECORD, SIMHASH_RECORD, page_ids_of, suffixes_of
from dedup_middleware.signature.hamming import within
from tests.index.harness import bucket_keys_of, entry

TABLES = st.sampled_from([0, 1, *SIMHASH_TABLES, FIRST_BAND_TABLE, 63])


def plain_neighbours(
    bucket_keys: Sequence[BucketKey], data: Sequence[bytes], distance: int
) -> Neighbours:
    """What ``neighbours`` returns, computed bucket by bucket in plain NumPy.

    SimHash records survive within ``distance`` bits of the SimHash, band records when the suffix
    is equal. Bytes behind the last whole record are counted as corrupt and skipped.
    """
    numbers: list[NDArray[np.uint64]] = []
    tables: list[NDArray[np.uint64]] = []
    corrupt = 0
    for bucket_key, raw in zip(bucket_keys, data, strict=True):
        whole = len(raw) - len(raw) % bucket_key.width
        corrupt += len(raw) - whole
        if not whole:
            continue
        if bucket_key.is_simhash:
            hits = within(suffixes_of(raw, SIMHASH_RECORD), bucket_key.suffix, distance)
            found = page_ids_of(raw, SIMHASH_RECORD)[hits]
        else:
            found = page_ids_of(raw, BAND_RECORD)[
                suffixes_of(raw, BAND_RECORD) == np.uint64(bucket_key.suffix)
            ]
        if len(found):
            numbers.append(found.astype(np.uint64))
            tables.append(np.full(len(found), 1 << bucket_key.table, np.uint64))
    if not numbers:
        empty = np.empty(0, np.uint64)
        return Neighbours(empty, empty, corrupt)
    every = np.concatenate(numbers)
    unique, inverse = np.unique(every, return_inverse=True)
    masks = np.zeros(len(unique), np.uint64)
    np.bitwise_or.at(masks, inverse, np.concatenate(tables))
    return Neighbours(unique, masks, corrupt)


@st.composite
def readings(draw: st.DrawFn) -> tuple[list[BucketKey], list[bytes]]:
    """Buckets of records near and far, with odd bytes behind some of them."""
    bucket_keys, data = [], []
    for _ in range(draw(st.integers(0, 14))):
        table = draw(TABLES)
        bits = 48 if table in SIMHASH_TABLES else 24
        bucket_key = BucketKey(
            table << 16 | draw(st.integers(0, 0xFFFF)), draw(st.integers(0, 2**bits - 1))
        )
        raw = b""
        for number in draw(st.lists(st.integers(1, 40) | st.integers(1, 2**40 - 1), max_size=12)):
            flips = draw(st.sets(st.integers(0, bits - 1), max_size=4))
            raw += record(
                BucketKey(bucket_key.bucket, bucket_key.suffix ^ sum(1 << bit for bit in flips)),
                number,
            )
        bucket_keys.append(bucket_key)
        data.append(raw + draw(st.binary(max_size=draw(st.sampled_from([0, 0, 9])))))
    return bucket_keys, data


@given(readings(), st.integers(0, 64))
def test_scan_equals_the_plain_scan(
    reading: tuple[list[BucketKey], list[bytes]], distance: int
) -> None:
    """Numbers, tables and corrupt bytes equal what a scan bucket by bucket finds."""
    bucket_keys, data = reading
    found = scan.neighbours(bucket_keys, data, distance)
    plain = plain_neighbours(bucket_keys, data, distance)
    assert found.page_ids.tolist() == plain.page_ids.tolist()
    assert found.tables.tolist() == plain.tables.tolist()
    assert found.corrupt == plain.corrupt
    assert found.scanned == sum(
        len(raw) // SIMHASH_RECORD
        for bucket_key, raw in zip(bucket_keys, data, strict=True)
        if bucket_key.is_simhash
    )
    assert found.page_ids.dtype == found.tables.dtype == np.uint64


def test_many_hits() -> None:
    """More hits than a dictionary takes well are gathered with the same result."""
    bucket_keys = [BucketKey(2 << 16, 5), BucketKey(63 << 16, 7)]
    data = [
        b"".join(record(bucket_key, n % 300 + 1) for n in range(500)) for bucket_key in bucket_keys
    ]
    found = scan.neighbours(bucket_keys, data, 0)
    assert found.page_ids.tolist() == list(range(1, 301))
    assert set(found.tables.tolist()) == {1 << 2 | 1 << 63}


@st.composite
def answers(
    draw: st.DrawFn,
) -> list[tuple[int, list[tuple[BucketKey, bytes]], list[tuple[int, int]]]]:
    """Pages: id of the claim, SimHash buckets with their keys, places of others by key."""
    pages = []
    for _ in range(draw(st.integers(0, 5))):
        own = draw(st.sampled_from([0, 0, 7, 30]))
        wide = []
        for table in SIMHASH_TABLES[: draw(st.integers(0, 4))]:
            bucket_key = BucketKey(table << 16, draw(st.integers(0, 2**48 - 1)))
            raw = b""
            for number in draw(st.lists(st.integers(1, 40), max_size=9)):
                flips = draw(st.sets(st.integers(0, 47), max_size=3))
                raw += record(
                    BucketKey(
                        bucket_key.bucket, bucket_key.suffix ^ sum(1 << bit for bit in flips)
                    ),
                    number,
                )
            wide.append((bucket_key, raw))
        met = draw(
            st.lists(st.tuples(st.integers(1, 40) | st.integers(1, 2**40 - 1), st.integers(1, 3)))
        )
        pages.append((own, wide, met))
    return pages


@given(answers(), st.integers(0, 3))
def test_answers_equal_a_plain_scan(
    pages: list[tuple[int, list[tuple[BucketKey, bytes]], list[tuple[int, int]]]], distance: int
) -> None:
    """Of many pages at once: neighbours of the SimHash buckets and of the narrow places, ascending,
    with their tables; and the rows of the latter, which come in the order in which they are met."""
    tables = [1 << table for table in (0, 6, 7)]  # of the bucket keys of every page
    found = scan.scan_answers(
        np.array([own for own, _, _ in pages], np.uint64),
        [raw for _, wide, _ in pages for _, raw in wide],
        np.array(
            [
                n
                for _, wide, _ in pages
                for bucket_key, _ in wide
                for n in (bucket_key.suffix, 1 << bucket_key.table)
            ],
            np.uint64,
        ),
        np.array([len(wide) for _, wide, _ in pages], np.int64),
        [
            b"".join(number.to_bytes(5, "little") + bytes((place,)) for number, place in met)
            for _, _, met in pages
        ],
        np.array(tables * len(pages), np.uint64),
        np.full(len(pages), len(tables), np.int64),
        distance,
    )
    assert found.scanned == sum(
        len(raw) // SIMHASH_RECORD for _, wide, _ in pages for _, raw in wide
    )
    row = 0
    for i, (own, wide, met) in enumerate(pages):
        masks: dict[int, int] = {}
        rows: dict[int, int] = {}
        for number, place in met:
            masks[number] = masks.get(number, 0) | tables[place - 1]
            if number not in rows:
                rows[number] = row
                row += 1
        for bucket_key, raw in wide:
            plain = plain_neighbours([bucket_key], [raw], distance)
            for number in plain.page_ids.tolist():
                if not own or number < own:
                    masks[number] = masks.get(number, 0) | 1 << bucket_key.table
        part = slice(found.starts[i], found.starts[i + 1])
        assert dict(
            zip(found.page_ids[part].tolist(), found.tables[part].tolist(), strict=True)
        ) == dict(sorted(masks.items()))
        assert found.page_ids[part].tolist() == sorted(masks)
        part = slice(found.row_starts[i], found.row_starts[i + 1])
        assert found.met[part].tolist() == sorted(rows)
        assert found.rows[part].tolist() == [rows[number] for number in sorted(rows)]


async def test_scanned_records_are_told(index: Index) -> None:
    """The number of records compared with each page is returned; SQLite counts from 25 on, since
    fewer are compared without the kernel."""
    scanned: list[int] = []
    index.watch_scans(scanned.append)
    blocks = [0x1234 << 48 | i << 33 | (i * 977 & 0xFFFF) << 16 | i for i in range(1, 41)]
    for i, simhash in enumerate(blocks):
        made = await index.propose(entry(bucket_keys_of(i + 1, simhash, (i << 45,))), 0, 60)
        assert isinstance(made, Claimed)
    least = 25 if type(index).__name__ == "SQLiteIndex" else 0
    assert [n for n in scanned if n] == [n for n in range(1, 40) if n >= least]
    scanned.clear()
    await index.candidates(bucket_keys_of(99, blocks[0], ()), 0)
    assert scanned == [43]  # of the other three tables it has a record each


BAND_KEY, SIMHASH_KEY = BucketKey(11 << 16, 0x010101), BucketKey(3 << 16, 0xF0F0_F0F0_F0F0)


def bucket(bucket_key: BucketKey, suffixes: list[int], first: int) -> bytes:
    """Records of pages with these heads, numbered on."""
    return b"".join(
        record(BucketKey(bucket_key.bucket, suffix), first + i) for i, suffix in enumerate(suffixes)
    )


# Bytes of 1 in numbers and heads make matches that lie across two records.
band_suffixes = st.lists(st.sampled_from((0x010101, 0x010102, 0x010100, 0xFFFFFF)), max_size=100)
simhash_suffixes = st.lists(
    st.integers(0, 6).map(lambda bits: SIMHASH_KEY.suffix ^ (1 << bits) - 1)
    | st.integers(0, (1 << 48) - 1),
    max_size=60,
)


@given(band_suffixes, simhash_suffixes, st.sampled_from((1, 0x0101010101, 7)), st.integers(0, 12))
def test_same_as_the_kernel(narrow: list[int], wide: list[int], first: int, distance: int) -> None:
    """Few or many records, matches at any byte: numbers and tables are the kernel's."""
    bucket_keys = (BAND_KEY, SIMHASH_KEY)
    data = [bucket(BAND_KEY, narrow, first), bucket(SIMHASH_KEY, wide, first + 50)]
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
    bucket_keys = (BAND_KEY, SIMHASH_KEY)
    held = [
        [bucket(BAND_KEY, suffixes, 1 + 200 * i) for i, suffixes in enumerate(narrow)],
        [
            bucket(SIMHASH_KEY, suffixes, 50 + 200 * i)
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
    data = [bucket(BAND_KEY, narrow, 1), bucket(SIMHASH_KEY, wide, 1)]
    expected = neighbours((BAND_KEY, SIMHASH_KEY), data, 12)
    for held in ([data[0] + odd, data[1]], [data[0], data[1] + odd]):
        found, _ = unknown_neighbours((BAND_KEY, SIMHASH_KEY), [[raw, raw] for raw in held], 12)
        np.testing.assert_array_equal(found.page_ids, expected.page_ids)
        assert found.corrupt == 2 * len(odd)


def test_anchor_of_many_pages_is_no_reason() -> None:
    """SQLite, too, ignores an anchor that so many pages have; the neighbouring suffix counts."""
    keys = [BucketKey(ANCHOR_TABLES[0] << 16, suffix) for suffix in (7, 8)]
    numbers = range(1, COMMON_ANCHOR + 1)
    raw = b"".join(number.to_bytes(5, "little") + bytes((7, 0, 0)) for number in numbers)
    raw += (99).to_bytes(5, "little") + bytes((8, 0, 0))
    found, _ = unknown_neighbours(keys, [[raw], [raw]], 12)
    assert found.page_ids.tolist() == [99]
    fewer, _ = unknown_neighbours(keys[:1], [[raw[BAND_RECORD:]]], 12)
    assert len(fewer) == COMMON_ANCHOR - 1
