"""Verdicts of the method: which candidates of a page matter, and which kept page each match is.

First all candidates of a page are judged together. Which of them are kept is not known yet: most
pages have none that could make them duplicates, whatever is kept, and are done; the others are
contested, and their edges go on. Once it is settled which pages are kept, the candidates that were
kept before a page are ranked as in a crawl (:func:`~dedup_middleware.core.judge.rank`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import attrs
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dedup_middleware.base.options import Options
from dedup_middleware.core.judge import Ranking, names_of, rank
from dedup_middleware.journal.entries import host_of
from dedup_middleware.journal.writer import NEAR, SUPERSEDES
from dedup_middleware.methods.base import COMMON, Judgement, Method
from dedup_middleware.methods.choose import choose_method
from dedup_middleware.methods.content import Content
from dedup_middleware.model.buckets import KEY_TABLE
from dedup_middleware.model.records import State
from dedup_middleware.spark.columns import (
    batches_of,
    flat,
    kept_of,
    page_of,
    runs_of,
    to_content,
    whole_groups,
    words,
)
from dedup_middleware.spark.pairing import common_tables
from dedup_middleware.tools.portable.portable_file import to_binary

OWN, CANDIDATE, COPY = 0, 1, 2  # kinds of rows about a page: itself, a candidate, an exact copy
COULD, SURE = 1, 2  # flags of an edge: duplicate of some kept pages, or whatever else is kept
PLAIN = 4  # of all edges of a page, and of its own row: COULD is SURE in each, whatever is kept

EDGES = pa.schema({
    "page": "int64", "candidate": "int64", "tables": "int64", "flags": "int64",
    "content": "binary", "payload": "binary",
})  # fmt: skip


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


def judge_pairs(options: Options) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """A function for ``mapInArrow`` over rows (page, kind, candidate, places, content, payload).

    Rows are sorted by page, kind and candidate; a page's own row comes first, and its places are
    those where it looks for others. Of contested pages the edges are returned, and a row of their
    own without a candidate.
    """

    def work(batches: Iterable[Any]) -> Iterator[Any]:
        method = choose_method(options)
        for rows in whole_groups(batches, "page"):
            content = to_content(rows.column("content"))
            parts = [_edges(method, *page) for page in with_candidates(rows, content, method)]
            found = [part for part in parts if part is not None]
            if found:
                *columns, payloads = zip(*found, strict=True)
                page, candidate, *numbers, judged = map(np.concatenate, columns)
                arrays = [
                    pa.array(page),
                    pa.array(candidate, mask=candidate == _NO_CANDIDATE),
                    *map(pa.array, numbers),
                    to_binary(judged),
                    pa.array([payload for part in payloads for payload in part], pa.binary()),
                ]
                yield pa.RecordBatch.from_arrays(arrays, schema=EDGES)

    return work


_NO_CANDIDATE = -(1 << 63)


def _edges(
    method: Method, order: int, own: NDArray[np.void], payload: bytes, found: Candidates
) -> tuple[Any, ...] | None:
    """Columns of :data:`EDGES`: of a page itself, and of the candidates that matter to it; None: it
    is not contested.

    A candidate that could never make the page a duplicate still matters if it may keep another
    one from it: in the rule ``content``, a page of the same host.
    """
    if not len(found):
        return None
    judged = method.judge(page_of(method, own, payload), found.content, found.payloads)
    sure = judged.duplicate
    # All candidates were judged, kept or not: with fewer of them the verdict can only become surer.
    could = sure | np.array([reason == COMMON for reason in judged.reasons], np.bool_)
    # Candidates behind the page itself matter to its exact copies, if it is not kept itself.
    if not (could & (found.orders < order)).any():
        return None
    matter = could
    if isinstance(method, Content) and own["host"][0]:
        matter = could | (found.content["host"] == own["host"][0])
    rows = np.flatnonzero(matter)
    edges = found.chosen(rows)
    flags = could * COULD + sure * SURE
    plain = 0 if (could & ~sure).any() else PLAIN
    # Where whatever else is kept does not matter, the page is not judged again to be settled.
    judged_by = b"" if plain else payload
    return (
        np.full(len(rows) + 1, order),
        np.append(_NO_CANDIDATE, edges.orders),
        np.append(0, edges.tables),
        np.append(0, flags[rows]) | plain,
        np.concatenate((own, edges.content)),
        [judged_by, *edges.payloads],
    )


def with_candidates(
    rows: Any, content: NDArray[np.void], method: Method
) -> Iterator[tuple[int, NDArray[np.void], bytes, Candidates]]:
    """Pages, each with its candidates."""
    pages = words(rows.column("page"))
    firsts = np.diff(pages, prepend=pages[0] - 1) != 0
    owners = np.flatnonzero(firsts)[np.cumsum(firsts) - 1]
    starts, places = flat(rows.column("places"))
    simhashes = np.ascontiguousarray(content["simhash"])
    tables = common_tables(owners, starts, places, simhashes, method.scan_distance)
    orders = words(rows.column("candidate").fill_null(0))
    payloads = [payload or b"" for payload in rows.column("payload").to_pylist()]
    for start, end in runs_of(pages):
        rest = slice(start + 1, end)
        yield (
            int(pages[start]),
            content[start : start + 1],
            payloads[start],
            Candidates(orders[rest], tables[rest], content[rest], payloads[rest]),
        )


MATCHES = pa.schema({
    "order": "int64", "match": "int64", "outcome": "string", "reason": "string",
    "similarity": "float64", "jaccard": "float64", "distance": "int64",
    "tables": pa.list_(pa.string()),
})  # fmt: skip
_ROWS = 10_000  # of one batch: a page may have any number of copies


@attrs.frozen(eq=False)
class Page:
    """A page with exact copies or kept candidates.

    ``tables``: mask of its tables; ``kept_at``: when it, or a copy, was kept, None: never;
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
        for rows in whole_groups(batches, "page"):
            found = (one for page in _pages(rows) for one in matches(method, page))
            yield from batches_of(found, _ROWS, MATCHES)

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
    kept = kept_of(method, page.payload)
    own = Candidates(np.array([page.kept_at]), np.array([tables]), page.own, [kept])
    return _best(method, page, own)


def ranked(
    method: Method, own: NDArray[np.void], payload: bytes, kept: Candidates, named: bool
) -> tuple[Judgement, Ranking]:
    """What kept candidates make of a page, by the ranking of the crawl.

    :param named: whether the key of the page names it, instead of its content
    """
    judged = method.judge(page_of(method, own, payload), kept.content, kept.payloads)
    same_key = (kept.content["key"] == own["key"]) & (kept.tables & 1 << KEY_TABLE != 0) & named
    return judged, rank(judged, [int(State.COMMITTED)] * len(kept), same_key.tolist())


def _best(method: Method, page: Page, kept: Candidates) -> tuple[Any, ...]:
    """Values of :data:`MATCHES` behind the order: the match of a page among those kept."""
    judged, ranking = ranked(method, page.own, page.payload, kept, page.named)
    best = ranking.match
    if best is None:
        raise RuntimeError(f"page {page.order} was dropped, but no kept page is like it")
    mask = int(kept.tables[best])
    return (
        int(kept.orders[best]),
        ranking.outcome,
        ranking.reason,
        float(judged.similarity[best]),
        float(judged.jaccard[best]),
        int(page.own["simhash"][0] ^ kept.content["simhash"][best]).bit_count(),
        list(names_of(method, mask)),
    )


def _pages(rows: Any) -> Iterator[Page]:
    pages, kinds = words(rows.column("page")), words(rows.column("kind"))
    orders, tables, flags = (
        words(rows.column(name).fill_null(0)) for name in ("candidate", "tables", "flags")
    )
    content = to_content(rows.column("content"))
    payloads = [payload or b"" for payload in rows.column("payload").to_pylist()]
    times = rows.column("kept_at").to_pylist()
    for start, stop in runs_of(pages):
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


# Near misses: kept pages that are much like a page kept before them, as the crawl notes them.
NEAR_MISSES = pa.schema(
    {"page": "int64", "candidate": "int64", "reason": "string", "similarity": "float64"}
)


def near_pages(options: Options) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """A function for ``mapInArrow`` over rows (page, kind, candidate, places, named, content,
    payload) as for :func:`.judge_pairs`, of kept pages and the candidates kept before each.

    ``named``: whether the key of the page names it. Returns :data:`NEAR_MISSES`, one row a page at
    most.
    """

    def work(batches: Iterable[Any]) -> Iterator[Any]:
        method = choose_method(options)
        for rows in whole_groups(batches, "page"):
            # Rows of candidates have no value.
            given = words(rows.column("page")).tolist(), rows.column("named").to_pylist()
            named = {page for page, value in zip(*given, strict=True) if value}
            found = []
            pages = with_candidates(rows, to_content(rows.column("content")), method)
            for page, own, payload, candidates in pages:
                if not len(candidates):
                    continue
                judged, ranking = ranked(method, own, payload, candidates, page in named)
                if ranking.match is not None:
                    continue
                nearest, reason = ranking.nearest, ranking.reason
                if ranking.supersedes:
                    nearest, reason = ranking.supersedes[0], SUPERSEDES
                elif nearest is None or judged.similarity[nearest] < NEAR:
                    continue
                similarity = float(judged.similarity[nearest])
                found.append((page, int(candidates.orders[nearest]), reason, similarity))
            yield from batches_of(found, _ROWS, NEAR_MISSES)

    return work


CLUSTERS = pa.schema({
    "cluster": "int64", "order": "int64", "stored": "string", "stored_host": "string",
    "kind": "string", "key": "string", "host": "string", "reason": "string",
    "similarity": "float64",
})  # fmt: skip


def with_kept(batches: Iterable[Any]) -> Iterator[Any]:
    """For ``mapInArrow`` over members of clusters, sorted by cluster: :data:`CLUSTERS`, where each
    cluster begins with its kept page, whose order and key its members name."""

    def rows() -> Iterator[tuple[Any, ...]]:
        before = None
        for row in (row for batch in batches for row in batch.to_pylist()):
            cluster, stored, key = row["cluster"], row["stored"], row["key"]
            host = host_of(stored or "")
            if cluster != before:
                yield cluster, cluster, stored, host, "kept", stored, host, None, None
                before = cluster
            own = host_of(key), row["reason"], row["similarity"]
            yield cluster, row["order"], stored, host, row["kind"], key, *own

    return batches_of(rows(), _ROWS, CLUSTERS)
