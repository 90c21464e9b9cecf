"""What a job is given and what it leaves: its settings, its Spark session, and its steps.

A step is a table that is written down, so that a job that was ended goes on where it was.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from dedup_middleware.base.errors import DedupError, OptionsError
from dedup_middleware.base.options import Options
from dedup_middleware.base.writing import lock
from dedup_middleware.spark.columns import words
from dedup_middleware.spark.filesystem import exists, file_system, literal, local_path, opened
from dedup_middleware.tools.files.signing import batch_key

KEEP = ("first", "longest", "earliest-date")
METHODS = ("content", "simhash", "weighted-simhash", "minhash")
BATCH_BYTES = 1 << 20  # of rows that a Python worker gets at once


class SparkError(DedupError):
    """The job can't be done; the message names the argument and the fix."""


@attrs.frozen(kw_only=True)
class Job:
    """How a job works; what decides are the :class:`.Options`.

    :param output: folder of the result, any address that Spark can write to
    :param keep: which of like pages survives: the ``first`` in the input, the ``longest`` text, or
        the ``earliest-date``; ties go to the first
    :param order_by: column that orders the input (a number or a time); None: place in the input
    :param date_field: column with a date, read for ``earliest-date``
    :param against: a file that an index was exported to; its pages are kept already
    :param near: near misses in the clusters, which takes a second pass over the candidates
    :param hot: records that one task compares with each other, at the most; a bucket that holds
        more is split
    :param most: candidates of a page in one bucket, at the most; the earliest ones
    :param settle: edges that the driver settles at the end
    :param alone: pages times cores that the driver decides by itself, at the most, where Spark runs
        on this machine (see :mod:`.alone`); 0: none
    :param partitions: number of partitions; 0: set by the size of the input

    :raises SparkError: a value can't be used
    """

    output: str
    keep: str = "first"
    order_by: str | None = None
    date_field: str = "date"
    against: str | None = None
    near: bool = False
    hot: int = 20_000
    most: int = 2048
    settle: int = 2_000_000
    alone: int = 800_000
    partitions: int = 0

    def __attrs_post_init__(self) -> None:
        if self.keep not in KEEP:
            raise SparkError(f"keep={self.keep!r} can't be used: choose one of {', '.join(KEEP)}")
        for name, least, shown in (
            ("hot", 2, "2"), ("most", 1, "1"), ("settle", 1, "1"), ("alone", 0, "0 (none)"),
            ("partitions", 0, "0 (set by the input)"),
        ):  # fmt: skip
            value = getattr(self, name)
            if value < least:
                raise SparkError(f"{name}={value!r} can't be used: give {shown} or more")


def job_options(options: Options) -> Options:
    """Options of a job: those of the crawl, with a hash key.

    :raises OptionsError: the method is none that runs in a batch
    """
    if options.method not in METHODS:
        raise OptionsError(
            "DEDUP_METHOD", options.method, f"a batch on Spark runs {', '.join(METHODS)}"
        )
    return attrs.evolve(options, hash_key=batch_key(options))


_SETTINGS = {
    "spark.app.name": "dedup-middleware",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
}
_LOCAL = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "8",
    # In Java's heap a task has the row group that it writes, by Parquet's default 128 MB, and all
    # rows that it reads at once, where 4096 pages are hundreds of MB.
    "spark.hadoop.parquet.block.size": str(1 << 24),
    "spark.sql.parquet.columnarReaderBatchSize": "512",
    # spark.driver.extraJavaOptions of users come behind these. The second compiler only for what
    # runs ten times as often as Java's own thresholds: plans that run once took a quarter of the
    # processor time of 25,000 pages. Buffers of Arrow and of shuffles, which are not in the heap,
    # have one pool instead of two for each core, which keep what they once had.
    "spark.driver.defaultJavaOptions": (
        "-XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000 "
        "-XX:Tier4CompileThreshold=150000 -XX:Tier4BackEdgeThreshold=400000 "
        "-Dio.netty.allocator.numDirectArenas=1"
    ),
}


def local_session(master: str = "local[*]", settings: Mapping[str, str] = {}) -> SparkSession:
    """A session on this machine, or the one that is there already."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    local = _LOCAL if master.startswith("local") else {}
    if local:
        # Threads of Java get memory from glibc's malloc in an area of their own, which keeps what
        # it once had: 400 MB on top of a heap of 1 GB. What the user's environment says stays.
        os.environ.setdefault("MALLOC_ARENA_MAX", "2")
    every = {**_SETTINGS, **local, **settings}
    return SparkSession.builder.master(master).config(map=every).getOrCreate()


def submitted_session() -> SparkSession:
    """The session of ``spark-submit``, or one with Spark's own configuration.

    Without ``spark-submit`` the workers run this interpreter too, unless Spark's environment names
    another one: "python3" would be that of the system where a virtual environment is not activated.
    """
    # spark-submit has the interpreter in its own configuration.
    if not os.environ.get("PYSPARK_GATEWAY_PORT"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return SparkSession.builder.config(map=_SETTINGS).getOrCreate()


_DONE = "_SUCCESS"  # Spark writes it when all files of a table are in their place
_STATE = "job.json"
_PART = pa.schema([("part", pa.int64())])

Note = Callable[[str], None]
Work = Callable[[Any], Iterator[Any]]  # a table to batches


@contextmanager
def changed(session: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Settings of a session for a while."""
    before = {key: session.conf.get(key, None) for key in settings}
    try:
        for key, value in settings.items():
            session.conf.set(key, value)
        yield
    finally:
        for key, old in before.items():
            if old is None:
                session.conf.unset(key)
            else:
                session.conf.set(key, old)


class _Lock:
    """A descriptor that is open as long as there is this object or the process."""

    def __init__(self, descriptor: int) -> None:
        weakref.finalize(self, os.close, descriptor)


# By the numbers of the device and of the file.
_LOCKS: weakref.WeakValueDictionary[tuple[int, int], _Lock] = weakref.WeakValueDictionary()


@attrs.frozen
class Stages:
    """Tables of one job under one folder."""

    session: SparkSession
    folder: str
    note: Note
    # Of tables made or read before: to ask a file for its schema is a job of its own.
    _schemas: dict[str, StructType] = attrs.field(factory=dict, init=False)
    _locks: list[_Lock] = attrs.field(factory=list, init=False)

    def path(self, name: str) -> str:
        """Where a table is."""
        return f"{self.folder.rstrip('/')}/{name}"

    def table(
        self, name: str, make: Callable[[], DataFrame], settings: dict[str, str] | None = None
    ) -> DataFrame:
        """A table, made and written unless that is done already.

        Spark moves its files into place at the end: an incomplete table is made again.

        :param settings: of the session, while it is made
        """
        path = self.path(name)
        if not exists(self.session, f"{path}/{_DONE}"):
            with changed(self.session, settings or {}):
                table = make()  # makes the tables before it, if need be
                self.note(name)
                table.write.mode("overwrite").parquet(path)
                self._schemas[name] = table.schema
        if name not in self._schemas:
            self._schemas[name] = self.session.read.parquet(literal(path)).schema
        return self.session.read.schema(self._schemas[name]).parquet(literal(path))

    def local_files(self, name: str) -> list[Path] | None:
        """The Parquet files of a table that is written, in the order of its partitions; None: Spark
        or the folder is not on this machine."""
        folder = local_path(self.session, self.path(name))
        if folder is None or not self.session.sparkContext.master.startswith("local"):
            return None
        # With LC_ALL=C Java writes letters beyond ASCII otherwise, so that none is found here.
        return sorted(folder.glob("part-*.parquet")) or None

    def rows(self, name: str) -> int:
        """Rows of a table that is written."""
        files = self.local_files(name)
        if files is None:
            table = self.session.read.schema(self._schemas[name])
            return int(table.parquet(literal(self.path(name))).count())
        # A job of Spark takes a quarter of a second to count them.
        return sum(pq.read_metadata(file).num_rows for file in files)

    def begin(self, fingerprint: str) -> None:
        """Take the folder for a job.

        :raises SparkError: it has something else, or another process is writing it
        """
        self._take(fingerprint)
        self._hold()

    def _hold(self) -> None:
        """Keep other processes from the folder, which would remove what this one reads; on file
        systems of this machine, as long as there is this object or the process."""
        path = local_path(self.session, self.path(_STATE))
        if path is None:
            return
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            # It can only be read, so this process removes nothing; or with LC_ALL=C Java writes
            # letters beyond ASCII otherwise, so that it is not found here.
            return
        status = os.fstat(descriptor)
        own, place = _Lock(descriptor), (status.st_dev, status.st_ino)
        held = _LOCKS.get(place)  # of another job of this process
        if held is None:
            if not lock(descriptor):
                raise SparkError(
                    f"output={self.folder!r} can't be used: another job is writing it; wait until "
                    "it ends, or name another folder"
                )
            held = _LOCKS[place] = own
        self._locks.append(held)

    def _take(self, fingerprint: str) -> None:
        path = self.path(_STATE)
        if exists(self.session, path):
            try:
                with opened(self.session, path) as file:
                    if json.load(file) == {"job": fingerprint}:
                        return
            except ValueError:
                raise SparkError(
                    f"output={self.folder!r} can't be used: its {_STATE} is damaged, so it "
                    "is not known whose result it holds; name another folder, or remove it"
                ) from None
            raise SparkError(
                f"output={self.folder!r} can't be used: it holds the result of another input or "
                "of other options; name another folder, or remove it"
            )
        files, found = file_system(self.session, self.folder)
        if files.exists(found) and len(files.listStatus(found)):
            raise SparkError(
                f"output={self.folder!r} can't be used: the folder is not empty; name another one"
            )
        made = files.create(file_system(self.session, path)[1], False)
        try:
            made.write(bytearray(json.dumps({"job": fingerprint}).encode()))
        finally:
            made.close()


def in_parts(session: SparkSession, folder: Path, work: Work, table: Any, schema: Any) -> Any:
    """What the workers of Spark make of a table that is cut into one part for each core.

    :param folder: of this machine, for the files
    :param work: a table to batches of ``schema``
    :param table: sorted by its column ``page``; a page is in one part
    """
    cuts = cuts_of(words(table.column("page")), session.sparkContext.defaultParallelism)
    count = len(cuts) - 1
    if not count:
        return schema.empty_table()
    place = tempfile.mkdtemp(dir=folder)
    for number, (start, stop) in enumerate(pairwise(cuts)):
        part = table.slice(start, stop - start)
        _write(f"{place}/given-{number}.arrow", part.to_batches(), table.schema)
    numbers = session.range(0, count, 1, count)
    numbers.mapInArrow(_task(place, work, schema), from_arrow_schema(_PART)).collect()
    return pa.concat_tables(_mapped(f"{place}/made-{number}.arrow") for number in range(count))


def cuts_of(pages: NDArray[np.int64], count: int) -> list[int]:
    """Where to cut sorted rows into some parts of about one size, so that no page is in two.

    >>> cuts_of(np.array([5, 5, 5, 7, 8]), 2), cuts_of(np.array([], int), 2)
    ([0, 3, 5], [0])
    """
    wanted = [len(pages) * i // count for i in range(1, count)] if len(pages) else []
    cuts = np.searchsorted(pages, pages[wanted], "right")
    return sorted({0, *cuts.tolist(), len(pages)})


def _write(path: str, batches: Iterable[Any], schema: Any) -> None:
    with pa.ipc.new_file(path, schema) as file:
        for batch in batches:
            file.write_batch(batch)


def _mapped(path: str) -> Any:
    """A table that stays in its file."""
    return pa.ipc.open_file(pa.memory_map(path)).read_all()


def _task(folder: str, work: Work, schema: Any) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """A function for ``mapInArrow`` over the numbers of parts."""

    def run(batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                given = _mapped(f"{folder}/given-{number}.arrow")
                _write(f"{folder}/made-{number}.arrow", work(given), schema)
            yield batch.rename_columns(_PART.names)

    return run
