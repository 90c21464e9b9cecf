"""From calls to replies: batches, retries, forgotten scripts, servers that move.

All calls of a process go in batches, of which two may be under way, each over a connection of its
own: so the server works on one while the process makes use of the other's replies. A batch is sent
again as often as ``DEDUP_RETRIES`` says, but only those of its calls that have no reply yet.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Sequence

import attrs
from redis.asyncio.connection import AbstractConnection

from dedup_middleware.errors import DedupError, IndexRefusedError, IndexReplacedError
from dedup_middleware.index.batching import Batcher
from dedup_middleware.index.redis_errors import Complaint, Remedy, as_error, understand
from dedup_middleware.index.redis_scripts import EPOCH, Script
from dedup_middleware.index.redis_servers import (
    Failures,
    RedisServers,
    Reply,
    ask,
    pack,
    read_address,
)

BATCH = 64
LANES = 2  # batches under way
_FIRST_PAUSE = 0.05  # seconds
_LONGEST_PAUSE = 2.0


@attrs.define(eq=False)
class Session:
    """The index that was opened: the prefix of its keys, and the epoch in which it was set up.

    One that is set up anew with the same key is used in the same session, with its new epoch.
    """

    prefix: bytes
    epoch: bytes = bytes(EPOCH)

    @property
    def argument(self) -> bytes:
        """The first argument of every script."""
        return self.prefix + self.epoch


@attrs.frozen(eq=False)
class Call:
    """A command, or a script with its keys and arguments.

    :ivar session: what the script works on; none for scripts that are not those of the index
    """

    arguments: Sequence[bytes | int]
    keys: Sequence[bytes] = ()
    script: Script | None = None
    session: Session | None = None

    def bytes_to_send(self, *, in_full: bool) -> bytes:
        """The bytes to send. ``in_full``: with the text of the script."""
        if self.script is None:
            return pack(self.arguments)
        how = (b"EVAL", self.script.text) if in_full else (b"EVALSHA", self.script.sha)
        first = () if self.session is None else (self.session.argument,)
        return pack((*how, len(self.keys), *self.keys, *first, *self.arguments))


@attrs.frozen(eq=False)
class Answer:
    """A reply. ``again``: an earlier try of the call may have been carried out as well."""

    reply: Reply
    again: bool = False


@attrs.define(eq=False)
class _Try:
    """A call on its way."""

    call: Call
    again: bool = False
    in_full: bool = False
    answer: Answer | None = None
    trouble: Complaint | None = None


class RedisLink:
    """Sends calls to the server that holds the namespace.

    :param url: address of the server
    :param where: the same for messages, without its password
    :param key: any key of the namespace
    ``introduce`` gives the call that goes first over every new connection, if any, and
    ``check_introduction`` looks at its reply and may raise IndexRefusedError or IndexReplacedError.
    """

    def __init__(self, url: str, where: str, key: str, timeout: float, retries: int) -> None:
        self.opening = True  # refusals are raised as such; later calls raise IndexUnavailableError
        self.introduce: Callable[[], Call | None] = lambda: None
        self.check_introduction: Callable[[Reply], None] = lambda _: None
        self.on_round_trip: Callable[[], None] = lambda: None
        self._where = where
        self._timeout = timeout
        self._retries = retries
        self._servers = RedisServers(read_address(url), key, timeout, self._greet)
        self._batcher: Batcher[Call, Answer] = Batcher(self._run, BATCH, lanes=LANES)

    def submit(
        self, call: Call, undo: Callable[[Answer], None] | None = None
    ) -> asyncio.Future[Answer]:
        """Send a call with the next batch; see :meth:`.Batcher.submit`."""
        return self._batcher.submit(call, undo)

    async def close(self) -> None:
        """Finish what is under way and disconnect."""
        await self._batcher.join()
        await self._servers.close()

    async def _run(self, calls: list[Call]) -> list[Answer | Exception]:
        tries = [_Try(call) for call in calls]
        for attempt in range(self._retries + 1):
            if attempt:
                await asyncio.sleep(_pause(attempt))
            await self._attempt(tries)
            open_tries = [one for one in tries if one.answer is None]
            if not open_tries or all(_hopeless(one) for one in open_tries):
                break
        return [one.answer or self._error(one.trouble) for one in tries]

    async def _attempt(self, tries: list[_Try]) -> None:
        """Send what has no answer yet. Forgotten scripts cost no attempt: they were not run."""
        for _ in range(3):
            todo = [one for one in tries if one.answer is None and not _hopeless(one)]
            await self._exchange(todo)
            remedies = {one.trouble.remedy for one in todo if one.trouble and not one.answer}
            await self._prepare(remedies)
            if not remedies & _FREE:
                return

    async def _exchange(self, todo: list[_Try]) -> None:
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
                one.answer = Answer(reply, one.again)
                continue
            one.trouble = understand(reply)
            one.in_full = one.in_full or one.trouble.remedy is Remedy.SCRIPT
        if failure is not None:
            lost = todo[len(replies) :]
            _trouble(lost, understand(failure, self._timeout))
            for one in lost:
                one.again = True

    async def _prepare(self, remedies: set[Remedy]) -> None:
        """Do for the next exchange what the errors of the last one ask for."""
        if Remedy.REDIRECT in remedies:
            self._servers.moved()
        elif remedies & {Remedy.RECONNECT, Remedy.OPEN}:
            # A new connection is greeted, and so opens the index again.
            await self._servers.drop()

    async def _greet(self, connection: AbstractConnection) -> None:
        await connection.on_connect()
        call = self.introduce()
        if call is not None:
            try:
                self.check_introduction(await ask(connection, call.bytes_to_send(in_full=True)))
            except (IndexRefusedError, IndexReplacedError):
                await connection.disconnect(nowait=True)
                raise

    def _error(self, trouble: Complaint | None) -> DedupError:
        assert trouble is not None
        if trouble.replaced:
            return IndexReplacedError(trouble.text)
        return as_error(trouble.text, self._where, refused=trouble.refused and self.opening)


_FREE = {Remedy.SCRIPT, Remedy.REDIRECT, Remedy.OPEN}


def _trouble(tries: Iterable[_Try], trouble: Complaint) -> None:
    for one in tries:
        one.trouble = trouble


def _hopeless(one: _Try) -> bool:
    return one.trouble is not None and one.trouble.remedy is Remedy.NONE


def _pause(attempt: int) -> float:
    """Seconds before an attempt: doubled each time, and random, so that processes spread out."""
    return min(_LONGEST_PAUSE, _FIRST_PAUSE * float(2**attempt)) * random.uniform(0.5, 1)
