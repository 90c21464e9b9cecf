"""``scrapy dedup stats``, ``verify``, ``compact``, ``forget``, ``clear`` and ``warmup``."""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections import Counter
from collections.abc import Callable
from heapq import nlargest
from typing import Any

import attrs
import numpy as np
from rich.console import Group
from rich.table import Table

from dedup_middleware.base.errors import DedupError
from dedup_middleware.base.options import Options
from dedup_middleware.index.base import Index
from dedup_middleware.index.opening import former_options
from dedup_middleware.index.parameters import HASH_KEY, LIVE, Window, bands_of
from dedup_middleware.index.verification import Verification, verify
from dedup_middleware.journal.access import open_journal
from dedup_middleware.journal.entries import host_of
from dedup_middleware.model.buckets import table_name, width_of
from dedup_middleware.model.records import State
from dedup_middleware.tools.commands.asking import (
    Reader,
    existing_index,
    former_index,
    reading_index,
)
from dedup_middleware.tools.commands.dedup import (
    FAILED,
    FOUND,
    OK,
    Context,
    Subcommand,
    add_row,
    add_selection,
    fact_table,
    moment,
    plain_table,
)


class Verify(Subcommand):
    summary = "Read the whole index and report what is inconsistent"
    description = (
        "Nothing is changed; crawls may go on. Exit codes: 0: all is well; 3: something is\n"
        "damaged; 1: the index can't be read."
    )

    async def run(self, context: Context, arguments: argparse.Namespace) -> int:  # noqa: ARG002
        async with existing_index(context.options) as index:
            with context.progress("read") as done:
                found = await verify(index, lambda _, number: done(number))
        context.say({"sound": found.is_sound, **attrs.asdict(found)}, lambda: _tables(found))
        return OK if found.is_sound else FOUND


def _tables(found: Verification) -> Group:
    names = ("committed", "pending", "released", "damaged", "lacking_pages", "overflow")
    facts = fact_table("Pages", {name.replace("_", " "): getattr(found, name) for name in names})
    for line in found.counters:
        add_row(facts, "counter", line)
    columns = ("name", "buckets", "records", "gone", "unknown", "misplaced", "junk")
    tables = plain_table("Tables", *columns)
    for one in found.tables:
        add_row(tables, *(getattr(one, name) for name in columns))
    return Group(f"The index is {'whole' if found.is_sound else 'damaged'}.", facts, tables)


class Compact(Subcommand):
    summary = "Remove the records of forgotten and released pages from an index"
    description = "Crawls may go on. Exit codes: 0; 1: the index can't be used."

    async def run(self, context: Context, arguments: argparse.Namespace) -> int:  # noqa: ARG002
        if context.options.former_index_url:
            raise DedupError(
                "DEDUP_FORMER_INDEX_URL is set: records of released pages tell which pages of the "
                "former index may have been replaced, so they stay until the crawl has moved; then "
                "remove the setting and run compact"
            )
        async with existing_index(context.options) as index:
            total = (await index.stats()).buckets
            with context.progress("buckets", total) as done:
                # Pages, which are read first and much faster, are not shown.
                removed = await index.compact(lambda what, n: done(n if what == "buckets" else 0))
        context.say({"records": removed}, lambda: f"Records removed: {removed:,}.")
        return OK


class Forget(Subcommand):
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
            raise DedupError("give one of --key, --host, and --since or --until")
        options = context.options
        async with reading_index(options) as reader, former_index(options) as former:
            if not _confirmed(context, arguments, f"these pages in {_where(options)}"):
                return FAILED
            # The former index first, so that nothing it forgets is carried over again.
            if former is not None:
                await _forget(attrs.evolve(reader, index=former), arguments)
            forgotten = await _forget(reader, arguments)
        context.say({"forgotten": forgotten}, lambda: f"Pages forgotten: {forgotten:,}.")
        return OK


async def _forget(reader: Reader, arguments: argparse.Namespace) -> int:
    """Forget the selected pages in one index and return how many there were."""
    if arguments.key:
        page_ids = [page_id for key in arguments.key for page_id in await reader.page_ids_of(key)]
        return await reader.index.forget_wholly(page_ids)
    if arguments.host:
        hosts = {host.lower() for host in arguments.host}
        return await reader.index.forget_addresses(lambda address: host_of(address) in hosts)
    until = math.inf if arguments.until is None else arguments.until
    return await reader.index.forget_span(arguments.since or 0.0, until)


class Clear(Subcommand):
    summary = "Forget all pages of an index, to begin anew"
    description = (
        "The journal and the storage stay as they are, and so do the parameters of the index: to\n"
        "change them, name a new index. Crawls may continue.\n"
        "Exit codes: 0: done; 1: not confirmed, or the index can't be used."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")

    async def run(self, context: Context, arguments: argparse.Namespace) -> int:
        options = context.options
        async with existing_index(options) as index, former_index(options) as former:
            # The number is only needed for the question.
            if not arguments.yes:
                pages = await index.count() + (0 if former is None else await former.count())
                if not _confirmed(context, arguments, f"all {pages:,} pages in {_where(options)}"):
                    return FAILED
            if former is not None:
                await former.forget_span()
            forgotten = await index.forget_span()
            with context.progress("records") as done:
                await index.compact(lambda _, number: done(number))
        context.say({"forgotten": forgotten}, lambda: f"Pages forgotten: {forgotten:,}.")
        return OK


def _where(options: Options) -> str:
    """The index and, if there is one, the former index."""
    if not options.former_index_url:
        return options.safe_index_url
    return f"{options.safe_index_url} and in {former_options(options).safe_index_url}"


def _confirmed(context: Context, arguments: argparse.Namespace, pages: str) -> bool:
    if arguments.yes:
        return True
    if sys.stdin is None or not sys.stdin.isatty():
        raise DedupError("there is no terminal to confirm at: add --yes")
    # Not on standard output, which may be JSON in a file.
    print(f"Forget {pages}? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() in {"y", "yes"}:
        return True
    context.say({"forgotten": 0}, lambda: "Nothing was forgotten.")
    return False


class Warmup(Subcommand):
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


def generations(window: float, now: float) -> list[dict[str, Any]]:
    """Return the live generations, oldest first: spans of time (seconds since 1970) whose pages
    expire together. ``pages``: pages stored then; None: not counted.

    :param window: seconds for which pages are remembered; 0: no generations

    >>> [(one["since"], one["expires"]) for one in generations(200.0, 1050.0)]
    [(800.0, 1100.0), (900.0, 1200.0), (1000.0, 1300.0)]
    """
    if not window:
        return []
    divided = Window(window)
    span = divided.span_ms / 1000
    return [
        {"since": n * span, "until": (n + 1) * span, "expires": (n + LIVE) * span, "pages": None}
        for n in divided.at(now).live
    ]


async def count_pages(
    index: Index, live: list[dict[str, Any]], progress: Callable[[float], None]
) -> None:
    """Set ``pages`` of each generation, counted by the times at which pages were stored."""
    if not live:
        return
    bounds = [one["since"] for one in live[1:]]
    counts = np.zeros(len(live), np.int64)
    seen = 0
    async for pages in index.pages():
        times = pages.times[pages.states == State.COMMITTED]
        places = np.searchsorted(bounds, times, side="right")
        counts += np.bincount(places, minlength=len(live))
        seen += len(pages)
        progress(seen)
    for one, number in zip(live, counts.tolist(), strict=True):
        one["pages"] = number


_FULLEST = 10  # buckets listed
_EVERY = 1000


async def measure_skew(index: Index, progress: Callable[[float], None]) -> dict[str, Any]:
    """Measure how unevenly records are spread over the buckets of an index.

    ``met`` is the mean number of other records in a record's bucket: what a decision scans per
    table. ``skew`` is ``met`` divided by its value if all 65,536 buckets of each table were equal.
    ``fullest`` lists the fullest buckets: table, prefix, records.
    """
    records: Counter[int] = Counter()
    squares = seen = 0
    fullest: list[tuple[int, int]] = []
    async for bucket, raw in index.buckets():
        seen += 1
        number = len(raw) // width_of(bucket)
        records[bucket >> 16] += number
        squares += number * (number - 1)
        fullest.append((number, bucket))
        if seen % _EVERY == 0:
            fullest = nlargest(_FULLEST, fullest)
            progress(seen)
    progress(seen)
    fullest = nlargest(_FULLEST, fullest)
    even = sum(number * (number - 1) / 65536 for number in records.values())
    return {
        "records": records.total(),
        "largest": fullest[0][0] if fullest else 0,
        "met": round(squares / max(1, records.total()), 3),
        "skew": round(squares / even, 3) if even else 1.0,
        "fullest": [
            (table_name(bucket >> 16), f"{bucket & 0xFFFF:04x}", number)
            for number, bucket in fullest
        ],
    }


LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9)  # Jaccard indexes for which the recall is shown


class Stats(Subcommand):
    summary = "Show the state of an index"
    description = (
        "Nothing is created or changed. Exit codes: 0; 1: there is no index, or it can't be read."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--buckets",
            action="store_true",
            help="read every bucket and page, and show how evenly the buckets are filled and how "
            "many pages each generation has; slow for a large index",
        )

    async def run(self, context: Context, arguments: argparse.Namespace) -> int:
        options = context.options
        async with existing_index(options) as index:
            state = await index.stats()
            live = generations(index.window, time.time())
            skew = None
            if arguments.buckets:
                with context.progress("buckets", state.buckets) as done:
                    skew = await measure_skew(index, done)
                with context.progress("pages", state.committed) as done:
                    await count_pages(index, live, done)
        parameters = {k: v for k, v in state.parameters.items() if k != HASH_KEY}  # a secret
        shown = {
            "index": options.safe_index_url,
            **attrs.asdict(state, recurse=False),
            "parameters": parameters,
            "recall": recall(parameters),
            "skew": skew,
            "generations": live,
            "journal": journal_state(options),
        }
        context.say(shown, lambda: describe(shown))
        return OK


def recall(parameters: Any) -> dict[str, dict[str, float]]:
    """Return the share of pages that bands and SimHash tables find at each Jaccard index; what
    anchors find depends on where a page was edited."""
    from dedup_middleware.signature.minhash import band_recall, simhash_recall  # loads numba

    bands, rows = bands_of(parameters)
    found = {}
    for level in LEVELS:
        by_bands = band_recall(level, bands, rows)
        by_all = 1 - (1 - by_bands) * (1 - simhash_recall(level))
        found[f"{level:g}"] = {"bands": round(by_bands, 4), "all": round(by_all, 4)}
    return found


def journal_state(options: Options) -> dict[str, Any] | None:
    """Return the size of the journal, None if there is none."""
    try:
        with open_journal(options) as journal:
            return {"where": journal.where, **attrs.asdict(journal.size())}
    except DedupError:
        return None


def describe(state: dict[str, Any]) -> Table:
    """Format the statistics of an index as a table."""
    rows: dict[str, object] = {
        "pages stored": state["committed"],
        "pages pending (leases)": state["pending"],
        "pages released": state["released"],
        "buckets": state["buckets"],
        "bytes": state["bytes"],
        "bytes a page": round(state["bytes"] / max(1, state["committed"])),
        "records left out of full buckets": state["overflow"],
        "damaged page records seen": state["corrupt"],
    }
    skew, live, journal = state["skew"], state["generations"], state["journal"]
    if skew is not None:
        rows |= {
            "records": skew["records"],
            "records in the fullest bucket": skew["largest"],
            "records compared with a page, mean": skew["met"],
            "skew (1: all buckets alike)": skew["skew"],
        }
    for number, one in enumerate(live, 1):
        pages = "" if one["pages"] is None else f"{one['pages']:,} pages, "
        rows[f"generation {number} of {len(live)}, from {moment(one['since'])}"] = (
            f"{pages}expires {moment(one['expires'])}"
        )
    for level, shares in state["recall"].items():
        rows[f"found at Jaccard {level}: bands / and SimHash"] = (
            f"{shares['bands']:.3f} / {shares['all']:.3f}, without anchors"
        )
    if journal is not None:
        rows["entries in the journal: drops, near pages"] = journal["drops"]
        rows["texts of stored pages in the journal"] = journal["kept"]
        rows["bytes of the journal"] = journal["bytes"]
    title = f"{state['index']}\njournal: {journal['where'] if journal else 'none'}"
    return fact_table(title, {**rows, **dict(sorted(state["parameters"].items()))})
