"""``scrapy dedup forget`` and ``clear``: take pages, or all, out of an index."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

import attrs

from dedup_middleware.journal.entries import host_of
from dedup_middleware.tools.commands.asking import (
    Reader,
    existing_index,
    former_index,
    reading_index,
)
from dedup_middleware.tools.commands.context import FAILED, OK, CommandError, Context, Subcommand
from dedup_middleware.tools.commands.selecting import add_selection

_EVER = float(2**32 - 1)  # seconds since 1970, later than any commit


class Forget(Subcommand):
    """``scrapy dedup forget``."""

    name = "forget"
    summary = "Forget stored pages, so that like pages may be stored again"
    description = (
        "By key, by host, or by the time of storing (--since, --until): one of these three.\n"
        "Storage and journal stay as they are. `scrapy dedup compact` gives back the space.\n"
        "Exit codes: 0: done, also if there was nothing; 1: not confirmed, or the index can't be\n"
        "used."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments of the command."""
        add_selection(parser, journal=False)
        parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")

    async def run(self, context: Context, arguments: argparse.Namespace) -> int:
        """Run the command; returns its exit code."""
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
        return await forget_keys(reader, arguments.key)
    if arguments.host:
        return await reader.index.forget_addresses(of_hosts(arguments.host))
    return await reader.index.forget_span(
        arguments.since if arguments.since is not None else 0.0,
        arguments.until if arguments.until is not None else _EVER,
    )


class Clear(Subcommand):
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


async def forget_keys(reader: Reader, keys: list[str]) -> int:
    """Forget pages by their keys; how many stored ones there were."""
    page_ids = [page_id for key in keys for page_id in await reader.page_ids_of(key)]
    return await reader.index.forget(page_ids)


def of_hosts(hosts: list[str]) -> Callable[[str], bool]:
    """Whether an address is of one of the hosts."""
    wanted = frozenset(host.lower() for host in hosts)
    return lambda address: host_of(address) in wanted
