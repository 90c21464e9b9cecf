"""Claims, leases and growing buckets: one suite over every index."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from dedup_middleware.index.base import Claim, Index, Reading
from dedup_middleware.index.growth import first_reading
from dedup_middleware.index.layout import BUCKET_LIMIT
from dedup_middleware.index.records import State
from tests.index.claiming import LEASE, SLOTS, claimed, states
from tests.index.harness import Harness, entry, slots_of


async def test_claim_writes_one_record_per_slot(index: Index) -> None:
    """A claim appends head and page number to the bucket of each of its slots."""
    claim = await claimed(index)
    reading = await index.read(SLOTS)
    number = claim.number
    for slot, raw in zip(SLOTS, reading.data, strict=True):
        head = slot.head.to_bytes(6 if slot.wide else 3, "little")
        assert raw == number.to_bytes(5, "little") + head
    assert reading.lengths == tuple(map(len, reading.data))


async def test_life_of_a_stored_page(index: Index) -> None:
    """A page is pending after its claim, committed after its commit, and counted then."""
    claim = await claimed(index, size=123, address="https://a/1")
    assert await states(index, claim.number) == [State.PENDING]
    assert await index.count() == 0
    assert await index.commit(claim)
    found = await index.fetch(np.array([claim.number], np.uint64))
    assert found.states.tolist() == [State.COMMITTED]
    assert found.content.tobytes() == entry(SLOTS, size=123).content
    assert await index.count() == 1
    assert await index.addresses([claim.number]) == ["https://a/1"]


async def test_second_commit_or_release_finds_nothing(index: Index) -> None:
    """A claim ends once; what comes after its end is told False and changes nothing."""
    claim = await claimed(index)
    assert await index.commit(claim)
    assert not await index.commit(claim)
    assert not await index.release(claim)
    assert await index.renew([claim], LEASE) == [False]
    assert await states(index, claim.number) == [State.COMMITTED]
    assert await index.count() == 1


async def test_released_page_stays_released(index: Index) -> None:
    """A released claim can't be committed any more, and its page reads as released."""
    claim = await claimed(index)
    assert await index.release(claim)
    assert await states(index, claim.number) == [State.RELEASED]
    assert not await index.commit(claim)
    assert not await index.release(claim)
    assert await index.count() == 0


@pytest.mark.parametrize("operation", ["commit", "release", "renew"])
async def test_only_the_claimant_ends_a_claim(index: Index, operation: str) -> None:
    """A claim of the same number with another token ends or extends nothing."""
    claim = await claimed(index)
    false = Claim(claim.number, claim.token ^ 1)
    if operation == "renew":
        assert await index.renew([false], LEASE) == [False]
    else:
        assert not await getattr(index, operation)(false)
    assert await states(index, claim.number) == [State.PENDING]
    assert await index.commit(claim)


async def test_renewing_with_another_token_extends_nothing(harness: Harness, index: Index) -> None:
    """A heartbeat of somebody else's claim does not let it live on."""
    claim = await claimed(index)
    assert await index.renew([Claim(claim.number, claim.token ^ 1)], 10 * LEASE) == [False]
    harness.advance(LEASE + 1)
    assert await states(index, claim.number) == [State.RELEASED]


async def test_lease_runs_out_for_ever(harness: Harness, index: Index) -> None:
    """A page whose lease ran out reads as released; nobody can commit or renew it again."""
    claim = await claimed(index)
    harness.advance(LEASE + 1)
    assert await states(index, claim.number) == [State.RELEASED]
    harness.advance(-LEASE)
    assert await states(index, claim.number) == [State.RELEASED]
    assert await index.renew([claim], LEASE) == [False]
    assert not await index.commit(claim)
    assert not await index.release(claim)
    assert await index.count() == 0


@pytest.mark.parametrize("operation", ["commit", "release", "renew"])
async def test_late_call_is_refused_even_unseen(
    harness: Harness, index: Index, operation: str
) -> None:
    """The end of a lease holds although nobody has looked at the page since."""
    claim = await claimed(index)
    harness.advance(LEASE + 1)
    if operation == "renew":
        assert await index.renew([claim], LEASE) == [False]
    else:
        assert not await getattr(index, operation)(claim)
    assert await states(index, claim.number) == [State.RELEASED]


async def test_renewed_lease_lasts_longer(harness: Harness, index: Index) -> None:
    """A heartbeat counts from now; claims are answered for one by one."""
    first = await claimed(index)
    second = await claimed(index)
    assert await index.release(second)
    harness.advance(LEASE * 0.7)
    assert await index.renew([first, second], LEASE) == [True, False]
    harness.advance(LEASE * 0.7)
    assert await states(index, first.number) == [State.PENDING]
    assert await index.commit(first)
    assert await index.renew([], LEASE) == []


async def test_stale_claim_gets_the_tails(harness: Harness, index: Index) -> None:
    """A claim on buckets that have grown writes nothing and is given only what is new."""
    other = await harness.client()
    before = await claimed(index)
    reading = await index.read(SLOTS)
    mine = slots_of(2, 0x0123_4567_89AB_CDEF, (5 << 40, 1 << 63))
    first = await claimed(other, mine)
    outcome = await index.claim(entry(SLOTS), reading, LEASE)
    assert isinstance(outcome, Reading)
    assert outcome.slots == SLOTS
    whole = await index.read(SLOTS)
    for old, new, now in zip(reading.data, outcome.data, whole.data, strict=True):
        assert old + new == now
    assert outcome.lengths == whole.lengths
    assert await states(index, first.number + 1) == [State.FREE]
    again = await index.claim(entry(SLOTS), outcome, LEASE)
    assert isinstance(again, Claim)
    assert len({before.number, first.number, again.number}) == 3


async def test_claim_without_reading_first(index: Index) -> None:
    """A claim on a reading of nothing saves a round trip, or brings that first reading."""
    nothing = Reading(SLOTS, (b"",) * len(SLOTS), (0,) * len(SLOTS))
    assert isinstance(await index.claim(entry(SLOTS), nothing, LEASE), Claim)
    outcome = await index.claim(entry(SLOTS), nothing, LEASE)
    assert isinstance(outcome, Reading)
    assert outcome.data == (await index.read(SLOTS)).data
    assert isinstance(await index.claim(entry(SLOTS), outcome, LEASE), Claim)


async def test_growth_beside_the_own_slots_counts(index: Index) -> None:
    """Every bucket that was read is compared, those the page is not put into as well."""
    reading = await index.read(SLOTS)
    await claimed(index, SLOTS[:1])
    assert isinstance(await index.claim(entry(SLOTS[1:]), reading, LEASE), Reading)


async def test_entry_outside_of_the_reading(index: Index) -> None:
    """A claim of a bucket nobody has read could not be atomic and is a mistake of the caller."""
    reading = await index.read(SLOTS[:2])
    with pytest.raises(ValueError, match="not in the reading"):
        await index.claim(entry(SLOTS), reading, LEASE)


@pytest.mark.parametrize("length", [8, 24, 400, 5000])
async def test_rewritten_bucket_is_noticed(harness: Harness, index: Index, length: int) -> None:
    """A bucket of other bytes is noticed though its length is the same, and given whole."""
    old, new = bytes(range(1, 200)) * 40, bytes(range(100, 250)) * 40
    slot = SLOTS[0]
    harness.put_bucket(slot.bucket, old[:length])
    reading = await index.read([slot])
    harness.put_bucket(slot.bucket, new[:length])
    outcome = await index.claim(entry([slot]), reading, LEASE)
    assert isinstance(outcome, Reading)
    assert outcome.data == (new[:length],)
    assert outcome.lengths == (length,)
    assert isinstance(await index.claim(entry([slot]), outcome, LEASE), Claim)


async def test_emptied_bucket_is_noticed(harness: Harness, index: Index) -> None:
    """A bucket that has lost its records is compared as an empty one from then on."""
    slot = SLOTS[0]
    harness.put_bucket(slot.bucket, b"12345678" * 3)
    reading = await index.read([slot])
    harness.put_bucket(slot.bucket, b"")
    outcome = await index.claim(entry([slot]), reading, LEASE)
    assert isinstance(outcome, Reading)
    assert (outcome.data, outcome.lengths) == ((b"",), (0,))
    assert isinstance(await index.claim(entry([slot]), outcome, LEASE), Claim)


@pytest.mark.parametrize("bytes_before", [0, 8, 4080, 4096, 4104, 70_000])
async def test_buckets_of_any_size_grow(harness: Harness, index: Index, bytes_before: int) -> None:
    """Records are appended alike to small and to large buckets."""
    slot = SLOTS[0]
    old = np.random.default_rng(7).bytes(bytes_before)
    harness.put_bucket(slot.bucket, old)
    numbers = [(await claimed(index, [slot])).number for _ in range(3)]
    head = slot.head.to_bytes(3, "little")
    expected = old + b"".join(number.to_bytes(5, "little") + head for number in numbers)
    assert (await index.read([slot])).data == (expected,)


async def test_full_bucket_takes_no_more(harness: Harness, index: Index) -> None:
    """At its limit a bucket stays as it is; the page goes into its other buckets."""
    harness.put_bucket(SLOTS[1].bucket, bytes(BUCKET_LIMIT - 8))
    claim = await claimed(index, SLOTS[:3])
    reading = await index.read(SLOTS[:3])
    assert reading.lengths == (8, BUCKET_LIMIT - 8, 11)
    assert (await index.stats()).overflow == 1
    assert await index.commit(claim)


async def test_racing_claims_have_one_winner(harness: Harness) -> None:
    """Of clients that claim one bucket at the same moment exactly one gets it."""
    clients = [await harness.client() for _ in range(4)]
    readings = [await client.read(SLOTS) for client in clients]
    outcomes = await asyncio.gather(
        *(
            client.claim(entry(SLOTS), reading, LEASE)
            for client, reading in zip(clients, readings, strict=True)
            for _ in range(5)
        )
    )
    assert sum(isinstance(outcome, Claim) for outcome in outcomes) == 1


async def test_many_concurrent_calls(index: Index) -> None:
    """Calls of one process that run at the same time get each its own answer."""

    async def one(key: int) -> Claim:
        slots = slots_of(key, key << 48 | key << 32 | key << 16 | key, (key << 48, key << 50))
        return await claimed(index, slots, size=key, address=f"https://a/{key}")

    claims = await asyncio.gather(*(one(key) for key in range(1, 301)))
    assert all(await asyncio.gather(*(index.commit(claim) for claim in claims)))
    numbers = [claim.number for claim in claims]
    found = await index.fetch(np.array(numbers, np.uint64))
    assert found.content["size"].tolist() == list(range(1, 301))
    assert await index.addresses(numbers) == [f"https://a/{key}" for key in range(1, 301)]
    assert await index.count() == 300


async def test_cancelled_claim_is_given_back(harness: Harness, index: Index) -> None:
    """A claim whose caller is gone blocks nobody: it is released as soon as it is made."""
    reading = await index.read(SLOTS)
    task = asyncio.ensure_future(index.claim(entry(SLOTS), reading, LEASE))
    await asyncio.sleep(0)
    task.cancel()
    outcome = (await asyncio.gather(task, return_exceptions=True))[0]
    if isinstance(outcome, Claim):  # the memory index has answered before
        await index.release(outcome)
    await index.close()
    again = await harness.client()
    assert State.PENDING not in await states(again, 1, 2)


async def test_closing_keeps_claims(harness: Harness) -> None:
    """An index that is closed and opened again holds what it held, claims included."""
    first = await harness.client()
    claim = await claimed(first, address="x")
    await first.close()
    await first.close()
    second = await harness.client()
    assert await states(second, claim.number) == [State.PENDING]
    assert await second.commit(claim)


async def test_first_reading_is_what_read_gives(index: Index) -> None:
    """Versions depend on the bytes alone, so a reading can be made up from them."""
    await claimed(index)
    reading = await index.read(SLOTS)
    made = first_reading(SLOTS, reading.data)
    assert (made.lengths, made.versions) == (reading.lengths, reading.versions)


async def test_commit_twice_at_the_same_time_counts_once(index: Index) -> None:
    """Of two commits of one claim at the same time one stores the page; others are not held up."""
    claim, other = await claimed(index), await claimed(index)
    gone = Claim(claim.number + 1000, 5)
    outcome = await asyncio.gather(*map(index.commit, (claim, claim, gone, other)))
    assert sorted(outcome[:2]) == [False, True]
    assert outcome[2:] == [False, True]
    assert await index.count() == 2
    assert await states(index, claim.number, other.number) == [State.COMMITTED] * 2
