"""A claim follows the item that was decided, in real crawls, whatever later pipelines do."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from itemadapter import ItemAdapter
from scrapy.exceptions import DropItem

from dedup_middleware import DedupPipeline
from tests.itemcrawl import Crawled, crawl
from tests.itemkinds import CHANGES, KINDS, ScrapyItem, TupleAdapter, fields_of
from tests.texts import article

ROOT = Path(__file__).parent.parent
PAGES = len(CHANGES)


@pytest.fixture(params=KINDS, ids=lambda kind: kind.__name__)
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Every kind of item, among them one of a user's own adapter."""
    adapters = (TupleAdapter, *ItemAdapter.ADAPTER_CLASSES)
    monkeypatch.setattr(ItemAdapter, "ADAPTER_CLASSES", adapters)
    return request.param


def page(kind: Any, host: str, number: int, **fields: Any) -> Any:
    """The page of that number on a host."""
    return kind(**{"url": f"https://{host}.example/{number}", "text": article(number)} | fields)


class Change:
    """A later pipeline: does to each page of host a what CHANGES says for its number."""

    def process_item(self, item: Any) -> Any:
        """Called by Scrapy."""
        host, _, number = str(fields_of(item)["url"]).rpartition("/")
        return list(CHANGES.values())[int(number)](item) if "a.example" in host else item


class Storage:
    """Stores nothing of host a if ``fate`` says so. It comes before the changes, so that it sees
    which page it stores."""

    fate = "stored"

    def __init__(self) -> None:
        self.stored: list[str] = []

    async def process_item(self, item: Any) -> Any:
        """Called by Scrapy."""
        url = fields_of(item)["url"]
        await asyncio.sleep(0)
        if "a.example" in url and self.fate != "stored":
            raise DropItem(url) if self.fate == "dropped" else OSError(url)
        self.stored.append(url)
        return item


class CopyOfKind:
    """Hands on another object than the spider yielded, which is what the signal carries then."""

    def process_item(self, item: Any) -> Any:
        """Called by Scrapy."""
        return type(item)(**fields_of(item))


class Dropping(Storage):
    """Drops the pages of host a."""

    fate = "dropped"


class Failing(Storage):
    """Fails at the pages of host a."""

    fate = "failed"


def originals_and_copies(kind: Any, **fields: Any) -> Callable[[Crawled], AsyncIterator[Any]]:
    """All pages of host a, and when they are through, their copies on host b."""

    async def source(crawled: Crawled) -> AsyncIterator[Any]:
        for number in range(PAGES):
            yield page(kind, "a", number, **fields)
        await crawled.until(PAGES)
        for number in range(PAGES):
            yield page(kind, "b", number, **fields)

    return source


def settled(crawled: Crawled) -> bool:
    """Whether nothing is held any more."""
    assert crawled.pipeline is not None
    return len(crawled.pipeline._inflight) == 0 and crawled.stat("claim/unresolved") == 0


async def test_stored_pages_are_committed_whatever_was_changed(kind: Any) -> None:
    """Each kind of item, each change: the copy is dropped at once, for its page is stored."""
    crawled = await crawl(originals_and_copies(kind), {Storage: 500, Change: 600})
    assert sorted(crawled.duplicates) == sorted(f"https://b.example/{n}" for n in range(PAGES))
    assert crawled.stat("committed") == PAGES
    assert crawled.stat("pending/wait") == crawled.stat("claim/unsure") == 0
    assert settled(crawled)


@pytest.mark.slow
@pytest.mark.parametrize("storage", [Dropping, Failing])
async def test_pages_that_were_not_stored_are_released(kind: Any, storage: type[Storage]) -> None:
    """Each kind of item, each change: the copy is stored, for its page is not."""
    crawled = await crawl(originals_and_copies(kind), {Change: 500, CopyOfKind: 400, storage: 470})
    assert crawled.duplicates == []
    assert len(crawled.scraped) == PAGES
    assert (crawled.stat("released"), crawled.stat("committed")) == (PAGES, PAGES)
    assert crawled.stat("pending/wait") == 0
    assert settled(crawled)


async def test_extracted_text_is_no_other_page(kind: Any) -> None:
    """DEDUP_FILL_TEXT fills the text, if the item can be changed; the page is committed."""
    html = f"<html><body><article><p>{article(3, 20)}</p></article></body></html>"

    async def source(crawled: Crawled) -> AsyncIterator[Any]:
        yield kind(html=html, text="")  # named by its content
        await crawled.until(1)
        yield kind(url="https://b.example/", html=html)

    crawled = await crawl(source, {})
    assert crawled.duplicates == ["https://b.example/"]
    assert (crawled.stat("committed"), crawled.stat("error/internal")) == (1, 0)
    assert settled(crawled)


class StripQuery:
    """Deletes the query of each address, so that two items get one key."""

    def process_item(self, item: Any) -> Any:
        """Called by Scrapy."""
        return item | {"url": item["url"].partition("?")[0]}


class SlowFailure:
    """Fails at the page of host a, but only when the other item of its key is long stored."""

    def __init__(self) -> None:
        self.stored: list[str] = []

    async def process_item(self, item: Any) -> Any:
        """Called by Scrapy."""
        if item["url"] == "https://a.example/1" and item["text"] == article(1):
            await asyncio.sleep(0.3)
            raise OSError("disk full")
        self.stored.append(item["text"])
        return item


async def test_item_of_the_same_key_commits_no_other() -> None:
    """Stored under a's address after its query was deleted, b says nothing of a, which fails."""

    async def source(crawled: Crawled) -> AsyncIterator[Any]:
        yield page(dict, "a", 1)
        yield {"url": "https://a.example/1?utm_source=x", "text": article(2)}
        await crawled.until(1)
        yield page(dict, "c", 1)

    crawled = await crawl(source, {StripQuery: 500, SlowFailure: 600})
    assert crawled.duplicates == []
    assert sorted(item["text"] for item in crawled.scraped) == sorted([article(1), article(2)])
    assert settled(crawled)


class AnotherObject:
    """Returns a copy of each item."""

    def process_item(self, item: Any) -> Any:
        """Called by Scrapy."""
        return dict(item)


class OwnTask(DedupPipeline):
    """Runs the plugin in a task of its own, the context of which Scrapy never sees."""

    async def process_item(self, item: Any) -> Any:
        """Called by Scrapy."""
        return await asyncio.ensure_future(super().process_item(item))


def pages_and_copies(count: int) -> Callable[[Crawled], AsyncIterator[Any]]:
    """Some pages of host a, and when they are through, their copies on host b."""

    async def source(crawled: Crawled) -> AsyncIterator[Any]:
        for number in range(count):
            yield page(dict, "a", number)
        await crawled.until(count)
        for number in range(count):
            yield page(dict, "b", number)

    return source


async def test_without_a_context_the_object_is_the_link() -> None:
    """In a task of its own an item is known again as the same object with the same page."""
    crawled = await crawl(pages_and_copies(3), {}, dedup=OwnTask)
    assert len(crawled.duplicates) == crawled.stat("committed") == 3
    assert settled(crawled)


async def test_without_any_link_nothing_is_committed(caplog: pytest.LogCaptureFixture) -> None:
    """No context and another object: released at once, said once, with what to do, counted."""
    crawled = await crawl(pages_and_copies(3), {AnotherObject: 500}, dedup=OwnTask)
    assert crawled.duplicates == []
    assert len(crawled.scraped) == 6
    assert (crawled.stat("committed"), crawled.stat("claim/unsure")) == (0, 6)
    assert crawled.stat("pending/wait") == 0
    reports = "dedup_middleware.plugin.reports"
    (said,) = [r.getMessage() for r in caplog.records if r.name == reports]
    assert "https://a.example/" in said
    assert "task or Deferred of its own" in said
    assert "Put DedupPipeline behind the pipelines that change or replace items" in said
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


class Late:
    """Stores slowly; what it stores is what the item holds then."""

    async def process_item(self, item: Any) -> Any:
        """Called by Scrapy."""
        await asyncio.sleep(0.05)
        return dict(item)


async def test_one_object_for_all_pages_commits_none(caplog: pytest.LogCaptureFixture) -> None:
    """A spider that fills and yields one dict again and again stores the last page only."""

    async def source(crawled: Crawled) -> AsyncIterator[Any]:
        reused: dict[str, Any] = {}
        for number in range(3):
            reused.update(page(dict, "a", number))
            yield reused
            await asyncio.sleep(0.01)  # so that each page comes to the plugin
        await crawled.until(3)
        for number in range(3):
            yield page(dict, "b", number)

    crawled = await crawl(source, {Late: 500})
    assert {item["text"] for item in crawled.scraped} == {article(n) for n in range(3)}
    assert crawled.duplicates == []
    assert "yield a new object for every page" in caplog.text
    assert settled(crawled)


async def test_object_changed_while_it_is_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    """The verdict says nothing of the page that is in the item now: it passes, without a claim,
    and is counted."""

    decided, changed = asyncio.Event(), asyncio.Event()

    class SlowDecision(DedupPipeline):
        async def open_spider(self) -> None:
            await super().open_spider()
            decide = self._deduplicator.decide

            async def slow(document: Any) -> Any:
                verdict = await decide(document)
                if document.key == "https://b.example/1":
                    decided.set()
                    await changed.wait()
                return verdict

            self._deduplicator.decide = slow

    async def source(crawled: Crawled) -> AsyncIterator[Any]:
        yield page(dict, "a", 1)
        await crawled.until(1)
        copy_then_new = page(dict, "b", 1)
        yield copy_then_new
        await decided.wait()
        copy_then_new["text"] = article(2)
        changed.set()
        await crawled.until(2)
        yield page(dict, "c", 2)

    crawled = await crawl(source, {}, dedup=SlowDecision)
    assert crawled.duplicates == []
    assert crawled.stat("claim/unsure") == 1
    assert [item["text"] for item in crawled.scraped] == [article(1), article(2), article(2)]
    assert settled(crawled)


async def test_same_object_twice_is_a_revisit() -> None:
    """Yielded twice without a change, an item is stored once and known afterwards."""

    async def source(crawled: Crawled) -> AsyncIterator[Any]:
        twice = page(dict, "a", 1)
        yield twice
        yield twice
        await crawled.until(2)
        yield page(dict, "b", 1)

    crawled = await crawl(source, {Late: 500})
    assert (crawled.stat("committed"), crawled.stat("revisit")) == (1, 1)
    assert crawled.duplicates == ["https://a.example/1", "https://b.example/1"]
    assert settled(crawled)


@pytest.mark.parametrize("kind", [dict, ScrapyItem])
async def test_same_object_twice_gets_its_text_once(kind: Any) -> None:
    """The text that is put into it for the first time makes no other page of it."""

    async def source(_crawled: Crawled) -> AsyncIterator[Any]:
        html = f"<article><p>{article(1)}</p></article>"
        twice = kind(url="https://a.example/1", html=html, text=None)
        yield twice
        yield twice

    crawled = await crawl(source, {Late: 500})
    assert len(crawled.scraped) == 1
    assert crawled.duplicates == ["https://a.example/1"]
    assert settled(crawled)


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
    """What comes behind it stores nothing: never committed, and said once."""
    crawled = await crawl(pages_and_copies(2), {Forgetful: 500})
    assert crawled.duplicates == []
    assert (crawled.stat("claim/unsure"), crawled.stat("released")) == (4, 4)
    reports = "dedup_middleware.plugin.reports"
    (said,) = [r.getMessage() for r in caplog.records if r.name == reports]
    assert "return the item from process_item" in said
    assert settled(crawled)


async def test_two_crawls_in_one_process() -> None:
    """Each crawl knows its own items alone."""
    first, second = await asyncio.gather(
        crawl(pages_and_copies(3), {AnotherObject: 500}),
        crawl(pages_and_copies(3), {AnotherObject: 500}),
    )
    for one in (first, second):
        assert (len(one.duplicates), one.stat("committed")) == (3, 3)
        assert settled(one)


def test_under_the_asyncio_reactor() -> None:
    """Twisted's loop, a pipeline that returns Deferreds, other objects, another url: the same."""
    command = [sys.executable, "-m", "tests.item_reactor_spider"]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=True
    )
    stats = json.loads(done.stdout)
    # Page 0 fails on host a, so that it is new on host b.
    assert (stats["dedup/new"], stats["dedup/duplicate"]) == (6, 4)
    assert (stats["dedup/committed"], stats["dedup/released"]) == (5, 1)
    assert "dedup/claim/unsure" not in stats
    assert "dedup/claim/unresolved" not in stats
