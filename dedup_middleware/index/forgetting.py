"""Forgetting pages: by page id, by address, by the time at which they were stored.

A page may be entered anew under another id while it is forgotten (:meth:`.Index.refresh`). What is
forgotten here is forgotten under that id, too.
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

STORED_LEASE = 10.0  # seconds, of a page that is entered although it is stored already
_SETTLED, _POLL = STORED_LEASE, 0.02  # seconds: its end is awaited so long; between two looks
_ASKED = 1_000  # pages whose addresses are asked for at once, on some indexes with their evidence


class Forgetting(ABC):
    """Forgets pages of an index by what an index says of them."""

    @property
    @abstractmethod
    def window(self) -> float:
        """Seconds that a page is remembered; 0: for ever, and nothing is entered anew."""

    @abstractmethod
    def pages(self) -> AsyncIterator[PageRecords]:
        """All pages by ascending page id, many at a time; ids that are FREE are left out."""

    @abstractmethod
    async def fetch(self, page_ids: NDArray[np.uint64]) -> PageRecords:
        """Page records of pages; one that does not exist has state FREE."""

    @abstractmethod
    async def addresses(self, page_ids: Sequence[int]) -> list[str | None]:
        """Addresses of pages, None where none is kept."""

    @abstractmethod
    async def of_key(self, key_hash: int) -> PageRecords:
        """The page records with a key, whatever their state.

        :param key_hash: keyed 64-bit hash of the document key
        """

    @abstractmethod
    async def forget(self, page_ids: Sequence[int]) -> int:
        """Let committed pages read as released: like pages may be stored again.

        :returns: how many of them were committed
        """

    async def forget_wholly(self, page_ids: Sequence[int]) -> int:
        """Forget pages, and what others enter them anew as meanwhile (:meth:`refresh`).

        Where a claim of their key is held nothing is entered anew: :meth:`forget` is enough.

        :returns: how many of them were committed, without those entered anew
        """
        forgotten = await self.forget(page_ids)
        for start in range(0, len(page_ids) if self.window else 0, _ASKED):
            gone = await self.fetch(np.array(page_ids[start : start + _ASKED], np.uint64))
            contents = gone.content[gone.states == State.RELEASED]
            await asyncio.gather(*map(self._forget_renewed, contents))
        return forgotten

    async def _forget_renewed(self, content: np.void, since: float = 0.0) -> None:
        """Forget the pages with the content of one that was forgotten, pending ones at their end:
        the process that enters it anew may have looked at it before, and may die when it has.

        :param since: leave pages that were committed before that time
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
        """Forget all committed pages with an address that is wanted, for example those of a host.

        :returns: how many there were
        """
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
        """Forget all pages that were committed in a span of time, and what others enter them anew
        as meanwhile (:meth:`refresh`).

        :param since: seconds since 1970 by the index's own clock
        :param until: the same, not included; times are kept in whole seconds
        :returns: how many there were, without those entered anew
        """
        if not self.window:
            return await self._forget_span(since, until)
        meant = [np.empty(0, np.uint64)]
        async for pages in self.pages():
            meant.append(_names(pages.content)[_committed_in(pages, since, until)])
        forgotten = await self._forget_span(since, until)
        names = np.unique(np.concatenate(meant))
        # Nothing is entered anew that is forgotten by now, so what is on its way has an id.
        async for pages in self.pages():
            # What was committed before the span is older than all pages of it.
            later = (pages.states == State.PENDING) | _committed_in(pages, since, math.inf)
            renewed = pages.content[later]
            renewed = renewed[_among(_names(renewed), names)]
            for start in range(0, len(renewed), _ASKED):
                part = renewed[start : start + _ASKED]
                await asyncio.gather(*(self._forget_renewed(one, since) for one in part))
        return forgotten

    async def _forget_span(self, since: float, until: float) -> int:
        """See :meth:`forget_span`; pages that were entered anew meanwhile may stay."""
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
    """A hash of key and text of each page."""
    names: NDArray[np.uint64] = content["key"] ^ content["exact"]
    return names


def _among(names: NDArray[np.uint64], ascending: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Which names are among others. ``np.isin`` would sort those anew for each part of a walk."""
    at = np.searchsorted(ascending, names)
    found = np.zeros(len(names), np.bool_)
    inside = at < len(ascending)
    found[inside] = ascending[at[inside]] == names[inside]
    return found
