"""``scrapy dedup stats``: the state of an index and of its journal."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from dedup_middleware.base.errors import DedupError
from dedup_middleware.base.options import Options
from dedup_middleware.index.base import Index
from dedup_middleware.index.opening import open_index
from dedup_middleware.index.parameters import HASH_KEY
from dedup_middleware.index.window import LIVE, Window
from dedup_middleware.journal.opening import choose_journal
from dedup_middleware.model.buckets import BucketKey, table_name
from dedup_middleware.model.records import State
from dedup_middleware.signature.bands import band_recall, simhash_recall
from dedup_middleware.tools.commands.context import (
    OK,
    Context,
    Subcommand,
    fact_table,
    moment,
)

if TYPE_CHECKING:
    from rich.table import Table


@attrs.frozen
class Generation:
    """A span of time whose pages expire together.

    ``since`` and ``until`` bound it, ``expires`` is when its pages are forgotten, all in seconds
    since 1970. ``pages`` were stored in it; None: not counted.
    """

    since: float
    until: float
    expires: float
    pages: int | None = None


def generations(window: float, now: float) -> tuple[Generation, ...]:
    """The live generations, the oldest first; none without a window.

    :param window: seconds for which a page is remembered
    :param now: seconds since 1970

    >>> [(one.since, one.until, one.expires) for one in generations(200.0, 1050.0)]
    [(800.0, 900.0, 1100.0), (900.0, 1000.0, 1200.0), (1000.0, 1100.0, 1300.0)]
    """
    if not window:
        return ()
    divided = Window(window)
    span = divided.span_ms / 1000
    return tuple(
        Generation(number * span, (number + 1) * span, (number + LIVE) * span)
        for number in divided.at(now).live
    )


async def count_pages(
    index: Index, live: tuple[Generation, ...], progress: Callable[[float], None]
) -> tuple[Generation, ...]:
    """The generations with the numbers of their pages, by the time at which each was stored.

    A page is entered before it is stored, so one that was pending at the turn of two
    generations counts in the later one.

    :param progress: called with the number of pages read
    """
    if not live:
        return live
    bounds = [one.since for one in live[1:]]
    counts = np.zeros(len(live), np.int64)
    seen = 0
    async for pages in index.pages():
        times = pages.times[pages.states == State.COMMITTED]
        places = np.searchsorted(bounds, times, side="right")
        counts += np.bincount(places, minlength=len(live))
        seen += len(pages)
        progress(seen)
    return tuple(
        attrs.evolve(one, pages=number) for one, number in zip(live, counts.tolist(), strict=True)
    )


_LARGEST = 10
_EVERY = 1000


@attrs.frozen
class Skew:
    """Records in the buckets of an index.

    ``largest`` is the number in the fullest bucket. ``met`` is the mean number of records in the
    bucket of a record, itself left out: what a decision has to scan in each table. ``skew`` is
    ``met`` over what it were if all 65,536 buckets of each table were alike (1: no skew).
    ``fullest`` names the fullest buckets: table, prefix, records.
    """

    records: int
    largest: int
    met: float
    skew: float
    fullest: tuple[tuple[str, str, int], ...]


async def measure_skew(index: Index, progress: Callable[[float], None]) -> Skew:
    """Read all buckets of an index.

    :param progress: called with the number of buckets read
    """
    records: dict[int, int] = {}
    squares = 0
    fullest: list[tuple[int, int]] = []
    largest = seen = 0
    async for bucket, raw in index.buckets():
        seen += 1
        bucket_key = BucketKey(bucket, 0)
        number = len(raw) // bucket_key.width
        records[bucket_key.table] = records.get(bucket_key.table, 0) + number
        squares += number * (number - 1)
        largest = max(largest, number)
        fullest.append((number, bucket))
        if len(fullest) > 50 * _LARGEST:
            fullest = sorted(fullest, reverse=True)[:_LARGEST]
        if seen % _EVERY == 0:
            progress(seen)
    progress(seen)
    total = sum(records.values())
    even = sum(number * max(number - 1, 0) / 65536 for number in records.values())
    return Skew(
        records=total,
        largest=largest,
        met=round(squares / max(1, total), 3),
        skew=round(squares / even, 3) if even else 1.0,
        fullest=tuple(
            (table_name(bucket >> 16), f"{bucket & 0xFFFF:04x}", number)
            for number, bucket in sorted(fullest, reverse=True)[:_LARGEST]
        ),
    )


LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9)  # Jaccard indexes at which the recall is shown


class Command(Subcommand):
    """``scrapy dedup stats``."""

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
        async with open_index(options) as index:
            await index.attach()
            state = await index.stats()
            live = generations(float(state.parameters.get("window", 0)), time.time())
            skew = None
            if arguments.buckets:
                with context.progress("buckets", state.buckets) as done:
                    skew = await measure_skew(index, done)
                with context.progress("pages", state.committed) as done:
                    live = await count_pages(index, live, done)
        parameters = {k: v for k, v in state.parameters.items() if k != HASH_KEY}  # a secret
        shown = {
            "index": options.safe_index_url,
            **attrs.asdict(state, recurse=False),
            "parameters": parameters,
            "recall": recall(parameters),
            "skew": None if skew is None else attrs.asdict(skew),
            "generations": [attrs.asdict(one) for one in live],
            "journal": journal_state(options),
        }
        context.say(shown, lambda: describe(shown))
        return OK


def recall(parameters: Any) -> dict[str, dict[str, float]]:
    """Share of the pages of a Jaccard index that bands and SimHash tables find.

    Computed from the parameters of an index. Anchors are left out: what they find depends on where
    a page was edited.
    """
    bands, _, rows = str(parameters.get("bands", "0x1")).partition("x")
    return {
        f"{level:g}": {
            "bands": round(band_recall(level, int(bands), int(rows)), 4),
            "all": round(
                1 - (1 - band_recall(level, int(bands), int(rows))) * (1 - simhash_recall(level)),
                4,
            ),
        }
        for level in LEVELS
    }


def journal_state(options: Options) -> dict[str, Any] | None:
    """Size of the journal, None if there is none."""
    journal = choose_journal(options)
    if journal is None:
        return None
    try:
        journal.open(create=False)
        with journal:
            return {"where": journal.where, **attrs.asdict(journal.size())}
    except DedupError:
        return None


def describe(state: dict[str, Any]) -> Table:
    """A table for people."""
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
        rows["records"] = skew["records"]
        rows["records in the fullest bucket"] = skew["largest"]
        rows["records compared with a page, mean"] = skew["met"]
        rows["skew (1: all buckets alike)"] = skew["skew"]
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
        rows["journal"] = journal["where"]
        rows["entries in the journal: drops, near pages"] = journal["drops"]
        rows["texts of stored pages in the journal"] = journal["kept"]
        rows["bytes of the journal"] = journal["bytes"]
    return fact_table(state["index"], {**rows, **dict(sorted(state["parameters"].items()))})
