"""Few pages on this machine: this process does the steps from exact copies to clusters by itself.

On Spark they are some twenty plans, which Java makes and compiles for longer than the work on a few
hundred thousand pages takes. The fingerprints are read as Spark's workers have written them, and go
through the same pairing, judging, settling and matching, so the result is the same row for row.
Pages are judged and matched by the workers of Spark, one part each, which read them from the same
files; parts and what is made of them are files as well, so that Java moves none of it. A worker
that dies ends the job, as it does in any step where Spark runs on one machine.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from dedup_middleware.base.options import Options
from dedup_middleware.core.judge import is_dropped
from dedup_middleware.index.pages import TABLE_SHIFT
from dedup_middleware.methods.choose import choose_method
from dedup_middleware.model.documents import EMPTY, REVISIT
from dedup_middleware.spark.alone_pairs import NARROW, Source, candidate_rows, ordered_runs, read
from dedup_middleware.spark.columns import flat, words
from dedup_middleware.spark.job_settings import Job
from dedup_middleware.spark.settling import OpenPages, settle
from dedup_middleware.spark.verdicts import (
    CANDIDATE,
    COPY,
    EDGES,
    MATCHES,
    OWN,
    PLAIN,
    judge_pairs,
    match_pages,
)

CANDIDATES = ("order", "content", "payload", "slots")
JUDGED = ("order", "content", "judged", "slots", "named")
#: names of all columns that are read
EVERY = tuple(dict.fromkeys((*NARROW, *CANDIDATES, *JUDGED)))
_MOST_ROWS = 1 << 14  # that are judged or matched at once, of one page at least
_MOST_BYTES = 1 << 30  # of pages and candidates that are matched
_NEVER = -1  # in place of the order at which a page was kept
_LAST = (1 << 63) - 1  # an order behind all others
_DONE = pa.schema([("part", pa.int64())])

Work = Callable[[Any], Iterator[Any]]
Parts = Callable[[Work, Any, Any], Any]  # see :func:`in_parts`, behind its first two arguments

_PLACES = pa.list_(pa.int64())
TO_JUDGE = pa.schema({
    "page": "int64", "kind": "int32", "candidate": "int64", "places": _PLACES, "content": "binary",
    "payload": "binary",
})  # fmt: skip
TO_MATCH = pa.schema({
    "page": "int64", "kind": "int32", "candidate": "int64", "tables": "int64", "flags": "int64",
    "content": "binary", "payload": "binary", "kept_at": "int64",
})  # fmt: skip
_NAMED = {"order": "int64", "key": "string", "match": "int64", "match_key": "string"}
DUPLICATES = pa.schema(
    {**_NAMED, **{field.name: field.type for field in MATCHES if field.name not in _NAMED}}
)
CLUSTERS = pa.schema({
    "cluster": "int64", "order": "int64", "stored": "string", "stored_host": "string",
    "kind": "string", "key": "string", "host": "string", "reason": "string",
    "similarity": "float64",
})  # fmt: skip
#: the host of an address, as Java and Python read it
HOST = r"^[A-Za-z][A-Za-z0-9+.-]*://(?:[^/?#@]*@)?\[?((?<=\[)[^/?#\]]+|[^/?#:\[\]]+)"
_HOST = re.compile(HOST)


def matches(
    files: Sequence[Path], names: Mapping[str, str], options: Options, job: Job, parts: Parts,
    cores: int = 1,
) -> Any:  # fmt: skip
    """The matches of all pages that are dropped, a table of :data:`.MATCHES`; None: there is too
    much for one process, and Spark has to find them.

    :param files: of pages, with at least one row
    :param names: see :class:`.Source`
    :param cores: that this process may use
    """
    runs = ordered_runs(files, names["order"])
    if not runs:
        return None
    source, method = Source(runs, names), choose_method(options)
    pages = read(source.batches(NARROW))
    found = candidate_rows(pages, job, method, cores)
    if found is None:
        return None
    orders, firsts, keys = pages.orders, pages.firsts, pages.keys
    del pages  # while others judge, most of it is of no use
    page, candidate = (orders[rows] for rows in found.T)
    pairs = pa.table({"page": page, "candidate": candidate})
    edges = parts(judged(source, options), pairs, EDGES)
    if edges.nbytes > _MOST_BYTES:
        return None
    copies: dict[int, list[int]] = {}
    rows = np.flatnonzero(firsts != np.arange(len(firsts)))
    of_first, of_copy = orders[firsts[rows]], orders[rows]
    for first, copy in zip(of_first.tolist(), of_copy.tolist(), strict=True):
        copies.setdefault(first, []).append(copy)
    opened = OpenPages(edges, copies)
    kept_at = settle(opened, method, opened.kept)
    same = (keys[rows] == keys[firsts[rows]]).astype(np.int64)
    copied = _rows(TO_MATCH, page=of_first, kind=COPY, candidate=of_copy, flags=same)
    return parts(matched(source, options), _to_match(edges, kept_at, copied), MATCHES)


def _rows(schema: Any, **columns: Any) -> Any:
    """A table of a schema: columns of Arrow and arrays; a number is that of all rows, and columns
    that are not given are empty.

    :param columns: an array or a column first
    """
    count = len(next(iter(columns.values())))
    for field in schema:
        given = columns.get(field.name)
        if given is None:
            columns[field.name] = pa.nulls(count, field.type)
        elif isinstance(given, (int, str)):
            columns[field.name] = pa.repeat(pa.scalar(given, field.type), count)
    return pa.table({name: columns[name] for name in schema.names}).cast(schema)


def _to_match(edges: Any, kept_at: Mapping[int, int | None], copies: Any) -> Any:
    """Rows for :func:`matched`: pages that were dropped or have copies, their kept candidates, and
    the copies.

    :param kept_at: of contested pages
    """
    contested = np.array([*sorted(kept_at), _LAST])
    times = np.array(
        [_NEVER if (time := kept_at.get(page, page)) is None else time for page in contested]
    )

    def when(orders: NDArray[np.int64]) -> NDArray[np.int64]:
        """When pages were kept; one that is not contested at its own order."""
        at = np.searchsorted(contested, orders)
        return np.where(contested[at] == orders, times[at], orders)

    wanted = np.union1d(contested[times != contested], words(copies.column("page")))
    kept = when(wanted)
    own = _rows(TO_MATCH, page=wanted, kind=OWN, kept_at=pa.array(kept, mask=kept == _NEVER))
    edges = edges.filter(pa.compute.is_valid(edges.column("candidate")))
    edges = edges.filter(pa.array(np.isin(words(edges.column("page")), wanted)))
    moments = when(words(edges.column("candidate")))
    stored = moments != _NEVER
    edges = edges.filter(pa.array(stored))
    theirs = _rows(
        TO_MATCH, page=edges.column("page"), kind=CANDIDATE, candidate=moments[stored],
        tables=edges.column("tables"), content=edges.column("content"),
        payload=edges.column("payload"),
    )  # fmt: skip
    return _by_page(own, theirs, copies)


def _by_page(*tables: Any) -> Any:
    """Rows of pages sorted by page, kind and candidate; that of the page itself is the first."""
    by = [(name, "ascending") for name in ("page", "kind", "candidate")]
    return pa.concat_tables(tables).combine_chunks().sort_by(by).combine_chunks()


def judged(source: Source, options: Options) -> Work:
    """Pairs (page, candidate), by page, to :data:`.EDGES`."""

    def work(pairs: Any) -> Iterator[Any]:
        for batch in judge_pairs(options)(_to_judge(source, pairs)):
            # Where whatever else is kept does not matter, no page is read again to be settled.
            plain = words(batch.column("flags")) & PLAIN != 0
            own = batch.column("candidate").is_null()
            judged = batch.schema.get_field_index("payload")
            left = pa.compute.if_else(
                pa.compute.and_(pa.array(plain), own), None, batch.column(judged)
            )
            yield batch.set_column(judged, EDGES.field(judged), left)

    return work


def _to_judge(source: Source, pairs: Any) -> Iterator[Any]:
    """Rows for :func:`.judge_pairs`."""
    page, candidate = words(pairs.column("page")), words(pairs.column("candidate"))
    wanted = np.unique(candidate)
    stored = pa.Table.from_batches(list(source.chosen(wanted, CANDIDATES)))
    for i, field in enumerate(stored.schema):
        if pa.types.is_binary(field.type):  # the column may hold more than 2 GB
            large = stored.column(i).cast(pa.large_binary())
            stored = stored.set_column(i, field.name, large)
    stored = stored.combine_chunks()
    for batch, start, stop in _portions(source, page):
        own = _rows(
            TO_JUDGE, page=words(batch.column("order")), kind=OWN, places=batch.column("slots"),
            content=batch.column("content"), payload=batch.column("judged"),
        )  # fmt: skip
        rows = stored.take(pa.array(np.searchsorted(wanted, candidate[start:stop])))
        theirs = _rows(
            TO_JUDGE, page=page[start:stop], kind=CANDIDATE, candidate=candidate[start:stop],
            places=rows.column("slots"), content=rows.column("content"),
            payload=rows.column("payload"),
        )  # fmt: skip
        yield from _by_page(own, theirs).to_batches()


def _portions(source: Source, page: NDArray[np.int64]) -> Iterator[tuple[Any, int, int]]:
    """Batches of pages with the columns :data:`JUDGED`, and which rows are those of its pages: few,
    for a page may have thousands of candidates.

    :param page: of each row, ascending
    """
    for batch in source.chosen(np.unique(page), JUDGED):
        orders = words(batch.column("order"))
        starts = np.searchsorted(page, np.append(orders, orders[-1] + 1))
        first = 0
        while first < len(orders):
            last = int(np.searchsorted(starts, starts[first] + _MOST_ROWS, "right")) - 1
            last = max(first + 1, last)
            yield batch.slice(first, last - first), int(starts[first]), int(starts[last])
            first = last


def matched(source: Source, options: Options) -> Work:
    """Rows of :data:`TO_MATCH`, by page, to :data:`.MATCHES`; the rest of a page's own is read."""
    return lambda given: match_pages(options)(_with_own(source, given))


def _with_own(source: Source, given: Any) -> Iterator[Any]:
    page = words(given.column("page"))
    for batch, start, stop in _portions(source, page):
        some = given.slice(start, stop - start)
        is_own = pa.compute.equal(some.column("kind"), OWN)
        starts, places = flat(batch.column("slots"))
        bits = np.int64(1) << (places >> TABLE_SHIFT)
        own = _rows(
            TO_MATCH, page=words(batch.column("order")), kind=OWN,
            tables=np.bitwise_or.reduceat(bits, starts[:-1]),
            flags=batch.column("named").cast(pa.int64()), content=batch.column("content"),
            payload=batch.column("judged"), kept_at=some.filter(is_own).column("kept_at"),
        )  # fmt: skip
        yield from _by_page(own, some.filter(pa.compute.invert(is_own))).to_batches()


def in_parts(session: SparkSession, folder: Path, work: Work, table: Any, schema: Any) -> Any:
    """What the workers of Spark make of a table that is cut into one part for each core.

    :param folder: of this machine, for the files
    :param work: a table to batches of ``schema``
    :param table: sorted by its column ``page``; a page is in one part
    """
    cuts = cuts_of(words(table.column("page")), session.sparkContext.defaultParallelism)
    count = len(cuts) - 1
    if not count:
        return schema.empty_table()
    place = tempfile.mkdtemp(dir=folder)
    for number, (start, stop) in enumerate(pairwise(cuts)):
        part = table.slice(start, stop - start)
        _write(f"{place}/given-{number}.arrow", part.to_batches(), table.schema)
    numbers = session.range(0, count, 1, count)
    numbers.mapInArrow(_task(place, work, schema), from_arrow_schema(_DONE)).collect()
    return pa.concat_tables(_mapped(f"{place}/made-{number}.arrow") for number in range(count))


def cuts_of(pages: NDArray[np.int64], count: int) -> list[int]:
    """Where to cut sorted rows into some parts of about one size, so that no page is in two.

    >>> cuts_of(np.array([5, 5, 5, 7, 8]), 2), cuts_of(np.array([], int), 2)
    ([0, 3, 5], [0])
    """
    wanted = [len(pages) * i // count for i in range(1, count)] if len(pages) else []
    cuts = np.searchsorted(pages, pages[wanted], "right")
    return sorted({0, *cuts.tolist(), len(pages)})


def _write(path: str, batches: Iterable[Any], schema: Any) -> None:
    with pa.ipc.new_file(path, schema) as file:
        for batch in batches:
            file.write_batch(batch)


def _mapped(path: str) -> Any:
    """A table that stays in its file."""
    return pa.ipc.open_file(pa.memory_map(path)).read_all()


def _task(folder: str, work: Work, schema: Any) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """A function for ``mapInArrow`` over the numbers of parts."""

    def run(batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                given = _mapped(f"{folder}/given-{number}.arrow")
                _write(f"{folder}/made-{number}.arrow", work(given), schema)
            yield batch.rename_columns(_DONE.names)

    return run


def duplicates(
    matches: Sequence[Path], pages: Sequence[Path], names: Sequence[str], options: Options
) -> Any:
    """Dropped pages with their matches, a table of :data:`DUPLICATES`.

    :param matches: files of :data:`.MATCHES`
    :param pages: files of all pages, with their orders, keys and sizes in columns of these names
    """
    every = _read(pages, names).rename_columns(["order", "key", "size"])
    every = every.filter(pa.compute.is_valid(every.column("key")))  # rejected rows have none
    every = every.sort_by("order").combine_chunks()
    orders = words(every.column("order"))
    found = _read(matches, MATCHES.names)
    if not is_dropped(REVISIT, options):
        found = found.filter(pa.compute.not_equal(found.column("outcome"), REVISIT))
    columns = {name: found.column(name) for name in MATCHES.names}
    for name, own in (("order", "key"), ("match", "match_key")):
        rows = np.searchsorted(orders, words(found.column(name)))
        columns[own] = every.column("key").take(pa.array(rows))
    tables = [_rows(DUPLICATES, **columns)]
    if is_dropped(EMPTY, options):
        empty = every.filter(pa.compute.equal(every.column("size"), 0))
        columns = {name: empty.column(name) for name in ("order", "key")}
        tables.append(_rows(DUPLICATES, **columns, outcome=EMPTY, reason="no-text"))
    return pa.concat_tables(tables)


def clusters(duplicates: Sequence[Path]) -> Any:
    """Kept pages, each with all that were dropped for it, a table of :data:`CLUSTERS`.

    :param duplicates: files of :data:`DUPLICATES`
    """
    names = {"match": "cluster", "match_key": "stored", "outcome": "kind", "order": "order",
             "key": "key", "reason": "reason", "similarity": "similarity"}  # fmt: skip
    found = _read(duplicates, list(names))
    found = found.filter(pa.compute.is_valid(found.column("match")))
    found = found.rename_columns(list(names.values()))
    _, firsts = np.unique(words(found.column("cluster")), return_index=True)
    orders, keys = (found.column(name).take(pa.array(firsts)) for name in ("cluster", "stored"))
    kept = _rows(CLUSTERS, cluster=orders, order=orders, stored=keys, key=keys, kind="kept")
    theirs = _rows(CLUSTERS, **{name: found.column(name) for name in found.column_names})
    every = pa.concat_tables([kept, theirs])
    for name, own in (("stored", "stored_host"), ("key", "host")):
        hosts = pa.array([_host(key) for key in every.column(name).to_pylist()], pa.string())
        every = every.set_column(CLUSTERS.get_field_index(own), own, hosts)
    return every


def _read(files: Sequence[Path], columns: Sequence[str]) -> Any:
    return pa.concat_tables(pq.read_table(file, columns=list(columns)) for file in files)


def _host(key: str | None) -> str:
    found = _HOST.match(key or "")
    return found[1].lower() if found else ""
