"""Names of the keys that hold buckets in Redis; expiry of generations; memory estimates."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Protocol

import attrs

from dedup_middleware.base.errors import IndexUnavailableError
from dedup_middleware.index.redis.scripts import COUNTER, COUNTERS, TEXT_CHUNK, RowLayout
from dedup_middleware.index.redis.servers import Reply, pairs

FIELD = 2  # bytes of a field's name, which is the bucket's prefix
_HASH = b"b"
_GENERATION = 4


def hash_of(prefix: bytes, table: int, end: bytes = b"") -> bytes:
    """Name of the hash that holds the buckets of a table.

    :param end: the generation, see :meth:`.ServerIndex.ends`
    """
    return prefix + _HASH + bytes((table,)) + end


def end_of(generation: int) -> bytes:
    """The suffix of a hash's name that gives its generation."""
    return generation.to_bytes(_GENERATION, "big")


def field_of(bucket: int) -> bytes:
    """Name of a bucket's field in the hash of its table."""
    return (bucket & 0xFFFF).to_bytes(FIELD, "big")


@attrs.frozen
class Held:
    """Contents of a key: all buckets of a table, or the large bucket of one ``field``."""

    table: int
    generation: int  # 0 in an index without window
    field: bytes = b""


def held_by(name: bytes, prefix: bytes) -> Held | None:
    r"""Parse the name of a key that holds buckets; None for other keys.

    >>> held_by(hash_of(b"{a}", 2, end_of(7)), b"{a}")
    Held(table=2, generation=7, field=b'')
    >>> held_by(hash_of(b"{a}", 2) + field_of(0x20041), b"{a}")
    Held(table=2, generation=0, field=b'\x00A')
    >>> held_by(b"{a}counters", b"{a}") is None
    True
    """
    rest = name[len(prefix) :]
    size = len(_HASH) + 1
    if rest[:1] != _HASH or len(rest) - size not in (0, FIELD, _GENERATION, _GENERATION + FIELD):
        return None
    if len(rest) >= size + _GENERATION:
        size += _GENERATION
    return Held(rest[1], int.from_bytes(rest[2:size], "big"), rest[size:])


_SCAN = 1000  # keys examined per SCAN call
_DROPPED = 32  # keys of each kind removed per call


class Server(Protocol):
    """The part of an index, or of a shard, that expiry and maintenance use."""

    @property
    def prefix(self) -> bytes:
        """Prefix of every key."""

    @property
    def layout(self) -> RowLayout:
        """Layout of the rows of pages."""

    def ask(self, *command: bytes | str | int) -> Coroutine[Any, Any, Reply]:
        """Send one command."""

    def run(
        self, name: str, *arguments: bytes | int, more_keys: Sequence[bytes] = ()
    ) -> Coroutine[Any, Any, Reply]:
        """Run a script on the keys ``leases``, ``counters`` and ``committed``."""


async def counters(server: Server) -> tuple[int, ...]:
    """Page ids issued, bytes of text, buckets, records left out of full buckets, pages removed."""
    return counters_of(await server.ask("GET", server.prefix + b"counters") or b"")


def counters_of(raw: bytes) -> tuple[int, ...]:
    """Decode the value of the key ``counters``."""
    size = COUNTER * COUNTERS
    return tuple(int.from_bytes(raw[i : i + COUNTER], "little") for i in range(0, size, COUNTER))


async def first_numbers(server: Server) -> dict[int, tuple[int, int]]:
    """First page id and first text offset of each generation that has pages."""
    return {
        int(generation): (int.from_bytes(raw[:6], "little"), int.from_bytes(raw[6:], "little"))
        for generation, raw in pairs(await server.ask("HGETALL", server.prefix + b"generations"))
        if generation.isdigit()
    }


def glob(prefix: bytes) -> bytes:
    """Glob pattern for all keys with a prefix.

    >>> glob(b"{a*}")
    b'{a\\\\*}*'
    """
    return b"".join(b"\\" + bytes([c]) if c in b"*?[]\\" else bytes([c]) for c in prefix) + b"*"


async def scan(server: Server) -> AsyncIterator[list[bytes]]:
    """Iterate over the names of all keys of the namespace in batches; a name may come twice."""
    cursor: bytes | int = 0
    while True:
        cursor, names = await server.ask(
            "SCAN", cursor, "MATCH", glob(server.prefix), "COUNT", _SCAN
        )
        yield names
        if int(cursor) == 0:
            return


async def bucket_hashes(server: Server) -> dict[bytes, Held]:
    """All bucket hashes, by name."""
    found: dict[bytes, Held] = {}
    async for names in scan(server):
        for name in names:
            held = held_by(name, server.prefix)
            if held is not None and not held.field:
                found[name] = held
    return found


async def remove_expired(server: Server, oldest: int) -> None:
    """Remove all generations before ``oldest``.

    Every step is idempotent, so several processes may do this at once. If the index is unavailable,
    the next process that opens it does the work.
    """
    try:
        # Read before the generations: a page claimed in between has a greater id, or its
        # generation is found.
        page_id, text, *_ = await counters(server)
        firsts = await first_numbers(server)
        dead = sorted(generation for generation in firsts if generation < oldest)
        if not dead:
            return
        await server.run("lapse")
        async for names in scan(server):
            held = {name: held_by(name, server.prefix) for name in names}
            old = {name: one for name, one in held.items() if one and one.generation < oldest}
            await drop(
                server,
                large=[name for name, one in old.items() if one.field],
                hashes=[name for name, one in old.items() if not one.field],
            )
        living = [first for generation, first in firsts.items() if generation >= oldest]
        end = min(living, default=(page_id + 1, text))
        start = firsts[dead[0]]
        # The chunk with the first live page stays until that page expires.
        rows = range(start[0] // server.layout.rows, end[0] // server.layout.rows)
        texts = range(start[1] // TEXT_CHUNK, end[1] // TEXT_CHUNK)
        await drop(server, rows=chunk_names(server, b"s", rows))
        await drop(server, large=chunk_names(server, b"a", texts))
        await drop(server, generations=dead)
    except IndexUnavailableError:
        return


def chunk_names(server: Server, kind: bytes, chunks: Iterable[int]) -> Iterator[bytes]:
    """Names of the keys of chunks; ``kind``: rows (b"s") or text (b"a")."""
    for chunk in chunks:
        yield server.prefix + kind + chunk.to_bytes(4, "little")


async def drop(
    server: Server,
    *,
    rows: Iterable[bytes] = (),
    large: Iterable[bytes] = (),
    hashes: Iterable[bytes] = (),
    generations: Sequence[int] = (),
) -> None:
    """Remove keys of dead pages, and entries of generations, in several calls.

    :param rows: names of chunks of rows
    :param large: names of chunks of text, and of large buckets with their own key
    :param hashes: names of bucket hashes
    """
    # Names are consumed lazily: there may be millions, or more if the counters are damaged.
    kinds = iter(rows), iter(large), iter(hashes)
    parts = [[*islice(one, _DROPPED)] for one in kinds]
    while any(parts) or generations:
        keys = [server.prefix + b"generations", *parts[0], *parts[1], *parts[2]]
        counts = len(parts[0]), len(parts[1])
        await server.run("drop", *counts, *generations, more_keys=keys)
        parts, generations = [[*islice(one, _DROPPED)] for one in kinds], ()


_SAMPLE = 20  # buckets sampled per hash


async def estimate_bytes(server: Server, pages: int, text: int) -> int:
    """Estimate the bytes of memory of an index, including keys.

    Chunks have a known size. Hashes are estimated from a few buckets each, in the server's
    iteration order, which is effectively random. Without the right to SCAN or MEMORY USAGE only
    chunks count.

    :param pages: number of pages with a page record
    :param text: bytes of text written so far
    """
    rows, size = server.layout.rows, server.layout.row.itemsize
    records = -(-(pages + 1) // rows) * (rows * size) if pages else 0
    total = records
    try:
        start, hashes = len(server.prefix), set()
        async for names in scan(server):
            for name in names:
                if name[start : start + 1] == b"a":
                    total += TEXT_CHUNK
                held = held_by(name, server.prefix)
                if held is not None and not held.field:
                    hashes.add(name)
        return total + sum(await asyncio.gather(*(_bucket_bytes(server, name) for name in hashes)))
    except IndexUnavailableError:
        return max(total, records + -(-text // TEXT_CHUNK) * TEXT_CHUNK)


async def _bucket_bytes(server: Server, name: bytes) -> int:
    """Estimated bytes of a hash's buckets, including large ones with their own key."""
    own, (_, pairs) = await asyncio.gather(
        server.ask("MEMORY", "USAGE", name, "SAMPLES", _SAMPLE),
        server.ask("HSCAN", name, 0, "COUNT", _SAMPLE),
    )
    fields = list(zip(pairs[::2], pairs[1::2], strict=True))
    large = [name + field for field, value in fields if not value]
    if not large:
        return int(own or 0)
    count, *sizes = await asyncio.gather(
        server.ask("HLEN", name), *(server.ask("MEMORY", "USAGE", key) for key in large)
    )
    total = sum(int(size or 0) for size in sizes)
    return int(own or 0) + round(total * int(count) / len(fields))
