"""Entering a page that another index has stored into an index that a crawl uses meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import attrs
import numpy as np
from numpy.typing import NDArray

from dedup_middleware.core.availability import Count
from dedup_middleware.index.base import Index
from dedup_middleware.index.batching import forget_outcome
from dedup_middleware.methods.base import Method
from dedup_middleware.model.buckets import (
    KEY_TABLE,
    SIMHASH_TABLES,
    BucketKey,
    hash_bucket_key,
    simhash_bucket_keys,
)
from dedup_middleware.model.claims import NOTHING_KNOWN, Claim, Claimed, Entry, Known
from dedup_middleware.model.records import PageRecords, State, chosen, joined

_PROPOSALS = 4  # of one page
_LEASE = 10.0  # seconds


@attrs.frozen(eq=False)
class StoredPage:
    """A page of another index: its CONTENT[1], address and payload."""

    content: NDArray[np.void]
    address: str | None
    payload: bytes


@attrs.frozen(eq=False)
class Carrying:
    """Enters stored pages of another index.

    A page that is carried over is claimed like any other, so a newer text under its key either has
    been there before and is found, or waits for this claim and then finds a stored page.

    :param replaced: storage replaces the earlier text of a page (``DEDUP_VERSIONS``)
    """

    index: Index
    method: Method
    replaced: bool
    count: Count

    async def carry(
        self,
        page: StoredPage,
        bucket_keys: Sequence[BucketKey],
        is_stored: Callable[[], Awaitable[bool]],
    ) -> int | None:
        """Enter a page unless it is there.

        :param bucket_keys: those of the page that met it
        :param is_stored: whether it is stored still, by the other index
        :returns: its page id; None: it must not count, because storage may have another text by
            now, or because it is not certain at this moment
        :raises IndexUnavailableError: the index can't be used
        """
        there = await self.index.of_key(int(page.content["key"][0]))
        same = self.same(there, page.content)
        held = there.page_ids[same & (there.states == State.COMMITTED)]
        if len(held):
            return int(held[-1])
        if same.any() or self._is_newer(there, same):
            return None  # it is on its way, was forgotten, or there is another text
        places = _places(page.content, bucket_keys)
        entry = Entry(places, page.content[0].tobytes(), page.address, page.payload)
        claim = await self._claim(entry, page.content)
        if claim is None:
            return None
        try:
            is_entered = await self._commit(claim, page.content)
            is_current = is_entered and await is_stored()
        except BaseException:
            forget_outcome(asyncio.ensure_future(self.index.release(claim)))
            forget_outcome(asyncio.ensure_future(self.index.forget([claim.page_id])))
            raise
        if not is_current:
            if is_entered:  # it was forgotten there meanwhile
                await self.index.forget([claim.page_id])
            return None
        self.count("former/carried", 1)
        return claim.page_id

    async def _claim(self, entry: Entry, content: NDArray[np.void]) -> Claim | None:
        """Claim a page; None: there is a newer text, or a flood."""
        known = NOTHING_KNOWN
        for _ in range(_PROPOSALS):
            made = await self.index.propose(entry, 0, _LEASE, known=known)
            if isinstance(made, Claimed):
                return made.claim
            pages = joined([known.pages, made.pages])
            of_own = chosen(pages, pages.content["key"] == content["key"])
            if made.more or self._is_newer(of_own, self.same(of_own, content)):
                return None
            # That others are like it is no reason: this one was stored before them.
            known = Known(chosen(pages, _last_of_each(pages.page_ids)))
        return None

    async def _commit(self, claim: Claim, content: NDArray[np.void]) -> bool:
        """Commit a claim, unless there is another text under its key by now."""
        there = await self.index.of_key(int(content["key"][0]))
        there = chosen(there, there.page_ids != np.uint64(claim.page_id))
        if self._is_newer(there, self.same(there, content)):
            await self.index.release(claim)
            return False
        return await self.index.commit(claim)

    def same(self, pages: PageRecords, content: NDArray[np.void]) -> NDArray[np.bool_]:
        """Which pages are a certain one, field by field of those that an index keeps.

        :param content: CONTENT[1]
        """
        same = np.ones(len(pages), np.bool_)
        for name in self.method.fields:
            equal = pages.content[name] == content[name]
            same &= equal if equal.ndim == 1 else equal.all(axis=1)
        return same

    def _is_newer(self, there: PageRecords, same: NDArray[np.bool_]) -> bool:
        """Whether storage may no longer have the text of a page.

        :param there: the pages with its key in the index
        :param same: which of them have its text
        """
        if not self.replaced:
            return bool((~same & (there.states == State.PENDING)).any())
        # One that was given back may have been written by a process that died before its commit.
        return bool((~same).any())


def _last_of_each(page_ids: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """A mask of the last position of each page id."""
    last = len(page_ids) - 1 - np.unique(page_ids[::-1], return_index=True)[1]
    return np.isin(np.arange(len(page_ids)), last)


def _places(content: NDArray[np.void], bucket_keys: Sequence[BucketKey]) -> tuple[BucketKey, ...]:
    """Buckets of a page of which CONTENT[1] is known.

    Its key and SimHash are, its bands and anchors are not: as where a page is entered anew
    (:meth:`.Index.refresh`), those of the page that met it take their place.
    """
    simhash = int(content["simhash"][0])
    others = [one for one in bucket_keys if one.table != KEY_TABLE]
    if simhash and any(one.table in SIMHASH_TABLES for one in others):
        others = [one for one in others if one.table not in SIMHASH_TABLES]
        others = [*simhash_bucket_keys(simhash), *others]
    return (hash_bucket_key(KEY_TABLE, int(content["key"][0])), *others)
