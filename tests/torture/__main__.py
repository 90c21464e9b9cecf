"""The full form: ``python -m tests.torture [redis|aof|sentinel|sqlite] [--articles N] ...``."""

from __future__ import annotations

import argparse
import contextlib
import tempfile
from pathlib import Path

from tests.torture.run import Plan
from tests.torture.scenarios import SCENARIOS


def main() -> None:
    """Run one scenario, check it, and print what was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.torture")
    parser.add_argument("scenario", choices=SCENARIOS, nargs="?", default="redis")
    parser.add_argument("--articles", type=int, default=2000)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--batches", type=int, default=2, help="under way in a process")
    parser.add_argument("--lease", type=float, default=2.0, help="seconds")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="keep databases and logs in this empty folder")
    given = parser.parse_args()
    plan = Plan(
        articles=given.articles,
        processes=given.processes,
        kills=given.kills,
        batches=given.batches,
        lease=given.lease,
        seed=given.seed,
    )
    with contextlib.ExitStack() as stack:
        folder = given.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        print(f"{given.scenario}: {SCENARIOS[given.scenario](plan, folder)}")


if __name__ == "__main__":
    main()
