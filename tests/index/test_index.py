"""What every index does, whatever keeps its bytes: one suite over all of them."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from dedup_middleware.errors import IndexRefusedError
from dedup_middleware.index.base import Claim, Entry, Index, Reading
from dedup_middleware.index.growth import first_reading
from dedup_middleware.index.layout import ADDRESS_LIMIT, BUCKET_LIMIT, PAYLOAD_LIMIT
from dedup_middleware.index.record_layout import RECORD, WHOLE, RecordLayout
from dedup_middleware.index.records import CONTENT, State
from tests.index.harness import PARAMETERS, BytesHarness, Harness, entry, slots_of

LEASE = 1000.0
SLOTS = slots_of(1, 0x0123_4567_89AB_CDEF, (5 << 40, 6 << 50))


async def claimed(index: Index, slots=SLOTS, **fields) -> Claim:
    """A claim on whatever the buckets hold now."""
    outcome = await index.claim(entry(slots, **fields), await index.read(slots), LEASE)
    assert isinstance(outcome, Claim)
    return outcome


async def states(index: Index, *numbers: int) -> list[int]:
    """States of pages."""
    return (await index.fetch(np.array(numbers, np.uint64))).states.tolist()


async def test_new_index_is_empty(index: Index) -> None:
    """Nothing is in a new index: empty buckets, no page, no address, count 0."""
    reading = await index.read(SLOTS)
    assert reading.slots == SLOTS
    assert set(reading.data) == {b""}
    assert set(reading.lengths) == {0}
    assert await states(index, 0, 1, 2, 1 << 39, (1 << 64) - 1) == [State.FREE] * 5
    assert await index.addresses([1, 2]) == [None, None]
    assert await index.count() == 0


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


async def test_fetch_keeps_order_and_repeats(index: Index) -> None:
    """Satellites come in the order asked for, repeated and unknown numbers included."""
    one = await claimed(index, size=1)
    two = await claimed(index, size=2)
    numbers = [two.number, 99, one.number, two.number]
    found = await index.fetch(np.array(numbers, np.uint64))
    assert found.numbers.tolist() == numbers
    assert found.content["size"].tolist() == [2, 0, 1, 2]
    assert found.states.tolist() == [State.PENDING, State.FREE, State.PENDING, State.PENDING]
    assert len(await index.fetch(np.empty(0, np.uint64))) == 0


async def test_page_numbers_are_never_given_twice(harness: Harness) -> None:
    """Released pages leave their number behind for good."""
    clients = [await harness.client() for _ in range(2)]
    numbers = []
    for i in range(20):
        claim = await claimed(clients[i % 2])
        numbers.append(claim.number)
        await clients[i % 2].release(claim)
    assert numbers == sorted(set(numbers))
    assert min(numbers) > 0


async def test_more_pages_than_a_chunk_holds(index: Index) -> None:
    """Satellites and addresses stay whole where the storage behind them is divided."""
    count, width = 1300, 333
    nothing = Reading((), (), ())
    claims = await asyncio.gather(
        *(
            index.claim(entry((), size=i, address=f"{i:0{width}}"), nothing, LEASE)
            for i in range(count)
        )
    )
    numbers = [claim.number for claim in claims if isinstance(claim, Claim)]
    found = await index.fetch(np.array(numbers, np.uint64))
    assert found.content["size"].tolist() == list(range(count))
    assert await index.addresses(numbers) == [f"{i:0{width}}" for i in range(count)]


@pytest.mark.parametrize("address", ["https://例え.jp/一?q=é", "a" * ADDRESS_LIMIT, "\udcff/x"])
async def test_addresses_of_all_kinds(index: Index, address: str) -> None:
    """Any text can be an address; what UTF-8 can't hold is replaced."""
    claim = await claimed(index, address=address)
    assert await index.addresses([claim.number]) == [address.replace("\udcff", "?")]


async def test_endless_address_is_cut(index: Index) -> None:
    """An address beyond the limit is cut between two characters."""
    claim = await claimed(index, address="语" * 5000)
    assert await index.addresses([claim.number]) == ["语" * (ADDRESS_LIMIT // 3)]


@pytest.mark.parametrize("address", [None, ""])
async def test_page_without_address(index: Index, address: str | None) -> None:
    """No address is kept as none."""
    claim = await claimed(index, address=address)
    assert await index.addresses([claim.number]) == [None]


PAYLOADS = [b"", b"\x00", b"a payload", bytes(range(256)) * 200, b"\xff" * PAYLOAD_LIMIT]


async def test_payloads_are_kept(index: Index) -> None:
    """A payload of any length comes back as it was, beside an address of any length or none."""
    addresses = [None, "https://a/1", "a" * ADDRESS_LIMIT]
    fields = [(address, payload) for address in addresses for payload in PAYLOADS]
    claims = [await claimed(index, address=address, payload=payload) for address, payload in fields]
    numbers = [claim.number for claim in claims]
    expected = [payload for _, payload in fields]
    assert await index.payloads(numbers) == expected
    assert await index.payloads([*numbers[::-1], 0, 999, 1 << 39]) == [*expected[::-1], *[b""] * 3]
    assert await index.payloads([]) == []
    assert await index.addresses(numbers) == [address for address, _ in fields]


def test_endless_payload_is_refused() -> None:
    """A payload beyond the limit is refused before it reaches an index; the limit is named."""
    with pytest.raises(ValueError, match="65537 bytes: an index keeps at most 65536"):
        entry(SLOTS, payload=bytes(PAYLOAD_LIMIT + 1))


async def test_time_of_a_commit(harness: Harness, index: Index) -> None:
    """A page has the time of its commit by the index's clock, and none while it is not stored."""
    claims = [await claimed(index) for _ in range(4)]
    numbers = np.array([claim.number for claim in claims] + [99], np.uint64)
    harness.advance(5)
    before = int(harness.now())
    assert await index.commit(claims[0])
    assert await index.release(claims[1])
    assert await index.commit(claims[2])
    assert await index.forget([claims[2].number]) == 1
    found = await index.fetch(numbers)
    assert before <= found.times[0] <= harness.now()
    assert found.times[1:].tolist() == [0] * 4
    assert found.times.dtype == np.uint32
    walked = [part async for part in index.pages()]
    assert np.concatenate([part.times for part in walked]).tolist() == found.times[:4].tolist()


@pytest.mark.parametrize("harness", ["sqlite", "redis"], indirect=True)
async def test_damaged_satellite_is_no_page(harness: BytesHarness, index: Index) -> None:
    """A satellite that is damaged reads as FREE and is counted; others are not affected."""
    good, bad = await claimed(index, size=4), await claimed(index, size=5)
    harness.damage_page(bad.number)
    assert await states(index, bad.number, good.number) == [State.FREE, State.PENDING]
    assert (await index.stats()).corrupt == 1


async def test_foreign_bytes_are_read_as_they_are(harness: Harness, index: Index) -> None:
    """Bytes that are no whole record are left to the reader, and a claim goes on behind them."""
    harness.put_bucket(SLOTS[0].bucket, b"hello")
    reading = await index.read(SLOTS)
    assert reading.data[0] == b"hello"
    assert isinstance(await index.claim(entry(SLOTS), reading, LEASE), Claim)


async def test_parameters_are_kept(harness: Harness) -> None:
    """The first to open an index sets its parameters; all others get the same hash key."""
    first, second = harness.connect(), harness.connect()
    harness.clients += [first, second]
    stored = await first.open(PARAMETERS)
    assert len(bytes.fromhex(stored["hash_key"])) == 16
    record = WHOLE.parameter
    assert stored == {**PARAMETERS, "hash_key": stored["hash_key"], "record": record}
    assert await second.open(PARAMETERS) == stored
    assert await second.open(stored) == stored
    assert (await second.stats()).parameters == stored


async def test_given_hash_key_is_used(harness: Harness) -> None:
    """A hash key among the parameters is stored instead of a random one."""
    index = harness.connect()
    harness.clients.append(index)
    assert (await index.open({**PARAMETERS, "hash_key": "00"}))["hash_key"] == "00"


async def test_other_parameters_are_refused(harness: Harness, index: Index) -> None:
    """Opening with other parameters names each difference and the way out."""
    other = harness.connect()
    harness.clients.append(other)
    with pytest.raises(IndexRefusedError) as caught:
        await other.open({"shingle_width": "2", "segmenter": "char"})
    message = str(caught.value)
    assert "shingle_width: the index has '3', the settings ask for '2'" in message
    assert "bands: the index has '2', the settings ask for None" in message
    assert "segmenter" in message
    assert "DEDUP_NAMESPACE" in message
    await index.read(SLOTS)


async def test_stats_count_everything(harness: Harness, index: Index) -> None:
    """The state of an index adds up: pages by state, buckets, bytes."""
    committed = [await claimed(index) for _ in range(3)]
    for claim in committed:
        await index.commit(claim)
    await index.release(await claimed(index))
    await claimed(index)
    harness.advance(LEASE + 1)
    await claimed(index, address="https://a/1")
    stats = await index.stats()
    assert (stats.committed, stats.pending, stats.released) == (3, 1, 2)
    assert stats.buckets == len(SLOTS)
    assert stats.bytes > 6 * 120
    assert stats.corrupt == stats.overflow == 0


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


async def test_context_manager_closes(harness: Harness) -> None:
    """``async with`` closes the index at its end."""
    async with harness.connect() as index:
        await index.open(PARAMETERS)
        assert await index.count() == 0


async def test_first_reading_is_what_read_gives(index: Index) -> None:
    """Versions depend on the bytes alone, so a reading can be made up from them."""
    await claimed(index)
    reading = await index.read(SLOTS)
    made = first_reading(SLOTS, reading.data)
    assert (made.lengths, made.versions) == (reading.lengths, reading.versions)


SMALL = RecordLayout(("size", "key", "simhash"), text=False)


async def test_small_record_keeps_its_fields_alone(harness: Harness) -> None:
    """An index may keep some fields of a page: the others read as 0, and there is no address."""
    index = harness.connect()
    harness.clients.append(index)
    stored = await index.open({**PARAMETERS, RECORD: SMALL.parameter})
    assert stored[RECORD] == "size:4 simhash:8 key:8"
    content = np.zeros(1, CONTENT)
    for name in CONTENT.names or ():
        content[name] = 7
    reading = await index.read(SLOTS)
    page = Entry(SLOTS, content.tobytes(), "https://a/1")
    claim = await index.claim(page, reading, LEASE)
    assert isinstance(claim, Claim)
    assert await index.commit(claim)
    other = await harness.client(None)
    for client in (index, other):
        found = await client.fetch(np.array([claim.number, 77], np.uint64))
        assert found.content.dtype == CONTENT
        kept = {name for name in CONTENT.names or () if found.content[name][0].any()}
        assert kept == {"size", "key", "simhash"}
        assert found.states.tolist() == [State.COMMITTED, State.FREE]
        assert [part.content["key"].tolist() async for part in client.pages()] == [[7]]
        assert await client.addresses([claim.number]) == [None]
        assert await client.payloads([claim.number]) == [b""]
    assert await index.forget([claim.number]) == 1
    assert await index.compact() == len(SLOTS)
    page, reading = Entry(SLOTS, content.tobytes(), None, b"a payload"), await index.read(SLOTS)
    with pytest.raises(ValueError, match="no room for any"):
        await index.claim(page, reading, LEASE)


async def test_other_record_is_refused(harness: Harness, index: Index) -> None:
    """A client that would keep other fields is refused, and one whose fields are not known too."""
    other = harness.connect()
    harness.clients.append(other)
    with pytest.raises(IndexRefusedError, match="record: the index has"):
        await other.open({**PARAMETERS, RECORD: SMALL.parameter})
    another = harness.connect()
    harness.clients.append(another)
    with pytest.raises(IndexRefusedError, match=r"size:2|size:4"):
        await another.open({**PARAMETERS, RECORD: "size:2 colour:4"})
