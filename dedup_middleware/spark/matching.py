"""Dropped pages and the kept page of each: the best match among all that were kept before it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

import attrs
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dedup_middleware.index.tables import KEY_TABLE
from dedup_middleware.methods.base import Method
from dedup_middleware.methods.choose import choose_method
from dedup_middleware.options import Options
from dedup_middleware.ranking import UNCHANGED, best_match
from dedup_middleware.spark.columns import page_of, to_content, words
from dedup_middleware.spark.judged import CANDIDATE, COPY, OWN, Candidates, whole_pages

MATCHES = pa.schema(
    [
        ("order", pa.int64()),
        ("match", pa.int64()),
        ("same_key", pa.bool_()),
        ("reason", pa.string()),
        ("similarity", pa.float64()),
        ("jaccard", pa.float64()),
        ("distance", pa.int64()),
        ("tables", pa.list_(pa.string())),
    ]
)
_ROWS = 10_000  # of one batch: a page may have any number of copies
MATCHES_DDL = (
    "order bigint, match bigint, same_key boolean, reason string, similarity double, "
    "jaccard double, distance bigint, tables array<string>"
)


@attrs.frozen(eq=False)
class Page:
    """A page with exact copies or kept candidates.

    ``tables``: mask of those it stands in; ``kept_at``: when it, or a copy, was kept, None: never;
    ``copies`` and ``same``: orders int64[m] of its exact copies, and which have its very key.
    """

    order: int
    own: NDArray[np.void]
    payload: bytes
    tables: int
    named: bool
    kept_at: int | None
    candidates: Candidates
    copies: NDArray[np.int64]
    same: NDArray[np.bool_]


def match_pages(options: Options) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """A function for ``mapInArrow`` over rows of pages, sorted by page, kind and candidate.

    Of a page itself ``tables``, ``flags`` (whether its key names it) and ``kept_at``; of a
    candidate its ``kept_at`` in ``candidate``; of a copy in ``flags`` whether it has the same key.
    """

    def work(batches: Iterable[Any]) -> Iterator[Any]:
        method = choose_method(options)
        for rows in whole_pages(batches):
            found = (one for page in _pages(rows) for one in matches(method, page))
            while some := list(islice(found, _ROWS)):
                arrays = [
                    pa.array(list(values), field.type)
                    for values, field in zip(zip(*some, strict=True), MATCHES, strict=True)
                ]
                yield pa.RecordBatch.from_arrays(arrays, schema=MATCHES)

    return work


def matches(method: Method, page: Page) -> Iterator[tuple[Any, ...]]:
    """Rows of :data:`MATCHES`: the page, unless it is kept, and its copies.

    A page whose copy is kept already has no better match than that.

    :raises RuntimeError: a page was dropped, and nothing kept before makes it a duplicate
    """
    known: dict[int, tuple[Any, ...]] = {}
    copied: dict[bool, tuple[Any, ...]] = {}
    orders = np.append(page.order, page.copies)
    same = np.append(False, page.same)
    for order, same_key in zip(orders.tolist(), same.tolist(), strict=True):
        if page.kept_at is not None and order >= page.kept_at:
            if order > page.kept_at:
                if same_key not in copied:
                    copied[same_key] = _copy(method, page, same_key)
                yield (order, *copied[same_key])
            continue
        before = int(np.searchsorted(page.candidates.orders, order))
        if before not in known:
            known[before] = _best(method, page, page.candidates.chosen(np.arange(before)))
        yield (order, *known[before])


def _copy(method: Method, page: Page, same_key: bool) -> tuple[Any, ...]:
    tables = page.tables & ~(1 << KEY_TABLE) | same_key << KEY_TABLE
    own = Candidates(np.array([page.kept_at]), np.array([tables]), page.own, [page.payload])
    return _best(method, page, own, same_key=same_key)


def _best(
    method: Method, page: Page, kept: Candidates, same_key: bool | None = None
) -> tuple[Any, ...]:
    """The match of a page among those kept; see :func:`~dedup_middleware.ranking.best_match`."""
    judged = method.judge(page_of(page.own, page.payload), kept.content, kept.payloads)
    rows = np.flatnonzero(judged.duplicate)
    if not len(rows):
        raise RuntimeError(f"page {page.order} was dropped, but no kept page is like it")
    same = (kept.content["key"] == page.own["key"]) & (kept.tables & 1 << KEY_TABLE != 0)
    same = same & page.named if same_key is None else np.array([same_key])
    best = best_match(judged, rows.tolist(), same.tolist())
    mask = int(kept.tables[best])
    return (
        int(kept.orders[best]),
        bool(same[best]),
        UNCHANGED if same[best] else judged.reasons[best],
        float(judged.similarity[best]),
        float(judged.jaccard[best]),
        int(page.own["simhash"][0] ^ kept.content["simhash"][best]).bit_count(),
        [method.table_name(table) for table in range(64) if mask >> table & 1],
    )


def _pages(rows: Any) -> Iterator[Page]:
    pages, kinds = words(rows.column("page")), words(rows.column("kind"))
    orders = words(rows.column("candidate").fill_null(0))
    tables, flags = words(rows.column("tables")), words(rows.column("flags"))
    content = to_content(rows.column("content"))
    payloads = [payload or b"" for payload in rows.column("payload").to_pylist()]
    times = rows.column("kept_at").to_pylist()
    starts = np.append(np.flatnonzero(np.diff(pages, prepend=pages[0] - 1)), len(pages))
    for start, stop in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
        assert kinds[start] == OWN
        first, end = start + np.searchsorted(kinds[start:stop], (CANDIDATE, COPY))
        rest = slice(int(first), int(end))
        yield Page(
            int(pages[start]),
            content[start : start + 1],
            payloads[start],
            int(tables[start]),
            bool(flags[start]),
            times[start],
            Candidates(orders[rest], tables[rest], content[rest], payloads[rest]),
            orders[end:stop],
            flags[end:stop] != 0,
        )
