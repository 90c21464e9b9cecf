"""``scrapy dedup spark``: de-duplicate an archive on Apache Spark."""

from __future__ import annotations

import argparse
from importlib import import_module
from pathlib import Path

from dedup_middleware.tools.commands.context import OK, CommandError, Context, Subcommand
from dedup_middleware.tools.files.rows import FORMATS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what ``scrapy dedup spark`` and ``python -m dedup_middleware.spark`` both accept."""
    parser.add_argument(
        "paths", nargs="+", metavar="PATH", help="files, folders or patterns, as Spark reads them"
    )
    parser.add_argument(
        "-o", "--output", required=True, metavar="FOLDER", help="folder of the result"
    )
    parser.add_argument("--format", choices=FORMATS, help="default: by the ending of the files")
    parser.add_argument(
        "--keep", default="first", help="first, longest or earliest-date (default: %(default)s)"
    )
    parser.add_argument(
        "--order-by", metavar="COLUMN", help="numbers or times (default: place in the files)"
    )
    parser.add_argument("--date-field", metavar="COLUMN", default="date")
    parser.add_argument(
        "--against", metavar="FILE", help="an exported index, whose pages are kept already"
    )
    parser.add_argument("--near", action="store_true", help="near misses in the clusters, too")
    parser.add_argument(
        "--index-file", metavar="FILE", type=Path, help="write the kept pages as an exported index"
    )
    parser.add_argument(
        "--load", action="store_true", help="enter the kept pages into DEDUP_INDEX_URL"
    )
    parser.add_argument(
        "--partitions", type=int, default=0, metavar="N", help="default: by the size of the input"
    )


class Command(Subcommand):
    """``scrapy dedup spark``."""

    summary = "De-duplicate an archive of JSON lines, CSV, Parquet or WARC on Apache Spark"
    description = (
        "The verdicts are those of a crawl with the pages in the same order. The result is\n"
        "a folder of Parquet tables: kept, duplicates, clusters and rejects. A job that was ended\n"
        "goes on where it was when it is started again. Needs Java 17 and the extra [spark].\n"
        "Exit codes: 0; 1: something can't be read or written, or Spark is missing."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--master", default="local[*]", help="as Spark names it (default: %(default)s)"
        )
        add_arguments(parser)

    async def run(self, context: Context, arguments: argparse.Namespace) -> int:
        try:
            work = import_module("dedup_middleware.spark.commandline")
        except ImportError as error:
            raise CommandError(
                f"the package {error.name} is missing: pip install 'dedup-middleware[spark]'"
            ) from error
        state = await work.run(arguments, context.options, arguments.master, quiet=context.json)
        context.say(state, lambda: work.sentences(state))
        return OK
