"""The index in a SQLite file, shared by the processes of one machine."""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.index.base import Progress
from dedup_middleware.index.batching import forget_outcome
from dedup_middleware.index.pages import (
    LEASE,
    Living,
    Pace,
    Pages,
    Records,
    Steps,
    fitting,
    lapsed,
    load,
)
from dedup_middleware.index.parameters import Moment, RecordLayout
from dedup_middleware.index.sqlite import tables
from dedup_middleware.index.sqlite.file import SQLiteFile, Step
from dedup_middleware.index.sqlite.propose import propose
from dedup_middleware.model.buckets import BucketKey
from dedup_middleware.model.claims import (
    Candidates,
    Claim,
    Claimed,
    IndexStats,
    Proposed,
    Seen,
    Wanted,
)
from dedup_middleware.model.records import PAGE_ID_MASK, PageRecords, State


class SQLiteIndex(SQLiteFile):
    """Buckets and page records in tables; concurrent calls share transactions.

    One thread owns the connection, so the event loop never waits for the disk. The file is in
    WAL mode: a killed process loses nothing; a power failure may lose the last transactions,
    each as a whole.

    :param path: the file; it and its folder are created if missing
    :param timeout: seconds to wait for other processes' locks
    :param window: seconds for which a page is remembered, 0: for ever
    :param clock: returns seconds; must be the same for all processes that use the file
    """

    async def read_buckets(self, bucket_keys: Sequence[BucketKey]) -> list[bytes]:
        return await self._do(lambda db, at: tables.read_buckets(db, bucket_keys, at))

    async def look(self, page_ids: NDArray[np.uint64], *, texts: Wanted = Wanted.ALL) -> Seen:
        def act(db: sqlite3.Connection, at: Moment) -> Seen:
            found, corrupt = tables.fetch(db, page_ids, at.now, self.record)
            self.corrupt += corrupt
            ids = page_ids.tolist()
            addresses = tables.addresses(db, ids) if texts else []
            return Seen(found, addresses, tables.payloads(db, ids) if texts is Wanted.ALL else [])

        return await self._do(act, needs_leases=True)

    async def _propose_one(self, page: Proposed) -> Claimed | Candidates:
        def undo(made: Claimed | Candidates) -> None:
            if isinstance(made, Claimed):
                forget_outcome(self._batcher.submit(Step(_RELEASE, made.claim)))

        # Ranked after commits, so that a copy of a page committed now need not wait for it.
        step = Step(self._propose, page, rank=1)
        made: Claimed | Candidates = await self._batcher.result(step, undo)
        while self._scans:
            self._report_scanned(self._scans.popleft())
        return made

    def _propose(
        self, db: sqlite3.Connection, at: Moment, pages: Sequence[Proposed]
    ) -> list[Claimed | Candidates]:
        made, corrupt, scanned = propose(db, pages, at, self.record)
        self.corrupt += corrupt
        self._scans.append(scanned)
        return made

    async def _load(self, pages: Pages) -> None:
        await load(pages, lambda: SQLiteSteps(self))

    async def expiring(self, page_id: int) -> bool:
        if not self._window.seconds:
            return False
        oldest, first = self._expiring
        if oldest != self._window.at(self._clock()).oldest or not first:
            self._expiring = await self._do(lambda db, at: (at.oldest, tables.first_later(db, at)))
        first = self._expiring[1]
        return not first or page_id < first

    async def commit(self, claim: Claim) -> bool:
        return bool(await self._batcher.submit(Step(_COMMIT, claim)))

    async def release(self, claim: Claim) -> bool:
        return bool(await self._batcher.submit(Step(_RELEASE, claim)))

    async def renew(self, claims: Sequence[Claim], lease: float) -> list[bool]:
        return await self._do(
            lambda db, at: tables.renew(db, claims, lease, at.now), writes=True, needs_leases=True
        )

    async def count(self) -> int:
        return (await self._ask(tables.counters))["committed"]

    async def pages(self) -> AsyncIterator[PageRecords]:
        page_id = 0
        after, record = tables.pages_after, self.record
        while len(part := await self._ask(after, page_id, record, needs_leases=True)):
            yield part
            page_id = int(part.page_ids[-1])

    async def buckets(self) -> AsyncIterator[tuple[int, bytes]]:
        at = -1
        while at < tables.LAST_BUCKET:
            part, at = await self._do(partial(tables.buckets_after, bucket=at))
            for bucket in part:
                yield bucket

    async def forget(self, page_ids: Sequence[int]) -> int:
        forgotten = 0
        for start in range(0, len(page_ids), tables.PAGES):
            part = list(map(int, page_ids[start : start + tables.PAGES]))
            forgotten += await self._ask(tables.forget, part, writes=True)
        return forgotten

    async def page_ids(self) -> range:
        return await self._ask(tables.page_ids)

    async def compact(self, progress: Progress = lambda *_: None) -> int:
        """Remove the records of dead pages from all buckets, then the released pages."""
        last = await self._do(
            lambda db, at: settled(db, tables.counters(db)["issued"], at.now), writes=True
        )
        living = Living(last)
        seen = removed = 0
        async for pages in self.pages():
            living.add(pages)
            seen += len(pages)
            progress("pages", seen)
        seen = 0
        bucket: int | None = -1
        while bucket is not None:
            looked, gone, bucket = await self._ask(
                tables.compact_after, bucket, living, writes=True
            )
            seen, removed = seen + looked, removed + gone
            progress("buckets", seen)
        page_id: int | None = 0
        while page_id is not None:
            page_id = await self._ask(tables.remove_released, page_id, last, living, writes=True)
        return removed

    async def stats(self) -> IndexStats:
        """Statistics of the index; ``bytes`` is the size of the file and its WAL."""
        found = await self._ask(tables.counters, needs_leases=True)
        return IndexStats(
            committed=found["committed"],
            pending=found["pending"],
            released=found["released"],
            buckets=found["buckets"],
            bytes=await self._in_thread(self._size),
            corrupt=self.corrupt,
            overflow=found["overflow"],
            parameters=dict(self._parameters),
        )

    def _size(self) -> int:
        files = (Path(self._path + end) for end in ("", "-wal"))
        return sum(file.stat().st_size for file in files if file.exists())


# Acts of steps; steps are grouped by object identity, so each exists once.
_COMMIT = partial(tables.finish, state=State.COMMITTED)
_RELEASE = partial(tables.finish, state=State.RELEASED)
_T = TypeVar("_T")
_SECONDS = 0.3  # target duration of a transaction, during which other processes can't write


class SQLiteSteps(Steps):
    """The steps that load a block of pages into a SQLite file."""

    def __init__(self, index: SQLiteIndex) -> None:
        self.pages = Pace(2_000, _SECONDS)
        self.buckets = Pace(2_000, _SECONDS)
        self._index = index
        self._token = secrets.token_bytes(8)
        self._generation = -1  # unknown before the first transaction

    async def _do(self, act: Callable[[sqlite3.Connection, Moment], _T]) -> _T:
        """Run an act in a transaction that extends the lease."""

        def held(db: sqlite3.Connection, moment: Moment) -> _T:
            if self._generation < 0:
                self._generation = moment.generation
                _begin(db, self._token, tables.last_page_id(db) + 1, moment)
            is_held = db.execute(
                "UPDATE load SET until = ? WHERE token = ? AND until > ?",
                (moment.now + LEASE, self._token, moment.now),
            ).rowcount
            # The generation must not expire soon after the load.
            if not is_held or moment.generation > self._generation + 1:
                raise lapsed(self._index._where)
            return act(db, moment)

        return await self._index._do(held, writes=True)

    async def enter(self, pages: Pages) -> NDArray[np.uint64]:
        first = await self._do(lambda db, _: _enter_rows(db, pages, self._index.record))
        return np.arange(first, first + len(pages), dtype=np.uint64)

    async def add(self, records: Records) -> None:
        base = tables.bucket_id(self._generation, 0)
        await self._do(lambda db, _: _add_records(db, records, base))

    async def commit(self, page_ids: NDArray[np.uint64], times: NDArray[np.uint32]) -> None:
        def act(db: sqlite3.Connection, moment: Moment) -> None:
            # The lowest numbers are states.
            stamps = np.where(times, times, np.uint32(moment.now))
            stamps = np.maximum(stamps, np.uint32(State.RELEASED + 1)).tolist()
            found = db.executemany(
                "UPDATE page SET stamp = ? WHERE number = ?",
                zip(stamps, page_ids.tolist(), strict=True),
            ).rowcount
            tables.add(db, "committed", found)

        await self._do(act)

    async def end(self) -> None:
        query = "DELETE FROM load WHERE token = ? OR until <= ?"
        await self._index._do(
            lambda db, moment: db.execute(query, (self._token, moment.now)), writes=True
        )


def settled(db: sqlite3.Connection, last: int, now: float) -> int:
    """``last``, or the page id before the first one of any load in progress if that is lower. Loads
    whose lease is over are ended: they must not go on if the clock is set back."""
    if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'load'").fetchone():
        return last
    db.execute("DELETE FROM load WHERE until <= ?", (now,))
    (first,) = db.execute("SELECT min(first) FROM load").fetchone()
    return last if first is None else min(last, first - 1)


def _begin(db: sqlite3.Connection, token: bytes, first: int, moment: Moment) -> None:
    db.execute(
        "CREATE TABLE IF NOT EXISTS load "
        "(token BLOB PRIMARY KEY, first INTEGER NOT NULL, until REAL NOT NULL)"
    )
    db.execute("INSERT INTO load VALUES (?, ?, ?)", (token, first, moment.now + LEASE))
    tables.begin_generation(db, moment, first)


def _enter_rows(db: sqlite3.Connection, pages: Pages, record: RecordLayout) -> int:
    first = tables.last_page_id(db) + 1
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
    return first


def _add_records(db: sqlite3.Connection, records: Records, base: int) -> None:
    ids, cuts, width = [base | one for one in records.buckets], records.cuts, records.width
    held = tables.buckets(db, ids)
    rows, overflow = [], 0
    for bucket, start, end in zip(ids, cuts[:-1], cuts[1:], strict=True):
        raw = held.get(bucket, b"")
        # Records appended after a partial record could not be read.
        whole = raw[: len(raw) - len(raw) % width]
        fits = fitting(len(whole), records.data[start:end], width)
        overflow += (end - start - len(fits)) // width
        rows.append((bucket, whole + fits))
    db.executemany("INSERT OR REPLACE INTO bucket (id, data) VALUES (?, ?)", rows)
    tables.add(db, "buckets", len(ids) - sum(map(bool, held.values())))
    tables.add(db, "overflow", overflow)
