"""Precision, recall and their intervals; folds that share no document."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from dedup_middleware.evaluation import output
from dedup_middleware.evaluation.pairs import (
    Counts,
    best_threshold,
    bootstrap_f1,
    components,
    cross_validate,
    curve,
    folds,
    threshold_at_recall,
    wilson,
)

LABELS = np.array([True] * 20 + [False] * 30)


def test_counts_give_precision_and_recall() -> None:
    """By hand: 3 right of 4 called, 3 found of 5."""
    counts = Counts(true_positive=3, false_positive=1, false_negative=2, true_negative=4)
    assert counts.precision == 0.75
    assert counts.recall == 0.6
    assert counts.f1 == pytest.approx(2 * 0.75 * 0.6 / 1.35)
    assert counts + counts == Counts(6, 2, 4, 8)


def test_shares_of_nothing_are_not_numbers() -> None:
    """Nothing called, nothing to find: no value rather than a zero."""
    assert math.isnan(Counts().precision)
    assert math.isnan(Counts().recall)
    assert math.isnan(Counts().f1)
    assert str(wilson(0, 0)) == "-"


def test_wilson_interval_is_the_published_one() -> None:
    """81 of 263 give 0.2553 to 0.3662 (R. Newcombe, Statistics in Medicine 1998)."""
    interval = wilson(81, 263)
    assert interval.low == pytest.approx(0.2553, abs=5e-5)
    assert interval.high == pytest.approx(0.3662, abs=5e-5)


@given(whole=st.integers(1, 500), part=st.data())
def test_wilson_interval_holds_the_share(whole: int, part: st.DataObject) -> None:
    """Within 0 to 1, around the share, and narrower the more is counted."""
    count = part.draw(st.integers(0, whole))
    interval = wilson(count, whole)
    assert 0 <= interval.low <= interval.value + 1e-12
    assert interval.value - 1e-12 <= interval.high <= 1
    wider = wilson(count * 10, whole * 10)
    assert wider.high - wider.low < interval.high - interval.low


def test_curve_runs_over_all_thresholds() -> None:
    """From everything that has a score to the highest score alone."""
    scores = np.array([0.9, 0.8, 0.8, 0.0])
    labels = np.array([True, False, True, True])
    assert curve(scores, labels) == [(0.8, Counts(2, 1, 1, 0)), (0.9, Counts(1, 0, 2, 1))]


def test_best_threshold_lies_in_the_middle_of_the_gap() -> None:
    """Not on a pair of the training set, so that a slightly lower score still counts."""
    scores = np.where(LABELS, 0.9, 0.5)
    assert best_threshold(scores, LABELS) == pytest.approx(0.7, abs=0.03)


def test_best_threshold_does_not_chase_one_pair() -> None:
    """A lucky pair far below the others does not move it."""
    rng = np.random.default_rng(1)
    scores = np.where(LABELS, rng.uniform(0.8, 1, 50), rng.uniform(0.2, 0.6, 50))
    scores[0] = 0.35  # a duplicate among the others
    assert 0.6 < best_threshold(scores, LABELS) < 0.82


def test_components_join_through_shared_documents() -> None:
    """Pairs that share a document, also through a third, get one number."""
    edges = [(1, 2), (3, 4), (2, 5), (6, 6), (5, 3)]
    assert components(edges) == [0, 0, 0, 1, 0]


@given(
    edges=st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=60),
    seed=st.integers(0, 9),
)
def test_folds_share_no_document(edges: list[tuple[int, int]], seed: int) -> None:
    """Whatever the pairs, no document of one fold is in another."""
    labels = np.array([a < b for a, b in edges])
    fold = folds(components(edges), labels, 5, seed)
    documents = [
        {node for edge, f in zip(edges, fold.tolist(), strict=True) if f == i for node in edge}
        for i in range(5)
    ]
    assert sum(map(len, documents)) == len(set.union(*documents))


def test_folds_spread_the_duplicates() -> None:
    """With groups of one pair each, every fold has its share of both labels."""
    fold = folds(list(range(50)), LABELS, 5, 1)
    assert np.bincount(fold[LABELS]).tolist() == [4] * 5
    assert np.bincount(fold[~LABELS]).tolist() == [6] * 5


def test_cross_validation_counts_every_pair_once() -> None:
    """Scores that tell all apart are right on every fold."""
    scores = np.where(LABELS, 0.9, 0.5)
    counts, chosen = cross_validate(scores, LABELS, list(range(50)))
    assert counts == Counts(20, 0, 0, 30)
    assert len(chosen) == 5


def test_cross_validation_does_not_see_the_test_fold() -> None:
    """Two documents that need other thresholds: each is judged by that of the other."""
    labels = np.array([True, False] * 10)
    groups = [0] * 10 + [1] * 10
    scores = np.array([0.9, 0.8] * 5 + [0.4, 0.3] * 5)
    counts, chosen = cross_validate(scores, labels, groups, count=2)
    assert sorted(chosen) == pytest.approx([0.35, 0.85], abs=0.02)
    # The higher pairs are all called duplicates, of the lower ones none.
    assert counts == Counts(5, 5, 5, 5)


def test_no_threshold_is_chosen_by_nothing() -> None:
    """Where all duplicates share documents there are no others to choose by, so no figure."""
    scores, labels = np.array([0.9, 0.8, 0.1]), np.array([True, True, False])
    counts, _ = cross_validate(scores, labels, [0, 0, 1], 5)
    assert counts == Counts(true_negative=1)
    assert math.isnan(counts.f1)


def test_threshold_at_recall_is_the_highest_that_finds_enough() -> None:
    """Of ten duplicates the ninth highest score decides for 90 %; without any, none is needed."""
    scores = np.array([0.2, 0.3, *(0.5 + i / 100 for i in range(8)), 0.4, 0.6])
    labels = np.array([True, True, *[True] * 8, False, False])
    assert threshold_at_recall(scores, labels, 0.9) == pytest.approx(0.3, abs=0.003)
    assert threshold_at_recall(scores, labels, 0.8) == pytest.approx(0.5, abs=0.003)
    assert threshold_at_recall(scores, labels, 1.0) == pytest.approx(0.2, abs=0.003)
    assert threshold_at_recall(scores, labels, 0.9) <= 0.3
    assert threshold_at_recall(scores, ~labels & labels, 0.9) == 1.0


def test_cross_validation_takes_any_choice_of_a_threshold() -> None:
    """It sees the other folds alone, and what it says is what the fold is judged by."""
    seen: list[int] = []

    def choose(scores: NDArray[np.float64], _: NDArray[np.bool_]) -> float:
        seen.append(len(scores))
        return 0.7

    scores = np.where(LABELS, 0.9, 0.5)
    counts, chosen = cross_validate(scores, LABELS, list(range(50)), choose=choose)
    assert (counts, chosen, seen) == (Counts(20, 0, 0, 30), [0.7] * 5, [40] * 5)


def test_bootstrap_draws_whole_groups() -> None:
    """Pairs of one group say one thing together, so that the interval is wider."""
    said = LABELS.copy()
    said[:5] = False
    alone = bootstrap_f1(said, LABELS, list(range(50)))
    groups = [i // 5 for i in range(50)]
    together = bootstrap_f1(said, LABELS, groups)
    assert alone.low < alone.value < alone.high
    assert together.high - together.low > alone.high - alone.low
    assert bootstrap_f1(said, LABELS, groups) == together


def test_precision_recall_shows_curves_and_points() -> None:
    """A curve for each method with several thresholds, a marker for one that says yes or no; the
    legend names all of them and hides none."""
    pytest.importorskip("matplotlib")
    curves = {
        "content": [(1.0, 1.0, 0.5), (0.8, 0.9, 0.9), (0.5, 0.4, 1.0)],
        "rules": [(1.0, 0.7, 0.4)],
        "md5": [],
        "idf": [(1.0, 0.9, 0.2)],
    }
    (axes,) = output.precision_recall(curves).axes
    assert [line.get_label() for line in axes.lines] == ["content", "rules", "idf"]
    assert [line.get_marker() for line in axes.lines] == ["None", "o", "s"]
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["content", "rules", "idf"]
    assert legend.get_window_extent().x0 >= axes.get_window_extent().x1
