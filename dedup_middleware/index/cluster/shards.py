"""One namespace over all masters of a cluster: its shards, their keys, and scripts on them.

The buckets of a shard are fields of two hashes: those of the tables that are read before a page is
announced, and the others. A command for each table would cost more than what it reads.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base.errors import IndexRefusedError
from dedup_middleware.base.options import Options
from dedup_middleware.base.settingfields import MOST_SHARDS
from dedup_middleware.index.cluster.nodes import ClusterLink
from dedup_middleware.index.parameters import (
    EMPTIED,
    WHOLE,
    Parameters,
    RecordLayout,
    check_schema,
)
from dedup_middleware.index.redis.expiry import hash_of
from dedup_middleware.index.redis.link import Call, Session
from dedup_middleware.index.redis.scripts import RowLayout, script
from dedup_middleware.index.redis.server_index import OWN_SCHEMA, Opened, ServerIndex
from dedup_middleware.model.buckets import ANCHOR_TABLES, EXACT_TABLE, FIRST_BAND_TABLE, KEY_TABLE
from dedup_middleware.model.records import PAGE_ID_MASK

logger = logging.getLogger(__name__)

_OWN = "dedup_middleware.index.cluster"
# Scripts of the index on one server that work on a shard as well.
_SHARED = frozenset({"open", "commit", "release", "renew", "forget", "compact", "drop"})
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

    def by_home(self, page_ids: Iterable[int]) -> dict[int, list[int]]:
        """Positions of page ids by their home shards."""
        found: dict[int, list[int]] = {}
        for at, page_id in enumerate(page_ids):
            found.setdefault(self.home_of(page_id), []).append(at)
        return found


def groups_of(tables: NDArray[np.int64]) -> NDArray[np.int64]:
    """The group of each table: FIRST or REST."""
    return np.where(np.isin(tables, FIRST_TABLES), FIRST, REST)


def group_hash(group: int, end: bytes = b"") -> bytes:
    """Name of the hash of a group of tables, without the prefix of a shard.

    :param end: see :func:`~dedup_middleware.index.redis.expiry.end_of`; empty without window
    """
    return hash_of(b"", group, end)


def field_of(bucket: int) -> bytes:
    """The field of a bucket in the hash of its group.

    >>> field_of(0x0A_0041)
    b'\\n\\x00A'
    """
    return bucket.to_bytes(FIELD, "big")


def chunk_keys(chunks: Iterable[int]) -> list[bytes]:
    """Keys, without their prefix, of chunks of page records, each with that of its texts."""
    return [
        name + chunk.to_bytes(4, "little") for chunk in sorted(set(chunks)) for name in (b"s", b"t")
    ]


class ClusterNamespace(ServerIndex):
    """What all calls of the index on a cluster need.

    :param options: ``index_url``, ``namespace``, ``shards``, ``timeout`` and ``retries`` are used
    :param window: seconds that a page is remembered, 0: for ever
    :ivar reads_whole: buckets are so short that those of a read are sent as they are, which costs a
        server a fifth of a script that searches them
    """

    def __init__(self, options: Options, *, window: float = 0.0) -> None:
        super().__init__(options, window=window)
        self.reads_whole = True
        self.spread = Spread(options.namespace, options.shards)
        self._first_prefix = self.spread.prefix(0)
        self._log = logger
        self._link: ClusterLink = ClusterLink(
            options.index_url,
            self._where,
            options.timeout,
            options.retries,
            lambda session: self._open_call(session.prefix, self._parameters),
            self._opened_again,
        )
        self._sessions = self._new_sessions()
        self._set_layout(WHOLE)

    def _set_layout(self, record: RecordLayout) -> None:
        self.record = record
        # Texts are kept apart from the rows, under keys that their ids name.
        self.layout = RowLayout(attrs.evolve(record, text=False))

    def _with_own(self, parameters: Parameters) -> dict[str, str]:
        return {**super()._with_own(parameters), SHARDS: str(self.spread.shards)}

    async def _begin(self, stored: dict[str, str], epoch: bytes, *, sets_up: bool) -> None:
        """Open the other shards. The first one has decided on the key of all hashes."""
        how: tuple[dict[str, str], bytes] = (stored, OWN_SCHEMA)
        if not sets_up:
            how = ({}, b"")
            count = stored.get(SHARDS, "")
            if not count.isdecimal() or not 1 <= int(count) <= MOST_SHARDS:
                raise self._damaged(f"its parameter {SHARDS} is {count!r}")
            self.spread = Spread(self.spread.namespace, int(count))
        if not sets_up or not self._is_ours(stored):
            self._sessions = self._new_sessions()
        self._sessions[0].epoch = epoch
        shards = range(1, self.spread.shards)
        calls = [self._open_call(self.spread.prefix(shard), *how) for shard in shards]
        replies = await self._link.replies(calls)
        for shard, opened in zip(shards, map(Opened.of, replies), strict=True):
            if not opened.schema:
                raise self._damaged(f"its shard {shard} is gone")
            self._sessions[shard].epoch = self._same(opened, stored, shard)
        self._parameters = stored
        self._link.tell_of_unusable()

    def _same(self, opened: Opened, stored: Mapping[str, str], shard: int) -> bytes:
        """The epoch of a shard, if it belongs to the index.

        :raises IndexRefusedError: it does not
        """
        check_schema(opened.schema, self._name)
        if opened.parameters != stored:
            raise self._damaged(f"its shard {shard} belongs to another index")
        return opened.epoch

    def _damaged(self, what: str) -> IndexRefusedError:
        return IndexRefusedError(
            f"the index at {self._name} is damaged: {what}; restore a backup of all masters, "
            "choose another DEDUP_NAMESPACE, or remove its keys to begin anew."
        )

    def _opened_again(self, session: Session, reply: Any) -> None:
        """A shard was opened again, whose server was emptied."""
        shard = [one.prefix for one in self._sessions].index(session.prefix)
        epoch = self._same(Opened.of(reply), self._parameters, shard)
        if epoch != session.epoch:
            session.epoch = epoch
            logger.warning(EMPTIED, self._name)

    def _new_sessions(self) -> list[Session]:
        return [Session(self.spread.prefix(shard)) for shard in range(self.spread.shards)]

    @property
    def place(self) -> str:
        """The index as messages name it, without its password."""
        return self._where

    def script_call(
        self,
        name: str,
        shard: int,
        keys: Iterable[bytes],
        *arguments: bytes | int,
        leases: bool = True,
    ) -> Call:
        """A script on keys of one shard.

        :param leases: whether the key of leases comes before them
        """
        session = self._sessions[shard]
        prefix = session.prefix
        package = () if name in _SHARED else (_OWN,)
        return Call(
            arguments,
            [prefix + key for key in ((b"leases", *keys) if leases else keys)],
            script(name, self.layout, *package),
            session,
        )
