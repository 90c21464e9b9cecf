"""Plots hold what a reader looks for."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from dedup_middleware.evaluation import output

pytestmark = pytest.mark.skipif(find_spec("matplotlib") is None, reason="matplotlib is missing")


def test_precision_recall_shows_curves_and_points() -> None:
    """A curve for each method with several thresholds, a marker for one that says yes or no; the
    legend names all of them and hides none."""
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
