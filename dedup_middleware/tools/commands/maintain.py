"""``scrapy dedup verify`` and ``compact``: check an index, and free the space of dead records."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs

from dedup_middleware.index.verification import Verification, verify
from dedup_middleware.tools.commands.asking import existing_index
from dedup_middleware.tools.commands.context import (
    FOUND,
    OK,
    CommandError,
    Context,
    Subcommand,
    add_row,
    plain_table,
)

if TYPE_CHECKING:
    from rich.table import Table

    from dedup_middleware.index.base import Progress


class Verify(Subcommand):
    """``scrapy dedup verify``."""

    name = "verify"
    summary = "Read the whole index and report what is inconsistent"
    description = (
        "Nothing is changed; crawls may go on. Exit codes: 0: all is well; 3: something is\n"
        "damaged; 1: the index can't be read."
    )

    async def run(self, context: Context, arguments: argparse.Namespace) -> int:  # noqa: ARG002
        """Run the command; returns its exit code."""
        async with existing_index(context.options) as index:
            with context.progress("read") as done:
                found = await verify(index, lambda _, number: done(number))
        context.say({"sound": found.is_sound, **attrs.asdict(found)}, lambda: _table(found))
        return OK if found.is_sound else FOUND


def _table(found: Verification) -> Table:
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid()
    grid.add_row(Text("The index is whole." if found.is_sound else "The index is damaged."))
    facts = plain_table("Pages")
    facts.add_column()
    facts.add_column()
    for name in ("committed", "pending", "released", "damaged", "lacking_pages", "overflow"):
        add_row(facts, name.replace("_", " "), getattr(found, name))
    for line in found.counters:
        add_row(facts, "counter", line)
    grid.add_row(facts)
    names = ("name", "buckets", "records", "gone", "unknown", "misplaced", "junk")
    tables = plain_table("Tables", *names)
    for one in found.tables:
        add_row(tables, *(getattr(one, name) for name in names))
    grid.add_row(tables)
    return grid


class Compact(Subcommand):
    """``scrapy dedup compact``."""

    name = "compact"
    summary = "Take the records of forgotten and released pages out of an index"
    description = "Crawls may go on. Exit codes: 0; 1: the index can't be used."

    async def run(self, context: Context, arguments: argparse.Namespace) -> int:  # noqa: ARG002
        """Run the command; returns its exit code."""
        if context.options.former_index_url:
            raise CommandError(
                "DEDUP_FORMER_INDEX_URL is set: pages that were given back tell which pages of the "
                "former index may have been replaced, and must stay until the crawl has moved; "
                "compact when that setting is out"
            )
        async with existing_index(context.options) as index:
            total = (await index.stats()).buckets
            with context.progress("buckets", total) as done:
                removed = await index.compact(_of_buckets(done))
        context.say({"records": removed}, lambda: f"{removed:,} records are taken out.")
        return OK


def _of_buckets(done: Callable[[float], None]) -> Progress:
    """The progress of the buckets alone: pages are read first, and in much less time."""

    def advance(what: str, number: int) -> None:
        if what == "buckets":
            done(number)

    return advance
