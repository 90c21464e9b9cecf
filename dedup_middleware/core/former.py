"""Looks pages up in a former index, while a crawl moves from it to the current index.

A page is looked up in the former index first, without a claim. A stored page that decides it is
*carried over*: entered into the current index as a committed page, by a claim like any other.

The former index is only read, except that it forgets pages whose text storage replaces: if a
process died before it committed the newer version, the old text could be carried over again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Mapping, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base.errors import (
    DedupError,
    IndexMissingError,
    IndexRefusedError,
    IndexReplacedError,
    IndexUnavailableError,
    OptionsError,
    named_as_given,
)
from dedup_middleware.base.options import Options
from dedup_middleware.base.settingfields import setting_name
from dedup_middleware.core.availability import Breaker, Count, FaultLog
from dedup_middleware.core.judge import best_match, same_keys
from dedup_middleware.index.base import Index, release_soon
from dedup_middleware.index.batching import forget_outcome
from dedup_middleware.index.opening import former_options, open_existing
from dedup_middleware.index.parameters import HASH_KEY, hash_key_of, other_parameters
from dedup_middleware.methods.base import Method
from dedup_middleware.model.buckets import BucketKey, Neighbours, keys_of_stored
from dedup_middleware.model.claims import NO_CANDIDATES, Candidates, Entry
from dedup_middleware.model.fingerprint import Fingerprint
from dedup_middleware.model.keys import is_content_key
from dedup_middleware.model.records import PageRecords, State, chosen

logger = logging.getLogger(__name__)

#: listed among the tables of a match that was found in the former index
FORMER = "former"
_SETTING = setting_name("former_index_url")
_NAMES = {"DEDUP_INDEX_URL": _SETTING}  # in errors of the former index
_TRIES = 16  # most pages of the former index that are tried for one page
_MOST_TO_FORGET = 100_000
_Found = TypeVar("_Found")


class _NoReplyError(Exception):
    """The former index can't be used now."""


# For one page: stored pages of the former index that decide it, carried over, as candidates of the
# current index; and the former ids of the pages stored under its own key.
CarriedOver = tuple[Candidates, tuple[int, ...]]
_NOTHING: CarriedOver = (NO_CANDIDATES, ())


class Former:
    """Looks pages up in a former index, and carries over the stored pages that decide them.

    :param options: ``former_index_url`` is the address of the former index
    :param target: the current index
    :param index: former index to use instead of the one that the options name
    :raises OptionsError: the settings contradict each other
    """

    def __init__(
        self,
        options: Options,
        target: Index,
        method: Method,
        count: Count,
        index: Index | None = None,
    ) -> None:
        self._options = former_options(options)
        self._where = self._options.safe_index_url.partition("?")[0]
        self._target = target
        self._method = method
        self._count = count
        self._replaced = options.versions == "replace"
        self._replaces_held = options.on_fuller == "replace"
        self._given = index
        self._index: Index | None = None
        self._wanted: dict[str, str] = {}
        self._current_key: str | None = None  # hash keys of the two indexes
        self._former_key: str | None = None
        self._is_refused = False
        self._opening = asyncio.Lock()
        self._breaker = Breaker(time.monotonic)
        self._faults = FaultLog(logger, time.monotonic)
        # By key hash of pages decided during its outage: exact hash and size of the text to keep.
        self._to_forget: dict[int, tuple[int, int]] = {}
        self._lost = 0  # pages beyond _MOST_TO_FORGET, which are not noted
        if options.reset:
            raise OptionsError(
                "DEDUP_RESET",
                True,
                f"pages of {_SETTING} would still be dropped: leave that out, or DEDUP_RESET",
            )
        same = (options.index_url, options.namespace)
        if index is None and same == (self._options.index_url, self._options.namespace):
            raise OptionsError(
                _SETTING,
                self._where,
                "it is the index itself; name the one that the crawl moves away from, or leave it "
                "out (to change DEDUP_SHARDS, choose a new DEDUP_NAMESPACE and put the "
                "old one into DEDUP_FORMER_NAMESPACE)",
            )

    # Opening

    async def agree(self, parameters: dict[str, str]) -> dict[str, str]:
        """Return the parameters to open the current index with, including the former hash key.

        :raises IndexRefusedError: pages of the two indexes can't be compared
        :raises IndexUnavailableError: the former index can't be reached, and the current index does
            not exist yet and needs its hash key
        """
        self._wanted = parameters
        try:
            async with self._opening:
                stored = self._former_key or await self._connect()
        except IndexUnavailableError as error:
            self._failed(error)
            try:
                await self._target.attach()
            except IndexMissingError:
                raise IndexUnavailableError(
                    "the former index can't be reached, and the current index, which takes over "
                    f"its key, is not made yet: {error}"
                ) from None
            return parameters
        given = parameters.get(HASH_KEY)
        if given is not None and int(given, 16) != int(stored, 16):
            raise IndexRefusedError(
                f"DEDUP_HASH_KEY is not that of {_SETTING} ({self._where}), so pages of the two "
                "can't be compared: leave DEDUP_HASH_KEY out"
            )
        return {**parameters, HASH_KEY: stored}

    def opened(self, stored: dict[str, str]) -> None:
        """Check that the current index has the hash key of the former one.

        :param stored: parameters of the current index
        :raises IndexRefusedError: the keys differ
        """
        self._current_key = stored[HASH_KEY]
        if self._former_key is not None:
            self._check_key(self._former_key)

    def _check_key(self, key: str) -> None:
        if self._current_key is not None and int(key, 16) != int(self._current_key, 16):
            raise IndexRefusedError(
                f"the index at {_SETTING} ({self._where}) has another hash key than this one, so "
                "their pages can't be compared: let the new index be made with that setting, which "
                "takes over the key (another DEDUP_NAMESPACE or DEDUP_INDEX_URL), or leave it out"
            )

    async def _connect(self) -> str:
        """Attach to the former index; return its hash key."""
        try:
            with named_as_given(_NAMES):
                if self._given is None:
                    index, stored = await open_existing(self._options)
                else:
                    index, stored = self._given, await self._given.attach()
        except IndexRefusedError as error:
            raise IndexRefusedError(f"{_SETTING}: {error}") from None
        try:
            lines = other_parameters(stored, self._wanted)
            if lines:
                raise IndexRefusedError(
                    f"the index at {_SETTING} ({self._where}) was made with other parameters:\n  "
                    + "\n  ".join(lines)
                    + "\nRestore these settings until the crawl has moved, or leave "
                    f"{_SETTING} out: pages that are hashed in another way can't be compared."
                )
            hash_key_of(stored, self._where)
            key = stored[HASH_KEY]
            self._check_key(key)
            with named_as_given(_NAMES):
                pages = await index.count()
        except BaseException:
            await index.close()
            raise
        self._index, self._former_key = index, key
        logger.info(
            "Pages are looked up in the former index first: %s holds %d. Leave %s out once it "
            "holds no pages, or once you have imported the remaining ones",
            self._where,
            pages,
            _SETTING,
        )
        return key

    async def _ready(self) -> Index:
        """The connected former index; raises :class:`_NoReplyError` if it can't be used now."""
        self._check()
        if self._index is None:
            async with self._opening:
                self._check()  # another page may have tried meanwhile
                if self._index is None:
                    await self._reply_of(self._connect(), {})
        assert self._index is not None
        return self._index

    def _check(self) -> None:
        if self._is_refused or not self._breaker.closed:
            raise _NoReplyError

    async def _reply_of(
        self, reply: Awaitable[_Found], names: Mapping[str, str] = _NAMES
    ) -> _Found:
        """Await a reply; raises :class:`_NoReplyError` after a failure, which is logged."""
        try:
            with named_as_given(names):
                found = await reply
        except DedupError as error:
            self._failed(error)
            raise _NoReplyError from None
        self._breaker.worked()
        return found

    def _failed(self, error: DedupError) -> None:
        # If another index has replaced it, that has another hash key: trying again is useless.
        self._is_refused |= isinstance(error, (IndexRefusedError, IndexReplacedError))
        self._breaker.failed()
        self._count("former/error", 1)
        self._faults.warn(
            error,
            "The former index can't be asked: copies of pages that only it knows are stored once "
            "more",
        )

    async def close(self) -> None:
        """Forget the pages noted by :meth:`forget_later`, and disconnect."""
        self._breaker.worked()
        with contextlib.suppress(_NoReplyError):
            if self._to_forget:
                await self._forget_noted(await self._ready())
        if self._to_forget or self._lost:
            logger.warning(
                "%d pages were stored while the former index could not be asked: earlier versions "
                "of them are still called stored there",
                len(self._to_forget) + self._lost,
            )
            self._to_forget, self._lost = {}, 0
        self._faults.end()
        if self._index is not None:
            await self._index.close()
            self._index = None
        self._opening = asyncio.Lock()  # a used lock belongs to its event loop

    # Looking up

    async def carry_over(
        self, page: Fingerprint, entry: Entry, probes: tuple[BucketKey, ...]
    ) -> CarriedOver:
        """Carry over the stored pages that decide a page.

        :raises IndexUnavailableError: the current index can't be used
        """
        try:
            index = await self._ready()
            if self._to_forget:
                await self._forget_noted(index)
            return await self._carry_over(index, page, entry, probes)
        except _NoReplyError:
            self._count("former/skipped", 1)
            self.forget_later(page)
            return _NOTHING

    async def _carry_over(
        self, index: Index, page: Fingerprint, entry: Entry, probes: tuple[BucketKey, ...]
    ) -> CarriedOver:
        stored = await self._stored_candidates(index, (*entry.bucket_keys, *probes))
        if stored is NO_CANDIDATES:
            return _NOTHING
        judged = self._method.judge(page, stored.pages.content, list(stored.payloads.values()))
        same_key = same_keys(page, stored.pages)
        own_rows = [row for row, same in enumerate(same_key) if same]
        own = tuple(stored.pages.page_ids[own_rows].tolist())
        alike = np.flatnonzero(judged.duplicate).tolist()
        for _ in range(min(len(alike), _TRIES)):
            best = best_match(judged, alike, same_key)
            carried = await self._carry(index, stored, best, entry)
            if carried is not None:
                return self._candidates(stored, {best: carried}), own
            alike.remove(best)
        held = [] if judged.held is None else np.flatnonzero(judged.held).tolist()
        wanted = dict.fromkeys([*own_rows, *(held if self._replaces_held else [])])
        carried_rows: dict[int, tuple[int, str | None]] = {}
        for row in list(wanted)[:_TRIES]:
            carried = await self._carry(index, stored, row, entry)
            if carried is not None:
                carried_rows[row] = carried
        return self._candidates(stored, carried_rows), own

    async def _stored_candidates(
        self, index: Index, bucket_keys: Sequence[BucketKey]
    ) -> Candidates:
        """Committed candidates of a page in the former index, at most as many as are judged."""
        distance = self._method.scan_distance
        found = await self._reply_of(index.candidates(bucket_keys, distance))
        pages = chosen(found.pages, found.pages.states == State.COMMITTED)
        if not len(pages):
            return NO_CANDIDATES
        tables = found.near.tables[np.searchsorted(found.near.page_ids, pages.page_ids)]
        payloads = {page_id: found.payloads[page_id] for page_id in pages.page_ids.tolist()}
        return Candidates(Neighbours(pages.page_ids, tables), pages, payloads=payloads)

    def _candidates(
        self, stored: Candidates, carried: Mapping[int, tuple[int, str | None]]
    ) -> Candidates:
        """Make candidates of the current index from pages that were carried over: for each its row
        in ``stored``, the page id in the current index and the address."""
        if not carried:
            return NO_CANDIDATES
        # A renewed page has two rows in the former index, and one here: the older row counts.
        row_of = {page_id: row for row, (page_id, _) in sorted(carried.items(), reverse=True)}
        ids = np.array(sorted(row_of), np.uint64)
        rows = [row_of[page_id] for page_id in ids.tolist()]
        payloads = list(stored.payloads.values())
        return Candidates(
            Neighbours(ids, stored.near.tables[rows]),
            PageRecords(
                ids, stored.pages.content[rows], np.full(len(rows), State.COMMITTED, np.uint8)
            ),
            dict(carried.values()),
            {carried[row][0]: payloads[row] for row in rows},
        )

    async def _carry(
        self, index: Index, stored: Candidates, row: int, entry: Entry
    ) -> tuple[int, str | None] | None:
        """Enter a candidate of the former index into the current index, unless it is there.

        :param entry: the page that found the candidate
        :returns: current page id, and address; None if the candidate must not count, since storage
            may have another text by now or its state is not certain
        """
        page_id, target = int(stored.pages.page_ids[row]), self._target
        content = stored.pages.content[row : row + 1]
        (address,) = await self._reply_of(index.addresses([page_id]))
        there = await target.of_key(int(content["key"][0]))
        same = self._same(there, content)
        held = there.page_ids[same & (there.states == State.COMMITTED)]
        if len(held):
            return int(held[-1]), address
        if same.any() or self._is_newer(there, same):
            return None  # it is pending, was forgotten, or storage may have another text
        bucket_keys = keys_of_stored(content, entry.bucket_keys)
        copy = Entry(bucket_keys, content[0].tobytes(), address, stored.payloads[page_id])
        claim = await target.claim_stored(
            copy,
            int(content["key"][0]),
            lambda there: self._is_newer(there, self._same(there, content)),
        )
        if claim is None:
            return None
        own = claim.page_id
        try:
            if not await target.commit(claim):
                return None
            found = await self._reply_of(index.fetch(np.array([page_id], np.uint64)))
        except BaseException:
            release_soon(target, claim)
            forget_outcome(asyncio.ensure_future(target.forget([own])))
            raise
        if found.states[0] != State.COMMITTED:  # it was forgotten there meanwhile
            await target.forget([own])
            return None
        self._count("former/carried", 1)
        return own, address

    def _same(self, pages: PageRecords, content: NDArray[np.void]) -> NDArray[np.bool_]:
        """Mask of the pages that equal CONTENT[1] in all fields that the index keeps."""
        same = np.ones(len(pages), np.bool_)
        for name in self._method.fields:
            equal = pages.content[name] == content[name]
            same &= equal if equal.ndim == 1 else equal.all(axis=1)
        return same

    def _is_newer(self, there: PageRecords, same: NDArray[np.bool_]) -> bool:
        """Whether a page must not be carried over: storage may no longer have its text.

        :param there: the pages with its key in the current index
        :param same: mask of those with its text
        """
        if not self._replaced:  # its text stays, but only one page of a key may have a claim
            return bool((~same & (there.states == State.PENDING)).any())
        # A released page may have been written by a process that died before its commit.
        return bool((~same).any())

    # Forgetting

    def forget_later(self, page: Fingerprint) -> None:
        """Note that the former index has to forget other texts under a page's key."""
        if not self._replaced or self._is_refused or is_content_key(page.key):
            return
        if len(self._to_forget) < _MOST_TO_FORGET or page.key_hash in self._to_forget:
            self._to_forget[page.key_hash] = page.exact, page.size
        else:
            self._lost += 1

    async def forget(self, page: Fingerprint, page_ids: Sequence[int]) -> None:
        """Forget pages of the former index that a page replaces in storage."""
        if not self._replaced or not page_ids:
            return
        try:
            index = await self._ready()
            self._count("former/forgotten", await self._reply_of(index.forget_wholly(page_ids)))
        except _NoReplyError:
            self.forget_later(page)

    async def forget_others(self, page: Fingerprint) -> None:
        """Forget other texts under the key of a page, since storage replaces them."""
        self.forget_later(page)
        with contextlib.suppress(_NoReplyError):
            await self._forget_noted(await self._ready())

    async def _forget_noted(self, index: Index) -> None:
        while self._to_forget:
            key_hash, (exact, size) = self._to_forget.popitem()
            try:
                found = await self._reply_of(index.of_key(key_hash))
                content = found.content
                other = (content["exact"] != np.uint64(exact)) | (content["size"] != size)
                await self._forget_stored(index, found, other)
            except BaseException:
                self._to_forget.setdefault(key_hash, (exact, size))  # unless it changed meanwhile
                raise

    async def forget_copies(self, records: PageRecords) -> None:
        """Forget the pages of the former index that were carried over as these records."""
        with contextlib.suppress(_NoReplyError):
            index = await self._ready()
            for row in range(len(records)):
                content = records.content[row : row + 1]
                found = await self._reply_of(index.of_key(int(content["key"][0])))
                same = self._same(found, content)
                await self._forget_stored(index, found, same)

    async def _forget_stored(
        self, index: Index, found: PageRecords, which: NDArray[np.bool_]
    ) -> None:
        page_ids = found.page_ids[which & (found.states == State.COMMITTED)].tolist()
        if page_ids:
            self._count("former/forgotten", await self._reply_of(index.forget_wholly(page_ids)))
