"""Crawls whose feeds Scrapy or the user has switched off, and crawls that store nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from scrapy import Request, Spider, signals
from scrapy.crawler import AsyncCrawlerRunner
from scrapy.exceptions import CloseSpider
from scrapy.extensions.feedexport import FeedExporter, FileFeedStorage

from dedup_middleware import DedupPipeline
from tests.itemcrawl import SETTINGS, Crawled, crawl
from tests.itemstorage import pages_and_copies
from tests.test_failed_feed import NoStorage
from tests.texts import article


@pytest.mark.parametrize(
    "feed", [{"out.zzz": {"format": "zzz"}}, {"nowhere://host/out": {"format": "jsonlines"}}]
)
async def test_feeds_that_scrapy_switches_off_have_no_page(
    feed: dict[str, Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A format or a storage that it does not know, as S3 without boto3, ends no crawl."""

    async def source(_crawled: Crawled) -> AsyncIterator[Any]:
        yield {"url": "https://a.example/0", "text": article(0)}

    settings = {"DEDUP_INDEX_URL": f"sqlite:{tmp_path / 'i.db'}"}
    crawled = await crawl(source, {}, FEEDS=feed, **settings)
    assert (crawled.stat("claim/no-feed"), crawled.stat("committed")) == (1, 0)
    assert any("Scrapy has switched the feeds off" in message for message in caplog.messages)
    crawled = await crawl(source, {NoStorage: 900}, FEEDS=feed, **settings)
    assert crawled.stat("committed") == 1
    # A user who has switched them off has another place for the items.
    settings = {"DEDUP_INDEX_URL": "memory:", "EXTENSIONS": {FeedExporter: None}}
    crawled = await crawl(source, {}, FEEDS=feed, **settings)
    assert crawled.stat("committed") == 1


class OwnPipeline(DedupPipeline):
    """A subclass that stores nothing."""


@pytest.mark.parametrize("stores", ["nothing", "a subclass", "a pipeline", "a handler", "a feed"])
async def test_a_crawl_that_stores_nothing_is_warned_of(
    stores: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As in the first trial of a new user: the next crawl would drop all pages, into an empty feed.
    The warning has the command that helps."""

    class Pages(Spider):
        """Yields two pages."""

        name = "pages"

        async def start(self) -> AsyncIterator[Any]:
            """A request, since Scrapy waits five seconds behind items of a start without one."""
            yield Request("data:,x")

        async def parse(self, _response: Any) -> AsyncIterator[Any]:
            """Called by Scrapy."""
            for number in range(2):
                yield {"url": f"https://a.example/{number}", "text": article(number)}

    own = {
        "ITEM_PIPELINES": {OwnPipeline if stores == "a subclass" else DedupPipeline: 450}
        | ({NoStorage: 900} if stores == "a pipeline" else {})
    }
    if stores == "a feed":
        own["FEEDS"] = {f"{tmp_path}/out.jsonl": {"format": "jsonlines"}}
    action = "mark" if stores == "a subclass" else "drop"
    url = f"sqlite:{tmp_path / 'i.db'}"
    runner = AsyncCrawlerRunner({**SETTINGS, **own, "DEDUP_INDEX_URL": url, "DEDUP_ACTION": action})
    crawler = runner.create_crawler(Pages)
    kept: list[Any] = []

    def keep(item: Any) -> None:
        kept.append(item)

    if stores == "a handler":
        crawler.signals.connect(keep, signals.item_scraped)
    await runner.crawl(crawler)
    assert crawler.stats is not None
    assert crawler.stats.get_value("dedup/committed") == 2
    said = [one for one in caplog.messages if "neither a feed" in one]
    assert len(said) == (stores in {"nothing", "a subclass"})
    assert all("scrapy dedup forget --since" in one for one in said)
    assert all(f"later crawls {action} them" in one for one in said)


class UnopenedPipeline(DedupPipeline):
    """A subclass whose ``open_spider`` does not call that of its base."""

    def open_spider(self) -> None:  # type: ignore[override]
        """Called by Scrapy."""


class UnclosedPipeline(DedupPipeline):
    """A subclass whose ``close_spider`` does not call that of its base."""

    def close_spider(self) -> None:  # type: ignore[override]
        """Called by Scrapy."""


async def test_a_subclass_that_does_not_open_the_index_is_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Nothing is compared then, and all items pass."""
    crawled = await crawl(pages_and_copies(2), {}, dedup=UnopenedPipeline)
    assert (len(crawled.scraped), crawled.stat("skipped/closed")) == (4, 4)
    assert sum("UnopenedPipeline" in message for message in caplog.messages) == 1


class UncalledPipeline(UnopenedPipeline):
    """A subclass whose ``process_item`` does not call that of its base, for all items or for
    some."""

    calls = False

    async def process_item(self, item: Any) -> Any:
        """Called by Scrapy."""
        if self.calls and item["url"].endswith("0"):
            await super().process_item(item)
        return item


@pytest.mark.parametrize("calls", [False, True])
async def test_a_subclass_that_does_not_pass_items_on_is_named(
    calls: bool, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is compared then; one that passes on some items chooses them."""
    monkeypatch.setattr(UncalledPipeline, "calls", calls)
    crawled = await crawl(pages_and_copies(2), {}, dedup=UncalledPipeline)
    assert len(crawled.scraped) == 4
    said = [message for message in caplog.messages if "super().process_item" in message]
    assert len(said) == (not calls)
    assert all("None of 4 items" in one and "UncalledPipeline" in one for one in said)


async def test_a_subclass_that_does_not_close_the_index(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its journal is written nevertheless."""
    settings = {"DEDUP_INDEX_URL": f"sqlite:{tmp_path / 'i.db'}", "DEDUP_JOURNAL": "on"}
    crawled = await crawl(pages_and_copies(2), {}, dedup=UnclosedPipeline, **settings)
    assert (crawled.stat("committed"), crawled.stat("journal/written")) == (2, 2)
    assert not [one for one in caplog.records if one.levelname == "ERROR"]


def numbered(first: int, begun: set[int] | None = None) -> Callable[[Crawled], AsyncIterator[Any]]:
    """Three pages from a number on, one after the other; with ``begun``, once two crawls have."""

    async def source(crawled: Crawled) -> AsyncIterator[Any]:
        if begun is not None:
            begun.add(first)
            while len(begun) < 2:
                await asyncio.sleep(0.001)
        for count, number in enumerate(range(first, first + 3), 1):
            yield {"url": f"https://a.example/{number}", "text": article(number)}
            await crawled.until(count)
            await asyncio.sleep(0)

    return source


@pytest.mark.parametrize(
    "feed",
    [
        ("out-%(batch_id)d.jl", {"overwrite": True, "batch_item_count": 1}),
        ("out.gz", {"postprocessing": ["scrapy.extensions.postprocessing.GzipPlugin"]}),
    ],
)
async def test_crawls_of_one_process_that_spoil_batches_or_packed_feeds(
    feed: tuple[str, dict[str, Any]], tmp_path: Path
) -> None:
    """What one of them has appended to a compressed file is in the middle of the other's."""
    url, options = f"sqlite:{tmp_path / 'i.db'}", {"format": "jsonlines"} | feed[1]
    (tmp_path / "link").symlink_to(tmp_path)
    feeds = [{str(folder / feed[0]): options} for folder in (tmp_path, tmp_path / "link")]
    own = [{"FEEDS": one, "DEDUP_INDEX_URL": url} for one in feeds]
    begun: set[int] = set()
    await asyncio.gather(*[crawl(numbered(3 * n, begun), {}, **one) for n, one in enumerate(own)])
    other = {"FEEDS": {str(tmp_path / "again"): {"format": "jsonlines"}}, "DEDUP_INDEX_URL": url}
    again = [await crawl(numbered(first), {}, **other) for first in (0, 3)]
    assert [len(one.scraped) for one in again] == [3, 3]


async def test_crawls_of_one_process_that_write_to_one_device(tmp_path: Path) -> None:
    """Nothing is overwritten in a pipe or terminal."""
    feeds = {"/dev/null": {"format": "jsonlines", "overwrite": True}}
    own = {"FEEDS": feeds, "DEDUP_INDEX_URL": f"sqlite:{tmp_path / 'i.db'}"}
    crawled = await asyncio.gather(*[crawl(numbered(first), {}, **own) for first in (0, 3)])
    assert [one.stat("committed") for one in crawled] == [3, 3]


class OwnPlace(FileFeedStorage):
    """A storage without the attributes of its base."""

    def __init__(self, uri: str, *, feed_options: Any = None) -> None:  # noqa: ARG002
        self._place = uri.partition(":")[2]

    def open(self, spider: Spider) -> Any:  # noqa: ARG002
        """Called by Scrapy."""
        return Path(self._place).open("wb")


async def test_crawls_of_one_process_that_share_no_file(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One that has ended before it began, or pages that are written elsewhere, spoil nothing."""

    def end_at_once() -> None:
        raise CloseSpider("early")

    class Pages(Spider):
        name = "pages"
        start_urls = ("data:,x",)

        def parse(self, _response: Any) -> Any:
            yield {"url": "https://a.example/0", "text": article(0)}

    options = {"format": "jsonlines", "overwrite": True}
    feeds = {str(tmp_path / "out.jl"): options, f"own:{tmp_path / 'own.jl'}": options}
    more: dict[str, Any] = {"FEEDS": feeds, "FEED_STORAGES": {"own": OwnPlace}}
    # Scrapy does not close them in a crawl that ends so early.
    more["DOWNLOAD_HANDLERS"] = {"http": None, "https": None}
    runner = AsyncCrawlerRunner(SETTINGS | {"ITEM_PIPELINES": {DedupPipeline: 450}} | more)
    crawlers = [runner.create_crawler(Pages) for _ in range(2)]
    crawlers[0].signals.connect(end_at_once, signals.spider_opened)
    for crawler in crawlers:
        await runner.crawl(crawler)
    assert crawlers[1].stats is not None
    assert crawlers[1].stats.get_value("dedup/committed") == 1
    assert not [one for one in caplog.records if one.levelname == "ERROR"]


@pytest.mark.parametrize("overwrite", [(True, True), (False, True), (False, False)])
async def test_crawls_of_one_process_that_overwrite_the_feed_of_each_other(
    overwrite: tuple[bool, bool], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The crawl that opens the file last deletes the rows of the other one, which would count as
    stored."""
    out, url = tmp_path / "out.jsonl", f"sqlite:{tmp_path / 'i.db'}"
    is_through = [asyncio.Event(), asyncio.Event()]

    def pages_of(number: int) -> Callable[[Crawled], AsyncIterator[Any]]:
        async def source(crawled: Crawled) -> AsyncIterator[Any]:
            if number:
                await is_through[0].wait()
            for page in (2 * number, 2 * number + 1):
                yield {"url": f"https://a.example/{page}", "text": article(page)}
            await crawled.until(2)
            is_through[number].set()
            await is_through[1].wait()

        return source

    def crawl_to(number: int, place: Path, *, overwrites: bool) -> Awaitable[Crawled]:
        feed = {str(place): {"format": "jsonlines", "overwrite": overwrites}}
        return crawl(pages_of(number), {}, FEEDS=feed, DEDUP_INDEX_URL=url)

    await asyncio.gather(*[crawl_to(n, out, overwrites=overwrite[n]) for n in (0, 1)])
    stored = len(out.read_text().splitlines())
    again = await asyncio.gather(
        *[crawl_to(n, tmp_path / f"{n}.jsonl", overwrites=True) for n in (0, 1)]
    )
    assert len([line for line in caplog.messages if "deletes the rows" in line]) == any(overwrite)
    assert [len(one.scraped) for one in again] == ([2, 2] if any(overwrite) else [0, 0])
    assert stored == (2 if any(overwrite) else 4)
