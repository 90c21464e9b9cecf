"""What every way to run the news crawler has in common."""

import os
from pathlib import Path
from typing import Any

BOT_NAME = "news"
SPIDER_MODULES = ["crawler.spiders"]
NEWSPIDER_MODULE = "crawler.spiders"

# The plugin: its pipeline and its commands. Its own settings begin with DEDUP_.
ADDONS = {"dedup_middleware.Addon": 500}

# Of a page without text there is nothing to store.
DEDUP_ON_EMPTY = "drop"

# Neither the database nor the feed replaces what a page said before it changed.
DEDUP_VERSIONS = "keep"

# Storage comes after the plugin, so that a duplicate never reaches it.
ITEM_PIPELINES = {"crawler.storage.SqliteStorage": 800}
# Where the results go: the feed news.jsonl and the database news.db.
NEWS_DIR = Path(os.environ.get("NEWS_DIR") or ".")
NEWS_DB = str(NEWS_DIR / "news.db")
# True keeps the HTML of every stored page in the database; the feed never holds it.
NEWS_STORE_HTML = False

# With DEDUP_ACTION = "mark", add "dedup": the plugin puts its verdict there.
FEED_EXPORT_FIELDS = [
    "url",
    "title",
    "text",
    "site",
    "author",
    "published",
    "language",
    "source_url",
    "fetched",
]
FEEDS: dict[str, dict[str, Any]] = {
    str(NEWS_DIR / "news.jsonl"): {"format": "jsonlines", "encoding": "utf8", "overwrite": False},
}

# Before Scrapy's own middleware that need a page's text (580), behind the one that unzips it (590).
DOWNLOADER_MIDDLEWARES = {"crawler.charset.CharsetMiddleware": 585}
EXTENSIONS = {"crawler.summary.Summary": 900}
# They listen on a port, and nobody asked for it. Scrapy 2.18 knows the first one only.
TELNETCONSOLE_ENABLED = False
REMOTE_CONTROL_ENABLED = False

# A guest on other people's servers: named, slow, and out where robots.txt says so.
USER_AGENT = "dedup-middleware-news/0.1 (Scrapy news crawler of the dedup-middleware project)"
ROBOTSTXT_OBEY = True
ROBOTSTXT_USER_AGENT = "dedup-middleware-news"
CONCURRENT_REQUESTS = 16
CONCURRENT_REQUESTS_PER_DOMAIN = 4
AUTOTHROTTLE_ENABLED = True
AUTOTHROTTLE_START_DELAY = 1.0
AUTOTHROTTLE_MAX_DELAY = 30.0
AUTOTHROTTLE_TARGET_CONCURRENCY = 1.0
COOKIES_ENABLED = False
HTTPCACHE_ENABLED = False
RETRY_TIMES = 2
REDIRECT_MAX_TIMES = 5
DOWNLOAD_TIMEOUT = 30
# No article is this large; a page that is would only cost memory.
DOWNLOAD_MAXSIZE = 10 * 1024 * 1024
DOWNLOAD_WARNSIZE = 5 * 1024 * 1024

# Nearest pages first: the default order dives into the archive before the front page is done.
SCHEDULER_MEMORY_QUEUE = "scrapy.squeues.FifoMemoryQueue"
SCHEDULER_DISK_QUEUE = "scrapy.squeues.PickleFifoDiskQueue"

LOG_LEVEL = "INFO"
