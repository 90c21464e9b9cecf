"""Feed storages of the user's own work with the plugin as they do without it."""

from __future__ import annotations

import contextlib
import gzip
import inspect
import io
from collections.abc import AsyncIterator
from pathlib import Path
from types import CoroutineType, NoneType, SimpleNamespace
from typing import IO, Any

import pytest
from scrapy.exporters import JsonLinesItemExporter
from scrapy.extensions.feedexport import FeedExporter, FileFeedStorage, ItemFilter
from scrapy.utils.defer import ensure_awaitable
from twisted.internet.defer import Deferred, fail, succeed

from dedup_middleware.plugin import feedslots
from dedup_middleware.plugin.feedslots import WatchedSlot
from tests.itemcrawl import Crawled, crawl
from tests.test_failed_feed import failing, three_pages
from tests.texts import article


class SharedStorage:
    """One storage object for all slots of all crawls, as one that holds a connection may be."""

    made: SharedStorage | None = None

    def __init__(self) -> None:
        self.stored: list[bytes] = []

    @classmethod
    def from_crawler(cls, _crawler: Any, _uri: str, **_options: Any) -> SharedStorage:
        """Called by Scrapy."""
        cls.made = cls.made or cls()
        return cls.made

    def open(self, _spider: Any) -> IO[bytes]:
        """Called by Scrapy."""
        return io.BytesIO()

    def store(self, file: io.BytesIO) -> None:
        """Called by Scrapy; one feed of two can't be stored."""
        if b"/1" in file.getvalue():
            raise PermissionError("no right to the bucket")
        self.stored.append(file.getvalue())


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> SharedStorage:
    """The shared storage of a test."""
    storage = SharedStorage()
    monkeypatch.setattr(SharedStorage, "made", storage)
    return storage


def _slot(storage: Any, file: Any) -> Any:
    """A stand-in for Scrapy's slot of a feed, with the attributes that `WatchedSlot` reads."""
    lines = {"format": "jsonlines", "exporters": {"jsonlines": JsonLinesItemExporter}}
    return type("Slot", (), {"storage": storage, "file": file, "feed_options": {}, **lines})()


def test_a_storage_of_many_batches_and_crawls_is_wrapped_once() -> None:
    """However many slots it has: Python ends calls that are too deep with an error."""
    storage = SharedStorage()
    slots = [_slot(storage, io.BytesIO(b"/%d" % (number % 2))) for number in range(1_200)]
    watched = [WatchedSlot(slot) for slot in slots]
    assert all(one.is_watched for one in watched)
    for slot in slots:
        with contextlib.suppress(PermissionError):
            storage.store(slot.file)
    assert len(storage.stored) == 600
    assert [one.has_failed for one in watched] == [False, True] * 600


async def test_batches_with_one_storage_are_stored(shared: SharedStorage) -> None:
    """The call of the last one is no deeper than that of the first."""
    depths = []

    class Deep(SharedStorage):
        def store(self, file: io.BytesIO) -> None:
            depths.append(len(inspect.stack(0)))
            super().store(file)

    shared.__class__ = Deep

    async def source(_crawled: Crawled) -> AsyncIterator[Any]:
        for _ in range(10):
            yield {"url": "https://a.example/0"}

    batches = {"one:%(batch_id)d": {"format": "jsonlines", "batch_item_count": 1}}
    for _ in range(2):
        await crawl(source, {}, FEEDS=batches, FEED_STORAGES={"one": SharedStorage})
    assert len(shared.stored) == 20
    assert len(set(depths)) == 1


async def test_of_feeds_with_one_storage_that_fails_one_is_forgotten(
    tmp_path: Path, shared: SharedStorage, caplog: pytest.LogCaptureFixture
) -> None:
    """The file says which one it was."""
    batches = {"one:%(batch_id)d": {"format": "jsonlines", "batch_item_count": 1}}
    settings = failing(tmp_path, "at storing") | {
        "FEEDS": batches,
        "FEED_STORAGES": {"one": SharedStorage},
    }
    await crawl(three_pages, {}, **settings)
    assert len(shared.stored) == 2
    assert any("1 pages of this crawl are forgotten" in line for line in caplog.messages)


async def _stored() -> None:
    return None


async def _lost() -> None:
    raise PermissionError("no right to the bucket")


@pytest.mark.parametrize(
    ("made", "kind", "is_failed"),
    [
        (lambda: None, NoneType, False),
        (lambda: succeed(None), Deferred, False),
        (lambda: fail(PermissionError()), Deferred, True),
        (_stored, CoroutineType, False),
        (_lost, CoroutineType, True),
    ],
)
async def test_what_a_storage_returns_stays_of_its_kind(
    made: Any, kind: type[Any], is_failed: bool
) -> None:
    """A subclass of Scrapy's exporter may call it, and not await it where it returns None."""
    file = io.BytesIO()
    storage = SimpleNamespace(store=lambda _file: made())
    watched = WatchedSlot(_slot(storage, file))
    assert watched.is_watched
    answer = storage.store(file)
    assert type(answer) is kind
    if isinstance(answer, Deferred):
        answer.addErrback(lambda _failure: None)
    elif answer is not None:
        with contextlib.suppress(PermissionError):
            await answer
    assert watched.has_failed is is_failed


class GzipStorage(FileFeedStorage):
    """Packs what is written."""

    def open(self, spider: Any) -> IO[bytes]:  # noqa: ARG002
        """Called by Scrapy."""
        return gzip.open(self.path, "ab")  # type: ignore[return-value]


class NoPages(ItemFilter):
    """The first items only."""

    def accepts(self, item: Any) -> bool:
        return bool(item["url"].endswith("0"))


def _pages(first: int) -> Any:
    async def source(_crawled: Crawled) -> AsyncIterator[Any]:
        for seed in range(first, first + 3):
            yield {"url": f"https://a.example/{seed}", "text": article(seed)}

    return source


@pytest.mark.parametrize("kind", [ItemFilter, NoPages])
async def test_a_file_that_is_packed_gets_no_line_feeds(tmp_path: Path, kind: type[Any]) -> None:
    """Behind one in a packed file nothing could be read; in what is packed it would be a line."""
    out = tmp_path / "out.jl"
    settings = {
        "FEEDS": {
            str(out): {"format": "jsonlines", "item_filter": kind},
            str(tmp_path / "all.jl"): {"format": "jsonlines"},
        },
        "FEED_STORAGES": {"": _Packed, "file": _Packed},
    }
    for first in (0, 10):
        await crawl(_pages(first), {}, **settings)
    lines = gzip.decompress(out.read_bytes()).splitlines()
    assert len(lines) == (6 if kind is ItemFilter else 2)
    assert all(lines)


class _Packed(GzipStorage):
    """A storage that packs what is written, except the feed that takes all items."""

    def open(self, spider: Any) -> IO[bytes]:
        if self.path.endswith("all.jl"):
            return FileFeedStorage.open(self, spider)
        return super().open(spider)


async def test_a_feed_is_not_looked_into_for_each_item_that_it_leaves_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a network each look is a round trip."""
    looked: list[Any] = []
    monkeypatch.setattr(feedslots, "_path_of", looked.append)
    settings = {
        "FEEDS": {
            str(tmp_path / "some.jl"): {"format": "jsonlines", "item_filter": NoPages},
            str(tmp_path / "all.jl"): {"format": "jsonlines"},
        },
    }
    await crawl(_pages(0), {}, **settings)
    assert len(looked) == 2


class EveryThird(ItemFilter):
    """Takes every third item, and counts its calls."""

    asked = 0

    def accepts(self, item: Any) -> bool:  # noqa: ARG002
        self.asked += 1
        return self.asked % 3 == 0


async def test_a_filter_is_asked_once_for_each_item(tmp_path: Path) -> None:
    """A filter that takes a sample takes the same one with the plugin as without it."""
    out = tmp_path / "sample.jl"
    feeds = {str(out): {"format": "jsonlines", "item_filter": EveryThird}}

    async def source(_crawled: Crawled) -> AsyncIterator[Any]:
        for seed in range(9):
            yield {"url": f"https://a.example/{seed}", "text": article(seed)}

    crawled = await crawl(source, {}, FEEDS=feeds, CONCURRENT_ITEMS=1)
    assert len(out.read_text().splitlines()) == 3
    assert (crawled.stat("committed"), crawled.stat("claim/no-feed")) == (3, 6)


class QuietExporter(FeedExporter):
    """Closes its slots without the signal of it."""

    async def _close_slot(self, slot: Any, spider: Any) -> None:  # noqa: ARG002
        slot.finish_exporting()
        with contextlib.suppress(PermissionError):
            await ensure_awaitable(slot.storage.store(self._get_file(slot)))


@pytest.mark.parametrize("lost", [False, True])
async def test_a_slot_whose_file_was_stored_has_not_failed(
    lost: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """This holds although no signal reports that the slot is closed."""
    feeds = {str(tmp_path / "out.jl"): {"format": "jsonlines"}}
    settings = failing(tmp_path, "at storing") | {
        "FEEDS": {"lost:out": {"format": "jsonlines"}} if lost else feeds,
        "EXTENSIONS": {FeedExporter: None, QuietExporter: 0},
    }
    await crawl(three_pages, {}, **settings)
    said = [line for line in caplog.messages if "could not be stored" in line]
    assert bool(said) is lost
