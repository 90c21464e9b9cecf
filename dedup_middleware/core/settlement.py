"""Commits and releases the claims of one process, and enters pages stored during an outage."""

from __future__ import annotations

import asyncio
import itertools
import logging
import math
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from weakref import WeakKeyDictionary

import attrs

from dedup_middleware.base.errors import IndexUnavailableError
from dedup_middleware.core.availability import Backlog, Count, Outage, Unsettled
from dedup_middleware.core.versions import Versions
from dedup_middleware.index.base import STORED_LEASE, Index, release_soon, release_surely
from dedup_middleware.index.batching import stop
from dedup_middleware.methods.base import EXACT
from dedup_middleware.model.claims import EVERYTHING, Claim, Claimed, Entry
from dedup_middleware.model.documents import (
    DUPLICATE,
    PENDING_TIMEOUT,
    REVISIT,
    UNCHECKED,
    Document,
    Verdict,
)
from dedup_middleware.model.fingerprint import Fingerprint
from dedup_middleware.model.keys import in_a_line, is_content_key

logger = logging.getLogger(__name__)

INDEX_UNAVAILABLE = "index-unavailable"
_POLL = 0.1  # seconds
_AWAY = "the index could not be used"
_UNDER_WAY = "pages like them were still under way after DEDUP_PENDING_WAIT"
_NAMED = 100  # most unchecked pages that are logged by name at the end


class OpenClaims:
    """Claims that are neither committed nor released yet.

    :ivar waits_end: time (``time.monotonic``) after which no page waits for another one
    """

    def __init__(self) -> None:
        self.waits_end = math.inf
        # By claim: an event for its end, made when the first page waits for it.
        self._claims: dict[Claim, asyncio.Event | None] = {}

    def __len__(self) -> int:
        return len(self._claims)

    def __iter__(self) -> Iterator[Claim]:
        return iter(list(self._claims))

    def reset(self) -> None:
        """Leave claims that could not be released to their leases, and let pages wait again."""
        self.waits_end = math.inf
        self._claims.clear()

    def add(self, claim: Claim) -> None:
        """Add a claim that the index granted."""
        self._claims.setdefault(claim, None)

    def settle(self, claim: Claim) -> None:
        """Remove a claim that was committed, released or lost."""
        event = self._claims.pop(claim, None)
        if event is not None:
            event.set()

    async def wait(self, page_ids: AbstractSet[int], seconds: float) -> None:
        """Wait until this process settles the claim of one of these pages, or time is up."""
        events = []
        for claim, event in self._claims.items():
            if claim.page_id in page_ids:
                events.append(event or asyncio.Event())
                self._claims[claim] = events[-1]
        if not events:
            await asyncio.sleep(max(seconds, 0.0))
            return
        waits = [asyncio.ensure_future(event.wait()) for event in events]
        try:
            await asyncio.wait(
                waits, timeout=max(seconds, 0.0), return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            for task in waits:
                task.cancel()

    async def poll(self, page_ids: AbstractSet[int], ends: float) -> bool:
        """Wait for a moment, like :meth:`wait`; False if there is no time left."""
        left = min(ends, self.waits_end) - time.monotonic()
        if left > 0:
            await self.wait(page_ids, min(left, _POLL))
        return left > 0


@attrs.define(eq=False)
class Settlement:
    """Commits and releases claims of one index, and enters pages that were stored without a claim.

    A remembered page is always in one of these states: in the backlog, being entered, or counted as
    ``unchecked/settled`` (the index has it, or a similar page) or ``unchecked/forgotten``.

    :param examine: decides a page; the verdict has a claim if the page is new
    :param entry: makes the entry by which a page is proposed
    :param pending_wait: most seconds to wait for pending pages with the key of a page
    """

    _index: Index
    _versions: Versions
    _claims: OpenClaims
    _outage: Outage
    _examine: Callable[[Document | Fingerprint], Awaitable[Verdict]]
    _entry: Callable[[Fingerprint], Entry]
    _pending_wait: float
    _count: Count
    backlog: Backlog = attrs.field(init=False, factory=Backlog)
    # By lost claim: the claim made in its place; kept while the lost one is referenced.
    _anew: WeakKeyDictionary[Claim, Claim] = attrs.field(init=False, factory=WeakKeyDictionary)
    _turn: asyncio.Lock = attrs.field(init=False, factory=asyncio.Lock)
    _task: asyncio.Task[None] | None = attrs.field(init=False, default=None)
    _has_ended: bool = attrs.field(init=False, default=False)

    async def keep_alive(self, lease: float) -> None:
        """Extend the leases of all open claims at intervals, until the task is cancelled."""
        while True:
            await asyncio.sleep(lease / 3)
            if not len(self._claims):
                continue
            try:
                await self._index.renew(list(self._claims), lease)
            except IndexUnavailableError as error:
                self._count("error/index", 1)
                self._outage.faults.warn(error, "The index can't extend leases")
            except Exception:
                # The task must go on: without it all leases would run out.
                self._count("error/internal", 1)
                logger.exception("The index can't extend leases: an error of the plugin")

    def remember(self, page: Unsettled) -> None:
        """Count a stored page, and keep it until the index can be used."""
        self._count("unchecked/remembered", 1)
        self._keep(page)

    def _keep(self, page: Unsettled) -> None:
        forgotten = 1 if self._has_ended else self.backlog.add(page)
        if forgotten:
            self._count("unchecked/forgotten", forgotten)

    def start(self) -> None:
        """Start a background task for :meth:`catch_up` unless one is running."""
        if len(self.backlog) and not self._has_ended and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self.catch_up())

    async def stop(self) -> None:
        """Cancel the task of :meth:`start`."""
        await stop(self._task)

    async def catch_up(self) -> None:
        """Enter the pages of the backlog, as long as the index can be used."""
        async with self._turn:
            # Counted once: a page that returns to the backlog waits for the next call.
            for _ in range(len(self.backlog)):
                # Pages that arrived meanwhile may have pushed out some of those counted.
                if not self._outage.breaker.closed or not len(self.backlog):
                    break
                await self._enter_next()

    async def catch_up_at_last(self, ends: float) -> None:
        """Enter the pages of the backlog when a crawl ends; wait for an index that is away.

        Waiting pays: a server that fails over is back soon, while copies of a page that is not
        entered are stored again, and a text that it replaced still counts as stored.

        :param ends: time (``time.monotonic``) of the last try
        """
        await self.catch_up()
        while len(self.backlog) and not self._outage.breaker.closed and time.monotonic() < ends:
            await asyncio.sleep(_POLL)
            await self.catch_up()  # does nothing until the pause is over

    async def _enter_next(self) -> None:
        page = self.backlog.pop()
        left: Unsettled | None = page  # kept if this call is cancelled
        try:
            left = await self._enter_later(page)
            if left is None:
                self._count("unchecked/settled", 1)
        except Exception:
            left = None
            self._count("error/internal", 1)
            self._count("unchecked/forgotten", 1)
            logger.exception(
                "%s is stored, and can't be entered into the index: copies of it will be stored "
                "again",
                in_a_line(page.document.key),
            )
        finally:
            if left is not None:
                self._keep(left)

    def end(self) -> None:
        """Discard, count and log the pages of the backlog; none is remembered from now on."""
        self._has_ended = True
        left = len(self.backlog)
        if left:
            self._count("unchecked/forgotten", left)
            waited = sum(page.waited for page in self.backlog)
            for pages, cause in (left - waited, _AWAY), (waited, _UNDER_WAY):
                if pages:
                    logger.warning(
                        "%d pages were stored without a check, because %s; later copies of them "
                        "will be stored again, and earlier texts under their keys still count as "
                        "stored: where storage has replaced these, `scrapy dedup forget --key KEY` "
                        "lets the index forget them",
                        pages,
                        cause,
                    )
            for page in itertools.islice(self.backlog, _NAMED):
                logger.info("Stored without a check: %r", page.document.key)
        self.backlog = Backlog()
        self._task, self._examine = None, _not_examined  # they refer to the Deduplicator

    async def commit(self, verdict: Verdict) -> bool:
        """See :meth:`.Deduplicator.commit`."""
        if verdict.claim is None:
            source = _source(verdict)
            # The index has the text of a revisit, and gets that of an unchecked page. After any
            # other outcome storage has a text under this key that the index does not have.
            if verdict.outcome not in (UNCHECKED, REVISIT):
                self.backlog.doubt(verdict.key)
            if source is None:
                return True
            left: Unsettled | None = Unsettled(source, waited=verdict.reason == PENDING_TIMEOUT)
            try:
                if verdict.outcome != UNCHECKED:
                    left = await self._left_to_replace(Unsettled(source), verdict)
            finally:
                if left is not None:  # also if this call is cancelled
                    self.remember(left)
            return True
        source = _source(verdict)
        if source is not None:
            self.backlog.replaced(source)
        try:
            is_only, left = await self._commit(verdict)
        except asyncio.CancelledError:
            if source is not None:  # the call may not have been sent
                self.remember(Unsettled(source, verdict.claim))
                self.start()  # pages like this one wait for it
            raise
        if left is not None:
            self.remember(left)
        return is_only

    async def deleted(self, keys: Sequence[str]) -> None:
        """See :meth:`.Deduplicator.deleted`; done as if an empty page had replaced each row."""
        left = {key: Unsettled(Document(key, text="")) for key in keys}
        for key in left:
            self.backlog.doubt(key)

        async def enter(key: str) -> None:
            _, again = await self._enter(left[key].document)
            if again is None:
                del left[key]
            else:
                left[key] = again

        try:
            await asyncio.gather(*map(enter, list(left)))
        finally:  # also if a task was cancelled before it began
            for row in left.values():
                self.remember(row)

    async def _commit(
        self, verdict: Verdict, *, again: bool = True
    ) -> tuple[bool, Unsettled | None]:
        """Commit the claim of a verdict; returns the same as :meth:`_enter`. If the claim is lost,
        decide the page anew (``again``) or let it be remembered."""
        claim, source = verdict.claim, _source(verdict)
        assert claim is not None
        try:
            stored = await self._index.commit(claim)
        except IndexUnavailableError as error:
            self._outage.failed(error, "The index could not record that %s is stored", verdict.key)
            return True, None if source is None else Unsettled(source, claim)
        finally:
            self._claims.settle(claim)
        if stored:
            self._count("committed", 1)
            try:
                await self._versions.forget_superseded(verdict)
            except IndexUnavailableError as error:
                self._outage.failed(error, "The index still holds what %s supersedes", verdict.key)
            return True, None
        # Its lease had run out, and another page may have taken its place: decide anew.
        self._count("claim/lost", 1)
        if source is None:
            return True, None
        return await self._enter(source, lost=claim) if again else (True, Unsettled(source))

    def page_id_of(self, claim: Claim) -> int:
        """See :meth:`.Deduplicator.page_id_of`."""
        return self._anew.get(claim, claim).page_id

    async def release(self, verdict: Verdict) -> None:
        """See :meth:`.Deduplicator.release`."""
        if verdict.claim is None:
            return
        try:
            await release_surely(self._index, verdict.claim)
            self._count("released", 1)
        except IndexUnavailableError as error:
            self._outage.failed(error, "The index could not release the claim of %s", verdict.key)
        finally:
            self._claims.settle(verdict.claim)

    async def release_all(self) -> None:
        """Release all open claims; if the index is away, they are left to expire."""
        if not self._outage.breaker.closed:
            return
        try:
            while len(self._claims):
                claim = next(iter(self._claims))
                await self._index.release(claim)
                self._claims.settle(claim)
        except IndexUnavailableError as error:
            self._outage.failed(
                error, "%d open claims could not be released and will expire", len(self._claims)
            )

    async def _enter_later(self, page: Unsettled) -> Unsettled | None:
        """Enter a remembered page; return what still has to be remembered."""
        # Items without a key of their own replace nothing.
        if page.is_doubtful and self._versions.replaced and not is_content_key(page.document.key):
            return await self._enter_none(page)
        if page.claim is not None:
            try:
                if page.is_unasked:
                    await self._index.release(page.claim)
                elif await self._index.commit(page.claim):
                    self._count("committed", 1)
                    return None
            except IndexUnavailableError as error:
                self._outage.failed(error, "The index could not record that a page is stored")
                return page
        return (await self._enter(page.document, is_marked=page.is_marked))[1]

    async def _enter_none(self, page: Unsettled) -> Unsettled | None:
        """Forget all texts under a page's key, since storage may hold any one of them; return what
        still has to be remembered."""
        try:
            if page.claim is not None:
                await self._index.release(page.claim)
            verdict = await self._examine(page.document)
            page = attrs.evolve(page, claim=verdict.claim)
            if page.claim is not None:
                self._claims.settle(page.claim)  # if this fails, the next try releases it
                await release_surely(self._index, page.claim)
        except IndexUnavailableError as error:
            key = page.document.key
            self._outage.failed(error, "The index could not record that %s is replaced", key)
            return page
        if verdict.outcome == UNCHECKED:
            return page
        if not page.is_marked and (left := await self._left_to_mark(verdict)) is not None:
            return left
        page = attrs.evolve(page, is_marked=True)
        return await self._left_to_replace(page, verdict, same=True)

    async def _enter(
        self, source: Document | Fingerprint, *, lost: Claim | None = None, is_marked: bool = False
    ) -> tuple[bool, Unsettled | None]:
        """Enter a page that is stored already into the index.

        :param lost: its claim, if that was lost
        :param is_marked: an earlier try has left a record of it
        :returns: False if the index has a similar page; and what still has to be remembered
        """
        verdict = await self._examine(source)
        if verdict.claim is not None:
            if lost is not None:
                self._anew[lost] = verdict.claim
            return await self._commit_late(source, verdict, verdict.claim)
        left = None
        if verdict.outcome == UNCHECKED:
            left = Unsettled(source, waited=verdict.reason == PENDING_TIMEOUT)
        elif is_marked or (left := await self._left_to_mark(verdict)) is None:
            left = await self._left_to_replace(Unsettled(source, is_marked=True), verdict)
        if left is None and verdict.outcome == DUPLICATE:
            self._count("stored-twice", 1)
            logger.info("%s was stored although it is a %s", in_a_line(source.key), verdict)
            return False, None
        return True, left

    async def _commit_late(
        self, source: Document | Fingerprint, verdict: Verdict, claim: Claim
    ) -> tuple[bool, Unsettled | None]:
        """Commit a page that was stored before it got its claim; returns the same as `_enter`."""
        try:
            is_doubtful = await self._versions.had_others(verdict, claim)
        except IndexUnavailableError as error:
            self._outage.failed(
                error, "The index could not be asked for versions of %s", source.key
            )
            self._claims.settle(claim)
            return True, Unsettled(source, claim, is_unasked=True)
        except BaseException:
            # Its lease would be extended, and pages like it would wait, until the crawl ends.
            self._claims.settle(claim)
            release_soon(self._index, claim)
            raise
        if not is_doubtful:
            return await self._commit(verdict, again=False)
        # The row may hold either version, so the index calls neither of them stored.
        self.backlog.doubt(source.key)
        await self.release(verdict)
        return True, None

    async def _left_to_mark(self, verdict: Verdict) -> Unsettled | None:
        """Leave a released record of a stored page that gets no claim of its own, by which other
        processes see that storage may hold its text (:meth:`Versions.had_others`); return what
        still has to be remembered."""
        page, source, claim = verdict.fingerprint, _source(verdict), None
        # A revisit may be an excerpt of the text that the index has under its key.
        is_exact = verdict.match is not None and verdict.match.rule == EXACT
        has_record = verdict.claim is not None or (verdict.outcome == REVISIT and is_exact)
        keyed = self._versions.replaced and not is_content_key(verdict.key)
        if page is None or source is None or has_record or not keyed:
            return None
        try:
            made = await self._index.propose(self._entry(page), 0, STORED_LEASE, known=EVERYTHING)
            if isinstance(made, Claimed):
                claim = made.claim
                await release_surely(self._index, claim)
        except IndexUnavailableError as error:
            self._outage.failed(error, "The index could not record that %s is stored", verdict.key)
            return Unsettled(source, claim, is_unasked=claim is not None)
        return None

    async def _left_to_replace(
        self, stored: Unsettled, verdict: Verdict, *, same: bool = False
    ) -> Unsettled | None:
        """Forget the texts that a stored page may have replaced.

        Waits up to ``pending_wait`` seconds for pending pages with its key: their texts may have
        been written before.

        :param same: forget pages with the same text, too
        :returns: the page if it still has to be remembered
        """
        page, ends = verdict.fingerprint, time.monotonic() + self._pending_wait
        try:
            while page is not None:
                _, pending = await self._versions.forget_others(page, same=same)
                if not pending:
                    break
                if not await self._claims.poll(set(pending), ends):
                    return attrs.evolve(stored, waited=True)
        except IndexUnavailableError as error:
            self._outage.failed(
                error, "The index could not record that %s is replaced", verdict.key
            )
            return attrs.evolve(stored, waited=False)
        return None


def _source(verdict: Verdict) -> Document | Fingerprint | None:
    """The document or fingerprint by which the page of a verdict can be decided again."""
    return verdict.document or verdict.fingerprint


async def _not_examined(what: Document | Fingerprint) -> Verdict:
    return unchecked(what, INDEX_UNAVAILABLE)


def unchecked(what: Document | Fingerprint, reason: str) -> Verdict:
    """Make the verdict on a page that could not be compared."""
    if isinstance(what, Fingerprint):
        return Verdict(what.key, UNCHECKED, reason, fingerprint=what)
    return Verdict(what.key, UNCHECKED, reason, document=what)
