"""``python -m dedup_middleware.evaluate``: measure the methods on your own documents."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from dedup_middleware.errors import DedupError
from dedup_middleware.options import Options
from dedup_middleware.settingfields import PREFIX


def positive(text: str) -> int:
    """A whole number from 1 on, for argparse."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1 on")
    return int(text)


def share(text: str) -> float:
    """A number from 0 to 1, for argparse."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 0 to 1")
    return value


def parser() -> argparse.ArgumentParser:
    """The commands and their arguments."""
    top = argparse.ArgumentParser(prog="python -m dedup_middleware.evaluate", description=__doc__)
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "--out", type=Path, help="folder for tables (CSV, JSON, Markdown) and plots"
    )
    common.add_argument("--no-plots", action="store_true", help="tables only")
    common.add_argument(
        "--methods",
        nargs="+",
        metavar="NAME",
        help="names of methods, each NAME or 'NAME:PARAMETER=VALUE ...'; default: those of the "
        "experiment",
    )
    common.add_argument("--seed", type=int, default=1)
    common.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="DEDUP_NAME=VALUE",
        help="a setting, as in a Scrapy project; may be repeated",
    )
    many = argparse.ArgumentParser(add_help=False)
    many.add_argument("files", nargs="+", type=Path, metavar="FILE", help="documents, JSON lines")
    many.add_argument("--limit", type=positive, help="documents read at most")
    commands = top.add_subparsers(dest="command", required=True)

    pairs = commands.add_parser("pairs", parents=[common], help="methods on labelled pairs")
    pairs.add_argument("file", type=Path, metavar="FILE", help="labelled pairs, JSON lines")
    pairs.add_argument("--folds", type=positive, default=5, help="of the cross-validation")

    stream = commands.add_parser("stream", parents=[common, many], help="methods on a stream")
    stream.add_argument(
        "--planted", type=share, default=0.1, help="share of the documents that get a copy"
    )
    stream.add_argument("--workers", type=positive, default=4, help="processes on one index")
    stream.add_argument("--show", type=positive, default=10, help="losses printed for each run")

    li = commands.add_parser("li", parents=[common, many], help="the protocol of LI")
    li.add_argument("--size", type=positive, default=500, help="sample pages")
    li.add_argument("--min-chars", type=positive, default=400, help="shorter pages are left out")

    zhou = commands.add_parser("zhou", parents=[common, many], help="the protocol of ZHOU")
    zhou.add_argument("--classes", type=positive, default=5)
    zhou.add_argument("--size", type=positive, default=2000, help="documents of a class")
    zhou.add_argument("--planted", type=positive, default=500, help="near-duplicates in all")

    commands.add_parser("collisions", parents=[common], help="the string hashes of SURVEY")

    tables = commands.add_parser("candidates", parents=[common], help="recall of the tables")
    tables.add_argument("--count", type=positive, default=1000, help="pairs for each Jaccard index")
    tables.add_argument("--shingles", type=positive, default=300, help="of a page")

    surface = commands.add_parser("surface", parents=[common], help="edits that are seen through")
    surface.add_argument("file", type=Path, metavar="FILE", help="documents, JSON lines")
    surface.add_argument("--limit", type=positive, help="documents read at most")
    surface.add_argument("--per-cell", type=positive, default=50, help="pages of each length")

    every = commands.add_parser("all", parents=[common], help="every experiment, and a report")
    every.add_argument("--pairs", type=Path, metavar="FILE", help="default: made-up pairs")
    every.add_argument(
        "--documents", nargs="+", type=Path, metavar="FILE", help="default: made-up documents"
    )
    every.add_argument("--limit", type=positive, help="documents of the stream at most")
    every.add_argument("--quick", action="store_true", help="small experiments, in a minute")
    return top


def options_of(settings: Sequence[str]) -> Options:
    """Options from ``DEDUP_NAME=VALUE``.

    :raises OptionsError: an unknown name or a bad value
    """
    given = dict(setting.partition("=")[::2] for setting in settings)
    named = {name if name.startswith(PREFIX) else PREFIX + name: v for name, v in given.items()}
    # A key of its own, not a random one: every run gives the same results.
    return Options.from_mapping({f"{PREFIX}HASH_KEY": "1", **named})


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the exit code is 1 if something given can't be used."""
    parsed = parser().parse_args(arguments)
    try:
        if parsed.command == "all":
            _all(parsed)
        else:
            _one(parsed)
    except DedupError as error:
        print(f"{parsed.command}: {error}", file=sys.stderr)
        return 1
    return 0


def _one(parsed: argparse.Namespace) -> None:
    from rich.console import Console

    from dedup_middleware.evaluation import output, plots, runs

    commands = {
        "pairs": runs.run_pairs,
        "stream": runs.run_stream,
        "li": runs.run_li,
        "zhou": runs.run_zhou,
        "collisions": runs.run_collisions,
        "candidates": runs.run_candidates,
        "surface": runs.run_surface,
    }
    options = options_of(parsed.set)
    if parsed.out is not None:
        output.prepare(parsed.out)
        if not parsed.no_plots:
            plots.require_matplotlib()
    # In a file or a pipe there is no width to keep to.
    console = Console(width=None if sys.stdout.isatty() else 160)
    commands[parsed.command](runs.Run(parsed, options, console))


def _all(parsed: argparse.Namespace) -> None:
    from dedup_middleware.evaluation import everything, output

    if parsed.out is None:
        raise output.OutputError("--out is missing: name the folder for tables, plots and report")
    with everything.plan(parsed) as commands:
        for i, command in enumerate(commands, 1):
            print(f"{i} of {len(commands)}: {command[0]}", flush=True)
            _one(parser().parse_args(command))
    print(f"report: {everything.write_report(parsed.out)}")


if __name__ == "__main__":
    sys.exit(main())
