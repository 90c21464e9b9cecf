"""How much memory a namespace takes, estimated from a sample of its keys."""

from __future__ import annotations

import numpy as np

from dedup_middleware.errors import IndexUnavailableError
from dedup_middleware.index.redis_expiry import Server, scan
from dedup_middleware.index.redis_scripts import TEXT_CHUNK

_SCANS = 8
_SAMPLE = 200
_CHUNKS = 500
_BUCKET_NAMES = (3, 7)  # bytes behind the namespace, without and with a generation


async def estimate_bytes(server: Server, pages: int, text: int, buckets: int) -> int:
    """Bytes of memory, keys included.

    Chunks have a known size. Buckets are sampled by ``SCAN``, whose order is that of the server's
    hash table and so as good as random. A server that does not let us measure is asked for the
    plain lengths instead.

    :param pages: pages that have a satellite
    :param text: bytes of addresses and payloads
    :param buckets: number of buckets
    """
    rows, size = server.layout.rows, server.layout.row.itemsize
    chunks = -(-(pages + 1) // rows) * (rows * size) if pages else 0
    names: set[bytes] = set()
    scans = 0
    try:
        chunks += await _text_bytes(server, -(-text // TEXT_CHUNK))
        async for found in scan(server):
            names.update(name for name in found if len(name) - len(server.prefix) in _BUCKET_NAMES)
            scans += 1
            if scans == _SCANS or len(names) >= _SAMPLE:
                break
        sample = sorted(names)[:_SAMPLE]
        sizes = [await server.ask(b"MEMORY", b"USAGE", name) for name in sample]
    except IndexUnavailableError:
        return chunks
    sizes = [size for size in sizes if size]
    return chunks + (round(sum(sizes) / len(sizes) * buckets) if sizes else 0)


async def _text_bytes(server: Server, chunks: int) -> int:
    """Bytes of the text chunks that have not been given back, by a sample of them."""
    sample = np.unique(np.linspace(0, chunks - 1, min(chunks, _CHUNKS)).astype(np.int64)).tolist()
    if not sample:
        return 0
    names = [server.prefix + b"a" + chunk.to_bytes(4, "little") for chunk in sample]
    alive = int(await server.ask(b"EXISTS", *names))
    return round(chunks * alive / len(sample)) * TEXT_CHUNK
