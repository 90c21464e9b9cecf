"""Buckets: the keys under which a page is filed in each table, and the neighbours found there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import overload

import attrs
import numpy as np
from numpy.typing import NDArray

from dedup_middleware.model.records import (
    BAND_RECORD,
    BAND_SUFFIX_BITS,
    PAGE_ID_BITS,
    SIMHASH_RECORD,
    SIMHASH_SUFFIX_BITS,
)

KEY_TABLE = 0
EXACT_TABLE = 1
SIMHASH_TABLES = (2, 3, 4, 5)
FIRST_SIMHASH, LAST_SIMHASH = SIMHASH_TABLES[0], SIMHASH_TABLES[-1]
ANCHOR_TABLES = (6, 7, 8, 9)
FIRST_BAND_TABLE = 10
#: an anchor that this many pages share is ignored: it is text of a template
COMMON_ANCHOR = 32
_MASK64 = (1 << 64) - 1
_MASK48 = (1 << SIMHASH_SUFFIX_BITS) - 1


@attrs.frozen
class BucketKey:
    """Bucket of a page in one table, and the suffix of its record there.

    ``bucket`` is ``table << 16 | prefix``; ``suffix`` has 48 bits of the rotated SimHash in a
    SimHash table, 24 bits of the hash in any other.
    """

    bucket: int
    suffix: int

    @property
    def table(self) -> int:
        """Number of the table."""
        return self.bucket >> 16

    @property
    def is_simhash(self) -> bool:
        """Whether the records of the table are SimHash records."""
        return self.table in SIMHASH_TABLES

    @property
    def width(self) -> int:
        """Bytes of a record."""
        return width_of(self.bucket)


def width_of(bucket: int) -> int:
    """Bytes of a record in a bucket (``table << 16 | prefix``)."""
    return SIMHASH_RECORD if bucket >> 16 in SIMHASH_TABLES else BAND_RECORD


class BucketKeys(Sequence[BucketKey]):
    """Sequence of bucket keys in one array, for kernels; objects are made on access only.

    :param words: uint64[2 n], bucket and suffix of each key in turn; must not be modified

    >>> keys = BucketKeys(np.array([7, 1, 9, 2], np.uint64))
    >>> keys[1], len(keys), keys == (BucketKey(7, 1), BucketKey(9, 2))
    (BucketKey(bucket=9, suffix=2), 2, True)
    """

    __slots__ = ("_objects", "words")

    def __init__(self, words: NDArray[np.uint64]) -> None:
        self.words = words
        self._objects: tuple[BucketKey, ...] | None = None

    @classmethod
    def of(cls, bucket_keys: Iterable[BucketKey]) -> BucketKeys:
        """Convert bucket keys to one array."""
        if isinstance(bucket_keys, BucketKeys):
            return bucket_keys
        return cls(
            np.array([n for one in bucket_keys for n in (one.bucket, one.suffix)], np.uint64)
        )

    def columns(self) -> tuple[list[int], list[int]]:
        """Return all buckets and all suffixes, for loops that need no objects."""
        words = self.words.tolist()
        return words[::2], words[1::2]

    def __len__(self) -> int:
        return len(self.words) // 2

    @overload
    def __getitem__(self, index: int) -> BucketKey: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[BucketKey, ...]: ...
    def __getitem__(self, index: int | slice) -> BucketKey | tuple[BucketKey, ...]:
        return self._as_objects()[index]

    def __iter__(self) -> Iterator[BucketKey]:
        return iter(self._as_objects())

    def _as_objects(self) -> tuple[BucketKey, ...]:
        if self._objects is None:
            values = iter(self.words.tolist())
            self._objects = tuple(map(BucketKey, values, values))
        return self._objects

    def __eq__(self, other: object) -> bool:
        if isinstance(other, BucketKeys):
            return np.array_equal(self.words, other.words)
        return tuple(self) == other if isinstance(other, tuple) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"BucketKeys({tuple(self)})"


def rotate_left(value: int, bits: int) -> int:
    """Rotate a 64-bit value left.

    >>> hex(rotate_left(0x1234_0000_0000_0001, 16))
    '0x11234'
    """
    return (value << bits | value >> (64 - bits)) & _MASK64 if bits else value


def hash_bucket_key(table: int, value: int) -> BucketKey:
    """Bucket key of a 64-bit hash outside the SimHash tables: 16 bits prefix, 24 bits suffix."""
    return BucketKey(table << 16 | value >> 48, value >> (48 - BAND_SUFFIX_BITS) & 0xFFFFFF)


def simhash_bucket_keys(simhash: int) -> tuple[BucketKey, ...]:
    """Bucket keys of a SimHash in the four rotated tables."""
    turned = [rotate_left(simhash, 16 * i) for i in range(len(SIMHASH_TABLES))]
    return tuple(
        BucketKey(table << 16 | value >> SIMHASH_SUFFIX_BITS, value & _MASK48)
        for table, value in zip(SIMHASH_TABLES, turned, strict=True)
    )


def band_bucket_keys(bands: Iterable[int]) -> tuple[BucketKey, ...]:
    """Bucket keys of the MinHash bands, one table each."""
    return tuple(hash_bucket_key(FIRST_BAND_TABLE + i, int(band)) for i, band in enumerate(bands))


def anchor_bucket_keys(anchors: Iterable[int]) -> tuple[BucketKey, ...]:
    """Bucket keys of the anchors; of anchors that fall into one bucket only the first is kept."""
    found: dict[int, BucketKey] = {}
    for anchor in anchors:
        bucket_key = hash_bucket_key(ANCHOR_TABLES[int(anchor) >> 62], int(anchor) << 2 & _MASK64)
        found.setdefault(bucket_key.bucket, bucket_key)
    return tuple(found.values())


def keys_of_stored(
    content: NDArray[np.void], bucket_keys: Sequence[BucketKey]
) -> tuple[BucketKey, ...]:
    """Bucket keys of a stored page, from its CONTENT[1] and the bucket keys of the page that found
    it: CONTENT has neither bands nor anchors, so those of the other page are used."""
    simhash = int(content["simhash"][0])
    others = [one for one in bucket_keys if one.table != KEY_TABLE]
    if simhash and any(one.table in SIMHASH_TABLES for one in others):
        others = [one for one in others if one.table not in SIMHASH_TABLES]
        others = [*simhash_bucket_keys(simhash), *others]
    return (hash_bucket_key(KEY_TABLE, int(content["key"][0])), *others)


@cache
def table_name(table: int) -> str:
    """Name of a table, as verdicts show it.

    >>> [table_name(t) for t in (0, 1, 2, 5, 6, 10)]
    ['key', 'exact', 'simhash/0', 'simhash/48', 'anchor', 'band/0']
    """
    if table == KEY_TABLE:
        return "key"
    if table == EXACT_TABLE:
        return "exact"
    if table in SIMHASH_TABLES:
        return f"simhash/{16 * (table - SIMHASH_TABLES[0])}"
    return "anchor" if table in ANCHOR_TABLES else f"band/{table - FIRST_BAND_TABLE}"


@attrs.frozen(eq=False)
class Neighbours:
    """Page ids found in the buckets of a page, ascending, each with a bit mask of its tables."""

    page_ids: NDArray[np.uint64]
    tables: NDArray[np.uint64]
    corrupt: int = 0  # bytes that are no whole record
    full: int = 0  # full buckets
    scanned: int = 0  # SimHash records that the Hamming kernel compared

    def __len__(self) -> int:
        return len(self.page_ids)

    def chosen(self, which: NDArray[np.bool_ | np.intp]) -> Neighbours:
        """Select neighbours by a mask or by positions."""
        counts = self.corrupt, self.full, self.scanned
        return Neighbours(self.page_ids[which], self.tables[which], *counts)


NO_NEIGHBOURS = Neighbours(np.empty(0, np.uint64), np.empty(0, np.uint64))


NON_SIMHASH_TABLES = ~sum(1 << table for table in SIMHASH_TABLES) & _MASK64  # as a bit mask


def united(one: Neighbours, other: Neighbours) -> Neighbours:
    """Unite two sets of neighbours and their tables; the counters start at 0."""
    page_ids = np.union1d(one.page_ids, other.page_ids)
    tables = np.zeros(len(page_ids), np.uint64)
    for part in (one, other):
        tables[np.searchsorted(page_ids, part.page_ids)] |= part.tables
    return Neighbours(page_ids, tables)


def most_met(near: Neighbours, most: int) -> Neighbours:
    """Select ``most`` neighbours, in ascending order: those with the page's own key, so that a
    flooded bucket can't hide an earlier version, then those in most tables, then the oldest."""
    if len(near) <= most:
        return near
    others = (near.tables & np.uint64(1 << KEY_TABLE)) == 0
    order = np.lexsort((near.page_ids, -np.bitwise_count(near.tables).astype(np.int64), others))
    return near.chosen(np.sort(order[:most]))


# Bytes of a full bucket: 95,325 SimHash records, as many as 6 * 10^9 ordinary pages make. The limit
# bounds the time of a decision if pages are crafted into one prefix; other tables find them.
BUCKET_LIMIT = 1 << 20
FULL_BUCKET = BUCKET_LIMIT - SIMHASH_RECORD  # a longer bucket takes no SimHash record

PAYLOAD_LIMIT = 1 << 16  # bytes

# Bytes; longer addresses are cut. An address only names a page, whose key hash identifies it.
ADDRESS_LIMIT = 4096


def record(bucket_key: BucketKey, page_id: int) -> bytes:
    """The record of a page in a bucket."""
    return record_of(bucket_key.bucket, bucket_key.suffix, page_id)


def record_of(bucket: int, suffix: int, page_id: int) -> bytes:
    """The record of a page in a bucket, from the two numbers of a bucket key."""
    return (suffix << PAGE_ID_BITS | page_id).to_bytes(width_of(bucket), "little")


def cut_address(address: str) -> bytes:
    """Encode an address for storage: UTF-8, at most ADDRESS_LIMIT bytes, no partial character.

    >>> cut_address("https://a/1")
    b'https://a/1'
    """
    raw = address.encode("utf-8", "replace")
    if len(raw) <= ADDRESS_LIMIT:
        return raw
    return raw[:ADDRESS_LIMIT].decode("utf-8", "ignore").encode()
