"""A feed that can't be stored when the crawl ends, although its pages are committed."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import IO, Any

import pytest
from scrapy.extensions.feedexport import BlockingFeedStorage

from dedup_middleware.tools.commands.selecting import parse_time
from tests.itemcrawl import Crawled, crawl
from tests.texts import article


class LostStorage(BlockingFeedStorage):
    """Takes items, and fails when the feed is to be stored, as S3 does without rights."""

    def __init__(self, _uri: str, **_options: Any) -> None:
        pass

    def _store_in_thread(self, file: IO[bytes]) -> None:
        file.close()
        raise PermissionError("no right to the bucket")


@pytest.mark.parametrize("fails", [True, False])
async def test_a_feed_that_fails_is_named_with_the_command_that_mends_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, *, fails: bool
) -> None:
    """The error says how many pages the index calls stored, and since when."""

    async def source(_crawled: Crawled) -> AsyncIterator[Any]:
        for seed in range(3):
            yield {"url": f"https://a.example/{seed}", "text": article(seed)}

    feed = "lost:out" if fails else f"{tmp_path}/out.jsonl"
    crawled = await crawl(
        source,
        {},
        DEDUP_INDEX_URL=f"sqlite:{tmp_path / 'i.db'}",
        FEEDS={feed: {"format": "jsonlines"}},
        FEED_STORAGES={"lost": LostStorage},
    )
    assert crawled.stat("committed") == 3
    reported = [line for line in caplog.messages if line.startswith("A feed could not be stored")]
    assert len(reported) == (1 if fails else 0)
    for line in reported:
        assert "calls 3 pages of this crawl stored" in line
        since = re.search(r"--since (\S+)`", line)
        assert since is not None
        parse_time(since[1])
