"""The storage of the torture test: a record in the ledger is what it means to be stored."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any

from tests.torture.ledger import FAILED, STORED
from tests.torture.task import Faults, Task

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from tests.torture.ledger import Ledger

_LONGEST = 0.01  # seconds between the write and the moment at which a page counts as stored


class StorageError(Exception):
    """The storage failed, as storages do."""


class Store:
    """Writes pages to a ledger, and fails at given pages.

    :param seed: which pages it fails at, and how long it takes
    """

    def __init__(self, ledger: Ledger, faults: Faults, seed: int) -> None:
        self._ledger = ledger
        self._faults = faults
        self._random = random.Random(seed).random

    async def put(self, url: str) -> None:
        """Store a page; it is on disk when this returns.

        :raises StorageError: it was not stored, or that is not known
        """
        dice, faults = self._random(), self._faults
        if dice < faults.before:
            await asyncio.to_thread(self._ledger.write, FAILED, url, "before")
            raise StorageError(f"{url} was not written")
        if self._random() < faults.hang:
            await asyncio.sleep(self._random() * faults.seconds)
        await asyncio.to_thread(self._ledger.write, STORED, url)
        if dice > 1 - faults.after:
            await asyncio.to_thread(self._ledger.write, FAILED, url, "after")
            raise StorageError(f"{url} was written, and then something went wrong")
        # Storages far away answer late, and a kill finds something between write and commit.
        await asyncio.sleep(self._random() * _LONGEST)


class LedgerStorage:
    """The storage as an item pipeline, behind the plugin."""

    def __init__(self, task: Task) -> None:
        self._ledger = task.ledger()
        self._store = Store(self._ledger, task.faults, task.process)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> LedgerStorage:
        """Called by Scrapy."""
        return cls(Task.from_json(crawler.settings["TORTURE_TASK"]))

    async def process_item(self, item: Any) -> Any:
        """Store the item and return it unchanged."""
        await self._store.put(item["url"])
        return item

    async def close_spider(self) -> None:
        """Close the ledger."""
        self._ledger.close()
