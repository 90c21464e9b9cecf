"""``scrapy dedup clusters``: stored pages with their mirrors, as a file."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from dedup_middleware.journal.clusters import collect_clusters, to_json_lines, write_clusters
from dedup_middleware.journal.opening import open_journal
from dedup_middleware.tools.commands.context import OK, Context, Subcommand
from dedup_middleware.tools.commands.selecting import add_selection, to_query


class Command(Subcommand):
    """``scrapy dedup clusters``."""

    name = "clusters"
    summary = "Write each stored page with the pages that were dropped for it"
    description = (
        "JSON lines (.jsonl), CSV (.csv) or Parquet (.parquet), by the name of the file. Reads\n"
        "the journal; the index is not needed.\n"
        "Exit codes: 0; 1: the journal can't be read, or the file can't be written."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments of the command."""
        parser.add_argument(
            "-o", "--output", required=True, metavar="FILE", help="a new file; -: JSON lines"
        )
        parser.add_argument("--near", action="store_true", help="with near misses")
        add_selection(parser, journal=True)

    async def run(self, context: Context, arguments: argparse.Namespace) -> int:
        """Run the command; returns its exit code."""
        with open_journal(context.options) as journal:
            clusters = collect_clusters(journal, to_query(arguments), near=arguments.near)
            if arguments.output == "-":
                sys.stdout.buffer.write(to_json_lines(clusters))
                sys.stdout.flush()
                return OK
            written = write_clusters(clusters, Path(arguments.output), replace=False)
        state = {"clusters": written, "output": arguments.output}
        context.say(state, lambda: f"{written:,} clusters are in {arguments.output}.")
        return OK
