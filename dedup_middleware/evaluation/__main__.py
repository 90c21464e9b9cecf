"""``python -m dedup_middleware.evaluation``: measure the methods on your own documents."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from dedup_middleware.evaluation.commandline import (
    Experiment,
    common_arguments,
    document_arguments,
    exit_code,
    measure,
    positive,
    several,
    share,
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
    return top


def experiments() -> Mapping[str, Experiment]:
    """What each command measures."""
    from dedup_middleware.evaluation import runs

    return {
        "pairs": runs.run_pairs,
        "stream": runs.run_stream,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the exit code is 1 if something given can't be used."""
    parsed = parser().parse_args(arguments)
    return exit_code(parsed.command, lambda: measure(parsed, experiments()))


if __name__ == "__main__":
    sys.exit(main())
