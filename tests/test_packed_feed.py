"""Feeds that are packed (``postprocessing``), or have no lines, on a full disk: no page counts that
can't be read."""

from __future__ import annotations

import gc
import gzip
import io
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import IO, Any
from xml.etree import ElementTree

import pytest
from scrapy.extensions.postprocessing import Bz2Plugin, GzipPlugin, LZMAPlugin

from tests.itemcrawl import Crawled, crawl
from tests.test_cut_feed import SmallDisk, _Disk
from tests.texts import article

PACKERS = [GzipPlugin, Bz2Plugin, LZMAPlugin]


def settings(tmp_path: Path, packer: Any) -> dict[str, Any]:
    """Those of a crawl with a packed feed on a small disk."""
    quick = {"gzip_compresslevel": 1, "bz2_compresslevel": 1, "lzma_preset": 0}
    feed = {"format": "jsonlines", "postprocessing": [packer], **quick}
    return {
        "DEDUP_INDEX_URL": f"sqlite:{tmp_path / 'i.db'}",
        "FEEDS": {f"disk:{tmp_path}/out": feed},
        "FEED_STORAGES": {"disk": SmallDisk},
    }


def page(host: str, seed: int) -> dict[str, str]:
    """One that takes much room packed as well."""
    more = random.Random(f"{host}{seed}").randbytes(150_000).hex()
    return {"url": f"https://{host}.example/{seed}", "text": article(seed), "more": more}


@pytest.mark.parametrize("packer", PACKERS)
async def test_a_packed_feed_that_cant_be_finished_has_no_page(
    tmp_path: Path, packer: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What the packer holds back is written when it is closed, before the storage gets the file."""

    async def source(_crawled: Crawled) -> AsyncIterator[Any]:
        yield {"url": "https://a.example/0", "text": article(0)}
        yield page("a", 1)

    gc.collect()  # feeds of other tests, which close their packers
    whole, is_full = packer.close, [True]

    def close(self: Any) -> None:
        whole(self)
        if is_full:  # once: it is closed again when it is collected
            is_full.clear()
            self.file.close()
            raise OSError("No space left on device")

    monkeypatch.setattr(_Disk, "room", 10_000_000)
    with monkeypatch.context() as patch:
        patch.setattr(packer, "close", close)
        crawled = await crawl(source, {}, **settings(tmp_path, packer))
    assert crawled.stat("committed") == 2
    assert any("2 pages of this crawl are forgotten" in line for line in caplog.messages)
    again = await crawl(source, {}, DEDUP_INDEX_URL=f"sqlite:{tmp_path / 'i.db'}")
    assert (again.stat("new"), again.duplicates) == (2, [])


@pytest.mark.parametrize("packer", PACKERS)
async def test_a_packed_feed_with_a_piece_lost_has_no_page(
    tmp_path: Path, packer: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A disk that was full for a moment: the file is closed without an error, but can't be read."""

    async def source(crawled: Crawled) -> AsyncIterator[Any]:
        yield {"url": "https://a.example/0", "text": article(0)}
        await crawled.until(1)
        monkeypatch.setattr(_Disk, "room", 0)
        for seed in range(1, 6):
            yield page("a", seed)
            await crawled.until(seed + 1)
        monkeypatch.setattr(_Disk, "room", 10_000_000)
        yield {"url": "https://b.example/0", "text": article(0)}

    monkeypatch.setattr(_Disk, "room", 10_000_000)
    crawled = await crawl(source, {}, **settings(tmp_path, packer))
    assert crawled.stats["feedexport/success_count/SmallDisk"] == 1
    assert crawled.duplicates == []
    assert any("pages of this crawl are forgotten" in line for line in caplog.messages)
    again = await crawl(source, {}, DEDUP_INDEX_URL=f"sqlite:{tmp_path / 'i.db'}")
    assert again.stat("new") == 6


class SlottedExporter:
    """Takes no attribute."""

    __slots__ = ("file",)

    def __init__(self, file: IO[bytes], *_: Any, **__: Any) -> None:
        self.file = file

    def start_exporting(self) -> None:
        """Called by Scrapy."""

    def export_item(self, item: Any) -> None:
        """Called by Scrapy."""
        self.file.write(f"{item['url']}\n".encode())

    def finish_exporting(self) -> None:
        """Called by Scrapy."""


async def test_an_exporter_that_takes_no_attribute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It exports all items."""

    async def source(_crawled: Crawled) -> AsyncIterator[Any]:
        for seed in range(2):
            yield {"url": f"https://a.example/{seed}", "text": article(seed)}

    monkeypatch.setattr(_Disk, "room", 10_000_000)
    own = {"FEED_EXPORTERS": {"jsonlines": SlottedExporter}}
    crawled = await crawl(source, {}, **settings(tmp_path, GzipPlugin), **own)
    assert crawled.stat("committed") == 2
    rows = gzip.decompress((tmp_path / "out").read_bytes()).split()
    assert rows == [b"https://a.example/0", b"https://a.example/1"]


@pytest.mark.parametrize("kind", ["pickle", "marshal", "json", "xml"])
async def test_a_feed_that_cant_be_read_behind_a_cut_row_has_no_page(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A row longer than what the buffer holds is cut where the disk is full."""
    row = "x" * (2 * io.DEFAULT_BUFFER_SIZE)

    async def source(crawled: Crawled) -> AsyncIterator[Any]:
        for seed, room in enumerate((1_000_000, 5_000, 1_000_000)):
            monkeypatch.setattr(_Disk, "room", room)
            yield {"url": f"https://a.example/{seed}", "text": article(seed), "more": row}
            await crawled.until(seed + 1)
        yield {"url": "https://b.example/0", "text": article(0)}

    chosen = settings(tmp_path, GzipPlugin) | {"FEEDS": {f"disk:{tmp_path}/out": {"format": kind}}}
    crawled = await crawl(source, {}, **chosen)
    assert crawled.stats["feedexport/success_count/SmallDisk"] == 1
    assert (crawled.duplicates, crawled.stat("claim/no-feed")) == ([], 3)
    assert any("1 pages of this crawl are forgotten" in line for line in caplog.messages)


async def test_an_item_that_cant_be_serialised_leaves_a_packed_feed_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has written nothing, so the pages of others stay."""

    async def source(crawled: Crawled) -> AsyncIterator[Any]:
        yield {"url": "https://a.example/0", "text": article(0)}
        yield {"url": "https://a.example/1", "text": article(1), "more": object}
        await crawled.until(2)
        yield {"url": "https://b.example/0", "text": article(0)}

    monkeypatch.setattr(_Disk, "room", 10_000_000)
    crawled = await crawl(source, {}, **settings(tmp_path, GzipPlugin))
    assert crawled.duplicates == ["https://b.example/0"]
    assert (crawled.stat("committed"), crawled.stat("claim/no-feed")) == (1, 1)


class Unwritable:
    """A value that has no text."""

    def __str__(self) -> str:
        raise ValueError("no text")


async def test_a_row_of_xml_that_cant_be_written_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its element is never closed, so nothing of the file can be read."""

    async def source(crawled: Crawled) -> AsyncIterator[Any]:
        for seed, more in enumerate(("", Unwritable(), "")):
            yield {"url": f"https://a.example/{seed}", "text": article(seed), "more": more}
            await crawled.until(seed + 1)
        yield {"url": "https://b.example/0", "text": article(0)}

    monkeypatch.setattr(_Disk, "room", 10_000_000)
    chosen = settings(tmp_path, GzipPlugin) | {"FEEDS": {f"disk:{tmp_path}/out": {"format": "xml"}}}
    crawled = await crawl(source, {}, **chosen)
    with pytest.raises(ElementTree.ParseError):
        ElementTree.parse(tmp_path / "out")
    assert (crawled.duplicates, crawled.stat("claim/no-feed")) == ([], 3)
    assert any("1 pages of this crawl are forgotten" in line for line in caplog.messages)
