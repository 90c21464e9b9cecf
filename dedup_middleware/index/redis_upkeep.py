"""Walking through all pages and all buckets of a namespace."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import numpy as np

from dedup_middleware.index.compaction import Living, compacted
from dedup_middleware.index.growth import GUARD
from dedup_middleware.index.records import Satellites
from dedup_middleware.index.redis_expiry import Server, scan
from dedup_middleware.index.redis_scripts import ROW, ROWS
from dedup_middleware.index.tables import SIMHASH_TABLES

_CHUNKS = 16  # chunks of satellites read by one call
_BUCKET_NAMES = (3, 7)  # bytes behind the prefix, without and with a generation


async def chunks(server: Server) -> AsyncIterator[tuple[int, Satellites]]:
    """Every chunk that exists: its number and its pages, FREE ones included.

    Leases that have run out are ended before, so that states are those of this moment.
    """
    await server.run("lapse")
    last = (await server.counters())[0]
    every = range(last // ROWS + 1)
    for start in range(0, len(every), _CHUNKS):
        part = every[start : start + _CHUNKS]
        names = [server.prefix + b"s" + chunk.to_bytes(4, "little") for chunk in part]
        for chunk, raw in zip(part, await server.ask(b"MGET", *names), strict=True):
            if raw:
                count = min(len(raw) // ROW.itemsize, ROWS)
                rows = np.frombuffer(raw, ROW, count=count)
                numbers = np.arange(chunk * ROWS, chunk * ROWS + count, dtype=np.uint64)
                pages = Satellites(
                    numbers,
                    np.ascontiguousarray(rows["content"]),
                    np.ascontiguousarray(rows["state"]),
                )
                yield chunk, pages


async def compact_buckets(server: Server, living: Living) -> int:
    """Rewrite all buckets that hold records of pages that are gone; returns how many records.

    A bucket that changes in the meantime is left as it is.
    """
    removed = 0
    async for names in scan(server):
        buckets = sorted({n for n in names if len(n) - len(server.prefix) in _BUCKET_NAMES})
        if not buckets:
            continue
        work: list[tuple[bytes, bytes, bytes, int]] = []
        for name, raw in zip(buckets, await server.ask(b"MGET", *buckets), strict=True):
            wide = name[len(server.prefix)] in SIMHASH_TABLES
            better = compacted(raw, living, wide=wide) if raw else None
            if better is not None:
                work.append((name, raw, *better))
        calls = [
            server.run("compact", len(raw), raw[-GUARD:], data, more_keys=[name])
            for name, raw, data, _ in work
        ]
        for (_, _, _, records), done in zip(work, await asyncio.gather(*calls), strict=True):
            removed += records * done
    return removed
