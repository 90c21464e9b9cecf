"""Spidermon monitors of near-duplicates: copy into a project and change the limits.

In the settings of the project::

    EXTENSIONS = {"spidermon.contrib.scrapy.extensions.Spidermon": 500}
    SPIDERMON_ENABLED = True
    SPIDERMON_SPIDER_CLOSE_MONITORS = ("myproject.spidermon_monitors.NearDuplicateSuite",)
"""

from __future__ import annotations

from typing import ClassVar

from spidermon import Monitor, MonitorSuite, monitors

LARGEST_SHARE = 0.5  # of the pages that may be dropped
SLOWEST_INDEX = 0.5  # seconds, of 95 % of the pages


@monitors.name("Near-duplicates")
class NearDuplicateMonitor(Monitor):
    """Checks the stats of a crawl that has ended."""

    def _stat(self, name: str) -> float:
        return self.data.stats.get(f"dedup/{name}", 0)

    @monitors.name("not too many pages were dropped")
    def test_share_of_drops(self) -> None:
        """A site that gives all pages one text, such as a login page, loses them all."""
        share = self._stat("dropped") / max(1, self._stat("pages"))
        assert share <= LARGEST_SHARE, f"{share:.0%} of the pages were dropped"

    @monitors.name("every page was checked")
    def test_unchecked(self) -> None:
        """The index was unreachable or too slow: pages were stored, perhaps copies."""
        assert self._stat("unchecked") == 0
        assert self._stat("error/internal") == 0

    @monitors.name("every drop is in the journal")
    def test_journal(self) -> None:
        """A drop that is not in the journal can't be restored."""
        assert self._stat("journal/lost") == 0

    @monitors.name("the index is fast enough")
    def test_index_time(self) -> None:
        """A slow index holds up the crawl."""
        assert self._stat("seconds/index/p95") <= SLOWEST_INDEX


class NearDuplicateSuite(MonitorSuite):
    """Runs when the spider closes."""

    monitors: ClassVar = [NearDuplicateMonitor]
