"""The rule by sketches, ``DEDUP_EVIDENCE=sketch``: similarity is estimated from 512 bits a page.

Similarity decides, not distance, in one of three measures. They are computed from the Jaccard
index J of two sketches (b-bit minwise hashing, Li and Konig 2010) and the numbers of shingles a
(new) and b (stored): |A and B| = J (a + b) / (1 + J).

* **containment** = |A and B| / a, the share of the *new* page's shingles that the stored page
  holds. A stored page that is a part of the new one does not make the new one a duplicate, so
  nothing that was only in the new page is lost.
* **novelty** is the same, but what a page may have of its own no longer grows with its size once
  it has 128 shingles: about a sentence, however long the page is.
* **jaccard** = J, in which both pages count alike: an excerpt of a stored page is kept too.

Each is an estimate, so its standard error is taken off first: of a short page in a long one
512 bits say little. On a short page a single word can be the news, so below 128 shingles the part
that may be its own shrinks with the size.

When both pages have another figure, or the name of another person, in one place, they are different
pages (:mod:`dedup_middleware.text.places`), and so are they if a clause says the opposite
(:mod:`dedup_middleware.text.clauses`). Figures that only one of them has do not count against it.

What a site writes on all of its pages makes them alike without saying the same. On one host,
therefore, a page under another title must be held to 95 %, and one of fewer than 128 shingles is
new even if its text is the same, since that may be all that extraction found. What three stored
pages of the host hold too, although none of them makes the page a duplicate, is no evidence:
similarity is measured on the rest. Both can only keep a page that would be dropped otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

import attrs
import numpy as np
from numpy.typing import NDArray

from dedup_middleware.methods.base import (
    CONTAINED_CODE,
    LONG,
    REASONS,
    SAME_HOST,
    Judgement,
    Method,
    probe_bucket_keys,
)
from dedup_middleware.model.buckets import BucketKey, BucketKeys
from dedup_middleware.model.fingerprint import Fingerprint
from dedup_middleware.model.records import CONTENT

_OFFSETS: Final = {name: field[1] for name, field in (CONTENT.fields or {}).items()}
FIGURES_AT, CLAUSES_AT = _OFFSETS["figures"], _OFFSETS["clauses"]
_SKETCH_AT = _OFFSETS["sketch"]


def is_exact(page: Fingerprint, candidates: NDArray[np.void]) -> NDArray[np.bool_]:
    """Which candidates have the same normalised text: equal hash of text and figures, and size."""
    same = candidates["exact"] == np.uint64(page.exact)
    return np.asarray(same & (candidates["size"] == np.uint32(page.size)), np.bool_)


def required(threshold: float, size: int, measure: str = "containment") -> float:
    """Similarity that a page of ``size`` shingles needs to be a duplicate.

    >>> required(0.8, 1000), required(0.8, 64), round(required(0.8, 1280, "novelty"), 3)
    (0.8, 0.9, 0.98)
    """
    share = min(1.0, size / LONG)
    if measure == "novelty" and size > LONG:
        share = LONG / size
    return 1.0 - (1.0 - threshold) * share


@attrs.frozen
class Content(Method):
    """Similarity of the new page to a stored one, unless figures took each other's place.

    :param measure: ``containment``, ``jaccard`` or ``novelty``
    """

    name: ClassVar[str] = "content"
    settles_exact: ClassVar[bool] = True
    threshold: float
    scan_distance: int
    min_features: int
    sketch_bits: int = 1  # bits that the sketch holds of each minimum
    measure: str = "containment"

    def judge(
        self,
        page: Fingerprint,
        candidates: NDArray[np.void],
        payloads: Sequence[bytes] = (),  # noqa: ARG002 - it keeps none
    ) -> Judgement:
        from dedup_middleware.methods.content_rule import decide
        from dedup_middleware.signature.comparison import compare

        count = len(candidates)
        candidates = np.ascontiguousarray(candidates)
        records = candidates.view(np.uint8).reshape(count, CONTENT.itemsize)
        jaccard, figures, turned = compare(
            records,
            page.figures,
            FIGURES_AT,
            page.clauses,
            CLAUSES_AT,
            page.sketch,
            _SKETCH_AT,
            self.sketch_bits,
        )
        similarity, sure = np.empty(count), np.empty(count)
        shared, codes = np.empty(count, np.int64), np.empty(count, np.int64)
        decide(
            candidates,
            jaccard,
            figures,
            turned,
            similarity,
            sure,
            shared,
            codes,
            page.size,
            page.host,
            page.title,
            page.exact,
            page.key_hash,
            required(self.threshold, page.size, self.measure),
            required(max(self.threshold, SAME_HOST), page.size, self.measure),
            self.min_features,
            self.sketch_bits,
            self.measure == "jaccard",
        )
        reasons = tuple([REASONS[code] for code in codes.tolist()])
        return Judgement(
            codes <= CONTAINED_CODE, similarity, jaccard, reasons, shared, figures, turned
        )

    def bucket_key_array(self, page: Fingerprint) -> BucketKeys:
        if page.simhash is None or page.size < self.min_features:
            return BucketKeys.of(self.bucket_keys(page))
        from dedup_middleware.methods.content_rule import whole_page  # numba stays lazy

        return BucketKeys(whole_page(page.key_hash, page.simhash, page.bands, page.anchors))

    def probes(self, page: Fingerprint) -> tuple[BucketKey, ...]:
        """Further buckets to look into: those of the SimHash with volatile bits flipped."""
        if not page.volatile or page.simhash is None or self.is_short(page):
            return ()
        return probe_bucket_keys(page.simhash, page.volatile)
