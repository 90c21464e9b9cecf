"""The tables of the SQLite index, and functions that read and write them.

Each function runs inside its caller's transaction. Page ids are row ids, which AUTOINCREMENT never
reuses; buckets have the same bytes as in every other back end.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.index.pages import Living, compacted
from dedup_middleware.index.parameters import Moment, RecordLayout
from dedup_middleware.model.buckets import BucketKey, width_of
from dedup_middleware.model.claims import Claim
from dedup_middleware.model.records import (
    BAND_RECORD,
    PAGE_ID_MASK,
    SIMHASH_RECORD,
    PageRecords,
    State,
    joined_records,
    split_stamps,
)

APPLICATION = 0x44456475  # "DEdu", at byte 68 of the file
SCHEMA_SQL = """
CREATE TABLE parameter (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE counter (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE bucket (id INTEGER PRIMARY KEY, data BLOB NOT NULL);
CREATE TABLE page (
    number INTEGER PRIMARY KEY AUTOINCREMENT, stamp INTEGER NOT NULL, content BLOB NOT NULL,
    address BLOB
);
CREATE TABLE payload (number INTEGER PRIMARY KEY, data BLOB NOT NULL);
CREATE TABLE generation (id INTEGER PRIMARY KEY, first INTEGER NOT NULL);
CREATE TABLE lease (
    number INTEGER PRIMARY KEY, token BLOB NOT NULL, until REAL NOT NULL, seconds REAL NOT NULL
);
INSERT INTO counter VALUES ('committed', 0), ('buckets', 0), ('overflow', 0), ('gone', 0);
"""
_GENERATION = 24  # bits of a bucket's row id below its generation
LAST_BUCKET = (1 << _GENERATION) - 1
_BYTES = 4 << 20  # maximum bytes of buckets read per transaction and generation
_MOST = 2_000  # maximum buckets read per transaction and generation
_COMPACTED = 2_000  # maximum buckets compacted per transaction
PAGES = 10_000  # maximum pages read or forgotten per transaction
_SWEEP = 500  # maximum expired buckets, and as many pages, removed per transaction
_LAST_STAMP = (1 << 32) - 1
_VARIABLES = 500  # variables in a statement; SQLite before 3.32 allows 999


def read_buckets(
    db: sqlite3.Connection, bucket_keys: Sequence[BucketKey], moment: Moment
) -> list[bytes]:
    """The bytes of each bucket in all live generations, the oldest first."""
    wanted = sorted(
        {bucket_id(one, bucket_key.bucket) for one in moment.live for bucket_key in bucket_keys}
    )
    found = buckets(db, wanted)
    return [
        joined_records(
            [found.get(bucket_id(one, bucket_key.bucket), b"") for one in moment.live],
            bucket_key.width,
        )
        for bucket_key in bucket_keys
    ]


def bucket_id(generation: int, bucket: int) -> int:
    """The row id of a bucket in a generation."""
    return generation << _GENERATION | bucket


def buckets(db: sqlite3.Connection, ids: list[int]) -> dict[int, bytes]:
    """The bytes of buckets by row id; rows that do not exist are left out."""
    return dict(_rows(db, "SELECT id, CAST(data AS BLOB) FROM bucket WHERE id", ids))


def begin_generation(db: sqlite3.Connection, moment: Moment, first: int) -> None:
    """Store a new generation's first page id, and sweep expired ones; no-op without a window."""
    if moment.generation:
        query = "INSERT OR IGNORE INTO generation VALUES (?, ?)"
        db.execute(query, (moment.generation, first))
        sweep(db, moment.oldest)


def sweep(db: sqlite3.Connection, oldest: int) -> None:
    """Remove a few expired buckets and pages; each batch of claims does: none takes long."""
    if not db.execute("SELECT 1 FROM generation WHERE id < ?", (oldest,)).fetchone():
        return
    gone = db.execute(
        "DELETE FROM bucket WHERE id IN (SELECT id FROM bucket WHERE id < ? LIMIT ?)",
        (oldest << _GENERATION, _SWEEP),
    ).rowcount
    add(db, "buckets", -gone)
    (first,) = db.execute(
        "SELECT coalesce(min(first), 0) FROM generation WHERE id >= ?", (oldest,)
    ).fetchone()
    pages = db.execute(
        "SELECT number, stamp FROM page WHERE number < ? LIMIT ?", (first, _SWEEP)
    ).fetchall()
    remove_pages(db, pages)
    if not gone and not pages:
        db.execute("DELETE FROM generation WHERE id < ?", (oldest,))


def remove_pages(db: sqlite3.Connection, pages: Sequence[tuple[int, int]]) -> None:
    """Remove pages, given as page id and stamp, with their leases and payloads."""
    page_ids = [(page_id,) for page_id, _ in pages]
    for table in ("page", "lease", "payload"):
        db.executemany(f"DELETE FROM {table} WHERE number = ?", page_ids)
    add(db, "committed", -sum(stamp > State.RELEASED for _, stamp in pages))
    add(db, "gone", len(pages))


def first_later(db: sqlite3.Connection, moment: Moment) -> int:
    """The first page id after the oldest live generation, 0 if there is none yet."""
    query = "SELECT min(first) FROM generation WHERE id > ?"
    (first,) = db.execute(query, (moment.oldest,)).fetchone()
    return first or 0


def fetch(
    db: sqlite3.Connection, page_ids: NDArray[np.uint64], now: float, layout: RecordLayout
) -> tuple[PageRecords, int]:
    """Read page records, and count damaged rows, which read as FREE.

    A page whose lease has expired reads as released; :func:`lapse` must end such leases in the same
    transaction.
    """
    wanted = np.asarray(page_ids, np.uint64)
    content = np.zeros(len(wanted), layout.dtype)
    stamps = np.zeros(len(wanted), np.uint32)
    found: dict[int, tuple[int, bytes]] = {}
    ids = np.unique(wanted[wanted <= np.uint64(PAGE_ID_MASK)]).tolist()
    for page_id, stamp, raw in _rows(
        db, "SELECT number, stamp, content FROM page WHERE number", ids
    ):
        found[page_id] = (stamp, raw)
    corrupt = 0
    for i, page_id in enumerate(wanted.tolist()):
        stamp, raw = found.get(page_id, (0, b""))
        if isinstance(raw, bytes) and len(raw) == layout.itemsize and 0 < stamp <= _LAST_STAMP:
            content[i : i + 1] = np.frombuffer(raw, layout.dtype)
            stamps[i] = stamp
            if stamp == State.PENDING and live_token(db, page_id, now) is None:
                stamps[i] = State.RELEASED
        elif page_id in found:
            corrupt += 1
    return PageRecords(wanted, layout.unpack(content), *split_stamps(stamps)), corrupt


def addresses(db: sqlite3.Connection, page_ids: Sequence[int]) -> list[str | None]:
    """Addresses of pages, None where none is stored."""
    raw = _kept(db, "SELECT number, CAST(address AS BLOB) FROM page WHERE number", page_ids)
    return [None if text is None else text.decode("utf-8", "replace") for text in raw]


def payloads(db: sqlite3.Connection, page_ids: Sequence[int]) -> list[bytes]:
    """Payloads of pages, b"" where there is none."""
    raw = _kept(db, "SELECT number, CAST(data AS BLOB) FROM payload WHERE number", page_ids)
    return [data or b"" for data in raw]


def _kept(db: sqlite3.Connection, query: str, page_ids: Sequence[int]) -> list[bytes | None]:
    """The values of a column for these pages; None where there is no row or no value."""
    found = dict(_rows(db, query, [int(n) for n in page_ids if n <= PAGE_ID_MASK]))
    return [found.get(int(page_id)) for page_id in page_ids]


def live_token(db: sqlite3.Connection, page_id: int, now: float) -> bytes | None:
    """Token of a page's lease; None if it has none or it has expired."""
    query = "SELECT CAST(token AS BLOB), until FROM lease WHERE number = ?"
    row = db.execute(query, (page_id,)).fetchone()
    return row[0] if row is not None and row[1] > now else None


def expired(db: sqlite3.Connection, now: float) -> bool:
    """Whether :func:`lapse` is due: a lease has expired, or the clock has jumped back."""
    query = "SELECT 1 FROM lease WHERE until <= ? OR until > ? + seconds LIMIT 1"
    return db.execute(query, (now, now)).fetchone() is not None


def lapse(db: sqlite3.Connection, now: float) -> None:
    """End all expired leases, as a clock that jumps back could revive them after other processes
    saw them expire; shorten those that such a jump lengthens beyond their own duration."""
    db.execute(
        "UPDATE page SET stamp = ? WHERE number IN (SELECT number FROM lease WHERE until <= ?)",
        (int(State.RELEASED), now),
    )
    db.execute("DELETE FROM lease WHERE until <= ?", (now,))
    db.execute("UPDATE lease SET until = ? + seconds WHERE until > ? + seconds", (now, now))


def finish(
    db: sqlite3.Connection, moment: Moment, claims: Sequence[Claim], *, state: State
) -> list[bool]:
    """Commit or release claims. False for each claim that has expired or is gone."""
    now = moment.now
    query = "SELECT number, CAST(token AS BLOB), until FROM lease WHERE number"
    found = _rows(db, query, [claim.page_id for claim in claims])
    leases = {page_id: (token, until) for page_id, token, until in found}
    results: list[bool] = []
    for claim in claims:
        # A claim that occurs twice has no lease the second time.
        token, until = leases.get(claim.page_id, (b"", now))
        alive = until > now and token == _token(claim.token)
        if alive:
            del leases[claim.page_id]
        results.append(alive)
    done = [claim.page_id for claim, alive in zip(claims, results, strict=True) if alive]
    db.executemany("DELETE FROM lease WHERE number = ?", [(page_id,) for page_id in done])
    stamp = int(now) if state is State.COMMITTED else int(state)
    db.executemany("UPDATE page SET stamp = ? WHERE number = ?", [(stamp, n) for n in done])
    if state is State.COMMITTED:
        add(db, "committed", len(done))
    return results


def renew(db: sqlite3.Connection, claims: Iterable[Claim], lease: float, now: float) -> list[bool]:
    """Extend leases to ``lease`` seconds from now. False for each claim that has expired."""
    results = []
    for one in claims:
        alive = live_token(db, one.page_id, now) == _token(one.token)
        if alive:
            db.execute(
                "UPDATE lease SET until = ?, seconds = ? WHERE number = ?",
                (now + lease, lease, one.page_id),
            )
        results.append(alive)
    return results


def counters(db: sqlite3.Connection) -> dict[str, int]:
    """All counters: pages by state, page ids ``issued``, pages ``gone``, buckets, overflow."""
    found = dict.fromkeys(("committed", "buckets", "overflow", "gone"), 0)
    found.update(db.execute("SELECT name, value FROM counter").fetchall())
    found["pending"] = db.execute("SELECT count(*) FROM lease").fetchone()[0]
    found["issued"] = last_page_id(db)
    found["released"] = max(
        0, found["issued"] - found["gone"] - found["committed"] - found["pending"]
    )
    return found


def last_page_id(db: sqlite3.Connection) -> int:
    """The last page id issued; like AUTOINCREMENT, at least the highest id in the table."""
    query = (
        "SELECT max(coalesce((SELECT max(seq) FROM sqlite_sequence WHERE name = 'page'), 0), "
        "coalesce((SELECT max(number) FROM page), 0))"
    )
    return int(db.execute(query).fetchone()[0])


def add(db: sqlite3.Connection, name: str, amount: int) -> None:
    """Add to a counter."""
    if amount:
        db.execute("UPDATE counter SET value = value + ? WHERE name = ?", (amount, name))


def buckets_after(
    db: sqlite3.Connection, moment: Moment, bucket: int
) -> tuple[list[tuple[int, bytes]], int]:
    """The next buckets after ``bucket``, ascending, with their bytes of all live generations.

    :returns: the buckets, and the last one covered (2^24 - 1 at the end)
    """
    found: dict[int, list[bytes]] = {}
    end = LAST_BUCKET
    for generation in moment.live:
        base = bucket_id(generation, 0)
        rows = db.execute(
            "SELECT id, CAST(data AS BLOB) FROM bucket WHERE id > ? AND id <= ? ORDER BY id",
            (base + bucket, base + end),
        )
        total = 0
        for count, (row_id, raw) in enumerate(rows, 1):
            found.setdefault(row_id - base, []).append(raw)
            total += len(raw)
            if count == _MOST or total >= _BYTES:
                # Later generations are read up to this bucket only.
                end = row_id - base
                break
        rows.close()
    return [
        (one, joined_records(found[one], width_of(one)))
        for one in sorted(found)
        if one <= end and any(found[one])
    ], end


def pages_after(db: sqlite3.Connection, page_id: int, layout: RecordLayout) -> PageRecords:
    """The next page records after a page id, without damaged ones."""
    rows = db.execute(
        "SELECT number, stamp, content FROM page WHERE number > ? AND length(content) = ? "
        "AND typeof(content) = 'blob' AND typeof(stamp) = 'integer' "
        "AND stamp BETWEEN 0 AND 4294967295 ORDER BY number LIMIT ?",
        (page_id, layout.itemsize, PAGES),
    ).fetchall()
    return PageRecords(
        np.array([row[0] for row in rows], np.uint64),
        layout.unpack(np.frombuffer(b"".join(row[2] for row in rows), layout.dtype)),
        *split_stamps(np.array([row[1] for row in rows], np.uint32)),
    )


def forget(db: sqlite3.Connection, page_ids: list[int]) -> int:
    """Mark committed pages as released; returns how many were committed."""
    found = db.executemany(
        "UPDATE page SET stamp = ? WHERE number = ? AND stamp > ?",
        (
            (int(State.RELEASED), page_id, int(State.RELEASED))
            for page_id in sorted(page_ids)
            if page_id <= PAGE_ID_MASK
        ),
    ).rowcount
    add(db, "committed", -found)
    return found


def page_ids(db: sqlite3.Connection) -> range:
    """Range of the existing page ids, without damaged ones of more than 40 bits."""
    query = "SELECT min(number), max(number) FROM page WHERE number BETWEEN 1 AND ?"
    first, last = db.execute(query, (int(PAGE_ID_MASK),)).fetchone()
    return range(first, last + 1) if last else range(1, 1)


def compact_after(
    db: sqlite3.Connection, bucket: int, living: Living
) -> tuple[int, int, int | None]:
    """Compact the next buckets after a row id; returns the number of buckets read and of records
    removed, and the last row id (None at the end)."""
    rows = db.execute(
        "SELECT id, CAST(data AS BLOB) FROM bucket WHERE id > ? ORDER BY id LIMIT ?",
        (bucket, _COMPACTED),
    ).fetchall()
    better: list[tuple[bytes, int]] = []
    removed = 0
    for width in (BAND_RECORD, SIMHASH_RECORD):
        mine = [row for row in rows if width_of(row[0] & LAST_BUCKET) == width]
        raws = [raw for _, raw in mine]
        for position, data, gone in compacted(raws, living, width):
            better.append((data, mine[position][0]))
            removed += gone
    better.sort(key=lambda row: row[1])
    emptied = [(row_id,) for data, row_id in better if not data]
    db.executemany("UPDATE bucket SET data = ? WHERE id = ?", [row for row in better if row[0]])
    db.executemany("DELETE FROM bucket WHERE id = ?", emptied)
    add(db, "buckets", -len(emptied))
    return len(rows), removed, rows[-1][0] if rows else None


def remove_released(db: sqlite3.Connection, page_id: int, last: int, living: Living) -> int | None:
    """Remove released pages among the next PAGES after ``page_id``, up to ``last``, except those
    that compaction saw alive; returns the last page id covered, None at the end."""
    (end,) = db.execute(
        "SELECT max(number) FROM "
        "(SELECT number FROM page WHERE number > ? AND number <= ? ORDER BY number LIMIT ?)",
        (page_id, last, PAGES),
    ).fetchone()
    if end is None:
        return None
    query = "SELECT number, stamp FROM page WHERE number > ? AND number <= ? AND stamp = ?"
    released = db.execute(query, (page_id, end, int(State.RELEASED))).fetchall()
    gone = set(living.without(number for number, _ in released))
    remove_pages(db, [row for row in released if row[0] in gone])
    return int(end)


def _token(token: int) -> bytes:
    return token.to_bytes(8, "little")


def _rows(db: sqlite3.Connection, query: str, values: list[int]) -> Iterator[Any]:
    """Rows of a query that ends with a column name, where the column has one of the values."""
    for start in range(0, len(values), _VARIABLES):
        part = values[start : start + _VARIABLES]
        yield from db.execute(f"{query} IN ({','.join('?' * len(part))})", part)
