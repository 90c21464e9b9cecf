"""Earlier versions of a page, which the index forgets where storage replaces them.

Storage that has one row a page loses the earlier text when a changed page is stored. The index must
not call that text stored any more, or a copy of it would be dropped although no row has it. It is
forgotten *before* the new version goes on to storage: a process that dies in between leaves a text
in storage that the index does not know, which is stored a second time at worst.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import attrs
import numpy as np

from dedup_middleware.core.former import Former
from dedup_middleware.index.base import Index
from dedup_middleware.index.batching import forget_outcome
from dedup_middleware.model.claims import Claim
from dedup_middleware.model.documents import Verdict
from dedup_middleware.model.fingerprint import Fingerprint
from dedup_middleware.model.keys import is_content_key
from dedup_middleware.model.records import State


@attrs.frozen
class OtherTexts:
    """Page ids of other texts under the key of a page: forgotten ones, and those on their way."""

    forgotten: tuple[int, ...] = ()
    pending: frozenset[int] = frozenset()


@attrs.frozen
class Versions:
    """The earlier versions of pages in one index.

    :param replaced: storage replaces them (``DEDUP_VERSIONS = "replace"``); else nothing is done
    :param replaces_held: a stored page takes the place of pages whose text it holds
        (``DEDUP_ON_FULLER = "replace"``)
    :param count: called with the name of a counter and what to add to it
    :param former: a former index, which forgets the same pages
    """

    index: Index
    replaced: bool
    replaces_held: bool
    count: Callable[[str, float], None]
    former: Former | None = None

    async def give_way(self, claim: Claim, page_ids: Sequence[int]) -> None:
        """Forget what a page with a claim will replace, before the page goes on to storage.

        :param page_ids: page ids of the committed pages with its key
        :raises IndexUnavailableError: not done; the claim is released, as far as that is possible
        """
        try:
            await self._forget(page_ids)
        except BaseException:
            forget_outcome(asyncio.ensure_future(self.index.release(claim)))
            raise

    async def forget_others(self, page: Fingerprint) -> OtherTexts:
        """Forget committed pages with the page's key and another text.

        For a page that is stored, or will be, without a claim.

        :raises IndexUnavailableError: perhaps not done
        """
        if not self.replaced or is_content_key(page.key):
            return OtherTexts()
        if self.former is not None:
            await self.former.forget_others(page)
        found = await self.index.of_key(page.key_hash)
        content = found.content
        # A method may keep no exact hash: it reads as 0, and the page is forgotten.
        other = (content["exact"] != np.uint64(page.exact)) | (content["size"] != page.size)
        forgotten = found.page_ids[other & (found.states == State.COMMITTED)]
        pending = found.page_ids[other & (found.states == State.PENDING)]
        await self._forget(forgotten.tolist())
        return OtherTexts(tuple(forgotten.tolist()), frozenset(pending.tolist()))

    async def _forget(self, page_ids: Sequence[int]) -> None:
        if self.replaced and page_ids:
            self.count("replaced", await self.index.forget(page_ids))

    async def forget_superseded(self, verdict: Verdict) -> None:
        """Forget the pages whose place a stored page takes (``DEDUP_ON_FULLER``).

        :raises IndexUnavailableError: perhaps not done
        """
        page_ids = [match.number for match in verdict.supersedes]
        if page_ids and self.replaces_held:
            if self.former is not None:
                await self.former.forget_copies(
                    await self.index.fetch(np.array(page_ids, np.uint64))
                )
            self.count("superseded", await self.index.forget(page_ids))

    async def superseded(self, verdict: Verdict) -> list[str]:
        """Keys of those that the index has forgotten, and that no later version has.

        :raises IndexUnavailableError: not known
        """
        held = verdict.supersedes
        if not held or not self.replaces_held:
            return []
        found = await self.index.fetch(np.array([one.number for one in held], np.uint64))
        return [
            one.key
            for one, state, key in zip(
                held, found.states.tolist(), found.content["key"].tolist(), strict=True
            )
            if state != State.COMMITTED and one.key is not None and not await self._is_held(key)
        ]

    async def _is_held(self, key_hash: int) -> bool:
        """Whether a page with a key is stored, or on its way."""
        found = await self.index.of_key(key_hash)
        return bool(np.isin(found.states, (State.COMMITTED, State.PENDING)).any())
