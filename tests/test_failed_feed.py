"""Items that no feed has, and feeds that can't be stored when the crawl ends."""

from __future__ import annotations

import asyncio
import io
import re
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

import pytest
from scrapy import Field, Item, signals
from scrapy.crawler import Crawler
from scrapy.exporters import JsonLinesItemExporter
from scrapy.extensions.feedexport import (
    BlockingFeedStorage,
    FeedExporter,
    ItemFilter,
    StdoutFeedStorage,
)
from scrapy.extensions.postprocessing import GzipPlugin
from scrapy.pipelines.files import FilesPipeline

from dedup_middleware import IndexUnavailableError, Options
from dedup_middleware.index.opening import open_existing
from dedup_middleware.plugin import feeds
from dedup_middleware.tools.commands.context import parse_time
from tests.itemcrawl import Crawled, crawl
from tests.texts import article


class LostStorage(BlockingFeedStorage):
    """Takes items, and fails when the feed is to be stored, as S3 does without rights."""

    def __init__(self, _uri: str, **_options: Any) -> None:
        pass

    def _store_in_thread(self, file: IO[bytes]) -> None:
        file.close()
        raise PermissionError("no right to the bucket")


class UnfinishedExporter(JsonLinesItemExporter):
    """Fails when it is to write the end of its file, as formats with a footer may."""

    def finish_exporting(self) -> None:
        self.file.close()
        raise OSError("No space left on device")


class Teaser(Item):
    """Not for the feed."""

    url = Field()
    text = Field()


class Page(Teaser):
    """For the feed."""


class NoStorage:
    """A later pipeline."""

    def process_item(self, item: Any) -> Any:
        """Called by Scrapy."""
        return item


class Refused(ItemFilter):
    """A filter with an error."""

    def accepts(self, item: Any) -> bool:  # noqa: ARG002
        raise ValueError("an error of the user's")


@pytest.mark.parametrize(
    ("first", "feed", "reason"),
    [
        ({"text": article(0)[:-1] + "\ud83d。"}, {"encoding": "utf8"}, "export failed"),
        ({"text": article(0), "html": b"<p>bytes"}, {}, "export failed"),
        (Teaser(text=article(0)), {"item_classes": [Page]}, "leave it out"),
    ],
)
async def test_an_item_that_no_feed_has_makes_nothing_a_duplicate(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, first: Any, feed: dict[str, Any], reason: str
) -> None:
    """Its claim is released, so that a copy gets into the feed; what the feed has is committed."""
    out = tmp_path / "out.jsonl"

    async def source(crawled: Crawled) -> AsyncIterator[Any]:
        first["url"] = "https://a.example/0"
        yield first
        await crawled.until(1)
        for host in ("b", "c"):
            yield Page(url=f"https://{host}.example/0", text=article(0))
            await crawled.until(2)

    crawled = await crawl(source, {}, FEEDS={str(out): {"format": "jsonlines", **feed}})
    assert [line.count("b.example") for line in out.read_text().splitlines()] == [1]
    assert crawled.duplicates == ["https://c.example/0"]
    assert (crawled.stat("claim/no-feed"), crawled.stat("committed")) == (1, 1)
    told = [line for line in caplog.messages if "no feed has it" in line]
    assert len(told) == 1
    assert reason in told[0]


class ItemsExtension:
    """An extension that could store each item, as that of Scrapy Cloud does."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> ItemsExtension:
        """Called by Scrapy."""
        made = cls()
        crawler.signals.connect(made.item_scraped, signals.item_scraped)
        return made

    def item_scraped(self, item: Any) -> None:
        """Called by Scrapy."""


async def test_what_an_extension_may_have_stored_is_committed(tmp_path: Path) -> None:
    """A class that feeds leave out, where an extension gets each item."""

    async def source(_crawled: Crawled) -> AsyncIterator[Any]:
        yield Teaser(url="https://a.example/0", text=article(0))

    only = {f"{tmp_path}/out.jsonl": {"format": "jsonlines", "item_classes": [Page]}}
    crawled = await crawl(source, {}, FEEDS=only, EXTENSIONS={ItemsExtension: 500})
    assert (crawled.stat("committed"), crawled.stat("claim/no-feed")) == (1, 0)


async def test_a_pipeline_for_files_stores_no_item(tmp_path: Path) -> None:
    """An item that all feeds leave out is not entered for the sake of its pictures."""

    async def source(_crawled: Crawled) -> AsyncIterator[Any]:
        yield Teaser(url="https://a.example/0", text=article(0))

    only = {f"{tmp_path}/out.jsonl": {"format": "jsonlines", "item_classes": [Page]}}
    crawled = await crawl(source, {FilesPipeline: 800}, FEEDS=only, FILES_STORE=str(tmp_path))
    assert (crawled.stat("committed"), crawled.stat("claim/no-feed")) == (0, 1)


@pytest.mark.parametrize(
    ("feed", "pipelines", "committed"),
    [
        ({"item_classes": [Page]}, {NoStorage: 800}, 1),  # which may have stored it
        ({"item_classes": [Page]}, {NoStorage: 100}, 0),
        ({"item_filter": Refused}, {NoStorage: 800}, 0),
        ({"batch_item_count": 1}, {}, 1),
    ],
)
async def test_what_may_be_stored_elsewhere_is_committed(
    tmp_path: Path, feed: dict[str, Any], pipelines: dict[Any, int], committed: int
) -> None:
    """A class that feeds leave out may be stored by a later pipeline, and only by one."""

    async def source(_crawled: Crawled) -> AsyncIterator[Any]:
        yield Teaser(url="https://a.example/0", text=article(0))

    out = f"{tmp_path}/%(batch_id)d.jsonl"
    crawled = await crawl(source, pipelines, FEEDS={out: {"format": "jsonlines", **feed}})
    assert crawled.stat("committed") == committed
    assert crawled.stat("error/internal") == 0


async def test_a_page_is_in_the_file_before_a_copy_is_dropped(tmp_path: Path) -> None:
    """A process that is killed then has lost nothing."""
    out, seen = tmp_path / "out.jsonl", []

    async def source(crawled: Crawled) -> AsyncIterator[Any]:
        yield {"url": "https://a.example/0", "text": article(0)}
        yield {"url": "https://b.example/0", "text": article(0)}
        await crawled.until(2)
        seen.append(out.read_text())

    crawled = await crawl(source, {}, FEEDS={str(out): {"format": "jsonlines"}})
    assert crawled.duplicates == ["https://b.example/0"]
    assert "a.example" in seen[0]


@pytest.mark.parametrize("batch", [0, 1, 2])
async def test_a_full_disk_makes_nothing_a_duplicate(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, batch: int
) -> None:
    """What could not be written is not entered, although the exporter has taken it; an item that
    fills a batch is in a file that it has replaced by then."""

    async def source(crawled: Crawled) -> AsyncIterator[Any]:
        yield {"url": "https://a.example/0", "text": article(0)}
        await crawled.until(1)
        yield {"url": "https://b.example/0", "text": article(0)}

    for number in range(1, 4):
        (tmp_path / f"{number}.jsonl").symlink_to("/dev/full")
    out = f"{tmp_path}/%(batch_id)d.jsonl" if batch else f"{tmp_path}/1.jsonl"
    batches = {out: {"format": "jsonlines", "batch_item_count": batch}}
    crawled = await crawl(source, {}, FEEDS=batches)
    assert crawled.duplicates == []
    assert (crawled.stat("claim/no-feed"), crawled.stat("committed")) == (2, 0)
    assert "No space left on device" in next(m for m in caplog.messages if "no feed has it" in m)


async def test_a_feed_that_cant_be_opened_has_no_page(tmp_path: Path) -> None:
    """All pages are new to the next crawl."""
    (tmp_path / "file").touch()

    async def source(_crawled: Crawled) -> AsyncIterator[Any]:
        yield {"url": "https://a.example/0", "text": article(0)}

    for _ in range(2):
        crawled = await crawl(
            source,
            {},
            DEDUP_INDEX_URL=f"sqlite:{tmp_path / 'i.db'}",
            FEEDS={f"{tmp_path}/file/out.jsonl": {"format": "jsonlines"}},
        )
        assert (crawled.stat("new"), crawled.stat("committed")) == (1, 0)


def failing(tmp_path: Path, fails: str) -> dict[str, Any]:
    """Settings of a crawl whose feed can't be stored."""
    feed = "lost:out" if fails == "at storing" else f"{tmp_path}/out.jsonl"
    return {
        "DEDUP_INDEX_URL": f"sqlite:{tmp_path / 'i.db'}",
        "FEEDS": {feed: {"format": "unfinished" if fails == "at its end" else "jsonlines"}},
        "FEED_EXPORTERS": {"unfinished": UnfinishedExporter},
        "FEED_STORAGES": {"lost": LostStorage},
    }


async def three_pages(_crawled: Crawled) -> AsyncIterator[Any]:
    """Three items."""
    for seed in range(3):
        yield {"url": f"https://a.example/{seed}", "text": article(seed)}


@pytest.mark.parametrize("batch", [0, 1])
@pytest.mark.parametrize("fails", ["at storing", "at its end"])
async def test_pages_that_nothing_has_are_forgotten(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, fails: str, batch: int
) -> None:
    """Where no feed could be stored and nothing else could store them, the next crawl does."""
    settings = failing(tmp_path, fails)
    if batch:
        (feed,) = settings["FEEDS"].values()
        out = "lost:out%(batch_id)d" if fails == "at storing" else f"{tmp_path}/%(batch_id)d.jsonl"
        settings["FEEDS"] = {out: {**feed, "batch_item_count": batch}}
    crawled = await crawl(three_pages, {}, **settings)
    assert crawled.stat("committed") == 3
    assert any("3 pages of this crawl are forgotten" in line for line in caplog.messages)
    again = await crawl(three_pages, {}, **failing(tmp_path, ""))
    assert again.stat("new") == 3


@pytest.mark.parametrize("other", ["pipeline", "feed", ""])
async def test_a_feed_that_fails_is_named_with_the_command_that_mends_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, other: str
) -> None:
    """Where something else may have them, the error says how many pages the index calls stored,
    and since when."""
    settings = failing(tmp_path, "at storing" if other else "")
    if other == "feed":
        settings["FEEDS"][f"{tmp_path}/out.jsonl"] = {"format": "jsonlines"}
    pipelines: dict[Any, int] = {NoStorage: 800} if other == "pipeline" else {}
    crawled = await crawl(three_pages, pipelines, **settings)
    assert crawled.stat("committed") == 3
    reported = [line for line in caplog.messages if line.startswith("A feed could not be stored")]
    assert len(reported) == (1 if other else 0)
    for line in reported:
        assert "calls 3 pages of this crawl stored" in line
        since = re.search(r"--since (\S+)`", line)
        assert since is not None
        parse_time(since[1])
    again = await crawl(three_pages, pipelines, **settings)
    assert again.stat("revisit") == 3


class FirstBatchLost(LostStorage):
    """Fails at the first batch only."""

    def __init__(self, uri: str, **options: Any) -> None:
        super().__init__(uri, **options)
        self.is_lost = uri.endswith("1")

    def _store_in_thread(self, file: IO[bytes]) -> None:
        file.close()
        if self.is_lost:
            super()._store_in_thread(file)


async def test_of_a_batch_that_fails_the_pages_alone_are_forgotten(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """At once: a copy that comes later in the same crawl is stored, and so is one in the next."""

    async def source(crawled: Crawled) -> AsyncIterator[Any]:
        for seed in range(4):
            yield {"url": f"https://a.example/{seed}", "text": article(seed)}
            await crawled.until(seed + 1)
        watched = None if crawled.pipeline is None else crawled.pipeline._feeds
        assert watched is not None
        while watched._forgotten < 2:
            await asyncio.sleep(0.01)
        for seed in (0, 2):
            yield {"url": f"https://b.example/{seed}", "text": article(seed)}

    settings = failing(tmp_path, "at storing") | {
        "FEEDS": {"lost:out%(batch_id)d": {"format": "jsonlines", "batch_item_count": 2}},
        "FEED_STORAGES": {"lost": FirstBatchLost},
    }
    crawled = await crawl(source, {}, **settings)
    assert crawled.duplicates == ["https://b.example/2"]
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
                if watched._failed:
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
    """The index may be away when the batch fails."""
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
    """The index may be away when a page is stored, and takes it later: it is forgotten then, or
    the error says that a page is left which is not known any more."""
    real, watched = open_existing, []

    async def entered_later(options: Options) -> Any:
        index, parameters = await real(options)
        forget = index.forget

        async def of_this_moment(page_ids: Any) -> int:
            watched.append(len(page_ids))
            # The last one has no record yet, or another id by now.
            return await forget(page_ids[:-1] if len(watched) == 1 or not is_known else page_ids)

        monkeypatch.setattr(index, "forget", of_this_moment)
        return index, parameters

    monkeypatch.setattr(feeds, "open_existing", entered_later)
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


class AwaitingExporter(FeedExporter):
    """It is not known when it has handled an item."""

    async def item_scraped(self, item: Any, spider: Any) -> None:  # type: ignore[override]
        """Called by Scrapy."""
        super().item_scraped(item, spider)


async def test_a_feed_of_an_exporter_of_the_users_own_that_fails(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Which pages it has taken is not known, but that it could not be stored."""
    own = {"scrapy.extensions.feedexport.FeedExporter": None, AwaitingExporter: 0}
    await crawl(three_pages, {}, **failing(tmp_path, "at storing"), EXTENSIONS=own)
    said = [line for line in caplog.messages if line.startswith("A feed could not be stored")]
    assert len(said) == 1
    assert "calls 3 pages of this crawl stored" in said[0]


class SlotPerItem(FeedExporter):
    """Makes a slot when the first item for it comes."""

    def open_spider(self, spider: Any) -> None:
        """Called by Scrapy."""

    def item_scraped(self, item: Any, spider: Any) -> None:
        """Called by Scrapy."""
        if not self.slots:
            super().open_spider(spider)
        super().item_scraped(item, spider)


async def test_a_slot_that_is_made_for_an_item_has_it(tmp_path: Path) -> None:
    """As exporters with a feed for each class of items do."""
    own = {"scrapy.extensions.feedexport.FeedExporter": None, SlotPerItem: 0}
    crawled = await crawl(three_pages, {}, **failing(tmp_path, ""), EXTENSIONS=own)
    assert (crawled.stat("committed"), crawled.stat("claim/no-feed")) == (3, 0)


class PlainFile:
    """A file that can be written to, and no more."""

    def __init__(self) -> None:
        self.write = bytearray().extend


class PlainStorage(LostStorage):
    """Storage with a file of its own."""

    def open(self, spider: Any) -> Any:  # noqa: ARG002
        """Called by Scrapy."""
        return PlainFile()

    def _store_in_thread(self, file: IO[bytes]) -> None:
        """Called by Scrapy."""


async def test_a_file_without_flush(tmp_path: Path) -> None:
    """There is nothing to be written before its end."""
    settings = failing(tmp_path, "at storing") | {"FEED_STORAGES": {"lost": PlainStorage}}
    crawled = await crawl(three_pages, {}, **settings)
    assert (crawled.stat("committed"), crawled.stat("error/internal")) == (3, 0)


class BrokenPipe(io.BytesIO):
    """The standard output of a process of which nobody reads it."""

    def flush(self) -> None:
        """Called by the plugin."""
        raise BrokenPipeError(32, "Broken pipe")


class BrokenStdout(StdoutFeedStorage):
    """Takes items until its buffer is full."""

    def __init__(self, uri: str, *, feed_options: Any = None) -> None:
        super().__init__(uri, BrokenPipe(), feed_options=feed_options)


async def test_what_standard_output_does_not_take_is_not_entered(tmp_path: Path) -> None:
    """It has a buffer, too."""
    settings = failing(tmp_path, "") | {
        "FEEDS": {"stdout:": {"format": "jsonlines"}},
        "FEED_STORAGES": {"stdout": BrokenStdout},
    }
    crawled = await crawl(three_pages, {}, **settings)
    assert (crawled.stat("committed"), crawled.stat("claim/no-feed")) == (0, 3)


def slot_of(storage: type[Any]) -> Any:
    """A slot of a kind of storage."""
    return SimpleNamespace(storage=storage("lost:"))


def test_slots_that_end_in_one_moment() -> None:
    """Where one of a kind fails neither is taken for stored; others know their own fate."""
    stats: dict[str, int] = {}
    ended = feeds.Ended(SimpleNamespace(get_stats=lambda: stats))  # type: ignore[arg-type]
    first, second, third = slot_of(LostStorage), slot_of(LostStorage), slot_of(LostStorage)
    other = slot_of(FirstBatchLost)
    stats |= {
        "feedexport/failed_count/LostStorage": 1,
        "feedexport/success_count/LostStorage": 1,
        "feedexport/success_count/FirstBatchLost": 1,
    }
    assert ended.of(first) == []
    assert ended.of(other) == [(other, True)]
    assert ended.of(second) == [(first, False), (second, False)]
    stats["feedexport/success_count/LostStorage"] += 1
    assert ended.of(third) == [(third, True)]


@pytest.mark.parametrize(
    ("feed", "pipelines", "warned"),
    [
        ({"lost:out": {}}, {}, ["lost:out"]),
        ({"lost://user:secret@host/out": {}}, {}, [r"lost://***@host/out"]),
        ({"out.gz": {"postprocessing": [GzipPlugin]}}, {}, ["out.gz"]),
        ({"lost:out": {}}, {NoStorage: 800}, []),
        ({"lost:out": {}, "out.jsonl": {}}, {}, []),
        ({"out.jsonl": {}}, {}, []),
    ],
)
async def test_a_feed_that_is_stored_at_its_end_is_warned_of(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    feed: dict[str, Any],
    pipelines: dict[Any, int],
    warned: list[str],
) -> None:
    """The line has the command that helps after a kill; not where something else has the items."""
    monkeypatch.chdir(tmp_path)
    settings = failing(tmp_path, "")
    settings["FEEDS"] = {place: {"format": "jsonlines", **more} for place, more in feed.items()}
    await crawl(three_pages, pipelines, **settings)
    said = [line for line in caplog.messages if "are stored when the feed" in line]
    assert [re.findall("items of (.*?) are", line)[0] for line in said] == warned
    assert all("dedup forget --since" in line for line in said)


async def test_what_a_feed_for_elsewhere_has_is_in_its_temporary_file(tmp_path: Path) -> None:
    """It stays there if the process is killed."""
    seen = []

    async def source(crawled: Crawled) -> AsyncIterator[Any]:
        yield {"url": "https://a.example/0", "text": article(0)}
        await crawled.until(1)
        (kept,) = tmp_path.glob("feed-*")
        seen.append(kept.read_text())

    settings = {**failing(tmp_path, "at storing"), "DEDUP_INDEX_URL": "memory:"}
    await crawl(source, {}, **settings, FEED_TEMPDIR=str(tmp_path))
    assert "a.example" in seen[0]


@pytest.mark.parametrize("index", ["sqlite", "memory"])
async def test_without_stats_a_warning_says_that_failed_feeds_are_not_noticed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, index: str
) -> None:
    """Scrapy says only there whether a feed is stored; an index in memory ends with the crawl."""
    settings = failing(tmp_path, "")
    if index == "memory":
        settings["DEDUP_INDEX_URL"] = "memory:"
    stats = "scrapy.statscollectors.DummyStatsCollector"
    await crawl(three_pages, {}, **settings, STATS_CLASS=stats)
    warned = [line for line in caplog.messages if "counts nothing" in line]
    assert len(warned) == (index == "sqlite")
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 3
