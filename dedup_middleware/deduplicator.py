"""The heart, without Scrapy: document in, verdict out; then commit or release."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING

from dedup_middleware import fingerprint as fp
from dedup_middleware.availability import Breaker, CatchUp, FaultLog, Unsettled, stop
from dedup_middleware.errors import IndexRefusedError, IndexReplacedError, IndexUnavailableError
from dedup_middleware.fingerprint import Document, Fingerprint, Fingerprinter, Verdict
from dedup_middleware.index.base import Claim, Entry, Index
from dedup_middleware.index.opening import open_index
from dedup_middleware.index.record_layout import RECORD, RecordLayout
from dedup_middleware.index.tables import Slot
from dedup_middleware.judging import Judge, Ruling
from dedup_middleware.methods.base import content_bytes, content_record
from dedup_middleware.methods.choose import choose_method
from dedup_middleware.options import Options

if TYPE_CHECKING:
    from typing_extensions import Self

logger = logging.getLogger(__name__)

PENDING_TIMEOUT = "pending-timeout"
INDEX_UNAVAILABLE = "index-unavailable"
_MASK64 = (1 << 64) - 1
_FIRST_POLL = 0.02
_LONGEST_POLL = 0.5

Count = Callable[[str, float], None]


class Deduplicator:
    """Decides pages against one index; any number of decisions may run at once.

    :param options: how pages are compared and where the index is
    :param count: called with the name of a counter and what to add to it
    :param index: used instead of the one that ``options.index_url`` names

    Use it as an asynchronous context manager, or call :meth:`open` and :meth:`close`.
    """

    def __init__(
        self,
        options: Options,
        *,
        count: Count | None = None,
        index: Index | None = None,
    ) -> None:
        self.options = options
        self._count: Count = count or (lambda _name, _n: None)
        self._index = open_index(options) if index is None else index
        self._method = choose_method(options)
        self._record = RecordLayout(
            self._method.fields, text=options.keep_address or self._method.keeps_payload
        )
        self._judge = Judge(self._index, self._method, self._count)
        self._fingerprinter: Fingerprinter | None = None
        self._opening = asyncio.Lock()
        self._was_opened = False
        self._breaker = Breaker(time.monotonic)
        self._faults = FaultLog(logger, time.monotonic)
        self._catch_up = CatchUp(self._enter_later, self._breaker, self._count)
        # An event comes when somebody waits for the claim to be settled.
        self._claims: dict[Claim, asyncio.Event | None] = {}
        self._heartbeat: asyncio.Task[None] | None = None
        self._longest_wait = math.inf  # moment at which no page waits for another one any more

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

    async def open(self) -> None:
        """Load dictionary and kernels (in a thread) and open the index.

        :raises IndexUnavailableError: the index can't be reached; decisions made all the same
            are ``unchecked`` until it can
        :raises IndexRefusedError: the index was made with other parameters, or is none
        """
        self._was_opened = True
        await self._ready()

    async def _ready(self) -> Fingerprinter:
        if self._fingerprinter is not None:
            return self._fingerprinter
        async with self._opening:
            if self._fingerprinter is None:
                plain = await asyncio.to_thread(self._warm)
                parameters = {**plain.parameters, RECORD: self._record.parameter}
                if self.options.hash_key:
                    parameters["hash_key"] = f"{int(self.options.hash_key, 16):032x}"
                stored = await self._index.open(parameters)
                self._fingerprinter = await asyncio.to_thread(
                    Fingerprinter, self.options, int(stored["hash_key"], 16) & _MASK64
                )
                if self._heartbeat is None:
                    self._heartbeat = asyncio.create_task(self._beat())
            return self._fingerprinter

    def _warm(self) -> Fingerprinter:
        """Load or compile every kernel now, in a thread, and not while the first page waits.

        Those that take the text out of HTML are left out: they run in threads, and only if there is
        any.
        """
        # The parameters must not depend on the key, which is the index's own.
        fingerprinter = Fingerprinter(self.options, 0)
        self._index.warm()
        words = " ".join(f"第{i}段文字 word{i}" for i in range(2 * self.options.min_features + 40))
        for text in (
            words,
            "一个页面",
        ):  # one of each kind: compared by its shingles, and as a whole
            page = fingerprinter(Document(key="", title="题目", text=text))
            self._method.judge(page, content_record(page), [page.payload])
            self._method.places(page)
            self._method.probes(page)
        return fingerprinter

    async def close(self) -> None:
        """Check what went by unchecked, give back open claims, close the index.

        Each step is done whatever fails in those before it, also if this call is cancelled. Pages
        that could not be checked are counted and logged.
        """
        self._longest_wait = time.monotonic() + self.options.pending_wait
        self._breaker.worked()
        if self._claims:
            self._count("claim/unresolved", len(self._claims))
        async with contextlib.AsyncExitStack() as steps:  # the last one is done first
            steps.callback(self._faults.end)
            steps.push_async_callback(self._index.close)
            steps.callback(self._catch_up.end)
            steps.push_async_callback(self._release_all)
            steps.push_async_callback(self._catch_up.stop)
            steps.push_async_callback(self._catch_up.run)
            # First: a remembered copy of such a page would wait for it in vain.
            steps.push_async_callback(self._release_all)
            steps.push_async_callback(stop, self._heartbeat)

    async def _release_all(self) -> None:
        if not self._breaker.closed:
            return
        try:
            while self._claims:
                claim = next(iter(self._claims))
                await self._index.release(claim)
                self._forget_claim(claim)
        except IndexUnavailableError as error:
            self._breaker.failed()
            self._count("error/index", 1)
            self._faults.warn(
                error,
                "The index can't be told of %d open claims, which run out by themselves",
                len(self._claims),
            )

    async def read(self, document: Document) -> Document:
        """The document with its text, extracted from the HTML in a thread if need be."""
        if document.text is not None or document.html is None:
            return document
        started = time.perf_counter()
        document = await asyncio.to_thread(fp.read, document, self.options.extractor)
        self._count("seconds/extraction", time.perf_counter() - started)
        return document

    async def decide(self, document: Document) -> Verdict:
        """Whether what a page says is stored already.

        A verdict with outcome ``new`` holds a claim: call :meth:`commit` once the page is stored,
        or :meth:`release` when it was not.
        """
        if document.text is None:
            document = await self.read(document)
        verdict = await self._decide(document)
        self._count("pages", 1)
        self._count(verdict.outcome, 1)
        self._count(f"reason/{verdict.reason}", 1)
        return verdict

    async def _decide(self, document: Document) -> Verdict:
        verdict = await self._examine(document)
        if verdict.outcome not in (fp.UNCHECKED, fp.EMPTY):
            self._catch_up.start()
        return verdict

    async def _examine(self, document: Document) -> Verdict:
        if not self._breaker.closed:
            return self._unchecked(document, INDEX_UNAVAILABLE)
        try:
            try:
                verdict = await self._judged(document)
            except IndexReplacedError:
                verdict = await self._judged(document)  # with the key of the index of now
        except IndexRefusedError as error:
            if not self._was_opened:
                raise  # nobody has heard of it yet
            self._failed(error, "The index can't be used")
            return self._unchecked(document, INDEX_UNAVAILABLE)
        except IndexUnavailableError as error:
            self._failed(error, "The index can't be used")
            return self._unchecked(document, INDEX_UNAVAILABLE)
        self._breaker.worked()
        return verdict

    async def _judged(self, document: Document) -> Verdict:
        fingerprinter = await self._ready()
        started = time.perf_counter()
        page = fingerprinter(document)
        self._count("seconds/fingerprint", time.perf_counter() - started)
        if page.is_empty:
            return Verdict(document.key, fp.EMPTY, "no-text", fingerprint=page)
        started = time.perf_counter()
        try:
            verdict = await self._place(document, page)
        except IndexReplacedError:
            if self._fingerprinter is fingerprinter:  # else somebody has opened it again
                self._fingerprinter = None
            raise
        self._count("seconds/index", time.perf_counter() - started)
        return verdict

    def _unchecked(self, document: Document, reason: str) -> Verdict:
        return Verdict(document.key, fp.UNCHECKED, reason, document=document)

    async def _place(self, document: Document, page: Fingerprint) -> Verdict:
        """Judge and claim until one of the two holds."""
        named = self.options.keep_address and not fp.is_content_key(page.key)
        address = page.key if named else None
        entry = Entry(
            self._method.places(page),
            content_bytes(page),
            address,
            page.payload,
            exact=self._method.settles_exact,
        )
        lease = self.options.lease
        search, ruling, claim = await self._judge.propose(page, entry, lease)
        deadline = time.monotonic() + self.options.pending_wait
        poll = _FIRST_POLL
        while claim is None:
            if ruling.match is not None:
                await self._keep_alive(ruling.match.number, search.slots)
                return self._dropped(page, ruling)
            if ruling.pending:
                left = min(deadline, self._longest_wait) - time.monotonic()
                if left <= 0:
                    self._count("pending/timeout", 1)
                    return self._unchecked(document, PENDING_TIMEOUT)
                await self._wait(ruling.pending, min(poll, left))
                poll = min(poll * 2, _LONGEST_POLL)
            elif search.reading is None:
                await search.read()
            else:
                outcome = await self._index.claim(entry, search.reading, lease)
                if isinstance(outcome, Claim):
                    claim = outcome
                    break
                self._count("claim/retry", 1)
                search.extend(outcome)
            ruling = await search.rule()
        self._claims[claim] = None
        return Verdict(
            page.key,
            fp.NEW,
            ruling.reason,
            None,
            page,
            claim=claim,
            document=document,
            nearest=ruling.nearest,
        )

    async def _keep_alive(self, number: int, slots: Sequence[Slot]) -> None:
        """Enter a stored page anew that was seen again and would be the next to expire."""
        if self.options.window and (await self._index.expiring([number]))[0]:
            self._count("renewed", 1)
            await self._index.refresh(number, slots)

    def _dropped(self, page: Fingerprint, ruling: Ruling) -> Verdict:
        outcome = fp.REVISIT if ruling.same_key else fp.DUPLICATE
        return Verdict(page.key, outcome, ruling.reason, ruling.match, page)

    async def _wait(self, pending: frozenset[int], seconds: float) -> None:
        """Until one of the pages is settled in this process, or the time is over."""
        self._count("pending/wait", 1)
        events = []
        for claim, event in self._claims.items():
            if claim.number in pending:
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

    async def commit(self, verdict: Verdict) -> bool:
        """The page is stored.

        For an ``unchecked`` page it is remembered, to be put into the index later.

        :returns: False if meanwhile, because the lease had run out, a like page took its place
        """
        if verdict.claim is None:
            if verdict.outcome == fp.UNCHECKED and verdict.document is not None:
                self._catch_up.remember(Unsettled(verdict.document))
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
        claim, document = verdict.claim, verdict.document
        assert claim is not None
        try:
            stored = await self._index.commit(claim)
        except IndexUnavailableError as error:
            self._failed(error, "The index can't be told that %s is stored", verdict.key)
            return True, None if document is None else Unsettled(document, claim)
        finally:
            self._forget_claim(claim)
        if stored:
            self._count("committed", 1)
            return True, None
        # Its lease had run out, and another page may have taken its place: decide anew.
        self._count("claim/lost", 1)
        if document is None:
            return True, None
        return await self._enter(document) if again else (True, Unsettled(document))

    async def release(self, verdict: Verdict) -> None:
        """The page was not stored after all; the next like page may take its place."""
        if verdict.claim is None:
            return
        try:
            await self._index.release(verdict.claim)
            self._count("released", 1)
        except IndexUnavailableError as error:
            self._failed(error, "The index can't be told that %s is free", verdict.key)
        finally:
            self._forget_claim(verdict.claim)

    def _failed(self, error: Exception, message: str, *arguments: object) -> None:
        self._breaker.failed()
        self._count("error/index", 1)
        self._faults.warn(error, message, *arguments)

    def _forget_claim(self, claim: Claim) -> None:
        event = self._claims.pop(claim, None)
        if event is not None:
            event.set()

    async def _enter_later(self, page: Unsettled) -> Unsettled | None:
        """Enter a remembered page; returns what is still to be remembered."""
        if page.claim is not None:
            try:
                if await self._index.commit(page.claim):
                    self._count("committed", 1)
                    return None
            except IndexUnavailableError as error:
                self._failed(error, "The index can't be told that a page is stored")
                return page
        return (await self._enter(page.document))[1]

    async def _enter(self, document: Document) -> tuple[bool, Unsettled | None]:
        """Put a page that is stored already into the index.

        :returns: False if a like page is there; and what has to be remembered, because the index
            can't be used
        """
        verdict = await self._examine(document)
        if verdict.claim is not None:
            return await self._commit(verdict, again=False)
        if verdict.outcome == fp.UNCHECKED:
            return True, Unsettled(document)
        if verdict.outcome == fp.DUPLICATE:
            self._count("stored-twice", 1)
            logger.info("%s was stored although it is a %s", document.key, verdict)
            return False, None
        return True, None

    async def _beat(self) -> None:
        """Extend the leases of pages that take long to be stored."""
        while True:
            await asyncio.sleep(self.options.lease / 3)
            claims = list(self._claims)
            if not claims:
                continue
            try:
                await self._index.renew(claims, self.options.lease)
            except IndexUnavailableError as error:
                self._count("error/index", 1)
                self._faults.warn(error, "Leases can't be extended")
            except Exception:
                # Without it the leases of all pages on their way would run out.
                self._count("error/internal", 1)
                logger.exception("Leases can't be extended: an error of the plugin")
