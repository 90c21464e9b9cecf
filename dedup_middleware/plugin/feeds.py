"""Checks that pages which the index calls stored are in Scrapy's feeds (``FEEDS``).

Also checks that no pipeline failed when it was closed: some store all their items only then.
"""

from __future__ import annotations

import contextlib
import inspect
import logging
import weakref
from array import array
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import attrs
from pydispatch import dispatcher
from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.extensions.feedexport import FeedExporter, FeedSlot, FileFeedStorage
from scrapy.utils.conf import build_component_list
from scrapy.utils.misc import load_object

from dedup_middleware.base.errors import DedupError
from dedup_middleware.base.options import Options
from dedup_middleware.base.settingfields import FieldNames
from dedup_middleware.core.deduplicator import Deduplicator
from dedup_middleware.index.opening import open_existing
from dedup_middleware.plugin.feedslots import WatchedSlot
from dedup_middleware.plugin.notices import Beginning, shown_place
from dedup_middleware.plugin.reports import Reports

logger = logging.getLogger(__name__)

FAILED = "the feed export failed with it (see the error above)"
LEFT_OUT = (
    "the feeds leave it out (item_classes or item_filter in FEEDS), and no later pipeline could "
    "store it; name such classes in DEDUP_ITEMS, with None"
)
NO_COLUMN = (
    "the CSV feed has no column for its text, since its columns are the fields of its first item; "
    "name them in FEED_EXPORT_FIELDS"
)
SWITCHED_OFF = "Scrapy has switched the feeds off (see the beginning of the log)"
_FAILED_FEEDS = "feedexport/failed_count/"  # stats, by kind of storage


@attrs.frozen
class Exported:
    """How the feeds have handled an item.

    :ivar slots: slots that have taken it and its text
    :ivar missed: why no feed stores it; None: one does, or something else may store it
    """

    slots: tuple[WatchedSlot, ...] = ()
    missed: str | None = None


class Feeds:
    """Watches the feeds of one crawl; keep the object for as long as the crawl runs.

    :param deduplicator: returns the deduplicator of the pipeline; None: it is closed
    :param has_storage: whether something besides the feeds may store items
    """

    def __init__(
        self,
        crawler: Crawler,
        options: Options,
        reports: Reports,
        deduplicator: Callable[[], Deduplicator | None],
        *,
        has_storage: bool,
    ) -> None:
        self._crawler, self._stats, self._reports = crawler, crawler.stats, reports
        self._options = options
        self._outlives_crawl = not options.index_url.startswith("memory:")
        self._has_storage = has_storage
        self._has_warned = False  # that items are stored only at the end of a feed, or nowhere
        self._deduplicator = deduplicator
        self._is_off, self._exporter = _exporter_of(crawler)
        # Scrapy's own exporter makes a new list for each item, unless it fails with the item.
        self._list = None if self._exporter is None else self._exporter.slots
        self._is_watching = self._exporter is not None
        self._slots: dict[FeedSlot, WatchedSlot] = {}  # current slots of the exporter
        self._first: dict[str, WatchedSlot] = {}  # slot of the first batch, by name of the feed
        self._not_stored: dict[FeedSlot, WatchedSlot] = {}  # slots with items, not stored yet
        # Ids of pages of which no slot is stored yet, by the slots that have taken the page.
        self._pages: dict[tuple[WatchedSlot, ...], array[int]] = {}
        self._stored = self._forgotten = 0  # pages
        self._began = Beginning(crawler.settings)
        crawler.signals.connect(self._spider_opened, signals.spider_opened)
        crawler.signals.connect(self._slot_closed, signals.feed_slot_closed)
        # Not engine_stopped: a crawl that ends before its engine has started does not send it.
        crawler.signals.connect(self._leave_files, signals.spider_closed)
        if self._outlives_crawl:
            crawler.signals.connect(self._engine_stopped, signals.engine_stopped)

    def exported(self, item: Any, names: FieldNames) -> Exported:
        """Find out how the feeds have handled an item that has passed all pipelines.

        Call it for each signal ``item_scraped``, before anything is awaited: the exporter,
        connected earlier like all extensions, has just handled the same signal.
        """
        if self._exporter is None:
            return Exported((), SWITCHED_OFF if self._is_off and not self._has_storage else None)
        slots = self._exporter.slots
        has_handled, self._list = slots is not self._list, slots
        self._watch(slots)
        # If an item has filled a batch, the exporter has replaced its slot by now; a user's own
        # exporter may make a slot for the item.
        took = tuple([one for one in self._slots.values() if one.has_taken()])
        faults = [fault for one in took if (fault := one.flush()) is not None]
        self._slots = {slot: self._slots[slot] for slot in slots}
        if took:
            self._not_stored.update({one.slot: one for one in took})
            self._warn_of_late(took)
            with_text = tuple([one for one in took if not one.leaves_out_text(item, names)])
            if not faults and not self._has_storage and _are_lost(with_text):
                faults = [FAILED if with_text else NO_COLUMN]
            return Exported(with_text, faults[0] if faults else None)
        failed = not has_handled  # filters are called only then, since they may count their calls
        with contextlib.suppress(Exception):  # a filter that fails again
            failed = failed and any(slot.filter.accepts(item) for slot in slots)
        if failed:
            return Exported((), FAILED)
        return Exported((), None if self._has_storage else LEFT_OUT)

    def _spider_opened(self) -> None:
        if self._exporter is None:
            return
        self._watch(self._exporter.slots)
        slots = tuple(self._slots.values())
        for one in slots:
            one.begin_row()
        self._warn_of_late(slots)

    def _warn_of_late(self, slots: tuple[WatchedSlot, ...]) -> None:
        """Warn once if items are stored only when these slots end."""
        if self._has_storage or not self._outlives_crawl or not slots or self._has_warned:
            return
        if all(one.is_late for one in slots):
            self._has_warned = True
            logger.warning(
                "The items of %s are stored when the feed or its batch ends. Should this process "
                "be killed before, they are lost, and the index calls them stored: then %s. "
                "Batches (batch_item_count) lose less, a pipeline "
                "that stores each item nothing",
                ", ".join(shown_place(one.slot.uri_template) for one in slots),
                self._began.forgetting(),
            )

    def _warn_of_nowhere(self) -> None:
        """Warn once if, as far as the plugin can see, nothing stores pages that count as stored."""
        is_stored = self._has_storage or self._exporter is not None or not self._outlives_crawl
        if is_stored or self._has_warned:
            return
        self._has_warned = True
        own = ("scrapy.", "dedup_middleware.")  # a script may store items in a handler of its own
        modules = [str(getattr(one, "__module__", "")) for one in _handlers(self._crawler)]
        if all(one.startswith(own) for one in modules):
            logger.warning(
                "There is neither a feed (-o, FEEDS) nor a pipeline after DedupPipeline, but the "
                "index calls the items stored, and later crawls %s them. If the spider does not "
                "store them itself, %s",
                self._options.action,
                self._began.forgetting(),
            )

    def _watch(self, slots: Sequence[FeedSlot]) -> None:
        for slot in slots:
            if slot not in self._slots:
                one = WatchedSlot(slot, self._first.get(slot.uri_template))
                self._slots[slot] = one
                self._is_watching = self._is_watching and one.is_watched
                if one.first is one:
                    self._first[slot.uri_template] = one
                    one.share_file()

    def _leave_files(self) -> None:
        for one in self._first.values():
            one.leave_file()

    async def _slot_closed(self, slot: FeedSlot) -> None:
        one = self._not_stored.get(slot)
        # A file that can't be finished, such as a compressed one, does not reach its storage.
        if one is not None:
            one.has_failed |= one.is_watched and not one.was_stored
            if not one.is_lost:
                self._note_stored(one)
        await self.forget_failed()

    def _note_stored(self, one: WatchedSlot) -> None:
        one.is_stored = True
        del self._not_stored[one.slot]
        for took in [took for took in self._pages if one in took]:
            self._stored += len(self._pages.pop(took))

    async def committed(self, page_id: int, slots: tuple[WatchedSlot, ...]) -> None:
        """Note a page that the index calls stored, in case the slots that took it fail later."""
        if self._has_storage or not slots:
            self._warn_of_nowhere()
            return
        if any(one.is_stored for one in slots):
            self._stored += 1
            return
        self._pages.setdefault(slots, array("Q")).append(page_id)
        if _are_lost(slots):  # they failed during the commit
            await self.forget_failed()

    async def forget_failed(self) -> None:
        """Forget the pages that only failed slots have, so that later copies are stored."""
        with contextlib.suppress(DedupError):  # tried again at the end
            await self._forget()

    async def _engine_stopped(self) -> None:
        """Log an error if a feed could not be stored, and forget the pages that nothing else has.
        Feeds are stored when the pipelines are closed: the index calls the pages stored by then."""
        # A user's own exporter may close slots without a signal.
        for one in [one for one in self._not_stored.values() if one.was_stored]:
            if not one.is_lost:
                self._note_stored(one)
        committed = self._reports.value("committed")
        # If an exporter fails to finish its file, nothing is stored and no storage fails. For
        # storages that can't be watched, only Scrapy's count is known.
        failed = any(slot.itemcount for slot in self._not_stored) or (
            not self._is_watching
            and self._stats is not None
            and any(name.startswith(_FAILED_FEEDS) for name in self._stats.get_stats())
        )
        if not committed or not failed:
            return
        places = set()
        for one in self._not_stored.values():
            one.has_failed = True
            if one.is_watched:  # it is not known which of the others failed
                places.add(f"{shown_place(one.slot.uri_template)}, ")
        # If Ctrl-C is pressed while the spider is being closed, Scrapy stops its engine first.
        is_closed = getattr(self._crawler.engine, "spider", None) is None
        why = "see the error above" if is_closed else "the crawl was stopped while it was closing"
        named = "".join(sorted(places)) + why
        try:
            await self._forget()
        except DedupError as error:
            logger.error("The pages of this crawl can't be forgotten: %s", error)
        else:
            if self._forgotten:
                logger.error(
                    "A feed or a batch could not be stored (%s), and nothing "
                    "else has its items: %d pages of this crawl are forgotten, so that the next "
                    "crawl%s stores them",
                    named,
                    self._forgotten,
                    self._began.elsewhere(" with"),
                )
                committed -= self._stored + self._forgotten  # the rest was entered after an outage
                if committed <= 0:
                    return
        logger.error(
            "A feed could not be stored (%s), but the index calls %d pages of "
            "this crawl stored: later crawls drop them and copies of them. If nothing else stores "
            "them, %s, and crawl again",
            named,
            committed,
            self._began.forgetting(),
        )

    async def _forget(self) -> None:
        """Forget the pages that only failed slots have taken.

        :raises DedupError: the index can't be used
        """
        lost = [took for took in self._pages if _are_lost(took)]
        pages = {took: self._pages.pop(took) for took in lost}  # more may be noted meanwhile
        if not pages:
            return
        page_ids = [one for ids in pages.values() for one in ids]
        forgotten = 0
        try:
            forgotten = await self._forget_pages(page_ids)
        finally:
            self._forgotten += forgotten  # another call may have added to it during the await
            if forgotten < len(page_ids):  # some may be committed later, after an outage
                for took, ids in pages.items():
                    self._pages.setdefault(took, array("Q")).extend(ids)

    async def _forget_pages(self, page_ids: list[int]) -> int:
        """Forget pages; the index is opened anew if the pipeline has closed it."""
        deduplicator = self._deduplicator()
        if deduplicator is not None:
            return await deduplicator.forget(page_ids)
        index, _ = await open_existing(self._options)
        async with index:
            return await index.forget_wholly(page_ids)


def _are_lost(slots: Iterable[WatchedSlot]) -> bool:
    return all(one.is_lost for one in slots)


def _exporter_of(crawler: Crawler) -> tuple[bool, FeedExporter | None]:
    """Return whether Scrapy has switched off the feeds of the settings, as it does if a format is
    unknown, and the exporter: None if there is none, or if its handler is a coroutine."""
    try:
        exporter = crawler.get_extension(FeedExporter)
    except RuntimeError:  # there is no engine, as in tests
        return False, None
    is_late = exporter is None or inspect.iscoroutinefunction(exporter.item_scraped)
    settings = crawler.settings
    is_off = exporter is None and bool(settings.getdict("FEEDS") or settings["FEED_URI"])
    if is_off:  # by Scrapy, or by the user in EXTENSIONS
        names = settings.get_component_priority_dict_with_base("EXTENSIONS")
        wanted = map(load_object, build_component_list(names))
        is_off = any(isinstance(one, type) and issubclass(one, FeedExporter) for one in wanted)
    return is_off, None if is_late else exporter


def files_of_feeds(crawler: Crawler) -> list[Path]:
    """The files on this machine that feeds are written to now."""
    _, exporter = _exporter_of(crawler)
    storages = [] if exporter is None else [slot.storage for slot in exporter.slots]
    return [Path(one.path) for one in storages if isinstance(one, FileFeedStorage)]


def has_other_storage(crawler: Crawler, pipeline: Any, own: type[Any]) -> bool:
    """Whether something besides the feeds may store items.

    That may be a later pipeline, a subclass of the plugin's own, or an extension that gets each
    item, as on Scrapy Cloud.
    """
    if type(pipeline).process_item is not own.process_item:
        return True
    extensions = getattr(crawler.extensions, "middlewares", ())
    owners = [getattr(one, "__self__", None) for one in _handlers(crawler)]
    if any(one in extensions and not _is_scrapys(one) for one in owners):
        return True
    try:
        pipelines = crawler.engine.scraper.itemproc.middlewares
        later = pipelines[pipelines.index(pipeline) + 1 :]
    except (AttributeError, RuntimeError, ValueError):  # no engine, or the user's own manager
        return True
    return any(
        hasattr(one, "process_item") and not isinstance(one, own) and not _is_scrapys(one)
        for one in later
    )


def _handlers(crawler: Crawler) -> list[Any]:
    """The functions and methods that handle the signal ``item_scraped``."""
    handlers = dispatcher.getAllReceivers(crawler.signals.sender, signals.item_scraped)
    return list(dispatcher.liveReceivers(handlers))


def _is_scrapys(part: Any) -> bool:
    """Whether a component is Scrapy's own; its pipelines for files and images store no items."""
    return type(part).__module__.startswith("scrapy.")


# If a pipeline fails when it is closed, Scrapy sends no signal and raises nothing, but logs this.
_engine_log = logging.getLogger("scrapy.core.engine")
_FAILURE = "Scraper close failure"


class CloseFailures(logging.Filter):
    """Logs which command helps if a pipeline of a crawl fails when it is closed.

    The index calls the pages stored by then, but that pipeline may have been meant to store them.
    """

    def __init__(self, crawler: Crawler) -> None:
        super().__init__()
        self._spider = None if crawler.spider is None else weakref.ref(crawler.spider)
        self._began = Beginning(crawler.settings)
        self._seen = False
        _engine_log.addFilter(self)

    def filter(self, record: logging.LogRecord) -> bool:
        """Note a failure, and let every record pass."""
        if record.msg == _FAILURE and self._spider is not None:
            self._seen = self._seen or getattr(record, "spider", None) is self._spider()
        return True

    def end(self, committed: int) -> None:
        """Log an error if a pipeline has failed; call it when all pipelines are closed.

        :param committed: number of pages of this crawl that the index calls stored
        """
        _engine_log.removeFilter(self)
        if not self._seen or not committed:
            return
        logger.error(
            "A pipeline failed when it was closed (see the error above), and the index calls %d "
            "pages of this crawl stored. If they are stored only then, %s, and crawl "
            "again: else later crawls drop them and copies of them",
            committed,
            self._began.forgetting(),
        )
