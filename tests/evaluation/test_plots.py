"""Plots hold what a reader looks for."""

from __future__ import annotations

import pytest

from dedup_middleware.evaluation import output
from dedup_middleware.evaluation.surface import SurfaceCell

pytest.importorskip("matplotlib")


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


def test_heat_map_sets_other_pages_apart() -> None:
    """A row a kind and a panel a length; where finding none is right, the label says so."""
    cells = [
        SurfaceCell(kind, intensity, length, 5, recall)
        for kind, recall in (("figures-changed", 0.0), ("truncation", 1.0), ("full-width", None))
        for intensity in (0.1, 0.5)
        for length in (100, 300)
    ]
    *panels, bar = output.heat_map(cells).axes
    assert [axes.get_title() for axes in panels] == ["from 100 characters", "from 300 characters"]
    labels = [tick.get_text() for tick in panels[0].get_yticklabels()]
    assert labels == ["truncation", "full-width", "figures-changed (0 is right)"]
    assert [text.get_text() for text in panels[0].texts] == ["1.00", "1.00", "0.00", "0.00"]
    assert "near-duplicates" in bar.get_ylabel()
