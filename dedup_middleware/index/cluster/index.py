"""The index spread over the masters of a cluster (see :mod:`.propose` for its protocol)."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import AsyncIterator, Coroutine, Iterable, Sequence
from itertools import groupby, pairwise
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base.errors import IndexUnavailableError
from dedup_middleware.base.options import Options
from dedup_middleware.index.base import Progress
from dedup_middleware.index.batching import Batcher
from dedup_middleware.index.cluster.propose import TURNS, propose
from dedup_middleware.index.cluster.shards import Announced, ClusterShards, Reserved, ids, text_of
from dedup_middleware.index.cluster.spread import FIELD, GROUPS, chunk_keys, group_hash
from dedup_middleware.index.cluster.visits import Visit
from dedup_middleware.index.pages import LEASE, Living, Pages, lapsed, suffixes_of
from dedup_middleware.index.redis.expiry import counters_of, drop
from dedup_middleware.index.redis.link import Call
from dedup_middleware.index.redis.propose import BUCKETS, batches
from dedup_middleware.index.redis.scripts import FIRST_SECOND, RowLayout
from dedup_middleware.index.redis.servers import Reply
from dedup_middleware.index.redis.upkeep import (
    compact_all,
    compact_some,
    forget_page_ids,
    pages_of,
)
from dedup_middleware.model.buckets import KEY_TABLE, BucketKey, BucketKeys, hash_bucket_key
from dedup_middleware.model.claims import Candidates, Claimed, IndexStats, Proposed, Wanted
from dedup_middleware.model.records import PageRecords, State, chosen, joined

_PROPOSED = 128  # pages per batch; more than on one server, as every shard touched costs a call
_LANES = 2
_CROWD = 20
# Maximum buckets of a batch on all shards; each call reads one table and generation at a time.
_BUCKETS = 2 * BUCKETS
_LOADED = 512  # maximum pages loaded together
_LOADED_OF_SHARD = 64  # the same per shard: fields and values must fit on Lua's stack
_KEYS_OF_SHARD = 2_000  # maximum bucket keys of these pages per shard, for the same reason
_READ = 512  # buckets read per call
_SAMPLES = 20  # fields of a hash sampled by MEMORY USAGE
_SAMPLED = 200  # approximate number of text keys sampled for their size
_LAST = 8192  # number of most recent page ids; with 64 shards two reserved blocks of each


def most_buckets(shards: int) -> int:
    """Maximum number of buckets of the pages proposed together."""
    return min(_BUCKETS, BUCKETS * shards)


@attrs.frozen(eq=False)
class Shard:
    """One shard as a :class:`.Server` for the maintenance functions; page ids are local ids."""

    index: ClusterShards
    number: int

    @property
    def prefix(self) -> bytes:
        return self.index.spread.prefix(self.number)

    @property
    def layout(self) -> RowLayout:
        return self.index.layout

    async def ask(self, *command: bytes | str | int) -> Reply:
        return (await self.index._link.submit(Call(command))).reply

    async def run(
        self, name: str, *arguments: bytes | int, more_keys: Sequence[bytes] = ()
    ) -> Reply:
        keys = (b"counters", b"committed", *(key[len(self.prefix) :] for key in more_keys))
        call = self.index.script_call(name, self.number, keys, *arguments)
        return (await self.index._link.submit(call)).reply


class ShardState:
    """The reply of the script ``state``."""

    def __init__(self, reply: Any) -> None:
        counters, committed, pending, firsts, sizes = reply
        self.counters = counters_of(counters)
        self.committed: bytes = committed
        self.pending = int(pending)
        self.firsts = {  # first local id of each generation
            int(generation): int.from_bytes(raw[:6], "little")
            for generation, raw in zip(firsts[::2], firsts[1::2], strict=True)
            if generation.isdigit()
        }
        self.sizes: list[int] = sizes  # number of buckets in each requested hash


class ClusterIndex(ClusterShards):
    """Buckets and page records spread over hash tags; pages are entered by announcements.

    :param window: seconds for which a page is remembered, 0: for ever
    """

    def __init__(self, options: Options, *, window: float = 0.0) -> None:
        super().__init__(options, window=window)
        self._proposals = Batcher(self._propose, _PROPOSED, lanes=_LANES, crowd=_CROWD)
        # Cache of ``expiring``: the oldest generation, and each shard's first id after it.
        self._expiring: tuple[int, list[int]] = (-1, [])

    async def _propose(self, pages: list[Proposed]) -> list[Claimed | Candidates | Exception]:
        made: list[Claimed | Candidates | Exception] = []
        for group in batches(pages, 1, most_buckets(self.spread.shards)):
            made += await propose(self, group)
        return made

    async def read_buckets(self, bucket_keys: Sequence[BucketKey]) -> list[bytes]:
        return await self.read_all([one.bucket for one in bucket_keys])

    async def settled_of_key(self, key_hash: int) -> PageRecords:
        from dedup_middleware.index.scan import neighbours  # numba stays lazy

        # An announced page is in its buckets before it has a page record, perhaps in the next
        # generation. ``settles`` denies it a record from now on, so it must be announced again.
        bucket_key = hash_bucket_key(KEY_TABLE, key_hash)
        data = await self.read_all([bucket_key.bucket], later=1)
        near = neighbours([bucket_key], data, 0)
        found = (await self.look(near.page_ids, texts=Wanted.NOTHING, settles=True)).records
        return chosen(found, found.content["key"] == np.uint64(key_hash))

    async def expiring(self, page_id: int) -> bool:
        if not self._window.seconds:
            return False
        oldest = self.moment().oldest
        if self._expiring[0] != oldest:
            later = []
            for state in await self.states():
                firsts = [first for one, first in state.firsts.items() if one > oldest]
                later.append(min(firsts, default=state.counters[0] + 1))
            self._expiring = oldest, later
        return self.spread.local(page_id) < self._expiring[1][self.spread.home_of(page_id)]

    # Maintenance

    async def states(self, hashes: Sequence[bytes] = ()) -> list[ShardState]:
        """States of all shards, after ending expired leases."""
        keys = (b"counters", b"committed", b"generations", *hashes)
        calls = [self.script_call("state", shard, keys) for shard in range(self.spread.shards)]
        return list(map(ShardState, await self._link.replies(calls)))

    async def _replies_of(self, shards: Iterable[int], command: str, name: bytes) -> list[Reply]:
        """Replies of shards to a command on the key ``name``, given without prefix."""
        every = [Shard(self, number) for number in shards]
        return await asyncio.gather(*(one.ask(command, one.prefix + name) for one in every))

    def _bucket_hashes(self, generations: Iterable[int]) -> list[bytes]:
        """Names of all bucket hashes of the generations, without a shard's prefix."""
        return [group_hash(group, end) for group in GROUPS for end in self.ends(generations)]

    async def count(self) -> int:
        return sum([self._committed(one.committed) for one in await self.states()])

    async def pages(self) -> AsyncIterator[PageRecords]:
        # One chunk of every shard at a time.
        async for _, parts in self._chunks_of_all():
            found = joined(parts)
            order = np.argsort(found.page_ids)
            if len(order):
                yield chosen(found, order)

    async def _chunks_of_all(
        self, free: list[NDArray[np.uint64]] | None = None
    ) -> AsyncIterator[tuple[int, list[PageRecords]]]:
        """Yield each chunk with the records of every shard; ids of FREE rows go to ``free``."""
        found = await self.states()
        rows, row, spread = self.layout.rows, self.layout.row, self.spread
        starts = [min(one.firsts.values(), default=1) for one in found]
        lasts = [one.counters[0] for one in found]
        for chunk in range(min(starts) // rows, max(lasts) // rows + 1):
            own = [shard for shard, last in enumerate(lasts) if last // rows >= chunk]
            replies = await self._replies_of(own, "GET", chunk_keys([chunk])[0])
            parts = []
            for shard, raw in zip(own, replies, strict=True):
                # Rows beyond the end of a chunk, and those of a missing chunk, are FREE: their ids
                # were not announced, but some may have records in buckets.
                data = (raw or b"").ljust(rows * row.itemsize, b"\0")
                some = np.frombuffer(data, row, count=rows)
                part = pages_of((chunk * rows, some), self.layout)
                if free is not None and (raw or chunk >= starts[shard] // rows):
                    locals_ = np.flatnonzero(some["stamp"] == State.FREE) + chunk * rows
                    locals_ = locals_[(locals_ > 0) & (locals_ <= lasts[shard])].astype(np.uint64)
                    free.append(locals_ << np.uint64(spread.bits) | np.uint64(shard))
                page_ids = part.page_ids << np.uint64(spread.bits) | np.uint64(shard)
                parts.append(attrs.evolve(part, page_ids=page_ids))
            yield chunk, parts

    async def buckets(self) -> AsyncIterator[tuple[int, bytes]]:
        every: set[int] = set()
        for name in self._bucket_hashes(self.moment().live):
            for fields in await self._replies_of(range(self.spread.shards), "HKEYS", name):
                every.update(int.from_bytes(one, "big") for one in fields if len(one) == FIELD)
        ordered = sorted(every)
        for start in range(0, len(ordered), _READ):
            part = ordered[start : start + _READ]
            for bucket, raw in zip(part, await self.read_all(part), strict=True):
                if raw:
                    yield bucket, raw

    async def page_ids(self) -> range:
        found = await self.states()
        first = min([first for one in found for first in one.firsts.values()], default=1)
        last = max(one.counters[0] for one in found)
        return range(self.spread.page_id(first, 0), self.spread.page_id(last + 1, 0))

    async def last_page_ids(self) -> NDArray[np.uint64]:
        count = max(1, _LAST // self.spread.shards)
        every = [
            self.spread.page_id(local, shard)
            for shard, one in enumerate(await self.states())
            for local in range(max(1, one.counters[0] - count + 1), one.counters[0] + 1)
        ]
        return np.array(every, np.uint64)

    async def forget(self, page_ids: Sequence[int]) -> int:
        forgotten = 0
        wanted = list(map(int, page_ids))
        for part in self.spread.by_home(wanted):
            shard = Shard(self, self.spread.home_of(wanted[part[0]]))
            own = [self.spread.local(wanted[at]) for at in part]
            forgotten += await forget_page_ids(shard, own)
        return forgotten

    async def compact(self, progress: Progress = lambda *_: None) -> int:
        """See :meth:`.Index.compact`; unused ids and partial announcements are settled first."""
        free: list[NDArray[np.uint64]] = []
        async for _ in self._chunks_of_all(free):
            pass
        if free:
            await self.look(np.concatenate(free), settles=True)
        last = max(one.counters[0] for one in await self.states())
        living = Living(self.spread.page_id(last + 1, 0), on_way=self.spread.page_id(1, 0))
        empty: list[tuple[int, int]] = []
        done = 0
        async for chunk, parts in self._chunks_of_all():
            for part in parts:
                gone = part.states == State.RELEASED
                done += len(part)
                living.add(part)
                if self.record.text and gone.any():  # removes the texts
                    page_ids = part.page_ids[gone].tolist()
                    keys = (b"counters", *chunk_keys([chunk]))
                    shard, own = self.spread.home_of(page_ids[0]), map(self.spread.local, page_ids)
                    await self._link.submit(self.script_call("erase", shard, keys, ids(own)))
                if len(part) >= self.layout.rows - (chunk == 0) and gone.all():
                    empty.append((self.spread.home_of(int(part.page_ids[0])), chunk))
            progress("pages", done)
        removed = await self._compact_buckets(living, progress)
        for shard, chunk in empty:
            await _drop_chunks(Shard(self, shard), [chunk])
        return removed

    async def _compact_buckets(self, living: Living, progress: Progress) -> int:
        names = self._bucket_hashes(self.moment().live)
        found = await self.states(names)

        async def calls() -> AsyncIterator[Coroutine[Any, Any, tuple[int, int]]]:
            for number, one in enumerate(found):
                shard = Shard(self, number)
                for at, size in enumerate(one.sizes):
                    if not size:
                        continue
                    name = shard.prefix + names[at]
                    every = await shard.ask("HKEYS", name)
                    fields = sorted(one for one in every if len(one) == FIELD)
                    for table, some in groupby(fields, lambda field: field[0]):
                        held = list(some)
                        for start in range(0, len(held), _READ):
                            part = held[start : start + _READ]
                            yield compact_some(shard, living, name, table, part)

        return await compact_all(calls(), progress)

    async def _remove_expired(self, oldest: int) -> None:
        """Remove all generations before ``oldest``; if a node is down, a later call does it."""
        with contextlib.suppress(IndexUnavailableError):
            found = await self.states()
            every = sorted({gone for one in found for gone in one.firsts if gone < oldest})
            # Records of a page are on all shards, the entry of its generation only on that of its
            # id: what is left when that is gone would never be found again.
            for shard in range(len(found) if every else 0):
                own = Shard(self, shard)
                await drop(own, hashes=[own.prefix + name for name in self._bucket_hashes(every)])
            for shard, one in enumerate(found):
                dead = sorted(generation for generation in one.firsts if generation < oldest)
                if not dead:
                    continue
                living = [first for generation, first in one.firsts.items() if generation >= oldest]
                rows = self.layout.rows
                first, end = one.firsts[dead[0]], min(living, default=one.counters[0] + 1)
                own = Shard(self, shard)
                # The chunk with the first live page stays until that page expires.
                await _drop_chunks(own, range(first // rows, end // rows))
                await drop(own, generations=dead)

    async def stats(self) -> IndexStats:
        hashes = self._bucket_hashes(self.moment().live)
        found = await self.states(hashes)
        committed = sum([self._committed(one.committed) for one in found])
        pending = sum(one.pending for one in found)
        rows = sum(one.counters[1] - one.counters[4] for one in found)
        return IndexStats(
            committed=committed,
            pending=pending,
            released=max(0, rows - committed - pending),
            buckets=sum(sum(one.sizes) for one in found),
            bytes=await self._estimate_bytes(found, hashes),
            corrupt=self.corrupt,
            overflow=sum(one.counters[3] for one in found),
            parameters=dict(self._parameters),
        )

    async def _estimate_bytes(self, found: Sequence[ShardState], hashes: Sequence[bytes]) -> int:
        """Estimated bytes of memory, including keys; texts are extrapolated from a sample."""
        rows = self.layout.rows
        size = rows * self.layout.row.itemsize
        total = 0
        texts: list[tuple[int, bytes]] = []
        looks: list[Coroutine[Any, Any, int]] = []
        for shard, one in enumerate(found):
            last = one.counters[0]
            own = range(one.counters[4] // rows, last // rows + 1) if last else ()
            total += max(0, len(own) - 1) * size  # the last chunk is not full; it is looked up
            texts += [(shard, chunk_keys([chunk])[1]) for chunk in own]
            held = [name for name, count in zip(hashes, one.sizes, strict=True) if count]
            held += [chunk_keys([chunk])[0] for chunk in own[-1:]]
            looks += [_memory_of(Shard(self, shard), name) for name in held]
        step = max(1, len(texts) // _SAMPLED)
        sampled = [_memory_of(Shard(self, shard), name) for shard, name in texts[::step]]
        try:
            sizes = await asyncio.gather(*looks, *sampled)
        except IndexUnavailableError:  # the user lacks the right
            return total
        text = sum(sizes[len(looks) :])
        return total + sum(sizes[: len(looks)]) + round(text * len(texts) / max(1, len(sampled)))

    # Loading

    async def _load(self, pages: Pages) -> None:
        count = min(_LOADED, _LOADED_OF_SHARD * self.spread.shards)
        most = _KEYS_OF_SHARD * self.spread.shards
        start = 0
        while start < len(pages):
            fit = int(np.searchsorted(pages.starts, pages.starts[start] + most, "right")) - 1
            end = max(start + 1, min(fit, start + count, len(pages)))
            await self._load_some(pages.part(start, end))
            start = end

    async def _load_some(self, pages: Pages) -> None:
        """Announce and commit pages without reading their candidates."""
        for _ in range(TURNS):  # others may settle the ids, and a generation may end, meanwhile
            made = await self._load_once(pages, await self.take_ids(len(pages)))
            if made.all():
                return
            self.drop_ids()
            pages = pages.chosen(~made)
        raise lapsed(self._where)

    async def _load_once(self, pages: Pages, reserved: Sequence[Reserved]) -> NDArray[np.bool_]:
        """Announce and commit pages once; return a mask of those that succeeded."""
        kept = self.record.pack(pages.content)
        texts = self.record.text
        announced = [
            Announced(
                one,
                secrets.randbits(64),
                kept[i].tobytes() + State.PENDING.to_bytes(4, "little"),
                text_of(pages.addresses[i] or b"", pages.payloads[i]) if texts else b"",
            )
            for i, one in enumerate(reserved)
        ]
        of_page = np.repeat(np.arange(len(pages)), np.diff(pages.starts))
        words = np.empty(2 * len(of_page), np.uint64)
        words[::2] = pages.bucket_keys >> np.uint64(24)
        words[1::2] = suffixes_of(pages.bucket_keys, pages.content["simhash"][of_page])
        bounds = (2 * pages.starts).tolist()
        keys: list[Sequence[BucketKey]] = [BucketKeys(words[a:b]) for a, b in pairwise(bounds)]
        page_ids = [one.page_id for one in reserved]
        newest = reserved[0].generation
        counts = list(map(len, keys))
        visited = Visit(self, keys, counts, page_ids, [newest], newest, returns=False)
        parts, creating = self.creating(announced, LEASE)
        stamps = np.maximum(
            np.where(pages.times, pages.times, np.uint32(time.time())), FIRST_SECOND
        )
        try:
            replies, _ = await self.together([*visited.calls, *creating], ())
            flags = self.created(len(pages), parts, replies[len(visited.calls) :])
            made = np.array([one is True for one in flags], np.bool_)
            await self._commit_loaded(
                [one for one, is_made in zip(announced, made, strict=True) if is_made],
                stamps[made].astype("<u4"),
            )
        except BaseException:
            # Pages left pending would block similar pages until the lease ends.
            self.give_up([one.claim for one in announced])
            raise
        return made

    async def _commit_loaded(
        self, announced: Sequence[Announced], stamps: NDArray[np.uint32]
    ) -> None:
        claims = [one.claim for one in announced]
        contents = [one.row[: self.record.itemsize] for one in announced]
        self._claimed.update(zip(claims, contents, strict=True))
        parts = self.spread.by_home(claim.page_id for claim in claims)
        calls = [
            self._commit([claims[at] for at in part], stamps[part].tobytes()) for part in parts
        ]
        try:
            flags = await asyncio.gather(*calls)
        finally:
            for claim in claims:
                self._claimed.pop(claim, None)
        if not all(map(all, flags)):
            raise lapsed(self._where)


async def _drop_chunks(shard: Shard, chunks: Sequence[int]) -> None:
    await drop(
        shard,
        rows=(shard.prefix + chunk_keys([chunk])[0] for chunk in chunks),
        large=(shard.prefix + chunk_keys([chunk])[1] for chunk in chunks),
    )


async def _memory_of(shard: Shard, name: bytes) -> int:
    """Bytes of memory of a key, 0 if it does not exist."""
    size = await shard.ask("MEMORY", "USAGE", shard.prefix + name, "SAMPLES", _SAMPLES)
    return int(size or 0)
