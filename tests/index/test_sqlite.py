"""What only the SQLite index has: a file, its locks, several processes, clear refusals."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from dedup_middleware.base.databasefiles import transaction
from dedup_middleware.base.errors import IndexRefusedError, IndexUnavailableError
from dedup_middleware.index.parameters import SCHEMA
from dedup_middleware.index.sqlite.file import as_error
from dedup_middleware.index.sqlite.index import SQLiteIndex
from dedup_middleware.model.buckets import width_of
from dedup_middleware.model.claims import Candidates, Claim, Claimed, Known
from dedup_middleware.model.records import State, page_ids_of
from tests.index.claiming import BUCKET_KEYS, LEASE, claimed, entered
from tests.index.harness import PARAMETERS, Clock, SQLiteHarness, bucket_keys_of, entry


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where a new index will be."""
    return tmp_path / "index.db"


@pytest.fixture
def db(file: Path) -> Iterator[sqlite3.Connection]:
    """A connection of the test."""
    connection = sqlite3.connect(file, isolation_level=None)
    yield connection
    connection.close()


async def opened(file: Path, timeout: float = 5.0) -> SQLiteIndex:
    """An open index."""
    index = SQLiteIndex(str(file), timeout=timeout)
    await index.open(PARAMETERS)
    return index


async def refusal(file: Path) -> str:
    """Message of the refusal to open a file."""
    index = SQLiteIndex(str(file))
    with pytest.raises(IndexRefusedError) as caught:
        await index.open(PARAMETERS)
    await index.close()
    return str(caught.value)


async def test_a_close_that_is_cancelled_before_the_index_is_opened_again(file: Path) -> None:
    """The thread was busy, so the connection was still open."""
    index, going = await opened(file), threading.Event()
    assert index._thread is not None
    index._thread.submit(going.wait)
    ending = asyncio.create_task(index.close())
    await asyncio.sleep(0.01)
    ending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await ending
    going.set()
    await index.open(PARAMETERS)
    assert await index.count() == 0
    await index.close()


@pytest.mark.parametrize("turns", [0, 1, 2, 3, 4, 6])
async def test_an_open_that_comes_while_the_index_is_closed(file: Path, turns: int) -> None:
    """The index is open. The file was left open in a thread that had ended, or was shut again,
    though ``open`` had returned."""
    index = await opened(file)
    for _ in range(20):
        ending = asyncio.create_task(index.close())
        for _ in range(turns):
            await asyncio.sleep(0)
        await asyncio.gather(ending, index.open(PARAMETERS))
        assert await index.count() == 0
    await index.close()
    assert index._db is None
    assert index._thread is None


async def test_a_call_that_comes_while_the_index_is_closed(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is served. The file that it opened again stayed open in a thread that had ended, so the
    index could not be opened any more."""
    index, going = await opened(file), threading.Event()
    disconnect = index._disconnect

    def disconnect_slowly() -> None:
        going.wait()
        disconnect()

    with monkeypatch.context() as patch:
        patch.setattr(index, "_disconnect", disconnect_slowly)
        ending = asyncio.create_task(index.close())
        await asyncio.sleep(0.01)
        call = asyncio.create_task(index.count())
        await asyncio.sleep(0.01)
        going.set()
        assert await call == 0
        await ending
    assert index._db is None
    await index.open(PARAMETERS)
    assert await index.count() == 0
    await index.close()


async def test_missing_folder_is_made(tmp_path: Path) -> None:
    """The folder of the file, but none above it: then the path is refused and nothing is made."""
    index = await opened(tmp_path / "a" / "index.db")
    await index.close()
    assert (tmp_path / "a" / "index.db").exists()
    message = await refusal(tmp_path / "b" / "c" / "index.db")
    assert f"there is no folder {tmp_path / 'b'};" in message
    assert not (tmp_path / "b").exists()


def test_a_commit_that_fails_leaves_no_transaction(file: Path) -> None:
    """As where there is no write-ahead log and others read: the next one can begin."""
    writer, reader = (sqlite3.connect(file, timeout=0, isolation_level=None) for _ in range(2))
    with closing(writer), closing(reader):
        with transaction(writer) as db:
            db.execute("CREATE TABLE page (number)")
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM page")
        with pytest.raises(sqlite3.OperationalError, match="locked"), transaction(writer) as db:
            db.execute("INSERT INTO page VALUES (1)")
        reader.execute("COMMIT")
        with transaction(writer) as db:
            assert db.execute("SELECT * FROM page").fetchall() == []
            db.execute("INSERT INTO page VALUES (2)")
        assert reader.execute("SELECT * FROM page").fetchall() == [(2,)]


async def test_file_of_another_program(file: Path) -> None:
    """A file that is no database is refused and left as it is."""
    file.write_bytes(b"%PDF-1.7 not a database at all" * 100)
    before = file.read_bytes()
    message = await refusal(file)
    assert "another program" in message
    assert f"DEDUP_INDEX_URL=sqlite:{file}" in message
    assert file.read_bytes() == before


async def test_database_of_another_program(file: Path, db: sqlite3.Connection) -> None:
    """Another program's SQLite database is refused and gets no table of ours."""
    db.execute("CREATE TABLE recipe (name TEXT)")
    assert "another program" in await refusal(file)
    assert db.execute("SELECT name FROM sqlite_master").fetchall() == [("recipe",)]


@pytest.mark.parametrize("schema", [SCHEMA - 2, SCHEMA - 1, SCHEMA + 1])
async def test_other_schema(file: Path, db: sqlite3.Connection, schema: int) -> None:
    """An index of another schema is refused by name, with the way out, and left as it is."""
    await (await opened(file)).close()
    db.execute(f"PRAGMA user_version = {schema}")
    message = await refusal(file)
    assert f"has schema '{schema}'" in message
    assert f"knows schema {SCHEMA}" in message
    assert "another index (DEDUP_NAMESPACE or DEDUP_INDEX_URL)" in message
    assert db.execute("PRAGMA user_version").fetchone() == (schema,)


@pytest.mark.parametrize("name", ["record", "shingle_width"])
async def test_parameter_that_is_no_text(file: Path, db: sqlite3.Connection, name: str) -> None:
    """The parameter is named with the fix, also when an index is attached; commands must not end
    with a traceback."""
    await (await opened(file)).close()
    db.execute("UPDATE parameter SET value = x'ff00' WHERE name = ?", (name,))
    messages = [await refusal(file)]
    index = SQLiteIndex(str(file))
    with pytest.raises(IndexRefusedError) as caught:
        await index.attach()
    await index.close()
    messages.append(str(caught.value))
    for message in messages:
        assert f"damaged parameters ({name!r} is b'\\xff\\x00'): restore a copy" in message


async def test_truncated_file(file: Path) -> None:
    """A file cut short is reported as damaged, at start or at the first use."""
    index = await opened(file)
    for _ in range(50):
        await index.commit(await claimed(index))
    await index.close()
    os.truncate(file, file.stat().st_size // 2)
    index = SQLiteIndex(str(file))

    async def use() -> None:
        await index.open(PARAMETERS)
        for _ in range(50):
            await claimed(index)

    with pytest.raises((IndexRefusedError, IndexUnavailableError), match="damaged"):
        await use()
    await index.close()


async def test_folder_without_rights(tmp_path: Path) -> None:
    """A path that can't be opened is refused with the setting."""
    (tmp_path / "file").write_text("x")
    index = SQLiteIndex(str(tmp_path / "file" / "index.db"))
    with pytest.raises((IndexRefusedError, IndexUnavailableError), match="DEDUP_INDEX_URL=sqlite:"):
        await index.open(PARAMETERS)
    await index.close()


async def test_locked_file(file: Path, db: sqlite3.Connection) -> None:
    """Another program's lock is waited for up to the timeout; reading goes on meanwhile."""
    index = await opened(file, timeout=0.1)
    claim = await claimed(index)
    db.execute("BEGIN IMMEDIATE")
    assert await index.count() == 0
    with pytest.raises(IndexUnavailableError, match="DEDUP_TIMEOUT"):
        await index.commit(claim)
    db.execute("ROLLBACK")
    assert await index.commit(claim)
    await index.close()


async def test_event_loop_is_never_blocked(file: Path, db: sqlite3.Connection) -> None:
    """While a call waits for a lock, the event loop goes on."""
    index = await opened(file, timeout=30)
    db.execute("BEGIN IMMEDIATE")
    work = asyncio.ensure_future(claimed(index))
    turns = 0
    while not work.done() and turns < 5:
        await asyncio.sleep(0.01)
        turns += 1
    db.execute("ROLLBACK")
    assert turns == 5
    assert isinstance(await work, Claim)
    await index.close()


async def test_full_disk(file: Path) -> None:
    """A full disk raises; nothing is half written, and work goes on when space is free."""
    index = await opened(file)
    held = await claimed(index)
    assert index._db is not None
    db = index._db
    pages = await index._in_thread(lambda: db.execute("PRAGMA page_count").fetchone()[0])
    await index._in_thread(lambda: db.execute(f"PRAGMA max_page_count = {pages}").fetchone())

    async def fill() -> None:
        while True:
            await index.commit(await claimed(index))

    with pytest.raises(IndexUnavailableError, match="disk is full"):
        await fill()
    await index._in_thread(lambda: db.execute("PRAGMA max_page_count = 1000000").fetchone())
    before = await index.stats()
    data = await index.read_buckets(BUCKET_KEYS)
    assert {
        len(raw) // bucket_key.width for raw, bucket_key in zip(data, BUCKET_KEYS, strict=True)
    } == {before.committed + before.pending}
    assert await index.commit(held)
    await index.close()


async def test_use_before_open_and_after_close(file: Path) -> None:
    """A call without an open file raises an error of this package, not of sqlite3."""
    index = SQLiteIndex(str(file))
    with pytest.raises(IndexUnavailableError, match="not open"):
        await index.count()
    await index.open(PARAMETERS)
    await index.close()
    with pytest.raises(IndexUnavailableError, match="not open"):
        await index.count()


async def test_foreign_value_in_a_bucket(file: Path, db: sqlite3.Connection) -> None:
    """A bucket that holds no bytes is read as the bytes of its text."""
    index = await opened(file)
    db.execute("INSERT INTO bucket VALUES (?, 'text')", (BUCKET_KEYS[0].bucket,))
    assert (await index.read_buckets(BUCKET_KEYS))[0] == b"text"
    assert isinstance(await claimed(index), Claim)
    await index.close()


async def test_opening_at_the_same_time(file: Path) -> None:
    """Clients that start together on a new file agree on one set of parameters."""
    clients = [SQLiteIndex(str(file), timeout=30) for _ in range(8)]
    stored = await asyncio.gather(*(client.open(PARAMETERS) for client in clients))
    assert len({parameters["hash_key"] for parameters in stored}) == 1
    for client in clients:
        await client.close()


async def test_clock_that_jumps_back(tmp_path: Path) -> None:
    """A lease outlasts a clock that is set back by its own length at most, and pages already seen
    as given back stay so."""
    harness = SQLiteHarness(tmp_path / "index.db")
    index = await harness.client()
    bucket_keys = bucket_keys_of(1)
    outcome = await entered(index, entry(bucket_keys), 100.0)
    harness.advance(-3600)
    number = np.array([outcome.page_id], np.uint64)
    assert (await index.fetch(number)).states.tolist() == [State.PENDING]
    harness.advance(90)
    assert (await index.fetch(number)).states.tolist() == [State.PENDING]
    assert await index.renew([outcome], 50.0) == [True]
    harness.advance(-3600)
    assert await index.renew([outcome], 50.0) == [True]
    harness.advance(51)
    assert (await index.fetch(number)).states.tolist() == [State.RELEASED]
    harness.advance(-3600)
    assert (await index.fetch(number)).states.tolist() == [State.RELEASED]
    assert not await index.commit(outcome)
    await harness.close()


async def test_generation_begins_while_the_lock_is_waited_for(
    file: Path, db: sqlite3.Connection
) -> None:
    """A page is looked up and entered in the generation in which its transaction begins: another
    process may have entered the same page in that one."""
    clock = Clock()
    index = SQLiteIndex(str(file), window=20.0, clock=clock)
    await index.open(PARAMETERS)
    before = int(clock.now) // 10
    db.execute("BEGIN IMMEDIATE")
    made = asyncio.create_task(claimed(index))
    await asyncio.sleep(0.2)
    clock.now += 10
    db.execute("COMMIT")
    await made
    assert db.execute("SELECT id FROM generation").fetchall() == [(before + 1,)]
    await index.close()


async def test_clock_goes_back_over_a_border(file: Path) -> None:
    """Pages that were entered just before, in the later of two generations, are still found."""
    clock = Clock()
    index = SQLiteIndex(str(file), window=20.0, clock=clock)
    await index.open(PARAMETERS)
    clock.now += 0.1
    assert await index.commit(await claimed(index))
    clock.now -= 0.3
    found = await index.propose(entry(BUCKET_KEYS), 0, LEASE)
    assert isinstance(found, Candidates)
    await index.close()


async def test_bytes_of_no_record_in_an_older_generation(file: Path) -> None:
    """They do not hide the records of later generations from a walk through all buckets."""
    harness = SQLiteHarness(file, window=20.0)
    index = await harness.client()
    old = await claimed(index)
    harness.execute("UPDATE bucket SET data = CAST(data || x'ff' AS BLOB)")
    assert await index.commit(old)
    harness.advance(10)
    found = await index.propose(entry(BUCKET_KEYS), 0, LEASE)
    assert isinstance(found, Candidates)
    new = await index.propose(entry(BUCKET_KEYS), 0, LEASE, known=Known(found.pages))
    assert isinstance(new, Claimed)
    async for bucket, raw in index.buckets():
        page_ids = page_ids_of(raw, width_of(bucket)).tolist()
        assert page_ids == [old.page_id, new.claim.page_id]
    await harness.close()


async def test_folder_is_removed(tmp_path: Path) -> None:
    """The index goes on in a new file; with a file in the folder's place it can't be reached."""
    folder = tmp_path / "folder"
    index = await opened(folder / "index.db")
    assert await index.commit(await claimed(index))
    shutil.rmtree(folder)
    assert await index.commit(await claimed(index))
    shutil.rmtree(folder)
    folder.touch()
    with pytest.raises(IndexUnavailableError, match="a part of its path is a file"):
        await claimed(index)
    await index.close()


def test_a_path_is_not_part_of_a_message() -> None:
    """Words in the names of folders say nothing about the cause."""
    error = OSError(errno.ELOOP, os.strerror(errno.ELOOP), "/data/full/locked.db")
    assert "symbolic links" in str(as_error(error, "/data/full/locked.db", opening=True))
    error = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/data/a.db")
    assert "the disk is full" in str(as_error(error, "/data/a.db", opening=True))
