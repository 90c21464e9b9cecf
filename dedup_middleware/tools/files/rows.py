"""Readers of rows: JSON lines, CSV, Parquet (by pyarrow) and WARC (by warcio).

Parquet files may come from strangers, so the memory that a file needs is computed before it is
decompressed (:mod:`.parquetpages`). The longest values in the file bound this memory.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
import zlib
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO, Final

import attrs

from dedup_middleware.base.errors import DedupError, extra_needed
from dedup_middleware.base.settingfields import FieldNames
from dedup_middleware.text.decode import codec_of, decode
from dedup_middleware.tools.portable.parquetpages import BYTE_ARRAY, read_groups

_ENDINGS = {
    ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".csv": "csv", ".tsv": "csv",
    ".parquet": "parquet", ".pq": "parquet", ".warc": "warc",
}  # fmt: skip
# Endings and first bytes of other compressed formats; Brotli has no fixed first bytes. The last
# four: LZ4 by -l, Zstandard by pzstd, and ZIP that is empty or in several parts.
_OTHERWISE_PACKED = {".bz2", ".xz", ".lzma", ".zst", ".zip", ".7z", ".lz4", ".br"}
_PACKED_BEGIN = (
    b"BZh", b"\xfd7zXZ\0", b"]\0\0", b"\x28\xb5\x2f\xfd", b"PK\3\4", b"7z\xbc\xaf",
    b"\x04\x22\x4d\x18", b"\x02\x21\x4c\x18", b"\x50\x2a\x4d\x18", b"PK\5\6", b"PK\7\x08",
)  # fmt: skip
LONGEST_LINE = 200_000_000  # bytes
_LONGEST_FIELD = 100_000_000  # characters
_SHOWN = 1000  # characters shown of a rejected row


class BatchError(DedupError):
    """A file can't be read or written; the message names it and the fix."""


@attrs.frozen
class Row:
    """One page of a file, not parsed yet."""

    number: int  # from 1 within the file
    raw: bytes | dict[str, Any]  # a line of JSON, or fields
    error: str = ""  # the reason if there is no page
    done: int = 0  # bytes of the file read so far
    doubtful: bool = False  # it may contain other rows

    @property
    def shown(self) -> str:
        """The start of the row, for people who look for the error in it."""
        raw = self.raw.decode("utf-8", "replace") if isinstance(self.raw, bytes) else repr(self.raw)
        return raw[:_SHOWN]


def format_of(path: Path, chosen: str | None) -> str:
    """Return the format of a file by its ending.

    >>> format_of(Path("pages.jsonl.gz"), None)
    'jsonl'
    """
    if chosen is not None:
        return chosen
    name = path.name.lower().removesuffix(".gz")
    ending = _ENDINGS.get(Path(name).suffix)
    if ending is None:
        raise BatchError(
            f"{path}: the ending names no format; use --format, one of {', '.join(FORMATS)}"
        )
    return ending


def formats_of(paths: Sequence[Path], chosen: str | None) -> list[str]:
    """Return the formats of existing files, see :func:`format_of`.

    :raises BatchError: a file is compressed by anything but gzip
    """
    for path in paths:
        if not path.is_file():
            raise BatchError(f"{path} is no file: name files that exist, no folders")
        if _is_packed_otherwise(path):
            raise BatchError(
                f"{path}: only gzip compression (.gz) is supported: decompress the file or use "
                "gzip; if it is not compressed, rename it"
            )
    return [format_of(path, chosen) for path in paths]


def _is_packed_otherwise(path: Path) -> bool:
    ending = path.suffix.lower()
    if ending not in _OTHERWISE_PACKED:
        return False
    try:
        with path.open("rb") as file:
            return ending == ".br" or file.read(8).startswith(_PACKED_BEGIN)
    except OSError:
        return False  # read_rows() reports the error


def read_rows(
    path: Path, file_format: str, names: FieldNames | None = None
) -> Generator[Row, None, None]:
    """Yield all rows of a file.

    :param names: of the fields of pages in WARC, which has none; None: see :func:`read_warc`
    :raises BatchError: it can't be read, is gone, or has become shorter
    """
    try:
        size = path.stat().st_size
        rows = _READERS[file_format](path)
        if file_format == "warc" and names is not None:
            rows = (_renamed(row, names) for row in rows)
        yield from rows
        if not path.is_file() or path.stat().st_size < size:
            raise BatchError(
                f"{path} has changed while it was read: start again once it no longer changes"
            )
    except (OSError, EOFError, zlib.error) as error:
        raise BatchError(f"{path} can't be read: {error}") from error


def _opened(raw: BinaryIO, path: Path) -> BinaryIO:
    return gzip.GzipFile(fileobj=raw) if path.name.lower().endswith(".gz") else raw  # type: ignore[return-value]


#: a list that continues on the next line; a list on one line is a rejected row
_LIST = re.compile(rb"\s*\[\s*(\{.*,\s*)?$", re.DOTALL)


def read_jsonl(path: Path) -> Iterator[Row]:
    """Yield the non-empty lines of a JSON lines file."""
    with path.open("rb") as raw, _opened(raw, path) as lines:
        number, is_first = 0, True
        while line := lines.readline(LONGEST_LINE):
            number += 1
            if number == 1:
                line = line.removeprefix(codecs.BOM_UTF8)
            if is_first and not line.isspace():
                is_first = False
                if _LIST.match(line):
                    raise BatchError(
                        f"{path} is one list, as Scrapy writes .json: write .jsonl, or convert it, "
                        "as by jq -c '.[]'"
                    )
            if len(line) == LONGEST_LINE:
                raise BatchError(f"{path}: line {number} has more than {LONGEST_LINE:,} bytes")
            if line and not line.isspace():  # a byte order mark alone leaves nothing
                yield Row(number, line.rstrip(b"\r\n"), done=raw.tell())


def read_csv(path: Path) -> Iterator[Row]:
    """Yield rows of UTF-8 CSV (or TSV, by the ending) below its header."""
    with path.open("rb") as raw, csv_text(_opened(raw, path)) as text:
        delimiter = delimiter_of(path.name)
        rows = csv_rows(text, delimiter, str(path))
        names, _ = next(rows, (None, ()))
        if names is None:
            return
        names = named_columns(names, str(path))
        _check_names(path, names)
        for row in pages_of_csv(rows, names, delimiter):
            yield attrs.evolve(row, done=raw.tell())


def delimiter_of(name: str) -> str:
    """Return the delimiter of a CSV file by its name."""
    return "\t" if ".tsv" in name.lower() else ","


def pages_of_csv(
    rows: Iterable[tuple[list[str], list[str]]], names: Sequence[str], delimiter: str
) -> Iterator[Row]:
    """Yield pages from the rows of :func:`csv_rows` after the header."""
    for number, (values, lines) in enumerate(rows, 1):
        if not values:
            continue
        fields: dict[str, Any] = dict(zip(names, values, strict=False))
        if len(values) > len(names):
            fields[""] = values[len(names) :]  # shown among the rejected rows
        error = ""
        if len(values) != len(names):
            error = f"it has {len(values)} fields, the first line has {len(names)}"
        elif len(lines) > 1 and not _is_standard(lines, delimiter):
            error = (
                f"a quote is within a field, so that it is not known which of {len(lines):,} lines "
                "are one row"
            )
        elif any(map(_NO_UTF8.search, values)):
            error = "it is not UTF-8"
        doubtful = len(lines) > 1 and _may_hold_rows(lines, delimiter, len(names))
        yield Row(number, fields, error, doubtful=doubtful)


_ADDRESS = re.compile(r"https?://\S+")


def _may_hold_rows(lines: Sequence[str], delimiter: str, columns: int) -> bool:
    """Whether a line within a row has as many fields as a row, and a URL where the row has one."""
    first, *others = (line.split(delimiter) for line in lines)
    places = [place for place, value in enumerate(first) if _ADDRESS.fullmatch(value)]
    return any(
        len(values) == columns and any(_ADDRESS.match(values[place]) for place in places)
        for values in others
    )


def _is_standard(lines: Iterable[str], delimiter: str) -> bool:
    """Whether every field of a row that begins with a quote ends with one."""
    try:
        return bool(list(csv.reader(lines, delimiter=delimiter, strict=True)))
    except csv.Error:
        return False


_NO_UTF8 = re.compile("[\udc80-\udcff]")


def csv_text(data: BinaryIO) -> io.TextIOWrapper:
    """Open CSV as UTF-8 text; invalid bytes become lone surrogates."""
    return io.TextIOWrapper(data, encoding="utf-8-sig", errors="surrogateescape", newline="")


_ZERO = "\ud800"  # replaces a zero byte, which Python 3.10 can't read; no UTF-8 text has it


def csv_rows(
    text: Iterable[str], delimiter: str, name: str
) -> Iterator[tuple[list[str], list[str]]]:
    """Yield the values and the lines of each CSV row, the header first.

    :raises BatchError: a value is too long, or a quote never closed (the rest would be one row)
    """
    csv.field_size_limit(_LONGEST_FIELD)
    lines: list[str] = []
    has_zeros = has_ended = False

    def lines_of() -> Iterator[str]:
        nonlocal has_zeros, has_ended
        for line in text:
            lines.append(line)
            has_zeros = has_zeros or "\0" in line
            yield line.replace("\0", _ZERO)
        has_ended = True

    try:
        for number, values in enumerate(csv.reader(lines_of(), delimiter=delimiter)):
            # The reader takes several lines for one row only within a quote.
            if len(lines) > 1 and has_ended:
                place = f"row {number}" if number else "the first line"
                raise BatchError(f"{name}: the quote that {place} opens is never closed")
            yield (
                [value.replace(_ZERO, "\0") for value in values] if has_zeros else values,
                lines,
            )
            has_zeros = False
            lines.clear()
    except csv.Error as error:
        raise BatchError(f"{name} can't be read: {error}") from error


def named_columns(names: list[str], file: str) -> list[str]:
    """Return column names. Several empty names, which spreadsheets write after the last column,
    become "column 7" by their places.

    :raises BatchError: the first line of the file is blank
    """
    if not "".join(names).strip():
        raise BatchError(
            f"{file}: the first line is blank: remove it, so that the names of the columns come "
            "first"
        )
    if names.count("") < 2:
        return names
    return [name or f"column {place}" for place, name in enumerate(names, 1)]


def _check_names(path: Path, names: list[str]) -> None:
    """Refuse column names that are repeated or not UTF-8, since a column would be lost."""
    for name, count in Counter(names).items():
        if count > 1:
            raise BatchError(f"{path}: the column {name!r} is there {count} times: rename one")
        if _NO_UTF8.search(name):
            raise BatchError(
                f"{path}: the line of names is not UTF-8: {name!r}; save the file as UTF-8"
            )


_ROWS: Final = 1024  # in memory at once
_FEWER_ROWS: Final = 16  # the same for row groups with long texts
_LONG: Final = 1 << 28  # bytes of texts from which a row group counts as long
# Values in the lists of a group: a million, or 64 for each byte that they take in the file.
_VALUES: Final = 1 << 20
_VALUES_A_BYTE: Final = 64


def read_parquet(path: Path) -> Iterator[Row]:
    """Yield rows with the columns as fields.

    :raises BatchError: pyarrow is missing, or the file is damaged or would need too much memory
    """
    with extra_needed(f"{path}: reading Parquet needs pyarrow", "parquet", BatchError):
        parquet = import_module("pyarrow.parquet")
        pyarrow = import_module("pyarrow")
    faults = (
        pyarrow.ArrowException, OSError, ValueError, MemoryError, RecursionError, OverflowError,
        LookupError,
    )  # fmt: skip
    try:
        with parquet.ParquetFile(path) as file:
            total = file.metadata.num_rows
            _check_names(path, file.schema_arrow.names)
            if not total:
                return
        groups, texts = _check(path)
        with parquet.ParquetFile(
            path, read_dictionary=sorted(texts), pre_buffer=False, buffer_size=1 << 20
        ) as file:
            size = path.stat().st_size
            number = 0
            for group, rows in enumerate(groups):
                for batch in file.iter_batches(batch_size=rows, row_groups=[group]):
                    # In a damaged file, values may refer to entries that its dictionary lacks.
                    batch.validate(full=True)
                    for fields in _fields(batch, pyarrow):
                        number += 1
                        yield Row(number, fields, done=size * number // total)
    except faults as error:
        raise BatchError(f"{path} can't be read: {error}") from error


def _check(path: Path) -> tuple[list[int], set[int]]:
    """Return how many rows of each group to read at once, and columns with dictionaries."""
    at_once = []
    dictionaries: set[int] = set()
    with path.open("rb") as raw:
        groups = read_groups(raw)
    for group in groups:
        texts = 0
        for place, chunk in enumerate(group.chunks):
            # Other programs write Parquet pages of 1 MB, or of one value if that is longer.
            if chunk.largest > LONGEST_LINE:
                raise ValueError(
                    f"a part of the column {chunk.name} takes {chunk.largest:,} bytes in memory, "
                    f"more than the {LONGEST_LINE:,} allowed: write it in shorter values"
                )
            # One value per row; in lists more.
            most = group.rows
            if chunk.repeated:
                most += max(_VALUES, _VALUES_A_BYTE * chunk.packed)
            if chunk.values > most:
                raise ValueError(
                    f"the column {chunk.name} holds {chunk.values:,} values in {chunk.packed:,} "
                    f"bytes, more than the {most:,} allowed: leave it out"
                )
            if chunk.kind == BYTE_ARRAY:
                texts += chunk.size
                if chunk.dictionary:
                    dictionaries.add(place)
        at_once.append(_ROWS if texts <= _LONG else _FEWER_ROWS)
    return at_once, dictionaries


def _fields(batch: Any, pyarrow: Any) -> Iterator[dict[str, Any]]:
    """Convert the rows of a batch to dictionaries."""
    names, columns = batch.schema.names, []
    for name, column in zip(names, batch.columns, strict=True):
        try:
            columns.append(_values(column, pyarrow.types))
        except (ValueError, OverflowError) as error:
            raise ValueError(f"column {name!r}: {error}") from error
    for row in zip(*columns, strict=True):
        yield dict(zip(names, row, strict=True))


def _values(array: Any, types: Any) -> list[Any]:
    """Convert an array to values; equal dictionary entries become one object."""
    kind = array.type
    if types.is_dictionary(kind):
        values = [*array.dictionary.to_pylist(), None]
        return [values[-1 if place is None else place] for place in array.indices.to_pylist()]
    if types.is_list(kind) or types.is_large_list(kind):
        values, start, lists = _values(array.flatten(), types), 0, []
        for length in array.value_lengths().to_pylist():
            lists.append(None if length is None else values[start : start + length])
            start += length or 0
        return lists
    if types.is_struct(kind) and kind.num_fields:
        names = [field.name for field in kind]
        rows = zip(*(_values(column, types) for column in array.flatten()), strict=True)
        return [
            dict(zip(names, row, strict=True)) if is_there else None
            for is_there, row in zip(array.is_valid().to_pylist(), rows, strict=True)
        ]
    try:
        found: list[Any] = array.to_pylist()
    except (ValueError, OverflowError):
        if not types.is_temporal(kind):
            raise
        found = [*map(_time, array)]
    return found


def _time(value: Any) -> Any:
    """Convert a date or time; the result is text if Python's dates don't have its year."""
    try:
        return value.as_py()
    except (ValueError, OverflowError):
        return value.cast("string").as_py()


LARGEST_PAGE = 50_000_000  # bytes
_LOOKED_AT = 1000  # bytes of a page
_CONTROLS = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f]")  # rare in text
_CONTROLS_IN = 50  # one in so many characters is allowed; compressed data have one in ten
_CHARSET = re.compile(r"(?:^|;)\s*charset\s*=([^;]+)", re.IGNORECASE)
_PACKED = b"\x1f\x8b"  # first bytes of gzip
_HTML = ("text/html", "application/xhtml+xml", "application/xml", "text/xml", "text/plain")


def read_warc(path: Path) -> Iterator[Row]:
    """Yield the HTML responses with status 200; other records are skipped.

    Fields: ``url``, ``html`` (bytes), ``charset`` and ``date``.

    :raises BatchError: warcio is missing, or the file is no WARC
    """
    with extra_needed(f"{path}: reading WARC needs warcio", "warc", BatchError):
        archive = import_module("warcio.archiveiterator")
        failure = import_module("warcio.exceptions").ArchiveLoadFailed
    number = 0
    with path.open("rb") as raw:
        try:
            # Also reads ARC, the predecessor of WARC, and converts its headers.
            for record in archive.ArchiveIterator(raw, arc2warc=True):
                headers = record.http_headers
                if record.rec_type != "response" or headers is None:
                    continue
                kind, _, parameters = (headers.get_header("Content-Type") or "").partition(";")
                if headers.get_statuscode() != "200" or kind.strip().lower() not in _HTML:
                    continue
                number += 1
                url = record.rec_headers.get_header("WARC-Target-URI") or ""
                error = ""
                try:
                    content = record.content_stream()
                    page = content.read(LARGEST_PAGE + 1)
                except Exception as fault:  # raised by warcio or by decompression
                    page, error = b"", f"its content can't be read: {fault}"
                coding, named = headers.get_header("Content-Encoding"), _CHARSET.search(parameters)
                charset = named[1].strip().strip("\"'") if named else None
                if coding and not error and _is_coded(page, coding, charset, content):
                    page, error = b"", f"its content can't be read: it is coded as {coding!r}"
                if len(page) > LARGEST_PAGE:
                    page, error = b"", f"the page has more than {LARGEST_PAGE:,} bytes"
                stream = record.raw_stream
                while stream.read(1 << 16):
                    pass
                missing = int(getattr(stream, "limit", 0))  # announced in the record's header
                if missing > 0:
                    raise BatchError(f"{path} is cut short: {missing} bytes of {url} are missing")
                fields = {
                    "url": url.strip("<>"),
                    "html": page,
                    "charset": charset,
                    "date": record.rec_headers.get_header("WARC-Date"),
                }
                error = error or ("" if page else "the page is empty")
                yield Row(number, fields, error, done=raw.tell())
        except (failure, AttributeError, EOFError, OSError, ValueError, zlib.error) as fault:
            # warcio raises any of these if a record has no address or is cut within its header.
            raise BatchError(f"{path} can't be read: record {number + 1}: {fault}") from fault


def _renamed(row: Row, names: FieldNames) -> Row:
    """Return a row of WARC with the field names of the settings."""
    fields = dict(row.raw)  # type: ignore[arg-type]
    given = {"html": names.html, "charset": names.charset, "url": names.key}
    renamed = {name: fields.pop(own) for own, name in given.items() if name is not None}
    return attrs.evolve(row, raw=fields | renamed)


def _is_coded(page: bytes, coding: str, charset: str | None, content: Any) -> bool:
    """Whether a page is still encoded although its ``Content-Encoding`` should have been undone.

    Headers also name charsets as encodings, and encodings that the archiver has undone already.

    :param content: the stream that the page was read from
    """
    if coding.strip().lower() in {"identity", "none"} or codec_of(coding) is not None:
        return False
    if page.startswith(_PACKED):
        return True
    # warcio leaves a page as it is if it does not know the encoding or can't undo it.
    if getattr(content, "decompressor", None) is not None:
        return False
    text = decode(page[:_LOOKED_AT], charset).text
    return len(_CONTROLS.findall(text)) * _CONTROLS_IN > len(text)


_READERS = {"jsonl": read_jsonl, "csv": read_csv, "parquet": read_parquet, "warc": read_warc}
FORMATS = tuple(_READERS)
