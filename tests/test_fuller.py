"""A page that holds a stored one: it is new, names that page, and may take its place."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import pytest
from scrapy import signals

from crawler.storage import SqliteStorage
from dedup_middleware import Deduplicator, Document, NearDuplicate, Options
from dedup_middleware.base.errors import IndexUnavailableError
from dedup_middleware.core.holding import make_comparison
from dedup_middleware.evaluation.edits import edit
from dedup_middleware.index.sqlite.index import SQLiteIndex
from dedup_middleware.model.buckets import cut_address
from dedup_middleware.plugin.signals import dedup_superseded
from tests.crawler.test_storage import article as row
from tests.test_pipeline import make_crawler, opened
from tests.test_signals import page
from tests.texts import article, english

FLASH, REPORT = article(1, 8), article(1, 8) + article(2, 12)


@pytest.mark.parametrize(
    ("flash", "report"),
    [
        (FLASH, REPORT),
        (english(1, 60), english(2, 90) + " " + english(1, 60)),
        (article(1, 20), article(3, 40) + article(1, 20) + article(4, 40)),
    ],
)
async def test_a_page_that_holds_a_stored_one_names_it(flash: str, report: str) -> None:
    """It is new, wherever it contains the other one; by default both stay in the index."""
    crawl = await opened(DEDUP_HASH_KEY="5eed", DEDUP_ACTION="mark")
    await crawl.item(page("flash", flash))
    item = await crawl.item(page("report", report))
    assert item["dedup"]["outcome"] == "new"
    assert item["dedup"]["supersedes"] == ["https://flash/1"]
    again = await crawl.item(page("copy", flash))
    assert again["dedup"]["outcome"] == "duplicate"
    assert crawl.stat("superseded") == 0
    await crawl.pipeline.close_spider()


@pytest.mark.parametrize(
    "text",
    [
        edit(REPORT, "figures-changed", 0.5, 1) + article(5, 5),
        article(1, 4) + article(2, 12),
        article(7, 20),
    ],
)
async def test_a_page_that_lacks_something_supersedes_nothing(text: str) -> None:
    """Half of the stored page, or other figures, are not enough."""
    crawl = await opened(DEDUP_HASH_KEY="5eed", DEDUP_ACTION="mark")
    stored = "昨日降水12毫米，水位上升35厘米，共有278户居民转移。" + FLASH
    await crawl.item(page("flash", stored))
    other = "昨日降水17毫米，水位上升31厘米，共有216户居民转移。" + text
    item = await crawl.item(page("report", other))
    assert (item["dedup"]["outcome"], item["dedup"]["supersedes"]) == ("new", [])
    await crawl.pipeline.close_spider()


async def test_it_takes_the_place_of_what_it_holds_once_it_is_stored() -> None:
    """Only then is the other page forgotten and storage notified; copies of it are dropped."""
    crawl = await opened(DEDUP_HASH_KEY="5eed", DEDUP_ON_FULLER="replace")
    reported: list[list[str]] = []

    async def receive(keys: list[str]) -> None:
        reported.append(keys)

    crawl.crawler.signals.connect(receive, dedup_superseded)
    await crawl.item(page("flash", FLASH))
    await crawl.item(page("failing", REPORT), then="failed")
    assert (reported, crawl.stat("superseded")) == ([], 0)
    report = page("report", REPORT)
    await crawl.item(report, then="under way")
    assert reported == []
    await crawl.signal(signals.item_scraped, report)
    assert (reported, crawl.stat("superseded")) == ([["https://flash/1"]], 1)
    error = await crawl.item(page("copy", FLASH))
    assert isinstance(error, NearDuplicate)
    assert error.verdict.match is not None
    assert error.verdict.match.key == "https://report/1"
    await crawl.pipeline.close_spider()


async def test_storage_is_not_told_of_what_the_index_still_holds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If the index can't forget a page, its row must stay: otherwise a copy would be dropped for it
    although no row has its text once the fuller page changes."""
    crawl = await opened(DEDUP_HASH_KEY="5eed", DEDUP_ON_FULLER="replace")
    reported: list[list[str]] = []

    async def receive(keys: list[str]) -> None:
        reported.append(keys)

    async def fail(page_ids: Sequence[int]) -> int:
        raise IndexUnavailableError("gone for a moment")

    crawl.crawler.signals.connect(receive, dedup_superseded)
    await crawl.item(page("flash", FLASH))
    assert crawl.pipeline._deduplicator is not None
    with monkeypatch.context() as patch:
        patch.setattr(crawl.pipeline._deduplicator._index, "forget", fail)
        await crawl.item(page("report", REPORT))
    assert (reported, crawl.stat("superseded"), crawl.stat("committed")) == ([], 0, 2)
    await crawl.pipeline.close_spider()


async def test_storage_is_not_told_of_a_page_that_has_a_new_version() -> None:
    """A page that was replaced while the fuller one was on its way is stored: it must stay."""
    first, report = english(1, 120), english(1, 120) + " " + english(2, 200)
    async with Deduplicator(Options(on_fuller="replace", pending_wait=1)) as dedup:
        await dedup.commit(await dedup.decide(Document("https://a/flash", text=first)))
        fuller = await dedup.decide(Document("https://b/report", text=report))
        assert [one.key for one in fuller.supersedes] == ["https://a/flash"]
        again = Document("https://a/flash", text=english(3, 150))
        await dedup.commit(await dedup.decide(again))
        await dedup.commit(fuller)
        assert await dedup.superseded(fuller) == []


@pytest.mark.parametrize("key", ["https://a/?q=" + "x" * 9000, "https://a/\ud800"])
async def test_storage_is_not_told_of_a_page_by_a_cut_address(key: str) -> None:
    """The index keeps 4,096 bytes of an address, without lone surrogates. That may be the key of
    another page, which must stay."""
    first, report = english(1, 120), english(1, 120) + " " + english(2, 200)
    async with Deduplicator(Options(on_fuller="replace")) as dedup:
        await dedup.commit(await dedup.decide(Document(key, text=first)))
        fuller = await dedup.decide(Document("https://b/report", text=report))
        assert [one.key for one in fuller.supersedes] == [cut_address(key).decode()]
        await dedup.commit(fuller)
        assert await dedup.superseded(fuller) == []


async def test_storage_is_not_told_of_a_page_whose_row_is_gone(tmp_path: Path) -> None:
    """After a compaction the index no longer has its key, which a new version may have by now."""
    first, report = english(1, 120), english(1, 120) + " " + english(2, 200)
    index = SQLiteIndex(str(tmp_path / "index.db"))
    options = Options(on_fuller="replace", pending_wait=1)
    async with Deduplicator(options, index=index) as dedup:
        await dedup.commit(await dedup.decide(Document("https://a/flash", text=first)))
        fuller = await dedup.decide(Document("https://b/report", text=report))
        assert [one.key for one in fuller.supersedes] == ["https://a/flash"]
        again = Document("https://a/flash", text=english(3, 150))
        await dedup.commit(await dedup.decide(again))
        await index.compact()
        await dedup.commit(fuller)
        assert await dedup.superseded(fuller) == []


async def test_a_text_that_comes_back_while_its_row_is_deleted() -> None:
    """The fuller page changes before storage deletes the row of what it held, and that text is
    stored once more under its key: the deleted row may be this one, so a copy is stored."""
    crawl = await opened(DEDUP_HASH_KEY="5eed", DEDUP_ON_FULLER="replace")
    dedup = crawl.pipeline._deduplicator
    assert dedup is not None

    async def receive(keys: list[str]) -> None:
        for key, text in (("https://report/1", article(7, 20)), (keys[0], FLASH)):
            verdict = await dedup.decide(Document(key, text=text))
            assert verdict.outcome == "new"
            await dedup.commit(verdict)

    crawl.crawler.signals.connect(receive, dedup_superseded)
    await crawl.item(page("flash", FLASH))
    await crawl.item(page("report", REPORT))
    assert isinstance(await crawl.item(page("copy", FLASH)), dict)
    assert isinstance(await crawl.item(page("other", article(7, 20))), NearDuplicate)
    await crawl.pipeline.close_spider()


async def test_an_error_of_a_receiver_has_no_effect(caplog: pytest.LogCaptureFixture) -> None:
    """An error of a signal's receiver is logged, and the item counts as stored."""
    crawl = await opened(DEDUP_HASH_KEY="5eed", DEDUP_ON_FULLER="replace")

    def fail(keys: list[str]) -> None:
        raise RuntimeError("the receiver's own matter")

    crawl.crawler.signals.connect(fail, dedup_superseded)
    await crawl.item(page("flash", FLASH))
    await crawl.item(page("report", REPORT))
    assert crawl.stat("committed") == 2
    assert "the receiver's own matter" in caplog.text
    await crawl.pipeline.close_spider()


def stored(path: Path) -> list[str]:
    """Addresses of the rows."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return [url for (url,) in connection.execute("SELECT url FROM articles ORDER BY url")]


async def test_the_storage_deletes_only_rows_that_add_nothing(tmp_path: Path) -> None:
    """It compares the texts themselves, since the index only estimates."""
    path = tmp_path / "news.db"
    crawler = make_crawler(NEWS_DB=str(path), DEDUP_ON_FULLER="replace")
    storage = SqliteStorage.from_crawler(crawler)
    await storage.open_spider()
    texts = {"flash": FLASH, "more": FLASH + article(3, 3), "report": REPORT}
    items = {name: row(f"https://{name}/1", title="桥", text=text) for name, text in texts.items()}
    for item in items.values():
        await storage.process_item(item)
    await crawler.signals.send_catch_log_async(
        dedup_superseded,
        item=items["report"],
        keys=["https://flash/1", "https://more/1", "https://gone/1"],
    )
    assert stored(path) == ["https://more/1", "https://report/1"]
    await storage.close_spider()


async def test_rows_that_cant_be_deleted_stay(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """If rows can't be deleted, as on a full disk, one line says so."""
    path = tmp_path / "news.db"
    crawler = make_crawler(NEWS_DB=str(path), DEDUP_ON_FULLER="replace")
    storage = SqliteStorage.from_crawler(crawler)
    await storage.open_spider()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TABLE articles")
    await crawler.signals.send_catch_log_async(
        dedup_superseded, item=row("https://report/1", title="桥", text=REPORT), keys=["a", "b"]
    )
    await storage.close_spider()
    (error,) = [one for one in caplog.records if one.levelname == "ERROR"]
    assert "2 rows that https://report/1 may replace" in error.getMessage()
    assert error.exc_info is None


def test_two_texts_are_compared_without_an_index() -> None:
    """The texts are compared by the rule of the crawl, in the direction requested."""
    adds_nothing = make_comparison(Options())
    flash, report = Document(key="a", text=FLASH), Document(key="b", text=REPORT)
    assert adds_nothing(flash, report)
    assert not adds_nothing(report, flash)
