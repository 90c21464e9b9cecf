"""Storage that replaces rows: the index never calls a text stored that no row has.

The storage is a real SQLite file with one row a page. Each scenario is run once for every step that
a process takes in the index and in storage: at that step the process is killed, or its storage
fails, or another spider comes along with copies.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import closing
from pathlib import Path

import attrs
import pytest

from dedup_middleware import Deduplicator, Document
from dedup_middleware.core import settlement
from dedup_middleware.core.versions import Versions
from dedup_middleware.model.documents import Verdict
from dedup_middleware.model.keys import content_key
from tests.index.harness import Harness
from tests.index.versions import (
    KEY,
    LEASE,
    NEW,
    OLD,
    OPTIONS,
    OTHER,
    STORIES,
    KilledError,
    Process,
    Rows,
    Steps,
    World,
    tell,
)
from tests.index.windows import in_time


@pytest.fixture
async def world(tmp_path: Path, harness: Harness) -> AsyncIterator[World]:
    """An empty storage and an empty index of each kind."""
    with closing(Rows(tmp_path / "rows.db")) as rows:
        async with Deduplicator(OPTIONS, index=harness.connect()) as observer:
            yield World(rows, harness, observer)


@pytest.fixture
def brief_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that waits for another one looks for it often."""
    monkeypatch.setattr(settlement, "_POLL", 0.01)


def waits(dedup: Deduplicator) -> asyncio.Event:
    """Set as soon as a page of this process waits for another one."""
    begun, wait = asyncio.Event(), dedup._claims.wait

    async def noted(page_ids: AbstractSet[int], seconds: float) -> None:
        begun.set()
        await wait(page_ids, seconds)

    dedup._claims.wait = noted  # type: ignore[method-assign]
    return begun


@pytest.mark.slow
@pytest.mark.parametrize("story", STORIES)
async def test_no_interleaving_loses_a_text(story: str, world: World) -> None:
    """Killed, failed or raced by copies at any step: dropped texts are in a row.

    After a kill the leases run out, and the page is crawled again.
    """
    counting = Steps()
    await tell(world, story, counting)
    await world.check()
    assert counting.taken > 3
    texts = tuple(filter(None, STORIES[story]))

    for at in range(1, counting.taken + 1):
        for act in ("kill", "visit", "visit and kill"):
            await world.observer._index.forget_addresses(lambda _: True)
            world.rows.clear()
            # One of its own, which takes what it stored unchecked with it.
            async with Deduplicator(OPTIONS, index=world.harness.connect()) as observer:
                await meet(World(world.rows, world.harness, observer), story, texts, at, act)


async def meet(world: World, story: str, texts: Sequence[str], at: int, act: str) -> None:
    """A story with something happening at one of its steps, and what comes after it."""

    async def step() -> None:
        if "visit" in act:
            await world.visit(*texts)
        if "kill" in act:
            raise KilledError

    await tell(world, story, Steps(at, step))
    world.harness.advance(LEASE + 1)
    await world.check()
    await world.visit(*texts)
    await Process(world.observer, world, Steps()).crawl(KEY, texts[-1])
    await world.check()
    await world.visit(*texts)
    await world.check()


@pytest.mark.parametrize("story", ["changed", "kept revisit"])
async def test_a_storage_that_fails_leaves_the_old_row(world: World, story: str) -> None:
    """The old text may be stored twice then, but is never missing."""
    await tell(world, story, Steps(), fails=True)
    assert world.rows.all() == {KEY: OLD}
    await world.check()
    await world.visit(*STORIES[story])
    await world.check()
    assert OLD in world.rows.all().values()


async def test_storage_that_keeps_versions_keeps_them_in_the_index(world: World) -> None:
    """With DEDUP_VERSIONS=keep a copy of either text is dropped."""
    keeping = attrs.evolve(world, options=attrs.evolve(OPTIONS, versions="keep"))
    for text in (OLD, NEW):
        async with keeping.process() as process:
            verdict = await process.crawl(KEY, text)
    assert (verdict.reason, len(verdict.earlier)) == ("changed", 1)
    async with keeping.process() as process:
        for n, text in enumerate((OLD, NEW)):
            assert (await process.crawl(f"https://copy.example/{n}", text)).is_duplicate


async def test_a_copy_of_the_replaced_text_is_stored(world: World) -> None:
    """The original fault: the old text is in no row, so its copy on another host is new."""
    for text in (OLD, NEW):
        async with world.process() as process:
            verdict = await process.crawl(KEY, text)
    assert (verdict.outcome, verdict.reason, len(verdict.earlier)) == ("new", "changed", 1)
    async with world.process() as process:
        assert (await process.crawl("https://copy.example/new", NEW)).is_duplicate
        assert (await process.crawl("https://copy.example/old", OLD)).outcome == "new"
    assert set(world.rows.all().values()) == {OLD, NEW}


async def test_several_versions_of_a_key_are_all_forgotten(world: World) -> None:
    """An index that kept versions forgets them all when storage begins to replace."""
    keep = attrs.evolve(OPTIONS, versions="keep")
    for text in (OLD, NEW):
        async with world.process(options=keep) as process:
            await process.crawl(KEY, text)
    async with world.process() as process:
        verdict = await process.crawl(KEY, OTHER)
    assert len(verdict.earlier) == 2
    await world.check()


async def test_pages_without_a_name_replace_nothing(world: World) -> None:
    """A page named by its content has no earlier version, so no call looks for one."""
    async with world.process() as process:
        key = content_key(OLD)
        empty = Document(key, text="")
        for document in (Document(key, text=OLD), empty):
            verdict = await process.dedup.decide(document)
            await process.dedup.commit(verdict)
        assert (await process.dedup.decide(Document("https://b", text=OLD))).is_duplicate


async def test_a_marked_duplicate_replaces_its_own_row(world: World) -> None:
    """A page that now has the text of another host's page takes its old text out of storage."""
    async with world.process() as process:
        await process.crawl(KEY, OLD)
        await process.crawl("https://two.example/1", NEW)
        verdict = await process.crawl(KEY, NEW, stores=("duplicate", "revisit"))
    assert verdict.is_duplicate
    await world.check()
    await world.visit(OLD, NEW)


async def test_late_news_of_two_writers_calls_neither_text_stored(world: World) -> None:
    """A page that was stored unchecked, before or after another process stored a version: the row
    may hold either, so the index holds none."""
    async with world.process() as process:
        await process.crawl(KEY, OLD)
    async with world.process() as late:
        document = Document(KEY, text=OTHER)
        verdict = Verdict(KEY, "unchecked", "index-unavailable", document=document)
        world.rows.put(KEY, OTHER)
        await late.dedup.commit(verdict)
        async with world.process() as process:
            await process.crawl(KEY, NEW)
    await world.check()
    assert world.rows.all() == {KEY: NEW}
    await world.visit(OLD, NEW, OTHER)


async def test_a_page_that_waited_in_vain_replaces_its_row(world: World) -> None:
    """If a page is stored unchecked, since a like one stays on its way, the index forgets its
    earlier version."""
    async with world.process() as process:
        await process.crawl(KEY, OLD)
        held = await process.dedup.decide(Document("https://two.example/1", text=NEW))
        verdict = await process.crawl(KEY, NEW)
        assert verdict.reason == "pending-timeout"
        await process.dedup.release(held)
    await world.check()
    await world.visit(OLD, NEW)


@in_time
async def test_a_renewed_page_is_forgotten_with_its_second_entry(harness: Harness) -> None:
    """A page that was entered anew is in the index twice; neither outlives its row."""
    span = harness.window / 2
    index = harness.connect()
    # The window is that of the index; the options need one to ask for it.
    async with Deduplicator(attrs.evolve(OPTIONS, window=60.0), index=index) as dedup:
        await dedup.commit(await dedup.decide(Document(KEY, text=OLD)))
        await harness.pass_time(span)
        await dedup.commit(await dedup.decide(Document("https://c/1", text=OTHER)))
        await harness.pass_time(span)
        assert (await dedup.decide(Document("https://b/1", text=OLD))).is_duplicate
        assert await index.count() == 3
        changed = await dedup.decide(Document(KEY, text=NEW))
        assert len(changed.earlier) == 2
        await dedup.commit(changed)
        assert await index.count() == 2
        assert (await dedup.decide(Document("https://b/1", text=OLD))).outcome == "new"


@pytest.mark.parametrize("text", [OTHER, ""], ids=["marked duplicate", "empty"])
@pytest.mark.parametrize("claimed", ["before", "while it was on its way"])
@pytest.mark.parametrize("committed", ["before", "after"])
@pytest.mark.usefixtures("brief_polls")
async def test_what_was_written_last_is_what_the_row_holds(
    text: str, claimed: str, committed: str, world: World
) -> None:
    """Two crawls fetch a page at the same time. One gets a new text and has the claim; the text of
    the other is kept without a claim, and is written last: then the new text is in no row."""
    options = attrs.evolve(OPTIONS, pending_wait=30.0)
    async with world.process(options=options) as one, world.process(options=options) as two:
        await one.crawl("https://two.example/1", OTHER)
        if claimed == "before":
            fresh = await one.dedup.decide(Document(KEY, text=NEW))
        kept = await two.dedup.supersede(await two.dedup.decide(Document(KEY, text=text)))
        assert kept.claim is None
        if claimed != "before":
            fresh = await one.dedup.decide(Document(KEY, text=NEW))
        world.rows.put(KEY, NEW)
        if committed == "before":
            await one.dedup.commit(fresh)
        world.rows.put(KEY, text)
        is_waiting = waits(two.dedup)
        ended = asyncio.ensure_future(two.dedup.commit(kept))
        if committed == "after":
            await asyncio.wait_for(is_waiting.wait(), 20)
            await one.dedup.commit(fresh)
        await asyncio.wait_for(ended, 20)
    await world.check()
    await world.visit(NEW, OTHER)


@pytest.mark.usefixtures("brief_polls")
async def test_a_revisit_whose_stored_text_is_forgotten_before_it_goes_on(world: World) -> None:
    """A new text has the claim of its key and is written first: the revisit, which is kept, waits
    and claims its place. Without a claim it took the row, and copies of the new text were dropped
    until it was committed."""
    options = attrs.evolve(OPTIONS, pending_wait=30.0)
    async with world.process(options=options) as one, world.process(options=options) as two:
        await one.crawl(KEY, OLD)
        kept = await two.dedup.decide(Document(KEY, text=OLD))
        fresh = await one.dedup.decide(Document(KEY, text=NEW))
        assert (kept.outcome, fresh.outcome) == ("revisit", "new")
        is_waiting = waits(two.dedup)
        going_on = asyncio.ensure_future(two.dedup.supersede(kept))
        await asyncio.wait_for(is_waiting.wait(), 20)
        world.rows.put(KEY, NEW)
        await one.dedup.commit(fresh)
        kept = await asyncio.wait_for(going_on, 20)
        world.rows.put(KEY, OLD)
        await world.check()
        await two.dedup.commit(kept)
    await world.check()
    await world.visit(OLD, NEW)


async def test_a_revisit_that_waits_for_a_process_that_has_died(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process died with the claim of the key, before the stored text was forgotten: the revisit
    polls for no longer than DEDUP_PENDING_WAIT, with pauses, and not until the lease ends."""

    async def killed(*_: object) -> None:
        raise KilledError

    patient, brief = attrs.evolve(OPTIONS, pending_wait=0.3), attrs.evolve(OPTIONS, lease=3.0)
    async with world.process(options=patient) as two:
        await two.crawl(KEY, OLD)
        with monkeypatch.context() as patch:
            patch.setattr(Versions, "forget_earlier", killed)
            async with world.process(options=brief) as one:
                await one.dedup.decide(Document(KEY, text=NEW))
        kept = await two.dedup.decide(Document(KEY, text=OLD))
        two.steps.taken = 0
        assert await two.dedup.supersede(kept) is kept
        assert two.steps.taken < 200


async def test_a_key_of_the_user_that_looks_like_a_hash_of_content(world: World) -> None:
    """Keys such as text:17 are names: what was stored under one is forgotten when it changes."""
    key = "text:17"
    async with world.process() as process:
        for text in (OLD, NEW):
            await process.crawl(key, text)
    await world.check()
    await world.visit(OLD, NEW)
