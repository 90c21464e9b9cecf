"""Storage that replaces rows: the index never calls a text stored that no row has.

The storage is a real SQLite file with one row a page. Each scenario is run once for every step that
a process takes in the index and in storage: at that step the process is killed, or its storage
fails, or another spider comes along with copies.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, cast

import attrs
import numpy as np
import pytest
from numpy.typing import NDArray

from dedup_middleware import Deduplicator, Document, Options
from dedup_middleware.index.base import Index
from dedup_middleware.index.memory.index import MemoryIndex
from dedup_middleware.model.buckets import BucketKey
from dedup_middleware.model.claims import NOTHING_KNOWN, Candidates, Claim, Claimed, Entry, Known
from dedup_middleware.model.documents import Verdict
from dedup_middleware.model.keys import content_key
from dedup_middleware.model.records import PageRecords, State
from dedup_middleware.plugin.counting import CALLS
from tests.index.harness import Clock, Harness
from tests.index.windows import in_time
from tests.texts import article

# A key of its own makes every run the same.
OPTIONS = Options(pending_wait=0.0, revisit="keep", hash_key="5eed")
KEY = "https://one.example/1"
OLD, NEW, OTHER = article(1, 40), article(2), article(3)
EDITED = article(1, 28)  # nothing new in it; but the whole page is not in it
assert OLD.startswith(EDITED)
LEASE = OPTIONS.lease

Gate = Callable[[], Awaitable[None]]


class KilledError(Exception):
    """The process is no more."""


class StorageError(Exception):
    """The row was not written."""


class Rows:
    """Storage with one row a page, in a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._execute("CREATE TABLE page (url TEXT PRIMARY KEY, text TEXT)")

    def _execute(self, statement: str, *values: str) -> list[tuple[str, str]]:
        with contextlib.closing(sqlite3.connect(self._path)) as db, db:
            db.execute("PRAGMA synchronous = OFF")  # processes die here, not machines
            return db.execute(statement, values).fetchall()

    def put(self, url: str, text: str) -> None:
        """Write a row; the one that was there is gone."""
        self._execute("INSERT OR REPLACE INTO page VALUES (?, ?)", url, text)

    def all(self) -> dict[str, str]:
        """Texts by address."""
        return dict(self._execute("SELECT url, text FROM page"))


class Gated:
    """An index of which each call passes a gate before it begins and before it returns."""

    def __init__(self, index: Index, gate: Gate) -> None:
        self._index = index
        self._gate = gate

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._index, name)
        if name not in CALLS:
            return found

        async def call(*arguments: Any, **named: Any) -> Any:
            await self._gate()
            outcome = await found(*arguments, **named)
            await self._gate()
            return outcome

        return call


class Steps:
    """Counts the steps of a process; at one of them something happens."""

    def __init__(self, at: int = 0, act: Gate | None = None) -> None:
        self.taken = 0
        self._at = at
        self._act = act
        self._dead = False

    async def __call__(self) -> None:
        self.taken += 1
        if self._dead:
            raise KilledError
        if self.taken == self._at and self._act is not None:
            try:
                await self._act()
            except KilledError:
                self._dead = True
                raise


@attrs.frozen
class World:
    """A storage and an index, and whoever uses them."""

    rows: Rows
    harness: Harness
    observer: Deduplicator
    options: Options = OPTIONS

    @contextlib.asynccontextmanager
    async def process(
        self, steps: Steps | None = None, options: Options | None = None
    ) -> AsyncIterator[Process]:
        """A crawling process that ends, or is killed, with the block."""
        gate = steps or Steps()
        index = self.harness.connect()
        dedup = Deduplicator(options or self.options, index=cast("Index", Gated(index, gate)))
        await dedup.open()
        gate.taken = 0
        try:
            yield Process(dedup, self, gate)
        except (KilledError, StorageError):
            pass
        else:
            await dedup.close()
            return
        # A dead process gives nothing back and renews nothing.
        assert dedup._heartbeat is not None
        dedup._heartbeat.cancel()
        await index.close()

    async def visit(self, *texts: str) -> None:
        """Another spider comes with copies on other hosts: none is dropped that no row has."""
        process = Process(self.observer, self, Steps())
        for n, text in enumerate(texts):
            key = f"https://copy-{n}.example/{len(self.rows.all())}"
            verdict = await process.crawl(key, text)
            if verdict.is_duplicate:
                assert any(text in row for row in self.rows.all().values()), str(verdict)

    async def check(self) -> None:
        """Every page that the index calls stored is in the row of its key, with its text."""
        fingerprinter, index = await self.observer._ready(), self.observer._index
        exact = {
            key: fingerprinter(Document(key, text=text)).exact
            for key, text in self.rows.all().items()
        }
        async for pages in index.pages():
            known = pages.states == State.COMMITTED
            keys = await index.addresses(pages.page_ids[known].tolist())
            for key, content in zip(keys, pages.content[known], strict=True):
                assert key is not None
                assert int(content["exact"]) == exact[key], f"{key} says something else"


@attrs.frozen
class Process:
    """A process that crawls."""

    dedup: Deduplicator
    world: World
    steps: Steps

    async def crawl(
        self, key: str, text: str, *, stores: Sequence[str] = ("revisit",), fails: bool = False
    ) -> Verdict:
        """Decide a page and store it unless it is a duplicate.

        :param stores: further outcomes that are stored all the same
        """
        verdict = await self.dedup.decide(Document(key, text=text))
        if verdict.is_duplicate or verdict.is_revisit:
            if verdict.outcome not in stores:
                return verdict
            verdict = await self.dedup.supersede(verdict)
        await self.steps()
        if fails:
            await self.dedup.release(verdict)
            raise StorageError
        self.world.rows.put(key, text)
        await self.steps()
        await self.dedup.commit(verdict)
        return verdict


@pytest.fixture
async def world(tmp_path: Path, harness: Harness) -> AsyncIterator[World]:
    """An empty storage and an empty index of each kind."""
    async with Deduplicator(OPTIONS, index=harness.connect()) as observer:
        yield World(Rows(tmp_path / "rows.db"), harness, observer)


# What is stored under the key, one after the other, and what copies then say.
STORIES = {
    "changed": (OLD, NEW),
    "kept revisit": (OLD, EDITED),
    "empty": (OLD, ""),
    "and back": (OLD, NEW, OLD),
}


async def tell(world: World, story: str, steps: Steps, **more: Any) -> None:
    """Store all versions of a page but the last, then the last one step by step."""
    *before, last = STORIES[story]
    for text in before:
        await Process(world.observer, world, Steps()).crawl(KEY, text)
    async with world.process(steps) as process:
        await process.crawl(KEY, last, **more)


@pytest.mark.slow
@pytest.mark.parametrize("story", STORIES)
async def test_no_interleaving_loses_a_text(story: str, tmp_path: Path, world: World) -> None:
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
            rows = Rows(tmp_path / f"rows-{at}-{act}.db")
            # One of its own, which takes what it stored unchecked with it.
            async with Deduplicator(OPTIONS, index=world.harness.connect()) as observer:
                await meet(World(rows, world.harness, observer), story, texts, at, act)


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
    """The fault as it was found: the old text is in no row, so its copy on another host is new."""
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
    """A page named by its content has no earlier version; no call is spent on looking."""
    async with world.process() as process:
        key = content_key(OLD)
        empty = Document(key, text="")
        for document in (Document(key, text=OLD), empty):
            verdict = await process.dedup.decide(document)
            await process.dedup.commit(verdict)
        assert (await process.dedup.decide(Document("https://b", text=OLD))).is_duplicate


async def test_a_marked_duplicate_replaces_its_own_row(world: World) -> None:
    """A page that now says what another host says takes its old text out of storage."""
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
    """Of a page that is stored unchecked, since a like one stays on its way, the index forgets the
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


class Interrupted(MemoryIndex):
    """Between two of its own calls something else happens."""

    steps = Steps()

    async def read_buckets(self, bucket_keys: Sequence[BucketKey]) -> list[bytes]:
        await self.steps()
        return await super().read_buckets(bucket_keys)

    async def fetch(self, numbers: NDArray[np.uint64]) -> PageRecords:
        await self.steps()
        return await super().fetch(numbers)

    async def propose(
        self,
        entry: Entry,
        distance: int,
        lease: float,
        probes: tuple[BucketKey, ...] = (),
        known: Known = NOTHING_KNOWN,
    ) -> Claimed | Candidates:
        await self.steps()
        return await super().propose(entry, distance, lease, probes, known)

    async def commit(self, claim: Claim) -> bool:
        await self.steps()
        return await super().commit(claim)


@pytest.mark.parametrize("at", range(1, 8))
@pytest.mark.parametrize("fate", ["begun", "stored"])
async def test_renewing_does_not_bring_back_a_replaced_text(at: int, fate: str) -> None:
    """At whatever step of a renewal the page changes, its old text is not entered again."""
    clock = Clock()
    index = Interrupted(window=200.0, clock=clock, wall=clock)
    options = attrs.evolve(OPTIONS, window=200.0, pending_wait=5.0)
    async with Deduplicator(options, index=index) as dedup:
        await dedup.commit(await dedup.decide(Document(KEY, text=OLD)))
        (old,) = await index.lookup((await dedup._ready())(Document(KEY, text=OLD)).key_hash)
        bucket_keys = dedup._method.bucket_key_array(
            (await dedup._ready())(Document("https://b/1", text=OLD))
        )
        clock.now += 100.0
        changes: list[Verdict] = []

        async def change() -> None:
            # Without waiting for the renewal, which is this very task.
            index.steps = Steps()
            dedup._driver = attrs.evolve(dedup._driver, pending_wait=0.0)
            changes.append(await dedup.decide(Document(KEY, text=NEW)))
            if fate == "stored":
                await dedup.commit(changes[0])

        index.steps = Steps(at, change)
        await index.refresh(old, bucket_keys)
        index.steps = Steps()
        if not changes:
            return  # a renewal has fewer steps
        if changes[0].outcome == "unchecked":
            # It met the renewal on its way; a crawl waits for that, and then forgets both.
            changes[0] = await dedup.decide(Document(KEY, text=NEW))
        if changes[0].claim is not None and fate == "begun":
            await dedup.commit(changes[0])
        assert (await dedup.decide(Document("https://b/1", text=OLD))).outcome == "new"


@pytest.mark.parametrize("text", [OTHER, ""], ids=["marked duplicate", "empty"])
@pytest.mark.parametrize("claimed", ["before", "while it was on its way"])
@pytest.mark.parametrize("committed", ["before", "after"])
async def test_what_was_written_last_is_what_the_row_holds(
    text: str, claimed: str, committed: str, world: World
) -> None:
    """Two crawls fetch a page at the same time. One gets a new text and has the claim; what the
    other one gets is kept without a claim, and is written last: the new text is in no row then."""
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
        ended = asyncio.ensure_future(two.dedup.commit(kept))
        await asyncio.sleep(0.05)
        if committed == "after":
            await one.dedup.commit(fresh)
        await asyncio.wait_for(ended, 20)
    await world.check()
    await world.visit(NEW, OTHER)


@pytest.mark.parametrize("at", range(1, 9))
async def test_renewing_does_not_bring_back_a_text_replaced_without_a_claim(at: int) -> None:
    """A duplicate that is kept takes the page's row, at whatever step of its renewal."""
    clock = Clock()
    index = Interrupted(window=200.0, clock=clock, wall=clock)
    async with Deduplicator(attrs.evolve(OPTIONS, window=200.0), index=index) as dedup:
        await dedup.commit(await dedup.decide(Document(KEY, text=OLD)))
        await dedup.commit(await dedup.decide(Document("https://two.example/1", text=OTHER)))
        fingerprinter = await dedup._ready()
        (old,) = await index.lookup(fingerprinter(Document(KEY, text=OLD)).key_hash)
        bucket_keys = dedup._method.bucket_key_array(
            fingerprinter(Document("https://b/1", text=OLD))
        )
        clock.now += 100.0

        replaced = False

        async def replace() -> None:
            nonlocal replaced
            replaced, index.steps = True, Steps()
            kept = await dedup.decide(Document(KEY, text=OTHER))
            assert kept.is_duplicate
            await dedup.commit(await dedup.supersede(kept))

        index.steps = Steps(at, replace)
        await index.refresh(old, bucket_keys)
        index.steps = Steps()
        if replaced:  # a renewal has fewer steps
            assert (await dedup.decide(Document("https://b/1", text=OLD))).outcome == "new"


async def test_a_key_of_the_user_that_looks_like_a_hash_of_content(world: World) -> None:
    """Keys such as text:17 are names: what was stored under one is forgotten when it changes."""
    key = "text:17"
    async with world.process() as process:
        for text in (OLD, NEW):
            await process.crawl(key, text)
    await world.check()
    await world.visit(OLD, NEW)
