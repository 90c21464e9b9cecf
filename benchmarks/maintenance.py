"""Forgetting in bulk, compacting, verifying and looking up, compared with naive ways.

Usage: ``python -m benchmarks.maintenance [--pages 100000 1000000] [--kinds redis sqlite]``

The pages are from ten hosts, and a hundred were committed each second. ``one by one``: the same
call with single pages, for a sample. ``SCAN + UNLINK``: an index with one key per page, named by
address, from which the keys of a host are removed with ``redis-py``, 1,000 per call, on the same
server in another database; its pattern is less expressive than the function for
``forget_addresses``. ``ratio``: pages per CPU second, relative to that peer.

``CPU`` is the processor time of this process and the server together. ``longest call`` is from
``SLOWLOG``, ``others wait`` is the longest time that a second process waited for the reply to a
PING, in the first row on an idle server. Both include delays by other work on the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import resource
import tempfile
import time
from collections.abc import Awaitable, Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import redis
from rich.console import Console
from rich.table import Table

from benchmarks.fingerprints import BANDS, ROWS, fresh
from dedup_middleware.base.options import Options
from dedup_middleware.index.base import Index
from dedup_middleware.index.opening import open_index
from dedup_middleware.index.verification import verify
from tests.servers import RedisServer, running_redis

HOSTS = 10
RATE = 100  # pages per second
BEGIN = 1_750_000_000
_PART = 100_000  # pages generated at once
_SCAN = 1_000
_SLOW = 500  # us from which a call is logged
_TICKS = os.sysconf("SC_CLK_TCK")
ONE_BY_ONE, SCAN_UNLINK = "one by one", "SCAN + UNLINK"
COLUMNS = ("step", "pages", "time", "CPU", "pages/s of CPU", "longest call", "others wait", "ratio")


@attrs.frozen
class Result:
    """The cost of a step; ``call`` and ``wait`` in seconds, 0 without a server."""

    step: str
    pages: int
    seconds: float
    cpu: float
    call: float = 0.0
    wait: float = 0.0

    @property
    def rate(self) -> float:
        """Pages per CPU second."""
        return self.pages / max(self.cpu, 1 / _TICKS)


def address(number: int) -> bytes:
    """Return an address of 80 characters."""
    return f"https://host-{number % HOSTS}.example.com/{number:054d}".encode()


async def fill(index: Index, count: int) -> None:
    """Enter pages with known hosts and times."""
    await index.open({"bands": f"{BANDS}x{ROWS}"})
    for start in range(0, count, _PART):
        size = min(_PART, count - start)
        pages = attrs.evolve(
            fresh(size, start).pages(),
            addresses=[address(start + i) for i in range(size)],
            times=(BEGIN + (start + np.arange(size)) // RATE).astype(np.uint32),
        )
        await index.load(pages)


def pinging(port: int, pipe: Connection) -> None:
    """Ping a server until stopped; send the longest time without a reply."""
    with redis.Redis(port=port) as client:
        client.ping()
        pipe.send(0.0)
        longest = 0.0
        while not pipe.poll():
            began = time.perf_counter()
            client.ping()
            longest = max(longest, time.perf_counter() - began)
            time.sleep(0.0005)
    pipe.send(longest)


class Watch:
    """Measures steps, and how long they block others on the same server.

    :param server: None if the index is a file
    """

    def __init__(self, server: RedisServer | None) -> None:
        self._server = server

    def _cpu(self) -> float:
        own = time.process_time()
        if self._server is None:
            return own
        fields = Path(f"/proc/{self._server.pid}/stat").read_text().rpartition(")")[2].split()
        return own + (int(fields[11]) + int(fields[12])) / _TICKS

    async def step(
        self, name: str, work: Callable[[], Awaitable[Any]], pages: int | None = None
    ) -> Result:
        """Run and measure a step.

        :param pages: number of pages concerned; None: the number that the step returns
        """
        mine, other = multiprocessing.Pipe()
        process = None
        if self._server is not None:
            context = multiprocessing.get_context("spawn")
            process = context.Process(target=pinging, args=(self._server.port, other))
            process.start()
            mine.recv()
            with self._server.client() as client:
                client.config_set("slowlog-log-slower-than", _SLOW)
                client.config_set("slowlog-max-len", 10_000)
                client.slowlog_reset()
        cpu, began = self._cpu(), time.perf_counter()
        found = await work()
        seconds, cpu = time.perf_counter() - began, self._cpu() - cpu
        call = wait = 0.0
        if process is not None and self._server is not None:
            mine.send(None)
            wait = mine.recv()
            process.join()
            with self._server.client() as client:
                slow = client.slowlog_get(10_000)
                call = max((one["duration"] for one in slow), default=0) / 1e6
        return Result(name, found if pages is None else pages, seconds, cpu, call, wait)


async def forget_singly(index: Index, numbers: list[int]) -> int:
    """Forget pages one by one."""
    return sum([await index.forget([number]) for number in numbers])


async def look_up(index: Index, count: int, size: int) -> int:
    """Look up pages by key, one by one."""
    keys = fresh(min(_PART, size), 0).keys[:count].tolist()
    found = [await index.lookup(key) for key in keys]
    assert all(len(one) == 1 for one in found)
    return len(found)


def scan_and_unlink(client: redis.Redis, host: int) -> int:
    """Remove the keys of a host from an index with one key per page."""
    removed, cursor = 0, 0
    while True:
        pattern = f"https://host-{host}.*"
        cursor, names = client.scan(cursor, match=pattern, count=_SCAN)  # type: ignore[misc]
        removed += int(client.unlink(*names)) if names else 0  # type: ignore[arg-type]
        if not cursor:
            return removed


def fill_plain(client: redis.Redis, count: int) -> None:
    """Fill an index with one key per page."""
    for start in range(0, count, 10_000):
        numbers = range(start, min(count, start + 10_000))
        client.mset({address(number): b"" for number in numbers})


async def measure(
    index: Index, count: int, sample: int, server: RedisServer | None
) -> list[Result]:
    """Run all steps on one index."""
    watch = Watch(server)
    await fill(index, count)
    results = [await watch.step("nothing", lambda: asyncio.sleep(2), 0)] if server else []
    results.append(await watch.step("lookup", lambda: look_up(index, sample, count), sample))
    results.append(await watch.step("verify", lambda: verify(index), count))
    singly = list(range(1, count, count // sample))[:sample]
    results.append(await watch.step(ONE_BY_ONE, lambda: forget_singly(index, singly)))
    results.append(
        await watch.step(
            "forget_addresses",
            lambda: index.forget_addresses(lambda one: one.startswith("https://host-3.")),
        )
    )
    if server is not None:
        with redis.Redis(port=server.port, db=1) as plain:
            fill_plain(plain, count)
            work = asyncio.to_thread(scan_and_unlink, plain, 3)
            results.append(await watch.step(SCAN_UNLINK, lambda: work))
    end = BEGIN + count // RATE
    half = BEGIN + count // RATE // 2
    results.append(await watch.step("forget_span, half", lambda: index.forget_span(BEGIN, half)))
    results.append(await watch.step("compact", index.compact, count))
    results.append(await watch.step("forget_span, rest", lambda: index.forget_span(half, end)))
    results.append(await watch.step("compact to nothing", index.compact, count))
    return results


def shown(title: str, results: list[Result]) -> Table:
    """Format results as a table."""
    table = Table(title=title)
    for name in COLUMNS:
        table.add_column(name, justify="left" if name == "step" else "right")
    rates = {one.step: one.rate for one in results}
    for one in results:
        ratio = ""
        if one.step.startswith("forget"):
            ratio = f"{one.rate / rates[ONE_BY_ONE]:,.0f} x {ONE_BY_ONE}"
            if one.step == "forget_addresses" and SCAN_UNLINK in rates:
                ratio += f"\n{one.rate / rates[SCAN_UNLINK]:.1f} x {SCAN_UNLINK}"
        table.add_row(
            one.step,
            f"{one.pages:,}" if one.pages else "",
            f"{one.seconds:.2f} s",
            f"{one.cpu:.2f} s",
            f"{one.rate:,.0f}" if one.pages else "",
            f"{1000 * one.call:.1f} ms" if one.call else "",
            f"{1000 * one.wait:.1f} ms" if one.wait else "",
            ratio,
        )
    return table


async def _with(options: Options, *rest: Any) -> list[Result]:
    async with open_index(options) as index:
        return await measure(index, *rest)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--pages", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--kinds", nargs="+", default=["redis", "sqlite"])
    parser.add_argument("--sample", type=int, default=1_000)
    arguments = parser.parse_args()
    console = Console(width=120)
    for kind in arguments.kinds:
        for count in arguments.pages:
            with tempfile.TemporaryDirectory() as name, running_redis(Path(name)) as server:
                url = server.url if kind == "redis" else f"sqlite:{name}/index.db"
                options = Options(index_url=url, timeout=120)
                own = server if kind == "redis" else None
                results = asyncio.run(_with(options, count, arguments.sample, own))
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
            title = f"{kind}, {count:,} pages (most memory of this process: {memory:,.0f} MB)"
            console.print(shown(title, results))


if __name__ == "__main__":
    main()
