"""The heart, without Scrapy: document in, verdict out; then commit or release."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING

import attrs

from dedup_middleware import fingerprint as fp
from dedup_middleware.availability import Backlog, Breaker, Unsettled
from dedup_middleware.claims import OpenClaims
from dedup_middleware.deciding import Driver
from dedup_middleware.errors import IndexUnavailableError
from dedup_middleware.fingerprint import Document, Fingerprint, Fingerprinter, Verdict
from dedup_middleware.index.base import Claim, Entry, Index
from dedup_middleware.index.opening import open_index
from dedup_middleware.index.record_layout import RECORD, RecordLayout
from dedup_middleware.index.tables import Slot
from dedup_middleware.judging import Ruling
from dedup_middleware.methods.base import content_bytes, content_record
from dedup_middleware.methods.choose import choose_method
from dedup_middleware.options import Options
from dedup_middleware.versions import REPLACE, Versions

if TYPE_CHECKING:
    from typing_extensions import Self

logger = logging.getLogger(__name__)

PENDING_TIMEOUT = "pending-timeout"
INDEX_UNAVAILABLE = "index-unavailable"
_MASK64 = (1 << 64) - 1

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
        self._versions = Versions(self._index, options.versions == REPLACE, self._count)
        self._claims = OpenClaims()
        self._driver = Driver(
            self._index,
            self._method,
            self._count,
            self._claims,
            options.lease,
            options.pending_wait,
        )
        self._fingerprinter: Fingerprinter | None = None
        self._opening = asyncio.Lock()
        self._breaker = Breaker(time.monotonic)
        self._backlog = Backlog()
        self._heartbeat: asyncio.Task[None] | None = None
        self._catching_up: asyncio.Task[None] | None = None

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
                self._heartbeat = asyncio.create_task(self._beat())
            return self._fingerprinter

    def _warm(self) -> Fingerprinter:
        """Load or compile every kernel now, in a thread, and not while the first page waits."""
        from dedup_middleware.index.scan import neighbours

        # The parameters must not depend on the key, which is the index's own.
        fingerprinter = Fingerprinter(self.options, 0)
        page = fingerprinter(Document(key="", text="一个页面的正文，有3个数字。 And words. " * 4))
        self._method.judge(page, content_record(page), [page.payload])
        slots = self._method.places(page)
        neighbours(slots, [b"\0" * slot.width for slot in slots], self._method.scan_distance)
        return fingerprinter

    async def close(self) -> None:
        """Check what went by unchecked, give back open claims, close the index."""
        await _stop(self._heartbeat)
        await _stop(self._catching_up)
        self._breaker.worked()
        await self._catch_up()
        try:
            for claim in self._claims:
                self._count("claim/unresolved", 1)
                await self._index.release(claim)
                self._claims.settle(claim)
        except IndexUnavailableError as error:
            logger.warning(
                "The index could not be told of %d open claims, which run out by themselves: %s",
                len(self._claims),
                error,
            )
        if len(self._backlog):
            logger.warning(
                "%d pages were stored without a check, because the index could not be used; "
                "later copies of them will be stored once more",
                len(self._backlog),
            )
        await self._index.close()

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
        return self._counted(await self._decide(document))

    async def decide_fingerprint(self, page: Fingerprint) -> Verdict:
        """The same for a page whose fingerprint is at hand, made in another process for example.

        It must have been made with the options and the hash key of this index, or it is compared
        with what it has nothing in common with. The verdict holds no document; what is put into
        the index later, where that can't be reached now, is the fingerprint.
        """
        return self._counted(await self._decide(page))

    def _counted(self, verdict: Verdict) -> Verdict:
        self._count("pages", 1)
        self._count(verdict.outcome, 1)
        self._count(f"reason/{verdict.reason}", 1)
        return verdict

    async def _decide(self, what: Document | Fingerprint) -> Verdict:
        document = what if isinstance(what, Document) else None
        page = what if isinstance(what, Fingerprint) else None
        if not self._breaker.closed:
            return _unchecked(what, INDEX_UNAVAILABLE)
        try:
            fingerprinter = await self._ready()
            if document is not None:
                started = time.perf_counter()
                page = fingerprinter(document)
                self._count("seconds/fingerprint", time.perf_counter() - started)
            assert page is not None
            if page.is_empty:
                await self._make_way(page, dropped=self.options.on_empty == "drop")
                return Verdict(page.key, fp.EMPTY, "no-text", fingerprint=page)
            started = time.perf_counter()
            verdict = await self._place(document, page)
            self._count("seconds/index", time.perf_counter() - started)
        except IndexUnavailableError as error:
            self._failed("The index can't be used: %s", error)
            return _unchecked(what, INDEX_UNAVAILABLE)
        self._breaker.worked()
        if len(self._backlog) and (self._catching_up is None or self._catching_up.done()):
            # Beside the crawl: no page waits for what was missed earlier.
            self._catching_up = asyncio.create_task(self._catch_up())
        return verdict

    async def _place(self, document: Document | None, page: Fingerprint) -> Verdict:
        """Propose a page until it is settled what it is; see :class:`.deciding.Driver`."""
        named = self.options.keep_address and not fp.is_content_key(page.key)
        entry = Entry(
            self._method.places(page),
            content_bytes(page),
            page.key if named else None,
            page.payload,
            exact=self._method.settles_exact,
        )
        ruling, claim = await self._driver.decide(page, entry)
        if claim is not None:
            await self._versions.give_way(claim, ruling.earlier)
            self._claims.add(claim)
            return Verdict(
                page.key,
                fp.NEW,
                ruling.reason,
                None,
                page,
                claim=claim,
                document=document,
                nearest=ruling.nearest,
                earlier=ruling.earlier,
            )
        if ruling.match is None:
            self._count("pending/timeout", 1)
            await self._make_way(page, dropped=self.options.on_error == "drop")
            return _unchecked(document or page, PENDING_TIMEOUT)
        await self._keep_alive(ruling.match.number, entry.slots)
        return self._dropped(document, page, ruling)

    async def _make_way(self, page: Fingerprint, *, dropped: bool) -> None:
        """Forget what a page replaces that goes to storage without a claim, if it does."""
        if not dropped or self.options.action == "mark":
            await self._versions.forget_others(page)

    async def supersede(self, verdict: Verdict) -> Verdict:
        """Call this before a page is stored although it is a duplicate or a revisit.

        What the index holds under its key is forgotten, unless it is the same text, for storage
        replaces it (``DEDUP_VERSIONS``). Nothing has to be called for other outcomes.

        :returns: the verdict to commit or release instead: that of a revisit has a claim, if the
            page could take the place of its earlier version
        """
        page, document = verdict.fingerprint, verdict.document
        if page is None or not (verdict.is_duplicate or verdict.is_revisit):
            return verdict
        try:
            earlier = await self._versions.forget_others(page)
            if not earlier:
                return verdict
            claim = None
            if verdict.is_revisit:
                claim = (await self._place(document, page)).claim
        except IndexUnavailableError as error:
            self._failed("The index can't be told that %s is replaced: %s", verdict.key, error)
            return _unchecked(document or page, INDEX_UNAVAILABLE)
        return attrs.evolve(verdict, claim=claim, earlier=earlier)

    async def _keep_alive(self, number: int, slots: Sequence[Slot]) -> None:
        """Enter a stored page anew that was seen again and would be the next to expire."""
        if self.options.window and (await self._index.expiring([number]))[0]:
            self._count("renewed", 1)
            await self._index.refresh(number, slots)

    def _dropped(self, document: Document | None, page: Fingerprint, ruling: Ruling) -> Verdict:
        outcome = fp.REVISIT if ruling.same_key else fp.DUPLICATE
        return Verdict(page.key, outcome, ruling.reason, ruling.match, page, document=document)

    async def commit(self, verdict: Verdict) -> bool:
        """The page is stored.

        For an ``unchecked`` page it is remembered, to be put into the index later.

        :returns: False if meanwhile, because the lease had run out, a like page took its place
        """
        if verdict.claim is None:
            source = _source(verdict)
            if verdict.outcome == fp.UNCHECKED and source is not None:
                self._remember(Unsettled(source))
            return True
        try:
            stored = await self._index.commit(verdict.claim)
        except IndexUnavailableError as error:
            self._failed("The index can't be told that %s is stored: %s", verdict.key, error)
            source = _source(verdict)
            if source is not None:
                self._remember(Unsettled(source, verdict.claim))
            return True
        finally:
            self._claims.settle(verdict.claim)
        if stored:
            self._count("committed", 1)
            return True
        # Its lease had run out, and another page may have taken its place: decide anew.
        self._count("claim/lost", 1)
        source = _source(verdict)
        return source is None or await self._settle(Unsettled(source))

    async def release(self, verdict: Verdict) -> None:
        """The page was not stored after all; the next like page may take its place."""
        if verdict.claim is None:
            return
        try:
            await self._index.release(verdict.claim)
            self._count("released", 1)
        except IndexUnavailableError as error:
            self._failed("The index can't be told that %s is free: %s", verdict.key, error)
        finally:
            self._claims.settle(verdict.claim)

    def _failed(self, message: str, *arguments: object) -> None:
        news = self._breaker.failed()
        self._count("error/index", 1)
        logger.log(logging.WARNING if news else logging.DEBUG, message, *arguments)

    def _remember(self, page: Unsettled) -> None:
        self._count("unchecked/remembered", 1)
        forgotten = self._backlog.add(page)
        if forgotten:
            self._count("unchecked/forgotten", forgotten)

    async def _settle(self, page: Unsettled) -> bool:
        """Put a page that is stored already into the index; False if a like one is there."""
        document = page.document
        if page.claim is not None:
            try:
                if await self._index.commit(page.claim):
                    self._count("committed", 1)
                    return True
            except IndexUnavailableError:
                self._breaker.failed()
                self._remember(page)
                return True
        verdict = await self._decide(document)
        if verdict.claim is not None:
            if verdict.earlier and self._versions.replaced:
                # Whether it was stored before or after that version is not known: the row may hold
                # either, so the index calls neither of them stored.
                await self.release(verdict)
                return True
            return await self.commit(verdict)
        if verdict.outcome == fp.UNCHECKED or not await self._replaced(verdict):
            self._remember(Unsettled(document))
        elif verdict.outcome == fp.DUPLICATE:
            self._count("stored-twice", 1)
            logger.info("%s was stored although it is a %s", document.key, verdict)
            return False
        return True

    async def _replaced(self, verdict: Verdict) -> bool:
        """Forget what a page that is stored already may have replaced; False: not possible now."""
        try:
            if verdict.fingerprint is not None:
                await self._versions.forget_others(verdict.fingerprint)
        except IndexUnavailableError as error:
            self._failed("The index can't be told that %s is replaced: %s", verdict.key, error)
            return False
        return True

    async def _catch_up(self) -> None:
        """Check the pages that were stored while the index could not be used."""
        # The length is taken once: a page that comes back unchecked waits for the next time.
        for _ in range(len(self._backlog)):
            if not self._breaker.closed:
                break
            await self._settle(self._backlog.pop())

    async def _beat(self) -> None:
        """Extend the leases of pages that take long to be stored."""
        while True:
            await asyncio.sleep(self.options.lease / 3)
            claims: Sequence[Claim] = list(self._claims)
            if not claims:
                continue
            try:
                await self._index.renew(claims, self.options.lease)
            except IndexUnavailableError as error:
                self._count("error/index", 1)
                logger.warning("Leases could not be extended: %s", error)


def _source(verdict: Verdict) -> Document | Fingerprint | None:
    """What a page can be decided by once more."""
    return verdict.document or verdict.fingerprint


def _unchecked(what: Document | Fingerprint, reason: str) -> Verdict:
    if isinstance(what, Fingerprint):
        return Verdict(what.key, fp.UNCHECKED, reason, fingerprint=what)
    return Verdict(what.key, fp.UNCHECKED, reason, document=what)


async def _stop(task: asyncio.Task[None] | None) -> None:
    if task is not None:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
