"""A storage with one row a page, and processes that crawl into it and are killed at some step."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, cast

import attrs

from dedup_middleware import Deduplicator, Document, Options
from dedup_middleware.index.base import Index
from dedup_middleware.model.documents import Verdict
from dedup_middleware.model.records import State
from dedup_middleware.plugin.reports import CALLS
from tests.index.harness import Harness
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
    """The process was killed."""


class StorageError(Exception):
    """The row was not written."""


class Rows:
    """Storage with one row a page, in a file."""

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path, isolation_level=None)
        self._db.execute("PRAGMA synchronous = OFF")  # processes die here, not machines
        self._db.execute("CREATE TABLE IF NOT EXISTS page (url TEXT PRIMARY KEY, text TEXT)")

    def close(self) -> None:
        """Close the file, which stays."""
        self._db.close()

    def clear(self) -> None:
        """Delete all rows."""
        self._db.execute("DELETE FROM page")

    def put(self, url: str, text: str) -> None:
        """Write a row, in place of the one that was there."""
        self._db.execute("INSERT OR REPLACE INTO page VALUES (?, ?)", (url, text))

    def all(self) -> dict[str, str]:
        """Texts by address."""
        return dict(self._db.execute("SELECT url, text FROM page"))


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
    """A storage and an index, and the processes that use them."""

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
