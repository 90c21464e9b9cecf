"""Consistency check of an index: buckets against page records, and counters against counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs
import numpy as np
from numpy.typing import NDArray

from dedup_middleware.index.base import Index, Progress
from dedup_middleware.index.pages import turned, whole_records
from dedup_middleware.index.parameters import bands_of, layout_of
from dedup_middleware.model.buckets import (
    EXACT_TABLE,
    FIRST_BAND_TABLE,
    KEY_TABLE,
    SIMHASH_TABLES,
    BucketKey,
    hash_bucket_key,
    simhash_bucket_keys,
    table_name,
    width_of,
)
from dedup_middleware.model.records import (
    BAND_SUFFIX_BITS,
    PageRecords,
    State,
    page_ids_of,
    suffixes_of,
)

_TABLES = 64
_NAMED = 1_000  # maximum number of pages reported by id and re-checked
_SIMHASH_BITS = np.uint64(sum(1 << table for table in SIMHASH_TABLES))
_KEY_BIT, _EXACT_BIT = np.uint64(1 << KEY_TABLE), np.uint64(1 << EXACT_TABLE)
_BATCH = 512
_BYTES = 1 << 20  # bytes of buckets checked in one pass


@attrs.frozen
class TableCheck:
    """Record counts of one table.

    ``gone``: of released or expired pages, which compaction removes; ``unknown``: of pages that
    never existed or have a damaged page record; ``misplaced``: that disagree with the page record;
    ``junk``: trailing bytes that form no record.
    """

    name: str
    buckets: int = 0
    records: int = 0
    gone: int = 0
    unknown: int = 0
    misplaced: int = 0
    junk: int = 0


@attrs.frozen
class Verification:
    """Result of a verification.

    ``committed``, ``pending``, ``released``: number of pages by state; ``damaged``: unreadable page
    records; ``tables``: the non-empty tables; ``lacking``: ids of committed pages without a record
    in a table they belong to, and the names of those tables (at most 1,000 pages; ``lacking_pages``
    counts all); ``counters``: one line for each wrong counter; ``leases``: leases of pages that are
    not pending; ``overflow``: records not written to full buckets, which explain as many lacking
    ones; ``written``: whether other processes wrote meanwhile, so that counters could not be
    compared strictly.
    """

    committed: int
    pending: int
    released: int
    damaged: int
    tables: tuple[TableCheck, ...]
    lacking: tuple[tuple[int, tuple[str, ...]], ...]
    lacking_pages: int
    counters: tuple[str, ...]
    leases: int
    overflow: int
    written: bool

    @property
    def is_sound(self) -> bool:
        """Whether the index is consistent; records of dead pages are no fault."""
        strange = sum(one.unknown + one.misplaced + one.junk for one in self.tables)
        lacking = max(0, self.lacking_pages - self.overflow)
        return not (strange or lacking or self.counters or self.leases or self.damaged)


class _Pages:
    """State, SimHash, key, and tables with a record found (bit mask) of each page that exists at
    the start; the row of a page is its id minus ``first``."""

    def __init__(self, page_ids: range) -> None:
        self.first = page_ids.start
        size = len(page_ids)
        self.states = np.zeros(size, np.uint8)
        self.simhashes = np.zeros(size, np.uint64)
        self.keys = np.zeros(size, np.uint64)
        self.tables = np.zeros(size, np.uint64)
        self.highest = 0  # highest page id found in a record
        # Committed pages that have expired, but share a chunk with live pages.
        self.committed_before = 0

    def add(self, pages: PageRecords) -> None:
        rows = pages.page_ids.astype(np.int64) - self.first
        known = (rows >= 0) & (rows < len(self.states))
        self.committed_before += int(np.sum(pages.states[rows < 0] == State.COMMITTED))
        rows = rows[known]
        self.states[rows] = pages.states[known]
        self.simhashes[rows] = pages.content["simhash"][known]
        self.keys[rows] = pages.content["key"][known]

    def count(self, state: State) -> int:
        return int(np.count_nonzero(self.states == state))


async def verify(index: Index, progress: Progress = lambda *_: None) -> Verification:
    """Read all buckets and page records and report inconsistencies; nothing is changed.

    Other processes may write meanwhile: pages that lack a record are read again before they are
    reported, and pages added after the start are ignored. Uses 25 bytes of memory per page.
    """
    before = await index.stats()
    pages = _Pages(await index.page_ids())
    done = 0
    async for part in index.pages():
        pages.add(part)
        done += len(part)
        progress("pages", done)
    # Page records hold SimHash and key, if the method stores them; never bands.
    fields = layout_of(before.parameters, "").fields
    checks = [TableCheck(table_name(table)) for table in range(_TABLES)]
    done = size = 0
    together: list[tuple[int, bytes]] = []
    async for bucket, raw in index.buckets():
        if together and (size >= _BYTES or bucket >> 16 != together[0][0] >> 16):
            await _check(index, checks, together, pages, fields)
            progress("buckets", done)
            together, size = [], 0
        together.append((bucket, raw))
        size += len(raw)
        done += 1
    await _check(index, checks, together, pages, fields)
    progress("buckets", done)
    lacking = await _lacking(index, pages, before.parameters)
    after = await index.stats()
    changes = ("committed", "pending", "released", "buckets")
    written = any(getattr(before, name) != getattr(after, name) for name in changes)
    counters = []
    for name, found in (
        ("committed", pages.count(State.COMMITTED) + pages.committed_before),
        *(() if "window" in before.parameters else (("buckets", done),)),
    ):
        low, high = sorted((getattr(before, name), getattr(after, name)))
        # While other processes write, any count between the two readings is valid.
        if not low <= found <= high and not (written and low != high):
            counters.append(f"{name}: the counter says {high}, there are {found}")
    last = (await index.page_ids()).stop - 1  # read again: pages may have been added
    if pages.highest > last:
        # The record's page is invisible, or its id would be issued a second time.
        counters.append(f"page ids: the counter says {last}, records name {pages.highest}")
    pending = pages.count(State.PENDING)
    return Verification(
        committed=pages.count(State.COMMITTED),
        pending=pending,
        released=pages.count(State.RELEASED),
        damaged=max(0, after.corrupt - before.corrupt),
        tables=tuple(one for one in checks if one.buckets),
        lacking=tuple(lacking[:_NAMED]),
        lacking_pages=len(lacking),
        counters=tuple(counters),
        leases=0 if written else max(0, after.pending - pending),
        overflow=after.overflow,
        written=written,
    )


def _required(parameters: Mapping[str, str], tables: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Bit masks uint64[n] of the tables in which each page must have a record.

    Every page has a record in the key table, and one in the exact table or in all other tables of
    the method. For methods of the literature the tables depend on the page: one with a record in a
    SimHash table must be in all of them, and then a single band requires all bands.

    :param tables: uint64[n], bit masks of the tables in which each page was found
    """
    number, _ = bands_of(parameters)  # 0: unknown
    bands = np.uint64(sum(1 << FIRST_BAND_TABLE + i for i in range(number)))
    required = np.full(len(tables), _KEY_BIT)
    any_simhash = (tables & _SIMHASH_BITS) != 0
    required[any_simhash] |= _SIMHASH_BITS
    required[any_simhash & ((tables & bands) != 0)] |= bands
    long = (tables & _EXACT_BIT) == 0
    required[long] |= {
        "content": _SIMHASH_BITS | bands,
        "simhash": _SIMHASH_BITS,
        "minhash": bands,
    }.get(parameters.get("method", "content"), np.uint64(0))
    return required


async def _check(
    index: Index,
    checks: list[TableCheck],
    buckets: Sequence[tuple[int, bytes]],
    pages: _Pages,
    fields: tuple[str, ...],
) -> None:
    """Add buckets, all of one table, to the check of that table."""
    if not buckets or (table := buckets[0][0] >> 16) >= _TABLES:
        return
    of_simhashes = table in SIMHASH_TABLES
    width = width_of(table << 16)
    raw, counts, junk = whole_records([raw for _, raw in buckets], width)
    page_ids, suffixes = page_ids_of(raw, width), suffixes_of(raw, width)
    names = np.fromiter((bucket for bucket, _ in buckets), np.uint64, len(buckets))
    prefixes = np.repeat(names & np.uint64(0xFFFF), counts)
    pages.highest = max(pages.highest, int(page_ids.max(initial=0)))
    rows = page_ids.astype(np.int64) - pages.first
    known = rows < len(pages.states)  # higher ids were issued after the start
    early = int(np.count_nonzero(rows < 0))
    known &= rows >= 0
    rows, suffixes, prefixes = rows[known], suffixes[known], prefixes[known]
    states = pages.states[rows]
    alive = (states == State.PENDING) | (states == State.COMMITTED)
    free = page_ids[known][states == State.FREE]
    # On a cluster ids are issued before their rows are written, perhaps since the rows were read.
    now = await index.fetch(np.unique(free))
    never = np.isin(free, now.page_ids[now.states == State.FREE])
    right = alive.copy()
    if of_simhashes and "simhash" in fields:
        simhashes = turned(pages.simhashes[rows], np.full(len(rows), table, np.uint64))
        right &= simhashes == prefixes << np.uint64(48) | suffixes
    elif table == KEY_TABLE and "key" in fields:
        hashed = prefixes << np.uint64(BAND_SUFFIX_BITS) | suffixes
        right &= pages.keys[rows] >> np.uint64(24) == hashed
    # Duplicate rows are harmless: all set the same bit.
    pages.tables[rows[right]] |= np.uint64(1 << table)
    check = checks[table]
    checks[table] = attrs.evolve(
        check,
        buckets=check.buckets + len(buckets),
        records=check.records + len(page_ids),
        gone=check.gone + int(np.count_nonzero(states == State.RELEASED)) + early,
        unknown=check.unknown + int(np.count_nonzero(never)),
        misplaced=check.misplaced + int(np.count_nonzero(alive & ~right)),
        junk=check.junk + int(junk.sum()),
    )


async def _lacking(
    index: Index, pages: _Pages, parameters: Mapping[str, str]
) -> list[tuple[int, tuple[str, ...]]]:
    """Committed pages that lack a record in a required table, after a second reading."""
    required = _required(parameters, pages.tables)
    missing = required & ~pages.tables
    rows = np.flatnonzero((pages.states == State.COMMITTED) & (missing != 0))
    found: list[tuple[int, tuple[str, ...]]] = []
    for start in range(0, len(rows), _BATCH):
        part = rows[start : start + _BATCH]
        now = await index.fetch((part + pages.first).astype(np.uint64))
        expired = await _expired(index, pages, part) if index.window else set()
        for row, state in zip(part.tolist(), now.states.tolist(), strict=True):
            if state != State.COMMITTED:
                continue  # forgotten and compacted while the tables were read
            tables = [table for table in range(_TABLES) if int(missing[row]) >> table & 1]
            if row in expired:
                continue
            if len(found) < _NAMED:
                tables = await _still_missing(index, pages, row, tables)
            if tables:
                found.append((row + pages.first, tuple(map(table_name, tables))))
    return found


async def _expired(index: Index, pages: _Pages, rows: NDArray[np.intp]) -> set[int]:
    """The rows whose pages have expired, perhaps while the tables were read. A page found in the
    key table has expired if its record there is gone now; one found in no table at all may have
    expired while its row remains, if it is in the oldest generation."""
    had_key = (pages.tables[rows] & _KEY_BIT) != 0
    keyed = rows[had_key].tolist()
    bucket_keys = [hash_bucket_key(KEY_TABLE, int(pages.keys[row])) for row in keyed]
    held = await index.read_buckets(bucket_keys)
    expired = {
        row
        for row, bucket_key, raw in zip(keyed, bucket_keys, held, strict=True)
        if not _holds(raw, bucket_key, row + pages.first)
    }
    for row in rows[pages.tables[rows] == 0].tolist():
        if await index.expiring(row + pages.first):
            expired.add(row)
    return expired


async def _still_missing(index: Index, pages: _Pages, row: int, tables: list[int]) -> list[int]:
    """The tables in which a page's record is still missing after its bucket was read again, which
    is possible for key and SimHash tables only."""
    places = (
        hash_bucket_key(KEY_TABLE, int(pages.keys[row])),
        *simhash_bucket_keys(int(pages.simhashes[row])),
    )
    bucket_keys = [one for one in places if one.table in tables]
    again = set()
    for bucket_key, raw in zip(bucket_keys, await index.read_buckets(bucket_keys), strict=True):
        if _holds(raw, bucket_key, row + pages.first):
            again.add(bucket_key.table)
    return [table for table in tables if table not in again]


def _holds(raw: bytes, bucket_key: BucketKey, page_id: int) -> bool:
    equal = suffixes_of(raw, bucket_key.width) == np.uint64(bucket_key.suffix)
    return page_id in page_ids_of(raw, bucket_key.width)[equal]
