"""Drops an item, marks it or lets it pass, once there is a verdict on it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any

from scrapy.core.engine import ExecutionEngine
from scrapy.crawler import Crawler
from scrapy.exceptions import DropItem

from dedup_middleware.base.options import Options
from dedup_middleware.journal.writer import (
    JournalWriter,
    make_drop,
    make_kept,
    make_marked,
    make_notes,
    near_match,
)
from dedup_middleware.model.documents import (
    DUPLICATE,
    EMPTY,
    PENDING_TIMEOUT,
    REVISIT,
    UNCHECKED,
    Document,
    Verdict,
)
from dedup_middleware.model.keys import in_a_line
from dedup_middleware.plugin.items import PageItem, mark
from dedup_middleware.plugin.pagefields import has_symbol
from dedup_middleware.plugin.reports import Reports, fail
from dedup_middleware.plugin.signals import dedup_duplicate

logger = logging.getLogger(__name__)

_NO_FIELD = (
    "DEDUP_ACTION=mark: %s has no field %r for the verdict; declare it or set DEDUP_MARK_FIELD"
)
_REFUSED = (
    "DEDUP_ACTION=mark: %s does not take the verdict, a dict, into its field %r: let the class be "
    "changed and the field take dicts, or name another field in DEDUP_MARK_FIELD"
)
_PAUSE = 0.1  # seconds between two checks of a spider that is being closed
MAX_RUNNING = 1000  # tasks of receivers; while so many run, the next item to be announced waits
LONGEST_WAIT = 30.0  # seconds for which the end of a crawl waits for running receivers


class Dropped(DropItem):
    """Raised to drop an item.

    :ivar key: document key of the dropped item
    :ivar verdict: outcome, reason and, for a duplicate, the stored page that it matches
    """

    def __init__(self, verdict: Verdict, log_level: str | None = None) -> None:
        super().__init__(f"{in_a_line(verdict.key)}: {verdict}", log_level=log_level)
        self.key = verdict.key
        self.verdict = verdict


class NearDuplicate(Dropped):
    """Raised to drop an item whose text a stored page already holds."""


class Action:
    """Drops or marks items as their verdicts and the settings say, and records it in the journal.

    :param crawler: its spider is closed if the index can't be used and ``DEDUP_ON_ERROR=close``
    :ivar journal: writer of the journal once the spider is opened; None: there is no journal
    """

    def __init__(self, crawler: Crawler, options: Options, reports: Reports) -> None:
        self._crawler = crawler
        self._options = options
        self._reports = reports
        self._receiving: set[asyncio.Task[Any]] = set()
        self._closing: asyncio.Future[None] | None = None
        self.journal: JournalWriter | None = None

    async def take(self, verdict: Verdict, document: Document, page: PageItem) -> None:
        """Drop the item, mark it or let it pass; record the verdict and announce it.

        :raises Dropped: the item goes no further
        """
        try:
            self._apply(verdict, document, page)
        except Dropped:
            self._reports.count("dropped")
            self._write(
                lambda to: to.drop(
                    make_drop(verdict, document, page.item, page.names.html, time.time())
                )
            )
            await self._announce(page.item, verdict, dropped=True)
            raise
        make = make_marked if verdict.outcome == DUPLICATE else make_notes
        self._write(
            lambda to: to.passed(verdict.key, make(verdict, document, self._options, time.time()))
        )
        await self._announce(page.item, verdict, dropped=False)

    def stored(self, verdict: Verdict) -> None:
        """Record in the journal that an item has been stored."""
        self._write(
            lambda to: to.stored(verdict.key, make_kept(verdict, self._options, time.time()))
        )

    async def close(self) -> None:
        """Wait up to :data:`LONGEST_WAIT` seconds for running receivers, then cancel them."""
        if not self._receiving:
            return
        _, late = await asyncio.wait(self._receiving, timeout=LONGEST_WAIT)
        for task in late:
            task.cancel()
        if late:
            logger.warning(
                "%d receivers of dedup_duplicate did not end within %g seconds of the end of the "
                "crawl and are cancelled",
                len(late),
                LONGEST_WAIT,
            )

    async def _announce(self, item: Any, verdict: Verdict, *, dropped: bool) -> None:
        """Start a task that calls the receivers of ``dedup_duplicate``, if there is a match; waits
        while :data:`MAX_RUNNING` earlier tasks have not ended."""
        kind, match = verdict.outcome, verdict.match
        if kind not in (DUPLICATE, REVISIT) or match is None:
            kind, match = "near", near_match(verdict)
            if match is None:
                return
        if len(self._receiving) >= MAX_RUNNING:
            await asyncio.wait(self._receiving, return_when=asyncio.FIRST_COMPLETED)
        task = asyncio.create_task(
            self._crawler.signals.send_catch_log_async(
                dedup_duplicate,
                item=item,
                verdict=verdict,
                kind=kind,
                match=match,
                dropped=dropped,
                spider=self._crawler.spider,
            )
        )
        self._receiving.add(task)
        task.add_done_callback(self._receiving.discard)

    def _apply(self, verdict: Verdict, document: Document, page: PageItem) -> None:
        """Drop the item by raising :class:`Dropped`, mark it, or do nothing."""
        from dedup_middleware.core.judge import is_dropped  # the add-on does not need it

        options = self._options
        outcome = verdict.outcome
        if options.action == "mark":
            if not mark(page.adapter, verdict, page.names) and page.names.mark is not None:
                name, field = type(page.item).__name__, page.names.mark
                has_field = field in page.adapter.field_names()
                self._reports.warn_once(_REFUSED if has_field else _NO_FIELD, name, field)
        elif is_dropped(outcome, options):
            if outcome != EMPTY:
                raise NearDuplicate(verdict, log_level=options.drop_log_level)
            fields = page.read()
            # A row of stars is no text to compare, but says something.
            says_more = fields.is_unread or fields.is_text_unread or has_symbol(document.text or "")
            if not (says_more or document.rest):
                raise Dropped(verdict, log_level=options.drop_log_level)
        # After a time-out the index can still be used, and the page that was waited for may fail.
        if outcome == UNCHECKED and verdict.reason != PENDING_TIMEOUT:
            self._unchecked(verdict)

    def _unchecked(self, verdict: Verdict) -> None:
        if self._options.on_error == "drop" and self._options.action != "mark":
            raise Dropped(verdict, log_level="WARNING")
        if self._options.on_error != "close" or self._closing is not None:
            return
        if (engine := self._crawler.engine) is not None:
            logger.error("The spider is closed: the index can't be used, and DEDUP_ON_ERROR=close")
            fail(self._crawler)
            # The item itself is kept: closing loses no page that was fetched.
            self._closing = asyncio.ensure_future(self._close_spider(engine))

    async def _close_spider(self, engine: ExecutionEngine) -> None:
        """Close the spider, even if its last item came from ``start()``: Scrapy (2.18, 2.19) checks
        whether all items are through only when a response is done, and would wait for ever."""
        closing = asyncio.ensure_future(engine.close_spider_async(reason="dedup_index_unavailable"))
        idle = 0  # consecutive checks that found nothing to wait for
        while not closing.done():
            await asyncio.wait([closing], timeout=_PAUSE)
            slot, spider = engine.scraper.slot, engine.spider
            if slot is None or slot.closing is None or slot.closing.called or spider is None:
                continue
            idle = idle + 1 if slot.is_idle() else 0
            if idle > 1:
                slot.closing.callback(spider)
        try:
            await closing
        except Exception:  # it was closed for another reason meanwhile
            self._reports.failure("closing the spider")

    def _write(self, write: Callable[[JournalWriter], None]) -> None:
        if self.journal is None:
            return
        try:
            write(self.journal)
        except Exception:
            self._reports.failure("writing the journal")
