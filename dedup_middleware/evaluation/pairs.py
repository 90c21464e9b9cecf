"""Measures methods on labelled pairs: how often each is right, how certain that is, and its errors.

The rule of a crawl is not symmetric, and labels rarely say which page came first. So each pair is
judged in both orders: ``b`` new after ``a`` was stored, and ``a`` new after ``b``. ``either`` calls
a pair near-duplicates if one order does; symmetric methods are compared with this.
"""

from __future__ import annotations

import math
import random
import time
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from itertools import product
from operator import add
from typing import Any, Final

import attrs
import numpy as np
from numpy.typing import NDArray

from dedup_middleware.evaluation.comparers import Comparer
from dedup_middleware.evaluation.corpus import Pair
from dedup_middleware.model.documents import Document
from dedup_middleware.text import figures
from dedup_middleware.text.shingle import Shingler

Labels = NDArray[np.bool_]
Scores = NDArray[np.float64]

B_NEW: Final = "b new"
A_NEW: Final = "a new"
EITHER: Final = "either"
ORDERS: Final = (EITHER, B_NEW, A_NEW)
#: number of divisions of the documents into folds, over which cross-validation is summed
DIVISIONS: Final = 10
#: recall required where a threshold is chosen, so that it is about .90 on other documents
RECALL: Final = 0.92


@attrs.frozen(eq=False)
class MethodRun:
    """Verdicts of one method on n pairs; seconds are of processor time."""

    name: str
    threshold: float
    said: Mapping[str, Labels]  # bool[n] for each order
    scores: Mapping[str, Scores]  # float64[n] for each order
    reasons: tuple[str, ...]  # in the order with the higher score
    sign_seconds: float  # per document
    pair_seconds: float  # per comparison


def run(comparer: Comparer, pairs: Sequence[Pair]) -> MethodRun:
    """Judge all pairs in both orders by one method."""
    if pairs:  # compiles the kernels
        comparer.compare(comparer.sign(pairs[0].a), comparer.sign(pairs[0].b))
    started = time.process_time()
    signed = [(comparer.sign(pair.a), comparer.sign(pair.b)) for pair in pairs]
    signing = time.process_time() - started
    orders = {B_NEW: [(b, a) for a, b in signed], A_NEW: signed}
    started = time.process_time()
    found = {order: [comparer.compare(*two) for two in every] for order, every in orders.items()}
    comparing = time.process_time() - started
    said, scores = {}, {}
    for order, every in orders.items():
        said[order] = np.array([verdict.duplicate for verdict in found[order]], np.bool_)
        scores[order] = np.array([comparer.score(*two) for two in every], np.float64)
    said[EITHER] = said[A_NEW] | said[B_NEW]
    scores[EITHER] = np.maximum(scores[A_NEW], scores[B_NEW])
    nearer = (
        max(both, key=lambda verdict: (verdict.duplicate, verdict.similarity))
        for both in zip(found[B_NEW], found[A_NEW], strict=True)
    )
    reasons, total = tuple(verdict.reason for verdict in nearer), max(2 * len(pairs), 1)
    name, threshold = comparer.name, comparer.threshold
    return MethodRun(name, threshold, said, scores, reasons, signing / total, comparing / total)


def groups_of(pairs: Sequence[Pair]) -> list[int]:
    """Return a group number for each pair; pairs linked by common documents are in one group."""
    return components([(pair.a.text, pair.b.text) for pair in pairs])


def rows(
    runs: Sequence[MethodRun], pairs: Sequence[Pair], *, folds: int = 5
) -> list[dict[str, Any]]:
    """Return table rows for all methods in all orders.

    ``cv_`` columns count pairs judged by thresholds chosen on other documents, over all divisions
    into folds; ``thresholds`` lists these. ``_at_recall`` columns use the highest thresholds that
    find `RECALL` of the duplicates in the other documents.
    """
    labels = labels_of(pairs)
    groups = groups_of(pairs)
    at_least = partial(threshold_at_recall, recall=RECALL)
    seeds = range(1, DIVISIONS + 1)  # a single division would be chance
    table = []
    for result, order in product(runs, ORDERS):
        said, scores = result.said[order], result.scores[order]
        counts = Counts.of(said, labels)
        validated, chosen = cross_validate(scores, labels, groups, folds, seeds)
        at_recall, _ = cross_validate(scores, labels, groups, folds, seeds, at_least)
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
    """Return the labels, bool[n]."""
    return np.array([pair.label for pair in pairs], np.bool_)


def curves(
    runs: Sequence[MethodRun], pairs: Sequence[Pair]
) -> dict[str, list[tuple[float, float, float]]]:
    """Return (threshold, precision, recall) of each method, by falling threshold."""
    labels = labels_of(pairs)
    return {
        result.name: [
            (threshold, counts.precision, counts.recall)
            for threshold, counts in reversed(curve(result.scores[EITHER], labels))
        ]
        for result in runs
    }


def missing_words(a: Document, b: Document, shingler: Shingler) -> tuple[str, ...]:
    """Return the words of ``a`` that ``b`` lacks or has less often, in text order."""
    first, second = (Counter(shingler.tokens(one.text or "")) for one in (a, b))
    return tuple((first - second).elements())


def missing_figures(a: Document, b: Document) -> tuple[str, ...]:
    """Return the numerals of ``a`` that ``b`` lacks, in canonical form."""
    known = set(figures.canonical(b.text or ""))
    return tuple(f for f in figures.canonical(a.text or "") if f not in known)


def wrong_pairs(result: MethodRun, pairs: Sequence[Pair]) -> list[dict[str, Any]]:
    """List the wrongly judged pairs and how their texts differ, the most confident errors first."""
    labels, shingler = labels_of(pairs), Shingler()
    wrong = np.flatnonzero(result.said[EITHER] != labels).tolist()
    scores = result.scores[EITHER]
    wrong.sort(key=lambda i: (labels[i], -scores[i] if not labels[i] else scores[i]))
    return [
        {
            "method": result.name,
            "pair": pair.key,
            "duplicate": pair.label,
            "type": pair.kind,
            "score": float(scores[i]),
            "reason": result.reasons[i],
            "only in a": missing_words(pair.a, pair.b, shingler),
            "only in b": missing_words(pair.b, pair.a, shingler),
            "figures only in a": missing_figures(pair.a, pair.b),
            "figures only in b": missing_figures(pair.b, pair.a),
        }
        for i, pair in ((i, pairs[i]) for i in wrong)
    ]


# Precision and recall with confidence intervals, and thresholds that are not fitted to the test.
# Thresholds that are tried, in steps of 0.0025.
_GRID = np.linspace(0.0525, 1.0, 380)
_SMOOTHING = 8  # thresholds averaged on each side, 0.02
_ROUNDS = 1000  # of the bootstrap


@attrs.frozen
class Interval:
    """A share with its confidence interval; NaN if there is nothing to count."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        if math.isnan(self.value):
            return "-"
        return f"{self.value:.3f} [{self.low:.2f}, {self.high:.2f}]"


@attrs.frozen
class Counts:
    """Counts of verdicts on pairs by label."""

    true_positive: int = 0
    false_positive: int = 0
    false_negative: int = 0
    true_negative: int = 0

    @classmethod
    def of(cls, said: Labels, labels: Labels) -> Counts:
        """Count verdicts, bool[n], against labels, bool[n]."""
        cells = (said & labels, said & ~labels, ~said & labels, ~said & ~labels)
        return cls(*map(int, map(np.count_nonzero, cells)))

    def __add__(self, other: Counts) -> Counts:
        return Counts(*map(add, attrs.astuple(self), attrs.astuple(other)))

    @property
    def precision(self) -> float:
        """Share of reported duplicates that are duplicates; NaN if none was reported."""
        return _share(self.true_positive, self.true_positive + self.false_positive)

    @property
    def recall(self) -> float:
        """Share of the duplicates that were reported; NaN if there are none."""
        return _share(self.true_positive, self.true_positive + self.false_negative)

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall; NaN if both are undefined."""
        wrong = self.false_positive + self.false_negative
        return _share(2 * self.true_positive, 2 * self.true_positive + wrong)


def _share(part: int, whole: int) -> float:
    return part / whole if whole else math.nan


def wilson(part: int, whole: int) -> Interval:
    """Return Wilson's 95 % interval of a share (E. B. Wilson, JASA 1927).

    >>> str(wilson(9, 10))
    '0.900 [0.60, 0.98]'
    """
    if not whole:
        return Interval(math.nan, math.nan, math.nan)
    share, z = part / whole, 1.96  # standard deviations
    middle = share + z * z / (2 * whole)
    spread = z * math.sqrt(share * (1 - share) / whole + z * z / (4 * whole * whole))
    scale = 1 + z * z / whole
    return Interval(share, max(0.0, (middle - spread) / scale), min(1.0, (middle + spread) / scale))


def components(edges: Sequence[tuple[Hashable, Hashable]]) -> list[int]:
    """Number the connected component of each edge of a graph, from 0 in order.

    >>> components([("a", "b"), ("c", "d"), ("b", "e")])
    [0, 1, 0]
    """
    parent: dict[Hashable, Hashable] = {}

    def root(node: Hashable) -> Hashable:
        while parent.setdefault(node, node) != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    for a, b in edges:
        parent[root(a)] = root(b)
    numbers: dict[Hashable, int] = {}
    return [numbers.setdefault(root(a), len(numbers)) for a, _ in edges]


def bootstrap_f1(said: Labels, labels: Labels, groups: Sequence[int]) -> Interval:
    """Return F1 with its 95 % percentile interval; groups are resampled as a whole."""
    value = Counts.of(said, labels).f1
    count = max(groups, default=-1) + 1
    if not count:
        return Interval(math.nan, math.nan, math.nan)
    positive, false, missed = (
        np.bincount(np.asarray(groups), weights=part.astype(np.float64), minlength=count)
        for part in (said & labels, said & ~labels, ~said & labels)
    )
    drawn = np.random.default_rng(1).integers(0, count, (_ROUNDS, count))
    right = 2 * positive[drawn].sum(axis=1)
    whole = right + (false + missed)[drawn].sum(axis=1)
    known = right[whole > 0] / whole[whole > 0]
    if not len(known):
        return Interval(value, math.nan, math.nan)
    low, high = np.percentile(known, (2.5, 97.5))
    return Interval(value, float(low), float(high))


def curve(scores: Scores, labels: Labels) -> list[tuple[float, Counts]]:
    """Return the counts at every distinct score above 0, where a verdict changes."""
    found = np.unique(scores[scores > 0]).tolist()
    return [(threshold, Counts.of(scores >= threshold, labels)) for threshold in found]


def best_threshold(scores: Scores, labels: Labels) -> float:
    """Return the threshold with the largest F1, where F1 is averaged over thresholds within 0.02,
    as it has narrow peaks by chance with few pairs. Of several equal maxima the middle is taken."""
    ordered = np.sort(scores)
    positive = np.sort(scores[labels])
    called = len(ordered) - np.searchsorted(ordered, _GRID)
    right = len(positive) - np.searchsorted(positive, _GRID)
    f1 = 2 * right / np.maximum(called + len(positive), 1)
    padded = np.pad(f1, _SMOOTHING, mode="edge")
    window = np.ones(2 * _SMOOTHING + 1) / (2 * _SMOOTHING + 1)
    smooth = np.convolve(padded, window, mode="valid")
    best = np.flatnonzero(smooth >= smooth.max() - 1e-12)
    return float(_GRID[best[len(best) // 2]])


def threshold_at_recall(scores: Scores, labels: Labels, recall: float) -> float:
    """Return the highest of the thresholds tried that reaches this recall, else the lowest one."""
    positive = np.sort(scores[labels])
    right = len(positive) - np.searchsorted(positive, _GRID)
    enough = np.flatnonzero(right >= recall * len(positive))
    return float(_GRID[enough[-1] if len(enough) else 0])


def folds(groups: Sequence[int], labels: Labels, count: int, seed: int) -> NDArray[np.int64]:
    """Assign pairs to folds by whole groups, with similar numbers of duplicates in each fold."""
    sizes: dict[int, list[int]] = {}
    for i, group in enumerate(groups):
        sizes.setdefault(group, []).append(i)
    order = sorted(sizes)
    random.Random(seed).shuffle(order)
    order.sort(key=lambda g: (-int(np.count_nonzero(labels[sizes[g]])), -len(sizes[g])))
    load = [(0, 0)] * count
    result = np.zeros(len(groups), np.int64)
    for group in order:
        members = sizes[group]
        fold = load.index(min(load))
        result[members] = fold
        positives, total = load[fold]
        load[fold] = (positives + int(np.count_nonzero(labels[members])), total + len(members))
    return result


def cross_validate(
    scores: Scores,
    labels: Labels,
    groups: Sequence[int],
    count: int = 5,
    seeds: Sequence[int] = (1,),
    choose: Callable[[Scores, Labels], float] = best_threshold,
) -> tuple[Counts, list[float]]:
    """Count over all folds, each judged by a threshold chosen on the others; a fold that has all
    duplicates is left out.

    :param groups: pairs of one group stay in one fold
    :param seeds: one for each division into folds
    :returns: the summed counts of all divisions, and the threshold of each fold
    """
    total, chosen = Counts(), []
    for seed in seeds:
        fold = folds(groups, labels, count, seed)
        for test in (fold == i for i in range(count)):
            if labels[~test].any():  # choosing a threshold needs a duplicate
                chosen.append(choose(scores[~test], labels[~test]))
                total += Counts.of(scores[test] >= chosen[-1], labels[test])
    return total, chosen
