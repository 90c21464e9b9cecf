"""Indexes that can be cut off, and how a deduplicator on them is watched."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dedup_middleware import Deduplicator, IndexUnavailableError, Options
from dedup_middleware.core.availability import Breaker
from dedup_middleware.index.memory.index import MemoryIndex
from dedup_middleware.model.claims import Candidates, Claim, Claimed, Seen, Wanted
from dedup_middleware.model.documents import NEW, Document
from dedup_middleware.model.records import PageRecords

OPTIONS = Options(index_url="memory:", pending_wait=0.2, lease=30.0)


class Counts:
    """Collects what the deduplicator counts."""

    def __init__(self) -> None:
        self.of: Counter[str] = Counter()

    def __call__(self, name: str, n: float) -> None:
        self.of[name] += n  # type: ignore[assignment]


def page(key: str, text: str, title: str = "") -> Document:
    """A document with a text."""
    return Document(key=f"https://{key}", title=title, text=text)


async def stored(dedup: Deduplicator, document: Document) -> None:
    """Decide a new page and commit it."""
    verdict = await dedup.decide(document)
    assert verdict.outcome == NEW
    assert await dedup.commit(verdict)


class UnsteadyIndex(MemoryIndex):
    """An index that can be cut off."""

    down = False
    calls = 0

    def _check(self) -> None:
        self.calls += 1
        if self.down:
            raise IndexUnavailableError("cut off by the test")

    async def open(self, parameters: Any) -> dict[str, str]:
        self._check()
        return await super().open(parameters)

    async def attach(self) -> dict[str, str]:
        self._check()
        return await super().attach()

    async def read_buckets(self, bucket_keys: Any) -> list[bytes]:
        self._check()
        return await super().read_buckets(bucket_keys)

    async def fetch(self, page_ids: NDArray[np.uint64]) -> PageRecords:
        self._check()
        return await super().fetch(page_ids)

    async def propose(self, *arguments: Any, **named: Any) -> Claimed | Candidates:
        self._check()
        return await super().propose(*arguments, **named)

    async def commit(self, claim: Claim) -> bool:
        self._check()
        return await super().commit(claim)

    async def release(self, claim: Claim) -> bool:
        self._check()
        return await super().release(claim)

    async def forget(self, page_ids: Any) -> int:
        self._check()
        return await super().forget(page_ids)


class ScriptedIndex(MemoryIndex):
    """Every call lets others run, and fails when the script says so.

    :param fails: gives for each call whether it fails
    """

    def __init__(self, fails: Callable[[], bool] = lambda: False) -> None:
        super().__init__()
        self.fails = fails
        self.closed = 0

    async def _turn_of_others(self) -> None:
        await asyncio.sleep(0)
        if self.fails():
            raise IndexUnavailableError("cut off by the script")

    async def propose(self, *arguments: Any, **named: Any) -> Claimed | Candidates:
        await self._turn_of_others()
        return await super().propose(*arguments, **named)

    async def look(self, page_ids: NDArray[np.uint64], *, texts: Wanted = Wanted.ALL) -> Seen:
        await self._turn_of_others()
        return await super().look(page_ids, texts=texts)

    async def commit(self, claim: Claim) -> bool:
        await self._turn_of_others()
        return await super().commit(claim)

    async def release(self, claim: Claim) -> bool:
        await self._turn_of_others()
        return await super().release(claim)

    async def renew(self, claims: Sequence[Claim], lease: float) -> list[bool]:
        await self._turn_of_others()
        return await super().renew(claims, lease)

    async def close(self) -> None:
        self.closed += 1
        await super().close()


class Impatient(Breaker):
    """Tries again at once, so that a script of a few calls holds several outages."""

    def __init__(self) -> None:
        super().__init__(lambda: 0.0, first=0.0, longest=0.0)


def deduplicator(index: ScriptedIndex, counts: Counts) -> Deduplicator:
    """One that makes no pauses."""
    dedup = Deduplicator(OPTIONS, index=index, count=counts)
    dedup._outage.breaker = Impatient()
    return dedup


@contextlib.contextmanager
def loop_errors() -> Iterator[list[dict[str, Any]]]:
    """What the event loop reports of tasks whose errors no caller has seen."""
    found: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: found.append(context))
    yield found


def unaccounted(counts: Counts, dedup: Deduplicator) -> int:
    """Pages that were remembered, less those settled, still remembered, or forgotten."""
    of = counts.of
    known = of["unchecked/settled"] + of["unchecked/forgotten"] + len(dedup._settlement.backlog)
    return of["unchecked/remembered"] - known
