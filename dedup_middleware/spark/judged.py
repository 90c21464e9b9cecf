"""Pairs to edges: what the method says of a page and its candidates, all of them together.

Which candidates are kept is not known yet. Most pages have none that could make them duplicates,
whatever is kept, and are done; those that have are contested, and their edges go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import attrs
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dedup_middleware.methods.base import Method
from dedup_middleware.methods.choose import choose_method
from dedup_middleware.methods.content import COMMON, Content
from dedup_middleware.options import Options
from dedup_middleware.spark.columns import flat, page_of, to_binary, to_content, words
from dedup_middleware.spark.pairing import common_tables

OWN, CANDIDATE, COPY = 0, 1, 2  # kinds of rows about a page: itself, a candidate, an exact copy
COULD, SURE = 1, 2  # flags of an edge: duplicate of some kept pages, or whatever else is kept

EDGES = pa.schema(
    [
        ("page", pa.int64()),
        ("candidate", pa.int64()),
        ("tables", pa.int64()),
        ("flags", pa.int64()),
        ("similarity", pa.float64()),
        ("content", pa.binary()),
        ("payload", pa.binary()),
    ]
)
EDGES_DDL = (
    "page bigint, candidate bigint, tables bigint, flags bigint, similarity double, "
    "content binary, payload binary"
)


@attrs.frozen(eq=False)
class Candidates:
    """Candidates of one page, n of them: what is known of each, by ascending order.

    ``orders`` and ``tables`` int64[n], ``content`` CONTENT[n], and n ``payloads``.
    """

    orders: NDArray[np.int64]
    tables: NDArray[np.int64]
    content: NDArray[np.void]
    payloads: Sequence[bytes]

    def __len__(self) -> int:
        return len(self.orders)

    def chosen(self, rows: NDArray[np.integer]) -> Candidates:
        """Some of them, in the order of ``rows``."""
        return Candidates(
            self.orders[rows],
            self.tables[rows],
            self.content[rows],
            [self.payloads[i] for i in rows.tolist()],
        )


def edge_flags(
    method: Method, own: NDArray[np.void], payload: bytes, candidates: Candidates
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Flags int64[n] and similarities of edges to the candidates that matter; 0: it does not.

    A candidate that could never make the page a duplicate still matters if it may keep another
    one from it: in the rule ``content``, a page of the same host.
    """
    judged = method.judge(page_of(own, payload), candidates.content, candidates.payloads)
    sure = judged.duplicate
    # Of the pages beside it, all were looked at, kept or not: fewer can only make it sure.
    could = sure | np.array([reason == COMMON for reason in judged.reasons], np.bool_)
    return could * COULD + sure * SURE, judged.similarity


def has_context(method: Method, own: NDArray[np.void], content: NDArray[np.void]) -> Any:
    """Which candidates, bool[n], may decide on others beside themselves."""
    if not isinstance(method, Content) or not own["host"][0]:
        return np.zeros(len(content), np.bool_)
    return content["host"] == own["host"][0]


def judge_pairs(options: Options) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """A function for ``mapInArrow`` over rows (page, kind, candidate, places, content, payload).

    Rows are sorted by page, kind and candidate; a page's own row comes first, and its places are
    those where it looks for others. Of contested pages the edges are returned, and a row of their
    own without a candidate.
    """

    def work(batches: Iterable[Any]) -> Iterator[Any]:
        method = choose_method(options)
        for rows in whole_pages(batches):
            content = to_content(rows.column("content"))
            tables = _tables(rows, content, method.scan_distance)
            parts = [_edges(method, *page) for page in _pages(rows, content, tables)]
            found = [part for part in parts if part is not None]
            if found:
                columns = list(zip(*found, strict=True))
                arrays: list[Any] = [pa.array(np.concatenate(column)) for column in columns[:5]]
                arrays[1] = pa.array(
                    np.concatenate(columns[1]), mask=np.concatenate(columns[1]) == _NOBODY
                )
                arrays.append(to_binary(np.concatenate(columns[5])))
                payloads = [payload for part in columns[6] for payload in part]
                arrays.append(pa.array(payloads, pa.binary()))
                yield pa.RecordBatch.from_arrays(arrays, schema=EDGES)

    return work


_NOBODY = -(1 << 63)


def _edges(
    method: Method, order: int, own: NDArray[np.void], payload: bytes, found: Candidates
) -> tuple[Any, ...] | None:
    if not len(found):
        return None
    flags, similarity = edge_flags(method, own, payload, found)
    could = (flags & COULD) != 0
    # Candidates behind the page itself matter to its exact copies, if it is not kept itself.
    if not (could & (found.orders < order)).any():
        return None
    rows = np.flatnonzero(could | has_context(method, own, found.content))
    edges = found.chosen(rows)
    return (
        np.full(len(rows) + 1, order),
        np.append(_NOBODY, edges.orders),
        np.append(0, edges.tables),
        np.append(0, flags[rows]),
        np.append(0.0, similarity[rows]),
        np.concatenate((own, edges.content)),
        [payload, *edges.payloads],
    )


def whole_pages(batches: Iterable[Any]) -> Iterator[Any]:
    """Tables of sorted batches, cut so that no page is in two of them."""
    kept = None
    for batch in batches:
        rows = pa.Table.from_batches([batch] if kept is None else [*kept.to_batches(), batch])
        pages = words(rows.column("page"))
        last = int(np.searchsorted(pages, pages[-1])) if len(pages) else 0
        if last:
            yield rows.slice(0, last).combine_chunks()
        kept = rows.slice(last)
    if kept is not None and kept.num_rows:
        yield kept.combine_chunks()


def _tables(rows: Any, content: NDArray[np.void], distance: int) -> NDArray[np.int64]:
    pages = words(rows.column("page"))
    firsts = np.diff(pages, prepend=pages[0] - 1) != 0
    owners = np.flatnonzero(firsts)[np.cumsum(firsts) - 1]
    starts, places = flat(rows.column("places"))
    simhashes = np.ascontiguousarray(content["simhash"])
    return common_tables(owners, starts, places, simhashes, distance)


def _pages(
    rows: Any, content: NDArray[np.void], tables: NDArray[np.int64]
) -> Iterator[tuple[int, NDArray[np.void], bytes, Candidates]]:
    """Pages, each with its candidates."""
    pages = words(rows.column("page"))
    orders = words(rows.column("candidate").fill_null(0))
    payloads = rows.column("payload").to_pylist()
    starts = np.append(np.flatnonzero(np.diff(pages, prepend=pages[0] - 1)), len(pages))
    for start, end in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
        rest = slice(start + 1, end)
        yield (
            int(pages[start]),
            content[start : start + 1],
            payloads[start],
            Candidates(orders[rest], tables[rest], content[rest], payloads[rest]),
        )
