"""Proposing a page: read, scan and claim in one, on every index."""

from __future__ import annotations

import asyncio
import random
import time
from pathlib import Path

import attrs
import numpy as np
import pytest

from dedup_middleware.index.base import Index
from dedup_middleware.index.memory.index import MemoryIndex
from dedup_middleware.index.redis.index import RedisIndex
from dedup_middleware.index.redis.link import Call
from dedup_middleware.index.redis.propose import batches, proposals, request
from dedup_middleware.index.redis.scripts import RowLayout, claimed_row, script
from dedup_middleware.index.scan import neighbours
from dedup_middleware.index.window import Window
from dedup_middleware.model.buckets import (
    FIRST_BAND_TABLE,
    NON_SIMHASH_TABLES,
    BucketKey,
    hash_bucket_key,
    record,
    simhash_bucket_keys,
    suffix,
)
from dedup_middleware.model.claims import NO_CANDIDATES, Candidates, Claim, Claimed, Known, Proposed
from dedup_middleware.model.records import CONTENT, PageRecords, State, joined
from tests.index.claiming import candidates_of
from tests.index.harness import (
    Harness,
    MemoryHarness,
    RedisHarness,
    SQLiteHarness,
    bucket_keys_of,
    check_race,
    entry,
    in_steps,
)
from tests.index.proxy import Proxy
from tests.index.redis_use import LEASE, opened
from tests.servers import RedisServer

DISTANCE = 12


async def proposed(
    index: Index, bucket_keys: tuple[BucketKey, ...], **more: object
) -> Claimed | Candidates:
    """What an index answers to a page with an address."""
    page = entry(bucket_keys, address=f"https://a/{bucket_keys[0].suffix}")
    return await index.propose(page, DISTANCE, LEASE, **more)  # type: ignore[arg-type]


async def stored(index: Index, bucket_keys: tuple[BucketKey, ...]) -> int:
    """Number of a page that is proposed and committed."""
    made = await proposed(index, bucket_keys)
    assert isinstance(made, Claimed)
    assert await index.commit(made.claim)
    return made.claim.page_id


def beside_by_hand(
    bucket_keys: tuple[BucketKey, ...], others: dict[int, tuple[BucketKey, ...]]
) -> dict[int, int]:
    """Neighbours and their tables, one bucket key at a time."""
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
    assert {*made.candidates.pages.page_ids, *made.candidates.missing} == {number}
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
        if in_steps(clients[0]):  # of any two the one or the other was there first, or both
            others = {other for other in numbers if other != number}
            assert others == met[number] | {other for other in others if number in met[other]}
        else:
            assert met[number] == {other for other in numbers if other < number}


async def test_a_page_that_is_known_blocks_no_claim(index: Index) -> None:
    """A page whose candidates are all known is claimed, although they share its records; they do
    not come with the claim again, while candidates it asked for do."""
    blocking = await stored(index, bucket_keys_of(1, 7, (5 << 50, 6 << 50)))
    wide = await stored(index, bucket_keys_of(2, 7 << 20, (8 << 50, 9 << 50)))
    bucket_keys = bucket_keys_of(3, 7, (5 << 50, 6 << 51))
    found = await proposed(index, bucket_keys)
    assert isinstance(found, Candidates)
    assert found.near.page_ids.tolist() == [blocking, wide]
    assert {*found.pages.page_ids, *found.missing} == {blocking, wide}
    made = await proposed(index, bucket_keys, known=Known(found.pages, found.missing))
    assert isinstance(made, Claimed)
    if len(found.missing):
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


async def test_repeated_call_gives_what_it_claimed_together(redis_server: RedisServer) -> None:
    """A call whose answer got lost claimed pages that met each other: sent again it gives each its
    claim with those before it, and a page that came later is given to none."""
    async with Proxy(redis_server.port) as proxy:
        index = await opened(proxy.url, namespace="together")
        first = bucket_keys_of(1, 7, (5 << 50, 6 << 50))
        await stored(index, first)
        places = [bucket_keys_of(i, i << 20, (5 << 50, i << 51)) for i in (2, 3, 4)]
        found = await proposed(index, places[0])
        assert isinstance(found, Candidates)
        known = Known(found.pages)
        for with_wanted in (False, True):
            if with_wanted:
                known = Known(found.pages, np.array([1], np.uint64))
                places = [bucket_keys_of(i, i << 20, (5 << 50, i << 51)) for i in (5, 6, 7)]
                everything = await index.fetch(np.arange(1, 5, dtype=np.uint64))
                known = attrs.evolve(known, pages=everything)
            proxy.cut_at_answer = True
            made = await asyncio.gather(*(proposed(index, one, known=known) for one in places))
            numbers = [one.claim.page_id for one in made if isinstance(one, Claimed)]
            assert numbers == [5, 6, 7] if with_wanted else numbers == [2, 3, 4]
            for i, one in enumerate(made):
                met = candidates_of(one).pages.page_ids.tolist()
                assert met == [1] * with_wanted + numbers[:i]
        await index.close()


async def test_of_many_at_once_one_is_claimed(harness: Harness) -> None:
    """Of like pages proposed at the same time by several clients, one is claimed and all others
    get it as a candidate."""
    clients = [await harness.client() for _ in range(3)]
    made = await asyncio.gather(
        *(proposed(clients[i % 3], bucket_keys_of(i + 1, 7, (5 << 50, i << 50))) for i in range(30))
    )
    assert await clients[0].commit(check_race(clients[0], made))


async def test_answers_are_those_of_a_comparison_by_hand(index: Index) -> None:
    """Pages with crowded buckets: neighbours and tables are those found key by key."""
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
            judged = Known(joined([made.pages, await index.fetch(made.missing)]))
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
    """Whoever stops waiting for the answer holds no place."""
    index = await harness.client()
    waiting = asyncio.ensure_future(proposed(index, bucket_keys_of(1, 7, (5 << 50, 6 << 50))))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    waiting.cancel()
    (outcome,) = await asyncio.gather(waiting, return_exceptions=True)
    if isinstance(outcome, Claimed):  # memory answers at once
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


async def count_round_trips(index: RedisIndex) -> list[int]:
    """From now on, the number of commands of each round trip."""
    trips: list[int] = []
    exchange = index._link._servers.exchange

    async def counted(connection, commands):  # type: ignore[no-untyped-def]
        trips.append(len(commands))
        return await exchange(connection, commands)

    index._link._servers.exchange = counted  # type: ignore[method-assign]
    return trips


async def test_round_trips(redis_server: RedisServer) -> None:
    """A new page takes one round trip before it is committed; so does a copy, whose original is
    named; 64 pages at once take no more than one page."""
    harness = RedisHarness(redis_server)
    index = await harness.client()
    assert isinstance(index, RedisIndex)
    bucket_keys = bucket_keys_of(1, 7, (5 << 50, 6 << 50))
    await stored(index, bucket_keys)
    trips = await count_round_trips(index)
    made = await proposed(index, bucket_keys_of(2, 1 << 40, (8 << 50, 9 << 50)))
    assert isinstance(made, Claimed)
    assert trips == [1]
    copy = await proposed(index, bucket_keys_of(3, 7, (5 << 50, 6 << 50)))
    assert isinstance(copy, Candidates)
    assert len(copy.pages) == 1
    assert list(copy.addresses.values()) == [f"https://a/{bucket_keys[0].suffix}"]
    assert trips == [1, 1]
    trips.clear()
    many = [
        bucket_keys_of(i, i * 0x9E3779B97F4A7C15 % (1 << 64), (i << 40, i << 50))
        for i in range(10, 74)
    ]
    together = await asyncio.gather(*(proposed(index, one) for one in many))
    assert trips == [1]
    claims = [one.claim for one in together if isinstance(one, Claimed)]
    assert len(claims) == 64
    assert all(await asyncio.gather(*map(index.commit, claims)))
    assert len(trips) == 2
    await harness.close()


async def test_repeated_call_finds_its_own_claims(redis_server: RedisServer) -> None:
    """A call whose answer got lost is sent again: it gives the same claims, no second ones."""
    harness = RedisHarness(redis_server)
    index = await harness.client()
    assert isinstance(index, RedisIndex)
    pages = [
        Proposed(entry(bucket_keys_of(i, i << 60, (i << 50, i << 52))), DISTANCE, LEASE)
        for i in (1, 2, 3)
    ]
    moment = Window().at(0.0)
    sent = request(pages, index.prefix, moment, index.layout, windowed=False)
    names = [index.prefix + name for name in (b"leases", b"counters", b"generations")]
    names += sent.keys
    arguments: tuple[bytes | int, ...] = (60_000, 0, 0, 1, *sent.arguments)
    call = Call(
        arguments,
        names,
        script("propose", index.layout),
        index._session,
    )
    claims: list[list[Claim]] = []
    for _ in range(2):
        answer = await index._link.submit(call)
        made = proposals(answer.reply, pages, sent, index.layout)
        claims.append([one.claim for one in made if isinstance(one, Claimed)])
    assert claims[0] == claims[1]
    assert len(claims[0]) == 3
    assert (await index.stats()).pending == 3
    await harness.close()


async def test_emptied_server_is_opened_again(own_server: RedisServer) -> None:
    """Nothing is proposed to a server that has lost the index before the index is opened again."""
    index = await opened(own_server.url)
    await stored(index, bucket_keys_of(1, 7, (5 << 50, 6 << 50)))
    own_server.client().flushall()
    assert await stored(index, bucket_keys_of(1, 7, (5 << 50, 6 << 50))) == 1
    assert (await index.stats()).committed == 1
    await index.close()


def test_calls_are_bounded() -> None:
    """Pages with many bucket keys are proposed in several calls, those of other leases in calls of
    their own; all in order."""
    bucket_keys = tuple(BucketKey(table << 16, 1) for table in range(6, 56))
    pages = [Proposed(entry(bucket_keys), DISTANCE, LEASE + (i == 99)) for i in range(100)]
    groups = batches(pages, 1)
    assert [one for group in groups for one in group] == pages
    assert [len(group) for group in groups] == [40, 40, 19, 1]
    many = PageRecords(
        np.arange(1500, dtype=np.uint64), np.zeros(1500, CONTENT), np.ones(1500, "u1")
    )
    knowing = [attrs.evolve(pages[0], known=Known(many)) for _ in range(5)]
    assert [len(group) for group in batches(knowing, 1)] == [2, 2, 1]


async def test_leases_are_a_table_not_a_list(redis_server: RedisServer) -> None:
    """Redis keeps a small hash as a list and searches it from its start; the leases of a busy
    crawl are kept as a table, and nothing but leases is in it."""
    harness = RedisHarness(redis_server)
    index = await harness.client()
    pages = [entry(bucket_keys_of(i, i << 60 ^ i << 7, (i << 50, i << 52))) for i in range(1, 9)]
    made = await asyncio.gather(*(index.propose(page, 0, LEASE) for page in pages))
    claims = [one.claim for one in made if isinstance(one, Claimed)]
    leases = harness.prefix + b"leases"
    assert harness.admin.object("encoding", leases) == b"hashtable"
    numbers = [one.page_id for one in claims]
    assert len(numbers) == 8
    assert sorted(harness.admin.hkeys(leases)) == sorted(n.to_bytes(5, "little") for n in numbers)
    await asyncio.gather(*map(index.commit, claims))
    assert not harness.admin.exists(leases)
    await harness.close()


@pytest.mark.parametrize("seconds", [0.0, 100.0])
def test_buckets_are_named_once(seconds: float) -> None:
    """Each bucket is a field sent once, table by table, as the client packs it; places of a page
    are those of its buckets; hashes are named for all live generations, newest first."""
    moment = Window(seconds).at(1_000_000.0)
    pages = [
        Proposed(entry(bucket_keys_of(i, i << 40, (i << 50, i << 52)[: i % 3])), DISTANCE, LEASE)
        for i in (1, 2, 3)
    ]
    sent = request(pages, b"{some}", moment, RowLayout(), windowed=bool(seconds))
    buckets = sorted({bucket_key.bucket for page in pages for bucket_key in page.bucket_keys})
    tables = sorted({bucket >> 16 for bucket in buckets})
    ends = [one.to_bytes(4, "big") for one in reversed(moment.live)] if seconds else [b""]
    assert sent.keys == [b"{some}b" + bytes((table,)) + end for end in ends for table in tables]
    reported, counts = sent.arguments[0][:4], np.frombuffer(sent.arguments[0][4:], "<u2").tolist()
    assert counts == [sum(bucket >> 16 == table for bucket in buckets) for table in tables]
    assert reported == bytes(4)  # exact copies of none of these settle a page
    _, fields, tokens, suffixes, places, known, *rest = sent.arguments
    assert known == b""
    assert fields == b"".join((bucket & 0xFFFF).to_bytes(2, "big") for bucket in buckets)
    bucket_keys = [bucket_key for page in pages for bucket_key in page.bucket_keys]
    assert tokens == sent.tokens
    assert suffixes == b"".join(map(suffix, bucket_keys))
    firsts = {table: min(b for b in buckets if b >> 16 == table) for table in tables}
    for i, one in zip(np.frombuffer(places, "<u2").tolist(), bucket_keys, strict=True):
        assert buckets[buckets.index(firsts[one.table]) + i - 1] == one.bucket
    record = RowLayout().record
    for page, row, sizes, text in zip(pages, rest[::3], rest[1::3], rest[2::3], strict=True):
        assert (row, text) == claimed_row(page.entry, record)
        own_tables = bytes(tables.index(bucket_key.table) + 1 for bucket_key in page.bucket_keys)
        assert (
            sizes
            == bytes(48 + len(suffix(bucket_key)) for bucket_key in page.bucket_keys) + own_tables
        )
