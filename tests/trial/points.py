"""What the trial looks at: points, what was seen of each, and the table of all."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from tests.trial.environment import Done
    from tests.trial.trial import Trial

LONGEST = 300  # characters of a cell of the table


@attrs.frozen
class Seen:
    """What came of one point.

    :param printed: the line that decides
    """

    command: str
    printed: str
    met: bool


@attrs.frozen
class Point:
    """One demand.

    :param area: the points that are run together
    :param before: what was seen when it was demanded; empty: the point was not tried then
    """

    area: str
    asks: str
    before: str
    look: Callable[[Trial], Seen]


@attrs.frozen
class Row:
    """A point, what was seen of it, and how long that took by the clock."""

    point: Point
    seen: Seen
    seconds: float


def tried(point: Point, trial: Trial) -> Row:
    """Look at a point. An error is what was seen of it: the others are looked at all the same."""
    begun = time.monotonic()
    try:
        seen = point.look(trial)
    except Exception as error:
        said = str(error).strip().splitlines() or [""]
        seen = Seen("", f"{type(error).__name__}: {said[0]} ... {said[-1]}", met=False)
    return Row(point, seen, time.monotonic() - begun)


def ended(done: Done, *wanted: str, code: int = 0, without: Sequence[str] = ()) -> Seen:
    """A point that is met if a command ends with a code, and each text is on a line of its output.

    :param without: texts that must be nowhere
    """
    lines = done.text.splitlines()
    found = [next((line for line in lines if text in line), None) for text in wanted]
    lacking = [text for text, line in zip(wanted, found, strict=True) if line is None]
    wrong = [text for text in without if text in done.text]
    told = list(dict.fromkeys(line for line in found if line is not None))
    if lacking or done.code != code:
        told += [f"no {text!r}" for text in lacking] + [f"last: {one}" for one in lines[-1:]]
    told += [f"has {text!r}" for text in wrong]
    is_met = done.code == code and not lacking and not wrong
    return Seen(done.command, f"exit {done.code}; " + " / ".join(told), is_met)


def table(rows: Sequence[Row]) -> str:
    """All rows as a table of Markdown, and how many points are met."""
    lines = [
        "| | what is asked | before | command | printed | met | s |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        point, seen = row.point, row.seen
        cells = (
            point.area,
            point.asks,
            point.before,
            f"`{cell(seen.command)}`" if seen.command else "",
            cell(seen.printed),
            "yes" if seen.met else "**no**",
            f"{row.seconds:.0f}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, "", summary(rows)]) + "\n"


def cell(text: str) -> str:
    """A text on one line, not too long, in which nothing ends the cell."""
    line = " ".join(text.split()).replace("|", "\\|").replace("`", "'")
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 4]} ..."


def summary(rows: Sequence[Row]) -> str:
    """How many points are met."""
    return f"{sum(row.seen.met for row in rows)} of {len(rows)} met"
