"""Items whose classes and values are unusual, pipelines before and behind, and spiders that yield
items from the start: nothing is lost, and no claim is left open."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scrapy import Request, Spider
from scrapy.crawler import AsyncCrawlerRunner
from scrapy.exceptions import CloseSpider, DropItem

from dedup_middleware import Addon, NearDuplicate, Options
from dedup_middleware.base.errors import OptionsError
from dedup_middleware.journal.sqlite import SQLiteJournal
from dedup_middleware.plugin.settings import make_data_folder, options_from_settings
from tests.itemcrawl import SETTINGS
from tests.servers import running_redis
from tests.test_pipeline import Crawl, item, make_crawler, opened
from tests.texts import article


@pytest.mark.parametrize("kind", [list, tuple, lambda title: title[0]])
async def test_title_in_a_list(kind: Any) -> None:
    """Short pages of one text under other titles are other pages, also as item loaders leave them,
    and so is an address in a list."""
    crawl = await opened()
    pages = [("https://a/1", "Speeches to gardeners"), ("https://b/2", "Budget of 2031 adopted")]
    for key, title in pages:
        page = {"url": kind([key]), "title": kind([title]), "text": ["Photo gallery"]}
        assert isinstance(await crawl.item(page), dict)
    copy = {"url": "https://c/3", "title": pages[0][1], "text": "Photo gallery"}
    error = await crawl.item(copy)
    assert isinstance(error, NearDuplicate)
    assert error.verdict.match is not None
    assert error.verdict.match.key == "https://a/1"
    await crawl.pipeline.close_spider()


async def test_titles_of_other_types_are_different() -> None:
    """What a title holds is compared whatever its type is."""
    crawl = await opened()
    for number, title in enumerate([7, 8, {"en": "Bridge"}, None]):
        page = {"url": f"https://a/{number}", "title": title, "text": "Photo gallery"}
        assert isinstance(await crawl.item(page), dict)
    await crawl.pipeline.close_spider()


_NAN = float("nan")


@pytest.mark.parametrize(
    "key",
    [
        *([], (), " ", [" "], {}, ["", " "], [None], (None, ""), [[]], set(), b"", b" "),
        *(_NAN, [_NAN], np.float32("nan")),
    ],
)
async def test_a_key_that_names_nothing_is_none(key: Any) -> None:
    """A key that a selector without a match has left counts as none: such pages are not versions of
    one page, and a second crawl finds all of them."""
    crawl = await opened()
    for fate in (dict, NearDuplicate):
        for seed in range(3):
            found = await crawl.item({"url": key, "text": article(seed)})
            assert isinstance(found, fate), (fate, seed)
    assert crawl.stat("reason/changed") == 0
    assert isinstance(await crawl.item({"url": key}), dict)
    assert crawl.stat("skipped/no-content") == 1
    await crawl.pipeline.close_spider()


class ReadOnly(dict[str, Any]):
    """An item that takes no verdict."""

    def __setitem__(self, key: str, value: Any) -> None:
        raise RuntimeError(f"{key} can't be set")


async def test_item_that_refuses_the_verdict() -> None:
    """It passes, its claim is settled, and a copy is known."""
    crawl = await opened(DEDUP_ACTION="mark")
    for key in ("a/1", "b/1"):
        assert isinstance(await crawl.item(ReadOnly(item(key, 1))), ReadOnly)
    assert (crawl.stat("committed"), crawl.stat("duplicate")) == (1, 1)
    assert crawl.stat("error/internal") == 0
    await crawl.pipeline.close_spider()


async def test_value_that_is_neither_true_nor_false() -> None:
    """An item whose `dedup_skip` can't be read passes, and the error is counted."""
    crawl = await opened()
    page = {**item("a/1", 1), "dedup_skip": np.zeros(3)}
    assert await crawl.item(page) is page
    assert crawl.stat("error/internal") == 1
    await crawl.pipeline.close_spider()


class Changing(dict[str, Any]):
    """An item that can be read a few times only."""

    reads = 0

    def __getitem__(self, key: str) -> Any:
        if key == "text":
            self.reads += 1
            if self.reads > 1:
                raise RuntimeError("gone")
        return super().__getitem__(key)


async def test_item_that_can_no_longer_be_read() -> None:
    """It passes; its claim is released, so that a copy is stored without waiting."""
    crawl = await opened(DEDUP_PENDING_WAIT=60)
    assert isinstance(await crawl.item(Changing(item("a/1", 1))), Changing)
    copy = await asyncio.wait_for(crawl.item(item("b/1", 1)), 20)
    assert isinstance(copy, dict)
    assert crawl.stat("committed") == 1
    await crawl.pipeline.close_spider()


@pytest.mark.parametrize(
    "name", ["\ud800", "1\n2026-01-01 [root] ERROR", "\x1b[2J\x00", "x" * 70_000]
)
async def test_a_key_can_break_no_line_of_the_log(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """What a page calls itself is one line there, and can be encoded; a verdict has it as it is."""
    crawl = await opened()
    key = f"https://a/{name}"
    await crawl.item({**item("a/1", 1), "url": key})
    error = await crawl.item({**item("b/1", 1), "url": f"{key}2"})
    assert isinstance(error, NearDuplicate)
    assert error.key == f"{key}2"

    def broken(*_: Any) -> None:
        raise RuntimeError("broken by the test")

    monkeypatch.setattr(crawl.pipeline, "_document", broken)
    await crawl.item({**item("c/1", 1), "url": key})
    for line in (str(error), caplog.messages[-1]):
        assert "https://a/" in line
        assert len(line) < 5000
        assert line.isprintable()
    await crawl.pipeline.close_spider()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"mark_field": "text"}, "DEDUP_MARK_FIELD='text' can't be used: DEDUP_TEXT_FIELD names"),
        ({"skip_field": "url"}, "DEDUP_SKIP_FIELD='url' can't be used: DEDUP_KEY_FIELD names"),
        ({"max_chars": float("inf")}, "DEDUP_MAX_CHARS=inf can't be used"),
    ],
)
def test_settings_that_would_lose_content(settings: dict[str, Any], message: str) -> None:
    """One field can't hold the page and the verdict; a number without end is none."""
    with pytest.raises(OptionsError, match=message.replace("(", r"\(")):
        Options.from_mapping({f"DEDUP_{name.upper()}": value for name, value in settings.items()})


def test_class_whose_verdict_would_replace_its_text() -> None:
    """In DEDUP_ITEMS, too, one field can't hold the page and the verdict."""
    options = Options.from_mapping({"DEDUP_ITEMS": {"builtins.dict": {"mark": "text"}}})
    with pytest.raises(OptionsError, match="'mark' and 'text' are the same field"):
        options.items[0].names(options.field_names)


def test_data_folder_that_cant_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the setting and the folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("scrapy.utils.project.inside_project", lambda: False)
    (tmp_path / ".scrapy").touch()
    settings = make_crawler(DEDUP_INDEX_URL=None).settings
    options = options_from_settings(settings)
    with pytest.raises(
        OptionsError, match=r"DEDUP_INDEX_URL='sqlite:.*the folder .* can't be made"
    ):
        make_data_folder(settings, options)


@pytest.mark.parametrize("journal", ["pages.jsonl", "folder", "index.db"])
def test_a_journal_that_is_no_journal(
    journal: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the error the crawl would run to its end, and no drop could be brought back."""
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    Path("pages.jsonl").write_text('{"url": "https://a.example/1"}\n')
    with contextlib.closing(sqlite3.connect("index.db")) as database:
        database.execute("CREATE TABLE pages (url TEXT)")
    settings = make_crawler(DEDUP_JOURNAL=journal).settings
    with pytest.raises(OptionsError, match=f"DEDUP_JOURNAL='{journal}' .*name a"):
        make_data_folder(settings, options_from_settings(settings))


def test_a_journal_that_is_there_or_not_yet(tmp_path: Path) -> None:
    """Both are used; a file without a byte is one that another process is making."""
    for name in ("old.db", "new.db", "empty.db"):
        settings = make_crawler(DEDUP_JOURNAL=tmp_path / name).settings
        options = options_from_settings(settings)
        if name == "old.db":
            with contextlib.closing(SQLiteJournal(tmp_path / name, max_bytes=10**6)) as journal:
                journal.open(create=True)
        elif name == "empty.db":
            (tmp_path / name).touch()
        make_data_folder(settings, options)


def test_a_journal_that_is_in_use_keeps_its_locks(tmp_path: Path) -> None:
    """A process that opens and closes a file itself loses the locks that SQLite has on it: the next
    reader took itself for the last one, and what this process wrote afterwards was lost."""
    path = tmp_path / "j.db"
    count = "import sqlite3; db = sqlite3.connect('j.db'); f = 'SELECT count(*) FROM activity'; "
    read = [sys.executable, "-c", count + "print(*db.execute(f).fetchone()); db.close()"]
    settings = make_crawler(DEDUP_JOURNAL=path).settings
    with contextlib.closing(SQLiteJournal(path, max_bytes=10**6)) as journal:
        journal.open(create=True)
        for number in range(3):
            journal.append([], [], {(number, "a.example", "stored"): 1})
            make_data_folder(settings, options_from_settings(settings))  # a crawl of this process
            assert int(subprocess.check_output(read, cwd=tmp_path)) == number + 1


async def test_items_that_an_earlier_pipeline_drops_are_forgotten() -> None:
    """The meta of their requests is no longer kept, and is not reported to have had no effect."""

    class Cheap:
        """A pipeline before the plugin."""

        def process_item(self, page: Any) -> Any:
            """Drop an item without a price."""
            if "price" not in page:
                raise DropItem("no price")
            return page

    def parse(_spider: Any, response: Any) -> Any:
        for number in range(4):
            page = {"url": f"https://a/{number}", "text": article(number)}
            yield page | ({"price": 1} if number % 2 else {})

    async def start(_spider: Any) -> AsyncIterator[Any]:
        yield Request("data:,one", meta={"dedup_skip": False, "dedup_key": None})

    spider = type("Pages", (Spider,), {"name": "pages", "start": start, "parse": parse})
    runner = AsyncCrawlerRunner(
        {**SETTINGS, "ADDONS": {Addon: 500}, "ITEM_PIPELINES": {Cheap: 300}}
    )
    crawler = runner.create_crawler(spider)
    await runner.crawl(crawler)
    assert crawler.stats is not None
    assert crawler.stats.get_value("dedup/new") == 2
    assert crawler.stats.get_value("dedup/meta/lost") is None


class Slow:
    """A pipeline behind the plugin that takes its time."""

    async def process_item(self, page: Any) -> Any:
        """Let the item pass later."""
        await asyncio.sleep(0.3)
        return page


@pytest.mark.services
@pytest.mark.parametrize("action", ["drop", "mark"])
async def test_spider_that_yields_items_from_the_start_is_closed(
    action: str, tmp_path: Path
) -> None:
    """With DEDUP_ON_ERROR=close the crawl ends although the last item under way is of start()."""
    with running_redis(tmp_path) as server:

        async def start(_spider: Any) -> AsyncIterator[Any]:
            for number in range(4):
                if number == 2:
                    server.kill()
                yield {"url": f"https://a/{number}", "text": article(number)}

        spider = type("Items", (Spider,), {"name": "items", "start": start})
        own = {
            "DEDUP_INDEX_URL": server.url,
            "DEDUP_ON_ERROR": "close",
            "DEDUP_ACTION": action,
            "DEDUP_TIMEOUT": 0.5,
            "DEDUP_RETRIES": 0,
            "ITEM_PIPELINES": {Slow: 900},
        }
        runner = AsyncCrawlerRunner({**SETTINGS, "ADDONS": {Addon: 500}, **own})
        crawler = runner.create_crawler(spider)
        await asyncio.wait_for(runner.crawl(crawler), 60)
        assert crawler.stats is not None
        assert crawler.stats.get_value("finish_reason") == "dedup_index_unavailable"
        assert crawler.stats.get_value("item_scraped_count") == 4


@pytest.mark.services
@pytest.mark.parametrize("other_fails", [False, True])
async def test_a_crawl_whose_last_commits_fail_counts_as_failed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, other_fails: bool
) -> None:
    """With DEDUP_ON_ERROR=close, although no item is left that could close the spider; also if
    Scrapy does not wait for them, because another pipeline failed when it was closed."""
    with running_redis(tmp_path) as server:

        class Killing:
            def process_item(self, page: Any) -> Any:
                """The item is decided, and the server is killed before it is committed."""
                server.kill()
                return page

            def close_spider(self) -> None:
                """It may fail."""
                if other_fails:
                    raise OSError("the disk is full")

        async def start(_spider: Any) -> AsyncIterator[Any]:
            yield {"url": "https://a/0", "text": article(0)}

        spider = type("Items", (Spider,), {"name": "items", "start": start})
        own = {
            "DEDUP_INDEX_URL": server.url,
            "DEDUP_ON_ERROR": "close",
            "DEDUP_TIMEOUT": 0.5,
            "DEDUP_RETRIES": 0,
            "ITEM_PIPELINES": {Killing: 900},
        }
        runner = AsyncCrawlerRunner({**SETTINGS, "ADDONS": {Addon: 500}, **own})
        crawler = runner.create_crawler(spider)
        await asyncio.wait_for(runner.crawl(crawler), 60)
    assert crawler.stats is not None
    assert crawler.stats.get_value("item_scraped_count") == 1
    assert crawler.spider is None  # Scrapy's process exits with 1
    assert "1 pages were stored without a check" in caplog.text
    assert "The crawl has failed: the index lacks pages of it (DEDUP_ON_ERROR=close)" in caplog.text


async def test_reset_needs_the_index(caplog: pytest.LogCaptureFixture) -> None:
    """A crawl that was asked to forget earlier pages is not started without the index: when that is
    back, it would drop them."""
    with pytest.raises(CloseSpider) as caught:
        await opened(DEDUP_INDEX_URL="redis://127.0.0.1:1/0", DEDUP_RESET=True, DEDUP_RETRIES=0)
    assert caught.value.reason == "dedup_index_unavailable"
    assert "The crawl is not started" in caplog.text


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b"\xb5\xda first", b"\xb5\xda second"),
        ({"body": "first"}, {"body": "second"}),
        (["first", 1], ["second", 1]),
        ("👍", "👎"),
    ],
)
async def test_html_does_not_stand_for_a_text_that_can_not_be_read(one: Any, other: Any) -> None:
    """Two comments on one page have its HTML in common: neither is dropped."""
    crawl = Crawl(make_crawler())
    await crawl.pipeline.open_spider()
    html = f"<p>{article(1)}</p>"
    for number, text in enumerate((one, other, other)):
        item = {"url": f"https://a/{number}", "text": text, "html": html}
        assert await crawl.item(item) is item
    assert crawl.stat("skipped/unreadable") == crawl.stat("empty") == 3
    await crawl.pipeline.close_spider()


async def test_an_unreadable_text_takes_the_place_of_an_earlier_one() -> None:
    """Storage has replaced the text, so a copy of it is no copy of what is stored."""
    crawl = Crawl(make_crawler(DEDUP_ON_EMPTY="drop"))
    await crawl.pipeline.open_spider()
    html = "<p>two words</p>"
    first = {"url": "https://a/1", "text": article(1), "html": html}
    stars = {"url": "https://a/1", "text": "★★★", "html": html}
    copy = {"url": "https://b/1", "text": article(1), "html": html}
    for one in (first, stars, copy):
        assert await crawl.item(one) is one
    await crawl.pipeline.close_spider()


@pytest.mark.parametrize("text", [["", None, article(1)], (article(1),)])
async def test_texts_of_other_types_that_can_be_read(text: Any) -> None:
    """Lists with values that a selector did not find, and tuples."""
    crawl = Crawl(make_crawler())
    await crawl.pipeline.open_spider()
    await crawl.item({"url": "https://a/1", "text": article(1), "html": "<p>one</p>"})
    copy = {"url": "https://b/1", "text": text, "html": "<p>two</p>"}
    assert isinstance(await crawl.item(copy), NearDuplicate)
    await crawl.pipeline.close_spider()


async def test_symbols_are_no_empty_page() -> None:
    """A row of stars has no words to compare, but is not dropped as a page without text."""
    crawl = Crawl(make_crawler(DEDUP_ON_EMPTY="drop"))
    await crawl.pipeline.open_spider()
    stars = {"url": "https://a/1", "text": "★★★☆☆"}
    assert await crawl.item(stars) is stars
    assert isinstance(await crawl.item({"url": "https://a/2", "text": " - "}), DropItem)
    await crawl.pipeline.close_spider()
