"""Items that no feed has, and feeds that can't be stored when the crawl ends."""

from __future__ import annotations

import io
import re
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import IO, Any

import pytest
from scrapy import Field, Item, signals
from scrapy.crawler import Crawler
from scrapy.exporters import BaseItemExporter, JsonLinesItemExporter
from scrapy.extensions.feedexport import (
    BlockingFeedStorage,
    FeedExporter,
    ItemFilter,
    StdoutFeedStorage,
)
from scrapy.extensions.postprocessing import GzipPlugin
from scrapy.pipelines.files import FilesPipeline

from dedup_middleware.tools.commands.dedup import parse_time
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


class CollectingExporter(BaseItemExporter):
    """Writes all rows when it ends, as one for Parquet may."""

    def __init__(self, file: IO[bytes], **_options: Any) -> None:
        super().__init__()
        self.file = file
        self.rows: list[str] = []

    def start_exporting(self) -> None:
        """Called by Scrapy."""
        self.file.write(b"PAR1")

    def export_item(self, item: Any) -> None:
        """Called by Scrapy."""
        self.rows.append(str(item))

    def finish_exporting(self) -> None:
        """Called by Scrapy."""
        self.file.write("".join(self.rows).encode())


class SkippingExporter(JsonLinesItemExporter):
    """Leaves out all items but the first one."""

    def export_item(self, item: Any) -> None:
        """Called by Scrapy."""
        if item["url"].endswith("/0"):
            super().export_item(item)


class Teaser(Item):
    """An item that the feed leaves out."""

    url = Field()
    text = Field()


class Page(Teaser):
    """An item that the feed takes."""


class NoStorage:
    """A later pipeline that stores nothing."""

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
    """An item that feeds leave out is committed if an extension gets each item."""

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
        "FEED_EXPORTERS": {
            "unfinished": UnfinishedExporter,
            "collected": CollectingExporter,
            "skipping": SkippingExporter,
        },
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
    """If no feed was stored, and nothing else could store the pages, the next crawl stores them."""
    settings = failing(tmp_path, fails)
    if batch:
        (feed,) = settings["FEEDS"].values()
        out = "lost:out%(batch_id)d" if fails == "at storing" else f"{tmp_path}/%(batch_id)d.jsonl"
        settings["FEEDS"] = {out: {**feed, "batch_item_count": batch}}
    crawled = await crawl(three_pages, {}, **settings)
    assert crawled.stat("committed") == 3
    (line,) = [one for one in caplog.messages if "3 pages of this crawl are forgotten" in one]
    (place,) = settings["FEEDS"]
    assert f"({place}, see the error above)" in line
    again = await crawl(three_pages, {}, **failing(tmp_path, ""))
    assert again.stat("new") == 3


@pytest.mark.parametrize(
    ("pipelines", "fix"),
    [
        ({}, "so that the next crawl with another JOBDIR ("),
        ({NoStorage: 800}, "with the settings of this crawl, but another JOBDIR ("),
    ],
)
async def test_the_next_crawl_needs_another_jobdir(
    pipelines: dict[Any, int], fix: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Under the same one, Scrapy would not fetch the pages again, as it has seen their requests."""
    settings = failing(tmp_path, "at storing")
    await crawl(three_pages, pipelines, **settings, JOBDIR=str(tmp_path / "job"))
    (line,) = [one for one in caplog.messages if "could not be stored" in one]
    assert fix in line
    assert f"{str(tmp_path / 'job')!r} has seen)" in line


class StoppingPipeline:
    """Ctrl-C comes while this pipeline is being closed."""

    def __init__(self, crawler: Crawler) -> None:
        self.crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> StoppingPipeline:
        """Called by Scrapy."""
        return cls(crawler)

    async def close_spider(self) -> None:
        """Called by Scrapy."""
        await self.crawler.stop_async()


async def test_a_crawl_that_is_stopped_while_it_closes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its feed is not stored yet when Scrapy signals that the engine has stopped; the message says
    that, and does not refer to an error that has not occurred."""
    await crawl(three_pages, {StoppingPipeline: 600}, **failing(tmp_path, ""))
    (line,) = [one for one in caplog.messages if "could not be stored" in one]
    assert "out.jsonl, the crawl was stopped while it was closing)" in line


async def test_a_page_whose_claim_was_lost_is_forgotten_too(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It was entered anew when it had been stored, under another page id."""

    async def source(crawled: Crawled) -> AsyncIterator[Any]:
        assert crawled.pipeline is not None
        deduplicator = crawled.pipeline._deduplicator
        assert deduplicator is not None
        commit = deduplicator.commit

        async def too_late(verdict: Any) -> bool:
            await deduplicator._index.release(verdict.claim)
            return await commit(verdict)

        deduplicator.commit = too_late  # type: ignore[method-assign]
        async for item in three_pages(crawled):
            yield item

    crawled = await crawl(source, {}, **failing(tmp_path, "at storing"))
    assert (crawled.stat("claim/lost"), crawled.stat("committed")) == (3, 3)
    assert any("3 pages of this crawl are forgotten" in line for line in caplog.messages)
    again = await crawl(three_pages, {}, **failing(tmp_path, ""))
    assert again.stat("new") == 3


@pytest.mark.parametrize("other", ["pipeline", "feed", ""])
async def test_a_feed_that_fails_is_named_with_the_command_that_mends_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, other: str
) -> None:
    """If something else may have stored the pages, the error says how many the index calls stored,
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
        assert "(lost:out, see the error above)" in line
        assert "calls 3 pages of this crawl stored" in line
        since = re.search(r"--since (\S+)`", line)
        assert since is not None
        parse_time(since[1])
    again = await crawl(three_pages, pipelines, **settings)
    assert again.stat("revisit") == 3


async def test_the_command_after_a_clock_was_set_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It forgets the pages that were stored since then, although they seem to be older than the
    crawl."""
    clock = time.time

    async def source(crawled: Crawled) -> AsyncIterator[Any]:
        monkeypatch.setattr(time, "time", clock)
        async for item in three_pages(crawled):
            yield item

    monkeypatch.setattr(time, "time", lambda: clock() + 3600)
    began = clock()
    await crawl(source, {NoStorage: 800}, **failing(tmp_path, "at storing"))
    (line,) = [line for line in caplog.messages if line.startswith("A feed could not be stored")]
    since = re.search(r"--since (\S+)`", line)
    assert since is not None
    assert parse_time(since[1]) < began


class AwaitingExporter(FeedExporter):
    """An exporter of which it is not known when it has handled an item."""

    async def item_scraped(self, item: Any, spider: Any) -> None:  # type: ignore[override]
        """Called by Scrapy."""
        super().item_scraped(item, spider)


async def test_a_feed_of_an_exporter_of_the_users_own_that_fails(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It is not known which pages the exporter has taken, but only that the feed could not be
    stored."""
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
    """A file that can only be written to."""

    def __init__(self) -> None:
        self.write = bytearray().extend


class PlainStorage(LostStorage):
    """A storage whose file can only be written to."""

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
    """The standard output of a process whose reader has ended."""

    def flush(self) -> None:
        """Called by the plugin."""
        raise BrokenPipeError(32, "Broken pipe")


class BrokenStdout(StdoutFeedStorage):
    """Takes items until its buffer is full."""

    def __init__(self, uri: str, *, feed_options: Any = None) -> None:
        super().__init__(uri, BrokenPipe(), feed_options=feed_options)


async def test_what_standard_output_does_not_take_is_not_entered(tmp_path: Path) -> None:
    """Standard output has a buffer, too, whose rows may be lost."""
    settings = failing(tmp_path, "") | {
        "FEEDS": {"stdout:": {"format": "jsonlines"}},
        "FEED_STORAGES": {"stdout": BrokenStdout},
    }
    crawled = await crawl(three_pages, {}, **settings)
    assert (crawled.stat("committed"), crawled.stat("claim/no-feed")) == (0, 3)


class Head(io.BytesIO):
    """The standard output of a process whose reader ends at the third row, as `head` may."""

    rows, is_buffered = 0, False

    def write(self, row: Any) -> int:
        """Called by the exporter."""
        self.rows += 1
        return len(row) if self.is_buffered else self.flush() or len(row)

    def flush(self) -> None:
        """Called by the plugin."""
        if self.rows > 2:
            raise BrokenPipeError(32, "Broken pipe")


class HeadStorage(StdoutFeedStorage):
    """Takes two items."""

    def __init__(self, uri: str, *, feed_options: Any = None) -> None:
        super().__init__(uri, Head(), feed_options=feed_options)


@pytest.mark.parametrize("is_buffered", [False, True])
async def test_rows_of_a_pipe_that_broke_are_forgotten(
    is_buffered: bool,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is not known which of the rows were read."""
    monkeypatch.setattr(Head, "is_buffered", is_buffered)
    settings = failing(tmp_path, "") | {
        "FEEDS": {"stdout:": {"format": "jsonlines"}},
        "FEED_STORAGES": {"stdout": HeadStorage},
    }
    crawled = await crawl(three_pages, {}, **settings)
    assert (crawled.stat("committed"), crawled.stat("claim/no-feed")) == (2, 1)
    (line,) = [one for one in caplog.messages if "2 pages of this crawl are forgotten" in one]
    assert "stdout:" in line


@pytest.mark.parametrize(
    ("feed", "pipelines", "warned"),
    [
        ({"lost:out": {}}, {}, ["lost:out"]),
        ({"lost://user:secret@host/out": {}}, {}, [r"lost://***@host/out"]),
        ({"out.gz": {"postprocessing": [GzipPlugin]}}, {}, ["out.gz"]),
        ({"lost:out": {}}, {NoStorage: 800}, []),
        ({"lost:out": {}, "out.jsonl": {}}, {}, []),
        ({"out.jsonl": {}}, {}, []),
        ({"out.csv": {"format": "csv"}, "out.xml": {"format": "xml"}}, {}, []),
        ({"out.json": {"format": "json"}, "out.p": {"format": "pickle"}}, {}, []),
        ({"out.parquet": {"format": "collected"}}, {}, ["out.parquet"]),
        ({"out.parquet": {"format": "collected"}}, {NoStorage: 800}, []),
        ({"out.jsonl": {"format": "skipping"}}, {}, []),
        ({"out.parquet": {"format": "collected"}, "out.jsonl": {}}, {}, []),
        ({"lost:out": {}, "out.jsonl": {"item_classes": [Page]}}, {}, ["lost:out"]),
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


async def test_a_feed_that_fails_is_noticed_without_stats(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Where STATS_CLASS counts nothing the pages are forgotten all the same."""
    none = "scrapy.statscollectors.DummyStatsCollector"
    await crawl(three_pages, {}, **failing(tmp_path, "at storing"), STATS_CLASS=none)
    assert any("3 pages of this crawl are forgotten" in line for line in caplog.messages)
    again = await crawl(three_pages, {}, **failing(tmp_path, ""))
    assert again.stat("new") == 3
