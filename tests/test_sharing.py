"""Several spider processes, one index: every article is stored exactly once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.mirrors import Mirrors, headline

ROOT = Path(__file__).parent.parent
ARTICLES = 40


def crawl(start: str, out: Path, *settings: str, **environment: str) -> subprocess.Popen[bytes]:
    """Start a spider process on a site, which writes into a directory of its own."""
    given = [part for setting in settings for part in ("-s", setting)]
    fast = ("-s", "AUTOTHROTTLE_ENABLED=0", "-s", "CONCURRENT_REQUESTS_PER_DOMAIN=8")
    return run_news(out, ("-a", f"start={start}", *fast, *given), environment)


def crawl_sample(out: Path, *arguments: str, **environment: str) -> subprocess.Popen[bytes]:
    """Start a spider process on the sample site."""
    return run_news(out, arguments, environment)


def run_news(
    out: Path, arguments: tuple[str, ...], environment: dict[str, str]
) -> subprocess.Popen[bytes]:
    """Start `scrapy crawl news`; its feed and its log go into ``out``."""
    out.mkdir(parents=True, exist_ok=True)
    with (out / "stdout").open("wb") as stdout, (out / "log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "scrapy", "crawl", "news", *arguments],
            cwd=ROOT,
            env={**os.environ, "NEWS_DIR": str(out), **environment},
            stdout=stdout,
            stderr=log,
        )


def stored(out: Path) -> list[dict[str, Any]]:
    """The items of a feed; none if there is no feed."""
    feed = out / "news.jsonl"
    lines = feed.read_text(encoding="utf-8").splitlines() if feed.exists() else []
    return [json.loads(line) for line in lines]


def finish(processes: list[subprocess.Popen[bytes]]) -> None:
    """Wait for all processes to end well."""
    for process in processes:
        assert process.wait(timeout=240) == 0


def assert_each_once(folders: list[Path]) -> None:
    """Every article is in exactly one of the feeds, and nothing else is."""
    titles = Counter(item["title"] for folder in folders for item in stored(folder))
    missing = {headline(n) for n in range(ARTICLES)} - set(titles)
    logs = "\n".join((folder / "log").read_text()[-3000:] for folder in folders)
    assert not missing, f"lost: {missing}\n{logs}"
    assert {title: n for title, n in titles.items() if n > 1} == {}, logs
    assert len(titles) == ARTICLES


def test_four_spiders_on_four_mirrors_and_one_redis(tmp_path: Path, redis_url: str) -> None:
    """Four processes crawl four mirrors of one site at once; Redis lets each article in once."""
    folders = [tmp_path / str(n) for n in range(4)]
    with Mirrors(ARTICLES) as mirrors:
        finish(
            [
                crawl(url, folder, SCRAPY_PROJECT="shared", DEDUP_INDEX_URL=redis_url)
                for url, folder in zip(mirrors.urls, folders, strict=True)
            ]
        )
    assert_each_once(folders)


@pytest.mark.parametrize("processes", [2])
def test_spiders_that_share_a_file(tmp_path: Path, processes: int) -> None:
    """Two processes on one embedded index: the file lets each article in once."""
    folders = [tmp_path / str(n) for n in range(processes)]
    index = f"DEDUP_INDEX_URL=sqlite:{tmp_path / 'index.db'}"
    with Mirrors(ARTICLES, mirrors=processes) as mirrors:
        finish(
            [crawl(url, folder, index) for url, folder in zip(mirrors.urls, folders, strict=True)]
        )
    assert_each_once(folders)
