"""The default: one machine, with the index in a local file and no server."""

from settings.base import *  # noqa: F403

DEDUP_INDEX_URL = "sqlite:.scrapy/dedup/index.db"
