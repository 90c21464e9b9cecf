"""``dedup_skip`` and ``dedup_key`` of a request apply to the items of its page."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from scrapy import Request, Spider
from scrapy.crawler import AsyncCrawlerRunner, Crawler
from scrapy.settings import BaseSettings
from scrapy.spidermiddlewares.httperror import HttpError

from dedup_middleware import Addon
from dedup_middleware.plugin import items as itemnotes
from dedup_middleware.plugin.items import NOTHING, Note, Notes
from dedup_middleware.plugin.pipeline import DedupPipeline
from dedup_middleware.plugin.requestmeta import RequestMeta
from tests.itemcrawl import SETTINGS
from tests.itemkinds import KINDS
from tests.texts import article


def page(response: Any, **more: Any) -> dict[str, Any]:
    """An item whose key is the text of a data URL; all have one text."""
    return {"url": f"https://{response.text}.example/1", "text": article(1), **more}


def sync_parse(_spider: Any, response: Any) -> Iterator[Any]:
    """A callback that is a generator."""
    yield page(response)


async def async_parse(_spider: Any, response: Any) -> AsyncIterator[Any]:
    """One that is asynchronous."""
    yield page(response)


def list_parse(_spider: Any, response: Any) -> list[Any]:
    """One that returns a list."""
    return [page(response)]


def dict_parse(_spider: Any, response: Any) -> dict[str, Any]:
    """One that returns the item alone."""
    return page(response)


async def crawl(
    metas: dict[str, dict[str, Any]], parse: Callable[..., Any] = sync_parse, **settings: Any
) -> Crawler:
    """Fetch data URLs, one after the other, with their metas."""

    async def start(_spider: Any) -> AsyncIterator[Any]:
        for name, meta in metas.items():
            yield Request(f"data:,{name}", meta=meta)

    spider = type("PageSpider", (Spider,), {"name": "pages", "start": start, "parse": parse})
    addons = {"ADDONS": {Addon: 500}, "CONCURRENT_REQUESTS": 1}
    runner = AsyncCrawlerRunner(SETTINGS | addons | settings)
    crawler = runner.create_crawler(spider)
    await runner.crawl(crawler)
    return crawler


def stats(crawler: Crawler) -> dict[str, Any]:
    """The stats of the plugin that are looked at here."""
    assert crawler.stats is not None
    names = ("new", "duplicate", "revisit", "skipped/opt-out", "meta/lost", "error/internal")
    found = {name: crawler.stats.get_value(f"dedup/{name}") for name in names}
    return {name: value for name, value in found.items() if value}


@pytest.mark.parametrize("parse", [sync_parse, async_parse, list_parse, dict_parse])
async def test_they_reach_the_item(parse: Callable[..., Any]) -> None:
    """The meta reaches the items in whatever way the callback returns them."""
    crawler = await crawl(
        {"a": {"dedup_key": "k"}, "b": {"dedup_key": "k"}, "c": {}, "d": {"dedup_skip": True}},
        parse,
    )
    assert stats(crawler) == {"new": 1, "revisit": 1, "duplicate": 1, "skipped/opt-out": 1}


async def test_false_and_none_have_no_effect() -> None:
    """Keys whose value is False or None are ignored."""
    crawler = await crawl({"a": {"dedup_skip": False, "dedup_key": None}, "b": {}})
    assert stats(crawler) == {"new": 1, "duplicate": 1}


@pytest.mark.parametrize("key", [7, "", " ", b"k"])
async def test_unusable_key_is_named_once(key: Any, caplog: pytest.LogCaptureFixture) -> None:
    """The item keeps its own key, and no item is lost."""
    crawler = await crawl({"a": {"dedup_key": key}, "b": {"dedup_key": key}})
    assert stats(crawler) == {"new": 1, "duplicate": 1}
    assert caplog.text.count(f"request.meta['dedup_key']={key!r} of data:,a can't be used") == 1
    assert "use a text" in caplog.text


async def test_callback_may_set_the_key() -> None:
    """The canonical address may be found only in the callback."""

    def parse(_spider: Any, response: Any) -> Iterator[Any]:
        response.meta["dedup_key"] = "k"
        yield page(response)

    assert stats(await crawl({"a": {}, "b": {}}, parse)) == {"new": 1, "revisit": 1}


async def test_requests_of_the_callback_do_not_inherit_them() -> None:
    """Scrapy gives a new request no meta."""

    def parse(_spider: Any, response: Any) -> Iterator[Any]:
        yield page(response)
        if response.text == "a":
            yield Request("data:,b")

    assert stats(await crawl({"a": {"dedup_key": "k"}}, parse)) == {"new": 1, "duplicate": 1}


class Refused:
    """A spider middleware that refuses each response, as Scrapy's does those of HTTP errors."""

    def process_spider_input(self, response: Any) -> None:
        """Called by Scrapy."""
        raise HttpError(response, "refused")


async def test_items_of_an_errback_that_has_a_response() -> None:
    """Scrapy passes them to spider middlewares, too."""

    class Pages(Spider):
        name = "pages"

        async def start(self) -> AsyncIterator[Any]:
            yield Request("data:,a", errback=self.failed, meta={"dedup_skip": True})

        def failed(self, failure: Any) -> Iterator[Any]:
            yield page(failure.value.response)

    more = {"ADDONS": {Addon: 500}, "SPIDER_MIDDLEWARES": {Refused: 50}}
    runner = AsyncCrawlerRunner(SETTINGS | more)
    crawler = runner.create_crawler(Pages)
    await runner.crawl(crawler)
    assert stats(crawler) == {"skipped/opt-out": 1}


@pytest.mark.parametrize("kind", KINDS[:-1], ids=lambda kind: kind.__name__)
async def test_items_of_every_kind(kind: Any) -> None:
    """Also items that can't be hashed, changed or referred to weakly; none is changed."""
    items: list[Any] = []

    def parse(_spider: Any, response: Any) -> Iterator[Any]:
        items.append(kind(url=f"https://{response.text}/", text=article(1)))
        yield items[-1]

    crawler = await crawl({"a": {"dedup_skip": True}, "b": {"dedup_skip": True}}, parse)
    assert stats(crawler) == {"skipped/opt-out": 2}
    fields = {"url": "https://a/", "text": article(1)}
    assert items[0] == kind(**fields)


class Copying:
    """A pipeline before the plugin that returns another object."""

    def process_item(self, item: Any) -> Any:
        return dict(item)


async def test_item_that_is_replaced_before_it_arrives(caplog: pytest.LogCaptureFixture) -> None:
    """It is decided as without the meta; a warning at the end says how many."""
    crawler = await crawl(
        {"a": {"dedup_skip": True}, "b": {"dedup_skip": True}}, ITEM_PIPELINES={Copying: 100}
    )
    assert stats(crawler) == {"new": 1, "duplicate": 1, "meta/lost": 2}
    assert "of 2 items had no effect" in caplog.text


async def test_without_the_pipeline_nothing_is_kept() -> None:
    """The middleware does no harm where the pipeline is switched off."""
    crawler = await crawl({"a": {"dedup_skip": True}}, DEDUP_ENABLED=False)
    assert crawler.stats is not None
    assert crawler.stats.get_value("item_scraped_count") == 1


async def test_two_pipelines_with_indexes_of_their_own(tmp_path: Path) -> None:
    """The meta reaches both: an item that is not to be checked passes both."""

    class Second(DedupPipeline):
        async def open_spider(self) -> None:
            url = f"sqlite:{tmp_path / 'second.db'}"
            self.options = attrs.evolve(self.options, index_url=url)
            await super().open_spider()

    metas = {name: {"dedup_skip": True} for name in "abc"}
    crawler = await crawl(metas, ITEM_PIPELINES={DedupPipeline: 450, Second: 460})
    assert stats(crawler) == {"skipped/opt-out": 6}


async def test_two_crawls_of_one_process() -> None:
    """Each has its own notes, although the object is the same."""
    shared = {"url": "https://a/", "text": article(1)}

    def parse(_spider: Any, _response: Any) -> Iterator[Any]:
        yield shared

    first = await crawl({"a": {"dedup_skip": True}}, parse)
    second = await crawl({"a": {}}, parse)
    assert (stats(first), stats(second)) == ({"skipped/opt-out": 1}, {"new": 1})


def test_object_that_is_yielded_twice() -> None:
    """Its notes are taken in their order; then there are none."""
    notes, item = Notes(), {"url": "u"}
    notes.add(item, Note(skip=True))
    notes.add(item, Note(key="k"))
    assert len(notes) == 2
    assert [notes.take(item) for _ in range(3)] == [Note(skip=True), Note(key="k"), NOTHING]
    assert len(notes) == 0


def test_items_that_never_arrive_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another middleware may keep them back; the newest notes stay, and the others are counted."""
    monkeypatch.setattr(itemnotes, "MAX_NOTES", 3)
    notes, items = Notes(), [{"n": n} for n in range(5)]
    for item in items:
        notes.add(item, Note(key=str(item["n"])))
    assert len(notes) == 5
    assert [notes.take(item).key for item in items] == [None, None, "2", "3", "4"]
    assert len(notes) == 2


def test_addon_keeps_an_order_of_the_user() -> None:
    """As it does for the pipeline; None switches the middleware off."""
    settings = BaseSettings({"SPIDER_MIDDLEWARES": {RequestMeta: None}})
    Addon().update_settings(settings)
    assert settings["SPIDER_MIDDLEWARES"] == {RequestMeta: None}


@attrs.define
class NoRequest:
    """A response that was made without a request."""

    request: None = None
    url: str = "u"


def test_response_without_a_request() -> None:
    """A response without a request, as tests of spiders make it, is no error."""
    middleware = RequestMeta(None)  # type: ignore[arg-type]
    assert list(middleware.process_spider_output(NoRequest(), [{"url": "u"}])) == [{"url": "u"}]  # type: ignore[arg-type]
