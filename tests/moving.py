"""Deduplicators of a crawl that moves from one index to another, for tests."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dedup_middleware import Deduplicator, Document, IndexUnavailableError, Options
from dedup_middleware.index.memory.index import MemoryIndex
from dedup_middleware.model.documents import NEW
from dedup_middleware.model.records import PageRecords


class Counts:
    """Collects what the deduplicator counts."""

    def __init__(self) -> None:
        self.of: Counter[str] = Counter()

    def __call__(self, name: str, n: float) -> None:
        self.of[name] += n  # type: ignore[assignment]


class Unsteady(MemoryIndex):
    """An index that can be cut off."""

    down = False

    def _check(self) -> None:
        if self.down:
            raise IndexUnavailableError("cut off by the test")

    async def attach(self) -> dict[str, str]:
        self._check()
        return await super().attach()

    async def read_buckets(self, bucket_keys: Any) -> list[bytes]:
        self._check()
        return await super().read_buckets(bucket_keys)

    async def fetch(self, page_ids: NDArray[np.uint64]) -> PageRecords:
        self._check()
        return await super().fetch(page_ids)

    async def forget(self, page_ids: Any) -> int:
        self._check()
        return await super().forget(page_ids)


class Move:
    """Two indexes in memory, and deduplicators of a crawl that moves from one to the other."""

    def __init__(self, **options: Any) -> None:
        self.options = Options(pending_wait=5.0, **options)
        self.former, self.now = Unsteady(), MemoryIndex()
        self.counts = Counts()
        self.open: list[Deduplicator] = []

    async def before(self) -> Deduplicator:
        """With the settings of before."""
        return await self._opened(Deduplicator(self.options, index=self.former))

    async def moving(self) -> Deduplicator:
        """With the index of now and the former one."""
        return await self._opened(
            Deduplicator(self.options, index=self.now, former=self.former, count=self.counts)
        )

    async def after(self) -> Deduplicator:
        """With the index of now alone."""
        return await self._opened(Deduplicator(self.options, index=self.now))

    async def _opened(self, dedup: Deduplicator) -> Deduplicator:
        self.open.append(dedup)
        await dedup.open()
        return dedup


def page(key: str, text: str) -> Document:
    """A document with a text."""
    return Document(key=f"https://{key}", text=text)


async def stored(dedup: Deduplicator, document: Document) -> None:
    """Decide a new page and commit it."""
    verdict = await dedup.decide(document)
    assert verdict.outcome == NEW
    assert await dedup.commit(verdict)


async def outcome(dedup: Deduplicator, document: Document) -> str:
    """What is decided of a page; a new one is stored."""
    verdict = await dedup.decide(document)
    if verdict.claim is not None:
        await dedup.commit(verdict)
    return verdict.outcome
