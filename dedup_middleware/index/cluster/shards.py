"""One namespace over all masters of a cluster: opening it, and running scripts on its shards."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import attrs

from dedup_middleware.base.errors import IndexRefusedError
from dedup_middleware.base.options import Options
from dedup_middleware.base.settingfields import MOST_SHARDS
from dedup_middleware.index.base import Index, Parameters
from dedup_middleware.index.cluster.nodes import ClusterLink
from dedup_middleware.index.cluster.spread import SHARDS, Spread
from dedup_middleware.index.parameters import (
    EMPTIED,
    HASH_KEY,
    REPLACED,
    SCHEMA,
    agree,
    check_key,
    check_schema,
    complete,
    missing,
)
from dedup_middleware.index.record_layout import WHOLE, layout_of, record_parameter
from dedup_middleware.index.redis.link import Call, Session
from dedup_middleware.index.redis.scripts import EPOCH, RowLayout, script
from dedup_middleware.index.window import Moment, Window, window_parameter

logger = logging.getLogger(__name__)

_SCHEMA = str(SCHEMA).encode()
_OWN = "dedup_middleware.index.cluster"
# Scripts of the index on one server that work on a shard as well.
_SHARED = frozenset({"open", "commit", "release", "renew", "forget", "compact", "read"})


class ClusterNamespace(Index):
    """What all calls of the index on a cluster need.

    :param options: ``index_url``, ``namespace``, ``shards``, ``timeout`` and ``retries`` are used
    :param window: seconds that a page is remembered, 0: for ever
    """

    def __init__(self, options: Options, *, window: float = 0.0) -> None:
        self.corrupt = 0
        self.spread = Spread(options.namespace, options.shards)
        self._where = options.safe_index_url.partition("?")[0]
        self._link = ClusterLink(
            options.index_url,
            self._where,
            options.timeout,
            options.retries,
            self._opening_call,
            self._opened_again,
        )
        self._sessions = self._new_sessions()
        self._parameters: dict[str, str] = {}
        self.record = WHOLE
        self.layout = _rows_of(WHOLE)
        self._window = Window(window)
        self._ahead = 0.0  # seconds of the server's clock before our monotonic one
        self._generation = 0
        self._sweeper: asyncio.Task[None] | None = None

    @property
    def window(self) -> float:
        """Seconds that a page is remembered, 0: for ever."""
        return self._window.seconds

    def watch_round_trips(self, report: Callable[[], None]) -> None:
        """Call ``report`` for each exchange; all nodes are talked to at once in one."""
        self._link.on_round_trip = report

    async def open(self, parameters: Parameters) -> dict[str, str]:
        """Connect, and agree on the parameters; see :meth:`.Index.open`."""
        wanted = {
            **record_parameter(parameters),
            **window_parameter(self._window.seconds),
            SHARDS: str(self.spread.shards),
        }
        # What was emptied meanwhile is set up with the key that its pages were hashed with.
        known = {HASH_KEY: self._parameters[HASH_KEY]} if self._parameters else {}
        # The first shard decides on the key of all hashes; the others follow it.
        first = self._open_call(0, {**complete(wanted), **known})
        (reply,) = await self._link.replies([first])
        stored, epoch = self._agreed(reply, wanted)
        if self._parameters and stored[HASH_KEY] != self._parameters[HASH_KEY]:
            logger.warning(REPLACED, self._name)
            self._sessions = self._new_sessions()
        await self._begin(stored, epoch, stored)
        self._sweep()
        self._link.opening = False
        return dict(self._parameters)

    async def attach(self) -> dict[str, str]:
        """Connect to an index that exists; see :meth:`.Index.attach`."""
        (reply,) = await self._link.replies([self._open_call(0, {}, b"")])
        if not reply[0]:
            raise missing(self._name)
        stored, epoch = self._agreed(reply, None)
        shards = stored.get(SHARDS, "")
        if not shards.isdecimal() or not 1 <= int(shards) <= MOST_SHARDS:
            raise self._damaged(f"its parameter {SHARDS} is {shards!r}")
        self.spread = Spread(self.spread.namespace, int(shards))
        self._sessions = self._new_sessions()
        await self._begin(stored, epoch, None)
        return dict(self._parameters)

    async def _begin(
        self, stored: dict[str, str], epoch: bytes, set_up: Mapping[str, str] | None
    ) -> None:
        """Open the other shards.

        :param set_up: what a shard that is empty gets; None: it is refused
        """
        self._sessions[0].epoch = epoch
        how = ({}, b"") if set_up is None else (set_up, _SCHEMA)
        shards = range(1, self.spread.shards)
        replies = await self._link.replies([self._open_call(shard, *how) for shard in shards])
        for shard, reply in zip(shards, replies, strict=True):
            if not reply[0]:
                raise self._damaged(f"its shard {shard} is gone")
            self._sessions[shard].epoch = self._same(reply, stored, shard)
        self._parameters = stored

    def _same(self, reply: Any, stored: Mapping[str, str], shard: int) -> bytes:
        """The epoch of a shard, if it belongs to the index.

        :raises IndexRefusedError: it does not
        """
        schema, fields, _, epoch = reply
        check_schema(schema.decode("utf-8", "replace"), self._name)
        if _parameters(fields) != stored:
            raise self._damaged(f"its shard {shard} belongs to another index")
        return bytes(epoch)

    def _damaged(self, what: str) -> IndexRefusedError:
        return IndexRefusedError(
            f"the index at {self._name} is damaged: {what}; restore a backup of all masters, "
            "choose another DEDUP_NAMESPACE, or remove its keys to begin anew."
        )

    def _agreed(self, reply: Any, parameters: Parameters | None) -> tuple[dict[str, str], bytes]:
        """The stored parameters and the epoch of the first shard.

        :raises IndexRefusedError: the parameters are other ones, or damaged
        """
        schema, fields, milliseconds, epoch = reply
        check_schema(schema.decode("utf-8", "replace"), self._name)
        stored = _parameters(fields)
        check_key(stored, self._name)
        if parameters is not None:
            stored = agree(stored, parameters, self._name)
        self.record = layout_of(stored, self._name)
        self.layout = _rows_of(self.record)
        self._ahead = milliseconds / 1000 - time.monotonic()
        return stored, epoch

    def _open_call(
        self, shard: int, parameters: Mapping[str, str], schema: bytes = _SCHEMA
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
        epoch = self._same(reply, self._parameters, self._shard_of(session))
        if epoch != session.epoch:
            session.epoch = epoch
            logger.warning(EMPTIED, self._name)

    def _shard_of(self, session: Session) -> int:
        return [one.prefix for one in self._sessions].index(session.prefix)

    @property
    def _name(self) -> str:
        """The index as the user knows it, without its password."""
        return f"{self._where} (DEDUP_NAMESPACE={self.spread.namespace})"

    def _new_sessions(self) -> list[Session]:
        return [Session(self.spread.prefix(shard)) for shard in range(self.spread.shards)]

    async def close(self) -> None:
        """Finish what is under way and disconnect."""
        if self._sweeper is not None:
            self._sweeper.cancel()
            await asyncio.wait([self._sweeper])
        await self._link.close()

    @property
    def place(self) -> str:
        """The index as messages name it, without its password."""
        return self._where

    def moment(self) -> Moment:
        """This moment by the clock of the first shard's server, as far as it is known."""
        moment = self._window.at(time.monotonic() + self._ahead)
        if moment.generation < self._generation:  # a reply has named a later one
            moment = self._window.of_generation(self._generation)
        return moment

    def _turn(self, generation: int) -> None:
        """A server says that a new generation has begun."""
        self._generation = max(generation, self._generation)
        self._sweep()

    def _sweep(self) -> None:
        """Remove expired generations while the work goes on."""
        if self._window.seconds and (self._sweeper is None or self._sweeper.done()):
            work = self._remove_expired(self.moment().oldest)
            self._sweeper = asyncio.get_running_loop().create_task(work)

    @abstractmethod
    async def _remove_expired(self, oldest: int) -> None:
        """Remove the generations before one."""

    def script_call(
        self, name: str, shard: int, keys: Iterable[bytes], *arguments: bytes | int
    ) -> Call:
        """A script on keys of one shard; ``leases`` comes first."""
        session = self._sessions[shard]
        prefix = session.prefix
        package = () if name in _SHARED else (_OWN,)
        return Call(
            arguments,
            [prefix + b"leases", *(prefix + key for key in keys)],
            script(name, self.layout, *package),
            session,
        )

    async def every(self, name: str, keys: Sequence[bytes], *arguments: bytes | int) -> list[Any]:
        """Replies of all shards to a script."""
        shards = range(self.spread.shards)
        return await self._link.replies(
            [self.script_call(name, i, keys, *arguments) for i in shards]
        )


def _rows_of(record: Any) -> RowLayout:
    """Rows on a cluster: texts are kept apart, under keys that their ids name."""
    return RowLayout(attrs.evolve(record, text=False))


def _parameters(fields: Sequence[bytes]) -> dict[str, str]:
    texts = [field.decode("utf-8", "replace") for field in fields]
    return dict(zip(texts[::2], texts[1::2], strict=True))
