"""Tables for people and machines, and plots as SVG and PNG (matplotlib, extra ``evaluate``)."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs
from rich.console import Console
from rich.table import Table
from rich.text import Text

from dedup_middleware.base.errors import extra_needed, os_errors
from dedup_middleware.base.writing import write_whole
from dedup_middleware.evaluation.pairs import Interval
from dedup_middleware.model.keys import in_a_line

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_PARTS_SHOWN = 12  # elements shown of a list

Cell = str | int | float | bool | None
Record = Mapping[str, Any]
Records = Sequence[Record]


def prepare(folder: Path, *, plots: bool) -> None:
    """Create the folder of the results, and check that plots can be drawn, before measuring."""
    with os_errors(f"--out {folder} can't be made"):
        folder.mkdir(parents=True, exist_ok=True)
    if plots:
        with extra_needed("plots need matplotlib", "evaluate", fix=", or use --no-plots"):
            import matplotlib.figure  # noqa: F401


def flat(record: Record) -> dict[str, Cell]:
    """Flatten a record to a table row: an interval becomes three columns, a list one string."""
    row: dict[str, Cell] = {}
    for name, value in record.items():
        if isinstance(value, Interval):
            for suffix, part in zip(("", "_low", "_high"), attrs.astuple(value), strict=True):
                row[name + suffix] = _plain(part)
        elif isinstance(value, (list, tuple)):
            row[name] = " ".join(str(part) for part in value)
        else:
            row[name] = _plain(value)
    return row


def _plain(value: Any) -> Cell:
    if isinstance(value, float):
        return None if math.isnan(value) else round(value, 6)
    return value if value is None or isinstance(value, (bool, int, str)) else str(value)


def write(folder: Path, name: str, records: Records, shown: Records | None = None) -> None:
    """Write a table as ``name.csv``, ``name.json`` and ``name.md``, replacing existing files.

    :param shown: shorter rows for the Markdown table
    """
    rows = [flat(record) for record in records]
    table = io.StringIO()
    writer = csv.DictWriter(table, columns_of(rows))
    writer.writeheader()
    writer.writerows(rows)
    contents = {
        folder / f"{name}.csv": table.getvalue(),
        folder / f"{name}.json": json.dumps(rows, ensure_ascii=False, indent=1) + "\n",
        folder / f"{name}.md": markdown(records if shown is None else shown),
    }
    with os_errors(f"{folder} can't be written to"):
        for path, content in contents.items():
            write_whole(path, content.encode())


def columns_of(records: Records) -> list[str]:
    """Return the columns of all rows in the order of their first appearance."""
    return list(dict.fromkeys(column for record in records for column in record))


def is_numeric(column: str, records: Records) -> bool:
    """Whether a column holds numbers, which are right-aligned."""
    return any(isinstance(record.get(column), (int, float, Interval)) for record in records)


def markdown(records: Records) -> str:
    """Format a table as Markdown; lists are shortened.

    >>> print(markdown([{"method": "md5", "F1": 0.5}]), end="")
    | method | F1 |
    |---|--:|
    | md5 | 0.500 |
    """
    columns = columns_of(records)
    rule = "|".join("--:" if is_numeric(column, records) else "---" for column in columns)
    head = " | ".join(column.replace("_", " ") for column in columns)
    lines = [f"| {head} |", f"|{rule}|"]
    for record in records:
        cells = (_shown(record.get(column)).replace("|", "\\|") for column in columns)
        lines.append(f"| {' | '.join(' '.join(cell.split()) for cell in cells)} |")
    return "\n".join(lines) + "\n" if columns else "none\n"


def show(console: Console, title: str, records: Records) -> None:
    """Print a table."""
    table = Table(title=title, title_justify="left")
    columns = columns_of(records)
    for column in columns:
        justify: Any = "right" if is_numeric(column, records) else "left"
        table.add_column(column.replace("_", " "), justify=justify)
    for record in records:
        # Not as markup, and without escape sequences: keys are the user's.
        cells = (in_a_line(_shown(record.get(column))) for column in columns)
        table.add_row(*map(Text, cells))
    console.print(table)


def _shown(value: Any) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "-"
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 0.1 else f"{value:.3f}"
    if isinstance(value, (list, tuple)):
        more = " ..." if len(value) > _PARTS_SHOWN else ""
        return " ".join(str(part) for part in value[:_PARTS_SHOWN]) + more
    return str(value)


_MARKERS: Final = "osD^vPX*"


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure; sizes in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write a figure as ``name.svg`` and ``name.png``; equal figures give equal SVG files."""
    import matplotlib as mpl

    paths = [folder / f"{name}.svg", folder / f"{name}.png"]
    writing = os_errors(f"{folder} can't be written to")
    with writing, mpl.rc_context({"svg.hashsalt": "dedup"}):
        figure.savefig(paths[0], metadata={"Date": None})
        figure.savefig(paths[1], dpi=144)
    return paths


def precision_recall(curves: Mapping[str, Sequence[tuple[float, float, float]]]) -> Figure:
    """Plot precision against recall for each method, from (threshold, precision, recall).

    A method without a graded similarity has one point.
    """
    figure = new_figure(10, 6)
    axes = figure.subplots()
    lines = dots = 0
    for i, (name, points) in enumerate(curves.items()):
        if not points:
            continue
        _, precision, recall = zip(*points, strict=True)
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
    # Outside the axes, since curves may fill every corner.
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1), borderaxespad=0, handlelength=3)
    return figure
