"""Items that are sent when the spider is closed, and pipelines that fail then."""

from __future__ import annotations

import asyncio
import gc
import logging
import weakref
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from scrapy import Request, Spider, signals
from scrapy.crawler import AsyncCrawlerRunner, Crawler

from dedup_middleware import DedupPipeline, Document, Journal, Options
from dedup_middleware.index.opening import open_index
from dedup_middleware.plugin import pipeline
from tests.itemcrawl import SETTINGS, Crawled, crawl
from tests.test_pipeline import opened
from tests.texts import article


async def send(crawler: Crawler, host: str, seed: int) -> None:
    """Send an item through the pipelines."""
    assert crawler.engine is not None
    item = {"url": f"https://{host}.example/{seed}", "text": article(seed)}
    await crawler.engine.scraper.start_itemproc_async(item, response=None)


def filters_of_log() -> list[Any]:
    """The filters of the log in which Scrapy reports that a pipeline failed when it was closed."""
    return list(logging.getLogger("scrapy.core.engine").filters)


@pytest.fixture
def filters_before() -> list[Any]:
    """Those of tests in this process that open a pipeline without a crawl, which never ends."""
    return filters_of_log()


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Those of the plugin."""
    return [
        one.getMessage()
        for one in caplog.records
        if one.name.startswith("dedup") and one.levelno >= logging.WARNING
    ]


class Collector:
    """Sends items when it is closed."""

    def __init__(self, crawler: Crawler) -> None:
        self.crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Collector:
        """Called by Scrapy."""
        return cls(crawler)

    async def process_item(self, item: Any) -> Any:
        """Called by Scrapy."""
        await asyncio.sleep(0.01)
        return item

    async def close_spider(self) -> None:
        """Called by Scrapy."""
        for seed in range(4):
            await send(self.crawler, "collected", seed)


class Late(Spider):
    """Sends items when all pipelines have been closed."""

    name = "late"

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Late:
        """Called by Scrapy."""
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.closed_late, signals.spider_closed)
        return spider

    async def start(self) -> AsyncIterator[Any]:
        yield Request("data:,x")

    async def parse(self, _response: Any) -> AsyncIterator[Any]:
        for seed in range(2):
            yield {"url": f"https://early.example/{seed}", "text": article(seed)}

    async def closed_late(self) -> None:
        """A handler."""
        await send(self.crawler, "late", 0)
        await send(self.crawler, "late", 9)


@pytest.mark.parametrize("place", [100, 800])
async def test_items_sent_at_the_end_are_checked_or_pass(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, place: int
) -> None:
    """Items that other pipelines send when they are closed are checked and committed; later ones
    pass, which is logged once, and leave no claim."""
    url = f"sqlite:{tmp_path / 'i.db'}"
    runner = AsyncCrawlerRunner(
        SETTINGS
        | {"DEDUP_INDEX_URL": url, "ITEM_PIPELINES": {DedupPipeline: 450, Collector: place}}
        | {"FEEDS": {f"{tmp_path}/out.jsonl": {"format": "jsonlines"}}}
    )
    crawler = runner.create_crawler(Late)
    stored = []

    def on_scraped(item: Any) -> None:
        stored.append(item["url"])

    crawler.signals.connect(on_scraped, signals.item_scraped)
    await runner.crawl(crawler)
    assert sorted(stored) == [
        "https://collected.example/2",
        "https://collected.example/3",
        "https://early.example/0",
        "https://early.example/1",
        "https://late.example/0",
        "https://late.example/9",
    ]
    assert crawler.stats is not None
    stats = crawler.stats.get_stats()
    assert (stats["dedup/committed"], stats["dedup/skipped/closed"]) == (4, 2)
    assert "dedup/unchecked" not in stats
    (warning,) = warnings(caplog)
    assert "had been closed" in warning
    async with open_index(Options(index_url=url)) as index:
        await index.attach()
        counts = await index.stats()
    assert (counts.committed, counts.pending) == (4, 0)


class FailsAtOnce:
    """Fails when it is closed, so that Scrapy does not wait for the other pipelines."""

    def process_item(self, item: Any) -> Any:
        """Called by Scrapy."""
        return item

    def close_spider(self) -> None:
        """Called by Scrapy."""
        raise OSError("an error of the user's")


class FailsSoon(FailsAtOnce):
    """Fails while the plugin is being closed."""

    async def close_spider(self) -> None:  # type: ignore[override]
        """Called by Scrapy."""
        await asyncio.sleep(0)
        raise OSError("an error of the user's")


@pytest.mark.filterwarnings("ignore:coroutine 'DedupPipeline.close_spider' was never awaited")
@pytest.mark.parametrize("place", [300, 600])
@pytest.mark.parametrize("kind", [FailsAtOnce, FailsSoon])
async def test_another_pipeline_that_fails_at_the_end_costs_no_record(
    tmp_path: Path, kind: Any, place: int
) -> None:
    """The journal has the drops by the time the crawl has ended, and the index is closed."""

    async def source(crawled: Crawled) -> AsyncIterator[Any]:
        for host in "ab":
            yield {"url": f"https://{host}.example/1", "text": article(1)}
            await crawled.until(1)

    journal = str(tmp_path / "journal.db")
    crawled = await crawl(
        source, {kind: place}, DEDUP_JOURNAL=journal, DEDUP_CLUSTERS=f"{tmp_path}/c.jsonl"
    )
    assert crawled.duplicates == ["https://b.example/1"]
    assert crawled.stat("journal/written") == 1
    assert crawled.stat("clusters/written") == 1


@pytest.mark.filterwarnings("ignore:coroutine 'DedupPipeline.close_spider' was never awaited")
@pytest.mark.parametrize("place", [300, 600])
@pytest.mark.parametrize("kind", [None, FailsAtOnce, FailsSoon])
async def test_a_pipeline_that_may_have_stored_nothing(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    filters_before: list[Any],
    kind: Any,
    place: int,
) -> None:
    """One that collects items, and fails when it is to store them at the end, has lost pages that
    the index calls stored: an error says so, with the command that forgets them."""

    async def source(_crawled: Crawled) -> AsyncIterator[Any]:
        yield {"url": "https://a.example/1", "text": article(1)}

    pipelines = {} if kind is None else {kind: place}
    crawled = await crawl(source, pipelines, DEDUP_INDEX_URL=f"sqlite:{tmp_path / 'i.db'}")
    assert crawled.stat("committed") == 1
    said = [one for one in warnings(caplog) if "failed when it was closed" in one]
    assert len(said) == (kind is not None)
    assert all("calls 1 pages" in one and "dedup forget --since 20" in one for one in said)
    assert filters_of_log() == filters_before


async def test_a_pipeline_that_fails_at_the_end_is_noticed_without_stats(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The command is named where STATS_CLASS counts nothing, too."""

    async def source(_crawled: Crawled) -> AsyncIterator[Any]:
        yield {"url": "https://a.example/1", "text": article(1)}

    none = "scrapy.statscollectors.DummyStatsCollector"
    url = f"sqlite:{tmp_path / 'i.db'}"
    await crawl(source, {FailsSoon: 600}, DEDUP_INDEX_URL=url, STATS_CLASS=none)
    (said,) = [one for one in warnings(caplog) if "failed when it was closed" in one]
    assert "calls 1 pages" in said


async def test_an_error_while_the_plugin_is_closed_hides_no_other(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    filters_before: list[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another pipeline that fails then is noticed, and no filter stays at Scrapy's log."""

    async def source(_crawled: Crawled) -> AsyncIterator[Any]:
        yield {"url": "https://a.example/1", "text": article(1)}

    def fails(_self: Any) -> None:
        raise RuntimeError("an error of the plugin")

    monkeypatch.setattr(pipeline.Reports, "stop", fails)  # the index is closed before
    await crawl(source, {FailsSoon: 600}, DEDUP_INDEX_URL=f"sqlite:{tmp_path / 'i.db'}")
    assert any("failed when it was closed" in one for one in warnings(caplog))
    assert filters_of_log() == filters_before


@pytest.mark.parametrize(
    "fault", [RuntimeError("an error of the plugin"), asyncio.CancelledError()]
)
@pytest.mark.parametrize("step", ["_late_items", "close"])
async def test_what_fails_before_the_index_is_closed_leaves_nothing_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, fault: BaseException
) -> None:
    """The index is closed, the journal is written, and the later failure is reported as well."""

    async def fails() -> None:
        raise fault

    path = tmp_path / "i.db"
    running = await opened(DEDUP_INDEX_URL=f"sqlite:{path}")
    for host in "ab":
        await running.item({"url": f"https://{host}/1", "text": article(1)})
    one = running.pipeline
    dedup = one._deduplicator
    assert dedup is not None
    monkeypatch.setattr(*((one._action, "close") if "close" in step else (one, step)), fails)
    monkeypatch.setattr(one._reports, "stop", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError) as raised:
        await one.close_spider()
    assert raised.value.__context__ is fault
    assert dedup._is_closed
    assert one._deduplicator is None
    with Journal(f"sqlite:{path}") as written:
        assert [drop.key for drop in written.drops()] == ["https://b/1"]


class FailsToOpen(FailsAtOnce):
    """Fails when it is opened, so that Scrapy does not wait for the other pipelines."""

    async def open_spider(self) -> None:
        """Called by Scrapy."""
        await asyncio.sleep(0)
        raise OSError("an error of the user's")


async def test_what_is_opened_when_the_crawl_is_over_is_closed(
    tmp_path: Path, filters_before: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process of many crawls would keep the index open, and a filter at Scrapy's log."""
    goes_on, is_open, made = asyncio.Event(), asyncio.Event(), []
    start = DedupPipeline.open_spider

    async def slow(self: DedupPipeline) -> None:
        made.append(self)
        await goes_on.wait()
        await start(self)
        is_open.set()

    async def source(_crawled: Crawled) -> AsyncIterator[Any]:
        yield {"url": "https://a.example/1", "text": article(1)}

    monkeypatch.setattr(DedupPipeline, "open_spider", slow)
    settings = {
        "DEDUP_INDEX_URL": f"sqlite:{tmp_path / 'i.db'}",
        "DOWNLOAD_HANDLERS": {"http": None, "https": None},  # Scrapy would leave them open
    }
    with pytest.raises(OSError, match="user's"):
        await crawl(source, {FailsToOpen: 600}, **settings)
    goes_on.set()
    await is_open.wait()
    assert made[0]._deduplicator is None
    assert filters_of_log() == filters_before


async def test_items_that_scrapy_does_not_wait_for_are_decided_first() -> None:
    """As those of `scrapy parse --pipelines`: the index is not closed under them."""
    crawl = await opened()
    items = [{"url": f"https://a/{n}", "html": f"<p>{article(n)}</p>"} for n in range(3)]
    sent = [asyncio.create_task(crawl.pipeline.process_item(one)) for one in items]
    await asyncio.sleep(0)  # all of them have come
    await crawl.pipeline.close_spider()
    await asyncio.gather(*sent)
    assert (crawl.stat("new"), crawl.stat("unchecked"), crawl.stat("claim/unsure")) == (3, 0, 0)


async def test_closing_waits_for_no_signal_that_scrapy_does_not_send(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Of two like items of `scrapy parse --pipelines` the second one would wait for the end of the
    first one, for which no signal comes. No warning about changed objects is logged."""
    crawl = await opened(DEDUP_PENDING_WAIT=60)
    items = [{"url": f"https://{host}/1", "text": article(1)} for host in "abc"]
    sent = [asyncio.create_task(crawl.pipeline.process_item(one)) for one in items]
    await asyncio.sleep(0)  # all of them have come
    await asyncio.wait_for(crawl.pipeline.close_spider(), 20)
    assert await asyncio.gather(*sent) == items
    assert (crawl.stat("new"), crawl.stat("pending/timeout")) == (1, 2)
    assert (crawl.stat("claim/unsure"), crawl.stat("error/internal")) == (0, 0)
    assert not warnings(caplog)


@pytest.mark.parametrize("is_decided", [False, True])
async def test_an_item_that_scrapy_sends_twice_does_not_wait_for_itself(is_decided: bool) -> None:
    """`scrapy parse --pipelines -o` sends each item through the pipelines without a signal, and
    then once more, for the feed."""
    crawl = await opened(DEDUP_PENDING_WAIT=60)
    item = {"url": "https://a/1", "text": article(1)}
    sent = asyncio.create_task(crawl.pipeline.process_item(item))
    await (sent if is_decided else asyncio.sleep(0))
    assert await asyncio.wait_for(crawl.item(item), 20) is item
    assert (crawl.stat("new"), crawl.stat("committed"), crawl.stat("unchecked")) == (2, 1, 0)
    await crawl.pipeline.close_spider()


@pytest.mark.parametrize("call", ["read", "decide"])
async def test_an_item_that_takes_longer_than_closing_waits_passes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """It is counted with those that came too late; the log reports neither a changed object nor an
    outage of the index."""
    monkeypatch.setattr(pipeline, "_LATE_ITEMS", 0.02)
    crawl = await opened(DEDUP_INDEX_URL=f"sqlite:{tmp_path / 'i.db'}")
    deduplicator = crawl.pipeline._deduplicator
    assert deduplicator is not None
    may_go_on, is_done, fast = asyncio.Event(), asyncio.Event(), getattr(deduplicator, call)

    async def slow(document: Document) -> Any:
        result = await fast(document)
        is_done.set()
        await may_go_on.wait()
        return result

    monkeypatch.setattr(deduplicator, call, slow)
    item = {"url": "https://a/1", "text": article(1)}
    sent = asyncio.create_task(crawl.pipeline.process_item(item))
    await is_done.wait()  # the first page loads the kernels, which may take longer than closing
    await asyncio.wait_for(crawl.pipeline.close_spider(), 20)
    may_go_on.set()
    assert await sent is item
    await crawl.signal(signals.item_scraped, item)
    assert (crawl.stat("claim/unsure"), crawl.stat("error/internal")) == (0, 0)
    assert crawl.stat("error/index") == 0
    assert (crawl.stat("skipped/closed"), crawl.stat("committed")) == (1, 0)
    (warning,) = warnings(caplog)
    assert "still being decided" in warning


async def test_the_index_of_a_closed_crawl_is_freed() -> None:
    """At once: Scrapy's objects of a crawl refer to each other, so that they are garbage only for
    the collector of cycles, which may not look for long, or are still used."""
    gc.disable()
    try:
        crawl = await opened()
        for host in "ab":
            await crawl.item({"url": f"https://{host}/1", "text": article(1)})
        assert (crawl.stat("committed"), crawl.stat("dropped")) == (1, 1)
        assert crawl.pipeline._deduplicator is not None
        counted = crawl.pipeline._deduplicator._index
        freed = [weakref.ref(counted), weakref.ref(counted._index)]  # type: ignore[attr-defined]
        del counted
        await crawl.pipeline.close_spider()
        for _ in range(1000):  # a thread may still hold what it ran last
            if not any(one() for one in freed):
                break
            await asyncio.sleep(0.01)
        assert not any(one() for one in freed)
    finally:
        gc.enable()
    item = {"url": "https://c/1", "text": article(1)}
    assert await crawl.item(item) is item
    assert (crawl.stat("skipped/closed"), crawl.stat("error/internal")) == (1, 0)
