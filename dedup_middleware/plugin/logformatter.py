"""Logs each dropped page in one line, without its text."""

from __future__ import annotations

import logging
from typing import Any

from scrapy import Spider
from scrapy.http import Response
from scrapy.logformatter import LogFormatter, LogFormatterResult
from twisted.python.failure import Failure

from dedup_middleware.plugin.acting import Dropped

logger = logging.getLogger("scrapy.core.scraper")  # where Scrapy logs dropped items


class DropLogFormatter(LogFormatter):
    """Scrapy's log formatter, with short records for items that this plugin drops.

    Scrapy puts the whole item into the log record and into its line: 30 KB a page. The record of
    a drop has the attribute ``dedup`` instead: key, outcome, reason, match and similarity.
    """

    def dropped(
        self,
        item: Any,
        exception: BaseException,
        response: Response | Failure | None,
        spider: Spider,
    ) -> LogFormatterResult:
        """Log an item that this plugin drops and return None; leave other items to Scrapy."""
        if not isinstance(exception, Dropped):
            return super().dropped(item, exception, response, spider)
        verdict = exception.verdict
        match = verdict.match
        facts = {
            "key": verdict.key,
            "outcome": verdict.outcome,
            "reason": verdict.reason,
            "match": None if match is None else match.key,
            "similarity": None if match is None else match.similarity,
        }
        level = exception.log_level or spider.crawler.settings["DEFAULT_DROPITEM_LOG_LEVEL"]
        number = logging.getLevelName(level) if isinstance(level, str) else level
        # Scrapy would log a returned message with the item in the record.
        logger.log(number, "Dropped: %s", exception, extra={"spider": spider, "dedup": facts})
        return None  # type: ignore[return-value]  # documented by Scrapy: nothing is logged
