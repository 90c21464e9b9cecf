"""How much memory a namespace takes, estimated from a sample of its keys."""

from __future__ import annotations

import numpy as np

from dedup_middleware.errors import IndexUnavailableError
from dedup_middleware.index.redis_buckets import held_by
from dedup_middleware.index.redis_expiry import Server, scan
from dedup_middleware.index.redis_scripts import TEXT_CHUNK

_SAMPLE = 20  # buckets of a hash
_CHUNKS = 500


async def estimate_bytes(server: Server, pages: int, text: int, *, windowed: bool) -> int:
    """Bytes of memory, keys included.

    Chunks have a known size; of each hash some buckets are looked at, in the order of the server's
    hash table, which is as good as random. Where the server forbids MEMORY USAGE, plain lengths are
    used instead.

    :param pages: pages that have a satellite
    :param text: bytes of addresses and payloads
    """
    rows, size = server.layout.rows, server.layout.row.itemsize
    chunks = -(-(pages + 1) // rows) * (rows * size) if pages else 0
    hashes: set[bytes] = set()
    try:
        chunks += await _text_bytes(server, -(-text // TEXT_CHUNK))
        async for found in scan(server):
            for name in found:
                held = held_by(name, server.prefix, windowed=windowed)
                if held is not None and not held.field:
                    hashes.add(name)
        return chunks + sum([await _bucket_bytes(server, name) for name in hashes])
    except IndexUnavailableError:
        return chunks


async def _bucket_bytes(server: Server, name: bytes) -> int:
    """Bytes of all buckets of a hash, those that are keys of their own included."""
    own = int(await server.ask(b"MEMORY", b"USAGE", name, b"SAMPLES", _SAMPLE) or 0)
    _, pairs = await server.ask(b"HSCAN", name, 0, b"COUNT", _SAMPLE)
    fields = list(zip(pairs[::2], pairs[1::2], strict=True))
    large = [name + field for field, value in fields if not value]
    if not large:
        return own
    sizes = [await server.ask(b"MEMORY", b"USAGE", key) or 0 for key in large]
    count = int(await server.ask(b"HLEN", name))
    return own + round(sum(map(int, sizes)) * count / len(fields))


async def _text_bytes(server: Server, chunks: int) -> int:
    """Bytes of the text chunks that have not been given back, by a sample of them."""
    sample = np.unique(np.linspace(0, chunks - 1, min(chunks, _CHUNKS)).astype(np.int64)).tolist()
    if not sample:
        return 0
    names = [server.prefix + b"a" + chunk.to_bytes(4, "little") for chunk in sample]
    alive = int(await server.ask(b"EXISTS", *names))
    return round(chunks * alive / len(sample)) * TEXT_CHUNK
