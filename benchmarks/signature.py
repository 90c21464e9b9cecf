"""Signatures and Hamming searches against their peers, in one process and one run.

Usage: ``python benchmarks/signature.py [--quick] [--rounds N]``

Peers come from PyPI: ``pip install datasketch faiss-cpu rensa rich``. Every round times
each candidate once, one after the other, so that a change of the machine's speed
hits all of them; a ratio is the median over the rounds of the peer's time divided
by ours. Before anything is timed, the results of peers that compute the same are compared.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from typing import Any

import attrs
import faiss
import llvmlite.binding as llvm
import numba
import numpy as np
import rensa  # type: ignore[import-untyped]
from datasketch import MinHash
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from dedup_middleware.signature import hamming, minhash, simhash, sketch

Words = NDArray[np.uint64]
Action = Callable[[], object]

FEATURES = 400  # shingles of a page of about 1,000 Chinese characters
SHORTEST = 0.02  # seconds a candidate is timed in a round, repeated as often as needed
DISTANCE = 3
_MET, _MISSED = "[green]met", "[red]missed"


@attrs.frozen
class Candidate:
    """Something to time; ``per`` is how many units an action does.

    ``at_least`` is the ratio that this peer must take, ``at_most`` the microseconds that ours may.
    """

    name: str
    action: Action
    per: int = 1
    at_least: float | None = None
    at_most: float | None = None


@attrs.frozen
class Job:
    """One row of ours, and the peers it is compared with."""

    name: str
    ours: Candidate
    peers: tuple[Candidate, ...]


def seconds(action: Action, times: int) -> float:
    """Mean duration of an action."""
    start = time.perf_counter()
    for _ in range(times):
        action()
    return (time.perf_counter() - start) / times


def repeats(action: Action) -> int:
    """How often an action must run to take long enough for the clock."""
    action()  # loads its kernel
    times = 1
    while (taken := seconds(action, times) * times) < SHORTEST / 4:
        times = max(times * 2, int(times * SHORTEST / max(taken, 1e-9) / 4))
    return max(1, round(times * SHORTEST / taken))


def measure(job: Job, rounds: int) -> list[list[float]]:
    """Microseconds a unit: a list of rounds for ours, then for each peer."""
    candidates = (job.ours, *job.peers)
    times = [repeats(candidate.action) for candidate in candidates]
    found: list[list[float]] = [[] for _ in candidates]
    for _ in range(rounds):
        for row, candidate, count in zip(found, candidates, times, strict=True):
            row.append(seconds(candidate.action, count) / candidate.per * 1e6)
    return found


def spread(values: list[float]) -> str:
    """The quartiles."""
    low, _, high = statistics.quantiles(values, n=4)
    return f"{figure(low)} .. {figure(high)}"


def figure(value: float) -> str:
    """Three digits, or whole thousands."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def rows(job: Job, found: list[list[float]]) -> Iterator[tuple[str, ...]]:
    """The job's lines of the table."""
    ours, goal = found[0], job.ours.at_most
    taken = statistics.median(ours)
    target = "" if goal is None else f"{goal:g} us"
    verdict = "" if goal is None else _MET if taken <= goal else _MISSED
    yield job.name, job.ours.name, figure(taken), spread(ours), "", target, verdict
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
            f"{ratio:.3g} ({spread(ratios)})",
            target,
            verdict,
        )


def random_words(size: int, seed: int = 1) -> Words:
    """Fingerprints without any structure."""
    return np.random.default_rng(seed).integers(0, 1 << 64, size, dtype=np.uint64)


def as_bytes(codes: Words) -> NDArray[np.uint8]:
    """The same fingerprints as FAISS takes them."""
    return codes.view(np.uint8).reshape(-1, 8)


@numba.njit(numba.uint64(numba.uint64[::1]), nogil=True)  # type: ignore[untyped-decorator]
def read_all(codes: Words) -> Any:
    """Touch every word and do next to nothing with it: the speed of memory."""
    seen = np.uint64(0)
    for i in range(np.uint64(codes.size)):
        seen |= codes[i]
    return seen


def minhash_job() -> Job:
    """MinHash of features, a page a call as in a crawl."""
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
    """SimHash with the hashes ready."""
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
        (
            Candidate("simhash, no weights", lambda: simhash.simhash(features)),
            Candidate("NumPy", plain),
        ),
    )


def sketch_job() -> Job:
    """One sketch against many."""
    stored = random_words(8 * 10_000).reshape(-1, 8)
    query = random_words(8, 3)

    def plain() -> NDArray[Any]:
        differing = np.bitwise_count(stored ^ query).sum(axis=1, dtype=np.int64)
        return np.asarray(np.maximum(0.0, 1 - differing / 256))

    assert np.allclose(sketch.jaccards(query, stored), plain())
    return Job(
        "Jaccard of 10,000 sketches",
        Candidate("jaccards", lambda: sketch.jaccards(query, stored)),
        (Candidate("NumPy bitwise_count", plain),),
    )


def scan_job(size: int, of_limit: float, of_faiss: float | None) -> Job:
    """One query against all fingerprints in memory."""
    stored = random_words(size)
    query = int(stored[size // 2]) ^ 0b10001
    word = np.uint64(query)
    asked = as_bytes(np.array([query], dtype=np.uint64))
    peers = [Candidate("read limit", lambda: read_all(stored), 1, of_limit)]

    def plain() -> NDArray[np.int64]:
        return np.flatnonzero(np.bitwise_count(stored ^ word) <= DISTANCE)

    assert plain().tolist() == hamming.within(stored, query, DISTANCE).tolist()
    if of_faiss is not None:
        index = faiss.IndexBinaryFlat(64)
        index.add(as_bytes(stored))
        # FAISS's radius is the first distance that is too far.
        _, _, found = index.range_search(asked, DISTANCE + 1)
        assert sorted(found.tolist()) == plain().tolist()
        peers += [
            Candidate(
                "FAISS IndexBinaryFlat range_search",
                lambda: index.range_search(asked, DISTANCE + 1),
                1,
                of_faiss,
            ),
            Candidate("NumPy bitwise_count", plain),
        ]
    peers += [
        Candidate("distances", lambda: hamming.distances(stored, query)),
        Candidate("within 22 bits", lambda: hamming.within(stored, query, 22)),
    ]
    return Job(
        f"one query, {size:,} fingerprints",
        Candidate("within 3 bits", lambda: hamming.within(stored, query, DISTANCE)),
        tuple(peers),
    )


def jobs(quick: bool) -> Iterator[Job]:
    """All jobs, each built when it is its turn."""
    yield minhash_job()
    yield simhash_job()
    yield sketch_job()
    yield scan_job(1_000_000, of_limit=0.9, of_faiss=3)
    if not quick:
        yield scan_job(64_000_000, of_limit=0.85, of_faiss=None)


def machine() -> str:
    """What was measured where."""
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
    parser.add_argument("--quick", action="store_true", help="leave out 64 M")
    parser.add_argument("--rounds", type=int, default=15, help="times each candidate is timed")
    arguments = parser.parse_args()
    if arguments.rounds < 2:
        parser.error("--rounds must be at least 2: a spread needs two values")
    # One thread for everyone; rensa's pool asks when it first starts.
    faiss.omp_set_num_threads(1)
    os.environ["RAYON_NUM_THREADS"] = "1"
    console = Console()
    console.print(machine())
    table = Table(caption="ratio: time of the line / time of the first line of its job")
    for title in ("job", "candidate", "us", "quartiles", "ratio (quartiles)", "target", ""):
        table.add_column(title)
    for job in jobs(arguments.quick):
        for row in rows(job, measure(job, arguments.rounds)):
            table.add_row(*row)
        table.add_section()
    console.print(table)


if __name__ == "__main__":
    main()
