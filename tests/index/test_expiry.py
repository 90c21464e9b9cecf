"""Pages expire by whole generations; a hit lets one live on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import numpy as np
import pytest

from dedup_middleware.base.errors import IndexRefusedError
from dedup_middleware.index.base import Index
from dedup_middleware.index.cluster.index import ClusterIndex
from dedup_middleware.index.cluster.shards import Reserved
from dedup_middleware.index.pages import pages_of
from dedup_middleware.index.redis import expiry
from dedup_middleware.index.redis.expiry import end_of, glob
from dedup_middleware.index.redis.index import RedisIndex
from dedup_middleware.index.redis.server_index import ServerIndex
from dedup_middleware.index.scan import neighbours
from dedup_middleware.index.verification import verify
from dedup_middleware.model.buckets import (
    SIMHASH_TABLES,
    BucketKey,
    hash_bucket_key,
    width_of,
)
from dedup_middleware.model.claims import Candidates, Claimed, Entry, Known
from dedup_middleware.model.records import CONTENT, State, page_ids_of
from tests.index.bulk import page, some_pages
from tests.index.claiming import entered
from tests.index.harness import (
    PARAMETERS,
    ROWS,
    ClusterHarness,
    Harness,
    MemoryHarness,
    RedisHarness,
    SQLiteHarness,
    ascending,
    bucket_keys_of,
    entry,
    payloads,
)
from tests.index.windows import in_time

SIMHASH = 0x0123_4567_89AB_CDEF
BUCKET_KEYS = bucket_keys_of(1, SIMHASH, (5 << 40, 6 << 50))
LEASE = 60.0


async def stored(index: Index, key: int, address: str) -> int:
    """Claim and commit a page, and return its id."""
    bucket_keys = bucket_keys_of(key, SIMHASH, (5 << 40, 6 << 50))
    content = np.zeros(1, CONTENT)
    content["key"] = (bucket_keys[0].bucket & 0xFFFF) << 48 | bucket_keys[0].suffix << 24
    content["simhash"] = SIMHASH
    page = Entry(bucket_keys, content.tobytes(), address, address.encode() * 3)
    claim = await entered(index, page, LEASE)
    assert await index.commit(claim)
    return claim.page_id


async def found(index: Index) -> list[int]:
    """Ids of all pages in the SimHash tables."""
    return neighbours(BUCKET_KEYS, await index.read_buckets(BUCKET_KEYS), 0).page_ids.tolist()


@in_time
async def test_pages_expire_with_their_generation(harness: Harness) -> None:
    """A page lives for at least the window; after it everything it took is given back, except
    that a page entered anew lives on."""
    span = harness.window / 2
    index = await harness.client()
    old = await stored(index, 1, "https://a/old")
    assert await found(index) == [old]

    await harness.pass_time(span)
    late = await stored(index, 2, "https://a/late")
    assert await found(index) == ascending(index, [old, late])
    assert [await index.expiring(one) for one in (old, late)] == [False, False]

    await harness.pass_time(span)
    assert await found(index) == ascending(index, [old, late])
    assert [await index.expiring(one) for one in (old, late)] == [True, False]
    assert await index.refresh(old, bucket_keys_of(9, SIMHASH, (5 << 40, 6 << 50)))
    (anew,) = {*await found(index)} - {old, late}
    assert await index.addresses([anew]) == ["https://a/old"]
    assert await payloads(index, [anew]) == [b"https://a/old" * 3]
    before = await index.fetch(np.array([old, anew], np.uint64))
    assert before.states.tolist() == [State.COMMITTED] * 2
    assert before.content[0] == before.content[1]

    await harness.pass_time(span)
    assert await found(index) == ascending(index, [late, anew])
    key = bucket_keys_of(1)[:1]
    assert neighbours(key, await index.read_buckets(key), 0).page_ids.tolist() == [anew]

    await harness.pass_time(2 * span)
    assert await found(index) == []
    other = await harness.client()
    last = await stored(other, 3, "https://a/last")
    assert last not in (old, late, anew)
    assert ascending(index, [anew, last]) == sorted([anew, last])
    # Expired buckets are removed in the background, or a few with every claim.
    if isinstance(harness, SQLiteHarness):
        last = await stored(other, 3, "https://a/last")
    for _ in range(1000):
        if (await other.stats()).buckets == len(BUCKET_KEYS):
            break
        await asyncio.sleep(0.05)
    assert (await other.stats()).buckets == len(BUCKET_KEYS)
    assert (await other.fetch(np.array([last], np.uint64))).states.tolist() == [State.COMMITTED]


@pytest.mark.parametrize("count", [2, 5])
async def test_copies_at_the_same_time_renew_a_page(harness: Harness, count: int) -> None:
    """Several copies that enter the same page anew at the same time do not prevent its renewal."""
    index = await harness.client()
    old = await stored(index, 1, "https://a/old")
    bucket_keys = bucket_keys_of(9, SIMHASH, (5 << 40, 6 << 50))
    renewed = await asyncio.gather(*(index.refresh(old, bucket_keys) for _ in range(count)))
    assert any(renewed)
    assert len(await found(index)) > 1


@pytest.mark.slow
@pytest.mark.parametrize("windows", ["redis"], indirect=True)
@in_time
async def test_expired_chunks_are_removed(harness: Harness) -> None:
    """PageRecords and addresses of expired pages are given back by whole chunks, and the pages
    are no longer counted."""
    assert isinstance(harness, RedisHarness)
    index = await harness.client()

    async def one(number: int) -> None:
        bucket_keys = [hash_bucket_key(0, number << 48)]
        assert await index.commit(await entered(index, entry(bucket_keys, address="x" * 99), LEASE))

    await asyncio.gather(*(one(number) for number in range(600)))
    first = harness.prefix + b"s" + bytes(4)
    assert harness.admin.exists(first)
    await harness.pass_time(3 * harness.window / 2)
    other = await harness.client()
    for _ in range(1000):
        if not harness.admin.hlen(harness.prefix + b"generations"):
            break
        await asyncio.sleep(0.05)
    assert not harness.admin.exists(first)
    assert not harness.admin.exists(harness.prefix + b"a" + bytes(4))
    stats = await other.stats()
    whole = (600 + 1) // ROWS  # chunks, of which the first lacks number 0
    assert stats.committed == await other.count() == 600 - (whole * ROWS - 1)
    assert (stats.released, stats.buckets) == (0, 0)


@pytest.mark.slow
@pytest.mark.parametrize("windows", ["cluster"], indirect=True)
@in_time
async def test_hashes_of_all_shards_are_removed(harness: Harness) -> None:
    """Also on shards that have issued no page id in that generation."""
    assert isinstance(harness, ClusterHarness)
    index = await harness.opened()
    names = index._bucket_hashes(index.moment().live)
    for number in range(9):
        await stored(index, number, f"https://a/{number}")

    def left() -> int:
        keys = [prefix + name for prefix in harness.prefixes() for name in names]
        return sum(int(harness.admin.exists(key)) for key in keys)

    assert left() > 1
    await harness.pass_time(3 * harness.window / 2)
    await harness.client()
    for _ in range(400):
        if not left():
            break
        await asyncio.sleep(0.05)
    assert not left()


@in_time
async def test_generation_that_ends_before_the_claim(harness: Harness) -> None:
    """What was judged in a generation that is over is known in the next one, which the claim is
    entered into."""
    index = await harness.client()
    old = await stored(index, 1, "https://a/1")
    page = entry(BUCKET_KEYS)
    found = await index.propose(page, 0, LEASE)
    assert isinstance(found, Candidates)
    assert found.near.page_ids.tolist() == [old]
    await harness.pass_time(harness.window / 2)
    made = await index.propose(page, 0, LEASE, known=Known(found.pages))
    assert isinstance(made, Claimed)
    assert await index.commit(made.claim)
    again = await index.propose(page, 0, LEASE, known=Known(found.pages))
    assert isinstance(again, Candidates)
    assert again.near.page_ids.tolist() == [made.claim.page_id]


@in_time
async def test_page_is_entered_anew_though_no_other_page_arrived(harness: Harness) -> None:
    """It was seen again and again, and nothing was stored since: it lives on."""
    index = await harness.client()
    page_id = await stored(index, 1, "https://a/1")
    for _ in range(4):
        await harness.pass_time(harness.window / 2)
        if await index.expiring(page_id):
            assert await index.refresh(page_id, bucket_keys_of(1, SIMHASH, (5 << 40, 6 << 50)))
            (page_id,) = {*await found(index)} - {page_id}
        assert await found(index) != []


@in_time
async def test_page_that_was_entered_anew_is_known(harness: Harness) -> None:
    """All clients know its new id, until all its ids are in the generation that expires next."""
    clients = await harness.client(), await harness.client()
    page_ids = [await stored(clients[0], 1, "https://a/1")]
    hit = bucket_keys_of(1, SIMHASH, (5 << 40, 6 << 50))
    for _ in range(2):
        await harness.pass_time(harness.window)
        for client in clients:
            assert not any([await client.is_entered_anew(one) for one in page_ids])
        for client in clients:  # at the same time, say
            assert await client.refresh(page_ids[0], hit)
        for client in clients:
            assert all([await client.is_entered_anew(one) for one in page_ids])
        page_ids = [one for one in await found(clients[0]) if one not in page_ids]
        assert len(page_ids) == 2


@pytest.mark.parametrize("windows", ["redis"], indirect=True)
@in_time
async def test_pages_that_were_removed_are_no_damage(harness: Harness) -> None:
    """Their rows share a chunk with pages that live, so they stay, and are counted."""
    index = await harness.client()
    expired = await stored(index, 1, "https://a/1")
    await harness.pass_time(harness.window)
    await stored(index, 2, "https://a/2")
    await harness.pass_time(harness.window / 2)
    await stored(index, 3, "https://a/3")
    other = await harness.client()  # removes them in the background
    for _ in range(100):
        if expired not in await other.page_ids():
            break
        await asyncio.sleep(0.01)
    assert expired not in await index.page_ids()
    found = await verify(index)
    assert (found.is_sound, found.counters) == (True, ())


@in_time
async def test_pages_that_have_expired_are_no_damage(harness: Harness) -> None:
    """No page was stored since, so their rows are still there."""
    index = await harness.client()
    await stored(index, 1, "https://a/1")
    await harness.pass_time(2 * harness.window)
    found = await verify(index)
    assert (found.is_sound, found.lacking_pages) == (True, 0)


@in_time
async def test_pages_that_expire_while_they_are_verified_are_no_damage(harness: Harness) -> None:
    """Their records in the first tables were read, those in the others not."""
    index = await harness.client()
    await stored(index, 1, "https://a/1")
    buckets = index.buckets

    async def slow() -> AsyncIterator[tuple[int, bytes]]:
        async for bucket, raw in buckets():
            if bucket >> 16 > SIMHASH_TABLES[0]:
                break
            yield bucket, raw
        await harness.pass_time(2 * harness.window)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(index, "buckets", slow)
        assert (await verify(index)).lacking_pages == 0


@in_time
async def test_pages_without_records_that_have_not_expired_are_damage(harness: Harness) -> None:
    """The records of the generation that was written last are lost, and those before are there."""
    index = await harness.client()
    await stored(index, 1, "https://a/1")
    await harness.pass_time(harness.window / 2)
    lost = await stored(index, 2, "https://a/2")
    buckets, read_buckets = index.buckets, index.read_buckets

    def without(bucket: int, raw: bytes) -> bytes:
        width = width_of(bucket)
        records = [raw[at : at + width] for at in range(0, len(raw), width)]
        return b"".join(one for one in records if page_ids_of(one, width).tolist() != [lost])

    async def walk() -> AsyncIterator[tuple[int, bytes]]:
        async for bucket, raw in buckets():
            yield bucket, without(bucket, raw)

    async def read(bucket_keys: Sequence[BucketKey]) -> list[bytes]:
        found = await read_buckets(bucket_keys)
        return [without(one.bucket, raw) for one, raw in zip(bucket_keys, found, strict=True)]

    assert (await verify(index)).lacking_pages == 0
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(index, "buckets", walk)
        patched.setattr(index, "read_buckets", read)
        found = await verify(index)
    assert [page_id for page_id, _ in found.lacking] == [lost]


@in_time
async def test_window_is_a_parameter(harness: Harness) -> None:
    """All who use an index must agree on its window."""
    index = await harness.client()
    assert float((await index.stats()).parameters["window"]) == harness.window
    if isinstance(harness, MemoryHarness):
        return
    harness.window = 0.0
    other = harness.connect()
    harness.clients.append(other)
    with pytest.raises(IndexRefusedError, match="window: the index has"):
        await other.open(PARAMETERS)


async def test_refresh_of_a_page_that_is_gone(harness: Harness) -> None:
    """A page that is not committed can't be entered anew."""
    index = await harness.client()
    assert not await index.refresh(7, BUCKET_KEYS)
    assert await found(index) == []


@pytest.mark.slow
@pytest.mark.parametrize("windows", ["redis"], indirect=True)
@in_time
async def test_pages_that_come_while_expired_ones_are_removed(harness: Harness) -> None:
    """Where all generations have expired, pages that are stored meanwhile keep their records."""
    index, other = await harness.client(), await harness.client()
    assert isinstance(index, RedisIndex)

    async def one(number: int) -> int:
        bucket_keys = [hash_bucket_key(0, number << 48)]
        claim = await entered(other, entry(bucket_keys), LEASE)
        assert await other.commit(claim)
        return claim.page_id

    await one(0)
    await harness.pass_time(3 * harness.window / 2)
    come: list[int] = []
    first_numbers = expiry.first_numbers

    async def slow(server: expiry.Server) -> dict[int, tuple[int, int]]:
        found = await first_numbers(server)
        if not come:
            come.append(0)  # what the other client removes is looked up as usual
            come.extend(await asyncio.gather(*map(one, range(1, 2 * ROWS))))
        return found

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(expiry, "first_numbers", slow)
        await expiry.remove_expired(index, index.moment().oldest)
    states = (await index.fetch(np.array(come[1:], np.uint64))).states.tolist()
    assert states == [State.COMMITTED] * (2 * ROWS - 1)


@pytest.mark.parametrize("windows", ["redis", "cluster"], indirect=True)
@in_time
async def test_clock_of_the_server_is_behind(harness: Harness) -> None:
    """A client whose clock is ahead, in a later generation, follows the server's clock at once."""
    index = await harness.client()
    assert isinstance(index, ServerIndex)
    calls = 0

    def count() -> None:
        nonlocal calls
        calls += 1

    index._ahead += harness.window / 2
    index.watch_round_trips(count)
    page = await stored(index, 1, "https://a/1")
    index._ahead += harness.window / 2
    assert await index.load(some_pages(1, 2)) == 1
    assert calls < 25
    assert (await index.fetch(np.array([page], np.uint64))).states.tolist() == [State.COMMITTED]


@pytest.mark.parametrize("windows", ["redis", "cluster"], indirect=True)
@in_time
async def test_clock_of_the_server_goes_back_over_a_border(harness: Harness) -> None:
    """Pages are still compared with those stored just before it, in the generation that seems to
    begin later."""
    assert isinstance(harness, (RedisHarness, ClusterHarness))
    first = await harness.client()
    old = await stored(first, 1, "https://a/1")
    move_generation(harness)  # as if the clock had been ahead until now
    for index in (first, await harness.client()):
        copy = entry(bucket_keys_of(2, SIMHASH, (5 << 40, 6 << 50)))
        found = await index.propose(copy, 0, LEASE)
        assert isinstance(found, Candidates)
        assert found.near.page_ids.tolist() == [old]
    await first.load(pages_of([page(7, 5)]))
    assert isinstance(await (await harness.client()).propose(page(7, 5), 0, LEASE), Candidates)


@pytest.mark.parametrize("windows", ["cluster"], indirect=True)
@in_time
async def test_clocks_of_two_masters_are_years_apart(harness: Harness) -> None:
    """A page that is announced by the clock of one master, while the other one has set back the
    time of the client, reads the generations around its own, not all in between."""
    index = await harness.client()
    assert isinstance(index, ClusterIndex)
    ahead = index.moment().generation
    await index.take_ids(1)  # by the clock that is ahead, like those of its block
    index._turn(ahead - 1000)
    made = await index.propose(entry(BUCKET_KEYS), 0, LEASE)
    assert isinstance(made, Claimed)
    assert await index.commit(made.claim)


@pytest.mark.parametrize("windows", ["cluster"], indirect=True)
@in_time
async def test_ids_taken_together_are_of_one_generation(harness: Harness) -> None:
    """This holds whatever the clocks of the masters are that reserved them."""
    index = await harness.client()
    assert isinstance(index, ClusterIndex)
    index._reserved.append(Reserved(1, index.moment().generation + 1000))
    taken = await index.take_ids(2)
    assert len({one.generation for one in taken}) == 1


def move_generation(harness: RedisHarness | ClusterHarness) -> None:
    """Move the only generation forward by one span."""
    admin = harness.admin
    prefixes = [harness.prefix] if isinstance(harness, RedisHarness) else harness.prefixes()
    for prefix in prefixes:
        key = prefix + b"generations"
        for generation, first in admin.hgetall(key).items():
            admin.hdel(key, generation)
            admin.hset(key, int(generation) + 1, first)
            old, new = end_of(int(generation)), end_of(int(generation) + 1)
            for name in admin.scan_iter(match=glob(prefix + b"b"), count=10_000):
                if name.endswith(old):
                    admin.rename(name, name.removesuffix(old) + new)


@in_time
async def test_page_is_forgotten_while_it_is_entered_anew(harness: Harness) -> None:
    """It does not reappear under another id, as no storage holds it any more."""
    index = await harness.client()
    old = await stored(index, 1, "https://a/old")
    propose = index.propose

    async def late(*arguments: Any, **keywords: Any) -> Claimed | Candidates:
        await index.forget([old])
        return await propose(*arguments, **keywords)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(index, "propose", late)
        assert not await index.refresh(old, bucket_keys_of(9, SIMHASH, (5 << 40, 6 << 50)))
    assert await index.count() == 0
