"""What the pipeline says of itself: counts in the crawl's stats, its errors, and warnings."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scrapy.statscollectors import StatsCollector

    from dedup_middleware.plugin.summary import Summary

logger = logging.getLogger(__name__)


class Reports:
    """Counts, errors and warnings of one crawl.

    :param stats: the crawl's, if it has any
    :ivar is_opening: calls of the index are not counted yet, because the stats are about pages
    :ivar summary: gets the times of the stages
    """

    def __init__(self, stats: StatsCollector | None) -> None:
        self._stats = stats
        self._warned: set[object] = set()
        self.is_opening = False
        self.summary: Summary | None = None

    def count(self, name: str, n: float = 1) -> None:
        """Add to a stat, whose name has no ``dedup/`` here."""
        kind, _, stage = name.partition("/")
        if self.is_opening and kind == "index":
            return
        if kind == "seconds" and self.summary is not None:
            self.summary.time(stage, n)
        if self._stats is not None:
            self._stats.inc_value(f"dedup/{name}", n)  # type: ignore[arg-type]

    def failure(self, what: str) -> None:
        """Count and log the exception that is being handled.

        :param what: what the plugin was doing
        """
        self.count("error/internal")
        logger.exception("Near-duplicates: an error of the plugin while %s; no item is lost", what)

    def warn_once(self, message: str, *arguments: object, key: object = None) -> None:
        """Log a message, each text (or each ``key``) once a crawl."""
        if (key or message) not in self._warned:
            self._warned.add(key or message)
            logger.warning(message, *arguments)
