"""Walking through all pages and all buckets of a file, a part in each transaction."""

from __future__ import annotations

import sqlite3

import numpy as np

from dedup_middleware.index.compaction import Living, compacted
from dedup_middleware.index.records import CONTENT, Satellites, State
from dedup_middleware.index.sqlite_tables import add, remove_pages
from dedup_middleware.index.tables import SIMHASH_TABLES

PAGES = 10_000  # in one transaction
_BUCKETS = 2_000


def pages_after(db: sqlite3.Connection, number: int) -> Satellites:
    """The next pages behind a number; damaged ones are left out."""
    rows = db.execute(
        "SELECT number, state, content FROM page WHERE number > ? AND length(content) = ? "
        "ORDER BY number LIMIT ?",
        (number, CONTENT.itemsize, PAGES),
    ).fetchall()
    return Satellites(
        np.array([row[0] for row in rows], np.uint64),
        np.frombuffer(b"".join(row[2] for row in rows), CONTENT),
        np.array([row[1] for row in rows], np.uint8),
    )


def forget(db: sqlite3.Connection, numbers: list[int]) -> int:
    """Let committed pages read as released; returns how many there were."""
    found = db.executemany(
        "UPDATE page SET state = ? WHERE number = ? AND state = ?",
        ((int(State.RELEASED), number, int(State.COMMITTED)) for number in numbers),
    ).rowcount
    add(db, "committed", -found)
    return found


def compact_after(db: sqlite3.Connection, bucket: int, living: Living) -> tuple[int, int | None]:
    """Compact some buckets behind one; how many records are gone, and the last bucket done."""
    rows = db.execute(
        "SELECT id, CAST(data AS BLOB) FROM bucket WHERE id > ? ORDER BY id LIMIT ?",
        (bucket, _BUCKETS),
    ).fetchall()
    removed = emptied = 0
    for number, raw in rows:
        better = compacted(raw, living, wide=(number >> 16 & 0xFF) in SIMHASH_TABLES)
        if better is None:
            continue
        removed += better[1]
        if better[0]:
            db.execute("UPDATE bucket SET data = ? WHERE id = ?", (better[0], number))
        else:
            db.execute("DELETE FROM bucket WHERE id = ?", (number,))
            emptied += 1
    add(db, "buckets", -emptied)
    return removed, rows[-1][0] if rows else None


def remove_released(db: sqlite3.Connection, last: int) -> int:
    """Remove some released pages up to a number; returns how many there were."""
    rows = db.execute(
        "SELECT number, state FROM page WHERE state = ? AND number <= ? LIMIT ?",
        (int(State.RELEASED), last, PAGES),
    ).fetchall()
    remove_pages(db, rows)
    return len(rows)
