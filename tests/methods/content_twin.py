"""The default rule in plain NumPy, step by step: what its kernel must say too."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base.options import SKETCH_BITS
from dedup_middleware.methods.base import (
    COMMON,
    CONTAINED,
    EXACT,
    LONG,
    OTHER_FIGURES,
    OTHER_TITLE,
    SAME_HOST,
    TOO_LITTLE,
    TOO_SHORT,
    TURNED,
    Judgement,
)
from dedup_middleware.methods.content import Content, is_exact, required
from dedup_middleware.model.fingerprint import Fingerprint
from dedup_middleware.signature.minhash import jaccards
from tests.signature.differing import differing_figures, turned_clauses

_REASONS = (EXACT, CONTAINED, TOO_SHORT, TOO_LITTLE, OTHER_FIGURES, TURNED, OTHER_TITLE, COMMON)
_SIBLINGS = 3


def judge(rule: Content, page: Fingerprint, candidates: NDArray[np.void]) -> Judgement:
    """What the rule says of a page and its candidates, CONTENT[n]."""
    equal = is_exact(page, candidates)
    other_title = _other_titles(page, candidates)
    exact = equal & ~(other_title & (page.size < LONG))
    sizes = candidates["size"].astype(np.float64)
    jaccard = jaccards(page.sketch, candidates["sketch"], rule.sketch_bits)
    jaccard = np.where(equal, 1.0, jaccard)
    similarity = np.where(equal, 1.0, containment(jaccard, page.size, sizes))
    figures = np.array(differing_figures(page.figures, candidates["figures"]), np.int64)
    turned = turned_clauses(page.clauses, candidates["clauses"])
    long = (candidates["size"] >= rule.min_features) & (page.size >= rule.min_features)
    compared = jaccard if rule.measure == "jaccard" else similarity
    error = _error(rule, jaccard, page.size, sizes)
    sure = compared - error
    need = required(rule.threshold, page.size, rule.measure)
    strict = required(max(rule.threshold, SAME_HOST), page.size, rule.measure)
    alike = long & (sure >= need)
    near = alike & (figures == 0) & (turned == 0)
    same_title = near & ~(other_title & ((sure < strict) | equal))
    kept = same_title & ~exact
    if np.any(kept):
        common = _common(page, candidates, near, sure - error)
        kept = kept & (_beyond(sure, common) >= need)
    duplicate = exact | kept
    # The first that holds; the last if none does.
    rules = (exact, kept, ~long, ~alike, figures > 0, turned > 0, ~same_title)
    places = np.select(rules, range(len(rules)), len(rules)).tolist()
    reasons = tuple(_REASONS[place] for place in places)
    shared = shared_shingles(jaccard, page.size, sizes)
    return Judgement(duplicate, similarity, jaccard, reasons, shared, figures)


def _error(
    rule: Content, jaccard: NDArray[np.float64], size: int, sizes: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Standard error of the similarity in the measure of the method."""
    error = standard_error(jaccard, rule.sketch_bits)
    if rule.measure == "jaccard":
        return error
    # The error times the derivative of the containment by the Jaccard index.
    slope = (size + sizes) / (max(size, 1) * (1.0 + jaccard) ** 2)
    return np.asarray(error * slope, np.float64)


def containment(
    jaccard: NDArray[np.float64], size: int, sizes: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Share of a set of ``size`` that sets of ``sizes`` hold, from their Jaccard indexes.

    >>> containment(np.array([0.5]), 100, np.array([200.0]))
    array([1.])
    """
    shared = jaccard * (size + sizes) / (1.0 + jaccard)
    return np.asarray(np.clip(shared / max(size, 1), 0.0, 1.0), np.float64)


def shared_shingles(
    jaccard: NDArray[np.float64], size: int, sizes: NDArray[np.float64]
) -> NDArray[np.int64]:
    """Number of shingles in common, int64[n], from Jaccard indexes and sizes.

    >>> shared_shingles(np.array([0.5]), 100, np.array([200.0]))
    array([100])
    """
    shared = jaccard * (size + sizes) / (1.0 + jaccard)
    return np.rint(np.minimum(shared, np.minimum(size, sizes))).astype(np.int64)


def standard_error(jaccard: NDArray[np.float64], sketch_bits: int) -> NDArray[np.float64]:
    """Standard error of Jaccard indexes estimated from a 512-bit sketch.

    The square root of the variance of b-bit minwise hashing (Li and Konig 2010, theorem 2) over
    512 / b minima.

    >>> standard_error(np.array([0.0, 1.0]), 1).round(3)
    array([0.044, 0.   ])
    """
    chance = 0.5**sketch_bits
    agreement = jaccard + (1.0 - jaccard) * chance
    variance = agreement * (1.0 - agreement) / (SKETCH_BITS // sketch_bits) / (1.0 - chance) ** 2
    return np.asarray(np.sqrt(variance), np.float64)


def _same_host(page: Fingerprint, candidates: NDArray[np.void]) -> NDArray[np.bool_]:
    """Which candidates are other pages of the page's host."""
    if not page.host:
        return np.zeros(len(candidates), np.bool_)
    same = candidates["host"] == np.uint16(page.host)
    return np.asarray(same & (candidates["key"] != np.uint64(page.key_hash)), np.bool_)


def _other_titles(page: Fingerprint, candidates: NDArray[np.void]) -> NDArray[np.bool_]:
    """Which candidates are pages of the page's host under another title."""
    if not page.title:
        return np.zeros(len(candidates), np.bool_)
    titles = candidates["title"]
    other = (titles != 0) & (titles != np.uint16(page.title))
    return np.asarray(other & _same_host(page, candidates), np.bool_)


def _common(
    page: Fingerprint,
    candidates: NDArray[np.void],
    near: NDArray[np.bool_],
    similarity: NDArray[np.float64],
) -> float:
    """Share of the page that three other pages of its host are sure to hold, 0 to 1.

    :param near: candidates that would make the page a duplicate; they are not counted
    :param similarity: two standard errors less than the estimate
    """
    others = np.sort(similarity[_same_host(page, candidates) & ~near])
    return max(0.0, float(others[-_SIBLINGS])) if len(others) >= _SIBLINGS else 0.0


def _beyond(similarity: NDArray[np.float64], common: float) -> NDArray[np.float64]:
    """Similarity on the part of a page that is not common.

    >>> _beyond(np.array([0.9]), 0.5)
    array([0.8])
    """
    return (similarity - common) / max(1.0 - common, 1e-9)
