"""Make ``scrapy crawl`` exit with 1 although the spider is closed in good order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy import signals

if TYPE_CHECKING:
    from scrapy.crawler import Crawler


def fail(crawler: Crawler) -> None:
    """Let Scrapy's process count this crawl as failed once its spider is closed.

    A spider that is closed with any reason ends with exit code 0. Scrapy counts a crawl as failed
    (``bootstrap_failed``) if it raised, with a traceback, or if its crawler holds no spider at its
    end, which is the case if the spider could not be made. All handlers of ``spider_closed`` get
    the spider as an argument, as always.
    """

    def forget_spider() -> None:
        crawler.spider = None

    # Connected last, so it is called last.
    crawler.signals.connect(forget_spider, signals.spider_closed, weak=False)
