"""Tables for people on the screen and in Markdown, and for machines as CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from dedup_middleware.errors import DedupError
from dedup_middleware.evaluation.scores import Interval
from dedup_middleware.newfiles import write_whole

if TYPE_CHECKING:
    from rich.console import Console

_PARTS_SHOWN = 12  # of a list

Cell = str | int | float | bool | None
Record = Mapping[str, Any]


class OutputError(DedupError):
    """Results can't be written; the message names the folder and why."""


def prepare(folder: Path) -> Path:
    """Make the folder of the results if need be.

    :raises OutputError: it can't be made
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"--out {folder} can't be made: {error.strerror or error}") from None
    return folder


def flat(record: Record) -> dict[str, Cell]:
    """One row with a column for each number: an interval becomes three, a list a string.

    >>> flat({"recall": Interval(0.5, 0.25, 0.75)})
    {'recall': 0.5, 'recall_low': 0.25, 'recall_high': 0.75}
    """
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


def write(
    folder: Path, name: str, records: Sequence[Record], shown: Sequence[Record] | None = None
) -> list[Path]:
    """Write a table as ``name.csv``, ``name.json`` and ``name.md``, replacing what is there.

    :param shown: rows of the Markdown table, if it is a shorter one for people

    :raises OutputError: it can't be written
    """
    rows = [flat(record) for record in records]
    columns = list(dict.fromkeys(column for row in rows for column in row))
    paths = [folder / f"{name}.{kind}" for kind in ("csv", "json", "md")]
    try:
        table = io.StringIO()
        writer = csv.DictWriter(table, columns)
        writer.writeheader()
        writer.writerows(rows)
        text = json.dumps(rows, ensure_ascii=False, indent=1) + "\n"
        shown_text = markdown(records if shown is None else shown)
        for path, content in zip(paths, (table.getvalue(), text, shown_text), strict=True):
            write_whole(path, content.encode())
    except OSError as error:
        raise OutputError(f"{folder} can't be written to: {error.strerror or error}") from None
    return paths


def columns_of(records: Sequence[Record]) -> list[str]:
    """The columns of all rows, in the order in which they first appear."""
    return list(dict.fromkeys(column for record in records for column in record))


def is_numeric(column: str, records: Sequence[Record]) -> bool:
    """Whether a column holds numbers, which are aligned to the right."""
    return any(isinstance(record.get(column), (int, float, Interval)) for record in records)


def markdown(records: Sequence[Record]) -> str:
    """A table in Markdown; lists are shortened.

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


def show(console: Console, title: str, records: Sequence[Record]) -> None:
    """Print a table."""
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    columns = columns_of(records)
    for column in columns:
        number = is_numeric(column, records)
        table.add_column(column.replace("_", " "), justify="right" if number else "left")
    for record in records:
        table.add_row(*(_shown(record.get(column)) for column in columns))
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
