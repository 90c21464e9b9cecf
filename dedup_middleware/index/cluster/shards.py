"""One namespace over all masters of a cluster: opening it, and running scripts on its shards."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from dedup_middleware.base.errors import IndexRefusedError
from dedup_middleware.base.options import Options
from dedup_middleware.base.settingfields import MOST_SHARDS
from dedup_middleware.index.cluster.nodes import ClusterLink
from dedup_middleware.index.cluster.spread import SHARDS, Spread
from dedup_middleware.index.parameters import (
    EMPTIED,
    HASH_KEY,
    REPLACED,
    WHOLE,
    Parameters,
    RecordLayout,
    check_schema,
    complete,
    missing,
)
from dedup_middleware.index.redis.link import Call, Session
from dedup_middleware.index.redis.scripts import EPOCH, RowLayout, script
from dedup_middleware.index.redis.server_index import OWN_SCHEMA, Opened, ServerIndex

logger = logging.getLogger(__name__)

_OWN = "dedup_middleware.index.cluster"
# Scripts of the index on one server that work on a shard as well.
_SHARED = frozenset({"open", "commit", "release", "renew", "forget", "compact", "drop"})


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
        self._link: ClusterLink = ClusterLink(
            options.index_url,
            self._where,
            options.timeout,
            options.retries,
            self._opening_call,
            self._opened_again,
        )
        self._sessions = self._new_sessions()
        self._set_layout(WHOLE)

    def _set_layout(self, record: RecordLayout) -> None:
        self.record = record
        # Texts are kept apart from the rows, under keys that their ids name.
        self.layout = RowLayout(attrs.evolve(record, text=False))

    async def open(self, parameters: Parameters) -> dict[str, str]:
        wanted = {**self._with_own(parameters), SHARDS: str(self.spread.shards)}
        # The first shard decides on the key of all hashes; the others follow it.
        first = self._open_call(0, {**complete(wanted), **self._known_key()})
        opened = await self._first(first)
        stored = self._agreed(opened, wanted)
        if self._parameters and stored[HASH_KEY] != self._parameters[HASH_KEY]:
            logger.warning(REPLACED, self._name)
            self._sessions = self._new_sessions()
        await self._begin(stored, opened.epoch, stored)
        self._sweep()
        self._link.opening = False
        return dict(self._parameters)

    async def attach(self) -> dict[str, str]:
        opened = await self._first(self._open_call(0, {}, b""))
        if not opened.schema:
            raise missing(self._name)
        stored = self._agreed(opened, None)
        shards = stored.get(SHARDS, "")
        if not shards.isdecimal() or not 1 <= int(shards) <= MOST_SHARDS:
            raise self._damaged(f"its parameter {SHARDS} is {shards!r}")
        self.spread = Spread(self.spread.namespace, int(shards))
        self._sessions = self._new_sessions()
        await self._begin(stored, opened.epoch, None)
        return dict(self._parameters)

    async def _begin(
        self, stored: dict[str, str], epoch: bytes, set_up: Mapping[str, str] | None
    ) -> None:
        """Open the other shards.

        :param set_up: what a shard that is empty gets; None: it is refused
        """
        self._sessions[0].epoch = epoch
        how = ({}, b"") if set_up is None else (set_up, OWN_SCHEMA)
        shards = range(1, self.spread.shards)
        replies = await self._link.replies([self._open_call(shard, *how) for shard in shards])
        for shard, opened in zip(shards, map(Opened.of, replies), strict=True):
            if not opened.schema:
                raise self._damaged(f"its shard {shard} is gone")
            self._sessions[shard].epoch = self._same(opened, stored, shard)
        self._parameters = stored

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

    def _open_call(
        self, shard: int, parameters: Mapping[str, str], schema: bytes = OWN_SCHEMA
    ) -> Call:
        pairs = [text.encode() for pair in sorted(parameters.items()) for text in pair]
        # The epoch of a shard that is set up by this very call.
        session = Session(self.spread.prefix(shard), secrets.token_bytes(EPOCH))
        names = (b"leases", b"schema", b"parameters", b"counters")
        keys = [session.prefix + name for name in names]
        return Call((schema, *pairs), keys, script("open", self.layout), session)

    def _opening_call(self, session: Session) -> Call:
        """The call that opens a shard again, whose server was emptied."""
        return self._open_call(self._shard_of(session), self._parameters)

    def _opened_again(self, session: Session, reply: Any) -> None:
        epoch = self._same(Opened.of(reply), self._parameters, self._shard_of(session))
        if epoch != session.epoch:
            session.epoch = epoch
            logger.warning(EMPTIED, self._name)

    def _shard_of(self, session: Session) -> int:
        return [one.prefix for one in self._sessions].index(session.prefix)

    @property
    def _name(self) -> str:
        return f"{self._where} (DEDUP_NAMESPACE={self.spread.namespace})"

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
