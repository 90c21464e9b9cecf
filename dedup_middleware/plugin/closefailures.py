"""Pipelines that fail when they are closed, which is when some store the items they collected."""

from __future__ import annotations

import logging
import weakref
from typing import TYPE_CHECKING

from dedup_middleware.plugin.notices import Beginning

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)

# Scrapy sends no signal of it, and raises nothing: it logs this.
_engine_log = logging.getLogger("scrapy.core.engine")
_FAILURE = "Scraper close failure"


class CloseFailures(logging.Filter):
    """Says which command helps if a pipeline of a crawl fails when it is closed.

    The pages count as stored by then, and it may have been what was to store them.
    """

    def __init__(self, crawler: Crawler) -> None:
        super().__init__()
        self._spider = None if crawler.spider is None else weakref.ref(crawler.spider)
        self._began = Beginning()
        self._seen = False
        _engine_log.addFilter(self)

    def filter(self, record: logging.LogRecord) -> bool:
        """Note the failure; every record is logged."""
        if record.msg == _FAILURE and self._spider is not None:
            self._seen = self._seen or getattr(record, "spider", None) is self._spider()
        return True

    def end(self, committed: int) -> None:
        """The pipelines are closed: log an error if one has failed.

        :param committed: pages of this crawl that the index calls stored
        """
        _engine_log.removeFilter(self)
        if not self._seen or not committed:
            return
        logger.error(
            "A pipeline failed when it was closed (see the error above), and the index calls %d "
            "pages of this crawl stored. If they are stored only then, run `%s` with the settings "
            "of this crawl, and crawl again: else later crawls drop them and copies of them",
            committed,
            self._began.forget_command(),
        )
