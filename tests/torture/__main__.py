"""Attacks that take longer than a test may: ``python -m tests.torture SCENARIO [...]``.

``kills``, ``rollback``, ``proxy``, ``damage``, ``stops`` and ``storage`` kill processes that are
forked from one that has loaded everything, some ten a second; of Scrapy processes ``--fresh`` are
started as a user starts them. ``fuzz`` sends fuzzed pages through the pipeline. ``all`` does all
of it, with so many kills and ten times as many pages in sum. ``redis``, ``aof``, ``sentinel``,
``sqlite``, ``cluster`` and ``cluster-failover`` kill crawls that are started one by one, with the
storage of the sample project.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import attrs
from rich.console import Console

from tests.torture import attacks, fuzz, whole
from tests.torture.checks import BrokenPromiseError
from tests.torture.driver import Effort
from tests.torture.run import Plan
from tests.torture.scenarios import SCENARIOS
from tests.torture.start import SCRAPY, WORKERS


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.torture",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    choices = [*SCENARIOS, *attacks.SCENARIOS, "fuzz", "all"]
    parser.add_argument("scenario", choices=choices, nargs="?", default="redis")
    parser.add_argument("--kills", type=int, help="processes killed (all: 10000, else: 50)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="new or empty; files are kept there")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    forked = parser.add_argument_group("kills, rollback, proxy, damage, stops, storage")
    forked.add_argument("--index", choices=attacks.PLACES, default="redis")
    forked.add_argument("--crawls", action="store_true", help="kill Scrapy processes, not workers")
    forked.add_argument("--fresh", type=int, default=0, help="of them, not forked but started")
    pages = parser.add_argument_group("fuzz")
    pages.add_argument("--pages", type=int, metavar="N", help="all: ten times --kills, else: 5000")
    crawls = parser.add_argument_group("redis, aof, sentinel, sqlite, cluster, cluster-failover")
    crawls.add_argument("--articles", type=int, default=2000)
    crawls.add_argument("--processes", type=int, default=8)
    crawls.add_argument("--batches", type=int, default=2, help="under way in a process")
    crawls.add_argument("--lease", type=float, default=6.0, help="seconds; calls take up to 2")
    return parser


def main() -> int:
    """Run the chosen checks, print the failures; exit code 1: a promise was broken."""
    given = _parser().parse_args()
    console = Console(width=None if sys.stdout.isatty() else 150)
    with contextlib.ExitStack() as stack:
        folder = given.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        console.print(f"seed {given.seed}, files in {folder}")
        try:
            found = _run(given, folder, console)
        except (BrokenPromiseError, AssertionError) as error:
            console.print(f"BROKEN (seed {given.seed}): {error}", style="bold red", markup=False)
            return 1
    if given.json is not None:
        given.json.write_text(json.dumps(found, indent=1) + "\n")
    return 0


def _run(given: argparse.Namespace, folder: Path, console: Console) -> Any:
    def tell(line: str) -> None:
        console.print(f"  {line}", style="dim", highlight=False)

    if given.scenario == "all":
        found = whole.run_all(given.kills or 10_000, given.pages, given.seed, folder, console)
        if found.broken:
            raise BrokenPromiseError("; ".join(found.broken))
        return attrs.asdict(found)
    if given.scenario == "fuzz":
        pages = fuzz.fuzz(given.pages or 5_000, folder, seed=given.seed, tell=tell)
        console.print(whole.table_of([], pages))
        return attrs.asdict(pages)
    kills = 50 if given.kills is None else given.kills
    if given.scenario in attacks.SCENARIOS:
        kind = SCRAPY if given.crawls else WORKERS
        effort = Effort(kind=kind, kills=kills, fresh=given.fresh, seed=given.seed)
        outcome = attacks.run(given.scenario, given.index, effort, folder, tell)
        console.print(whole.table_of([outcome], None))
        return attrs.asdict(outcome)
    plan = Plan(
        articles=given.articles,
        processes=given.processes,
        kills=kills,
        batches=given.batches,
        lease=given.lease,
        seed=given.seed,
    )
    result = SCENARIOS[given.scenario](plan, folder)
    console.print(f"{given.scenario}: {result}")
    return {"scenario": given.scenario, "found": str(result)}


if __name__ == "__main__":
    sys.exit(main())
