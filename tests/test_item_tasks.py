"""Items in tasks of their own, within others, cancelled or forgotten, in real crawls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from scrapy.exceptions import DropItem

from dedup_middleware import DedupPipeline
from tests.itemcrawl import Crawled, crawl
from tests.itemstorage import (
    AnotherObject,
    Failing,
    page,
    pages_and_copies,
    settled,
)


class OwnTask(DedupPipeline):
    """Runs the plugin in a task of its own, whose context Scrapy does not have."""

    async def process_item(self, item: Any) -> Any:
        """Called by Scrapy."""
        return await asyncio.ensure_future(super().process_item(item))


async def test_without_a_context_the_object_is_the_link() -> None:
    """In a task of its own an item is known again as the same object with the same page."""
    crawled = await crawl(pages_and_copies(3), {}, dedup=OwnTask)
    assert len(crawled.duplicates) == crawled.stat("committed") == 3
    assert settled(crawled)


async def test_without_any_link_nothing_is_committed(caplog: pytest.LogCaptureFixture) -> None:
    """Without a context and with another object the claim is released at once, counted, and logged
    once with what to do."""
    crawled = await crawl(pages_and_copies(3), {AnotherObject: 500}, dedup=OwnTask)
    assert crawled.duplicates == []
    assert len(crawled.scraped) == 6
    assert (crawled.stat("committed"), crawled.stat("claim/unsure")) == (0, 6)
    assert crawled.stat("pending/wait") == 0
    reports = "dedup_middleware.plugin.reports"
    (said,) = [r.getMessage() for r in caplog.records if r.name == reports]
    assert "https://a.example/" in said
    assert "task or Deferred of its own" in said
    assert "Put DedupPipeline after the pipelines that change or replace items" in said
    assert settled(crawled)


async def test_without_any_link_a_failure_makes_nothing_a_duplicate() -> None:
    """The same where storage fails: whatever the signals say, the copies are stored."""
    crawled = await crawl(pages_and_copies(3), {AnotherObject: 400, Failing: 500}, dedup=OwnTask)
    assert crawled.duplicates == []
    assert len(crawled.scraped) == 3


class Sending:
    """Sends a further item for each page of host a before it stores the page itself."""

    def __init__(self, crawler: Any, *, in_task: bool) -> None:
        self._crawler = crawler
        self._in_task = in_task

    @classmethod
    def from_crawler(cls, crawler: Any) -> Sending:
        """Called by Scrapy."""
        return cls(crawler, in_task=crawler.settings.getbool("IN_TASK"))

    async def process_item(self, item: Any) -> Any:
        """Called by Scrapy."""
        if "//a.example" in item["url"]:
            scraper = self._crawler.engine.scraper
            number = int(item["url"].rpartition("/")[2])
            for host in ("early", "other"):
                further = page(dict, host, number + 100)
                sent = scraper.start_itemproc_async(further, response=None)
                await (asyncio.create_task(sent) if self._in_task else sent)
            if number == 0:
                raise OSError("disk full")
        return item


class Refusing:
    """Drops the pages of one host before they come to the plugin."""

    def process_item(self, item: Any) -> Any:
        """Called by Scrapy."""
        if "early" in item["url"]:
            raise DropItem(item["url"])
        return item


def pages_and_further() -> Callable[[Crawled], AsyncIterator[Any]]:
    """Three pages of host a, for each of which two are sent, and copies of all six stored ones."""

    async def source(crawled: Crawled) -> AsyncIterator[Any]:
        for number in range(3):
            yield page(dict, "a", number)
        await crawled.until(9)
        for number in (0, 1, 2, 100, 101, 102):
            yield page(dict, "b", number)

    return source


async def test_signals_of_tasks_that_inherit_the_context_are_not_taken() -> None:
    """Items that a pipeline sends by tasks, and those dropped early, settle no other's claim."""
    pipelines = {Refusing: 100, Sending: 500, AnotherObject: 600}
    crawled = await crawl(pages_and_further(), pipelines, IN_TASK=True)
    # Page 0 was not stored, the other five were.
    assert sorted(crawled.duplicates) == [f"https://b.example/{n}" for n in (1, 100, 101, 102, 2)]
    assert crawled.stat("claim/unsure") == 0
    assert settled(crawled)


async def test_item_sent_within_another_needs_its_object_too(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Where one task takes several items through, another object is no link: never committed."""
    crawled = await crawl(pages_and_further(), {Sending: 500, AnotherObject: 600})
    assert crawled.duplicates == []
    assert "sends further items" in caplog.text
    assert settled(crawled)
    same = await crawl(pages_and_further(), {Refusing: 600, Sending: 500})
    # "early" comes to the plugin first and is dropped behind it: its like is stored.
    wanted = [f"https://b.example/{n}" for n in (1, 100, 101, 102, 2)]
    assert sorted(same.duplicates) == wanted
    assert settled(same)


class Cancelled:
    """Cancels the coroutine of pages of host a, as an awaited task does that another has ended."""

    async def process_item(self, item: Any) -> Any:
        """Called by Scrapy."""
        await asyncio.sleep(0)
        if "a.example" in item["url"]:
            raise asyncio.CancelledError
        return item


async def test_an_item_whose_coroutine_is_cancelled_makes_nothing_wait() -> None:
    """Scrapy sends no signal for it: its claim is given back at once, and the copy is stored."""

    async def source(_crawled: Crawled) -> AsyncIterator[Any]:
        for host in "abc":
            yield page(dict, host, 1)

    crawled = await crawl(source, {Cancelled: 500}, CONCURRENT_ITEMS=3)
    assert len(crawled.scraped) == 1
    assert (crawled.stat("released"), crawled.stat("committed")) == (1, 1)
    assert crawled.stat("pending/timeout") == 0
    assert settled(crawled)


class InOwnTask(DedupPipeline):
    """Decides each item in a task, and lets those of host c pass when that takes too long."""

    async def process_item(self, item: Any) -> Any:
        """Called by Scrapy."""
        task = asyncio.create_task(super().process_item(item))
        if "c.example" in item["url"]:
            await asyncio.wait([task], timeout=0.05)
            task.cancel()
            await asyncio.wait([task])
            return item
        return await task


async def test_an_item_that_goes_on_after_its_task_was_cancelled_settles_no_other() -> None:
    """Its signal is known to be its own: the claims of others on their way stay."""

    class Slow:
        """Stores the pages of host c at once, others when these are stored."""

        async def process_item(self, item: Any) -> Any:
            """Called by Scrapy."""
            if "c.example" not in item["url"]:
                decided.set()
                await crawls[0].until(1)
            return item

    crawls: list[Crawled] = []
    decided = asyncio.Event()

    async def source(crawled: Crawled) -> AsyncIterator[Any]:
        crawls.append(crawled)
        yield page(dict, "a", 1)
        await decided.wait()
        yield page(dict, "c", 1)  # waits for the other one

    crawled = await crawl(source, {Slow: 500}, dedup=InOwnTask)
    assert (len(crawled.scraped), crawled.stat("committed")) == (2, 1)
    assert crawled.stat("claim/unsure") == 0


class Forgetful:
    """Forgets to return the item."""

    def process_item(self, item: Any) -> None:
        """Called by Scrapy."""


async def test_pipeline_that_returns_no_item(caplog: pytest.LogCaptureFixture) -> None:
    """The pipelines behind it store nothing, so the page is never committed, which is logged
    once."""
    crawled = await crawl(pages_and_copies(2), {Forgetful: 500})
    assert crawled.duplicates == []
    assert (crawled.stat("claim/unsure"), crawled.stat("released")) == (4, 4)
    reports = "dedup_middleware.plugin.reports"
    (said,) = [r.getMessage() for r in caplog.records if r.name == reports]
    assert "return the item from process_item" in said
    assert settled(crawled)
