"""Pages and their copies as items, pipelines that store them, and what is held in the end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

from scrapy.exceptions import DropItem

from tests.itemcrawl import Crawled
from tests.itemkinds import fields_of
from tests.texts import article


def page(kind: Any, host: str, number: int, **fields: Any) -> Any:
    """The page of that number on a host."""
    return kind(**{"url": f"https://{host}.example/{number}", "text": article(number)} | fields)


def pages_and_copies(count: int) -> Callable[[Crawled], AsyncIterator[Any]]:
    """Some pages of host a, and when they are through, their copies on host b."""

    async def source(crawled: Crawled) -> AsyncIterator[Any]:
        for number in range(count):
            yield page(dict, "a", number)
        await crawled.until(count)
        for number in range(count):
            yield page(dict, "b", number)

    return source


def settled(crawled: Crawled) -> bool:
    """Whether no item is in flight and no claim is open."""
    assert crawled.pipeline is not None
    return len(crawled.pipeline._inflight) == 0 and crawled.stat("claim/unresolved") == 0


class Storage:
    """Stores the pages of other hosts, and those of host a unless ``fate`` forbids it. It comes
    before the pipelines that change items, so that it gets the original pages."""

    fate = "stored"

    def __init__(self) -> None:
        self.stored: list[str] = []

    async def process_item(self, item: Any) -> Any:
        """Called by Scrapy."""
        url = fields_of(item)["url"]
        await asyncio.sleep(0)
        if "a.example" in url and self.fate != "stored":
            raise DropItem(url) if self.fate == "dropped" else OSError(url)
        self.stored.append(url)
        return item


class Dropping(Storage):
    """Drops the pages of host a."""

    fate = "dropped"


class Failing(Storage):
    """Fails at the pages of host a."""

    fate = "failed"


class AnotherObject:
    """Returns a copy of each item."""

    def process_item(self, item: Any) -> Any:
        """Called by Scrapy."""
        return dict(item)


class Late:
    """Stores slowly; what it stores is what the item holds then."""

    async def process_item(self, item: Any) -> Any:
        """Called by Scrapy."""
        await asyncio.sleep(0.05)
        return dict(item)
