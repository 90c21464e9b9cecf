"""The Scrapy item pipeline: drops near-duplicates, and settles claims on item signals."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any

import attrs
from itemadapter import ItemAdapter
from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.exceptions import CloseSpider, NotConfigured
from scrapy.utils.asyncio import is_asyncio_available

from dedup_middleware.base.errors import DedupError, IndexUnavailableError, OptionsError
from dedup_middleware.base.options import Options
from dedup_middleware.index.base import Index
from dedup_middleware.model.documents import EMPTY, UNCHECKED, Document, Verdict
from dedup_middleware.model.keys import in_a_line
from dedup_middleware.plugin.acting import Action, Dropped
from dedup_middleware.plugin.companions import Companions
from dedup_middleware.plugin.inflight import Doubt, Ending, InFlight, ItemInFlight
from dedup_middleware.plugin.items import (
    ItemClasses,
    Note,
    Notes,
    PageItem,
    fill,
    load_item_classes,
)
from dedup_middleware.plugin.pagefields import PageFields, document_of, field_value, read_fields
from dedup_middleware.plugin.reports import Reports, counted, fail
from dedup_middleware.plugin.settings import (
    conflict_of,
    crawl_id,
    make_data_folder,
    options_from_settings,
)
from dedup_middleware.plugin.signals import dedup_superseded

if TYPE_CHECKING:
    from typing_extensions import Self

    from dedup_middleware.core.deduplicator import Deduplicator
    from dedup_middleware.plugin.feeds import CloseFailures, Exported, Feeds

logger = logging.getLogger(__name__)

_UNREADABLE = PageFields("", "", None, None, None)
_UNSURE = (
    "%s is not entered into the index, because it is not certain that it is stored: %s. "
    "Put DedupPipeline after the pipelines that change or replace items, last before storage (see "
    "'Later pipelines' in docs/items.md). Further such pages are counted in dedup/claim/unsure"
)
_NOT_IN_FEED = (
    "%s is not entered into the index, because no feed has it: %s. Further such pages are counted "
    "in dedup/claim/no-feed"
)
_UNREADABLE_TEXT = (
    "%s: the field %r of %s holds no text that can be read, or symbols alone. Such items pass "
    "without a check if they have HTML, as other items may have the same HTML: put a string or a "
    "list of strings there, or name another field in DEDUP_TEXT_FIELD. Further ones are counted "
    "in dedup/skipped/unreadable"
)
_CLOSED = (
    "An item that was sent, or still being decided, when the index had been closed passes without "
    "a check, and is not entered into the index. Further such items are counted in "
    "dedup/skipped/closed"
)
_NOT_OPENED = (
    "Nothing is compared: %s has an open_spider that does not `await super().open_spider()`. All "
    "items pass, and are counted in dedup/skipped/closed"
)
_NOT_CALLED = (
    "None of %d items was compared: %s has a process_item that does not "
    "`return await super().process_item(item)`"
)
_LATE_ITEMS = 30.0  # seconds for which closing waits for items that other pipelines still send
_PAUSE = 0.02  # seconds between two checks for them
_LOST_NOTES = (
    "request.meta dedup_skip or dedup_key of %d items had no effect: the items did not arrive as "
    "the spider yielded them. Put pipelines that return another object after DedupPipeline, or "
    "set the item's own fields (see 'Request meta' in docs/items.md)"
)


class DedupPipeline:
    """Drops items whose text is stored already, and records in the index which items were stored.

    Items may be dicts, Items, dataclasses, attrs or pydantic objects with a text or an HTML field
    (``docs/settings.md`` has the names). Errors of the plugin are never raised as item errors.

    :ivar notes: instructions of requests for items on their way to the pipeline
    """

    def __init__(
        self, crawler: Crawler, options: Options, settings_error: OptionsError | None = None
    ) -> None:
        self.crawler = crawler
        self._settings_error = settings_error
        self._is_closed = self._is_over = False
        self._closing: asyncio.Task[None] | None = None
        self.options = options
        self._deduplicator: Deduplicator | None = None
        self._feeds: Feeds | None = None
        self._close_failures: CloseFailures | None = None
        self._classes = ItemClasses(options.field_names)
        self._inflight = InFlight(self._read, self._settle_later)
        self._deciding = self._scraped = 0  # items
        self._is_called = False  # with an item
        self._settling: set[asyncio.Task[None]] = set()
        self._reports = Reports(crawler.stats)
        self._action = Action(crawler, options, self._reports)
        self._companions = Companions(crawler, options, self._reports, self._action)
        self.notes = Notes()
        connect = crawler.signals.connect
        connect(self._on_scraped, signals.item_scraped)
        connect(self._on_not_stored, signals.item_dropped)
        connect(self._on_not_stored, signals.item_error)
        connect(self._on_closed, signals.spider_closed)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Called by Scrapy.

        :raises NotConfigured: switched off, or there is no asyncio event loop
        """
        try:
            options = options_from_settings(crawler.settings)
        except OptionsError as error:
            # Raising here would end the crawl with a traceback instead of one clear line.
            return cls(crawler, Options(), settings_error=error)
        if not options.enabled:
            raise NotConfigured("DEDUP_ENABLED is False")
        if not _has_event_loop():
            raise NotConfigured(
                "near-duplicates are not looked for: it needs an asyncio event loop; leave "
                "TWISTED_REACTOR as it is by default"
            )
        return cls(crawler, options)

    async def open_spider(self) -> None:
        """Load the dictionary and open the index; the first item loads the kernels.

        :raises CloseSpider: a setting or the index can't be used; Scrapy then exits with 1
        """
        self._settings_error = self._settings_error or conflict_of(self, DedupPipeline)
        if self._settings_error is not None:
            raise self._not_started(self._settings_error, "dedup_settings")
        from dedup_middleware.core.deduplicator import Deduplicator
        from dedup_middleware.index.opening import open_index

        spider = "" if self.crawler.spider is None else self.crawler.spider.name
        crawl = crawl_id(self.options, self.crawler.spider)
        self._reports.is_opening = True
        try:
            self._classes = load_item_classes(self.options)
            self._companions.make(spider, crawl)
            make_data_folder(self.crawler.settings, self.options)
            index = counted(open_index(self.options), self._reports.count)
            self._deduplicator = Deduplicator(self.options, count=self._reports.count, index=index)
            # Kernels are for items: a crawl without any, and `scrapy fetch`, compile nothing.
            await self._deduplicator.open(warm=False)
            await self._begin(index)
        except IndexUnavailableError as error:
            self._reports.count("error/index")
            # Without the reset, pages would be dropped that this crawl should store anew.
            if self.options.on_error == "close" or self.options.reset:
                raise self._not_started(error, "dedup_index_unavailable") from None
            assert self._deduplicator is not None
            self._deduplicator.report_outage(
                error, f"The index can't be used yet, DEDUP_ON_ERROR={self.options.on_error}"
            )
        except DedupError as error:
            is_setting = isinstance(error, OptionsError)
            reason = "dedup_settings" if is_setting else "dedup_index_refused"
            raise self._not_started(error, reason) from None
        finally:
            self._reports.is_opening = False
        self._watch_feeds()
        await self._companions.start(spider, crawl)
        if self._is_over:  # another pipeline failed to open, and Scrapy did not wait for this one
            await self._on_closed()

    def _watch_feeds(self) -> None:
        from dedup_middleware.plugin.feeds import CloseFailures, Feeds, has_other_storage

        has_storage = has_other_storage(self.crawler, self, DedupPipeline)
        self._feeds = Feeds(
            self.crawler,
            self.options,
            self._reports,
            lambda: self._deduplicator,
            has_storage=has_storage,
        )
        if not self.options.index_url.startswith("memory:"):
            self._close_failures = CloseFailures(self.crawler)

    async def _begin(self, index: Index) -> None:
        from dedup_middleware.plugin.notices import log_contents, reset

        if self.options.reset:
            await reset(index, self.options)
        try:
            await log_contents(index, self.options, self.crawler.settings)
        except DedupError:
            raise
        except Exception:  # a damaged index must not end a crawl for the sake of a line in the log
            self._reports.failure("reading what the index holds")

    def _not_started(self, error: DedupError, reason: str) -> CloseSpider:
        logger.error("The crawl is not started: %s", error)
        fail(self.crawler)
        return CloseSpider(reason)

    async def close_spider(self) -> None:
        """Settle open claims and close the index; further calls wait for the first one."""
        if self._closing is None:
            self._closing = asyncio.create_task(self._close())
        await self._closing

    async def _on_closed(self) -> None:
        # If another pipeline fails to close, Scrapy does not close the others or wait for them.
        self._is_over = True
        if self._scraped and not self._is_called:
            self._reports.warn_once(_NOT_CALLED, self._scraped, type(self).__qualname__)
        if self._feeds is None:  # the pipeline was not opened, or not yet
            return
        try:
            await DedupPipeline.close_spider(self)  # a subclass may not have called it
        finally:
            if self._close_failures is not None:
                self._close_failures.end(int(self._reports.value("committed")))

    async def _close(self) -> None:
        try:
            try:
                await self._late_items()
            finally:
                self._is_closed = True
                self._inflight.clear()
                if len(self.notes):
                    self._reports.count("meta/lost", len(self.notes))
                    logger.warning(_LOST_NOTES, len(self.notes))
            await self._action.close()
        finally:  # also if this call is cancelled
            await self._close_index()
            await self._companions.stop()

    async def _close_index(self) -> None:
        try:
            if self._deduplicator is not None:
                await self._deduplicator.close()
        except Exception:
            self._reports.failure("closing the index")
        if self.options.on_error == "close" and self._reports.value("unchecked/forgotten"):
            logger.error("The crawl has failed: the index lacks pages of it (DEDUP_ON_ERROR=close)")
            fail(self.crawler)
        # Scrapy's objects of a crawl refer to each other and may live long; the index need not.
        self._deduplicator = None

    async def _late_items(self) -> None:
        """Wait for items that other pipelines send while all are closed at the same time, and for
        items that are being decided (`scrapy parse --pipelines` does not wait for them). If the
        index were closed first, their claims could not be settled."""
        ends = time.monotonic() + _LATE_ITEMS
        await asyncio.sleep(0)  # so that all pipelines have begun to close
        try:
            slot = self.crawler.engine.scraper.slot
        except (AttributeError, RuntimeError):  # there is no engine, as in tests
            slot = None
        while self._deciding or (slot is not None and slot.itemproc_size):
            if time.monotonic() > ends:
                break
            if self._deduplicator is not None and (slot is None or not slot.itemproc_size):
                # No signal will come for the pending pages that the undecided items wait for.
                self._deduplicator.end_waits()
            await asyncio.sleep(_PAUSE)

    async def process_item(self, item: Any) -> Any:
        """Let an item pass, or drop it.

        :raises NearDuplicate: the text of the item is stored already
        :raises Dropped: an empty page or an unusable index, if the settings say so
        """
        self._is_called = True
        if self._is_closed:
            self._pass_closed()
            return item
        if self._deduplicator is None:
            self._reports.count("skipped/closed")
            self._reports.warn_once(_NOT_OPENED, type(self).__qualname__)
            return item
        note = self.notes.take(item)
        for ending in self._inflight.overdue():
            await self._settle(ending)
        page, fields = self._page(item)
        flying = self._inflight.enter(item, fields)
        self._deciding += 1
        try:
            if page is not None and fields is not None:
                flying.verdict = await self._check(flying, page, fields, note)
        finally:
            # Not earlier: tasks that the plugin itself starts would inherit the link.
            self._inflight.send_on(flying)
            self._deciding -= 1
        return item

    def _pass_closed(self) -> None:
        self._reports.count("skipped/closed")
        self._reports.warn_once(_CLOSED)

    def _page(self, item: Any) -> tuple[PageItem | None, PageFields | None]:
        """Return the item and the fields of its page; None for an item that is not to be checked,
        and for fields that can't be read."""
        if not ItemAdapter.is_item(item):
            self._reports.count("skipped/no-item")
            return None, None
        names = self._classes.of(type(item))
        if names is None:
            self._reports.count("skipped/item-class")
            return None, self._read(item)
        page = PageItem(item, names, ItemAdapter(item))
        try:
            return page, page.read()
        except Exception:
            self._reports.failure(f"reading {type(item).__name__}")
            return page, None

    def _read(self, item: Any) -> PageFields | None:
        if not ItemAdapter.is_item(item):
            return None
        names = self._classes.of(type(item)) or self._classes.general
        try:
            return read_fields(ItemAdapter(item), names)
        except Exception:
            # No error: a later pipeline may have made this object.
            return _UNREADABLE

    async def _check(
        self, flying: ItemInFlight, page: PageItem, fields: PageFields, note: Note
    ) -> Verdict | None:
        """Return the verdict on an item that passes; None if there is nothing to settle.

        :raises Dropped: the item goes no further
        """
        try:
            document = self._document(page, fields, note)
            if document is None:
                return None
            document, verdict = await self._decide(flying, page, document)
        except Exception:
            # The page passes: an error of the plugin must not lose it.
            self._reports.failure(f"checking {in_a_line(fields.key) or type(page.item).__name__}")
            return None
        if verdict is None:
            return None
        if self._companions.field_check is not None:
            self._companions.field_check.check_verdict(verdict)
        flying.verdict = verdict  # from now on its claim is settled even if this call is cancelled
        passed = None
        if self.options.action == "mark":  # the mark says which texts the page replaces
            flying.verdict = passed = await self._supersede(verdict)
            verdict = attrs.evolve(verdict, earlier=passed.earlier or verdict.earlier)
        try:
            await self._action.take(verdict, document, page)
        except Dropped:
            flying.verdict = None
            raise
        except Exception:
            self._reports.failure(f"acting on the verdict on {in_a_line(verdict.key)}")
        if verdict.outcome == EMPTY and fields.is_bare:
            return None
        return await self._supersede(verdict) if passed is None else passed

    def _document(self, page: PageItem, fields: PageFields, note: Note) -> Document | None:
        """Return the page to check; None: the item passes without a check."""
        if note.skip or field_value(page.adapter, page.names.skip):
            self._reports.count("skipped/opt-out")
            return None
        if self._companions.field_check is not None:
            self._companions.field_check.check_fields(fields, page)
        document = document_of(fields)
        if document is not None and fields.is_text_unread and fields.html:
            # Other pages may have the same HTML, as comments on one article have. As a page without
            # text it matches none, and takes the place of an earlier text under its key.
            self._reports.count("skipped/unreadable")
            self._reports.warn_once(
                _UNREADABLE_TEXT, type(page.item).__name__, page.names.text, in_a_line(fields.key)
            )
            document = attrs.evolve(document, text="", html=None)
        if document is None:
            self._reports.count("skipped/no-content")
            return None
        return document if note.key is None else attrs.evolve(document, key=note.key)

    async def _decide(
        self, flying: ItemInFlight, page: PageItem, document: Document
    ) -> tuple[Document, Verdict | None]:
        """Return document and verdict; None if the item has changed or the index was closed."""
        deduplicator = self._deduplicator
        if deduplicator is None:
            self._pass_closed()
            return document, None
        read = await deduplicator.read(document)
        if read is not document and self.options.fill_text and not self._is_changed(flying, page):
            fill(page.adapter, read, page.names)
            self._inflight.filled(flying, page.read())
        if flying.item is not None:
            verdict = await deduplicator.decide(read)
            if flying.item is not None and not self._is_changed(flying, page):
                return read, verdict
            doubt = None if flying.item is None else Doubt.REUSED
            await self._settle(Ending(verdict, stored=False, doubt=doubt))
        if flying.item is None:  # closing has waited for it long enough
            self._pass_closed()
        return read, None

    def _is_changed(self, flying: ItemInFlight, page: PageItem) -> bool:
        """Whether the item holds another page than when it entered."""
        try:
            return flying.is_reused or page.read() != flying.fields
        except Exception:  # raised by the item's class, so the page in it is unknown
            return True

    async def _supersede(self, verdict: Verdict) -> Verdict:
        """Make the index forget the versions that a passing item will replace in storage."""
        if self._deduplicator is None:
            return verdict
        try:
            return await self._deduplicator.supersede(verdict)
        except Exception:
            self._reports.failure(f"forgetting earlier versions of {in_a_line(verdict.key)}")
            return verdict

    async def _on_scraped(self, item: Any) -> None:
        self._scraped += 1
        # Before anything is awaited: the feeds have just handled this item and no other.
        exported = None
        try:
            if self._feeds is not None:
                names = self._classes.of(type(item)) or self._classes.general
                exported = self._feeds.exported(item, names)
        except Exception:  # raised by a user's own exporter
            self._reports.failure("looking for an item in the feeds")
        await self._leave(item, stored=True, exported=exported)

    async def _on_not_stored(self, item: Any) -> None:
        await self._leave(item, stored=False)

    async def _leave(self, item: Any, *, stored: bool, exported: Exported | None = None) -> None:
        """Settle the claims that a signal is about.

        :param exported: how the feeds have handled the item, if that is known
        """
        try:
            endings = await self._inflight.leave(item, stored=stored)
            if endings is None:
                self.notes.take(item)  # an earlier pipeline has dropped it
        except Exception:
            self._reports.failure(f"looking for {type(item).__name__}")
            return
        missed = None if exported is None else exported.missed
        if missed is not None and self._feeds is not None:
            await self._feeds.forget_failed()  # rows of other items may be lost with this one
        for ending in endings or ():
            if missed is not None and ending.stored and ending.verdict.claim is not None:
                self._reports.count("claim/no-feed")
                name = in_a_line(ending.verdict.key)
                self._reports.warn_once(_NOT_IN_FEED, name, missed, key=missed)
            stored = ending.stored and missed is None
            await self._settle(attrs.evolve(ending, stored=stored), item, exported)

    def _settle_later(self, endings: list[Ending]) -> None:
        for ending in endings:
            task = asyncio.ensure_future(self._settle(ending))
            self._settling.add(task)
            task.add_done_callback(self._settling.discard)

    async def _settle(
        self, ending: Ending, item: Any = None, exported: Exported | None = None
    ) -> None:
        """Commit or release, and warn if a page that may be stored is not committed."""
        deduplicator, verdict = self._deduplicator, ending.verdict
        if deduplicator is None:  # it released its claims when it was closed
            return
        try:
            if ending.stored:
                is_only, claim = await deduplicator.commit(verdict), verdict.claim
                if claim is not None:
                    claim = attrs.evolve(claim, page_id=deduplicator.page_id_of(claim))
                if is_only:
                    if self._feeds is not None and claim is not None:
                        slots = () if exported is None else exported.slots
                        await self._feeds.committed(claim.page_id, slots)
                    if keys := await deduplicator.superseded(verdict):
                        # Storage deletes these pages.
                        await self.crawler.signals.send_catch_log_async(
                            dedup_superseded, item=item, verdict=verdict, keys=keys,
                            spider=self.crawler.spider,
                        )  # fmt: skip
                        await deduplicator.deleted(keys)
                self._action.stored(attrs.evolve(verdict, claim=claim))
                return
            is_open = verdict.claim is not None or verdict.outcome == UNCHECKED
            # An item that was changed passes whatever the verdict was.
            if ending.doubt is Doubt.REUSED or (ending.doubt is not None and is_open):
                self._reports.count("claim/unsure")
                name = in_a_line(verdict.key)
                self._reports.warn_once(_UNSURE, name, ending.doubt.value, key=ending.doubt)
            await deduplicator.release(verdict)
        except Exception:
            self._reports.failure(f"settling {in_a_line(verdict.key)}")


def _has_event_loop() -> bool:
    try:
        return is_asyncio_available()
    except RuntimeError:
        # No reactor is installed yet: Scrapy's default one is asyncio's.
        return True
