"""Proposing a page: read, scan and claim in one, on every index."""

from __future__ import annotations

import asyncio
import random
import time
from pathlib import Path

import numpy as np
import pytest

from dedup_middleware.index.base import Index
from dedup_middleware.index.memory.index import MemoryIndex
from dedup_middleware.index.scan import neighbours
from dedup_middleware.model.buckets import (
    FIRST_BAND_TABLE,
    NON_SIMHASH_TABLES,
    BucketKey,
    hash_bucket_key,
    record,
    simhash_bucket_keys,
)
from dedup_middleware.model.claims import NO_CANDIDATES, Candidates, Claimed, Known
from dedup_middleware.model.records import State, joined
from tests.index.claiming import candidates_of, missing
from tests.index.harness import (
    Harness,
    MemoryHarness,
    RedisHarness,
    SQLiteHarness,
    bucket_keys_of,
    check_race,
    in_steps,
)
from tests.index.redis_use import DISTANCE, proposed, stored
from tests.servers import RedisServer


def beside_by_hand(
    bucket_keys: tuple[BucketKey, ...], others: dict[int, tuple[BucketKey, ...]]
) -> dict[int, int]:
    """Neighbours and their tables, computed for one bucket key at a time."""
    found: dict[int, int] = {}
    for number, theirs in others.items():
        for one in bucket_keys:
            for other in theirs:
                if one.bucket != other.bucket:
                    continue
                far = int.bit_count(one.suffix ^ other.suffix) > DISTANCE
                if one.suffix == other.suffix or (one.is_simhash and not far):
                    found[number] = found.get(number, 0) | 1 << one.table
    return found


async def test_page_alone_is_claimed(index: Index) -> None:
    """Without neighbours the page is claimed at once, pending, and can be committed."""
    made = await proposed(index, bucket_keys_of(1, 7, (5 << 50, 6 << 50)))
    assert isinstance(made, Claimed)
    assert made.candidates is NO_CANDIDATES
    numbers = np.array([made.claim.page_id], np.uint64)
    assert (await index.fetch(numbers)).states.tolist() == [State.PENDING]
    assert await index.commit(made.claim)
    assert (await index.fetch(numbers)).states.tolist() == [State.COMMITTED]
    assert await index.addresses([made.claim.page_id]) == [
        f"https://a/{bucket_keys_of(1)[0].suffix}"
    ]


async def test_records_are_those_of_a_claim(index: Index) -> None:
    """A page that was proposed is found in the bytes of its buckets."""
    bucket_keys = bucket_keys_of(1, 7, (5 << 50, 6 << 50))
    number = await stored(index, bucket_keys)
    found = neighbours(bucket_keys, await index.read_buckets(bucket_keys), 0)
    assert found.page_ids.tolist() == [number]
    assert found.tables.tolist() == [sum(1 << bucket_key.table for bucket_key in bucket_keys)]


async def test_copy_is_not_claimed(index: Index) -> None:
    """A copy of a stored page gets no claim; the reply names the page."""
    bucket_keys = bucket_keys_of(1, 7, (5 << 50, 6 << 50))
    number = await stored(index, bucket_keys)
    made = await proposed(index, bucket_keys_of(2, 7, (5 << 50, 9 << 50)))
    assert isinstance(made, Candidates)
    assert not made.more
    assert made.near.page_ids.tolist() == [number]
    assert made.near.tables.tolist() == [0b1111 << 2 | 1 << FIRST_BAND_TABLE]
    assert made.pages.page_ids.tolist() == [number]
    assert made.pages.states.tolist() == [State.COMMITTED]
    assert made.pages.content["size"].tolist() == [9]
    assert made.addresses == {number: f"https://a/{bucket_keys[0].suffix}"}


async def test_neighbour_by_simhash_alone_comes_with_the_claim(index: Index) -> None:
    """A page that only the SimHash tables find blocks no claim and comes with it; one that is
    released leaves the place free."""
    number = await stored(index, bucket_keys_of(1, 0b111, (5 << 50, 6 << 50)))
    made = await proposed(index, bucket_keys_of(2, 0, (8 << 50, 9 << 50)))
    assert isinstance(made, Claimed)
    assert made.candidates.near.page_ids.tolist() == [number]
    assert {*made.candidates.pages.page_ids, *missing(made.candidates)} == {number}
    assert await index.release(made.claim)
    numbers = np.array([made.claim.page_id], np.uint64)
    assert (await index.fetch(numbers)).states.tolist() == [State.RELEASED]


async def test_of_pages_alike_by_simhash_alone_the_later_meets_the_earlier(
    harness: Harness,
) -> None:
    """Pages that meet in the SimHash tables alone, proposed at the same time: each is claimed, and
    each is given those claimed before it, so that none but the first keeps its claim."""
    clients = [await harness.client() for _ in range(3)]
    made = await asyncio.gather(
        *(
            proposed(clients[i % 3], bucket_keys_of(i + 1, 7, (i + 1 << 50, i + 70 << 50)))
            for i in range(30)
        )
    )
    numbers = [one.claim.page_id for one in made if isinstance(one, Claimed)]
    assert len(numbers) == 30
    met: dict[int, set[int]] = {}
    for number, one in zip(numbers, made, strict=True):
        assert isinstance(one, Claimed)
        met[number] = set(one.candidates.near.page_ids.tolist())
    for number in numbers:
        if in_steps(clients[0]):  # of any two at least one was there before the other
            others = {other for other in numbers if other != number}
            assert others == met[number] | {other for other in others if number in met[other]}
        else:
            assert met[number] == {other for other in numbers if other < number}


async def test_a_page_that_is_known_blocks_no_claim(index: Index) -> None:
    """A page whose candidates are all known is claimed, although they share its records; they do
    not come with the claim again, unless they were requested."""
    blocking = await stored(index, bucket_keys_of(1, 7, (5 << 50, 6 << 50)))
    wide = await stored(index, bucket_keys_of(2, 7 << 20, (8 << 50, 9 << 50)))
    bucket_keys = bucket_keys_of(3, 7, (5 << 50, 6 << 51))
    found = await proposed(index, bucket_keys)
    assert isinstance(found, Candidates)
    assert found.near.page_ids.tolist() == [blocking, wide]
    assert {*found.pages.page_ids, *missing(found)} == {blocking, wide}
    made = await proposed(index, bucket_keys, known=Known(found.pages, missing(found)))
    assert isinstance(made, Claimed)
    if len(missing(found)):
        assert made.candidates.near.page_ids.tolist() == [wide]
        assert made.candidates.pages.states.tolist() == [State.COMMITTED]
        assert made.candidates.addresses == {wide: f"https://a/{bucket_keys_of(2)[0].suffix}"}
    else:
        assert made.candidates is NO_CANDIDATES


async def test_known_pages_of_a_call_are_their_own(harness: Harness) -> None:
    """Of pages proposed at the same time each knows what it was given, whatever the others know.
    One claimed just before by the same call comes with the claim of a page that knows others, and
    blocks one that does not."""
    index = await harness.client()
    spread = 0x9E3779B97F4A7C15
    stores = [
        await stored(index, bucket_keys_of(i, i * spread % (1 << 64), (i << 50, i << 52)))
        for i in (1, 2, 3)
    ]
    pages = [
        bucket_keys_of(i + 10, ~(i * spread) % (1 << 64), (i << 50, i + 40 << 53))
        for i in (1, 2, 3)
    ]
    found = [await proposed(index, one) for one in pages]
    known = [Known(one.pages) for one in found if isinstance(one, Candidates)]
    assert [one.pages.page_ids.tolist() for one in known] == [[number] for number in stores]
    made = await asyncio.gather(
        proposed(index, pages[0], known=known[0]),
        proposed(index, pages[1], known=known[0]),
        proposed(index, pages[2]),
        proposed(index, pages[2], known=known[2]),
        proposed(index, (bucket_keys_of(99)[0], *pages[2][1:]), known=known[2]),
        proposed(index, (bucket_keys_of(98)[0], *pages[2][1:-1], hash_bucket_key(7, 3 << 44))),
    )
    assert isinstance(made[0], Claimed)
    assert isinstance(made[3], Claimed)
    blocked = [set(candidates_of(made[i]).pages.page_ids.tolist()) for i in (1, 2)]
    assert blocked == [{stores[1]}, {stores[2]}]
    mine = {made[3].claim.page_id}
    if in_steps(index):
        # Stored pages are found before any is announced, and end the last one. The two that know
        # the stored page are announced, each in its buckets in any order.
        assert isinstance(made[4], Claimed)
        ids = [made[3].claim.page_id, made[4].claim.page_id]
        seen = [set(made[i].candidates.near.page_ids.tolist()) for i in (3, 4)]
        assert ids[1] in seen[0] or ids[0] in seen[1]
        assert isinstance(made[5], Candidates)
        assert stores[2] in made[5].pages.page_ids.tolist()
        return
    assert set(candidates_of(made[4]).pages.page_ids.tolist()) == mine
    assert isinstance(made[5], Candidates)
    if isinstance(made[4], Claimed):
        mine.add(made[4].claim.page_id)
    assert set(made[5].pages.page_ids.tolist()) == {stores[2], *mine}
    assert isinstance(made[4], Claimed) == (not isinstance(index, MemoryIndex))


async def test_of_many_at_once_one_is_claimed(harness: Harness) -> None:
    """Of like pages proposed at the same time by several clients, one is claimed and all others
    get it as a candidate."""
    clients = [await harness.client() for _ in range(3)]
    made = await asyncio.gather(
        *(proposed(clients[i % 3], bucket_keys_of(i + 1, 7, (5 << 50, i << 50))) for i in range(30))
    )
    assert await clients[0].commit(check_race(clients[0], made))


async def test_answers_are_those_of_a_comparison_by_hand(index: Index) -> None:
    """In crowded buckets, neighbours and tables are those found key by key."""
    rng = random.Random(5)
    known: dict[int, tuple[BucketKey, ...]] = {}
    for i in range(200):
        simhash = rng.choice((0, 0x0123_4567_89AB_CDEF)) ^ rng.getrandbits(64) & (
            rng.getrandbits(64) & rng.getrandbits(64)
        )
        bucket_keys = bucket_keys_of(i + 1, simhash, (rng.randrange(60) << 50, rng.getrandbits(64)))
        expected = beside_by_hand(bucket_keys, known)
        made = await proposed(index, bucket_keys)
        near = candidates_of(made).near
        found = dict(zip(near.page_ids.tolist(), near.tables.tolist(), strict=True))
        assert found == expected
        narrow = any(mask & NON_SIMHASH_TABLES for mask in expected.values())
        assert isinstance(made, Claimed) == (not narrow)
        if isinstance(made, Candidates) and i % 2:
            judged = Known(joined([made.pages, await index.fetch(missing(made))]))
            made = await proposed(index, bucket_keys, known=judged)
            assert isinstance(made, Claimed)
            assert len(made.candidates.near) == 0
        if isinstance(made, Claimed):
            known[made.claim.page_id] = bucket_keys
            await index.commit(made.claim)
    assert len(known) > 20


async def test_probes_are_looked_into_but_get_no_record(index: Index) -> None:
    """A probe finds the page whose bucket it names; nothing is written there."""
    number = await stored(index, bucket_keys_of(1, 1 << 63, (5 << 50, 6 << 50)))
    bucket_keys = bucket_keys_of(2, 0, (8 << 50, 9 << 50))
    probe = simhash_bucket_keys(1 << 63)[0]
    found = await proposed(index, bucket_keys, probes=(BucketKey(probe.bucket, 0),))
    assert number in candidates_of(found).near.page_ids.tolist()
    empty = hash_bucket_key(6, 77 << 50)
    await proposed(index, bucket_keys_of(3, (1 << 64) - 1, (1 << 50, 2 << 50)), probes=(empty,))
    assert await index.read_buckets((empty,)) == [b""]


async def test_damaged_bucket_hides_nothing(harness: Harness) -> None:
    """Bytes that are no record are counted, hide no candidate, and keep no page from its claim; the
    record of the next claim takes their place."""
    index = await harness.client()
    number = await stored(index, bucket_keys_of(1, 7, (5 << 50, 6 << 50)))
    bucket_keys = bucket_keys_of(2, 7, (5 << 50, 8 << 50))
    for place in (1, 5):
        (raw,) = await index.read_buckets(bucket_keys[place : place + 1])
        harness.put_bucket(bucket_keys[place].bucket, raw + b"odd")
        found = await proposed(index, bucket_keys)
        assert isinstance(found, Candidates)
        assert found.near.corrupt == 3
        assert found.near.page_ids.tolist() == [number]
        made = await proposed(index, bucket_keys, known=Known(found.pages))
        assert isinstance(made, Claimed)
        assert made.candidates.near.corrupt == 3
        (after,) = await index.read_buckets(bucket_keys[place : place + 1])
        own = record(bucket_keys[place], made.claim.page_id)
        if in_steps(index):  # a compaction settles reserved ids: the page may be announced twice
            assert after.startswith(raw)
            assert after.endswith(own)
            assert len(after) - len(raw) in (len(own), 2 * len(own))
        else:
            assert after == raw + own
        assert await index.release(made.claim)
        await index.compact()


async def test_damaged_satellite_of_a_neighbour(tmp_path: Path, redis_server: RedisServer) -> None:
    """A candidate whose row is damaged is counted and reads as one that is gone; others are as
    they were, and the page can be claimed."""
    for harness in (SQLiteHarness(tmp_path / "index.db"), RedisHarness(redis_server)):
        index = await harness.client()
        for i in (1, 2):
            assert await stored(index, bucket_keys_of(i, i << 40, (i << 50, i << 52))) == i
        harness.damage_page(2)
        places = [bucket_keys_of(i + 2, ~i % (1 << 64), (i << 50, i + 40 << 53)) for i in (1, 2)]
        good, bad = await asyncio.gather(*(proposed(index, one) for one in places))
        assert candidates_of(good).pages.states.tolist() == [State.COMMITTED]
        assert candidates_of(bad).pages.states.tolist() == [State.FREE]
        assert (await index.stats()).corrupt == 1
        known = Known(candidates_of(bad).pages)
        assert isinstance(await proposed(index, places[1], known=known), Claimed)
        await harness.close()


async def test_cancelled_proposal_leaves_no_claim(harness: Harness) -> None:
    """A caller that stops waiting for the reply holds no claim."""
    index = await harness.client()
    waiting = asyncio.ensure_future(proposed(index, bucket_keys_of(1, 7, (5 << 50, 6 << 50))))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    waiting.cancel()
    (outcome,) = await asyncio.gather(waiting, return_exceptions=True)
    if isinstance(outcome, Claimed):  # memory returns at once
        assert await index.release(outcome.claim)
    deadline = time.monotonic() + 60
    while (await index.stats()).pending:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("kind", ["memory", "sqlite", "redis"])
async def test_older_generations_are_looked_into(
    kind: str, tmp_path: Path, redis_server: RedisServer
) -> None:
    """With a window, a page of the generation before is a neighbour; records go into the newest."""
    window = 4.0 if kind == "redis" else 1000.0
    harness: Harness
    if kind == "redis":
        harness = RedisHarness(redis_server, window)
    else:
        clock = SQLiteHarness(tmp_path / "index.db", window) if kind == "sqlite" else None
        harness = clock or MemoryHarness(window)
    index = await harness.client()
    bucket_keys = bucket_keys_of(1, 7, (5 << 50, 6 << 50))
    number = await stored(index, bucket_keys)
    await harness.pass_time(window / 2 + 0.1)
    found = await proposed(index, bucket_keys_of(2, 7, (5 << 50, 6 << 50)))
    assert isinstance(found, Candidates)
    assert found.near.page_ids.tolist() == [number]
    assert found.pages.states.tolist() == [State.COMMITTED]
    other = bucket_keys_of(2, 7, (5 << 50, 6 << 50))
    made = await proposed(index, other, known=Known(found.pages))
    assert isinstance(made, Claimed)
    for bucket_key, raw in zip(other, await index.read_buckets(other), strict=True):
        assert raw.endswith(record(bucket_key, made.claim.page_id))
    await harness.close()
