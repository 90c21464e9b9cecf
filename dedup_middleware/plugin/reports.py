"""What the pipeline says of itself: counts and percentiles in the crawl's stats, a line of them in
the log at intervals, its errors, warnings and exit code."""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from scrapy import signals

from dedup_middleware.index.base import Index

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.statscollectors import StatsCollector

logger = logging.getLogger(__name__)


_GROWTH = math.log(1.1)
_SMALLEST = 1e-6  # seconds


class Histogram:
    """A histogram of seconds, each bucket 10 % wider than the one before.

    A percentile is returned as the upper bound of its bucket, so it is at most 10 % too large.

    >>> histogram = Histogram()
    >>> for milliseconds in range(1, 101):
    ...     histogram.add(milliseconds / 1000)
    >>> 0.095 <= histogram.percentile(95) <= 0.095 * 1.1
    True
    """

    def __init__(self) -> None:
        self._buckets: Counter[int] = Counter()
        self.count = 0

    def add(self, seconds: float) -> None:
        """One more value."""
        bucket = math.ceil(math.log(seconds / _SMALLEST) / _GROWTH) if seconds > _SMALLEST else 0
        self._buckets[bucket] += 1
        self.count += 1

    def percentile(self, share: float) -> float:
        """Seconds that ``share`` percent of the values do not exceed, 0 without any value."""
        wanted = math.ceil(self.count * share / 100)
        seen = 0
        for bucket in sorted(self._buckets):
            seen += self._buckets[bucket]
            if seen >= wanted:
                return _SMALLEST * math.exp(bucket * _GROWTH)
        return 0.0


STAGES = ("extraction", "fingerprint", "index")
PERCENTILES = (50, 95, 99)


class Reports:
    """Counts, times of the stages, errors and warnings of one crawl.

    :param stats: the crawl's, if it has any; its class may be the user's own, and fail
    :ivar is_opening: calls of the index are not counted yet, because the stats are about pages
    """

    def __init__(self, stats: StatsCollector | None) -> None:
        self._stats = stats
        self._told: dict[str, float] = {}  # what the crawl's own stats were told, if they took it
        self._warned: set[object] = set()
        self.is_opening = False
        self._stages = {stage: Histogram() for stage in STAGES}
        self._interval = 0.0
        self._pages = 0  # at the last line
        self._before: Callable[[], None] = lambda: None
        self._task: asyncio.Task[None] | None = None

    def count(self, name: str, n: float = 1) -> None:
        """Add to a stat, whose name has no ``dedup/`` here; seconds also to their percentiles."""
        kind, _, stage = name.partition("/")
        if self.is_opening and kind == "index":
            return
        if kind == "seconds":
            self._stages[stage].add(n)
        self._told[f"dedup/{name}"] = self.value(name) + n
        self._tell("inc_value", f"dedup/{name}", n)

    def value(self, name: str) -> float:
        """What was counted in this crawl; a collector may share its stats with other crawls."""
        return self._told.get(f"dedup/{name}", 0)

    def get_stats(self) -> dict[str, float]:
        """A copy of the stats of the plugin, made in one step; called from any thread."""
        return self._told.copy()

    def _tell(self, method: str, name: str, value: float) -> None:
        try:
            if self._stats is not None:
                getattr(self._stats, method)(name, value)
        except Exception as error:  # say of one that takes no fractions, or whose server is away
            self.warn_once(
                "STATS_CLASS: %s.%s failed with %s=%r (%r), so the stats of the crawl lack values "
                "of the plugin; nothing else depends on them",
                type(self._stats).__name__, method, name, value, error, key="stats",
            )  # fmt: skip

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

    def start(self, interval: float, before: Callable[[], None]) -> None:
        """Write percentiles into the stats, and a line into the log, at intervals and at the end.

        :param interval: seconds, 0: no line
        :param before: called before the stats are read
        """
        self._interval, self._before = interval, before
        if interval > 0:
            self._task = asyncio.create_task(self._repeat())

    async def _repeat(self) -> None:
        while True:
            await asyncio.sleep(self._interval)
            self._publish()
            logger.info("%s", self._line())

    def stop(self) -> None:
        """Write the last line, of the whole crawl; the stats get their last values."""
        self._publish()
        if self._task is not None:
            self._task.cancel()
            self._task, self._interval = None, 0  # an interval that has not ended has no rate
            logger.info("%s", self._line())

    def _publish(self) -> None:
        self._before()
        for stage, histogram in self._stages.items():
            if histogram.count:
                for share in PERCENTILES:
                    name = f"dedup/seconds/{stage}/p{share}"
                    self._told[name] = round(histogram.percentile(share), 6)
                    self._tell("set_value", name, self._told[name])

    def _line(self) -> str:
        """The numbers of the crawl so far and of the last interval."""
        pages, dropped, unchecked = (
            int(self.value(name)) for name in ("pages", "dropped", "unchecked")
        )
        rate = ""
        if self._interval > 0:
            rate = f" (at {(pages - self._pages) * 60 / self._interval:.0f} pages/min)"
        self._pages = pages
        times = ", ".join(
            f"{stage} {histogram.percentile(50) * 1000:.1f}/{histogram.percentile(95) * 1000:.1f}"
            for stage, histogram in self._stages.items()
            if histogram.count
        )
        share = f"{100 * dropped / pages:.1f} %" if pages else "0 %"
        return (
            f"Checked {pages} pages{rate}, dropped {dropped} ({share}), "
            f"{unchecked} unchecked" + (f"; ms (median/95 %): {times}" if times else "")
        )


def fail(crawler: Crawler) -> None:
    """Let Scrapy's process count this crawl as failed once its spider is closed.

    A spider that is closed with any reason ends with exit code 0. Scrapy counts a crawl as failed
    (``bootstrap_failed``) if it raised, with a traceback, or if its crawler holds no spider at its
    end, which is the case if the spider could not be made. All handlers of ``spider_closed`` get
    the spider as an argument, as always.
    """

    def forget_spider() -> None:
        crawler.spider = None

    # Connected last, so it is called last. While the handlers of one signal run, none is added.
    for signal in (signals.spider_closed, signals.engine_stopped):
        crawler.signals.connect(forget_spider, signal, weak=False)


# Methods of an index whose calls are counted.
CALLS = frozenset(
    "read_buckets candidates fetch addresses payloads "
    "propose commit release renew expiring refresh forget forget_wholly lookup".split()
)


def counted(index: Index, count: Callable[[str, float], None]) -> Index:
    """The same index; ``count`` is called with the name of the counter and 1 for each call.

    Calls that the index makes of itself are not counted. Round trips are counted as well, apart
    from calls: many calls may share one, and one call may need several. So are the SimHash records
    that the Hamming kernel compares.
    """
    index.watch_round_trips(lambda: count("index/round-trips", 1))
    index.watch_scans(lambda records: count("index/scanned", records))
    return cast("Index", _Counted(index, count))


class _Counted:
    def __init__(self, index: Index, count: Callable[[str, float], None]) -> None:
        self._index = index
        self._count = count

    def __getattr__(self, name: str) -> Any:
        found, count = getattr(self._index, name), self._count
        if name not in CALLS:
            return found

        def call(*arguments: Any, **named: Any) -> Any:  # it refers to no self, which keeps it
            count("index/calls", 1)
            return found(*arguments, **named)

        setattr(self, name, call)  # made once
        return call
