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
from scrapy.utils.test import get_crawler

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


def texts(path: Path) -> list[tuple[Any, ...]]:
    """Address, version and text of all rows."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return connection.execute(
            "SELECT url, version, text FROM articles ORDER BY url, version"
        ).fetchall()


async def store(path: Path, *items: Any, store_html: bool = False) -> None:
    """Store items, as a crawl of their own."""
    pipeline = SqliteStorage(str(path), store_html=store_html)
    await pipeline.open_spider()
    for item in items:
        await pipeline.process_item(item)
    await pipeline.close_spider()


async def test_one_row_for_the_same_text(tmp_path: Path) -> None:
    """The same title and text again replace the row, also in a later crawl and from a dict."""
    path = tmp_path / "news.db"
    plain = {"url": "https://daily.example/2", "title": "Bridge opens", "text": "It is open."}
    for day in ("2024-05-06", "2024-05-07"):
        await store(path, article(fetched=day), plain | {"fetched": day})
    with contextlib.closing(sqlite3.connect(path)) as connection:
        found = connection.execute("SELECT url, fetched FROM articles ORDER BY url").fetchall()
    assert found == [
        ("https://daily.example/1", "2024-05-07"),
        ("https://daily.example/2", "2024-05-07"),
    ]


async def test_another_text_is_another_version(tmp_path: Path) -> None:
    """A page that changed has both texts in rows; the earlier one again adds none."""
    path, url = tmp_path / "news.db", "https://daily.example/1"
    for text in ("The bridge is open.", "The bridge is closed.", "The bridge is open."):
        await store(path, article(text=text))
    await store(path, article(text="The bridge is open.", title="Correction"))
    assert texts(path) == [
        (url, 1, "The bridge is open."),
        (url, 2, "The bridge is closed."),
        (url, 3, "The bridge is open."),
    ]
    assert [row[1] for row in rows(path)] == ["Bridge opens", "Bridge opens", "Correction"]


async def test_two_pages_that_name_one_address_are_both_kept(tmp_path: Path) -> None:
    """A page that takes the canonical address of another one does not replace its row."""
    path, url = tmp_path / "news.db", "https://daily.example/1"
    other = article(text="Buy now.", source_url="https://daily.example/advert")
    await store(path, article(), other, article(), other)
    assert texts(path) == [(url, 1, "The bridge was opened."), (url, 2, "Buy now.")]


async def test_pages_without_text_are_told_apart_by_their_html(tmp_path: Path) -> None:
    """Where there is no text, the HTML is what a row would lose."""
    path = tmp_path / "news.db"
    pages = [article(text="", html=html) for html in ("<p>1", "<p>2", "<p>1")]
    await store(path, *pages, store_html=True)
    assert [row[2] for row in rows(path)] == ["<p>1", "<p>2"]


async def test_a_database_without_versions_is_taken_over(tmp_path: Path) -> None:
    """Rows of a file that was made when an address had one row are first versions."""
    path, url = tmp_path / "news.db", "https://daily.example/1"
    fields = "title text site author published language source_url fetched html".split()
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        columns = ", ".join(f"{name} TEXT" for name in fields)
        connection.execute(f"CREATE TABLE articles (url TEXT PRIMARY KEY NOT NULL, {columns})")
        connection.execute(
            "INSERT INTO articles (url, title, text) VALUES (?, 'Bridge opens', 'Old.')", (url,)
        )
    await store(path, article(text="Old."), article(text="New."))
    assert texts(path) == [(url, 1, "Old."), (url, 2, "New.")]


def test_processes_add_versions_of_one_page(tmp_path: Path) -> None:
    """Two that write the same page at once lose no version and make none twice."""
    code = (
        "import sys; from crawler.storage import ArticleStore\n"
        "store = ArticleStore(sys.argv[1])\n"
        "for n in range(40):\n"
        "    store.put({'url': 'u', 'title': 't', 'text': f'{n % 20} {sys.argv[2]}'})\n"
        "    store.put({'url': 'u', 'title': 't', 'text': f'{n} both'})\n"
        "store.close()"
    )
    path, root = tmp_path / "news.db", Path(__file__).parents[2]
    running = [
        subprocess.Popen([sys.executable, "-c", code, str(path), name], cwd=root)
        for name in ("one", "two")
    ]
    assert [process.wait(600) for process in running] == [0, 0]
    found = texts(path)
    assert [version for _, version, _ in found] == list(range(1, 81))
    assert len({text for _, _, text in found}) == 80


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


def test_a_bad_setting_of_the_plugin_is_no_error_of_the_storage() -> None:
    """The plugin names it in one line; a second error here would be a traceback."""
    SqliteStorage.from_crawler(get_crawler(settings_dict={"DEDUP_THRESHOLD": "7"}))
