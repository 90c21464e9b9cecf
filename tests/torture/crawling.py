"""The spider of the Scrapy processes that are killed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import scrapy
from scrapy import signals

from dedup_middleware import NearDuplicate
from tests.torture.articles import address, text_of
from tests.torture.ledger import DROPPED, KEPT_OUT
from tests.torture.task import Progress, Task

_BATCH = 6  # pages of a response
_AHEAD = 18  # pages asked for and not yet through; Scrapy itself would ask for all at once
_AS_HTML = 7  # the variant that comes as HTML, which the plugin takes the text from


class TorturedSpider(scrapy.Spider):
    """Each response holds some pages; what becomes of each is written down."""

    name = "tortured"
    task: Task
    open = 0  # pages asked for and not yet through

    @classmethod
    def from_crawler(cls, crawler: Any, *args: Any, **kwargs: Any) -> TorturedSpider:
        """Take the task from the settings, and listen to what becomes of items."""
        spider: TorturedSpider = super().from_crawler(crawler, *args, **kwargs)
        spider.task = Task.from_json(crawler.settings["TORTURE_TASK"])
        spider._ledger = spider.task.ledger()  # type: ignore[attr-defined]
        spider._progress = Progress(spider.task)  # type: ignore[attr-defined]
        crawler.signals.connect(spider.dropped, signals.item_dropped)
        for signal in (signals.item_scraped, signals.item_error):
            crawler.signals.connect(spider.through, signal)
        return spider

    def dropped(self, item: dict[str, Any], exception: Exception) -> None:
        """Write down for which page it was dropped."""
        ledger = self._ledger  # type: ignore[attr-defined]
        if isinstance(exception, NearDuplicate) and exception.verdict.match is not None:
            ledger.write(DROPPED, item["url"], exception.verdict.match.key or "")
        else:
            ledger.write(KEPT_OUT, item["url"], repr(exception).replace("\n", " "))
        self.through(item)

    def through(self, item: dict[str, Any]) -> None:
        """The page is done with."""
        self.open -= 1
        self._progress.through(item["url"])  # type: ignore[attr-defined]

    async def start(self) -> AsyncIterator[scrapy.Request]:
        """One request for some pages."""
        some: list[tuple[int, int]] = []
        for page in self._progress.pages():  # type: ignore[attr-defined]
            some.append(page)
            if len(some) == _BATCH:
                yield self._request(some)
                some = []
                while self.open >= _AHEAD:
                    await asyncio.sleep(0.002)
        if some:
            yield self._request(some)

    def _request(self, pages: list[tuple[int, int]]) -> scrapy.Request:
        self.open += len(pages)
        return scrapy.Request("data:,", dont_filter=True, cb_kwargs={"pages": pages})

    def parse(self, _response: Any, pages: list[tuple[int, int]]) -> Iterator[dict[str, Any]]:
        """The pages of a response."""
        for number, variant in pages:
            url, text = address(number, variant), text_of(number, variant)
            if variant == _AS_HTML:
                body = "".join(f"<p>{line}。</p>" for line in text.split("。") if line)
                yield {"url": url, "html": f"<html><body><article>{body}</article></body></html>"}
            else:
                yield {"url": url, "text": text}
