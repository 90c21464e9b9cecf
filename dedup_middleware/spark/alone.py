"""The steps from exact copies to clusters in the driver process, for small local jobs.

For a few hundred thousand pages Java takes longer to plan and compile these steps than the work
takes. The fingerprints are read from the files that Spark's workers wrote, and pass through the
same pairing, judging, settling and matching, so the result is the same row for row. Judging and
matching still run in Spark's workers, one part each, and exchange files, so that no page passes
through Java.
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
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dedup_middleware.base.options import Options
from dedup_middleware.core.judge import is_dropped
from dedup_middleware.index.pages import TABLE_SHIFT, starts_of
from dedup_middleware.index.pairing import BAND_KEY, NOTHING, SIGNED, WORDS, Blocks, pairs
from dedup_middleware.methods.base import Method
from dedup_middleware.methods.choose import choose_method
from dedup_middleware.model.buckets import KEY_TABLE, SIMHASH_TABLES
from dedup_middleware.model.documents import EMPTY, REVISIT
from dedup_middleware.model.records import BAND_SUFFIX_BITS
from dedup_middleware.spark import verdicts
from dedup_middleware.spark.columns import fixed, flat, limit_of, words
from dedup_middleware.spark.reading import Ordered, ordered_runs
from dedup_middleware.spark.stages import Job, Work
from dedup_middleware.spark.verdicts import judge_pairs, match_pages

#: columns to find candidates with
NARROW = ("order", "size", "twin", "key_hash", "simhash", "slots", "sieve")
CANDIDATES = ("order", "content", "payload", "slots")
JUDGED = ("order", "content", "judged", "slots", "named")
#: all columns read from the files
EVERY = tuple(dict.fromkeys((*NARROW, *CANDIDATES, *JUDGED)))
_MOST_ROWS = 1 << 14  # judged or matched at once; more if one page has more
_MOST_BYTES = 1 << 30  # of pages and candidates to match
_NEVER = -1  # stands for ``kept_at`` of a page that is not kept
_LAST = (1 << 63) - 1  # an order after all others

Parts = Callable[[Work, Any, Any], Any]  # :func:`.in_parts` with its first two arguments bound

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
    {**_NAMED, **{field.name: field.type for field in verdicts.MATCHES if field.name not in _NAMED}}
)
_MEMBERS = {"match": "cluster", "match_key": "stored", "outcome": "kind", "order": "order",
            "key": "key", "reason": "reason", "similarity": "similarity"}  # fmt: skip


def matches(
    files: Sequence[Path], names: Mapping[str, str], options: Options, job: Job, parts: Parts,
    cores: int = 1,
) -> Any:  # fmt: skip
    """Return the matches of all dropped pages as a table of :data:`.MATCHES`, or None if Spark has
    to find them: there are too many candidates for one process, or too many runs of rows to read.

    :param files: Parquet files of the fingerprints, with at least one row
    :param names: see :class:`.Ordered`
    """
    source, method = ordered_runs(files, names), choose_method(options)
    if source is None:
        return None
    pages = read(source.batches(NARROW))
    found = candidate_rows(pages, job, method, cores)
    if found is None:
        return None
    orders, firsts, keys = pages.orders, pages.firsts, pages.keys
    del pages  # frees most of its memory before pages are judged
    page, candidate = (orders[rows] for rows in found.T)
    edges = parts(
        lambda given: judge_pairs(_to_judge(source, given), options),
        pa.table({"page": page, "candidate": candidate}),
        verdicts.EDGES,
    )
    if edges.nbytes > _MOST_BYTES:
        return None
    rows = np.flatnonzero(firsts != np.arange(len(firsts)))
    of_first, of_copy = orders[firsts[rows]], orders[rows]
    kept_at = verdicts.settle(edges, np.column_stack((of_first, of_copy)).tolist(), method)
    same = (keys[rows] == keys[firsts[rows]]).astype(np.int64)
    copied = _rows(TO_MATCH, page=of_first, kind=verdicts.COPY, candidate=of_copy, flags=same)
    return parts(
        lambda given: match_pages(_with_own(source, given), options),
        _to_match(edges, kept_at, copied),
        verdicts.MATCHES,
    )


def _rows(schema: Any, **columns: Any) -> Any:
    """Build a table with a schema from Arrow columns and arrays. A scalar fills its whole column;
    columns that are not given are null."""
    count = len(next(iter(columns.values())))
    for field in schema:
        given = columns.get(field.name)
        if given is None:
            columns[field.name] = pa.nulls(count, field.type)
        elif isinstance(given, (int, str)):
            columns[field.name] = pa.repeat(pa.scalar(given, field.type), count)
    return pa.table({name: columns[name] for name in schema.names}).cast(schema)


def _to_match(edges: Any, kept_at: Mapping[int, int | None], copies: Any) -> Any:
    """Return the rows of :data:`TO_MATCH`: pages that are dropped or have exact copies, with their
    kept candidates and copies; ``content`` and ``payload`` of the pages themselves are null."""
    contested = np.array([*sorted(kept_at), _LAST])
    times = np.array(
        [_NEVER if (time := kept_at.get(page, page)) is None else time for page in contested]
    )

    def when(orders: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return when pages were kept; an uncontested page is kept at its own order."""
        at = np.searchsorted(contested, orders)
        return np.where(contested[at] == orders, times[at], orders)

    wanted = np.union1d(contested[times != contested], words(copies.column("page")))
    kept = when(wanted)
    own = _rows(
        TO_MATCH, page=wanted, kind=verdicts.OWN, kept_at=pa.array(kept, mask=kept == _NEVER)
    )
    edges = edges.filter(pa.compute.is_valid(edges.column("candidate")))
    edges = edges.filter(pa.array(np.isin(words(edges.column("page")), wanted)))
    moments = when(words(edges.column("candidate")))
    stored = moments != _NEVER
    edges = edges.filter(pa.array(stored))
    theirs = _rows(
        TO_MATCH, page=edges.column("page"), kind=verdicts.CANDIDATE, candidate=moments[stored],
        tables=edges.column("tables"), content=edges.column("content"),
        payload=edges.column("payload"),
    )  # fmt: skip
    return _by_page(own, theirs, copies)


def _by_page(*tables: Any) -> Any:
    """Concatenate tables, sorted by page, kind and candidate; a page's own row is first."""
    by = [(name, "ascending") for name in ("page", "kind", "candidate")]
    return pa.concat_tables(tables).combine_chunks().sort_by(by).combine_chunks()


def _to_judge(source: Ordered, given: Any) -> Iterator[Any]:
    """Yield the rows for :func:`.judge_pairs` of pairs (page, candidate) sorted by page."""
    page, candidate = words(given.column("page")), words(given.column("candidate"))
    wanted = np.unique(candidate)
    stored = pa.Table.from_batches(list(source.chosen(wanted, CANDIDATES)))
    # Binary columns with 32-bit offsets hold 2 GB at most.
    large = {pa.binary(): pa.large_binary()}
    kinds = [(field.name, large.get(field.type, field.type)) for field in stored.schema]
    stored = stored.cast(pa.schema(kinds)).combine_chunks()
    for batch, start, stop in _portions(source, page):
        own = _rows(
            TO_JUDGE, page=words(batch.column("order")), kind=verdicts.OWN,
            places=batch.column("slots"), content=batch.column("content"),
            payload=batch.column("judged"),
        )  # fmt: skip
        rows = stored.take(pa.array(np.searchsorted(wanted, candidate[start:stop])))
        theirs = _rows(
            TO_JUDGE, page=page[start:stop], kind=verdicts.CANDIDATE,
            candidate=candidate[start:stop], places=rows.column("slots"),
            content=rows.column("content"), payload=rows.column("payload"),
        )  # fmt: skip
        yield from _by_page(own, theirs).to_batches()


def _portions(source: Ordered, page: NDArray[np.int64]) -> Iterator[tuple[Any, int, int]]:
    """Yield batches of pages with the columns :data:`JUDGED`, and the first and end row in ``page``
    of each batch. Batches are small, since one page may have thousands of candidates."""
    for batch in source.chosen(np.unique(page), JUDGED):
        orders = words(batch.column("order"))
        starts = np.searchsorted(page, np.append(orders, orders[-1] + 1))
        first = 0
        while first < len(orders):
            last = int(np.searchsorted(starts, starts[first] + _MOST_ROWS, "right")) - 1
            last = max(first + 1, last)
            yield batch.slice(first, last - first), int(starts[first]), int(starts[last])
            first = last


def _with_own(source: Ordered, given: Any) -> Iterator[Any]:
    """Yield rows of :data:`TO_MATCH` by page; the own row of each page gets the columns that
    :func:`_to_match` left null from the files."""
    page = words(given.column("page"))
    for batch, start, stop in _portions(source, page):
        some = given.slice(start, stop - start)
        is_own = pa.compute.equal(some.column("kind"), verdicts.OWN)
        starts, places = flat(batch.column("slots"))
        bits = np.int64(1) << (places >> TABLE_SHIFT)
        own = _rows(
            TO_MATCH, page=words(batch.column("order")), kind=verdicts.OWN,
            tables=np.bitwise_or.reduceat(bits, starts[:-1]),
            flags=batch.column("named").cast(pa.int64()), content=batch.column("content"),
            payload=batch.column("judged"), kept_at=some.filter(is_own).column("kept_at"),
        )  # fmt: skip
        yield from _by_page(own, some.filter(pa.compute.invert(is_own))).to_batches()


def duplicates(
    matches: Sequence[Path], pages: Sequence[Path], names: Sequence[str], options: Options
) -> Any:
    """Return the dropped pages with their matches as a table of :data:`DUPLICATES`.

    :param matches: Parquet files of :data:`.MATCHES`
    :param pages: Parquet files of all pages; ``names``: their columns of order, key and size
    """
    every = _read(pages, names).rename_columns(["order", "key", "size"])
    every = every.filter(pa.compute.is_valid(every.column("key")))  # rejected rows have no key
    every = every.sort_by("order").combine_chunks()
    orders = words(every.column("order"))
    found = _read(matches, verdicts.MATCHES.names)
    if not is_dropped(REVISIT, options):
        found = found.filter(pa.compute.not_equal(found.column("outcome"), REVISIT))
    columns = {name: found.column(name) for name in verdicts.MATCHES.names}
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
    """Return each kept page and the pages dropped for it as a table of :data:`.CLUSTERS`."""
    found = _read(duplicates, list(_MEMBERS))
    found = found.filter(pa.compute.is_valid(found.column("match")))
    found = found.rename_columns(list(_MEMBERS.values())).sort_by("cluster")
    return pa.Table.from_batches(verdicts.with_kept(found.to_batches()), verdicts.CLUSTERS)


def _read(files: Sequence[Path], columns: Sequence[str]) -> Any:
    return pa.concat_tables(pq.read_table(file, columns=list(columns)) for file in files)


_MOST_FOUND = 1 << 24  # pairs in total, each of up to 68 bytes
_RECORDS = 1 << 17  # records of blocks that a thread has in memory at once


@attrs.frozen(eq=False)
class Pages:
    """The columns that find candidates, for n pages with text, by ascending order."""

    orders: NDArray[np.int64]
    firsts: NDArray[np.int64]  # row of the first exact copy, which may be the page itself
    lasts: NDArray[np.int64]  # order of the last exact copy
    keys: NDArray[np.int64]  # hashes
    simhashes: NDArray[np.uint64]
    starts: NDArray[np.int64]  # of each page in ``places``, and the end
    places: NDArray[np.int64]  # packed bucket keys: SimHash tables first, the key table last
    sieves: NDArray[np.uint64]  # [n, WORDS], see :func:`.make_sieve`


def read(batches: Iterable[Any]) -> Pages:
    """Read the columns :data:`NARROW` from at least one batch of pages in ascending order."""
    parts = []
    for batch in batches:
        rows = batch.filter(pa.compute.greater(batch.column("size"), 0))
        starts, places = flat(rows.column("slots"))
        numbers = (words(rows.column(name)) for name in ("order", "key_hash", "simhash"))
        binary = fixed(rows.column("twin"), 2), fixed(rows.column("sieve"), WORDS)
        parts.append((*numbers, np.diff(starts), places, *binary))
    orders, keys, simhashes, counts, places, twins, sieves = (
        np.concatenate(column) for column in zip(*parts, strict=True)
    )
    of_page = np.repeat(np.arange(len(orders), dtype=np.int32), counts)
    places = places[np.lexsort((places, places >> TABLE_SHIFT == KEY_TABLE, of_page))]
    firsts, lasts = _copies(orders, keys, twins)
    simhashes, sieves = simhashes.view(np.uint64), sieves.view(np.uint64)
    return Pages(orders, firsts, lasts, keys, simhashes, starts_of(counts), places, sieves)


def _copies(
    orders: NDArray[np.int64], keys: NDArray[np.int64], twins: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return for each page the row of its first exact copy and the order of its last one. If the
    key of a page occurs again, only pages with the same key are its exact copies."""
    _, of_key, counts = np.unique(keys, return_inverse=True, return_counts=True)
    again = counts[of_key] > 1
    values = np.column_stack((twins, again, np.where(again, keys, 0))).view("V32").ravel()
    _, firsts, group = np.unique(values, return_index=True, return_inverse=True)
    lasts = np.empty(len(firsts), np.int64)
    lasts[group] = orders  # ascending, so that the last one of a group stays
    return firsts[group], lasts[group]


def candidate_rows(
    pages: Pages, job: Job, method: Method, cores: int = 1
) -> NDArray[np.int32] | None:
    """Return the pairs of :func:`.pair_blocks.candidate_pairs` as sorted rows (page, candidate) of
    ``pages``, int32[m, 2]; None: there are too many, or a block has to be split."""
    limit, most = limit_of(method), min(job.hot, job.most)
    # A page has about fourteen records: with small integers they take a third of the memory.
    rows = np.repeat(np.arange(len(pages.orders), dtype=np.int32), np.diff(pages.starts))
    numbers = (np.arange(len(rows)) - pages.starts[rows]).astype(np.int16)
    single = (pages.firsts == np.arange(len(pages.orders)))[rows]
    rows, numbers, places = rows[single], numbers[single], pages.places[single]
    tables = (places >> TABLE_SHIFT).astype(np.int8)
    wide = (tables >= SIMHASH_TABLES[0]) & (tables <= SIMHASH_TABLES[-1])
    signed = np.zeros(len(pages.orders), np.bool_)
    signed[rows[wide & (numbers == 0)]] = True
    keys = np.where(wide, places >> BAND_SUFFIX_BITS, places | BAND_KEY)
    # The sort is stable, so the records of a block stay in the order of their pages.
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
        if count > _MOST_FOUND:
            return []
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
        found = []
        for page, candidate in pairs(blocks, method.scan_distance, (job.most, job.most), limit):
            found.append(np.column_stack((own[page], own[candidate])))
            count += len(page)
            if count > _MOST_FOUND:
                break
        return found

    # The kernel and NumPy release the GIL most of the time.
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
    """Return the column ``lower`` of records, see :class:`.Blocks`.

    :param numbers: position of each record among the places of its page
    :param crowded: 1 where the key of the record is crowded
    """
    begin = pages.starts[rows] + signed * len(SIMHASH_TABLES)
    every = pages.starts[rows + 1] - begin
    lengths = np.where(crowded == 1, every, numbers - signed * len(SIMHASH_TABLES)).clip(0)
    columns = np.arange(int(lengths.max(initial=0)))
    taken = columns < lengths[:, None]
    lower = np.full(taken.shape, NOTHING, np.int64)
    lower[taken] = pages.places[(begin[:, None] + columns)[taken]]
    return lower
