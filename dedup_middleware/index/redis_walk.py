"""Walking through all buckets of a namespace, in order and in bounded memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import numpy as np

from dedup_middleware.index.redis_ahead import in_order
from dedup_middleware.index.redis_expiry import Server, scan

_AHEAD = 3  # calls under way
_BYTES = 1 << 20  # of buckets that one call should read
_MOST = 512  # buckets read by one call
_PLACES = np.array([1 << 16, 1 << 8, 1])  # of the bytes of a bucket's number
# Buckets, their bytes in all live generations one after the other, number of these generations.
_Part = tuple[list[int], list[bytes | None], int]
_PLAIN, _TIMED = 3, 7  # bytes of a bucket's name behind the prefix: without and with a generation


async def walk_buckets(
    server: Server, live: Callable[[], range] | None
) -> AsyncIterator[tuple[int, bytes]]:
    """Every bucket that holds a record, ascending; see :meth:`.Index.buckets`.

    ``SCAN`` gives names in no order, some of them twice, and each generation by itself: a map of
    the 2^24 possible buckets brings them into order.

    :param live: the generations that are alive at this moment; None: the index has no window
    """
    length = len(server.prefix) + (_PLAIN if live is None else _TIMED)
    known = np.zeros(1 << 24, np.bool_)
    async for names in scan(server):
        raw = b"".join([name for name in names if len(name) == length])
        found = np.frombuffer(raw, np.uint8).reshape(-1, length)[:, len(server.prefix) :]
        known[found[:, :_PLAIN].astype(np.int64) @ _PLACES] = True
    buckets = np.flatnonzero(known).tolist()
    del known
    size = 64

    async def calls() -> AsyncIterator[Coroutine[Any, Any, _Part]]:
        at = 0
        while at < len(buckets):
            part = buckets[at : at + size]
            at += len(part)
            yield _read(server, part, [b""] if live is None else [_end(one) for one in live()])

    async for part, reply, count in in_order(calls(), _AHEAD):
        total = 0
        for i, bucket in enumerate(part):
            data = (
                (reply[i] or b"")
                if count == 1
                else b"".join([raw or b"" for raw in reply[i * count : (i + 1) * count]])
            )
            total += len(data)
            if data:
                yield bucket, data
        size = max(1, min(_MOST, _BYTES * len(part) // max(1, total)))


async def _read(server: Server, buckets: list[int], ends: list[bytes]) -> _Part:
    stems = [server.prefix + bucket.to_bytes(3, "big") for bucket in buckets]
    reply = await server.ask(b"MGET", *[stem + end for stem in stems for end in ends])
    return buckets, reply, len(ends)


def _end(generation: int) -> bytes:
    return generation.to_bytes(4, "big")
