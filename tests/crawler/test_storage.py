"""The storage pipeline and its table."""

from __future__ import annotations

import contextlib
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from scrapy.exceptions import CloseSpider, DropItem

from crawler.items import Article
from crawler.storage import ArticleStore, SqliteStorage


def article(url: str = "https://daily.example/1", **changes: Any) -> Article:
    """An article."""
    values: dict[str, Any] = {
        "url": url,
        "title": "Bridge opens",
        "text": "The bridge was opened.",
        "html": "<p>The bridge was opened.",
        "site": "Daily",
        "source_url": url,
        "fetched": "2024-05-06T08:30:00+00:00",
    }
    return Article(**(values | changes))


def rows(path: Path) -> list[tuple[Any, ...]]:
    """Address, title and HTML of what another connection sees."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT url, title, html FROM articles ORDER BY url").fetchall()


async def test_a_row_is_committed_when_process_item_returns(tmp_path: Path) -> None:
    """Another connection sees the row while the pipeline is still open; HTML is left out."""
    path = tmp_path / "deep" / "news.db"
    pipeline = SqliteStorage(str(path), store_html=False)
    await pipeline.open_spider()
    item = article()
    assert await pipeline.process_item(item) is item
    assert rows(path) == [("https://daily.example/1", "Bridge opens", None)]
    assert item.html is not None
    await pipeline.close_spider()


async def test_html_is_stored_when_asked(tmp_path: Path) -> None:
    """NEWS_STORE_HTML fills the column."""
    pipeline = SqliteStorage(str(tmp_path / "news.db"), store_html=True)
    await pipeline.open_spider()
    await pipeline.process_item(article())
    await pipeline.close_spider()
    assert rows(tmp_path / "news.db")[0][2] == "<p>The bridge was opened."


async def test_one_row_an_article(tmp_path: Path) -> None:
    """The same address again replaces the row, also in a later crawl and from a plain dict."""
    path = tmp_path / "news.db"
    for title in ("first", "second"):
        pipeline = SqliteStorage(str(path), store_html=False)
        await pipeline.open_spider()
        await pipeline.process_item(article(title=title))
        await pipeline.process_item({"url": "https://daily.example/2", "title": title})
        await pipeline.close_spider()
    assert [row[:2] for row in rows(path)] == [
        ("https://daily.example/1", "second"),
        ("https://daily.example/2", "second"),
    ]


async def test_an_item_without_address_is_dropped(tmp_path: Path) -> None:
    """It has no key, so no row; the message says which field is missing."""
    pipeline = SqliteStorage(str(tmp_path / "news.db"), store_html=False)
    await pipeline.open_spider()
    with pytest.raises(DropItem, match="'url'"):
        await pipeline.process_item({"title": "x"})
    await pipeline.close_spider()


async def test_a_failed_write_reaches_scrapy(tmp_path: Path) -> None:
    """An error of SQLite is raised, so that the item counts as failed and not as stored."""
    path = tmp_path / "news.db"
    pipeline = SqliteStorage(str(path), store_html=False)
    await pipeline.open_spider()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TABLE articles")
    with pytest.raises(sqlite3.OperationalError, match="articles"):
        await pipeline.process_item(article())
    await pipeline.close_spider()


@pytest.mark.parametrize("name", ["file.txt/news.db", "file.txt", "."])
async def test_an_unusable_file_ends_the_crawl_before_it_begins(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A path that is no database is named with its setting, not shown as a traceback."""
    (tmp_path / "file.txt").write_text("This is a text and no database. " * 10)
    pipeline = SqliteStorage(str(tmp_path / name), store_html=False)
    with pytest.raises(CloseSpider):
        await pipeline.open_spider()
    assert "NEWS_DB=" in caplog.text
    await pipeline.close_spider()


def test_threads_share_a_store(tmp_path: Path) -> None:
    """Writes from many threads at once are all kept."""
    store = ArticleStore(tmp_path / "news.db")
    threads = [
        threading.Thread(
            target=lambda n=n: [store.put({"url": f"{n}-{i}"}) for i in range(10)]  # type: ignore[misc]
        )
        for n in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    store.close()
    assert len(rows(tmp_path / "news.db")) == 80


def test_a_crash_loses_no_committed_row(tmp_path: Path) -> None:
    """A process that dies between two rows leaves the first and a database that opens."""
    code = (
        "import os, sys; from crawler.storage import ArticleStore\n"
        "store = ArticleStore(sys.argv[1]); store.put({'url': 'first', 'title': 'x'})\n"
        "store._connection.execute('BEGIN')\n"
        "store._connection.execute(\"INSERT INTO articles (url) VALUES ('second')\")\n"
        "os._exit(9)"
    )
    path = tmp_path / "news.db"
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", code, str(path)], cwd=root, check=False)
    assert done.returncode == 9
    assert rows(path) == [("first", "x", None)]
    store = ArticleStore(path)
    store.put({"url": "second"})
    store.close()
    assert len(rows(path)) == 2
