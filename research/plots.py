"""Plots of the papers' experiments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from dedup_middleware.evaluation.plots import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def seconds_by_pages(rows: Sequence[Mapping[str, float | str]]) -> Figure:
    """Processor seconds against number of pages for each method, both on logarithmic scales."""
    figure = new_figure(8, 5)
    axes = figure.subplots()
    for i, name in enumerate(dict.fromkeys(str(row["method"]) for row in rows)):
        own = [row for row in rows if row["method"] == name]
        pages, seconds = [row["pages"] for row in own], [row["seconds"] for row in own]
        axes.plot(pages, seconds, ("-", "--", ":")[i // 8 % 3], color=f"C{i % 8}", label=name)
    axes.set(xlabel="pages", ylabel="processor seconds", xscale="log", yscale="log")
    sizes = sorted({row["pages"] for row in rows})
    axes.set_xticks(sizes, [f"{size}" for size in sizes])
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1), borderaxespad=0, handlelength=3)
    return figure
