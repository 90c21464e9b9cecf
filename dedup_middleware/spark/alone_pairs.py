"""The candidates of few pages, which this process finds; see :mod:`.alone`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dedup_middleware.index.pages import TABLE_SHIFT, starts_of
from dedup_middleware.methods.base import Method
from dedup_middleware.model.buckets import KEY_TABLE, SIMHASH_TABLES
from dedup_middleware.model.records import BAND_SUFFIX_BITS
from dedup_middleware.spark.columns import fixed, flat, limit_of, words
from dedup_middleware.spark.job_settings import Job
from dedup_middleware.spark.pairing import BAND_KEY, NOTHING, SIGNED, WORDS, Blocks, pairs

_ROWS = 1024  # pages in memory at once
_MOST_RUNS = 4  # of a file, on average: its pages before a run are read as well


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

    :param names: by those of :data:`.alone.EVERY`, the names of columns in the files
    """

    runs: Sequence[Run]
    names: Mapping[str, str]

    def chosen(self, orders: NDArray[np.int64], columns: Sequence[str]) -> Iterator[Any]:
        """Batches, none of them empty, with some pages that are there.

        :param orders: of the pages, ascending
        """
        for batch in self.batches(columns):
            # Both ascend: of the wanted pages, those of this batch.
            own = words(batch.column("order"))
            start, stop = np.searchsorted(orders, (own[0], own[-1] + 1))
            if start < stop:
                yield batch.take(pa.array(np.searchsorted(own, orders[start:stop])))

    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        """Batches of Arrow with the columns, by their own names."""
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


NARROW = ("order", "size", "twin", "key_hash", "simhash", "named", "slots", "sieve")
_MOST_PAIRS = 1 << 16
_MOST_FOUND = 1 << 24  # pairs in all; each takes up to 68 bytes
_RECORDS = 1 << 17  # of blocks, in memory at once, for each thread


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


def candidate_rows(
    pages: Pages, job: Job, method: Method, cores: int = 1
) -> NDArray[np.int32] | None:
    """Rows of pages and of their candidates, int32[m, 2], ascending; see
    :func:`.pair_blocks.candidate_pairs`. None: a key has so many records that it has to be split,
    or there are too many pairs for the memory of one process.

    :param cores: blocks are compared by so many threads
    """
    limit, most = limit_of(method), min(job.hot, job.most)
    # Of each page there are some fourteen records: small numbers take a third of the memory.
    rows = np.repeat(np.arange(len(pages.orders), dtype=np.int32), np.diff(pages.starts))
    numbers = (np.arange(len(rows)) - pages.starts[rows]).astype(np.int16)
    single = pages.single[rows]
    rows, numbers, places = rows[single], numbers[single], pages.places[single]
    tables = (places >> TABLE_SHIFT).astype(np.int8)
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
    at = np.cumsum(counts)
    cuts = np.searchsorted(at, np.arange(_RECORDS, int(at[-1]) if len(at) else 0, _RECORDS))
    count = 0

    def compared(bounds: tuple[int, int]) -> list[NDArray[np.int32]]:
        nonlocal count
        start, stop = bounds
        some = np.repeat(begins[start:stop], counts[start:stop])
        starts = starts_of(counts[start:stop])
        some += np.arange(len(some)) - np.repeat(starts[:-1], counts[start:stop])
        own = rows[some]
        blocks = Blocks(
            starts=starts,
            tables=tables[begins[start:stop]].astype(np.int64),
            split=np.zeros(stop - start, np.int64),
            orders=pages.orders[own],
            lasts=pages.lasts[own],
            simhashes=pages.simhashes[own],
            flags=np.where(signed[own], SIGNED, 0),
            crowded=crowded[own],
            lower=_lower(pages, own, numbers[some], signed[own], crowded[own] >> tables[some] & 1),
            sieves=pages.sieves[own],
        )
        found, next_ = [], (0, 0)
        while next_[0] < stop - start and count <= _MOST_FOUND:
            page, candidate, next_ = pairs(
                blocks, method.scan_distance, (job.most, job.most), limit,
                max(_MOST_PAIRS, job.most), next_,
            )  # fmt: skip
            found.append(np.column_stack((own[page], own[candidate])))
            count += len(page)
        return found

    # The kernel and NumPy leave other threads alone for most of the time.
    with ThreadPoolExecutor(cores) as threads:
        bounds = pairwise(np.unique([0, *cuts.tolist(), len(counts)]).tolist())
        found = [part for parts in threads.map(compared, bounds) for part in parts]
    if count > _MOST_FOUND:
        return None
    return np.unique(np.concatenate([np.empty((0, 2), np.int32), *found]), axis=0)


def _lower(
    pages: Pages, rows: NDArray[np.int32], numbers: NDArray[np.int16],
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
