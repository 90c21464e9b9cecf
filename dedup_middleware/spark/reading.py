"""Reads rows from files by Spark's readers, or CSV and WARC by those of ``scrapy dedup files``.

Each row has the name of its file and its position there, so the input order (files by name, then
rows by position) does not depend on how Spark splits files.
"""

from __future__ import annotations

import io
import re
import tempfile
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial, reduce
from itertools import groupby, pairwise
from operator import itemgetter
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq
from numpy.typing import NDArray
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql.pandas.types import from_arrow_schema

from dedup_middleware.base.options import Options
from dedup_middleware.spark.columns import NO_SIEVE, batches_of, words
from dedup_middleware.spark.filesystem import (
    file_states,
    is_hidden,
    listed,
    literal,
    opened,
    qualified,
    without_links,
)
from dedup_middleware.spark.signing import (
    BASE,
    DOUBTFUL,
    FAULT,
    FILE,
    FILE_SHIFT,
    LINE,
    Source,
    check_names,
)
from dedup_middleware.spark.stages import Job, SparkError
from dedup_middleware.tools.files.rows import (
    BatchError,
    csv_rows,
    csv_text,
    delimiter_of,
    format_of,
    named_columns,
    pages_of_csv,
    read_warc,
)
from dedup_middleware.tools.portable.portable_file import (
    fingerprint_of,
    from_arrow,
    read_portable,
    schema,
    to_binary,
)

_ROWS = 64  # rows of a file in memory at once, if Python reads it
_PAGES = 1024  # fingerprints of a job in memory at once
# Most runs of a file on average: with each are read the rows before it in its row group.
_MOST_RUNS = 4
_MOST_FILES = 1 << 63 - FILE_SHIFT

Run = tuple[Path, int, int]  # rows of one file that are in the order of the job: first, end


def read_files(
    session: SparkSession,
    paths: Sequence[str],
    options: Options,
    job: Job,
    file_format: str | None = None,
) -> Source:
    """Read rows from files.

    :param paths: files, folders or patterns, at any address that Spark can read; files in the
        output folder are left out
    :param file_format: ``jsonl``, ``csv``, ``parquet`` or ``warc``; None: by the file name's ending
    :raises SparkError: no files are left, or their endings name no format or several
    """
    own = f"{without_links(qualified(session, job.output))}/"
    found: set[str] = set()
    for path in paths:
        there = listed(session, path)
        if not there:
            raise SparkError(f"there is no file at {path}: name what is to be read")
        hidden = next(filter(is_hidden, there), None)  # it was named itself
        if hidden is not None:
            raise SparkError(f"{hidden}: Spark skips such names (_x, .x, x._COPYING_): rename it")
        found.update(there)
    files = sorted(file for file in found if not without_links(file).startswith(own))
    if not files:
        raise SparkError(
            f"all files at {', '.join(paths)} are in the output folder {job.output}: name another "
            "one for the result"
        )
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
    return attrs.evolve(
        _READERS[kind](session, files, options, job),
        files=tuple(sorted(_as_spark_names_it(session, file) for file in files)),
        identity=fingerprint_of([states, kind]),
        states=states,
    )


def _as_spark_names_it(session: SparkSession, file: str) -> str:
    machine: Any = session._jvm
    return str(machine.org.apache.hadoop.fs.Path(file).toUri().toString())


def _jsonl(session: SparkSession, files: list[str], _: Options, __: Job) -> Source:
    lines = session.read.text([*map(literal, files)]).where(F.trim("value") != "")
    rows = lines.select(
        F.col("value").cast("binary").alias(LINE),
        F.col("_metadata.file_path").alias(FILE),
        F.col("_metadata.file_block_start").alias(BASE),
    )
    return Source(rows=rows, counts=True)


def _csv(session: SparkSession, files: list[str], _: Options, __: Job) -> Source:
    """Read CSV with the reader of ``scrapy dedup files``; Spark must not split the files."""
    tabs = any(delimiter_of(PurePosixPath(file).name) == "\t" for file in files)
    separator = "\t" if tabs else ","
    names, ends = _csv_names(session, files, separator)
    columns = [*((name, "string") for name in names), (FILE, "string"), (BASE, "int64")]
    schema = pa.schema([*columns, (FAULT, "string"), (DOUBTFUL, "bool")])
    if not names:
        return Source(rows=session.createDataFrame(schema.empty_table()))
    is_whole = F.col("_metadata.file_block_start") == 0
    columns_read = (
        F.when(is_whole, F.col("_metadata.file_path")).alias(FILE),
        F.col("value").cast("binary").alias(LINE),
    )
    lines = [
        session.read.text(
            [literal(file) for file in ends if ends[file] == end], lineSep=end
        ).select(*columns_read)
        for end in sorted(set(ends.values()))
    ]
    given = {_as_spark_names_it(session, file): (file, end) for file, end in ends.items()}
    read = partial(_rows_of_lines, files=given, names=names, separator=separator, schema=schema)
    return Source.made_by(read, reduce(DataFrame.unionAll, lines), schema, whole=True)


def _rows_of_lines(
    batches: Iterable[Any],
    files: Mapping[str, tuple[str, str]],
    names: list[str],
    separator: str,
    schema: Any,
) -> Iterator[Any]:
    """Parse lines of CSV to rows; for ``mapInArrow``.

    :param files: by Spark's name of each file: its name in messages, and its line ending
    :raises BatchError: a quote is never closed
    """

    def rows_of(file: str, lines: Iterable[list[bytes]]) -> Iterator[tuple[Any, ...]]:
        name, end = files[file]
        rows = csv_rows(_text(lines, end), separator, name)
        # Skips the header. If there is none, the file has changed: check_unchanged() reports that.
        next(rows, None)
        for row in pages_of_csv(rows, names, separator):
            fields: dict[str, str] = row.raw  # type: ignore[assignment]
            values = [fields.get(name, "") for name in names]
            if row.error:  # the values may not be UTF-8
                raw = (value.encode("utf-8", "surrogateescape") for value in values)
                values = [value.decode("utf-8", "replace") for value in raw]
            yield (*values, file, row.number, row.error or None, row.doubtful)

    parts = (part for batch in batches for part in _by_file(*batch.columns))
    for file, some in groupby(parts, key=itemgetter(0)):
        rows = rows_of(file, (lines for _, lines in some))
        yield from batches_of(rows, _ROWS, schema)


def _by_file(files: Any, lines: Any) -> Iterator[tuple[str, list[bytes]]]:
    """Yield consecutive lines of one file with the name of the file."""
    runs, every, start = pa.compute.run_end_encode(files), lines.to_pylist(), 0
    for file, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
        if file is None:
            raise BatchError("a file of CSV can't be read: Spark has cut it")
        yield file, every[start:end]
        start = end


def _text(parts: Iterable[list[bytes]], end: str) -> Iterator[str]:
    """Yield the lines of a file with their line endings; the last line has none. ``parts``: lists
    of lines that Spark has split at ``end``."""
    before = None
    for lines in parts:
        text = end.encode().join(lines).decode("utf-8", "surrogateescape")
        if before is None:
            before = text.removeprefix("\ufeff")
            continue
        # If rows end in CR, Spark may have cut a CR LF in two.
        line_feed = "\n" if text.startswith("\n") else ""
        yield from io.StringIO(before + end + line_feed, newline="")
        before = text.removeprefix(line_feed)
    yield from io.StringIO(before, newline="")


def _csv_names(
    session: SparkSession, files: Sequence[str], separator: str
) -> tuple[list[str], dict[str, str]]:
    """Return the column names in the header, and the line ending of each file that is not empty: LF
    (also for CR LF) or CR. Lines in cells and the header may end differently, so the first row
    after the header decides. With a wrong ending Spark would read all rows as one line.

    :raises SparkError: columns differ between files, or a name is missing, repeated or not UTF-8
    """
    first: tuple[str, list[str]] = ("", [])
    ends: dict[str, str] = {}
    for file in files:
        try:
            with csv_text(opened(session, file)) as text:
                rows = ((row, lines[-1]) for row, lines in csv_rows(text, separator, file))
                names, last = next(rows, ([], ""))
                ended = (line for row, line in rows if row and line.endswith(("\r", "\n")))
                last = next(ended, last)
            if not last:  # an empty file
                continue
            names = named_columns(names, file)
            "".join(names).encode()
        except BatchError as error:
            raise SparkError(str(error)) from None
        except UnicodeEncodeError:
            raise SparkError(
                f"{file}: its line of names is not UTF-8: {names!r:.200}; save the file as UTF-8"
            ) from None
        if first[1] and names != first[1]:
            raise SparkError(
                f"the columns of {file} ({', '.join(names)}) are not those of {first[0]} "
                f"({', '.join(first[1])}): read files with the same first line at a time"
            )
        first = first if first[1] else (file, names)
        ends[file] = "\r" if last.endswith("\r") else "\n"
    check_names(first[1])
    return first[1], ends


_UNMERGED = "CANNOT_MERGE"


def _merged(session: SparkSession, files: Sequence[str]) -> DataFrame:
    return session.read.option("mergeSchema", "true").parquet(*map(literal, files))


def _is_unmerged(session: SparkSession, files: Sequence[str], last: int) -> bool:
    """Whether the columns of the files up to number ``last`` differ in their types."""
    try:
        _merged(session, files[: last + 1])
    except (PySparkException, Py4JError) as error:
        return _UNMERGED in str(error)
    return False


def _parquet(session: SparkSession, files: list[str], _: Options, __: Job) -> Source:
    try:
        found = _merged(session, files)
    except (PySparkException, Py4JError) as error:
        if _UNMERGED not in str(error):
            raise
        # Spark does not name the file.
        number = bisect_left(range(len(files)), True, key=partial(_is_unmerged, session, files))
        types = re.search(r'types ("[^"]*" and "[^"]*")', str(error))
        found_types = "" if types is None else f" ({types[1]})"
        raise SparkError(
            f"{files[number]}: a column is of another type than in the files before it"
            f"{found_types}; repair or leave out this file"
        ) from error
    check_names(found.columns)
    rows = found.select(
        "*", F.col("_metadata.file_path").alias(FILE), F.col("_metadata.row_index").alias(BASE)
    )
    return Source(rows=rows)


def _warc(session: SparkSession, files: list[str], options: Options, job: Job) -> Source:
    names = [_as_spark_names_it(session, file) for file in files]
    schema = pa.schema([
        (options.key_field, "string"), (options.html_field, "binary"),
        (options.charset_field, "string"), (job.date_field, "string"), (FILE, "string"),
        (BASE, "int64"), (FAULT, "string"),
    ])  # fmt: skip
    # One task per file, since a WARC file can only be read from its start.
    paths = session.createDataFrame(pa.table({"path": names}))
    return Source.made_by(partial(_pages_of, schema=schema), paths.repartition(len(names)), schema)


def _pages_of(batches: Iterable[Any], schema: Any) -> Iterator[Any]:
    for batch in batches:
        for path in batch.column(0).to_pylist():
            yield from batches_of(_warc_rows(path), _ROWS, schema)


def _warc_rows(path: str) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a WARC file; if it is damaged, the last row is an error."""
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
    """Return a local path of a file; a remote file is copied into ``folder``."""
    parts = urlsplit(path)
    if parts.scheme in {"", "file"}:
        return Path(unquote(parts.path))
    from pyarrow.fs import FileSystem, copy_files

    # Arrow accepts only s3: addresses, Hadoop only s3a:.
    found, name = FileSystem.from_uri(re.sub("^s3a:", "s3:", path))
    target = folder / PurePosixPath(parts.path).name
    copy_files(name, str(target), source_filesystem=found)
    return target


_READERS = {"jsonl": _jsonl, "csv": _csv, "parquet": _parquet, "warc": _warc}


_STORED = pa.schema({
    "order": "int64", "key_hash": "int64", "simhash": "int64", "content": "binary", "key": "string",
    "slots": pa.list_(pa.int64()), "payload": "binary",
})  # fmt: skip
_ROW = "row"


def stored_pages(session: SparkSession, path: str) -> DataFrame:
    """Read the pages of an exported index, with negative orders."""
    rows = read_portable(path).rows
    names = schema().names
    table = session.read.parquet(literal(path)).select(
        *names, F.col("_metadata.row_index").alias(_ROW)
    )
    found = table.mapInArrow(partial(_with_content, rows=rows), from_arrow_schema(_STORED))
    return found.select(
        "*",
        F.col("order").alias("last"),
        F.lit(False).alias("copied"),
        F.lit(True).alias("named"),
        F.lit(None).cast("array<bigint>").alias("probes"),
        F.lit(bytearray(NO_SIEVE)).alias("sieve"),
    )


def _with_content(batches: Iterable[Any], rows: int) -> Iterator[Any]:
    wanted = schema()

    for batch in batches:
        # Spark changes the unit of times.
        columns = [batch.column(field.name).cast(field.type) for field in wanted]
        content = from_arrow(pa.RecordBatch.from_arrays(columns, schema=wanted)).content
        yield pa.RecordBatch.from_arrays(
            [
                pa.array(words(batch.column(_ROW)) - rows),
                pa.array(content["key"].astype(np.int64)),
                pa.array(content["simhash"].astype(np.int64)),
                to_binary(content),
                batch.column("address"),
                batch.column("slots"),
                batch.column("payload"),
            ],
            names=_STORED.names,
        )


def ordered_runs(files: Sequence[Path], names: Mapping[str, str]) -> Ordered | None:
    """Return all rows of files in ascending order; None if the files overlap, or reading them in
    order would take too many passes."""
    found: list[tuple[int, int, Run]] = []  # orders of the first and the last row
    for path in files:
        with pq.ParquetFile(path) as file:
            orders = words(file.read([names["order"]]).column(0))
        cuts = [0, *(np.flatnonzero(np.diff(orders) <= 0) + 1).tolist(), len(orders)]
        found += [
            (int(orders[start]), int(orders[stop - 1]), (path, start, stop))
            for start, stop in pairwise(cuts)
            if start < stop
        ]
    found.sort()
    overlap = any(last >= first for (_, last, _), (first, _, _) in pairwise(found))
    few = 0 < len(found) <= _MOST_RUNS * len(files)
    return Ordered([run for *_, run in found], names) if few and not overlap else None


@attrs.frozen
class Ordered:
    """The pages of a job in ascending order.

    :param names: for each column of :data:`.alone.EVERY` its name in the files
    """

    runs: Sequence[Run]
    names: Mapping[str, str]

    def chosen(self, orders: NDArray[np.int64], columns: Sequence[str]) -> Iterator[Any]:
        """Yield the pages with these orders, all of which exist, in non-empty batches."""
        for batch in self.batches(columns):
            # Both are sorted: find the wanted orders in the range of this batch.
            own = words(batch.column("order"))
            start, stop = np.searchsorted(orders, (own[0], own[-1] + 1))
            if start < stop:
                yield batch.take(pa.array(np.searchsorted(own, orders[start:stop])))

    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        """Yield Arrow batches of the columns, renamed to ``columns``."""
        stored = [self.names[column] for column in columns]
        for run in self.runs:
            for batch in _rows_of(*run, stored):
                yield batch.select(stored).rename_columns(list(columns))


def _rows_of(path: Path, start: int, stop: int, columns: list[str]) -> Iterator[Any]:
    # Without a buffer size, the whole row group would be in memory.
    with pq.ParquetFile(path, buffer_size=1 << 20) as file:
        at = 0
        for group in range(file.num_row_groups):
            count = file.metadata.row_group(group).num_rows
            if at + count <= start:
                at += count
                continue
            for batch in file.iter_batches(
                _PAGES, row_groups=[group], columns=columns, use_threads=False
            ):
                low, high = max(0, start - at), min(batch.num_rows, stop - at)
                if low < high:
                    yield batch.slice(low, high - low)
                at += batch.num_rows
                if at >= stop:
                    return
