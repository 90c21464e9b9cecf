"""The default rule: a page is a duplicate when a stored page already says what it says.

Containment, not distance, decides, and in one direction: the share of the *new* page's shingles
that the stored page holds. A stored page that is a part of the new one does not make the new one
a duplicate, so nothing that was only in the new page is lost. It is computed from the Jaccard
index J of two sketches (b-bit minwise hashing, Li and Konig 2010) and the numbers of shingles a
(new) and b (stored): |A and B| = J (a + b) / (1 + J), containment = |A and B| / a.

That share is an estimate, so its standard error is taken off first: of a short page in a long one
512 bits say little. On a short page a single word can be the news, so below 128 shingles the part
that may be its own shrinks with the size.

Pages on one template differ in little but their figures: each numeral of the one stands in the
place of another in the other. So when both pages have numerals that the other lacks, they are
different pages, whatever their words. Numerals that only one of them has more (a date line, a cut)
say nothing against it.
"""

from __future__ import annotations

from typing import ClassVar

import attrs
import numpy as np
from numpy.typing import NDArray

from dedup_middleware.fingerprint import Fingerprint
from dedup_middleware.methods.base import Judgement, Method
from dedup_middleware.options import SKETCH_BITS

EXACT = "exact-copy"
CONTAINED = "near-duplicate"
OTHER_FIGURES = "other-figures"
TOO_LITTLE = "too-little-in-common"
TOO_SHORT = "too-short-to-compare"
# Shingles from which a page gets the whole allowance of the threshold.
LONG = 128


def containment(
    jaccard: NDArray[np.float64], size: int, sizes: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Share of a set of ``size`` that sets of ``sizes`` hold, from their Jaccard indexes.

    >>> containment(np.array([0.5]), 100, np.array([200.0]))
    array([1.])
    """
    shared = jaccard * (size + sizes) / (1.0 + jaccard)
    return np.asarray(np.clip(shared / max(size, 1), 0.0, 1.0), np.float64)


def is_exact(page: Fingerprint, candidates: NDArray[np.void]) -> NDArray[np.bool_]:
    """Which candidates have the same normalised text: equal hash, size and numerals."""
    same = candidates["exact"] == np.uint64(page.exact)
    same &= candidates["size"] == np.uint32(page.size)
    return np.asarray(same & np.all(candidates["figures"] == page.figures, axis=1), np.bool_)


def standard_error(
    jaccard: NDArray[np.float64], size: int, sizes: NDArray[np.float64], sketch_bits: int
) -> NDArray[np.float64]:
    """Standard error of :func:`containment` for Jaccard indexes estimated from a 512-bit sketch.

    The variance of b-bit minwise hashing (Li and Konig 2010, theorem 2) over 512 / b minima, times
    the derivative of the containment by the Jaccard index.

    >>> standard_error(np.array([0.0, 1.0]), 100, np.array([100.0, 100.0]), 1).round(3)
    array([0.088, 0.   ])
    """
    chance = 0.5**sketch_bits
    agreement = jaccard + (1.0 - jaccard) * chance
    variance = agreement * (1.0 - agreement) / (SKETCH_BITS // sketch_bits) / (1.0 - chance) ** 2
    slope = (size + sizes) / (max(size, 1) * (1.0 + jaccard) ** 2)
    return np.asarray(np.sqrt(variance) * slope, np.float64)


def required(threshold: float, size: int) -> float:
    """Share of a page of ``size`` shingles that a stored page must hold.

    >>> required(0.8, 1000), required(0.8, 64)
    (0.8, 0.9)
    """
    return 1.0 - (1.0 - threshold) * min(1.0, size / LONG)


@attrs.frozen
class Content(Method):
    """Containment of the new page in a stored one, unless figures took each other's place."""

    name: ClassVar[str] = "content"
    threshold: float
    scan_distance: int
    min_features: int
    sketch_bits: int = 1  # bits that the sketch holds of each minimum

    def judge(self, page: Fingerprint, candidates: NDArray[np.void]) -> Judgement:
        """See :class:`.Method`."""
        from dedup_middleware.signature.sketch import jaccards

        exact = is_exact(page, candidates)
        sizes = candidates["size"].astype(np.float64)
        estimates = jaccards(page.sketch, candidates["sketch"], self.sketch_bits)
        jaccard = np.where(exact, 1.0, estimates)
        similarity = np.where(exact, 1.0, containment(jaccard, page.size, sizes))
        long = (candidates["size"] >= self.min_features) & (page.size >= self.min_features)
        more = np.any(page.figures & ~candidates["figures"], axis=1)
        fewer = np.any(~page.figures & candidates["figures"], axis=1)
        figures = ~(more & fewer)
        error = standard_error(jaccard, page.size, sizes, self.sketch_bits)
        alike = similarity - error >= required(self.threshold, page.size)
        duplicate = exact | (long & alike & figures)
        reasons = tuple(
            EXACT
            if exact[i]
            else TOO_SHORT
            if not long[i]
            else TOO_LITTLE
            if not alike[i]
            else CONTAINED
            if figures[i]
            else OTHER_FIGURES
            for i in range(len(candidates))
        )
        return Judgement(duplicate, similarity, jaccard, reasons)
