"""Measures how long a process takes to its first verdicts, each start in its own process.

Usage: ``python -m benchmarks.startup [--rounds N]``

The first verdicts are on a text and on an HTML page, both after ``open``. Cold means an empty cache
directory, so that numba compiles every kernel and every table is built. The extension module is
measured too, with an empty cache, if the package's folder has it. CPU seconds are those of the
process and hold on a busy machine. Seconds of a kernel are those of the thread that compiles it or
loads it from the cache, without the kernels that it calls. The ratio is to import and first call of
pynndescent, which numba compiles too.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
from typing import Any

from rich.console import Console
from rich.table import Table

from dedup_middleware.base import compiled

_IMPORT = "import dedup_middleware"
JUDGE = """
import asyncio
from dedup_middleware import Deduplicator, Document, Options
async def run():
    async with Deduplicator(Options()) as dedup:
        text = "一个页面的正文，有3个数字。" * 99
        await dedup.decide(Document(key="https://one.example/1", text=text))
        page = f"<title>标题</title><article><p>{text}</p></article>"
        await dedup.decide(Document(key="https://one.example/2", html=page))
asyncio.run(run())
"""
_BY_KERNEL = (
    """
import collections, json, threading, time
import numba.core.event as event
from dedup_middleware.base.kernels import _Cache as Cache
spent, open_calls = collections.Counter(), threading.local()
def begin():
    open_calls.stack = [*getattr(open_calls, "stack", []), [time.thread_time(), 0.0]]
def end(name):
    begun, nested = open_calls.stack.pop()
    whole = time.thread_time() - begun
    spent[name] += whole - nested
    if open_calls.stack:
        open_calls.stack[-1][1] += whole
class Compilations(event.Listener):
    def on_start(self, event):
        begin()
    def on_end(self, event):
        end(event.data["dispatcher"].__name__)
event.register("numba:compile", Compilations())
load = Cache.load_overload
def timed(self, *arguments):
    begin()
    try:
        return load(self, *arguments)
    finally:
        end(self._name.split(".")[1].split("-")[0])
Cache.load_overload = timed
"""
    + JUDGE
    + """
print(json.dumps(spent))
"""
)
_PEER = """
import numpy
import pynndescent
points = numpy.random.default_rng(1).random((500, 16), dtype=numpy.float32)
pynndescent.NNDescent(points, random_state=1).query(points[:1], k=5)
"""
CLOCK = """
import json, sys, time
begun, used = time.perf_counter(), time.process_time()
exec(sys.argv[1])
print(json.dumps([time.perf_counter() - begun, time.process_time() - used]))
"""


def printed(cache: str, *arguments: str, numba: str | None = None, extension: bool = False) -> Any:
    """Run Python and return its last line of output, which is JSON.

    :param numba: numba's own cache, for packages other than the plugin
    :param extension: whether to use the extension module
    """
    left_out = ("NUMBA_CACHE_DIR", "DEDUP_COMPILE")
    environment = {key: value for key, value in os.environ.items() if key not in left_out}
    if not extension:
        environment["DEDUP_COMPILE"] = "1"
    if numba is not None:
        environment["NUMBA_CACHE_DIR"] = numba
    done = subprocess.run(
        [sys.executable, "-c", *arguments],
        # Also hides the tables that other processes have built (base/cachefolder.py).
        env={**environment, "DEDUP_CACHE_DIR": cache, "XDG_CACHE_HOME": cache, "TMPDIR": cache},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def seconds(
    script: str, cache: str, numba: str | None = None, *, extension: bool = False
) -> tuple[float, float]:
    """Return wall-clock and CPU seconds of a script, without the start of Python."""
    wall, used = printed(cache, CLOCK, script, numba=numba, extension=extension)
    return wall, used


def print_kernels(cold: dict[str, float], warm: dict[str, float]) -> None:
    """Print the CPU seconds of the most expensive kernels, and of all."""
    table = Table("kernel", "CPU seconds cold", "warm")
    for name in sorted(cold, key=cold.__getitem__, reverse=True)[:20]:
        table.add_row(name, f"{cold[name]:.2f}", f"{warm.get(name, 0):.3f}")
    table.add_row(f"all {len(cold)}", f"{sum(cold.values()):.2f}", f"{sum(warm.values()):.3f}")
    Console().print(table)


def print_ratio(cold: float, warm: float, rounds: int) -> None:
    """Print CPU seconds relative to pynndescent, if it is installed."""
    if importlib.util.find_spec("pynndescent") is None:
        print("pynndescent is not installed: pip install 'dedup-middleware[bench]'")
        return
    with tempfile.TemporaryDirectory() as cache:
        first = seconds(_PEER, cache, cache)[1]
        later = statistics.median(seconds(_PEER, cache, cache)[1] for _ in range(rounds))
    table = Table("CPU seconds", "first verdicts", "pynndescent", "ratio")
    for name, own, peer in (("cold", cold, first), ("warm", warm, later)):
        table.add_row(name, f"{own:.2f}", f"{peer:.2f}", f"{own / peer:.2f}")
    Console().print(table)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    table = Table("start", "seconds (median)", "CPU seconds", "target (CPU)", "")
    with tempfile.TemporaryDirectory() as cache:
        cold = [seconds(JUDGE, cache)]
        warm = [seconds(JUDGE, cache) for _ in range(rounds)]
        imported = [seconds(_IMPORT, cache) for _ in range(rounds)]
    shipped, loaded_shipped = [], []
    if compiled.variants() and any(compiled.PACKAGE.glob(f"{compiled.module_name()}.*")):
        for _ in range(rounds):
            with tempfile.TemporaryDirectory() as cache:
                shipped.append(seconds(JUDGE, cache, extension=True))
                loaded_shipped.append(seconds(JUDGE, cache, extension=True))
    with tempfile.TemporaryDirectory() as cache:
        kernels, loaded = (printed(cache, _BY_KERNEL) for _ in range(2))
    for name, found, target in (
        ("import dedup_middleware", imported, 0.1),
        ("numba: first verdicts, cold cache", cold, 12.0),
        ("numba: first verdicts, warm cache", warm, 0.5),
        ("extension module: first verdicts, cold cache", shipped, 12.0),
        ("extension module: first verdicts, warm cache", loaded_shipped, 0.5),
    ):
        if not found:
            continue
        wall = statistics.median(one for one, _ in found)
        used = statistics.median(one for _, one in found)
        verdict = "[green]met" if used <= target else "[red]missed"
        table.add_row(name, f"{wall:.2f}", f"{used:.2f}", f"< {target:g}", verdict)
    Console().print(table)
    print_kernels(kernels, loaded)
    print_ratio(cold[0][1], statistics.median(used for _, used in warm), rounds)


if __name__ == "__main__":
    main()
