"""The page on scrapy-redis, with a real Redis and two crawlers."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.docblocks import ROOT
from tests.mirrors import Mirrors, headline
from tests.operation.required import package
from tests.operation.terminal import shown
from tests.servers import running_redis

SCRIPT = ROOT / "docs" / "examples" / "scrapy_redis" / "pages.py"
ARTICLES = 30


@pytest.mark.parametrize("database", [0, 1])
def test_two_crawlers_share_queue_and_index(tmp_path: Path, database: int) -> None:
    """Each page is fetched once by one of the two, and each article is stored once, whether queue
    and index are in one database or in two."""
    package("scrapy_redis")
    (run, push) = (command.text for command in shown("scrapy-redis.md")[0][1:])
    with (
        Mirrors(ARTICLES, mirrors=2) as mirrors,
        running_redis(tmp_path) as server,
        server.client() as client,
    ):
        assert push.startswith("redis-cli lpush pages:start ")
        client.lpush("pages:start", *mirrors.urls)
        index = f"redis://127.0.0.1:{server.port}/{database}"
        given = ["-s", f"DEDUP_INDEX_URL={index}", "-a", "max_idle_time=3"]
        command = run.removesuffix(" &").replace("pages.py", str(SCRIPT)).split()
        processes = []
        for number in range(2):
            with (tmp_path / f"log-{number}").open("wb") as log:
                processes.append(
                    subprocess.Popen(
                        [sys.executable, "-m", *command, *given],
                        cwd=tmp_path, env={**os.environ, "REDIS_URL": server.url}, stderr=log,
                    )
                )  # fmt: skip
        for process in processes:
            assert process.wait(120) == 0
        stored = [json.loads(line) for line in client.lrange("pages:items", 0, -1)]
    logs = [(tmp_path / f"log-{number}").read_text(encoding="utf-8") for number in range(2)]
    titles = Counter(item["title"] for item in stored)
    assert titles == {headline(n): 1 for n in range(ARTICLES)}, logs
    assert sum(counted(log, "downloader/response_count") for log in logs) == 2 * ARTICLES + 2
    assert sum(counted(log, "dedup/dropped") for log in logs) == ARTICLES
    assert all("Traceback" not in log for log in logs)


def counted(log: str, stat: str) -> int:
    """A stat at the end of a log, 0 if it is not there."""
    found = re.findall(rf"'{stat}': (\d+)", log)
    return int(found[-1]) if found else 0
