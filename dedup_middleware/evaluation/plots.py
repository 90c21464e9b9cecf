"""Plots as SVG and PNG, drawn by matplotlib (extra ``evaluate``) without a screen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dedup_middleware.errors import DedupError
from dedup_middleware.evaluation.candidates import CandidateRow
from dedup_middleware.evaluation.edits import OTHER_PAGE
from dedup_middleware.evaluation.surface import SurfaceCell

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MARKERS: Final = "osD^vPX*"


class PlotError(DedupError):
    """Plots can't be drawn; the message names what to install."""


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


def new_figure(width: float, height: float) -> Figure:
    """An empty figure; sizes in inches."""
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
    """Precision against recall for each method; points are (threshold, precision, recall).

    A method without a graded similarity has one point.
    """
    figure = new_figure(10, 6)
    axes = figure.subplots()
    lines = dots = 0
    for i, (name, points) in enumerate(curves.items()):
        if not points:
            continue
        precision = [p for _, p, _ in points]
        recall = [r for _, _, r in points]
        if len(points) < 3:
            axes.plot(recall, precision, _MARKERS[dots % len(_MARKERS)], label=name, markersize=8)
            dots += 1
            continue
        width, above = (3.5, 5) if i == 0 else (1.5, 2)
        style = ("-", "--", ":")[lines // 8 % 3]
        colour = f"C{lines % 8}"
        axes.plot(recall, precision, style, color=colour, lw=width, zorder=above, label=name)
        lines += 1
    axes.set(xlabel="recall", ylabel="precision", xlim=(0, 1.02), ylim=(0, 1.02))
    axes.grid(alpha=0.3)
    # Beside the curves, which leave no corner free.
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1), borderaxespad=0, handlelength=3)
    return figure


def candidate_recall(rows: Sequence[CandidateRow]) -> Figure:
    """Recall of the tables against the Jaccard index."""
    figure = new_figure(7, 5)
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
    """Recall by kind (rows), intensity (columns) and length (panels).

    Below the line are the kinds that make another page, of which none should be found.
    """
    kinds = sorted(dict.fromkeys(cell.kind for cell in cells), key=lambda kind: kind in OTHER_PAGE)
    labels = [f"{kind} (0 is right)" if kind in OTHER_PAGE else kind for kind in kinds]
    border = sum(kind not in OTHER_PAGE for kind in kinds) - 0.5
    intensities = sorted({cell.intensity for cell in cells})
    lengths = sorted({cell.length for cell in cells})
    known = {(c.kind, c.intensity, c.length): c.recall for c in cells}
    figure = new_figure(2 + 4 * len(lengths), 1.5 + 0.35 * len(kinds))
    panels = figure.subplots(1, len(lengths), squeeze=False)[0]
    image: Any = None
    for axes, length in zip(panels, lengths, strict=True):
        values = [[known.get((kind, i, length)) for i in intensities] for kind in kinds]
        grid = [[float("nan") if v is None else v for v in row] for row in values]
        image = axes.imshow(grid, vmin=0, vmax=1, cmap="viridis", aspect="auto")
        axes.set_title(f"from {length} characters")
        axes.set_xticks(range(len(intensities)), [f"{i:g}" for i in intensities])
        axes.set_yticks(range(len(kinds)), labels if axes is panels[0] else [])
        axes.axhline(border, color="white", linewidth=5)
        axes.set_xlabel("intensity")
        for y, row in enumerate(values):
            for x, value in enumerate(row):
                if value is not None:
                    colour = "black" if value > 0.6 else "white"
                    axes.text(
                        x, y, f"{value:.2f}", ha="center", va="center", fontsize=7, color=colour
                    )
    figure.colorbar(image, ax=list(panels), label="share called near-duplicates of their original")
    return figure
