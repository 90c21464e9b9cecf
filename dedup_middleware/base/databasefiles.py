"""SQLite databases that processes share: files, write-ahead logging, tables and transactions.

A database in write-ahead mode is three files: ``NAME``, ``NAME-wal`` and ``NAME-shm``. If only
``NAME`` is removed while processes use the database, a process that makes a new one would share the
other two files with them, and writes would be lost or fail.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import attrs

from dedup_middleware.base.writing import make_private

_PAUSE = 0.02  # seconds between two tries
_ENDS = ("-wal", "-shm")  # suffixes of the files that SQLite keeps next to a database
FileId = tuple[int, int]  # device and inode


def file_at(path: Path) -> FileId | None:
    """Device and inode of a file; None if there is none."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def begin_file(path: Path) -> None:
    """Make an empty database file for this user alone, unless the file exists.

    The -wal and -shm files that a deleted database has left are removed.

    :raises OSError: the file can't be made, or is a link of another user
    """
    if file_at(path) is not None:
        make_private(path)  # refuses a link of another user
        return
    with _locked_folder(path.parent):
        if file_at(path) is None:
            for end in _ENDS:
                Path(f"{path}{end}").unlink(missing_ok=True)
        make_private(path)


@attrs.frozen
class OpenFiles:
    """The files that a connection has open, to tell whether they are those of the path."""

    path: Path
    file: FileId | None
    side_files: Mapping[str, FileId | None]  # by suffix

    @classmethod
    def at(cls, path: Path, file: FileId | None) -> OpenFiles:
        """The files of a connection to ``file``, with the -wal and -shm files now at the path."""
        return cls(path, file, {end: file_at(Path(f"{path}{end}")) for end in _ENDS})

    def are_in_place(self) -> bool:
        """Whether the files at the path are still these. If the -wal or -shm file is missing, they
        are not: processes that open the database later would not share it."""
        own = {"": self.file, **self.side_files}
        return all(
            file is None or file_at(Path(f"{self.path}{end}")) == file for end, file in own.items()
        )

    def remove_left_over(self) -> None:
        """Remove the -wal and -shm files of a replaced database; SQLite would use them with the
        new one.

        Call it while the connection is open, so that no new file gets the inode of one of these.
        """
        if not self.path.parent.is_dir():
            return
        with _locked_folder(self.path.parent):
            for end in _ENDS:
                side_file = Path(f"{self.path}{end}")
                if (known := self.side_files[end]) is not None and known == file_at(side_file):
                    side_file.unlink(missing_ok=True)


@contextlib.contextmanager
def _locked_folder(folder: Path) -> Iterator[None]:
    """Hold an exclusive lock of a folder, among all processes."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


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


@contextlib.contextmanager
def transaction(db: sqlite3.Connection, *, writes: bool = True) -> Iterator[sqlite3.Connection]:
    """Run a transaction, which is rolled back if anything is raised inside it.

    :param db: a connection with ``isolation_level=None``
    :param writes: take the write lock at once, since a transaction that has read can't wait for it
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
