"""A whole Spark job: from pages to kept pages, duplicates, clusters and an index."""

from __future__ import annotations

import contextlib
import re
import tempfile
import uuid
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructField, StructType

from dedup_middleware.base.errors import IndexMissingError, IndexRefusedError, OptionsError
from dedup_middleware.base.options import Options
from dedup_middleware.core.fingerprinter import Fingerprinter
from dedup_middleware.index.base import Index
from dedup_middleware.index.pages import Pages
from dedup_middleware.index.parameters import (
    HASH_KEY,
    RECORD,
    RecordLayout,
    differences,
    hash_key_of,
    record_parameter,
)
from dedup_middleware.methods.choose import choose_method
from dedup_middleware.model.buckets import cut_address
from dedup_middleware.spark import signing
from dedup_middleware.spark.columns import flat, to_content
from dedup_middleware.spark.filesystem import file_states, local_copy
from dedup_middleware.spark.signing import PREFIX, Source, Task, sign
from dedup_middleware.spark.stages import BATCH_BYTES, Job, Note, SparkError, Stages, job_options
from dedup_middleware.spark.steps import Steps
from dedup_middleware.tools.files.rows import BatchError
from dedup_middleware.tools.portable.portable import Imported, import_index
from dedup_middleware.tools.portable.portable_file import (
    Exported,
    PortableWriter,
    fingerprint_of,
    read_portable,
)

_LEAST_PART, _LARGEST_PART = 1 << 20, 1 << 27  # bytes of input in a partition
_NUMBERS = re.compile(r"#\d+L?")  # ids of columns in a plan, different in every session


@attrs.frozen(kw_only=True)
class Result:
    """The tables of a finished job, in its output folder; ``docs/spark.md`` lists their columns.
    ``numbers`` has the number of rows of each table, of the input (``read``), and for
    ``earliest-date`` of pages whose date can't be read (``undated``)."""

    kept: DataFrame
    duplicates: DataFrame
    clusters: DataFrame
    rejects: DataFrame
    numbers: dict[str, int]


def deduplicate(df: DataFrame, options: Options, job: Job, note: Note | None = None) -> Result:
    """De-duplicate the rows of a table, whose columns the options name. The result is that of a
    crawl that fetches the pages in the job's order.

    :param df: without ``job.order_by`` pages are ordered by partition, so the result depends on how
        Spark splits the input. The output folder knows a table by its files and its plan, which
        does not show rows of local tables and the code of functions in Python: use a new folder
        for each
    :param note: called with the name of each step
    :raises SparkError: an argument can't be used
    :raises OptionsError: the method can't run in a batch
    """
    signing.check_names(df.columns)
    # Spark returns URLs, which are percent-encoded.
    files = sorted(df.inputFiles())
    states = file_states(df.sparkSession, [unquote(file) for file in files])
    plan = _NUMBERS.sub("", str(df._jdf.queryExecution().analyzed().toString()))
    named = [(file, *state[1:]) for file, state in zip(files, states, strict=True)]
    identity = fingerprint_of([named, plan]) if named else uuid.uuid4().hex
    rows = df.withColumn(signing.BASE, F.monotonically_increasing_id())
    return run(Source(rows=rows, identity=identity, states=states), options, job, note)


def run(source: Source, options: Options, job: Job, note: Note | None = None) -> Result:
    """De-duplicate the rows of a source; see :func:`deduplicate`."""
    return finish(start(source, options, job, note))


def start(source: Source, options: Options, job: Job, note: Note | None = None) -> Steps:
    """Compute the fingerprints of an input; the returned steps run on demand."""
    options = job_options(options)
    if job.against is not None:
        options = with_key_of(options, job.against)
    rows = _ordered_by(source.rows, job)
    names = tuple(rows.columns)
    stages = Stages(rows.sparkSession, job.output, note or (lambda _: None))
    stages.begin(_fingerprint(source, options, job))
    numbers = {name: i for i, name in enumerate(source.files)}
    # Spark would read a column name with a dot as a field of a struct.
    given, read = rows.toDF(*map(str, range(len(names)))), None
    if source.given is not None and job.order_by is None:
        # Read and sign in one worker: as two steps all texts would pass through Java.
        given, read = source.given, source.read
    task = Task(names, options, job.keep, job.date_field, numbers, source.counts, read)

    is_read = stages.is_complete("work/pages")
    try:
        pages = stages.table(
            "work/pages",
            lambda: given.mapInArrow(partial(sign, task=task), _signed_schema(rows)),
            _adapted(source, job),
        )
    except PythonException as error:  # its message ends with the exception of the worker
        unread = re.search(rf"\.{BatchError.__name__}: (.*)", str(error))
        if unread is None:
            raise
        raise SparkError(unread[1]) from error
    if not is_read:
        check_unchanged(rows.sparkSession, source)
    method = choose_method(options)
    steps = Steps(stages=stages, pages=pages, options=options, job=job, method=method)
    every, undated = steps.dates
    if every and undated == every:
        raise SparkError(
            f"date_field={job.date_field!r} can't be used: no row has a date there that can be "
            "read; name the column of the dates, and another output folder"
        )
    return steps


def check_unchanged(session: SparkSession, source: Source) -> None:
    """Raise a :class:`SparkError` if input files changed while they were read."""
    try:
        states = file_states(session, [path for path, *_ in source.states])
        pairs = zip(source.states, states, strict=True)
        other = next((before[0] for before, state in pairs if before != state), None)
    except FileNotFoundError as error:
        other = error.filename
    if other is not None:
        raise SparkError(
            f"{other} has changed while it was read: start again with another output folder once "
            "it no longer changes"
        )


def _adapted(source: Source, job: Job) -> dict[str, str]:
    """Return settings that split the input by its size, so that all cores read a small one too."""
    cores = source.rows.sparkSession.sparkContext.defaultParallelism
    size = sum(size for _, size, _ in source.states)
    part = max(_LEAST_PART, min(_LARGEST_PART, size // (job.partitions or 3 * cores)))
    largest = max((size for _, size, _ in source.states), default=0)
    return {
        **({"spark.sql.files.minPartitionNum": "1"} if source.whole else {}),
        "spark.sql.files.maxPartitionBytes": str(max(part, largest) if source.whole else part),
        "spark.sql.files.openCostInBytes": str(min(part, 1 << 20)),
        "spark.sql.execution.arrow.maxRecordsPerBatch": "1000",
        "spark.sql.execution.arrow.maxBytesPerBatch": str(BATCH_BYTES),
    }


def _ordered_by(rows: DataFrame, job: Job) -> DataFrame:
    if job.order_by is None:
        return rows
    kinds = dict(rows.dtypes)
    kind = kinds.get(job.order_by)
    if kind is None:
        columns = ", ".join(name for name in kinds if not name.startswith(PREFIX))
        found = columns or "none (of files only Parquet has columns of numbers or times)"
        raise SparkError(
            f"order_by={job.order_by!r} can't be used: the input has no such column, but {found}"
        )
    column = F.col("`" + job.order_by.replace("`", "``") + "`")
    if kind in {"timestamp", "date", "timestamp_ntz"}:
        column = F.unix_micros(column.cast("timestamp"))
    elif kind not in {"tinyint", "smallint", "int", "bigint"}:
        raise SparkError(
            f"order_by={job.order_by!r} can't be used: it is of type {kind}; give a column of "
            "whole numbers or times"
        )
    return rows.withColumn(signing.BY, F.coalesce(column.cast("bigint"), F.lit(signing.LATEST)))


def _signed_schema(rows: DataFrame) -> StructType:
    """Return the schema of the kept input columns, followed by those of :data:`.signing.FIELDS`."""
    kept = [field for field in rows.schema.fields if field.name not in signing.READ]
    made = pa.schema([(PREFIX + field.name, field.type) for field in signing.FIELDS])
    own = [StructField(field.name, field.dataType) for field in kept]
    return StructType([*own, *from_arrow_schema(made).fields])


def _fingerprint(source: Source, options: Options, job: Job) -> str:
    # Left out, so that a job may go on with other values: partitions, settle and alone affect only
    # the speed, hot in large buckets also which candidates are compared.
    deciding = attrs.evolve(job, output="", partitions=0, hot=20_000, settle=1, alone=0)
    stored = "" if job.against is None else read_portable(job.against).checksum
    parts = [
        source.identity,
        stored,
        signing.FIELDS.names,
        attrs.asdict(deciding),
        attrs.asdict(attrs.evolve(options, index_url="memory:", items=())),
        Fingerprinter(options, 0).parameters,
    ]
    return fingerprint_of(parts)


def finish(steps: Steps) -> Result:
    """Make the remaining tables and return the result."""
    tables = {name: getattr(steps, name) for name in ("duplicates", "kept", "clusters", "rejects")}
    rows = steps.stages.rows
    numbers = {"read": rows("work/pages"), **{name: rows(name) for name in tables}}
    if steps.job.keep == "earliest-date":
        numbers["undated"] = steps.dates[1]
    return Result(**tables, numbers=numbers)


_ROWS = 50_000  # pages in memory at once


def write_index_file(steps: Steps, path: str | Path, key: str = "") -> Exported:
    """Write the kept pages to one file, as ``scrapy dedup export`` does.

    :param path: local; a file that exists must have the same pages, as that of a job started again
    :param key: the full hash key of the index that the file is for
    :raises DedupError: the file can't be written
    """
    names = [unquote(name) for name in steps.index.inputFiles()]
    if not key and steps.job.against is not None:
        key = read_portable(steps.job.against).parameters[HASH_KEY]
    options = steps.options
    parameters = {
        **_parameters(options), HASH_KEY: key or f"{int(options.hash_key, 16):032x}"
    }  # fmt: skip
    with PortableWriter(path, parameters) as writer:
        # The names of the parts of a sorted table are in its order.
        for name in sorted(names):
            with (
                tempfile.TemporaryDirectory() as folder,
                pq.ParquetFile(local_copy(steps.stages.session, name, Path(folder))) as file,
            ):
                for batch in file.iter_batches(_ROWS):
                    writer.write(_pages(batch, options.keep_address))
        return writer.finish(replaces=False)


def _parameters(options: Options) -> dict[str, str]:
    """Return the parameters of an index for a job, without a key."""
    method = choose_method(options)
    layout = RecordLayout(method.fields, text=options.keep_address or method.keeps_payload)
    return {**Fingerprinter(options, 0).parameters, RECORD: layout.parameter}


def _pages(batch: Any, keep_address: bool) -> Pages:
    starts, bucket_keys = flat(batch.column("slots"))
    named = batch.column("named").to_pylist()
    keys = batch.column("key").to_pylist()
    return Pages(
        to_content(batch.column("content")),
        [
            cut_address(key) if name and keep_address else None
            for key, name in zip(keys, named, strict=True)
        ],
        batch.column("payload").to_pylist(),
        np.zeros(batch.num_rows, np.uint32),
        bucket_keys.astype(np.uint64),
        starts,
    )


def with_key_of(options: Options, path: str) -> Options:
    """Return options with the hash key of an exported index, to compare pages with its pages; raise
    an :class:`IndexRefusedError` if it was made with other parameters."""
    parameters = read_portable(path).parameters
    own = dict(Fingerprinter(options, 0).parameters)
    theirs = {name: value for name, value in parameters.items() if name in own}
    lines = differences(theirs, own, "the file has")
    if lines:
        raise IndexRefusedError(
            f"the pages of {path} can't be compared with new ones, it was made with other "
            "parameters:\n  " + "\n  ".join(lines) + "\nGive the settings of the file."
        )
    return attrs.evolve(options, hash_key=f"{hash_key_of(parameters, path):x}")


async def with_key_of_index(options: Options, index: Index, against: str | None = None) -> Options:
    """Return options with the hash key of the index that a job will be loaded into.

    :param index: closed on return
    :param against: see :class:`.Job`; the job has the key of this file
    :raises OptionsError: the index does not exist yet, and ``DEDUP_HASH_KEY`` is not set
    :raises IndexRefusedError: the job could not be loaded, since the index has other parameters or
        another key than ``against``
    """
    try:
        stored = await index.attach()
    except IndexMissingError:
        if not options.hash_key:
            raise OptionsError(
                "DEDUP_HASH_KEY", options.hash_key,
                "the index does not exist yet, and a job must know its key: give a random "
                "hexadecimal number of 16 digits, the same in every run",
            ) from None  # fmt: skip
        return options
    finally:
        await index.close()
    own = _parameters(options)
    theirs = {name: value for name, value in record_parameter(stored).items() if name in own}
    lines = differences(theirs, own)
    if lines:
        raise IndexRefusedError(
            "the result can't be loaded into this index, which was made with other parameters:\n  "
            + "\n  ".join(lines)
            + "\nGive the settings of the index, or load into a new one."
        )
    key = hash_key_of(stored, "the index")
    if against is not None and hash_key_of(read_portable(against).parameters, against) != key:
        raise IndexRefusedError(
            f"the result can't be loaded into this index, which has another key than {against}: "
            "export the file from this index, or load into a new one"
        )
    return attrs.evolve(options, hash_key=f"{key:x}")


async def load(steps: Steps, index: Index) -> Imported:
    """Import the kept pages into an index as committed pages, except those that it has already.

    :param index: created if it does not exist; open on return
    :raises IndexRefusedError: it was made with other parameters or another hash key
    :raises IndexUnavailableError: it can't be reached
    """
    with tempfile.TemporaryDirectory() as folder:
        path, key = Path(folder) / "index.parquet", ""
        with contextlib.suppress(IndexRefusedError):  # the index does not exist yet
            stored = await index.attach()
            if hash_key_of(stored, "the index") == int(steps.options.hash_key, 16):
                key = stored[HASH_KEY]
        write_index_file(steps, path, key)
        return await import_index(index, path)
