"""Plots of the papers' experiments."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from dedup_middleware.evaluation.output import save
from research.plots import heat_map, seconds_by_pages
from research.surface import SurfaceCell

pytestmark = pytest.mark.skipif(find_spec("matplotlib") is None, reason="matplotlib is missing")


def test_seconds_by_pages_draws_a_line_a_method(tmp_path: Path) -> None:
    """Both scales are logarithmic and the ticks are the sizes measured; the files are written."""
    rows: list[dict[str, float | str]] = [
        {"method": name, "pages": size, "seconds": factor * size**2}
        for size in (50, 100)
        for name, factor in (("md5", 1e-6), ("charset", 1e-5))
    ]
    figure = seconds_by_pages(rows)
    (axes,) = figure.axes
    assert [line.get_label() for line in axes.lines] == ["md5", "charset"]
    assert axes.get_xscale() == axes.get_yscale() == "log"
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["50", "100"]
    written = save(figure, tmp_path, "times")
    assert [path.name for path in written] == ["times.svg", "times.png"]
    assert all(path.stat().st_size > 1000 for path in written)


def test_heat_map_sets_other_pages_apart() -> None:
    """A row a kind and a panel a length; where finding none is right, the label says so."""
    cells = [
        SurfaceCell(kind, intensity, length, 5, recall)
        for kind, recall in (("figures-changed", 0.0), ("truncation", 1.0), ("full-width", None))
        for intensity in (0.1, 0.5)
        for length in (100, 300)
    ]
    *panels, bar = heat_map(cells).axes
    assert [axes.get_title() for axes in panels] == ["from 100 characters", "from 300 characters"]
    labels = [tick.get_text() for tick in panels[0].get_yticklabels()]
    assert labels == ["truncation", "full-width", "figures-changed (0 is right)"]
    assert [text.get_text() for text in panels[0].texts] == ["1.00", "1.00", "0.00", "0.00"]
    assert "near-duplicates" in bar.get_ylabel()
