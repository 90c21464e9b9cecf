"""What a Parquet file would take in memory, found out before anything of it is unpacked.

A few kilobytes can expand to gigabytes: a page that unpacks to 2 GB, a dictionary of one huge value
that every row names, a run that repeats one value a billion times. The sizes in the footer of a
file may be wrong, so the header of each page is read as well: pyarrow allocates as much as that
says, and gives no access to it. Nor can pyarrow read the footer for us: asked for a column whose
description is damaged, it ends the process.

The format is Thrift's compact protocol, and ``FileMetaData`` and ``PageHeader`` of
https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, BinaryIO, Final

import attrs

PLAIN: Final = frozenset({0})
BY_DICTIONARY: Final = frozenset({2, 8})  # encodings whose values are in the dictionary
INT64, BYTE_ARRAY = 2, 6  # types of a column
_DATA, _DICTIONARY, _DATA_2 = 0, 2, 3  # kinds of a page
_HEAD = 1 << 16  # bytes read for a page's head at first
_LONGEST_HEAD = 1 << 20
_DEEPEST = 10
_INT32, _INT64 = 1 << 31, 1 << 63
_REPEATED = 2
# Bytes that a value of a dictionary takes at least, by type: int32, int64, int96, float, double,
# byte array.
_LEAST = {1: 4, INT64: 8, 3: 12, 4: 4, 5: 8, BYTE_ARRAY: 4}
# Kinds of a value in Thrift.
_I32, _I64, _TEXT, _LIST, _STRUCT = 5, 6, 8, 9, 12


@attrs.frozen
class Chunk:
    """The pages of one column of one group of rows, as their heads tell.

    ``name``: of the column, with those above it; ``kind``: its type; ``repeated``: a row may have
    several values; ``values``: how many, nulls counted; ``packed``: bytes in the file; ``largest``:
    bytes of the largest page, unpacked; ``size``: bytes of all of them; ``dictionary``: bytes of
    the dictionary, 0: there is none; ``encodings``: of the data.
    """

    name: str
    kind: int
    repeated: bool
    values: int
    packed: int
    largest: int
    size: int
    dictionary: int
    encodings: frozenset[int]


@attrs.frozen
class Group:
    """A group of rows: how many, and its columns."""

    rows: int
    chunks: tuple[Chunk, ...]


@attrs.frozen
class _Column:
    name: str
    kind: int
    repeated: bool


def read_groups(file: BinaryIO) -> list[Group]:
    """Sizes of all parts of a Parquet file.

    :raises ValueError: it is damaged, or its parts do not agree with what its end says of them
    """
    end = _Compact(_end(file)).struct()
    columns = _columns(end.value(2, _LIST))
    groups = []
    for raw in end.value(4, _LIST):
        group = raw.checked(_STRUCT)
        rows, parts = group.number(3, _I64), group.value(1, _LIST)
        if len(parts) != len(columns):
            raise ValueError(f"a group of rows has {len(parts)} columns, the file {len(columns)}")
        chunks = (
            _chunk(file, part.checked(_STRUCT), column)
            for part, column in zip(parts, columns, strict=True)
        )
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


def _columns(elements: list[_Value]) -> list[_Column]:
    """Columns with values of their own, in their order, from a tree that is written depth first."""
    columns = []
    # Of the elements that we are in: how many parts are missing, the name, whether it is repeated.
    above: list[tuple[int, str, bool]] = [(1, "", False)]
    for number, raw in enumerate(elements):
        element = raw.checked(_STRUCT)
        while above and above[-1][0] == 0:
            above.pop()
        if not above:
            raise ValueError("the description of its columns is damaged")
        missing, prefix, repeated = above.pop()
        above.append((missing - 1, prefix, repeated))
        name = element.value(4, _TEXT).decode("utf-8", "replace") if number else ""
        path = f"{prefix}.{name}" if prefix else name
        repeated = repeated or (number > 0 and element.number(3, _I32, 0) == _REPEATED)
        children = element.number(5, _I32, 0)
        if children or not number:
            above.append((children, path, repeated))
        else:
            columns.append(_Column(path, element.number(1, _I32), repeated))
    if any(missing for missing, _, _ in above):
        raise ValueError("the description of its columns is damaged")
    return columns


def _chunk(file: BinaryIO, part: _Struct, column: _Column) -> Chunk:
    if 1 in part.fields:
        raise ValueError(f"the column {column.name} is in another file")
    about: _Struct = part.value(3, _STRUCT)
    start, length = about.number(9, _I64), about.number(7, _I64)
    first = about.number(11, _I64, 0)
    if 0 < first < start:
        start = first
    values = largest = size = dictionary = 0
    encodings = set()
    for number, head in enumerate(_heads(file, start, length)):
        kind, unpacked = head.number(1, _I32), head.number(2, _I32)
        if kind not in {_DATA, _DICTIONARY, _DATA_2}:
            raise ValueError(f"a page of the column {column.name} is of kind {kind}")
        detail = head.value({_DATA: 5, _DICTIONARY: 7, _DATA_2: 8}[kind], _STRUCT)
        count = detail.number(1, _I32)
        if kind == _DICTIONARY:
            # pyarrow allocates as many values as the head says.
            if number or count * _LEAST.get(column.kind, 1) > unpacked:
                raise ValueError(f"the dictionary of the column {column.name} is damaged")
            dictionary = unpacked
        else:
            values += count
            encodings.add(detail.number(4 if kind == _DATA_2 else 2, _I32))
        largest, size = max(largest, unpacked), size + unpacked
    wanted = about.number(5, _I64)
    if values != wanted:
        raise ValueError(
            f"the column {column.name} has {values:,} values, and should have {wanted:,}"
        )
    return Chunk(
        column.name, column.kind, column.repeated, values, length, largest, size, dictionary,
        frozenset(encodings),
    )  # fmt: skip


def _heads(file: BinaryIO, start: int, length: int) -> Iterator[_Struct]:
    """Heads of the pages in a part of a file."""
    at, end = start, start + length
    while at < end:
        size = min(_HEAD, end - at)
        while True:
            file.seek(at)
            reader = _Compact(file.read(size))
            try:
                head = reader.struct()
                break
            except _ShortError:
                if size == min(_LONGEST_HEAD, end - at):
                    raise
                size = min(_LONGEST_HEAD, end - at)
        yield head
        at += reader.at + head.number(3, _I32)
    if at != end:
        raise ValueError(f"the page that ends at byte {at:,} is longer than its column")


class _ShortError(ValueError):
    """There is more to come than the data hold."""

    def __init__(self) -> None:
        super().__init__("a part of it is cut off")


@attrs.frozen
class _Value:
    """A value and its kind: a whole number, bytes, a list, a struct, or None for all others."""

    kind: int
    value: Any

    def checked(self, kind: int) -> Any:
        """The value, if it is of a kind; a reader passes over one of another kind.

        :raises ValueError: it is of another
        """
        if self.kind != kind:
            raise ValueError(f"a value of kind {kind} is one of kind {self.kind}")
        return self.value


_MISSING: Final = _Value(0, None)


@attrs.frozen
class _Struct:
    """A struct, by the numbers of its fields."""

    fields: dict[int, _Value]

    def number(self, field: int, kind: int, default: int | None = None) -> int:
        """A number of 0 or more."""
        if default is not None and field not in self.fields:
            return default
        value: int = self.fields.get(field, _MISSING).checked(kind)
        if not 0 <= value < (_INT32 if kind == _I32 else _INT64):
            raise ValueError(f"a size or number in it is {value:,}")
        return value

    def value(self, field: int, kind: int) -> Any:
        """Bytes, a list or a struct."""
        return self.fields.get(field, _MISSING).checked(kind)


class _Compact:
    """Thrift's compact protocol."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    def struct(self, depth: int = 0) -> _Struct:
        """A struct.

        :raises ValueError: the data are too short, or something else
        """
        if depth > _DEEPEST:
            raise ValueError("its description is nested too deeply")
        fields: dict[int, _Value] = {}
        last = 0
        while head := self._byte():
            last = last + (head >> 4) if head >> 4 else self._number()
            # Of a field that is there twice, readers differ in which one counts.
            if last in fields:
                raise ValueError("its description has a field twice")
            fields[last] = self._value(head & 15, depth, in_list=False)
        return _Struct(fields)

    def _value(self, kind: int, depth: int, *, in_list: bool) -> _Value:
        value: Any = None
        if kind in {1, 2}:
            self._bytes(1 if in_list else 0)
        elif kind == 3:
            self._bytes(1)
        elif kind in {4, _I32, _I64}:
            value = self._number()
        elif kind == 7:
            self._bytes(8)
        elif kind == _TEXT:
            value = self._bytes(self._varint())
        elif kind in {_LIST, 10}:
            value = self._list(depth + 1)
        elif kind == _STRUCT:
            value = self.struct(depth + 1)
        else:
            raise ValueError(f"its description has a value of kind {kind}")
        return _Value(kind, value)

    def _list(self, depth: int) -> list[_Value]:
        if depth > _DEEPEST:
            raise ValueError("its description is nested too deeply")
        head = self._byte()
        count = self._varint() if head >> 4 == 15 else head >> 4
        if count > len(self._data) - self.at:  # each takes a byte at least
            raise _ShortError
        return [self._value(head & 15, depth, in_list=True) for _ in range(count)]

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

    def _number(self) -> int:
        value = self._varint()
        return value >> 1 ^ -(value & 1)
