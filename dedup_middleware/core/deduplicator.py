"""Documents in, verdicts out, then commit or release; works without Scrapy."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING

import attrs

from dedup_middleware.base.errors import (
    DedupError,
    IndexRefusedError,
    IndexReplacedError,
    IndexUnavailableError,
)
from dedup_middleware.base.options import Options
from dedup_middleware.core.availability import Breaker, CatchUp, FaultLog, Unsettled, stop
from dedup_middleware.core.driver import Driver
from dedup_middleware.core.fingerprinter import Fingerprinter
from dedup_middleware.core.fingerprinter import read as read_document
from dedup_middleware.core.former import Former
from dedup_middleware.core.openclaims import OpenClaims, keep_alive
from dedup_middleware.core.versions import REPLACE, Versions
from dedup_middleware.core.warming import Warming
from dedup_middleware.index.base import Index
from dedup_middleware.index.opening import open_index
from dedup_middleware.index.record_layout import RECORD, RecordLayout
from dedup_middleware.methods.base import content_bytes
from dedup_middleware.methods.choose import choose_method
from dedup_middleware.model.buckets import BucketKey
from dedup_middleware.model.claims import Entry
from dedup_middleware.model.documents import (
    DUPLICATE,
    EMPTY,
    NEW,
    REVISIT,
    UNCHECKED,
    Document,
    Verdict,
)
from dedup_middleware.model.fingerprint import Fingerprint
from dedup_middleware.model.keys import is_content_key

if TYPE_CHECKING:
    from typing_extensions import Self

logger = logging.getLogger(__name__)

PENDING_TIMEOUT = "pending-timeout"
INDEX_UNAVAILABLE = "index-unavailable"
_MASK64 = (1 << 64) - 1
_POLL = 0.1  # seconds

Count = Callable[[str, float], None]


class Deduplicator:
    """Decides pages against one index; any number of decisions may run at once.

    :param options: how pages are compared and where the index is
    :param count: called with the name of a counter and what to add to it
    :param index: used instead of the one that ``options.index_url`` names
    :param former: the same for ``options.former_index_url``
    :raises OptionsError: the settings contradict each other

    Use it as an asynchronous context manager, or call :meth:`open` and :meth:`close`.
    """

    def __init__(
        self,
        options: Options,
        *,
        count: Count | None = None,
        index: Index | None = None,
        former: Index | None = None,
    ) -> None:
        self.options = options
        self._count: Count = count or (lambda _name, _n: None)
        self._index = open_index(options) if index is None else index
        self._method = choose_method(options)
        self._record = RecordLayout(
            self._method.fields, text=options.keep_address or self._method.keeps_payload
        )
        self._former: Former | None = None
        if former is not None or options.former_index_url:
            self._former = Former(options, self._index, self._method, self._count, former)
        self._versions = Versions(
            self._index,
            options.versions == REPLACE,
            options.on_fuller == "replace",
            self._count,
            self._former,
        )
        self._claims = OpenClaims()
        self._driver = Driver(
            self._index,
            self._method,
            self._count,
            self._claims,
            options.lease,
            options.pending_wait,
            self._former,
        )
        self._fingerprinter: Fingerprinter | None = None
        self._opening = asyncio.Lock()
        self._warming = Warming(options, self._index, self._method)
        self._was_opened = False
        self._breaker = Breaker(time.monotonic)
        self._faults = FaultLog(logger, time.monotonic)
        self._catch_up = CatchUp(self._enter_later, self._breaker, self._count)
        self._heartbeat: asyncio.Task[None] | None = None
        self._is_away = False

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def open(self, *, warm: bool = True) -> None:
        """Load dictionary and kernels (in a thread) and open the index.

        :param warm: load or compile the kernels now, not with the first page
        :raises IndexUnavailableError: the index can't be reached; decisions made all the same
            are ``unchecked`` until it can
        :raises IndexRefusedError: the index was made with other parameters, or is none
        """
        self._was_opened = True
        if warm:
            await self.warm()
        await self._ready()

    async def warm(self) -> None:
        """Load or compile, in a thread, the kernels that decisions need; the index is not used."""
        await self._warming.warm()

    async def _ready(self) -> Fingerprinter:
        if self._fingerprinter is not None:
            return self._fingerprinter
        async with self._opening:
            if self._fingerprinter is None:
                # The parameters must not depend on the key, which is the index's own.
                plain = await asyncio.to_thread(self._warming.fingerprinter)
                parameters = {**plain.parameters, RECORD: self._record.parameter}
                if self.options.hash_key:
                    parameters["hash_key"] = f"{int(self.options.hash_key, 16):032x}"
                if self._former is not None:
                    parameters = await self._former.agree(parameters)
                stored = await self._index.open(parameters)
                if self._former is not None:
                    self._former.opened(stored)
                self._fingerprinter = await asyncio.to_thread(
                    Fingerprinter, self.options, int(stored["hash_key"], 16) & _MASK64
                )
                if self._heartbeat is None:
                    self._heartbeat = asyncio.create_task(
                        keep_alive(
                            self._claims, self._index, self.options.lease, self._count, self._faults
                        )
                    )
            return self._fingerprinter

    async def close(self) -> None:
        """Check pages that passed unchecked, release open claims, close the index.

        Each step is done whatever fails in those before it, also if this call is cancelled. Pages
        that could not be checked are counted and logged.
        """
        self._claims.waits_end = time.monotonic() + self.options.pending_wait
        self._breaker.worked()
        if len(self._claims):
            self._count("claim/unresolved", len(self._claims))
        async with contextlib.AsyncExitStack() as steps:  # the last one is done first
            steps.callback(self._faults.end)
            steps.push_async_callback(self._index.close)
            if self._former is not None:
                steps.push_async_callback(self._former.close)
            steps.callback(self._catch_up.end)
            steps.push_async_callback(self._release_all)
            steps.push_async_callback(self._catch_up.stop)
            steps.push_async_callback(self._catch_up.run)
            # First: a remembered copy of such a page would wait for its claim until the time-out.
            steps.push_async_callback(self._release_all)
            steps.push_async_callback(stop, self._heartbeat)
        self._heartbeat = None  # it refers to this object, whose index takes up memory

    async def _release_all(self) -> None:
        if not self._breaker.closed:
            return
        try:
            while len(self._claims):
                claim = next(iter(self._claims))
                await self._index.release(claim)
                self._claims.settle(claim)
        except IndexUnavailableError as error:
            self._breaker.failed()
            self._count("error/index", 1)
            self._faults.warn(
                error,
                "%d open claims could not be released and will expire",
                len(self._claims),
            )

    async def read(self, document: Document) -> Document:
        """The document with its text, extracted from the HTML in a thread if need be."""
        if document.text is not None or document.html is None:
            return document
        await self.warm()
        document, seconds = await asyncio.to_thread(self._extract, document)
        self._count("seconds/extraction", seconds)
        return document

    def _extract(self, document: Document) -> tuple[Document, float]:
        """The document with its text, and the seconds of processor time that it took."""
        # Many threads wait for each other here; only their own work is counted.
        started = time.thread_time()
        document = read_document(document, self.options.extractor)
        return document, time.thread_time() - started

    async def decide(self, document: Document) -> Verdict:
        """Decide whether the text of a page is stored already.

        A verdict with outcome ``new`` holds a claim: call :meth:`commit` once the page is stored,
        or :meth:`release` when it was not.
        """
        if document.text is None:
            document = await self.read(document)
        return self._counted(await self._decide(document))

    async def decide_fingerprint(self, page: Fingerprint) -> Verdict:
        """Decide a page by its fingerprint, made in another process for example.

        It must have been made with the options and the hash key of this index; otherwise it matches
        nothing. The verdict holds no document; if the index is unavailable, the fingerprint is what
        is entered later. The verdict is ``unchecked`` if the index was replaced by one with another
        hash key.
        """
        return self._counted(await self._decide(page))

    def _counted(self, verdict: Verdict) -> Verdict:
        self._count("pages", 1)
        self._count(verdict.outcome, 1)
        self._count(f"reason/{verdict.reason}", 1)
        if verdict.previous is not None and verdict.previous.figures:
            self._count("changed/figures", 1)
        return verdict

    async def _decide(self, what: Document | Fingerprint) -> Verdict:
        verdict = await self._examine(what)
        if verdict.outcome not in (UNCHECKED, EMPTY):
            self._catch_up.start()
        return verdict

    async def _examine(self, what: Document | Fingerprint) -> Verdict:
        if not self._breaker.closed:
            return _unchecked(what, INDEX_UNAVAILABLE)
        try:
            try:
                verdict = await self._judged(what)
            except IndexReplacedError:
                if isinstance(what, Fingerprint):
                    raise
                verdict = await self._judged(what)  # with the key of the index of now
        except IndexRefusedError as error:
            if not self._was_opened:
                raise  # open() was not called, so the caller does not know yet
            self._failed(error, "The index can't be used")
            return _unchecked(what, INDEX_UNAVAILABLE)
        except IndexUnavailableError as error:
            self._failed(error, "The index can't be used")
            return _unchecked(what, INDEX_UNAVAILABLE)
        self._breaker.worked()
        if self._is_away:
            self._is_away = False
            meanwhile = self._faults.left_out()
            logger.info(
                "The index can be used again: %s%s",
                self.options.safe_index_url,
                f" (meanwhile {meanwhile})" if meanwhile else "",
            )
        return verdict

    def report_outage(self, error: DedupError, message: str) -> None:
        """Log that the index can't be used, so that decisions do not log the same again."""
        self._is_away = True
        self._faults.warn(error, message)

    async def _judged(self, what: Document | Fingerprint) -> Verdict:
        if not self._warming.is_done:
            await self.warm()
        fingerprinter = self._fingerprinter or await self._ready()
        if isinstance(what, Fingerprint):
            document, page = None, what
        else:
            started = time.perf_counter()
            document, page = what, fingerprinter(what)
            self._count("seconds/fingerprint", time.perf_counter() - started)
        try:
            if page.is_empty:
                if self._keeps_empty:
                    await self._versions.forget_others(page)  # it goes on to storage
                return Verdict(page.key, EMPTY, "no-text", fingerprint=page)
            started = time.perf_counter()
            verdict = await self._place(document, page)
        except IndexReplacedError:
            if self._fingerprinter is fingerprinter:  # else another decision has opened it again
                self._fingerprinter = None
            raise
        self._count("seconds/index", time.perf_counter() - started)
        return verdict

    @property
    def _keeps_empty(self) -> bool:
        """Whether every page without a text goes on to storage."""
        return self.options.on_empty == "keep" or self.options.action == "mark"

    async def _place(self, document: Document | None, page: Fingerprint) -> Verdict:
        """Propose a page until it is settled what it is; see :class:`.driver.Driver`."""
        named = self.options.keep_address and not is_content_key(page.key)
        entry = Entry(
            self._method.bucket_key_array(page),
            content_bytes(page, sketched=self._method.keeps_sketch),
            page.key if named else None,
            page.payload,
            # The title of a short page counts as its text, and the index does not compare titles.
            exact=self._method.settles_exact and not len(page.wording.title),
        )
        ruling, claim = await self._driver.decide(page, entry)
        if claim is not None:
            if ruling.earlier:
                await self._versions.give_way(claim, ruling.earlier)
            self._claims.add(claim)
            return Verdict(
                page.key,
                NEW,
                ruling.reason,
                None,
                page,
                claim=claim,
                document=document,
                nearest=ruling.nearest,
                earlier=ruling.earlier,
                previous=ruling.previous,
                supersedes=ruling.supersedes,
            )
        if ruling.match is None:
            self._count("pending/timeout", 1)
            await self._versions.forget_others(page)  # it goes on to storage
            return _unchecked(document or page, PENDING_TIMEOUT)
        await self._keep_alive(ruling.match.number, entry.bucket_keys)
        outcome = REVISIT if ruling.same_key else DUPLICATE
        return Verdict(page.key, outcome, ruling.reason, ruling.match, page, document=document)

    async def supersede(self, verdict: Verdict) -> Verdict:
        """Call this before a page is stored although it is a duplicate, a revisit or empty.

        What the index holds under its key is forgotten, unless it is the same text, for storage
        replaces it (``DEDUP_VERSIONS``). Nothing has to be called for other outcomes.

        :returns: the verdict to commit or release instead: that of a revisit has a claim, if the
            page could take the place of its earlier version
        """
        page, document = verdict.fingerprint, verdict.document
        # An empty page that the options keep has been dealt with when it was decided.
        is_empty = verdict.outcome == EMPTY and not self._keeps_empty
        if page is None or not (verdict.is_duplicate or verdict.is_revisit or is_empty):
            return verdict
        try:
            earlier = (await self._versions.forget_others(page)).forgotten
            if not earlier:
                return verdict
            claim = None
            if verdict.is_revisit:
                claim = (await self._place(document, page)).claim
        except IndexUnavailableError as error:
            self._failed(error, "The index could not record that %s is replaced", verdict.key)
            return _unchecked(document or page, INDEX_UNAVAILABLE)
        return attrs.evolve(verdict, claim=claim, earlier=earlier)

    async def _keep_alive(self, page_id: int, bucket_keys: Sequence[BucketKey]) -> None:
        """Enter a stored page anew that was seen again and would be the next to expire."""
        if self.options.window and (await self._index.expiring([page_id]))[0]:
            self._count("renewed", 1)
            await self._index.refresh(page_id, bucket_keys)

    async def commit(self, verdict: Verdict) -> bool:
        """Record that the page is stored.

        For an ``unchecked`` page it is remembered, to be put into the index later. Where storage
        replaces rows (``DEDUP_VERSIONS``), other texts under the key of any other page without a
        claim are forgotten once more: one that was claimed while this page was on its way may have
        been written before it.

        :returns: False if meanwhile, because the lease had run out, a like page took its place
        """
        if verdict.claim is None:
            source = _source(verdict)
            is_known = verdict.outcome != UNCHECKED and await self._replaced(verdict)
            if not is_known and source is not None:
                self._catch_up.remember(Unsettled(source))
            return True
        is_only, left = await self._commit(verdict)
        if left is not None:
            self._catch_up.remember(left)
        return is_only

    async def _commit(
        self, verdict: Verdict, *, again: bool = True
    ) -> tuple[bool, Unsettled | None]:
        """Commit the claim of a verdict; see :meth:`_enter` for what is returned.

        :param again: decide anew if the claim is lost, else leave it for later
        """
        claim, source = verdict.claim, _source(verdict)
        assert claim is not None
        try:
            stored = await self._index.commit(claim)
        except IndexUnavailableError as error:
            self._failed(error, "The index could not record that %s is stored", verdict.key)
            return True, None if source is None else Unsettled(source, claim)
        finally:
            self._claims.settle(claim)
        if stored:
            self._count("committed", 1)
            try:
                await self._versions.forget_superseded(verdict)
            except IndexUnavailableError as error:
                self._failed(error, "The index still holds what %s supersedes", verdict.key)
            return True, None
        # Its lease had run out, and another page may have taken its place: decide anew.
        self._count("claim/lost", 1)
        if source is None:
            return True, None
        return await self._enter(source) if again else (True, Unsettled(source))

    async def superseded(self, verdict: Verdict) -> list[str]:
        """Keys of the pages whose place a stored page has taken (``DEDUP_ON_FULLER``).

        Only of those that the index has forgotten: storage deletes them, and while the index calls
        one stored, copies of it are dropped.
        """
        try:
            return await self._versions.superseded(verdict)
        except IndexUnavailableError as error:
            self._failed(error, "It is not known what %s supersedes", verdict.key)
            return []

    async def release(self, verdict: Verdict) -> None:
        """Give the claim back: the page was not stored, and the next like page may be."""
        if verdict.claim is None:
            return
        try:
            await self._index.release(verdict.claim)
            self._count("released", 1)
        except IndexUnavailableError as error:
            self._failed(error, "The index could not release the claim of %s", verdict.key)
        finally:
            self._claims.settle(verdict.claim)

    def _failed(self, error: Exception, message: str, *arguments: object) -> None:
        self._is_away = True
        self._breaker.failed()
        self._count("error/index", 1)
        self._faults.warn(error, message, *arguments)

    async def _enter_later(self, page: Unsettled) -> Unsettled | None:
        """Enter a remembered page; returns what is still to be remembered."""
        if page.claim is not None:
            try:
                if await self._index.commit(page.claim):
                    self._count("committed", 1)
                    return None
            except IndexUnavailableError as error:
                self._failed(error, "The index could not record that a page is stored")
                return page
        return (await self._enter(page.document))[1]

    async def _enter(self, source: Document | Fingerprint) -> tuple[bool, Unsettled | None]:
        """Enter a page that is stored already into the index.

        :returns: False if a like page is there; and what has to be remembered, because the index
            can't be used
        """
        verdict = await self._examine(source)
        if verdict.claim is not None:
            if verdict.earlier and self._versions.replaced:
                # Whether it was stored before or after that version is not known: the row may hold
                # either, so the index calls neither of them stored.
                await self.release(verdict)
                return True, None
            return await self._commit(verdict, again=False)
        if verdict.outcome == UNCHECKED or not await self._replaced(verdict):
            return True, Unsettled(source)
        if verdict.outcome == DUPLICATE:
            self._count("stored-twice", 1)
            logger.info("%s was stored although it is a %s", source.key, verdict)
            return False, None
        return True, None

    async def _replaced(self, verdict: Verdict) -> bool:
        """Forget what a page that is stored already may have replaced; False: not possible now.

        A page with its key that is on its way may have been written before it, so its end is
        awaited, for ``pending_wait`` at the most.
        """
        page, ends = verdict.fingerprint, time.monotonic() + self.options.pending_wait
        try:
            while page is not None:
                pending = (await self._versions.forget_others(page)).pending
                left = min(ends, self._claims.waits_end) - time.monotonic()
                if not pending or left <= 0:
                    break
                await self._claims.wait(pending, min(left, _POLL))
        except IndexUnavailableError as error:
            self._failed(error, "The index could not record that %s is replaced", verdict.key)
            return False
        return True


def _source(verdict: Verdict) -> Document | Fingerprint | None:
    """What a page can be decided by a second time."""
    return verdict.document or verdict.fingerprint


def _unchecked(what: Document | Fingerprint, reason: str) -> Verdict:
    if isinstance(what, Fingerprint):
        return Verdict(what.key, UNCHECKED, reason, fingerprint=what)
    return Verdict(what.key, UNCHECKED, reason, document=what)
