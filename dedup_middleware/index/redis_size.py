"""How much memory a namespace takes, estimated from a sample of its keys."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from dedup_middleware.errors import IndexUnavailableError
from dedup_middleware.index.redis_scripts import ADDRESS_CHUNK, ROW, ROWS

_SCANS = 8
_SCAN = 500  # keys a scan looks at
_SAMPLE = 200
_BUCKET_NAME = 3  # bytes behind the namespace

Ask = Callable[..., Awaitable[Any]]


async def estimate_bytes(ask: Ask, prefix: bytes, pages: int, text: int, buckets: int) -> int:
    """Bytes of memory, keys included.

    Chunks have a known size. Buckets are sampled by ``SCAN``, whose order is that of the server's
    hash table and so as good as random. A server that does not let us measure is asked for the
    plain lengths instead.

    :param ask: sends one command, returns its reply
    :param pages: page numbers given so far
    :param text: bytes of addresses
    :param buckets: number of buckets
    """
    chunks = -(-(pages + 1) // ROWS) * (ROWS * ROW.itemsize) if pages else 0
    chunks += -(-text // ADDRESS_CHUNK) * ADDRESS_CHUNK
    names: set[bytes] = set()
    cursor: bytes | int = 0
    pattern = bytes(prefix).replace(b"[", b"\\[").replace(b"*", b"\\*").replace(b"?", b"\\?")
    try:
        for _ in range(_SCANS):
            cursor, found = await ask(b"SCAN", cursor, b"MATCH", pattern + b"*", b"COUNT", _SCAN)
            names.update(name for name in found if len(name) == len(prefix) + _BUCKET_NAME)
            if int(cursor) == 0 or len(names) >= _SAMPLE:
                break
        sample = sorted(names)[:_SAMPLE]
        sizes = [await ask(b"MEMORY", b"USAGE", name) for name in sample]
    except IndexUnavailableError:
        return chunks
    sizes = [size for size in sizes if size]
    return chunks + (round(sum(sizes) / len(sizes) * buckets) if sizes else 0)
