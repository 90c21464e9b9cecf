"""Files that are written: their modes, and links in their way."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from crawler.storage import ArticleStore
from dedup_middleware.base import writing
from dedup_middleware.base.databasefiles import use_wal
from dedup_middleware.base.errors import DedupError, IndexRefusedError
from dedup_middleware.base.options import Options
from dedup_middleware.base.writing import write_new
from dedup_middleware.evaluation import output
from dedup_middleware.index.memory.index import MemoryIndex
from dedup_middleware.index.pages import pages_of
from dedup_middleware.index.sqlite.index import SQLiteIndex
from dedup_middleware.journal.entries import JournalError
from dedup_middleware.journal.sqlite import SQLiteJournal
from dedup_middleware.tools.files.results import JournalOutput, Output
from dedup_middleware.tools.portable.portable import export_index
from dedup_middleware.tools.report import htmlreport
from tests.index.bulk import a_page, loaded

STRANGER = 65533
IS_ROOT = os.geteuid() == 0


@pytest.fixture(params=[0o000, 0o022, 0o077])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    """Each usual umask."""
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def mode(path: Path) -> int:
    """Mode of a file."""
    return stat.S_IMODE(path.stat().st_mode)


def write_report(path: Path) -> None:
    """A report."""
    htmlreport.write({"details": {}}, path)


def write_restored(path: Path) -> None:
    """Restored pages."""
    write_new(path, b"page\n")


def write_kept(path: Path) -> None:
    """Kept rows."""
    kept = Output(path)
    kept.write(b"row")
    kept.finish()


def write_table(path: Path) -> None:
    """A table of the evaluation."""
    output.write(path.parent, path.stem, [{"a": 1}])


SHARED: list[Callable[[Path], None]] = [write_report, write_restored, write_kept, write_table]


@pytest.mark.parametrize("write", SHARED)
def test_results_have_the_mode_of_the_umask(
    write: Callable[[Path], None], umask: int, tmp_path: Path
) -> None:
    """Results are as readable as the umask says, and no other file is left next to
    them."""
    path = tmp_path / "result.csv"
    write(path)
    assert mode(path) == 0o666 & ~umask
    assert not [file.name for file in tmp_path.iterdir() if ".part" in file.name]


def test_name_as_long_as_names_can_be(tmp_path: Path) -> None:
    """255 bytes, which are 85 characters of Chinese."""
    path = tmp_path / ("报" * 85)
    writing.write_whole(path, b"content")
    assert path.read_bytes() == b"content"


@pytest.mark.parametrize("write", SHARED)
def test_links_in_the_way_of_results(write: Callable[[Path], None], tmp_path: Path) -> None:
    """A link under a provisional name is not followed: what it leads to keeps its content."""
    victim = tmp_path / "victim"
    victim.write_text("content")
    path = tmp_path / "result.csv"
    path.with_name("result.csv.part").symlink_to(victim)
    write(path)
    assert victim.read_text() == "content"
    assert not path.is_symlink()


def test_restored_pages_replace_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is restored never replaces a file, not even one that has just appeared, or a link; also
    where the file system has no hard links, or the platform none of this kind."""

    def without_links(fault: type[Exception]) -> Callable[..., None]:
        def link(*_: object, **__: object) -> None:
            raise fault("no hard links here")

        return link

    for change, fault in enumerate((None, PermissionError, NotImplementedError)):
        if fault:
            monkeypatch.setattr("os.link", without_links(fault))
        path = tmp_path / f"new-{change}.jsonl"
        write_new(path, b"page\n")
        assert path.read_text() == "page\n"
        with pytest.raises(DedupError, match="exists: name a new file"):
            write_new(path, b"another\n")
        assert path.read_text() == "page\n"
        link = tmp_path / f"link-{change}"
        link.symlink_to(tmp_path / "nowhere")
        with pytest.raises(DedupError, match="exists: name a new file"):
            write_new(link, b"page\n")
        assert not (tmp_path / "nowhere").exists()
    assert not [file.name for file in tmp_path.iterdir() if file.name.endswith(".part")]


async def test_keys_and_texts_are_private(umask: int, tmp_path: Path) -> None:
    """Indexes, journals and exported files are for this user alone, their -wal and -shm files as
    well, with any umask."""
    index = SQLiteIndex(str(tmp_path / "index.db"))
    await index.open({"bands": "1x1"})
    journal = SQLiteJournal(tmp_path / "index.journal.db", max_bytes=1_000_000)
    journal.open(create=True)
    journal.append([], [], {(0, "host", "seen"): 1})
    batch = JournalOutput(tmp_path / "batch.db", Options())
    batch.complete()
    batch.finish()
    source = await loaded(MemoryIndex(), pages_of([a_page(1, 11)]))
    await export_index(source, tmp_path / "export.parquet")
    modes = {path.name: mode(path) for path in tmp_path.iterdir() if path.is_file()}
    await index.close()
    journal.close()
    assert modes.keys() >= {
        "index.db", "index.db-wal", "index.db-shm", "index.journal.db", "index.journal.db-wal",
        "index.journal.db-shm", "batch.db", "export.parquet",
    }  # fmt: skip
    assert set(modes.values()) == {0o600}


async def test_files_that_exist_keep_their_mode(tmp_path: Path) -> None:
    """An index that a group was given the right to stays so; so do the files next to it."""
    path = tmp_path / "index.db"
    path.touch()
    path.chmod(0o660)
    index = SQLiteIndex(str(path))
    await index.open({"bands": "1x1"})
    assert {mode(path), mode(tmp_path / "index.db-wal")} == {0o660}
    await index.close()


async def test_links_of_ones_own(tmp_path: Path) -> None:
    """An index may be reached by a link of one's own, also one that leads to no file yet."""
    link = tmp_path / "index.db"
    link.symlink_to(tmp_path / "real.db")
    index = SQLiteIndex(str(link))
    await index.open({"bands": "1x1"})
    await index.close()
    assert link.is_symlink()
    assert mode(tmp_path / "real.db") == 0o600


async def test_links_of_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link of another user under the name of an index or journal is refused."""
    link = tmp_path / "index.db"
    link.symlink_to(tmp_path / "real.db")
    if IS_ROOT:
        os.lchown(link, STRANGER, STRANGER)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: STRANGER)
    with pytest.raises(IndexRefusedError, match="a link of another user"):
        await SQLiteIndex(str(link)).open({"bands": "1x1"})
    with pytest.raises(JournalError, match="a link of another user"):
        SQLiteJournal(link, max_bytes=1_000_000).open(create=True)
    assert not (tmp_path / "real.db").exists()


def test_failed_writing_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a file can't be given its name, what was there stays, and nothing else is left."""
    path = tmp_path / "file"
    path.write_text("before")

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="No space"):
        writing.write_whole(path, b"after")
    assert [file.name for file in tmp_path.iterdir()] == ["file"]
    assert path.read_text() == "before"


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


def test_a_private_file_stays_private(tmp_path: Path, umask: int) -> None:
    """A file that is replaced gives no right that the old one did not; one that all users may
    write to gives none beyond the umask."""
    for given, expected in ((0o600, 0o600 & ~umask), (0o666, 0o666 & ~umask)):
        path = tmp_path / f"{given:o}"
        path.touch()
        path.chmod(given)
        write_new(path, b"new", replace=True)
        assert (path.read_bytes(), mode(path)) == (b"new", expected)
