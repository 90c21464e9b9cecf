"""Real crawls through Scrapy, without a network: which items are stored, dropped, committed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import attrs
from scrapy import Request, Spider, signals
from scrapy.crawler import AsyncCrawlerRunner, Crawler
from scrapy.utils.misc import load_object

from dedup_middleware import DedupPipeline, NearDuplicate

SETTINGS = {
    "TWISTED_REACTOR_ENABLED": False,
    "TELNETCONSOLE_ENABLED": False,
    "DEDUP_INDEX_URL": "memory:",
    "DEDUP_JOURNAL": "off",
    "DEDUP_PENDING_WAIT": 5,  # a claim that is never settled fails a test soon
}


@attrs.define
class Crawled:
    """What a crawl did, written down as it happened, and its stats."""

    pipeline: DedupPipeline | None = None
    crawler: Crawler | None = None
    ended: int = 0
    duplicates: list[str] = attrs.field(factory=list)
    scraped: list[Any] = attrs.field(factory=list)
    stats: dict[str, Any] = attrs.field(factory=dict)
    changed: asyncio.Event = attrs.field(factory=asyncio.Event)

    def stat(self, name: str) -> Any:
        """A stat of the plugin."""
        return self.stats.get(f"dedup/{name}", 0)

    async def until(self, ended: int) -> None:
        """Wait until so many items have had their signal."""
        while self.ended < ended:
            self.changed.clear()
            await self.changed.wait()

    def _end(self) -> None:
        self.ended += 1
        self.changed.set()

    def on_scraped(self, item: Any) -> None:
        """Scrapy's signal."""
        self.scraped.append(item)
        self._end()

    def on_dropped(self, exception: BaseException) -> None:
        """Scrapy's signal."""
        if isinstance(exception, NearDuplicate):
            self.duplicates.append(exception.key)
        self._end()

    def on_error(self) -> None:
        """Scrapy's signal."""
        self._end()


async def crawl(
    source: Callable[[Crawled], AsyncIterator[Any]],
    pipelines: dict[Any, int],
    *,
    dedup: Any = DedupPipeline,
    **settings: Any,
) -> Crawled:
    """Crawl one page, the items of which ``source`` yields.

    :param pipelines: further ones; the plugin is at 450
    :param dedup: the plugin's pipeline or a subclass
    """
    crawled = Crawled()

    class ItemSpider(Spider):
        name = "items"

        async def start(self) -> AsyncIterator[Any]:
            yield Request("data:,x")

        async def parse(self, _response: Any) -> AsyncIterator[Any]:
            async for item in source(crawled):
                yield item

    runner = AsyncCrawlerRunner(SETTINGS | {"ITEM_PIPELINES": {dedup: 450} | pipelines} | settings)
    crawler = crawled.crawler = runner.create_crawler(ItemSpider)
    connect = crawler.signals.connect
    connect(crawled.on_scraped, signals.item_scraped)
    connect(crawled.on_dropped, signals.item_dropped)
    connect(crawled.on_error, signals.item_error)

    def opened() -> None:
        crawled.pipeline = crawler.get_item_pipeline(load_object(dedup))

    connect(opened, signals.spider_opened)
    await runner.crawl(crawler)
    assert crawler.stats is not None
    crawled.stats = crawler.stats.get_stats()
    return crawled
