"""Resident memory of a crawl, with and without the plugin.

Usage: ``python -m benchmarks.crawl_memory [--rounds N]``

A spider yields 40 generated HTML pages, half of them copies; the index is in memory. Each crawl is
its own process, whose memory is read from ``/proc/self/smaps_rollup`` (Linux) when the spider
closes. Without the extension module numba compiles the kernels, here in an earlier crawl.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile

from rich.console import Console
from rich.table import Table

_CRAWL = """
import re, sys
import scrapy
from scrapy.crawler import CrawlerProcess

class Pages(scrapy.Spider):
    name = "pages"

    async def start(self):
        for number in range(40):
            words = " ".join(f"word{number // 2}x{place} 第{place}个词" for place in range(200))
            html = f"<html><body><article><p>{words}。</p></article></body></html>"
            yield {"url": f"https://site{number}.example/", "html": html}

    def closed(self, reason):
        with open("/proc/self/smaps_rollup") as memory:
            kilobytes = dict(re.findall(r"^(\\w+): +(\\d+) kB", memory.read(), re.MULTILINE))
        private = int(kilobytes["Private_Clean"]) + int(kilobytes["Private_Dirty"])
        print(int(kilobytes["Rss"]) / 1024, private / 1024)

settings = {"LOG_ENABLED": False, "TELNETCONSOLE_ENABLED": False}
if sys.argv[1] == "with":
    settings |= {
        "ADDONS": {"dedup_middleware.Addon": 500},
        "DEDUP_INDEX_URL": "memory:",
        "DEDUP_JOURNAL": "",
    }
process = CrawlerProcess(settings)
process.crawl(Pages)
process.start()
"""


def crawl(cache: str, *, plugin: bool, compile_kernels: bool = False) -> tuple[float, float]:
    """Return the megabytes of a crawl at its end: resident, and private."""
    environment = {key: value for key, value in os.environ.items() if key != "DEDUP_COMPILE"}
    if compile_kernels:
        environment["DEDUP_COMPILE"] = "1"
    done = subprocess.run(
        [sys.executable, "-c", _CRAWL, "with" if plugin else "without"],
        env={**environment, "DEDUP_CACHE_DIR": cache},
        cwd=cache,
        capture_output=True,
        text=True,
        check=True,
    )
    resident, private = done.stdout.split()
    return float(resident), float(private)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    table = Table("crawl", "resident MB", "added by the plugin", "private MB")
    without = 0.0
    with tempfile.TemporaryDirectory() as cache:
        for name, plugin, compile_kernels in (
            ("without the plugin", False, False),
            ("kernels of the installation", True, False),
            ("kernels compiled by numba, cached", True, True),
        ):
            crawl(cache, plugin=plugin, compile_kernels=compile_kernels)  # fills the cache
            found = [
                crawl(cache, plugin=plugin, compile_kernels=compile_kernels) for _ in range(rounds)
            ]
            resident, private = (statistics.median(column) for column in zip(*found, strict=True))
            if not plugin:
                without = resident
            added = f"{resident - without:.0f}" if plugin else ""
            table.add_row(name, f"{resident:.0f}", added, f"{private:.0f}")
    Console().print(table)


if __name__ == "__main__":
    main()
