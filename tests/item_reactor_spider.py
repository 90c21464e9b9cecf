"""A crawl under Twisted's asyncio reactor, as ``scrapy crawl`` runs it; prints stats as JSON.

python -m tests.item_reactor_spider
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from scrapy import Request, Spider
from scrapy.crawler import AsyncCrawlerProcess
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater

from tests.texts import article


class ByDeferred:
    """A pipeline of the old kind: returns another object, by a Deferred."""

    def process_item(self, item: Any) -> Deferred[Any]:
        """Called by Scrapy."""
        from twisted.internet import reactor  # importing it installs one

        return deferLater(reactor, 0.01, dict, item)


class Coroutine:
    """A pipeline of the new kind, which changes the url."""

    async def process_item(self, item: Any) -> Any:
        """Called by Scrapy; fails at page 0 of host a."""
        await asyncio.sleep(0.01)
        if item["url"] == "https://a.example/0":
            raise OSError("disk full")
        return item | {"url": "https://all.example/"}


class Pages(Spider):
    """Yields five pages, and once they are through the copies of them."""

    name = "pages"

    async def start(self) -> AsyncIterator[Any]:
        """Called by Scrapy."""
        yield Request("data:,x", cb_kwargs={"host": "a"})

    async def parse(self, _response: Any, host: str) -> AsyncIterator[Any]:
        """Called by Scrapy."""
        for number in range(5):
            yield {"url": f"https://{host}.example/{number}", "text": article(number)}
        stats = self.crawler.stats
        if host == "a":
            while stats.get_value("item_scraped_count", 0) < 4:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.1)
            yield Request("data:,y", cb_kwargs={"host": "b"})


def main() -> None:
    """Crawl."""
    process = AsyncCrawlerProcess(
        {
            "ADDONS": {"dedup_middleware.Addon": 500},
            "ITEM_PIPELINES": {ByDeferred: 500, Coroutine: 600},
            "DEDUP_INDEX_URL": "memory:",
            "DEDUP_JOURNAL": "off",
            "TELNETCONSOLE_ENABLED": False,
            "LOG_LEVEL": "CRITICAL",
        }
    )
    crawler = process.create_crawler(Pages)
    process.crawl(crawler)
    process.start()
    assert crawler.stats is not None
    stats = crawler.stats.get_stats().items()
    print(json.dumps({k: v for k, v in stats if k.startswith("dedup/") and "seconds" not in k}))


if __name__ == "__main__":
    main()
