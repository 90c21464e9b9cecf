"""Files of SQLite that several processes make at the same time."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from crawler.storage import ArticleStore
from dedup_middleware.base.sqlitefile import use_wal
from dedup_middleware.journal.sqlite import SQLiteJournal


def _open_journal(path: Path) -> None:
    journal = SQLiteJournal(path, max_bytes=1 << 20)
    journal.open(create=True)
    journal.close()


def _open_storage(path: Path) -> None:
    ArticleStore(path).close()


@pytest.mark.parametrize("open_file", [_open_journal, _open_storage])
def test_many_make_one_file_at_once(open_file: Callable[[Path], None], tmp_path: Path) -> None:
    """Eight processes that create and open a file at the same moment can all open it."""
    for n in range(25):
        path, start = tmp_path / f"{n}.db", threading.Barrier(8)

        def make(path: Path = path, start: threading.Barrier = start) -> None:
            start.wait()
            open_file(path)

        with ThreadPoolExecutor(8) as threads:
            for made in [threads.submit(make) for _ in range(8)]:
                made.result()


@pytest.mark.slow
def test_a_file_locked_all_the_time_is_an_error(tmp_path: Path) -> None:
    """After the time given the error of SQLite is raised."""
    path = tmp_path / "file.db"
    with (
        contextlib.closing(sqlite3.connect(path, isolation_level=None)) as reader,
        contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db,
    ):
        reader.execute("CREATE TABLE a (b)")
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM a").fetchall()
        begin = time.monotonic()
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            use_wal(db, 0.1)
        assert time.monotonic() - begin >= 0.1


def test_another_error_is_raised_at_once(tmp_path: Path) -> None:
    """A file that is no database is not tried again."""
    path = tmp_path / "file.db"
    path.write_bytes(b"no database" * 100)
    with (
        contextlib.closing(sqlite3.connect(path)) as db,
        pytest.raises(sqlite3.DatabaseError, match="not a database"),
    ):
        use_wal(db, 3600)
