"""``python -m dedup_middleware.evaluation``: measure the methods on your own documents."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from dedup_middleware.base.errors import DedupError
from dedup_middleware.base.options import Options
from dedup_middleware.base.settingfields import PREFIX
from dedup_middleware.base.writing import discard_output, flush_output

if TYPE_CHECKING:
    from dedup_middleware.evaluation.runs import Run


#: an experiment measures, prints, and writes tables and plots
Experiment = Callable[["Run"], None]


def positive(text: str, least: int = 1) -> int:
    """Parse an integer of at least ``least``, for argparse."""
    if not text.isdecimal() or int(text) < least:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least {least}")
    return int(text)


natural = partial(positive, least=0)
several = partial(positive, least=2)


def share(text: str) -> float:
    """Parse a number from 0 to 1, for argparse."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 0 to 1")
    return value


def common_arguments() -> argparse.ArgumentParser:
    """Return the parent parser of every command."""
    common = argparse.ArgumentParser(add_help=False)
    out = "folder for tables (CSV, JSON, Markdown) and plots"
    names = "names of methods, each NAME or 'NAME:PARAMETER=VALUE ...'"
    setting = "a setting, as in a Scrapy project; may be repeated"
    add = common.add_argument
    add("--out", type=Path, help=out)
    add("--no-plots", action="store_true", help="tables only")
    add("--methods", nargs="+", metavar="NAME", help=f"{names}; default: those of the experiment")
    add("--seed", type=natural, default=1)
    add("--set", action="append", default=[], metavar="DEDUP_NAME=VALUE", help=setting)
    return common


def document_arguments() -> argparse.ArgumentParser:
    """Return the parent parser of the commands that read files of documents."""
    many = argparse.ArgumentParser(add_help=False)
    many.add_argument("files", nargs="+", type=Path, metavar="FILE", help="documents, JSON lines")
    many.add_argument("--limit", type=positive, help="documents read at most")
    return many


def options_of(settings: Sequence[str]) -> Options:
    """Parse options from ``DEDUP_NAME=VALUE``."""
    given = dict(setting.partition("=")[::2] for setting in settings)
    named = {name if name.startswith(PREFIX) else PREFIX + name: v for name, v in given.items()}
    # A fixed key instead of a random one gives the same results in every run.
    return Options.from_mapping({f"{PREFIX}HASH_KEY": "1", **named})


def measure(parsed: argparse.Namespace, experiments: Mapping[str, Experiment]) -> None:
    """Run the experiment of a command."""
    from rich.console import Console

    from dedup_middleware.evaluation import output
    from dedup_middleware.evaluation.runs import Run

    options = options_of(parsed.set)
    if parsed.out is not None:
        output.prepare(parsed.out, plots=not parsed.no_plots)
    # Files and pipes have no width to fit.
    console = Console(width=None if sys.stdout is not None and sys.stdout.isatty() else 160)
    experiments[parsed.command](Run(parsed, options, console))


def exit_code(command: str, work: Callable[[], None]) -> int:
    """Do the work; return 0, or print the error of an argument or output and return 1."""
    try:
        work()
        flush_output()
    except (DedupError, OSError) as error:
        if not isinstance(error, BrokenPipeError):  # as by `| head`
            print(f"{command}: {error}", file=sys.stderr)
        discard_output()
        return 1
    return 0


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
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
    """Return the experiment of each command."""
    from dedup_middleware.evaluation import runs

    return {"pairs": runs.run_pairs, "stream": runs.run_stream}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return its exit code."""
    parsed = parser().parse_args(arguments)
    return exit_code(parsed.command, lambda: measure(parsed, experiments()))


if __name__ == "__main__":
    sys.exit(main())
