"""Reports of a crawl: counts and percentiles in its stats, a log line at intervals, errors and
warnings, and the exit code."""

from __future__ import annotations

import asyncio
import logging
import math
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any, cast

from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.statscollectors import StatsCollector

from dedup_middleware.index.base import Index

logger = logging.getLogger(__name__)


_GROWTH = math.log(1.1)
_SMALLEST = 1e-6  # seconds


class Histogram:
    """A histogram of seconds, each bucket 10 % wider than the one before.

    A percentile is the upper bound of its bucket, so it is at most 10 % too large.

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
        """Add a value."""
        bucket = math.ceil(math.log(seconds / _SMALLEST) / _GROWTH) if seconds > _SMALLEST else 0
        self._buckets[bucket] += 1
        self.count += 1

    def percentile(self, share: float) -> float:
        """Seconds that ``share`` percent of the values do not exceed; 0 if there are none."""
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

    :param stats: the crawl's stats, if any; a user's own class may fail
    :ivar is_opening: calls to the index are not counted yet, since the stats are about pages
    """

    def __init__(self, stats: StatsCollector | None) -> None:
        self._stats = stats
        self._values: dict[str, float] = {}  # own copy of the stats: `stats` may fail or be shared
        self._warned: set[object] = set()
        self.is_opening = False
        self._stages = {stage: Histogram() for stage in STAGES}
        self._interval = 0.0
        self._pages = 0  # at the last log line
        self._before: Callable[[], None] = lambda: None
        self._task: asyncio.Task[None] | None = None

    def count(self, name: str, n: float = 1) -> None:
        """Add to a stat, named without ``dedup/``; seconds are added to their histogram, too."""
        kind, _, stage = name.partition("/")
        if self.is_opening and kind == "index":
            return
        if kind == "seconds":
            self._stages[stage].add(n)
        self._values[f"dedup/{name}"] = self.value(name) + n
        self._write("inc_value", f"dedup/{name}", n)

    def value(self, name: str) -> float:
        """The count of this crawl; a stats collector may add up several crawls."""
        return self._values.get(f"dedup/{name}", 0)

    def get_stats(self) -> dict[str, float]:
        """A copy of the plugin's stats; safe to call from any thread."""
        return self._values.copy()

    def _write(self, method: str, name: str, value: float) -> None:
        try:
            if self._stats is not None:
                getattr(self._stats, method)(name, value)
        except Exception as error:  # it may refuse fractions, or lose its server
            self.warn_once(
                "STATS_CLASS: %s.%s failed with %s=%r (%r), so the stats of the crawl lack values "
                "of the plugin; nothing else depends on them",
                type(self._stats).__name__, method, name, value, error, key="stats",
            )  # fmt: skip

    def failure(self, what: str) -> None:
        """Count and log the exception that is being handled, with traceback if it is the first of
        its type from its line; the others, which may have another cause, at DEBUG level.
        """
        self.count("error/internal")
        kind, error, trace = sys.exc_info()
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        fault = kind, trace and (trace.tb_frame.f_code, trace.tb_lineno)
        if fault in self._warned:
            logger.debug("Near-duplicates: an error like one before while %s: %r", what, error)
            return
        self._warned.add(fault)
        logger.exception(
            "Near-duplicates: an error of the plugin while %s; no item is lost. Further ones like "
            "it are counted in dedup/error/internal", what,
        )  # fmt: skip

    def warn_once(self, message: str, *arguments: object, key: object = None) -> None:
        """Log a warning once a crawl for each message, or for each ``key``."""
        if (key or message) not in self._warned:
            self._warned.add(key or message)
            logger.warning(message, *arguments)

    def start(self, interval: float, before: Callable[[], None]) -> None:
        """Begin to write percentiles into the stats and a line into the log at intervals.

        :param interval: seconds; 0: no log line
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
        """Write the last values into the stats, and a log line for the whole crawl."""
        self._publish()
        if self._task is not None:
            self._task.cancel()
            self._task, self._interval = None, 0  # an unfinished interval has no rate
            logger.info("%s", self._line())

    def _publish(self) -> None:
        self._before()
        for stage, histogram in self._stages.items():
            if histogram.count:
                for share in PERCENTILES:
                    name = f"dedup/seconds/{stage}/p{share}"
                    self._values[name] = round(histogram.percentile(share), 6)
                    self._write("set_value", name, self._values[name])

    def _line(self) -> str:
        """The log line, with the totals so far and the rate of the last interval."""
        pages, dropped, unchecked, errors = (
            int(self.value(name)) for name in ("pages", "dropped", "unchecked", "error/internal")
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
            f"{unchecked} unchecked"
            + (f", {errors} errors of the plugin" if errors else "")
            + (f"; ms (median/95 %): {times}" if times else "")
        )


def fail(crawler: Crawler) -> None:
    """Make Scrapy's process count this crawl as failed, and exit with 1, once its spider is closed.

    A closed spider ends with exit code 0, whatever the reason. Scrapy counts a crawl as failed
    (``bootstrap_failed``) if it raised, with a traceback, or if its crawler has no spider in the
    end. So the spider is removed; handlers of ``spider_closed`` still get it as an argument.
    """

    def forget_spider() -> None:
        crawler.spider = None

    # Connected last, so called last. No handler is added to a signal whose handlers are running.
    for signal in (signals.spider_closed, signals.engine_stopped):
        crawler.signals.connect(forget_spider, signal, weak=False)


# Methods of an index whose calls are counted.
CALLS = frozenset(
    "read_buckets candidates fetch addresses payloads "
    "propose commit release renew expiring refresh forget forget_wholly lookup".split()
)


def counted(index: Index, count: Callable[[str, float], None]) -> Index:
    """Wrap an index so that ``count`` gets its calls (not those between its own methods), its round
    trips and the SimHash records that it compares. Calls may share a round trip, or need several.
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

        def call(*arguments: Any, **named: Any) -> Any:  # no reference to self: self holds it
            count("index/calls", 1)
            return found(*arguments, **named)

        setattr(self, name, call)  # so that __getattr__ is called once for each name
        return call
