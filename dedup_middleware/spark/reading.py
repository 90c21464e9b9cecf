"""Files to rows, by Spark's own readers; WARC by the reader of ``scrapy dedup files``.

Each row has its file and its place in it, so that the order of the input does not depend on how
Spark cuts it up: files by name, rows in their order.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql.pandas.types import from_arrow_schema

from dedup_middleware.base.options import Options
from dedup_middleware.spark.job import Source
from dedup_middleware.spark.job_settings import Job, SparkError
from dedup_middleware.spark.signing import BASE, FAULT, FILE, FILE_SHIFT, LINE
from dedup_middleware.spark.stages import file_states, fingerprint_of, listed
from dedup_middleware.tools.files.rows import BatchError, format_of, read_warc

_ROWS = 64  # pages of a WARC file in memory at once
_MOST_FILES = 1 << 63 - FILE_SHIFT
_MALFORMED = "its fields do not fit the names in the first line"
Read = Callable[[SparkSession, list[str], Options, Job], DataFrame]


def read_files(
    session: SparkSession,
    paths: Sequence[str],
    options: Options,
    job: Job,
    file_format: str | None = None,
) -> Source:
    """The rows of files.

    :param paths: files, folders or patterns, at any address that Spark can read
    :param file_format: one of ``jsonl``, ``csv``, ``parquet``, ``warc``; None: by the ending
    :raises SparkError: there are no such files, or their endings name no format or several
    """
    files = sorted({file for path in paths for file in listed(session, path)})
    if not files:
        raise SparkError(f"there are no files at {', '.join(paths)}: name what is to be read")
    if len(files) >= _MOST_FILES:
        raise SparkError(f"{len(files):,} files are too many: put them together into fewer")
    try:
        formats = {format_of(Path(PurePosixPath(file)), file_format) for file in files}
    except BatchError as error:
        raise SparkError(str(error)) from error
    if len(formats) > 1:
        raise SparkError(
            f"the files are of several formats ({', '.join(sorted(formats))}): read one at a time"
        )
    (kind,) = formats
    states = file_states(session, files)
    return Source(
        rows=_READERS[kind](session, files, options, job),
        files=tuple(sorted(_as_spark_names_it(session, file) for file in files)),
        counts=kind in {"jsonl", "csv"},
        identity=fingerprint_of(states, kind),
        bytes=sum(size for _, size, _ in states),
    )


def _as_spark_names_it(session: SparkSession, file: str) -> str:
    machine: Any = session._jvm
    return str(machine.org.apache.hadoop.fs.Path(file).toUri().toString())


def _jsonl(session: SparkSession, files: list[str], _: Options, __: Job) -> DataFrame:
    lines = session.read.text(files).where(F.trim("value") != "")
    return lines.select(
        F.col("value").cast("binary").alias(LINE),
        F.col("_metadata.file_path").alias(FILE),
        F.col("_metadata.file_block_start").alias(BASE),
    )


def _csv(session: SparkSession, files: list[str], _: Options, __: Job) -> DataFrame:
    tabs = any(".tsv" in PurePosixPath(file).name.lower() for file in files)
    options: dict[str, Any] = {
        "header": True, "multiLine": True, "escape": '"', "sep": "\t" if tabs else ",",
        "enforceSchema": True, "columnNameOfCorruptRecord": FAULT,
    }  # fmt: skip
    names = session.read.options(**options).csv(files[:1]).columns
    schema = ", ".join(f"`{name}` string" for name in [*names, FAULT])
    rows = session.read.options(**options).schema(schema).csv(files)
    malformed = F.when(F.col(FAULT).isNotNull(), F.lit(_MALFORMED))
    return rows.select(
        *(F.coalesce(F.col(f"`{name}`"), F.lit("")).alias(name) for name in names),
        malformed.alias(FAULT),
        F.col("_metadata.file_path").alias(FILE),
        F.col("_metadata.file_block_start").alias(BASE),
    )


def _parquet(session: SparkSession, files: list[str], _: Options, __: Job) -> DataFrame:
    rows = session.read.parquet(*files)
    return rows.select(
        "*",
        F.col("_metadata.file_path").alias(FILE),
        F.col("_metadata.row_index").alias(BASE),
    )


def _warc(session: SparkSession, files: list[str], options: Options, job: Job) -> DataFrame:
    names = [_as_spark_names_it(session, file) for file in files]
    schema = pa.schema(
        [
            (options.key_field, pa.string()),
            (options.html_field, pa.binary()),
            (options.charset_field, pa.string()),
            (job.date_field, pa.string()),
            (FILE, pa.string()),
            (BASE, pa.int64()),
            (FAULT, pa.string()),
        ]
    )
    # One task a file: it can only be read from its beginning.
    paths = session.createDataFrame(pa.table({"path": names}))
    return paths.repartition(len(names)).mapInArrow(_pages_of(schema), from_arrow_schema(schema))


def _pages_of(schema: Any) -> Callable[[Iterable[Any]], Iterator[Any]]:
    def work(batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            for path in batch.column(0).to_pylist():
                rows: list[tuple[Any, ...]] = []
                for row in _warc_rows(path):
                    rows.append(row)
                    if len(rows) == _ROWS:
                        yield _batch(rows, schema)
                        rows = []
                if rows:
                    yield _batch(rows, schema)

    return work


def _batch(rows: list[tuple[Any, ...]], schema: Any) -> Any:
    columns = zip(*rows, strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _warc_rows(path: str) -> Iterator[tuple[Any, ...]]:
    """Rows of a WARC file; where it is damaged, the last one is an error."""
    number = 0
    with tempfile.TemporaryDirectory() as folder:
        try:
            for row in read_warc(_local(path, Path(folder))):
                number = row.number
                fields: dict[str, Any] = row.raw  # type: ignore[assignment]
                yield (
                    fields["url"], fields["html"], fields["charset"], fields["date"], path, number,
                    row.error or None,
                )  # fmt: skip
        except (BatchError, OSError, EOFError, ValueError) as error:
            yield (None, None, None, None, path, number + 1, f"the rest of the file: {error}")


def _local(path: str, folder: Path) -> Path:
    """A file on this machine; one that is elsewhere is brought here."""
    parts = urlsplit(path)
    if parts.scheme in {"", "file"}:
        return Path(unquote(parts.path))
    from pyarrow.fs import FileSystem, copy_files

    found, name = FileSystem.from_uri(path)
    target = folder / PurePosixPath(parts.path).name
    copy_files(name, str(target), source_filesystem=found)
    return target


_READERS: dict[str, Read] = {"jsonl": _jsonl, "csv": _csv, "parquet": _parquet, "warc": _warc}
