"""A crawl that is stopped in the middle leaves no claim that blocks anyone."""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from dedup_middleware.base.options import Options
from dedup_middleware.index.opening import open_index
from tests.servers import running_redis
from tests.torture.run import Plan, Torture

# Many pages are under way when the crawl ends.
PLAN = Plan(articles=2000, processes=1, kills=0, batches=20)


async def _pending(url: str) -> int:
    async with open_index(Options(index_url=url, timeout=30)) as index:
        await index.attach()
        return (await index.stats()).pending


@pytest.mark.parametrize(
    ("signals", "clean"),
    [
        ([signal.SIGINT], True),
        ([signal.SIGTERM], True),
        ([signal.SIGINT, signal.SIGINT], False),
        ([signal.SIGKILL], False),
    ],
)
async def test_stopped_in_the_middle(
    tmp_path: Path, redis_url: str, signals: Sequence[signal.Signals], clean: bool
) -> None:
    """A clean stop gives every claim back; a second Ctrl-C or a kill leaves none that lasts
    longer than the lease."""
    torture = Torture(PLAN, tmp_path, redis_url)
    spider = torture.start(0)
    try:
        deadline = time.monotonic() + 600
        while torture.done() < 40 and time.monotonic() < deadline:
            assert spider.poll() is None
            time.sleep(0.01)
        assert torture.done() >= 40
        for one in signals:
            spider.send_signal(one)
            time.sleep(0.05)
        spider.wait(600)
    finally:
        spider.kill()
        spider.wait()
    if not clean:
        time.sleep(torture.plan.lease)
    assert await _pending(redis_url) == 0


async def test_closed_by_scrapy(tmp_path: Path, redis_url: str) -> None:
    """A spider that is closed after so many items gives every claim back and ends well."""
    torture = Torture(PLAN, tmp_path, redis_url)
    spider = torture.start(0, "CLOSESPIDER_ITEMCOUNT=30", "LOG_LEVEL=INFO")
    try:
        assert spider.wait(600) == 0
    finally:
        spider.kill()
        spider.wait()
    assert 30 <= torture.done() < 2000
    assert "closespider_itemcount" in (tmp_path / "log-0").read_text()
    assert await _pending(redis_url) == 0


async def test_closed_when_the_index_is_gone(tmp_path: Path) -> None:
    """With DEDUP_ON_ERROR=close a crawl ends when its server dies in the middle, says why, and
    keeps what it has fetched."""
    (tmp_path / "redis").mkdir()
    with running_redis(tmp_path / "redis") as server:
        torture = Torture(PLAN, tmp_path, server.url)
        soon = "DEDUP_RETRIES=1", "DEDUP_TIMEOUT=5"
        spider = torture.start(0, "DEDUP_ON_ERROR=close", *soon, "LOG_LEVEL=INFO")
        try:
            deadline = time.monotonic() + 600
            while torture.done() < 40 and time.monotonic() < deadline:
                assert spider.poll() is None
                time.sleep(0.01)
            server.kill()
            assert spider.wait(600) == 0
        finally:
            spider.kill()
            spider.wait()
    log = (tmp_path / "log-0").read_text()
    assert "(dedup_index_unavailable)" in log
    assert "Traceback" not in log
    # A hundred pages under way are one outage, not a hundred lines; a page that is to be committed
    # may be the first to fail ("could not record"), or one that is decided ("can't be used"), or
    # the extension of leases ("can't extend").
    assert 1 <= log.count("WARNING: The index c") <= 10
    assert 40 <= torture.done() < 2000
