"""Write-ahead logging, locks and transactions for SQLite files that processes share."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager

_PAUSE = 0.02  # seconds between two tries


def is_locked(error: Exception) -> bool:
    """Whether an error is due to a lock of another connection."""
    return isinstance(error, sqlite3.OperationalError) and "locked" in str(error)


def use_wal(db: sqlite3.Connection, seconds: float) -> None:
    """Turn on write-ahead logging; wait while another connection turns it on.

    The time-out of the connection has no effect on the change from a rollback journal to WAL.

    :raises sqlite3.Error: the mode can't be changed, or the file was locked for ``seconds``
    """
    deadline = time.monotonic() + seconds
    while True:
        try:
            db.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if not is_locked(error) or time.monotonic() > deadline:
                raise
        time.sleep(_PAUSE)


def application_of(db: sqlite3.Connection) -> int:
    """The application id of the file, 0 for a new file."""
    (application,) = db.execute("PRAGMA application_id").fetchone()
    return int(application)


def make_tables(db: sqlite3.Connection, sql: str, application: int, schema: int) -> None:
    """Make the tables of a new file, within the caller's transaction."""
    for statement in sql.split(";"):
        db.execute(statement)
    db.execute(f"PRAGMA application_id = {application}")
    db.execute(f"PRAGMA user_version = {schema}")


@contextmanager
def transaction(db: sqlite3.Connection, *, writes: bool = True) -> Iterator[sqlite3.Connection]:
    """Run a transaction, which is rolled back if anything is raised inside it.

    :param db: a connection with ``isolation_level=None``
    :param writes: take the write lock at once; a reader that begins to write can't wait for it
    """
    db.execute("BEGIN IMMEDIATE" if writes else "BEGIN")
    try:
        yield db
        db.execute("COMMIT")
    finally:
        # Also after a failed commit (a lock, a full disk): an open transaction keeps all others
        # from writing, and no further one can begin.
        if db.in_transaction:
            db.execute("ROLLBACK")
