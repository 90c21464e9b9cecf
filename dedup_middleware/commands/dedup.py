"""``scrapy dedup``: look into an index from the command line."""

from __future__ import annotations

import argparse
import asyncio
import json
from typing import Any, ClassVar

import attrs
from scrapy.commands import ScrapyCommand
from scrapy.exceptions import UsageError
from scrapy.settings import Settings

from dedup_middleware.errors import DedupError
from dedup_middleware.index.opening import open_index
from dedup_middleware.index.stats import IndexStats
from dedup_middleware.options import Options
from dedup_middleware.scrapysettings import options_from_settings


class Command(ScrapyCommand):
    """Dispatches to the subcommands; settings come from the project and from ``-s``."""

    requires_crawler_process = False
    default_settings: ClassVar[dict[str, Any]] = {"LOG_ENABLED": False}

    def syntax(self) -> str:
        """What follows the command's name."""
        return "stats [--json]"

    def short_desc(self) -> str:
        """One line for the list of commands."""
        return "Show the state of an index of near-duplicates"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Options beside Scrapy's own."""
        super().add_options(parser)
        parser.add_argument("--json", action="store_true", help="print JSON for machines")

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        """Run a subcommand; the exit code is 1 when the index can't be read."""
        if args != ["stats"]:
            raise UsageError(f"use: scrapy dedup {self.syntax()}")
        try:
            options = options_from_settings(self.settings or Settings())
            state = asyncio.run(read_stats(options))
        except DedupError as error:
            self.exitcode = 1
            print(f"scrapy dedup stats: {error}")
            return
        if opts.json:
            print(json.dumps({"index": options.safe_index_url, **attrs.asdict(state)}))
        else:
            show(options, state)


async def read_stats(options: Options) -> IndexStats:
    """The state of an index that exists; nothing is created.

    :raises DedupError: there is none, or it can't be read
    """
    async with open_index(options) as index:
        await index.attach()
        state = await index.stats()
    shown = {name: value for name, value in state.parameters.items() if name != "hash_key"}
    return attrs.evolve(state, parameters=shown)


def show(options: Options, state: IndexStats) -> None:
    """Print a table for people."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=options.safe_index_url, show_header=False)
    rows: dict[str, object] = {
        "pages stored": f"{state.committed:,}",
        "pages on their way": f"{state.pending:,}",
        "pages given back": f"{state.released:,}",
        "buckets": f"{state.buckets:,}",
        "bytes": f"{state.bytes:,}",
        "bytes a page": f"{state.bytes / max(1, state.committed):,.0f}",
        "records left out of full buckets": f"{state.overflow:,}",
        "damaged satellites seen": f"{state.corrupt:,}",
        **dict(sorted(state.parameters.items())),
    }
    for name, value in rows.items():
        table.add_row(name, str(value))
    Console().print(table)
