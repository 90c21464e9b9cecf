"""Where the buckets of a Redis index are: generations, their expiry, their size."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Protocol

import attrs

from dedup_middleware.base.errors import IndexUnavailableError
from dedup_middleware.index.redis.scripts import COUNTER, COUNTERS, TEXT_CHUNK, RowLayout
from dedup_middleware.index.redis.servers import Reply, pairs

FIELD = 2  # bytes of the name of a field: the prefix that names the bucket
_HASH = b"b"
_GENERATION = 4


def hash_of(prefix: bytes, table: int, end: bytes = b"") -> bytes:
    """The hash in which the buckets of a table are.

    :param prefix: of every key of the namespace
    :param end: see :meth:`.ServerIndex.ends`
    """
    return prefix + _HASH + bytes((table,)) + end


def end_of(generation: int) -> bytes:
    """What the name of a hash says of its generation."""
    return generation.to_bytes(_GENERATION, "big")


def field_of(bucket: int) -> bytes:
    """The field of a bucket in the hash of its table."""
    return (bucket & 0xFFFF).to_bytes(FIELD, "big")


@attrs.frozen
class Held:
    """What a key holds: all buckets of a table, or a large one (that of a field)."""

    table: int
    generation: int  # 0 in an index without window
    field: bytes = b""


def held_by(name: bytes, prefix: bytes) -> Held | None:
    r"""What a key of the namespace holds; None: no buckets.

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


_SCAN = 1000  # keys looked at by one call
_DROPPED = 32  # keys of each kind removed by one call


class Server(Protocol):
    """What the steps need of the index."""

    @property
    def prefix(self) -> bytes:
        """Prefix of every key."""

    @property
    def layout(self) -> RowLayout:
        """Layout of the rows of pages."""

    def ask(self, *command: bytes | int) -> Coroutine[Any, Any, Reply]:
        """Send one command."""

    def run(
        self, name: str, *arguments: bytes | int, more_keys: Sequence[bytes] = ()
    ) -> Coroutine[Any, Any, Reply]:
        """Run a script on the keys ``leases``, ``counters`` and ``committed``."""


async def counters(server: Server) -> tuple[int, ...]:
    """Page ids given, bytes of text, buckets, records left out, pages removed."""
    return counters_of(await server.ask(b"GET", server.prefix + b"counters") or b"")


def counters_of(raw: bytes) -> tuple[int, ...]:
    """Numbers behind the key ``counters``."""
    size = COUNTER * COUNTERS
    return tuple(int.from_bytes(raw[i : i + COUNTER], "little") for i in range(0, size, COUNTER))


async def first_numbers(server: Server) -> dict[int, tuple[int, int]]:
    """First page id, and first byte of text, of each generation that has pages."""
    return {
        int(generation): (int.from_bytes(raw[:6], "little"), int.from_bytes(raw[6:], "little"))
        for generation, raw in pairs(await server.ask(b"HGETALL", server.prefix + b"generations"))
        if generation.isdigit()
    }


def glob(prefix: bytes) -> bytes:
    """Pattern of all keys that begin with a prefix.

    >>> glob(b"{a*}")
    b'{a\\\\*}*'
    """
    return b"".join(b"\\" + bytes([c]) if c in b"*?[]\\" else bytes([c]) for c in prefix) + b"*"


async def scan(server: Server) -> AsyncIterator[list[bytes]]:
    """Names of all keys of the namespace, some at a time; a name may come twice."""
    cursor: bytes | int = 0
    while True:
        cursor, names = await server.ask(
            b"SCAN", cursor, b"MATCH", glob(server.prefix), b"COUNT", _SCAN
        )
        yield names
        if int(cursor) == 0:
            return


async def bucket_hashes(server: Server) -> dict[bytes, Held]:
    """The hashes of buckets by their names."""
    found: dict[bytes, Held] = {}
    async for names in scan(server):
        for name in names:
            held = held_by(name, server.prefix)
            if held is not None and not held.field:
                found[name] = held
    return found


async def remove_expired(server: Server, oldest: int) -> None:
    """Remove all generations before ``oldest``.

    Every step may be repeated, by this process or by another one at the same time. If the index
    can't be reached, this is left to the next process that opens it.
    """
    try:
        # Before the generations are looked up: a page that is claimed in between has a greater id,
        # or its generation is found.
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
        # The chunk in which the first living page is stays until that one expires.
        rows = range(start[0] // server.layout.rows, end[0] // server.layout.rows)
        texts = range(start[1] // TEXT_CHUNK, end[1] // TEXT_CHUNK)
        await drop(server, rows=chunk_names(server, b"s", rows))
        await drop(server, large=chunk_names(server, b"a", texts))
        await drop(server, generations=dead)
    except IndexUnavailableError:
        return


def chunk_names(server: Server, kind: bytes, chunks: Iterable[int]) -> Iterator[bytes]:
    """Names of some chunks, of rows (``s``) or of text (``a``)."""
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
    """Remove keys that belong to pages that are gone, or generations; some in each call.

    :param rows: chunks of rows
    :param large: texts, and buckets that are keys of their own
    :param hashes: of buckets
    """
    # There may be millions of them, and damaged counters name more: none is made before its turn.
    kinds = iter(rows), iter(large), iter(hashes)
    parts = [[*islice(one, _DROPPED)] for one in kinds]
    while any(parts) or generations:
        keys = [server.prefix + b"generations", *parts[0], *parts[1], *parts[2]]
        counts = len(parts[0]), len(parts[1])
        await server.run("drop", *counts, *generations, more_keys=keys)
        parts, generations = [[*islice(one, _DROPPED)] for one in kinds], ()


_SAMPLE = 20  # buckets of a hash


async def estimate_bytes(server: Server, pages: int, text: int) -> int:
    """Bytes of memory, keys included.

    Chunks have a known size; of each hash some buckets are looked at, in the server's own order,
    which is as good as random. Where SCAN or MEMORY USAGE is forbidden, chunks alone count.

    :param pages: pages that have a page record
    :param text: bytes of text that were ever written
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
    """Bytes of all buckets of a hash, buckets with a key of their own included."""
    own, (_, pairs) = await asyncio.gather(
        server.ask(b"MEMORY", b"USAGE", name, b"SAMPLES", _SAMPLE),
        server.ask(b"HSCAN", name, 0, b"COUNT", _SAMPLE),
    )
    fields = list(zip(pairs[::2], pairs[1::2], strict=True))
    large = [name + field for field, value in fields if not value]
    if not large:
        return int(own or 0)
    count, *sizes = await asyncio.gather(
        server.ask(b"HLEN", name), *(server.ask(b"MEMORY", b"USAGE", key) for key in large)
    )
    total = sum(int(size or 0) for size in sizes)
    return int(own or 0) + round(total * int(count) / len(fields))
