"""The protocol over many masters, step by step, on a real cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np
import pytest

from dedup_middleware.base.errors import IndexUnavailableError
from dedup_middleware.core.deduplicator import Deduplicator
from dedup_middleware.index.cluster import propose
from dedup_middleware.index.cluster.shards import Announced, Reserved, text_of
from dedup_middleware.index.cluster.spread import chunk_keys
from dedup_middleware.index.redis.link import Call
from dedup_middleware.index.redis.scripts import GROUPED
from dedup_middleware.index.verification import verify
from dedup_middleware.model.buckets import (
    ANCHOR_TABLES,
    FIRST_BAND_TABLE,
    KEY_TABLE,
    BucketKey,
    hash_bucket_key,
)
from dedup_middleware.model.claims import NOTHING_KNOWN, Candidates, Claimed, Entry, Known, Seen
from dedup_middleware.model.documents import DUPLICATE, Document
from dedup_middleware.model.records import (
    CONTENT,
    PageRecords,
    State,
    chosen,
)
from tests.index import bulk
from tests.index.bulk import some_pages
from tests.index.claiming import BUCKET_KEYS
from tests.index.harness import ClusterHarness, bucket_keys_of, entry, payloads
from tests.index.redis_use import LEASE
from tests.texts import article

OTHER = bucket_keys_of(2, 0xFEDC_BA98_7654_3210, (7 << 40, 8 << 50))


async def test_round_trips(cluster: ClusterHarness) -> None:
    """A new page takes three with its commit, a copy two, and a page with a different one as its
    candidate four: the candidate is judged, and the page announced."""
    index = await cluster.opened()
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

    made = await index.propose(entry(BUCKET_KEYS), 0, LEASE)
    assert isinstance(made, Claimed)
    assert await index.commit(made.claim)
    assert taken() == 3
    copy = await index.propose(entry(BUCKET_KEYS), 0, LEASE)
    assert isinstance(copy, Candidates)
    assert copy.pages.states.tolist() == [State.COMMITTED]
    assert taken() == 2
    other = await index.propose(entry(BUCKET_KEYS), 0, LEASE, known=Known(copy.pages))
    assert isinstance(other, Claimed)
    assert await index.commit(other.claim)
    assert taken() == 2


async def test_what_is_measured_is_asked_for_together(cluster: ClusterHarness) -> None:
    """The sizes of all keys take one exchange, after the one with the states of the shards."""
    index = await cluster.opened()
    for i in range(30):
        await index.propose(entry(bucket_keys_of(i + 10, i << 48, (i << 55, i << 56))), 0, LEASE)
    await index.stats()  # every master gets the scripts
    trips: list[int] = []
    index.watch_round_trips(lambda: trips.append(1))
    await index.stats()
    assert len(trips) == 2


async def test_a_copy_writes_nothing(cluster: ClusterHarness) -> None:
    """A page that meets a stored one leaves all buckets and rows as they are."""
    index = await cluster.opened()
    made = await index.propose(entry(BUCKET_KEYS), 0, LEASE)
    assert isinstance(made, Claimed)
    await index.commit(made.claim)
    before = await index.stats(), await index.read_buckets(BUCKET_KEYS)
    assert isinstance(await index.propose(entry(BUCKET_KEYS), 0, LEASE), Candidates)
    assert (await index.stats(), await index.read_buckets(BUCKET_KEYS)) == before


async def test_pages_that_know_others_meet_each_other(cluster: ClusterHarness) -> None:
    """Pages announced at the same time by several clients: of any two at least one meets the other,
    and each has its claim while it is judged."""
    clients = [await cluster.opened() for _ in range(3)]
    first = await clients[0].propose(entry(BUCKET_KEYS), 0, LEASE)
    assert isinstance(first, Claimed)
    found = await clients[0].propose(entry(BUCKET_KEYS), 0, LEASE)
    assert isinstance(found, Candidates)
    known = Known(found.pages)
    made = await asyncio.gather(
        *(clients[i % 3].propose(entry(BUCKET_KEYS), 0, LEASE, known=known) for i in range(12))
    )
    met: dict[int, set[int]] = {}
    for one in made:
        assert isinstance(one, Claimed)
        assert one.is_mutual
        met[one.claim.page_id] = set(one.candidates.near.page_ids.tolist())
    for page, others in met.items():
        for other in met.keys() - {page}:
            assert other in others or page in met[other]


async def test_an_announcement_without_a_row_comes_too_late(
    cluster: ClusterHarness,
) -> None:
    """A record whose row has not arrived yet is settled by the page that meets it: its id can't be
    announced any more, and its page gets another one."""
    index, other = await cluster.opened(), await cluster.opened()
    (late,) = await other.take_ids(1)
    other._reserved.appendleft(late)
    suffix = BUCKET_KEYS[5].suffix.to_bytes(3, "little")
    cluster.put_bucket(BUCKET_KEYS[5].bucket, late.page_id.to_bytes(5, "little") + suffix)
    made = await index.propose(entry(BUCKET_KEYS), 0, LEASE)
    assert isinstance(made, Claimed)
    assert not len(made.candidates.near)
    found = await index.fetch(np.array([late.page_id], np.uint64))
    assert found.states.tolist() == [State.RELEASED]
    came = await other.propose(entry(OTHER), 0, LEASE)
    assert isinstance(came, Claimed)
    assert came.claim.page_id != late.page_id


async def test_compaction_takes_out_what_was_never_announced(
    cluster: ClusterHarness,
) -> None:
    """A client that died between its messages has left records of a page that has no row, on a
    shard that has no rows at all: the id is settled and the records go."""
    index = await cluster.opened()
    (late,) = await index.take_ids(1)
    suffix = BUCKET_KEYS[5].suffix.to_bytes(3, "little")
    cluster.put_bucket(BUCKET_KEYS[5].bucket, late.page_id.to_bytes(5, "little") + suffix)
    assert not (await verify(index)).is_sound
    assert await index.compact() == 1
    assert (await verify(index)).is_sound
    assert await index.read_buckets(BUCKET_KEYS[5:6]) == [b""]


async def test_compaction_settles_an_id_for_which_its_chunk_has_no_room_yet(
    cluster: ClusterHarness,
) -> None:
    """Pages before it have rows; it was never announced, and its records go."""
    index = await cluster.opened()
    await index.load(some_pages(1))
    late = (await index.take_ids(63))[-1]
    local = index.spread.local(late.page_id)
    chunk = index.spread.prefix(index.spread.home_of(late.page_id)) + chunk_keys([0])[0]
    assert cluster.admin.strlen(chunk) <= local * index.layout.row.itemsize
    suffix = BUCKET_KEYS[5].suffix.to_bytes(3, "little")
    cluster.put_bucket(BUCKET_KEYS[5].bucket, late.page_id.to_bytes(5, "little") + suffix)
    assert await index.compact() == 1
    assert await index.read_buckets(BUCKET_KEYS[5:6]) == [b""]
    assert cluster.admin.strlen(chunk) > local * index.layout.row.itemsize


async def test_exact_copy_needs_no_further_bucket(cluster: ClusterHarness) -> None:
    """A stored exact copy is the only candidate, though another page shares the SimHash; a copy
    with another title on the same host is judged with all candidates."""
    index = await cluster.opened()
    near = bucket_keys_of(3, 0x0123_4567_89AB_CDEF, (9 << 40, 9 << 50))
    for page in (entry(BUCKET_KEYS, key=1), entry(near, key=3, size=7)):
        made = await index.propose(page, 0, LEASE)
        assert isinstance(made, Claimed)
        assert await index.commit(made.claim)
    places = (bucket_keys_of(4)[0], *BUCKET_KEYS[1:])
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
    cluster: ClusterHarness, monkeypatch: pytest.MonkeyPatch
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
    async with Deduplicator(cluster.options) as dedup:
        first = await dedup.decide(Document(key="https://one.example/1", text=text))
        assert await dedup.commit(first)
        copy = await dedup.decide(Document(key="https://two.example/1", text=text))
        assert (copy.outcome, copy.reason) == (DUPLICATE, "exact-copy")
        assert not read
        edited = await dedup.decide(Document(key="https://two.example/2", text=f"{text} Ende"))
        assert edited.outcome == DUPLICATE
        assert read


@pytest.mark.parametrize("table", [*ANCHOR_TABLES, *range(FIRST_BAND_TABLE, FIRST_BAND_TABLE + 8)])
async def test_a_page_is_found_by_any_table(cluster: ClusterHarness, table: int) -> None:
    """A stored page is found by a single bucket, also of a table that only the announcement reads;
    then nothing is left claimed."""
    index = await cluster.opened()
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
    cluster: ClusterHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where an announcement fails half-way and its process lives on, its page does not stay claimed
    until the lease ends."""
    index = await cluster.opened()

    def fail(*_: object) -> None:
        raise IndexUnavailableError("half-way")

    with monkeypatch.context() as patched:
        patched.setattr(index, "created", fail)
        with pytest.raises(IndexUnavailableError, match="half-way"):
            await index.propose(entry(BUCKET_KEYS), 0, LEASE)
    again = await index.propose(entry(BUCKET_KEYS), 0, LEASE)
    for _ in range(100):  # the release is not waited for, and a lease is 60 seconds
        if isinstance(again, Claimed):
            break
        await asyncio.sleep(0.1)
        again = await index.propose(entry(BUCKET_KEYS), 0, LEASE)
    assert isinstance(again, Claimed)
    assert (await index.stats()).pending == 1


async def test_compaction_leaves_a_long_bucket_in_its_hash(cluster: ClusterHarness) -> None:
    """A bucket that is long even after its compaction is read, and added to, like any other."""
    index = await cluster.opened()
    made = await index.propose(entry(BUCKET_KEYS), 0, LEASE)
    assert isinstance(made, Claimed)
    await index.commit(made.claim)
    gone = await index.propose(entry(OTHER), 0, LEASE)
    assert isinstance(gone, Claimed)
    await index.release(gone.claim)
    (own,) = [key for key in BUCKET_KEYS if key.table == BUCKET_KEYS[5].table]
    ids = [made.claim.page_id] * 600 + [gone.claim.page_id]
    records = [one.to_bytes(5, "little") + own.suffix.to_bytes(3, "little") for one in ids]
    cluster.put_bucket(own.bucket, b"".join(records))
    await index.compact()
    assert await index.read_buckets([own]) == [b"".join(records[:-1])]
    copy = await index.propose(entry((own,)), 0, LEASE)
    assert isinstance(copy, Candidates)
    assert copy.pages.page_ids.tolist() == [made.claim.page_id]


async def test_pages_at_once_take_three_exchanges(cluster: ClusterHarness) -> None:
    """Any number of new pages that come at once are read, announced and committed in three
    exchanges; their ids are reserved while they are read."""
    index = await cluster.opened()

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


async def test_page_without_a_text_gets_none(cluster: ClusterHarness) -> None:
    """Address and payload that lie under its id, because a server has lost the row to them, are
    those of another page."""
    index = await cluster.opened()
    await index.propose(entry(OTHER), 0, LEASE)  # reserves ids
    page_id = index._reserved[0].page_id
    local = index.spread.local(page_id)
    prefix = index.spread.prefix(index.spread.home_of(page_id))
    texts = prefix + chunk_keys([local // index.layout.rows])[1]
    number, row = divmod(local % index.layout.rows, GROUPED)
    text = text_of(b"https://lost/1", b"evidence")
    field = cluster.admin.hget(texts, bytes([number])) or b""
    field += bytes([row]) + len(text).to_bytes(3, "little") + text
    cluster.admin.hset(texts, bytes([number]), field)
    made = await index.propose(attrs.evolve(entry(BUCKET_KEYS), address=None), 0, LEASE)
    assert isinstance(made, Claimed)
    assert made.claim.page_id == page_id
    assert await index.addresses([page_id]) == [None]
    assert await payloads(index, [page_id]) == [b""]


async def test_loaded_page_whose_id_belongs_to_another(cluster: ClusterHarness) -> None:
    """A master lost its last writes and gave the id again: the load raises an error that it was
    interrupted, and does not count the other page. If only the reply was lost, the page counts."""
    index = await cluster.opened()
    made = await index.propose(entry(BUCKET_KEYS), 0, LEASE)
    assert isinstance(made, Claimed)
    await index.commit(made.claim)
    row, text = index.row_of(entry(BUCKET_KEYS))
    reserved = Reserved(made.claim.page_id, 0)
    stamps = np.array([1_700_000_000], "<u4")
    await index._commit_loaded([Announced(reserved, 1, row, text)], stamps)
    other, _ = index.row_of(entry(OTHER, key=9))
    with pytest.raises(IndexUnavailableError, match="loading pages"):
        await index._commit_loaded([Announced(reserved, 1, other, text)], stamps)


@pytest.mark.parametrize("step", ["created", "_commit_loaded"])
async def test_failed_load_is_given_back(
    cluster: ClusterHarness, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Pages of a load that fails half-way do not hold up like ones until its lease ends."""
    index = await cluster.opened()

    def fail(*_: object) -> None:
        raise IndexUnavailableError("half-way")

    with monkeypatch.context() as patched:
        patched.setattr(index, step, fail)
        with pytest.raises(IndexUnavailableError, match="half-way"):
            await index.load(some_pages(2))
    assert isinstance(await index.propose(bulk.page(1, 0x9E37_79B9_7F4A_7C15), 0, LEASE), Claimed)
    assert (await index.stats()).pending == 1


async def test_loaded_page_is_settled_by_another(cluster: ClusterHarness) -> None:
    """Where a crawl meets a page of a load before its row, the page is announced once more, and
    the load goes on; the others of its part are not entered twice."""
    index, other = await cluster.opened(), await cluster.opened()
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


@pytest.mark.parametrize("renewed", [True, False])
async def test_a_page_claimed_as_stored_is_met_by_one_on_its_way(
    cluster: ClusterHarness, monkeypatch: pytest.MonkeyPatch, renewed: bool
) -> None:
    """A later version that is in its buckets, but not at its home yet, meets the earlier one that
    is entered meanwhile, as one that counts anew (``refresh``) or of a former index."""
    index, other = await cluster.opened(), await cluster.opened()
    key = 123_456_789 << 30
    places = hash_bucket_key(KEY_TABLE, key), *BUCKET_KEYS[1:]
    earlier, later = entry(places, key=key), entry(places, key=key, size=8)
    known = NOTHING_KNOWN
    page_id = 0
    if renewed:
        made = await index.propose(earlier, 0, LEASE)
        assert isinstance(made, Claimed)
        assert await index.commit(made.claim)
        page_id = made.claim.page_id
        found = await other.propose(later, 0, LEASE)
        assert isinstance(found, Candidates)
        known = Known(found.pages)
    in_buckets, go_on = asyncio.Event(), asyncio.Event()
    homes: list[Call] = []
    creating, together = other.creating, other.together

    def noted(announced: list[Announced], lease: float) -> tuple[list[list[int]], list[Call]]:
        parts, calls = creating(announced, lease)
        homes[:] = calls
        return parts, calls

    async def late(calls: Sequence[Call], lookups: Sequence[Any]) -> tuple[list[Any], list[Seen]]:
        rows = [call for call in calls if any(call is one for one in homes)]
        if not rows or go_on.is_set():
            return await together(calls, lookups)
        first = [call for call in calls if not any(call is one for one in rows)]
        replies, seen = await together(first, lookups)
        in_buckets.set()
        await go_on.wait()
        more, _ = await together(rows, [])
        return [*replies, *more], seen

    monkeypatch.setattr(other, "creating", noted)
    monkeypatch.setattr(other, "together", late)
    proposing = asyncio.create_task(other.propose(later, 0, LEASE, known=known))
    await in_buckets.wait()

    def is_replaced(there: PageRecords) -> bool:
        return bool((there.content["size"] == 8).any())

    if renewed:
        assert await index.refresh(page_id, places)
    else:
        claim = await index.claim_stored(earlier, key, is_replaced)
        assert claim is not None
        assert await index.commit(claim)
    go_on.set()
    reply = await proposing
    assert isinstance(reply, Candidates)
    met = chosen(reply.pages, reply.pages.page_ids != np.uint64(page_id))
    assert met.states.tolist() == [State.COMMITTED]
    assert met.content["size"].tolist() == [9]
