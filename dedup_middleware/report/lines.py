"""From which threshold on a page would be kept: its place in the threshold explorer."""

from __future__ import annotations

import math
from collections.abc import Callable

from dedup_middleware import fingerprint as fp
from dedup_middleware.journal.entries import Drop
from dedup_middleware.methods.base import Method
from dedup_middleware.methods.content import Content, required
from dedup_middleware.options import SKETCH_BITS

Line = Callable[[Drop], "float | None"]
_STEP = 1e-4  # a line is told in four digits


def line_of(method: Method) -> Line:
    """A function that gives the largest threshold at which a page would be dropped.

    For most methods that is its similarity. The default one asks more of short pages and takes the
    standard error of the estimate off, so that pages above the threshold may be kept.
    """
    if isinstance(method, Content):
        return lambda drop: _of_content(drop, method)
    return lambda drop: drop.similarity


def _of_content(drop: Drop, method: Content) -> float | None:
    similarity, jaccard, shared = drop.similarity, drop.jaccard, drop.shared
    if not similarity or not jaccard or not shared:
        return similarity
    size = max(1, round(shared / similarity))
    both = shared * (1 + jaccard) / jaccard
    # The same as in the rule: Li and Konig 2010, theorem 2.
    chance = 0.5**method.sketch_bits
    agreement = jaccard + (1 - jaccard) * chance
    variance = agreement * (1 - agreement) / (SKETCH_BITS // method.sketch_bits)
    error = math.sqrt(variance) / (1 - chance)
    compared = jaccard
    if method.measure != "jaccard":
        compared, error = similarity, error * both / (size * (1 + jaccard) ** 2)
    allowance = 1 - required(0.0, size, method.measure)
    return max(0.0, 1 - (1 - compared + error) / allowance)


def settled(line: float | None, drop: Drop, threshold: float) -> float | None:
    """The line of a page on the side of the threshold in force where the page was decided.

    The line is an estimate, because a journal has rounded numbers; the decision is a fact.
    """
    if line is None:
        return None
    if drop.outcome == fp.NEW:
        return min(line, threshold - _STEP)
    return max(line, threshold)
