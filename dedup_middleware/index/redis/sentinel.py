"""Redis Sentinel: addresses of sentinels, and finding the master through them.

An address names the sentinels, the name under which they watch the master, and a database::

    redis+sentinel://USER:PASSWORD@HOST:PORT,HOST:PORT/NAME/DATABASE?sentinel_password=PASSWORD

User and password are those of the servers; the sentinels' own are options.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import attrs
from redis.asyncio import Redis
from redis.asyncio.connection import SSLConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import (
    AuthenticationError,
    InvalidResponse,
    NoPermissionError,
    RedisError,
    ResponseError,
)
from redis.exceptions import ConnectionError as RedisConnectionError

SCHEMES = ("redis+sentinel://", "rediss+sentinel://")
_PORT = 26379
_OWN_OPTIONS = {"sentinel_username": "username", "sentinel_password": "password"}

# Answers of a server that is there and is no sentinel, or none for this user.
_REFUSALS = (AuthenticationError, InvalidResponse, ResponseError)


class NoSentinelError(RedisConnectionError):
    """No server of an address can be asked as a sentinel, however often one tries."""


@attrs.define
class Sentinels:
    """Sentinels that watch over a master, and are asked for it one after the other.

    ``hosts``: name and port of each, in the order in which they are asked; ``service``: what they
    call the master; ``options``: further arguments of the connections to them.
    """

    hosts: tuple[tuple[str, int], ...]
    service: str
    options: dict[str, Any] = attrs.field(factory=dict, repr=False)

    async def master(self, timeout: float, server: Mapping[str, Any]) -> tuple[str, int]:
        """Host and port of the master.

        :param timeout: seconds that each sentinel may take
        :param server: options of the connections to the server; TLS is the same for the sentinels
        :raises NoSentinelError: each server is another one, or does not accept the password
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
                # Try the sentinel that answered first the next time.
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
    """Whether no known authority vouches for the certificate of a server."""
    return isinstance(error.__context__, ssl.SSLCertVerificationError)


def split_address(url: str) -> tuple[str, Sentinels]:
    """Address of the first sentinel in the form of a server's, and all sentinels.

    The first is as good as a server's own address for reading the options in it.

    :raises ValueError: the text says what to write instead

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
        if name in _OWN_OPTIONS:
            own[_OWN_OPTIONS[name]] = value
        else:
            options.append((name, value))
    server = f"{scheme.partition('+')[0]}://{credentials}{at}{names.split(',')[0]}{slash}{database}"
    return server + ("?" + urlencode(options) if options else ""), Sentinels(hosts, service, own)


def _host(name: str) -> tuple[str, int]:
    try:
        parts = urlsplit(f"//{name}")
        if parts.hostname and not parts.path:
            return parts.hostname, parts.port or _PORT
    except ValueError:
        pass
    raise ValueError("write each sentinel as HOST:PORT, separated by commas")
