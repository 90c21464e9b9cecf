"""Decisions a second and bytes a page of every index, against datasketch in the same run.

Usage: ``python benchmarks/index.py [--pages 10000 100000] [--decisions 2000] [--rounds 3]``

A decision is read, scan, fetch (only if something survives the scan), claim and commit; for
datasketch it is query and insert. Signatures are ready in both cases, and datasketch gets the
same bands (8 of 3 minima), so that both find the same share of near-duplicates. Half of the pages
measured are new, half are copies of indexed ones. Redis is a real server on the same machine,
emptied between the two. Every round times ours and the peer once, one after the other; a ratio is
the median over the rounds.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path

import attrs
import numpy as np
from datasketch import MinHash, MinHashLSH
from numpy.typing import NDArray

from dedup_middleware.index.base import Claim, Entry, Index, Reading
from dedup_middleware.index.opening import open_index
from dedup_middleware.index.records import CONTENT, State
from dedup_middleware.index.scan import neighbours
from dedup_middleware.index.tables import Slot, band_slots, narrow_slot, simhash_slots
from dedup_middleware.options import Options
from tests.servers import RedisServer, running_redis

BANDS, ROWS, PERMUTATIONS = 8, 3, 128
IN_FLIGHT = 64
SCAN_DISTANCE = 22


@attrs.frozen(eq=False)
class Page:
    """A page whose signatures are ready."""

    key: str
    slots: tuple[Slot, ...]
    content: bytes
    minhash: MinHash


def make_page(number: int) -> Page:
    """A page of its own; the same number gives the same page."""
    rng = np.random.default_rng(number)
    minima: NDArray[np.uint32] = rng.integers(0, 1 << 32, PERMUTATIONS, dtype=np.uint32)
    key, simhash, *bands = rng.integers(0, 1 << 64, 2 + BANDS, dtype=np.uint64).tolist()
    content = np.zeros(1, CONTENT)
    content["size"] = 400
    content["simhash"] = simhash
    content["sketch"] = rng.integers(0, 1 << 64, 8, dtype=np.uint64)
    return Page(
        f"https://www.example.com/{number:056d}",
        (narrow_slot(0, key), *simhash_slots(simhash), *band_slots(bands)),
        content.tobytes(),
        MinHash(num_perm=PERMUTATIONS, scheme="affine32", hashvalues=minima),
    )


async def decide(index: Index, page: Page) -> bool:
    """Whether the page was new; it is stored if so."""
    outcome: Claim | Reading = await index.read(page.slots)
    while isinstance(outcome, Reading):
        found = neighbours(outcome.slots, outcome.data, SCAN_DISTANCE)
        if len(found):
            near = await index.fetch(found.numbers)
            own = np.frombuffer(page.content, CONTENT)["sketch"]
            same = (near.content["sketch"] == own).all(axis=1)
            if (same & (near.states == State.COMMITTED)).any():
                return False
        outcome = await index.claim(Entry(page.slots, page.content, page.key), outcome, 60)
    await index.commit(outcome)
    return True


async def decide_all(index: Index, pages: Sequence[Page]) -> int:
    """Number of new pages; so many at a time as a spider has in flight."""
    queue = iter(pages)

    async def worker() -> int:
        return sum([await decide(index, page) for page in queue])

    return sum(await asyncio.gather(*(worker() for _ in range(IN_FLIGHT))))


def decide_all_datasketch(lsh: MinHashLSH, pages: Sequence[Page]) -> int:
    """The same with datasketch."""
    new = 0
    for page in pages:
        if not lsh.query(page.minhash):
            lsh.insert(page.key, page.minhash)
            new += 1
    return new


def measured(round_number: int, indexed: int, decisions: int) -> list[Page]:
    """Pages of a round: every second one is a copy of an indexed one."""
    first = 10_000_000 + round_number * decisions
    return [
        make_page(first + i if i % 2 else (i * 7919 + round_number) % indexed)
        for i in range(decisions)
    ]


def seconds(work: Callable[[], int], expected: int) -> float:
    """Time of some decisions, whose outcome is checked."""
    started = time.perf_counter()
    new = work()
    taken = time.perf_counter() - started
    if abs(new - expected) > 0.01 * expected:
        raise SystemExit(f"{new} new pages instead of {expected}: the comparison would be unfair")
    return taken


def compare(
    name: str, url: str, pages: int, rounds: Sequence[Sequence[Page]], server: RedisServer | None
) -> None:
    """Print one line: our index at an address against datasketch with the like storage."""
    loop = asyncio.new_event_loop()
    run = loop.run_until_complete
    memory = server.client() if server else None
    before = memory.info("memory")["used_memory"] if memory else 0
    index = open_index(Options(index_url=url))
    run(index.open({"bands": str(BANDS)}))
    run(decide_all(index, [make_page(number) for number in range(pages)]))
    ours_bytes = run(index.stats()).bytes
    if memory:
        ours_bytes = memory.info("memory")["used_memory"] - before
    config = None
    if server:
        config = {
            "type": "redis",
            "basename": b"peer",
            "redis": {"host": "127.0.0.1", "port": server.port},
        }
        before = memory.info("memory")["used_memory"] if memory else 0
    peer = MinHashLSH(num_perm=PERMUTATIONS, params=(BANDS, ROWS), storage_config=config)
    with peer.insertion_session(buffer_size=2000) as session:
        for number in range(pages):
            page = make_page(number)
            session.insert(page.key, page.minhash, check_duplication=False)
    peer_bytes = memory.info("memory")["used_memory"] - before if memory else 0
    times = []
    for sample in rounds:
        expected = len(sample) // 2
        ours = seconds(lambda sample=sample: run(decide_all(index, sample)), expected)
        theirs = seconds(lambda sample=sample: decide_all_datasketch(peer, sample), expected)
        times.append((ours / len(sample), theirs / len(sample)))
    run(index.close())
    loop.close()
    ours, theirs = (statistics.median(column) for column in zip(*times, strict=True))
    ratio = statistics.median(other / own for own, other in times)
    print(
        f"{name:8} {pages:9,} {1 / ours:10,.0f}/s {1 / theirs:10,.0f}/s {ratio:7.1f}x "
        f"{ours_bytes / pages:8.0f} B"
        + (f" {peer_bytes / pages:8.0f} B {peer_bytes / ours_bytes:6.1f}x" if peer_bytes else "")
    )


def main() -> None:
    """Compare all indexes at all sizes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--decisions", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=["memory", "sqlite", "redis"])
    arguments = parser.parse_args()
    print(f"peer: datasketch {version('datasketch')} MinHashLSH, {BANDS} bands of {ROWS}")
    print(
        f"{'index':8} {'pages':>9} {'ours':>12} {'peer':>12} {'ratio':>8} {'ours':>10} {'peer':>10}"
    )
    for pages in arguments.pages:
        rounds = [
            measured(number, pages, arguments.decisions) for number in range(arguments.rounds)
        ]
        for name in [arguments.only] if arguments.only else ["memory", "sqlite", "redis"]:
            with tempfile.TemporaryDirectory() as folder:
                if name == "redis":
                    with running_redis(Path(folder)) as server:
                        compare(name, server.url, pages, rounds, server)
                else:
                    url = "memory:" if name == "memory" else f"sqlite:{folder}/index.db"
                    compare(name, url, pages, rounds, None)


if __name__ == "__main__":
    main()
