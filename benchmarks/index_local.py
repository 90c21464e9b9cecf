"""Check-then-insert of the memory and the SQLite index against the peers in memory."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path

from rich.progress import Progress
from rich.table import Table

from benchmarks import deciding
from benchmarks.fingerprints import Fingerprints, copies, fresh
from benchmarks.index_redis import fill, indexed
from dedup_middleware.base.options import Options
from dedup_middleware.index.opening import open_index

Decide = Callable[[Fingerprints], tuple[float, int]]


def mixed(seed: int, count: int, stored: Fingerprints) -> tuple[Fingerprints, Fingerprints]:
    """Return the pages to decide: half are new, half are copies of stored ones."""
    which = [(i * 7919 + seed) % len(stored) for i in range(count // 2)]
    return fresh(count // 2, 20_000_000 + seed), copies(stored, which, seed)


def measure(sizes: list[int], decisions: int, rounds: int, progress: Progress) -> Table:
    """Return a table of pages per CPU second, and of the share of copies found, for each index."""
    table = Table(title="In one process: check-then-insert, pages a CPU second (copies found)")
    names = ["pages", "memory:", "sqlite:", "datasketch", "rensa", "FAISS multi-hash"]
    for name in names:
        table.add_column(name, justify="right")
    for size in sizes:
        job = progress.add_task(f"in one process, {size:,} pages", total=5 * rounds + 5)
        with tempfile.TemporaryDirectory() as folder:
            stored = indexed(0, min(size, 50_000))
            runners = _runners(size, Path(folder), lambda job=job: progress.advance(job))
            rates: dict[str, list[tuple[float, float]]] = {name: [] for name in runners}
            for number in range(rounds):
                new, again = mixed(31 * number + size, decisions, stored)
                for name, decide in runners.items():
                    first, second = decide(new), decide(again)
                    rate = (len(new) + len(again)) / (first[0] + second[0])
                    rates[name].append((rate, 1 - second[1] / len(again)))
                    progress.advance(job)
            row = [
                f"{statistics.median(r for r, _ in found):,.0f} ({found[-1][1]:.0%})"
                for found in rates.values()
            ]
            table.add_row(f"{size:,}", *row)
    return table


def _runners(size: int, folder: Path, tick: Callable[[], None]) -> dict[str, Decide]:
    runners = {}
    for url in ("memory:", f"sqlite:{folder}/index.db"):
        runners[url.partition(":")[0]] = _ours(url, size)
        tick()
    pages = indexed(0, size) if size <= 50_000 else _all(size)
    lsh = deciding.datasketch_index(pages)
    tick()

    def datasketch(sample: Fingerprints) -> tuple[float, int]:
        names, hashes = [sample.address(i) for i in range(len(sample))], sample.minhashes()
        return deciding.seconds(lambda: deciding.decide_datasketch(lsh, names, hashes))

    peer = deciding.Rensa(pages)
    tick()

    def rensa(sample: Fingerprints) -> tuple[float, int]:
        hashes = deciding.rensa_hashes(sample)
        return deciding.seconds(lambda: deciding.decide_rensa(peer, sample, hashes))

    binary = deciding.faiss_index(pages)
    tick()
    runners["datasketch"] = datasketch
    runners["rensa"] = rensa
    runners["faiss"] = lambda sample: deciding.seconds(
        lambda: deciding.decide_faiss(binary, sample)
    )
    return runners


def _all(size: int) -> Fingerprints:
    """Return all pages of an index, in the parts in which it is filled."""
    import numpy as np

    parts = [indexed(start, min(50_000, size - start)) for start in range(0, size, 50_000)]
    return Fingerprints(
        np.concatenate([part.minima for part in parts]),
        np.concatenate([part.simhashes for part in parts]),
        np.concatenate([part.keys for part in parts]),
        np.concatenate([part.content for part in parts]),
    )


def _ours(url: str, size: int) -> Decide:
    loop = asyncio.new_event_loop()
    index = open_index(Options(index_url=url))
    loop.run_until_complete(index.open({"bands": "8"}))
    loop.run_until_complete(fill(index, size, lambda _: None))

    def decide(sample: Fingerprints) -> tuple[float, int]:
        entries = sample.entries()
        return deciding.seconds(
            lambda: loop.run_until_complete(deciding.decide_all(index, entries))
        )

    return decide
