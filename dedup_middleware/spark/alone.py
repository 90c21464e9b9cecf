"""Few pages on this machine: this process does the steps from exact copies to matches by itself.

On Spark they are some twenty plans, which Java makes and compiles for longer than the work on a few
hundred thousand pages takes. The fingerprints are read as Spark's workers have written them, and go
through the same pairing, judging, settling and matching, so the result is the same page for page.
Pages are judged and matched by the workers of Spark, one part each, which read them from the same
files; parts and what is made of them are files as well, so that Java moves none of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dedup_middleware.base.options import Options
from dedup_middleware.index.pages import TABLE_SHIFT, starts_of
from dedup_middleware.methods.base import Method
from dedup_middleware.methods.choose import choose_method
from dedup_middleware.model.buckets import KEY_TABLE, SIMHASH_TABLES
from dedup_middleware.model.records import BAND_SUFFIX_BITS
from dedup_middleware.spark.columns import fixed, flat, words
from dedup_middleware.spark.job_settings import Job
from dedup_middleware.spark.ordering import Source, ordered_runs
from dedup_middleware.spark.pairing import (
    BAND_KEY,
    NOTHING,
    SIGNED,
    WORDS,
    Blocks,
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
    PLAIN,
    judge_pairs,
    match_pages,
)
from dedup_middleware.spark.workers import Work

NARROW = ("order", "size", "twin", "key_hash", "simhash", "named", "slots", "sieve")
CANDIDATES = ("order", "content", "payload", "slots")
JUDGED = ("order", "content", "judged", "slots", "named")
#: names of all columns that are read
EVERY = tuple(dict.fromkeys((*NARROW, *CANDIDATES, *JUDGED)))
_MOST_PAIRS = 1 << 16
_MOST_FOUND = 1 << 24  # pairs in all; each takes up to 68 bytes
_RECORDS = 1 << 17  # of blocks, in memory at once, for each thread
_MOST_ROWS = 1 << 14  # that are judged or matched at once, of one page at least
_MOST_BYTES = 1 << 30  # of pages and candidates that are matched
_NEVER = -1  # in place of the order at which a page was kept

Parts = Callable[[Work, Any, Any], Any]  # see :class:`.workers.Parts`

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


@attrs.define
class Decision:
    """Which pages are dropped, and for which; rows of pages ascend by their orders.

    ``orders``, ``firsts``, ``keys``: see :class:`Pages`

    :param found: rows of pages and of their candidates, int32[m, 2], ascending
    """

    _source: Source
    _options: Options
    _parts: Parts
    _orders: NDArray[np.int64]
    _firsts: NDArray[np.int64]
    _keys: NDArray[np.int64]
    _found: NDArray[np.int32]

    def matches(self) -> Any:
        """A table of :data:`.MATCHES`; None: there is too much to match for one process."""
        method = choose_method(self._options)
        page, candidate = (self._orders[rows] for rows in self._found.T)
        pairs = pa.table({"page": page, "candidate": candidate})
        edges = self._parts(judged(self._source, self._options), pairs, EDGES)
        if edges.nbytes > _MOST_BYTES:
            return None
        copies: dict[int, list[int]] = {}
        rows = np.flatnonzero(self._firsts != np.arange(len(self._firsts)))
        firsts = self._firsts[rows]
        of_first, of_copy = self._orders[firsts], self._orders[rows]
        for first, copy in zip(of_first.tolist(), of_copy.tolist(), strict=True):
            copies.setdefault(first, []).append(copy)
        opened = OpenPages(edges, copies)
        kept_at = settle(opened, method, opened.kept)
        same = self._keys[rows] == self._keys[firsts]
        copied = _rows(
            TO_MATCH, page=of_first, kind=COPY, candidate=of_copy,
            flags=same.astype(np.int64),
        )  # fmt: skip
        given = _to_match(edges, kept_at, copied)
        return self._parts(matched(self._source, self._options), given, MATCHES)


def _rows(schema: Any, **columns: Any) -> Any:
    """A table of a schema: columns of Arrow and arrays; a number is that of all rows, and columns
    that are not given are empty.

    :param columns: an array of ``page`` among them
    """
    count = len(columns["page"])
    arrays = []
    for field in schema:
        values = columns.get(field.name)
        if values is None:
            values = pa.nulls(count, field.type)
        elif isinstance(values, int):
            values = np.full(count, values)
        is_column = isinstance(values, (pa.Array, pa.ChunkedArray))
        arrays.append(values if is_column else pa.array(values, field.type))
    return pa.table(arrays, names=schema.names).cast(schema)


def _to_match(edges: Any, kept_at: Mapping[int, int | None], copies: Any) -> Any:
    """Rows for :func:`matched`: pages that were dropped or have copies, their kept candidates, and
    the copies.

    :param kept_at: of contested pages
    """
    contested = np.fromiter(sorted(kept_at), np.int64, len(kept_at))
    times = np.fromiter(
        (_NEVER if (time := kept_at[order]) is None else time for order in contested.tolist()),
        np.int64, len(contested),
    )  # fmt: skip

    def when(orders: NDArray[np.int64]) -> NDArray[np.int64]:
        """When pages were kept; one that is not contested at its own order."""
        at = np.searchsorted(contested, orders).clip(0, max(0, len(contested) - 1))
        known = contested[at] == orders if len(contested) else np.zeros(len(orders), np.bool_)
        found: NDArray[np.int64] = np.where(known, times[at] if len(times) else 0, orders)
        return found

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
    return _by_page(pa.concat_tables([own, theirs, copies]))


def _by_page(rows: Any) -> Any:
    """Rows of pages sorted by page, kind and candidate; that of the page itself is the first."""
    by = np.lexsort(
        (
            words(rows.column("candidate").fill_null(0)),
            words(rows.column("kind")),
            words(rows.column("page")),
        )
    )
    return rows.combine_chunks().take(pa.array(by)).combine_chunks()


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
    stored = stored.cast(_large(stored.schema)).combine_chunks()
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
        yield from _by_page(pa.concat_tables([own, theirs])).to_batches()


def _large(schema: Any) -> Any:
    """A schema whose columns of bytes may hold more than 2 GB."""
    large = [
        field.with_type(pa.large_binary()) if pa.types.is_binary(field.type) else field
        for field in schema
    ]
    return pa.schema(large)


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

    def work(given: Any) -> Iterator[Any]:
        yield from match_pages(options)(_with_own(source, given))

    return work


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
        rest = some.filter(pa.compute.invert(is_own))
        yield from _by_page(pa.concat_tables([own, rest])).to_batches()


def matches(
    files: Sequence[Path], names: Mapping[str, str], options: Options, job: Job, parts: Parts,
    cores: int = 1,
) -> Any:  # fmt: skip
    """The matches of all pages that are dropped, a table of :data:`.MATCHES`; None: Spark has to
    find them.

    :param files: of pages, with at least one row
    :param names: see :class:`Source`
    :param cores: that this process may use
    """
    runs = ordered_runs(files, names["order"])
    if not runs:
        return None
    source = Source(runs, names)
    pages = read(source.batches(NARROW))
    found = candidate_rows(pages, job, choose_method(options), cores)
    if found is None:
        return None
    orders, firsts, keys = pages.orders, pages.firsts, pages.keys
    del pages  # while others judge, most of it is of no use
    return Decision(source, options, parts, orders, firsts, keys, found).matches()
