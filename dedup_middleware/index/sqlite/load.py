"""Entering many stored pages into a file, some in each transaction, see :class:`.Steps`."""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Awaitable, Callable
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.index.pages import LEASE, Pace, Pages, Records, Steps, fitting, lapsed
from dedup_middleware.index.record_layout import RecordLayout
from dedup_middleware.index.sqlite.tables import add, bucket_id, buckets, last_number, sweep
from dedup_middleware.index.window import Moment
from dedup_middleware.model.records import PAGE_ID_MASK, State

_SECONDS = 0.3  # of a transaction, during which other processes can't write

Act = Callable[[sqlite3.Connection, Moment], Any]


class SQLiteSteps(Steps):
    """Loads a block into a file.

    :param transact: carries out an act in a transaction that writes
    :param where: the file, for messages
    :param record: what the index keeps of a page
    """

    def __init__(
        self, transact: Callable[[Act], Awaitable[Any]], where: str, record: RecordLayout
    ) -> None:
        self.pages = Pace(2_000, _SECONDS)
        self.buckets = Pace(2_000, _SECONDS)
        self._transact = transact
        self._where = where
        self._record = record
        self._token = secrets.token_bytes(8)
        self._generation = -1  # not known before the first transaction

    async def enter(self, pages: Pages) -> NDArray[np.uint64]:
        def act(db: sqlite3.Connection, moment: Moment) -> int:
            first = last_number(db) + 1
            if self._generation < 0:
                self._generation = moment.generation
                _begin(db, self._token, first, moment)
            self._hold(db, moment)
            _enter_rows(db, pages, first, self._record)
            return first

        first: int = await self._transact(act)
        return np.arange(first, first + len(pages), dtype=np.uint64)

    async def add(self, records: Records) -> None:
        def act(db: sqlite3.Connection, moment: Moment) -> None:
            self._hold(db, moment)
            _add_records(db, records, bucket_id(self._generation, 0))

        await self._transact(act)

    async def commit(self, page_ids: NDArray[np.uint64], times: NDArray[np.uint32]) -> None:
        def act(db: sqlite3.Connection, moment: Moment) -> None:
            self._hold(db, moment)
            stamps = np.where(times, times, np.uint32(moment.now)).tolist()
            found = db.executemany(
                "UPDATE page SET stamp = ? WHERE number = ?",
                zip(stamps, page_ids.tolist(), strict=True),
            ).rowcount
            add(db, "committed", found)

        await self._transact(act)

    async def end(self) -> None:
        def act(db: sqlite3.Connection, moment: Moment) -> None:
            db.execute("DELETE FROM load WHERE token = ? OR until <= ?", (self._token, moment.now))

        await self._transact(act)

    def _hold(self, db: sqlite3.Connection, moment: Moment) -> None:
        """Extend the lease, if it has not run out and the generation lives for long enough."""
        held = db.execute(
            "UPDATE load SET until = ? WHERE token = ? AND until > ?",
            (moment.now + LEASE, self._token, moment.now),
        ).rowcount
        if not held or moment.generation > self._generation + 1:
            raise lapsed(self._where)


def settled(db: sqlite3.Connection, last: int, now: float) -> int:
    """The last page id up to ``last`` that is below those of all loads under way."""
    if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'load'").fetchone():
        return last
    (first,) = db.execute("SELECT min(first) FROM load WHERE until > ?", (now,)).fetchone()
    return last if first is None else min(last, first - 1)


def _begin(db: sqlite3.Connection, token: bytes, first: int, moment: Moment) -> None:
    db.execute(
        "CREATE TABLE IF NOT EXISTS load "
        "(token BLOB PRIMARY KEY, first INTEGER NOT NULL, until REAL NOT NULL)"
    )
    db.execute("INSERT INTO load VALUES (?, ?, ?)", (token, first, moment.now + LEASE))
    if moment.generation:
        query = "INSERT OR IGNORE INTO generation VALUES (?, ?)"
        db.execute(query, (moment.generation, first))
        sweep(db, moment.oldest)


def _enter_rows(db: sqlite3.Connection, pages: Pages, first: int, record: RecordLayout) -> None:
    if first + len(pages) > PAGE_ID_MASK:
        raise sqlite3.OperationalError("no page id is left")
    raw, size = record.pack(pages.content).tobytes(), record.itemsize
    addresses = pages.addresses if record.text else [None] * len(pages)
    page_ids = range(first, first + len(pages))
    contents = (raw[i : i + size] for i in range(0, len(raw), size))
    db.executemany(
        "INSERT INTO page (number, stamp, content, address) VALUES (?, ?, ?, ?)",
        zip(page_ids, repeat(int(State.RELEASED)), contents, addresses, strict=False),
    )
    db.executemany(
        "INSERT INTO payload VALUES (?, ?)",
        (pair for pair in zip(page_ids, pages.payloads, strict=True) if pair[1]),
    )


def _add_records(db: sqlite3.Connection, records: Records, base: int) -> None:
    ids, cuts, width = [base | one for one in records.buckets], records.cuts, records.width
    held = buckets(db, ids)
    rows, overflow = [], 0
    for bucket, start, end in zip(ids, cuts[:-1], cuts[1:], strict=True):
        raw = held.get(bucket, b"")
        # No record behind bytes that are none could be read.
        whole = raw[: len(raw) - len(raw) % width]
        fits = fitting(len(whole), records.data[start:end], width)
        overflow += (end - start - len(fits)) // width
        rows.append((bucket, whole + fits))
    db.executemany("INSERT OR REPLACE INTO bucket (id, data) VALUES (?, ?)", rows)
    add(db, "buckets", len(ids) - sum(map(bool, held.values())))
    add(db, "overflow", overflow)
