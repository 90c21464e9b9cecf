"""Access to the SQLite file of an index: thread, transactions, error messages."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import attrs

from dedup_middleware.base.databasefiles import (
    FileId,
    OpenFiles,
    application_of,
    begin_file,
    file_at,
    is_locked,
    make_tables,
    transaction,
    use_wal,
)
from dedup_middleware.base.errors import DedupError, IndexRefusedError, IndexUnavailableError
from dedup_middleware.index.base import Index
from dedup_middleware.index.batching import Batcher
from dedup_middleware.index.parameters import (
    EMPTIED,
    HASH_KEY,
    REPLACED,
    SCHEMA,
    Moment,
    Parameters,
    Window,
    agree,
    check_schema,
    complete,
    layout_of,
    missing,
    replaced,
)
from dedup_middleware.index.sqlite import tables

# Part of the message of SQLite or the operating system, our message, whether it is a refusal.
# Python 3.10 lacks SQLite's error codes.
_MEANINGS: tuple[tuple[str, str, bool], ...] = (
    ("file is not a database", "it is the file of another program; name another file", True),
    ("malformed", "the file is damaged; restore a copy, or remove it to begin anew", True),
    ("unable to open", "it can't be opened; check the folder and the rights to it", True),
    ("readonly", "it can't be written to; check the rights to the file and its folder", True),
    ("is a directory", "it is a directory; name a file in it", True),
    ("not a directory", "a part of its path is a file; name a path of folders", True),
    ("file exists", "a part of its path is a file; name a path of folders", True),
    ("link of another user", "it is a link of another user; name the file itself", True),
    ("permission denied", "there is no right to it; check the folder and the rights to it", True),
    ("read-only file system", "it can't be written to; name a file elsewhere", True),
    ("name too long", "its name is too long; name a shorter one", True),
    ("embedded null", "its name holds a NUL character; take it out", True),
    ("locked", "another process has kept it locked for longer than DEDUP_TIMEOUT", False),
    ("full", "the disk is full", False),
    ("no space left", "the disk is full", False),
    ("quota", "the disk is full for this user", False),
    ("disk i/o", "the disk fails or is full", False),
)

# Raised by reading values of a wrong type, which SQLite lets other programs write.
DAMAGED_VALUE = (TypeError, ValueError, OverflowError)


def as_error(error: Exception, path: str, *, opening: bool) -> DedupError:
    """The exception to raise to the user; IndexRefusedError only while ``opening``."""
    text, refused = f"{type(error).__name__}: {error}", False
    if isinstance(error, DAMAGED_VALUE):
        text = f"a value in it is damaged ({error}); restore a copy, or remove it to begin anew"
    # The text of an OSError has the path, and with it any words.
    found = str(getattr(error, "strerror", None) or error).lower()
    for part, meaning, is_refused in _MEANINGS:
        if part in found:
            text, refused = meaning, is_refused
            break
    kind = IndexRefusedError if refused and opening else IndexUnavailableError
    return kind(f"the index DEDUP_INDEX_URL=sqlite:{path} can't be used: {text}")


def make_folder(path: Path) -> None:
    """Make the folders above a new file; if the path is absolute, and so may be misspelt, only the
    last one.

    :raises IndexRefusedError: the folder above it is missing; the message names it
    """
    above = path.parent.parent
    if path.is_absolute() and not path.parent.exists() and not above.exists():
        raise IndexRefusedError(
            f"DEDUP_INDEX_URL=sqlite:{path} can't be used: there is no folder {above}; make it, or "
            "correct the path"
        )
    path.parent.mkdir(parents=True, exist_ok=True)


logger = logging.getLogger(__name__)

_T = TypeVar("_T")
BATCH = 256


@attrs.frozen(eq=False)
class Step:
    """One call to be carried out in a transaction shared with others.

    All steps of a transaction with the same ``act`` are done by one call of it, with the list of
    their arguments; it returns one result for each. Lower ranks are carried out first.
    """

    act: Callable[[sqlite3.Connection, Moment, list[Any]], Sequence[Any]]
    argument: Any = None
    rank: int = 0
    writes: bool = True
    needs_leases: bool = True  # reads states, so expired leases must be ended first


class SQLiteFile(Index):
    """Base of :class:`.SQLiteIndex`: opens the file and runs steps in transactions."""

    def __init__(
        self,
        path: str,
        *,
        timeout: float = 5.0,
        window: float = 0.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._path = path
        self._timeout = timeout
        self._window = Window(window)
        self._clock = clock
        self._where = f"sqlite:{path}"
        self._db: sqlite3.Connection | None = None
        self._file: FileId | None = None  # the opened file
        self._files: OpenFiles | None = None  # the same with its -wal and -shm files
        self._is_maker = False  # whether to create the file again if it is removed
        self._thread: ThreadPoolExecutor | None = None
        self._openings = 0  # calls of ``open`` and ``attach`` so far
        self._batcher: Batcher[Step, Any] = Batcher(self._run, BATCH)
        # SimHash records compared by each transaction, passed from the thread to the event loop.
        self._scans: deque[int] = deque()
        self._parameters: dict[str, str] = {}
        # Cache of ``expiring``: the oldest generation, and the first page id after it.
        self._expiring = (-1, 0)

    async def open(self, parameters: Parameters) -> dict[str, str]:
        return await self._opened(self._with_own(parameters))

    async def attach(self) -> dict[str, str]:
        return await self._opened(None)

    async def _opened(self, wanted: Parameters | None) -> dict[str, str]:
        self._openings += 1
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="dedup-sqlite")
        known = self._parameters.get(HASH_KEY)  # the key with which pages were hashed so far
        parameters = {**wanted, HASH_KEY: known} if wanted and known else wanted
        try:
            stored = await self._in_thread(lambda: self._open(parameters))
            self.record = layout_of(stored, self._where)
        except BaseException:
            await self.close()
            raise
        if known and known != stored[HASH_KEY]:
            logger.warning(REPLACED, self._where)
        self._parameters, self._is_maker = stored, wanted is not None
        return dict(self._parameters)

    def _open(self, parameters: Parameters | None) -> dict[str, str]:
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                stored = self._connect(parameters)
                break
            except (sqlite3.Error, OSError, ValueError) as error:  # ValueError: NUL in the path
                # Another process may be replacing the file.
                if not is_locked(error) or time.monotonic() > deadline:
                    raise as_error(error, self._path, opening=True) from error
                time.sleep(0.02)
        return agree(stored, parameters, self._where)

    def _connect(self, parameters: Parameters | None) -> dict[str, str]:
        path = Path(self._path)
        if path.is_dir():
            raise IsADirectoryError(f"{path} is a directory")
        if self._db is None:
            before = file_at(path)
            if before is None:
                if parameters is None:
                    raise missing(self._where)
                make_folder(path)
            begin_file(path)
            self._db = sqlite3.connect(path, timeout=self._timeout, isolation_level=None)
            self._db.execute("PRAGMA user_version")  # SQLite opens the file at the first use
            self._file = file_at(path)
            if before not in (None, self._file):
                self._disconnect()
                raise sqlite3.OperationalError("locked by a process that replaces it")
        db = self._db
        if application_of(db) != tables.APPLICATION:
            with transaction(db, writes=True):
                # Another process may have made the tables meanwhile.
                if application_of(db) != tables.APPLICATION:
                    if parameters is None:
                        raise missing(self._where)
                    if db.execute("SELECT 1 FROM sqlite_master").fetchone():
                        raise IndexRefusedError(
                            f"DEDUP_INDEX_URL=sqlite:{self._path} is the database of another "
                            "program; name another file"
                        )
                    make_tables(db, tables.SCHEMA_SQL, tables.APPLICATION, SCHEMA)
                    db.executemany(
                        "INSERT INTO parameter VALUES (?, ?)", complete(parameters).items()
                    )
        (schema,) = db.execute("PRAGMA user_version").fetchone()
        check_schema(str(schema), self._where)
        use_wal(db, self._timeout)
        db.execute("PRAGMA synchronous = NORMAL")
        # Claims write to random pages: rare checkpoints (32 MB of WAL) write fewer pages twice.
        db.execute("PRAGMA wal_autocheckpoint = 8000")
        db.execute("PRAGMA cache_size = -65536")  # 64 MiB: a claim touches 13 pages of the file
        stored = dict(db.execute("SELECT name, value FROM parameter").fetchall())
        self._files = OpenFiles.at(path, self._file)
        return stored

    async def close(self) -> None:
        openings = self._openings  # an ``open`` that comes meanwhile keeps file and thread
        await self._batcher.join()
        while (thread := self._thread) is not None and self._openings == openings:
            await self._in_thread(self._disconnect)
            await self._batcher.join()
            # A call that came meanwhile may have opened the file again: then disconnect once more.
            if self._db is None and self._openings == openings:
                self._files = self._thread = None
                thread.shutdown(wait=False)

    async def _do(
        self,
        act: Callable[[sqlite3.Connection, Moment], _T],
        *,
        writes: bool = False,
        needs_leases: bool = False,
    ) -> _T:
        """Run a function of connection and moment in the next transaction, before any commit."""
        step = Step(lambda db, at, _: [act(db, at)], None, -1, writes, needs_leases)
        result: _T = await self._batcher.submit(step)
        return result

    async def _ask(
        self,
        act: Callable[..., _T],
        *arguments: Any,
        writes: bool = False,
        needs_leases: bool = False,
    ) -> _T:
        """Run ``act(connection, *arguments)`` as :meth:`_do` does."""
        return await self._do(
            lambda db, _: act(db, *arguments), writes=writes, needs_leases=needs_leases
        )

    async def _run(self, steps: list[Step]) -> list[Any]:
        self._on_round_trip()
        return await self._in_thread(lambda: self._transact(steps))

    def _transact(self, steps: list[Step]) -> list[Any]:
        try:
            db = self._connected()
            lapses = any(step.needs_leases for step in steps)
            writes = any(step.writes for step in steps)
            with transaction(db, writes=writes):
                self._check_key(db)
                moment = self._moment(db)
                late = lapses and tables.expired(db, moment.now)
                if writes and late:
                    tables.lapse(db, moment.now)
                if writes or not late:
                    return _results(db, moment, steps)
            with transaction(db, writes=True):
                moment = self._moment(db)
                tables.lapse(db, moment.now)
                return _results(db, moment, steps)
        except (sqlite3.Error, OSError, *DAMAGED_VALUE) as error:
            raise as_error(error, self._path, opening=False) from error

    def _moment(self, db: sqlite3.Connection) -> Moment:
        """The present moment; call it inside a transaction, after waiting for the lock. If the next
        generation holds pages already, as the clock was set back, its moment is returned."""
        moment = self._window.at(self._clock())
        query = "SELECT 1 FROM generation WHERE id = ?"
        if self._window.seconds and db.execute(query, (moment.generation + 1,)).fetchone():
            return self._window.of_generation(moment.generation + 1, moment.now)
        return moment

    def _connected(self) -> sqlite3.Connection:
        """The connection, reopened if its files were removed or replaced: writes would be lost."""
        if self._files is None:
            raise sqlite3.ProgrammingError("it is not open")
        if self._db is not None:
            if self._files.are_in_place():
                return self._db
            self._files.remove_left_over()
        self._disconnect()
        try:
            stored = self._open(self._parameters if self._is_maker else None)
        except IndexRefusedError as error:
            self._disconnect()
            raise IndexUnavailableError(str(error)) from error
        assert self._db is not None
        if stored[HASH_KEY] == self._parameters[HASH_KEY]:
            logger.warning(EMPTIED, self._where)
        return self._db

    def _check_key(self, db: sqlite3.Connection) -> None:
        """Raise IndexReplacedError if the index has another hash key, even in the same file."""
        query = "SELECT value FROM parameter WHERE name = ?"
        found = db.execute(query, (HASH_KEY,)).fetchone()
        if found is None or found[0] != self._parameters[HASH_KEY]:
            raise replaced(self._where)

    def _disconnect(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None

    async def _in_thread(self, work: Callable[[], _T]) -> _T:
        if self._thread is None:
            raise as_error(sqlite3.ProgrammingError("it is not open"), self._path, opening=False)
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)


def _results(db: sqlite3.Connection, moment: Moment, steps: Sequence[Step]) -> list[Any]:
    """Carry out steps, grouped by act; returns their results in the order of the steps."""
    results: list[Any] = [None] * len(steps)
    together: dict[Callable[..., Sequence[Any]], list[tuple[int, Step]]] = {}
    for place, step in enumerate(steps):
        together.setdefault(step.act, []).append((place, step))
    for act, group in sorted(together.items(), key=lambda item: item[1][0][1].rank):
        returned = act(db, moment, [step.argument for _, step in group])
        for (place, _), result in zip(group, returned, strict=True):
            results[place] = result
    return results
