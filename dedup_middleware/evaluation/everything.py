"""Every experiment on the files given, and one page of Markdown with all tables and plots."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import attrs

from dedup_middleware.evaluation.corpus import InputError, read_lines
from dedup_middleware.evaluation.output import OutputError

REPORT: Final = "report.md"
#: name of a table, heading, what it says
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
        "surface-content",
        "Edits",
        "Share of edited copies that `content` calls near-duplicates of their original, by kind "
        "and intensity of the edit and length of the page.",
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
    per_cell: int
    workers: int


FULL: Final = Sizes(3000, 1000, 50, 4)
QUICK: Final = Sizes(30, 20, 1, 2)


def check(arguments: argparse.Namespace) -> Path:
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


def lines(
    arguments: argparse.Namespace, pairs: Path | None, documents: Sequence[Path] | None
) -> list[list[str]]:
    """The command lines of the experiments on these files."""
    sizes = QUICK if arguments.quick else FULL
    common = common_of(arguments)
    chosen = ["--methods", *arguments.methods] if arguments.methods else []
    found = []
    if pairs is not None:
        found.append(["pairs", str(pairs), *common, *chosen])
    if documents:
        limit = ["--limit", str(arguments.limit or sizes.limit)]
        files = [str(path) for path in documents]
        stream = ["stream", *files, *common, *limit, "--workers", str(sizes.workers), *chosen]
        surface = ["surface", files[0], *common, "--per-cell", str(sizes.per_cell)]
        found += [stream, surface]
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
    """Write the report beside the tables.

    :raises OutputError: it can't be written
    """
    path = folder / REPORT
    try:
        path.write_text(compose(folder, sections), encoding="utf-8")
    except OSError as error:
        raise OutputError(f"{path} can't be written: {error.strerror or error}") from None
    return path
