"""The settings of a job, its Spark session, and the tables that it writes.

Each step writes a table, so an interrupted job continues after its last complete step.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from numbers import Integral
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
BATCH_BYTES = 1 << 20  # of rows passed to a Python worker at once


class SparkError(DedupError):
    """A job can't be done; the message names the argument and the fix."""


def _path(value: Any) -> Any:
    return os.fspath(value) if isinstance(value, os.PathLike) else value


_NONE = type(None)
_KINDS: tuple[tuple[str, tuple[type, ...], str], ...] = (
    ("output", (str,), "a path or an address"),
    ("keep", (str,), f"one of {', '.join(KEEP)}"),
    ("order_by", (str, _NONE), "the name of a column"),
    ("date_field", (str,), "the name of a column"),
    ("against", (str, _NONE), "the path of a file"),
    ("near", (bool,), "True or False"),
    *(
        (name, (Integral,), "a whole number")
        for name in ("hot", "most", "settle", "alone", "partitions")
    ),
)


@attrs.frozen(kw_only=True)
class Job:
    """The settings of a Spark job. :class:`.Options` has the rule; ``keep``, ``order_by``,
    ``date_field``, ``against`` and the bounds ``hot`` and ``most`` affect the verdicts, too.

    :param output: folder for the result, at any address that Spark can write to
    :param keep: which of several duplicates is kept: the ``first`` in the input, the ``longest``
        text or the ``earliest-date``; ties go to the first
    :param order_by: column that orders the input (a number or a time); None: order in the input
    :param date_field: date column for ``earliest-date``
    :param against: file of an exported index, whose pages count as kept
    :param near: put near misses into the clusters, which takes a second pass over the candidates
    :param hot: largest number of records that one task compares; larger buckets are split
    :param most: largest number of candidates of a page in one bucket; the earliest are taken
    :param settle: number of edges that the driver settles at the end
    :param alone: largest product of pages and cores for which the driver decides without Spark if
        Spark is local (see :mod:`.alone`); 0: never
    :param partitions: number of partitions; 0: by the size of the input

    :raises SparkError: a value can't be used
    """

    output: str = attrs.field(converter=_path)
    keep: str = "first"
    order_by: str | None = None
    date_field: str = "date"
    against: str | None = attrs.field(default=None, converter=_path)
    near: bool = False
    hot: int = 20_000
    most: int = 2048
    settle: int = 2_000_000
    alone: int = 800_000
    partitions: int = 0

    def __attrs_post_init__(self) -> None:
        for name, kinds, shown in _KINDS:
            value = getattr(self, name)
            if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
                raise SparkError(f"{name}={value!r} can't be used: give {shown}")
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
    """Return the options of the crawl with a hash key for a batch.

    :raises OptionsError: the method can't run in a batch
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
    # A task's Java heap holds the row group that it writes, 128 MB by Parquet's default, and a
    # whole batch of rows that it reads: 4096 pages are hundreds of MB.
    "spark.hadoop.parquet.block.size": str(1 << 24),
    "spark.sql.parquet.columnarReaderBatchSize": "512",
    # A user's spark.driver.extraJavaOptions override these. The optimising compiler starts at ten
    # times Java's thresholds: compiling plans that run once took a quarter of the processor time of
    # 25,000 pages. Off-heap buffers of Arrow and shuffles use one pool, not two per core, as pools
    # never return their memory.
    "spark.driver.defaultJavaOptions": (
        "-XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000 "
        "-XX:Tier4CompileThreshold=150000 -XX:Tier4BackEdgeThreshold=400000 "
        "-Dio.netty.allocator.numDirectArenas=1"
    ),
}


def local_session(master: str = "local[*]", settings: Mapping[str, str] = {}) -> SparkSession:
    """Return a session on this machine, or the existing one."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    local = _LOCAL if master.startswith("local") else {}
    if local:
        # glibc's malloc gives each Java thread an arena that never shrinks: 400 MB on top of a heap
        # of 1 GB. A value in the user's environment is left as it is.
        os.environ.setdefault("MALLOC_ARENA_MAX", "2")
    every = {**_SETTINGS, **local, **settings}
    return SparkSession.builder.master(master).config(map=every).getOrCreate()


def submitted_session() -> SparkSession:
    """Return the session of ``spark-submit``, or one with Spark's own configuration."""
    # spark-submit configures the interpreter; otherwise Spark would start any "python3".
    if not os.environ.get("PYSPARK_GATEWAY_PORT"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return SparkSession.builder.config(map=_SETTINGS).getOrCreate()


_STATE = "job.json"
_PART = pa.schema([("part", pa.int64())])

Note = Callable[[str], None]
Work = Callable[[Any], Iterator[Any]]  # a function from a table to batches


@contextmanager
def changed(session: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Change settings of a session within a ``with`` block."""
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
    """Keeps a file descriptor open until the object is collected or the process ends."""

    def __init__(self, descriptor: int) -> None:
        weakref.finalize(self, os.close, descriptor)


# By device and inode.
_LOCKS: weakref.WeakValueDictionary[tuple[int, int], _Lock] = weakref.WeakValueDictionary()


@attrs.frozen
class Stages:
    """The tables of one job, in one folder."""

    session: SparkSession
    folder: str
    note: Note
    # Schemas of tables made or read before: Spark needs a job to read one from a file.
    _schemas: dict[str, StructType] = attrs.field(factory=dict, init=False)
    _locks: list[_Lock] = attrs.field(factory=list, init=False)

    def path(self, name: str) -> str:
        """Return the path of a table."""
        return f"{self.folder.rstrip('/')}/{name}"

    def is_complete(self, name: str) -> bool:
        """Whether a table is written: Spark adds ``_SUCCESS`` after the last of its files."""
        return exists(self.session, f"{self.path(name)}/_SUCCESS")

    def table(
        self, name: str, make: Callable[[], DataFrame], settings: dict[str, str] | None = None
    ) -> DataFrame:
        """Return a table, made and written first, with these settings, if it is not complete."""
        path = self.path(name)
        if not self.is_complete(name):
            with changed(self.session, settings or {}):
                table = make()  # makes the tables that it depends on
                self.note(name)
                table.write.mode("overwrite").parquet(path)
                self._schemas[name] = table.schema
        if name not in self._schemas:
            self._schemas[name] = self.session.read.parquet(literal(path)).schema
        return self.session.read.schema(self._schemas[name]).parquet(literal(path))

    def local_files(self, name: str) -> list[Path] | None:
        """Return the Parquet files of a written table in the order of its partitions, or None if
        Spark or the folder is not on this machine."""
        folder = local_path(self.session, self.path(name))
        if folder is None or not self.session.sparkContext.master.startswith("local"):
            return None
        # With LC_ALL=C Java encodes non-ASCII letters differently, so no file is found here.
        return sorted(folder.glob("part-*.parquet")) or None

    def rows(self, name: str) -> int:
        """Return the number of rows of a written table."""
        files = self.local_files(name)
        if files is None:
            table = self.session.read.schema(self._schemas[name])
            return int(table.parquet(literal(self.path(name))).count())
        # A Spark job would take a quarter of a second to count them.
        return sum(pq.read_metadata(file).num_rows for file in files)

    def begin(self, fingerprint: str) -> None:
        """Reserve the folder for the job with this fingerprint, as long as this object exists.

        :raises SparkError: the folder holds anything else, or another process writes to it
        """
        self._take(fingerprint)
        path = local_path(self.session, self.path(_STATE))
        if path is None:
            return
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            # The folder is read-only, so nothing is deleted here; or, with LC_ALL=C, Java encodes
            # non-ASCII letters differently, so it is not found.
            return
        status = os.fstat(descriptor)
        own, place = _Lock(descriptor), (status.st_dev, status.st_ino)
        held = _LOCKS.get(place)  # by another job of this process
        if held is None:
            if not lock(descriptor):
                raise self._refused(
                    "another job is writing it; wait until it ends, or name another folder"
                )
            held = _LOCKS[place] = own
        self._locks.append(held)

    def _refused(self, why: str) -> SparkError:
        return SparkError(f"output={self.folder!r} can't be used: {why}")

    def _take(self, fingerprint: str) -> None:
        path = self.path(_STATE)
        if exists(self.session, path):
            try:
                with opened(self.session, path) as file:
                    if json.load(file) == {"job": fingerprint}:
                        return
            except ValueError:
                raise self._refused(
                    f"its {_STATE} is damaged, so it is not known whose result it holds; name "
                    "another folder, or remove it"
                ) from None
            raise self._refused(
                "it holds the result of another input or of other options; name another folder, "
                "or remove it"
            )
        files, found = file_system(self.session, self.folder)
        if files.exists(found) and len(files.listStatus(found)):
            raise self._refused("the folder is not empty; name another one")
        made = files.create(file_system(self.session, path)[1], False)
        try:
            made.write(bytearray(json.dumps({"job": fingerprint}).encode()))
        finally:
            made.close()


def in_parts(session: SparkSession, folder: Path, work: Work, table: Any, schema: Any) -> Any:
    """Apply ``work`` to a table in Spark's workers, one part per core, and return the results.

    :param folder: local
    :param table: sorted by its column ``page``; pages are not split
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
    make = partial(_make_parts, folder=place, work=work, schema=schema)
    numbers.mapInArrow(make, from_arrow_schema(_PART)).collect()
    return pa.concat_tables(_mapped(f"{place}/made-{number}.arrow") for number in range(count))


def cuts_of(pages: NDArray[np.int64], count: int) -> list[int]:
    """Return bounds that cut sorted rows into parts of similar size without splitting a page.

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
    return pa.ipc.open_file(pa.memory_map(path)).read_all()


def _make_parts(batches: Iterable[Any], folder: str, work: Work, schema: Any) -> Iterator[Any]:
    """Apply ``work`` to the parts whose numbers are in ``batches``; for ``mapInArrow``."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            given = _mapped(f"{folder}/given-{number}.arrow")
            _write(f"{folder}/made-{number}.arrow", work(given), schema)
        yield batch.rename_columns(_PART.names)
