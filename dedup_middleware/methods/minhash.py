"""MinHash with LSH: bands find candidates, the estimated Jaccard index decides.

A. Broder: On the resemblance and containment of documents, 1997; banding after P. Indyk,
R. Motwani: Approximate nearest neighbors, STOC 1998. What most tools for text collections do,
without looking at direction, figures or length.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

import attrs
import numpy as np
from numpy.typing import NDArray

from dedup_middleware.methods.base import EXACT, TOO_LITTLE, TOO_SHORT, Judgement, Method
from dedup_middleware.methods.content import is_exact
from dedup_middleware.model.buckets import BucketKey, band_bucket_keys
from dedup_middleware.model.fingerprint import Fingerprint

SIMILAR = "minhash"
#: the threshold that most tools use by default
THRESHOLD: Final = 0.8


@attrs.frozen
class MinHashMethod(Method):
    """Jaccard index of the shingles, estimated from the 512-bit sketches."""

    name: ClassVar[str] = "minhash"
    threshold: float
    min_features: int
    sketch_bits: int = 1  # bits that the sketch holds of each minimum

    @property
    def scan_distance(self) -> int:  # type: ignore[override]
        """There is no SimHash table to scan."""
        return 0

    def content_keys(self, page: Fingerprint) -> tuple[BucketKey, ...]:
        """The bands."""
        return band_bucket_keys(page.bands)

    def judge(
        self,
        page: Fingerprint,
        candidates: NDArray[np.void],
        payloads: Sequence[bytes] = (),  # noqa: ARG002 - it keeps none
    ) -> Judgement:
        """Judge a page against candidates by this rule."""
        from dedup_middleware.signature.minhash import jaccards

        exact = is_exact(page, candidates)
        long = (candidates["size"] >= self.min_features) & (page.size >= self.min_features)
        estimates = jaccards(page.sketch, candidates["sketch"], self.sketch_bits)
        jaccard = np.where(exact, 1.0, estimates)
        near = long & (jaccard >= self.threshold)
        reasons = tuple(
            EXACT if exact[i] else SIMILAR if near[i] else TOO_LITTLE if long[i] else TOO_SHORT
            for i in range(len(candidates))
        )
        return Judgement(exact | near, jaccard, jaccard, reasons)
