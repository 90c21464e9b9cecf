"""How long a process takes until it can judge, each measured in processes of their own.

Usage: ``python -m benchmarks.startup [--rounds N]``

The first verdicts are on a text and on a page of HTML, both after ``open``. Cold: a cache directory
that is empty, so that every kernel is compiled and every table built. CPU seconds are those of the
process: they hold on a machine that does other work too.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

from rich.console import Console
from rich.table import Table

_IMPORT = "import dedup_middleware"
_JUDGE = """
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
_CLOCK = """
import json, sys, time
begun, used = time.perf_counter(), time.process_time()
exec(sys.argv[1])
print(json.dumps([time.perf_counter() - begun, time.process_time() - used]))
"""


def seconds(script: str, cache: str) -> tuple[float, float]:
    """Wall-clock and CPU seconds of a script, start of Python left out."""
    environment = {key: value for key, value in os.environ.items() if key != "NUMBA_CACHE_DIR"}
    done = subprocess.run(
        [sys.executable, "-c", _CLOCK, script],
        env={**environment, "DEDUP_CACHE_DIR": cache},
        capture_output=True,
        text=True,
        check=True,
    )
    wall, used = json.loads(done.stdout.splitlines()[-1])
    return wall, used


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    table = Table("start", "seconds (median)", "CPU seconds", "target", "")
    with tempfile.TemporaryDirectory() as cache:
        cold = [seconds(_JUDGE, cache)]
        warm = [seconds(_JUDGE, cache) for _ in range(rounds)]
        imported = [seconds(_IMPORT, cache) for _ in range(rounds)]
    for name, found, target in (
        ("import dedup_middleware", imported, 0.1),
        ("first verdicts, warm cache", warm, 1.0),
        ("first verdicts, cold cache", cold, 20.0),
    ):
        wall = statistics.median(one for one, _ in found)
        used = statistics.median(one for _, one in found)
        verdict = "[green]met" if wall <= target else "[red]missed"
        table.add_row(name, f"{wall:.2f}", f"{used:.2f}", f"< {target:g}", verdict)
    Console().print(table)


if __name__ == "__main__":
    main()
