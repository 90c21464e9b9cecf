"""Plots of the papers' experiments."""

from __future__ import annotations

from pathlib import Path

import pytest

from dedup_middleware.evaluation.output import save
from research.runs import seconds_by_pages

pytest.importorskip("matplotlib")


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
