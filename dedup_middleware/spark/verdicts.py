"""Decides which candidates of a page matter, which pages are kept, and which stored page each
dropped page matches.

First each page is judged with all its candidates, before it is known which of them are kept. Most
pages can't be a duplicate whatever is kept. The others are contested: only their edges, the pairs
with candidates that matter, are passed on.

While there are many edges, pages are settled in rounds, each over all open pages: a page is dropped
if a kept candidate makes it a duplicate whatever else is kept, and kept if all its candidates are
dropped. When few edges are left, or a round has removed none, the driver settles the other pages in
their order. Then the candidates kept before a page are ranked as in a crawl.
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

from dedup_middleware.base.options import Options
from dedup_middleware.core.judge import Ranking, names_of, rank
from dedup_middleware.index.pairing import common_tables
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
    numbers,
    page_of,
    runs_of,
    to_content,
    whole_groups,
    words,
)
from dedup_middleware.tools.portable.portable_file import to_binary

OWN, CANDIDATE, COPY = 0, 1, 2  # kinds of rows of a page: its own, a candidate, an exact copy
COULD, SURE = 1, 2  # of an edge: the page may be a duplicate; it is one whatever else is kept
_NO_CANDIDATE = -(1 << 63)  # in the own row of a page, so that it sorts before its edges
PLAIN = 4  # flag of all rows of a page if each of its edges with COULD has SURE too

EDGES = pa.schema({
    "page": "int64", "candidate": "int64", "tables": "int64", "flags": "int64",
    "content": "binary", "payload": "binary",
})  # fmt: skip


@attrs.frozen(eq=False)
class Candidates:
    """The n candidates of a page, in ascending order."""

    orders: NDArray[np.int64]
    tables: NDArray[np.int64]
    content: NDArray[np.void]  # CONTENT[n]
    payloads: Sequence[bytes]

    def __len__(self) -> int:
        return len(self.orders)

    def chosen(self, rows: NDArray[np.integer]) -> Candidates:
        """Return the candidates of these rows, in their order."""
        return Candidates(
            self.orders[rows],
            self.tables[rows],
            self.content[rows],
            [self.payloads[i] for i in rows.tolist()],
        )


def judge_pairs(batches: Iterable[Any], options: Options) -> Iterator[Any]:
    """Judge rows (page, kind, candidate, places, content, payload), sorted by the first three; for
    ``mapInArrow``. The places of an own row are the buckets that the page searches. Yields
    :data:`EDGES` for contested pages: their edges, and an own row without a candidate."""
    method = choose_method(options)
    for rows in whole_groups(batches, "page"):
        parts = [_edges(method, *page) for page in with_candidates(rows, method)]
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


def _edges(
    method: Method, order: int, own: NDArray[np.void], payload: bytes, found: Candidates
) -> tuple[Any, ...] | None:
    """Return columns of :data:`EDGES`: the own row of a page and the candidates that matter to it,
    or None if it is not contested. A candidate that can't make the page a duplicate still matters
    if it may keep another from doing so: with the method ``content``, any page of the same host, or
    any page at all if the page is ``alone`` with some candidates (see :class:`.Judgement`)."""
    if not len(found):
        return None
    judged = method.judge(page_of(method, own, payload), found.content, found.payloads)
    sure = judged.duplicate
    # All candidates were judged: with only the kept ones a verdict can only become more certain.
    could = sure | np.array([reason == COMMON for reason in judged.reasons], np.bool_)
    some = judged.alone is not None and judged.alone.any()
    if judged.alone is not None:
        could |= judged.alone
    # Later candidates matter to the page's exact copies, if the page itself is dropped.
    if not (could & (found.orders < order)).any():
        return None
    matter = could | some
    if isinstance(method, Content) and own["host"][0]:
        matter |= found.content["host"] == own["host"][0]
    rows = np.flatnonzero(matter)
    edges = found.chosen(rows)
    flags = could * COULD + sure * SURE
    plain = 0 if (could & ~sure).any() else PLAIN
    # A page whose verdict does not depend on what else is kept is not judged again when settled.
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
    rows: Any, method: Method
) -> Iterator[tuple[int, NDArray[np.void], bytes, Candidates]]:
    """Yield order, CONTENT[1], payload and candidates of each page; its own row is the first."""
    pages = words(rows.column("page"))
    firsts = np.diff(pages, prepend=pages[0] - 1) != 0
    owners = np.flatnonzero(firsts)[np.cumsum(firsts) - 1]
    starts, places = flat(rows.column("places"))
    content = to_content(rows.column("content"))
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


Checkpoint = Callable[[DataFrame, str], DataFrame]
_ROUNDS = 50


def settle(rows: Any, copies: Iterable[Sequence[int]], method: Method) -> dict[int, int | None]:
    """Settle contested pages in their order.

    :param rows: table (page, candidate, flags, content, payload) of edges and, with a null
        candidate, an own row of each page; content and payload of PLAIN pages are not read
    :param copies: pages and the orders of their exact copies; pages without rows are passed over
    :returns: for each page the order at which it, or one of its copies, was kept; None: never
    """
    pages = words(rows.column("page"))
    orders = words(rows.column("candidate").fill_null(_NO_CANDIDATE))
    by = np.lexsort((orders, pages))
    rows, pages, orders = rows.take(pa.array(by)).combine_chunks(), pages[by], orders[by]
    flags, judged = words(rows.column("flags")), rows.select(["content", "payload"])
    runs = {int(pages[start]): slice(start, stop) for start, stop in runs_of(pages)}
    stored = (orders != _NO_CANDIDATE) & ~np.isin(orders, pages)
    kept = {order: order for order in orders[stored].tolist()}
    events = [(page, page) for page in runs] + [(order, page) for page, order in copies]
    gone: set[int] = set()  # a kept page makes them duplicates, so all later copies are, too
    for order, page in sorted(events):
        if page not in runs or page in kept or page in gone:
            continue
        run = runs[page]
        before = _kept_before(orders[run], order, kept)
        if (flags[run][before] & SURE).any():
            gone.add(page)
        elif not _dropped(orders[run], flags[run], judged[run], before, method):
            kept[page] = order
    return {page: kept.get(page) for page in runs}


def _kept_before(
    orders: NDArray[np.int64], order: int, kept: Mapping[int, int]
) -> NDArray[np.int64]:
    """Return the rows of candidates that were kept before ``order``."""
    times = [kept.get(candidate) for candidate in orders.tolist()]
    return np.array([i for i, time in enumerate(times) if time is not None and time < order], int)


def _dropped(
    orders: NDArray[np.int64], flags: NDArray[np.int64], judged: Any, rows: NDArray[np.int64],
    method: Method,
) -> bool:  # fmt: skip
    """Whether the candidates in ``rows``, none of them SURE, make a page, whose own row is the
    first, a duplicate."""
    if not (flags[rows] & COULD).any():
        return False
    content = to_content(judged.column("content"))
    payloads = [payload or b"" for payload in judged.column("payload").to_pylist()]
    some = Candidates(orders, np.zeros(len(orders), np.int64), content, payloads).chosen(rows)
    _, ranking = ranked(method, content[:1], payloads[0], some, named=False)
    return ranking.match is not None


def settled(
    edges: DataFrame, copies: DataFrame, method: Method, limit: int, checkpoint: Checkpoint
) -> DataFrame:
    """Return the contested pages (page, kept_at); ``kept_at`` is the order at which the page or an
    exact copy of it was kept, null if none was.

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
    """Settle pages by edges (page, candidate, sure, open) to earlier candidates, open if these are
    not settled. Return the edges left, and the pages settled in this round (page, kept)."""
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
    return settle(rows, copies.join(pages, "page").select("page", "candidate").collect(), method)


MATCHES = pa.schema({
    "order": "int64", "match": "int64", "outcome": "string", "reason": "string",
    "similarity": "float64", "jaccard": "float64", "distance": "int64",
    "tables": pa.list_(pa.string()),
})  # fmt: skip
_ROWS = 10_000  # rows in one batch, since a page may have any number of copies


@attrs.frozen(eq=False)
class Page:
    """A page with exact copies or kept candidates."""

    order: int
    own: NDArray[np.void]  # CONTENT[1]
    payload: bytes
    tables: int  # mask
    named: bool  # the key is not a hash of the content
    kept_at: int | None  # order at which it or a copy was kept
    candidates: Candidates
    copies: NDArray[np.int64]  # orders of exact copies
    same: NDArray[np.bool_]  # whether the key of each copy is that of the page


def match_pages(batches: Iterable[Any], options: Options) -> Iterator[Any]:
    """Yield the matches of dropped pages from rows of :data:`.alone.TO_MATCH`, sorted by page, kind
    and candidate; for ``mapInArrow``.

    In a page's own row ``flags`` is 1 if its key is not a hash of the content; in the row of a
    copy, if the keys are equal. ``candidate`` is the order at which a candidate was kept.
    """
    method = choose_method(options)
    for rows in whole_groups(batches, "page"):
        found = (match for page in _pages(rows) for match in matches(method, page))
        yield from batches_of(found, _ROWS, MATCHES)


def matches(method: Method, page: Page) -> Iterator[tuple[Any, ...]]:
    """Yield rows of :data:`MATCHES` for the copies of a page, and for the page unless it is kept.

    If the page or one of its copies was kept, every later copy matches that one.

    :raises RuntimeError: a page was dropped, but no page kept before makes it a duplicate
    """
    known: dict[int, tuple[Any, ...]] = {}
    copied: dict[bool, tuple[Any, ...]] = {}
    orders = np.append(page.order, page.copies)
    same = np.append(False, page.same)
    for order, same_key in zip(orders.tolist(), same.tolist(), strict=True):
        if page.kept_at is not None and order >= page.kept_at:
            if order > page.kept_at:
                if same_key not in copied:
                    tables = page.tables & ~(1 << KEY_TABLE) | same_key << KEY_TABLE
                    stored = [kept_of(method, page.payload)]
                    own = Candidates(np.array([page.kept_at]), np.array([tables]), page.own, stored)
                    copied[same_key] = _best(method, page, own)
                yield (order, *copied[same_key])
            continue
        before = int(np.searchsorted(page.candidates.orders, order))
        if before not in known:
            known[before] = _best(method, page, page.candidates.chosen(np.arange(before)))
        yield (order, *known[before])


def ranked(
    method: Method, own: NDArray[np.void], payload: bytes, kept: Candidates, named: bool
) -> tuple[Judgement, Ranking]:
    """Judge a page against kept candidates and rank them as the crawl does; ``named``: see
    :class:`Page`."""
    judged = method.judge(page_of(method, own, payload), kept.content, kept.payloads)
    same_key = (kept.content["key"] == own["key"]) & (kept.tables & 1 << KEY_TABLE != 0) & named
    return judged, rank(judged, [int(State.COMMITTED)] * len(kept), same_key.tolist())


def _best(method: Method, page: Page, kept: Candidates) -> tuple[Any, ...]:
    """Return the best match of a page as values of :data:`MATCHES` after the order."""
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


# Near misses: kept pages very similar to a page kept before, as the crawl records them.
NEAR_MISSES = pa.schema(
    {"page": "int64", "candidate": "int64", "reason": "string", "similarity": "float64"}
)


def near_pages(batches: Iterable[Any], options: Options) -> Iterator[Any]:
    """Find near misses in rows of kept pages and candidates kept before them; for ``mapInArrow``.

    Columns are those of :func:`.judge_pairs` and ``named``. Yields at most one row of a page.
    """
    method = choose_method(options)
    for rows in whole_groups(batches, "page"):
        # ``named`` is null in rows of candidates.
        given = words(rows.column("page")).tolist(), rows.column("named").to_pylist()
        named = {page for page, value in zip(*given, strict=True) if value}
        found = []
        for page, own, payload, candidates in with_candidates(rows, method):
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


CLUSTERS = pa.schema({
    "cluster": "int64", "order": "int64", "stored": "string", "stored_host": "string",
    "kind": "string", "key": "string", "host": "string", "reason": "string",
    "similarity": "float64",
})  # fmt: skip


def with_kept(batches: Iterable[Any]) -> Iterator[Any]:
    """Yield :data:`CLUSTERS` from dropped pages and near misses, sorted by cluster. Each cluster
    begins with its kept page."""

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
