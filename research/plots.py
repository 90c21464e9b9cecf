"""Plots of the tables of ``python -m research``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dedup_middleware.evaluation.edits import OTHER_PAGE
from dedup_middleware.evaluation.output import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from research.candidates import CandidateRow
    from research.surface import SurfaceCell

LABELLED = (50, 100, 200, 500, 1000)  # labelled numbers of pages; more labels would overlap


def seconds_by_pages(rows: Sequence[Mapping[str, float | str]]) -> Figure:
    """Plot processor seconds against number of pages for each method, on logarithmic scales."""
    figure = new_figure(8, 5)
    axes = figure.subplots()
    for i, name in enumerate(dict.fromkeys(str(row["method"]) for row in rows)):
        own = [row for row in rows if row["method"] == name]
        pages, seconds = [row["pages"] for row in own], [row["seconds"] for row in own]
        axes.plot(pages, seconds, ("-", "--", ":")[i // 8 % 3], color=f"C{i % 8}", label=name)
    axes.set(xlabel="pages", ylabel="processor seconds", xscale="log", yscale="log")
    sizes = sorted({row["pages"] for row in rows})
    axes.set_xticks(
        sizes, [f"{size}" if size in LABELLED or len(sizes) < 6 else "" for size in sizes]
    )
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1), borderaxespad=0, handlelength=3)
    return figure


def heat_map(cells: Sequence[SurfaceCell]) -> Figure:
    """Plot recall by kind (rows), intensity (columns) and length (panels).

    Below the line are kinds that make another page, none of which should be found.
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


def candidate_recall(rows: Sequence[CandidateRow]) -> Figure:
    """Plot the recall of the tables against the Jaccard index."""
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
