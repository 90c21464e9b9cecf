"""The batch job on Spark against MLlib, text-dedup and datatrove, and how it grows.

    python -m benchmarks.spark                              # small: 10,000 made-up pages
    python -m benchmarks.spark TEXTS --pages 1000000 --growth 10000 100000 1000000
    python -m benchmarks.spark --zhou TEXTS                 # the protocol of ZHOU

TEXTS are files of JSON lines with a text in each, or a folder of them; without them the texts are
invented. All jobs read the same Parquet files on two cores of this machine, each in processes of
its own; their programs are ``benchmarks/spark_*.py``. Seconds are those of the work alone,
without the start of Java or Python; processor seconds and memory at its highest (RSS; PSS, in which
memory that processes share counts once) are those of all processes of a job. Pages, plot and
results go into ``build/spark``.

F1 counts a dropped page that only has other figures than an earlier one as a mistake; "F1 of
copies" leaves such pages out.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
import matplotlib as mpl
from rich.console import Console
from rich.table import Table

from benchmarks import memory
from benchmarks.batch import peers
from benchmarks.spark_pages import Score, Truth, score, source_texts, write
from benchmarks.spark_zhou import compare

FOLDER = Path("build/spark")
_MODULES = {
    "ours": "spark_jobs",
    "ours-simhash": "spark_jobs",
    "ours-minhash": "spark_jobs",
    "mllib": "spark_mllib",
    "text-dedup": "spark_textdedup",
    "datatrove": "spark_datatrove",
}
_ELSEWHERE = ("text-dedup", "datatrove")  # run in the environment of benchmarks.batch
_WIDTH = 120  # of tables, also in files
_JOBS = ("ours", "mllib", "text-dedup", "datatrove")


@attrs.frozen
class Measured:
    """The cost and result of a job: seconds of its work, processor seconds and bytes of memory of
    all its processes, bytes shuffled (None: it has no shuffle)."""

    seconds: float
    cpu: float
    peak: int
    shared_once: int
    shuffled: int | None
    score: Score


def main() -> None:
    """Run the chosen measurements."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("texts", nargs="*", type=Path)
    parser.add_argument("--pages", type=int, default=10_000)
    parser.add_argument("--growth", type=int, nargs="*", default=[])
    parser.add_argument("--job", choices=sorted(_MODULES), action="append")
    parser.add_argument("--limit", type=float, default=1500, help="seconds that a job may take")
    parser.add_argument("--zhou", action="store_true", help="the protocol of ZHOU instead")
    arguments = parser.parse_args()
    console = Console(width=_WIDTH)
    FOLDER.mkdir(parents=True, exist_ok=True)
    if arguments.zhou:
        console.print(compare(arguments.texts, FOLDER))
        return
    texts = source_texts(arguments.texts)
    if arguments.growth:
        _grow(console, texts, arguments.growth, arguments.limit)
    else:
        jobs = arguments.job or _JOBS
        _compare(console, jobs, *write(FOLDER, texts, arguments.pages), arguments.limit)


def _compare(
    console: Console, jobs: Sequence[str], pages: Path, truth: Truth, limit: float
) -> None:
    count = len(truth.stories)
    table = Table(title=f"{count:,} pages, a fifth of them copies, a twentieth with other figures")
    columns = ("job", "s", "CPU s", "ratio", "RSS MB", "PSS MB", "precision", "recall", "F1",
               "F1 of copies", "shuffle B/page")  # fmt: skip
    for name in columns:
        table.add_column(name, justify="left" if name == "job" else "right")
    base: float | None = None
    for name in jobs:
        one = measure(name, pages, truth, limit)
        if one is None:
            table.add_row(name, f"> {limit:,.0f}", *["-"] * (len(columns) - 2))
            continue
        base = base or one.cpu
        console.print(f"{name}: {one}")
        table.add_row(
            name, f"{one.seconds:,.1f}", f"{one.cpu:,.1f}", f"{one.cpu / base:.2f}",
            f"{one.peak / 1e6:,.0f}", f"{one.shared_once / 1e6:,.0f}",
            f"{one.score.precision:.4f}", f"{one.score.recall:.4f}",
            f"{one.score.f1:.4f}", f"{one.score.f1_without_others:.4f}",
            "-" if one.shuffled is None else f"{one.shuffled / count:,.0f}",
        )  # fmt: skip
    console.print(table)


def measure(name: str, pages: Path, truth: Truth, limit: float) -> Measured | None:
    """Run a job; return None if it was killed at the limit in seconds.

    :raises SystemExit: it failed
    """
    output = (FOLDER / f"{name}-{len(truth.stories)}").absolute()
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    python = peers() if name in _ELSEWHERE else sys.executable
    module = f"benchmarks.{_MODULES[name]}"
    command = [str(python), "-m", module, str(pages), str(output)]
    _, __, method = name.partition("ours-")
    if method:
        command.append(method)
    log = output.with_suffix(".log")
    took = memory.run(command, log, limit=limit, environment={"HF_HUB_OFFLINE": "1"})
    if took is None:
        return None
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    answer: dict[str, Any] = json.loads([s for s in lines if s.startswith('{"seconds"')][-1])
    found = score(json.loads((output / "dropped.json").read_text()), truth)
    shutil.rmtree(output)
    return Measured(
        answer["seconds"], took.cpu, took.peak, took.shared_once, answer["shuffled"], found
    )


def _grow(console: Console, texts: list[str], sizes: list[int], limit: float) -> None:
    found: dict[int, Measured] = {}
    table = Table(title="Growth")
    names = ("pages", "s", "CPU s", "CPU us a page", "peak MB", "shuffle B/page", "F1")
    for name in names:
        table.add_column(name, justify="right")
    for size in sizes:
        one = measure("ours", *write(FOLDER, texts, size), limit)
        if one is None:
            console.print(f"{size:,} pages took more than {limit:,.0f} s")
            break
        found[size] = one
        table.add_row(
            f"{size:,}", f"{one.seconds:,.1f}", f"{one.cpu:,.1f}", f"{one.cpu / size * 1e6:,.0f}",
            f"{one.peak / 1e6:,.0f}", f"{(one.shuffled or 0) / size:,.0f}", f"{one.score.f1:.4f}",
        )  # fmt: skip
    console.print(table)
    mpl.use("svg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots()
    axes.loglog(list(found), [one.seconds for one in found.values()], marker="o", label="seconds")
    axes.loglog(list(found), [one.cpu for one in found.values()], marker="s", label="CPU seconds")
    axes.set_xlabel("pages")
    axes.set_ylabel("seconds, 2 cores")
    axes.legend()
    axes.grid(visible=True, which="both", alpha=0.3)
    figure.savefig(FOLDER / "growth.svg")
    console.print(f"plot: {FOLDER / 'growth.svg'}")


if __name__ == "__main__":
    main()
