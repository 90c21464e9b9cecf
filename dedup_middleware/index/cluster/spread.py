"""Where a cluster keeps what: the shards of an index, and the names of their keys.

The buckets of a shard are fields of two hashes: those of the tables that are read before a page is
announced, and the others. A command for each table would cost more than what it reads.
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
#: tables that are read before a page is announced: enough to find nearly all copies. What they miss
#: is found by the announcement, which reads all
FIRST_TABLES = (
    KEY_TABLE,
    EXACT_TABLE,
    *ANCHOR_TABLES[:2],
    *range(FIRST_BAND_TABLE, FIRST_BAND_TABLE + 4),
)
FIRST, REST = GROUPS = range(2)
FIELD = 3  # bytes of the name of a field: table and prefix of the bucket
_MIX = np.uint64(0x9E37_79B1)  # odd: tables with equal prefixes go to different shards


@attrs.frozen
class Spread:
    """Shards of an index.

    Every shard is a hash tag, so that its keys lie in one slot of the cluster. A page id is
    ``id on its home shard * shards + home shard``.

    :param namespace: the setting DEDUP_NAMESPACE
    :param shards: how many, a power of two
    """

    namespace: str
    shards: int

    @property
    def bits(self) -> int:
        """Bits of a page id that name the home shard."""
        return self.shards.bit_length() - 1

    @property
    def last(self) -> int:
        """The last id that a home shard can give."""
        return PAGE_ID_MASK >> self.bits

    def prefix(self, shard: int) -> bytes:
        """Prefix of all keys of a shard.

        >>> Spread("dedup", 64).prefix(10)
        b'{dedup:10}'
        """
        return b"{%b:%d}" % (self.namespace.encode(), shard)

    def home_of(self, page_id: int) -> int:
        """The shard that holds a page's record."""
        return page_id & (self.shards - 1)

    def local(self, page_id: int) -> int:
        """A page's id on its home shard."""
        return page_id >> self.bits

    def page_id(self, local: int, shard: int) -> int:
        """The page id of an id on a shard."""
        return local << self.bits | shard

    def of_buckets(self, buckets: NDArray[np.uint64]) -> NDArray[np.int64]:
        """The shard of each bucket; the prefixes of a table are spread evenly.

        >>> Spread("dedup", 4).of_buckets(np.array([0, 1, 2, 3, 4], np.uint64)).tolist()
        [0, 1, 2, 3, 0]
        """
        turned = (buckets >> np.uint64(16)) * _MIX >> np.uint64(16)
        mixed = (buckets ^ turned) & np.uint64(self.shards - 1)
        return np.asarray(mixed.astype(np.int64))

    def by_home(self, page_ids: Iterable[int], most: int = PAGE_ID_MASK) -> list[list[int]]:
        """Positions of page ids, those of a home shard together, so many at the most."""
        return grouped(map(self.home_of, page_ids), most)


def groups_of(tables: NDArray[np.int64]) -> NDArray[np.int64]:
    """The group of each table: FIRST or REST."""
    return np.where(np.isin(tables, FIRST_TABLES), FIRST, REST)


def group_hash(group: int, end: bytes = b"") -> bytes:
    """Name of the hash of a group of tables, without the prefix of a shard.

    :param end: see :meth:`.ServerIndex.ends`
    """
    return hash_of(b"", group, end)


def field_of(bucket: int) -> bytes:
    """The field of a bucket in the hash of its group.

    >>> field_of(0x0A_0041)
    b'\\n\\x00A'
    """
    return bucket.to_bytes(FIELD, "big")


def grouped(places: Iterable[Hashable], most: int) -> list[list[int]]:
    """Positions of equal places together, so many at the most.

    >>> grouped("abaa", 2)
    [[0, 2], [3], [1]]
    """
    groups: dict[Hashable, list[int]] = {}
    for at, place in enumerate(places):
        groups.setdefault(place, []).append(at)
    return [group[i : i + most] for group in groups.values() for i in range(0, len(group), most)]


def chunk_keys(chunks: Iterable[int]) -> list[bytes]:
    """Keys, without their prefix, of chunks of page records, each with that of its texts."""
    return [
        name + chunk.to_bytes(4, "little") for chunk in sorted(set(chunks)) for name in (b"s", b"t")
    ]
