"""Proposals of many pages in one transaction, with one query per table.

Most buckets hold no match, and for these a search for the three suffix bytes beats a kernel call.
"""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Sequence
from collections.abc import Set as AbstractSet

import numpy as np

from dedup_middleware.index.base import MOST_JUDGED
from dedup_middleware.index.parameters import Moment, RecordLayout
from dedup_middleware.index.sqlite import tables
from dedup_middleware.model.buckets import (
    ANCHOR_TABLES,
    BUCKET_LIMIT,
    COMMON_ANCHOR,
    FULL_BUCKET,
    NO_NEIGHBOURS,
    NON_SIMHASH_TABLES,
    SIMHASH_TABLES,
    BucketKey,
    BucketKeys,
    Neighbours,
    cut_address,
    most_met,
    record_of,
    width_of,
)
from dedup_middleware.model.claims import NO_CANDIDATES, Candidates, Claim, Claimed, Proposed
from dedup_middleware.model.records import (
    BAND_RECORD,
    BAND_SUFFIX_BYTES,
    NO_PAGES,
    PAGE_ID_BITS,
    PAGE_ID_BYTES,
    PAGE_ID_MASK,
    SIMHASH_RECORD,
    State,
    chosen,
)

_FIRST_ANCHOR = ANCHOR_TABLES[0] << 16
_BEHIND_ANCHORS = (ANCHOR_TABLES[-1] + 1) << 16
_MANY = 64  # number of neighbours above which the kernel is faster
# Bytes of SimHash records up to which a Python loop is faster than the kernel's call (9 us).
_FEW = 24 * SIMHASH_RECORD


def unknown_neighbours(
    bucket_keys: Sequence[BucketKey],
    held: Sequence[Sequence[bytes | None]],
    distance: int,
    known: AbstractSet[int] = frozenset(),
    upto: int = 0,
) -> tuple[Neighbours, bool]:
    """Find the neighbours of a page as :func:`.scan.neighbours` does, without known pages.

    Also returns whether any of them was found outside the SimHash tables.

    :param held: for each bucket key its bucket in every generation, None where there is none
    :param distance: largest Hamming distance of SimHashes, 0..64
    :param known: page ids to leave out, with all ids up to ``upto``
    """
    masks: dict[int, int] = {}
    simhash_buckets: list[tuple[int, bytes]] = []  # position of the bucket key, bucket
    size = full = corrupt = scanned = 0
    buckets, suffixes = BucketKeys.of(bucket_keys).columns()
    for i, generations in enumerate(held):
        bucket = buckets[i]
        for raw in generations:
            if not raw:
                continue
            full += len(raw) > FULL_BUCKET
            if bucket >> 16 in SIMHASH_TABLES:
                simhash_buckets.append((i, raw))
                size += len(raw)
                continue
            corrupt += len(raw) % BAND_RECORD
            if not is_common(bucket, suffixes[i], raw):
                _add_equal(1 << (bucket >> 16), suffixes[i], raw, masks)
            if len(masks) > _MANY:
                flat = [(bucket_keys[j], one) for j, some in enumerate(held) for one in some if one]
                near = _scanned(flat, distance)
                ids = np.fromiter(known, np.uint64, len(known))
                keep = (near.page_ids > np.uint64(upto)) & ~np.isin(near.page_ids, ids)
                near = near.chosen(keep)
                return near, bool((near.tables & np.uint64(NON_SIMHASH_TABLES)).any())
    if size > _FEW:
        found = _scanned([(bucket_keys[i], raw) for i, raw in simhash_buckets], distance)
        corrupt += found.corrupt
        scanned = found.scanned
        for page_id, tables in zip(found.page_ids.tolist(), found.tables.tolist(), strict=True):
            masks[page_id] = masks.get(page_id, 0) | tables
    else:
        for i, raw in simhash_buckets:
            corrupt += len(raw) % SIMHASH_RECORD
            _add_near(1 << (buckets[i] >> 16), suffixes[i], raw, distance, masks)
    if upto or known:
        masks = {n: mask for n, mask in masks.items() if n > upto and n not in known}
    if not (masks or full or corrupt or scanned):
        return NO_NEIGHBOURS, False
    page_ids = sorted(masks)
    tables = [masks[page_id] for page_id in page_ids]
    near = Neighbours(
        np.array(page_ids, np.uint64), np.array(tables, np.uint64), corrupt, full, scanned
    )
    return near, any([mask & NON_SIMHASH_TABLES for mask in tables])  # noqa: C419 - faster for one or two


def is_common(bucket: int, suffix: int, raw: bytes) -> bool:
    """Whether a bucket is an anchor's, and so many pages share the suffix that it is ignored."""
    if not _FIRST_ANCHOR <= bucket < _BEHIND_ANCHORS:
        return False
    wanted, pages = suffix.to_bytes(BAND_SUFFIX_BYTES, "little"), 0
    place = raw.find(wanted, PAGE_ID_BYTES)
    while place >= 0 and pages < COMMON_ANCHOR:
        pages += place % BAND_RECORD == PAGE_ID_BYTES
        place = raw.find(wanted, place + 1)
    return pages >= COMMON_ANCHOR


def _add_equal(table: int, suffix: int, raw: bytes, masks: dict[int, int]) -> None:
    """Add the pages of a bucket whose record has this suffix; stops above _MANY pages."""
    wanted = suffix.to_bytes(BAND_SUFFIX_BYTES, "little")
    place = raw.find(wanted, PAGE_ID_BYTES)
    while place >= 0 and len(masks) <= _MANY:
        if place % BAND_RECORD == PAGE_ID_BYTES:
            page_id = int.from_bytes(raw[place - PAGE_ID_BYTES : place], "little")
            masks[page_id] = masks.get(page_id, 0) | table
        place = raw.find(wanted, place + 1)


def _add_near(table: int, suffix: int, raw: bytes, distance: int, masks: dict[int, int]) -> None:
    for at in range(0, len(raw) - SIMHASH_RECORD + 1, SIMHASH_RECORD):
        record = int.from_bytes(raw[at : at + SIMHASH_RECORD], "little")
        if int.bit_count(record >> PAGE_ID_BITS ^ suffix) <= distance:
            page_id = record & PAGE_ID_MASK
            masks[page_id] = masks.get(page_id, 0) | table


def _scanned(held: Sequence[tuple[BucketKey, bytes]], distance: int) -> Neighbours:
    from dedup_middleware.index.scan import neighbours  # numba stays lazy

    return neighbours([bucket_key for bucket_key, _ in held], [raw for _, raw in held], distance)


_NAMED = 16  # maximum candidates of a page for which addresses are returned
_Made = tuple[Claim | None, Neighbours]


def propose(
    db: sqlite3.Connection, pages: Sequence[Proposed], moment: Moment, layout: RecordLayout
) -> tuple[list[Claimed | Candidates], int, int]:
    """Claim each page that no unknown page blocks, in order.

    The caller has ended expired leases in the same transaction.

    :returns: the reply for each page, the number of damaged rows of candidates, and the number of
        SimHash records compared
    """
    buckets = _Buckets(db, pages, moment)
    known, corrupt = _known(db, pages, moment.now, layout)
    before = last = tables.last_page_id(db)
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
            # Pages claimed by this call do not block; they are returned with the claim.
            older = near.page_ids <= np.uint64(before)
            is_blocked = bool((near.tables[older] & np.uint64(NON_SIMHASH_TABLES)).any())
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
        tables.begin_generation(db, moment, rows[0][0])
        db.executemany("INSERT INTO page VALUES (?, ?, ?, ?)", rows)
        db.executemany("INSERT INTO payload VALUES (?, ?)", payloads)
        db.executemany("INSERT INTO lease VALUES (?, ?, ?, ?)", leases)
        buckets.write(db)
    results, damaged = _described(db, made, moment.now, layout, any(p.entry.payload for p in pages))
    return results, corrupt + damaged, sum(near.scanned for _, near in made)


def _known(
    db: sqlite3.Connection, pages: Sequence[Proposed], now: float, layout: RecordLayout
) -> tuple[list[frozenset[int]], int]:
    """For each page the ids that do not block its claim; also the number of damaged rows."""
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
    """Cache of all buckets of some pages: read once, extended in memory, written once."""

    def __init__(self, db: sqlite3.Connection, pages: Sequence[Proposed], moment: Moment) -> None:
        wanted = {one for page in pages for one in BucketKeys.of(page.bucket_keys).columns()[0]}
        self._bases = [tables.bucket_id(one, 0) for one in moment.live]
        self._held = tables.buckets(db, sorted(base | n for base in self._bases for n in wanted))
        self._changed: set[int] = set()
        self._new = 0
        self._overflow = 0

    def of(self, bucket_keys: Sequence[BucketKey]) -> Sequence[Sequence[bytes | None]]:
        """For each bucket key its bucket in every live generation; None where there is none."""
        held, bases, buckets = self._held, self._bases, BucketKeys.of(bucket_keys).columns()[0]
        if len(bases) == 1 and bases[0] == 0:
            return [(held.get(n),) for n in buckets]
        return [[held.get(base | n) for base in bases] for n in buckets]

    def add(self, bucket_keys: Sequence[BucketKey], page_id: int) -> None:
        """Append a page's records to its buckets of the newest generation."""
        held, changed, base = self._held, self._changed, self._bases[-1]
        for bucket, suffix in zip(*BucketKeys.of(bucket_keys).columns(), strict=True):
            old = held.get(base | bucket, b"")
            if is_common(bucket, suffix, old):
                continue
            width = width_of(bucket)
            # A record appended after a partial record could not be read.
            whole = old[: len(old) - len(old) % width] if len(old) % width else old
            raw = whole + record_of(bucket, suffix, page_id)
            if len(raw) > BUCKET_LIMIT:
                self._overflow += 1
                continue
            self._new += not old
            held[base | bucket] = raw
            changed.add(base | bucket)

    def write(self, db: sqlite3.Connection) -> None:
        """Write the changed buckets, by ascending row id."""
        rows = [(bucket, self._held[bucket]) for bucket in sorted(self._changed)]
        db.executemany("INSERT OR REPLACE INTO bucket (id, data) VALUES (?, ?)", rows)
        tables.add(db, "buckets", self._new)
        tables.add(db, "overflow", self._overflow)


def _described(
    db: sqlite3.Connection, made: list[_Made], now: float, layout: RecordLayout, with_payloads: bool
) -> tuple[list[Claimed | Candidates], int]:
    """The replies, with data of the candidates; also the number of damaged rows."""
    best = [most_met(near, MOST_JUDGED) for _, near in made]
    wanted = [near.page_ids for near in best if len(near)]
    found, corrupt = NO_PAGES, 0
    addresses: dict[int, str | None] = {}
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
        if len(near) or near.full or near.corrupt:
            ids = some.page_ids.tolist()
            candidates = Candidates(
                near,
                chosen(found, np.searchsorted(found.page_ids, some.page_ids)),
                {n: addresses[n] for n in ids if n in addresses},
                {n: payloads[n] for n in ids} if payloads else {},
                more=len(some) < len(near),
            )
        results.append(candidates if claim is None else Claimed(claim, candidates))
    return results, corrupt
