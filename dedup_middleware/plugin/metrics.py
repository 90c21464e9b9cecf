"""The stats of a crawl for Prometheus, by its own client library (extra ``metrics``)."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from dedup_middleware.base.errors import OptionsError

if TYPE_CHECKING:
    from wsgiref.simple_server import WSGIServer

    from prometheus_client.core import Metric

logger = logging.getLogger(__name__)

_PREFIX = "dedup/"
_QUANTILE = re.compile(r"seconds/([a-z]+)/p(\d+)")


class Exporter:
    """Serves the current stats over HTTP; no work is done between requests.

    Metrics, all with the label ``spider``: ``dedup_events_total`` (``event``: the stat's name
    without ``dedup/``), ``dedup_reasons_total`` (``reason``), ``dedup_seconds_spent_total``
    (``stage``) and ``dedup_seconds`` (``stage`` and ``quantile``).

    :param stats: gives the stats; called from another thread
    :raises OptionsError: the package prometheus-client is missing
    """

    def __init__(self, stats: Any, spider: str, host: str, port: int) -> None:
        try:
            import prometheus_client  # noqa: F401
        except ImportError:
            raise OptionsError(
                "DEDUP_METRICS_PORT",
                port,
                "install prometheus-client (pip install 'dedup-middleware[metrics]'), or use 0",
            ) from None
        self._stats = stats
        self._spider = spider
        self._host = host
        self._port = port
        self._server: WSGIServer | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Open the port; if that fails a warning is logged and the crawl goes on."""
        from prometheus_client import CollectorRegistry, start_http_server

        registry = CollectorRegistry()
        registry.register(self)
        try:
            self._server, self._thread = start_http_server(
                self._port, addr=self._host, registry=registry
            )
        except OSError as error:
            logger.warning(
                "DEDUP_METRICS_PORT=%d can't be opened on %s, so there are no metrics: %s",
                self._port,
                self._host,
                error,
            )

    def stop(self) -> None:
        """Close the port."""
        if self._server is not None and self._thread is not None:
            self._server.shutdown()
            self._server.server_close()
            self._thread.join()
            self._server = self._thread = None

    def collect(self) -> Iterator[Metric]:
        """Called by prometheus-client for each request."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        events = CounterMetricFamily(
            "dedup_events", "Stats of near-duplicates.", labels=["spider", "event"]
        )
        reasons = CounterMetricFamily(
            "dedup_reasons", "Pages by the rule that decided.", labels=["spider", "reason"]
        )
        seconds = CounterMetricFamily(
            "dedup_seconds_spent", "Seconds spent in a stage.", labels=["spider", "stage"]
        )
        quantiles = GaugeMetricFamily(
            "dedup_seconds", "Seconds a page takes.", labels=["spider", "stage", "quantile"]
        )
        for name, value in sorted(self._values().items()):
            quantile = _QUANTILE.fullmatch(name)
            kind, _, rest = name.partition("/")
            if quantile is not None:
                share = f"{int(quantile[2]) / 100:g}"
                quantiles.add_metric([self._spider, quantile[1], share], value)
            elif kind == "reason":
                reasons.add_metric([self._spider, rest], value)
            elif kind == "seconds":
                seconds.add_metric([self._spider, rest], value)
            else:
                events.add_metric([self._spider, name], value)
        yield from (events, reasons, seconds, quantiles)

    def _values(self) -> Mapping[str, float]:
        # One copy in one step: the crawl adds stats meanwhile.
        stats = dict(self._stats.get_stats())
        return {
            name[len(_PREFIX) :]: value
            for name, value in stats.items()
            if name.startswith(_PREFIX) and isinstance(value, (int, float))
        }
