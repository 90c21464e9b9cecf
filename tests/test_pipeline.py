"""Scrapy's face of the plugin: items in, items or NearDuplicate out, signals back."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from scrapy import Spider, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import CloseSpider, DropItem, NotConfigured
from scrapy.settings import Settings
from scrapy.utils.misc import load_object
from scrapy.utils.test import get_crawler

from dedup_middleware import Addon, DedupPipeline, NearDuplicate
from dedup_middleware.plugin.notices import ALIKE
from dedup_middleware.text.extract import MAX_SIZE
from tests.texts import article


def make_crawler(**settings: Any) -> Crawler:
    """A crawler with the pipeline's settings."""
    return get_crawler(Spider, {"DEDUP_INDEX_URL": "memory:", **settings})


class Crawl:
    """The pipeline as Scrapy drives it: process_item, then the signal of what became of it."""

    def __init__(self, crawler: Crawler) -> None:
        self.crawler = crawler
        self.pipeline = DedupPipeline.from_crawler(crawler)

    async def item(self, item: Any, *, then: str = "stored") -> Any:
        """Send an item through; ``then`` is what the pipelines behind do with it."""
        try:
            out = await self.pipeline.process_item(item)
        except DropItem as error:
            await self.signal(signals.item_dropped, item, exception=error)
            return error
        if then == "stored":
            # Later pipelines may hand on another object.
            await self.signal(signals.item_scraped, dict(out) if isinstance(out, dict) else out)
        elif then == "dropped":
            await self.signal(signals.item_dropped, item, exception=DropItem("by another"))
        elif then == "failed":
            await self.signal(signals.item_error, item, failure=None)
        return out

    async def signal(self, signal: object, item: Any, **more: Any) -> None:
        """Send the signal that Scrapy sends."""
        await self.crawler.signals.send_catch_log_async(
            signal, item=item, response=None, spider=None, **more
        )

    def stat(self, name: str) -> Any:
        """A stat of the plugin."""
        assert self.crawler.stats is not None
        return self.crawler.stats.get_value(f"dedup/{name}", 0)


async def opened(**settings: Any) -> Crawl:
    """An open crawl on a memory index."""
    crawl = Crawl(make_crawler(**settings))
    await crawl.pipeline.open_spider()
    return crawl


@pytest.fixture
async def crawl() -> AsyncIterator[Crawl]:
    """An open crawl on a memory index."""
    running = await opened()
    yield running
    await running.pipeline.close_spider()


def item(key: str, seed: int) -> dict[str, Any]:
    """An article item."""
    return {"url": f"https://{key}", "text": article(seed)}


async def test_second_copy_is_dropped_naming_the_first(crawl: Crawl) -> None:
    """The exception carries the verdict, and its message is short and without the page."""
    await crawl.item(item("a/1", 1))
    error = await crawl.item(item("b/1", 1))
    assert isinstance(error, NearDuplicate)
    assert error.verdict.match is not None
    assert error.verdict.match.key == "https://a/1"
    assert error.key == "https://b/1"
    assert "https://a/1" in str(error)
    assert len(str(error)) < 200
    assert error.log_level == "DEBUG"
    assert (crawl.stat("new"), crawl.stat("duplicate"), crawl.stat("dropped")) == (1, 1, 1)
    assert crawl.stat("reason/exact-copy") == 1


@pytest.mark.parametrize("fate", ["dropped", "failed"])
async def test_page_that_was_not_stored_makes_nothing_a_duplicate(crawl: Crawl, fate: str) -> None:
    """When a later pipeline drops the item or fails, its copy is stored in its stead."""
    await crawl.item(item("a/1", 1), then=fate)
    kept = await crawl.item(item("b/1", 1))
    assert isinstance(kept, dict)
    assert crawl.stat("released") == 1


async def test_comment_under_the_pages_key_does_not_commit_it(crawl: Crawl) -> None:
    """Another item with the same key that is stored does not commit a page that then fails."""
    page = item("a/1", 1)
    comment = {"url": "https://a/1", "dedup_skip": True}
    assert await crawl.pipeline.process_item(page) is page
    await crawl.item(comment)
    await crawl.signal(signals.item_error, page, failure=None)
    assert isinstance(await crawl.item(item("b/1", 1)), dict)


async def test_items_that_are_none_of_ours_pass(crawl: Crawl) -> None:
    """No content, no key, opted out, not an item: all pass and are counted."""
    for passing in ({"price": 3}, {"url": "u", "dedup_skip": True, "text": "x"}, "no item"):
        assert await crawl.item(passing) == passing
    assert crawl.stat("skipped/no-content") == 1
    assert crawl.stat("skipped/opt-out") == 1
    assert crawl.stat("skipped/no-item") == 1


async def test_list_of_texts_without_an_address_is_checked(crawl: Crawl) -> None:
    """As item loaders leave it: named by a hash of the joined text."""
    await crawl.item({"text": [article(1), article(2)]})
    assert isinstance(await crawl.item({"text": [article(1), article(2)]}), NearDuplicate)


async def test_item_that_cant_be_read_passes(
    crawl: Crawl, caplog: pytest.LogCaptureFixture
) -> None:
    """An item whose fields raise is the user's own matter: it passes, and it is counted."""

    class Broken:
        def __str__(self) -> str:
            raise ZeroDivisionError

    broken = {"url": Broken(), "text": article(1)}
    assert await crawl.item(broken) is broken
    assert crawl.stat("error/internal") == 1
    assert "no item is lost" in caplog.text


async def test_own_error_never_costs_an_item(
    crawl: Crawl, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """After any error of the plugin the item passes; the error is counted and logged."""

    async def broken(*_: Any) -> Any:
        raise ZeroDivisionError

    monkeypatch.setattr(crawl.pipeline._deduplicator, "decide", broken)
    assert isinstance(await crawl.item(item("a/1", 1)), dict)
    assert crawl.stat("error/internal") == 1
    assert "no item is lost" in caplog.text


async def test_marking_instead_of_dropping() -> None:
    """With DEDUP_ACTION=mark everything passes, and the items say what was found."""
    crawl = Crawl(make_crawler(DEDUP_ACTION="mark"))
    await crawl.pipeline.open_spider()
    first = await crawl.item(item("a/1", 1))
    second = await crawl.item(item("b/1", 1))
    assert first["dedup"]["outcome"] == "new"
    reported = {
        "outcome": "duplicate",
        "reason": "exact-copy",
        "match": "https://a/1",
        "similarity": 1.0,
    }
    assert second["dedup"].items() >= reported.items()
    await crawl.pipeline.close_spider()


@pytest.mark.parametrize(("policy", "passes"), [("drop", False), ("keep", True)])
async def test_revisit_policy(policy: str, passes: bool) -> None:
    """An unchanged page seen again is dropped or kept, as the setting says."""
    crawl = Crawl(make_crawler(DEDUP_REVISIT=policy))
    await crawl.pipeline.open_spider()
    await crawl.item(item("a/1", 1))
    assert isinstance(await crawl.item(item("a/1", 1)), dict) is passes
    assert crawl.stat("revisit") == 1
    await crawl.pipeline.close_spider()


@pytest.mark.parametrize(
    ("changes", "settings"),
    [
        ({"text": article(2)}, {}),
        ({"text": article(1, 28)}, {"DEDUP_REVISIT": "keep"}),
        ({"text": article(1, 28)}, {"DEDUP_ACTION": "mark"}),
        ({"text": article(9)}, {"DEDUP_ACTION": "mark"}),
        ({"text": ""}, {}),
    ],
    ids=["changed", "kept revisit", "marked revisit", "marked duplicate", "empty"],
)
async def test_what_replaces_a_row_is_known_before_it_goes_on(
    changes: dict[str, str], settings: dict[str, str]
) -> None:
    """When an item with the key of a stored page goes on to storage, the index has forgotten the
    earlier text, whatever becomes of the item; with DEDUP_VERSIONS=keep it has not."""
    for versions in ("replace", "keep"):
        crawl = Crawl(make_crawler(DEDUP_VERSIONS=versions, DEDUP_HASH_KEY="5eed", **settings))
        await crawl.pipeline.open_spider()
        await crawl.item({"url": "https://c/9", "text": article(9)})
        await crawl.item({"url": "https://a/1", "text": article(1, 40)})
        assert crawl.stat("new") == 2
        again = {"url": "https://a/1", **changes}
        assert await crawl.item(again, then="under way") is again
        assert crawl.stat("replaced") == (versions == "replace")
        await crawl.signal(signals.item_scraped, again)
        copy = {"url": "https://b/1", "text": article(1, 40)}
        await crawl.item(copy)
        assert crawl.stat("new") - crawl.stat("reason/changed") == 2 + (versions == "replace")
        await crawl.pipeline.close_spider()


async def test_a_kept_revisit_is_known_by_its_new_text() -> None:
    """The text that takes the place of the earlier one is stored, so a copy of it is dropped."""
    crawl = Crawl(make_crawler(DEDUP_REVISIT="keep", DEDUP_HASH_KEY="5eed"))
    await crawl.pipeline.open_spider()
    for text in (article(1, 40), article(1, 28)):
        await crawl.item({"url": "https://a/1", "text": text})
    assert (crawl.stat("revisit"), crawl.stat("replaced"), crawl.stat("committed")) == (1, 1, 2)
    error = await crawl.item({"url": "https://b/1", "text": article(1, 28)})
    assert isinstance(error, NearDuplicate)
    await crawl.pipeline.close_spider()


@pytest.mark.parametrize(("policy", "passes"), [("drop", False), ("keep", True)])
async def test_policy_for_empty_pages(policy: str, passes: bool) -> None:
    """Pages without text are kept or dropped, and never duplicates."""
    crawl = Crawl(make_crawler(DEDUP_ON_EMPTY=policy))
    await crawl.pipeline.open_spider()
    for key in ("a", "b"):
        assert isinstance(await crawl.item({"url": key, "text": ""}), dict) is passes
    assert crawl.stat("empty") == 2
    await crawl.pipeline.close_spider()


@pytest.mark.parametrize(
    "content", [{"text": b"bytes"}, {"text": ["a", 5]}, {"html": ["<p>a", "<p>b"]}]
)
async def test_content_that_cant_be_read_is_not_dropped_as_empty(content: dict[str, Any]) -> None:
    """A field of another type may hold a text, so DEDUP_ON_EMPTY=drop does not apply."""
    crawl = Crawl(make_crawler(DEDUP_ON_EMPTY="drop"))
    await crawl.pipeline.open_spider()
    kept = {"url": "https://a/1", **content}
    assert await crawl.item(kept) is kept
    await crawl.pipeline.close_spider()


async def test_a_page_without_text_where_it_was_read_is_not_dropped_as_empty() -> None:
    """It may have one behind the limit."""
    crawl = Crawl(make_crawler(DEDUP_ON_EMPTY="drop"))
    await crawl.pipeline.open_spider()
    kept = {"url": "https://a/1", "html": f"<script>{'s' * MAX_SIZE}</script><p>{article(1)}"}
    assert await crawl.item(kept) is kept
    await crawl.pipeline.close_spider()


@pytest.mark.parametrize("text", ["\u200b", "\ufeff \xad", "...", "\x00", " - "])
async def test_text_that_says_nothing_does_not_hide_the_html(text: str) -> None:
    """An item with such a text and HTML is no empty page; that of the HTML is compared."""
    crawl = Crawl(make_crawler(DEDUP_ON_EMPTY="drop"))
    await crawl.pipeline.open_spider()
    html = f"<html><body><article><p>{article(1)}</p></article></body></html>"
    kept = {"url": "https://a/1", "text": text, "html": html}
    assert await crawl.item(kept) is kept
    assert isinstance(await crawl.item({**kept, "url": "https://b/1"}), NearDuplicate)
    await crawl.pipeline.close_spider()


async def test_content_that_cant_be_read_replaces_the_row_of_its_page() -> None:
    """Storage may have taken it before a later pipeline fails: the earlier text is forgotten."""
    crawl = Crawl(make_crawler(DEDUP_ON_EMPTY="drop"))
    await crawl.pipeline.open_spider()
    await crawl.item(item("a/1", 1))
    await crawl.item({"url": "https://a/1", "text": b"bytes"}, then="failed")
    assert isinstance(await crawl.item(item("b/1", 1)), dict)
    await crawl.pipeline.close_spider()


async def test_a_short_crawl_of_items_without_a_page_says_so_at_its_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A first try with few items shows that the fields have other names; one page is enough not to
    say it."""
    for last, warnings in (({"url": "3"}, 1), (item("a/1", 1), 0)):
        caplog.clear()
        crawl = Crawl(make_crawler())
        await crawl.pipeline.open_spider()
        for one in ({"url": "1", "body": "words"}, {"url": "2", "body": "words"}, last):
            await crawl.item(one)
        assert "The first" not in caplog.text
        await crawl.pipeline.close_spider()
        assert caplog.text.count("The first 3 items have neither text nor HTML") == warnings


@pytest.mark.parametrize("host", ["a.example", "www.A.example", "b{}.example"])
async def test_many_pages_of_a_site_with_one_text_are_warned_of(
    host: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It may be a login page or a cookie banner; copies on many sites are what is looked for."""
    crawl = Crawl(make_crawler())
    await crawl.pipeline.open_spider()
    await crawl.item({"url": "https://a.example/1", "text": article(1)})
    for n in range(2 * ALIKE):
        copy = {"url": f"https://{host.format(n)}/{n + 2}", "text": article(1)}
        assert isinstance(await crawl.item(copy), NearDuplicate)
    said = caplog.text.count("pages of one site have the very text of https://a.example/1:")
    assert said == (host != "b{}.example")
    await crawl.pipeline.close_spider()


@pytest.mark.parametrize("versions", ["replace", "keep"])
async def test_many_items_with_one_key_are_warned_of(
    versions: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Each counts as a new version of one page: a spider may give all the address of their list.
    Copies of all are found if the index keeps them."""
    crawl = Crawl(make_crawler(DEDUP_VERSIONS=versions))
    await crawl.pipeline.open_spider()
    for n in range(2 * ALIKE + 1):
        await crawl.item({"url": "https://a.example/list", "text": article(n)})
    said = caplog.text.count("have the key https://a.example/list: each counts as a new")
    assert said == (versions == "replace")
    await crawl.pipeline.close_spider()


async def test_an_item_without_content_takes_no_row(crawl: Crawl) -> None:
    """An image of a page that is stored after it, under its key, is no later text of the page."""
    page = item("a/1", 1)
    image = {"url": "https://a/1", "image": "1.png"}
    for one in (page, image):
        assert await crawl.pipeline.process_item(one) is one
    for one in (page, image):
        await crawl.signal(signals.item_scraped, one)
    assert isinstance(await crawl.item(item("b/1", 1)), NearDuplicate)


@pytest.mark.parametrize("policy", ["drop", "close"])
async def test_a_page_that_has_waited_too_long_is_stored(policy: str) -> None:
    """The like page may still fail, and the index can be used: DEDUP_ON_ERROR does not apply."""
    crawl = Crawl(make_crawler(DEDUP_ON_ERROR=policy, DEDUP_PENDING_WAIT=0))
    await crawl.pipeline.open_spider()
    first = await crawl.item(item("a/1", 1), then="under way")
    copy = await crawl.item(item("b/1", 1))
    assert isinstance(copy, dict)
    assert (crawl.stat("reason/pending-timeout"), crawl.stat("dropped")) == (1, 0)
    assert crawl.pipeline._action._closing is None
    await crawl.signal(signals.item_error, first, failure=None)
    await crawl.pipeline.close_spider()


async def test_text_from_html_is_put_into_the_item(crawl: Crawl) -> None:
    """What was extracted need not be extracted again by the user."""
    html = f"<html><body><article><h1>题</h1><p>{article(3, 20)}</p></article></body></html>"
    out = await crawl.item({"url": "u", "html": html.encode(), "text": None, "title": ""})
    assert article(3, 20)[:20] in out["text"]


async def test_unusable_setting_ends_the_crawl_with_one_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """No traceback: the setting, its value and the fix, and the spider closes."""
    crawl = Crawl(make_crawler(DEDUP_THRESHOLD="high"))
    with pytest.raises(CloseSpider) as caught:
        await crawl.pipeline.open_spider()
    assert caught.value.reason == "dedup_settings"
    (record,) = [r for r in caplog.records if r.levelno == logging.ERROR]
    assert "DEDUP_THRESHOLD='high' can't be used: use a number" in record.getMessage()
    assert record.exc_info is None


async def test_index_made_with_other_parameters_ends_the_crawl(
    tmp_path: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """The message names the parameter that differs."""
    url = f"sqlite:{tmp_path / 'index.db'}"
    first = Crawl(make_crawler(DEDUP_INDEX_URL=url))
    await first.pipeline.open_spider()
    await first.pipeline.close_spider()
    second = Crawl(make_crawler(DEDUP_INDEX_URL=url, DEDUP_BANDS=4))
    with pytest.raises(CloseSpider) as caught:
        await second.pipeline.open_spider()
    assert caught.value.reason == "dedup_index_refused"
    assert "2x3" in caplog.text
    assert "4x3" in caplog.text
    await second.pipeline.close_spider()


UNREACHABLE = "redis://user:secret@127.0.0.1:1/0"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("policy", "action", "passes"),
    [("keep", "drop", True), ("drop", "drop", False), ("drop", "mark", True)],
)
async def test_index_that_is_away(
    policy: str, action: str, passes: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Without the index items are kept or dropped as the setting says, and no secret is logged."""
    unreachable = {"DEDUP_INDEX_URL": UNREACHABLE, "DEDUP_TIMEOUT": 0.2}
    crawl = Crawl(make_crawler(**unreachable, DEDUP_ON_ERROR=policy, DEDUP_ACTION=action))
    await crawl.pipeline.open_spider()
    for number in range(3):
        assert isinstance(await crawl.item(item(f"a/{number}", number)), dict) is passes
    await crawl.pipeline.close_spider()
    assert crawl.stat("unchecked") == 3
    assert "secret" not in caplog.text
    assert "127.0.0.1:1" in caplog.text


async def test_index_that_is_away_can_close_the_spider() -> None:
    """With DEDUP_ON_ERROR=close the crawl does not start without its index."""
    crawl = Crawl(make_crawler(DEDUP_INDEX_URL=UNREACHABLE, DEDUP_ON_ERROR="close"))
    with pytest.raises(CloseSpider) as caught:
        await crawl.pipeline.open_spider()
    assert caught.value.reason == "dedup_index_unavailable"
    await crawl.pipeline.close_spider()


async def test_switched_off() -> None:
    """DEDUP_ENABLED=False leaves the pipeline out, with a reason."""
    with pytest.raises(NotConfigured, match="DEDUP_ENABLED"):
        DedupPipeline.from_crawler(make_crawler(DEDUP_ENABLED=False))


def test_addon_adds_the_pipeline_once() -> None:
    """One ADDONS line puts the pipeline in; a priority of the user's own stays."""
    settings = Settings()
    Addon().update_settings(settings)
    Addon().update_settings(settings)
    pipelines = {load_object(k): v for k, v in settings.getdict("ITEM_PIPELINES").items()}
    assert pipelines == {DedupPipeline: 450}
    own = Settings({"ITEM_PIPELINES": {"dedup_middleware.DedupPipeline": 600}})
    Addon().update_settings(own)
    assert list(own.getdict("ITEM_PIPELINES").values()) == [600]


@pytest.mark.parametrize("module", ["dedup_middleware", "dedup_middleware.plugin.addon"])
def test_importing_loads_nothing_heavy(module: str) -> None:
    """Neither the package nor the add-on loads numba, jieba or trafilatura."""
    code = (
        f"import {module}, sys; "
        "print([m for m in ('numba', 'jieba', 'trafilatura', 'redis') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


async def test_calls_to_the_index_are_counted(crawl: Crawl) -> None:
    """One for a new page and one when it is stored; a copy costs at most two more."""
    await crawl.item(item("a/1", 1))
    assert crawl.stat("index/calls") == 2
    await crawl.item(item("b/1", 1))
    assert 3 <= crawl.stat("index/calls") <= 4
    assert crawl.stat("index/round-trips") == 0  # the index is in memory


async def test_scanned_records_are_counted(crawl: Crawl) -> None:
    """The SimHash records that a copy meets in its buckets."""
    await crawl.item(item("a/1", 1))
    assert not crawl.stat("index/scanned")
    await crawl.item(item("b/1", 1))
    assert crawl.stat("index/scanned") >= 4


async def test_round_trips_to_the_index_are_counted(tmp_path: Any) -> None:
    """Items on their way at the same time share round trips, one at a time has its own."""
    crawl = Crawl(make_crawler(DEDUP_INDEX_URL=f"sqlite:{tmp_path / 'index.db'}"))
    await crawl.pipeline.open_spider()
    await crawl.item(item("a/0", 0))
    assert crawl.stat("index/round-trips") == crawl.stat("index/calls") == 2
    await asyncio.gather(*[crawl.item(item(f"a/{number}", number)) for number in range(1, 21)])
    assert crawl.stat("index/calls") >= 42
    assert crawl.stat("index/round-trips") <= 21
    await crawl.pipeline.close_spider()


async def test_default_index_without_a_scrapy_cfg(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As scrapyd runs a project: the settings module is given, and there is no scrapy.cfg."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SCRAPY_SETTINGS_MODULE", "settings.base")
    crawl = Crawl(make_crawler(DEDUP_INDEX_URL=None))
    await crawl.pipeline.open_spider()
    await crawl.item(item("a/1", 1))
    await crawl.pipeline.close_spider()
    assert crawl.stat("committed") == 1
    assert (tmp_path / ".scrapy" / "dedup" / "index.db").exists()
