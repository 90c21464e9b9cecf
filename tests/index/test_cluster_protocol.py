"""The protocol over many masters, step by step, on a real cluster."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import attrs
import numpy as np
import pytest

from dedup_middleware.base.errors import IndexRefusedError, IndexUnavailableError, OptionsError
from dedup_middleware.base.options import Options
from dedup_middleware.core.deduplicator import Deduplicator
from dedup_middleware.index.cluster import propose
from dedup_middleware.index.cluster.homes import Announced, Reserved, text_of
from dedup_middleware.index.cluster.index import ClusterIndex
from dedup_middleware.index.cluster.shards import chunk_keys, field_of, group_hash, groups_of
from dedup_middleware.index.cluster.visits import found, visit
from dedup_middleware.index.opening import open_index
from dedup_middleware.index.redis.expiry import end_of
from dedup_middleware.index.verification import verify
from dedup_middleware.model.buckets import (
    ANCHOR_TABLES,
    EXACT_TABLE,
    FIRST_BAND_TABLE,
    SIMHASH_TABLES,
    BucketKey,
)
from dedup_middleware.model.claims import Candidates, Claimed, Entry, Known
from dedup_middleware.model.documents import DUPLICATE, Document
from dedup_middleware.model.records import (
    BAND_RECORD,
    CONTENT,
    NO_PAGES,
    SIMHASH_RECORD,
    State,
    chosen,
    joined,
)
from tests.index import bulk
from tests.index.bulk import some_pages
from tests.index.harness import PARAMETERS, ClusterHarness, bucket_keys_of, entry
from tests.servers import RedisServer
from tests.texts import article

LEASE = 60.0
LIKE = bucket_keys_of(1, 0x0123_4567_89AB_CDEF, (5 << 40, 6 << 50))
OTHER = bucket_keys_of(2, 0xFEDC_BA98_7654_3210, (7 << 40, 8 << 50))


@pytest.fixture
async def harness(cluster_masters: list[RedisServer]) -> AsyncIterator[ClusterHarness]:
    """A fresh index over three masters."""
    harness = ClusterHarness(cluster_masters)
    yield harness
    await harness.close()


async def _opened(harness: ClusterHarness) -> ClusterIndex:
    index = await harness.client()
    assert isinstance(index, ClusterIndex)
    return index


async def test_round_trips(harness: ClusterHarness) -> None:
    """A new page takes three with its commit, a copy two, and a page with a different one as its
    candidate four: the candidate is judged, and the page announced."""
    index = await _opened(harness)
    for i in range(30):  # ids are reserved with the first page, and every master gets the scripts
        places = bucket_keys_of(i + 10, (i + 1) * 0x9E37_79B9_7F4A_7C15 % 2**64, (i << 55, i << 56))
        warm = await index.propose(entry(places), 0, LEASE)
        if isinstance(warm, Claimed):
            await index.commit(warm.claim)
            await index.propose(entry(places), 0, LEASE)
    trips: list[int] = []
    index.watch_round_trips(lambda: trips.append(1))

    def taken() -> int:
        count = len(trips)
        trips.clear()
        return count

    made = await index.propose(entry(LIKE), 0, LEASE)
    assert isinstance(made, Claimed)
    assert await index.commit(made.claim)
    assert taken() == 3
    copy = await index.propose(entry(LIKE), 0, LEASE)
    assert isinstance(copy, Candidates)
    assert copy.pages.states.tolist() == [State.COMMITTED]
    assert taken() == 2
    other = await index.propose(entry(LIKE), 0, LEASE, known=Known(copy.pages))
    assert isinstance(other, Claimed)
    assert await index.commit(other.claim)
    assert taken() == 2


async def test_a_copy_writes_nothing(harness: ClusterHarness) -> None:
    """A page that meets a stored one leaves all buckets and rows as they are."""
    index = await _opened(harness)
    made = await index.propose(entry(LIKE), 0, LEASE)
    assert isinstance(made, Claimed)
    await index.commit(made.claim)
    before = await index.stats(), await index.read_buckets(LIKE)
    assert isinstance(await index.propose(entry(LIKE), 0, LEASE), Candidates)
    assert (await index.stats(), await index.read_buckets(LIKE)) == before


async def test_pages_that_know_others_meet_each_other(harness: ClusterHarness) -> None:
    """Pages announced at the same time by several clients: of any two at least one meets the other,
    and each has its claim while it is judged."""
    clients = [await _opened(harness) for _ in range(3)]
    first = await clients[0].propose(entry(LIKE), 0, LEASE)
    assert isinstance(first, Claimed)
    found = await clients[0].propose(entry(LIKE), 0, LEASE)
    assert isinstance(found, Candidates)
    known = Known(found.pages)
    made = await asyncio.gather(
        *(clients[i % 3].propose(entry(LIKE), 0, LEASE, known=known) for i in range(12))
    )
    met: dict[int, set[int]] = {}
    for one in made:
        assert isinstance(one, Claimed)
        assert one.is_mutual
        met[one.claim.page_id] = set(one.candidates.near.page_ids.tolist())
    for page, others in met.items():
        for other in met.keys() - {page}:
            assert other in others or page in met[other]


async def test_an_announcement_without_a_row_comes_too_late(harness: ClusterHarness) -> None:
    """A record whose row has not arrived yet is settled by the page that meets it: its id can't be
    announced any more, and its page gets another one."""
    index, other = await _opened(harness), await _opened(harness)
    (late,) = await other.take_ids(1)
    other._reserved.appendleft(late)
    suffix = LIKE[5].suffix.to_bytes(3, "little")
    harness.put_bucket(LIKE[5].bucket, late.page_id.to_bytes(5, "little") + suffix)
    made = await index.propose(entry(LIKE), 0, LEASE)
    assert isinstance(made, Claimed)
    assert not len(made.candidates.near)
    found = await index.fetch(np.array([late.page_id], np.uint64))
    assert found.states.tolist() == [State.RELEASED]
    came = await other.propose(entry(OTHER), 0, LEASE)
    assert isinstance(came, Claimed)
    assert came.claim.page_id != late.page_id


async def test_compaction_takes_out_what_was_never_announced(harness: ClusterHarness) -> None:
    """A client that died between its messages has left records of a page that has no row, on a
    shard that has no rows at all: the id is settled and the records go."""
    index = await _opened(harness)
    (late,) = await index.take_ids(1)
    suffix = LIKE[5].suffix.to_bytes(3, "little")
    harness.put_bucket(LIKE[5].bucket, late.page_id.to_bytes(5, "little") + suffix)
    assert not (await verify(index)).is_sound
    assert await index.compact() == 1
    assert (await verify(index)).is_sound
    assert await index.read_buckets(LIKE[5:6]) == [b""]


async def test_compaction_settles_an_id_for_which_its_chunk_has_no_room_yet(
    harness: ClusterHarness,
) -> None:
    """Pages before it have rows; it was never announced, and its records go."""
    index = await _opened(harness)
    await index.load(some_pages(1))
    late = (await index.take_ids(63))[-1]
    local = index.spread.local(late.page_id)
    chunk = index.spread.prefix(index.spread.home_of(late.page_id)) + chunk_keys([0])[0]
    assert harness.admin.strlen(chunk) <= local * index.layout.row.itemsize
    suffix = LIKE[5].suffix.to_bytes(3, "little")
    harness.put_bucket(LIKE[5].bucket, late.page_id.to_bytes(5, "little") + suffix)
    assert await index.compact() == 1
    assert await index.read_buckets(LIKE[5:6]) == [b""]
    assert harness.admin.strlen(chunk) > local * index.layout.row.itemsize


async def test_exact_copy_needs_no_further_bucket(harness: ClusterHarness) -> None:
    """A stored exact copy is the only candidate, though another page shares the SimHash; a copy
    with another title on the same host is judged with all candidates."""
    index = await _opened(harness)
    near = bucket_keys_of(3, 0x0123_4567_89AB_CDEF, (9 << 40, 9 << 50))
    for page in (entry(LIKE, key=1), entry(near, key=3, size=7)):
        made = await index.propose(page, 0, LEASE)
        assert isinstance(made, Claimed)
        assert await index.commit(made.claim)
    places = (bucket_keys_of(4)[0], *LIKE[1:])
    copy = attrs.evolve(entry(places, key=4), exact=True)
    found = await index.propose(copy, 0, LEASE)
    assert isinstance(found, Candidates)
    assert found.pages.content["key"].tolist() == [1]
    assert len(found.near) == 1
    content = np.frombuffer(copy.content, CONTENT).copy()
    content["title"] = 5
    other = await index.propose(attrs.evolve(copy, content=content.tobytes()), 0, LEASE)
    assert isinstance(other, Candidates)
    assert len(other.near) == 2


async def test_exact_copy_of_a_text_needs_no_further_bucket(
    harness: ClusterHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the default settings, whose index keeps some of the fields of a page only, a reprint
    word for word is decided after the first read; one with a changed word is not."""
    read: list[object] = []
    original = propose._rest

    async def rest(index: Any, pages: list[Any]) -> None:
        read.extend(pages)
        await original(index, pages)

    monkeypatch.setattr(propose, "_rest", rest)
    text = article(3, 30)
    async with Deduplicator(harness.options) as dedup:
        first = await dedup.decide(Document(key="https://one.example/1", text=text))
        assert await dedup.commit(first)
        copy = await dedup.decide(Document(key="https://two.example/1", text=text))
        assert (copy.outcome, copy.reason) == (DUPLICATE, "exact-copy")
        assert not read
        edited = await dedup.decide(Document(key="https://two.example/2", text=f"{text} Ende"))
        assert edited.outcome == DUPLICATE
        assert read


@pytest.mark.parametrize("table", [*ANCHOR_TABLES, *range(FIRST_BAND_TABLE, FIRST_BAND_TABLE + 8)])
async def test_a_page_is_found_by_any_table(harness: ClusterHarness, table: int) -> None:
    """A stored page is found by a single bucket, also of a table that only the announcement reads;
    then nothing is left claimed."""
    index = await _opened(harness)
    shared = BucketKey(table << 16 | 77, 5)
    stored = await index.propose(entry((*bucket_keys_of(1), shared), key=1), 0, LEASE)
    assert isinstance(stored, Claimed)
    assert await index.commit(stored.claim)
    # Its SimHash and its bands are others.
    places = (*bucket_keys_of(2, 0xFFFF_0000_FFFF_0001, (3 << 40, 4 << 50)), shared)
    found = await index.propose(entry(places, key=2), 0, LEASE)
    assert isinstance(found, Candidates)
    assert found.pages.page_ids.tolist() == [stored.claim.page_id]
    assert (await index.stats()).pending == 0


async def test_failed_announcement_is_given_back(
    harness: ClusterHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where an announcement fails half-way and its process lives on, its page does not stay claimed
    until the lease ends."""
    index = await _opened(harness)

    def fail(*_: object) -> None:
        raise IndexUnavailableError("half-way")

    with monkeypatch.context() as patched:
        patched.setattr(index, "created", fail)
        with pytest.raises(IndexUnavailableError, match="half-way"):
            await index.propose(entry(LIKE), 0, LEASE)
    assert isinstance(await index.propose(entry(LIKE), 0, LEASE), Claimed)
    assert (await index.stats()).pending == 1


async def test_compaction_leaves_a_long_bucket_in_its_hash(harness: ClusterHarness) -> None:
    """A bucket that is long even after its compaction is read, and added to, like any other."""
    index = await _opened(harness)
    made = await index.propose(entry(LIKE), 0, LEASE)
    assert isinstance(made, Claimed)
    await index.commit(made.claim)
    gone = await index.propose(entry(OTHER), 0, LEASE)
    assert isinstance(gone, Claimed)
    await index.release(gone.claim)
    (own,) = [key for key in LIKE if key.table == LIKE[5].table]
    ids = [made.claim.page_id] * 600 + [gone.claim.page_id]
    records = [one.to_bytes(5, "little") + own.suffix.to_bytes(3, "little") for one in ids]
    harness.put_bucket(own.bucket, b"".join(records))
    await index.compact()
    assert await index.read_buckets([own]) == [b"".join(records[:-1])]
    copy = await index.propose(entry((own,)), 0, LEASE)
    assert isinstance(copy, Candidates)
    assert copy.pages.page_ids.tolist() == [made.claim.page_id]


async def test_pages_at_once_take_three_exchanges(harness: ClusterHarness) -> None:
    """However many new pages come at once: they are read, announced and committed, and their ids
    are reserved while they are read."""
    index = await _opened(harness)

    def pages(first: int, count: int = 100) -> list[Entry]:
        return [
            entry(bucket_keys_of(i, i * 0x9E37_79B9_7F4A_7C15 % 2**64, (i << 40, (i + 7) << 50)))
            for i in range(first, first + count)
        ]

    async def store(some: list[Entry]) -> None:
        made = await asyncio.gather(*[index.propose(one, 0, LEASE) for one in some])
        claims = [one.claim for one in made if isinstance(one, Claimed)]
        assert len(claims) == len(some)
        assert all(await asyncio.gather(*map(index.commit, claims)))

    # Every master gets the scripts: those of buckets at once, those of ids where the shard of
    # newly reserved ids happens to be.
    await store(pages(1_000))
    for first in range(3_000, 3_040):
        index.drop_ids()
        await store(pages(first, 1))
    index.drop_ids()
    trips: list[int] = []
    index.watch_round_trips(lambda: trips.append(1))
    await store(pages(2_000))
    assert len(trips) == 3


async def test_page_without_a_text_gets_none(harness: ClusterHarness) -> None:
    """Address and payload that lie under its id, because a server has lost the row to them, are
    those of another page."""
    index = await _opened(harness)
    await index.propose(entry(OTHER), 0, LEASE)  # reserves ids
    page_id = index._reserved[0].page_id
    local = index.spread.local(page_id)
    prefix = index.spread.prefix(index.spread.home_of(page_id))
    texts = prefix + chunk_keys([local // index.layout.rows])[1]
    row = (local % index.layout.rows).to_bytes(2, "little")
    harness.admin.hset(texts, row, text_of(b"https://lost/1", b"evidence"))
    made = await index.propose(attrs.evolve(entry(LIKE), address=None), 0, LEASE)
    assert isinstance(made, Claimed)
    assert made.claim.page_id == page_id
    assert await index.addresses([page_id]) == [None]
    assert await index.payloads([page_id]) == [b""]


async def test_loaded_page_whose_id_belongs_to_another(harness: ClusterHarness) -> None:
    """A master lost its last writes and gave the id again: the load says that it was interrupted,
    instead of counting the other page. Where the reply alone was lost, it counts."""
    index = await _opened(harness)
    made = await index.propose(entry(LIKE), 0, LEASE)
    assert isinstance(made, Claimed)
    await index.commit(made.claim)
    row, text = index.row_of(entry(LIKE))
    reserved = Reserved(made.claim.page_id, 0)
    stamps = np.array([1_700_000_000], "<u4")
    await index._commit_loaded([Announced(reserved, 1, row, text)], stamps)
    other, _ = index.row_of(entry(OTHER, key=9))
    with pytest.raises(IndexUnavailableError, match="loading pages"):
        await index._commit_loaded([Announced(reserved, 1, other, text)], stamps)


@pytest.mark.parametrize("step", ["created", "_commit_loaded"])
async def test_failed_load_is_given_back(
    harness: ClusterHarness, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Pages of a load that fails half-way do not hold up like ones until its lease ends."""
    index = await _opened(harness)

    def fail(*_: object) -> None:
        raise IndexUnavailableError("half-way")

    with monkeypatch.context() as patched:
        patched.setattr(index, step, fail)
        with pytest.raises(IndexUnavailableError, match="half-way"):
            await index.load(some_pages(2))
    assert isinstance(await index.propose(bulk.page(1, 0x9E37_79B9_7F4A_7C15), 0, LEASE), Claimed)
    assert (await index.stats()).pending == 1


async def test_loaded_page_is_settled_by_another(harness: ClusterHarness) -> None:
    """Where a crawl meets a page of a load before its row, the page is announced once more, and
    the load goes on; the others of its part are not entered twice."""
    index, other = await _opened(harness), await _opened(harness)
    together = index.together
    (first,) = await index.take_ids(1)
    index._reserved.appendleft(first)
    settled: list[int] = []

    async def late(*arguments: Any) -> Any:
        if not settled:
            settled.append(first.page_id)
            await other.look(np.array(settled, np.uint64), settles=True)
        return await together(*arguments)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(index, "together", late)
        assert await index.load(pages := some_pages(3)) == 3
    stats = await index.stats()
    assert (stats.committed, stats.pending, stats.released) == (3, 0, 1)
    ids = await index.page_ids()
    found = await index.fetch(np.arange(ids.start, ids.stop, dtype=np.uint64))
    stored = chosen(found, found.states == State.COMMITTED)
    assert sorted(stored.content["key"].tolist()) == [1, 2, 3]
    times = dict(zip(stored.content["key"].tolist(), stored.times.tolist(), strict=True))
    assert times[1] == pages.times[0]


@pytest.mark.parametrize("window", [0.0, 10_000.0])
async def test_buckets_read_whole_and_by_a_script(
    cluster_masters: list[RedisServer], window: float
) -> None:
    """What a script finds in short buckets is what is found in them when they are sent whole, with
    bytes behind the last record, and pages that share a bucket."""
    harness = ClusterHarness(cluster_masters, window=window)
    index = await _opened(harness)
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
            name = group_hash(group, end)
            key = index.spread.prefix(shard) + name
            raw += bytes(int(odd))
            words = b"HSET", key, field_of(bucket), raw
            calls.append(index.script_call("command", shard, (name,), *words))
    await index.together(calls, ())
    keys: list[Sequence[BucketKey]] = [
        [BucketKey(int(one), int(rng.integers(0, 3))) for one in rng.choice(buckets, 12, False)]
        for _ in range(40)
    ]
    results = []
    for index.reads_whole in (True, False):
        made = visit(index, keys, [0] * 40, [0] * 40, live, live[-1])
        assert bool(made.places) == index.reads_whole
        replies, _ = await index.together(made.calls, ())
        every = found(made, replies, 2)
        results.append(
            [one and (one.page_ids.tolist(), one.tables.tolist(), one.corrupt) for one in every]
        )
    assert results[0] == results[1]
    assert sum(bool(one and one[0]) for one in results[0]) > 20
    await harness.close()


async def test_long_buckets_are_read_by_a_script(harness: ClusterHarness) -> None:
    """A process that meets buckets of 40 pages has them searched by the servers from then on."""
    index = await _opened(harness)
    known = NO_PAGES
    for i in range(40):
        made = await index.propose(entry(LIKE, key=i), 0, LEASE, known=Known(known))
        assert isinstance(made, Claimed)
        assert await index.commit(made.claim)
        known = joined([known, await index.fetch(np.array([made.claim.page_id], np.uint64))])
    assert index.reads_whole
    for _ in range(2):
        copy = await index.propose(entry(LIKE, key=99), 0, LEASE)
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
    index = await _opened(harness)
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


async def test_another_number_of_shards_is_refused(harness: ClusterHarness) -> None:
    """The number is fixed when the index is made; the message names the setting."""
    await harness.client()
    options = Options(
        index_url=harness.options.index_url, namespace=harness.options.namespace, shards=16
    )
    index = open_index(options)
    with pytest.raises(IndexRefusedError, match="DEDUP_SHARDS"):
        await index.open(PARAMETERS)
    await index.attach()  # commands take the index as it is
    assert (await index.stats()).parameters["parts"] == "8"
    await index.close()


@pytest.mark.parametrize("shards", [0, 3, 8192])
def test_shards_are_a_power_of_two(shards: int) -> None:
    """Any other number is refused."""
    with pytest.raises(OptionsError, match="DEDUP_SHARDS"):
        Options(shards=shards)


async def test_a_chunk_of_rows_grows_to_its_exact_size(
    harness: ClusterHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes memory for the rows that it holds and a few more, in the end for all of them."""
    monkeypatch.setattr("random.randrange", lambda _: 0)  # all pages on one shard
    index = await _opened(harness)
    rows, size = index.layout.rows, index.layout.row.itemsize
    key = index.spread.prefix(0) + chunk_keys([0])[0]
    loaded = 0
    for count in (1, rows // 8, rows // 2, rows - 1):
        await index.load(some_pages(count - loaded, 1 + loaded))
        loaded = count
        length = harness.admin.strlen(key)
        assert length % size == 0
        assert count < length // size <= min(rows, count + 1 + rows // 4)
        assert harness.admin.memory_usage(key) < 1.3 * length + 500
    assert length == rows * size
    assert await index.count() == rows - 1
    assert len([one async for part in index.pages() for one in part.page_ids]) == rows - 1
