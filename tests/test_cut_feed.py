"""Feeds that end within a row: a process was killed while it wrote it, or the disk was full."""

from __future__ import annotations

import errno
import io
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import IO, Any

import pytest
from scrapy.extensions.feedexport import FileFeedStorage

from tests.forks import run
from tests.itemcrawl import Crawled, crawl
from tests.texts import article

# The kernel ends a process in the middle of a write that makes a file too long.
_KILLED = """
import resource, signal, sys
from scrapy import Request, Spider
from scrapy.crawler import AsyncCrawlerProcess
from tests.texts import article

class Pages(Spider):
    name = "pages"
    async def start(self):
        yield Request("data:,x")
    def parse(self, _response):
        yield {"url": "https://a.example/0", "text": article(0)}

signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500))
crawl = AsyncCrawlerProcess({
    "ITEM_PIPELINES": {"dedup_middleware.DedupPipeline": 450},
    "DEDUP_INDEX_URL": "memory:",
    "DEDUP_JOURNAL": "off",
    "FEEDS": {sys.argv[1]: {"format": "jsonlines"}},
    "LOG_ENABLED": False,
})
crawl.crawl(Pages)
crawl.start()
"""
_CUT = '{"url": "https://z.example/0"}\n{"url": "https://a.exa'


async def _copies(crawled: Crawled) -> AsyncIterator[Any]:
    """The page that was cut, another one, and a copy of each."""
    for host in ("b", "c"):
        for seed in (0, 1):
            yield {"url": f"https://{host}.example/{seed}", "text": article(seed)}
        await crawled.until(2)


def _readable(file: Path) -> list[str]:
    """Addresses on lines that can be read."""
    urls = []
    for line in file.read_text().splitlines():
        try:
            urls.append(json.loads(line)["url"])
        except ValueError:
            continue
    return urls


async def test_a_crawl_goes_on_with_the_feed_of_a_killed_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Rows that a crawl appends to the feed of a killed one can be read, and for each dropped copy
    the feed has its page."""
    out = tmp_path / "out.jsonl"
    ended = run(["-c", _KILLED, str(out)], cwd=Path.cwd(), env=os.environ)
    assert ended.returncode < 0, ended.stderr
    assert not out.read_bytes().endswith(b"\n")
    crawled = await crawl(_copies, {}, FEEDS={str(out): {"format": "jsonlines"}})
    assert _readable(out) == ["https://b.example/0", "https://b.example/1"]
    assert crawled.duplicates == ["https://c.example/0", "https://c.example/1"]
    assert any("ended within a line" in line for line in caplog.messages)


async def test_the_files_of_batches_are_gone_on_with(tmp_path: Path) -> None:
    """Their numbers begin anew with each crawl."""
    for number in (1, 2):
        (tmp_path / f"{number}.jsonl").write_text(_CUT)
    batches = {f"{tmp_path}/%(batch_id)d.jsonl": {"format": "jsonlines", "batch_item_count": 1}}
    crawled = await crawl(_copies, {}, FEEDS=batches)
    assert crawled.stat("committed") == 2
    for number in (1, 2):
        urls = _readable(tmp_path / f"{number}.jsonl")
        assert urls == ["https://z.example/0", f"https://b.example/{number - 1}"]


@pytest.mark.parametrize(
    ("name", "held", "feed", "told"),
    [
        ("out.csv", 'url,text\r\nhttps://z.example/0,"a te', {}, "ended within a row"),
        ("out.csv", 'url,text\r\nhttps://z.example/0,"a text"\r\n', {}, ""),
        ("out.csv", "url;", {"item_export_kwargs": {"lineterminator": ";"}}, ""),
        ("out.json", "[{}]", {}, ""),
        ("out.jsonl", '{"url": "https://z.example/0"}\n', {}, ""),
        ("out.jsonl", '{"url": "https://z.example/0"}\n', {"encoding": "utf-16-le"}, ""),
        ("out.jsonl", _CUT, {"overwrite": True}, ""),
        ("out.jsonl", "", {}, ""),
    ],
)
async def test_what_is_said_of_other_feeds(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    name: str,
    held: str,
    feed: dict[str, Any],
    told: str,
) -> None:
    """In CSV a quotation mark may be open; whole rows and what is written anew stay."""
    out = tmp_path / name
    encoding = feed.get("encoding", "utf-8")
    out.write_text(held, encoding=encoding, newline="")
    await crawl(_copies, {}, FEEDS={str(out): {"format": out.suffix[1:], **feed}})
    said = [line for line in caplog.messages if " within a " in line]
    assert len(said) == bool(told)
    assert all(told in line for line in said)
    assert "overwrite" in feed or out.read_bytes().startswith(held.encode(encoding))
    if told:
        assert out.read_bytes()[len(held) :].startswith(b"\nurl,text")


class _Disk(io.FileIO):
    """A file on a disk with a given number of free bytes; it writes what fits."""

    room = 0

    def write(self, data: Any) -> int:
        """Called by the buffer."""
        if not _Disk.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = super().write(memoryview(data)[: _Disk.room])
        _Disk.room -= written
        return written


class SmallDisk(FileFeedStorage):
    """A feed storage whose file is on such a disk."""

    def __init__(self, uri: str, *, feed_options: dict[str, Any] | None = None) -> None:
        super().__init__(uri.removeprefix("disk:"), feed_options=feed_options)

    def open(self, spider: Any) -> IO[bytes]:  # noqa: ARG002
        """Called by Scrapy."""
        return io.BufferedWriter(_Disk(self.path, "ab"))  # type: ignore[return-value]


@pytest.mark.parametrize("size", [10, 20_000])  # less and more than the buffer holds
async def test_a_disk_that_has_room_again(tmp_path: Path, size: int) -> None:
    """Rows that are written when there is room again can be read, and for each dropped copy the
    feed has its page."""
    out = tmp_path / "out.jsonl"

    async def source(crawled: Crawled) -> AsyncIterator[Any]:
        _Disk.room = 600
        for host in ("a", "b"):
            yield {"url": f"https://{host}.example/0", "text": article(0), "more": "x" * size}
        await crawled.until(2)
        _Disk.room = 1_000_000
        for host in ("c", "d"):
            for seed in (1, 0):
                yield {"url": f"https://{host}.example/{seed}", "text": article(seed)}
            await crawled.until(4)

    feeds = {f"disk:{out}": {"format": "jsonlines"}}
    crawled = await crawl(source, {}, FEEDS=feeds, FEED_STORAGES={"disk": SmallDisk})
    readable = _readable(out)
    assert crawled.stat("claim/no-feed") == 2
    assert readable[-2:] == ["https://c.example/1", "https://c.example/0"]
    assert crawled.duplicates == ["https://d.example/1", "https://d.example/0"]
