"""On Redis a bucket is a field of its table's hash, and a key of its own once it is large."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from dedup_middleware.index.base import Index
from dedup_middleware.index.pages import pages_of
from dedup_middleware.index.redis.expiry import field_of, hash_of, remove_expired
from dedup_middleware.index.redis.index import RedisIndex
from dedup_middleware.model.buckets import BucketKey, record
from dedup_middleware.model.claims import Entry
from dedup_middleware.model.records import CONTENT, SIMHASH_RECORD
from tests.index.bulk import all_buckets
from tests.index.claiming import candidates_of, entered
from tests.index.harness import LARGE, RedisHarness, bucket_keys_of
from tests.index.redis_use import LEASE
from tests.servers import RedisServer

DISTANCE = 0  # only equal SimHashes match
PREFIX = 0xABCD
FITS = LARGE // SIMHASH_RECORD  # records of a bucket that is a field


def page(number: int) -> Entry:
    """A page that shares one bucket with all others: that of its SimHash in the first table."""
    simhash = PREFIX << 48 | (number * 0x9E3779B97F4A7C15 & (1 << 48) - 1)
    content = np.zeros(1, CONTENT)
    content["key"], content["simhash"], content["size"] = number, simhash, 9
    bands = (number * 0xC2B2AE3D27D4EB4F & (1 << 64) - 1, number * 0x165667B19E3779F9 & (1 << 63))
    return Entry(
        bucket_keys_of(number, simhash, bands[:1]), content.tobytes(), f"https://a/{number}"
    )


SHARED = page(1).bucket_keys[1]


async def by_load(index: Index, pages: list[Entry]) -> None:
    """Load pages in bulk."""
    await index.load(pages_of(pages))


async def by_proposal(index: Index, pages: list[Entry]) -> None:
    """Propose pages, many in a call, and commit them."""
    made = await asyncio.gather(*(index.propose(one, DISTANCE, LEASE) for one in pages))
    claims = [one.claim for one in made]
    assert None not in claims
    assert all(await asyncio.gather(*(index.commit(one) for one in claims if one)))


async def by_claim(index: Index, pages: list[Entry]) -> None:
    """Claim pages one by one, whatever is stored there."""
    for one in pages:
        assert await index.commit(await entered(index, one, LEASE))


def raw_of(harness: RedisHarness, bucket_key: BucketKey) -> tuple[bytes | None, bytes | None]:
    """The value of a bucket's field, and the key of a large bucket."""
    name, field = hash_of(harness.prefix, bucket_key.table), field_of(bucket_key.bucket)
    return harness.admin.hget(name, field), harness.admin.get(name + field)


def suffixes(bucket_key: BucketKey, pages: list[Entry]) -> bytes:
    """The records of pages, numbered from 1, in the bucket that all share."""
    return b"".join(
        record(BucketKey(bucket_key.bucket, one.bucket_keys[1].suffix), number)
        for number, one in enumerate(pages, 1)
    )


@pytest.mark.parametrize("enter", [by_load, by_proposal, by_claim])
async def test_bucket_grows_out_of_its_field(redis_server: RedisServer, enter) -> None:
    """Up to 4 KB a bucket is a field, of its exact size; beyond that a key, and its field is empty.
    Nothing of it is lost, whichever way a page comes in, and it is counted once."""
    harness = RedisHarness(redis_server)
    index = await harness.client()
    pages = [page(number) for number in range(1, FITS + 11)]
    await by_load(index, pages[: FITS - 10])
    await enter(index, pages[FITS - 10 : FITS])
    assert raw_of(harness, SHARED) == (suffixes(SHARED, pages[:FITS]), None)
    before = (await index.stats()).buckets
    await enter(index, pages[FITS : FITS + 3])
    assert raw_of(harness, SHARED) == (b"", suffixes(SHARED, pages[: FITS + 3]))
    await enter(index, pages[FITS + 3 :])
    whole = suffixes(SHARED, pages)
    assert raw_of(harness, SHARED) == (b"", whole)
    assert (await all_buckets(index))[SHARED.bucket] == whole
    assert await index.read_buckets([SHARED]) == [whole]
    counts = {one.bucket for entry in pages[FITS:] for one in entry.bucket_keys}
    known = {one.bucket for entry in pages[:FITS] for one in entry.bucket_keys}
    assert (await index.stats()).buckets == before + len(counts - known)
    await harness.close()


async def test_copy_is_found_in_a_large_bucket(redis_server: RedisServer) -> None:
    """The scan gets all records of a large bucket, those of the same call included."""
    harness = RedisHarness(redis_server)
    index = await harness.client()
    pages = [page(number) for number in range(1, FITS + 20)]
    await by_load(index, pages)
    last = len(pages)
    simhash = int(np.frombuffer(pages[-1].content, CONTENT)["simhash"][0])
    content = np.zeros(1, CONTENT)
    content["key"], content["simhash"], content["size"] = 10**6, simhash, 9
    copies = [
        Entry(bucket_keys_of(10**6 + i, simhash, (1 << 40 + i,)), content.tobytes(), None)
        for i in (0, 1)
    ]
    one, two = await asyncio.gather(*(index.propose(copy, DISTANCE, LEASE) for copy in copies))
    assert candidates_of(one).near.page_ids.tolist() == [last]
    assert candidates_of(two).near.page_ids.tolist() == [last, last + 1]
    await harness.close()


async def test_large_bucket_shrinks_into_its_field(redis_server: RedisServer) -> None:
    """Compaction turns a large bucket into a field again, or removes it together with its key."""
    harness = RedisHarness(redis_server)
    index = await harness.client()
    count = FITS + 20
    await by_load(index, [page(number) for number in range(1, count + 1)])
    await index.forget(range(1, 101))
    await index.compact()
    field, own = raw_of(harness, SHARED)
    assert own is None
    assert field is not None
    assert len(field) == (count - 100) * SIMHASH_RECORD
    await by_load(index, [page(number) for number in range(1000, 1100)])
    field, own = raw_of(harness, SHARED)
    assert field == b""
    assert own is not None
    assert len(own) == count * SIMHASH_RECORD
    await index.forget(range(1, 2000))
    await index.compact()
    assert raw_of(harness, SHARED) == (None, None)
    assert (await index.stats()).buckets == 0
    await harness.close()


async def test_large_buckets_expire(redis_server: RedisServer) -> None:
    """Both the hash of an expired generation and the keys of its large buckets are removed."""
    harness = RedisHarness(redis_server, 1000.0)
    index = await harness.client()
    assert isinstance(index, RedisIndex)
    pages = [page(number) for number in range(1, FITS + 20)]
    await by_load(index, pages)
    assert await index.read_buckets([SHARED]) == [suffixes(SHARED, pages)]
    assert len(harness.admin.keys(harness.prefix.replace(b"{", b"[{]") + b"b*")) == 7
    await remove_expired(index, 1 << 31)
    assert harness.admin.keys(harness.prefix.replace(b"{", b"[{]") + b"b*") == []
    assert (await index.stats()).buckets == 0
    await harness.close()


async def test_large_buckets_are_measured(redis_server: RedisServer) -> None:
    """The estimate of the memory includes that of large buckets, within a fifth."""
    harness = RedisHarness(redis_server)
    index = await harness.client()
    before = (await index.stats()).bytes
    name = hash_of(harness.prefix, SHARED.table)
    for prefix in range(100):
        field = prefix.to_bytes(2, "big")
        harness.admin.hset(name, field, b"")
        harness.admin.set(name + field, bytes(20_000))
    assert 0.8 < ((await index.stats()).bytes - before) / (100 * 20_480) < 1.2
    await harness.close()


async def test_what_is_measured_is_asked_for_together(own_server: RedisServer) -> None:
    """The hashes, and the large buckets sampled in them, do not cost an exchange each. The server
    is a new one: keys of other tests would need further calls of SCAN."""
    harness = RedisHarness(own_server)
    index = await harness.client()
    assert isinstance(index, RedisIndex)
    for table in range(10):
        name = hash_of(harness.prefix, table)
        for prefix in range(4):
            field = prefix.to_bytes(2, "big")
            harness.admin.hset(name, field, b"")
            harness.admin.set(name + field, bytes(5_000))
    trips: list[None] = []
    index.watch_round_trips(lambda: trips.append(None))
    await index.stats()
    assert len(trips) <= 6
    await harness.close()


async def test_lost_key_of_a_large_bucket(redis_server: RedisServer) -> None:
    """A large bucket whose key was removed reads as empty, and fills again."""
    harness = RedisHarness(redis_server)
    index = await harness.client()
    await by_load(index, [page(number) for number in range(1, FITS + 20)])
    harness.admin.delete(hash_of(harness.prefix, SHARED.table) + field_of(SHARED.bucket))
    assert await index.read_buckets([SHARED]) == [b""]
    for first, enter in ((1000, by_proposal), (1001, by_claim), (1002, by_load)):
        await enter(index, [page(first)])
    field, own = raw_of(harness, SHARED)
    assert own is None
    assert field is not None
    assert len(field) == 3 * SIMHASH_RECORD
    await harness.close()


async def test_bucket_that_shrinks_while_it_is_read(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the key of a large bucket is gone when it is read, its field is read once more."""
    harness = RedisHarness(redis_server)
    index = await harness.client()
    assert isinstance(index, RedisIndex)
    await by_load(index, [page(number) for number in range(1, FITS + 20)])
    ask = index.ask
    small = bytes(SIMHASH_RECORD)

    async def compacted_before(*command: bytes | str | int) -> object:
        if command[0] == "MGET" and isinstance(command[1], bytes) and b"b" in command[1]:
            harness.put_bucket(SHARED.bucket, small)
        return await ask(*command)

    monkeypatch.setattr(index, "ask", compacted_before)
    assert (await all_buckets(index))[SHARED.bucket] == small
    await harness.close()
