"""The storage pipeline: one row in SQLite for each version of an article.

A row is never replaced by another text, so ``settings/base.py`` sets ``DEDUP_VERSIONS = "keep"``:
every text that the index calls stored keeps its row, even if its page changes or another page takes
over its address. Storage with one row per address needs ``"replace"``.

With ``DEDUP_ON_FULLER = "replace"`` rows are deleted if their text adds nothing to a stored item.
"""

from __future__ import annotations

import contextlib
import logging
import sqlite3
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from itemadapter import ItemAdapter
from scrapy.exceptions import CloseSpider, DropItem
from scrapy.utils.asyncio import run_in_thread

from dedup_middleware import Document, Options
from dedup_middleware.base.databasefiles import use_wal
from dedup_middleware.base.errors import OptionsError
from dedup_middleware.core.holding import make_comparison
from dedup_middleware.plugin.reports import fail
from dedup_middleware.plugin.settings import options_from_settings
from dedup_middleware.plugin.signals import dedup_superseded

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from typing_extensions import Self

logger = logging.getLogger(__name__)

Comparison = Callable[[Document, Document], bool]

FIELDS = "url title text site author published language source_url fetched html".split()

_SCHEMA = f"""
CREATE TABLE articles (
    url TEXT NOT NULL,
    version INTEGER NOT NULL DEFAULT 1,
    {", ".join(f"{name} TEXT" for name in FIELDS[1:])},
    PRIMARY KEY (url, version)
)
"""
# Finds the stored version equal to a new one. Without a text the HTML is compared.
_SAME = """
SELECT version FROM articles WHERE url = ? AND title IS ? AND text IS ?
AND (coalesce(text, '') <> '' OR html IS ?)
"""
_INSERT = f"""
INSERT INTO articles (version, {", ".join(FIELDS)})
SELECT coalesce(max(version), 0) + 1, {", ".join("?" * len(FIELDS))} FROM articles WHERE url = ?
"""
_UPDATE = f"""
UPDATE articles SET {", ".join(f"{name} = ?" for name in FIELDS)} WHERE url = ? AND version = ?
"""
# Seconds for which a write waits for another process that writes to the file.
_BUSY = 30.0


class ArticleStore:
    """The table of articles. Its methods block; any thread may call them.

    :param path: the database file, created with its folder if missing
    :raises sqlite3.Error, OSError: in the constructor, if the file can't be used
    """

    def __init__(self, path: str | Path) -> None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        # Calls come from several threads; the lock admits one at a time.
        self._lock = threading.Lock()
        self._connection = sqlite3.connect(path, timeout=_BUSY, check_same_thread=False)
        try:
            use_wal(self._connection, _BUSY)
            # Committed rows must survive a power cut, because the index will call them stored.
            self._connection.execute("PRAGMA synchronous = FULL")
            with self._connection:
                self._connection.execute("BEGIN IMMEDIATE")
                self._make_table()
        except BaseException:
            self._connection.close()
            raise

    def _make_table(self) -> None:
        columns = self._connection.execute("SELECT name FROM pragma_table_info('articles')")
        names = {name for (name,) in columns}
        if "version" in names:
            return
        if names:  # created when addresses had one row each
            self._connection.execute("ALTER TABLE articles RENAME TO articles_without_versions")
        self._connection.execute(_SCHEMA)
        if names:
            fields = ", ".join(FIELDS)
            self._connection.execute(
                f"INSERT INTO articles ({fields}) SELECT {fields} FROM articles_without_versions"
            )
            self._connection.execute("DROP TABLE articles_without_versions")

    def put(self, row: dict[str, Any]) -> None:
        """Write one article and commit.

        A version with the same ``url``, title and text is replaced. Another title or text becomes a
        new version with a row of its own.

        :raises sqlite3.Error: the article was not stored
        """
        values = {name: None if row.get(name) is None else str(row[name]) for name in FIELDS}
        url, fields = values["url"], list(values.values())
        with self._lock, self._connection:
            # One transaction, as another process may add a version of the page meanwhile.
            self._connection.execute("BEGIN IMMEDIATE")
            same = self._connection.execute(
                _SAME, (url, values["title"], values["text"], values["html"])
            ).fetchone()
            if same is None:
                self._connection.execute(_INSERT, (*fields, url))
            else:
                self._connection.execute(_UPDATE, (*fields, url, same[0]))

    def remove_held(self, urls: Sequence[str], holder: Document, adds_nothing: Comparison) -> int:
        """Delete the versions of articles that add nothing to another article.

        The index only estimates what a page holds; here both texts are known.

        :param holder: the article that was stored and holds their content
        :returns: the number of deleted rows
        """
        count = 0
        with self._lock, self._connection:
            for url in urls:
                rows = self._connection.execute(
                    "SELECT version, title, text FROM articles WHERE url = ?", (url,)
                ).fetchall()
                for version, title, text in rows:
                    page = Document(key=url, title=title or "", text=text or "")
                    if text and adds_nothing(page, holder):
                        self._connection.execute(
                            "DELETE FROM articles WHERE url = ? AND version = ?", (url, version)
                        )
                        count += 1
        return count

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()


class SqliteStorage:
    """Stores items with a ``url`` in the file ``NEWS_DB``.

    The row is committed when ``process_item`` returns, so ``item_scraped`` means stored, and the
    plugin commits its claim on that signal. Scrapy reports an error of SQLite as ``item_error``,
    and the plugin releases the claim.
    """

    def __init__(self, path: str, store_html: bool, options: Options | None = None) -> None:
        self._path = path
        self._store_html = store_html
        self._options = options
        self._store: ArticleStore | None = None
        self._adds_nothing: Comparison | None = None
        self._crawler: Crawler | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Read ``NEWS_DB`` and ``NEWS_STORE_HTML``."""
        settings = crawler.settings
        options = None
        with contextlib.suppress(OptionsError):  # the plugin names it and ends the crawl
            options = options_from_settings(settings)
        storage = cls(
            settings.get("NEWS_DB") or "news.db", settings.getbool("NEWS_STORE_HTML"), options
        )
        storage._crawler = crawler
        crawler.signals.connect(storage.superseded, dedup_superseded)
        return storage

    async def open_spider(self) -> None:
        """Open the database; if that fails, end the crawl, which could store nothing."""
        try:
            self._store = await run_in_thread(ArticleStore, self._path)
        except (sqlite3.Error, OSError) as error:
            logger.error(
                "NEWS_DB=%r can't be used: %s. Name a file that is an SQLite database or does "
                "not exist yet, in a folder that can be written to",
                self._path,
                error,
            )
            if self._crawler is not None:
                fail(self._crawler)  # makes Scrapy's exit code 1
            raise CloseSpider("storage_unavailable") from error

    async def close_spider(self) -> None:
        """Close the database."""
        if self._store is not None:
            await run_in_thread(self._store.close)
            self._store = None

    async def superseded(self, item: Any, keys: Sequence[str]) -> None:
        """Delete the rows whose text adds nothing to a stored item."""
        if self._store is None:
            return
        adapter = ItemAdapter(item)
        holder = Document(
            key=str(adapter.get("url")),
            title=adapter.get("title") or "",
            text=adapter.get("text") or "",
        )
        try:
            removed = await run_in_thread(self._remove_held, list(keys), holder)
        except sqlite3.Error as error:
            logger.error("%d rows that %s may replace stay: %s", len(keys), holder.key, error)
            return
        logger.info("%d rows add nothing to %s and are deleted", removed, holder.key)

    def _remove_held(self, keys: Sequence[str], holder: Document) -> int:
        assert self._store is not None
        if self._adds_nothing is None:
            self._adds_nothing = make_comparison(self._options or Options())
        return self._store.remove_held(keys, holder, self._adds_nothing)

    async def process_item(self, item: Any) -> Any:
        """Store the item and return it unchanged."""
        assert self._store is not None
        adapter = ItemAdapter(item)
        if not adapter.get("url"):
            raise DropItem("no address: the item's field 'url' is empty, so it has no row")
        row = {name: adapter.get(name) for name in FIELDS}
        if not self._store_html:
            row["html"] = None
        await run_in_thread(self._store.put, row)
        return item
