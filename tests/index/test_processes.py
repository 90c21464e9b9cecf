"""Several processes on one index, killed at random moments and started again."""

from __future__ import annotations

import time
from multiprocessing.process import BaseProcess
from pathlib import Path

import numpy as np
import pytest

from dedup_middleware.base.options import Options
from dedup_middleware.index.opening import open_index
from dedup_middleware.model.records import State
from tests.index.harness import PARAMETERS
from tests.index.workers import store_articles
from tests.servers import RedisServer, namespace_for
from tests.torture.start import fork_context

ARTICLES = 60
PROCESSES = 3
KILLS = 4
LEASE = 1.0


@pytest.mark.parametrize("kind", ["sqlite", "redis"])
async def test_killed_processes(kind: str, tmp_path: Path, workers_server: RedisServer) -> None:
    """Every article is stored at least once, and again only where a process died between storing
    and committing it or committed it after its lease; one commit of an article succeeds; no two
    committed pages are of one article; no lease is left."""
    url = f"sqlite:{tmp_path / 'index.db'}" if kind == "sqlite" else workers_server.url
    log = tmp_path / "stored"
    log.touch()
    context = fork_context()

    def start(seed: int) -> BaseProcess:
        process = context.Process(target=store_articles, args=(url, log, ARTICLES, seed, LEASE))
        process.start()
        return process

    def logged(event: str) -> list[int]:
        lines = (line.split() for line in log.read_text().splitlines())
        return [int(article) for name, article in lines if name == event]

    processes = [start(seed) for seed in range(PROCESSES)]
    for kill in range(KILLS):
        # A kill follows progress, so that it hits a process at its work.
        deadline = time.monotonic() + 300
        while len(logged("stored")) < 10 * (kill + 1) and time.monotonic() < deadline:
            time.sleep(0.002)
        victim = processes[kill % PROCESSES]
        victim.kill()
        victim.join()
        processes[kill % PROCESSES] = start(100 + kill)
    for process in processes:
        process.join()
        assert process.exitcode == 0

    stored, succeeded, late = logged("stored"), logged("committed"), logged("late")
    assert set(stored) == set(range(ARTICLES))
    assert len(set(succeeded)) == len(succeeded)
    # Up to eight articles of a process are on their way when it is killed.
    assert 0 <= len(stored) - len(succeeded) - len(late) <= KILLS * 8
    index = open_index(Options(index_url=url, namespace=namespace_for(url, "workers")))
    await index.open(PARAMETERS)
    stats = await index.stats()
    numbers = np.arange(1, stats.committed + stats.released + stats.pending + 1, dtype=np.uint64)
    found = await index.fetch(numbers)
    committed = found.content["exact"][found.states == State.COMMITTED].tolist()
    assert sorted(committed) == list(range(ARTICLES))
    time.sleep(LEASE)
    assert (await index.stats()).pending == 0
    await index.close()
