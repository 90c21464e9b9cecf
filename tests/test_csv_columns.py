"""CSV feeds that leave out the text of a page: their columns are the fields of the first item."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scrapy.exporters import CsvItemExporter

from tests.itemcrawl import Crawled, crawl
from tests.test_failed_feed import LostStorage
from tests.texts import article


class Semicolons(CsvItemExporter):
    """A CSV exporter with another delimiter, as users write it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs | {"delimiter": ";"})


@pytest.mark.parametrize(
    "has_text",
    ["nothing", "no column of an own exporter", "a choice", "a first item", "another feed", "rows"],
)
async def test_a_csv_feed_without_a_column_for_the_text(tmp_path: Path, has_text: str) -> None:
    """Its columns are the fields of its first item, that of a front page without text, say. Pages
    whose text it leaves out are not stored, unless another feed has them."""

    async def source(crawled: Crawled) -> AsyncIterator[Any]:
        first = {"url": "https://a.example/", "title": "News"}
        yield first | ({"text": ""} if has_text == "a first item" else {})
        await crawled.until(1)
        for host in ("a", "b"):
            yield {"url": f"https://{host}.example/0", "title": "One", "text": article(0)}
            await crawled.until(2)
        yield {"url": "https://c.example/0", "title": "One", "text": np.array(["a", "b"])}

    feed: dict[str, Any] = {"format": "own" if "own" in has_text else "csv"}
    feed |= {"fields": ["url", "title"]} if has_text == "a choice" else {}
    # Without a header each row has the fields of its own item.
    feed |= {"item_export_kwargs": {"include_headers_line": False}} if has_text == "rows" else {}
    other = {str(tmp_path / "out.jl"): {"format": "jl"}} if has_text == "another feed" else {}
    own: dict[str, Any] = {"FEED_EXPORTERS": {"own": Semicolons}}
    crawled = await crawl(source, {}, FEEDS={str(tmp_path / "out.csv"): feed} | other, **own)
    is_stored = not has_text.startswith("no")
    assert len(crawled.duplicates) == is_stored
    assert crawled.stat("claim/no-feed") == (0 if is_stored else 2)
    assert crawled.stat("error/internal") == 0


async def test_a_csv_feed_without_the_text_beside_one_that_fails(tmp_path: Path) -> None:
    """If the other feed, which has the text, fails, the next crawl stores the page."""

    async def source(crawled: Crawled) -> AsyncIterator[Any]:
        yield {"url": "https://a.example/", "title": "News"}
        await crawled.until(1)
        yield {"url": "https://a.example/0", "title": "One", "text": article(0)}

    feeds = {str(tmp_path / "out.csv"): {"format": "csv"}, "lost://x": {"format": "jsonlines"}}
    failing: dict[str, Any] = {"FEED_STORAGES": {"lost": LostStorage}, "FEEDS": feeds}
    url = f"sqlite:{tmp_path / 'i.db'}"
    for more in failing, {}:
        crawled = await crawl(source, {}, DEDUP_INDEX_URL=url, **more)
        assert len(crawled.scraped) == 2


async def test_a_csv_feed_without_a_column_for_html(tmp_path: Path) -> None:
    """Pages may be HTML alone."""

    async def source(crawled: Crawled) -> AsyncIterator[Any]:
        yield {"url": "https://a.example/", "title": "News"}
        await crawled.until(1)
        yield {"url": "https://a.example/0", "html": f"<article><p>{article(0)}</p></article>"}

    crawled = await crawl(source, {}, FEEDS={str(tmp_path / "out.csv"): {"format": "csv"}})
    assert (crawled.stat("committed"), crawled.stat("claim/no-feed")) == (0, 1)
