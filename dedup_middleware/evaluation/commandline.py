"""What the commands of an evaluation have in common: arguments, one experiment, many of them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs

from dedup_middleware.base.errors import DedupError
from dedup_middleware.base.options import Options
from dedup_middleware.base.settingfields import PREFIX
from dedup_middleware.evaluation.corpus import InputError, read_lines
from dedup_middleware.evaluation.output import OutputError

if TYPE_CHECKING:
    from dedup_middleware.evaluation.runs import Run


#: measures, prints and writes tables and plots
Experiment = Callable[["Run"], None]


def positive(text: str, least: int = 1) -> int:
    """A whole number from 1 on, for argparse."""
    if not text.isdecimal() or int(text) < least:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from {least} on")
    return int(text)


def natural(text: str) -> int:
    """A whole number from 0 on, for argparse."""
    return positive(text, 0)


def share(text: str) -> float:
    """A number from 0 to 1, for argparse."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 0 to 1")
    return value


def several(text: str) -> int:
    """A whole number from 2 on, for argparse."""
    return positive(text, 2)


def common_arguments() -> argparse.ArgumentParser:
    """The parent of every command's parser."""
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
    common.add_argument("--seed", type=natural, default=1)
    common.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="DEDUP_NAME=VALUE",
        help="a setting, as in a Scrapy project; may be repeated",
    )
    return common


def document_arguments() -> argparse.ArgumentParser:
    """The parent of the commands that read files of documents."""
    many = argparse.ArgumentParser(add_help=False)
    many.add_argument("files", nargs="+", type=Path, metavar="FILE", help="documents, JSON lines")
    many.add_argument("--limit", type=positive, help="documents read at most")
    return many


def add_all(parser: argparse.ArgumentParser, default: str) -> None:
    """The arguments of ``all``.

    :param default: what is done without files
    """
    parser.add_argument("--pairs", type=Path, metavar="FILE", help=f"default: {default}")
    parser.add_argument(
        "--documents", nargs="+", type=Path, metavar="FILE", help=f"default: {default}"
    )
    parser.add_argument("--limit", type=positive, help="documents of the stream at most")
    parser.add_argument("--quick", action="store_true", help="small experiments")


def options_of(settings: Sequence[str]) -> Options:
    """Options from ``DEDUP_NAME=VALUE``.

    :raises OptionsError: an unknown name or a bad value
    """
    given = dict(setting.partition("=")[::2] for setting in settings)
    named = {name if name.startswith(PREFIX) else PREFIX + name: v for name, v in given.items()}
    # A key of its own, not a random one: every run gives the same results.
    return Options.from_mapping({f"{PREFIX}HASH_KEY": "1", **named})


def measure(parsed: argparse.Namespace, experiments: Mapping[str, Experiment]) -> None:
    """Run the experiment that the command names.

    :raises DedupError: something given can't be used
    """
    from rich.console import Console

    from dedup_middleware.evaluation import output
    from dedup_middleware.evaluation.runs import Run

    options = options_of(parsed.set)
    if parsed.out is not None:
        output.prepare(parsed.out)
        if not parsed.no_plots:
            output.require_matplotlib()
    # In a file or a pipe there is no width to keep to.
    console = Console(width=None if sys.stdout.isatty() else 160)
    experiments[parsed.command](Run(parsed, options, console))


def measure_all(lines: Sequence[Sequence[str]], run: Callable[[Sequence[str]], None]) -> None:
    """Run command lines one after the other, each with its number."""
    for i, line in enumerate(lines, 1):
        print(f"{i} of {len(lines)}: {line[0]}", flush=True)
        run(line)


def exit_code(command: str, work: Callable[[], None]) -> int:
    """0, or 1 and a line on standard error if something given can't be used."""
    try:
        work()
    except DedupError as error:
        print(f"{command}: {error}", file=sys.stderr)
        return 1
    return 0


# Every experiment on the files given, and one page of Markdown with all tables and plots.

REPORT: Final = "report.md"
#: name of a table, heading, explanation
Section = tuple[str, str, str]
#: tables in the order of the report
SECTIONS: Final[tuple[Section, ...]] = (
    (
        "pairs",
        "Labelled pairs",
        "Every method with its own threshold on pairs of documents, trivial pairs left out. "
        "`either`: a pair is called near-duplicates if one of the two orders is. Intervals are "
        "95 %: Wilson's for precision and recall, a bootstrap over documents for F1. "
        "`cross-validated F1` is that of thresholds found on other documents, and `P at R` "
        "precision and recall of thresholds that find 92 % of the duplicates of other documents; "
        "both are summed up over ten divisions of the documents into folds.",
    ),
    ("pairs-all", "All pairs", "The same with pairs of equal texts."),
    (
        "stream",
        "Stream",
        "Documents in the order in which they arrive, each against those kept. A loss, a document "
        "dropped though nothing that is kept says what it says, costs as much as ten copies too "
        "many (`extras`). Pages a second are those of one core for one worker, of the clock on the "
        "wall for several.",
    ),
    (
        "candidates",
        "Candidates",
        "How often the tables find a near-duplicate at all, by the Jaccard index of the pages; "
        "`proposed` is what datasketch's optimiser would choose.",
    ),
)
#: plots of a section, where its name is not theirs
_PLOTS: Final = {
    "pairs": "pairs-precision-recall",
    "pairs-all": "pairs-all-precision-recall",
}


@attrs.frozen
class Sizes:
    """How large the experiments are."""

    limit: int
    candidates: int
    workers: int


FULL_SIZES: Final = Sizes(3000, 1000, 4)
QUICK_SIZES: Final = Sizes(30, 20, 2)


def check_files(arguments: argparse.Namespace) -> Path:
    """The folder of the report, once it is known that the files can be read.

    :raises OutputError: no folder
    :raises InputError: no file, or one that can't be read
    """
    if arguments.out is None:
        raise OutputError("--out is missing: name the folder for tables, plots and report")
    files = [path for path in (arguments.pairs, *(arguments.documents or ())) if path is not None]
    if not files:
        raise InputError("no file is given: name labelled pairs (--pairs) or --documents")
    for path in files:
        next(read_lines(path), None)
    out: Path = arguments.out
    return out


def common_of(arguments: argparse.Namespace) -> list[str]:
    """The arguments that all experiments are given."""
    common = ["--out", str(arguments.out), "--seed", str(arguments.seed)]
    common += ["--no-plots"] * arguments.no_plots
    for setting in arguments.set:
        common += ["--set", setting]
    return common


def command_lines(
    arguments: argparse.Namespace, pairs: Path | None, documents: Sequence[Path] | None
) -> list[list[str]]:
    """The command lines of the experiments on these files."""
    sizes = QUICK_SIZES if arguments.quick else FULL_SIZES
    common = common_of(arguments)
    chosen = ["--methods", *arguments.methods] if arguments.methods else []
    found = []
    if pairs is not None:
        found.append(["pairs", str(pairs), *common, *chosen])
    if documents:
        limit = ["--limit", str(arguments.limit or sizes.limit)]
        files = [str(path) for path in documents]
        stream = ["stream", *files, *common, *limit, "--workers", str(sizes.workers), *chosen]
        found.append(stream)
    return [*found, ["candidates", *common, "--count", str(sizes.candidates)]]


def compose(folder: Path, sections: Sequence[Section] = SECTIONS) -> str:
    """The report: every table that is in the folder under its heading, with its plot."""
    parts = ["# Evaluation\n"]
    for name, heading, meaning in sections:
        table = folder / f"{name}.md"
        if not table.exists():
            continue
        parts.append(f"## {heading}\n\n{meaning}\n\n{table.read_text(encoding='utf-8')}")
        plot = f"{_PLOTS.get(name, name)}.svg"
        if (folder / plot).exists():
            parts.append(f"![{heading}]({plot})\n")
    return "\n".join(parts)


def write_report(folder: Path, sections: Sequence[Section] = SECTIONS) -> Path:
    """Write the report next to the tables.

    :raises OutputError: it can't be written
    """
    path = folder / REPORT
    try:
        path.write_text(compose(folder, sections), encoding="utf-8")
    except OSError as error:
        raise OutputError(f"{path} can't be written: {error.strerror or error}") from None
    return path
