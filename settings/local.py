"""One machine, nothing to install: the index is a file beside the crawl. The default."""

from settings.base import *  # noqa: F403

DEDUP_INDEX_URL = "sqlite:.scrapy/dedup/index.db"
