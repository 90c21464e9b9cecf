"""The cost of a decision as the index grows, as a plot and a table."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
from pathlib import Path

import matplotlib as mpl
from rich.progress import Progress
from rich.table import Table

from benchmarks import deciding
from benchmarks.index_redis import fill, sample
from dedup_middleware.base.options import Options
from dedup_middleware.index.base import Index
from dedup_middleware.index.opening import open_index
from tests.servers import running_redis

FOLDER = Path("build/benchmarks")


def measure(sizes: list[int], decisions: int, rounds: int, progress: Progress) -> Table:
    """Grow an index in memory and one on Redis; the plot is written to ``build/benchmarks``."""
    table = Table(title="Growth: us a decision of a new page, 100 in flight, one process")
    for name in ("pages", "memory:", "redis:"):
        table.add_column(name, justify="right")
    with tempfile.TemporaryDirectory() as folder, running_redis(Path(folder)) as server:
        lines = {
            url.partition(":")[0]: asyncio.run(_grow(url, sizes, decisions, rounds, progress))
            for url in ("memory:", server.url)
        }
    for i, size in enumerate(sizes):
        table.add_row(f"{size:,}", *(f"{line[i]:.0f}" for line in lines.values()))
    _plot(sizes, lines)
    return table


async def _grow(
    url: str, sizes: list[int], decisions: int, rounds: int, progress: Progress
) -> list[float]:
    index = open_index(Options(index_url=url))
    await index.open({"bands": "8"})
    loaded, line = 0, []
    name = url.partition(":")[0]
    job = progress.add_task(f"growth, {name}", total=sizes[-1])
    for size in sizes:
        await fill(index, size, lambda n: progress.advance(job, n), loaded)
        loaded = size
        line.append(await _cost(index, size, decisions, rounds))
    await index.close()
    return line


async def _cost(index: Index, size: int, decisions: int, rounds: int) -> float:
    times = []
    loop = asyncio.get_running_loop()
    for number in range(rounds):
        entries = sample("unique", size + number, decisions, size).entries()
        started = loop.time()
        await deciding.decide_all(index, entries)
        times.append((loop.time() - started) / decisions * 1e6)
    return statistics.median(times)


def _plot(sizes: list[int], lines: dict[str, list[float]]) -> None:
    mpl.use("svg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 4))
    for name, line in lines.items():
        axes.plot(sizes, line, marker="o", label=name)
    axes.set_xscale("log")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("pages in the index")
    axes.set_ylabel("microseconds a decision")
    axes.legend()
    FOLDER.mkdir(parents=True, exist_ok=True)
    figure.savefig(FOLDER / "growth.svg")
    plt.close(figure)
