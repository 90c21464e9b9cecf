"""SimHash with k bits: what most tools do, exact by the pigeonhole principle up to k = 3.

Four tables and k <= 3: of four 16-bit blocks that differ in at most three bits one is equal
(Manku, Jain and Das Sarma: Detecting near-duplicates for web crawling, WWW 2007).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import attrs
import numpy as np
from numpy.typing import NDArray

from dedup_middleware.methods.base import EXACT, TOO_SHORT, Judgement, Method
from dedup_middleware.methods.content import is_exact
from dedup_middleware.model.buckets import BucketKey, simhash_bucket_keys
from dedup_middleware.model.fingerprint import Fingerprint

WITHIN = "simhash"
TOO_FAR = "too-far"


@attrs.frozen
class SimHashMethod(Method):
    """Hamming distance of the SimHashes; similarity = 1 - distance / 64."""

    name: ClassVar[str] = "simhash"
    fields: ClassVar[tuple[str, ...]] = ("size", "simhash", "exact", "key")
    distance: int
    min_features: int

    @property
    def scan_distance(self) -> int:  # type: ignore[override]
        """Candidates beyond the distance that decides are of no use."""
        return self.distance

    @property
    def threshold(self) -> float:  # type: ignore[override]
        """The distance as a similarity."""
        return 1.0 - self.distance / 64.0

    def content_keys(self, page: Fingerprint) -> tuple[BucketKey, ...]:
        """The four tables; MinHash bands would only find what the rule refuses."""
        return simhash_bucket_keys(page.simhash or 0)

    def judge(
        self,
        page: Fingerprint,
        candidates: NDArray[np.void],
        payloads: Sequence[bytes] = (),  # noqa: ARG002 - it keeps none
    ) -> Judgement:
        """Judge a page against candidates by this rule."""
        exact = is_exact(page, candidates)
        bits = np.bitwise_count(candidates["simhash"] ^ np.uint64(page.simhash or 0))
        long = (candidates["size"] >= self.min_features) & (page.size >= self.min_features)
        near = long & (bits <= self.distance)
        reasons = tuple(
            EXACT if exact[i] else WITHIN if near[i] else TOO_FAR if long[i] else TOO_SHORT
            for i in range(len(candidates))
        )
        similarity = np.where(exact, 1.0, 1.0 - bits.astype(np.float64) / 64.0)
        return Judgement(exact | near, similarity, np.where(exact, 1.0, jaccard(bits)), reasons)


def jaccard(bits: NDArray[np.integer]) -> NDArray[np.float64]:
    """Jaccard indexes estimated from Hamming distances of SimHashes, for pages of like size.

    The share of equal bits gives the angle between the two pages (Charikar, STOC 2002), its cosine
    is the overlap. No sketch is kept for this method, so there is no better estimate.

    >>> jaccard(np.array([0, 3, 32])).round(3)
    array([1.   , 0.979, 0.   ])
    """
    cosine = np.cos(np.pi * bits.astype(np.float64) / 64.0).clip(0.0, 1.0)
    return np.asarray(cosine / (2.0 - cosine), np.float64)
