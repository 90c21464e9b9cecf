"""The two rules that most tools use; both ignore direction, figures and length.

**SimHash within k bits**, exact up to k = 3 by the pigeonhole principle: if two SimHashes differ in
at most three bits, at least one of their four 16-bit blocks is equal (G. Manku, A. Jain, A. Das
Sarma: Detecting near-duplicates for web crawling, WWW 2007).

**MinHash with LSH**: bands find candidates, the estimated Jaccard index decides (A. Broder: On the
resemblance and containment of documents, 1997; banding after P. Indyk, R. Motwani: Approximate
nearest neighbors, STOC 1998).
"""

from __future__ import annotations

from typing import ClassVar, Final

import attrs
import numpy as np
from numpy.typing import NDArray

from dedup_middleware.methods.base import (
    EXACT,
    TOO_LITTLE,
    TOO_SHORT,
    Judgement,
    Method,
    Payloads,
    Records,
)
from dedup_middleware.methods.content import is_exact
from dedup_middleware.model.buckets import BucketKey, band_bucket_keys, simhash_bucket_keys
from dedup_middleware.model.fingerprint import Fingerprint

WITHIN = "simhash"
TOO_FAR = "too-far"
SIMILAR = "minhash"
#: the default threshold of MinHash in most tools
THRESHOLD: Final = 0.8


def _judged(
    page: Fingerprint, candidates: Records, min_features: int, similarity: NDArray[np.float64],
    jaccard: NDArray[np.float64], is_near: NDArray[np.bool_], reasons: tuple[str, str],
) -> Judgement:  # fmt: skip
    """Judge by one similarity; a short page is a duplicate only of a page with the same text.

    :param reasons: of candidates that are near, and of those that are not
    """
    exact = is_exact(page, candidates)
    long = (candidates["size"] >= min_features) & (page.size >= min_features)
    near, (alike, apart) = long & is_near, reasons
    given = tuple(
        EXACT if exact[i] else alike if near[i] else apart if long[i] else TOO_SHORT
        for i in range(len(candidates))
    )
    similarity, jaccard = np.where(exact, 1.0, similarity), np.where(exact, 1.0, jaccard)
    return Judgement(exact | near, similarity, jaccard, given)


@attrs.frozen
class SimHashMethod(Method):
    """Duplicate if the SimHashes differ in few bits; similarity = 1 - distance / 64."""

    name: ClassVar[str] = "simhash"
    fields: ClassVar[tuple[str, ...]] = ("size", "simhash", "exact", "key")
    distance: int
    min_features: int

    @property
    def scan_distance(self) -> int:  # type: ignore[override]
        """The distance that decides: candidates beyond it would be refused."""
        return self.distance

    @property
    def threshold(self) -> float:  # type: ignore[override]
        """The largest distance of a duplicate, as a similarity."""
        return 1.0 - self.distance / 64.0

    def content_keys(self, page: Fingerprint) -> tuple[BucketKey, ...]:
        """Keys of the four SimHash tables; MinHash bands would only find pages that are refused."""
        return simhash_bucket_keys(page.simhash or 0)

    def judge(self, page: Fingerprint, candidates: Records, payloads: Payloads = ()) -> Judgement:  # noqa: ARG002
        bits = np.bitwise_count(candidates["simhash"] ^ np.uint64(page.simhash or 0))
        similarity = 1.0 - bits.astype(np.float64) / 64.0
        near, reasons = bits <= self.distance, (WITHIN, TOO_FAR)
        return _judged(
            page, candidates, self.min_features, similarity, jaccard(bits), near, reasons
        )


def jaccard(bits: NDArray[np.integer]) -> NDArray[np.float64]:
    """Estimate Jaccard indexes from Hamming distances of SimHashes, for pages of similar size.

    The share of equal bits gives the angle between two pages (Charikar, STOC 2002), its cosine the
    overlap. This method stores no sketch, which would give a better estimate.

    >>> jaccard(np.array([0, 3, 32])).round(3)
    array([1.   , 0.979, 0.   ])
    """
    cosine = np.cos(np.pi * bits.astype(np.float64) / 64.0).clip(0.0, 1.0)
    return np.asarray(cosine / (2.0 - cosine), np.float64)


@attrs.frozen
class MinHashMethod(Method):
    """Duplicate if the Jaccard index of the shingles, estimated from 512-bit sketches, is high."""

    name: ClassVar[str] = "minhash"
    threshold: float
    min_features: int
    sketch_bits: int = 1  # bits of each minimum in the sketch

    @property
    def scan_distance(self) -> int:  # type: ignore[override]
        """0: this method has no SimHash table to scan."""
        return 0

    def content_keys(self, page: Fingerprint) -> tuple[BucketKey, ...]:
        return band_bucket_keys(page.bands)

    def judge(self, page: Fingerprint, candidates: Records, payloads: Payloads = ()) -> Judgement:  # noqa: ARG002
        from dedup_middleware.signature.minhash import jaccards

        found = jaccards(page.sketch, candidates["sketch"], self.sketch_bits)
        near, reasons = found >= self.threshold, (SIMILAR, TOO_LITTLE)
        return _judged(page, candidates, self.min_features, found, found, near, reasons)
