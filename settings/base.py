"""Settings of the news crawler; local.py, shared.py and cluster.py import them and add an index."""

import os
from pathlib import Path
from typing import Any

BOT_NAME = "news"
SPIDER_MODULES = ["crawler.spiders"]
NEWSPIDER_MODULE = "crawler.spiders"

# The plugin: its pipeline and its commands. Its own settings begin with DEDUP_.
ADDONS = {"dedup_middleware.Addon": 500}

# A page without text has nothing to store.
DEDUP_ON_EMPTY = "drop"

# Neither the database nor the feed replaces the earlier text of a page that changed.
DEDUP_VERSIONS = "keep"

# Storage comes after the plugin, so that a duplicate never reaches it.
ITEM_PIPELINES = {"crawler.storage.SqliteStorage": 800}
# Where the results go: the feed news.jsonl and the database news.db.
NEWS_DIR = Path(os.environ.get("NEWS_DIR") or ".")
NEWS_DB = str(NEWS_DIR / "news.db")
# True: store the HTML of every page in the database. The feed never has it.
NEWS_STORE_HTML = False

# With DEDUP_ACTION = "mark" add "dedup", the field with the plugin's verdict.
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

# Between Scrapy's middleware that decompresses a page (590) and those that need its text (580).
DOWNLOADER_MIDDLEWARES = {"crawler.charset.CharsetMiddleware": 585}
EXTENSIONS = {"crawler.summary.Summary": 900}
# Both would open a port. Scrapy 2.18 has only the first.
TELNETCONSOLE_ENABLED = False
REMOTE_CONTROL_ENABLED = False

# Polite crawling: a name in the user agent, few requests at a time, robots.txt obeyed.
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
# No article is this large.
DOWNLOAD_MAXSIZE = 10 * 1024 * 1024
DOWNLOAD_WARNSIZE = 5 * 1024 * 1024

# Breadth first: the default order would crawl the archive before the rest of the front page.
SCHEDULER_MEMORY_QUEUE = "scrapy.squeues.FifoMemoryQueue"
SCHEDULER_DISK_QUEUE = "scrapy.squeues.PickleFifoDiskQueue"

LOG_LEVEL = "INFO"
