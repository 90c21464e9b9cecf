"""Every attack in one run, and the table of what came of it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import attrs
from rich.console import Console
from rich.table import Table

from tests.torture import attacks, fuzz
from tests.torture.checks import BrokenPromiseError
from tests.torture.driver import Effort, Outcome
from tests.torture.start import SCRAPY, WORKERS

ROUND = 500  # kills in one index
FRESH = 50  # Scrapy processes that are started and not forked, in all


@attrs.frozen
class Share:
    """A scenario, what is killed in it, where the index is, and its share of all kills."""

    name: str
    kind: str
    place: str
    kills: float


SHARES = (
    Share("kills", WORKERS, "redis", 0.22),
    Share("kills", WORKERS, "aof", 0.12),
    Share("kills", WORKERS, "sentinel", 0.05),
    Share("kills", WORKERS, "sqlite", 0.22),
    Share("kills", SCRAPY, "redis", 0.05),
    Share("kills", SCRAPY, "aof", 0.03),
    Share("kills", SCRAPY, "sentinel", 0.01),
    Share("kills", SCRAPY, "sqlite", 0.05),
    Share("storage", WORKERS, "redis", 0.04),
    Share("storage", SCRAPY, "sqlite", 0.02),
    Share("stops", WORKERS, "redis", 0.02),
    Share("stops", SCRAPY, "sqlite", 0.01),
    Share("rollback", WORKERS, "redis", 0.04),
    Share("rollback", WORKERS, "aof", 0.02),
    Share("rollback", SCRAPY, "redis", 0.01),
    Share("proxy", WORKERS, "redis", 0.03),
    Share("proxy", SCRAPY, "redis", 0.01),
    Share("damage", WORKERS, "redis", 0.02),
    Share("damage", WORKERS, "sqlite", 0.01),
    Share("damage", SCRAPY, "redis", 0.01),
    Share("damage", SCRAPY, "sqlite", 0.01),
)


@attrs.frozen(kw_only=True)
class Whole:
    """All outcomes, and the promises that were broken."""

    seed: int
    seconds: float
    kills: int
    scrapy_kills: int
    fresh_kills: int
    lost: int
    outcomes: list[Outcome]
    fuzzed: fuzz.Fuzzed | None
    broken: list[str]


def run_all(kills: int, pages: int | None, seed: int, folder: Path, console: Console) -> Whole:
    """Run every scenario, however the others end.

    :param kills: processes killed, in sum at least
    :param pages: fuzzed pages; None: ten times as many as kills
    """
    began = time.monotonic()
    outcomes: list[Outcome] = []
    broken: list[str] = []

    def tell(line: str) -> None:
        console.print(f"  {line}", style="dim", highlight=False)

    crawls = sum(share.kills for share in SHARES if share.kind == SCRAPY)
    for share in SHARES:
        left, number = max(1, round(share.kills * kills)), 0
        fresh = round(min(FRESH, kills * crawls) * share.kills / crawls)
        while left > 0:
            part = min(left, ROUND)
            title = f"{share.name} {share.kind} {share.place}"
            console.print(f"[bold]{title}[/]: {part} kills, seed {seed + number}")
            place = folder / f"{title.replace(' ', '-')}-{number}"
            place.mkdir(parents=True)
            effort = Effort(
                kind=share.kind,
                kills=part,
                fresh=fresh if share.kind == SCRAPY and not number else 0,
                seed=seed + number,
            )
            try:
                outcomes.append(attacks.run(share.name, share.place, effort, place, tell))
            except (BrokenPromiseError, TimeoutError, OSError) as error:
                broken.append(f"{title}, seed {effort.seed}, files in {place}: {error}")
                console.print(broken[-1], style="bold red", markup=False)
            left, number = left - part, number + 1
    console.print("[bold]fuzz[/]")
    fuzzed = None
    place = folder / "fuzz"
    place.mkdir()
    try:
        fuzzed = fuzz.fuzz(10 * kills if pages is None else pages, place, seed=seed, tell=tell)
    except BrokenPromiseError as error:
        broken.append(f"fuzz: {error}")
        console.print(broken[-1], style="bold red", markup=False)
    console.print(table_of(outcomes, fuzzed))
    return Whole(
        seed=seed,
        seconds=round(time.monotonic() - began, 1),
        kills=sum(one.kills for one in outcomes),
        scrapy_kills=sum(one.kills for one in outcomes if SCRAPY in one.scenario),
        fresh_kills=sum(one.fresh for one in outcomes),
        lost=sum(one.figures.lost for one in outcomes),
        outcomes=outcomes,
        fuzzed=fuzzed,
        broken=broken,
    )


def table_of(outcomes: Sequence[Outcome], fuzzed: fuzz.Fuzzed | None) -> Table:
    """The figures of some runs; those of one scenario are added up."""
    table = Table()
    columns = (
        "scenario kills at-work fresh stops pages stored dropped between twice late failed lost"
    )
    for column in (*columns.split(), "seconds", "done to the index"):
        table.add_column(
            column, justify="left" if column in ("scenario", "done to the index") else "right"
        )
    by_name: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        by_name.setdefault(outcome.scenario, []).append(outcome)
    if len(by_name) > 1:
        by_name["all"] = list(outcomes)
    for name, some in by_name.items():
        figures = [attrs.asdict(one.figures) for one in some]
        sums = {key: sum(one[key] for one in figures) for key in figures[0]}
        done: dict[str, int] = {}
        for one in some:
            for what, count in one.done.items():
                done[what] = done.get(what, 0) + count
        cells = [
            sum(one.kills for one in some),
            sums["at_work"],
            sum(one.fresh for one in some),
            sum(one.stops for one in some),
            *(sums[key] for key in ("pages", "stored", "dropped", "between", "twice", "late")),
            sums["failed"],
            sums["lost"],
            round(sum(one.seconds for one in some)),
        ]
        reported = ", ".join(f"{what} {count:,}" for what, count in sorted(done.items()))
        table.add_row(name, *(f"{cell:,}" for cell in cells), reported)
    if fuzzed is not None:
        passed = sum(
            fuzzed.outcomes.get(f"dedup/{name}", 0) for name in ("new", "empty", "unchecked")
        )
        dropped = fuzzed.outcomes.get("dropped", 0)
        reported = (
            f"least held {fuzzed.least_held}, slowest page {fuzzed.slowest} s, "
            f"at most {fuzzed.memory / 1e6:,.0f} MB"
        )
        cells = [
            "",
            "",
            "",
            "",
            f"{fuzzed.pages:,}",
            f"{passed:,}",
            f"{dropped:,}",
            "",
            "",
            "",
            "",
            "0",
        ]
        table.add_row("fuzz", *cells, f"{fuzzed.seconds:,.0f}", reported)
    return table
