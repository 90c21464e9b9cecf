"""The settings of a job, and the Spark sessions that it runs in."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

import attrs
from pyspark.sql import SparkSession

from dedup_middleware.base.errors import DedupError, OptionsError
from dedup_middleware.base.options import Options

KEEP = ("first", "longest", "earliest-date")
METHODS = ("content", "simhash", "weighted-simhash", "minhash")
BATCH_BYTES = 1 << 20  # of rows that a Python worker gets at once
HASH_KEY = "1"  # without DEDUP_HASH_KEY, so that all runs decide alike


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
    return attrs.evolve(options, hash_key=options.hash_key or HASH_KEY)


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
# Threads of Java get memory from glibc's malloc in an area of their own, which keeps what it once
# had: 400 MB on top of a heap of 1 GB. What is said by the user's own environment stays.
_ARENAS = ("MALLOC_ARENA_MAX", "2")


def local_session(master: str = "local[*]", settings: Mapping[str, str] = {}) -> SparkSession:
    """A session on this machine, or the one that is there already.

    :param master: as Spark names it
    :param settings: further settings of Spark
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    local = _LOCAL if master.startswith("local") else {}
    if local:
        os.environ.setdefault(*_ARENAS)
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
