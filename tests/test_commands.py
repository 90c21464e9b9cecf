"""`scrapy dedup` shows an index and changes nothing."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from dedup_middleware import Deduplicator, Document, IndexRefusedError, Options
from dedup_middleware.index.memory.index import MemoryIndex
from tests.forks import run
from tests.texts import article


def dedup(*arguments: str, index: str) -> subprocess.CompletedProcess[str]:
    """Run `scrapy dedup ...` outside any project."""
    words = ["-m", "scrapy", "dedup", *arguments, "-s", f"DEDUP_INDEX_URL={index}"]
    return run(words, cwd=Path.cwd(), env=os.environ)


async def fill(index: str) -> None:
    """An index with three pages stored, one on its way and one given back."""
    async with Deduplicator(Options(index_url=index)) as one:
        verdicts = [await one.decide(Document(str(n), text=article(n))) for n in range(4)]
        for verdict in verdicts[:3]:
            await one.commit(verdict)
        await one.release(verdicts[3])


async def test_stats_for_machines(tmp_path: Path) -> None:
    """`--json` prints the numbers of pages and the parameters, and no secret key."""
    index = f"sqlite:{tmp_path / 'index.db'}"
    await fill(index)
    shown = json.loads(dedup("stats", "--json", index=index).stdout)
    assert (shown["committed"], shown["pending"], shown["released"]) == (3, 0, 1)
    assert shown["parameters"]["bands"] == "2x3"
    assert "hash_key" not in shown["parameters"]
    assert shown["bytes"] > 0


async def test_stats_of_a_shared_index(redis_url: str) -> None:
    """`--json` prints the same for an index in Redis."""
    await fill(redis_url)
    assert json.loads(dedup("stats", "--json", index=redis_url).stdout)["committed"] == 3


async def test_stats_for_people(tmp_path: Path) -> None:
    """Without `--json` a table is printed."""
    index = f"sqlite:{tmp_path / 'index.db'}"
    await fill(index)
    done = dedup("stats", index=index)
    assert done.returncode == 0
    assert "pages stored" in done.stdout


def test_index_that_does_not_exist_is_not_made(tmp_path: Path, redis_url: str) -> None:
    """A clear message and exit code 1; nothing is created."""
    path = tmp_path / "none.db"
    for index in (f"sqlite:{path}", redis_url):
        done = dedup("stats", index=index)
        assert done.returncode == 1
        assert "there is no index" in done.stdout + done.stderr
    assert not path.exists()


async def test_memory_index_has_nothing_to_attach_to() -> None:
    """An index in memory exists once something has opened it."""
    index = MemoryIndex()
    with pytest.raises(IndexRefusedError, match="there is no index"):
        await index.attach()
    stored = await index.open({"w": "3"})
    assert await index.attach() == stored


def test_unknown_subcommand(tmp_path: Path) -> None:
    """The message names the unknown command, and says how to list all commands."""
    done = dedup("destroy", index=f"sqlite:{tmp_path / 'x.db'}")
    assert done.returncode == 2
    assert "there is no command 'destroy'; `scrapy dedup --help` lists all" in done.stderr
