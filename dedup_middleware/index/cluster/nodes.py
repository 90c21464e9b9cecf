"""Calls to the masters of a cluster: one pipeline per node, retries, error messages."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import attrs
from redis.asyncio.cluster import ClusterNode, PipelineCommand, RedisCluster
from redis.asyncio.connection import SSLConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import AskError, ClusterDownError, MovedError

from dedup_middleware.base.errors import IndexRefusedError, OptionsError
from dedup_middleware.base.settingfields import hide_password
from dedup_middleware.index.batching import ended
from dedup_middleware.index.redis.complaints import (
    NO_NODE,
    NO_RIGHT,
    Complaint,
    Remedy,
    as_error,
    is_no_node,
    understand,
)
from dedup_middleware.index.redis.link import Call, Link, Result, Session, Try, remedies_of
from dedup_middleware.index.redis.servers import Failures, connection_options, nodes_of

logger = logging.getLogger(__name__)

BATCH = 1024  # maximum calls in one exchange
LANES = 4
_LOOK = 5.0  # maximum seconds to wait for a node of the address when it is checked


def read_startup(url: str) -> tuple[list[tuple[str, int]], dict[str, Any]]:
    """The nodes named in a cluster's address, and the options of the connections to all nodes.

    :param url: ``redis+cluster://USER:PASSWORD@HOST:PORT,HOST:PORT?OPTIONS``, without a database

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
    return named, options


class _Keys:
    """Finds the keys of a command; redis-py's parser queries the first master of the cluster for
    them, and fails if that is down."""

    async def initialize(self, node: ClusterNode) -> None:
        """Do nothing; redis-py's parser would query ``node``."""

    async def get_keys(self, *words: Any) -> Sequence[Any]:
        """The key of a command with one key; the index sends no others, except scripts."""
        return words[2:3] if words[0] == "MEMORY" else words[1:2]


@attrs.define(eq=False)
class _Client:
    """A client of redis-py with its slot map, and the number of exchanges that use it. A retired
    one is closed by its last user, as ``RedisCluster.aclose`` also closes connections in use, on
    which a write then raises AttributeError."""

    cluster: RedisCluster
    users: int = 0
    is_retired: bool = False


class ClusterLink(Link):
    """Sends calls to the masters that hold their keys. Retries, after a slot has moved or a master
    is lost, do not delay calls to other shards.

    :param url: address with some nodes of the cluster
    :param where: the address for messages, without its password
    :param opening_call: returns the call that opens the shard of a session again
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
        super().__init__(where, timeout, retries, BATCH, LANES)
        self._startup, self._options = read_startup(url)
        self._named = self._startup, "ssl" in self._options
        self._usable = self._startup  # nodes of the address that can be used, as far as known
        self._unusable: dict[tuple[str, int], Complaint] = {}  # the others, until they are logged
        self._opening_call = opening_call
        self._opened = opened
        self._client: _Client | None = None
        self._found: list[tuple[str, int]] = []  # nodes in the last slot map
        self._retrying: set[asyncio.Task[None]] = set()

    async def close(self) -> None:
        await self._batcher.join()
        await ended(self._retrying)
        # Closing raises if the connections are of an event loop that has ended.
        client, self._client = self._client, None
        if client is not None:
            await client.cluster.aclose()

    @contextlib.asynccontextmanager
    async def _connected(self) -> AsyncIterator[_Client]:
        """The current client, counted as in use during one exchange."""
        if self._client is None:
            hosts = dict.fromkeys((*self._usable, *self._found))
            self._client = _Client(self._cluster(list(hosts), self._timeout))
        client = self._client
        client.users += 1
        try:
            yield client
        finally:
            client.users -= 1
            if client.is_retired and not client.users:
                with contextlib.suppress(*Failures):
                    await client.cluster.aclose()

    def _cluster(self, hosts: Sequence[tuple[str, int]], timeout: float) -> RedisCluster:
        cluster = RedisCluster(
            **self._options,
            startup_nodes=[ClusterNode(*host) for host in hosts],
            socket_timeout=timeout,
            socket_connect_timeout=timeout,
            retry=Retry(NoBackoff(), 0),
            require_full_coverage=False,
        )
        cluster.commands_parser = _Keys()  # type: ignore[assignment]
        return cluster

    def _retire(self, client: _Client) -> None:
        """Discard a client, so that the next exchange reads the slot map over new connections."""
        client.is_retired = True
        if self._client is client:
            self._client = None
            self._found = [
                (str(one.host), int(one.port)) for one in client.cluster.get_nodes()
            ] or self._found

    async def _retry(self, tries: list[Try]) -> None:
        """Retry calls in a task, so that the rest of their batch does not wait."""
        loop = asyncio.get_running_loop()
        for one in tries:
            one.later = loop.create_future()
        task = loop.create_task(super()._retry(tries))
        self._retrying.add(task)
        task.add_done_callback(self._retrying.discard)

    async def _prepare(self, failed: list[Try]) -> bool:
        remedies = remedies_of(failed)
        if Remedy.OPEN in remedies:
            await self._open_again(failed)
        return bool(remedies & {Remedy.OPEN, Remedy.SCRIPT})

    async def _open_again(self, failed: list[Try]) -> None:
        known = list({one.call.session for one in failed if one.call.session is not None})
        tries = [Try(self._opening_call(session), in_full=True) for session in known]
        await self._exchange(tries)
        for session, one in zip(known, tries, strict=True):
            if one.result is None:
                continue
            try:
                self._opened(session, one.result.reply)
            except IndexRefusedError as error:  # for example, another schema
                for call in failed:
                    if call.call.session is session:
                        call.trouble = Complaint(str(error), refused=True)

    async def _exchange(self, todo: list[Try]) -> None:
        self.on_round_trip()
        async with self._connected() as client:
            pipeline = client.cluster.pipeline()
            try:
                await _reach(client.cluster)
                for one in todo:
                    pipeline.execute_command(*one.call.words(in_full=one.in_full))
                # redis-py would follow redirections one by one, and might send ASKING over another
                # connection than the call.
                replies = await pipeline.execute(raise_on_error=False, allow_redirections=False)
                await self._follow(client, todo, replies)
            except Failures as error:
                trouble = self._understood(error)
                # It is unknown which of the calls were executed.
                for one in todo:
                    one.trouble, one.again = trouble, True
                self._retire(client)
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
                self._retire(client)

    async def first(self, call: Call) -> Result:
        if len(self._startup) > 1:
            await self._check_startup()
        return await super().first(call)

    def log_unusable(self) -> None:
        """Log the unusable nodes of the address, each once; called when the index is open."""
        message = (
            "The node %s of DEDUP_INDEX_URL=%s can't be used: %s; the crawl goes on with the others"
        )
        for node, complaint in self._unusable.items():
            logger.warning(message, _name(node), self._where, complaint.text)
        self._unusable = {}

    async def _check_startup(self) -> None:
        """Ignore nodes of the address that can't be used, if others can. redis-py would take the
        first one that replies, and report only the last error if none does.

        :raises IndexRefusedError: the nodes belong to different clusters, or none can be used and
            one never will be
        :raises IndexUnavailableError: none can be used, and one has an error that retries can't fix
        """
        limit = min(self._timeout, _LOOK)
        found = await asyncio.gather(*(self._look_at(one, limit) for one in self._startup))
        known = list(zip(self._startup, found, strict=True))
        usable = {node: ids for node, ids in known if not isinstance(ids, Complaint)}
        for node, ids in usable.items():
            first = next(iter(usable))
            if not ids & usable[first]:
                both = f"{_name(first)} and {_name(node)}"
                text = f"{both} are nodes of different clusters: name those of one"
                raise as_error(text, self._where, refused=True)
        if not usable:
            for node, one in known:
                if isinstance(one, Complaint) and (one.refused or one.remedy is Remedy.NONE):
                    # Without a right, waiting would not help.
                    is_final = one.refused or one.text.startswith(NO_RIGHT)
                    error = as_error(f"{_name(node)}: {one.text}", self._where, refused=is_final)
                    raise await self._mismatch() or error
            return
        self._usable = list(usable)
        self._unusable = {node: one for node, one in known if isinstance(one, Complaint)}

    async def _look_at(
        self, address: tuple[str, int], timeout: float
    ) -> frozenset[bytes] | Complaint:
        """The ids of all nodes in a node's cluster, or why the node can't be used; queries only
        this node, as others may be down."""
        cluster = self._cluster([address], timeout)
        (node,) = cluster.nodes_manager.startup_nodes.values()
        try:
            query = node.execute_command("CLUSTER SLOTS")
            slots: list[Any] = await asyncio.wait_for(query, timeout)
            ids = frozenset(one[2] for _, _, *nodes in slots for one in nodes)
            return ids or Complaint("it belongs to no cluster that has slots", Remedy.WAIT)
        except Failures as error:
            return NO_NODE if is_no_node(error) else understand(error, timeout)
        finally:
            with contextlib.suppress(*Failures):
                await node.disconnect()

    async def _follow(self, client: _Client, todo: list[Try], replies: list[Any]) -> None:
        """Follow redirections: resend calls to the nodes they name, one pipeline per node."""
        groups: dict[tuple[str, int], list[int]] = {}
        for at, reply in enumerate(replies):
            if isinstance(reply, AskError):  # or MovedError, which is derived from it
                groups.setdefault((str(reply.host), int(reply.port)), []).append(at)
                if isinstance(reply, MovedError):
                    self._retire(client)

        async def follow(address: tuple[str, int], part: list[int]) -> None:
            node = client.cluster.get_node(*address)
            if node is None:  # joined after the slot map was read
                self._retire(client)
                return
            commands: list[PipelineCommand] = []
            for at in part:
                if not isinstance(replies[at], MovedError):
                    commands.append(PipelineCommand(len(commands), "ASKING"))
                words = todo[at].call.words(in_full=todo[at].in_full)
                commands.append(PipelineCommand(len(commands), *words))
            try:
                await node.execute_pipeline(commands)
                results = [one.result for one in commands if one.args != ("ASKING",)]
            except Failures as error:
                results = [error] * len(part)
            for at, result in zip(part, results, strict=True):
                replies[at] = result

        await asyncio.gather(*(follow(*group) for group in groups.items()))

    def _understood(self, error: Exception) -> Complaint:
        found = understand(error, self._timeout)
        if found.remedy is Remedy.NONE and "ASK" in str(error)[:5]:
            return attrs.evolve(found, remedy=Remedy.WAIT)
        return found


async def _reach(cluster: RedisCluster) -> None:
    """Read the slot map, unless it is known."""
    try:
        await cluster.initialize()
    except IndexError as error:  # from redis-py, if the cluster has no master with slots
        raise ClusterDownError("CLUSTERDOWN no node has slots") from error


def _name(node: tuple[str, int]) -> str:
    return f"{node[0]}:{node[1]}"


_BROKEN = {Remedy.RECONNECT, Remedy.REDIRECT}  # remedies that need new connections and slot map
