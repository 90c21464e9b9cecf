"""Files as rows: JSON lines and CSV here, Parquet and WARC in modules of their own."""

from __future__ import annotations

import csv
import gzip
import io
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import attrs

from dedup_middleware.errors import DedupError

FORMATS = ("jsonl", "csv", "parquet", "warc")
_ENDINGS = {
    ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".csv": "csv", ".tsv": "csv",
    ".parquet": "parquet", ".pq": "parquet", ".warc": "warc",
}  # fmt: skip
LONGEST_LINE = 200_000_000  # bytes
_LONGEST_FIELD = 100_000_000  # characters


class BatchError(DedupError):
    """A file can't be read or written; the message names it and the way out."""


@attrs.frozen
class Row:
    """One page of a file, not understood yet.

    ``number`` counts from 1 in its file. ``raw`` is a line of JSON, or the fields as a mapping;
    ``error`` says why there is none. ``done`` are the bytes of the file read by now.
    """

    number: int
    raw: bytes | dict[str, Any]
    error: str = ""
    done: int = 0


def format_of(path: Path, chosen: str | None) -> str:
    """Format of a file, by its ending.

    :param chosen: given by the user
    :raises BatchError: the ending says nothing

    >>> format_of(Path("pages.jsonl.gz"), None)
    'jsonl'
    """
    if chosen is not None:
        return chosen
    name = path.name.lower().removesuffix(".gz")
    ending = _ENDINGS.get(Path(name).suffix)
    if ending is None:
        raise BatchError(
            f"{path}: the ending tells no format; use --format, one of {', '.join(FORMATS)}"
        )
    return ending


def read_rows(path: Path, file_format: str) -> Iterator[Row]:
    """All rows of a file.

    :raises BatchError: it can't be opened or goes wrong in the middle
    """
    try:
        yield from _reader(file_format)(path)
    except (OSError, EOFError, zlib.error, csv.Error) as error:
        raise BatchError(f"{path} can't be read: {error}") from error


def _reader(file_format: str) -> Callable[[Path], Iterator[Row]]:
    if file_format == "jsonl":
        return read_jsonl
    if file_format == "csv":
        return read_csv
    if file_format == "parquet":
        from dedup_middleware.batch.parquet import read_parquet

        return read_parquet
    from dedup_middleware.batch.warc import read_warc

    return read_warc


def _opened(raw: BinaryIO, path: Path) -> BinaryIO:
    return gzip.GzipFile(fileobj=raw) if path.name.lower().endswith(".gz") else raw  # type: ignore[return-value]


def read_jsonl(path: Path) -> Iterator[Row]:
    """Lines of JSON; empty ones are no rows."""
    with path.open("rb") as raw, _opened(raw, path) as lines:
        number = 0
        while line := lines.readline(LONGEST_LINE):
            number += 1
            if len(line) == LONGEST_LINE:
                raise BatchError(f"{path}: line {number} has more than {LONGEST_LINE:,} bytes")
            if not line.isspace():
                yield Row(number, line.rstrip(b"\r\n"), done=raw.tell())


def read_csv(path: Path) -> Iterator[Row]:
    """Rows of CSV (or TSV, by the ending) with a line of names first, in UTF-8."""
    csv.field_size_limit(min(_LONGEST_FIELD, sys.maxsize))
    delimiter = "\t" if ".tsv" in path.name.lower() else ","
    with path.open("rb") as raw, _opened(raw, path) as data:
        text = io.TextIOWrapper(data, encoding="utf-8-sig", errors="surrogateescape", newline="")
        rows = csv.reader(text, delimiter=delimiter)
        names = next(rows, None)
        if names is None:
            return
        for number, values in enumerate(rows, 1):
            if not values:
                continue
            fields = dict(zip(names, values, strict=False))
            error = ""
            if len(values) != len(names):
                error = f"it has {len(values)} fields, the first line has {len(names)}"
            elif any("\udc80" <= c <= "\udcff" for value in values for c in value):
                error = "it is not UTF-8"
            yield Row(number, fields, error, done=raw.tell())
