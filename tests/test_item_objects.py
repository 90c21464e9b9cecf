"""One object for several pages, or twice for one page, in real crawls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from dedup_middleware import DedupPipeline
from tests.itemcrawl import Crawled, crawl
from tests.itemkinds import ScrapyItem
from tests.itemstorage import (
    Late,
    page,
    settled,
)
from tests.texts import article


async def test_one_object_for_all_pages_commits_none(caplog: pytest.LogCaptureFixture) -> None:
    """A spider that fills and yields one dict again and again stores the last page only."""

    async def source(crawled: Crawled) -> AsyncIterator[Any]:
        reused: dict[str, Any] = {}
        for number in range(3):
            reused.update(page(dict, "a", number))
            yield reused
            await asyncio.sleep(0.01)  # so that each page comes to the plugin
        await crawled.until(3)
        for number in range(3):
            yield page(dict, "b", number)

    crawled = await crawl(source, {Late: 500})
    assert {item["text"] for item in crawled.scraped} == {article(n) for n in range(3)}
    assert crawled.duplicates == []
    assert "yield a new object for every page" in caplog.text
    assert settled(crawled)


async def test_object_changed_while_it_is_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    """The verdict does not apply to the page that is in the item now: it passes, without a claim,
    and is counted."""

    decided, changed = asyncio.Event(), asyncio.Event()

    class SlowDecision(DedupPipeline):
        async def open_spider(self) -> None:
            await super().open_spider()
            decide = self._deduplicator.decide

            async def slow(document: Any) -> Any:
                verdict = await decide(document)
                if document.key == "https://b.example/1":
                    decided.set()
                    await changed.wait()
                return verdict

            self._deduplicator.decide = slow

    async def source(crawled: Crawled) -> AsyncIterator[Any]:
        yield page(dict, "a", 1)
        await crawled.until(1)
        copy_then_new = page(dict, "b", 1)
        yield copy_then_new
        await decided.wait()
        copy_then_new["text"] = article(2)
        changed.set()
        await crawled.until(2)
        yield page(dict, "c", 2)

    crawled = await crawl(source, {}, dedup=SlowDecision)
    assert crawled.duplicates == []
    assert crawled.stat("claim/unsure") == 1
    assert [item["text"] for item in crawled.scraped] == [article(1), article(2), article(2)]
    assert settled(crawled)


async def test_same_object_twice_is_a_revisit() -> None:
    """Yielded twice without a change, an item is stored once and known afterwards."""

    async def source(crawled: Crawled) -> AsyncIterator[Any]:
        twice = page(dict, "a", 1)
        yield twice
        yield twice
        await crawled.until(2)
        yield page(dict, "b", 1)

    crawled = await crawl(source, {Late: 500})
    assert (crawled.stat("committed"), crawled.stat("revisit")) == (1, 1)
    assert crawled.duplicates == ["https://a.example/1", "https://b.example/1"]
    assert settled(crawled)


@pytest.mark.parametrize("kind", [dict, ScrapyItem])
async def test_same_object_twice_gets_its_text_once(kind: Any) -> None:
    """The text that is put into it for the first time makes no other page of it."""

    async def source(_crawled: Crawled) -> AsyncIterator[Any]:
        html = f"<article><p>{article(1)}</p></article>"
        twice = kind(url="https://a.example/1", html=html, text=None)
        yield twice
        yield twice

    crawled = await crawl(source, {Late: 500})
    assert len(crawled.scraped) == 1
    assert crawled.duplicates == ["https://a.example/1"]
    assert settled(crawled)
