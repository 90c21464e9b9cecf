"""Maintenance of a Redis index: iteration, compaction, forgetting pages."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from itertools import chain
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.index.base import Progress
from dedup_middleware.index.batching import forget_outcome
from dedup_middleware.index.pages import Living, bytes_of, compacted
from dedup_middleware.index.redis import expiry
from dedup_middleware.index.redis.expiry import Server
from dedup_middleware.index.redis.scripts import (
    GUARD,
    PAYLOAD_BIT,
    TEXT_CHUNK,
    RowLayout,
    strange_stamps,
)
from dedup_middleware.index.redis.servers import pairs
from dedup_middleware.model.buckets import PAYLOAD_LIMIT, width_of
from dedup_middleware.model.records import (
    PAGE_ID_MASK,
    PageRecords,
    State,
    chosen,
    joined_records,
    split_stamps,
)

LOADS = b"loads"  # name of the key that holds the loads in progress
_AHEAD = 3  # calls in flight
_CHUNKS = 16  # chunks of page records read per call
_READ = 512  # maximum buckets read per call
_REWRITTEN = 128  # maximum buckets rewritten per call, which takes the server about 1 ms
_BYTES = 1 << 18  # maximum bytes of buckets rewritten per call
_STRIPPED = 1000  # pages whose texts are removed per call
_WALKED = 1 << 20  # target bytes of buckets read per call
# For a hash with more buckets than this all 2^16 possible fields are read: listing their names
# would block the server for some milliseconds.
_FEW = 1 << 12
_PREFIXES = 1 << 16
# Buckets, and the bytes of each in all live generations, joined.
_Part = tuple[list[int], list[bytes]]
Rows = tuple[int, NDArray[np.void]]  # page id of the first row; rows in the layout's dtype
_T = TypeVar("_T")
_POWERS: NDArray[np.int64] = 1 << 8 * np.arange(5, dtype=np.int64)


async def in_order(calls: AsyncIterator[Coroutine[Any, Any, _T]], ahead: int) -> AsyncIterator[_T]:
    """Yield results in the order of calls, of which at most ``ahead`` are in flight at once.

    A server executes all calls that a client sent together before it serves other clients, so it
    may block these for ``ahead`` times the duration of a call.
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


async def rows(server: Server) -> AsyncIterator[Rows]:
    """Iterate over the rows of all chunks, including FREE ones, after ending expired leases."""
    await server.run("lapse")
    last = (await expiry.counters(server))[0]
    size, row = server.layout.rows, server.layout.row

    async def calls() -> AsyncIterator[Coroutine[Any, Any, list[bytes | None]]]:
        for start in range(0, last // size + 1, _CHUNKS):
            part = range(start, min(start + _CHUNKS, last // size + 1))
            yield server.ask("MGET", *expiry.chunk_names(server, b"s", part))

    chunk = -1
    async for reply in in_order(calls(), _AHEAD):
        for raw in reply:
            chunk += 1
            if raw:
                count = min(len(raw) // row.itemsize, size)
                yield chunk * size, np.frombuffer(raw, row, count=count)


def pages_of(found: Rows, layout: RowLayout) -> PageRecords:
    """The page records of a chunk, without damaged and FREE rows."""
    first, raw = found
    stamps = raw["stamp"]
    pages = PageRecords(
        np.arange(first, first + len(raw), dtype=np.uint64),
        layout.content(raw),
        *split_stamps(stamps),
    )
    return chosen(pages, (stamps != State.FREE) & ~strange_stamps(stamps))


class _Texts:
    """Finds the text chunks without text of a live page; ``end``: bytes of text written so far."""

    def __init__(self, end: int) -> None:
        # The last chunk is still being written, so it is ignored.
        self._count = end // TEXT_CHUNK
        # Texts that begin in a chunk minus texts that end in the chunk before.
        self._changes = np.zeros(self._count + 2, np.int64)

    def add(self, raw: NDArray[np.void], wanted: NDArray[np.bool_]) -> None:
        """Count the texts of the ``wanted`` rows among all rows of a chunk."""
        starts = raw["text_offset"].astype(np.int64) @ _POWERS
        lengths = raw["text_length"].astype(np.int64)
        more = lengths >= PAYLOAD_BIT
        # The payload's length is stored in the text itself; its limit is a sufficient bound here.
        ends = starts + np.where(more, lengths - PAYLOAD_BIT + 3 + PAYLOAD_LIMIT, lengths)
        # Texts are in page order, so each ends where the next one begins.
        known = np.flatnonzero(raw["stamp"] != State.FREE)
        ends[known[:-1]] = np.minimum(ends[known[:-1]], starts[known[1:]])
        used = wanted & (lengths > 0)
        for at, amount in (
            (starts[used] // TEXT_CHUNK, 1),
            ((ends[used] - 1) // TEXT_CHUNK + 1, -1),
        ):
            np.add.at(self._changes, np.minimum(at, self._count + 1), amount)

    def unused(self) -> list[int]:
        """Numbers of the chunks that hold no counted text."""
        found: list[int] = np.flatnonzero(np.cumsum(self._changes[: self._count]) == 0).tolist()
        return found


async def walk_buckets(
    server: Server, ends: Callable[[], list[bytes]]
) -> AsyncIterator[tuple[int, bytes]]:
    """See :meth:`.Index.buckets`; ``ends`` returns the hash suffixes of the live generations."""
    hashes = await expiry.bucket_hashes(server)
    size = 64

    async def calls() -> AsyncIterator[Coroutine[Any, Any, _Part]]:
        for table in sorted({held.table for held in hashes.values()}):
            fields = [await fields_of(server, name) for name in _hashes_of(server, table, ends())]
            buckets = [table << 16 | field for field in sorted({*chain.from_iterable(fields)})]
            at = 0
            while at < len(buckets):
                part = buckets[at : at + size]
                at += len(part)
                yield _read_buckets(server, part, _hashes_of(server, table, ends()))

    async for part, data in in_order(calls(), _AHEAD):
        total = 0
        for bucket, raw in zip(part, data, strict=True):
            total += len(raw)
            if raw:
                yield bucket, raw
        size = max(1, min(_READ, _WALKED * len(part) // max(1, total)))


def _hashes_of(server: Server, table: int, ends: Sequence[bytes]) -> list[bytes]:
    return [expiry.hash_of(server.prefix, table, end) for end in ends]


async def fields_of(server: Server, name: bytes) -> Sequence[int]:
    """The prefixes of the buckets that may exist in a hash, ascending."""
    if int(await server.ask("HLEN", name)) > _FEW:
        return range(_PREFIXES)
    names = await server.ask("HKEYS", name)
    return sorted(int.from_bytes(one, "big") for one in names if len(one) == 2)


async def held_in(server: Server, name: bytes, fields: Sequence[bytes]) -> list[bytes | None]:
    """Values of fields of a bucket hash; a large bucket (empty field) is read from its own key."""
    values: list[bytes | None] = list(await server.ask("HMGET", name, *fields))
    large = [i for i, value in enumerate(values) if value == b""]
    if large:
        found = await server.ask("MGET", *[name + fields[i] for i in large])
        for i, value in zip(large, found, strict=True):
            # A large bucket compacted since the first read is a field again.
            values[i] = value or await server.ask("HGET", name, fields[i])
    return values


async def _read_buckets(server: Server, buckets: Sequence[int], hashes: Sequence[bytes]) -> _Part:
    fields = list(map(expiry.field_of, buckets))
    generations = [await held_in(server, name, fields) for name in hashes]
    data = [
        joined_records([raw or b"" for raw in one], width_of(bucket))
        for bucket, one in zip(buckets, zip(*generations, strict=True), strict=True)
    ]
    return list(buckets), data


async def settled(server: Server, last: int) -> int:
    """``last``, or the page id before the first one of any load in progress if that is lower;
    removes entries of loads whose lease has expired."""
    seconds, microseconds = await server.ask("TIME")
    now = int(seconds) * 1000 + int(microseconds) // 1000
    for token, raw in pairs(await server.ask("HGETALL", server.prefix + LOADS)):
        if int.from_bytes(raw[5:11], "little") > now:
            last = min(last, int.from_bytes(raw[:5], "little") - 1)
        else:
            await server.ask("HDEL", server.prefix + LOADS, token)
    return last


def packed(page_ids: NDArray[np.uint64]) -> bytes:
    """Page ids as the scripts take them: 5 bytes each, little-endian."""
    return bytes_of(page_ids)[:, :5].tobytes()


def cuts(sizes: list[int], most: int, count: int) -> Iterator[tuple[int, int]]:
    """Split items of these sizes into consecutive parts; yields (start, stop) of each.

    :param most: maximum bytes of a part; only a single item may exceed it
    :param count: maximum number of items in a part

    >>> list(cuts([5, 5, 5, 20, 1, 1, 1, 1], 10, 3))
    [(0, 2), (2, 3), (3, 4), (4, 7), (7, 8)]
    """
    start = total = 0
    for i, size in enumerate(sizes):
        total += size
        if i > start and (total > most or i - start == count):
            yield start, i
            start, total = i, size
    if sizes:
        yield start, len(sizes)


async def compact(server: Server, progress: Progress) -> int:
    """See :meth:`.Index.compact`; also removes chunks of rows and of text without live pages."""
    last, text, *_ = await expiry.counters(server)
    living, texts, empty = Living(await settled(server, last)), _Texts(text), []
    stripped: list[NDArray[np.uint64]] = []
    done = 0
    async for found in rows(server):
        first, raw = found
        pages = pages_of(found, server.layout)
        done += len(pages)
        if not living.add(pages):
            # Keep a chunk that is not full: new pages are still written to it.
            if first + server.layout.rows <= last + 1:
                empty.append(first // server.layout.rows)
        elif server.layout.record.text:
            page_ids = np.arange(first, first + len(raw), dtype=np.uint64)
            kept = living.keep(page_ids)
            texts.add(raw, kept)
            gone = ~kept & (raw["text_length"] > 0) & (raw["stamp"] == State.RELEASED)
            stripped.append(page_ids[gone])
        progress("pages", done)
    gone_ids = np.concatenate([np.empty(0, np.uint64), *stripped])
    for start in range(0, len(gone_ids), _STRIPPED):
        await server.run("strip", packed(gone_ids[start : start + _STRIPPED]))
    removed = await _compact_buckets(server, living, progress)
    await expiry.drop(server, rows=expiry.chunk_names(server, b"s", empty))
    await expiry.drop(server, large=expiry.chunk_names(server, b"a", texts.unused()))
    return removed


async def _compact_buckets(server: Server, living: Living, progress: Progress) -> int:
    hashes = await expiry.bucket_hashes(server)

    async def calls() -> AsyncIterator[Coroutine[Any, Any, tuple[int, int]]]:
        for name, held in sorted(hashes.items()):
            fields = await fields_of(server, name)
            for start in range(0, len(fields), _READ):
                part = list(map(expiry.field_of, fields[start : start + _READ]))
                yield compact_some(server, living, name, held.table, part)

    removed = await compact_all(calls(), progress)
    names = await expiry.bucket_hashes(server)
    await server.run("recount", more_keys=list(names))
    return removed


async def compact_all(
    calls: AsyncIterator[Coroutine[Any, Any, tuple[int, int]]], progress: Progress
) -> int:
    """Run calls of :func:`compact_some`; returns the total number of records removed."""
    seen = removed = 0
    async for looked, gone in in_order(calls, _AHEAD):
        seen, removed = seen + looked, removed + gone
        progress("buckets", seen)
    return removed


async def compact_some(
    server: Server, living: Living, name: bytes, table: int, fields: Sequence[bytes]
) -> tuple[int, int]:
    """Remove the records of dead pages from buckets; returns the number of non-empty buckets, and
    of records removed.

    A bucket that changed meanwhile is read again: the chunks of its dead pages may be removed next.
    """
    seen = removed = 0
    while fields:
        reply = await held_in(server, name, fields)
        held = [(field, raw) for field, raw in zip(fields, reply, strict=True) if raw]
        seen = seen or len(held)
        fields = []
        changed = compacted([raw for _, raw in held], living, width_of(table << 16))
        before = [held[position] for position, _, _ in changed]
        for start, stop in cuts([len(raw) for _, raw in before], _BYTES, _REWRITTEN):
            part = before[start:stop]
            named = b"".join(field for field, _ in part)
            lengths = np.array([len(raw) for _, raw in part], "<u4").tobytes()
            words = chain.from_iterable(
                (raw[-GUARD:], data)
                for (_, raw), (_, data, _) in zip(part, changed[start:stop], strict=True)
            )
            flags = await server.run("compact", named, lengths, *words, more_keys=[name])
            for flag, (field, _), (_, _, gone) in zip(
                flags, part, changed[start:stop], strict=True
            ):
                if flag == ord("1"):
                    removed += gone
                else:
                    fields.append(field)
    return seen, removed


_FORGOTTEN = 4  # chunks of page records per call, which takes the server about 1 ms
_FORGETTING = 2  # calls in flight


async def forget_page_ids(server: Server, page_ids: Sequence[int]) -> int:
    """Mark committed pages as released; returns how many were committed."""
    wanted = np.unique(np.asarray(page_ids, np.uint64))
    wanted = wanted[wanted <= np.uint64(PAGE_ID_MASK)].astype(np.int64)
    size = server.layout.rows
    chunks, starts = np.unique(wanted // size, return_index=True)
    own = dict(zip(chunks.tolist(), np.split(wanted % size, starts[1:]), strict=False))

    def marks_of(chunk: int) -> bytes:
        marks = np.full(size, ord("0"), np.uint8)
        marks[own[chunk]] = ord("1")
        return marks.tobytes()

    async def calls() -> AsyncIterator[Coroutine[Any, Any, int]]:
        for start in range(0, len(own), _FORGOTTEN):
            part = chunks[start : start + _FORGOTTEN].tolist()
            names = [*expiry.chunk_names(server, b"s", part)]
            yield server.run("forget", *map(marks_of, part), more_keys=names)

    return sum([forgotten async for forgotten in in_order(calls(), _FORGETTING)])
