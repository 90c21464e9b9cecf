"""Addresses of Redis servers, and what is wrong with some of them."""

from __future__ import annotations

import ssl

import pytest

from dedup_middleware.errors import OptionsError
from dedup_middleware.index.memory import MemoryIndex
from dedup_middleware.index.opening import open_index
from dedup_middleware.index.redis import RedisIndex
from dedup_middleware.index.redis_url import Address, Tls, parse_redis_url
from dedup_middleware.index.sqlite import SQLiteIndex
from dedup_middleware.options import Options


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("redis://", Address()),
        ("redis://cache", Address(host="cache")),
        ("redis://cache:6380/2", Address(host="cache", port=6380, database=2)),
        ("redis://[::1]:7/", Address(host="::1", port=7)),
        ("redis://:p%40ss@h", Address(host="h", password="p@ss")),
        ("redis://bob:x:y@h", Address(host="h", username="bob", password="x:y")),
        ("redis://h?db=3&protocol=3", Address(host="h", database=3, protocol=3)),
        ("unix:///run/redis.sock?db=1", Address(path="/run/redis.sock", database=1)),
        ("rediss://h", Address(host="h", tls=Tls())),
        (
            "rediss://h?ssl_cert_reqs=none&ssl_check_hostname=no&ssl_ca_certs=/ca.pem",
            Address(
                host="h",
                tls=Tls(ca_certs="/ca.pem", cert_reqs=ssl.CERT_NONE, check_hostname=False),
            ),
        ),
    ],
)
def test_addresses(url: str, address: Address) -> None:
    """All forms of an address are understood."""
    assert parse_redis_url(url) == address


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("redis://:s3cret@h:port", "HOST:PORT"),
        ("redis://:s3cret@h/one", "the database is a number, not 'one'"),
        ("redis://:s3cret@h?timeout=3", "no option 'timeout'"),
        ("redis://:s3cret@h?ssl_ca_certs=x", "no option 'ssl_ca_certs'"),
        ("redis://h?password=s3cret&db=x", "'db' has a value that can't be used"),
        ("rediss://:s3cret@h?ssl_cert_reqs=maybe", "'ssl_cert_reqs' has a value"),
        ("unix://", "name the socket"),
    ],
)
def test_unusable_addresses(url: str, message: str) -> None:
    """What can't be used is told with the setting and the fix, never with the password."""
    with pytest.raises(OptionsError) as caught:
        parse_redis_url(url)
    assert message in str(caught.value)
    assert "DEDUP_INDEX_URL" in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_address_hides_its_password() -> None:
    """Neither form of an address shows the password."""
    address = parse_redis_url("redis://bob:s3cret@h:1")
    assert "s3cret" not in repr(address) + str(address)


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
