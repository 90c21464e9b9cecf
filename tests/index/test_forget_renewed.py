"""Pages that are forgotten while another process enters them anew."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import pytest

from dedup_middleware import Deduplicator, Document, Options
from dedup_middleware.index.base import Index, _among
from dedup_middleware.index.memory.index import MemoryIndex
from dedup_middleware.model.claims import Claim
from dedup_middleware.model.records import PageRecords, State
from tests.index.claiming import entered
from tests.index.harness import Clock, Harness, bucket_keys_of, entry
from tests.index.versions import KilledError
from tests.index.windows import in_time
from tests.outages import Counts
from tests.texts import article

LEASE = 60.0
EVER = float(2**32 - 1)
PLACES = bucket_keys_of(1, 0x0123_4567_89AB_CDEF, (5 << 40, 6 << 50))
KEY = (PLACES[0].bucket & 0xFFFF) << 48 | PLACES[0].suffix << 24
HIT = bucket_keys_of(9, 0x0123_4567_89AB_CDEF, (5 << 40, 6 << 50))


async def stored(index: Index) -> int:
    """Id of a page that is committed."""
    claim = await entered(index, entry(PLACES, key=KEY, address="https://a/1"), LEASE)
    assert await index.commit(claim)
    return claim.page_id


@in_time
async def test_a_page_that_was_entered_anew_is_forgotten(harness: Harness) -> None:
    """It is forgotten by its earlier id, which a crawl keeps until the feed with the page is
    stored."""
    index, other = await harness.client(), await harness.client()
    old = await stored(index)
    assert await other.refresh(old, HIT)
    assert await index.forget_wholly([old]) == 1
    assert await index.count() == 0
    assert await index.forget_wholly([old]) == 0


@in_time
async def test_a_page_is_entered_anew_after_its_address_was_read(harness: Harness) -> None:
    """The pages of a host are looked up first, and one gets another id before they are
    forgotten."""
    index, other = await harness.client(), await harness.client()
    old = await stored(index)
    addresses = index.addresses

    async def overtaken(page_ids: Any) -> list[str | None]:
        found = await addresses(page_ids)
        assert await other.refresh(old, HIT)
        return found

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(index, "addresses", overtaken)
        assert await index.forget_addresses(lambda _: True) == 1
    assert await index.count() == 0


async def forgotten_before_commit(
    index: Index, other: Index, old: int, begin: Callable[[], Awaitable[asyncio.Future[int]]]
) -> None:
    """Enter a page anew by a process that is killed right after its commit: nothing is left.

    :param begin: begins to forget the page, between claim and commit
    """
    commit = other.commit
    forgetting: list[asyncio.Future[int]] = []

    async def killed(claim: Claim) -> bool:
        forgetting.append(await begin())
        await commit(claim)
        raise KilledError

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(other, "commit", killed)
        with pytest.raises(KilledError):
            await other.refresh(old, HIT)
    assert await forgetting[0] == 1
    assert await index.count() == 0


@in_time
async def test_a_process_dies_that_has_entered_a_forgotten_page_anew(harness: Harness) -> None:
    """It had read the page before that was forgotten, and can't withdraw its own entry."""
    index, other = await harness.client(), await harness.client()
    old = await stored(index)
    of_key, looked = index.of_key, asyncio.Event()

    async def noted(key_hash: int) -> PageRecords:
        found = await of_key(key_hash)
        looked.set()
        return found

    async def begin() -> asyncio.Future[int]:
        patched.setattr(index, "of_key", noted)
        forgetting = asyncio.ensure_future(index.forget_wholly([old]))
        await looked.wait()
        return forgetting

    with pytest.MonkeyPatch.context() as patched:
        await forgotten_before_commit(index, other, old, begin)


@in_time
async def test_a_page_is_entered_anew_while_a_span_is_forgotten(harness: Harness) -> None:
    """What is on its way when its span is walked over is not left behind."""
    index, other = await harness.client(), await harness.client()
    old = await stored(index)

    async def begin() -> asyncio.Future[int]:
        forgetting = asyncio.ensure_future(index.forget_span(0.0, EVER))
        while (await other.fetch(np.array([old], np.uint64))).states[0] == State.COMMITTED:
            await asyncio.sleep(0)
        for _ in range(50):  # until the walk is over
            await asyncio.sleep(0.001)
        return forgetting

    await forgotten_before_commit(index, other, old, begin)


@in_time
async def test_a_page_is_entered_anew_behind_the_end_of_a_span(harness: Harness) -> None:
    """Its new id was not given when the pages of the span were counted."""
    index, other = await harness.client(), await harness.client()
    old = await stored(index)
    until = int(harness.now()) + 1  # times are kept in whole seconds
    await harness.pass_time(until - harness.now() + 0.05)
    forget_span = index._forget_span

    async def overtaken(since: float, until: float) -> int:
        assert await other.refresh(old, HIT)
        return await forget_span(since, until)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(index, "_forget_span", overtaken)
        assert await index.forget_span(0.0, until) == 1
    assert await index.count() == 0


@in_time
async def test_a_page_that_was_stored_before_a_span_stays(harness: Harness) -> None:
    """Storage still holds it where what a span holds is lost, although it was entered anew then."""
    index = await harness.client()
    old = await stored(index)
    await harness.pass_time(1.0 + harness.now() % 1.0)  # times are kept in whole seconds
    since = int(harness.now())
    assert await index.refresh(old, HIT)
    assert await index.forget_span(since, EVER) == 1
    assert await index.lookup(KEY) == (old,)


async def test_the_second_walk_over_a_span_takes_time_in_proportion() -> None:
    """Each part of it is looked up in the names of the span, which are sorted once."""
    names = np.arange(2_000_000, dtype=np.uint64)[::2].copy()
    started = time.process_time()
    for start in range(0, 2_000_000, 10_000):
        part = np.arange(start, start + 10_000, dtype=np.uint64)
        assert _among(part, names).tolist() == [True, False] * 5_000
    assert time.process_time() - started < 10  # 0.2 seconds; np.isin takes more than a minute
    assert not _among(part, names[:0]).any()


async def test_pages_that_are_not_stored_after_all_are_forgotten_if_they_were_renewed() -> None:
    """A copy has renewed the page that a feed was to store; the next copy is stored."""
    clock, counts = Clock(), Counts()
    index = MemoryIndex(window=200.0, clock=clock, wall=clock)
    async with Deduplicator(Options(window=200.0), index=index, count=counts) as dedup:
        verdict = await dedup.decide(Document("https://a/1", text=article(1)))
        await dedup.commit(verdict)
        clock.now += 200.0
        assert (await dedup.decide(Document("https://b/1", text=article(1)))).is_duplicate
        assert counts.of["renewed"] == 1
        assert verdict.claim is not None
        assert await dedup.forget([verdict.claim.page_id]) == 1
        assert (await dedup.decide(Document("https://c/1", text=article(1)))).outcome == "new"
