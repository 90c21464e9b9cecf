"""Settles which contested pages are kept, as a crawl would have decided page by page.

Whether a page is kept depends on which of its candidates are. Most pages are settled in rounds, all
at once: a page is dropped if a kept candidate makes it a duplicate whatever else is kept, and kept
if all its candidates are dropped. Each round settles at least the first open page. The few that are
left are settled on the driver, in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any

import attrs
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame

from dedup_middleware.methods.base import Method
from dedup_middleware.model.records import CONTENT
from dedup_middleware.spark.columns import numbers, to_content, words
from dedup_middleware.spark.verdicts import COULD, PLAIN, SURE, Candidates, ranked

Checkpoint = Callable[[DataFrame, str], DataFrame]
_ROUNDS = 50
_OWN_ROW = -(1 << 63)  # candidate in the own row of a page: sorts before all others


@attrs.frozen(eq=False)
class Open:
    """A contested page that is not settled yet."""

    orders: tuple[int, ...]  # of the page and its exact copies, ascending
    own: NDArray[np.void]  # CONTENT[1]
    payload: bytes
    candidates: Candidates
    flags: NDArray[np.int64]  # of its edges


def settle(
    pages: Mapping[int, Open], method: Method, kept: dict[int, int]
) -> dict[int, int | None]:
    """Settle open pages in their order.

    :param pages: by the order of the page
    :param kept: for each candidate that is not open, the order at which it was kept
    :returns: for each page the order at which it, or one of its copies, was kept; None: never
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
    """Return contested pages (page, kept_at): the order at which it or a copy was kept, or null.

    :param edges: columns of :data:`.verdicts.EDGES`
    :param copies: exact copies (page, candidate)
    :param limit: number of edges that the driver settles at the end
    :param checkpoint: writes a small table under a name and reads it back
    """
    session = edges.sparkSession
    contested = edges.where("candidate IS NULL").select("page")
    threats = edges.where(f"flags & {COULD} <> 0 AND candidate < page").selectExpr(
        "page", "candidate", f"flags & {SURE} <> 0 AS sure"
    )
    if threats.count() <= limit:
        found = _on_driver(edges, copies, contested, method)
        return numbers(session, page=found, kept_at=found.values())
    are_open = contested.selectExpr("page AS candidate", "true AS open")
    threats = threats.join(are_open, "candidate", "left").selectExpr(
        "page", "candidate", "sure", "coalesce(open, false) AS open"
    )
    threats = checkpoint(threats, "round-0")
    parts = []
    for number in range(1, _ROUNDS + 1):
        before = threats.count()
        threats, newly = _round(threats)
        parts.append(checkpoint(newly, f"decided-{number}"))
        threats = checkpoint(threats, f"round-{number}")
        left = threats.count()
        if left <= limit or left == before:
            break
    decided = reduce(DataFrame.union, parts)
    pages = contested.join(decided, "page", "left_anti")
    state = decided.selectExpr("page AS candidate", "kept")
    rest = edges.join(pages, "page").join(state, "candidate", "left")
    found = _on_driver(rest.where("coalesce(kept, true)"), copies, pages, method)
    known = decided.selectExpr("page", "if(kept, page, NULL) AS kept_at")
    return known.union(numbers(session, page=found, kept_at=found.values()))


def _round(threats: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Return the edges that are left, and the pages decided in this round (page, kept)."""
    dropped = threats.where("NOT open AND sure").select("page").distinct()
    gone = dropped.selectExpr("page AS candidate")
    left = threats.join(dropped, "page", "left_anti").join(gone, "candidate", "left_anti")
    alone = (
        threats.select("page")
        .distinct()
        .join(dropped, "page", "left_anti")
        .join(left.select("page").distinct(), "page", "left_anti")
    )
    stored = alone.selectExpr("page AS candidate", "true AS stored")
    left = left.join(stored, "candidate", "left").selectExpr(
        "page", "candidate", "sure", "open AND stored IS NULL AS open"
    )
    decided = dropped.selectExpr("page", "false AS kept")
    return left, decided.union(alone.selectExpr("page", "true AS kept"))


def _on_driver(
    edges: DataFrame, copies: DataFrame, pages: DataFrame, method: Method
) -> dict[int, int | None]:
    """Settle the remaining pages on the driver, in their order; see :func:`settle`."""
    judged = (f"if(flags & {PLAIN} = 0, {name}, NULL) AS {name}" for name in ("content", "payload"))
    rows = edges.selectExpr("page", "candidate", "flags", *judged).toArrow()
    opened = OpenPages(rows, copies.join(pages, "page").select("page", "candidate").collect())
    return settle(opened, method, opened.kept)


class OpenPages(Mapping[int, Open]):
    """Open pages by their order, each built from its rows on access.

    :ivar kept: for each candidate that is kept already, the order at which it was kept
    :param rows: table (page, candidate, flags, content, payload) with an own row of each page,
        whose candidate is null; content and payload of PLAIN pages are not read
    :param copies: pages and the orders of their exact copies
    """

    def __init__(self, rows: Any, copies: Iterable[Sequence[int]]) -> None:
        pages = words(rows.column("page"))
        orders = words(rows.column("candidate").fill_null(_OWN_ROW))
        by = np.lexsort((orders, pages))
        rows = rows.take(pa.array(by)).combine_chunks()
        pages = pages[by]
        self._copies: dict[int, list[int]] = {}
        for page, order in copies:
            self._copies.setdefault(page, []).append(order)
        self._starts = np.append(np.flatnonzero(np.diff(pages, prepend=pages[:1] - 1)), len(pages))
        self._pages = pages[self._starts[:-1]]
        self._orders = orders[by]
        self._flags = words(rows.column("flags"))
        self._judged = rows.select(["content", "payload"])
        stored = (self._orders != _OWN_ROW) & ~np.isin(self._orders, self._pages)
        self.kept = {order: order for order in self._orders[stored].tolist()}

    def __len__(self) -> int:
        return len(self._pages)

    def __iter__(self) -> Iterator[int]:
        return iter(self._pages.tolist())

    def __getitem__(self, page: int) -> Open:
        at = int(np.searchsorted(self._pages, page))
        if at == len(self._pages) or self._pages[at] != page:
            raise KeyError(page)
        start, stop = int(self._starts[at]), int(self._starts[at + 1])
        count = stop - start
        if self._flags[start] & PLAIN:
            content, payloads = np.zeros(count, CONTENT), [b""] * count
        else:
            rows = self._judged.slice(start, count)
            content = to_content(rows.column("content"))
            payloads = [payload or b"" for payload in rows.column("payload").to_pylist()]
        rest = slice(start + 1, stop)
        return Open(
            (page, *sorted(self._copies.get(page, ()))),
            content[:1],
            payloads[0],
            Candidates(
                self._orders[rest], np.zeros(count - 1, np.int64), content[1:], payloads[1:]
            ),
            self._flags[rest],
        )
