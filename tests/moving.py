"""Deduplicators of a crawl that moves from one index to another, for tests."""

from __future__ import annotations

from typing import Any

from dedup_middleware import Deduplicator, Document, Options
from dedup_middleware.index.memory.index import MemoryIndex
from tests.outages import Counts, UnsteadyIndex


class Move:
    """Two indexes in memory, and deduplicators of a crawl that moves from one to the other."""

    def __init__(self, **options: Any) -> None:
        self.options = Options(pending_wait=5.0, **options)
        self.former, self.now = UnsteadyIndex(), MemoryIndex()
        self.counts = Counts()
        self.open: list[Deduplicator] = []

    async def before(self) -> Deduplicator:
        """With the settings of before."""
        return await self._opened(Deduplicator(self.options, index=self.former))

    async def moving(self) -> Deduplicator:
        """With the current index and the former one."""
        return await self._opened(
            Deduplicator(self.options, index=self.now, former=self.former, count=self.counts)
        )

    async def after(self) -> Deduplicator:
        """With the current index alone."""
        return await self._opened(Deduplicator(self.options, index=self.now))

    async def _opened(self, dedup: Deduplicator) -> Deduplicator:
        self.open.append(dedup)
        await dedup.open()
        return dedup


async def outcome(dedup: Deduplicator, document: Document) -> str:
    """What is decided of a page; a new one is stored."""
    verdict = await dedup.decide(document)
    if verdict.claim is not None:
        await dedup.commit(verdict)
    return verdict.outcome
