"""Walking through the buckets of an index."""

from __future__ import annotations

import asyncio

import numpy as np

from dedup_middleware.index.base import Index
from dedup_middleware.index.cluster.index import ClusterIndex
from dedup_middleware.index.pages import pages_of
from dedup_middleware.index.scan import neighbours
from dedup_middleware.model.buckets import record
from dedup_middleware.model.records import State
from tests.index.bulk import (
    TIME,
    all_buckets,
    page,
    some_pages,
    stored,
)
from tests.index.harness import Harness
from tests.index.windows import in_time


async def test_all_buckets_are_walked_through(harness: Harness, index: Index) -> None:
    """Every bucket that holds a record is visited once, ascending, with all its bytes."""
    assert await all_buckets(index) == {}
    wanted: dict[int, bytes] = {}
    for key in (1, 2, 3, 500):
        entry = page(key, key << 30)
        number = await stored(index, entry)
        for bucket_key in entry.bucket_keys:
            wanted[bucket_key.bucket] = wanted.get(bucket_key.bucket, b"") + record(
                bucket_key, number
            )
    assert await all_buckets(index) == wanted
    harness.put_bucket(page(1).bucket_keys[0].bucket, b"")
    del wanted[page(1).bucket_keys[0].bucket]
    assert await all_buckets(index) == wanted


async def test_long_walk_beside_other_work(harness: Harness) -> None:
    """A walk visits all records that were in the buckets before it, however many there are, while
    others write."""
    index, other = await harness.client(), await harness.client()
    await index.load(some_pages(3000))
    before = await all_buckets(index)

    async def write() -> None:
        for key in range(10_000, 10_040):
            await stored(other, page(key, key << 40))

    met, _ = await asyncio.gather(all_buckets(index), write())
    assert len(before) > 10_000
    assert all(met[bucket].startswith(raw) for bucket, raw in before.items())


@in_time
async def test_pages_enter_the_newest_generation(harness: Harness) -> None:
    """In an index with a window a bucket is walked through with all its live generations, and
    loaded pages live as long as pages that are stored now."""
    index = await harness.client()
    old = await stored(index, page(1, 5))
    await harness.pass_time(harness.window / 2)
    assert await index.load(pages_of([page(2, 5)], [TIME])) == 1
    (new,) = {one async for part in index.pages() for one in part.page_ids.tolist()} - {old}
    assert isinstance(index, ClusterIndex) or new == old + 1
    simhash_bucket = page(1, 5).bucket_keys[1].bucket
    found = await all_buckets(index)
    assert found[simhash_bucket] == b"".join(
        record(page(1, 5).bucket_keys[1], n) for n in (old, new)
    )
    await harness.pass_time(harness.window)
    bucket_keys = page(1, 5).bucket_keys
    assert neighbours(bucket_keys, await index.read_buckets(bucket_keys), 0).page_ids.tolist() == [
        new
    ]
    assert (await all_buckets(index))[simhash_bucket] == record(page(1, 5).bucket_keys[1], new)
    assert (await index.fetch(np.array([new], np.uint64))).states.tolist() == [State.COMMITTED]
