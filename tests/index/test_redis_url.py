"""Addresses of Redis servers, and what is wrong with some of them."""

from __future__ import annotations

from typing import Any

import pytest
from redis.asyncio.connection import SSLConnection, UnixDomainSocketConnection

from dedup_middleware.base.errors import OptionsError
from dedup_middleware.base.options import Options
from dedup_middleware.index.memory.index import MemoryIndex
from dedup_middleware.index.opening import open_index
from dedup_middleware.index.redis.index import RedisIndex
from dedup_middleware.index.redis.servers import connection_options
from dedup_middleware.index.sqlite.index import SQLiteIndex


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("redis://", {}),
        ("redis://cache", {"host": "cache"}),
        ("redis://cache:6380/2", {"host": "cache", "port": 6380, "db": 2}),
        ("redis://[::1]:7/0", {"host": "::1", "port": 7, "db": 0}),
        ("redis://:p%40ss@h", {"host": "h", "password": "p@ss"}),
        ("redis://bob:x:y@h", {"host": "h", "username": "bob", "password": "x:y"}),
        ("redis://h?db=3&protocol=3", {"host": "h", "db": 3, "protocol": 3}),
        (
            "unix:///run/redis.sock?db=1",
            {
                "path": "/run/redis.sock",
                "db": 1,
                "connection_class": UnixDomainSocketConnection,
            },
        ),
        ("rediss://h", {"host": "h", "connection_class": SSLConnection}),
        (
            "rediss://h?ssl_cert_reqs=none&ssl_check_hostname=no",
            {
                "host": "h",
                "connection_class": SSLConnection,
                "ssl_cert_reqs": "none",
                "ssl_check_hostname": False,
            },
        ),
    ],
)
def test_addresses(url: str, options: dict[str, Any]) -> None:
    """All forms of an address are understood."""
    found = connection_options(url)
    found["protocol"] = int(found["protocol"])  # a text in older releases of redis-py
    assert found == {"protocol": 2, **options}


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("redis://:s3cret@h:port", "HOST:PORT"),
        ("redis://:s3cret/x@h", "HOST:PORT"),
        ("redis://:s3cret@h/one", "what follows the port must be the number of a database"),
        ("redis://:12/s3cret@h", "HOST:PORT"),
        ("redis://:12?s3cret@h", "HOST:PORT"),
        ("redis://:12#s3cret@h", "HOST:PORT"),
        ("redis://[h", "HOST:PORT"),
        ("redis://:s3cret@h?timeout=3", "no option 'timeout'"),
        ("redis://:s3cret@h?decode_responses=true", "no option 'decode_responses'"),
        ("redis://:s3cret@h?ssl_ca_certs=x", "no option 'ssl_ca_certs'"),
        ("redis://h?password=s3cret&db=x", "Invalid value for 'db'"),
        ("redis://:s3cret@h?protocol=4", "protocol must be either 2 or 3"),
        ("redis://:s3cret@h?client_name=my%20crawl", "client_name takes letters"),
        ("rediss://:s3cret@h?ssl_cert_reqs=maybe", "Certificate Requirements Flag: maybe"),
        ("rediss://:s3cret@h?ssl_ca_certs=/none.pem", "correct ssl_ca_certs=/none.pem"),
        ("unix://", "name the socket"),
    ],
)
def test_unusable_addresses(url: str, message: str) -> None:
    """The error on a bad address names the setting and the fix, never the password."""
    with pytest.raises(OptionsError) as caught:
        RedisIndex(Options(index_url=url))
    assert message in str(caught.value)
    assert "DEDUP_INDEX_URL" in str(caught.value)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("memory:", MemoryIndex),
        ("sqlite:some/index.db", SQLiteIndex),
        ("redis://localhost", RedisIndex),
        ("rediss://localhost", RedisIndex),
        ("unix:///run/redis.sock", RedisIndex),
    ],
)
def test_index_by_address(url: str, kind: type) -> None:
    """The address alone decides which index it is; nothing is opened yet."""
    assert type(open_index(Options(index_url=url))) is kind
