"""``scrapy dedup files`` against text-dedup and datatrove, on the same file of synthetic pages.

Run ``python -m benchmarks.batch 10000 100000 1000000``. Pages have about 500 characters; a fifth of
them are light edits of earlier ones, with 3 of 235 words replaced. Each tool runs in its own
processes, with two workers, and writes the pages that it keeps. A tool that takes longer than
``--limit`` minutes is killed and gets no larger file.

The peers need older releases of packages that the project uses (rich 13, urllib3 1, trafilatura
2.0), so the first run creates a virtual environment for them in ``build/peers``. Their set-up is in
``benchmarks/batch_peers.py``.

Memory is the peak of all processes of a tool together: RSS, which counts shared memory in each
process, and PSS, which counts it once. CPU is the processor time of all processes, more reliable
than the clock on a shared machine; ratios are of CPU times. In each group of duplicates all pages
but one should be dropped; tools differ in which one they keep, and any will do.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs
from rich.console import Console
from rich.table import Table

from benchmarks.memory import Run, run
from benchmarks.spark_pages import Score, Truth, score

FOLDER = Path("build/batch")
PEERS = Path("build/peers")
# xxhash 4 accepts only bytes, and datatrove passes other types.
_PACKAGES = ("text-dedup==0.4.0", "datatrove==0.10.1", "tokenizers", "orjson", "xxhash<4")
_OURS = "scrapy dedup files"
_TOOLS = (_OURS, "text-dedup", "datatrove")
_WORDS = 235  # in a page
_RECENT = 2000  # latest originals that edits are made from


def write_pages(path: Path, pages: int, seed: int = 5) -> Truth:
    """Write a file of JSON lines; return which pages are edits of which."""
    rng = random.Random(seed)
    characters = [chr(0x4E00 + i) for i in range(2500)]
    words = [a + b for a in rng.sample(characters, 200) for b in rng.sample(characters, 40)]
    recent: list[tuple[int, list[str]]] = []
    stories: list[int] = []
    with path.open("w", encoding="utf-8") as out:
        for number in range(pages):
            story = number
            if recent and rng.random() < 0.2:
                story, original = rng.choice(recent)
                page = list(original)
                for _ in range(3):
                    page[rng.randrange(_WORDS)] = rng.choice(words)
            else:
                page = [
                    rng.choice(words) + ("，" if rng.random() < 0.13 else "") for _ in range(_WORDS)
                ]
                recent = [*recent[1 - _RECENT :], (number, page)]
            stories.append(story)
            row = {
                "url": f"https://host{number % 97}.example/{number}",
                "title": words[number % len(words)],
                "text": "".join(page),
            }
            out.write(json.dumps(row, ensure_ascii=False) + "\n")
    return Truth(stories, [""] * pages)


def peers() -> Path:
    """Return the Python of the peers' environment, which is created if missing."""
    python, complete = PEERS / "bin/python", PEERS / ".complete"
    if not complete.exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(PEERS)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *_PACKAGES], check=True)
        complete.touch()
    return python.absolute()


@attrs.frozen
class Result:
    """The cost of a tool for a file, and its score."""

    run: Run
    dropped: int
    score: Score


def measure(tool: str, source: Path, truth: Truth, workers: int, limit: float) -> Result | None:
    """Run a tool; return None if it was killed at the limit in seconds."""
    folder = FOLDER / tool.replace(" ", "-")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    if tool == _OURS:
        command = [
            sys.executable, "-m", "scrapy", "dedup", "files", str(source),
            "-o", str(folder / "kept.jsonl"), "--workers", str(workers),
        ]  # fmt: skip
    else:
        driver = Path(__file__).with_name("batch_peers.py")
        command = [str(peers()), str(driver), tool, str(source), str(folder), str(workers)]
    environment = {"HF_HOME": str(folder / "home"), "HF_HUB_OFFLINE": "1"}
    log = folder.with_suffix(".log")
    took = run(command, log, limit=limit, environment=environment)
    if took is None:
        return None
    kept = {int(url.rpartition("/")[2]) for url in kept_urls(tool, folder)}
    dropped = set(range(len(truth.stories))) - kept
    return Result(took, len(dropped), score(dropped, truth))


def kept_urls(tool: str, folder: Path) -> Iterator[str]:
    """Yield the addresses of the pages that a tool kept."""
    if tool == "text-dedup":
        import pyarrow as pa

        for path in sorted((folder / "kept").glob("*.arrow")):
            with pa.memory_map(str(path)) as file:
                for batch in pa.ipc.open_stream(file):
                    yield from batch.column("url").to_pylist()
        return
    paths = [folder / "kept.jsonl"] if tool == _OURS else sorted((folder / "kept").glob("*.jsonl"))
    for path in paths:
        with path.open(encoding="utf-8") as lines:
            for line in lines:
                row = json.loads(line)
                yield row["url" if tool == _OURS else "id"]


def report(console: Console, pages: int, found: dict[str, Result]) -> None:
    """Print a table."""
    table = Table(title=f"{pages:,} pages of about 500 characters")
    columns = (
        "tool",
        "s",
        "pages/s",
        "CPU s",
        "ratio",
        "RSS MB",
        "PSS MB",
        "dropped",
        "precision",
        "recall",
    )
    for name in columns:
        table.add_column(name, justify="left" if name == "tool" else "right")
    base = next(iter(found.values())).run.cpu if found else 0.0
    for tool, one in found.items():
        table.add_row(
            tool, f"{one.run.seconds:,.0f}", f"{pages / one.run.seconds:,.0f}",
            f"{one.run.cpu:,.1f}", f"{one.run.cpu / base:.2f}",
            f"{one.run.peak / 1e6:,.0f}", f"{one.run.shared_once / 1e6:,.0f}",
            f"{one.dropped:,}", f"{one.score.precision:.4f}", f"{one.score.recall:.4f}",
        )  # fmt: skip
    console.print(table)


def main(given: Sequence[str] | None = None) -> None:
    """Write the pages, run all tools, and print a table for each number of pages."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pages", type=int, nargs="*", default=[10_000])
    parser.add_argument("--tool", choices=_TOOLS, action="append", help="default: all")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--limit", type=float, default=20.0, help="minutes a tool may take")
    arguments = parser.parse_args(given)
    console = Console(width=110)
    tools = list(arguments.tool or _TOOLS)
    FOLDER.mkdir(parents=True, exist_ok=True)
    for pages in sorted(arguments.pages):
        source = FOLDER.absolute() / "pages.jsonl"
        truth = write_pages(source, pages)
        found: dict[str, Result] = {}
        for tool in list(tools):
            result = measure(tool, source, truth, arguments.workers, arguments.limit * 60)
            if result is None:
                console.print(f"{tool}: ended after {arguments.limit:g} minutes")
                tools.remove(tool)
            else:
                found[tool] = result
        report(console, pages, found)


if __name__ == "__main__":
    main()
