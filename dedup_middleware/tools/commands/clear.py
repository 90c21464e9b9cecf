"""``scrapy dedup clear``: forget all pages of an index, to begin a crawl anew."""

from __future__ import annotations

import argparse
import sys

from dedup_middleware.tools.commands.asking import existing_index
from dedup_middleware.tools.commands.context import FAILED, OK, CommandError, Context, Subcommand

_EVER = float(2**32 - 1)


class Command(Subcommand):
    """``scrapy dedup clear``."""

    name = "clear"
    summary = "Forget all pages of an index, to begin anew"
    description = (
        "The journal and the storage stay as they are, and so do the parameters of the index: to\n"
        "change them, name a new index. Crawls may continue.\n"
        "Exit codes: 0: done; 1: not confirmed, or the index can't be used."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments of the command."""
        parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")

    async def run(self, context: Context, arguments: argparse.Namespace) -> int:
        """Run the command; returns its exit code."""
        async with existing_index(context.options) as index:
            if not arguments.yes and not _confirmed(context, await index.count()):
                context.say({"forgotten": 0}, lambda: "Nothing was forgotten.")
                return FAILED
            forgotten = await index.forget_span(0.0, _EVER)
            with context.progress("records") as done:
                await index.compact(lambda _, number: done(number))
        context.say({"forgotten": forgotten}, lambda: f"{forgotten:,} pages are forgotten.")
        return OK


def _confirmed(context: Context, pages: int) -> bool:
    if not sys.stdin.isatty():
        raise CommandError("there is no terminal to confirm at: add --yes")
    where = context.options.safe_index_url
    answer = input(f"Forget all {pages:,} pages in {where}? [y/N] ")
    return answer.strip().lower() in {"y", "yes"}
