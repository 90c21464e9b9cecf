"""Walks over all shards: pages, buckets, expiry, compaction, the state of the index."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterable, Sequence
from itertools import groupby
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base.errors import IndexUnavailableError
from dedup_middleware.index.base import Progress
from dedup_middleware.index.cluster.shards import ClusterShards, ids
from dedup_middleware.index.cluster.spread import FIELD, GROUPS, chunk_keys, group_hash
from dedup_middleware.index.pages import Living
from dedup_middleware.index.redis.expiry import counters_of, drop
from dedup_middleware.index.redis.scripts import RowLayout
from dedup_middleware.index.redis.servers import Reply
from dedup_middleware.index.redis.upkeep import compact_all, compact_some, pages_of
from dedup_middleware.model.records import PageRecords, State, chosen, joined

_READ = 512  # buckets read by one call
_SAMPLES = 20  # of the fields of a hash
_SAMPLED = 200  # keys of texts of which the bytes are looked up


@attrs.frozen(eq=False)
class Shard:
    """One shard, as the steps of maintenance on one server need it; ids are those on the shard."""

    index: ClusterShards
    number: int

    @property
    def prefix(self) -> bytes:
        return self.index.spread.prefix(self.number)

    @property
    def layout(self) -> RowLayout:
        return self.index.layout

    async def ask(self, *command: bytes | int) -> Reply:
        """Send one command, whose keys are those words that begin with the prefix."""
        size = len(self.prefix)
        keys = [
            word[size:]
            for word in command
            if isinstance(word, bytes) and word.startswith(self.prefix)
        ]
        return await self._reply("command", keys, *command)

    async def run(
        self, name: str, *arguments: bytes | int, more_keys: Sequence[bytes] = ()
    ) -> Reply:
        more = [key[len(self.prefix) :] for key in more_keys]
        return await self._reply(name, (b"counters", b"committed", *more), *arguments)

    async def _reply(self, name: str, keys: Iterable[bytes], *arguments: bytes | int) -> Reply:
        call = self.index.script_call(name, self.number, keys, *arguments)
        (reply,), _ = await self.index.together([call], ())
        return reply


class ShardState:
    """State of a shard, as the script ``state`` replies.

    ``firsts``: the first id of each generation; ``sizes``: buckets in each of the hashes that were
    asked for.
    """

    def __init__(self, reply: Any) -> None:
        counters, committed, pending, firsts, sizes = reply
        self.counters = counters_of(counters)
        self.committed: bytes = committed
        self.pending = int(pending)
        self.firsts = {
            int(generation): int.from_bytes(raw[:6], "little")
            for generation, raw in zip(firsts[::2], firsts[1::2], strict=True)
            if generation.isdigit()
        }
        self.sizes: list[int] = sizes


async def states(index: ClusterShards, hashes: Sequence[bytes] = ()) -> list[ShardState]:
    """States of all shards. Leases that have run out are ended."""
    keys = (b"counters", b"committed", b"generations", *hashes)
    calls = [index.script_call("state", shard, keys) for shard in range(index.spread.shards)]
    replies, _ = await index.together(calls, ())
    return list(map(ShardState, replies))


async def asked_of(
    index: ClusterShards, shards: Iterable[int], command: bytes, name: bytes
) -> list[Reply]:
    """Replies to a command on the key of this name of some shards."""
    every = [Shard(index, number) for number in shards]
    return await asyncio.gather(*(one.ask(command, one.prefix + name) for one in every))


def bucket_hashes(index: ClusterShards, generations: Iterable[int]) -> list[bytes]:
    """Names of the hashes of all buckets, without the prefix of a shard."""
    return [group_hash(group, end) for group in GROUPS for end in index.ends(generations)]


async def pages(index: ClusterShards) -> AsyncIterator[PageRecords]:
    """All pages by ascending id: a chunk of every shard at a time."""
    async for _, parts in chunks(index):
        found = joined(parts)
        order = np.argsort(found.page_ids)
        if len(order):
            yield chosen(found, order)


async def chunks(
    index: ClusterShards, free: list[NDArray[np.uint64]] | None = None
) -> AsyncIterator[tuple[int, list[PageRecords]]]:
    """Of each number of a chunk the pages of all shards, with their page ids.

    :param free: gets the page ids of rows that are free
    """
    found = await states(index)
    rows, row, spread = index.layout.rows, index.layout.row, index.spread
    starts = [min(one.firsts.values(), default=1) for one in found]
    lasts = [one.counters[0] for one in found]
    for chunk in range(min(starts) // rows, max(lasts) // rows + 1):
        own = [shard for shard, last in enumerate(lasts) if last // rows >= chunk]
        replies = await asked_of(index, own, b"GET", chunk_keys([chunk])[0])
        parts = []
        for shard, raw in zip(own, replies, strict=True):
            # The rows for which a chunk has no room yet are free, and all those of one that is not
            # there: of its ids none was announced; the records of some may be in buckets.
            some = np.frombuffer((raw or b"").ljust(rows * row.itemsize, b"\0"), row, count=rows)
            part = pages_of((chunk * rows, some), index.layout)
            if free is not None and (raw or chunk >= starts[shard] // rows):
                locals_ = np.flatnonzero(some["stamp"] == State.FREE) + chunk * rows
                locals_ = locals_[(locals_ > 0) & (locals_ <= lasts[shard])].astype(np.uint64)
                free.append(locals_ << np.uint64(spread.bits) | np.uint64(shard))
            page_ids = part.page_ids << np.uint64(spread.bits) | np.uint64(shard)
            parts.append(attrs.evolve(part, page_ids=page_ids))
        yield chunk, parts


async def buckets(index: ClusterShards) -> AsyncIterator[tuple[int, bytes]]:
    """All buckets that hold a record, ascending; see :meth:`.Index.buckets`."""
    every: set[int] = set()
    for name in bucket_hashes(index, index.moment().live):
        for fields in await asked_of(index, range(index.spread.shards), b"HKEYS", name):
            every.update(int.from_bytes(one, "big") for one in fields if len(one) == FIELD)
    ordered = sorted(every)
    for start in range(0, len(ordered), _READ):
        part = ordered[start : start + _READ]
        for bucket, raw in zip(part, await index.read_all(part), strict=True):
            if raw:
                yield bucket, raw


async def compact(index: ClusterShards, progress: Progress | None = None) -> int:
    """See :meth:`.Index.compact`.

    Ids that were reserved and not used, and announcements that arrived in part, are settled first.
    """
    report = progress or (lambda _what, _done: None)
    free: list[NDArray[np.uint64]] = []
    async for _ in chunks(index, free):
        pass
    if free:
        await index.look(np.concatenate(free), settles=True)
    last = max(one.counters[0] for one in await states(index))
    living = Living(index.spread.page_id(last + 1, 0), on_way=index.spread.page_id(1, 0))
    empty: list[tuple[int, int]] = []
    done = 0
    async for chunk, parts in chunks(index):
        for part in parts:
            gone = part.states == State.RELEASED
            done += len(part)
            living.add(part)
            if index.record.text and gone.any():
                await _erase(index, chunk, part.page_ids[gone].tolist())
            if len(part) >= index.layout.rows - (chunk == 0) and gone.all():
                empty.append((index.spread.home_of(int(part.page_ids[0])), chunk))
        report("pages", done)
    removed = await _compact_buckets(index, living, report)
    for shard, chunk in empty:
        await _drop_chunks(Shard(index, shard), [chunk])
    return removed


async def _erase(index: ClusterShards, chunk: int, page_ids: Sequence[int]) -> None:
    """Remove the texts of released pages of a chunk."""
    locals_ = ids(map(index.spread.local, page_ids))
    keys = (b"counters", *chunk_keys([chunk]))
    shard = index.spread.home_of(page_ids[0])
    await index.together([index.script_call("erase", shard, keys, locals_)], ())


async def _compact_buckets(index: ClusterShards, living: Living, report: Progress) -> int:
    names = bucket_hashes(index, index.moment().live)
    found = await states(index, names)

    async def calls() -> AsyncIterator[Coroutine[Any, Any, tuple[int, int]]]:
        for number, one in enumerate(found):
            shard = Shard(index, number)
            for at, size in enumerate(one.sizes):
                if not size:
                    continue
                name = shard.prefix + names[at]
                fields = sorted(one for one in await shard.ask(b"HKEYS", name) if len(one) == FIELD)
                for table, some in groupby(fields, lambda field: field[0]):
                    held = list(some)
                    for start in range(0, len(held), _READ):
                        yield compact_some(shard, living, name, table, held[start : start + _READ])

    return await compact_all(calls(), report)


async def remove_expired(index: ClusterShards, oldest: int) -> None:
    """Remove all generations before ``oldest``; where a node is down, the next call does."""
    try:
        found = await states(index)
        for shard, one in enumerate(found):
            dead = sorted(generation for generation in one.firsts if generation < oldest)
            if not dead:
                continue
            living = [first for generation, first in one.firsts.items() if generation >= oldest]
            rows = index.layout.rows
            first, end = one.firsts[dead[0]], min(living, default=one.counters[0] + 1)
            own = Shard(index, shard)
            # The chunk in which the first living page is stays until that one expires.
            await _drop_chunks(own, range(first // rows, end // rows))
            hashes = [own.prefix + name for name in bucket_hashes(index, dead)]
            await drop(own, hashes=hashes)
            await drop(own, generations=dead)
    except IndexUnavailableError:
        return


async def _drop_chunks(shard: Shard, chunks: Sequence[int]) -> None:
    """Remove chunks of rows with their texts."""
    await drop(
        shard,
        rows=(shard.prefix + chunk_keys([chunk])[0] for chunk in chunks),
        large=(shard.prefix + chunk_keys([chunk])[1] for chunk in chunks),
    )


async def estimate_bytes(
    index: ClusterShards, found: Sequence[ShardState], hashes: Sequence[bytes]
) -> int:
    """Bytes of memory, keys included; texts by a sample of their keys."""
    rows = index.layout.rows
    size = rows * index.layout.row.itemsize
    total = 0
    texts: list[tuple[int, bytes]] = []
    looks: list[Coroutine[Any, Any, int]] = []
    for shard, one in enumerate(found):
        own = range(one.counters[4] // rows, one.counters[0] // rows + 1) if one.counters[0] else ()
        total += max(0, len(own) - 1) * size  # the last one grows; it is looked up
        texts += [(shard, chunk_keys([chunk])[1]) for chunk in own]
        held = [name for name, count in zip(hashes, one.sizes, strict=True) if count]
        held += [chunk_keys([chunk])[0] for chunk in own[-1:]]
        looks += [_weighed(Shard(index, shard), name) for name in held]
    step = max(1, len(texts) // _SAMPLED)
    sampled = [_weighed(Shard(index, shard), name) for shard, name in texts[::step]]
    try:
        sizes = await asyncio.gather(*looks, *sampled)
    except IndexUnavailableError:  # the user may not
        return total
    text = sum(sizes[len(looks) :])
    return total + sum(sizes[: len(looks)]) + round(text * len(texts) / max(1, len(sampled)))


async def _weighed(shard: Shard, name: bytes) -> int:
    """Bytes of memory of a key."""
    size = await shard.ask(b"MEMORY", b"USAGE", shard.prefix + name, b"SAMPLES", _SAMPLES)
    return int(size or 0)
