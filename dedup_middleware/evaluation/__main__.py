"""``python -m dedup_middleware.evaluation``: measure the methods on your own documents."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from dedup_middleware.evaluation.commandline import (
    Experiment,
    add_all,
    check_files,
    command_lines,
    common_arguments,
    document_arguments,
    exit_code,
    measure,
    measure_all,
    positive,
    several,
    share,
    write_report,
)


def parser() -> argparse.ArgumentParser:
    """The commands and their arguments."""
    top = argparse.ArgumentParser(prog="python -m dedup_middleware.evaluation", description=__doc__)
    common, many = common_arguments(), document_arguments()
    commands = top.add_subparsers(dest="command", required=True)

    pairs = commands.add_parser("pairs", parents=[common], help="methods on labelled pairs")
    pairs.add_argument("file", type=Path, metavar="FILE", help="labelled pairs, JSON lines")
    pairs.add_argument("--folds", type=several, default=5, help="of the cross-validation")

    stream = commands.add_parser("stream", parents=[common, many], help="methods on a stream")
    stream.add_argument(
        "--planted", type=share, default=0.1, help="share of the documents that get a copy"
    )
    stream.add_argument("--workers", type=positive, default=4, help="processes on one index")
    stream.add_argument("--show", type=positive, default=10, help="losses printed for each run")

    tables = commands.add_parser("candidates", parents=[common], help="recall of the tables")
    tables.add_argument("--count", type=positive, default=1000, help="pairs for each Jaccard index")
    tables.add_argument("--shingles", type=positive, default=300, help="of a page")

    every = commands.add_parser(
        "all", parents=[common], help="every experiment on the files given, and a report"
    )
    add_all(every, "the experiments on them are left out")
    return top


def experiments() -> Mapping[str, Experiment]:
    """What each command measures."""
    from dedup_middleware.evaluation import runs

    return {
        "pairs": runs.run_pairs,
        "stream": runs.run_stream,
        "candidates": runs.run_candidates,
    }


def run(line: Sequence[str]) -> None:
    """Run the experiment of a command line.

    :raises DedupError: something given can't be used
    """
    measure(parser().parse_args(line), experiments())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the exit code is 1 if something given can't be used."""
    parsed = parser().parse_args(arguments)

    def work() -> None:
        if parsed.command == "all":
            _all(parsed)
        else:
            measure(parsed, experiments())

    return exit_code(parsed.command, work)


def _all(parsed: argparse.Namespace) -> None:
    out = check_files(parsed)
    measure_all(command_lines(parsed, parsed.pairs, parsed.documents), run)
    print(f"report: {write_report(out)}")


if __name__ == "__main__":
    sys.exit(main())
