"""A claim follows the item that was decided, in real crawls, whatever later pipelines do."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from itemadapter import ItemAdapter

from tests.itemcrawl import Crawled, crawl
from tests.itemkinds import CHANGES, KINDS, TupleAdapter, fields_of
from tests.itemstorage import (
    AnotherObject,
    Dropping,
    Failing,
    Storage,
    page,
    pages_and_copies,
    settled,
)
from tests.texts import article

ROOT = Path(__file__).parent.parent


PAGES = len(CHANGES)


@pytest.fixture(params=KINDS, ids=lambda kind: kind.__name__)
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Every kind of item, among them one of a user's own adapter."""
    adapters = (TupleAdapter, *ItemAdapter.ADAPTER_CLASSES)
    monkeypatch.setattr(ItemAdapter, "ADAPTER_CLASSES", adapters)
    return request.param


class Change:
    """A later pipeline that changes each page of host a by the entry of CHANGES for its number."""

    def process_item(self, item: Any) -> Any:
        """Called by Scrapy."""
        host, _, number = str(fields_of(item)["url"]).rpartition("/")
        return list(CHANGES.values())[int(number)](item) if "a.example" in host else item


class CopyOfKind:
    """Passes on another object than the spider yielded, so that the signal carries that one."""

    def process_item(self, item: Any) -> Any:
        """Called by Scrapy."""
        return type(item)(**fields_of(item))


def originals_and_copies(kind: Any, **fields: Any) -> Callable[[Crawled], AsyncIterator[Any]]:
    """All pages of host a, and when they are through, their copies on host b."""

    async def source(crawled: Crawled) -> AsyncIterator[Any]:
        for number in range(PAGES):
            yield page(kind, "a", number, **fields)
        await crawled.until(PAGES)
        for number in range(PAGES):
            yield page(kind, "b", number, **fields)

    return source


async def test_stored_pages_are_committed_whatever_was_changed(kind: Any) -> None:
    """Each kind of item, each change: the copy is dropped at once, for its page is stored."""
    crawled = await crawl(originals_and_copies(kind), {Storage: 500, Change: 600})
    assert sorted(crawled.duplicates) == sorted(f"https://b.example/{n}" for n in range(PAGES))
    assert crawled.stat("committed") == PAGES
    assert crawled.stat("pending/wait") == crawled.stat("claim/unsure") == 0
    assert settled(crawled)


@pytest.mark.slow
@pytest.mark.parametrize("storage", [Dropping, Failing])
async def test_pages_that_were_not_stored_are_released(kind: Any, storage: type[Storage]) -> None:
    """Each kind of item, each change: the copy is stored, for its page is not."""
    crawled = await crawl(originals_and_copies(kind), {Change: 500, CopyOfKind: 400, storage: 470})
    assert crawled.duplicates == []
    assert len(crawled.scraped) == PAGES
    assert (crawled.stat("released"), crawled.stat("committed")) == (PAGES, PAGES)
    assert crawled.stat("pending/wait") == 0
    assert settled(crawled)


async def test_extracted_text_is_no_other_page(kind: Any) -> None:
    """DEDUP_FILL_TEXT fills the text, if the item can be changed; the page is committed."""
    html = f"<html><body><article><p>{article(3, 20)}</p></article></body></html>"

    async def source(crawled: Crawled) -> AsyncIterator[Any]:
        yield kind(html=html, text="")  # named by its content
        await crawled.until(1)
        yield kind(url="https://b.example/", html=html)

    crawled = await crawl(source, {})
    assert crawled.duplicates == ["https://b.example/"]
    assert (crawled.stat("committed"), crawled.stat("error/internal")) == (1, 0)
    assert settled(crawled)


class StripQuery:
    """Deletes the query of each address, so that two items get one key."""

    def process_item(self, item: Any) -> Any:
        """Called by Scrapy."""
        return item | {"url": item["url"].partition("?")[0]}


class SlowFailure:
    """Fails at the page of host a, but only when the other item of its key is long stored."""

    def __init__(self) -> None:
        self.stored: list[str] = []

    async def process_item(self, item: Any) -> Any:
        """Called by Scrapy."""
        if item["url"] == "https://a.example/1" and item["text"] == article(1):
            await asyncio.sleep(0.3)
            raise OSError("disk full")
        self.stored.append(item["text"])
        return item


async def test_item_of_the_same_key_commits_no_other() -> None:
    """b is stored under a's address after its query was deleted, which does not commit a, which
    fails."""

    async def source(crawled: Crawled) -> AsyncIterator[Any]:
        yield page(dict, "a", 1)
        yield {"url": "https://a.example/1?utm_source=x", "text": article(2)}
        await crawled.until(1)
        yield page(dict, "c", 1)

    crawled = await crawl(source, {StripQuery: 500, SlowFailure: 600})
    assert crawled.duplicates == []
    assert sorted(item["text"] for item in crawled.scraped) == sorted([article(1), article(2)])
    assert settled(crawled)


async def test_two_crawls_in_one_process() -> None:
    """Each crawl settles only its own items."""
    first, second = await asyncio.gather(
        crawl(pages_and_copies(3), {AnotherObject: 500}),
        crawl(pages_and_copies(3), {AnotherObject: 500}),
    )
    for one in (first, second):
        assert (len(one.duplicates), one.stat("committed")) == (3, 3)
        assert settled(one)


def test_under_the_asyncio_reactor() -> None:
    """Twisted's loop, a pipeline that returns Deferreds, other objects, another url: the same."""
    command = [sys.executable, "-m", "tests.item_reactor_spider"]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=True
    )
    stats = json.loads(done.stdout)
    # Page 0 fails on host a, so that it is new on host b.
    assert (stats["dedup/new"], stats["dedup/duplicate"]) == (6, 4)
    assert (stats["dedup/committed"], stats["dedup/released"]) == (5, 1)
    assert "dedup/claim/unsure" not in stats
    assert "dedup/claim/unresolved" not in stats
