"""Calls to Redis: batches, retries, and the errors that users see."""

from __future__ import annotations

import asyncio
import contextlib
import random
import ssl
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from enum import Enum

import attrs
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import (
    AskError,
    AuthenticationError,
    BusyLoadingError,
    ClusterDownError,
    InvalidResponse,
    MasterDownError,
    MovedError,
    NoPermissionError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisClusterException,
    ResponseError,
    SlotNotCoveredError,
    TryAgainError,
)
from redis.exceptions import TimeoutError as RedisTimeoutError

from dedup_middleware.base.errors import (
    DedupError,
    IndexRefusedError,
    IndexReplacedError,
    IndexUnavailableError,
)
from dedup_middleware.index.batching import Batcher
from dedup_middleware.index.redis.scripts import EPOCH, Script
from dedup_middleware.index.redis.sentinel import NoSentinelError
from dedup_middleware.index.redis.servers import (
    Failures,
    RedisServers,
    Reply,
    ask,
    other_protocol,
    pack,
    read_address,
)


class Remedy(Enum):
    """What may help after an error."""

    NONE = "nothing that this process could do"
    WAIT = "time"
    RECONNECT = "another connection"
    REDIRECT = "another server of the cluster"
    SCRIPT = "sending the whole script"
    OPEN = "opening the index again"


@attrs.frozen
class Complaint:
    """An error understood."""

    text: str
    remedy: Remedy = Remedy.NONE
    refused: bool = False  # not to be used as it is, however often one tries
    replaced: bool = False  # another index is there now


_MOVES = Complaint("the namespace is being moved to another server", Remedy.WAIT)
_DOWN = Complaint("the cluster is down", Remedy.WAIT)
_READONLY = Complaint("it is a replica, which can't be written to", Remedy.RECONNECT)
_OOM = Complaint("it is out of memory and may not evict (raise maxmemory, or use another server)")
_AUTH = Complaint(
    "it does not accept this user and password: correct them in DEDUP_INDEX_URL", refused=True
)
NO_RIGHT = "its user lacks a right: grant those listed in docs/redis.md"
_NOPERM = Complaint(NO_RIGHT)
_DATABASE = Complaint(
    "it has no such database: correct the number at the end of DEDUP_INDEX_URL", refused=True
)
# redis-py has classes of its own for some errors and leaves the code out of their texts.
_CLASSES: dict[type[Exception], Complaint] = {
    NoScriptError: Complaint("it has forgotten a script", Remedy.SCRIPT),
    MovedError: Complaint("the namespace is on another server of the cluster", Remedy.REDIRECT),
    AskError: _MOVES,
    TryAgainError: _MOVES,
    ClusterDownError: _DOWN,
    SlotNotCoveredError: _DOWN,
    BusyLoadingError: Complaint("it is still loading its data", Remedy.WAIT),
    MasterDownError: Complaint("it is a replica that has lost its master", Remedy.RECONNECT),
    ReadOnlyError: _READONLY,
    OutOfMemoryError: _OOM,
    NoPermissionError: _NOPERM,
    AuthenticationError: _AUTH,
}
# All others, and those of commands inside a script in Redis 6.
_CODES: dict[str, Complaint] = {
    "OOM": _OOM,
    "READONLY": _READONLY,
    "BUSY": Complaint("it is busy with a script", Remedy.WAIT),
    # A master that was cut off from the others; they may have chosen another one by now.
    "NOREPLICAS": Complaint("it has too few replicas to accept writes", Remedy.RECONNECT),
    "MISCONF": Complaint("it can't save to its disk and accepts no writes"),
    "WRONGTYPE": Complaint(
        "another program keeps its data under these keys: choose another DEDUP_NAMESPACE",
        refused=True,
    ),
    "DAMAGED": Complaint(
        "parts of the index are gone; restore a backup, choose another DEDUP_NAMESPACE, or remove "
        "its keys to begin anew",
        refused=True,
    ),
    "GONE": Complaint("the index was removed from it, or set up anew", Remedy.OPEN),
    "BEHIND": Complaint(
        "its counter of pages is lower than the numbers of pages in it, so no page can be added: "
        "restore a backup, or choose another DEDUP_NAMESPACE"
    ),
    "FULL": Complaint(
        "it has taken all pages or texts that it can number: choose another DEDUP_NAMESPACE"
    ),
}
# Without a code.
_PHRASES = (
    ("unauthenticated", _AUTH),  # a call of more than ten words before signing on
    ("DB index is out of range", _DATABASE),
    ("invalid DB index", _DATABASE),
    ("SELECT is not allowed in cluster mode", _DATABASE),
    ("can't run this command", _NOPERM),  # by a script
    ("ACL failure in script", _NOPERM),
    ("can't access at least one of the keys", _NOPERM),
    ("No permissions to access a key", _NOPERM),
)
NO_NODE = Complaint(
    "it is not a node of a cluster: leave +cluster out of DEDUP_INDEX_URL, or correct its host and "
    "port",
    refused=True,
)
# Replies of such a server; redis-py takes every error reply for one.
_NO_NODE_REPLIES = ("cluster support disabled", "unknown command")


def understand(error: Exception, timeout: float = 0.0) -> Complaint:
    """Meaning of an error of redis-py; a text that is not known is passed on as it is.

    :param timeout: seconds that a reply may take, for the message

    >>> understand(BusyLoadingError("Redis is loading the dataset in memory")).text
    'it is still loading its data'
    """
    if isinstance(error, RedisClusterException) and isinstance(error.__cause__, Exception):
        error = error.__cause__  # why the node that was asked last can't be used
        reply = error.__context__
        if (
            isinstance(error, RedisClusterException)
            and isinstance(reply, ResponseError)
            and not is_no_node(reply)
        ):
            error = reply
    if type(error) in _CLASSES:
        return _CLASSES[type(error)]
    text = str(error)
    if isinstance(error, ResponseError):
        return _understand_text(text)
    if isinstance(error, (RedisTimeoutError, asyncio.TimeoutError)):
        return Complaint(f"no answer within {timeout:g} seconds", Remedy.RECONNECT)
    refusal = _understand_refusal(error, text)
    if refusal is not None:
        return refusal
    if " connecting to " in text:
        text += " Start the server, or correct DEDUP_INDEX_URL."
    return Complaint(text or type(error).__name__, Remedy.RECONNECT)


def _understand_refusal(error: Exception, text: str) -> Complaint | None:
    """The meaning of an error that a wrong address makes, however often one tries."""
    if isinstance(error, InvalidResponse):
        return Complaint(
            f"its answer is not that of a Redis server ({text[:200]}): correct host and port in "
            "DEDUP_INDEX_URL",
            Remedy.RECONNECT,
            refused=True,
        )
    if isinstance(error.__context__, ssl.SSLCertVerificationError):
        return Complaint(
            f"{text}; give its authority with ?ssl_ca_certs=FILE, or correct the host in "
            "DEDUP_INDEX_URL",
            refused=True,
        )
    if isinstance(error, NoSentinelError):
        return Complaint(text, Remedy.RECONNECT, refused=True)
    if isinstance(error, RedisClusterException) and "Cluster mode is not enabled" in text:
        return NO_NODE
    return None


def is_no_node(error: Exception) -> bool:
    """Whether a server that is no node of a cluster answers so when it is asked for its slots."""
    text = str(error).lower()
    return isinstance(error, ResponseError) and any(part in text for part in _NO_NODE_REPLIES)


def _understand_text(text: str) -> Complaint:
    # Inside a script, Redis 6 puts the place of the error before the code of the error.
    for word in text.replace("@user_script:", "@user_script: ").split():
        code = word.lstrip("-").rstrip(":")
        complaint = _CODES.get(code)
        if complaint is not None and code == "DAMAGED":
            what = text.partition(code)[2].strip()
            return attrs.evolve(complaint, text=f"{what}: {complaint.text}")
        if complaint is not None:
            return complaint
    for part, complaint in _PHRASES:
        if part in text:
            return complaint
    return Complaint(f"it answers {text[:200]!r}")


def as_error(text: str, where: str, *, refused: bool) -> DedupError:
    """The error that is raised to the user.

    :param where: address of the server without its password
    """
    kind = IndexRefusedError if refused else IndexUnavailableError
    return kind(f"the index at DEDUP_INDEX_URL={where} can't be used: {text}")


BATCH = 64
LANES = 2  # batches under way
# What opening raises where one of client and server speaks TLS and the other does not, or no Redis.
_NO_SERVER = (IndexRefusedError, IndexUnavailableError)
_UNANSWERED = 2.0  # seconds after which a server may be one that speaks no TLS
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

    arguments: Sequence[bytes | str | int]
    keys: Sequence[bytes] = ()
    script: Script | None = None
    session: Session | None = None

    def words(self, *, in_full: bool) -> tuple[bytes | str | int, ...]:
        """The command. ``in_full``: with the text of the script."""
        if self.script is None:
            return tuple(self.arguments)
        how = ("EVAL", self.script.text) if in_full else ("EVALSHA", self.script.sha)
        first = () if self.session is None else (self.session.argument,)
        return (*how, len(self.keys), *self.keys, *first, *self.arguments)

    def bytes_to_send(self, *, in_full: bool) -> bytes:
        """The command in the form in which it is sent."""
        return pack(self.words(in_full=in_full))


@attrs.frozen(eq=False)
class Result:
    """A reply. ``again``: an earlier try of the call may have been carried out as well."""

    reply: Reply
    again: bool = False


@attrs.define(eq=False)
class Try:
    """A call on its way."""

    call: Call
    again: bool = False
    in_full: bool = False
    result: Result | None = None
    trouble: Complaint | None = None
    later: asyncio.Future[Result] | None = None  # its result, if other calls don't wait for it

    @property
    def is_hopeless(self) -> bool:
        """Whether sending it again would not help."""
        return self.trouble is not None and self.trouble.remedy is Remedy.NONE


class Link(ABC):
    """Sends calls in batches to one server or to the masters of a cluster.

    :param where: the address for messages, without its password
    :param timeout: seconds that a reply may take
    :param retries: how often a call is sent again
    :param batcher: sends the calls
    :ivar opening: refusals are raised as such; later calls raise IndexUnavailableError
    :ivar on_round_trip: called for each exchange
    """

    def __init__(
        self, where: str, timeout: float, retries: int, batcher: Batcher[Call, Result]
    ) -> None:
        self.opening = True
        self.on_round_trip: Callable[[], None] = lambda: None
        self._where = where
        self._timeout = timeout
        self._retries = retries
        self._batcher = batcher
        self._gave_up = False

    @abstractmethod
    def _named(self) -> tuple[Sequence[tuple[str, int]], bool]:
        """Hosts and ports that the address names, and whether it says that they speak TLS."""

    async def first(self, call: Call) -> Result:
        """Send the call that opens the index.

        :raises IndexRefusedError: the user lacks a right, or one of server and address speaks TLS
            and the other does not
        """
        sent = self.submit(call)
        # A server without TLS never answers a client with it: after a while both are tried.
        try:
            await asyncio.wait([sent], timeout=_UNANSWERED)
        except asyncio.CancelledError:
            sent.cancel()
            raise
        if not sent.done() or isinstance(sent.exception(), _NO_SERVER):
            error = await self._mismatch()
            if error is not None:
                self._gave_up = True  # no call again: the server will never understand this client
                with contextlib.suppress(*_NO_SERVER):
                    await sent
                raise error
        try:
            return await sent
        except IndexUnavailableError as error:
            if NO_RIGHT in str(error):  # it will lack it for as long as the crawl runs
                raise IndexRefusedError(str(error)) from error
            raise

    async def _mismatch(self) -> DedupError | None:
        """The error if a server speaks TLS and the address does not, or the reverse."""
        places, tls = self._named()
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
        """Send a call with the next batch."""
        return self._batcher.submit(call)

    @abstractmethod
    async def close(self) -> None:
        """Finish what is under way and disconnect."""

    async def _attempt(self, tries: list[Try]) -> None:
        """Send what has no reply yet. Forgotten scripts cost no attempt: they were not run."""
        for _ in range(3):
            todo = [one for one in tries if one.result is None and not one.is_hopeless]
            if not todo:
                return
            await self._exchange(todo)
            if not await self._prepare([one for one in todo if one.result is None]):
                return

    @abstractmethod
    async def _exchange(self, todo: list[Try]) -> None:
        """Send calls once; each gets a result or a trouble."""

    @abstractmethod
    async def _prepare(self, failed: list[Try]) -> bool:
        """Do for the next exchange what the errors of the last one need.

        :returns: whether the calls should be sent again without a pause
        """

    def _error(self, trouble: Complaint | None) -> DedupError:
        assert trouble is not None
        if trouble.replaced:
            return IndexReplacedError(trouble.text)
        return as_error(trouble.text, self._where, refused=trouble.refused and self.opening)


def remedies_of(failed: Iterable[Try]) -> set[Remedy]:
    """What may help calls that have no result."""
    return {one.trouble.remedy for one in failed if one.trouble}


class RedisLink(Link):
    """Sends calls to the server that holds the namespace.

    :param url: address of the server
    :param key: any key of the namespace
    :ivar introduce: gives the call that goes first over every new connection, if any
    :ivar check_introduction: looks at its reply; may raise IndexRefusedError or IndexReplacedError
    """

    def __init__(self, url: str, where: str, key: str, timeout: float, retries: int) -> None:
        super().__init__(where, timeout, retries, Batcher(self._run, BATCH, lanes=LANES))
        self.introduce: Callable[[], Call | None] = lambda: None
        self.check_introduction: Callable[[Reply], None] = lambda _: None
        self._servers = RedisServers(read_address(url), key, timeout, self._greet)

    def _named(self) -> tuple[Sequence[tuple[str, int]], bool]:
        return self._servers.named()

    async def close(self) -> None:
        await self._batcher.join()
        await self._servers.close()

    async def _run(self, calls: list[Call]) -> list[Result | Exception]:
        tries = [Try(call) for call in calls]
        for attempt in range(self._retries + 1):
            if attempt:
                await asyncio.sleep(pause(attempt))
            await self._attempt(tries)
            open_tries = [one for one in tries if one.result is None]
            if not open_tries or self._gave_up or all(one.is_hopeless for one in open_tries):
                break
        return [one.result or self._error(one.trouble) for one in tries]

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
            # A new connection is greeted, and so opens the index again.
            await self._servers.drop()
        return bool(remedies & _FREE)

    async def _greet(self, connection: AbstractConnection) -> None:
        await connection.on_connect()
        call = self.introduce()
        if call is not None:
            try:
                self.check_introduction(await ask(connection, call.bytes_to_send(in_full=True)))
            except (IndexRefusedError, IndexReplacedError):
                await connection.disconnect(nowait=True)
                raise


_FREE = {Remedy.SCRIPT, Remedy.REDIRECT, Remedy.OPEN}


def _trouble(tries: Iterable[Try], trouble: Complaint) -> None:
    for one in tries:
        one.trouble = trouble


def pause(attempt: int) -> float:
    """Seconds before an attempt: doubled each time, and random, so that processes spread out."""
    return min(_LONGEST_PAUSE, _FIRST_PAUSE * float(2**attempt)) * random.uniform(0.5, 1)
