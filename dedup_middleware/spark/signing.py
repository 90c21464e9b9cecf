"""Computes the fingerprints of rows in Spark's Python workers, with the crawl's Fingerprinter.

A worker loads the dictionary and the kernels once, from memory-mapped files that workers share.
"""

from __future__ import annotations

import datetime
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from hashlib import blake2b
from typing import Any

import attrs
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from dedup_middleware.base.options import Options
from dedup_middleware.methods.base import Method, content_bytes
from dedup_middleware.methods.choose import choose_method
from dedup_middleware.model.buckets import BucketKeys
from dedup_middleware.model.fingerprint import Fingerprint
from dedup_middleware.model.keys import is_content_key
from dedup_middleware.model.records import CONTENT
from dedup_middleware.spark.columns import judged_by, make_sieve, to_places
from dedup_middleware.spark.stages import SparkError
from dedup_middleware.tools.files.rows import Row
from dedup_middleware.tools.files.signing import (
    Signed,
    Signer,
    fault_of,
    fields_of,
    signer_of_worker,
)

PREFIX = "dedup_"
LINE = PREFIX + "line"  # a line of JSON
FILE, BASE, BY = PREFIX + "file", PREFIX + "base", PREFIX + "by"
FAULT = PREFIX + "fault"  # why a reader could not parse a row
DOUBTFUL = PREFIX + "doubtful"  # whether a row may contain other rows
ORDER = PREFIX + "order"
READ = (BASE, FAULT)  # input columns that the result does not have
FILE_SHIFT = 44  # a position is the number of the file, shifted by this, plus that of the row
LATEST = (1 << 63) - 1  # sorts after all dates
NOWHERE = BucketKeys.of(())
InArrow = Callable[[Iterable[Any]], Iterator[Any]]  # a function for ``mapInArrow``

_PLACES = pa.list_(pa.int64())
FIELDS = pa.schema({
    "position": "int64", "error": "string", "raw": "string", "key": "string", "named": "bool",
    "rank": "int64", "size": "int64", "content": "binary", "key_hash": "int64", "simhash": "int64",
    "twin": "binary", "slots": _PLACES, "probes": _PLACES, "payload": "binary", "sieve": "binary",
    "judged": "binary",
})  # fmt: skip
#: column names that an input must not have
TAKEN = {
    *(PREFIX + name for name in FIELDS.names), LINE, FILE, BASE, BY, FAULT, DOUBTFUL, ORDER,
}  # fmt: skip


def check_names(names: Sequence[str]) -> None:
    """Raise a :class:`SparkError` if an input column has a name that the result needs, or two have
    names that Spark can't tell apart."""
    for name, count in Counter(map(str.lower, names)).items():  # case-insensitive in Spark
        if name in TAKEN:
            raise SparkError(
                f"the input has a column {name}: rename it or leave it out, the result has one too"
            )
        if count > 1:
            raise SparkError(
                f"the input has {count} columns {name}: rename all but one; small and capital "
                "letters make no difference"
            )


@attrs.frozen(kw_only=True)
class Source:
    """An input: rows with the columns that :func:`sign` reads, and the identity of the input.

    ``given``: lines or file names as Spark reads them; ``read``: turns them into rows in the worker
    that signs them.
    """

    rows: DataFrame
    given: DataFrame | None = None
    read: InArrow | None = None
    files: tuple[str, ...] = ()
    counts: bool = False  # whether BASE is the start of a part of a file, whose rows are counted
    identity: str = ""
    states: Sequence[tuple[str, int, int]] = ()  # of the files, see :func:`.file_states`
    whole: bool = False  # files must not be split

    @classmethod
    def made_by(
        cls, read: InArrow, given: DataFrame, schema: Any, *, whole: bool = False
    ) -> Source:
        """Return a source whose rows, with this schema, ``read`` makes from ``given``."""
        rows = given.mapInArrow(read, from_arrow_schema(schema))
        return cls(rows=rows, given=given, read=read, whole=whole)


@attrs.frozen
class Task:
    """The parameters of a worker; ``counts`` and ``read``: see :class:`Source`."""

    columns: tuple[str, ...]  # names of the input columns
    options: Options
    keep: str
    date_field: str
    files: Mapping[str, int]  # number of each file, by which rows are ordered
    counts: bool
    read: InArrow | None = None


def sign(batches: Iterable[Any], task: Task) -> Iterator[Any]:
    """Append :data:`FIELDS` to the input columns; for ``mapInArrow``."""
    signer = signer_of_worker(task.options, task.keep == "longest")
    method = choose_method(task.options)
    counts: Counter[tuple[str, int]] = Counter()
    for unnamed in batches if task.read is None else task.read(batches):
        batch = unnamed.rename_columns(task.columns)
        found = [_row(signer, method, task, row) for row in _rows(batch, task)]
        kept = [name for name in batch.schema.names if name not in READ]
        columns = [batch.column(name) for name in kept]
        positions = _positions(batch, task, counts)
        for i, kind in enumerate(FIELDS.types):
            values: list[Any] = positions if i == 0 else [values[i - 1] for values in found]
            columns.append(to_places(values) if pa.types.is_list(kind) else pa.array(values, kind))
        names = [*kept, *(PREFIX + name for name in FIELDS.names)]
        yield pa.RecordBatch.from_arrays(columns, names=names)


def _positions(batch: Any, task: Task, counts: Counter[tuple[str, int]]) -> list[int]:
    """Return the positions of rows; ``counts``: rows so far by file and part."""
    bases: list[int] = batch.column(BASE).to_pylist()
    if not task.files:
        return bases
    positions = []
    for name, base in zip(batch.column(FILE).to_pylist(), bases, strict=True):
        positions.append((task.files[name] << FILE_SHIFT) + base + counts[name, base])
        if task.counts:
            counts[name, base] += 1
    return positions


def _rows(batch: Any, task: Task) -> Iterator[tuple[Row, Any]]:
    """Yield rows with the fields that the signer reads, and their dates."""
    options = task.options
    faults: list[str | None] = [None] * batch.num_rows
    if FAULT in batch.schema.names:
        faults = batch.column(FAULT).to_pylist()
    wanted = {
        options.key_field, options.text_field, options.html_field, options.title_field,
        options.charset_field, task.date_field,
    }  # fmt: skip
    if LINE in batch.schema.names:
        for i, line in enumerate(batch.column(LINE).to_pylist()):
            yield Row(i, line or b""), None
        return
    columns: dict[str, list[Any]] = {}
    for name in batch.schema.names:
        if name not in wanted:
            continue
        columns[name], unread = _values(batch.column(name))
        if name != task.date_field:  # a date affects only the order
            for i, error in unread.items():
                faults[i] = faults[i] or f"field {name!r} can't be read: {error}"
    for i, fault in enumerate(faults):
        fields = {name: values[i] for name, values in columns.items()}
        yield Row(i, fields, fault or ""), fields.get(task.date_field)


def _values(column: Any) -> tuple[list[Any], dict[int, str]]:
    """Return the values of a column, and by row the errors of those that Python can't hold: text
    that is not UTF-8, years beyond 9999."""
    try:
        return column.to_pylist(), {}
    except (ValueError, OverflowError):
        values, unread = [], {}
    for i, value in enumerate(column):
        try:
            values.append(value.as_py())
        except (ValueError, OverflowError) as error:
            values.append(None)
            unread[i] = str(error)
    return values, unread


def _row(signer: Signer, method: Method, task: Task, given: tuple[Row, Any]) -> tuple[Any, ...]:
    row, date = given
    try:
        signed = signer(row)
        if signed.page is not None:
            return _signed(signed, signed.page, method, _rank(task, signed, row, date))
        error = signed.error
    except Exception as fault:
        error = fault_of(fault)
    raw, error = (one.encode("utf-8", "replace").decode() for one in (row.shown, error))
    return (error, raw, None, False, 0, 0, None, 0, 0, None, NOWHERE, NOWHERE, None, None, None)


def _signed(signed: Signed, page: Fingerprint, method: Method, rank: int) -> tuple[Any, ...]:
    content = content_bytes(page)
    start = CONTENT.fields["key"][1]  # type: ignore[index]
    keyless = content[:start] + bytes(8) + content[start + 8 :]  # equal for exact copies
    probes = method.probes(page)
    return (
        None,
        None,
        signed.key.encode("utf-8", "replace").decode(),
        not is_content_key(signed.key),
        rank,
        page.size,
        content,
        _signed64(page.key_hash),
        _signed64(page.simhash or 0),
        blake2b(keyless + page.payload, digest_size=16).digest(),
        method.bucket_key_array(page),
        BucketKeys.of(probes) if probes else NOWHERE,
        page.payload,
        make_sieve(method, page),
        judged_by(method, page),
    )


def _signed64(value: int) -> int:
    """Reinterpret 64 bits as a signed integer: Spark has no unsigned ones."""
    return value - (1 << 64) if value >> 63 else value


def _rank(task: Task, signed: Signed, row: Row, date: Any) -> int:
    if task.keep == "longest":
        return -len(signed.text or "")
    if task.keep == "earliest-date":
        if isinstance(row.raw, bytes):
            date = fields_of(row).get(task.date_field)
        return moment(date)
    return 0


# Written out, as Python 3.10 parses less than later versions: no Z, +0800, 20240102 or nanoseconds.
_DATE = re.compile(
    r"(\d{4})(-?)(\d\d)\2(\d\d)"
    r"(?:[Tt_ ](\d\d)(?::?(\d\d)(?::?(\d\d)(?:[.,](\d+))?)?)?)?\s*([Zz]|[+-][\d:.]+)?",
    re.ASCII,
)
_SECONDS = re.compile(r"\s*-?\d{9,11}(?:\.\d+)?\s*", re.ASCII)  # nine digits are no day
_ZONE = re.compile(r"([+-])(\d\d)(?::?(\d\d)(?::?(\d\d)(?:\.\d+)?)?)?", re.ASCII)


def _parsed(text: str) -> datetime.datetime | None:
    """Parse an ISO date or time; None if it is none. Digits after microseconds are cut off."""
    found = _DATE.fullmatch(text.strip())
    if found is None:
        return None
    year, _, month, day, hour, minute, second, part, place = found.groups()
    zone = _ZONE.fullmatch("+00" if place is None or place in "Zz" else place)
    if zone is None:
        return None
    hours, minutes, seconds = (int(zone[i] or 0) for i in (2, 3, 4))
    offset = datetime.timedelta(hours=hours, minutes=minutes, seconds=seconds)
    try:
        return datetime.datetime(
            int(year), int(month), int(day), int(hour or 0), int(minute or 0), int(second or 0),
            int(f"{part or 0:0<6}"[:6]),
            datetime.timezone(-offset if zone[1] == "-" else offset),
        )  # fmt: skip
    except ValueError:
        return None


def moment(date: Any) -> int:
    """Convert a date of an input file to microseconds since 1970, or to LATEST if it is not valid.

    >>> moment("1970-01-02"), moment(1.5), moment("1700000000"), moment("soon") == LATEST
    (86400000000, 1500000, 1700000000000000, True)
    """
    if isinstance(date, (list, tuple)) and len(date) == 1:  # as item loaders leave it
        date = date[0]
    if isinstance(date, bytes):
        date = date.decode("ascii", "replace")
    if isinstance(date, str):
        date = float(date) if _SECONDS.fullmatch(date) else _parsed(date)
    elif isinstance(date, Decimal):
        date = float(date)
    elif isinstance(date, datetime.date) and not isinstance(date, datetime.datetime):
        date = datetime.datetime(date.year, date.month, date.day)
    if isinstance(date, datetime.datetime):
        zone = date if date.tzinfo else date.replace(tzinfo=datetime.timezone.utc)
        date = zone.timestamp()
    if isinstance(date, (int, float)) and not isinstance(date, bool) and abs(date) < 1e12:
        return int(date * 1_000_000)
    return LATEST
