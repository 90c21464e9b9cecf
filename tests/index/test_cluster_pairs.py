"""Pairs of items for visit.lua: replies and records are the same as without pairs."""

from __future__ import annotations

import random

import numpy as np
import pytest
import redis

from dedup_middleware.index.cluster.spread import Spread, field_of, groups_of
from dedup_middleware.index.cluster.visits import _Columns
from dedup_middleware.index.redis.scripts import COUNTER, COUNTERS, RowLayout, script
from dedup_middleware.model.buckets import BUCKET_LIMIT, width_of
from tests.servers import RedisServer

_LENGTHS = (0, 1, 2, 5, 31, 33, 140, 800)  # records of a bucket, some more than a common anchor has


def _bucket(rng: random.Random, width: int, record: bytes) -> bytes:
    """Records of other pages, many with the suffix of this one; at times itself, or odd bytes."""
    count = rng.choice(_LENGTHS)
    held = [
        rng.randbytes(5) + (record[5:] if rng.random() < 0.3 else rng.randbytes(width - 5))
        for _ in range(count)
    ]
    if held and rng.random() < 0.2:
        held[-1] = record  # of an earlier try of this call
    return b"".join(held) + rng.randbytes(rng.choice((0, 0, 0, 3)))


@pytest.mark.parametrize("returns", [True, False])
def test_pairs_change_nothing(redis_server: RedisServer, returns: bool) -> None:
    """Replies, buckets and counters are the same for random buckets."""
    rng = random.Random(7)
    text = script("visit", RowLayout(), "dedup_middleware.index.cluster").text
    counters = bytes(COUNTER * COUNTERS) + b"epoch..."
    prefix = Spread("pairs", 1).prefix(0)
    keys = [prefix + name for name in (b"counters", b"0", b"1")]
    with redis_server.client() as server:
        for _ in range(30):
            tables = sorted(rng.choices(range(18), k=40))
            words = np.unique([table << 16 | rng.randrange(1 << 16) for table in tables])
            buckets = words[np.lexsort((words, groups_of(words >> 16)))].astype(np.uint64)
            count = len(buckets)
            columns = _Columns(
                buckets,
                np.array([rng.getrandbits(48) for _ in range(count)], np.uint64),
                np.array([rng.getrandbits(39) + 1 for _ in range(count)], np.uint64),
                np.zeros(count, np.int64),
            )
            held: list[dict[bytes, bytes]] = [{}, {}]
            groups = groups_of((buckets >> np.uint64(16)).astype(np.int64)).tolist()
            for i, (bucket, group) in enumerate(zip(buckets.tolist(), groups, strict=True)):
                record = columns.records[int(columns.sizes[i]) : int(columns.sizes[i + 1])]
                value = _bucket(rng, width_of(bucket), record)
                if value:
                    held[group][bucket.to_bytes(3, "big")] = value
            results = []
            for pairs in (False, True):
                server.delete(*keys)
                server.set(keys[0], counters)
                for key, fields in zip(keys[1:], held, strict=True):
                    if fields:
                        server.hset(key, mapping=fields)  # type: ignore[arg-type]
                ((_, _, (heads, data), numbers),) = columns.calls(pairs=pairs)
                assert (heads[0] == 2) == pairs
                own = [keys[0], *(keys[1 + number] for number in numbers)]
                head = bytes((1, 1, returns, 1)) + heads
                reply = server.eval(text, len(own), *own, prefix + counters[-8:], head, data)
                found = {
                    one if isinstance(one, int) else bytes(one): records
                    for one, records in zip(reply[::2], reply[1::2], strict=True)
                }
                results.append(
                    (found, [server.hgetall(key) for key in keys[1:]], server.get(keys[0]))
                )
            assert results[0] == results[1]
        server.delete(*keys)


@pytest.mark.parametrize(
    "counters", [bytes(COUNTER * COUNTERS) + b"newepoch", b""], ids=["another", "none"]
)
def test_full_bucket_of_an_index_that_is_gone(redis_server: RedisServer, counters: bytes) -> None:
    """Where hashes are left of an index in whose place another one was set up, or none, a record
    for which a bucket has no room is not counted in the other's counters."""
    text = script("visit", RowLayout(), "dedup_middleware.index.cluster").text
    bucket, epoch = 12 << 16 | 5, b"oldepoch"
    columns = _Columns(
        np.array([bucket], np.uint64),
        np.array([7], np.uint64),
        np.array([3], np.uint64),
        np.zeros(1, np.int64),
    )
    ((_, _, (heads, data), _),) = columns.calls(pairs=True)
    prefix = Spread("gone", 1).prefix(0)
    keys = [prefix + name for name in (b"counters", b"hash")]
    width = width_of(bucket)
    # The mark by which visit.lua finds that the hash belongs to the index.
    held = {field_of(bucket): bytes(range(width)) * (BUCKET_LIMIT // width), b"": epoch + b"." * 57}
    with redis_server.client() as server:
        server.delete(*keys)
        if counters:
            server.set(keys[0], counters)
        server.hset(keys[1], mapping=held)  # type: ignore[arg-type]
        head = bytes((1, 1, 1, 1)) + heads
        with pytest.raises(redis.ResponseError, match="GONE"):
            server.eval(text, len(keys), *keys, prefix + epoch, head, data)
        assert (server.get(keys[0]) or b"") == counters
        server.set(keys[0], bytes(COUNTER * COUNTERS) + epoch)
        server.eval(text, len(keys), *keys, prefix + epoch, head, data)
        assert server.get(keys[0])[3 * COUNTER] == 1  # counted, if the index is there
        server.delete(*keys)
