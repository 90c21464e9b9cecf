"""``scrapy dedup files`` and ``spark``: de-duplicate files on this machine or on Apache Spark."""

from __future__ import annotations

import argparse
import os
import resource
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from dedup_middleware.base.errors import DedupError, named_as_given
from dedup_middleware.tools.commands.dedup import (
    OK,
    Context,
    Subcommand,
    check_format,
    check_output,
    left_out_lines,
)
from dedup_middleware.tools.files.rows import FORMATS

if TYPE_CHECKING:
    from dedup_middleware.tools.files.run import Plan

_OTHERS = "parquet csv tsv warc"


class Files(Subcommand):
    summary = "De-duplicate files of JSON lines, CSV, Parquet or WARC"
    description = (
        "Pages are decided one after the other by the rule of the crawl, with an index of their\n"
        "own in memory: of pages that are alike the first is kept. Fields are named by the\n"
        "settings (DEDUP_KEY_FIELD, DEDUP_TEXT_FIELD, DEDUP_HTML_FIELD and so on). Kept lines of\n"
        "JSON are written as they are; rows of other formats become lines of JSON. Files get\n"
        "their names at the end: an interrupted run leaves only .part files, and the next one\n"
        "gives the same result. Exit codes: 0; 1: a file can't be read or written, or all\n"
        "rows were rejected."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("files", nargs="+", metavar="FILE", type=Path)
        parser.add_argument(
            "-o", "--output", required=True, metavar="FILE", type=Path,
            help="kept rows (.gz: packed)",
        )  # fmt: skip
        rejected = "rows that can't be read, and why (default: next to the kept ones, if any)"
        for name, words in (
            ("--dropped", "dropped rows, each with its verdict"),
            ("--rejected", rejected),
            ("--journal", "a journal, as of a crawl, for the report"),
            ("--clusters", "stored pages with their duplicates (.jsonl, .csv, .parquet)"),
        ):
            parser.add_argument(name, metavar="FILE", type=Path, help=words)
        parser.add_argument("--near", action="store_true", help="near misses in the clusters, too")
        parser.add_argument("--format", choices=FORMATS, help="default: by the file's ending")
        parser.add_argument(
            "--workers", type=_workers, default=os.cpu_count() or 1, metavar="N",
            help="processes that make fingerprints, this one among them (default: %(default)s)",
        )  # fmt: skip
        parser.add_argument("--overwrite", action="store_true", help="replace files that exist")

    async def run(self, context: Context, arguments: argparse.Namespace) -> int:
        from dedup_middleware.tools.files.run import Plan, run_batch

        kept = arguments.output
        for name in ("output", "dropped", "rejected", "journal", "clusters"):
            check_output(getattr(arguments, name))
        same = ("dropped", "journal", "clusters", "near", "workers", "overwrite")
        plan = Plan(
            inputs=tuple(arguments.files),
            kept=kept,
            rejected=arguments.rejected or kept.with_name(kept.name + ".rejected"),
            file_format=arguments.format,
            **{name: getattr(arguments, name) for name in same},
        )
        rows = [plan.kept, plan.dropped, plan.rejected]
        for path in rows:
            check_format(path, "rows are written as lines of JSON", ".jsonl or .jsonl.gz", _OTHERS)
        outputs = [path for path in (*rows, plan.journal, plan.clusters) if path is not None]
        _check_names(plan, outputs, overwrite=arguments.overwrite)
        if plan.near and plan.clusters is None:
            raise DedupError("--near adds to the clusters: name their file by --clusters")
        total = sum(path.stat().st_size for path in plan.inputs if path.is_file())
        with (
            named_as_given({"DEDUP_JOURNAL": "--journal"}),
            context.progress("bytes", total) as done,
        ):
            report = await run_batch(plan, context.options, done)
        state = {
            **attrs.asdict(report),
            "pages_per_second": round(report.read / max(report.seconds, 1e-9), 1),
            "peak_bytes": peak_memory(),
        }
        context.say(state, lambda: _sentences(state, plan.rejected))
        reasons = f"the reasons are in {plan.rejected}"
        check_rejected(report.rejected, report.read, reasons)
        return OK


def check_rejected(rejected: int, read: int, where: str) -> None:
    """Raise if no row could be read; ``where`` says where the reasons are, for the message."""
    if rejected and rejected == read:
        raise DedupError(
            f"all {read:,} rows were rejected; {where}. Name the fields of your "
            "rows (DEDUP_TEXT_FIELD, DEDUP_HTML_FIELD, DEDUP_KEY_FIELD), or their --format"
        )


def _check_names(plan: Plan, outputs: list[Path], *, overwrite: bool) -> None:
    """Refuse outputs that would replace files of the run or, without ``overwrite``, others."""
    from dedup_middleware.tools.files.results import PART, JournalOutput

    # Path.resolve() would raise for a link that leads to itself.
    names = [os.path.realpath(path) for path in (*plan.inputs, *outputs)]
    for name in names[len(plan.inputs) :]:
        if names.count(name) > 1:
            raise DedupError(f"{name} is named twice: each output needs a file of its own")
    names += map(_in_its_folder, (*plan.inputs, *outputs))
    for path in outputs:
        endings = JournalOutput.side_endings if path == plan.journal else ()
        for ending in (*endings, PART, *(PART + ending for ending in endings)):
            other = path.with_name(path.name + ending)
            if _in_its_folder(other) in names:
                raise DedupError(
                    f"{other} is needed for {path} until the run is complete: rename the one, or "
                    "name another output"
                )
        for ending in ("", *endings):
            check_output(path.with_name(path.name + ending), overwrite=overwrite)


def _in_its_folder(path: Path) -> str:
    """Return a path with its folder resolved, but not the file if it is a link."""
    return str(Path(os.path.realpath(path.parent)) / path.name)


def _workers(text: str) -> int:
    if not text.isdecimal() or int(text) > 1024:
        raise argparse.ArgumentTypeError(f"{text!r}: give a number from 0 to 1024")
    return int(text)


def peak_memory() -> int:
    """Return peak memory in bytes: this process plus the largest of its workers."""
    unit = 1 if sys.platform == "darwin" else 1024
    processes = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(resource.getrusage(one).ru_maxrss for one in processes) * unit


def _sentences(state: dict[str, Any], rejected: Path) -> str:
    lines = [
        f"{state['read']:,} rows: {state['kept']:,} kept, {state['dropped']:,} dropped, "
        f"{state['rejected']:,} rejected",
        f"{state['seconds']:.1f} s, {state['pages_per_second']:,.0f} rows a second, at most "
        f"{state['peak_bytes'] / 1e6:,.0f} MB",
    ]
    lines += [f"  {reason}: {number:,}" for reason, number in state["reasons"].items()]
    if not state["read"]:
        lines.append("There are no rows (of WARC only responses of status 200 with a page are).")
    lines += left_out_lines(state["left_out"])
    lines += doubtful_lines(state)
    if state["rejected"]:
        lines.append(f"The rejected rows are in {rejected}.")
    return "\n".join(lines)


def doubtful_lines(state: dict[str, Any]) -> list[str]:
    """Format the number of rows that may be several."""
    if not state["doubtful"]:
        return []
    return [
        f"{state['doubtful']:,} rows may hold others, as where quotes are missing; the first "
        f"is {state['first_doubtful']}."
    ]


def add_spark_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``scrapy dedup spark`` and ``python -m dedup_middleware.spark``."""
    add = parser.add_argument
    add("paths", nargs="+", metavar="PATH", help="files, folders or patterns, as Spark reads them")
    add("-o", "--output", required=True, metavar="FOLDER", help="folder of the result")
    add("--format", choices=FORMATS, help="default: by the ending of the files")
    add("--keep", default="first", help="first, longest or earliest-date (default: %(default)s)")
    add("--order-by", metavar="COLUMN", help="numbers, times; in Parquet (default: place)")
    add("--date-field", metavar="COLUMN", default="date")
    add("--against", metavar="FILE", help="an exported index, whose pages are kept already")
    add("--near", action="store_true", help="near misses in the clusters, too")
    of_index = "write the kept pages as an exported index"
    add("--index-file", metavar="FILE", type=Path, help=of_index)
    add("--load", action="store_true", help="enter the kept pages into DEDUP_INDEX_URL")
    add("--partitions", type=int, default=0, metavar="N", help="default: by the size of the input")


class Spark(Subcommand):
    summary = "De-duplicate an archive of JSON lines, CSV, Parquet or WARC on Apache Spark"
    description = (
        "The verdicts are those of a crawl with the pages in the same order. The result is\n"
        "a folder of Parquet tables: kept, duplicates, clusters and rejects. An interrupted\n"
        "job resumes when it is started again. Needs Java 17 and the extra [spark].\n"
        "Exit codes: 0; 1: something can't be read or written, all rows were rejected, or Spark\n"
        "is missing."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--master", default="local[*]", help="as Spark names it (default: %(default)s)"
        )
        add_spark_arguments(parser)

    async def run(self, context: Context, arguments: argparse.Namespace) -> int:
        try:
            work = import_module("dedup_middleware.spark.__main__")
        except ImportError as error:
            raise DedupError(
                f"the package {error.name} is missing: pip install 'dedup-middleware[spark]'"
            ) from error
        state = await work.run(arguments, context.options, arguments.master, quiet=context.json)
        context.say(state, lambda: work.sentences(state))
        reasons = f"the reasons are in {arguments.output}/rejects"
        check_rejected(state["rejects"], state["read"], reasons)
        return OK
