"""Every method on labelled pairs: how often it is right, how sure that is, and where it is wrong.

The rule of a crawl is not symmetric, and labelled pairs rarely say which page came first. So each
pair is judged in both orders: ``b`` new after ``a`` was stored, and ``a`` new after ``b``.
``either`` calls a pair near-duplicates if one order does; compare this with symmetric methods.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import attrs
import numpy as np

from dedup_middleware.evaluation.comparers import Comparer
from dedup_middleware.evaluation.corpus import Pair
from dedup_middleware.evaluation.scores import (
    Counts,
    Labels,
    Scores,
    best_threshold,
    bootstrap_f1,
    components,
    cross_validate,
    curve,
    threshold_at_recall,
    wilson,
)
from dedup_middleware.model.documents import Document
from dedup_middleware.text import figures
from dedup_middleware.text.shingle import Shingler

B_NEW: Final = "b new"
A_NEW: Final = "a new"
EITHER: Final = "either"
ORDERS: Final = (EITHER, B_NEW, A_NEW)
#: divisions of the documents into folds, over which cross-validation is summed up
DIVISIONS: Final = 10
#: required on the documents that a threshold is chosen on, so that others keep .90
RECALL: Final = 0.92
_AT_RECALL: Final = partial(threshold_at_recall, recall=RECALL)


@attrs.frozen(eq=False)
class MethodRun:
    """Verdicts of one method on n pairs.

    ``said`` bool[n] and ``scores`` float64[n] for each order; ``reasons`` of the pair in the order
    that comes nearer to a duplicate; ``sign_seconds`` a document, ``pair_seconds`` a
    comparison, both of processor time, which does not count other programs.
    """

    name: str
    threshold: float
    said: Mapping[str, Labels]
    scores: Mapping[str, Scores]
    reasons: tuple[str, ...]
    sign_seconds: float
    pair_seconds: float


def run(comparer: Comparer, pairs: Sequence[Pair]) -> MethodRun:
    """Judge all pairs in both orders by one method."""
    if pairs:  # kernels compile when first called
        comparer.compare(comparer.sign(pairs[0].a), comparer.sign(pairs[0].b))
    started = time.process_time()
    signed = [(comparer.sign(pair.a), comparer.sign(pair.b)) for pair in pairs]
    signing = time.process_time() - started
    started = time.process_time()
    forward = [comparer.compare(b, a) for a, b in signed]
    backward = [comparer.compare(a, b) for a, b in signed]
    comparing = time.process_time() - started
    said = {
        B_NEW: np.array([c.duplicate for c in forward], np.bool_),
        A_NEW: np.array([c.duplicate for c in backward], np.bool_),
    }
    scores = {
        B_NEW: np.array([comparer.score(b, a) for a, b in signed], np.float64),
        A_NEW: np.array([comparer.score(a, b) for a, b in signed], np.float64),
    }
    said[EITHER] = said[A_NEW] | said[B_NEW]
    scores[EITHER] = np.maximum(scores[A_NEW], scores[B_NEW])
    nearer = [
        max(f, b, key=lambda c: (c.duplicate, c.similarity))
        for f, b in zip(forward, backward, strict=True)
    ]
    total = max(2 * len(pairs), 1)
    return MethodRun(
        comparer.name,
        comparer.threshold,
        said,
        scores,
        tuple(c.reason for c in nearer),
        signing / total,
        comparing / total,
    )


def groups_of(pairs: Sequence[Pair]) -> list[int]:
    """A number for each pair; pairs that share a document, directly or through others, share it."""
    return components([(pair.a.text, pair.b.text) for pair in pairs])


def _validated(
    scores: Scores,
    labels: Labels,
    groups: Sequence[int],
    folds: int,
    choose: Callable[[Scores, Labels], float],
) -> tuple[Counts, list[float]]:
    """Cross-validation in several divisions into folds: one would hang on chance."""
    total, thresholds = Counts(), []
    for seed in range(1, DIVISIONS + 1):
        counts, chosen = cross_validate(scores, labels, groups, folds, seed, choose)
        total += counts
        thresholds += chosen
    return total, thresholds


def rows(
    runs: Sequence[MethodRun], pairs: Sequence[Pair], *, folds: int = 5
) -> list[dict[str, Any]]:
    """The table of all methods in all orders.

    ``cv_`` columns count the pairs judged by thresholds found on other documents, in all divisions
    into folds; ``thresholds`` lists these. Those that end in ``_at_recall`` count the same with the
    highest thresholds that find `RECALL` of the duplicates of the other documents.
    """
    labels = labels_of(pairs)
    groups = groups_of(pairs)
    table = []
    for result in runs:
        for order in ORDERS:
            said, scores = result.said[order], result.scores[order]
            counts = Counts.of(said, labels)
            validated, chosen = _validated(scores, labels, groups, folds, best_threshold)
            at_recall, _ = _validated(scores, labels, groups, folds, _AT_RECALL)
            right = counts.true_positive
            row = {
                "method": result.name,
                "order": order,
                "threshold": result.threshold,
                "pairs": len(pairs),
                "precision": wilson(right, right + counts.false_positive),
                "recall": wilson(right, right + counts.false_negative),
                "f1": bootstrap_f1(said, labels, groups),
                "thresholds": tuple(round(t, 4) for t in chosen),
                "pair_seconds": result.pair_seconds,
                "sign_seconds": result.sign_seconds,
                "cv_precision": validated.precision,
                "cv_recall": validated.recall,
                "cv_f1": validated.f1,
                "cv_precision_at_recall": at_recall.precision,
                "cv_recall_at_recall": at_recall.recall,
            }
            table.append(row)
    return table


def labels_of(pairs: Sequence[Pair]) -> Labels:
    """The labels, bool[n]."""
    return np.array([pair.label for pair in pairs], np.bool_)


def curves(
    runs: Sequence[MethodRun], pairs: Sequence[Pair]
) -> dict[str, list[tuple[float, float, float]]]:
    """Threshold, precision and recall of each method, by falling threshold."""
    labels = labels_of(pairs)
    return {
        result.name: [
            (threshold, counts.precision, counts.recall)
            for threshold, counts in reversed(curve(result.scores[EITHER], labels))
        ]
        for result in runs
    }


def missing_words(a: Document, b: Document, shingler: Shingler) -> tuple[str, ...]:
    """Words of ``a`` that ``b`` lacks or has less often, in the order of the text."""
    first, second = (Counter(shingler.tokens(one.text or "")) for one in (a, b))
    return tuple((first - second).elements())


def missing_figures(a: Document, b: Document) -> tuple[str, ...]:
    """Numerals of ``a`` that ``b`` lacks, in canonical form."""
    known = set(figures.canonical(b.text or ""))
    return tuple(f for f in figures.canonical(a.text or "") if f not in known)


def wrong_pairs(result: MethodRun, pairs: Sequence[Pair]) -> list[dict[str, Any]]:
    """The pairs that a method got wrong and what differs in them, those it was surest of first."""
    labels, shingler = labels_of(pairs), Shingler()
    wrong = np.flatnonzero(result.said[EITHER] != labels).tolist()
    scores = result.scores[EITHER]
    wrong.sort(key=lambda i: (labels[i], -scores[i] if not labels[i] else scores[i]))
    return [
        {
            "method": result.name,
            "pair": pairs[i].key,
            "duplicate": pairs[i].label,
            "type": pairs[i].kind,
            "score": float(scores[i]),
            "reason": result.reasons[i],
            "only in a": missing_words(pairs[i].a, pairs[i].b, shingler),
            "only in b": missing_words(pairs[i].b, pairs[i].a, shingler),
            "figures only in a": missing_figures(pairs[i].a, pairs[i].b),
            "figures only in b": missing_figures(pairs[i].b, pairs[i].a),
        }
        for i in wrong
    ]
