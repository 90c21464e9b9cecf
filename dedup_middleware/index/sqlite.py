"""The index in one file, shared by the processes of one machine."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import attrs
import numpy as np
from numpy.typing import NDArray

from dedup_middleware.errors import IndexRefusedError
from dedup_middleware.index import sqlite_tables as tables
from dedup_middleware.index import sqlite_upkeep as upkeep
from dedup_middleware.index.base import SCHEMA, Claim, Entry, Index, Parameters, Reading
from dedup_middleware.index.batching import Batcher, forget_outcome
from dedup_middleware.index.compaction import Living
from dedup_middleware.index.growth import check_slots
from dedup_middleware.index.parameters import agree, check_schema, complete, missing
from dedup_middleware.index.records import Satellites, State
from dedup_middleware.index.sqlite_errors import as_error, retryable
from dedup_middleware.index.stats import IndexStats
from dedup_middleware.index.tables import Slot
from dedup_middleware.index.window import Moment, Window, window_parameter

_T = TypeVar("_T")
_BATCH = 256


@attrs.frozen(eq=False)
class _Step:
    """What to do inside a transaction, and whether it writes."""

    act: Callable[[sqlite3.Connection, Moment], Any]
    writes: bool = False
    needs_leases: bool = False  # reads states, so leases that have run out must be ended first


class SQLiteIndex(Index):
    """Buckets and satellites in tables, calls in batches of one transaction each.

    One thread owns the connection, so the event loop never waits for the disk. The file is in
    WAL mode: a process that is killed loses nothing; a machine that loses power may lose the
    last transactions, as a whole.

    :param path: the file; it and its folder are made if missing
    :param timeout: seconds to wait for other processes' locks
    :param window: seconds that a page is remembered, 0: for ever
    :param clock: seconds; all processes on one file must share it
    """

    def __init__(
        self,
        path: str,
        *,
        timeout: float = 5.0,
        window: float = 0.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.corrupt = 0
        self._path = path
        self._timeout = timeout
        self._window = Window(window)
        self._clock = clock
        self._db: sqlite3.Connection | None = None
        self._thread: ThreadPoolExecutor | None = None
        self._batcher: Batcher[_Step, Any] = Batcher(self._run, _BATCH)
        self._parameters: dict[str, str] = {}

    async def open(self, parameters: Parameters) -> dict[str, str]:
        """Open or make the file, and agree on the parameters; see :meth:`.Index.open`."""
        wanted = {**parameters, **window_parameter(self._window.seconds)}
        return await self._opened(wanted)

    async def attach(self) -> dict[str, str]:
        """Open a file that exists; see :meth:`.Index.attach`."""
        return await self._opened(None)

    async def _opened(self, wanted: Parameters | None) -> dict[str, str]:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="dedup-sqlite")
        try:
            self._parameters = await self._in_thread(lambda: self._open(wanted))
        except BaseException:
            await self.close()
            raise
        return dict(self._parameters)

    def _open(self, parameters: Parameters | None) -> dict[str, str]:
        if parameters is None and not Path(self._path).exists():
            raise missing(f"sqlite:{self._path}")
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                stored = self._connect(parameters)
                break
            except (sqlite3.Error, OSError) as error:
                # Turning WAL on does not wait for others who do the same.
                if not retryable(error) or time.monotonic() > deadline:
                    raise as_error(error, self._path, opening=True) from error
                time.sleep(0.02)
        return stored if parameters is None else agree(stored, parameters, f"sqlite:{self._path}")

    def _connect(self, parameters: Parameters | None) -> dict[str, str]:
        path = Path(self._path)
        path.parent.mkdir(parents=True, exist_ok=True)
        if self._db is None:
            self._db = sqlite3.connect(path, timeout=self._timeout, isolation_level=None)
        db = self._db
        if not _is_ours(db):
            with _Transaction(db, writes=True):
                # Somebody else may have made the tables in the meantime.
                if not _is_ours(db):
                    if parameters is None:
                        raise missing(f"sqlite:{self._path}")
                    if db.execute("SELECT 1 FROM sqlite_master").fetchone():
                        raise IndexRefusedError(
                            f"DEDUP_INDEX_URL=sqlite:{self._path} is the database of another "
                            "program; name another file"
                        )
                    for statement in tables.SCHEMA_SQL.split(";"):
                        db.execute(statement)
                    db.executemany(
                        "INSERT INTO parameter VALUES (?, ?)", complete(parameters).items()
                    )
                    db.execute(f"PRAGMA application_id = {tables.APPLICATION}")
                    db.execute(f"PRAGMA user_version = {SCHEMA}")
        (schema,) = db.execute("PRAGMA user_version").fetchone()
        check_schema(str(schema), f"sqlite:{self._path}")
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        # Claims write all over the file: rarer checkpoints write fewer pages twice (32 MB of WAL).
        db.execute("PRAGMA wal_autocheckpoint = 8000")
        db.execute("PRAGMA cache_size = -65536")  # 64 MiB: a claim touches 13 pages of the file
        return dict(db.execute("SELECT name, value FROM parameter").fetchall())

    async def close(self) -> None:
        """Finish what is under way and close the file. Claims stay as they are."""
        await self._batcher.join()
        if self._thread is not None:
            if self._db is not None:
                await self._in_thread(self._db.close)
                self._db = None
            self._thread.shutdown(wait=False)
            self._thread = None

    async def read(self, slots: Sequence[Slot]) -> Reading:
        """The buckets of all ``slots`` as they are now."""
        return await self._do(lambda db, at: tables.read(db, slots, at))

    async def fetch(self, numbers: NDArray[np.uint64]) -> Satellites:
        """Satellites of pages; one that does not exist has state FREE."""

        def act(db: sqlite3.Connection, at: Moment) -> Satellites:
            found, corrupt = tables.fetch(db, numbers, at.now)
            self.corrupt += corrupt
            return found

        return await self._do(act, needs_leases=True)

    async def addresses(self, numbers: Sequence[int]) -> list[str | None]:
        """Addresses of pages, None where none is kept."""
        return await self._do(lambda db, _: tables.addresses(db, numbers))

    async def claim(self, entry: Entry, reading: Reading, lease: float) -> Claim | Reading:
        """Take the place of a page; see :meth:`.Index.claim`."""
        check_slots(entry, reading)
        step = _Step(
            lambda db, at: tables.claim(db, entry, reading, lease, at),
            writes=True,
        )

        def undo(outcome: Claim | Reading) -> None:
            if isinstance(outcome, Claim):
                forget_outcome(self._finish(outcome, State.RELEASED))

        outcome: Claim | Reading = await self._batcher.submit(step, undo)
        return outcome

    async def expiring(self, numbers: Sequence[int]) -> list[bool]:
        """Whether pages are of the oldest live generation; see :meth:`.Index.expiring`."""
        return await self._do(lambda db, at: tables.expiring(db, numbers, at))

    async def commit(self, claim: Claim) -> bool:
        """The page is stored. False: the lease had run out or the claim is gone."""
        return await self._finish(claim, State.COMMITTED)

    async def release(self, claim: Claim) -> bool:
        """The page was not stored. False: nothing to release."""
        return await self._finish(claim, State.RELEASED)

    async def renew(self, claims: Sequence[Claim], lease: float) -> list[bool]:
        """Extend leases by ``lease`` seconds from now. False: that one had run out."""
        return await self._do(
            lambda db, at: tables.renew(db, claims, lease, at.now), writes=True, needs_leases=True
        )

    async def count(self) -> int:
        """Number of committed pages."""
        found = await self._do(lambda db, _: tables.counters(db))
        return found["committed"]

    async def pages(self) -> AsyncIterator[Satellites]:
        """All pages; see :meth:`.Index.pages`."""
        part = await self._pages_after(0)
        while len(part):
            yield part
            part = await self._pages_after(int(part.numbers[-1]))

    async def _pages_after(self, number: int) -> Satellites:
        return await self._do(lambda db, _: upkeep.pages_after(db, number), needs_leases=True)

    async def forget(self, numbers: Sequence[int]) -> int:
        """Let committed pages read as released; see :meth:`.Index.forget`."""
        steps = [
            self._forget(list(map(int, numbers[start : start + upkeep.PAGES])))
            for start in range(0, len(numbers), upkeep.PAGES)
        ]
        return sum([await step for step in steps])

    async def _forget(self, numbers: list[int]) -> int:
        return await self._do(lambda db, _: upkeep.forget(db, numbers), writes=True)

    async def compact(self) -> int:
        """Take records of pages that are gone out of all buckets, and released pages too."""
        last = await self._do(lambda db, _: tables.counters(db)["issued"])
        living = Living(last)
        async for pages in self.pages():
            living.add(pages)
        removed = 0
        bucket: int | None = -1
        while bucket is not None:
            gone, bucket = await self._compact_after(bucket, living)
            removed += gone
        while await self._do(lambda db, _: upkeep.remove_released(db, last), writes=True):
            pass
        return removed

    async def _compact_after(self, bucket: int, living: Living) -> tuple[int, int | None]:
        return await self._do(lambda db, _: upkeep.compact_after(db, bucket, living), writes=True)

    async def stats(self) -> IndexStats:
        """State of the index; its bytes are those of the file and its journal."""
        found = await self._do(lambda db, _: tables.counters(db), needs_leases=True)
        return IndexStats(
            committed=found["committed"],
            pending=found["pending"],
            released=found["released"],
            buckets=found["buckets"],
            bytes=await self._in_thread(self._size),
            corrupt=self.corrupt,
            overflow=found["overflow"],
            parameters=dict(self._parameters),
        )

    def _size(self) -> int:
        files = (Path(self._path + end) for end in ("", "-wal"))
        return sum(file.stat().st_size for file in files if file.exists())

    async def _do(self, act: Callable[[sqlite3.Connection, Moment], _T], **needs: bool) -> _T:
        answer: _T = await self._batcher.submit(_Step(act, **needs))
        return answer

    def _finish(self, claim: Claim, state: State) -> asyncio.Future[bool]:
        return self._batcher.submit(
            _Step(
                lambda db, at: tables.finish(db, claim, state, at.now),
                writes=True,
                needs_leases=True,
            )
        )

    async def _run(self, steps: list[_Step]) -> list[Any]:
        return await self._in_thread(lambda: self._transact(steps))

    def _transact(self, steps: list[_Step]) -> list[Any]:
        db = self._db
        try:
            if db is None:
                raise sqlite3.ProgrammingError("it is not open")
            moment = self._window.at(self._clock())
            lapses = any(step.needs_leases for step in steps)
            writes = any(step.writes for step in steps)
            with _Transaction(db, writes=writes):
                late = lapses and tables.expired(db, moment.now)
                if writes and late:
                    tables.lapse(db, moment.now)
                if writes or not late:
                    return [step.act(db, moment) for step in steps]
            with _Transaction(db, writes=True):
                tables.lapse(db, moment.now)
                return [step.act(db, moment) for step in steps]
        except sqlite3.Error as error:
            raise as_error(error, self._path, opening=False) from error

    async def _in_thread(self, work: Callable[[], _T]) -> _T:
        if self._thread is None:
            raise as_error(sqlite3.ProgrammingError("it is not open"), self._path, opening=False)
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)


def _is_ours(db: sqlite3.Connection) -> bool:
    (application,) = db.execute("PRAGMA application_id").fetchone()
    return bool(application == tables.APPLICATION)


class _Transaction:
    """A transaction that is rolled back if anything is raised inside it."""

    def __init__(self, db: sqlite3.Connection, *, writes: bool) -> None:
        self._db = db
        # A reader that begins to write later can't wait for a lock, so writers say so at once.
        self._begin = "BEGIN IMMEDIATE" if writes else "BEGIN"

    def __enter__(self) -> None:
        self._db.execute(self._begin)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._db.execute("COMMIT")
        elif self._db.in_transaction:
            self._db.execute("ROLLBACK")
