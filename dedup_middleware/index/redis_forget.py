"""Forgetting many pages of a namespace, and reading the addresses of all of them."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Coroutine, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.index.records import NUMBER_MASK, State
from dedup_middleware.index.redis_ahead import in_order
from dedup_middleware.index.redis_expiry import Server
from dedup_middleware.index.redis_scripts import PAYLOAD_BIT, TEXT_CHUNK, strange_stamps
from dedup_middleware.index.redis_upkeep import groups, text_starts

_CHUNKS = 4  # chunks of satellites in one call, which keeps the server for about 1 ms
_AHEAD = 2  # calls under way
_TEXTS = 32  # chunks of text read by one call
_LAST_STAMP = 1 << 32


async def forget_numbers(server: Server, numbers: Sequence[int]) -> int:
    """Let committed pages read as released; returns how many there were."""
    wanted = np.unique(np.asarray(numbers, np.uint64))
    wanted = wanted[wanted <= np.uint64(NUMBER_MASK)].astype(np.int64)
    rows = server.layout.rows
    chunks, starts = np.unique(wanted // rows, return_index=True)
    cuts = [*starts.tolist(), len(wanted)]

    async def calls() -> AsyncIterator[Coroutine[Any, Any, int]]:
        for i in range(0, len(chunks), _CHUNKS):
            part = chunks[i : i + _CHUNKS].tolist()
            marks = []
            for chunk, start, end in zip(part, cuts[i:], cuts[i + 1 :], strict=False):
                mark = np.full(rows, ord("0"), np.uint8)
                mark[wanted[start:end] - chunk * rows] = ord("1")
                marks.append(mark.tobytes())
            yield _forget(server, part, 0, _LAST_STAMP, marks)

    return sum([forgotten async for forgotten in in_order(calls(), _AHEAD)])


async def forget_stamps(server: Server, since: float, until: float) -> int:
    """Let pages committed in a span of time read as released; returns how many there were."""
    last = (await server.counters())[0]
    first, behind = (math.ceil(min(max(0.0, at), _LAST_STAMP)) for at in (since, until))
    if first >= behind:
        return 0
    chunks = list(range(last // server.layout.rows + 1))

    async def calls() -> AsyncIterator[Coroutine[Any, Any, int]]:
        for i in range(0, len(chunks), _CHUNKS):
            part = chunks[i : i + _CHUNKS]
            yield _forget(server, part, first, behind, [b""] * len(part))

    return sum([forgotten async for forgotten in in_order(calls(), _AHEAD)])


async def _forget(
    server: Server, chunks: list[int], since: int, until: int, marks: list[bytes]
) -> int:
    names = [server.prefix + b"s" + one.to_bytes(4, "little") for one in chunks]
    return int(await server.run("forget", since, until, *marks, more_keys=names))


async def committed_addresses(
    server: Server,
) -> AsyncIterator[tuple[NDArray[np.uint64], list[bytes]]]:
    """Numbers and addresses of all committed pages that have one, some chunks at a time."""
    if not server.layout.record.text:
        return

    async def calls() -> AsyncIterator[Coroutine[Any, Any, tuple[NDArray[np.uint64], list[bytes]]]]:
        async for group in groups(server):
            if not group:
                continue
            raw = np.concatenate([raw for _, raw in group])
            numbers = [np.arange(one, one + len(raw), dtype=np.uint64) for one, raw in group]
            named = _has_address(raw)
            if named.any():
                yield _addresses(server, np.concatenate(numbers)[named], raw[named])

    async for found in in_order(calls(), _AHEAD):
        yield found


def _has_address(raw: NDArray[np.void]) -> NDArray[np.bool_]:
    """Which rows are those of committed pages with an address."""
    stamps, lengths = raw["stamp"], raw["text_length"] % PAYLOAD_BIT
    return np.asarray((stamps > State.RELEASED) & ~strange_stamps(stamps) & (lengths > 0), np.bool_)


async def _addresses(
    server: Server, numbers: NDArray[np.uint64], raw: NDArray[np.void]
) -> tuple[NDArray[np.uint64], list[bytes]]:
    """Page numbers, and the addresses of their rows, from the chunks of text that hold them."""
    starts = text_starts(raw)
    lengths = (raw["text_length"] % PAYLOAD_BIT).astype(np.int64)
    # An address is shorter than a chunk, so it has two parts at most.
    firsts, lasts = starts // TEXT_CHUNK, (starts + lengths - 1) // TEXT_CHUNK
    chunks = np.unique(np.concatenate([firsts, lasts]))
    parts: list[bytes | None] = []
    for start in range(0, len(chunks), _TEXTS):
        some = chunks[start : start + _TEXTS].tolist()
        names = [server.prefix + b"a" + chunk.to_bytes(4, "little") for chunk in some]
        parts += await server.ask(b"MGET", *names)
    text = b"".join([(part or b"").ljust(TEXT_CHUNK, b"\0") for part in parts])
    there = np.array([part is not None for part in parts], np.bool_)
    places = np.searchsorted(chunks, firsts)
    known = there[places] & there[np.searchsorted(chunks, lasts)]
    begins = places * TEXT_CHUNK + starts % TEXT_CHUNK
    ends = np.where(known, begins + lengths, begins)
    return numbers, [text[i:j] for i, j in zip(begins.tolist(), ends.tolist(), strict=True)]
