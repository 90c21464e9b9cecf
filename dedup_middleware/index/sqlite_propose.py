"""Many pages proposed, or committed, in one transaction that asks each table once."""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Sequence

import numpy as np

from dedup_middleware.index import sqlite_tables as tables
from dedup_middleware.index.base import Claim, Proposal, Proposed
from dedup_middleware.index.beside import beside
from dedup_middleware.index.layout import BUCKET_LIMIT, cut_address, record_of
from dedup_middleware.index.record_layout import RecordLayout
from dedup_middleware.index.records import Satellites, State
from dedup_middleware.index.tables import Neighbours, Slot, Slots

_NAMED = 16  # neighbours of a page whose addresses come with the answer


def propose(
    db: sqlite3.Connection, pages: Sequence[Proposed], now: float, layout: RecordLayout
) -> tuple[list[Proposal], int]:
    """Claim the places of all pages that stand beside nobody, one page after the other.

    Leases that have run out must be ended before, in the same transaction.

    :returns: what to say of each page, and how many rows of neighbours were damaged
    """
    buckets = _Buckets(db, pages)
    last = tables.last_number(db)
    made: list[Proposal] = []
    rows: list[tuple[int, int, bytes, bytes | None]] = []
    payloads: list[tuple[int, bytes]] = []
    leases: list[tuple[int, bytes, float, float]] = []
    for page in pages:
        near = beside(page.slots, buckets.of(page.slots), page.distance)
        if near is None:
            made.append(Proposal(None, whole=False))
        elif len(near):
            made.append(Proposal(None, near))
        else:
            entry, last = page.entry, last + 1
            buckets.add(entry.slots, last)
            address = cut_address(entry.address) if entry.address and layout.text else None
            rows.append((last, int(State.PENDING), layout.pack_one(entry.content), address))
            if entry.payload:
                payloads.append((last, entry.payload))
            token = secrets.token_bytes(8)
            leases.append((last, token, now + page.lease, page.lease))
            made.append(Proposal(Claim(last, int.from_bytes(token, "little")), near))
    if rows:
        db.executemany("INSERT INTO page VALUES (?, ?, ?, ?)", rows)
        db.executemany("INSERT INTO payload VALUES (?, ?)", payloads)
        db.executemany("INSERT INTO lease VALUES (?, ?, ?, ?)", leases)
        buckets.write(db)
    return _described(db, made, now, layout)


class _Buckets:
    """All buckets of some pages as they stand, then with what is added to them."""

    def __init__(self, db: sqlite3.Connection, pages: Sequence[Proposed]) -> None:
        wanted = sorted({one for page in pages for one in Slots.of(page.slots).numbers()[0]})
        self._held: dict[int, bytes] = {}
        for part in tables.parts(wanted):
            query = f"SELECT id, CAST(data AS BLOB) FROM bucket WHERE id IN ({tables.marks(part)})"
            self._held.update(db.execute(query, part).fetchall())
        self._changed: set[int] = set()
        self._new = 0
        self._overflow = 0

    def of(self, slots: Sequence[Slot]) -> list[bytes | None]:
        """The bucket of each slot."""
        return list(map(self._held.get, Slots.of(slots).numbers()[0]))

    def add(self, slots: Sequence[Slot], number: int) -> None:
        """Give a page its records."""
        held, changed = self._held, self._changed
        for bucket, head in zip(*Slots.of(slots).numbers(), strict=True):
            old = held.get(bucket, b"")
            raw = old + record_of(bucket, head, number)
            if len(raw) > BUCKET_LIMIT:
                self._overflow += 1
                continue
            self._new += not old
            held[bucket] = raw
            changed.add(bucket)

    def write(self, db: sqlite3.Connection) -> None:
        """Write what has changed, in the order in which it lies in the file."""
        rows = [(bucket, self._held[bucket]) for bucket in sorted(self._changed)]
        db.executemany("INSERT OR REPLACE INTO bucket (id, data) VALUES (?, ?)", rows)
        tables.add(db, "buckets", self._new)
        tables.add(db, "overflow", self._overflow)


def _described(
    db: sqlite3.Connection, made: list[Proposal], now: float, layout: RecordLayout
) -> tuple[list[Proposal], int]:
    """Proposals with what is known of their neighbours."""
    wanted = [one.near.numbers for one in made if len(one.near)]
    if not wanted:
        return made, 0
    found, corrupt = tables.fetch(db, np.unique(np.concatenate(wanted)), now, layout)
    named = sorted({n for some in wanted if len(some) <= _NAMED for n in some.tolist()})
    addresses = dict(zip(named, tables.addresses(db, named), strict=True))
    return [_of(found, one.near, addresses) if len(one.near) else one for one in made], corrupt


def _of(found: Satellites, near: Neighbours, addresses: dict[int, str | None]) -> Proposal:
    rows = np.searchsorted(found.numbers, near.numbers)
    satellites = Satellites(
        near.numbers, found.content[rows], found.states[rows], found.times[rows]
    )
    own = {n: addresses[n] for n in near.numbers.tolist() if n in addresses}
    return Proposal(None, near, satellites=satellites, addresses=own)


def commit(db: sqlite3.Connection, claims: Sequence[Claim], now: float) -> list[bool]:
    """Commit claims. False: its lease had run out or it is gone."""
    leases: dict[int, tuple[bytes, float]] = {}
    for part in tables.parts([claim.number for claim in claims]):
        query = f"SELECT number, token, until FROM lease WHERE number IN ({tables.marks(part)})"
        leases.update((n, (bytes(token), until)) for n, token, until in db.execute(query, part))
    answers: list[bool] = []
    for claim in claims:
        # A claim that is committed twice at once has no lease the second time.
        token, until = leases.get(claim.number, (b"", now))
        alive = until > now and token == claim.token.to_bytes(8, "little")
        if alive:
            del leases[claim.number]
        answers.append(alive)
    done = [claim.number for claim, alive in zip(claims, answers, strict=True) if alive]
    db.executemany("DELETE FROM lease WHERE number = ?", [(number,) for number in done])
    stamp = int(now)
    db.executemany("UPDATE page SET stamp = ? WHERE number = ?", [(stamp, n) for n in done])
    tables.add(db, "committed", len(done))
    return answers
