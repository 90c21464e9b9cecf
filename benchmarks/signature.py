"""Signatures, and scans of the memory index, against their peers in one process and one run.

Usage: ``python -m benchmarks.signature [--pages N ...] [--scans] [--rounds N]``

Peers come from PyPI: ``pip install datasketch faiss-cpu rensa rich``. Every round times each
candidate once, one after the other, so that a change of the machine's speed affects all; a ratio is
the median over rounds of the peer's time divided by ours. Results of peers that compute the same
are compared before anything is timed.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from typing import Any

import attrs
import faiss
import llvmlite.binding as llvm
import numpy as np
import rensa  # type: ignore[import-untyped]
from datasketch import MinHash
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from benchmarks.deciding import SCAN_DISTANCE, decide_all, decide_faiss
from benchmarks.fingerprints import fresh
from benchmarks.index_redis import PART, fill, indexed
from dedup_middleware.index.memory.arrays import NO_IDS, Hits
from dedup_middleware.index.memory.index import MemoryIndex
from dedup_middleware.model.buckets import BucketKeys, simhash_bucket_keys
from dedup_middleware.model.records import SIMHASH_RECORD
from dedup_middleware.signature import minhash, simhash

Words = NDArray[np.uint64]
Action = Callable[[], object]

FEATURES = 400  # shingles of a page with about 1,000 Chinese characters
SHORTEST = 0.02  # least seconds that a candidate is timed in a round, repeated if necessary
QUERIES = 16_384  # pages looked up: their buckets exceed any cache
DECIDED = 256
_MET, _MISSED = "[green]met", "[red]missed"


@attrs.frozen
class Candidate:
    """An action to time; ``per`` is its number of units.

    ``at_least`` is the least ratio for this peer, ``at_most`` the most microseconds for ours.
    ``records`` is how many a unit compares. ``own_clock`` runs the action and returns the seconds
    that count, if part of its work must not be timed. ``clock`` is processor time by default, which
    other programs hardly affect; the gain of several threads needs another clock.
    """

    name: str
    action: Action
    per: int = 1
    at_least: float | None = None
    at_most: float | None = None
    records: float | None = None
    own_clock: Callable[[], float] | None = None
    clock: Callable[[], float] = time.process_time


@attrs.frozen
class Job:
    """A row of ours, and the peers to compare it with."""

    name: str
    ours: Candidate
    peers: tuple[Candidate, ...]


def seconds(candidate: Candidate, times: int) -> float:
    """Return the mean duration of an action."""
    start = candidate.clock()
    for _ in range(times):
        candidate.action()
    return (candidate.clock() - start) / times


def repeats(candidate: Candidate) -> int:
    """Return how often an action must run to be long enough for the clock."""
    candidate.action()  # loads the kernel
    times = 1
    while (taken := seconds(candidate, times) * times) < SHORTEST / 4:
        times = max(times * 2, int(times * SHORTEST / max(taken, 1e-9) / 4))
    return max(1, round(times * SHORTEST / taken))


def measure(job: Job, rounds: int) -> list[list[float]]:
    """Return microseconds per unit: a list over rounds for ours, then for each peer."""
    candidates = (job.ours, *job.peers)
    times = [0 if one.own_clock else repeats(one) for one in candidates]
    found: list[list[float]] = [[] for _ in candidates]
    for _ in range(rounds):
        for row, candidate, count in zip(found, candidates, times, strict=True):
            clock = candidate.own_clock
            taken = clock() if clock else seconds(candidate, count)
            row.append(taken / candidate.per * 1e6)
    return found


def spread(values: list[float]) -> str:
    """Format the quartiles."""
    low, _, high = statistics.quantiles(values, n=4)
    return f"{figure(low)} .. {figure(high)}"


def figure(value: float) -> str:
    """Format with three digits, or in whole thousands."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def rate(candidate: Candidate, microseconds: float) -> str:
    """Format millions of records compared per second, if counted."""
    return "" if candidate.records is None else figure(candidate.records / microseconds)


def rows(job: Job, found: list[list[float]]) -> Iterator[tuple[str, ...]]:
    """Yield the job's rows of the table."""
    ours, goal = found[0], job.ours.at_most
    taken = statistics.median(ours)
    target = "" if goal is None else f"{goal:g} us"
    verdict = "" if goal is None else _MET if taken <= goal else _MISSED
    yield (
        job.name,
        job.ours.name,
        figure(taken),
        spread(ours),
        rate(job.ours, taken),
        "",
        target,
        verdict,
    )
    for peer, times in zip(job.peers, found[1:], strict=True):
        ratios = [theirs / mine for theirs, mine in zip(times, ours, strict=True)]
        ratio = statistics.median(ratios)
        target = verdict = ""
        if peer.at_least is not None:
            target = f"{peer.at_least:g}"
            verdict = _MET if ratio >= peer.at_least else _MISSED
        yield (
            "",
            f"  {peer.name}",
            figure(statistics.median(times)),
            spread(times),
            rate(peer, statistics.median(times)),
            f"{ratio:.3g} ({spread(ratios)})",
            target,
            verdict,
        )


def random_words(size: int, seed: int = 1) -> Words:
    """Return random fingerprints."""
    return np.random.default_rng(seed).integers(0, 1 << 64, size, dtype=np.uint64)


def as_bytes(codes: Words) -> NDArray[np.uint8]:
    """Convert fingerprints to FAISS's format."""
    return codes.view(np.uint8).reshape(-1, 8)


def minhash_job() -> Job:
    """MinHash of features, one page per call as in a crawl."""
    features = random_words(FEATURES * 16).reshape(16, FEATURES)
    hasher = minhash.MinHasher(128)
    one = features[0]
    ends = np.array([0, FEATURES], np.uint64)
    few = [page.astype(np.uint32).tolist() for page in features]

    def in_bulk() -> Any:
        return MinHash.bulk(few, num_perm=128, scheme="affine32", hashfunc=int)

    assert in_bulk()[0].hashvalues.tolist() == hasher.of_features(one).tolist()
    flat = rensa.RMinHash.digest_matrix_from_flat_token_hashes
    return Job(
        f"MinHash 128 of {FEATURES} hashes",
        Candidate("MinHasher.of_features", lambda: hasher.of_features(one)),
        (
            Candidate("rensa flat hashes", lambda: flat(one, ends, 128, 1), 1, 0.9),
            Candidate("datasketch bulk, 16 pages", in_bulk, 16, 20),
        ),
    )


def simhash_job() -> Job:
    """SimHash of ready hashes."""
    features = random_words(FEATURES)
    weights = np.random.default_rng(2).integers(1, 9, FEATURES).astype(np.uint32)
    places = np.arange(64, dtype=np.uint64)

    def plain() -> NDArray[Any]:
        signs = ((features[:, None] >> places) & np.uint64(1)).astype(np.int64) * 2 - 1
        return np.asarray(weights.astype(np.int64) @ signs)

    signed = simhash.simhash(features, weights)
    assert signed is not None
    assert np.array_equal(signed.sums, plain())
    return Job(
        f"SimHash of {FEATURES} weighted features",
        Candidate("simhash", lambda: simhash.simhash(features, weights)),
        (Candidate("NumPy", plain),),
    )


def sketch_job() -> Job:
    """One sketch against many."""
    stored = random_words(8 * 10_000).reshape(-1, 8)
    query = random_words(8, 3)

    def plain() -> NDArray[Any]:
        differing = np.bitwise_count(stored ^ query).sum(axis=1, dtype=np.int64)
        return np.asarray(np.maximum(0.0, 1 - differing / 256))

    assert np.allclose(minhash.jaccards(query, stored), plain())
    return Job(
        "Jaccard of 10,000 sketches",
        Candidate("jaccards", lambda: minhash.jaccards(query, stored)),
        (Candidate("NumPy bitwise_count", plain),),
    )


def scan_job(size: int) -> Job:
    """Finding candidates in an in-memory index, as a decision does, and whole decisions.

    Ours and IndexBinaryMultiHash search the same four tables of 16 bits of the SimHash and find the
    same pages; IndexBinaryFlat compares a page with all others.
    """
    index = MemoryIndex()
    asyncio.run(index.open({"bands": "8"}))
    asyncio.run(fill(index, size, lambda _: None))
    (buckets,) = index._buckets.values()
    parts = [indexed(start, min(PART, size - start)) for start in range(0, size, PART)]
    stored = as_bytes(np.concatenate([part.simhashes for part in parts]))
    multi, flat = faiss.IndexBinaryMultiHash(64, 4, 16), faiss.IndexBinaryFlat(64)
    multi.add(stored)
    flat.add(stored)
    # Two bits are flipped, as in near-duplicates: three tables find the original.
    simhashes = parts[0].simhashes[:QUERIES] ^ np.uint64(1 << 60 | 1 << 5)
    asked = as_bytes(simhashes)
    places = [BucketKeys.of(simhash_bucket_keys(simhash)) for simhash in simhashes.tolist()]
    compared = sum(
        len(buckets.get(bucket)) // SIMHASH_RECORD for one in places for bucket in one.columns()[0]
    )
    hits = Hits()

    def found(one: BucketKeys) -> list[int]:
        hits.begin()
        buckets.look(one.words, SCAN_DISTANCE, NO_IDS, hits)
        return [number - 1 for number in hits.neighbours().page_ids.tolist()]

    def looked() -> None:
        for one in places:
            hits.begin()
            buckets.look(one.words, SCAN_DISTANCE, NO_IDS, hits)

    def searched(peer: Any, queries: NDArray[np.uint8] = asked) -> None:
        for i in range(len(queries)):
            # FAISS's radius is exclusive.
            peer.range_search(queries[i : i + 1], SCAN_DISTANCE + 1)

    for i, one in enumerate(places):
        theirs = multi.range_search(asked[i : i + 1], SCAN_DISTANCE + 1)[2]
        assert sorted(set(theirs.tolist())) == found(one)
    fresh_pages = iter(range(30_000_000, 40_000_000))
    loop = asyncio.new_event_loop()
    before: list[float] = []

    def decided() -> None:
        entries = fresh(DECIDED, next(fresh_pages)).entries()
        started = time.process_time()
        loop.run_until_complete(decide_all(index, entries))
        before.append(time.process_time() - started)

    def peer_decided() -> None:
        pages = fresh(DECIDED, next(fresh_pages))
        started = time.process_time()
        decide_faiss(multi, pages)
        before.append(time.process_time() - started)

    def timed(action: Action) -> Callable[[], float]:
        def run() -> float:
            action()
            return before.pop()

        return run

    each = compared / QUERIES
    few = asked[:8]
    return Job(
        f"a page among {size:,}, {each:.0f} SimHash records in its buckets",
        Candidate("scan of its buckets in the memory index", looked, QUERIES, records=each),
        (
            Candidate("FAISS IndexBinaryMultiHash", lambda: searched(multi), QUERIES, records=each),
            Candidate(
                "FAISS IndexBinaryFlat", lambda: searched(flat, few), len(few), records=size
            ),
            Candidate(
                "the whole decision: propose, commit", decided, DECIDED,
                records=each, own_clock=timed(decided),
            ),
            Candidate(
                "FAISS IndexBinaryMultiHash: search 3 bits, add", peer_decided, DECIDED,
                records=each, own_clock=timed(peer_decided),
            ),
        ),
    )  # fmt: skip


def jobs(sizes: Sequence[int], *, scans_only: bool) -> Iterator[Job]:
    """Yield all jobs, each built when needed."""
    if not scans_only:
        yield minhash_job()
        yield simhash_job()
        yield sketch_job()
    for size in sizes:
        yield scan_job(size)


def machine() -> str:
    """Describe the machine and the versions."""
    features = llvm.get_host_cpu_features()
    counts = any(name.replace("-", "") == "avx512vpopcntdq" and on for name, on in features.items())
    peers = ", ".join(
        f"{name} {version(name)}"
        for name in ("datasketch", "faiss-cpu", "llvmlite", "numba", "numpy", "rensa")
    )
    return (
        f"{llvm.get_host_cpu_name()} ({'has' if counts else 'has no'} vpopcntq), "
        f"Python {platform.python_version()}, one thread; {peers}"
    )


def main() -> None:
    """Run all jobs and print one table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--pages", type=int, nargs="*", default=[1_000_000], help="sizes of indexes"
    )
    parser.add_argument("--scans", action="store_true", help="scans of indexes only")
    parser.add_argument("--rounds", type=int, default=15, help="times each candidate is timed")
    arguments = parser.parse_args()
    if arguments.rounds < 2:
        parser.error("--rounds must be at least 2: a spread needs two values")
    # One thread for all; rensa's pool reads the number when it first starts.
    faiss.omp_set_num_threads(1)
    os.environ["RAYON_NUM_THREADS"] = "1"
    console = Console(width=140)
    console.print(machine())
    table = Table(caption="ratio: time of the line / time of the first line of its job")
    for title in (
        "job",
        "candidate",
        "us",
        "quartiles",
        "M records/s",
        "ratio (quartiles)",
        "target",
        "",
    ):
        table.add_column(title)
    for job in jobs(arguments.pages, scans_only=arguments.scans):
        for row in rows(job, measure(job, arguments.rounds)):
            table.add_row(*row)
        table.add_section()
    console.print(table)


if __name__ == "__main__":
    main()
