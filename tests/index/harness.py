"""One interface to drive every back end in tests, to look into it, and to damage it from
outside."""

from __future__ import annotations

import asyncio
import itertools
import sqlite3
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
import redis
from redis.cluster import RedisCluster

from dedup_middleware.base.options import Options
from dedup_middleware.index.base import Index
from dedup_middleware.index.cluster import spread
from dedup_middleware.index.cluster.index import ClusterIndex
from dedup_middleware.index.cluster.spread import Spread, chunk_keys
from dedup_middleware.index.memory.index import MemoryIndex
from dedup_middleware.index.parameters import Parameters, RecordLayout
from dedup_middleware.index.redis.expiry import field_of, hash_of
from dedup_middleware.index.redis.index import RedisIndex
from dedup_middleware.index.redis.scripts import RowLayout
from dedup_middleware.index.sqlite.index import SQLiteIndex
from dedup_middleware.model.buckets import (
    BucketKey,
    band_bucket_keys,
    hash_bucket_key,
    simhash_bucket_keys,
)
from dedup_middleware.model.claims import Candidates, Claim, Claimed, Entry
from dedup_middleware.model.records import CONTENT, State
from tests.servers import RedisServer


async def payloads(index: Index, page_ids: Sequence[int]) -> list[bytes]:
    """Payloads of pages, b"" where there is none."""
    return (await index.look(np.array(page_ids, np.uint64))).payloads


PARAMETERS = {"shingle_width": "3", "bands": "2"}
_names = itertools.count()
LARGE = 4096  # bytes beyond which a bucket is a key of its own on Redis
ROW, ROWS = RowLayout().row, RowLayout().rows


class Clock:
    """A clock that moves only when a test moves it."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


class Harness(ABC):
    """One store, any number of clients.

    :param window: seconds that pages are remembered, 0: for ever
    """

    moves_time: ClassVar[bool] = True  # whether the store's clock is moved by the test

    def __init__(self, window: float = 0.0) -> None:
        self.window = window
        self.clients: list[Index] = []

    @abstractmethod
    def connect(self) -> Index:
        """Another client of the same store, not opened yet."""

    @abstractmethod
    def advance(self, seconds: float) -> None:
        """Let time pass for every lease."""

    async def pass_time(self, seconds: float) -> None:
        """Let time pass for the generations."""
        self.advance(seconds)

    def now(self) -> float:
        """Seconds since 1970 by the store's clock."""
        return time.time()

    @abstractmethod
    def put_bucket(self, bucket: int, data: bytes) -> None:
        """Overwrite a bucket behind the index's back."""

    async def client(self, parameters: Parameters | None = PARAMETERS) -> Index:
        """Another client of the same store, opened; None: with the parameters that it has."""
        index = self.connect()
        self.clients.append(index)
        if parameters is None:
            await index.attach()
        else:
            await index.open(parameters)
        return index

    async def close(self) -> None:
        """Close all clients."""
        for index in self.clients:
            await index.close()


class BytesHarness(Harness):
    """A store whose page records are bytes, which can be damaged."""

    @abstractmethod
    def damage_page(self, number: int) -> None:
        """Cut a page record short."""

    @abstractmethod
    def damage_counter(self) -> None:
        """Set the counter of committed pages to 77."""


class MemoryHarness(Harness):
    """All clients are one object: the memory of one process."""

    def __init__(self, window: float = 0.0) -> None:
        super().__init__(window)
        self.clock = Clock()
        self.index = MemoryIndex(window=window, clock=self.clock, wall=self.clock)

    def connect(self) -> Index:
        return self.index

    def now(self) -> float:
        return self.clock.now

    def advance(self, seconds: float) -> None:
        self.clock.now += seconds

    def put_bucket(self, bucket: int, data: bytes) -> None:
        self.index._newest(0).put(bucket, data)


class SQLiteHarness(BytesHarness):
    """All clients open one file."""

    def __init__(self, path: Path, window: float = 0.0) -> None:
        super().__init__(window)
        self.path = path
        self.clock = Clock()

    def connect(self) -> Index:
        return SQLiteIndex(str(self.path), window=self.window, clock=self.clock)

    def advance(self, seconds: float) -> None:
        self.clock.now += seconds

    def now(self) -> float:
        return self.clock.now

    def execute(self, statement: str, *values: object) -> None:
        db = sqlite3.connect(self.path)
        with db:
            db.execute(statement, values)
        db.close()

    def put_bucket(self, bucket: int, data: bytes) -> None:
        self.execute("INSERT OR REPLACE INTO bucket VALUES (?, ?)", bucket, data)

    def damage_page(self, number: int) -> None:
        self.execute("UPDATE page SET content = x'0102' WHERE number = ?", number)

    def damage_counter(self) -> None:
        self.execute("UPDATE counter SET value = 77 WHERE name = 'committed'")


class RedisHarness(BytesHarness):
    """All clients use one namespace of a real server.

    The server's clock can't be moved, so the ends of the leases are moved instead.
    """

    moves_time = False

    def __init__(self, server: RedisServer, window: float = 0.0) -> None:
        super().__init__(window)
        self.server = server
        self.options = Options(index_url=server.url, namespace=f"test-{next(_names)}")
        self.prefix = b"{" + self.options.namespace.encode() + b"}"
        self.admin = server.client()
        self.slept = 0.0  # seconds

    def connect(self) -> Index:
        return RedisIndex(self.options, window=self.window)

    def advance(self, seconds: float) -> None:
        shorten_leases(self.admin, self.prefix, seconds)

    async def pass_time(self, seconds: float) -> None:
        self.slept += seconds
        await asyncio.sleep(seconds)

    def put_bucket(self, bucket: int, data: bytes) -> None:
        name, field = hash_of(self.prefix, bucket >> 16), field_of(bucket)
        self.admin.delete(name + field)
        if len(data) > LARGE:
            self.admin.hset(name, field, b"")
            self.admin.set(name + field, data)
        elif data:
            self.admin.hset(name, field, data)
        else:
            self.admin.hdel(name, field)

    def damage_page(self, number: int) -> None:
        key = self.prefix + b"s" + (number // ROWS).to_bytes(4, "little")
        chunk = self.admin.get(key)
        self.admin.set(key, chunk[: number % ROWS * ROW.itemsize + 50])

    def damage_counter(self) -> None:
        self.admin.set(self.prefix + b"committed", 77)

    async def close(self) -> None:
        await super().close()
        self.admin.close()


def shorten_leases(admin: redis.Redis | RedisCluster, prefix: bytes, seconds: float) -> None:
    """Let all leases of a namespace end earlier by some seconds."""
    leases = prefix + b"leases"
    for page, lease in admin.hgetall(leases).items():
        till = max(0, int.from_bytes(lease[8:14], "little") - round(seconds * 1000))
        admin.hset(leases, page, lease[:8] + till.to_bytes(6, "little") + lease[14:])


def in_steps(index: Index) -> bool:
    """Whether pages are announced before what they meet is judged, as on a cluster.

    There page ids say nothing of the order of pages; a page that is withdrawn leaves its records
    behind until the next compaction; and a page that knows others keeps its claim while it is
    judged against pages that came meanwhile.
    """
    return isinstance(index, ClusterIndex)


def check_race(index: Index, made: Sequence[Claimed | Candidates]) -> Claim:
    """Like pages were proposed at the same time: exactly one may be stored at once, the others are
    given a page that is on its way.

    On a cluster a page may hold its claim while it waits for pages with greater ids that it has
    met: of any two claims that with the smaller id knows of the other.

    :returns: the claim of the page that may be stored
    """
    claims = {one.claim.page_id: one for one in made if isinstance(one, Claimed)}
    for one in made:
        if isinstance(one, Candidates):
            assert State.PENDING in one.pages.states.tolist()
    if not in_steps(index):
        assert len(claims) == 1
        assert all(
            one.near.page_ids.tolist() == [*claims] for one in made if isinstance(one, Candidates)
        )
    for page_id, one in claims.items():
        greater = {other for other in claims if other > page_id}
        assert set(one.candidates.near.page_ids.tolist()) & claims.keys() == greater
    return claims[max(claims)].claim


def ascending(index: Index, page_ids: Sequence[int]) -> list[int]:
    """Page ids in the order in which they must have been given; on a cluster that may be any."""
    return sorted(page_ids) if isinstance(index, ClusterIndex) else list(page_ids)


class ClusterHarness(BytesHarness):
    """All clients use one namespace that is spread over the masters of a real cluster."""

    moves_time = False

    def __init__(self, masters: Sequence[RedisServer], window: float = 0.0) -> None:
        super().__init__(window)
        hosts = ",".join(f"127.0.0.1:{one.port}" for one in masters)
        self.options = Options(
            index_url=f"redis+cluster://{hosts}", namespace=f"test-{next(_names)}", shards=8
        )
        self.spread = Spread(self.options.namespace, self.options.shards)
        self.admin = RedisCluster("127.0.0.1", masters[0].port, protocol=2)
        self.slept = 0.0  # seconds

    def connect(self) -> Index:
        return ClusterIndex(self.options, window=self.window)

    async def opened(self) -> ClusterIndex:
        """A client whose steps can be called one by one."""
        index = await self.client()
        assert isinstance(index, ClusterIndex)
        return index

    def prefixes(self) -> list[bytes]:
        """Prefixes of the keys of all shards."""
        return [self.spread.prefix(shard) for shard in range(self.spread.shards)]

    def advance(self, seconds: float) -> None:
        for prefix in self.prefixes():
            shorten_leases(self.admin, prefix, seconds)

    async def pass_time(self, seconds: float) -> None:
        self.slept += seconds
        await asyncio.sleep(seconds)

    def put_bucket(self, bucket: int, data: bytes) -> None:
        (shard,) = self.spread.of_buckets(np.array([bucket], np.uint64)).tolist()
        (group,) = spread.groups_of(np.array([bucket >> 16])).tolist()
        name = self.spread.prefix(shard) + spread.group_hash(group)
        if data:
            self.admin.hset(name, spread.field_of(bucket), data)
        else:
            self.admin.hdel(name, spread.field_of(bucket))

    def damage_page(self, number: int) -> None:
        layout = RowLayout(RecordLayout(text=False))
        chunk, row = divmod(self.spread.local(number), layout.rows)
        key = self.spread.prefix(self.spread.home_of(number)) + chunk_keys([chunk])[0]
        raw = self.admin.get(key)
        self.admin.set(key, raw[: row * layout.row.itemsize + 50])

    def damage_counter(self) -> None:
        for prefix in self.prefixes():
            self.admin.delete(prefix + b"committed")
        self.admin.set(self.prefixes()[0] + b"committed", 77)

    async def close(self) -> None:
        await super().close()
        self.admin.close()


def bucket_keys_of(
    key: int, simhash: int = 0, bands: Sequence[int] = (0, 0)
) -> tuple[BucketKey, ...]:
    """The bucket keys of a page: key table, four SimHash tables, two bands."""
    return (
        hash_bucket_key(0, key * 0x9E3779B97F4A7C15 & (1 << 64) - 1),
        *simhash_bucket_keys(simhash),
        *band_bucket_keys(bands),
    )


def entry(
    bucket_keys: Sequence[BucketKey],
    *,
    size: int = 9,
    key: int = 0,
    address: str | None = None,
    payload: bytes = b"",
) -> Entry:
    """A page with some content."""
    content = np.zeros(1, CONTENT)
    content["size"], content["key"] = size, key
    content["sketch"] = np.arange(8, dtype=np.uint64) * np.uint64(0x0123456789ABCDEF)
    return Entry(tuple(bucket_keys), content.tobytes(), address, payload)
