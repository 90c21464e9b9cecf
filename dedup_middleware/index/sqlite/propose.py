"""Many pages proposed, or committed, in one transaction that asks each table once."""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.index.base import MOST_JUDGED
from dedup_middleware.index.record_layout import RecordLayout
from dedup_middleware.index.small_buckets import is_common, unknown_neighbours
from dedup_middleware.index.sqlite import tables
from dedup_middleware.index.window import Moment
from dedup_middleware.model.buckets import (
    BUCKET_LIMIT,
    NON_SIMHASH_TABLES,
    SIMHASH_TABLES,
    BucketKey,
    BucketKeys,
    Neighbours,
    cut_address,
    most_met,
    record_of,
)
from dedup_middleware.model.claims import NO_CANDIDATES, Candidates, Claim, Claimed, Proposed
from dedup_middleware.model.records import BAND_RECORD, SIMHASH_RECORD, PageRecords, State, chosen

_NAMED = 16  # candidates of a page whose addresses come with the reply
_FIRST_SIMHASH, _LAST_SIMHASH = SIMHASH_TABLES[0], SIMHASH_TABLES[-1]
_Made = tuple[Claim | None, Neighbours]


def propose(
    db: sqlite3.Connection, pages: Sequence[Proposed], moment: Moment, layout: RecordLayout
) -> tuple[list[Claimed | Candidates], int, int]:
    """Claim the places of all pages that no unknown page blocks, one page after the other.

    Leases that have run out must be ended before, in the same transaction.

    :returns: the reply for each page, how many rows of candidates were damaged, and how many
        SimHash records were compared
    """
    buckets = _Buckets(db, pages, moment)
    known, corrupt = _known(db, pages, moment.now, layout)
    before = last = tables.last_number(db)
    made: list[_Made] = []
    rows: list[tuple[int, int, bytes, bytes | None]] = []
    payloads: list[tuple[int, bytes]] = []
    leases: list[tuple[int, bytes, float, float]] = []
    for page, ids in zip(pages, known, strict=True):
        held = buckets.of(page.bucket_keys)
        near, is_blocked = unknown_neighbours(
            page.bucket_keys, held, page.distance, ids, page.known.upto
        )
        if is_blocked and page.known:
            # What the same call has claimed comes with the claim, for the client to judge.
            is_blocked = _blocks(near, before)
        if is_blocked:
            made.append((None, near))
            continue
        entry, last = page.entry, last + 1
        buckets.add(entry.bucket_keys, last)
        address = cut_address(entry.address) if entry.address and layout.text else None
        rows.append((last, int(State.PENDING), layout.pack_one(entry.content), address))
        if entry.payload:
            payloads.append((last, entry.payload))
        token = secrets.token_bytes(8)
        leases.append((last, token, moment.now + page.lease, page.lease))
        made.append((Claim(last, int.from_bytes(token, "little")), near))
    if rows:
        if moment.generation:
            query = "INSERT OR IGNORE INTO generation VALUES (?, ?)"
            db.execute(query, (moment.generation, rows[0][0]))
            tables.sweep(db, moment.oldest)
        db.executemany("INSERT INTO page VALUES (?, ?, ?, ?)", rows)
        db.executemany("INSERT INTO payload VALUES (?, ?)", payloads)
        db.executemany("INSERT INTO lease VALUES (?, ?, ?, ?)", leases)
        buckets.write(db)
    results, damaged = _described(db, made, moment.now, layout, any(p.entry.payload for p in pages))
    return results, corrupt + damaged, sum(near.scanned for _, near in made)


def _blocks(near: Neighbours, before: int) -> bool:
    """Whether a page up to an id was found in a band, key or exact table."""
    older = near.page_ids <= np.uint64(before)
    return bool((near.tables[older] & np.uint64(NON_SIMHASH_TABLES)).any())


def _known(
    db: sqlite3.Connection, pages: Sequence[Proposed], now: float, layout: RecordLayout
) -> tuple[list[frozenset[int]], int]:
    """Of each page the ids that do not block its claim, and how many rows were damaged."""
    ids: list[frozenset[int]] = []
    corrupt = 0
    for page in pages:
        judged = page.known.pages
        if not len(judged):
            ids.append(frozenset())
            continue
        found, damaged = tables.fetch(db, judged.page_ids, now, layout)
        corrupt += damaged
        ids.append(frozenset(page.known.still(found).tolist()))
    return ids, corrupt


class _Buckets:
    """All buckets of some pages as stored, then with the records added to them."""

    def __init__(self, db: sqlite3.Connection, pages: Sequence[Proposed], moment: Moment) -> None:
        wanted = {one for page in pages for one in BucketKeys.of(page.bucket_keys).columns()[0]}
        self._bases = [tables.bucket_id(one, 0) for one in moment.live]
        self._held = tables.buckets(db, sorted(base | n for base in self._bases for n in wanted))
        self._changed: set[int] = set()
        self._new = 0
        self._overflow = 0

    def of(self, bucket_keys: Sequence[BucketKey]) -> Sequence[Sequence[bytes | None]]:
        """The bucket of each bucket key, in every generation."""
        held, bases = self._held, self._bases
        if len(bases) == 1 and bases[0] == 0:
            return [(held.get(n),) for n in BucketKeys.of(bucket_keys).columns()[0]]
        return [
            [held.get(base | n) for base in bases] for n in BucketKeys.of(bucket_keys).columns()[0]
        ]

    def add(self, bucket_keys: Sequence[BucketKey], page_id: int) -> None:
        """Give a page its records, in the newest generation."""
        held, changed, base = self._held, self._changed, self._bases[-1]
        for bucket, suffix in zip(*BucketKeys.of(bucket_keys).columns(), strict=True):
            old = held.get(base | bucket, b"")
            if is_common(bucket, suffix, old):
                continue
            width = (
                SIMHASH_RECORD if _FIRST_SIMHASH <= bucket >> 16 <= _LAST_SIMHASH else BAND_RECORD
            )
            # No record behind bytes that are none could be read.
            whole = old[: len(old) - len(old) % width] if len(old) % width else old
            raw = whole + record_of(bucket, suffix, page_id)
            if len(raw) > BUCKET_LIMIT:
                self._overflow += 1
                continue
            self._new += not old
            held[base | bucket] = raw
            changed.add(base | bucket)

    def write(self, db: sqlite3.Connection) -> None:
        """Write what has changed, in the order in which it lies in the file."""
        rows = [(bucket, self._held[bucket]) for bucket in sorted(self._changed)]
        db.executemany("INSERT OR REPLACE INTO bucket (id, data) VALUES (?, ?)", rows)
        tables.add(db, "buckets", self._new)
        tables.add(db, "overflow", self._overflow)


def _described(
    db: sqlite3.Connection,
    made: list[_Made],
    now: float,
    layout: RecordLayout,
    with_payloads: bool,
) -> tuple[list[Claimed | Candidates], int]:
    """Results with what is known of the candidates."""
    best = [most_met(near, MOST_JUDGED) for _, near in made]
    wanted = [near.page_ids for near in best if len(near)]
    found, corrupt, addresses = None, 0, {}
    payloads: dict[int, bytes] = {}
    if wanted:
        every = np.unique(np.concatenate(wanted))
        found, corrupt = tables.fetch(db, every, now, layout)
        if with_payloads:
            ids = every.tolist()
            payloads = dict(zip(ids, tables.payloads(db, ids), strict=True))
        named = sorted({n for some in wanted if len(some) <= _NAMED for n in some.tolist()})
        addresses = dict(zip(named, tables.addresses(db, named), strict=True))
    results: list[Claimed | Candidates] = []
    for (claim, near), some in zip(made, best, strict=True):
        candidates = NO_CANDIDATES
        if len(near) and found is not None:
            candidates = _of(found, near, some.page_ids, addresses, payloads)
        elif near.full or near.corrupt:
            candidates = Candidates(near)
        results.append(candidates if claim is None else Claimed(claim, candidates))
    return results, corrupt


def _of(
    found: PageRecords,
    near: Neighbours,
    described: NDArray[np.uint64],
    addresses: dict[int, str | None],
    payloads: dict[int, bytes],
) -> Candidates:
    pages = chosen(found, np.searchsorted(found.page_ids, described))
    own = {n: addresses[n] for n in described.tolist() if n in addresses}
    kept = {n: payloads[n] for n in described.tolist()} if payloads else {}
    return Candidates(near, pages, own, kept, more=len(described) < len(near))
