"""Walking through an index, forgetting pages, and taking their records out of the buckets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import aclosing
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedup_middleware.index.base import Index
from dedup_middleware.index.pages import Living, compacted
from dedup_middleware.index.redis import upkeep
from dedup_middleware.index.redis.upkeep import in_order
from dedup_middleware.index.scan import neighbours
from dedup_middleware.index.verification import verify
from dedup_middleware.model.buckets import record
from dedup_middleware.model.claims import Candidates, Claim, Claimed, Known
from dedup_middleware.model.records import CONTENT, PageRecords, State, joined
from tests.index.claiming import entered
from tests.index.harness import (
    ROWS,
    Harness,
    SQLiteHarness,
    ascending,
    bucket_keys_of,
    entry,
    payloads,
)

LEASE = 1000.0
BUCKET_KEYS = bucket_keys_of(0, 0x0123_4567_89AB_CDEF, (5 << 40, 6 << 50))


async def claimed(
    index: Index, key: int, address: str | None = None, payload: bytes = b""
) -> Claim:
    """Claim a page; all pages share all buckets but that of the key."""
    bucket_keys = bucket_keys_of(key, 0x0123_4567_89AB_CDEF, (5 << 40, 6 << 50))
    return await entered(
        index, entry(bucket_keys, size=key, address=address, payload=payload), LEASE
    )


async def stored(index: Index, key: int, address: str | None = None, payload: bytes = b"") -> int:
    """Claim and commit a page, and return its id."""
    claim = await claimed(index, key, address, payload)
    assert await index.commit(claim)
    return claim.page_id


async def walk(index: Index) -> dict[int, tuple[int, int]]:
    """Size and state of every page by its id."""
    found: dict[int, tuple[int, int]] = {}
    async for pages in index.pages():
        for number, content, state in zip(
            pages.page_ids.tolist(), pages.content, pages.states.tolist(), strict=True
        ):
            assert number > max(found, default=0)
            found[number] = (int(content["size"]), state)
    return found


async def test_all_pages_are_walked_through(harness: Harness, index: Index) -> None:
    """Every page is visited once, by ascending id, with its state at this moment."""
    assert await walk(index) == {}
    one, two = await stored(index, 1), await claimed(index, 2)
    late = await claimed(index, 3)
    await index.release(late)
    assert await walk(index) == {
        one: (1, State.COMMITTED),
        two.page_id: (2, State.PENDING),
        late.page_id: (3, State.RELEASED),
    }
    harness.advance(LEASE + 1)
    assert (await walk(index))[two.page_id] == (2, State.RELEASED)


async def test_newest_page_is_among_the_last_page_ids(index: Index) -> None:
    """This holds whatever ids were reserved and not used, on whichever parts of a cluster."""
    for key in range(3):
        assert await stored(index, key) in await index.last_page_ids()


async def test_walk_over_many_pages(index: Index) -> None:
    """A walk visits all pages where the storage behind them is divided."""
    numbers = [await stored(index, key) for key in range(1, 301)]
    assert list(await walk(index)) == ascending(index, numbers)


async def test_forgotten_pages_can_be_stored_again(index: Index) -> None:
    """A forgotten page reads as released; others, and pages that are not committed, stay."""
    one, two = await stored(index, 1), await stored(index, 2)
    held = await claimed(index, 3)
    assert await index.forget([one, held.page_id, 999, one]) == 1
    assert await index.forget([]) == 0
    assert await walk(index) == {
        one: (1, State.RELEASED),
        two: (2, State.COMMITTED),
        held.page_id: (3, State.PENDING),
    }
    assert await index.count() == 1
    assert await index.commit(held)
    assert (await index.stats()).released == 1


async def test_a_host_is_forgotten(index: Index) -> None:
    """All pages with an address of one host can be forgotten at once."""
    addresses = ["https://a/1", "https://b/1", "https://a/2", None]
    numbers = [await stored(index, i, address) for i, address in enumerate(addresses, 1)]
    assert await index.forget_addresses(lambda address: address.startswith("https://a/")) == 2
    found = await index.fetch(np.array(numbers, np.uint64))
    assert found.states.tolist() == [3, 2, 3, 2]
    assert await index.count() == 2


async def test_compaction(harness: Harness, index: Index) -> None:
    """After it the buckets hold records of pending and committed pages alone."""
    kept = [await stored(index, key) for key in range(1, 4)]
    gone = [await stored(index, 4), (await claimed(index, 5)).page_id]
    harness.advance(LEASE + 1)
    await index.forget(gone[:1])
    released = await claimed(index, 6)
    await index.release(released)
    held = await claimed(index, 7)
    before = await index.stats()
    reports: list[tuple[str, int]] = []
    assert await index.compact(lambda what, done: reports.append((what, done))) == 3 * len(
        BUCKET_KEYS
    )
    assert reports[-1][0] == "buckets"
    assert [done for what, done in reports if what == "buckets"][-1] == before.buckets
    assert neighbours(BUCKET_KEYS, await index.read_buckets(BUCKET_KEYS), 0).page_ids.tolist() == [
        *kept,
        held.page_id,
    ]
    after = await index.stats()
    assert after.buckets == before.buckets - 3
    assert (after.committed, after.pending) == (3, 1)
    assert await index.compact() == 0
    assert await index.commit(held)
    last = await stored(index, 8)
    assert last not in {*kept, *gone, released.page_id, held.page_id}
    assert ascending(index, [held.page_id, last]) == sorted([held.page_id, last])


async def test_compaction_repairs_buckets(harness: Harness, index: Index) -> None:
    """Bytes that are no whole record, and records of no page, are taken out."""
    number = await stored(index, 1)
    good = record(BUCKET_KEYS[1], number)
    harness.put_bucket(BUCKET_KEYS[1].bucket, good + b"junk")
    harness.put_bucket(
        BUCKET_KEYS[5].bucket, record(BUCKET_KEYS[5], 0) + record(BUCKET_KEYS[5], number)
    )
    assert await index.compact() == 1
    data = await index.read_buckets(BUCKET_KEYS)
    assert data[1] == good
    assert data[5] == record(BUCKET_KEYS[5], number)


async def test_claim_over_a_compaction(index: Index) -> None:
    """A page whose candidates were compacted away meanwhile is blocked by what came in between,
    even if its buckets have grown back to the same length."""
    one, two = await stored(index, 1), await stored(index, 2)
    bucket_keys = bucket_keys_of(9, 0x0123_4567_89AB_CDEF, (5 << 40, 6 << 50))
    before = await index.propose(entry(bucket_keys), 0, LEASE)
    assert isinstance(before, Candidates)
    assert before.near.page_ids.tolist() == [one, two]
    await index.forget([one])
    await index.compact()
    three = await stored(index, 3)
    found = await index.propose(entry(bucket_keys), 0, LEASE, known=Known(before.pages))
    assert isinstance(found, Candidates)
    assert found.near.page_ids.tolist() == [three]
    known = Known(joined([before.pages, found.pages]))
    assert isinstance(await index.propose(entry(bucket_keys), 0, LEASE, known=known), Claimed)


async def test_compaction_beside_other_work(harness: Harness) -> None:
    """Pages stored while an index is compacted lose no record."""
    index, other = await harness.client(), await harness.client()
    await index.forget([await stored(index, key) for key in range(1, 40)])

    async def store() -> list[int]:
        return [await stored(other, key) for key in range(100, 160)]

    numbers, *_ = await asyncio.gather(store(), index.compact(), index.compact())
    found = neighbours(BUCKET_KEYS, await index.read_buckets(BUCKET_KEYS), 0)
    assert set(numbers) <= set(found.page_ids.tolist())
    assert len(set(found.tables[np.isin(found.page_ids, numbers)].tolist())) == 1
    await index.compact()
    assert (
        neighbours(BUCKET_KEYS, await index.read_buckets(BUCKET_KEYS), 0).page_ids.tolist()
        == numbers
    )


async def test_pages_that_are_forgotten_during_a_compaction(index: Index) -> None:
    """A page that is forgotten after the compaction has read it keeps its row as long as its
    records."""
    page_ids = [await stored(index, key) for key in range(1, 6)]
    forgetting: list[asyncio.Task[int]] = []

    def looked(_what: str, _done: int) -> None:
        if not forgetting:
            forgetting.append(asyncio.create_task(index.forget(page_ids[1:3])))

    await index.compact(looked)
    assert await forgetting[0] == 2
    assert sum(one.unknown for one in (await verify(index)).tables) == 0
    assert await index.compact() == 2 * len(BUCKET_KEYS)
    assert sum(one.unknown + one.gone for one in (await verify(index)).tables) == 0


async def test_compaction_gives_back_text(harness: Harness, index: Index) -> None:
    """Addresses and payloads of pages that are gone take no space after a compaction; those of
    others are as they were."""
    payload = bytes(range(256)) * 128
    numbers = [await stored(index, key, "https://a/1" * 9, payload) for key in range(1, 7)]
    held = await claimed(index, 7, "https://a/7", payload)
    before = (await index.stats()).bytes
    assert await index.forget(numbers[:4]) == 4
    await index.compact()
    assert await payloads(index, [*numbers, held.page_id]) == [b""] * 4 + [payload] * 3
    addresses = await index.addresses([*numbers, held.page_id])
    assert addresses == [None] * 4 + ["https://a/1" * 9] * 2 + ["https://a/7"]
    if not isinstance(harness, SQLiteHarness):  # a file keeps its pages for later
        assert (await index.stats()).bytes < before - 3 * len(payload)
    again = await stored(index, 8, "https://a/8", payload)
    assert await payloads(index, [again, held.page_id]) == [payload] * 2


@given(
    st.lists(st.tuples(st.lists(st.integers(1, 30)), st.binary(max_size=7)), max_size=6),
    st.sets(st.integers(1, 20)),
    st.booleans(),
)
def test_compacted_buckets(
    buckets: list[tuple[list[int], bytes]], alive: set[int], of_simhashes: bool
) -> None:
    """Records of living pages, and of those numbered later, stay where they are in their order."""
    bucket_key = BUCKET_KEYS[1 if of_simhashes else 0]
    living = Living(20)
    pages = np.array(sorted(alive), np.uint64)
    states = np.full(len(pages), State.COMMITTED, np.uint8)
    assert living.add(PageRecords(pages, np.zeros(len(pages), CONTENT), states)) == bool(alive)
    raw = [b"".join(record(bucket_key, n) for n in numbers) + junk for numbers, junk in buckets]
    changed = compacted(raw, living, bucket_key.width)
    found = {position: (data, removed) for position, data, removed in changed}
    for position, (numbers, _) in enumerate(buckets):
        kept = [number for number in numbers if number in alive or number > 20]
        expected = b"".join(record(bucket_key, number) for number in kept)
        if expected == raw[position]:
            assert position not in found
        else:
            assert found[position] == (expected, len(numbers) - len(kept))


@pytest.mark.parametrize("harness", ["redis"], indirect=True)
async def test_empty_chunks_are_given_back(harness: Harness, index: Index) -> None:
    """On Redis a chunk of page records is removed when all its pages are gone."""
    numbers = [await stored(index, key) for key in range(1, 301)]
    await index.forget(numbers[:280])
    assert await index.compact() == 280 * len(BUCKET_KEYS)
    assert list(await walk(index)) == numbers[ROWS - 1 :]
    assert (await index.stats()).committed == await index.count() == 20
    assert (await index.stats()).released == 280 - (ROWS - 1)


@pytest.mark.parametrize("count", [1, 31, 32, 60])
async def test_few_or_many_of_a_chunk_are_forgotten(index: Index, count: int) -> None:
    """Any number of pages of one chunk of page records can be forgotten: exactly those, each
    once."""
    numbers = [await stored(index, key) for key in range(1, 71)]
    meant = numbers[3 : 3 + count]
    assert await index.forget(meant) == count
    assert await index.forget(meant) == 0
    found = await index.fetch(np.array(numbers, np.uint64))
    for number, state in zip(numbers, found.states.tolist(), strict=True):
        assert state == (State.RELEASED if number in meant else State.COMMITTED)
    assert await index.count() == 70 - count


@pytest.mark.parametrize("harness", ["redis"], indirect=True)
async def test_pages_that_come_during_a_compaction(
    harness: Harness, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A chunk that only holds forgotten pages stays while new pages are still entered into it."""
    other = await harness.client()
    await index.forget([await stored(index, key) for key in range(1, 21)])
    come: list[int] = []
    compact_buckets = upkeep._compact_buckets

    async def slow(server: upkeep.Server, *arguments: Any, **keywords: Any) -> int:
        removed = await compact_buckets(server, *arguments, **keywords)
        come.extend([await stored(other, key) for key in range(101, 106)])
        return removed

    monkeypatch.setattr(upkeep, "_compact_buckets", slow)
    await index.compact()
    found = await index.fetch(np.array(come, np.uint64))
    assert found.states.tolist() == [State.COMMITTED] * 5
    assert await index.count() == 5


class Server:
    """Replies to each call with its number, to later calls sooner; counts the calls under way."""

    def __init__(self, *, broken: int = -1, stuck: int = 99) -> None:
        self.broken = broken
        self.stuck = stuck  # the first call that gets no answer
        self.now = self.most = self.cancelled = 0

    async def answer(self, number: int) -> int:
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            await asyncio.sleep(0.001 * (9 - number % 10) if number < self.stuck else 1000)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.now -= 1
        if number == self.broken:
            raise ConnectionError(number)
        return number

    async def calls(self, count: int) -> AsyncIterator[Coroutine[Any, Any, int]]:
        for number in range(count):
            yield self.answer(number)


@pytest.mark.parametrize("ahead", [1, 3, 50])
async def test_answers_come_in_order(ahead: int) -> None:
    """Replies are yielded in the order of the calls, with no more calls under way than allowed."""
    server = Server()
    assert [one async for one in in_order(server.calls(25), ahead)] == list(range(25))
    assert server.most == min(ahead, 25)


async def test_a_walk_that_is_left_leaves_no_call_behind() -> None:
    """Breaking off a walk ends the calls under way."""
    server = Server(stuck=1)
    async with aclosing(in_order(server.calls(25), 4)) as answers:
        async for _ in answers:
            break
    await asyncio.sleep(0)
    assert server.now == 0
    assert server.cancelled == 3


async def test_an_error_ends_the_walk() -> None:
    """An error is raised in its turn, after the replies before it, and ends the calls under way."""
    server = Server(broken=5)
    seen: list[int] = []

    async def walk() -> None:
        async for one in in_order(server.calls(25), 4):
            seen.append(one)

    with pytest.raises(ConnectionError):
        await walk()
    assert seen == [0, 1, 2, 3, 4]
    await asyncio.sleep(0.02)
    assert server.now == 0
