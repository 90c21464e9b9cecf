"""The address of a Redis server, read from ``DEDUP_INDEX_URL``."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import attrs

from dedup_middleware.errors import OptionsError
from dedup_middleware.options import hide_password

_SETTING = "DEDUP_INDEX_URL"
_YES_NO = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_CERT_REQS = {
    "none": ssl.CERT_NONE,
    "optional": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}


@attrs.frozen(kw_only=True)
class Tls:
    """How the server's certificate is checked, and which one is shown to it."""

    ca_certs: str | None = None
    certfile: str | None = None
    keyfile: str | None = None
    cert_reqs: ssl.VerifyMode = ssl.CERT_REQUIRED
    check_hostname: bool = True

    def context(self) -> ssl.SSLContext:
        """A context for the connection.

        :raises OSError: a file named is missing or is no certificate
        """
        context = ssl.create_default_context(cafile=self.ca_certs)
        context.check_hostname = self.check_hostname and self.cert_reqs is not ssl.CERT_NONE
        context.verify_mode = self.cert_reqs
        if self.certfile is not None:
            context.load_cert_chain(self.certfile, self.keyfile)
        return context


@attrs.frozen(kw_only=True)
class Address:
    """Where a Redis server is and how to sign on to it. Its ``repr`` hides the password."""

    host: str = "localhost"
    port: int = 6379
    path: str | None = None  # of a unix socket
    database: int = 0
    username: str | None = None
    password: str | None = attrs.field(default=None, repr=False)
    tls: Tls | None = None
    protocol: int = 2

    def __str__(self) -> str:
        return self.path if self.path is not None else f"{self.host}:{self.port}"


def _choice(choices: dict[str, Any]) -> Callable[[str], Any]:
    return lambda text: choices[text.lower()]


_TLS_OPTIONS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "ssl_ca_certs": ("ca_certs", str),
    "ssl_certfile": ("certfile", str),
    "ssl_keyfile": ("keyfile", str),
    "ssl_cert_reqs": ("cert_reqs", _choice(_CERT_REQS)),
    "ssl_check_hostname": ("check_hostname", _choice(_YES_NO)),
}
_OPTIONS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "db": ("database", int),
    "username": ("username", str),
    "password": ("password", str),
    "protocol": ("protocol", _choice({"2": 2, "3": 3})),
}


def parse_redis_url(url: str) -> Address:
    """Read ``redis://``, ``rediss://`` (TLS) and ``unix://`` addresses.

    The path of the first two is the number of the database. Options follow a ``?``: ``db``,
    ``username``, ``password``, ``protocol`` (2 or 3) and, with ``rediss://``, ``ssl_ca_certs``,
    ``ssl_certfile``, ``ssl_keyfile``, ``ssl_cert_reqs`` (required, optional, none) and
    ``ssl_check_hostname`` (true, false).

    :raises OptionsError: the address can't be used; the message hides its password

    >>> str(parse_redis_url("redis://crawler:secret@cache:6380/2"))
    'cache:6380'
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise _fail(url, f"write it as redis://HOST:PORT/DATABASE ({error})") from None
    fields: dict[str, Any] = {
        "username": unquote(parts.username) if parts.username else None,
        "password": unquote(parts.password) if parts.password else None,
    }
    if parts.scheme == "unix":
        fields["path"] = unquote(parts.path)
        if not fields["path"]:
            raise _fail(url, "name the socket, for example unix:///run/redis.sock")
    else:
        fields["host"] = unquote(parts.hostname) if parts.hostname else "localhost"
        fields["port"] = port or 6379
        database = parts.path.strip("/")
        if database:
            if not database.isdecimal():
                raise _fail(url, f"the database is a number, not {database!r}")
            fields["database"] = int(database)
    options = dict(_OPTIONS)
    if parts.scheme == "rediss":
        options |= _TLS_OPTIONS
    tls: dict[str, Any] = {}
    for name, text in parse_qsl(parts.query, keep_blank_values=True):
        if name not in options:
            raise _fail(url, f"it has no option {name!r}; there are {', '.join(options)}")
        field, convert = options[name]
        try:
            (tls if name in _TLS_OPTIONS else fields)[field] = convert(text)
        except (KeyError, ValueError):
            raise _fail(url, f"its option {name!r} has a value that can't be used") from None
    return Address(**fields, tls=Tls(**tls) if parts.scheme == "rediss" else None)


def _fail(url: str, fix: str) -> OptionsError:
    # An option may hold the password as well, so nothing behind the question mark is shown.
    return OptionsError(_SETTING, hide_password(url).partition("?")[0], fix)
