"""Removing what has expired from a Redis server, in steps short enough for everybody else."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import Any, Protocol

from dedup_middleware.errors import IndexUnavailableError
from dedup_middleware.index.redis_buckets import held_by
from dedup_middleware.index.redis_scripts import TEXT_CHUNK, RowLayout
from dedup_middleware.index.redis_servers import Reply

_SCAN = 1000  # keys looked at, and at most removed, by one call


class Server(Protocol):
    """What the steps need of the index."""

    prefix: bytes
    layout: RowLayout

    def ask(self, *command: bytes | int) -> Coroutine[Any, Any, Reply]:
        """Send one command."""

    def run(
        self, name: str, *arguments: bytes | int, more_keys: Sequence[bytes] = ()
    ) -> Coroutine[Any, Any, Reply]:
        """Run a script on the keys ``leases``, ``counters`` and ``committed``."""

    async def counters(self) -> tuple[int, ...]:
        """Numbers behind the key ``counters``."""


async def first_numbers(server: Server) -> dict[int, tuple[int, int]]:
    """First page number, and first byte of text, of each generation that has pages."""
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
        firsts = await first_numbers(server)
        dead = sorted(generation for generation in firsts if generation < oldest)
        if not dead:
            return
        await server.run("lapse")
        await _remove_buckets(server, lambda generation: generation < oldest)
        living = [first for generation, first in firsts.items() if generation >= oldest]
        number, text, *_ = await server.counters()
        end = min(living, default=(number + 1, text))
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
