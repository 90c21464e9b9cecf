"""The batch job on Spark against MinHashLSH of Spark MLlib, and how it grows.

    python -m benchmarks.spark                              # small: 10,000 pages
    python -m benchmarks.spark TEXTS --pages 1000000 --growth 10000 100000 1000000

TEXTS is a file of JSON lines with a text in each; without it the texts are invented. Both jobs
read the same Parquet files on two cores of this machine, each in a process of its own. Memory is
that of all its processes together (RSS), Java and Python, at its highest. Pages, plot and results
go into ``build/spark``.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import matplotlib as mpl
from rich.console import Console
from rich.table import Table

from benchmarks.spark_jobs import JOBS
from benchmarks.spark_pages import score, source_texts, write

FOLDER = Path("build/spark")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("texts", nargs="?", type=Path)
    parser.add_argument("--pages", type=int, default=10_000)
    parser.add_argument("--growth", type=int, nargs="*", default=[])
    parser.add_argument("--job", choices=sorted(JOBS), action="append")
    arguments = parser.parse_args()
    console = Console()
    texts = source_texts(arguments.texts)
    table = Table(title=f"{arguments.pages:,} pages, a fifth of them planted duplicates")
    columns = ("job", "s", "ratio", "peak MB", "precision", "recall", "F1", "shuffle B/page")
    for name in columns:
        table.add_column(name, justify="left" if name == "job" else "right")
    measured = {
        name: measure(name, texts, arguments.pages) for name in arguments.job or ("ours", "mllib")
    }
    base = next(iter(measured.values()))["seconds"]
    for name, one in measured.items():
        table.add_row(
            name, f"{one['seconds']:.0f}", f"{one['seconds'] / base:.2f}",
            f"{one['peak'] / 1e6:,.0f}", f"{one['precision']:.3f}", f"{one['recall']:.3f}",
            f"{one['f1']:.3f}", f"{one['shuffled'] / arguments.pages:,.0f}",
        )  # fmt: skip
    console.print(table)
    if arguments.growth:
        _grow(console, texts, arguments.growth)


def measure(name: str, texts: list[str], count: int) -> dict[str, Any]:
    """One job: its seconds, peak of memory, bytes shuffled and scores."""
    pages, stories = write(FOLDER, texts, count)
    output = FOLDER / f"{name}-{count}"
    shutil.rmtree(output, ignore_errors=True)
    command = [sys.executable, "-m", "benchmarks.spark_jobs", name, str(pages), str(output)]
    with (FOLDER / f"{name}-{count}.log").open("w") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        peak = 0
        while process.poll() is None:
            peak = max(peak, resident(process.pid))
            time.sleep(0.5)
    assert process.stdout is not None
    answer = process.stdout.read().strip().splitlines()
    if process.returncode or not answer:
        raise SystemExit(f"{name} failed: see {FOLDER / f'{name}-{count}.log'}")
    found = score(set(json.loads((output / "dropped.json").read_text())), stories)
    return {
        **json.loads(answer[-1]), "peak": peak, "precision": found.precision,
        "recall": found.recall, "f1": found.f1,
    }  # fmt: skip


def resident(parent: int) -> int:
    """Bytes of memory of a process and all its descendants."""
    children: dict[int, list[int]] = {}
    sizes: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        number = int(folder.name)
        children.setdefault(int(words[1]), []).append(number)
        sizes[number] = int(words[21]) * _PAGE
    waiting, total = [parent], 0
    while waiting:
        number = waiting.pop()
        total += sizes.get(number, 0)
        waiting += children.get(number, [])
    return total


def _grow(console: Console, texts: list[str], sizes: list[int]) -> None:
    found = {size: measure("ours", texts, size) for size in sizes}
    table = Table(title="Growth")
    for name in ("pages", "s", "us a page", "peak MB", "shuffle B/page"):
        table.add_column(name, justify="right")
    for size, one in found.items():
        table.add_row(
            f"{size:,}", f"{one['seconds']:.0f}", f"{one['seconds'] / size * 1e6:.0f}",
            f"{one['peak'] / 1e6:,.0f}", f"{one['shuffled'] / size:,.0f}",
        )  # fmt: skip
    console.print(table)
    mpl.use("svg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots()
    axes.loglog(sizes, [one["seconds"] for one in found.values()], marker="o")
    axes.set_xlabel("pages")
    axes.set_ylabel("seconds, 2 cores")
    axes.grid(visible=True, which="both", alpha=0.3)
    figure.savefig(FOLDER / "growth.svg")
    console.print(f"plot: {FOLDER / 'growth.svg'}")


if __name__ == "__main__":
    main()
