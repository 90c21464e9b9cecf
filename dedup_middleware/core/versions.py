"""Makes an index forget the versions of pages that storage replaces.

If the index still called a replaced text stored, a copy of it would be dropped although no row has
it. So the index forgets it *before* the new version goes on to storage: if the process dies in
between, at worst a copy of the text is stored as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs
import numpy as np

from dedup_middleware.core.availability import Count
from dedup_middleware.core.former import Former
from dedup_middleware.index.base import Index, release_soon
from dedup_middleware.model.claims import Claim
from dedup_middleware.model.documents import Verdict
from dedup_middleware.model.fingerprint import Fingerprint
from dedup_middleware.model.keys import is_content_key
from dedup_middleware.model.records import State


@attrs.frozen
class Versions:
    """Makes one index forget the earlier versions of pages, and the pages that others supersede.

    :param replaced: storage replaces earlier versions (``DEDUP_VERSIONS = "replace"``); if False,
        the methods about versions do nothing
    :param replaces_held: a stored page supersedes the pages whose words it holds
        (``DEDUP_ON_FULLER = "replace"``); if False, the methods about superseded pages do nothing
    :param former: a former index, which forgets the same pages
    """

    index: Index
    replaced: bool
    replaces_held: bool
    count: Count
    former: Former | None = None

    async def forget_earlier(self, claim: Claim, page_ids: Sequence[int]) -> None:
        """Forget the earlier versions of a claimed page, before it goes on to storage.

        :param page_ids: page ids of the committed pages with its key
        :raises IndexUnavailableError: perhaps not done; the claim is released if possible
        """
        if not self.replaced or not page_ids:
            return
        try:
            self.count("replaced", await self.index.forget(page_ids))
        except BaseException:
            release_soon(self.index, claim)
            raise

    async def forget_others(
        self, page: Fingerprint, *, same: bool = False
    ) -> tuple[list[int], list[int]]:
        """Forget the committed pages with the key of a page, claimed or not, and another text.

        :param same: forget pages with the same text, too
        :returns: ids of the forgotten pages, and of such pages that are still pending
        :raises IndexUnavailableError: some may not have been forgotten
        """
        if not self.replaced or is_content_key(page.key):
            return [], []
        if self.former is not None:
            await self.former.forget_others(page)
        forgotten: set[int] = set()
        while True:
            found = await self.index.of_key(page.key_hash)
            exact, size = found.content["exact"], found.content["size"]
            # If the method keeps no exact hash, it reads as 0, so the page counts as another text.
            other = (exact != np.uint64(page.exact)) | (size != page.size) | same
            stored = {*found.page_ids[other & (found.states == State.COMMITTED)].tolist()}
            if stored <= forgotten:
                pending = found.page_ids[other & (found.states == State.PENDING)].tolist()
                return sorted(forgotten), pending
            # A page may be entered anew (:meth:`.Index.refresh`) between look-up and forgetting.
            self.count("replaced", await self.index.forget_wholly(sorted(stored - forgotten)))
            forgotten |= stored

    async def had_others(self, verdict: Verdict, claim: Claim) -> bool:
        """Whether storage may hold another text under the key of a page that is stored already.

        A released record counts: another process may have stored that text later, even as a copy
        that has no entry (:meth:`Settlement._left_to_mark`).
        """
        page = verdict.fingerprint
        if not self.replaced or page is None or is_content_key(page.key):
            return False
        found = await self.index.of_key(page.key_hash)
        own = found.content[found.page_ids == np.uint64(claim.page_id)]
        return bool(verdict.earlier) or not len(own) or bool((found.content != own[0]).any())

    async def forget_superseded(self, verdict: Verdict) -> None:
        """Forget the pages that a stored page supersedes (``DEDUP_ON_FULLER``).

        :raises IndexUnavailableError: some may not have been forgotten
        """
        page_ids = [match.number for match in verdict.supersedes]
        if page_ids and self.replaces_held:
            if self.former is not None:
                await self.former.forget_copies(
                    await self.index.fetch(np.array(page_ids, np.uint64))
                )
            self.count("superseded", await self.index.forget(page_ids))

    async def superseded(self, verdict: Verdict, hash_of: Callable[[str], int]) -> list[str]:
        """Keys of the superseded pages that are forgotten and have no other version in the index.

        The index has addresses, which are cut and have ``?`` for lone surrogates: such an address
        may be the key of another page.

        :param hash_of: returns the keyed hash of a key
        :raises IndexUnavailableError: the index can't be read
        """
        if not verdict.supersedes or not self.replaces_held:
            return []
        page_ids = [match.number for match in verdict.supersedes]
        found = await self.index.fetch(np.array(page_ids, np.uint64))
        return [
            match.key
            for match, state, key_hash in zip(
                verdict.supersedes,
                found.states.tolist(),
                found.content["key"].tolist(),
                strict=True,
            )
            # If the page record is gone, neither its key nor what is stored under it is known.
            if state == State.RELEASED
            and match.key is not None
            and hash_of(match.key) == key_hash
            and not await self._has_page(key_hash)
        ]

    async def _has_page(self, key_hash: int) -> bool:
        """Whether a page with this key is committed or pending."""
        found = await self.index.of_key(key_hash)
        return bool(np.isin(found.states, (State.COMMITTED, State.PENDING)).any())
