"""Calls to Redis: batching, retries, and checks of new connections."""

from __future__ import annotations

import asyncio
import contextlib
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence

import attrs
from redis.asyncio.connection import AbstractConnection

from dedup_middleware.base.errors import (
    DedupError,
    IndexRefusedError,
    IndexReplacedError,
    IndexUnavailableError,
)
from dedup_middleware.base.options import Options
from dedup_middleware.index.batching import Batcher
from dedup_middleware.index.redis.complaints import (
    NO_RIGHT,
    Complaint,
    Remedy,
    as_error,
    understand,
)
from dedup_middleware.index.redis.scripts import EPOCH, Script
from dedup_middleware.index.redis.servers import (
    Failures,
    RedisServers,
    Reply,
    ask,
    other_protocol,
    pack,
)

BATCH = 64
LANES = 2  # batches in flight
# Raised by opening if only one of client and server uses TLS, or the server is no Redis.
_NO_SERVER = (IndexRefusedError, IndexUnavailableError)
_UNANSWERED = 2.0  # seconds without a reply after which a TLS mismatch is suspected
_FIRST_PAUSE = 0.05  # seconds
_LONGEST_PAUSE = 2.0


@attrs.define(eq=False)
class Session:
    """An opened index: the prefix of its keys, and its epoch, chosen at random at its creation. If
    the index is created anew with the same hash key, the session adopts the new epoch."""

    prefix: bytes
    epoch: bytes = bytes(EPOCH)

    @property
    def argument(self) -> bytes:
        """The first argument of every script."""
        return self.prefix + self.epoch


@attrs.frozen(eq=False)
class Call:
    """A command, or a script with its keys and arguments.

    :ivar session: the index that the script works on; None for others, such as the journal's script
    """

    arguments: Sequence[bytes | str | int]
    keys: Sequence[bytes] = ()
    script: Script | None = None
    session: Session | None = None

    def words(self, *, in_full: bool) -> tuple[bytes | str | int, ...]:
        """The words of the command; ``in_full``: EVAL with the script's text, else EVALSHA."""
        if self.script is None:
            return tuple(self.arguments)
        how = ("EVAL", self.script.text) if in_full else ("EVALSHA", self.script.sha)
        first = () if self.session is None else (self.session.argument,)
        return (*how, len(self.keys), *self.keys, *first, *self.arguments)

    def bytes_to_send(self, *, in_full: bool) -> bytes:
        """The command in wire format (RESP)."""
        return pack(self.words(in_full=in_full))


@attrs.frozen(eq=False)
class Result:
    """A reply. ``again``: an earlier attempt of the call may have been executed as well."""

    reply: Reply
    again: bool = False


@attrs.define(eq=False)
class Try:
    """A call in flight, with the outcome of its last attempt.

    ``again``: an earlier attempt may have been executed; ``in_full``: send the script's text
    instead of its hash.
    """

    call: Call
    again: bool = False
    in_full: bool = False
    result: Result | None = None
    trouble: Complaint | None = None
    later: asyncio.Future[Result] | None = None  # set if the call is retried apart from its batch

    @property
    def is_open(self) -> bool:
        """Whether the call has no reply, and sending it again may help."""
        is_hopeless = self.trouble is not None and self.trouble.remedy is Remedy.NONE
        return self.result is None and not is_hopeless

    def answer(self, result: Result | Exception) -> None:
        """Resolve the future ``later``, if there is one."""
        if self.later is None or self.later.done():
            return
        if isinstance(result, Exception):
            self.later.set_exception(result)
        else:
            self.later.set_result(result)


class Link(ABC):
    """Sends calls in batches to one server or to the masters of a cluster.

    :param where: the address for messages, without its password
    :param timeout: seconds to wait for a reply
    :param retries: how often a failed call is sent again
    :param limit: maximum number of calls in a batch; ``lanes``: of batches in flight
    :ivar opening: refusals raise IndexRefusedError if True, IndexUnavailableError if False
    :ivar on_round_trip: called for each exchange
    """

    # Hosts and ports in the address, and whether it asks for TLS.
    _named: tuple[Sequence[tuple[str, int]], bool]

    def __init__(self, where: str, timeout: float, retries: int, limit: int, lanes: int) -> None:
        self.opening = True
        self.on_round_trip: Callable[[], None] = lambda: None
        self._where = where
        self._timeout = timeout
        self._retries = retries
        self._batcher: Batcher[Call, Result] = Batcher(self._run, limit, lanes=lanes)
        self._gave_up = False

    async def first(self, call: Call) -> Result:
        """Send the call that opens the index.

        :raises IndexRefusedError: the user lacks a right, or only one of server and address uses
            TLS
        """
        sent = self.submit(call)
        # A server without TLS never answers a TLS client: after a while both protocols are tried.
        try:
            await asyncio.wait([sent], timeout=_UNANSWERED)
        except asyncio.CancelledError:
            sent.cancel()
            raise
        if not sent.done() or isinstance(sent.exception(), _NO_SERVER):
            error = await self._mismatch()
            if error is not None:
                self._gave_up = True  # no retries: the server will never understand this client
                with contextlib.suppress(*_NO_SERVER):
                    await sent
                raise error
        try:
            return await sent
        except IndexUnavailableError as error:
            if NO_RIGHT in str(error):  # retries during the crawl would not help
                raise IndexRefusedError(str(error)) from error
            raise

    async def _mismatch(self) -> DedupError | None:
        """The error if a server uses TLS and the address does not, or the reverse; else None."""
        places, tls = self._named
        limit = min(self._timeout, _UNANSWERED)
        looks = [other_protocol(host, port, limit, tls=not tls) for host, port in places]
        if not any(await asyncio.gather(*looks)):
            return None
        scheme = self._where.partition("://")[0]
        fix = scheme.replace("rediss", "redis") if tls else scheme.replace("redis", "rediss")
        text = (
            f"its port speaks {'no TLS' if tls else 'TLS'}, and the address begins with "
            f"{scheme}://: begin it with {fix}://"
        )
        return as_error(text, self._where, refused=True)

    def submit(self, call: Call) -> asyncio.Future[Result]:
        """Add a call to the next batch."""
        return self._batcher.submit(call)

    async def replies(self, calls: Iterable[Call]) -> list[Reply]:
        """Submit calls together and await their replies."""
        return [one.reply for one in await asyncio.gather(*map(self.submit, calls))]

    @abstractmethod
    async def close(self) -> None:
        """Wait for calls in flight, then disconnect."""

    async def _run(self, calls: list[Call]) -> list[Result | Exception | asyncio.Future[Result]]:
        tries = [Try(call) for call in calls]
        await self._attempt(tries)
        left = [one for one in tries if one.is_open]
        if left and self._retries and not self._gave_up:
            await self._retry(left)
        return [one.result or one.later or self._error(one.trouble) for one in tries]

    async def _retry(self, tries: list[Try]) -> None:
        """Send calls again, with growing pauses, until all have replies or no retries are left."""
        try:
            for attempt in range(1, self._retries + 1):
                await asyncio.sleep(pause(attempt))
                await self._attempt(tries)
                is_last = self._gave_up or attempt == self._retries
                for one in tries:
                    if one.result is not None:
                        one.answer(one.result)
                    elif is_last or not one.is_open:
                        one.answer(self._error(one.trouble))
                tries = [one for one in tries if one.is_open]
                if is_last or not tries:
                    break
        except Exception as error:
            for one in tries:
                one.answer(error)
            raise
        finally:
            for one in tries:
                if one.later is not None:
                    one.later.cancel()

    async def _attempt(self, tries: list[Try]) -> None:
        """Send the calls without a reply, and resend failed ones at once if ``_prepare`` allows it:
        a call whose script the server lacked was not executed, so this is no retry."""
        for _ in range(3):
            todo = [one for one in tries if one.is_open]
            if not todo:
                return
            await self._exchange(todo)
            if not await self._prepare([one for one in todo if one.result is None]):
                return

    @abstractmethod
    async def _exchange(self, todo: list[Try]) -> None:
        """Send calls once and set ``result`` or ``trouble`` of each."""

    @abstractmethod
    async def _prepare(self, failed: list[Try]) -> bool:
        """Apply the remedies for failed calls; returns whether to resend the calls at once."""

    def _error(self, trouble: Complaint | None) -> DedupError:
        assert trouble is not None
        if trouble.replaced:
            return IndexReplacedError(trouble.text)
        return as_error(trouble.text, self._where, refused=trouble.refused and self.opening)


def remedies_of(failed: Iterable[Try]) -> set[Remedy]:
    """The remedies for failed calls."""
    return {one.trouble.remedy for one in failed if one.trouble}


class RedisLink(Link):
    """Sends calls to the server that holds the namespace.

    :param key: any key of the namespace
    :ivar introduce: returns the first call to send over each new connection, or None
    :ivar check_introduction: checks its reply; raises IndexRefusedError or IndexReplacedError
    """

    def __init__(self, options: Options, where: str, key: str) -> None:
        super().__init__(where, options.timeout, options.retries, BATCH, LANES)
        self.introduce: Callable[[], Call | None] = lambda: None
        self.check_introduction: Callable[[Reply], None] = lambda _: None
        self._servers = RedisServers(options.index_url, key, options.timeout, self._greet)
        self._named = self._servers.named()

    async def close(self) -> None:
        await self._batcher.join()
        await self._servers.close()

    async def _exchange(self, todo: list[Try]) -> None:
        try:
            async with self._servers.connection() as connection:
                self.on_round_trip()
                replies, failure = await self._servers.exchange(
                    connection, [one.call.bytes_to_send(in_full=one.in_full) for one in todo]
                )
        except (IndexRefusedError, IndexReplacedError) as error:
            replaced = isinstance(error, IndexReplacedError)
            _trouble(todo, Complaint(str(error), refused=not replaced, replaced=replaced))
            return
        except Failures as error:
            _trouble(todo, understand(error, self._timeout))
            return
        for one, reply in zip(todo, replies, strict=False):
            if not isinstance(reply, Exception):
                one.result = Result(reply, one.again)
                continue
            one.trouble = understand(reply)
            one.in_full = one.in_full or one.trouble.remedy is Remedy.SCRIPT
        if failure is not None:
            lost = todo[len(replies) :]
            _trouble(lost, understand(failure, self._timeout))
            for one in lost:
                one.again = True

    async def _prepare(self, failed: list[Try]) -> bool:
        remedies = remedies_of(failed)
        if Remedy.REDIRECT in remedies:
            self._servers.moved()
        elif remedies & {Remedy.RECONNECT, Remedy.OPEN}:
            # A new connection sends ``introduce``, which opens the index again.
            await self._servers.drop()
        return bool(remedies & _AT_ONCE)

    async def _greet(self, connection: AbstractConnection) -> None:
        await connection.on_connect()
        call = self.introduce()
        if call is not None:
            try:
                self.check_introduction(await ask(connection, call.bytes_to_send(in_full=True)))
            except (IndexRefusedError, IndexReplacedError):
                await connection.disconnect(nowait=True)
                raise


_AT_ONCE = {Remedy.SCRIPT, Remedy.REDIRECT, Remedy.OPEN}  # resending after these is no retry


def _trouble(tries: Iterable[Try], trouble: Complaint) -> None:
    for one in tries:
        one.trouble = trouble


def pause(attempt: int) -> float:
    """Seconds to wait before an attempt: exponential backoff with jitter."""
    return min(_LONGEST_PAUSE, _FIRST_PAUSE * float(2**attempt)) * random.uniform(0.5, 1)
