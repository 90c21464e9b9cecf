"""Every experiment in one go, those of the evaluation among them, on files given or made up."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import attrs

from dedup_middleware.evaluation import commandline as evaluation
from dedup_middleware.evaluation.corpus import read_lines
from dedup_middleware.evaluation.output import OutputError
from research import madeup

SECTIONS: Final[tuple[evaluation.Section, ...]] = (
    *evaluation.SECTIONS,
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


@attrs.frozen
class Sizes:
    """How large the experiments are; of made-up data, how much is made."""

    made_up: int
    made_up_pairs: int
    per_cell: int
    li: int
    zhou: tuple[int, int]
    expansion: tuple[int, int]


FULL_SIZES: Final = Sizes(10_000, 200, 50, 500, (2000, 500), (1_000_000, 200))
QUICK_SIZES: Final = Sizes(150, 12, 1, 20, (25, 10), (10_000, 20))


@contextmanager
def _data(arguments: argparse.Namespace, sizes: Sizes) -> Iterator[tuple[Path, list[Path]]]:
    """The files given, and made-up ones in place of the others."""
    with TemporaryDirectory() as folder:
        pairs, documents = arguments.pairs, arguments.documents
        if pairs is None:
            made = madeup.pairs(sizes.made_up_pairs, arguments.seed)
            pairs = madeup.write(Path(folder) / "pairs.jsonl", made)
        if not documents:
            lines = madeup.documents(sizes.made_up, arguments.seed)
            documents = [madeup.write(Path(folder) / "documents.jsonl", lines)]
        yield pairs, documents


@contextmanager
def plan(arguments: argparse.Namespace) -> Iterator[list[list[str]]]:
    """The command lines of all experiments, on the data given or made up meanwhile.

    :raises OutputError: no folder
    :raises InputError: a file can't be read
    """
    if arguments.out is None:
        raise OutputError("--out is missing: name the folder for tables, plots and report")
    sizes = QUICK_SIZES if arguments.quick else FULL_SIZES
    for path in (arguments.pairs, *(arguments.documents or ())):
        if path is not None:
            next(read_lines(path), None)  # known to be readable before anything is measured
    common = evaluation.common_of(arguments)
    size, planted = map(str, sizes.zhou)
    count, queries = map(str, sizes.expansion)
    with _data(arguments, sizes) as (pairs, documents):
        files = [str(path) for path in documents]
        yield [
            *evaluation.command_lines(arguments, pairs, documents),
            ["surface", files[0], *common, "--per-cell", str(sizes.per_cell)],
            ["li", *files, *common, "--size", str(sizes.li)],
            ["zhou", *files, *common, "--size", size, "--planted", planted],
            ["collisions", *common],
            ["expansion", *common, "--count", count, "--queries", queries],
        ]
