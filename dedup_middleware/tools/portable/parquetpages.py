"""Computes how much memory a Parquet file needs, before any of it is decompressed.

A few kilobytes can expand to gigabytes: a page that unpacks to 2 GB, a dictionary with one huge
value that every row refers to, a run that repeats one value a billion times. Sizes in the footer
may be wrong, so every page header is read as well: pyarrow allocates the size in it, and does not
expose the header. The footer is not read with pyarrow either, which crashes on a column whose
description is damaged.

The format is Thrift's compact protocol, and ``FileMetaData`` and ``PageHeader`` of
https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final

import attrs

from dedup_middleware.index.pages import MOST_BUCKET_KEYS

PLAIN: Final = frozenset({0})
BY_DICTIONARY: Final = frozenset({2, 8})  # encodings whose values are dictionary indices
INT64, BYTE_ARRAY = 2, 6  # physical types of columns
_DATA, _DICTIONARY, _DATA_2 = 0, 2, 3  # types of pages
_HEAD = 1 << 16  # bytes read at first for a page header
_LONGEST_HEAD = 1 << 20
_DEEPEST = 10
_INT32, _INT64 = 1 << 31, 1 << 63
_REPEATED = 2
_DAMAGED = "the description of its columns is damaged"
# Least bytes of a dictionary value, by type: int32, int64, int96, float, double, byte array.
_LEAST = {1: 4, INT64: 8, 3: 12, 4: 4, 5: 8, BYTE_ARRAY: 4}
# Types of Thrift values.
_I32, _I64, _TEXT, _LIST, _STRUCT = 5, 6, 8, 9, 12

# Type and value of each field by its number. A value is an integer, bytes, a struct, a list that
# begins with the type of its elements, or None for all others.
_Struct = dict[int, tuple[int, Any]]


@attrs.frozen
class Chunk:
    """A column chunk: the pages of one column in one row group, as their headers describe them."""

    name: str  # full path of the column
    kind: int  # physical type
    repeated: bool  # a row may have several values
    values: int  # including nulls
    packed: int  # bytes in the file
    largest: int  # bytes of the largest page, decompressed
    size: int  # bytes of all pages, decompressed
    dictionary: int  # bytes of the dictionary, 0 without one
    encodings: frozenset[int]  # of the data pages


@attrs.frozen
class Group:
    """A row group: its number of rows, and its column chunks."""

    rows: int
    chunks: tuple[Chunk, ...]


def read_groups(file: BinaryIO) -> list[Group]:
    """Read the sizes of all column chunks of a Parquet file.

    :raises ValueError: it is damaged, or its parts contradict its footer
    """
    end = _Compact(_end(file)).struct()
    columns = _columns(_structs(end, 2))
    groups = []
    for group in _structs(end, 4):
        rows, parts = _number(group, 3, _I64), _structs(group, 1)
        if len(parts) != len(columns):
            raise ValueError(f"a group of rows has {len(parts)} columns, the file {len(columns)}")
        chunks = (_chunk(file, part, *one) for part, one in zip(parts, columns, strict=True))
        groups.append(Group(rows, tuple(chunks)))
    return groups


def _end(file: BinaryIO) -> bytes:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - 8))
    tail = file.read(8)
    length = int.from_bytes(tail[:4], "little")
    if tail[4:] != b"PAR1" or length > size - 12:
        raise ValueError("it does not end like a Parquet file")
    file.seek(size - 8 - length)
    return file.read(length)


def _columns(elements: list[_Struct]) -> list[tuple[str, int, bool]]:
    """Return path, type and whether it is repeated for each leaf column of the schema, in order."""
    columns = []
    # Open elements of the depth-first tree: children to come, path, whether it is repeated.
    above: list[tuple[int, str, bool]] = [(1, "", False)]
    for number, element in enumerate(elements):
        while above and above[-1][0] == 0:
            above.pop()
        if not above:
            raise ValueError(_DAMAGED)
        missing, prefix, repeated = above.pop()
        above.append((missing - 1, prefix, repeated))
        name = _value(element, 4, _TEXT).decode("utf-8", "replace") if number else ""
        path = f"{prefix}.{name}" if prefix else name
        repeated = repeated or (number > 0 and _number(element, 3, default=0) == _REPEATED)
        children = _number(element, 5, default=0)
        if children or not number:
            above.append((children, path, repeated))
        else:
            columns.append((path, _number(element, 1), repeated))
    if any(missing for missing, _, _ in above):
        raise ValueError(_DAMAGED)
    return columns


def _chunk(file: BinaryIO, part: _Struct, name: str, column_kind: int, repeated: bool) -> Chunk:
    if 1 in part:
        raise ValueError(f"the column {name} is in another file")
    about: _Struct = _value(part, 3, _STRUCT)
    start, length = _number(about, 9, _I64), _number(about, 7, _I64)
    first = _number(about, 11, _I64, 0)
    if 0 < first < start:
        start = first
    values = largest = size = dictionary = 0
    encodings = set()
    for number, head in enumerate(_heads(file, start, length)):
        kind, unpacked = _number(head, 1), _number(head, 2)
        if kind not in {_DATA, _DICTIONARY, _DATA_2}:
            raise ValueError(f"a page of the column {name} is of kind {kind}")
        detail = _value(head, {_DATA: 5, _DICTIONARY: 7, _DATA_2: 8}[kind], _STRUCT)
        count = _number(detail, 1)
        if kind == _DICTIONARY:
            # pyarrow allocates as many values as the header says.
            if number or count * _LEAST.get(column_kind, 1) > unpacked:
                raise ValueError(f"the dictionary of the column {name} is damaged")
            dictionary = unpacked
        else:
            values += count
            encodings.add(_number(detail, 4 if kind == _DATA_2 else 2))
        largest, size = max(largest, unpacked), size + unpacked
    wanted = _number(about, 5, _I64)
    if values != wanted:
        raise ValueError(f"the column {name} has {values:,} values, and should have {wanted:,}")
    pages = (values, length, largest, size, dictionary, frozenset(encodings))
    return Chunk(name, column_kind, repeated, *pages)


def _heads(file: BinaryIO, start: int, length: int) -> Iterator[_Struct]:
    """Yield the page headers in a byte range of the file."""
    at, end = start, start + length
    while at < end:
        for size in (_HEAD, _LONGEST_HEAD):
            file.seek(at)
            reader = _Compact(file.read(min(size, end - at)))
            try:
                head = reader.struct()
                break
            except _ShortError:
                if size == _LONGEST_HEAD or size >= end - at:
                    raise
        yield head
        at += reader.at + _number(head, 3)
    if at != end:
        raise ValueError(f"the page that ends at byte {at:,} is longer than its column")


def _value(struct: _Struct, field: int, kind: int) -> Any:
    """Return the value of a field; raise if its type differs, as a reader would skip it."""
    found, value = struct.get(field, (0, None))
    if found != kind:
        raise ValueError(f"a value of kind {kind} is one of kind {found}")
    return value


def _number(struct: _Struct, field: int, kind: int = _I32, default: int | None = None) -> int:
    """Return a non-negative integer."""
    if default is not None and field not in struct:
        return default
    value: int = _value(struct, field, kind)
    if not 0 <= value < (_INT32 if kind == _I32 else _INT64):
        raise ValueError(f"a size or number in it is {value:,}")
    return value


def _structs(struct: _Struct, field: int) -> list[_Struct]:
    found: list[Any]
    kind, *found = _value(struct, field, _LIST)
    if found and kind != _STRUCT:
        raise ValueError(f"a value of kind {_STRUCT} is one of kind {kind}")
    return found


class _ShortError(ValueError):
    """The data end before the value does."""

    def __init__(self) -> None:
        super().__init__("a part of it is cut off")


class _Compact:
    """A decoder for Thrift's compact protocol."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    def struct(self, depth: int = 0) -> _Struct:
        """Decode a struct."""
        if depth > _DEEPEST:
            raise ValueError("its description is nested too deeply")
        fields: _Struct = {}
        last = 0
        while head := self._byte():
            last = last + (head >> 4) if head >> 4 else self._signed()
            # Readers differ in which value counts if a field occurs twice.
            if last in fields:
                raise ValueError("its description has a field twice")
            kind = head & 15
            fields[last] = kind, self._any(kind, depth, in_list=False)
        return fields

    def _any(self, kind: int, depth: int, *, in_list: bool) -> Any:
        if kind in {4, _I32, _I64}:
            return self._signed()
        if kind == _TEXT:
            return self._bytes(self._varint())
        if kind in {_LIST, 10}:
            return self._list(depth + 1)
        if kind == _STRUCT:
            return self.struct(depth + 1)
        # Boolean, byte, floating-point number.
        sizes = {1: int(in_list), 2: int(in_list), 3: 1, 7: 8}
        if kind not in sizes:
            raise ValueError(f"its description has a value of kind {kind}")
        self._bytes(sizes[kind])
        return None

    def _list(self, depth: int) -> list[Any]:
        if depth > _DEEPEST:
            raise ValueError("its description is nested too deeply")
        head = self._byte()
        count = self._varint() if head >> 4 == 15 else head >> 4
        if count > len(self._data) - self.at:  # each takes at least one byte
            raise _ShortError
        kind = head & 15
        return [kind, *(self._any(kind, depth, in_list=True) for _ in range(count))]

    def _bytes(self, count: int) -> bytes:
        self.at += count
        if self.at > len(self._data):
            raise _ShortError
        return self._data[self.at - count : self.at]

    def _byte(self) -> int:
        return self._bytes(1)[0]

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
            if shift > 63:
                raise ValueError("its description has a number of more than 64 bits")

    def _signed(self) -> int:
        value = self._varint()
        return value >> 1 ^ -(value & 1)


# Limits of an export.
ROWS: Final = 50_000  # in a row group, and read at once
_FEWER_ROWS: Final = 1024  # read at once if rows are long
_LONG: Final = 1 << 26  # bytes of texts from which the rows of a group are long
# Upper bounds: 255 bucket keys a row, pages of 1 MB or of 1,024 payloads.
_MOST_ROWS: Final = 1 << 20
_MOST_VALUES: Final = 1 << 24
_LARGEST_PAGE: Final = 1 << 27
_LEAST_BYTES: Final = 2  # of the file per page: its hashes alone take more


def check_sizes(path: Path, rows: int) -> list[int]:
    """Refuse a portable file that needs more memory than an export does, without decompressing it.

    :param rows: number of rows that it claims
    :returns: for each row group, how many rows to read at once
    :raises ValueError: a part is too large
    """
    most = max(ROWS, path.stat().st_size // _LEAST_BYTES)
    if rows > most:
        raise ValueError(f"it claims {rows:,} pages, and its size allows {most:,} at most")
    with path.open("rb") as raw:
        groups = read_groups(raw)
    if sum(group.rows for group in groups) != rows:
        raise ValueError("its groups of rows do not add up to its pages")
    at_once = []
    for group in groups:
        if group.rows > _MOST_ROWS:
            raise ValueError(f"a group of {group.rows:,} rows: an export writes {ROWS:,}")
        texts = sum(_text_bytes(chunk, group.rows) for chunk in group.chunks)
        at_once.append(ROWS if texts <= _LONG else _FEWER_ROWS)
    return at_once


def _text_bytes(chunk: Chunk, rows: int) -> int:
    """Return the decompressed bytes of a column chunk of texts; 0 for numbers."""
    name, is_text = chunk.name, chunk.kind == BYTE_ARRAY
    most = min(_MOST_VALUES, rows * MOST_BUCKET_KEYS) if chunk.repeated else rows
    if chunk.values > most or (not chunk.repeated and chunk.values != rows):
        raise ValueError(f"the column {name} has {chunk.values:,} values for {rows:,} pages")
    if chunk.largest > _LARGEST_PAGE:
        raise ValueError(f"a part of the column {name} takes {chunk.largest:,} bytes unpacked")
    # Texts encoded by a dictionary or by common prefixes could expand to any size.
    known = PLAIN if is_text else PLAIN | BY_DICTIONARY
    if chunk.encodings - known or chunk.kind not in {INT64, BYTE_ARRAY}:
        raise ValueError(f"the column {name} is encoded in a way that an export does not use")
    return chunk.size if is_text else 0
