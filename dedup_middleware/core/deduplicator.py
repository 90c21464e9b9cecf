"""The deduplicator decides documents, and commits or releases their claims; needs no Scrapy."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING

import attrs

from dedup_middleware.base.errors import (
    DedupError,
    IndexRefusedError,
    IndexReplacedError,
    IndexUnavailableError,
)
from dedup_middleware.base.options import Options
from dedup_middleware.core.availability import Count, LoopGuard, Outage
from dedup_middleware.core.driver import Driver
from dedup_middleware.core.fingerprinter import Fingerprinter
from dedup_middleware.core.fingerprinter import read as read_document
from dedup_middleware.core.former import Former
from dedup_middleware.core.settlement import INDEX_UNAVAILABLE, OpenClaims, Settlement, unchecked
from dedup_middleware.core.versions import Versions
from dedup_middleware.index.base import Index
from dedup_middleware.index.batching import stop
from dedup_middleware.index.opening import open_index
from dedup_middleware.index.parameters import RECORD, RecordLayout, hash_key_of
from dedup_middleware.methods.base import Method, content_bytes, content_record
from dedup_middleware.methods.choose import choose_method
from dedup_middleware.model.buckets import BucketKey
from dedup_middleware.model.claims import Claim, Entry
from dedup_middleware.model.documents import (
    DUPLICATE,
    EMPTY,
    NEW,
    PENDING_TIMEOUT,
    REVISIT,
    UNCHECKED,
    Document,
    Verdict,
)
from dedup_middleware.model.fingerprint import Fingerprint
from dedup_middleware.model.keys import is_content_key, keyed_hash

if TYPE_CHECKING:
    from typing_extensions import Self

_WHICH = {
    Document: ", as dedup_middleware.Document(key=..., text=...) makes it",
    Verdict: " that decide() returned, not its claim or its key",
}


def entry_of(method: Method, options: Options, page: Fingerprint) -> Entry:
    """Make the entry of a page, by which it is proposed to the index."""
    named = options.keep_address and not is_content_key(page.key)
    return Entry(
        method.bucket_key_array(page),
        content_bytes(page, sketched=method.keeps_sketch),
        page.key if named else None,
        page.payload,
        # The title of a short page counts as its text, and the index does not compare titles.
        exact=method.settles_exact and not len(page.wording.title),
    )


class Deduplicator:
    """Decides pages against one index; any number of decisions may run at once.

    Use it as an asynchronous context manager, or call :meth:`open` and :meth:`close`, in the
    process and the event loop in which it decides: calls elsewhere raise :class:`.DedupError`.

    :param options: how pages are compared and where the index is
    :param count: called with the name of a counter and what to add to it
    :param index: index to use instead of the one that ``options.index_url`` names
    :param former: index to use instead of the one that ``options.former_index_url`` names
    :raises OptionsError: the settings contradict each other
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
            options.versions == "replace",
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
        self._is_warm = self._was_opened = False
        self._outage = Outage(options.safe_index_url, self._count)
        self._begin()

    def _begin(self) -> None:
        """Reset the state, so that the next process or event loop can differ from the last."""
        self._is_closed, self._guard = False, LoopGuard()
        self._fingerprinter: Fingerprinter | None = None
        self._heartbeat: asyncio.Task[None] | None = None
        self._opening, self._warming = asyncio.Lock(), asyncio.Lock()
        self._settlement = Settlement(
            self._index,
            self._versions,
            self._claims,
            self._outage,
            self._examine,
            partial(entry_of, self._method, self.options),
            self.options.pending_wait,
            self._count,
        )
        self._outage.breaker.worked()  # the index may have been unavailable at the close
        self._claims.reset()

    async def __aenter__(self) -> Self:
        try:
            await self.open()
        except (IndexRefusedError, IndexUnavailableError, asyncio.CancelledError):
            await self.close()  # what is open already, such as a former index
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def open(self, *, warm: bool = True) -> None:
        """Load dictionary and kernels (in a thread) and open the index; also reopens after a close.

        If the event loop in use has ended, the deduplicator is closed first.

        :param warm: load or compile the kernels now, not with the first page
        :raises IndexUnavailableError: it can't be reached; until it can, pages are ``unchecked``
        :raises IndexRefusedError: the index was made with other parameters, or is no index
        """
        self._was_opened = True
        if self._guard.has_ended:  # also after a close: a call under way may have reconnected
            await self.close()
        if self._is_closed:
            self._begin()
        self._guard.check()
        if warm:
            await self.warm()
        await self._ready()

    async def warm(self) -> None:
        """Load or compile, in a thread, the kernels that decisions need; the index is not used."""
        if self._is_warm:
            return
        async with self._warming:
            if not self._is_warm:
                await asyncio.to_thread(self._use_kernels)
                self._is_warm = True

    @cached_property
    def _plain(self) -> Fingerprinter:
        """A fingerprinter with hash key 0, for warming up and for the parameters."""
        return Fingerprinter(self.options, 0)

    def _use_kernels(self) -> None:
        from dedup_middleware.base import jit  # numba stays lazy
        from dedup_middleware.text import extract

        with jit.garbage_kept():
            self._index.warm()
            extract.warm()
            count = 2 * self.options.min_features + 40
            words = "\n".join(f"一段文字 word{i}" for i in range(count))
            # One page that is compared by its shingles, and one by its exact text.
            for text in (words, "一个页面"):
                page, other = (
                    self._plain(Document(key=f"https://one/{title}", title=title, text=text))
                    for title in ("题目", "标题")
                )
                stored = content_record(page, sketched=self._method.keeps_sketch)
                self._method.judge(other, stored, [page.payload])
                self._method.bucket_key_array(page)
                self._method.probes(page)

    async def _ready(self) -> Fingerprinter:
        """Open the index, unless it is open; return the fingerprinter with its hash key."""
        if self._fingerprinter is not None:
            return self._fingerprinter
        async with self._opening:
            if self._fingerprinter is None:
                self._outage.check()  # another decision may have tried meanwhile
                # The parameters must not depend on the hash key, which comes from the index.
                plain = await asyncio.to_thread(lambda: self._plain.parameters)
                parameters = {**plain, RECORD: self._record.parameter}
                if self.options.hash_key:
                    parameters["hash_key"] = f"{int(self.options.hash_key, 16):032x}"
                if self._former is not None:
                    parameters = await self._former.agree(parameters)
                stored = await self._index.open(parameters)
                if self._former is not None:
                    self._former.opened(stored)
                self._fingerprinter = await asyncio.to_thread(
                    Fingerprinter, self.options, hash_key_of(stored, self.options.safe_index_url)
                )
                if self._heartbeat is None:
                    beat = self._settlement.keep_alive(self.options.lease)
                    self._heartbeat = asyncio.create_task(beat)
            return self._fingerprinter

    def end_waits(self) -> None:
        """Stop waiting for similar pending pages: waiting pages pass unchecked."""
        self._claims.waits_end = time.monotonic()

    async def close(self) -> None:
        """Enter pages that passed unchecked, release open claims, and close the index.

        Each step is done even if an earlier one fails or this call is cancelled. Pages that could
        not be entered are counted and logged. In a forked process nothing is done.
        """
        if self._guard.is_forked:
            return  # everything belongs to the process that opened it
        if not (self._is_closed or self._guard.has_ended):
            self._guard.check()  # the tasks of another event loop do not end while this one waits
        self._is_closed = True
        self._claims.waits_end = time.monotonic() + self.options.pending_wait
        self._outage.breaker.worked()
        if len(self._claims):
            self._count("claim/unresolved", len(self._claims))
        async with contextlib.AsyncExitStack() as steps:  # run in reverse order
            if self._guard.has_ended:
                steps.enter_context(contextlib.suppress(RuntimeError))  # of its connections
            steps.callback(self._outage.faults.end)
            steps.push_async_callback(self._index.close)
            if self._former is not None:
                steps.push_async_callback(self._former.close)
            steps.callback(self._settlement.end)
            steps.push_async_callback(self._settlement.release_all)
            steps.push_async_callback(self._settlement.stop)
            # At most as long as one call takes, with its retries, if the index hangs.
            ends = time.monotonic() + self.options.timeout * (1 + self.options.retries)
            steps.push_async_callback(self._settlement.catch_up_at_last, ends)
            # Before catch_up: a remembered copy of a claimed page would wait for the claim.
            steps.push_async_callback(self._settlement.release_all)
            steps.push_async_callback(stop, self._heartbeat)
        self._heartbeat = None  # the task refers to this object, whose index takes memory

    async def read(self, document: Document) -> Document:
        """Return the document with its text, extracted from the HTML in a thread if need be."""
        if document.text is not None or document.html is None:
            return document
        await self.warm()
        document, seconds = await asyncio.to_thread(self._extract, document)
        self._count("seconds/extraction", seconds)
        return document

    def _extract(self, document: Document) -> tuple[Document, float]:
        """Read a document; also return the seconds of processor time that it took."""
        # Not the wall clock: many threads wait for each other here.
        started = time.thread_time()
        document = read_document(document, self.options.extractor)
        return document, time.thread_time() - started

    async def decide(self, document: Document) -> Verdict:
        """Decide whether the text of a page is stored already.

        A verdict with outcome ``new`` holds a claim: call :meth:`commit` once the page is stored,
        or :meth:`release` if it was not.
        """
        self._check(document, Document, "decide")
        if document.text is None:
            document = await self.read(document)
        return await self._decide(document)

    async def decide_fingerprint(self, page: Fingerprint) -> Verdict:
        """Decide a page by its fingerprint, which may come from another process.

        It must be made with the options and the hash key of this index, or it matches nothing; if
        the index is replaced by one with another key, pages are ``unchecked``. The verdict holds no
        document, and if the index is unavailable, the fingerprint is entered later.
        """
        self._check(page, Fingerprint, "decide_fingerprint")
        return await self._decide(page)

    def _check(self, given: object, kind: type, call: str) -> None:
        if not isinstance(given, kind):
            raise TypeError(
                f"Deduplicator.{call} needs a {kind.__name__}{_WHICH.get(kind, '')}; this is a "
                f"{type(given).__name__}"
            )
        self._guard.check()

    async def _decide(self, what: Document | Fingerprint) -> Verdict:
        verdict = await self._examine(what)
        # The index has answered. What a page waited for in vain may be a page of the backlog.
        if verdict.outcome not in (UNCHECKED, EMPTY) or verdict.reason == PENDING_TIMEOUT:
            self._settlement.start()
        self._count("pages", 1)
        self._count(verdict.outcome, 1)
        self._count(f"reason/{verdict.reason}", 1)
        if verdict.previous is not None and verdict.previous.figures:
            self._count("changed/figures", 1)
        return verdict

    async def _examine(self, what: Document | Fingerprint) -> Verdict:
        """Decide a page without counting its outcome; ``unchecked`` if the index can't be used."""
        if not self._outage.breaker.closed:
            return unchecked(what, INDEX_UNAVAILABLE)
        try:
            try:
                verdict = await self._judged(what)
            except IndexReplacedError:
                if isinstance(what, Fingerprint):
                    raise
                verdict = await self._judged(what)  # with the hash key of the new index
        except (IndexRefusedError, IndexUnavailableError) as error:
            if isinstance(error, IndexRefusedError) and not self._was_opened:
                raise  # open() was not called, so the caller does not know yet
            self._outage.failed(error, "The index can't be used")
            return unchecked(what, INDEX_UNAVAILABLE)
        self._outage.ended()
        return verdict

    def report_outage(self, error: DedupError, message: str) -> None:
        """Log that the index can't be used; decisions then do not log the same error again."""
        self._outage.report(error, message)

    async def _judged(self, what: Document | Fingerprint) -> Verdict:
        """Fingerprint a page and decide it; raises if the index can't be used."""
        if not self._is_warm:
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
                earlier = list[int]()
                if self._keeps_empty:  # the page goes on to storage
                    earlier, _ = await self._versions.forget_others(page)
                return Verdict(page.key, EMPTY, "no-text", fingerprint=page, earlier=tuple(earlier))
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
        """Decide a page with a text by proposing it to the index."""
        entry = entry_of(self._method, self.options, page)
        ruling, claim = await self._driver.decide(page, entry)
        if claim is not None:
            await self._versions.forget_earlier(claim, ruling.earlier)
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
            await self._versions.forget_others(page)  # the page goes on to storage
            return unchecked(document or page, PENDING_TIMEOUT)
        await self._keep_alive(ruling.match.number, entry.bucket_keys)
        outcome = REVISIT if ruling.same_key else DUPLICATE
        return Verdict(page.key, outcome, ruling.reason, ruling.match, page, document=document)

    async def supersede(self, verdict: Verdict) -> Verdict:
        """Forget the versions that a duplicate, a revisit or an empty page replaces in storage.

        Call it before such a page is stored; other outcomes need no call. The index forgets all
        other texts under the page's key (``DEDUP_VERSIONS``).

        :returns: the verdict to commit or release instead; that of a revisit has a claim if an
            earlier version was forgotten, or another was pending, and the page could take its place
        """
        self._check(verdict, Verdict, "supersede")
        page, document = verdict.fingerprint, verdict.document
        # For an empty page that the options keep this was done when it was decided.
        is_empty = verdict.outcome == EMPTY and not self._keeps_empty
        if page is None or not (verdict.is_duplicate or verdict.is_revisit or is_empty):
            return verdict
        try:
            again, earlier, claim = True, list[int](), None
            ends = time.monotonic() + self.options.pending_wait
            while again:
                found, pending = await self._versions.forget_others(page)
                earlier += found
                again = verdict.is_revisit and bool(found or pending)
                if again:  # the text that made it a revisit is forgotten, or soon may be
                    placed = await self._place(document, page)
                    earlier += placed.earlier
                    claim, again = placed.claim, placed.is_revisit
                if again and not found:  # the pending page's process has yet to forget that text
                    again = await self._claims.poll(set(pending), ends)
            if not earlier and claim is None:
                return verdict
        except IndexUnavailableError as error:
            self._outage.failed(
                error, "The index could not record that %s is replaced", verdict.key
            )
            return unchecked(document or page, INDEX_UNAVAILABLE)
        return attrs.evolve(verdict, claim=claim, earlier=tuple(earlier))

    async def _keep_alive(self, page_id: int, bucket_keys: Sequence[BucketKey]) -> None:
        """Renew a stored page that was found again, if it is in the generation to expire next."""
        index = self._index
        if not self.options.window or not await index.expiring(page_id):
            return
        if not await index.is_entered_anew(page_id):
            self._count("renewed", 1)
            await index.refresh(page_id, bucket_keys)

    async def commit(self, verdict: Verdict) -> bool:
        """Record that the page is stored.

        An ``unchecked`` page is remembered and entered into the index later. For any other page
        without a claim, the index forgets other versions once more if storage replaces rows
        (``DEDUP_VERSIONS``): this page may have replaced one that was claimed meanwhile.

        :returns: False if the lease had run out and a similar page was stored in between
        """
        self._check(verdict, Verdict, "commit")
        return await self._settlement.commit(verdict)

    def page_id_of(self, claim: Claim) -> int:
        """Page id under which a claim was committed; of a lost claim, that of its replacement."""
        return self._settlement.page_id_of(claim)

    async def release(self, verdict: Verdict) -> None:
        """Release the claim of a page that was not stored, so that a similar page may be."""
        self._check(verdict, Verdict, "release")
        await self._settlement.release(verdict)

    async def forget(self, page_ids: Sequence[int]) -> int:
        """Forget committed pages that turn out not to be stored.

        :param page_ids: as :meth:`page_id_of` returns them
        :returns: how many of them were committed
        :raises DedupError: the index can't be used
        """
        self._guard.check()
        return await self._index.forget_wholly(page_ids)

    async def superseded(self, verdict: Verdict) -> list[str]:
        """Keys of the pages that a stored page supersedes (``DEDUP_ON_FULLER``), to be deleted.

        Pages that the index calls stored are left out: their copies are dropped, so they must stay.
        """
        self._check(verdict, Verdict, "superseded")
        if self._fingerprinter is None:  # another index has taken the place of the verdict's one
            return []
        hash_of = partial(keyed_hash, hash_key=self._fingerprinter.hash_key)
        try:
            return await self._versions.superseded(verdict, hash_of)
        except IndexUnavailableError as error:
            self._outage.failed(error, "It is not known what %s supersedes", verdict.key)
            return []

    async def deleted(self, keys: Sequence[str]) -> None:
        """Forget what is stored under keys whose rows storage may just have deleted.

        Call it after the deletion that :meth:`superseded` allows: if the longer page changed
        meanwhile, the index may have taken a text under such a key as new.
        """
        if self._versions.replaced:
            await self._settlement.deleted(keys)
