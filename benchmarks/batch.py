"""``scrapy dedup dedup`` on a file of synthetic pages, beside jieba and datasketch's MinHashLSH.

Run ``python -m benchmarks.batch 1000000``. Pages have about 500 characters; a fifth of them are
light edits of earlier ones. The peer is one process with 128 permutations and a threshold of 0.8,
on the first pages of the same file, because it takes too long for all of them.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import jieba
from datasketch import MinHash, MinHashLSH
from rich.console import Console
from rich.table import Table

_WORDS = 235  # in a page
_RECENT = 2000  # pages that an edit may begin with


def write_pages(path: Path, pages: int, seed: int = 5) -> None:
    """A file of JSON lines."""
    rng = random.Random(seed)
    characters = [chr(0x4E00 + i) for i in range(2500)]
    words = [a + b for a in rng.sample(characters, 200) for b in rng.sample(characters, 40)]
    recent: list[list[str]] = []
    with path.open("w", encoding="utf-8") as out:
        for number in range(pages):
            if recent and rng.random() < 0.2:
                page = list(rng.choice(recent))
                for _ in range(3):
                    page[rng.randrange(_WORDS)] = rng.choice(words)
            else:
                page = [
                    rng.choice(words) + ("，" if rng.random() < 0.13 else "") for _ in range(_WORDS)
                ]
                recent = [*recent[1 - _RECENT :], page]
            row = {
                "url": f"https://host{number % 97}.example/{number}",
                "title": words[number % len(words)],
                "text": "".join(page),
            }
            out.write(json.dumps(row, ensure_ascii=False) + "\n")


def ours(source: Path, workers: int) -> tuple[float, float, int]:
    """Pages a second, peak memory in MB, and pages dropped, by the command."""
    kept = source.with_name("kept.jsonl")
    done = subprocess.run(
        [
            sys.executable, "-m", "scrapy", "dedup", "dedup", str(source), "-o", str(kept),
            "--overwrite", "--json", "--workers", str(workers),
        ],
        capture_output=True,
        check=True,
    )  # fmt: skip
    report = json.loads(done.stdout)
    return report["pages_per_second"], report["peak_bytes"] / 1e6, report["dropped"]


def peer(source: Path, pages: int) -> tuple[float, int, int]:
    """Pages a second, pages looked at and pages dropped, by jieba and datasketch."""
    jieba.initialize()
    index = MinHashLSH(threshold=0.8, num_perm=128)
    dropped = number = 0
    with source.open(encoding="utf-8") as rows:
        started = time.perf_counter()
        for number, line in enumerate(rows, 1):
            row = json.loads(line)
            tokens = jieba.lcut(row["text"], HMM=False)
            shingles = {"".join(tokens[i : i + 3]).encode() for i in range(len(tokens) - 2)}
            signature = MinHash(num_perm=128)
            signature.update_batch(shingles)
            if index.query(signature):
                dropped += 1
            else:
                index.insert(row["url"], signature)
            if number == pages:
                break
    return number / (time.perf_counter() - started), number, dropped


def main() -> None:
    """Write the pages, run both, print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pages", type=int, nargs="?", default=100_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--peer-pages", type=int, default=5_000)
    arguments = parser.parse_args()
    table = Table(title=f"{arguments.pages:,} pages of about 500 characters")
    for column in ("tool", "pages", "pages/s", "ratio", "peak MB", "dropped"):
        table.add_column(column, justify="right")
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "pages.jsonl"
        write_pages(source, arguments.pages)
        speed, memory, dropped = ours(source, arguments.workers)
        other, looked_at, found = peer(source, arguments.peer_pages)
    table.add_row(
        f"scrapy dedup dedup, {arguments.workers} workers", f"{arguments.pages:,}",
        f"{speed:,.0f}", f"{speed / other:.1f}", f"{memory:,.0f}", f"{dropped:,}",
    )  # fmt: skip
    table.add_row("jieba + datasketch", f"{looked_at:,}", f"{other:,.0f}", "1", "-", f"{found:,}")
    Console().print(table)


if __name__ == "__main__":
    main()
