"""A process with three crawls of two spiders that share a metrics port."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import attrs
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

ROOT = Path(__file__).parent.parent
THREE_CRAWLS = """
import ast, asyncio, sys
from pathlib import Path
import scrapy
from scrapy.crawler import CrawlerProcess
from tests.texts import article

class Pages(scrapy.Spider):
    async def start(self):
        for n in range(self.pages):
            yield {"url": f"https://{self.name}.example/{n}", "text": article(n % self.texts)}
        while not Path(self.until).exists():
            await asyncio.sleep(0.02)

process = CrawlerProcess({
    "ADDONS": {"dedup_middleware.Addon": 500},
    "CONCURRENT_ITEMS": 1,
    "DEDUP_INDEX_URL": "memory:",
    **ast.literal_eval(sys.argv[1]),
})
for name, pages, texts, until in (("one", 5, 5, "first"), ("two", 6, 2, "last"),
                                  ("two", 3, 3, "first")):
    spider = type(f"Spider{name}", (Pages,), {"name": name, "pages": pages, "texts": texts})
    process.crawl(spider, until=until)
process.start()
"""


# The final values of the crawls.
COUNTS = {
    ("dedup_events_total", "one", "pages"): 5.0,
    ("dedup_events_total", "one", "dropped"): 0.0,
    ("dedup_events_total", "two", "pages"): 9.0,
    ("dedup_events_total", "two", "dropped"): 4.0,
    ("dedup_reasons_total", "two", "exact-copy"): 4.0,
}


def scrape(port: int) -> list[Sample]:
    """What Prometheus would read."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    return [s for family in text_string_to_metric_families(text) for s in family.samples]


def samples(port: int) -> dict[tuple[str, ...], float]:
    """What Prometheus would read, by metric, spider and event or quantile; nothing is twice."""
    found: dict[tuple[str, ...], float] = {}
    for sample in scrape(port):
        labels = [v for k, v in sorted(sample.labels.items()) if k != "spider"]
        key = (sample.name, sample.labels["spider"], *labels)
        assert key not in found
        found[key] = sample.value
    return found


@attrs.define
class SharedPort:
    """The process, in a folder with its log."""

    folder: Path
    port: int
    process: subprocess.Popen[bytes]

    def end(self, which: str) -> None:
        """End spider one and a crawl of spider two (``first``), or the other crawl (``last``)."""
        (self.folder / which).touch()

    def await_samples(self, wanted: dict[tuple[str, ...], float]) -> dict[tuple[str, ...], float]:
        """Poll until the values are the expected ones."""
        found: dict[tuple[str, ...], float] = {}
        deadline = time.monotonic() + 600
        while time.monotonic() < deadline:
            assert self.process.poll() is None, (self.folder / "log").read_text()
            with contextlib.suppress(OSError):
                found = samples(self.port)
            if wanted.items() <= found.items():
                return found
            time.sleep(0.05)
        raise AssertionError(found)


@contextlib.contextmanager
def three_crawls(folder: Path, port: int, **settings: object) -> Iterator[SharedPort]:
    """The process for the length of a ``with`` block; its crawls end on request."""
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", THREE_CRAWLS, repr({"DEDUP_METRICS_PORT": port, **settings})],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stderr=log,
        )
    try:
        yield SharedPort(folder, port, process)
    finally:
        process.kill()
        process.wait()
