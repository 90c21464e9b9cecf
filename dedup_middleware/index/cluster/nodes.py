"""Calls to the masters of a cluster: one pipeline a node, retries, errors that users see."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import attrs
from redis.asyncio.cluster import ClusterNode, RedisCluster
from redis.asyncio.connection import SSLConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import AskError, MovedError, NoScriptError, ResponseError

from dedup_middleware.base.errors import OptionsError
from dedup_middleware.base.settingfields import hide_password
from dedup_middleware.index.batching import Batcher
from dedup_middleware.index.redis.link import (
    Call,
    Complaint,
    Link,
    Remedy,
    Result,
    Session,
    Try,
    pause,
    remedies_of,
    understand,
)
from dedup_middleware.index.redis.servers import Failures, connection_options, nodes_of

BATCH = 1024  # calls in one exchange
LANES = 4


@attrs.frozen
class Startup:
    """Nodes of a cluster to begin with, and the options of the connections to all of them."""

    hosts: tuple[tuple[str, int], ...]
    options: dict[str, Any] = attrs.field(repr=False)


def read_startup(url: str) -> Startup:
    """What the address of a cluster says.

    ``redis+cluster://USER:PASSWORD@HOST:PORT,HOST:PORT?OPTIONS``; there is no database number.

    :raises OptionsError: the address can't be used; the message hides its password
    """
    named = []
    options: dict[str, Any] = {}
    for node in nodes_of(url):
        options = connection_options(node)
        named.append((options.pop("host", "localhost"), options.pop("port", 6379)))
    if options.pop("connection_class", None) is SSLConnection:
        options["ssl"] = True
    if options.pop("db", 0):
        raise OptionsError(
            "DEDUP_INDEX_URL",
            hide_password(url),
            "leave out the number of the database: a cluster has only 0",
        )
    return Startup(tuple(named), options)


class ClusterLink(Link):
    """Sends calls to the masters that hold their keys.

    redis-py keeps the map of slots and follows MOVED and ASK; this class retries, sends the text
    of a script where a master does not know it, and opens a shard again that was emptied. What is
    tried again, since its slot moves or its master is gone, holds up no call to other shards.

    :param url: address of some nodes
    :param where: the same for messages, without its password
    :param opening_call: the call that opens the shard of a session again
    :param opened: called with that session and the reply
    """

    def __init__(
        self,
        url: str,
        where: str,
        timeout: float,
        retries: int,
        opening_call: Callable[[Session], Call],
        opened: Callable[[Session, Any], None],
    ) -> None:
        super().__init__(where, timeout, retries, Batcher(self._run, BATCH, lanes=LANES))
        self._startup = read_startup(url)
        self._opening_call = opening_call
        self._opened = opened
        self._cluster: RedisCluster | None = None
        self._retrying: set[asyncio.Task[None]] = set()

    async def replies(self, calls: Sequence[Call]) -> list[Any]:
        """Replies to calls that go out together."""
        return [one.reply for one in await asyncio.gather(*map(self.submit, calls))]

    async def close(self) -> None:
        """Finish what is under way and disconnect."""
        await self._batcher.join()
        while self._retrying:
            await asyncio.wait(self._retrying)
        if self._cluster is not None:
            await self._cluster.aclose()
            self._cluster = None

    def _connect(self) -> RedisCluster:
        if self._cluster is None:
            self._cluster = RedisCluster(
                **self._startup.options,
                startup_nodes=[ClusterNode(*host) for host in self._startup.hosts],
                socket_timeout=self._timeout,
                socket_connect_timeout=self._timeout,
                retry=Retry(NoBackoff(), 0),
                require_full_coverage=False,
            )
        return self._cluster

    async def _run(self, calls: list[Call]) -> list[Result | Exception | asyncio.Future[Result]]:
        tries = [Try(call) for call in calls]
        await self._attempt(tries)
        left = [one for one in tries if one.result is None and not one.is_hopeless]
        if left and self._retries:
            loop = asyncio.get_running_loop()
            for one in left:
                one.later = loop.create_future()
            task = loop.create_task(self._try_again(left))
            self._retrying.add(task)
            task.add_done_callback(self._retrying.discard)
        return [one.result or one.later or self._error(one.trouble) for one in tries]

    async def _try_again(self, tries: list[Try]) -> None:
        """Send calls again until they have their replies, or as often as they may be sent."""
        try:
            for attempt in range(1, self._retries + 1):
                await asyncio.sleep(pause(attempt))
                await self._attempt(tries)
                for one in tries:
                    if one.result is not None:
                        _answer(one, one.result)
                    elif one.is_hopeless or attempt == self._retries:
                        _answer(one, self._error(one.trouble))
                tries = [one for one in tries if one.later is not None and not one.later.done()]
                if not tries:
                    break
        except Exception as error:
            for one in tries:
                _answer(one, error)
            raise
        finally:
            for one in tries:
                if one.later is not None:
                    one.later.cancel()

    async def _prepare(self, failed: list[Try]) -> bool:
        remedies = remedies_of(failed)
        if Remedy.OPEN in remedies:
            await self._open_again({one.call.session for one in failed})
        return bool(remedies & {Remedy.OPEN, Remedy.SCRIPT})

    async def _open_again(self, sessions: set[Session | None]) -> None:
        known = [session for session in sessions if session is not None]
        tries = [Try(self._opening_call(session), in_full=True) for session in known]
        await self._exchange(tries)
        for session, one in zip(known, tries, strict=True):
            if one.result is not None:
                self._opened(session, one.result.reply)

    async def _exchange(self, todo: list[Try]) -> None:
        self.on_round_trip()
        cluster = self._connect()
        pipeline = cluster.pipeline()
        try:
            for one in todo:
                pipeline.execute_command(*one.call.words(in_full=one.in_full))
            # Left to redis-py, each call to a slot on its way would wait for the one before it.
            replies = await pipeline.execute(raise_on_error=False, allow_redirections=False)
            await self._follow(cluster, todo, replies)
        except Failures as error:
            # Which of the calls were carried out is not known.
            for one in todo:
                one.trouble, one.again = self._understood(error), True
            await self._forget_connections()
            return
        for one, reply in zip(todo, replies, strict=True):
            if not isinstance(reply, Exception):
                one.result = Result(reply, one.again)
                continue
            one.trouble = self._understood(reply)
            if one.trouble.remedy is Remedy.SCRIPT:
                one.in_full = True
            else:
                one.again = True
        if any(one.trouble and one.trouble.remedy in _BROKEN for one in todo if not one.result):
            await self._forget_connections()

    async def _follow(self, cluster: RedisCluster, todo: list[Try], replies: list[Any]) -> None:
        """Send calls to where their slot is now; redis-py takes note of it."""
        slots: dict[Session | None, list[int]] = {}
        for at, reply in enumerate(replies):
            if isinstance(reply, (MovedError, AskError)):
                slots.setdefault(todo[at].call.session, []).append(at)

        async def follow(part: list[int]) -> None:
            for at in part:
                one = todo[at]
                try:
                    replies[at] = await cluster.execute_command(
                        *one.call.words(in_full=one.in_full)
                    )
                except (*Failures, ResponseError) as error:
                    replies[at] = error
                    if not isinstance(error, NoScriptError):
                        break  # so would the others fail

        await asyncio.gather(*map(follow, slots.values()))

    def _understood(self, error: Exception) -> Complaint:
        found = understand(error, self._timeout)
        if found.remedy is Remedy.NONE and "ASK" in str(error)[:5]:
            return attrs.evolve(found, remedy=Remedy.WAIT)
        return found

    async def _forget_connections(self) -> None:
        """Ask for the map of slots again before the next exchange."""
        if self._cluster is not None:
            await self._cluster.aclose()


def _answer(one: Try, result: Result | Exception) -> None:
    if one.later is None or one.later.done():
        return
    if isinstance(result, Exception):
        one.later.set_exception(result)
    else:
        one.later.set_result(result)


_BROKEN = {Remedy.RECONNECT, Remedy.REDIRECT}
