"""Decisions per second of every index, against datasketch, rensa and FAISS in the same run.

    python -m benchmarks.index # small: half an hour and more
    python -m benchmarks.index --full # to 1,000,000 pages, growth to 10,000,000: hours
    python -m benchmarks.index --only redis --pages 100000 --rounds 1 --decisions 20000 # 3 minutes

All figures are medians over the rounds. Client and server run on this machine. With a server on
another machine, a page takes two round trips (propose, commit), which up to 64 pages share.
:mod:`benchmarks.deciding` describes what is compared, :mod:`benchmarks.fingerprints` how pages are
made. The peers' figures on Redis are for an index of ``--peer-pages``: datasketch takes 4 to 5 KB
per page there, and hardly slows down as it grows.
"""

from __future__ import annotations

import argparse
import os
import platform
from importlib.metadata import version

from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks import index_growth, index_local, index_redis

SMALL, FULL = [10_000, 100_000], [10_000, 100_000, 1_000_000]
GROWTH_SMALL, GROWTH_FULL = [10_000, 100_000], [10_000, 100_000, 1_000_000, 10_000_000]


def main() -> None:
    """Run the chosen measurements."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--full", action="store_true", help="large sizes")
    parser.add_argument("--only", choices=["redis", "local", "growth"], action="append")
    parser.add_argument("--pages", type=int, nargs="+", help="sizes of the index")
    parser.add_argument("--peer-pages", type=int, default=10_000)
    parser.add_argument("--decisions", type=int, default=40_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    sizes = arguments.pages or (FULL if arguments.full else SMALL)
    growth = arguments.pages or (GROWTH_FULL if arguments.full else GROWTH_SMALL)
    wanted = arguments.only or ["redis", "local", "growth"]
    console = Console(width=120)
    packages = ("datasketch", "rensa", "faiss-cpu", "redis")
    console.print(
        f"Python {platform.python_version()}, {os.cpu_count()} cores,",
        ", ".join(f"{name} {version(name)}" for name in packages),
    )
    columns = (TextColumn("{task.description}"), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        decisions, rounds = arguments.decisions, arguments.rounds
        if "redis" in wanted:
            peers = arguments.peer_pages
            for table in index_redis.measure(sizes, peers, decisions, rounds, progress):
                console.print(table)
        if "local" in wanted:
            console.print(index_local.measure(sizes, decisions, rounds, progress))
        if "growth" in wanted:
            console.print(index_growth.measure(growth, decisions, rounds, progress))
            console.print(f"plot: {index_growth.FOLDER}/growth.svg")


if __name__ == "__main__":
    main()
