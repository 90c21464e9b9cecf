"""Which contested pages are kept: as the crawl would have decided, page after page.

Whether a page is kept depends on which of its candidates are. Most of it is settled in rounds, for
all pages at once: a page with a kept candidate that makes it a duplicate whatever else is kept is
dropped; one whose candidates are all dropped is kept. Each round settles at least the first page
that is open. What little is left goes through the pages in their order, on the driver.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from dedup_middleware.methods.base import Method
from dedup_middleware.spark.columns import runs_of, to_content, words
from dedup_middleware.spark.verdicts import COULD, SURE, Candidates, ranked

Checkpoint = Callable[[DataFrame, str], DataFrame]
SETTLED_DDL = "page bigint, kept_at bigint"
_ROUNDS = 50


@attrs.frozen(eq=False)
class Open:
    """A contested page that is not settled.

    ``orders``: of the page and its exact copies, ascending; ``flags`` int64[n] of its edges
    """

    orders: tuple[int, ...]
    own: NDArray[np.void]
    payload: bytes
    candidates: Candidates
    flags: NDArray[np.int64]


def settle(
    pages: Mapping[int, Open], method: Method, kept: dict[int, int]
) -> dict[int, int | None]:
    """Go through open pages in their order.

    :param pages: by the order of the page
    :param kept: candidates that are not open: when they were kept
    :returns: when a page, or one of its copies, was kept; None: never
    """
    kept = dict(kept)
    events = sorted((order, page) for page, one in pages.items() for order in one.orders)
    for order, page in events:
        if page not in kept and not _dropped(pages[page], order, method, kept):
            kept[page] = order
    return {page: kept.get(page) for page in pages}


def _dropped(page: Open, order: int, method: Method, kept: Mapping[int, int]) -> bool:
    times = [kept.get(one) for one in page.candidates.orders.tolist()]
    rows = np.array([i for i, time in enumerate(times) if time is not None and time < order], int)
    flags = page.flags[rows]
    if (flags & SURE).any():
        return True
    if not (flags & COULD).any():
        return False
    some = page.candidates.chosen(rows)
    _, ranking = ranked(method, page.own, page.payload, some, named=False)
    return ranking.match is not None


def settled(
    edges: DataFrame, copies: DataFrame, method: Method, limit: int, checkpoint: Checkpoint
) -> DataFrame:
    """Contested pages (page, kept_at): when it, or one of its exact copies, was kept; null: never.

    :param edges: columns of :data:`.verdicts.EDGES`
    :param copies: (page, candidate) exact copies of pages, by their orders
    :param limit: edges that the driver settles at the end
    :param checkpoint: writes a small table down under a name, and reads it
    """
    session = edges.sparkSession
    own = edges.where(F.col("candidate").isNull())
    contested = own.select("page")
    decided = session.createDataFrame([], "page bigint, kept boolean")
    threats = edges.where(
        (F.col("flags").bitwiseAND(F.lit(COULD)) != 0) & (F.col("candidate") < F.col("page"))
    ).select("page", "candidate", (F.col("flags").bitwiseAND(F.lit(SURE)) != 0).alias("sure"))
    open_ones = contested
    if threats.count() > limit:
        threats = threats.join(
            contested.select(F.col("page").alias("candidate"), F.lit(True).alias("open")),
            "candidate",
            "left",
        ).select("page", "candidate", "sure", F.coalesce("open", F.lit(False)).alias("open"))
        threats = checkpoint(threats, "round-0")
        for number in range(1, _ROUNDS + 1):
            before = threats.count()
            threats, newly = _round(threats)
            newly = checkpoint(newly, f"decided-{number}")
            threats = checkpoint(threats, f"round-{number}")
            decided = decided.union(newly)
            left = threats.count()
            if left <= limit or left == before:
                break
        open_ones = contested.join(decided, "page", "left_anti")
    found = _on_driver(edges, copies, open_ones, decided, method)
    rest = session.createDataFrame(found, SETTLED_DDL)
    known = decided.select("page", F.when(F.col("kept"), F.col("page")).alias("kept_at"))
    return known.union(rest)


def _round(threats: DataFrame) -> tuple[DataFrame, DataFrame]:
    """What is left of the edges, and the pages decided (page, kept)."""
    dropped = threats.where(~F.col("open") & F.col("sure")).select("page").distinct()
    gone = dropped.select(F.col("page").alias("candidate"))
    left = threats.join(dropped, "page", "left_anti").join(gone, "candidate", "left_anti")
    alone = (
        threats.select("page")
        .distinct()
        .join(dropped, "page", "left_anti")
        .join(left.select("page").distinct(), "page", "left_anti")
    )
    stored = alone.select(F.col("page").alias("candidate"), F.lit(True).alias("stored"))
    left = left.join(stored, "candidate", "left").select(
        "page", "candidate", "sure", (F.col("open") & F.col("stored").isNull()).alias("open")
    )
    decided = dropped.select("page", F.lit(False).alias("kept")).union(
        alone.select("page", F.lit(True).alias("kept"))
    )
    return left, decided


def _on_driver(
    edges: DataFrame, copies: DataFrame, pages: DataFrame, decided: DataFrame, method: Method
) -> list[tuple[int, int | None]]:
    """Settle what is left, in the order of the pages."""
    state = decided.select(F.col("page").alias("candidate"), "kept")
    waiting = pages.select(F.col("page").alias("candidate"), F.lit(True).alias("waiting"))
    theirs = (
        edges.join(pages, "page")
        .join(state, "candidate", "left")
        .join(waiting, "candidate", "left")
        .where(F.coalesce("kept", F.lit(True)))
        .select("page", "candidate", "flags", "content", "payload", "waiting")
        .sort("page", F.col("candidate").asc_nulls_first())
    )
    own_copies: dict[int, list[int]] = {}
    for page, order in copies.join(pages, "page").select("page", "candidate").collect():
        own_copies.setdefault(page, []).append(order)
    opened, kept = _opened(theirs.toArrow(), own_copies)
    return list(settle(opened, method, kept).items())


def _opened(rows: Any, copies: Mapping[int, list[int]]) -> tuple[dict[int, Open], dict[int, int]]:
    """Open pages, and candidates that are kept already."""
    if not rows.num_rows:
        return {}, {}
    rows = rows.combine_chunks()
    pages = words(rows.column("page"))
    orders = words(rows.column("candidate").fill_null(0))
    flags = words(rows.column("flags"))
    content = to_content(rows.column("content"))
    payloads = [payload or b"" for payload in rows.column("payload").to_pylist()]
    stored = np.array([value is None for value in rows.column("waiting").to_pylist()], np.bool_)
    stored &= np.asarray(rows.column("candidate").is_valid())
    kept = {order: order for order in orders[stored].tolist()}
    opened = {}
    for start, stop in runs_of(pages):
        page, rest = int(pages[start]), slice(start + 1, stop)
        candidates = Candidates(
            orders[rest], np.zeros(stop - start - 1, np.int64), content[rest], payloads[rest]
        )
        opened[page] = Open(
            (page, *sorted(copies.get(page, ()))),
            content[start : start + 1],
            payloads[start],
            candidates,
            flags[rest],
        )
    return opened, kept
