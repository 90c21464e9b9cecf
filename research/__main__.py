"""``python -m research``: repeat experiments of papers, on your own or generated documents."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from dedup_middleware.evaluation import __main__ as evaluation
from dedup_middleware.evaluation.__main__ import (
    Experiment,
    common_arguments,
    document_arguments,
    exit_code,
    measure,
    positive,
    share,
)


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    top = argparse.ArgumentParser(prog="python -m research", description=__doc__)
    common, many = common_arguments(), document_arguments()
    commands = top.add_subparsers(dest="command", required=True)

    li = commands.add_parser("li", parents=[common, many], help="the protocol of LI")
    li.add_argument("--size", type=positive, default=500, help="sample pages")
    li.add_argument("--min-chars", type=positive, default=400, help="shorter pages are left out")

    zhou = commands.add_parser("zhou", parents=[common, many], help="the protocol of ZHOU")
    zhou.add_argument("--classes", type=positive, default=5)
    zhou.add_argument("--size", type=positive, default=2000, help="documents of a class")
    zhou.add_argument("--planted", type=positive, default=500, help="near-duplicates in all")

    commands.add_parser("collisions", parents=[common], help="the string hashes of SURVEY")

    ways = commands.add_parser(
        "expansion", parents=[common], help="query expansion and four tables against a scan"
    )
    ways.add_argument("--count", type=positive, default=1_000_000, help="fingerprints")
    ways.add_argument("--queries", type=positive, default=200)

    tables = commands.add_parser(
        "tables", parents=[common, many], help="the tables of docs/methods.md, in Markdown"
    )
    tables.add_argument("--only", nargs="+", metavar="NAME", help="names of tables; default: all")
    tables.add_argument("--page", type=Path, help="a page whose tables are replaced")
    tables.add_argument("--size", type=positive, default=500, help="sample pages of LI")
    tables.add_argument("--documents", type=positive, default=2000, help="of a class of ZHOU")
    tables.add_argument("--planted", type=positive, default=500, help="near-duplicates in all")

    surface = commands.add_parser("surface", parents=[common], help="recall of edited copies")
    surface.add_argument("file", type=Path, metavar="FILE", help="documents, JSON lines")
    surface.add_argument("--limit", type=positive, help="documents read at most")
    surface.add_argument("--per-cell", type=positive, default=50, help="pages of each length")
    scripts = commands.add_parser(
        "scripts", parents=[common], help="recall of edited copies, by script of the page"
    )
    scripts.add_argument("file", type=Path, metavar="FILE", help="documents, JSON lines")
    scripts.add_argument("--limit", type=positive, help="documents read at most")
    scripts.add_argument("--per-cell", type=positive, default=40, help="pages of each script")
    scripts.add_argument(
        "--intensity", type=share, default=0.02, help="share of a page that is edited"
    )

    candidates = commands.add_parser("candidates", parents=[common], help="recall of the tables")
    candidates.add_argument(
        "--count", type=positive, default=1000, help="pairs for each Jaccard index"
    )
    candidates.add_argument("--shingles", type=positive, default=300, help="of a page")

    every = commands.add_parser(
        "all", parents=[common], help="these and those of the evaluation, and a report"
    )
    every.add_argument("--pairs", type=Path, metavar="FILE", help="default: made up")
    every.add_argument("--documents", nargs="+", type=Path, metavar="FILE", help="default: made up")
    every.add_argument("--limit", type=positive, help="documents of the stream at most")
    every.add_argument("--quick", action="store_true", help="small experiments")
    return top


def experiments() -> Mapping[str, Experiment]:
    """Return the experiment of each command."""
    from research import runs

    return {
        "surface": runs.run_surface,
        "scripts": runs.run_scripts,
        "li": runs.run_li,
        "zhou": runs.run_zhou,
        "collisions": runs.run_collisions,
        "expansion": runs.run_expansion,
        "tables": runs.run_tables,
        "candidates": runs.run_candidates,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return 1 if an argument can't be used, else 0."""
    parsed = parser().parse_args(arguments)

    def work() -> None:
        if parsed.command == "all":
            _all(parsed)
        else:
            measure(parsed, experiments())

    return exit_code(parsed.command, work)


def _all(parsed: argparse.Namespace) -> None:
    from research import everything

    own = experiments()
    with everything.plan(parsed) as lines:
        for i, line in enumerate(lines, 1):
            print(f"{i} of {len(lines)}: {line[0]}", flush=True)
            if line[0] in own:
                measure(parser().parse_args(line), own)
            else:
                measure(evaluation.parser().parse_args(line), evaluation.experiments())
    print(f"report: {everything.write_report(parsed.out)}")


if __name__ == "__main__":
    sys.exit(main())
