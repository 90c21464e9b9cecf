"""Serves the stats of crawls to Prometheus, by its own client library (extra ``metrics``).

All crawls of a process that name the same address and port share one server.
"""

from __future__ import annotations

import logging
import re
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from dedup_middleware.base.errors import OptionsError

if TYPE_CHECKING:
    from wsgiref.simple_server import WSGIServer

    from prometheus_client.core import Metric

logger = logging.getLogger(__name__)

_PREFIX = "dedup/"
_QUANTILE = re.compile(r"seconds/([a-z]+)/p(\d+)")
# Events of docs/monitoring.md and the alerts, which are exported as 0 before they happen:
# Prometheus computes no increase from a series that begins above 0.
FROM_THE_START = (
    "claim/lost committed dropped duplicate empty error/index error/internal index/calls "
    "index/round-trips journal/lost new pages revisit stored-twice unchecked"
).split()

# By metric: help text, labels, and whether it is a counter; the gauges cover running crawls only.
_METRICS = {
    "dedup_events": ("Stats of near-duplicates.", ["spider", "event"], True),
    "dedup_reasons": ("Pages by the rule that decided.", ["spider", "reason"], True),
    "dedup_seconds_spent": ("Seconds spent in a stage.", ["spider", "stage"], True),
    "dedup_seconds": ("Seconds a page takes.", ["spider", "stage", "quantile"], False),
    "dedup_crawls": ("Crawls that run.", ["spider"], False),
}


#: values by metric name and labels
Samples = defaultdict[tuple[str, ...], float]


def add_crawl(samples: Samples, spider: str, stats: Mapping[str, Any], *, running: bool) -> None:
    """Add the stats of a crawl to the samples, which may hold crawls of the same spider already.

    :param running: whether the crawl still runs; if not, its quantiles are left out
    """
    samples["dedup_crawls", spider] += running
    for event in FROM_THE_START:
        samples["dedup_events", spider, event] += 0
    for stat, value in stats.items():
        if not stat.startswith(_PREFIX) or not isinstance(value, (int, float)):
            continue
        name = stat.removeprefix(_PREFIX)
        quantile = _QUANTILE.fullmatch(name)
        kind, _, rest = name.partition("/")
        if quantile is not None:
            if running:
                labels = ("dedup_seconds", spider, quantile[1], f"{int(quantile[2]) / 100:g}")
                samples[labels] = max(value, samples[labels])
        elif kind == "reason":
            samples["dedup_reasons", spider, rest] += value
        elif kind == "seconds":
            samples["dedup_seconds_spent", spider, rest] += value
        else:
            samples["dedup_events", spider, name] += value


def families(samples: Samples) -> Iterator[Metric]:
    """Convert samples to the metrics of prometheus-client."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    for name, (text, labels, grows) in _METRICS.items():
        family = (CounterMetricFamily if grows else GaugeMetricFamily)(name, text, labels=labels)
        for (metric, *given), value in sorted(samples.items()):
            if metric == name:
                family.add_metric(given, value)
        yield family


class Exporter:
    """Serves the current stats of a crawl over HTTP; no work is done between requests.

    Crawls of one process share a port. For crawls of one spider, counters are summed and the
    largest quantile is taken. Counters of an ended crawl stay until the last crawl of the port
    ends, since Prometheus takes a falling counter for a restarted one.

    :param stats: returns a copy of the stats; called from another thread
    :raises OptionsError: the package prometheus-client is missing
    """

    def __init__(
        self, stats: Callable[[], Mapping[str, float]], spider: str, host: str, port: int
    ) -> None:
        try:
            import prometheus_client  # noqa: F401
        except ImportError:
            raise OptionsError(
                "DEDUP_METRICS_PORT",
                port,
                "install prometheus-client (pip install 'dedup-middleware[metrics]'), or use 0",
            ) from None
        self.stats = stats
        self.spider = spider
        self._address = host, port
        self._server: _Server | None = None

    def start(self) -> None:
        """Open the port, or share it with a crawl of this process that has opened it.

        A failure is logged as a warning. Blocks for up to half a second while another crawl closes
        the port.
        """
        try:
            with _servers_lock:
                server = _servers.get(self._address) or _Server(*self._address)
                _servers[self._address] = self._server = server
                server.crawls.append(self)
        except (OSError, ValueError) as error:  # ValueError: the host is no name
            logger.warning(
                "DEDUP_METRICS_PORT=%d can't be opened on %s, so there are no metrics: %s; put an "
                "address of this machine into DEDUP_METRICS_HOST, or use another port",
                self._address[1],
                self._address[0],
                error,
            )

    def stop(self) -> None:
        """Leave the port; the last crawl closes it. Blocks for up to half a second."""
        if self._server is None:
            return
        with _servers_lock:
            self._server.end(self)
            if not self._server.crawls:
                del _servers[self._address]
                self._server.close()
        self._server = None


class _Server:
    """One open port and the crawls that it serves; OSError: the port can't be opened."""

    def __init__(self, host: str, port: int) -> None:
        from prometheus_client import CollectorRegistry, start_http_server

        self.crawls: list[Exporter] = []
        self._ended: Samples = defaultdict(float)
        # A request must not see an ending crawl twice, or not at all.
        self._lock = threading.Lock()
        registry = CollectorRegistry()
        registry.register(self)
        self._http: WSGIServer
        self._thread: threading.Thread
        self._http, self._thread = start_http_server(port, addr=host, registry=registry)

    def end(self, crawl: Exporter) -> None:
        """Keep the last counters of a crawl."""
        with self._lock:
            self.crawls.remove(crawl)
            add_crawl(self._ended, crawl.spider, crawl.stats(), running=False)

    def close(self) -> None:
        """Close the port."""
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def collect(self) -> Iterator[Metric]:
        """Called by prometheus-client for each request."""
        with self._lock:
            now = self._ended.copy()
            for crawl in self.crawls:
                add_crawl(now, crawl.spider, crawl.stats(), running=True)
        return families(now)


# The open ports of this process.
_servers: dict[tuple[str, int], _Server] = {}
_servers_lock = threading.Lock()
