"""One namespace of a Redis server: opening it, and running scripts on its keys."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs

from dedup_middleware.base.options import Options
from dedup_middleware.index.base import Parameters
from dedup_middleware.index.parameters import (
    EMPTIED,
    HASH_KEY,
    REPLACED,
    complete,
    missing,
    replaced,
)
from dedup_middleware.index.record_layout import record_parameter
from dedup_middleware.index.redis.expiry import remove_expired
from dedup_middleware.index.redis.link import Call, RedisLink, Session
from dedup_middleware.index.redis.scripts import EPOCH, RowLayout, script
from dedup_middleware.index.redis.server_index import OWN_SCHEMA, Opened, ServerIndex
from dedup_middleware.index.redis.servers import Reply
from dedup_middleware.index.window import window_parameter

logger = logging.getLogger(__name__)


class RedisNamespace(ServerIndex):
    """What all calls of the index on a Redis server need.

    :param options: ``index_url``, ``namespace``, ``timeout`` and ``retries`` are used
    :param window: seconds that a page is remembered, 0: for ever
    """

    def __init__(self, options: Options, *, window: float = 0.0) -> None:
        super().__init__(options, window=window)
        self.prefix = b"{" + options.namespace.encode() + b"}"
        self._link: RedisLink = RedisLink(
            options.index_url,
            self._where,
            self.prefix.decode(),
            options.timeout,
            options.retries,
        )
        self._session = Session(self.prefix)
        self.layout = RowLayout()

    def warm(self) -> None:
        """Compile the kernels that decisions need; see :meth:`.Index.warm`."""
        from dedup_middleware.index import scan  # numba stays lazy

        scan.warm(replies=True)

    def _key(self, name: str) -> bytes:
        return self.prefix + name.encode()

    async def open(self, parameters: Parameters) -> dict[str, str]:
        """Connect, and agree on the parameters; see :meth:`.Index.open`."""
        link = self._link
        # Opened again, it may be another index than before, which a greeting would refuse.
        link.introduce = lambda: None
        wanted = {**record_parameter(parameters), **window_parameter(self._window.seconds)}
        opening = {**complete(wanted), **self._known_key()}
        opened = await self._first(self._open_call(opening))
        stored = self._agreed(opened, wanted)
        if self._parameters and not self._is_ours(stored):
            logger.warning(REPLACED, self._name)
        self._begin(stored, opened.epoch)
        self._sweep()
        link.opening = False
        link.introduce = lambda: self._open_call(self._parameters)
        link.check_introduction = self._check
        return dict(self._parameters)

    async def attach(self) -> dict[str, str]:
        """Connect to an index that exists; see :meth:`.Index.attach`."""
        opened = await self._first(self._open_call({}, schema=b""))
        if not opened.schema:
            raise missing(self._name)
        self._begin(self._agreed(opened, None), opened.epoch)
        return dict(self._parameters)

    def _open_call(self, parameters: Mapping[str, str], schema: bytes = OWN_SCHEMA) -> Call:
        names = ("leases", "schema", "parameters", "counters")
        pairs = [text.encode() for pair in sorted(parameters.items()) for text in pair]
        # The epoch of an index that is set up by this very call.
        session = Session(self.prefix, secrets.token_bytes(EPOCH))
        return self._script("open", names, schema, *pairs, session=session)

    def _begin(self, stored: dict[str, str], epoch: bytes) -> None:
        if not self._is_ours(stored):
            # Calls under way stay in the session of the index before: they are not for this one.
            self._session = Session(self.prefix)
        self._session.epoch = epoch
        self._parameters = stored

    def _is_ours(self, stored: Mapping[str, str]) -> bool:
        return stored.get(HASH_KEY) == self._parameters.get(HASH_KEY)

    @property
    def _name(self) -> str:
        return f"{self._where} (DEDUP_NAMESPACE={self.prefix[1:-1].decode()})"

    def _check(self, reply: Any) -> None:
        """Look at the index behind a new connection.

        :raises IndexReplacedError: it has another key, so it is another one
        :raises IndexRefusedError: it has other parameters, or is damaged
        """
        opened = Opened.of(reply)
        if not self._is_ours(self._agreed(opened, self._parameters)):
            raise replaced(self._name)
        if opened.epoch != self._session.epoch:
            self._session.epoch = opened.epoch
            logger.warning(EMPTIED, self._name)

    async def _remove_expired(self, oldest: int) -> None:
        await remove_expired(self, oldest)

    async def run(
        self, name: str, *arguments: bytes | int, more_keys: Sequence[bytes] = ()
    ) -> Reply:
        """Run a script on the keys ``leases``, ``counters`` and ``committed``.

        It is for the pages of now: in an index that is set up anew it does nothing.
        """
        names = ("leases", "counters", "committed")
        session = attrs.evolve(self._session)
        call = self._script(name, names, *arguments, more_keys=more_keys, session=session)
        return (await self._link.submit(call)).reply

    async def ask(self, *command: bytes | int) -> Reply:
        """Send one command."""
        return (await self._link.submit(Call(command))).reply

    def _script(
        self,
        name: str,
        keys: Iterable[str],
        *arguments: bytes | int,
        more_keys: Sequence[bytes] = (),
        session: Session | None = None,
    ) -> Call:
        names = [*map(self._key, keys), *more_keys]
        return Call(arguments, names, script(name, self.layout), session or self._session)
