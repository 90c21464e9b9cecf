"""Runs all experiments, including those of the evaluation, on given or generated files."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import attrs

from dedup_middleware.base.errors import DedupError
from dedup_middleware.evaluation.corpus import read_lines
from research import madeup

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
    (
        "surface-content",
        "Edits",
        "Share of edited copies that `content` calls near-duplicates of their original, by kind "
        "and intensity of the edit and length of the page.",
    ),
    (
        "li",
        "Protocol of LI",
        "Sample pages, copies of them (the second half edited) and other pages, each compared with "
        "every sample. `published` are the figures of the paper, on its own pages.",
    ),
    ("li-sizes", "Protocol of LI by number of pages", "The same with 50 to 1000 pages."),
    (
        "zhou",
        "Protocol of ZHOU",
        "Classes of documents with known near-duplicates among them, and weighted SimHash with one "
        "factor of its weight switched off at a time.",
    ),
    (
        "collisions",
        "String hashes",
        "Collisions of the eight string hashes of SURVEY among 1000 documents of which 419 are "
        "copies. In a table of 1024 slots an ideal hash collides 556.5 +- 8 times, which fits "
        "three of the eight published counts; whole hashes collide for the copies alone.",
    ),
    (
        "expansion",
        "Query expansion and four tables",
        "Ways to find all of many random fingerprints within three bits of a query. All find the "
        "same ones.",
    ),
)
#: plots of a section whose names are not its own
_PLOTS: Final = {
    "pairs": "pairs-precision-recall",
    "pairs-all": "pairs-all-precision-recall",
}


@attrs.frozen
class Sizes:
    """The sizes of the experiments, and of generated data."""

    made_up: int
    made_up_pairs: int
    stream: int
    workers: int
    candidates: int
    per_cell: int
    li: int
    zhou: tuple[int, int]
    expansion: tuple[int, int]


FULL_SIZES: Final = Sizes(10_000, 200, 3000, 4, 1000, 50, 500, (2000, 500), (1_000_000, 200))
QUICK_SIZES: Final = Sizes(150, 12, 30, 2, 20, 1, 20, (25, 10), (10_000, 20))


@contextmanager
def _data(arguments: argparse.Namespace, sizes: Sizes) -> Iterator[tuple[Path, list[Path]]]:
    """Yield the given files, or generated ones if none are given."""
    with TemporaryDirectory() as folder:
        pairs, documents = arguments.pairs, arguments.documents
        if pairs is None:
            made = madeup.pairs(sizes.made_up_pairs, arguments.seed)
            pairs = madeup.write(Path(folder) / "pairs.jsonl", made)
        if not documents:
            lines = madeup.documents(sizes.made_up, arguments.seed)
            documents = [madeup.write(Path(folder) / "documents.jsonl", lines)]
        yield pairs, documents


def _common(arguments: argparse.Namespace) -> list[str]:
    """Return the arguments that all experiments get."""
    common = ["--out", str(arguments.out), "--seed", str(arguments.seed)]
    common += ["--no-plots"] * arguments.no_plots
    for setting in arguments.set:
        common += ["--set", setting]
    return common


@contextmanager
def plan(arguments: argparse.Namespace) -> Iterator[list[list[str]]]:
    """Yield the command lines of all experiments, on given data, or on generated data that is
    deleted after the ``with`` block.

    :raises DedupError: no folder is given
    :raises InputError: a file can't be read
    """
    if arguments.out is None:
        raise DedupError("--out is missing: name the folder for tables, plots and report")
    sizes = QUICK_SIZES if arguments.quick else FULL_SIZES
    for path in (arguments.pairs, *(arguments.documents or ())):
        if path is not None:
            next(read_lines(path), None)  # checks that it is readable before anything is measured
    common = _common(arguments)
    chosen = ["--methods", *arguments.methods] if arguments.methods else []
    limit, workers = str(arguments.limit or sizes.stream), str(sizes.workers)
    size, planted = map(str, sizes.zhou)
    count, queries = map(str, sizes.expansion)
    with _data(arguments, sizes) as (pairs, documents):
        files = [str(path) for path in documents]
        yield [
            ["pairs", str(pairs), *common, *chosen],
            ["stream", *files, *common, "--limit", limit, "--workers", workers, *chosen],
            ["candidates", *common, "--count", str(sizes.candidates)],
            ["surface", files[0], *common, "--per-cell", str(sizes.per_cell)],
            ["li", *files, *common, "--size", str(sizes.li)],
            ["zhou", *files, *common, "--size", size, "--planted", planted],
            ["collisions", *common],
            ["expansion", *common, "--count", count, "--queries", queries],
        ]


def compose(folder: Path) -> str:
    """Return the report: every table in the folder under its heading, with its plot."""
    parts = ["# Evaluation\n"]
    for name, heading, meaning in SECTIONS:
        table = folder / f"{name}.md"
        if not table.exists():
            continue
        parts.append(f"## {heading}\n\n{meaning}\n\n{table.read_text(encoding='utf-8')}")
        plot = f"{_PLOTS.get(name, name)}.svg"
        if (folder / plot).exists():
            parts.append(f"![{heading}]({plot})\n")
    return "\n".join(parts)


def write_report(folder: Path) -> Path:
    """Write the report next to the tables.

    :raises DedupError: it can't be written
    """
    path = folder / REPORT
    try:
        path.write_text(compose(folder), encoding="utf-8")
    except OSError as error:
        raise DedupError(f"{path} can't be written: {error.strerror or error}") from None
    return path
