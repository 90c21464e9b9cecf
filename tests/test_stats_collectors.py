"""Errors of a user's own stats collector (``STATS_CLASS``) affect no decision."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from scrapy.statscollectors import MemoryStatsCollector

from tests.itemcrawl import Crawled, crawl
from tests.test_failed_feed import failing
from tests.texts import article


class WholeNumbers(MemoryStatsCollector):
    """A collector that takes no fractions, as that of scrapy-redis, which counts in Redis."""

    def inc_value(self, key: str, count: int = 1, *arguments: Any, **named: Any) -> None:
        """Called by Scrapy."""
        if not isinstance(count, int):
            raise TypeError("value is not an integer")
        super().inc_value(key, count, *arguments, **named)


class Away(MemoryStatsCollector):
    """A collector whose server the plugin can't reach."""

    def inc_value(self, key: str, *arguments: Any, **named: Any) -> None:
        """Called by Scrapy."""
        if key.startswith("dedup/"):
            raise ConnectionError("the server of the stats is away")
        super().inc_value(key, *arguments, **named)


class OfManyCrawls(MemoryStatsCollector):
    """A collector in which another crawl counts, too."""

    def get_value(self, key: str, *arguments: Any, **named: Any) -> Any:
        """Called by Scrapy."""
        found = super().get_value(key, *arguments, **named)
        return 1000 + found if key == "dedup/committed" else found


async def _two_pages(_crawled: Crawled) -> AsyncIterator[Any]:
    for number in (1, 2, 1, 2):
        yield {"url": f"https://a.example/{number}", "text": article(number)}
    yield {"url": "https://a.example/3"}  # neither text nor HTML: it counts as empty


@pytest.mark.parametrize("kind", [WholeNumbers, Away])
async def test_pages_are_decided_as_without_it(
    kind: type, caplog: pytest.LogCaptureFixture
) -> None:
    """No item is lost, no copy is stored, and a warning names the setting once."""
    crawled = await crawl(_two_pages, {}, STATS_CLASS=kind)
    assert (crawled.ended, len(crawled.duplicates), len(crawled.scraped)) == (5, 2, 3)
    said = [line for line in caplog.messages if "STATS_CLASS" in line]
    assert len(said) == 1
    assert kind.__name__ in said[0]
    assert not [record for record in caplog.records if record.exc_info]


async def test_pages_of_other_crawls_are_not_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """If a feed fails, the error counts only pages of this crawl."""
    settings = failing(tmp_path, "at storing") | {"STATS_CLASS": OfManyCrawls}
    await crawl(_two_pages, {}, **settings)
    assert any("2 pages of this crawl are forgotten" in line for line in caplog.messages)
    assert not any("A feed could not" in line for line in caplog.messages)
