"""How an index over many masters lays out rows and buckets and reads them, on a real cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import attrs
import numpy as np
import pytest

from dedup_middleware.base.errors import IndexRefusedError, OptionsError
from dedup_middleware.base.options import Options
from dedup_middleware.index.cluster.index import ClusterIndex
from dedup_middleware.index.cluster.spread import (
    GROUPS,
    chunk_keys,
    field_of,
    group_hash,
    groups_of,
)
from dedup_middleware.index.cluster.visits import Visit
from dedup_middleware.index.opening import open_index
from dedup_middleware.index.redis.expiry import end_of
from dedup_middleware.index.redis.link import Call
from dedup_middleware.model.buckets import (
    ANCHOR_TABLES,
    EXACT_TABLE,
    FIRST_BAND_TABLE,
    SIMHASH_TABLES,
    BucketKey,
)
from dedup_middleware.model.claims import Candidates, Claim, Claimed, Known, Wanted
from dedup_middleware.model.records import (
    BAND_RECORD,
    NO_PAGES,
    SIMHASH_RECORD,
    joined,
)
from tests.index.bulk import some_pages
from tests.index.claiming import BUCKET_KEYS, entered
from tests.index.harness import PARAMETERS, ClusterHarness, bucket_keys_of, entry
from tests.index.redis_use import LEASE
from tests.servers import RedisServer


@pytest.mark.parametrize("window", [0.0, 10_000.0])
async def test_buckets_read_whole_and_by_a_script(
    cluster_masters: list[RedisServer], window: float
) -> None:
    """A script finds in short buckets what is found in them when they are sent whole, with bytes
    behind the last record, and pages that share a bucket."""
    harness = ClusterHarness(cluster_masters, window=window)
    index = await harness.opened()
    rng = np.random.default_rng(5)
    tables = (0, SIMHASH_TABLES[0], EXACT_TABLE, *ANCHOR_TABLES, FIRST_BAND_TABLE, 20)
    buckets = [table << 16 | prefix for table in tables for prefix in range(6)]
    live = list(index.moment().live) if window else [0]
    calls = []
    for bucket in buckets:
        width = SIMHASH_RECORD if bucket >> 16 in SIMHASH_TABLES else BAND_RECORD
        for end in [end_of(one) for one in live] if window else [b""]:
            count, odd = rng.integers(0, 5), rng.integers(0, 3)
            pages = rng.integers(1, 9, count)
            raw = b"".join(
                int(one).to_bytes(5, "little") + bytes([one % 3]) + bytes(width - 6)
                for one in pages
            )
            (shard,) = index.spread.of_buckets(np.array([bucket], np.uint64)).tolist()
            (group,) = groups_of(np.array([bucket >> 16])).tolist()
            key = index.spread.prefix(shard) + group_hash(group, end)
            raw += bytes(int(odd))
            calls.append(Call(("HSET", key, field_of(bucket), raw)))
    await index.together(calls, ())
    keys: list[Sequence[BucketKey]] = [
        [BucketKey(int(one), int(rng.integers(0, 3))) for one in rng.choice(buckets, 12, False)]
        for _ in range(40)
    ]
    results = []
    for index.reads_whole in (True, False):
        made = Visit(index, keys, [0] * 40, [0] * 40, live, live[-1])
        assert bool(made.places) == index.reads_whole
        replies, _ = await index.together(made.calls, ())
        every = made.found(replies, 2)
        results.append(
            [one and (one.page_ids.tolist(), one.tables.tolist(), one.corrupt) for one in every]
        )
    assert results[0] == results[1]
    assert sum(bool(one and one[0]) for one in results[0]) > 20
    await harness.close()


async def test_long_buckets_are_read_by_a_script(cluster: ClusterHarness) -> None:
    """After meeting buckets of 40 pages a process has buckets searched by the servers."""
    index = await cluster.opened()
    known = NO_PAGES
    for i in range(40):
        made = await index.propose(entry(BUCKET_KEYS, key=i), 0, LEASE, known=Known(known))
        assert isinstance(made, Claimed)
        assert await index.commit(made.claim)
        known = joined([known, await index.fetch(np.array([made.claim.page_id], np.uint64))])
    assert index.reads_whole
    for _ in range(2):
        copy = await index.propose(entry(BUCKET_KEYS, key=99), 0, LEASE)
        assert isinstance(copy, Candidates)
        assert len(copy.near) == 40
        assert not index.reads_whole


@pytest.mark.parametrize("reads_whole", [True, False])
async def test_most_buckets_of_one_table_and_part(
    cluster_masters: list[RedisServer], *, reads_whole: bool
) -> None:
    """As many buckets as are read together may all lie in one table and on one part: their fields
    and values fit on Lua's stack, with a window as well."""
    harness = ClusterHarness(cluster_masters, window=10_000.0)
    harness.options = attrs.evolve(harness.options, shards=2)
    index = await harness.opened()
    index.reads_whole = reads_whole
    buckets = np.arange(1 << 16, dtype=np.uint64) | np.uint64(ANCHOR_TABLES[0] << 16)
    there = buckets[index.spread.of_buckets(buckets) == 0][:3968].tolist()
    keys = [BucketKey(bucket, 1) for bucket in there]
    pages = [entry(tuple(keys[start : start + 31]), key=start) for start in range(0, 3968, 31)]
    assert len(pages) == 128
    for _ in range(2):  # entered, and found
        made = await asyncio.gather(*(index.propose(one, 0, LEASE) for one in pages))
        claims = [one.claim for one in made if isinstance(one, Claimed)]
        assert all(await asyncio.gather(*map(index.commit, claims)))
    assert await index.count() == 128
    await harness.close()


async def test_hashes_of_buckets_are_no_lists(cluster: ClusterHarness) -> None:
    """From the first page on: a list of up to 512 fields is searched from its start. The field that
    sees to it is no bucket. A hash without it, or with that of another index, gets its own."""
    index = await cluster.opened()
    assert await index.commit(await entered(index, entry(BUCKET_KEYS)))
    every = [prefix + group_hash(group) for prefix in cluster.prefixes() for group in GROUPS]
    hashes = [key for key in every if cluster.admin.exists(key)]
    assert {cluster.admin.object("encoding", key) for key in hashes} == {b"hashtable"}
    assert (await index.stats()).buckets == len(BUCKET_KEYS)
    assert len([one async for one in index.buckets()]) == len(BUCKET_KEYS)
    marks = [cluster.admin.hget(key, b"") for key in hashes]
    for i, key in enumerate(hashes):
        cluster.admin.hdel(key, b"") if i % 2 else cluster.admin.hset(key, b"", b"another")
    copy = await index.propose(entry(BUCKET_KEYS), 0, LEASE)
    assert isinstance(copy, Candidates)
    assert await index.commit(await entered(index, entry(BUCKET_KEYS)))
    assert [cluster.admin.hget(key, b"") for key in hashes] == marks


@pytest.mark.parametrize("size", [10, 220, 600, 9_000])
async def test_texts_share_fields(cluster: ClusterHarness, size: int) -> None:
    """Short texts of sixteen rows share a field; each is found whether it came alone or with
    others, and is deleted when its page is gone."""
    index = await cluster.opened()
    pages = [
        entry(
            bucket_keys_of(key, key << 40, (key << 40,)),
            key=key,
            address=f"https://a.example/{key}",
            payload=bytes([key]) * size if key % 3 else b"",
        )
        for key in range(1, 50)
    ]
    claims = [await entered(index, one) for one in pages[:7]]
    claims += await asyncio.gather(*(entered(index, one) for one in pages[7:]))
    for claim in claims:
        await (index.commit if claim.page_id % 5 else index.release)(claim)

    async def check(kept: Sequence[Claim]) -> None:
        wanted = np.array([one.page_id for one in kept], np.uint64)
        seen = await index.look(wanted)
        expected = [page for page, claim in zip(pages, claims, strict=True) if claim in kept]
        assert seen.addresses == [one.address for one in expected]
        assert seen.payloads == [one.payload for one in expected]
        alone = await index.look(wanted, texts=Wanted.ADDRESSES)
        assert alone.addresses == seen.addresses

    await check(claims)
    held = [
        cluster.admin.hlen(prefix + chunk_keys([chunk])[1])
        for prefix in cluster.prefixes()
        for chunk in range(2)
    ]
    most = {10: 10, 220: 10, 600: 40, 9_000: 60}[size]
    assert 4 <= sum(held) <= most
    await index.compact()
    await check([one for one in claims if one.page_id % 5])
    gone = await index.look(
        np.array([one.page_id for one in claims if not one.page_id % 5], np.uint64)
    )
    assert set(gone.addresses) <= {None}
    assert set(gone.payloads) <= {b""}


async def test_another_number_of_shards_is_refused(cluster: ClusterHarness) -> None:
    """The number is fixed when the index is made; the message names the setting."""
    await cluster.client()
    options = Options(
        index_url=cluster.options.index_url,
        namespace=cluster.options.namespace,
        shards=16,
    )
    index = open_index(options)
    with pytest.raises(IndexRefusedError, match="DEDUP_SHARDS"):
        await index.open(PARAMETERS)
    await index.attach()  # commands take the index as it is
    assert (await index.stats()).parameters["parts"] == "8"
    await index.close()


@pytest.mark.parametrize("count", ["3", "0", "", "8192"])
async def test_a_damaged_number_of_shards(cluster: ClusterHarness, count: str) -> None:
    """Pages would be looked for on other shards than they are on, so the index is refused."""
    await cluster.client()
    index = open_index(cluster.options)
    assert isinstance(index, ClusterIndex)
    opened = await index._first({}, b"")
    with pytest.raises(IndexRefusedError, match="its parameter parts"):
        await index._begin({**opened.parameters, "parts": count}, opened.epoch, sets_up=False)
    await index.close()


@pytest.mark.parametrize("shards", [0, 3, 8192])
def test_shards_are_a_power_of_two(shards: int) -> None:
    """Any other number is refused."""
    with pytest.raises(OptionsError, match="DEDUP_SHARDS"):
        Options(shards=shards)


async def test_a_chunk_of_rows_grows_to_its_exact_size(
    cluster: ClusterHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes memory for the rows that it holds and a few more, in the end for all of them."""
    monkeypatch.setattr("random.randrange", lambda _: 0)  # all pages on one shard
    index = await cluster.opened()
    rows, size = index.layout.rows, index.layout.row.itemsize
    key = index.spread.prefix(0) + chunk_keys([0])[0]
    loaded = 0
    for count in (1, rows // 8, rows // 2, rows - 1):
        await index.load(some_pages(count - loaded, 1 + loaded))
        loaded = count
        length = cluster.admin.strlen(key)
        assert length % size == 0
        assert count < length // size <= min(rows, count + 1 + rows // 4)
        assert cluster.admin.memory_usage(key) < 1.3 * length + 500
    assert length == rows * size
    assert await index.count() == rows - 1
    assert len([one async for part in index.pages() for one in part.page_ids]) == rows - 1
