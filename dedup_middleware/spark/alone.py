"""Few pages on this machine: this process does the steps from exact copies to matches by itself.

On Spark they are some twenty plans, which Java makes and compiles for longer than the work on a few
hundred thousand pages takes. The fingerprints are read as Spark's workers have written them, and go
through the same pairing, judging, settling and matching, so the result is the same page for page.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dedup_middleware.base.options import Options
from dedup_middleware.index.pages import TABLE_SHIFT, starts_of
from dedup_middleware.methods.base import Method
from dedup_middleware.methods.choose import choose_method
from dedup_middleware.model.buckets import KEY_TABLE, SIMHASH_TABLES
from dedup_middleware.model.records import BAND_SUFFIX_BITS
from dedup_middleware.spark.columns import batch_of, fixed, flat, words
from dedup_middleware.spark.job_settings import Job
from dedup_middleware.spark.pairing import (
    BAND_KEY,
    NOTHING,
    SIGNED,
    WORDS,
    Blocks,
    may_match,
    pairs,
)
from dedup_middleware.spark.settling import OpenPages, settle
from dedup_middleware.spark.sieve import limit_of
from dedup_middleware.spark.verdicts import (
    CANDIDATE,
    COPY,
    EDGES,
    MATCHES,
    OWN,
    judge_pairs,
    match_pages,
)

NARROW = ("order", "size", "twin", "key_hash", "simhash", "named", "slots", "sieve")
JUDGED = ("order", "content", "payload", "judged")
_ROWS = 1024  # pages in memory at once
_MOST_RUNS = 4  # of a file, on average: its pages before a run are read as well
_MOST_PAIRS = 1 << 16
_MOST_FOUND = 1 << 24  # pairs in all; each takes up to 68 bytes
_RECORDS = 1 << 18  # of blocks, in memory at once

TO_JUDGE = pa.schema(
    [
        ("page", pa.int64()),
        ("kind", pa.int32()),
        ("candidate", pa.int64()),
        ("places", pa.list_(pa.int64())),
        ("content", pa.binary()),
        ("payload", pa.binary()),
    ]
)
TO_MATCH = pa.schema(
    [
        ("page", pa.int64()),
        ("kind", pa.int32()),
        ("candidate", pa.int64()),
        ("tables", pa.int64()),
        ("flags", pa.int64()),
        ("content", pa.binary()),
        ("payload", pa.binary()),
        ("kept_at", pa.int64()),
    ]
)


@attrs.frozen
class Run:
    """Rows of one file that follow each other in the order of the job.

    ``first`` and ``last``: the orders of the rows ``start`` to ``stop - 1``
    """

    first: int
    last: int
    file: Path
    start: int
    stop: int


def ordered_runs(files: Sequence[Path], order: str) -> list[Run] | None:
    """All rows of some files, by ascending order; None: they can't be read so in few passes.

    :param order: name of the column
    """
    found: list[Run] = []
    for path in files:
        with pq.ParquetFile(path) as file:
            orders = words(file.read([order]).column(0))
        cuts = [0, *(np.flatnonzero(np.diff(orders) <= 0) + 1).tolist(), len(orders)]
        found += [
            Run(int(orders[start]), int(orders[stop - 1]), path, start, stop)
            for start, stop in pairwise(cuts)
            if start < stop
        ]
    found.sort(key=lambda run: run.first)
    overlap = any(one.last >= other.first for one, other in pairwise(found))
    return None if overlap or len(found) > _MOST_RUNS * len(files) else found


@attrs.frozen
class Source:
    """The pages of a job by ascending order.

    :param names: by those of :data:`NARROW` and :data:`JUDGED`, the names of columns in the files
    """

    runs: Sequence[Run]
    names: Mapping[str, str]

    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        """Batches of Arrow with the columns, by the names of :data:`NARROW`."""
        stored = [self.names[column] for column in columns]
        for run in self.runs:
            for batch in _rows_of(run, stored):
                yield batch.select(stored).rename_columns(list(columns))


def _rows_of(run: Run, columns: list[str]) -> Iterator[Any]:
    # Without a buffer all pages of a row group would be in memory together.
    with pq.ParquetFile(run.file, buffer_size=1 << 20) as file:
        at = 0
        for group in range(file.num_row_groups):
            count = file.metadata.row_group(group).num_rows
            if at + count <= run.start:
                at += count
                continue
            for batch in file.iter_batches(
                _ROWS, row_groups=[group], columns=columns, use_threads=False
            ):
                low, high = max(0, run.start - at), min(batch.num_rows, run.stop - at)
                if low < high:
                    yield batch.slice(low, high - low)
                at += batch.num_rows
                if at >= run.stop:
                    return


@attrs.frozen(eq=False)
class Pages:
    """What candidates are found by, of n pages that have a text, by ascending order.

    ``orders`` int64[n]; ``firsts`` int64[n] the row of the first exact copy of each, which may be
    the page itself, and ``lasts`` the order of the last; ``keys`` int64[n] hashes of their keys,
    ``named`` bool[n] whether these name them; ``simhashes`` uint64[n]; ``places`` int64[p]: those
    of row i are ``places[starts[i]:starts[i + 1]]``, SimHash tables first, the key last; ``sieves``
    uint64[n, WORDS].
    """

    orders: NDArray[np.int64]
    firsts: NDArray[np.int64]
    lasts: NDArray[np.int64]
    keys: NDArray[np.int64]
    named: NDArray[np.bool_]
    simhashes: NDArray[np.uint64]
    starts: NDArray[np.int64]
    places: NDArray[np.int64]
    sieves: NDArray[np.uint64]

    @property
    def single(self) -> NDArray[np.bool_]:
        """Whether a page is no copy of one before it, bool[n]."""
        found: NDArray[np.bool_] = self.firsts == np.arange(len(self.orders))
        return found


def read(batches: Iterable[Any]) -> Pages:
    """The columns of :data:`NARROW`, by ascending order, one batch at least."""
    parts = []
    for batch in batches:
        rows = batch.filter(pa.compute.greater(batch.column("size"), 0))
        starts, places = flat(rows.column("slots"))
        numbers = (words(rows.column(name)) for name in ("order", "key_hash", "simhash"))
        named = np.asarray(rows.column("named").to_numpy(zero_copy_only=False), np.bool_)
        twins = fixed(rows.column("twin"), 2)
        parts.append(
            (*numbers, named, twins, np.diff(starts), places, fixed(rows.column("sieve"), WORDS))
        )
    orders, keys, simhashes, named, twins, counts, places, sieves = (
        np.concatenate(column) for column in zip(*parts, strict=True)
    )
    of_page = np.repeat(np.arange(len(orders), dtype=np.int32), counts)
    places = places[np.lexsort((places, places >> TABLE_SHIFT == KEY_TABLE, of_page))]
    firsts, lasts = _copies(orders, keys, twins)
    return Pages(
        orders, firsts, lasts, keys, named, simhashes.view(np.uint64), starts_of(counts), places,
        sieves.view(np.uint64),
    )  # fmt: skip


def _copies(
    orders: NDArray[np.int64], keys: NDArray[np.int64], twins: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Of each page the row of its first exact copy, and the order of the last.

    A page whose key occurs again is an exact copy only of pages of that key.
    """
    _, of_key, counts = np.unique(keys, return_inverse=True, return_counts=True)
    again = counts[of_key] > 1
    by = np.lexsort((np.where(again, keys, 0), again, twins[:, 0], twins[:, 1]))
    values = np.column_stack((twins, again, np.where(again, keys, 0)))[by]
    new = np.ones(len(orders), np.bool_)
    new[1:] = (values[1:] != values[:-1]).any(1)
    begins = np.flatnonzero(new)
    ends = np.append(begins, len(orders))[1:] - 1
    group = np.cumsum(new) - 1
    firsts, lasts = np.empty_like(orders), np.empty_like(orders)
    # The sort is stable, so that rows of a group ascend.
    firsts[by], lasts[by] = by[begins][group], orders[by[ends]][group]
    return firsts, lasts


def candidate_rows(pages: Pages, job: Job, method: Method) -> NDArray[np.int64] | None:
    """Rows of pages and of their candidates, int64[m, 2], ascending; see
    :func:`.pair_blocks.candidate_pairs`. None: a key has so many records that it has to be split,
    or there are too many pairs for the memory of one process.
    """
    limit, most = limit_of(method), min(job.hot, job.most)
    rows = np.repeat(np.arange(len(pages.orders)), np.diff(pages.starts))
    numbers = np.arange(len(rows)) - pages.starts[rows]
    single = pages.single[rows]
    rows, numbers, places = rows[single], numbers[single], pages.places[single]
    tables = places >> TABLE_SHIFT
    wide = (tables >= SIMHASH_TABLES[0]) & (tables <= SIMHASH_TABLES[-1])
    signed = np.zeros(len(pages.orders), np.bool_)
    signed[rows[wide & (numbers == 0)]] = True
    keys = np.where(wide, places >> BAND_SUFFIX_BITS, places | BAND_KEY)
    # Records of pages stay in their order.
    by = np.argsort(keys, kind="stable")
    keys, rows, numbers, tables = keys[by], rows[by], numbers[by], tables[by]
    del places, single, wide, by
    begins = np.flatnonzero(np.diff(keys, prepend=keys[:1] - 1))
    counts = np.diff(np.append(begins, len(keys)))
    if counts.max(initial=0) > job.hot:
        return None
    crowded = np.zeros(len(pages.orders), np.int64)
    many = np.repeat(counts > most, counts)
    np.bitwise_or.at(crowded, rows[many], np.int64(1) << tables[many])
    begins, counts = begins[counts > 1], counts[counts > 1]
    found, count = [np.empty((0, 2), np.int64)], 0
    at = np.cumsum(counts)
    cuts = np.searchsorted(at, np.arange(_RECORDS, int(at[-1]) if len(at) else 0, _RECORDS))
    for start, stop in pairwise(np.unique([0, *cuts.tolist(), len(counts)]).tolist()):
        some = np.repeat(begins[start:stop], counts[start:stop])
        starts = starts_of(counts[start:stop])
        some += np.arange(len(some)) - np.repeat(starts[:-1], counts[start:stop])
        own = rows[some]
        blocks = Blocks(
            starts=starts,
            tables=tables[begins[start:stop]],
            split=np.zeros(stop - start, np.int64),
            orders=pages.orders[own],
            lasts=pages.lasts[own],
            simhashes=pages.simhashes[own],
            flags=np.where(signed[own], SIGNED, 0),
            crowded=crowded[own],
            lower=_lower(pages, own, numbers[some], signed[own], crowded[own] >> tables[some] & 1),
            sieves=np.empty((0, WORDS), np.uint64),
        )
        next_ = (0, 0)
        while next_[0] < stop - start:
            page, candidate, next_ = pairs(
                blocks, method.scan_distance, (job.most, job.most), max(_MOST_PAIRS, job.most),
                next_,
            )  # fmt: skip
            kept = may_match(pages.sieves, own[page], own[candidate], limit)
            found.append(np.column_stack((own[page[kept]], own[candidate[kept]])))
            count += len(found[-1])
            if count > _MOST_FOUND:
                return None
    return np.unique(np.concatenate(found), axis=0)


def _lower(
    pages: Pages, rows: NDArray[np.int64], numbers: NDArray[np.int64],
    signed: NDArray[np.bool_], crowded: NDArray[np.int64],
) -> NDArray[np.int64]:  # fmt: skip
    """The rows of ``lower`` of records, see :class:`.Blocks`.

    :param numbers: which of its page's places each record is
    :param crowded: 1 where its key is crowded
    """
    begin = pages.starts[rows] + signed * len(SIMHASH_TABLES)
    every = pages.starts[rows + 1] - begin
    lengths = np.where(crowded == 1, every, numbers - signed * len(SIMHASH_TABLES)).clip(0)
    columns = np.arange(int(lengths.max(initial=0)))
    taken = columns < lengths[:, None]
    lower = np.full(taken.shape, NOTHING, np.int64)
    lower[taken] = pages.places[(begin[:, None] + columns)[taken]]
    return lower


@attrs.define
class Decision:
    """Which pages are dropped, and for which.

    :param found: rows of pages and of their candidates, int64[m, 2], ascending
    """

    _source: Source
    _pages: Pages
    _found: NDArray[np.int64]
    _options: Options

    def matches(self) -> Any:
        """A table of :data:`.MATCHES`."""
        method, pages = choose_method(self._options), self._pages
        stored = self._stored(np.unique(self._found))
        edges = pa.Table.from_batches(
            list(judge_pairs(self._options)(self._to_judge(stored))), EDGES
        )
        copies: dict[int, list[int]] = {}
        rows = np.flatnonzero(~pages.single)
        for first, row in zip(pages.firsts[rows].tolist(), rows.tolist(), strict=True):
            copies.setdefault(first, []).append(row)
        orders = {
            int(pages.orders[first]): pages.orders[rows].tolist() for first, rows in copies.items()
        }
        opened = OpenPages(edges, orders)
        kept_at = settle(opened, method, opened.kept)
        found = match_pages(self._options)(self._to_match(edges, kept_at, copies))
        return pa.Table.from_batches(list(found), MATCHES)

    def _stored(self, rows: NDArray[np.int64]) -> dict[int, tuple[bytes, bytes]]:
        """Content and payload of pages, by their rows."""
        found = {}
        for row, page in self._rows(rows, JUDGED[:3]):
            found[row] = page["content"], page["payload"] or b""
        return found

    def _rows(
        self, wanted: NDArray[np.int64], columns: Sequence[str]
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        """Some rows, in their order, with their columns."""
        orders = self._pages.orders[wanted]
        for batch in self._source.batches(columns):
            # Both ascend: of the wanted rows, those of this batch.
            own = words(batch.column("order"))
            start, stop = np.searchsorted(orders, (own[0], own[-1] + 1))
            some = batch.take(pa.array(np.searchsorted(own, orders[start:stop])))
            yield from zip(wanted[start:stop].tolist(), some.to_pylist(), strict=True)

    def _places(self, row: int) -> NDArray[np.int64]:
        return self._pages.places[self._pages.starts[row] : self._pages.starts[row + 1]]

    def _to_judge(self, stored: Mapping[int, tuple[bytes, bytes]]) -> Iterator[Any]:
        """Rows for :func:`.judge_pairs`."""
        orders, by_page = self._pages.orders, self._found[:, 0]
        rows: list[tuple[Any, ...]] = []
        for row, page in self._rows(np.unique(by_page), JUDGED):
            rows.append(
                (page["order"], OWN, None, self._places(row), page["content"], page["judged"])
            )
            start, stop = np.searchsorted(by_page, (row, row + 1))
            rows += [
                (page["order"], CANDIDATE, int(orders[one]), self._places(one), *stored[one])
                for one in self._found[start:stop, 1].tolist()
            ]
            if len(rows) > _ROWS:
                yield batch_of(rows, TO_JUDGE)
                rows = []
        if rows:
            yield batch_of(rows, TO_JUDGE)

    def _to_match(
        self, edges: Any, kept_at: Mapping[int, int | None], copies: Mapping[int, list[int]]
    ) -> Iterator[Any]:
        """Rows for :func:`.match_pages`: pages that were dropped or have copies."""
        pages = self._pages
        edges = edges.filter(pa.compute.is_valid(edges.column("candidate")))
        edges = edges.sort_by("page").combine_chunks()
        by_page = words(edges.column("page"))
        dropped = [order for order, kept in kept_at.items() if kept != order]
        wanted = np.union1d(
            np.searchsorted(pages.orders, np.array(dropped, np.int64)),
            np.array(list(copies), np.int64),
        )
        rows: list[tuple[Any, ...]] = []
        for row, page in self._rows(wanted, JUDGED):
            order = page["order"]
            mask = int(np.bitwise_or.reduce(np.int64(1) << (self._places(row) >> TABLE_SHIFT)))
            own = (order, OWN, None, mask, int(pages.named[row]))
            rows.append((*own, page["content"], page["judged"], kept_at.get(order, order)))
            start, stop = np.searchsorted(by_page, (order, order + 1))
            kept = [
                (kept_at.get(edge["candidate"], edge["candidate"]), edge)
                for edge in edges.slice(start, stop - start).to_pylist()
            ]
            rows += sorted(
                (order, CANDIDATE, time, edge["tables"], None, edge["content"], edge["payload"],
                 None)
                for time, edge in kept
                if time is not None
            )  # fmt: skip
            rows += [
                (order, COPY, int(pages.orders[one]), None,
                 int(pages.keys[one] == pages.keys[row]), None, None, None)
                for one in copies.get(row, ())
            ]  # fmt: skip
            if len(rows) > _ROWS:
                yield batch_of(rows, TO_MATCH)
                rows = []
        if rows:
            yield batch_of(rows, TO_MATCH)


def matches(files: Sequence[Path], names: Mapping[str, str], options: Options, job: Job) -> Any:
    """The matches of all pages that are dropped, a table of :data:`.MATCHES`; None: Spark has to
    find them.

    :param files: of pages, with at least one row
    :param names: see :class:`Source`
    """
    runs = ordered_runs(files, names["order"])
    if not runs:
        return None
    source = Source(runs, names)
    pages = read(source.batches(NARROW))
    found = candidate_rows(pages, job, choose_method(options))
    return None if found is None else Decision(source, pages, found, options).matches()
