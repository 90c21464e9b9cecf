"""Placement of an index on a cluster: its shards, and the names of their keys.

The buckets of a shard are fields of two hashes: a command per table would cost more than its data.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

import attrs
import numpy as np
from numpy.typing import NDArray

from dedup_middleware.index.redis.expiry import hash_of
from dedup_middleware.model.buckets import ANCHOR_TABLES, EXACT_TABLE, FIRST_BAND_TABLE, KEY_TABLE
from dedup_middleware.model.records import PAGE_ID_MASK

SHARDS = "parts"  # name of the parameter
#: tables that are read before a page is announced: enough to find nearly all copies; the
#: announcement reads all tables
FIRST_TABLES = (
    KEY_TABLE,
    EXACT_TABLE,
    *ANCHOR_TABLES[:2],
    *range(FIRST_BAND_TABLE, FIRST_BAND_TABLE + 4),
)
FIRST, REST = GROUPS = range(2)  # groups of tables: FIRST_TABLES, and all others
FIELD = 3  # bytes of a field's name: table and prefix of the bucket
_MIX = np.uint64(0x9E37_79B1)  # odd; spreads equal prefixes of different tables over the shards


@attrs.frozen
class Spread:
    """The shards of an index, and the placement of pages and buckets on them.

    Every shard has its own hash tag, so that its keys lie in one slot of the cluster. A page id is
    ``local id * shards + home shard``; the local id is unique on the home shard.
    """

    namespace: str
    shards: int  # a power of two

    @property
    def bits(self) -> int:
        """Number of low bits of a page id that give the home shard."""
        return self.shards.bit_length() - 1

    @property
    def last(self) -> int:
        """The highest local id."""
        return PAGE_ID_MASK >> self.bits

    def prefix(self, shard: int) -> bytes:
        """Prefix of all keys of a shard.

        >>> Spread("dedup", 64).prefix(10)
        b'{dedup:10}'
        """
        return b"{%b:%d}" % (self.namespace.encode(), shard)

    def home_of(self, page_id: int) -> int:
        """The home shard of a page, which holds its page record."""
        return page_id & (self.shards - 1)

    def local(self, page_id: int) -> int:
        """The local id of a page on its home shard."""
        return page_id >> self.bits

    def page_id(self, local: int, shard: int) -> int:
        """The page id of a local id on a shard."""
        return local << self.bits | shard

    def of_buckets(self, buckets: NDArray[np.uint64]) -> NDArray[np.int64]:
        """The shard of each bucket; each table is spread evenly over all shards.

        >>> Spread("dedup", 4).of_buckets(np.array([0, 1, 2, 3, 4], np.uint64)).tolist()
        [0, 1, 2, 3, 0]
        """
        turned = (buckets >> np.uint64(16)) * _MIX >> np.uint64(16)
        mixed = (buckets ^ turned) & np.uint64(self.shards - 1)
        return np.asarray(mixed.astype(np.int64))

    def by_home(self, page_ids: Iterable[int], most: int = PAGE_ID_MASK) -> list[list[int]]:
        """Positions of page ids, grouped by home shard into lists of at most ``most``."""
        return grouped(map(self.home_of, page_ids), most)


def groups_of(tables: NDArray[np.int64]) -> NDArray[np.int64]:
    """The group of each table: FIRST or REST."""
    return np.where(np.isin(tables, FIRST_TABLES), FIRST, REST)


def group_hash(group: int, end: bytes = b"") -> bytes:
    """Name of the hash of a group of tables, without the shard's prefix.

    :param end: the generation, see :meth:`.ServerIndex.ends`
    """
    return hash_of(b"", group, end)


def field_of(bucket: int) -> bytes:
    """Name of a bucket's field in the hash of its group.

    >>> field_of(0x0A_0041)
    b'\\n\\x00A'
    """
    return bucket.to_bytes(FIELD, "big")


def grouped(places: Iterable[Hashable], most: int) -> list[list[int]]:
    """Positions of equal values, grouped into lists of at most ``most``.

    >>> grouped("abaa", 2)
    [[0, 2], [3], [1]]
    """
    groups: dict[Hashable, list[int]] = {}
    for at, place in enumerate(places):
        groups.setdefault(place, []).append(at)
    return [group[i : i + most] for group in groups.values() for i in range(0, len(group), most)]


def chunk_keys(chunks: Iterable[int]) -> list[bytes]:
    """Keys of chunks of rows, each followed by that of its texts, without the shard's prefix."""
    return [
        name + chunk.to_bytes(4, "little") for chunk in sorted(set(chunks)) for name in (b"s", b"t")
    ]
