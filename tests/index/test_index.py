"""Pages, parameters and state: one suite over every index."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from dedup_middleware.base.errors import IndexRefusedError
from dedup_middleware.base.options import Options
from dedup_middleware.core.fingerprinter import Fingerprinter
from dedup_middleware.index.base import Index
from dedup_middleware.index.cluster.spread import SHARDS
from dedup_middleware.index.parameters import RECORD, WHOLE, RecordLayout
from dedup_middleware.index.redis.server_index import ServerIndex
from dedup_middleware.model.buckets import ADDRESS_LIMIT, PAYLOAD_LIMIT, BucketKey, record
from dedup_middleware.model.claims import Candidates, Claimed, Entry, Wanted
from dedup_middleware.model.records import CONTENT, State
from tests.index.claiming import BUCKET_KEYS, LEASE, claimed, entered, states
from tests.index.harness import (
    PARAMETERS,
    BytesHarness,
    ClusterHarness,
    Harness,
    ascending,
    bucket_keys_of,
    entry,
    payloads,
)


async def test_new_index_is_empty(index: Index) -> None:
    """Nothing is in a new index: empty buckets, no page, no address, count 0."""
    assert await index.read_buckets(BUCKET_KEYS) == [b""] * len(BUCKET_KEYS)
    assert await index.read_buckets(()) == []
    assert await states(index, 0, 1, 2, 1 << 39, (1 << 64) - 1) == [State.FREE] * 5
    assert await index.addresses([1, 2]) == [None, None]
    assert await index.count() == 0


async def test_fetch_keeps_order_and_repeats(index: Index) -> None:
    """Page records come in the requested order, with repeated and unknown ids."""
    one = await claimed(index, size=1)
    two = await claimed(index, size=2)
    numbers = [two.page_id, 99, one.page_id, two.page_id]
    found = await index.fetch(np.array(numbers, np.uint64))
    assert found.page_ids.tolist() == numbers
    assert found.content["size"].tolist() == [2, 0, 1, 2]
    assert found.states.tolist() == [State.PENDING, State.FREE, State.PENDING, State.PENDING]
    assert len(await index.fetch(np.empty(0, np.uint64))) == 0


async def test_page_numbers_are_never_given_twice(harness: Harness) -> None:
    """The page id of a released page is never given again."""
    clients = [await harness.client() for _ in range(2)]
    numbers = []
    for i in range(20):
        claim = await claimed(clients[i % 2])
        numbers.append(claim.page_id)
        await clients[i % 2].release(claim)
    assert ascending(clients[0], sorted(set(numbers))) == ascending(clients[0], numbers)
    assert min(numbers) > 0


async def test_more_pages_than_a_chunk_holds(index: Index) -> None:
    """Page records and addresses stay whole where the storage behind them is divided."""
    count, width = 1300, 333
    claims = await asyncio.gather(
        *(
            entered(index, entry((BucketKey(i, 1),), size=i, address=f"{i:0{width}}"))
            for i in range(count)
        )
    )
    numbers = [claim.page_id for claim in claims]
    found = await index.fetch(np.array(numbers, np.uint64))
    assert found.content["size"].tolist() == list(range(count))
    assert await index.addresses(numbers) == [f"{i:0{width}}" for i in range(count)]


@pytest.mark.parametrize("address", ["https://例え.jp/一?q=é", "a" * ADDRESS_LIMIT, "\udcff/x"])
async def test_addresses_of_all_kinds(index: Index, address: str) -> None:
    """Any text can be an address; characters that UTF-8 can't encode are replaced."""
    claim = await claimed(index, address=address)
    assert await index.addresses([claim.page_id]) == [address.replace("\udcff", "?")]


async def test_endless_address_is_cut(index: Index) -> None:
    """An address beyond the limit is cut between two characters."""
    claim = await claimed(index, address="语" * 5000)
    assert await index.addresses([claim.page_id]) == ["语" * (ADDRESS_LIMIT // 3)]


@pytest.mark.parametrize("address", [None, ""])
async def test_page_without_address(index: Index, address: str | None) -> None:
    """A page without an address has None."""
    claim = await claimed(index, address=address)
    assert await index.addresses([claim.page_id]) == [None]


PAYLOADS = [b"", b"\x00", b"a payload", bytes(range(256)) * 200, b"\xff" * PAYLOAD_LIMIT]


async def test_payloads_are_kept(index: Index) -> None:
    """A payload of any length comes back as it was, with an address of any length or none."""
    addresses = [None, "https://a/1", "a" * ADDRESS_LIMIT]
    fields = [(address, payload) for address in addresses for payload in PAYLOADS]
    claims = [await claimed(index, address=address, payload=payload) for address, payload in fields]
    numbers = [claim.page_id for claim in claims]
    expected = [payload for _, payload in fields]
    assert await payloads(index, numbers) == expected
    assert await payloads(index, [*numbers[::-1], 0, 999, 1 << 39]) == [*expected[::-1], *[b""] * 3]
    assert await payloads(index, []) == []
    assert await index.addresses(numbers) == [address for address, _ in fields]
    if isinstance(index, ServerIndex):  # a request for addresses gets nothing else
        seen = await index.look(np.array(numbers, np.uint64), texts=Wanted.ADDRESSES)
        assert seen.payloads == [b""] * len(numbers)


def test_endless_payload_is_refused() -> None:
    """A payload beyond the limit is refused before it reaches an index; the limit is named."""
    with pytest.raises(ValueError, match="65537 bytes: an index keeps at most 65536"):
        entry(BUCKET_KEYS, payload=bytes(PAYLOAD_LIMIT + 1))


async def test_time_of_a_commit(harness: Harness, index: Index) -> None:
    """A page has the time of its commit by the index's clock, and none while it is not stored."""
    claims = [await claimed(index) for _ in range(4)]
    numbers = np.array([claim.page_id for claim in claims] + [99], np.uint64)
    harness.advance(5)
    before = int(harness.now())
    assert await index.commit(claims[0])
    assert await index.release(claims[1])
    assert await index.commit(claims[2])
    assert await index.forget([claims[2].page_id]) == 1
    found = await index.fetch(numbers)
    assert before <= found.times[0] <= harness.now()
    assert found.times[1:].tolist() == [0] * 4
    assert found.times.dtype == np.uint32
    walked = [part async for part in index.pages()]
    assert np.concatenate([part.times for part in walked]).tolist() == found.times[:4].tolist()


@pytest.mark.parametrize("harness", ["sqlite", "redis", "cluster"], indirect=True)
async def test_damaged_satellite_is_no_page(harness: BytesHarness, index: Index) -> None:
    """A page record that is damaged reads as FREE and is counted; others are not affected."""
    good, bad = await claimed(index, size=4), await claimed(index, size=5)
    harness.damage_page(bad.page_id)
    assert await states(index, bad.page_id, good.page_id) == [State.FREE, State.PENDING]
    assert (await index.stats()).corrupt == 1


async def test_foreign_bytes_are_read_as_they_are(harness: Harness, index: Index) -> None:
    """Bytes that are no whole record are read as they are and counted; the record of a claim takes
    their place, so that it is found."""
    for bucket_key, records in ((BUCKET_KEYS[0], 1), (BUCKET_KEYS[1], 0), (BUCKET_KEYS[5], 3)):
        whole = b"".join(record(BucketKey(bucket_key.bucket, 0), 500 + n) for n in range(records))
        harness.put_bucket(bucket_key.bucket, whole + b"hello")
        assert (await index.read_buckets([bucket_key])) == [whole + b"hello"]
        made = await index.propose(entry([bucket_key]), 0, LEASE)
        assert isinstance(made, Claimed)
        assert made.candidates.near.corrupt == 5
        number = made.claim.page_id
        assert (await index.read_buckets([bucket_key])) == [whole + record(bucket_key, number)]
        again = await index.propose(entry([bucket_key]), 0, LEASE)
        near = again.near if isinstance(again, Candidates) else again.candidates.near
        assert near.page_ids.tolist() == [number]
        assert near.corrupt == 0


async def test_parameters_are_kept(harness: Harness) -> None:
    """The first to open an index sets its parameters; all others get the same hash key."""
    first, second = harness.connect(), harness.connect()
    harness.clients += [first, second]
    stored = await first.open(PARAMETERS)
    assert len(bytes.fromhex(stored["hash_key"])) == 16
    record = WHOLE.parameter
    shards = {SHARDS: "8"} if isinstance(harness, ClusterHarness) else {}
    assert stored == {**PARAMETERS, "hash_key": stored["hash_key"], "record": record, **shards}
    assert await second.open(PARAMETERS) == stored
    assert await second.open(stored) == stored
    assert (await second.stats()).parameters == stored


async def test_given_hash_key_is_used(harness: Harness) -> None:
    """A hash key among the parameters is stored instead of a random one."""
    index = harness.connect()
    harness.clients.append(index)
    assert (await index.open({**PARAMETERS, "hash_key": "00"}))["hash_key"] == "00"


async def test_index_with_other_buckets_is_refused(harness: Harness) -> None:
    """One made while prefixes had 15 bits would be searched in the wrong buckets."""
    today = Fingerprinter(Options()).parameters
    index = harness.connect()
    harness.clients.append(index)
    await index.open({**today, "bucket_prefix": "15 bits"})
    other = harness.connect()
    harness.clients.append(other)
    with pytest.raises(IndexRefusedError, match="bucket_prefix: the index has '15 bits'") as caught:
        await other.open(today)
    assert "a line without a setting depends on the version of dedup-middleware" in str(
        caught.value
    )


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
    await index.read_buckets(BUCKET_KEYS)


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
    assert stats.buckets == len(BUCKET_KEYS)
    assert stats.bytes > 6 * 120
    assert stats.corrupt == stats.overflow == 0


async def test_context_manager_closes(harness: Harness) -> None:
    """``async with`` closes the index at its end."""
    async with harness.connect() as index:
        await index.open(PARAMETERS)
        assert await index.count() == 0


SMALL = RecordLayout(("size", "key", "simhash"), text=False)


async def test_small_record_keeps_its_fields_alone(harness: Harness) -> None:
    """An index may keep only some fields of a page: the others read as 0, and there is no
    address."""
    index = harness.connect()
    harness.clients.append(index)
    stored = await index.open({**PARAMETERS, RECORD: SMALL.parameter})
    assert stored[RECORD] == "size:4 simhash:8 key:8"
    content = np.zeros(1, CONTENT)
    for name in CONTENT.names or ():
        content[name] = 7
    claim = await entered(index, Entry(BUCKET_KEYS, content.tobytes(), "https://a/1"))
    assert await index.commit(claim)
    other = await harness.client(None)
    for client in (index, other):
        found = await client.fetch(np.array([claim.page_id, 77], np.uint64))
        assert found.content.dtype == CONTENT
        kept = {name for name in CONTENT.names or () if found.content[name][0].any()}
        assert kept == {"size", "key", "simhash"}
        assert found.states.tolist() == [State.COMMITTED, State.FREE]
        assert [part.content["key"].tolist() async for part in client.pages()] == [[7]]
        assert await client.addresses([claim.page_id]) == [None]
        assert await payloads(client, [claim.page_id]) == [b""]
    assert await index.forget([claim.page_id]) == 1
    assert await index.compact() == len(BUCKET_KEYS)
    page = Entry(BUCKET_KEYS, content.tobytes(), None, b"a payload")
    with pytest.raises(ValueError, match="keeps none"):
        await index.propose(page, 0, LEASE)


async def test_a_page_with_a_wrong_payload_alone_is_refused(harness: Harness) -> None:
    """The pages proposed with it get their claims."""
    index = harness.connect()
    harness.clients.append(index)
    await index.open({**PARAMETERS, RECORD: SMALL.parameter})

    async def propose(number: int) -> object:
        payload = b"a payload" if number == 2 else b""
        bucket_keys = bucket_keys_of(number, number << 60, (number << 50,))
        return await index.propose(entry(bucket_keys, key=number, payload=payload), 0, LEASE)

    made = await asyncio.gather(*map(propose, range(1, 6)), return_exceptions=True)
    assert [type(one) for one in made] == [Claimed, ValueError, Claimed, Claimed, Claimed]


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
