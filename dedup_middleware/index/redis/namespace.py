"""One namespace of a Redis server: opening it, and running scripts on its keys."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import attrs

from dedup_middleware.base.errors import IndexRefusedError, IndexUnavailableError
from dedup_middleware.base.options import Options
from dedup_middleware.index.base import Index, Parameters
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
    replaced,
)
from dedup_middleware.index.record_layout import layout_of, record_parameter
from dedup_middleware.index.redis.expiry import remove_expired
from dedup_middleware.index.redis.link import NO_RIGHT, Call, RedisLink, Result, Session
from dedup_middleware.index.redis.scripts import COUNTER, COUNTERS, EPOCH, RowLayout, script
from dedup_middleware.index.redis.servers import Reply
from dedup_middleware.index.window import Moment, Window, window_parameter

logger = logging.getLogger(__name__)

_SCHEMA = str(SCHEMA).encode()
_UNANSWERED = 2.0  # seconds after which a server may be one that speaks no TLS


class RedisNamespace(Index):
    """What all calls of the index on a Redis server need.

    :param options: ``index_url``, ``namespace``, ``timeout`` and ``retries`` are used
    :param window: seconds that a page is remembered, 0: for ever
    """

    def __init__(self, options: Options, *, window: float = 0.0) -> None:
        self.corrupt = 0
        self._where = options.safe_index_url.partition("?")[0]
        self.prefix = b"{" + options.namespace.encode() + b"}"
        self._link = RedisLink(
            options.index_url,
            self._where,
            self.prefix.decode(),
            options.timeout,
            options.retries,
        )
        self._session = Session(self.prefix)
        self._parameters: dict[str, str] = {}
        self.layout = RowLayout()
        self._window = Window(window)
        self._ahead = 0.0  # seconds of the server's clock before our monotonic one
        self._generation = 0
        self._sweeper: asyncio.Task[None] | None = None

    @property
    def window(self) -> float:
        """Seconds that a page is remembered, 0: for ever."""
        return self._window.seconds

    def watch_round_trips(self, report: Callable[[], None]) -> None:
        """See :meth:`.Index.watch_round_trips`."""
        self._link.on_round_trip = report

    def warm(self) -> None:
        """Compile the kernels that decisions need; see :meth:`.Index.warm`."""
        from dedup_middleware.index import scan  # numba stays lazy

        scan.warm(replies=True)

    def _key(self, name: str) -> bytes:
        return self.prefix + name.encode()

    def _moment(self) -> Moment:
        """This moment by the server's clock, as far as it is known."""
        moment = self._window.at(time.monotonic() + self._ahead)
        if moment.generation < self._generation:  # a reply to a claim has named a later one
            moment = self._window.of_generation(self._generation)
        return moment

    async def open(self, parameters: Parameters) -> dict[str, str]:
        """Connect, and agree on the parameters; see :meth:`.Index.open`."""
        link = self._link
        # Opened again, it may be another index than before, which a greeting would refuse.
        link.introduce = lambda: None
        wanted = {**record_parameter(parameters), **window_parameter(self._window.seconds)}
        # What was emptied meanwhile is set up with the key that its pages were hashed with.
        known = {HASH_KEY: self._parameters[HASH_KEY]} if self._parameters else {}
        result = await self._first(self._open_call({**complete(wanted), **known}))
        stored, epoch = self._agreed(result.reply, wanted)
        if self._parameters and not self._is_ours(stored):
            logger.warning(REPLACED, self._name)
        self._begin(stored, epoch)
        self._sweep()
        link.opening = False
        link.introduce = lambda: self._open_call(self._parameters)
        link.check_introduction = self._check
        return dict(self._parameters)

    async def attach(self) -> dict[str, str]:
        """Connect to an index that exists; see :meth:`.Index.attach`."""
        result = await self._first(self._open_call({}, schema=b""))
        if not result.reply[0]:
            raise missing(self._name)
        self._begin(*self._agreed(result.reply, None))
        return dict(self._parameters)

    async def _first(self, call: Call) -> Result:
        """Send the call that opens the index.

        :raises IndexRefusedError: one of server and address speaks TLS, the other does not
        """
        sent = self._link.submit(call)
        if self._parameters:  # opened before
            return await sent
        # A server without TLS never answers a client with it: after a while both are tried.
        try:
            await asyncio.wait([sent], timeout=_UNANSWERED)
        except asyncio.CancelledError:
            sent.cancel()
            raise
        if not sent.done() or isinstance(sent.exception(), IndexUnavailableError):
            error = await self._link.mismatch()
            if error is not None:
                self._link.give_up()
                with contextlib.suppress(IndexUnavailableError):
                    await sent
                raise error
        try:
            return await sent
        except IndexUnavailableError as error:
            if NO_RIGHT in str(error):  # it will lack it for as long as the crawl runs
                raise IndexRefusedError(str(error)) from error
            raise

    def _open_call(self, parameters: Mapping[str, str], schema: bytes = _SCHEMA) -> Call:
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
        """The index as the user knows it, without its password."""
        return f"{self._where} (DEDUP_NAMESPACE={self.prefix[1:-1].decode()})"

    def _agreed(self, reply: Any, parameters: Parameters | None) -> tuple[dict[str, str], bytes]:
        """The stored parameters and the epoch.

        :raises IndexRefusedError: the parameters are other ones, or damaged
        """
        schema, fields, milliseconds, epoch = reply
        where = self._name
        check_schema(schema.decode("utf-8", "replace"), where)
        # RESP3 gives a dictionary to a command, but a flat list to a script, as RESP2 does.
        texts = [field.decode("utf-8", "replace") for field in fields]
        stored = dict(zip(texts[::2], texts[1::2], strict=True))
        check_key(stored, where)
        if parameters is not None:
            stored = agree(stored, parameters, where)
        self.layout = RowLayout(layout_of(stored, where))
        self._ahead = milliseconds / 1000 - time.monotonic()
        return stored, epoch

    def _check(self, reply: Any) -> None:
        """Look at the index behind a new connection.

        :raises IndexReplacedError: it has another key, so it is another one
        :raises IndexRefusedError: it has other parameters, or is damaged
        """
        stored, epoch = self._agreed(reply, self._parameters)
        if not self._is_ours(stored):
            raise replaced(self._name)
        if epoch != self._session.epoch:
            self._session.epoch = epoch
            logger.warning(EMPTIED, self._name)

    async def close(self) -> None:
        """Finish what is under way and disconnect."""
        if self._sweeper is not None:
            self._sweeper.cancel()
            await asyncio.wait([self._sweeper])
        await self._link.close()

    def _live(self) -> range:
        return self._moment().live

    def _turn(self, generation: int) -> None:
        """The server says that a new generation has begun."""
        self._generation = generation
        self._sweep()

    def _sweep(self) -> None:
        """Remove expired generations while the work goes on."""
        if self._window.seconds and (self._sweeper is None or self._sweeper.done()):
            work = remove_expired(self, self._moment().oldest)
            self._sweeper = asyncio.get_running_loop().create_task(work)

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

    async def counters(self) -> tuple[int, ...]:
        """Page ids given, bytes of text, buckets, records left out, pages removed."""
        raw = (await self.ask(b"GET", self._key("counters"))) or b""
        return tuple(
            int.from_bytes(raw[i : i + COUNTER], "little")
            for i in range(0, COUNTERS * COUNTER, COUNTER)
        )

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
