"""Where the buckets of a Redis index are: generations, their expiry, their size."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import Any, Protocol

import attrs
import numpy as np

from dedup_middleware.base.errors import IndexUnavailableError
from dedup_middleware.index.redis.scripts import TEXT_CHUNK, RowLayout
from dedup_middleware.index.redis.servers import Reply

FIELD = 2  # bytes of the name of a field: the prefix that names the bucket
_HASH = b"b"
_GENERATION = 4


def hash_of(prefix: bytes, table: int, end: bytes = b"") -> bytes:
    """The hash in which the buckets of a table are.

    :param prefix: of every key of the namespace
    :param end: see :func:`end_of`; empty in an index without window
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


def held_by(name: bytes, prefix: bytes, *, windowed: bool) -> Held | None:
    r"""What a key of the namespace holds; None: no buckets.

    >>> held_by(hash_of(b"{a}", 2, end_of(7)), b"{a}", windowed=True)
    Held(table=2, generation=7, field=b'')
    >>> held_by(hash_of(b"{a}", 2) + field_of(0x20041), b"{a}", windowed=False)
    Held(table=2, generation=0, field=b'\x00A')
    >>> held_by(b"{a}counters", b"{a}", windowed=False) is None
    True
    """
    rest = name[len(prefix) :]
    size = len(_HASH) + 1 + (_GENERATION if windowed else 0)
    if rest[:1] != _HASH or len(rest) not in (size, size + FIELD):
        return None
    return Held(rest[1], int.from_bytes(rest[2:size], "big"), rest[size:])


_SCAN = 1000  # keys looked at, and at most removed, by one call


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

    async def counters(self) -> tuple[int, ...]:
        """Numbers behind the key ``counters``."""


async def first_numbers(server: Server) -> dict[int, tuple[int, int]]:
    """First page id, and first byte of text, of each generation that has pages."""
    reply = await server.ask(b"HGETALL", server.prefix + b"generations")
    pairs = reply.items() if isinstance(reply, dict) else zip(reply[::2], reply[1::2], strict=True)
    return {
        int(generation): (int.from_bytes(raw[:6], "little"), int.from_bytes(raw[6:], "little"))
        for generation, raw in pairs
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


async def remove_expired(server: Server, oldest: int) -> None:
    """Remove all generations before ``oldest``.

    Every step may be repeated, by this process or by another one at the same time. If the index
    can't be reached, this is left to the next process that opens it.
    """
    try:
        # Before the generations are looked up: a page that is claimed in between has a greater id,
        # or its generation is found.
        page_id, text, *_ = await server.counters()
        firsts = await first_numbers(server)
        dead = sorted(generation for generation in firsts if generation < oldest)
        if not dead:
            return
        await server.run("lapse")
        await _remove_buckets(server, lambda generation: generation < oldest)
        living = [first for generation, first in firsts.items() if generation >= oldest]
        end = min(living, default=(page_id + 1, text))
        start = firsts[dead[0]]
        # The chunk in which the first living page is stays until that one expires.
        for chunk in range(start[0] // server.layout.rows, end[0] // server.layout.rows):
            await server.run("expire_chunk", chunk)
        for chunk in range(start[1] // TEXT_CHUNK, end[1] // TEXT_CHUNK):
            await server.ask(b"UNLINK", server.prefix + b"a" + chunk.to_bytes(4, "little"))
        await server.ask(b"HDEL", server.prefix + b"generations", *dead)
    except IndexUnavailableError:
        return


async def _remove_buckets(server: Server, expired: Callable[[int], bool]) -> None:
    async for names in scan(server):
        hashes: list[bytes] = []
        large: list[bytes] = []
        for name in names:
            held = held_by(name, server.prefix, windowed=True)
            if held is not None and expired(held.generation):
                (large if held.field else hashes).append(name)
        if hashes or large:
            await server.run("expire_buckets", len(hashes), more_keys=[*hashes, *large])


_SAMPLE = 20  # buckets of a hash
_CHUNKS = 500


async def estimate_bytes(server: Server, pages: int, text: int, *, windowed: bool) -> int:
    """Bytes of memory, keys included.

    Chunks have a known size; of each hash some buckets are looked at, in the order of the server's
    hash table, which is as good as random. Where the server forbids MEMORY USAGE, plain lengths are
    used instead.

    :param pages: pages that have a page record
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
    """Bytes of all buckets of a hash, buckets with a key of their own included."""
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
