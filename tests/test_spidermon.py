"""The Spidermon monitors of the documentation work in a crawl."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SPIDER = """
import sys
import scrapy
from scrapy.crawler import CrawlerProcess
from tests.texts import article

class Pages(scrapy.Spider):
    name = "pages"

    async def start(self):
        for n in range(4):
            yield {"url": f"https://example/{n}", "text": article(n % int(sys.argv[1]))}

process = CrawlerProcess({
    "ADDONS": {"dedup_middleware.Addon": 500},
    "CONCURRENT_ITEMS": 1,
    "EXTENSIONS": {"spidermon.contrib.scrapy.extensions.Spidermon": 500},
    "SPIDERMON_ENABLED": True,
    "SPIDERMON_SPIDER_CLOSE_MONITORS": ("spidermon_monitors.NearDuplicateSuite",),
    "DEDUP_INDEX_URL": "sqlite:index.db",
})
process.crawl(Pages)
process.start()
"""


@pytest.mark.parametrize(("texts", "failures"), [(4, 0), (1, 1)])
def test_monitors(tmp_path: Path, texts: int, failures: int) -> None:
    """All are well in an honest crawl; one fails when most pages are copies."""
    (tmp_path / "run.py").write_text(SPIDER)
    path = os.pathsep.join([str(ROOT), str(ROOT / "docs" / "examples")])
    done = subprocess.run(
        [sys.executable, "run.py", str(texts)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    log = done.stdout + done.stderr
    assert "4 monitors in" in log, log[-3000:]
    assert ("FAILED (failures=1)" in log) == (failures == 1)
    assert ("75% of the pages were dropped" in log) == (failures == 1)
