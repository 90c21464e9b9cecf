"""Feeds in batches, one of which can't be stored."""

from __future__ import annotations

import asyncio
import io
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import IO, Any

import pytest
from scrapy.extensions.feedexport import ItemFilter

from dedup_middleware import IndexUnavailableError, Options
from dedup_middleware.index import opening
from dedup_middleware.index.opening import open_existing, open_index
from dedup_middleware.plugin import feeds
from tests.itemcrawl import Crawled, crawl
from tests.test_failed_feed import LostStorage, failing, three_pages
from tests.texts import article


class FirstBatchLost(LostStorage):
    """Fails at the first batch only."""

    def __init__(self, uri: str, **options: Any) -> None:
        super().__init__(uri, **options)
        self.is_lost = uri.endswith("1")

    def _store_in_thread(self, file: IO[bytes]) -> None:
        file.close()
        if self.is_lost:
            super()._store_in_thread(file)


@pytest.mark.parametrize("index", ["sqlite", "memory"])
async def test_of_a_batch_that_fails_the_pages_alone_are_forgotten(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, index: str
) -> None:
    """Only the pages of a failed batch are forgotten, and at once: a later copy is stored, in the
    same crawl and in the next."""

    async def source(crawled: Crawled) -> AsyncIterator[Any]:
        for seed in range(4):
            yield {"url": f"https://a.example/{seed}", "text": article(seed)}
            await crawled.until(seed + 1)
        watched = None if crawled.pipeline is None else crawled.pipeline._feeds
        assert watched is not None
        for _ in range(3000):
            if watched._forgotten == 2:
                break
            await asyncio.sleep(0.01)
        for seed in (0, 2):
            yield {"url": f"https://b.example/{seed}", "text": article(seed)}

    settings = failing(tmp_path, "at storing") | {
        "FEEDS": {"lost:out%(batch_id)d": {"format": "jsonlines", "batch_item_count": 2}},
        "FEED_STORAGES": {"lost": FirstBatchLost},
    }
    if index == "memory":
        settings["DEDUP_INDEX_URL"] = "memory:"
    crawled = await crawl(source, {}, **settings)
    assert crawled.duplicates == ["https://b.example/2"]
    if index == "memory":  # which ends with the crawl
        return
    said = [line for line in caplog.messages if " pages of this crawl " in line]
    assert len(said) == 1
    assert "2 pages of this crawl are forgotten" in said[0]
    again = await crawl(three_pages, {}, **failing(tmp_path, ""))
    assert again.stat("new") == 1
    assert again.duplicates == [f"https://a.example/{seed}" for seed in (0, 2)]


async def test_a_batch_that_fails_before_its_page_is_committed(tmp_path: Path) -> None:
    """The page is forgotten as soon as it is committed, not when the next batch ends."""

    async def source(crawled: Crawled) -> AsyncIterator[Any]:
        assert crawled.pipeline is not None
        watched, deduplicator = crawled.pipeline._feeds, crawled.pipeline._deduplicator
        assert watched is not None
        assert deduplicator is not None
        commit = deduplicator.commit

        async def late(verdict: Any) -> bool:
            for _ in range(1000):
                if any(one.has_failed for one in watched._not_stored.values()):
                    break
                await asyncio.sleep(0.01)
            return await commit(verdict)

        deduplicator.commit = late  # type: ignore[method-assign]
        yield {"url": "https://a.example/0", "text": article(0)}
        await crawled.until(1)
        for _ in range(500):
            if watched._forgotten:
                break
            await asyncio.sleep(0.01)
        yield {"url": "https://b.example/0", "text": article(0)}

    settings = failing(tmp_path, "at storing") | {
        "FEEDS": {"lost:out%(batch_id)d": {"format": "jsonlines", "batch_item_count": 1}},
        "FEED_STORAGES": {"lost": FirstBatchLost},
    }
    crawled = await crawl(source, {}, **settings)
    assert (crawled.duplicates, crawled.stat("committed")) == ([], 2)


async def test_a_batch_that_cant_be_forgotten_is_forgotten_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """If the index is away when a batch fails, its pages are forgotten at the end."""
    calls: list[Options] = []

    async def away_at_first(options: Options) -> Any:
        calls.append(options)
        if len(calls) == 1:
            raise IndexUnavailableError("cut off by the test")
        return await open_existing(options)

    monkeypatch.setattr(feeds, "open_existing", away_at_first)
    await crawl(three_pages, {}, **failing(tmp_path, "at storing"))
    assert any("3 pages of this crawl are forgotten" in line for line in caplog.messages)
    assert len(calls) == 2


@pytest.mark.parametrize("is_known", [True, False])
async def test_pages_that_were_committed_after_their_batch_failed(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    is_known: bool,
) -> None:
    """The index may be away when a page is stored, and get it later: it is forgotten then, or the
    error reports a page that is left and can't be identified any more."""
    opened, watched = open_index, []

    def entered_later(options: Options) -> Any:
        index = opened(options)
        forget = index.forget

        async def of_this_moment(page_ids: Any) -> int:
            watched.append(len(page_ids))
            # The last page has no record yet, or another id by now.
            return await forget(page_ids[:-1] if len(watched) == 1 or not is_known else page_ids)

        monkeypatch.setattr(index, "forget", of_this_moment)
        return index

    monkeypatch.setattr(opening, "open_index", entered_later)
    # The batch fails when both pages are committed, however long that takes.
    committed, noted, are_committed = feeds.Feeds.committed, [], threading.Event()
    fail = LostStorage._store_in_thread

    async def note(self: feeds.Feeds, page_id: int, slots: Any) -> None:
        await committed(self, page_id, slots)
        noted.append(page_id)
        if len(noted) == 2:
            are_committed.set()

    def fail_then(self: LostStorage, file: IO[bytes]) -> None:
        assert are_committed.wait(300)
        fail(self, file)

    monkeypatch.setattr(feeds.Feeds, "committed", note)
    monkeypatch.setattr(LostStorage, "_store_in_thread", fail_then)

    async def source(crawled: Crawled) -> AsyncIterator[Any]:
        for seed in range(2):
            yield {"url": f"https://a.example/{seed}", "text": article(seed)}
            await crawled.until(seed + 1)
        while not watched:
            await asyncio.sleep(0.01)

    settings = failing(tmp_path, "at storing") | {
        "FEEDS": {"lost:out%(batch_id)d": {"format": "jsonlines", "batch_item_count": 2}},
    }
    await crawl(source, {}, **settings)
    assert watched == [2, 2]
    said = [line for line in caplog.messages if " pages of this crawl " in line]
    assert f"{1 + is_known} pages of this crawl are forgotten" in said[0]
    assert [line for line in said if "calls 1 pages" in line] == said[1:]
    assert len(said) == 2 - is_known


class StorageOfItsOwn:
    """A storage without a base class of Scrapy's. It fails at once if its address says so, without
    a thread."""

    __slots__ = ("is_lost",)

    def __init__(self, uri: str, **_options: Any) -> None:
        self.is_lost = uri == "lost:lost"

    def open(self, _spider: Any) -> IO[bytes]:
        """Called by Scrapy."""
        return io.BytesIO()

    def store(self, _file: IO[bytes]) -> None:
        """Called by Scrapy."""
        if self.is_lost:
            raise PermissionError("no right to the bucket")


class UsualStorage(StorageOfItsOwn):
    """The same storage, which takes attributes as usual."""


class Even(ItemFilter):
    """Items with an even number."""

    rest = 0

    def accepts(self, item: Any) -> bool:
        return int(item["url"][-1]) % 2 == self.rest


class Odd(Even):
    """Items with an odd number."""

    rest = 1


def two_feeds(tmp_path: Path, storage: type[Any]) -> dict[str, Any]:
    """Two feeds of one kind that end at the same moment, of which the first can't be stored."""
    return failing(tmp_path, "at storing") | {
        "FEEDS": {
            "lost:lost": {"format": "jsonlines", "item_filter": Even},
            "lost:kept": {"format": "jsonlines", "item_filter": Odd},
        },
        "FEED_STORAGES": {"lost": storage},
    }


async def test_of_feeds_that_end_in_one_moment_one_fails(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Of two feeds of one kind, only the pages of the one that fails are forgotten."""
    await crawl(three_pages, {}, **two_feeds(tmp_path, UsualStorage))
    assert any("2 pages of this crawl are forgotten" in line for line in caplog.messages)
    again = await crawl(three_pages, {}, **failing(tmp_path, ""))
    assert (again.stat("new"), again.stat("revisit")) == (2, 1)


async def test_a_storage_that_takes_no_attribute(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Only Scrapy's count shows that a feed has failed, and the error names the command that
    forgets its pages."""
    await crawl(three_pages, {}, **two_feeds(tmp_path, StorageOfItsOwn))
    said = [line for line in caplog.messages if line.startswith("A feed could not be stored")]
    assert len(said) == 1
    assert "calls 3 pages of this crawl stored" in said[0]
