"""Three ways to find all fingerprints within three bits of another one, and their costs.

G. Manku, A. Jain, A. Das Sarma: Detecting near-duplicates for web crawling, WWW 2007; LUO's lecture
13. Query expansion looks up every number within three bits of the query, 43,745 of them. Table
expansion would store as many for each fingerprint, 350 KB, so it is not measured. Four tables store
each fingerprint four times.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import combinations
from typing import Final

import attrs
import numpy as np
from numpy.typing import NDArray

from dedup_middleware.index.memory.arrays import NO_IDS, Buckets, Hits
from dedup_middleware.model.buckets import BucketKeys, record, simhash_bucket_keys
from dedup_middleware.model.records import SIMHASH_RECORD
from dedup_middleware.signature.hamming import within

DISTANCE: Final = 3
_BITS: Final = 64

Search = Callable[[int], NDArray[np.int64]]


@attrs.frozen
class ExpansionRow:
    """The cost of one way: bytes, microseconds of processor time, and matches in total."""

    way: str
    fingerprints: int
    bytes_a_fingerprint: float
    us_a_query: float
    found: int


def masks(distance: int = DISTANCE) -> NDArray[np.uint64]:
    """Return all words with at most ``distance`` bits set.

    >>> len(masks(3))
    43745
    """
    return np.array(
        [
            sum(1 << bit for bit in chosen)
            for size in range(distance + 1)
            for chosen in combinations(range(_BITS), size)
        ],
        np.uint64,
    )


def query_expansion(fingerprints: NDArray[np.uint64]) -> tuple[Search, int]:
    """Look up all numbers near the query in sorted fingerprints; return search and bytes."""
    order = np.argsort(fingerprints, kind="stable")
    ascending, near = fingerprints[order], masks()

    def search(query: int) -> NDArray[np.int64]:
        probes = np.uint64(query) ^ near
        first = np.searchsorted(ascending, probes, "left")
        behind = np.searchsorted(ascending, probes, "right")
        hits = first < behind
        spans = zip(first[hits].tolist(), behind[hits].tolist(), strict=True)
        return np.array(sorted(order[i] for span in spans for i in range(*span)), np.int64)

    return search, ascending.nbytes + order.nbytes


def four_tables(fingerprints: NDArray[np.uint64]) -> tuple[Search, int]:
    """Look into the SimHash tables of the memory index; return the search and the record bytes.

    It finds at most 256 fingerprints.
    """
    held: dict[int, list[bytes]] = {}
    for number, fingerprint in enumerate(fingerprints.tolist(), 1):
        for bucket_key in simhash_bucket_keys(fingerprint):
            held.setdefault(bucket_key.bucket, []).append(record(bucket_key, number))
    buckets, hits = Buckets(), Hits()
    for bucket, records in held.items():
        buckets.extend(
            [bucket], b"".join(records), [0, SIMHASH_RECORD * len(records)], SIMHASH_RECORD
        )

    def search(query: int) -> NDArray[np.int64]:
        hits.begin()
        buckets.look(BucketKeys.of(simhash_bucket_keys(query)).words, DISTANCE, NO_IDS, hits)
        return hits.neighbours().page_ids.astype(np.int64) - 1

    return search, buckets.nbytes


def linear_scan(fingerprints: NDArray[np.uint64]) -> tuple[Search, int]:
    """Compare the query with each fingerprint; return the search and its bytes."""
    return lambda query: within(fingerprints, query, DISTANCE), fingerprints.nbytes


WAYS: Final = {
    "linear scan": linear_scan,
    "query expansion": query_expansion,
    "four tables": four_tables,
}


def drawn(count: int, queries: int, seed: int) -> tuple[NDArray[np.uint64], list[int]]:
    """Return random fingerprints, and queries; every other one has a neighbour at 3 bits."""
    rng = np.random.default_rng(seed)
    fingerprints = rng.integers(0, 1 << 64, count, np.uint64, endpoint=False)
    sample = rng.integers(0, 1 << 64, queries, np.uint64, endpoint=False)
    for i in range(0, queries, 2):
        flips = sum(1 << int(bit) for bit in rng.choice(_BITS, DISTANCE, replace=False))
        sample[i] = fingerprints[rng.integers(count)] ^ np.uint64(flips)
    return fingerprints, sample.tolist()


def measure(
    count: int, queries: int, seed: int = 1, progress: Callable[[str], None] | None = None
) -> list[ExpansionRow]:
    """Measure each way on the same fingerprints and queries.

    :raises AssertionError: two ways find different fingerprints
    """
    fingerprints, sample = drawn(count, queries, seed)
    rows: list[ExpansionRow] = []
    expected: list[list[int]] = []
    for way, make in WAYS.items():
        if progress is not None:
            progress(way)
        search, size = make(fingerprints)
        search(0)  # loads its kernel
        started = time.process_time()
        found = [search(query).tolist() for query in sample]
        seconds = time.process_time() - started
        expected = expected or found
        assert found == expected, f"{way} finds other fingerprints than {rows[0].way}"
        hits = sum(map(len, found))
        rows.append(ExpansionRow(way, count, size / count, 1e6 * seconds / queries, hits))
    return rows
