"""Forgetting pages by page id, by address or by the time at which they were stored.

A page may be refreshed under a new id while it is being forgotten (:meth:`.Index.refresh`); it is
then forgotten under the new id as well.
"""

from __future__ import annotations

import asyncio
import math
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.model.records import PageRecords, State, chosen

STORED_LEASE = 10.0  # seconds; lease of a claim for a page that is stored already
_SETTLED, _POLL = STORED_LEASE, 0.02  # seconds to wait for such claims, and between two polls
_ASKED = 1_000  # pages whose addresses are read at once; some indexes read payloads with them


class Forgetting(ABC):
    """The operations of an index that forget pages, chosen by their records or addresses."""

    @property
    @abstractmethod
    def window(self) -> float:
        """Seconds for which a page is remembered; 0: for ever, and no page is refreshed."""

    @abstractmethod
    def pages(self) -> AsyncIterator[PageRecords]:
        """Iterate over all pages in batches, by ascending page id; FREE ids are left out."""

    @abstractmethod
    async def fetch(self, page_ids: NDArray[np.uint64]) -> PageRecords:
        """The page records of these ids; a page that does not exist has state FREE."""

    @abstractmethod
    async def addresses(self, page_ids: Sequence[int]) -> list[str | None]:
        """Addresses of pages, None where none is stored."""

    @abstractmethod
    async def of_key(self, key_hash: int) -> PageRecords:
        """The page records with this keyed 64-bit hash of the document key, in any state."""

    @abstractmethod
    async def forget(self, page_ids: Sequence[int]) -> int:
        """Mark committed pages as released, so that similar ones are stored; returns how many."""

    async def forget_wholly(self, page_ids: Sequence[int]) -> int:
        """Forget pages, including the copies that concurrent refreshes make (:meth:`refresh`).

        A caller with a claim of the pages' key needs only :meth:`forget`: it blocks refreshes.

        :returns: how many of the pages were committed, not counting refreshed copies
        """
        forgotten = await self.forget(page_ids)
        for start in range(0, len(page_ids) if self.window else 0, _ASKED):
            gone = await self.fetch(np.array(page_ids[start : start + _ASKED], np.uint64))
            contents = gone.content[gone.states == State.RELEASED]
            await asyncio.gather(*map(self._forget_renewed, contents))
        return forgotten

    async def _forget_renewed(self, content: np.void, since: float = 0.0) -> None:
        """Forget all pages with the content of a forgotten one, and wait for pending ones to end.

        A process may have read the page before it was forgotten, to refresh it, and die before its
        check.

        :param since: keep pages that were committed before this time
        """
        ends = time.monotonic() + _SETTLED
        while True:
            there = await self.of_key(int(content["key"]))
            there = chosen(there, there.content == content)
            await self.forget(there.page_ids[_committed_in(there, since, math.inf)].tolist())
            if not (there.states == State.PENDING).any() or time.monotonic() > ends:
                return
            await asyncio.sleep(_POLL)

    async def forget_addresses(self, wanted: Callable[[str], bool]) -> int:
        """Forget all committed pages whose address satisfies ``wanted``; returns how many."""
        forgotten = 0
        asked: list[int] = []
        async for pages in self.pages():
            asked += pages.page_ids[pages.states == State.COMMITTED].tolist()
            if len(asked) >= _ASKED:
                forgotten += await self._forget_named(asked, wanted)
                asked = []
        return forgotten + await self._forget_named(asked, wanted)

    async def _forget_named(self, page_ids: list[int], wanted: Callable[[str], bool]) -> int:
        named = zip(page_ids, await self.addresses(page_ids), strict=True)
        return await self.forget_wholly([one for one, at in named if at and wanted(at)])

    async def forget_span(self, since: float, until: float) -> int:
        """Forget all pages committed in a span of time, including copies made by refreshes.

        :param since: seconds since 1970 by the index's own clock
        :param until: end of the span, exclusive; times are stored in whole seconds
        :returns: how many pages were forgotten, not counting refreshed copies
        """
        if not self.window:
            return await self._forget_span(since, until)
        meant = [np.empty(0, np.uint64)]
        async for pages in self.pages():
            meant.append(_names(pages.content)[_committed_in(pages, since, until)])
        forgotten = await self._forget_span(since, until)
        names = np.unique(np.concatenate(meant))
        # Pages forgotten by now can't start a refresh, so every refresh under way has its id.
        async for pages in self.pages():
            # Copies of pages in the span were committed after its start.
            later = (pages.states == State.PENDING) | _committed_in(pages, since, math.inf)
            renewed = pages.content[later]
            renewed = renewed[_among(_names(renewed), names)]
            for start in range(0, len(renewed), _ASKED):
                part = renewed[start : start + _ASKED]
                await asyncio.gather(*(self._forget_renewed(one, since) for one in part))
        return forgotten

    async def _forget_span(self, since: float, until: float) -> int:
        """Forget pages committed in the span; copies made by concurrent refreshes may remain."""
        forgotten = 0
        async for pages in self.pages():
            page_ids = pages.page_ids[_committed_in(pages, since, until)]
            forgotten += await self.forget(page_ids.tolist())
        return forgotten


def _committed_in(pages: PageRecords, since: float, until: float) -> NDArray[np.bool_]:
    wanted: NDArray[np.bool_] = pages.states == State.COMMITTED
    wanted &= (pages.times >= since) & (pages.times < until)
    return wanted


def _names(content: NDArray[np.void]) -> NDArray[np.uint64]:
    """uint64[n], a hash of key and text of each page."""
    names: NDArray[np.uint64] = content["key"] ^ content["exact"]
    return names


def _among(names: NDArray[np.uint64], ascending: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Mask of the names in a sorted array; ``np.isin`` would sort it again for each batch."""
    at = np.searchsorted(ascending, names)
    found = np.zeros(len(names), np.bool_)
    inside = at < len(ascending)
    found[inside] = ascending[at[inside]] == names[inside]
    return found
