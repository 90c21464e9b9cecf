"""The journal in a SQLite file, shared by the processes of one machine."""

from __future__ import annotations

import contextlib
import logging
import sqlite3
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from dedup_middleware.base.databasefiles import (
    OpenFiles,
    application_of,
    begin_file,
    file_at,
    make_tables,
    transaction,
    use_wal,
)
from dedup_middleware.journal.entries import (
    Activity,
    Body,
    Drop,
    Hour,
    JournalError,
    JournalSize,
    JournalStore,
    Kept,
    Query,
    kept_name,
    pack,
    pack_body,
    to_hours,
)

logger = logging.getLogger(__name__)

APPLICATION = 0x44456A6F  # "DEjo", at byte 68 of the file
SCHEMA = 2
SCHEMA_SQL = """
CREATE TABLE dropped (
    id INTEGER PRIMARY KEY AUTOINCREMENT, time REAL NOT NULL, key TEXT NOT NULL,
    host TEXT NOT NULL, title TEXT NOT NULL, outcome TEXT NOT NULL, reason TEXT NOT NULL,
    match TEXT, number INTEGER, similarity REAL, jaccard REAL, distance INTEGER,
    shared INTEGER, figures INTEGER, tables TEXT NOT NULL, item_type TEXT NOT NULL,
    spider TEXT NOT NULL, crawl TEXT NOT NULL, body BLOB NOT NULL, bytes INTEGER NOT NULL
);
CREATE INDEX dropped_key ON dropped (key);
CREATE INDEX dropped_match ON dropped (match);
CREATE TABLE kept (
    id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, key TEXT NOT NULL,
    number INTEGER NOT NULL, time REAL NOT NULL, title TEXT NOT NULL, body BLOB NOT NULL,
    bytes INTEGER NOT NULL
);
CREATE INDEX kept_number ON kept (number);
CREATE TABLE activity (
    hour INTEGER NOT NULL, host TEXT NOT NULL, name TEXT NOT NULL, value INTEGER NOT NULL,
    PRIMARY KEY (hour, host, name)
) WITHOUT ROWID;
CREATE TABLE total (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO total VALUES ('dropped', 0), ('kept', 0)
"""
# Columns of a drop that are read unchanged, with their types. SQLite allows any type in any column:
# a row in which another program has written a wrong type is skipped and logged.
_PLAIN = {
    "time": float, "key": str, "title": str, "outcome": str, "reason": str, "match": str,
    "number": int, "similarity": float, "jaccard": float, "distance": int, "shared": int,
    "figures": int, "item_type": str, "spider": str, "crawl": str,
}  # fmt: skip
_KINDS = (int, str, *_PLAIN.values())  # types of _COLUMNS
_DAMAGED = "a value in it has another type"
_COLUMNS = ", ".join(("id", "tables", *_PLAIN))
# Overhead of a row in bytes: columns other than texts, indexes, free space in database pages.
_ROW = 120
_PART = 500  # rows per query
_ACTIVITY_HOURS = 400 * 24  # maximum number of hours with counters; the oldest are removed
_BUSY = 5.0  # seconds to wait for locks of other processes


_Place = tuple[str, "str | int | None"]


class SQLiteJournal(JournalStore):
    """Drops and kept texts in tables; the oldest rows are removed when a table is too large.

    :param path: the file; its folder is created if missing
    :param max_bytes: cap; texts of stored pages take at most half of it
    """

    def __init__(self, path: str | Path, *, max_bytes: int) -> None:
        self.path = Path(path)
        self.where = str(path)
        self._limits = {"kept": max_bytes // 2, "dropped": max_bytes - max_bytes // 2}
        self._db: sqlite3.Connection | None = None
        self._files: OpenFiles | None = None  # None: not opened yet, or closed by the caller

    def open(self, *, create: bool) -> None:
        try:
            if not create and not self.path.exists():
                raise JournalError(f"there is no journal at {self.where}: name it by DEDUP_JOURNAL")
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if create:
                begin_file(self.path)
            # The journal may be opened in one thread and used in another.
            self._db = db = sqlite3.connect(
                self.path, timeout=_BUSY, isolation_level=None, check_same_thread=False
            )
            # One text with a wrong encoding must not make all others unreadable.
            db.text_factory = partial(str, encoding="utf-8", errors="replace")
            db.execute("PRAGMA user_version")  # SQLite opens the file at the first use
            file = file_at(self.path)
            self._prepare(db, create=create)
            self._files = OpenFiles.at(self.path, file)
        except (sqlite3.Error, OSError, ValueError) as error:  # ValueError: NUL in the path
            self._disconnect()
            raise JournalError(
                f"the journal {self.where} can't be opened: {error}; name another file by "
                "DEDUP_JOURNAL"
            ) from error
        except JournalError:
            self._disconnect()
            raise

    def _prepare(self, db: sqlite3.Connection, *, create: bool) -> None:
        if create and application_of(db) == 0:
            with transaction(db):
                if application_of(db) == 0:
                    if db.execute("SELECT 1 FROM sqlite_master").fetchone():
                        raise self._foreign()
                    make_tables(db, SCHEMA_SQL, APPLICATION, SCHEMA)
        if application_of(db) != APPLICATION:
            raise self._foreign()
        (schema,) = db.execute("PRAGMA user_version").fetchone()
        if schema != SCHEMA:
            raise JournalError(
                f"the journal {self.where} has schema {schema}, this version of dedup-middleware "
                f"knows {SCHEMA}: name another file by DEDUP_JOURNAL"
            )
        use_wal(db, _BUSY)
        db.execute("PRAGMA synchronous = NORMAL")

    def is_foreign(self) -> bool:
        """Whether the file, which exists, is certainly no journal.

        The file is read by SQLite alone: a process that closes a file loses all its locks on it,
        including those of its other crawls, whose writes could then be lost.
        """
        try:
            if not self.path.is_file():
                return True
            with contextlib.closing(sqlite3.connect(self.path, timeout=_BUSY)) as db:
                if (application := application_of(db)) == 0:  # another process may be making it
                    return db.execute("SELECT 1 FROM sqlite_master").fetchone() is not None
                return application != APPLICATION
        except sqlite3.OperationalError:  # for example, it is locked
            return False
        except sqlite3.DatabaseError:
            return True

    def _foreign(self) -> JournalError:
        return JournalError(f"{self.where} is no journal: name another file by DEDUP_JOURNAL")

    def close(self) -> None:
        self._disconnect()
        self._files = None

    def _disconnect(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None

    def _open_again(self) -> None:
        """Reopen the journal if its file was removed or replaced: writes to the old one would be
        lost."""
        if self._files is None or self._files.are_in_place():
            return
        if self._db is not None:
            text = "The journal %s was removed or replaced while it was in use, with what it held"
            logger.warning(text, self.where)
            self._files.remove_left_over()
        self._disconnect()
        self.open(create=True)

    def _opened(self) -> sqlite3.Connection:
        if self._db is None:
            raise JournalError(f"the journal {self.where} is not open")
        return self._db

    def append(
        self,
        drops: Sequence[Drop],
        kept: Sequence[Kept],
        activity: Activity,
        *,
        again: bool = False,  # noqa: ARG002 - a failed transaction has written nothing
    ) -> None:
        # Pack before the transaction begins, to hold the lock for less time.
        drop_rows = [_drop_row(drop) for drop in drops]
        kept_rows = [_kept_row(page) for page in kept]
        try:
            self._open_again()
            with transaction(self._opened()) as db:
                _insert(db, "dropped", drop_rows)
                _replace(db, kept_rows)
                hours = {hour for hour, _, _ in activity}
                known = "SELECT 1 FROM activity WHERE hour = ?"
                begins = any(db.execute(known, (hour,)).fetchone() is None for hour in hours)
                db.executemany(
                    "INSERT INTO activity VALUES (?, ?, ?, ?) ON CONFLICT (hour, host, name) "
                    "DO UPDATE SET value = value + excluded.value",
                    ((*place, number) for place, number in activity.items()),
                )
                for table, limit in self._limits.items():
                    _trim(db, table, limit)
                if begins:
                    # By number, not by time: the clock of one writer may be wrong.
                    old = "SELECT DISTINCT hour FROM activity ORDER BY hour DESC LIMIT 1 OFFSET ?"
                    too_many = db.execute(old, (_ACTIVITY_HOURS,)).fetchall()
                    db.executemany("DELETE FROM activity WHERE hour <= ?", too_many)
        except (sqlite3.Error, OSError) as error:
            raise JournalError(f"the journal {self.where} can't be written: {error}") from error

    def drops(self, query: Query = Query(), *, bodies: bool = False) -> Iterator[Drop]:  # noqa: B008
        condition, values = _condition(query)
        select = f"SELECT {_COLUMNS}, {'body' if bodies else 'NULL'} FROM dropped"
        last = self._start(query, condition, values)
        while True:
            part = f"{select} WHERE {condition} AND id > ? ORDER BY id LIMIT ?"
            rows = self._rows(part, (*values, last, _PART))
            for row in rows:
                if _fits(row, _KINDS):
                    raw = row[-1]
                    yield _drop(row, None if raw is None else self.body_of(str(row[0]), raw))
                else:
                    self._lost(f"the entry {row[0]}", _DAMAGED)
            if len(rows) < _PART:
                return
            last = rows[-1][0]

    def _start(self, query: Query, condition: str, values: tuple[object, ...]) -> int:
        if query.limit is None:
            return 0
        newest = f"SELECT id FROM dropped WHERE {condition} ORDER BY id DESC"
        rows = self._rows(f"{newest} LIMIT 1 OFFSET ?", (*values, query.limit))
        return int(rows[0][0]) if rows else 0

    def bodies(self, ids: Sequence[str]) -> list[Body | None]:
        chosen = ", ".join("?" * len(ids))
        rows = self._rows(
            f"SELECT CAST(id AS TEXT), body FROM dropped WHERE id IN ({chosen})",
            tuple(map(int, ids)),
        )
        found = dict(rows)
        return [self.body_of(one, found[one]) if one in found else None for one in ids]

    def kept_of_each(self, drops: Sequence[Drop]) -> list[Kept | None]:
        # Near misses may refer to their match by page id only.
        places = [
            ("name", _text(drop.match)) if drop.match else ("number", drop.number) for drop in drops
        ]
        # The index stores no address, but a revisit and a change have that of their page.
        own = [("name", kept_name(None, drop.number)) for drop in drops]
        pages = self._kept_by("name", [*places, *own]) | self._kept_by("number", places)
        found = []
        for drop, place, unnamed in zip(drops, places, own, strict=True):
            page = pages.get(place)
            other = pages.get(unnamed) if page is None and drop.match else None
            found.append(other if other is not None and other.key == drop.match else page)
        return found

    def _kept_by(self, column: str, places: Sequence[_Place]) -> dict[_Place, Kept | None]:
        """Stored pages by a column and its value; of several with one value the newest."""
        values = tuple({value for name, value in places if name == column})
        rows = self._rows(
            f"SELECT {column}, key, number, title, body, time FROM kept "
            f"WHERE {column} IN ({', '.join('?' * len(values))}) ORDER BY id",
            values,
        )
        pages: dict[_Place, Kept | None] = {}
        for value, *row in rows:
            fits = _fits(row, (str, int, str, object, float))
            pages[column, value] = self.unpacked(*row) if fits else None
            if not fits:
                self._lost(f"the stored page {value}", _DAMAGED)
        return pages

    def hours(self) -> list[Hour]:
        rows = self._rows(
            "SELECT CAST(hour AS INTEGER), CAST(host AS TEXT), CAST(name AS TEXT), "
            "CAST(value AS INTEGER) FROM activity"
        )
        return to_hours({(hour, host, name): value for hour, host, name, value in rows})

    def size(self) -> JournalSize:
        counts = "(SELECT count(*) FROM dropped), (SELECT count(*) FROM kept)"
        (row,) = self._rows(f"SELECT {counts}, sum(CAST(value AS INTEGER)) FROM total")
        return JournalSize(*row)

    def _rows(self, query: str, values: tuple[object, ...] = ()) -> list[Any]:
        try:
            return self._opened().execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise JournalError(f"the journal {self.where} can't be read: {error}") from error


def _fits(row: Sequence[Any], kinds: Sequence[type]) -> bool:
    """Whether each value of a row has its column's type; None is always accepted."""
    return all(value is None or isinstance(value, kind) for value, kind in zip(row, kinds))  # noqa: B905


def _text(value: str) -> str:
    # SQLite can't store lone surrogates.
    return value.encode("utf-8", "replace").decode()


def _drop_row(drop: Drop) -> tuple[Any, ...]:
    body = pack_body(drop.body or Body(""))
    texts = [_text(value) for value in (drop.key, drop.host, drop.title)]
    match = None if drop.match is None else _text(drop.match)
    used = _ROW + len(body) + sum(len(text.encode()) for text in (*texts, match or "")) * 2
    origin = _text(drop.spider), _text(drop.crawl)
    used += sum(len(text.encode()) for text in origin)
    return (
        drop.time, *texts, drop.outcome, drop.reason, match, drop.number, drop.similarity,
        drop.jaccard, drop.distance, drop.shared, drop.figures, " ".join(drop.tables),
        drop.item_type, *origin, body, used,
    )  # fmt: skip


def _drop(row: tuple[Any, ...], body: Body | None) -> Drop:
    number, tables, *values, _ = row
    plain: dict[str, Any] = dict(zip(_PLAIN, values, strict=True))
    return Drop(id=str(number), **plain, tables=tuple(tables.split()), body=body)


def _kept_row(page: Kept) -> tuple[Any, ...]:
    body = pack(page.text)
    name = kept_name(None if page.by_number else page.key, page.number)
    texts = [_text(value) for value in (name, page.key, page.title)]
    used = _ROW + len(body) + sum(len(text.encode()) for text in texts)
    return (texts[0], texts[1], page.number, page.time, texts[2], body, used)


def _insert(db: sqlite3.Connection, table: str, rows: Sequence[tuple[Any, ...]]) -> None:
    if rows:
        marks = ", ".join("?" * len(rows[0]))
        db.executemany(f"INSERT INTO {table} VALUES (NULL, {marks})", rows)
        _add(db, table, sum(row[-1] for row in rows))


def _replace(db: sqlite3.Connection, rows: Sequence[tuple[Any, ...]]) -> None:
    latest = {row[0]: row for row in rows}
    names = list(latest)
    for start in range(0, len(names), _PART):
        # The latest text replaces that of a page stored before.
        part = names[start : start + _PART]
        chosen = f"FROM kept WHERE name IN ({', '.join('?' * len(part))})"
        (used,) = db.execute(f"SELECT sum(CAST(bytes AS INTEGER)) {chosen}", part).fetchone()
        if used is not None:
            db.execute(f"DELETE {chosen}", part)
            _add(db, "kept", -used)
    _insert(db, "kept", list(latest.values()))


def _trim(db: sqlite3.Connection, table: str, limit: int) -> None:
    """Remove the oldest rows until the table's bytes are within its limit."""
    query = "SELECT CAST(value AS INTEGER) FROM total WHERE name = ?"
    (used,) = db.execute(query, (table,)).fetchone()
    if used <= limit:
        return
    last = freed = 0
    oldest = db.execute(f"SELECT id, CAST(bytes AS INTEGER) FROM {table} ORDER BY id")
    for number, size in oldest:
        last, freed = number, freed + size
        if used - freed <= limit:
            break
    oldest.close()
    db.execute(f"DELETE FROM {table} WHERE id <= ?", (last,))
    _add(db, table, -freed)


def _add(db: sqlite3.Connection, table: str, amount: int) -> None:
    if amount:
        db.execute("UPDATE total SET value = value + ? WHERE name = ?", (amount, table))


def _condition(query: Query) -> tuple[str, tuple[object, ...]]:
    parts = ["1"]
    values: list[object] = []
    for column, wanted in query.parts():
        parts.append(f"{column} IN ({', '.join('?' * len(wanted))})")
        values += sorted(_text(one) if isinstance(one, str) else one for one in wanted)
    for operator, moment in ((">=", query.since), ("<", query.until)):
        if moment is not None:
            parts.append(f"time {operator} ?")
            values.append(moment)
    return " AND ".join(parts), tuple(values)
