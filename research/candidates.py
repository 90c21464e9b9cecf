"""Measures how often the tables find a near-duplicate, before any rule judges it.

Pairs of random sets with a known Jaccard index pass through the method's own bucket keys and bucket
scan, so this measures what an index does. It is compared with the formula of the MinHash bands, ``1
- (1 - J**R)**B`` (A. Rajaraman, J. Ullman: Mining of massive datasets, chapter 3.4), and with the
(B, R) that datasketch's optimiser would choose.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import attrs
import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base.options import Options
from dedup_middleware.core.fingerprinter import volatile_bits
from dedup_middleware.evaluation.pairs import Interval, wilson
from dedup_middleware.index.scan import neighbours
from dedup_middleware.methods.base import Method
from dedup_middleware.methods.choose import choose_method
from dedup_middleware.model.buckets import SIMHASH_TABLES, record
from dedup_middleware.model.fingerprint import Fingerprint
from dedup_middleware.signature.minhash import band_recall

JACCARDS: Final = tuple(round(0.5 + 0.05 * i, 2) for i in range(10))
_SIMHASH_MASK: Final = sum(1 << table for table in SIMHASH_TABLES)


@attrs.frozen
class CandidateRow:
    """Recall of candidates at one Jaccard index.

    ``found`` by any table, ``by_simhash`` and ``by_bands`` by those alone; ``formula`` for the
    bands; ``proposed`` is (bands, rows) of datasketch's optimiser for this threshold,
    ``proposed_recall`` its formula.
    """

    jaccard: float
    pairs: int
    found: Interval
    by_simhash: float
    by_bands: float
    formula: float
    proposed: tuple[int, int]
    proposed_recall: float


def set_pair(
    size: int, jaccard: float, rng: np.random.Generator
) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Return two sets of ``size`` random features, as near to a Jaccard index as integers allow.

    >>> a, b = set_pair(300, 0.5, np.random.default_rng(1))
    >>> len(np.intersect1d(a, b)), len(np.union1d(a, b))
    (200, 400)
    """
    shared = round(2 * size * jaccard / (1 + jaccard))
    drawn = rng.integers(0, 1 << 64, 2 * size - shared, np.uint64, endpoint=False)
    return drawn[:size], np.concatenate([drawn[:shared], drawn[size:]])


def fingerprint_of(features: NDArray[np.uint64], options: Options) -> Fingerprint:
    """Return the fingerprint of a page with these shingles, once each, and no figures."""
    from dedup_middleware.signature.comparison import CLAUSE_BYTES, FIGURE_BYTES
    from dedup_middleware.signature.minhash import MinHasher, bands, sketch
    from dedup_middleware.signature.simhash import simhash

    minhash = MinHasher(options.num_perm).of_features(features)
    signed = simhash(features, np.ones(len(features), np.uint32))
    no_bands = np.empty(0, np.uint64)
    return Fingerprint(
        key="",
        key_hash=0,
        exact=0,
        size=len(features),
        simhash=None if signed is None else signed.value,
        minhash=minhash,
        sketch=sketch(minhash),
        bands=bands(minhash, options.band_count, options.rows) if options.band_count else no_bands,
        figures=np.full(FIGURE_BYTES, 0xFF, np.uint8),
        clauses=np.zeros(CLAUSE_BYTES, np.uint8),
        volatile=volatile_bits(signed, options.probes),
    )


def tables_that_find(method: Method, new: Fingerprint, stored: Fingerprint) -> int:
    """Return the mask of tables in which a new page finds a stored one; 0: no candidate."""
    # The first bucket key is that of the document key.
    held = {
        bucket_key.bucket: record(bucket_key, 1) for bucket_key in method.bucket_keys(stored)[1:]
    }
    bucket_keys = (*method.bucket_keys(new)[1:], *method.probes(new))
    found = neighbours(
        bucket_keys,
        [held.get(bucket_key.bucket, b"") for bucket_key in bucket_keys],
        method.scan_distance,
    )
    return int(found.tables[0]) if len(found) else 0


def proposal(jaccard: float, num_perm: int) -> tuple[int, int]:
    """Return the (bands, rows) that datasketch's optimiser chooses for a threshold.

    A missed pair weighs nine times a false candidate, which the rule still rejects.
    """
    from datasketch import MinHashLSH

    lsh = MinHashLSH(threshold=jaccard, num_perm=num_perm, weights=(0.1, 0.9))
    return int(lsh.b), int(lsh.r)


def measure(
    options: Options,
    *,
    jaccards: Sequence[float] = JACCARDS,
    pairs: int = 1000,
    size: int = 300,
    seed: int = 1,
    proposed_perm: int = 128,
    progress: Callable[[int], None] | None = None,
) -> list[CandidateRow]:
    """Measure the recall at each Jaccard index.

    :param pairs: number of generated pairs for each
    :param size: shingles of a page
    :param proposed_perm: number of permutations for the optimiser
    """
    method = choose_method(options)
    rng = np.random.default_rng(seed)
    rows = []
    for jaccard in jaccards:
        masks = []
        for _ in range(pairs):
            a, b = (fingerprint_of(f, options) for f in set_pair(size, jaccard, rng))
            masks.append(tables_that_find(method, b, a))
            if progress is not None:
                progress(1)
        proposed = proposal(jaccard, proposed_perm)
        rows.append(
            CandidateRow(
                jaccard,
                pairs,
                wilson(sum(mask != 0 for mask in masks), pairs),
                sum(mask & _SIMHASH_MASK != 0 for mask in masks) / pairs,
                sum(mask & ~_SIMHASH_MASK != 0 for mask in masks) / pairs,
                band_recall(jaccard, options.band_count, options.rows),
                proposed,
                band_recall(jaccard, *proposed),
            )
        )
    return rows
