"""The first hour of a new user, from outside: an installed package in a fresh environment.

Usage: ``python -m tests.trial --python /path/to/python3.10 --pip 23.2.1 --out DIR``

A clone of this commit, a new virtual environment with that pip, an empty home and empty caches are
made in DIR/environment, unless they are left there by an earlier run. Each point is one row of
DIR/trial.md, which is printed too: what is asked, what was seen before, the command, what it
printed, and whether that is what is asked. Exit code 1: a point is not met. It takes about ten
minutes, of which the compilations of numba and the benchmark at the end are the most. The dev and
crawler extras must be installed here, and Redis, OpenSSL, Chromium with its driver, and make.
"""

from __future__ import annotations

import argparse
import platform
import sys
from pathlib import Path

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
)

from tests.trial.environment import NEWEST, Environment
from tests.trial.points import Row, summary, table, tried
from tests.trial.rounds import AREAS, every_point
from tests.trial.trial import Trial, opened


def main() -> int:
    """Run the trial; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.trial", description=__doc__)
    parser.add_argument("--python", type=Path, default=Path(sys.executable))
    parser.add_argument("--pip", default=NEWEST, help="a version, or newest (the default)")
    parser.add_argument("--out", type=Path, required=True, help="folder for all that is made")
    parser.add_argument("--only", nargs="+", choices=AREAS, help="points of these areas alone")
    arguments = parser.parse_args()
    environment = Environment(
        arguments.out.resolve() / "environment", arguments.python.resolve(), arguments.pip
    )
    report = arguments.out / "trial.md"
    with opened(environment) as trial:
        rows = run(trial, arguments.only or AREAS, report)
    print(report.read_text(encoding="utf-8"))
    return 0 if all(row.seen.met for row in rows) else 1


def run(trial: Trial, areas: list[str], report: Path) -> list[Row]:
    """Look at all points of some areas, one after the other.

    :param report: gets the rows so far after each of them
    """
    rows: list[Row] = []
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    )  # fmt: skip
    points = [point for point in every_point() if point.area in areas]
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("environment", total=len(points))
        environment = trial.environment
        environment.make()
        progress.update(task, description="pip install")
        if trial.installed.code:
            raise SystemExit(trial.installed.text)
        title = heading(environment)
        for point in points:
            progress.update(task, description=f"{point.area}: {point.asks}"[:70])
            row = tried(point, trial)
            rows.append(row)
            report.write_text(title + environment.shown(table(rows)), encoding="utf-8")
            progress.advance(task)
            if not row.seen.met:
                console.print(f"not met: {point.asks}\n  {row.seen.printed}", markup=False)
    console.print(summary(rows))
    return rows


def heading(environment: Environment) -> str:
    """What was tried with what."""
    commit = environment.run("git", "log", "-1", "--format=%h", cwd=environment.clone).text.strip()
    versions = environment.run(
        "python",
        "-c",
        "import platform as p, scrapy; print(p.python_version(), scrapy.__version__)",
    ).text.split()
    python, scrapy = versions if len(versions) == 2 else ("unknown", "unknown")
    return (
        f"Commit {commit}, Python {python}, pip {environment.pip}, Scrapy {scrapy}, "
        f"{platform.platform()}\n\n"
    )


if __name__ == "__main__":
    sys.exit(main())
