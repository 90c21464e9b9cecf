"""One spider process: ``python -m tests.torture.spider FOLDER PROCESS OF ARTICLES SEED URL ...``.

It crawls its share of the pages, stores what the plugin lets pass in the database of the project's
own storage pipeline, and notes which pages are done, so that a restart goes on where it was.
Further settings may follow as ``NAME=VALUE``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import scrapy
from scrapy import signals
from scrapy.crawler import CrawlerProcess

from tests.torture.articles import BANDS, HASH_KEY, address, shares, text_of

RESPONSE = 1024  # bytes that Scrapy takes a small response for
BATCH = 20  # items of one response, all under way at once


class TortureSpider(scrapy.Spider):
    """Each response holds a batch of pages."""

    name = "torture"

    @classmethod
    def from_crawler(cls, crawler: Any, *args: Any, **kwargs: Any) -> TortureSpider:
        """Note every page that is through, whatever became of it."""
        spider: TortureSpider = super().from_crawler(crawler, *args, **kwargs)
        spider.done = os.open(spider.journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT)  # type: ignore[attr-defined]
        for signal in (signals.item_scraped, signals.item_dropped):
            crawler.signals.connect(spider.note, signal)
        return spider

    def note(self, item: dict[str, Any]) -> None:
        """One line for each page."""
        os.write(self.done, f"{item['url']}\n".encode())  # type: ignore[attr-defined]

    async def start(self) -> AsyncIterator[scrapy.Request]:
        """One request for each batch."""
        for i in range(0, len(self.pages), BATCH):  # type: ignore[attr-defined]
            yield scrapy.Request(f"data:,{i}", dont_filter=True)

    def parse(self, response: Any) -> Iterator[dict[str, str]]:
        """The pages of a batch."""
        first = int(response.body)
        for number, variant in self.pages[first : first + BATCH]:  # type: ignore[attr-defined]
            yield {"url": address(number, variant), "text": text_of(number, variant)}


def main(arguments: list[str]) -> None:
    """Crawl to the end."""
    folder, url = Path(arguments[0]), arguments[5]
    process, processes, articles, seed = map(int, arguments[1:5])
    journal = folder / f"done-{process}"
    done = set(journal.read_text().split()) if journal.exists() else set()
    pages = [
        page for page in shares(articles, processes, seed)[process] if address(*page) not in done
    ]
    crawl = CrawlerProcess(
        {
            "ADDONS": {"dedup_middleware.Addon": 500},
            "ITEM_PIPELINES": {"crawler.storage.SqliteStorage": 800},
            "NEWS_DB": str(folder / f"stored-{process}.db"),
            "DEDUP_INDEX_URL": url,
            "DEDUP_HASH_KEY": HASH_KEY,
            "DEDUP_BANDS": BANDS,
            "DEDUP_TIMEOUT": 10,
            "DEDUP_RETRIES": 30,
            "TELNETCONSOLE_ENABLED": False,
            "LOG_LEVEL": "INFO",  # which tells of pages stored twice by a process that lives
            "LOG_FILE": str(folder / f"log-{process}"),
            **dict(setting.split("=", 1) for setting in arguments[6:]),
        }
    )
    crawl.crawl(TortureSpider, pages=pages, journal=journal)
    crawl.start()


if __name__ == "__main__":
    main(sys.argv[1:])
