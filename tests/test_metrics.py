"""The stats of a crawl can be read by Prometheus, and its log tells how it goes."""

from __future__ import annotations

import asyncio
import logging
import sys
import time
import urllib.request

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families
from scrapy.exceptions import CloseSpider

from dedup_middleware.plugin.summary import Histogram
from tests.servers import free_port
from tests.test_pipeline import Crawl, item, make_crawler


def ask(port: int) -> dict[tuple[str, ...], float]:
    """What Prometheus would read."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    return {
        (sample.name, *(v for k, v in sorted(sample.labels.items()) if k != "spider")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
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
    deadline = time.monotonic() + 60
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


async def test_port_that_is_taken(caplog: pytest.LogCaptureFixture) -> None:
    """It is told, and the crawl goes on without metrics."""
    port = free_port()
    first, second = (Crawl(make_crawler(DEDUP_METRICS_PORT=port)) for _ in range(2))
    await first.pipeline.open_spider()
    await second.pipeline.open_spider()
    assert f"DEDUP_METRICS_PORT={port} can't be opened" in caplog.text
    await second.item(item("a/1", 1))
    assert second.stat("new") == 1
    await second.pipeline.close_spider()
    await first.pipeline.close_spider()


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


@pytest.mark.slow
async def test_summary_in_the_rhythm_of_logstats(caplog: pytest.LogCaptureFixture) -> None:
    """One line at level INFO: pages, rate, share of drops, times of the stages."""
    # Kernels and dictionary are loaded before, so that both pages come before the first line.
    first = Crawl(make_crawler(LOGSTATS_INTERVAL=0))
    await first.pipeline.open_spider()
    await first.item(item("a/1", 1))
    await first.pipeline.close_spider()
    crawl = Crawl(make_crawler(LOGSTATS_INTERVAL=2))
    await crawl.pipeline.open_spider()
    deadline = time.monotonic() + 60
    with caplog.at_level(logging.INFO, logger="dedup_middleware.plugin.summary"):
        await crawl.item(item("a/1", 1))
        await crawl.item(item("b/1", 1))
        while "Checked" not in caplog.text and time.monotonic() < deadline:
            await asyncio.sleep(0.05)
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
    """No time at all is no error."""
    assert Histogram().percentile(50) == 0
    instant = Histogram()
    instant.add(0.0)
    assert 0 < instant.percentile(50) <= 1e-6
