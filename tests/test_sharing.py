"""Several spider processes, one index: every article is stored exactly once."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.forks import Forked
from tests.mirrors import Mirrors, headline

ROOT = Path(__file__).parent.parent
ARTICLES = 40
HASH_KEY = "5eed"


def crawl(start: str, out: Path, *settings: str, **environment: str) -> Forked:
    """Start a spider process on a site, which writes into a directory of its own."""
    given = [part for setting in settings for part in ("-s", setting)]
    fast = ("-s", "AUTOTHROTTLE_ENABLED=0", "-s", "CONCURRENT_REQUESTS_PER_DOMAIN=8")
    return run_news(out, ("-a", f"start={start}", *fast, *given), environment)


def crawl_sample(out: Path, *arguments: str, **environment: str) -> Forked:
    """Start a spider process on the sample site."""
    return run_news(out, arguments, environment)


def run_news(out: Path, arguments: tuple[str, ...], environment: dict[str, str]) -> Forked:
    """Start `scrapy crawl news`; its feed and its log go into ``out``.

    A new index has the same hash key in each run: with a random one a copy is missed in one crawl
    of 80.
    """
    out.mkdir(parents=True, exist_ok=True)
    stdout, log = out / "stdout", out / "log"
    for file in (stdout, log):
        file.write_bytes(b"")
    return Forked(
        ["-m", "scrapy", "crawl", "news", "-s", f"DEDUP_HASH_KEY={HASH_KEY}", *arguments],
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


def finish(processes: list[Forked]) -> None:
    """Wait for all processes to end well."""
    for process in processes:
        assert process.wait(timeout=600) == 0


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


def rows(out: Path) -> Counter[str]:
    """How often each title is in the database of the storage pipeline."""
    path = out / "news.db"
    if not path.exists():
        return Counter()
    with contextlib.closing(sqlite3.connect(path)) as database:
        try:
            titles = database.execute("SELECT title FROM articles").fetchall()
        except sqlite3.OperationalError:  # the table is not made yet
            return Counter()
    return Counter(title for (title,) in titles)


def test_spider_that_is_killed_loses_no_article(tmp_path: Path) -> None:
    """Killed in the middle of storing, three times over, and started again: all is stored.

    At the moment of the kill a page may be stored and its claim not committed yet; its mirror may
    then be stored too. Nothing else may be twice there.
    """
    out = tmp_path / "out"
    settings = [f"DEDUP_INDEX_URL=sqlite:{tmp_path / 'index.db'}", "DEDUP_LEASE=1"]
    with Mirrors(ARTICLES, mirrors=2) as mirrors:
        start = ",".join(mirrors.urls)
        for least in (3, 12, 25):
            process = crawl(start, out, *settings)
            deadline = time.monotonic() + 600
            while rows(out).total() < least and process.poll() is None:
                assert time.monotonic() < deadline
                time.sleep(0.01)
            process.kill()
            process.wait()
        finish([crawl(start, out, *settings)])
    found = rows(out)
    assert set(found) == {headline(n) for n in range(ARTICLES)}
    # One for each kill and each item that was under way then.
    assert found.total() - ARTICLES <= 3 * 8
    assert max(found.values()) <= 2
