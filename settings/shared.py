"""Many spiders that share one index in Redis.

Environment variables: ``DEDUP_INDEX_URL`` (default ``redis://127.0.0.1:6379/0``) and
``DEDUP_REDIS_PASSWORD``, which is separate so that the address can be shown.
"""

import os
from urllib.parse import quote, urlsplit, urlunsplit

from settings.base import *  # noqa: F403


def with_password(url: str, password: str | None) -> str:
    """Insert a password into an address, unless it already has one.

    >>> with_password("redis://cache:6379/0", "a/b")
    'redis://:a%2Fb@cache:6379/0'
    >>> with_password("redis://user@cache:6379/0", "secret")
    'redis://user:secret@cache:6379/0'
    >>> with_password("unix:///run/redis.sock", "a/b")
    'unix:///run/redis.sock?password=a%2Fb'
    """
    parts = urlsplit(url)
    if parts.scheme == "unix" and password and "password=" not in parts.query:
        return f"{url}{'&' if parts.query else '?'}password={quote(password, safe='')}"
    # Addresses without a host (memory:, sqlite:) have no place for a password.
    if not password or not parts.hostname or parts.password:
        return url
    host = parts.netloc.rpartition("@")[2]
    netloc = f"{parts.username or ''}:{quote(password, safe='')}@{host}"
    return urlunsplit(parts._replace(netloc=netloc))


DEDUP_INDEX_URL = with_password(
    os.environ.get("DEDUP_INDEX_URL") or "redis://127.0.0.1:6379/0",
    os.environ.get("DEDUP_REDIS_PASSWORD"),
)
