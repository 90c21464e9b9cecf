"""Reading all buckets or pages of a Redis index in batches, some of them ahead."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import Any, TypeVar

from dedup_middleware.index.batching import forget_outcome
from dedup_middleware.index.redis.expiry import Server, bucket_hashes, end_of, field_of, hash_of
from dedup_middleware.model.buckets import width_of
from dedup_middleware.model.records import joined_records

_T = TypeVar("_T")


async def in_order(calls: AsyncIterator[Coroutine[Any, Any, _T]], ahead: int) -> AsyncIterator[_T]:
    """Results of calls, in their order; while one is worked on, the next ones are under way.

    A server carries out what one client has sent in one go before it turns to others, so ``ahead``
    times the time of a call is how long it may keep them waiting.

    :param ahead: the most calls under way
    """
    waiting: deque[asyncio.Task[_T]] = deque()
    loop = asyncio.get_running_loop()
    try:
        async for call in calls:
            waiting.append(loop.create_task(call))
            if len(waiting) >= ahead:
                yield await waiting.popleft()
        while waiting:
            yield await waiting.popleft()
    finally:
        for one in waiting:
            forget_outcome(one)
            one.cancel()


_AHEAD = 3  # calls under way
_BYTES = 1 << 20  # of buckets that one call should read
_MOST = 512  # buckets read by one call
# Of a table with more buckets than these all possible fields are read: the names of them all
# would keep the server for some milliseconds.
_FEW = 1 << 12
_PREFIXES = 1 << 16
# Buckets, and their bytes in all live generations one after the other.
_Part = tuple[list[int], list[bytes]]


async def walk_buckets(
    server: Server, live: Callable[[], range] | None
) -> AsyncIterator[tuple[int, bytes]]:
    """Every bucket that holds a record, ascending; see :meth:`.Index.buckets`.

    :param live: the generations that are alive at this moment; None: the index has no window
    """
    hashes = await bucket_hashes(server, windowed=live is not None)
    size = 64

    async def calls() -> AsyncIterator[Coroutine[Any, Any, _Part]]:
        for table in sorted({held.table for held in hashes.values()}):
            buckets = await _buckets_of(server, table, live)
            at = 0
            while at < len(buckets):
                part = buckets[at : at + size]
                at += len(part)
                yield _read(server, part, _hashes(server, table, live))

    async for part, data in in_order(calls(), _AHEAD):
        total = 0
        for bucket, raw in zip(part, data, strict=True):
            total += len(raw)
            if raw:
                yield bucket, raw
        size = max(1, min(_MOST, _BYTES * len(part) // max(1, total)))


def _hashes(server: Server, table: int, live: Callable[[], range] | None) -> list[bytes]:
    ends = [b""] if live is None else [end_of(one) for one in live()]
    return [hash_of(server.prefix, table, end) for end in ends]


async def _buckets_of(
    server: Server, table: int, live: Callable[[], range] | None
) -> Sequence[int]:
    """The buckets of a table that may hold a record, ascending."""
    fields: set[int] = set()
    for name in _hashes(server, table, live):
        own = await fields_of(server, name)
        if len(own) > _FEW:
            return range(table << 16, (table << 16) + _PREFIXES)
        fields.update(own)
    return [table << 16 | field for field in sorted(fields)]


async def fields_of(server: Server, name: bytes) -> Sequence[int]:
    """The prefixes of the buckets that a hash may hold, ascending."""
    if int(await server.ask(b"HLEN", name)) > _FEW:
        return range(_PREFIXES)
    names = await server.ask(b"HKEYS", name)
    return sorted(int.from_bytes(one, "big") for one in names if len(one) == 2)


async def held_in(server: Server, name: bytes, fields: Sequence[bytes]) -> list[bytes | None]:
    """Some fields of a hash."""
    values: list[bytes | None] = list(await server.ask(b"HMGET", name, *fields))
    large = [i for i, value in enumerate(values) if value == b""]
    if large:
        found = await server.ask(b"MGET", *[name + fields[i] for i in large])
        for i, value in zip(large, found, strict=True):
            # One that was compacted since the first look is a field again.
            values[i] = value or await server.ask(b"HGET", name, fields[i])
    return values


async def _read(server: Server, buckets: Sequence[int], hashes: Sequence[bytes]) -> _Part:
    fields = list(map(field_of, buckets))
    generations = [await held_in(server, name, fields) for name in hashes]
    data = [
        joined_records([raw or b"" for raw in one], width_of(bucket))
        for bucket, one in zip(buckets, zip(*generations, strict=True), strict=True)
    ]
    return list(buckets), data
