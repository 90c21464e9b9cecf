"""Decisions per second on one Redis server, from one process and from four, against datasketch.

Ours and datasketch take turns, each with its own server, so that both meet the same conditions. A
``mixed`` stream is half new pages, a quarter edited and a quarter exact copies.

``CPU`` is processor time per page in us, of clients and server together, ours and datasketch's: its
ratio holds whatever else the machine does.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import redis
from rich.progress import Progress
from rich.table import Table

from benchmarks import deciding
from benchmarks.fingerprints import Fingerprints, copies, exact_copies, fresh, mixed
from dedup_middleware.base.options import Options
from dedup_middleware.index.base import Index
from dedup_middleware.index.opening import open_index
from tests.servers import RedisServer, running_redis

PROCESSES = 4
KINDS = ("unique", "mixed", "copy", "exact copy")
OURS, *PEERS = WHO = ["ours", "query + insert", "query, insert if new", "the same, verified"]
ALWAYS, VERIFIED = PEERS[0], PEERS[-1]
_PARAMETERS = {"bands": "8"}
PART = 50_000  # pages loaded at once
_WARM = 64


def indexed(start: int, count: int) -> Fingerprints:
    """Return pages of the index: the same numbers give the same pages."""
    return fresh(count, 1_000 + start)


def sample(kind: str, seed: int, count: int, size: int) -> Fingerprints:
    """Return pages to decide: new ones, or copies of pages in an index of this size."""
    if kind == "unique":
        return fresh(count, 10_000_000 + seed)
    if kind == "mixed":
        parts = [sample("unique", seed + 500_000, count - count // 2, size)]
        parts += [sample(one, seed, count // 4, size) for one in ("copy", "exact copy")]
        return mixed(parts, seed)
    stored = indexed(0, min(size, PART))
    which = [(i * 7919 + seed) % len(stored) for i in range(count)]
    return (exact_copies if kind == "exact copy" else copies)(stored, which, seed)


async def fill(index: Index, size: int, tick: Callable[[int], None], loaded: int = 0) -> None:
    """Load pages in parts up to a size."""
    for start in range(loaded, size, PART):
        part = indexed(start, min(PART, size - start))
        await index.load(part.pages())
        tick(len(part))


@attrs.frozen
class Work:
    """The work of one process."""

    url: str
    port: int
    who: str
    kind: str
    seed: int
    count: int
    size: int


def run(work: Work, barrier: Any, times: Any) -> None:
    """Decide pages at the same time as other processes; report time, CPU and results."""
    pages = sample(work.kind, work.seed, work.count, work.size)
    warm = fresh(_WARM, 90_000_000 + work.seed)  # load kernels and connect before the clock starts
    if work.who != OURS:
        lsh = _datasketch(work.port)
        minima = deciding.Minima(work.port) if work.who == VERIFIED else None
        names = [pages.address(i) for i in range(len(pages))]
        hashes = pages.minhashes()
        first = [warm.address(i) for i in range(len(warm))]
        deciding.decide_datasketch(lsh, first, warm.minhashes(), minima)
        barrier.wait()
        started, cpu = time.perf_counter(), time.process_time()
        always = work.who == ALWAYS
        new = deciding.decide_datasketch(lsh, names, hashes, minima, always=always)
        times.put((started, time.perf_counter(), time.process_time() - cpu, new))
        return
    entries = pages.entries()

    async def decide() -> tuple[float, float, float, int]:
        index = open_index(Options(index_url=work.url))
        await index.open(_PARAMETERS)
        await deciding.decide_all(index, warm.entries())
        barrier.wait()
        started, cpu = time.perf_counter(), time.process_time()
        new = await deciding.decide_all(index, entries)
        ended, cpu = time.perf_counter(), time.process_time() - cpu
        await index.close()
        return started, ended, cpu, new

    times.put(asyncio.run(decide()))


def _datasketch(port: int) -> Any:
    return deciding.datasketch_index(fresh(0, 1), port)


@attrs.frozen
class Measured:
    """Pages per second, CPU per page in us, and the share of pages found new."""

    rate: float
    cpu: float
    new: float


def together(works: list[Work]) -> Measured:
    """Run processes together and return their total."""
    context = multiprocessing.get_context("spawn")
    barrier, times = context.Barrier(len(works)), context.Queue()
    processes = [context.Process(target=run, args=(one, barrier, times)) for one in works]
    for process in processes:
        process.start()
    # The server's time from here on is that of decisions, and of the short warm-up.
    with redis.Redis(port=works[0].port) as client:
        before = _server_cpu(client)
        measured = [times.get(timeout=600) for _ in works]
        server = _server_cpu(client) - before
    for process in processes:
        process.join()
    taken = max(one[1] for one in measured) - min(one[0] for one in measured)
    count = sum(one.count for one in works)
    # A warm-up page is assumed to cost the server as much as any other.
    server *= count / (count + _WARM * len(works))
    cpu = sum(one[2] for one in measured) + server
    return Measured(count / taken, 1e6 * cpu / count, sum(one[3] for one in measured) / count)


def _server_cpu(client: redis.Redis) -> float:
    info: Any = client.info("cpu")
    return float(info["used_cpu_user"] + info["used_cpu_sys"])


def median(measured: list[Measured]) -> Measured:
    """Return the medians over rounds; the share found new is that of the last round."""
    return Measured(
        statistics.median(one.rate for one in measured),
        statistics.median(one.cpu for one in measured),
        measured[-1].new,
    )


def floor(server: RedisServer, pages: int = 3200) -> float:
    """Return an upper bound of pages per second: 4 GETs of 1 KB per page, 64 pages per pipeline."""
    client: redis.Redis = server.client()
    for i in range(256):
        client.set(f"floor{i}", b"x" * 1024)
    started = time.perf_counter()
    for _ in range(pages // 64):
        pipeline = client.pipeline(transaction=False)
        for i in range(256):
            pipeline.get(f"floor{i}")
        pipeline.execute()
    taken = time.perf_counter() - started
    client.delete(*(f"floor{i}" for i in range(256)))
    client.close()
    return pages / taken


def commands(server: RedisServer, kind: str, size: int, count: int = 640) -> list[str]:
    """Return round trips of a single page; commands and server CPU per page under load."""
    client: Any = server.client()
    measured = []
    for in_flight, seed in ((1, 77), (deciding.IN_FLIGHT, 78)):
        entries = sample(kind, seed, count, size).entries()

        async def decide(entries: Any = entries, in_flight: int = in_flight) -> None:
            index = open_index(Options(index_url=server.url))
            await index.open(_PARAMETERS)
            client.config_resetstat()
            await deciding.decide_all(index, entries, in_flight)
            await index.close()

        asyncio.run(decide())
        stats = client.info("commandstats")
        calls = {name.removeprefix("cmdstat_"): row["calls"] / count for name, row in stats.items()}
        scripts = calls.get("evalsha", 0.0) + calls.get("eval", 0.0)
        measured.append(scripts)
        inside = sum(n for name, n in calls.items() if name not in _ADMIN)
    micros = stats["cmdstat_evalsha"]["usec"] / count
    client.close()
    return [f"{measured[0]:.2f}", f"{measured[1]:.3f}", f"{inside:.1f}", f"{micros:.0f}"]


_SLOW = 1000  # us from which the server logs a call


def watch_calls(client: Any) -> None:
    """Make the server log long script calls from now on."""
    client.config_set("slowlog-log-slower-than", _SLOW)
    client.config_set("slowlog-max-len", 100_000)
    client.slowlog_reset()
    client.config_resetstat()


def script_calls(client: Any) -> list[str]:
    """Return number, mean, longest and second longest of the script calls since then, in ms.

    Times are by the clock and include waiting for a core on a busy machine.
    """
    stats = client.info("commandstats").get("cmdstat_evalsha", {"calls": 0, "usec_per_call": 0.0})
    slow = client.slowlog_get(100_000)
    longest = sorted(one["duration"] for one in slow if one["command"].startswith(b"EVALSHA"))
    measured = [f"{us / 1000:.1f}" for us in longest[:-3:-1]]
    measured += [f"< {_SLOW / 1000:.0f}"] * (2 - len(measured))
    return [f"{stats['calls']:,}", f"{stats['usec_per_call'] / 1000:.2f}", *measured]


_ADMIN = ("evalsha", "eval", "info", "config|resetstat", "client|setinfo", "select", "hello")


def measure(
    sizes: list[int], peer_size: int, decisions: int, rounds: int, progress: Progress
) -> list[Table]:
    """Return the tables of the Redis index."""
    speed = Table(
        title=f"Redis: decisions a second in turns, datasketch's index holds {peer_size:,} pages"
    )
    for name in ("pages", "processes", "kind", "of", "a second", "ours", "CPU", "ours", "new"):
        speed.add_column(name, justify="right")
    cost = Table(title="Redis: one page alone, and 100 in flight")
    for name in ("pages", "kind", "round trips alone", "scripts", "commands", "script us", "B"):
        cost.add_column(name, justify="right")
    calls = Table(title="Redis: how long one script call keeps the server, in ms by the clock")
    for name in ("pages", "work", "calls", "mean", "longest", "second"):
        calls.add_column(name, justify="right")
    with tempfile.TemporaryDirectory() as peers, running_redis(Path(peers)) as peer_server:
        memory = _fill_peers(peer_server, peer_size, progress)
        for size in sizes:
            with tempfile.TemporaryDirectory() as folder, running_redis(Path(folder)) as server:
                client: Any = server.client()
                before = client.info("memory")["used_memory"]
                watch_calls(client)
                job = progress.add_task(f"Redis, {size:,} pages: loading", total=size)
                asyncio.run(_load(server.url, size, lambda n, job=job: progress.advance(job, n)))
                memory_page = (client.info("memory")["used_memory"] - before) / size
                calls.add_row(f"{size:,}", "loading", *script_calls(client))
                for kind in KINDS:
                    watch_calls(client)
                    for processes in (1, PROCESSES):
                        job = progress.add_task(
                            f"Redis, {size:,}, {kind} x {processes}", total=rounds
                        )
                        measured: dict[str, list[Measured]] = {who: [] for who in WHO}
                        least = []
                        for number in range(rounds):
                            for who in WHO:
                                ours = who == OURS
                                works = _works(
                                    server if ours else peer_server,
                                    kind,
                                    processes,
                                    number,
                                    decisions if ours else max(200, decisions // 10),
                                    size if ours else peer_size,
                                    who=who,
                                )
                                measured[who].append(together(works))
                            least.append(floor(server))
                            progress.advance(job)
                        where = (f"{size:,}", str(processes), kind)
                        speed.add_row(*where, OURS, *_cells(measured[OURS]))
                        for who in PEERS:
                            speed.add_row(*where, who, *_cells(measured[who], measured[OURS]))
                        speed.add_row(*where, "floor", f"{statistics.median(least):,.0f}")
                        speed.add_section()
                    calls.add_row(f"{size:,}", kind, *script_calls(client))
                    row = commands(server, kind, size)
                    cost.add_row(f"{size:,}", kind, *row, f"{memory_page:.0f} / {memory:.0f}")
                client.close()
    return [speed, cost, calls]


def _cells(measured: list[Measured], ours: list[Measured] | None = None) -> list[str]:
    """Format medians, and the median, minimum and maximum of the ratios by round."""
    own = median(measured)
    faster = cheaper = ""
    if ours is not None:
        ratios = [one.rate / other.rate for one, other in zip(ours, measured, strict=True)]
        faster = f"{statistics.median(ratios):.1f} x ({min(ratios):.1f} .. {max(ratios):.1f})"
        cheaper = f"{own.cpu / median(ours).cpu:.1f} x"
    return [f"{own.rate:,.0f}", faster, f"{own.cpu:.0f}", cheaper, f"{own.new:.1%}"]


async def _load(url: str, size: int, tick: Callable[[int], None]) -> None:
    index = open_index(Options(index_url=url))
    await index.open(_PARAMETERS)
    await fill(index, size, tick)
    await index.close()


def _works(
    server: RedisServer,
    kind: str,
    processes: int,
    number: int,
    decisions: int,
    size: int,
    *,
    who: str = OURS,
) -> list[Work]:
    seed = 100 * number + 10 * processes + 1000 * WHO.index(who)
    return [
        Work(server.url, server.port, who, kind, seed + i, decisions // processes, size)
        for i in range(processes)
    ]


def _fill_peers(server: RedisServer, size: int, progress: Progress) -> float:
    """Insert pages into datasketch's index; return its bytes per page without minima."""
    client: Any = server.client()
    before = client.info("memory")["used_memory"]
    job = progress.add_task(f"datasketch on Redis, {size:,} pages: filling", total=2 * size)
    parts = range(0, size, PART)
    for start in parts:
        part = indexed(start, min(PART, size - start))
        deciding.datasketch_index(part, server.port)
        progress.advance(job, len(part))
    memory = float(client.info("memory")["used_memory"] - before) / size
    for start in parts:
        part = indexed(start, min(PART, size - start))
        names = [part.address(i) for i in range(len(part))]
        deciding.Minima(server.port).keep(names, part.minhashes())
        progress.advance(job, len(part))
    client.close()
    return memory
