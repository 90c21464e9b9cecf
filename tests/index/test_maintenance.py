"""Looking up, drawing, forgetting by time, and verifying: the same on every index."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import pytest

from dedup_middleware.index.base import Index
from dedup_middleware.index.redis import upkeep
from dedup_middleware.index.redis.scripts import TEXT_CHUNK
from dedup_middleware.index.verification import verify
from dedup_middleware.model.buckets import (
    BucketKey,
    band_bucket_keys,
    hash_bucket_key,
    record,
    simhash_bucket_keys,
)
from dedup_middleware.model.claims import Candidates, Claim, Entry
from dedup_middleware.model.records import CONTENT, State, page_ids_of
from tests.index.claiming import entered, states
from tests.index.harness import ROWS, BytesHarness, Harness, RedisHarness, payloads

LEASE = 1000.0
PARAMETERS = {"bands": "2x3"}
_MASK = (1 << 64) - 1


def hashed(value: int) -> int:
    """Any 64-bit value."""
    return value * 0x9E37_79B9_7F4A_7C15 & _MASK


def bucket_keys_of(key: int) -> tuple[BucketKey, ...]:
    """The places of a page: its key, four SimHash tables, two bands."""
    return (
        hash_bucket_key(0, hashed(key)),
        *simhash_bucket_keys(hashed(key + 1000)),
        *band_bucket_keys((hashed(key + 2000), hashed(key + 3000))),
    )


def content_of(key: int) -> bytes:
    """The content that is kept of a page."""
    content = np.zeros(1, CONTENT)
    content["size"], content["key"], content["simhash"] = key, hashed(key), hashed(key + 1000)
    return content.tobytes()


async def claimed(index: Index, key: int, address: str | None = None) -> Claim:
    """A claim on a page of its own."""
    return await entered(index, Entry(bucket_keys_of(key), content_of(key), address), LEASE)


async def stored(index: Index, *keys: int) -> list[int]:
    """Ids of committed pages."""
    claims = [await claimed(index, key, f"https://host-{key % 3}/{key}") for key in keys]
    assert all([await index.commit(claim) for claim in claims])
    return [claim.page_id for claim in claims]


@pytest.fixture
async def index(harness: Harness) -> Index:
    """An open index whose parameters include the number of bands."""
    return await harness.client(PARAMETERS)


async def test_lookup_by_key(index: Index) -> None:
    """Committed pages are found by the whole hash of their key, the others are not."""
    one, two = await stored(index, 1, 2)
    again = (await stored(index, 1))[0]
    await claimed(index, 3)
    assert await index.lookup(hashed(1)) == (one, again)
    assert await index.lookup(hashed(2)) == (two,)
    assert await index.lookup(hashed(2) ^ 1) == ()  # differs behind the 40 bits of the record
    assert await index.lookup(hashed(3)) == ()
    await index.forget([one])
    assert await index.lookup(hashed(1)) == (again,)


async def test_span_of_time_is_forgotten(harness: Harness, index: Index) -> None:
    """Pages committed from one second on until before another one are forgotten, no others."""
    first = await stored(index, *range(1, 4))
    if harness.moves_time:
        harness.advance(10)
    else:
        await asyncio.sleep(1.1)
    middle = int(harness.now())
    second = await stored(index, *range(11, 14))
    held = await claimed(index, 20)
    assert await index.forget_span(0, 1) == 0
    assert await index.forget_span(middle + 1000, middle) == 0
    assert await index.forget_span(float("-inf"), middle) == 3
    assert await states(index, *first) == [State.RELEASED] * 3
    assert await states(index, *second) == [State.COMMITTED] * 3
    assert await index.forget_span(middle, middle + 60) == 3
    assert await states(index, *second, held.page_id) == [State.RELEASED] * 3 + [State.PENDING]
    assert await index.count() == 0
    assert await index.commit(held)
    assert await index.forget_span(float("-inf"), float("inf")) == 1


async def test_many_pages_are_forgotten_together(harness: Harness, index: Index) -> None:
    """Forgetting over several chunks of page records forgets exactly the requested pages."""
    count = 3 * ROWS
    numbers = await stored(index, *range(1, count + 1))
    odd = numbers[::2]
    assert await index.forget([*reversed(odd), *odd, 0, 1 << 39, (1 << 64) - 1]) == len(odd)
    assert await index.forget(odd) == 0
    expected = [State.RELEASED, State.COMMITTED] * (count // 2) + [State.RELEASED] * (count % 2)
    assert await states(index, *numbers) == expected
    assert await index.count() == count - len(odd)
    forgotten = await index.forget_addresses(lambda address: address.startswith("https://host-2/"))
    left = [key for key in range(1, count + 1) if key % 2 == 0]
    assert forgotten == sum(key % 3 == 2 for key in left)
    assert await index.count() == len(left) - forgotten
    assert (await index.stats()).released == len(odd) + forgotten


@pytest.mark.parametrize("harness", ["redis"], indirect=True)
async def test_lost_text_is_no_address(harness: RedisHarness, index: Index) -> None:
    """A page whose address was lost with its chunk of text is found by no address; the others
    are, over the ends of chunks as well."""
    long = "x" * 700
    count = 2 * TEXT_CHUNK // 700
    for key in range(1, count + 1):
        claim = await claimed(index, key, f"https://a/{key}/{long}")
        await index.commit(claim)
    asked: list[str] = []
    await index.forget_addresses(lambda address: bool(asked.append(address)))
    assert asked == [f"https://a/{key}/{long}" for key in range(1, count + 1)]
    harness.admin.delete(harness.prefix + b"a" + bytes(4))
    again: list[str] = []
    await index.forget_addresses(lambda address: bool(again.append(address)))
    known = [address for address in again if address]
    assert known == asked[-len(known) :]
    assert count // 3 < len(known) < count


@pytest.mark.parametrize("harness", ["redis"], indirect=True)
@pytest.mark.parametrize("lost", [0, 1])
async def test_text_of_which_a_part_was_lost(
    harness: RedisHarness, index: Index, lost: int
) -> None:
    """A payload over the end of a chunk that is gone is none: what is left of it would be judged as
    the evidence of another page. An address is known where it is whole."""
    page = Entry(bucket_keys_of(1), content_of(1), "https://a/1", bytes(range(1, 241)) * 200)
    claim = await entered(index, page, 60.0)
    assert await index.commit(claim)
    assert await payloads(index, [claim.page_id]) == [page.payload]
    harness.admin.delete(harness.prefix + b"a" + lost.to_bytes(4, "little"))
    assert await payloads(index, [claim.page_id]) == [b""]
    assert await index.addresses([claim.page_id]) == ["https://a/1" if lost else None]
    found = await index.propose(page, 0, 60.0)
    assert isinstance(found, Candidates)
    assert found.payloads == {claim.page_id: b""}


async def test_a_sound_index(harness: Harness, index: Index) -> None:
    """A verification counts pages and records, and finds nothing wrong where nothing is."""
    numbers = await stored(index, *range(1, 31))
    await claimed(index, 40)
    await index.release(await claimed(index, 41))
    await index.forget(numbers[:5])
    reports: list[tuple[str, int]] = []
    found = await verify(index, lambda what, done: reports.append((what, done)))
    assert found.is_sound
    assert (found.committed, found.pending, found.released) == (25, 1, 6)
    assert [one.name for one in found.tables] == [
        *("key", "simhash/0", "simhash/16", "simhash/32", "simhash/48", "band/0", "band/1")
    ]
    assert {(one.records, one.gone, one.buckets) for one in found.tables} == {(32, 6, 32)}
    assert reports[-1] == ("buckets", 7 * 32)
    assert ("pages", 32) in reports
    await index.compact()
    found = await verify(index)
    assert found.is_sound
    assert {(one.records, one.gone) for one in found.tables} == {(26, 0)}


async def test_faults_are_found(harness: Harness, index: Index) -> None:
    """Lost, foreign and misplaced records are reported by table, and pages by id."""
    numbers = await stored(index, 1, 2, 3)
    key, first, *_, band = bucket_keys_of(1)
    harness.put_bucket(key.bucket, b"")  # lost
    wrong = BucketKey(first.bucket, first.suffix ^ 1)
    harness.put_bucket(first.bucket, record(wrong, numbers[0]) + b"junk")
    harness.put_bucket(band.bucket, record(band, numbers[0]) + record(band, 0))
    found = await verify(index)
    assert not found.is_sound
    assert found.lacking == ((numbers[0], ("key", "simhash/0")),)
    assert found.lacking_pages == 1
    tables = {one.name: one for one in found.tables}
    assert (tables["simhash/0"].misplaced, tables["simhash/0"].junk) == (1, 4)
    assert (tables["band/1"].gone + tables["band/1"].unknown, tables["band/1"].records) == (1, 4)
    assert (tables["key"].records, tables["key"].misplaced) == (2, 0)
    assert await states(index, *numbers) == [State.COMMITTED] * 3


async def test_a_lost_band_is_found(harness: Harness, index: Index) -> None:
    """A page with a record in some bands must have one in all."""
    numbers = await stored(index, 1, 2)
    harness.put_bucket(bucket_keys_of(2)[-1].bucket, b"")
    assert (await verify(index)).lacking == ((numbers[1], ("band/1",)),)


@pytest.mark.parametrize(
    ("method", "lost", "missing"),
    [
        ("content", range(1, 5), ("simhash/0", "simhash/16", "simhash/32", "simhash/48")),
        ("content", range(5, 7), ("band/0", "band/1")),
        ("simhash", range(1, 7), ("simhash/0", "simhash/16", "simhash/32", "simhash/48")),
        ("minhash", range(1, 7), ("band/0", "band/1")),
        ("md5", range(1, 7), ()),
    ],
)
async def test_lost_tables_are_found(
    harness: Harness, method: str, lost: range, missing: tuple[str, ...]
) -> None:
    """A page without any record of its SimHash, or of its bands, is found where the method gives
    one to every page that is not too short; a method of the literature need not."""
    index = await harness.client({**PARAMETERS, "method": method})
    numbers = await stored(index, 1, 2)
    for bucket_key in [bucket_keys_of(2)[i] for i in lost]:
        harness.put_bucket(bucket_key.bucket, b"")
    short = Entry((hash_bucket_key(0, hashed(9)), hash_bucket_key(1, 5)), content_of(9), None)
    assert await index.commit(await entered(index, short, LEASE))
    found = await verify(index)
    assert found.lacking == (((numbers[1], missing),) if missing else ())


@pytest.mark.parametrize("harness", ["sqlite", "redis"], indirect=True)
async def test_wrong_counters_and_lost_satellites_are_found(
    harness: BytesHarness, index: Index
) -> None:
    """Counters are compared with pages and buckets; records of a damaged page are unknown."""
    numbers = await stored(index, 1, 2, 3)
    harness.damage_counter()
    found = await verify(index)
    assert [line.partition(":")[0] for line in found.counters] == ["committed"]
    harness.damage_page(numbers[-1])
    found = await verify(index)
    assert {one.unknown for one in found.tables} == {1}
    assert not found.is_sound


async def test_verifying_beside_other_work(harness: Harness, index: Index) -> None:
    """Pages that come and go while an index is verified are no faults."""
    other = await harness.client(PARAMETERS)
    numbers = await stored(index, *range(1, 101))

    async def work() -> None:
        for key in range(200, 230):
            await stored(other, key)
        await other.forget(numbers[:50])
        await other.compact()

    found, _ = await asyncio.gather(verify(index), work())
    assert found.is_sound


async def test_pages_that_come_while_their_index_is_verified(
    harness: Harness, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a cluster their ids were reserved before."""
    await stored(index, 1)
    buckets = index.buckets

    async def after_another() -> AsyncIterator[tuple[int, bytes]]:
        await stored(index, 2)
        async for one in buckets():
            yield one

    monkeypatch.setattr(index, "buckets", after_another)
    assert (await verify(index)).is_sound


@pytest.mark.parametrize("harness", ["redis", "cluster"], indirect=True)
async def test_bucket_that_changes_while_it_is_compacted(
    harness: Harness, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No record of a page that is gone stays: its row may be removed with its chunk, and then the
    index would be called damaged."""
    (gone,) = await stored(index, 1)
    await index.forget([gone])
    read, others = upkeep.held_in, [2, 3, 4]

    async def held_in(*args: Any) -> list[bytes | None]:
        held = await read(*args)
        if others:
            other = Entry(bucket_keys_of(1), content_of(others.pop()), None)
            claim = await entered(index, other, LEASE)
            await index.release(claim)
        return held

    monkeypatch.setattr(upkeep, "held_in", held_in)
    await index.compact()
    for key, raw in zip(
        bucket_keys_of(1), await index.read_buckets(bucket_keys_of(1)), strict=True
    ):
        assert gone not in page_ids_of(raw, key.width)
