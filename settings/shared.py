"""Many spiders, one index in Redis.

Environment: ``DEDUP_INDEX_URL`` (default ``redis://127.0.0.1:6379/0``) and, apart from it so that
the address can be shown, ``DEDUP_REDIS_PASSWORD``.
"""

import os
from urllib.parse import quote, urlsplit, urlunsplit

from settings.base import *  # noqa: F403


def with_password(url: str, password: str | None) -> str:
    """The address with the password in it; one that the address has already stays.

    >>> with_password("redis://cache:6379/0", "a/b")
    'redis://:a%2Fb@cache:6379/0'
    >>> with_password("redis://user@cache:6379/0", "secret")
    'redis://user:secret@cache:6379/0'
    """
    parts = urlsplit(url)
    # No host: memory:, sqlite: and unix: know no password here.
    if not password or not parts.hostname or parts.password:
        return url
    host = parts.netloc.rpartition("@")[2]
    netloc = f"{parts.username or ''}:{quote(password, safe='')}@{host}"
    return urlunsplit(parts._replace(netloc=netloc))


DEDUP_INDEX_URL = with_password(
    os.environ.get("DEDUP_INDEX_URL") or "redis://127.0.0.1:6379/0",
    os.environ.get("DEDUP_REDIS_PASSWORD"),
)
