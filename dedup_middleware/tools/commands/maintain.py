"""``scrapy dedup verify``, ``compact``, ``forget`` and ``clear``, which work on a whole index or on
pages in it, and ``warmup``, which prepares a machine.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs

from dedup_middleware.index.verification import Verification, verify
from dedup_middleware.journal.entries import host_of
from dedup_middleware.tools.commands.asking import (
    Reader,
    existing_index,
    former_index,
    reading_index,
)
from dedup_middleware.tools.commands.context import (
    FAILED,
    FOUND,
    OK,
    CommandError,
    Context,
    Subcommand,
    add_row,
    fact_table,
    plain_table,
)
from dedup_middleware.tools.commands.selecting import add_selection

if TYPE_CHECKING:
    from rich.table import Table

    from dedup_middleware.index.base import Progress


class Verify(Subcommand):
    """``scrapy dedup verify``."""

    summary = "Read the whole index and report what is inconsistent"
    description = (
        "Nothing is changed; crawls may go on. Exit codes: 0: all is well; 3: something is\n"
        "damaged; 1: the index can't be read."
    )

    async def run(self, context: Context, arguments: argparse.Namespace) -> int:  # noqa: ARG002
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
    names = ("committed", "pending", "released", "damaged", "lacking_pages", "overflow")
    facts = fact_table("Pages", {name.replace("_", " "): getattr(found, name) for name in names})
    for line in found.counters:
        add_row(facts, "counter", line)
    grid.add_row(facts)
    columns = ("name", "buckets", "records", "gone", "unknown", "misplaced", "junk")
    tables = plain_table("Tables", *columns)
    for one in found.tables:
        add_row(tables, *(getattr(one, name) for name in columns))
    grid.add_row(tables)
    return grid


class Compact(Subcommand):
    """``scrapy dedup compact``."""

    summary = "Take the records of forgotten and released pages out of an index"
    description = "Crawls may go on. Exit codes: 0; 1: the index can't be used."

    async def run(self, context: Context, arguments: argparse.Namespace) -> int:  # noqa: ARG002
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


_EVER = float(2**32 - 1)  # seconds since 1970, later than any commit


class Forget(Subcommand):
    """``scrapy dedup forget``."""

    summary = "Forget stored pages, so that like pages may be stored again"
    description = (
        "By key, by host, or by the time of storing (--since, --until): one of these three.\n"
        "Storage and journal stay as they are. `scrapy dedup compact` gives back the space.\n"
        "Exit codes: 0: done, also if there was nothing; 1: not confirmed, or the index can't be\n"
        "used."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_selection(parser, journal=False)
        parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")

    async def run(self, context: Context, arguments: argparse.Namespace) -> int:
        span = arguments.since is not None or arguments.until is not None
        if sum((bool(arguments.key), bool(arguments.host), span)) != 1:
            raise CommandError("give one of --key, --host, and --since or --until")
        async with (
            reading_index(context.options) as reader,
            former_index(context.options) as former,
        ):
            if not arguments.yes and not _confirmed(context, "these pages"):
                context.say({"forgotten": 0}, lambda: "Nothing was forgotten.")
                return FAILED
            # The former one first: what it forgets is not carried over again.
            if former is not None:
                await _forget(attrs.evolve(reader, index=former), arguments)
            forgotten = await _forget(reader, arguments)
        context.say({"forgotten": forgotten}, lambda: f"{forgotten:,} pages are forgotten.")
        return OK


async def _forget(reader: Reader, arguments: argparse.Namespace) -> int:
    """Forget the pages that are meant in one index; how many there were."""
    if arguments.key:
        page_ids = [page_id for key in arguments.key for page_id in await reader.page_ids_of(key)]
        return await reader.index.forget(page_ids)
    if arguments.host:
        hosts = {host.lower() for host in arguments.host}
        return await reader.index.forget_addresses(lambda address: host_of(address) in hosts)
    return await reader.index.forget_span(
        arguments.since if arguments.since is not None else 0.0,
        arguments.until if arguments.until is not None else _EVER,
    )


class Clear(Subcommand):
    """``scrapy dedup clear``."""

    summary = "Forget all pages of an index, to begin anew"
    description = (
        "The journal and the storage stay as they are, and so do the parameters of the index: to\n"
        "change them, name a new index. Crawls may continue.\n"
        "Exit codes: 0: done; 1: not confirmed, or the index can't be used."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")

    async def run(self, context: Context, arguments: argparse.Namespace) -> int:
        async with (
            existing_index(context.options) as index,
            former_index(context.options) as former,
        ):
            if not arguments.yes and not _confirmed(context, f"all {await index.count():,} pages"):
                context.say({"forgotten": 0}, lambda: "Nothing was forgotten.")
                return FAILED
            if former is not None:
                await former.forget_span(0.0, _EVER)
            forgotten = await index.forget_span(0.0, _EVER)
            with context.progress("records") as done:
                await index.compact(lambda _, number: done(number))
        context.say({"forgotten": forgotten}, lambda: f"{forgotten:,} pages are forgotten.")
        return OK


def _confirmed(context: Context, pages: str) -> bool:
    if not sys.stdin.isatty():
        raise CommandError("there is no terminal to confirm at: add --yes")
    # Not to the output, which may be JSON in a file.
    print(f"Forget {pages} in {context.options.safe_index_url}? [y/N] ", end="", file=sys.stderr)
    sys.stderr.flush()
    answer = sys.stdin.readline()  # empty at the end of the input
    return answer.strip().lower() in {"y", "yes"}


class Warmup(Subcommand):
    """``scrapy dedup warmup``."""

    summary = "Compile the kernels that these settings need, for images and CI"
    description = (
        "Fills the cache of compiled functions and dictionaries; the index is not needed.\n"
        "Exit codes: 0; 1: the settings can't be used."
    )

    async def run(self, context: Context, arguments: argparse.Namespace) -> int:  # noqa: ARG002
        from dedup_middleware.base.cachefolder import cache_directory
        from dedup_middleware.core.deduplicator import Deduplicator

        started = time.perf_counter()
        await Deduplicator(context.options).warm()
        seconds = time.perf_counter() - started
        folder = cache_directory()
        context.say(
            {"cache": folder, "seconds": round(seconds, 2)},
            lambda: f"Ready after {seconds:.1f} s. Cache: {folder or 'none can be written'}",
        )
        return OK
