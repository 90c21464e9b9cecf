"""Maintenance of a SQLite index: walking, compaction, forgetting pages."""

from __future__ import annotations

import sqlite3

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.index.maintenance import Living, compacted
from dedup_middleware.index.record_layout import RecordLayout
from dedup_middleware.index.sqlite.tables import add, bucket_id, remove_pages
from dedup_middleware.index.window import Moment
from dedup_middleware.model.buckets import SIMHASH_TABLES
from dedup_middleware.model.records import PAGE_ID_MASK, PageRecords, State, split_stamps

_BYTES = 4 << 20  # of buckets that one transaction reads in one generation
_MOST = 2_000  # buckets read by one transaction in one generation
LAST_BUCKET = bucket_id(1, 0) - 1


def buckets_after(
    db: sqlite3.Connection, bucket: int, moment: Moment
) -> tuple[list[tuple[int, bytes]], int]:
    """The next buckets behind one, ascending, with their records of all live generations.

    :returns: the buckets, and the last one looked at (2^24 - 1 at the end)
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
        for count, (page_id, raw) in enumerate(rows, 1):
            found.setdefault(page_id - base, []).append(raw)
            total += len(raw)
            if count == _MOST or total >= _BYTES:
                # The next generations need to be read no further than this one.
                end = page_id - base
                break
        rows.close()
    return [
        (one, b"".join(found[one])) for one in sorted(found) if one <= end and any(found[one])
    ], end


PAGES = 10_000  # in one transaction
_BUCKETS = 2_000


def pages_after(db: sqlite3.Connection, page_id: int, layout: RecordLayout) -> PageRecords:
    """The next pages behind a page id; damaged ones are left out."""
    rows = db.execute(
        "SELECT number, stamp, content FROM page WHERE number > ? AND length(content) = ? "
        "ORDER BY number LIMIT ?",
        (page_id, layout.itemsize, PAGES),
    ).fetchall()
    return PageRecords(
        np.array([row[0] for row in rows], np.uint64),
        layout.unpack(np.frombuffer(b"".join(row[2] for row in rows), layout.dtype)),
        *split_stamps(np.array([row[1] for row in rows], np.uint32)),
    )


def forget(db: sqlite3.Connection, page_ids: list[int]) -> int:
    """Let committed pages read as released; returns how many there were."""
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


def forget_span(db: sqlite3.Connection, first: int, since: float, until: float) -> int:
    """The same for pages that were committed in a span of time, some from a page id on."""
    found = db.execute(
        "UPDATE page SET stamp = ? WHERE number >= ? AND number < ? AND stamp > ? "
        "AND stamp >= ? AND stamp < ?",
        (int(State.RELEASED), first, first + PAGES, int(State.RELEASED), since, until),
    ).rowcount
    add(db, "committed", -found)
    return found


def addresses_after(db: sqlite3.Connection, page_id: int) -> tuple[NDArray[np.uint64], list[bytes]]:
    """Numbers and addresses of the next committed pages that have one."""
    rows = db.execute(
        "SELECT number, CAST(address AS BLOB) FROM page WHERE number > ? AND stamp > ? "
        "AND address IS NOT NULL ORDER BY number LIMIT ?",
        (page_id, int(State.RELEASED), PAGES),
    ).fetchall()
    return np.array([row[0] for row in rows], np.uint64), [row[1] for row in rows]


def page_ids(db: sqlite3.Connection) -> range:
    """Page ids that may exist. Those that no record can name are damage, and left out."""
    query = "SELECT min(number), max(number) FROM page WHERE number BETWEEN 1 AND ?"
    first, last = db.execute(query, (int(PAGE_ID_MASK),)).fetchone()
    return range(first, last + 1) if last else range(1, 1)


def compact_after(
    db: sqlite3.Connection, bucket: int, living: Living
) -> tuple[int, int, int | None]:
    """Compact some buckets behind one; how many, records taken out, and the last bucket done."""
    rows = db.execute(
        "SELECT id, CAST(data AS BLOB) FROM bucket WHERE id > ? ORDER BY id LIMIT ?",
        (bucket, _BUCKETS),
    ).fetchall()
    better: list[tuple[bytes, int]] = []
    removed = 0
    for of_simhashes in (False, True):
        mine = [row for row in rows if (row[0] >> 16 & 0xFF in SIMHASH_TABLES) is of_simhashes]
        changed = compacted([raw for _, raw in mine], living, of_simhashes=of_simhashes)
        names = [mine[position][0] for position in changed.positions]
        better += zip(changed.data, names, strict=True)
        removed += sum(changed.removed)
    better.sort(key=lambda row: row[1])
    emptied = [(page_id,) for data, page_id in better if not data]
    db.executemany("UPDATE bucket SET data = ? WHERE id = ?", [row for row in better if row[0]])
    db.executemany("DELETE FROM bucket WHERE id = ?", emptied)
    add(db, "buckets", -len(emptied))
    return len(rows), removed, rows[-1][0] if rows else None


def remove_released(db: sqlite3.Connection, page_id: int, last: int) -> int | None:
    """Remove released pages among the next ones behind a page id, up to a last one.

    :returns: the page id reached; None: there are no more
    """
    (end,) = db.execute(
        "SELECT max(number) FROM "
        "(SELECT number FROM page WHERE number > ? AND number <= ? ORDER BY number LIMIT ?)",
        (page_id, last, PAGES),
    ).fetchone()
    if end is None:
        return None
    query = "SELECT number, stamp FROM page WHERE number > ? AND number <= ? AND stamp = ?"
    remove_pages(db, db.execute(query, (page_id, end, int(State.RELEASED))).fetchall())
    return int(end)
