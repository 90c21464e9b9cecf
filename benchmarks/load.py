"""Bulk load, export and import, against datasketch's insertion in the same run.

Usage: ``python -m benchmarks.load [--pages 1000000] [--sample 20000] [--kinds memory redis]``

Steps run one after the other, each in its own process. ``CPU`` is the processor time of that
process and the server together, so "on one core" is the number of pages per minute if both shared
one core; ``time`` is wall-clock time. The peer inserts a sample of the same pages, with the same
eight bands of three minima, in an ``insertion_session``, into memory and the same server.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
from datasketch import MinHashLSH
from rich.console import Console
from rich.table import Table

from benchmarks.fingerprints import BANDS, PERMUTATIONS, ROWS, fresh
from dedup_middleware.base.options import Options
from dedup_middleware.index.base import Index
from dedup_middleware.index.opening import open_index
from dedup_middleware.index.pages import joined
from dedup_middleware.tools.portable.portable import export_index, import_index
from dedup_middleware.tools.portable.portable_file import arrow
from tests.servers import RedisServer, running_redis

_PARAMETERS = {"bands": f"{BANDS}x{ROWS}"}
_PART = 50_000  # pages generated at once
_BLOCK = 500_000  # pages loaded at once
PEER = "datasketch insert"
_TICKS = os.sysconf("SC_CLK_TCK")


@attrs.frozen
class Cost:
    """The cost of a step: wall-clock seconds, processor seconds, bytes of memory."""

    seconds: float
    cpu: float
    memory: int


Row = tuple[str, int, Cost]


@attrs.frozen
class Place:
    """An index and its server."""

    kind: str
    url: str
    server: int | None = None

    async def opened(self) -> Index:
        """Return the index, open."""
        index = open_index(Options(index_url=self.url, timeout=120, namespace="load"))
        await index.open(_PARAMETERS)
        return index

    def cpu(self) -> float:
        """Return the processor seconds of this process and the server so far."""
        own = time.process_time()
        if self.server is None:
            return own
        fields = Path(f"/proc/{self.server}/stat").read_text().rpartition(")")[2].split()
        return own + (int(fields[11]) + int(fields[12])) / _TICKS


class Clock:
    """Adds up the cost of ``with`` blocks."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._seconds = self._cpu = 0.0

    def __enter__(self) -> None:
        self._seconds -= time.perf_counter()
        self._cpu -= self._place.cpu()

    def __exit__(self, *_: object) -> None:
        self._seconds += time.perf_counter()
        self._cpu += self._place.cpu()

    def cost(self) -> Cost:
        """Return the total, and the peak memory of this process."""
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        return Cost(self._seconds, self._cpu, memory)


async def _load(index: Index, place: Place, count: int) -> Cost:
    clock = Clock(place)
    for start in range(0, count, _BLOCK):
        stop = min(count, start + _BLOCK)
        parts = [fresh(min(_PART, stop - i), i).pages() for i in range(start, stop, _PART)]
        pages = joined(parts)
        del parts
        with clock:
            await index.load(pages)
    return clock.cost()


async def _export(index: Index, place: Place, path: Path) -> Cost:
    clock = Clock(place)
    with clock:
        await export_index(index, path)
    return clock.cost()


async def _import(index: Index, place: Place, path: Path) -> Cost:
    clock = Clock(place)
    with clock:
        await import_index(index, path)
    return clock.cost()


def _fill_and_export(place: Place, count: int, path: Path) -> list[Cost]:
    arrow()

    async def work() -> list[Cost]:
        index = await place.opened()
        costs = [await _load(index, place, count)]
        if place.kind == "memory":
            costs.append(await _export(index, place, path))
        await index.close()
        return costs

    return asyncio.run(work())


def _export_alone(place: Place, _count: int, path: Path) -> list[Cost]:
    arrow()

    async def work() -> list[Cost]:
        index = await place.opened()
        cost = await _export(index, place, path)
        await index.close()
        return [cost]

    return asyncio.run(work())


def _import_alone(place: Place, _count: int, path: Path) -> list[Cost]:
    arrow()

    async def work() -> list[Cost]:
        index = open_index(Options(index_url=place.url, timeout=120, namespace="again"))
        cost = await _import(index, place, path)
        await index.close()
        return [cost]

    return asyncio.run(work())


def _datasketch(place: Place, count: int, _path: Path) -> list[Cost]:
    pages = fresh(count, 0)
    names, hashes = [pages.address(i) for i in range(count)], pages.minhashes()
    storage: dict[str, Any] | None = None
    if place.kind == "redis":
        port = int(place.url.rpartition(":")[2].partition("/")[0])
        storage = {"type": "redis", "redis": {"host": "127.0.0.1", "port": port}}
    lsh = MinHashLSH(num_perm=PERMUTATIONS, params=(BANDS, ROWS), storage_config=storage)
    clock = Clock(place)
    with clock, lsh.insertion_session() as session:
        for name, minhash in zip(names, hashes, strict=True):
            session.insert(name, minhash)
    return [clock.cost()]


def _apart(work: Callable[[Place, int, Path], list[Cost]], *arguments: object) -> list[Cost]:
    """Run a step in its own process."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        costs = pool.apply(work, arguments)
    for cost in costs:
        print(work.__name__.strip("_"), *arguments[:2], cost, flush=True)
    return costs


def measure(kind: str, count: int, sample: int, folder: Path, server: RedisServer) -> list[Row]:
    """Return step, number of pages and cost, for each step with one back end."""
    urls = {"memory": "memory:", "sqlite": f"sqlite:{folder}/index.db", "redis": server.url}
    place = Place(kind, urls[kind], server.pid if kind == "redis" else None)
    path = folder / f"{kind}.parquet"
    costs = _apart(_fill_and_export, place, count, path)
    if kind != "memory":
        costs += _apart(_export_alone, place, count, path)
    again = place if kind != "sqlite" else Place(kind, f"sqlite:{folder}/again.db")
    costs += _apart(_import_alone, again, count, path)
    steps = ("load", "export", "import")
    rows = [(step, count, cost) for step, cost in zip(steps, costs, strict=True)]
    if kind != "sqlite":
        (peer,) = _apart(_datasketch, place, sample, path)
        rows.append((PEER, sample, peer))
    return rows


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--pages", type=int, default=1_000_000)
    parser.add_argument("--sample", type=int, default=20_000)
    parser.add_argument("--kinds", nargs="+", default=["memory", "sqlite", "redis"])
    options = parser.parse_args()
    table = Table(title=f"{options.pages:,} pages, 13 tables, addresses of 80 characters")
    for name in (
        "index",
        "step",
        "time",
        "CPU",
        "pages a minute",
        "on one core",
        "memory",
        "ratio",
    ):
        table.add_column(name, justify="left" if name in ("index", "step") else "right")
    for kind in options.kinds:
        with tempfile.TemporaryDirectory() as name, running_redis(Path(name)) as server:
            rows = measure(kind, options.pages, options.sample, Path(name), server)
        rates = {step: count / cost.cpu for step, count, cost in rows}
        peer = rates.get(PEER)
        for step, count, cost in rows:
            ratio = f"{rates['load'] / peer:.1f} x" if step == "load" and peer else ""
            table.add_row(
                kind,
                step,
                f"{cost.seconds:,.1f} s",
                f"{cost.cpu:,.1f} s",
                f"{60 * count / cost.seconds:,.0f}",
                f"{60 * count / cost.cpu:,.0f}",
                f"{cost.memory / 1e6:,.0f} MB",
                ratio,
            )
    Console().print(table)


if __name__ == "__main__":
    main()
