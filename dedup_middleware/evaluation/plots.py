"""Plots as SVG and PNG, drawn by matplotlib (extra ``evaluate``) without a screen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dedup_middleware.errors import DedupError
from dedup_middleware.evaluation.candidates import CandidateRow
from dedup_middleware.evaluation.surface import SurfaceCell

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class PlotError(DedupError):
    """Plots can't be drawn; the message says what to install."""


def require_matplotlib() -> None:
    """Check that plots can be drawn, before a long measurement.

    :raises PlotError: matplotlib is not installed
    """
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        raise PlotError(
            "plots need matplotlib: pip install 'dedup-middleware[evaluate]', or use --no-plots"
        ) from None


def _figure(width: float, height: float) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write a figure as ``name.svg`` and ``name.png``; the same figure gives the same SVG."""
    import matplotlib as mpl

    paths = [folder / f"{name}.svg", folder / f"{name}.png"]
    with mpl.rc_context({"svg.hashsalt": "dedup"}):
        figure.savefig(paths[0], metadata={"Date": None})
        figure.savefig(paths[1], dpi=144)
    return paths


def precision_recall(curves: Mapping[str, Sequence[tuple[float, float, float]]]) -> Figure:
    """Precision against recall for each method; points are (threshold, precision, recall)."""
    figure = _figure(8, 6)
    axes = figure.subplots()
    for i, (name, points) in enumerate(curves.items()):
        if not points:
            continue
        precision = [p for _, p, _ in points]
        recall = [r for _, _, r in points]
        style = {"linewidth": 2.5, "zorder": 5} if i == 0 else {"linewidth": 1}
        dashes = ("-", "--", ":", "-.")[i // 10 % 4]
        axes.plot(
            recall, precision, dashes, marker="." if len(points) < 3 else "", label=name, **style
        )
    axes.set(xlabel="recall", ylabel="precision", xlim=(0, 1.02), ylim=(0, 1.02))
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small", loc="lower left", ncols=2)
    return figure


def candidate_recall(rows: Sequence[CandidateRow]) -> Figure:
    """Recall of the tables against the Jaccard index."""
    figure = _figure(7, 5)
    axes = figure.subplots()
    jaccard = [row.jaccard for row in rows]
    axes.plot(jaccard, [row.found.value for row in rows], marker="o", label="all tables")
    axes.fill_between(
        jaccard, [row.found.low for row in rows], [row.found.high for row in rows], alpha=0.2
    )
    axes.plot(jaccard, [row.by_bands for row in rows], marker=".", label="MinHash bands")
    axes.plot(jaccard, [row.formula for row in rows], "--", label="MinHash bands, formula")
    axes.plot(jaccard, [row.by_simhash for row in rows], marker=".", label="SimHash tables")
    axes.set(xlabel="Jaccard index", ylabel="found", ylim=(0, 1.02))
    axes.grid(alpha=0.3)
    axes.legend()
    return figure


def heat_map(cells: Sequence[SurfaceCell]) -> Figure:
    """Recall by kind (rows), intensity (columns) and length (panels)."""
    kinds = list(dict.fromkeys(cell.kind for cell in cells))
    intensities = sorted({cell.intensity for cell in cells})
    lengths = sorted({cell.length for cell in cells})
    known = {(c.kind, c.intensity, c.length): c.recall for c in cells}
    figure = _figure(2 + 4 * len(lengths), 1.5 + 0.35 * len(kinds))
    panels = figure.subplots(1, len(lengths), squeeze=False)[0]
    image: Any = None
    for axes, length in zip(panels, lengths, strict=True):
        values = [[known.get((kind, i, length)) for i in intensities] for kind in kinds]
        grid = [[float("nan") if v is None else v for v in row] for row in values]
        image = axes.imshow(grid, vmin=0, vmax=1, cmap="viridis", aspect="auto")
        axes.set_title(f"from {length} characters")
        axes.set_xticks(range(len(intensities)), [f"{i:g}" for i in intensities])
        axes.set_yticks(range(len(kinds)), kinds if axes is panels[0] else [])
        axes.set_xlabel("intensity")
        for y, row in enumerate(values):
            for x, value in enumerate(row):
                if value is not None:
                    colour = "black" if value > 0.6 else "white"
                    axes.text(
                        x, y, f"{value:.2f}", ha="center", va="center", fontsize=6, color=colour
                    )
    figure.colorbar(image, ax=list(panels), label="recall")
    return figure
