"""Walking through the buckets of a Redis namespace of schema 1, where each was a key of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator

import numpy as np

from dedup_middleware.index.redis_expiry import Server, scan

_MOST = 512  # buckets read by one call
_PLACES = np.array([1 << 16, 1 << 8, 1])  # of the bytes of a bucket's number
_PLAIN, _TIMED = 3, 7  # bytes of a bucket's name behind the prefix: without and with a generation


async def walk_buckets(server: Server, live: range | None) -> AsyncIterator[tuple[int, bytes]]:
    """Every bucket that holds a record, ascending.

    ``SCAN`` gives names in no order, some of them twice, and each generation by itself: a map of
    the 2^24 possible buckets brings them into order.

    :param live: the generations; None: the index has no window
    """
    length = len(server.prefix) + (_PLAIN if live is None else _TIMED)
    known = np.zeros(1 << 24, np.bool_)
    async for names in scan(server):
        raw = b"".join([name for name in names if len(name) == length])
        found = np.frombuffer(raw, np.uint8).reshape(-1, length)[:, len(server.prefix) :]
        known[found[:, :_PLAIN].astype(np.int64) @ _PLACES] = True
    buckets = np.flatnonzero(known).tolist()
    del known
    ends = [b""] if live is None else [one.to_bytes(4, "big") for one in live]
    step = max(1, _MOST // len(ends))
    for start in range(0, len(buckets), step):
        part = buckets[start : start + step]
        stems = [server.prefix + bucket.to_bytes(3, "big") for bucket in part]
        reply = await server.ask(b"MGET", *[stem + end for stem in stems for end in ends])
        for i, bucket in enumerate(part):
            data = b"".join(raw or b"" for raw in reply[i * len(ends) : (i + 1) * len(ends)])
            if data:
                yield bucket, data
