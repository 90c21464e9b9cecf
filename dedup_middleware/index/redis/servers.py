"""Connects, with redis-py, to the server that holds the namespace.

An address may name sentinels, the name under which they monitor the master, and a database::

    redis+sentinel://USER:PASSWORD@HOST:PORT,HOST:PORT/NAME/DATABASE?sentinel_password=PASSWORD

User and password are those of the server; the credentials of the sentinels are options.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import ssl
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, cast
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit

import attrs
import hiredis
from redis.asyncio import Redis
from redis.asyncio.cluster import ClusterNode, RedisCluster
from redis.asyncio.connection import AbstractConnection, ConnectionPool, SSLConnection, parse_url
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    InvalidResponse,
    NoPermissionError,
    RedisClusterException,
    RedisError,
    ResponseError,
)
from redis.exceptions import ConnectionError as RedisConnectionError

from dedup_middleware.base.errors import OptionsError
from dedup_middleware.base.settingfields import hide_password

# asyncio.wait_for may create a task; a timeout context saves two event loop iterations.
if sys.version_info >= (3, 11):
    from asyncio import timeout as time_limit
else:
    from async_timeout import timeout as time_limit

Reply = Any  # bytes, int, None, list, dict (RESP3) or an error reply
Words = Sequence[bytes | str | int]
Greet = Callable[[AbstractConnection], Awaitable[None]]

# Errors of connections and clusters; asyncio.TimeoutError is a class of its own before Python 3.11.
Failures = (RedisError, RedisClusterException, OSError, asyncio.TimeoutError)
# Error replies; redis-py derives two of them from its connection error.
_ERROR_REPLIES = (ResponseError, AuthenticationError, BusyLoadingError)

# Seconds after its last use during which a connection is reused without a check. After that the
# pool checks that it is alive, which takes as long as deciding two pages.
_FRESH = 0.02

_OPTIONS = ("db", "username", "password", "protocol", "client_name")
_TLS_FILES = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")
_TLS_OPTIONS = (*_TLS_FILES, "ssl_cert_reqs", "ssl_check_hostname")

_SENTINEL_SCHEMES = ("redis+sentinel://", "rediss+sentinel://")
_SENTINEL_PORT = 26379
_SENTINEL_OPTIONS = {"sentinel_username": "username", "sentinel_password": "password"}

# Errors of a server that answers, but is no sentinel or refuses this user.
_REFUSALS = (AuthenticationError, InvalidResponse, ResponseError)


def read_address(url: str) -> tuple[dict[str, Any], Sentinels | None]:
    """Arguments of a redis-py pool, and the sentinels to ask for the server's host, if any.

    :raises OptionsError: the address can't be used; the message hides its password
    """
    if not url.startswith(_SENTINEL_SCHEMES):
        return connection_options(nodes_of(url)[0]), None
    try:
        server, sentinels = split_address(url)
    except ValueError as error:
        raise _fail(url, str(error)) from None
    try:
        options = connection_options(server)
    except OptionsError as error:
        raise _fail(url, error.fix) from None
    return {k: v for k, v in options.items() if k not in {"host", "port"}}, sentinels


def nodes_of(url: str) -> list[str]:
    """Split a cluster's address into one address per node; any other address is returned as is.

    >>> nodes_of("redis+cluster://user:secret@a:1,b:2?protocol=3")
    ['redis://user:secret@a:1?protocol=3', 'redis://user:secret@b:2?protocol=3']
    """
    found = re.fullmatch(r"(rediss?)\+cluster://((?:[^/?#]*@)?)([^/?#@]*)(.*)", url, re.DOTALL)
    if found is None:
        return [url]
    scheme, credentials, hosts, rest = found.groups()
    return [f"{scheme}://{credentials}{host}{rest}" for host in hosts.split(",")]


def connection_options(url: str) -> dict[str, Any]:
    """Arguments of a redis-py pool for the address of one server.

    Options that change the format of replies, or wait longer than ``DEDUP_TIMEOUT``, are refused.

    :raises OptionsError: the address can't be used; the message hides its password
    """
    parts = _split(url)
    known = _OPTIONS + (_TLS_OPTIONS if parts.scheme == "rediss" else ())
    for name, _ in parse_qsl(parts.query, keep_blank_values=True):
        if name not in known:
            # After an unescaped question mark, the rest of a password looks like options.
            which = (
                f"no option {name!r}" if re.fullmatch("[a-z_]{1,30}", name) else "no such option"
            )
            raise _fail(url, f"there is {which}; use {', '.join(known)}")
    if parts.scheme == "unix" and not parts.path:
        raise _fail(url, "name the socket, for example unix:///run/redis.sock")
    database = "" if parts.scheme == "unix" else parts.path.strip("/")
    if database and not database.isdecimal():  # redis-py would use database 0
        raise _fail(url, "what follows the port must be the number of a database")
    try:
        options: dict[str, Any] = {"protocol": 2, **parse_url(url)}
        connection = ConnectionPool(**options).make_connection()  # type: ignore[no-untyped-call]
        if isinstance(connection, SSLConnection):
            connection.ssl_context.get()
        _check_place(options)
    except (RedisError, ValueError, TypeError, LookupError) as error:
        raise _fail(url, f"one of its options has a value that can't be used: {error}") from None
    except OSError as error:
        files = [f"{k}={v}" for k, v in parse_qsl(parts.query) if k in _TLS_FILES]
        why = f"its certificate files can't be read: {error}: correct {', '.join(files)}"
        raise _fail(url, why) from error
    return options


def _check_place(options: dict[str, Any]) -> None:
    """Raise ValueError for a host, socket path or client name that makes connecting fail later."""
    if re.search("[^!-~]", options.get("client_name", "")):
        raise ValueError("client_name takes letters, digits and signs of ASCII, and no spaces")
    if "\0" in options.get("path", ""):
        raise ValueError("the path of the socket holds a NUL character")
    try:
        options.get("host", "").encode("idna")
    except UnicodeError:
        raise ValueError("the host can't be one: its parts have 1 to 63 characters") from None


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        port_is_known = parts.port != 0  # ``port`` raises ValueError if it is no number
    except ValueError:
        port_is_known = False
    # After an unescaped / ? # or @ the rest of the password is parsed as path or options, so the
    # message shows neither.
    if not port_is_known or "@" in parts.path + parts.query + parts.fragment:
        fix = "write it as redis://USER:PASSWORD@HOST:PORT/DATABASE, with / ? # @ % in the password"
        raise _fail(url, f"{fix} as %2F %3F %23 %40 %25")
    return parts


def _fail(url: str, fix: str) -> OptionsError:
    # Options may hold a password as well, so the message shows nothing after the question mark.
    return OptionsError("DEDUP_INDEX_URL", hide_password(url).partition("?")[0], fix)


class NoSentinelError(RedisConnectionError):
    """No server in the address works as a sentinel, and retries would not help."""


@attrs.define
class Sentinels:
    """Sentinels that monitor a master, and are queried in turn for its address.

    ``hosts``: host and port of each, in the order of queries; ``service``: their name for the
    master; ``options``: further arguments of the connections to them.
    """

    hosts: tuple[tuple[str, int], ...]
    service: str
    options: dict[str, Any] = attrs.field(factory=dict, repr=False)

    async def master(self, timeout: float, server: Mapping[str, Any]) -> tuple[str, int]:
        """Ask the sentinels for host and port of the master.

        :param timeout: seconds to wait for each sentinel
        :param server: options of the connections to the server; its TLS options apply to sentinels
        :raises NoSentinelError: each is no sentinel, refuses the user or has no trusted certificate
        :raises redis.exceptions.ConnectionError: no sentinel replies, or none knows the master
        """
        options: dict[str, Any] = {
            "ssl": server.get("connection_class") is SSLConnection,
            "socket_timeout": timeout,
            "socket_connect_timeout": timeout,
            "retry": Retry(NoBackoff(), 0),
            **{name: value for name, value in server.items() if name.startswith("ssl_")},
            **self.options,
        }
        names = ", ".join(f"{host}:{port}" for host, port in self.hosts)
        why = f"the sentinels {names} know no master {self.service!r}"
        silent: list[Exception] = []
        for place, (host, port) in enumerate(self.hosts):
            try:
                async with Redis(host=host, port=port, **options) as sentinel:
                    asking = sentinel.sentinel_get_master_addr_by_name(self.service)
                    found: Any = await asking
            except (RedisError, OSError, asyncio.TimeoutError) as error:
                silent.append(error)
                continue
            if found is not None:
                # Next time, query the sentinel that answered first.
                self.hosts = (self.hosts[place], *self.hosts[:place], *self.hosts[place + 1 :])
                name, number = found
                return (name.decode() if isinstance(name, bytes) else str(name)), int(number)
        if len(silent) < len(self.hosts):
            raise RedisConnectionError(why)
        why = f"none of the sentinels {names} answers ({silent[0] or type(silent[0]).__name__})"
        if not all(isinstance(error, _REFUSALS) or _is_untrusted(error) for error in silent):
            raise RedisConnectionError(why)
        fix = "name sentinels, whose port is mostly 26379, in DEDUP_INDEX_URL"
        if any(map(_is_untrusted, silent)):
            fix = "give the authority of their certificates with ?ssl_ca_certs=FILE"
        elif any(isinstance(error, NoPermissionError) for error in silent):
            fix = "grant sentinel_username the command SENTINEL GET-MASTER-ADDR-BY-NAME"
        elif any(isinstance(error, AuthenticationError) for error in silent):
            fix = "correct sentinel_username and sentinel_password in DEDUP_INDEX_URL"
        raise NoSentinelError(f"{why}: {fix}")


def _is_untrusted(error: Exception) -> bool:
    return isinstance(error.__context__, ssl.SSLCertVerificationError)


def split_address(url: str) -> tuple[str, Sentinels]:
    """Split the address of sentinels into a server address and the sentinels.

    The server address has the host of the first sentinel; it is used only for its options.

    :raises ValueError: the address is malformed; the message says what to write instead

    >>> split_address("redis+sentinel://:pw@a:7,b/news/1?sentinel_password=x")[0]
    'redis://:pw@a:7/1'
    """
    scheme, _, rest = url.partition("://")
    before_query, _, query = rest.partition("?")
    authority, _, path = before_query.partition("/")
    credentials, at, names = authority.rpartition("@")
    service, slash, database = path.partition("/")
    if not service or "@" in path:
        raise ValueError(
            "name the sentinels and the master that they watch, as in "
            "redis+sentinel://HOST:PORT,HOST:PORT/mymaster/0"
        )
    hosts = tuple(_host(name) for name in names.split(","))
    options, own = [], {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name in _SENTINEL_OPTIONS:
            own[_SENTINEL_OPTIONS[name]] = value
        else:
            options.append((name, value))
    server = f"{scheme.partition('+')[0]}://{credentials}{at}{names.split(',')[0]}{slash}{database}"
    return server + ("?" + urlencode(options) if options else ""), Sentinels(hosts, service, own)


def _host(name: str) -> tuple[str, int]:
    try:
        parts = urlsplit(f"//{name}")
        if parts.hostname and not parts.path:
            return parts.hostname, parts.port or _SENTINEL_PORT
    except ValueError:
        pass
    raise ValueError("write each sentinel as HOST:PORT, separated by commas")


class RedisServers:
    """Connects to the server in the address, to the master that its sentinels name or, in a
    cluster, to the master that holds the namespace.

    :param key: any key of the namespace
    :param timeout: seconds that connecting, and each exchange, may take
    :param greet: sets up each new connection (authentication and so on) before its first use
    """

    def __init__(self, url: str, key: str, timeout: float, greet: Greet) -> None:
        options, self._sentinels = read_address(url)
        # A time limit per exchange costs a third of redis-py's time limit per reply.
        self._options = options | {"socket_timeout": None, "socket_connect_timeout": timeout}
        self._key = key
        self._timeout = timeout
        self._greet = greet
        self._node: dict[str, Any] = {}  # host and port of the master, if other than in the address
        self._pool = self._make_pool()
        self._cluster: RedisCluster | None = None
        self._nodes: list[ClusterNode] | None = None  # None: unknown yet; empty: no cluster
        self._moved = self._sentinels is not None
        self._finding = asyncio.Lock()
        self._fresh: list[tuple[float, AbstractConnection]] = []  # last use; not in the pool

    def _make_pool(self) -> ConnectionPool:
        return ConnectionPool(**self._options | self._node, redis_connect_func=self._greet)

    def moved(self) -> None:
        """Note that another server holds the namespace; it is looked up before the next use."""
        self._moved = True

    async def drop(self) -> None:
        """Discard all connections, and look up the master again before the next use."""
        known = self._cluster is not None or bool(self._nodes)
        self._moved = known or self._sentinels is not None
        await self._renew_pool()

    @contextlib.asynccontextmanager
    async def connection(self) -> AsyncIterator[AbstractConnection]:
        """A connection for one exchange, already set up by ``greet``.

        :raises Failures: no connection can be made; errors of ``greet`` are passed on
        """
        async with self._finding:
            if self._moved:
                if self._sentinels is not None:
                    host, port = await self._sentinels.master(self._timeout, self._options)
                else:
                    host, port = await self._ask_cluster()
                self._node = {"host": host, "port": port}
                await self._renew_pool()
                self._moved = False
        connection = await self._fresh_connection()
        pool = self._pool
        if connection is None:
            getting = pool.get_connection()  # type: ignore[no-untyped-call]
            connection = cast("AbstractConnection", await asyncio.wait_for(getting, self._timeout))
        is_fresh = False
        try:
            if self._nodes is None and self._sentinels is None:
                self._nodes = await asyncio.wait_for(_nodes(connection), self._timeout)
            yield connection
            is_fresh = pool is self._pool and connection.is_connected
        finally:
            if is_fresh:
                self._fresh.append((time.monotonic(), connection))
            else:
                await connection.disconnect(nowait=True)
                await pool.release(connection)

    async def _fresh_connection(self) -> AbstractConnection | None:
        """A connection used within ``_FRESH`` seconds, if any; older ones return to the pool."""
        while self._fresh:
            used, connection = self._fresh.pop()
            if time.monotonic() - used < _FRESH:
                return connection
            await self._pool.release(connection)
        return None

    async def exchange(
        self, connection: AbstractConnection, commands: Sequence[bytes]
    ) -> tuple[list[Reply], Exception | None]:
        """Send packed commands in one write and read their replies.

        :returns: the replies, including error replies, and the exception that broke the connection,
            or None; commands without a reply may or may not have been executed
        """
        replies: list[Reply] = []
        try:
            async with time_limit(self._timeout):
                await connection.send_packed_command(b"".join(commands), check_health=False)
                for _ in commands:
                    try:
                        replies.append(await connection.read_response(disconnect_on_error=False))
                    except _ERROR_REPLIES as error:
                        replies.append(error)
        except Failures as error:
            await connection.disconnect(nowait=True)
            return replies, error
        except BaseException:
            # Outstanding replies would be read as those of the next exchange.
            await connection.disconnect(nowait=True)
            raise
        return replies, None

    def named(self) -> tuple[Sequence[tuple[str, int]], bool]:
        """Hosts and ports in the address (none for a Unix socket), and whether it asks for TLS."""
        options = self._options
        tls = options.get("connection_class") is SSLConnection
        if self._sentinels is not None:
            return self._sentinels.hosts, tls
        return [(options["host"], options.get("port", 6379))] if "host" in options else [], tls

    async def close(self) -> None:
        """Close all connections."""
        self._finding = asyncio.Lock()  # a lock is bound to the event loop in which it was used
        self._fresh.clear()  # the pool closes connections in use, too
        with contextlib.suppress(*Failures):  # the server may be gone
            await self._pool.aclose()

    async def _renew_pool(self) -> None:
        """Replace the pool; connections in use are closed when they are released."""
        old, self._pool = self._pool, self._make_pool()
        fresh, self._fresh = self._fresh, []
        with contextlib.suppress(*Failures):  # the server may be gone
            for _, connection in fresh:
                await connection.disconnect(nowait=True)
                await old.release(connection)
            await old.disconnect(inuse_connections=False)

    async def _ask_cluster(self) -> tuple[str, int]:
        if self._cluster is None:
            options = dict(self._options)
            if options.pop("connection_class", None) is SSLConnection:
                options["ssl"] = True
            # The cluster client needs a limit of its own for servers that do not answer.
            options["socket_timeout"] = self._timeout
            self._cluster = RedisCluster(
                **options,
                startup_nodes=self._nodes,
                require_full_coverage=False,
                retry=Retry(NoBackoff(), 0),
            )
        try:
            # After the first call it queries all nodes it knows, not only the one in the address.
            await self._cluster.initialize()
            node = self._cluster.get_node_from_key(self._key)
        finally:
            await self._cluster.aclose()
        assert node is not None  # None is possible for replicas only
        return str(node.host), int(node.port)


async def other_protocol(host: str, port: int, timeout: float, *, tls: bool) -> bool:
    """Whether a server completes a TLS handshake (``tls``), or answers PING without TLS."""
    context = None
    if tls:
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE  # nothing secret is sent
    try:
        async with time_limit(timeout):
            reader, writer = await asyncio.open_connection(host, port, ssl=context)
            try:
                if tls:
                    return True  # the handshake is done, even if a client certificate is required
                writer.write(b"PING\r\n")
                return (await reader.read(1)) in {b"+", b"-"}
            finally:
                writer.close()
                await writer.wait_closed()
    except (OSError, ValueError, asyncio.TimeoutError):
        return False


async def _nodes(connection: AbstractConnection) -> list[ClusterNode]:
    """The masters of the server's cluster, to try if one dies; empty if it is in no cluster."""
    try:
        # HELLO names the mode of the server, and every user may send it.
        about = dict(pairs(await ask(connection, pack((b"HELLO",)))))
        if about.get(b"mode") != b"cluster":
            return []
        shares = await ask(connection, pack((b"CLUSTER", b"SLOTS")))
    except ResponseError:  # an older server, or the user lacks the right
        return []
    hosts = {(share[2][0], share[2][1]) for share in shares}
    return [ClusterNode(host.decode(), port) for host, port in sorted(hosts) if host]


async def ask(connection: AbstractConnection, command: bytes) -> Reply:
    """Send one command and read its reply; raises RedisError for an error reply, too."""
    await connection.send_packed_command(command, check_health=False)
    return await connection.read_response()


def pairs(reply: Reply) -> Iterable[tuple[Any, Any]]:
    """The (field, value) pairs of a reply, in the format of protocol 2 or 3."""
    return reply.items() if isinstance(reply, dict) else zip(reply[::2], reply[1::2], strict=True)


def pack(words: Words) -> bytes:
    """A command in wire format (RESP)."""
    # hiredis packs in C; packing by redis-py takes half of a call's time.
    packed: bytes = hiredis.pack_command(tuple(words))  # type: ignore[arg-type]  # its stub takes one word
    return packed
