"""Prometheus can read the stats of a crawl, and the log has summaries of its progress."""

from __future__ import annotations

import asyncio
import logging
import socket
import socketserver
import sys
import time
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scrapy.exceptions import CloseSpider

from dedup_middleware.plugin import reports
from dedup_middleware.plugin.metrics import FROM_THE_START, Samples, add_crawl
from dedup_middleware.plugin.reports import Histogram
from tests.metricscrawl import COUNTS, scrape, three_crawls
from tests.servers import free_port
from tests.test_pipeline import Crawl, item, make_crawler


@pytest.fixture(autouse=True)
def closed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server whose port is closed looks for that every half second otherwise."""
    monkeypatch.setattr(socketserver.BaseServer.serve_forever, "__defaults__", (0.01,))


def ask(port: int) -> dict[tuple[str, ...], float]:
    """The samples of a single spider, by metric and the labels but for the spider's."""
    return {
        (sample.name, *(v for k, v in sorted(sample.labels.items()) if k != "spider")): sample.value
        for sample in scrape(port)
    }


async def test_prometheus_reads_the_stats() -> None:
    """Outcomes, reasons and seconds of a running crawl; the port is closed at its end."""
    port = free_port()
    crawl = Crawl(make_crawler(DEDUP_METRICS_PORT=port))
    await crawl.pipeline.open_spider()
    await crawl.item(item("a/1", 1))
    await crawl.item(item("b/1", 1))
    found = await asyncio.to_thread(ask, port)
    assert found["dedup_events_total", "pages"] == 2
    assert found["dedup_events_total", "dropped"] == 1
    assert found["dedup_reasons_total", "exact-copy"] == 1
    assert found["dedup_seconds_spent_total", "fingerprint"] > 0
    await crawl.pipeline.close_spider()
    with pytest.raises(OSError, match="refused"):
        await asyncio.to_thread(ask, port)


async def test_percentiles_are_stats_and_metrics() -> None:
    """Median, 95 and 99 percent of each stage, in order."""
    port = free_port()
    crawl = Crawl(make_crawler(DEDUP_METRICS_PORT=port, LOGSTATS_INTERVAL=0.05))
    await crawl.pipeline.open_spider()
    for n in range(20):
        await crawl.item(item(f"a/{n}", n))
    deadline = time.monotonic() + 600
    found = await asyncio.to_thread(ask, port)
    # The percentiles are written with the next summary.
    while not found.get(("dedup_seconds", "0.5", "index")) and time.monotonic() < deadline:
        await asyncio.sleep(0.05)
        found = await asyncio.to_thread(ask, port)
    await crawl.pipeline.close_spider()
    for stage in ("fingerprint", "index"):
        half, most = (crawl.stat(f"seconds/{stage}/{p}") for p in ("p50", "p99"))
        assert 0 < half <= crawl.stat(f"seconds/{stage}/p95") <= most
        assert found["dedup_seconds", "0.5", stage] > 0
    assert crawl.stat("seconds/extraction/p50") == 0  # no page came as HTML


def test_crawlers_of_one_process_share_a_port(tmp_path: Path) -> None:
    """Three crawls of two spiders: series by spider, those of one spider summed; what has ended
    stays until the last one closes the port."""
    port = free_port()
    with three_crawls(tmp_path, port) as crawls:
        running = {("dedup_crawls", "one"): 1.0, ("dedup_crawls", "two"): 2.0}
        before = crawls.await_samples(COUNTS | running)
        crawls.end("first")
        ended = {("dedup_crawls", "one"): 0.0, ("dedup_crawls", "two"): 1.0}
        after = crawls.await_samples(COUNTS | ended)
        spent = ("dedup_seconds_spent_total", "one", "index")
        assert after[spent] == before[spent] > 0
        crawls.end("last")
        assert crawls.process.wait(600) == 0
    assert "can't be opened" not in (tmp_path / "log").read_text()
    with pytest.raises(OSError, match="refused"):
        scrape(port)


def test_samples_of_crawls_of_one_spider() -> None:
    """Counters are summed; of quantiles the largest of a crawl that runs is taken."""
    both: Samples = defaultdict(float)
    add_crawl(both, "s", {"dedup/pages": 3, "dedup/seconds/index/p95": 0.2}, running=True)
    add_crawl(both, "s", {"dedup/pages": 4, "dedup/seconds/index/p95": 0.1}, running=True)
    add_crawl(both, "s", {"dedup/pages": 5, "dedup/seconds/index/p95": 0.9}, running=False)
    add_crawl(both, "s", {"pages": 9, "dedup/reason/x": 1, "dedup/odd": "text"}, running=False)
    others = dict(both)
    events = {event: others.pop(("dedup_events", "s", event)) for event in FROM_THE_START}
    assert events == {**dict.fromkeys(FROM_THE_START, 0), "pages": 12}
    assert others == {
        ("dedup_seconds", "s", "index", "0.95"): 0.2,
        ("dedup_reasons", "s", "x"): 1,
        ("dedup_crawls", "s"): 2,
    }


async def test_port_is_opened_again(caplog: pytest.LogCaptureFixture) -> None:
    """A crawl that begins when the last one has ended opens the port anew, and counts from 0."""
    port = free_port()
    for _ in range(2):
        crawl = Crawl(make_crawler(DEDUP_METRICS_PORT=port))
        await crawl.pipeline.open_spider()
        await crawl.item(item("a/1", 1))
        found = await asyncio.to_thread(ask, port)
        await crawl.pipeline.close_spider()
        assert found["dedup_events_total", "pages"] == 1
        assert found["dedup_events_total", "unchecked"] == 0
    assert "can't be opened" not in caplog.text


async def test_port_that_is_taken(caplog: pytest.LogCaptureFixture) -> None:
    """Another process has it: that is logged, and the crawl goes on without metrics."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        crawl = Crawl(make_crawler(DEDUP_METRICS_PORT=port))
        await crawl.pipeline.open_spider()
        assert f"DEDUP_METRICS_PORT={port} can't be opened" in caplog.text
        await crawl.item(item("a/1", 1))
        assert crawl.stat("new") == 1
        await crawl.pipeline.close_spider()


async def test_host_that_is_no_name(caplog: pytest.LogCaptureFixture) -> None:
    """A name that can't be one is logged like a port that is taken."""
    crawl = Crawl(make_crawler(DEDUP_METRICS_PORT=9410, DEDUP_METRICS_HOST="a..b"))
    await crawl.pipeline.open_spider()
    assert "DEDUP_METRICS_PORT=9410 can't be opened on a..b" in caplog.text
    await crawl.pipeline.close_spider()


async def test_package_is_missing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The crawl is not started, and the message says what to install."""
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    crawl = Crawl(make_crawler(DEDUP_METRICS_PORT=9))
    with pytest.raises(CloseSpider):
        await crawl.pipeline.open_spider()
    assert "dedup-middleware[metrics]" in caplog.text
    await crawl.pipeline.close_spider()


async def test_summary_in_the_rhythm_of_logstats(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line at level INFO: pages, rate, share of drops, times of the stages."""
    over = asyncio.Event()

    async def sleep(seconds: float) -> None:
        assert seconds == 2
        await over.wait()
        over.clear()

    monkeypatch.setattr(reports, "asyncio", SimpleNamespace(**{**vars(asyncio), "sleep": sleep}))
    crawl = Crawl(make_crawler(LOGSTATS_INTERVAL=2))
    await crawl.pipeline.open_spider()
    with caplog.at_level(logging.INFO, logger="dedup_middleware.plugin.reports"):
        await crawl.item(item("a/1", 1))
        await crawl.item(item("b/1", 1))
        over.set()
        while "Checked" not in caplog.text:
            await asyncio.sleep(0)
    await crawl.pipeline.close_spider()
    lines = [record.getMessage() for record in caplog.records if "Checked" in record.getMessage()]
    assert lines[0].startswith("Checked 2 pages (at 60 pages/min), dropped 1 (50.0 %)")
    assert "ms (median/95 %): fingerprint" in lines[0]
    assert all(
        record.levelno == logging.INFO
        for record in caplog.records
        if "Checked" in record.getMessage()
    )


async def test_no_summary(caplog: pytest.LogCaptureFixture) -> None:
    """`LOGSTATS_INTERVAL=0` switches it off, as it does Scrapy's own."""
    crawl = Crawl(make_crawler(LOGSTATS_INTERVAL=0))
    with caplog.at_level(logging.INFO):
        await crawl.pipeline.open_spider()
        await crawl.item(item("a/1", 1))
        await asyncio.sleep(0.05)
        await crawl.pipeline.close_spider()
    assert "Checked" not in caplog.text
    assert crawl.stat("seconds/index/p50") > 0


@given(st.lists(st.floats(1e-6, 1000), min_size=1), st.integers(1, 100))
def test_percentiles_are_near_the_true_ones(values: list[float], share: int) -> None:
    """Never below the value at that rank, and at most a tenth above it."""
    histogram = Histogram()
    for value in values:
        histogram.add(value)
    rank = -(-len(values) * share // 100)
    true = sorted(values)[rank - 1]
    assert true * 0.999 <= histogram.percentile(share) <= true * 1.101


def test_percentile_of_nothing() -> None:
    """Percentiles without any time are no error."""
    assert Histogram().percentile(50) == 0
    instant = Histogram()
    instant.add(0.0)
    assert 0 < instant.percentile(50) <= 1e-6
