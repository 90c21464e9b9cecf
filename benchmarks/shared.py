"""Pages through the public API on one Redis server, against datasketch on its own server.

Usage: ``python -m benchmarks.shared [--pages 100000] [--decisions 3000] [--rounds 5]``

A page is a text of 1,000 Chinese characters, drawn from jieba's dictionary by frequency.
Fingerprints are made before the clock starts. Ours is ``Deduplicator.decide_fingerprint`` and
``commit``, 100 pages in flight, with the default settings and with ``DEDUP_EVIDENCE=sketch``: pages
are compared, judged and claimed. datasketch does ``query`` and ``insert`` for every page, and in
another row ``insert`` only for new ones, with eight bands of three minima; it returns candidates
without judging them, and its records have no address and no evidence. In edited copies 1 % of the
words differ.

All take turns in each round. ``CPU`` is processor time per page in us, of client and server
together; its ratios hold whatever else the machine does.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs
from datasketch import MinHash, MinHashLSH
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from benchmarks.fingerprints import BANDS, PERMUTATIONS, ROWS
from benchmarks.index_size import pages_of
from benchmarks.text import synthetic
from dedup_middleware import Deduplicator, Document, Fingerprinter, Options
from dedup_middleware.evaluation.edits import edit
from dedup_middleware.index.opening import open_index
from dedup_middleware.model.fingerprint import Fingerprint
from tests.servers import RedisServer, running_redis

KINDS = ("new", "edited copy", "exact copy")
EVIDENCE = ("filter", "sketch")
PEER, SPARING = "datasketch", "datasketch, insert of new"
LENGTH = 1000  # characters
IN_FLIGHT = 100
HASH_KEY = "5eed"


@attrs.frozen
class Taken:
    """Pages per second by the clock, us of processor time per page, and number of new pages."""

    rate: float
    cpu: float
    new: int


def fingerprints(kind: str, count: int, seed: int, evidence: str) -> list[Fingerprint]:
    """Return the pages of a round; copies are of its new pages."""
    make = Fingerprinter(options(evidence), int(HASH_KEY, 16))
    pages = []
    texts = (synthetic(LENGTH, 1 + seed * count + i) for i in range(count))
    for number, text in enumerate(texts):
        content = edit(text, "words-changed", 0.01, number) if kind == "edited copy" else text
        address = f"https://{KINDS.index(kind)}.example.com/{seed:08}/{number:047}"
        pages.append(make(Document(address, text=content)))
    return pages


def options(evidence: str, server: RedisServer | None = None) -> Options:
    """Return default options with this evidence."""
    url = "memory:" if server is None else server.url
    return Options(index_url=url, evidence=evidence, hash_key=HASH_KEY)


async def fill(server: RedisServer, evidence: str, size: int) -> None:
    """Load random pages with records, evidence and addresses of usual sizes."""
    chosen = options(evidence, server)
    index = open_index(chosen)
    async with Deduplicator(chosen, index=index):
        for pages in pages_of(chosen, size):
            await index.load(pages)


async def decide(server: RedisServer, pages: Sequence[Fingerprint], evidence: str) -> Taken:
    """Decide and commit the pages."""
    async with Deduplicator(options(evidence, server)) as dedup:
        queue = iter(pages)

        async def worker() -> int:
            new = 0
            for page in queue:
                verdict = await dedup.decide_fingerprint(page)
                if verdict.claim is not None:
                    await dedup.commit(verdict)
                    new += 1
            return new

        with _clock(server, len(pages)) as taken:
            taken["new"] = sum(await asyncio.gather(*(worker() for _ in range(IN_FLIGHT))))
    return Taken(**taken)


def decide_by_datasketch(
    peer: MinHashLSH, server: RedisServer, pages: list[Fingerprint], *, all_pages: bool
) -> Taken:
    """Query each page, and insert it if nothing was found, or always."""
    hashes = [
        MinHash(PERMUTATIONS, hashvalues=page.minhash[:PERMUTATIONS], scheme="affine32")
        for page in pages
    ]
    with _clock(server, len(pages)) as taken:
        new = 0
        for page, minhash in zip(pages, hashes, strict=True):
            is_new = not peer.query(minhash)
            if is_new or all_pages:
                peer.insert(page.key, minhash, check_duplication=False)
            new += is_new
        taken["new"] = new
    return Taken(**taken)


@contextlib.contextmanager
def _clock(server: RedisServer, count: int) -> Iterator[dict[str, Any]]:
    taken: dict[str, Any] = {}
    with server.client() as client:

        def server_cpu() -> float:
            info: Any = client.info("cpu")
            return float(info["used_cpu_user"] + info["used_cpu_sys"])

        before = server_cpu()
        started, cpu = time.perf_counter(), time.process_time()
        yield taken
        taken["rate"] = count / (time.perf_counter() - started)
        cpu = time.process_time() - cpu
        taken["cpu"] = 1e6 * (cpu + server_cpu() - before) / count


def measure(size: int, decisions: int, rounds: int, progress: Progress) -> Table:
    """Return the table of all kinds of pages."""
    taken_by: dict[tuple[str, str], list[Taken]] = {}
    job = progress.add_task("rounds", total=rounds * len(KINDS) + 3)
    with contextlib.ExitStack() as stack:
        servers = {
            who: stack.enter_context(
                running_redis(Path(stack.enter_context(tempfile.TemporaryDirectory())))
            )
            for who in (*EVIDENCE, PEER)
        }
        for evidence in EVIDENCE:
            asyncio.run(fill(servers[evidence], evidence, size))
            progress.advance(job)
        storage = {"host": "127.0.0.1", "port": servers[PEER].port}
        peer = MinHashLSH(
            num_perm=PERMUTATIONS,
            params=(BANDS, ROWS),
            storage_config={"type": "redis", "basename": b"peer", "redis": storage},
        )
        progress.advance(job)
        for number in range(rounds):
            for kind in KINDS:
                for evidence in EVIDENCE:
                    pages = fingerprints(kind, decisions, number, evidence)
                    taken = asyncio.run(decide(servers[evidence], pages, evidence))
                    taken_by.setdefault((kind, evidence), []).append(taken)
                # Only the last one inserts copies; all insert new pages.
                for who in (PEER,) if kind == KINDS[0] else (SPARING, PEER):
                    taken = decide_by_datasketch(peer, servers[PEER], pages, all_pages=who == PEER)
                    taken_by.setdefault((kind, who), []).append(taken)
                progress.advance(job)
    table = Table(title=f"Redis, {size:,} pages in ours, {IN_FLIGHT} in flight, one process")
    for name in (
        *("page", "of", "a second", "CPU"),
        *("query + insert / it", "insert of new / it", "new"),
    ):
        table.add_column(name, justify="right")
    for (kind, who), rows in taken_by.items():
        ratios = []
        for other in (PEER, SPARING):
            peers = taken_by.get((kind, other), taken_by[kind, PEER])
            costs = sorted(one.cpu / own.cpu for own, one in zip(rows, peers, strict=True))
            ratios.append(f"{statistics.median(costs):.1f} ({costs[0]:.1f} .. {costs[-1]:.1f})")
        table.add_row(
            kind,
            who,
            f"{statistics.median(one.rate for one in rows):,.0f}",
            f"{statistics.median(one.cpu for one in rows):.0f}",
            *ratios,
            f"{rows[-1].new / decisions:.1%}",
        )
    return table


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pages", type=int, default=100_000)
    parser.add_argument("--decisions", type=int, default=3000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    console = Console(width=120)
    with Progress(console=console, transient=True) as progress:
        table = measure(given.pages, given.decisions, given.rounds, progress)
    console.print(table)


if __name__ == "__main__":
    main()
