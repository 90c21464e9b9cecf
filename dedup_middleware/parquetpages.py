"""What a Parquet file would take in memory, found out before anything of it is unpacked.

A few kilobytes can stand for gigabytes: a page that unpacks to 2 GB, a dictionary of one huge value
that every row names, a run that repeats one value a billion times. What the end of a file says of
sizes may be wrong, so the head of each page is read: pyarrow makes room for what it says, and
shows none of it. The format is Thrift's compact protocol, and ``PageHeader`` of
https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO, Final

import attrs

DATA, DICTIONARY, DATA_2 = 0, 2, 3  # kinds of a page
PLAIN: Final = frozenset({0})
BY_DICTIONARY: Final = frozenset({2, 8})  # encodings whose values are in the dictionary
_HEAD = 1 << 16  # bytes read for a head at first
_LONGEST_HEAD = 1 << 20
_DEEPEST = 8
_INT32 = 1 << 31
# Bytes that a value of a dictionary takes at least.
_LEAST = {"BYTE_ARRAY": 4, "INT32": 4, "FLOAT": 4, "INT64": 8, "DOUBLE": 8, "INT96": 12}


@attrs.frozen
class Chunk:
    """The pages of one column of one group of rows, as their heads tell.

    ``values``: how many, nulls counted; ``largest``: bytes of the largest page, unpacked;
    ``size``: bytes of all of them; ``dictionary``: bytes of the dictionary, 0: there is none;
    ``encodings``: of the data.
    """

    values: int
    largest: int
    size: int
    dictionary: int
    encodings: frozenset[int]


def read_chunk(file: BinaryIO, column: Any) -> Chunk:
    """Read the heads of all pages of a column chunk.

    :param column: a ``pyarrow.parquet.ColumnChunkMetaData``
    :raises ValueError: they are damaged, or do not agree with what the end of the file says
    """
    if column.file_path:
        raise ValueError(f"the column {column.path_in_schema} is in another file")
    start, length, wanted = column.data_page_offset, column.total_compressed_size, column.num_values
    first = column.dictionary_page_offset if column.has_dictionary_page else None
    if first and 0 < first < start:
        start = first
    values = largest = size = dictionary = 0
    encodings = set()
    for number, head in enumerate(_heads(file, start, length)):
        kind, unpacked = head[1], head[2]
        detail = head.get({DATA: 5, DICTIONARY: 7, DATA_2: 8}.get(kind, 0))
        if not isinstance(detail, dict):
            raise ValueError(f"a page of the column {column.path_in_schema} is of kind {kind}")
        count, encoding = detail.get(1, -1), detail.get(4 if kind == DATA_2 else 2, -1)
        if not 0 <= count < _INT32:
            raise ValueError(f"a page of the column {column.path_in_schema} has {count} values")
        if kind == DICTIONARY:
            # Room is made for what the head says, so it must be able to hold so many.
            if number or count * _LEAST.get(column.physical_type, 1) > unpacked:
                raise ValueError(f"the dictionary of {column.path_in_schema} is damaged")
            dictionary = unpacked
        else:
            values += count
            encodings.add(encoding)
        largest, size = max(largest, unpacked), size + unpacked
    if values != wanted:
        raise ValueError(f"{column.path_in_schema} has {values} values, and should have {wanted}")
    return Chunk(values, largest, size, dictionary, frozenset(encodings))


def _heads(file: BinaryIO, start: int, length: int) -> Iterator[dict[int, Any]]:
    """Heads of the pages in a part of a file."""
    at, end = start, start + length
    if start < 0 or length < 0:
        raise ValueError("a column begins before the file")
    while at < end:
        room = min(_HEAD, end - at)
        while True:
            file.seek(at)
            reader = _Compact(file.read(room))
            try:
                head = reader.struct()
                break
            except IndexError:
                if room >= min(_LONGEST_HEAD, end - at):
                    raise ValueError(f"there is no page at byte {at:,}") from None
                room = min(_LONGEST_HEAD, end - at)
        sizes = head.get(2), head.get(3)
        if not all(
            isinstance(value, int) and 0 <= value < _INT32 for value in (*sizes, head.get(1))
        ):
            raise ValueError(f"the page at byte {at:,} is damaged")
        yield head
        at += reader.at + head[3]
    if at != end:
        raise ValueError(f"the page that ends at byte {at:,} is longer than its column")


class _Compact:
    """Thrift's compact protocol, as far as a page's head needs it.

    Values of fields: whole numbers and structs; of all others None.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    def struct(self, depth: int = 0) -> dict[int, Any]:
        """A struct, by the numbers of its fields.

        :raises IndexError: the data are too short
        :raises ValueError: they are something else
        """
        if depth > _DEEPEST:
            raise ValueError("a page's head is nested too deeply")
        fields: dict[int, Any] = {}
        last = 0
        while head := self._byte():
            last = last + (head >> 4) if head >> 4 else self._number()
            # Of a field that is there twice, readers differ in which one counts.
            if last in fields:
                raise ValueError("a page's head has a field twice")
            fields[last] = self._value(head & 15, depth, in_list=False)
        return fields

    def _value(self, kind: int, depth: int, *, in_list: bool) -> Any:
        if kind in {1, 2}:
            self._skip(1 if in_list else 0)
        elif kind == 3:
            self._skip(1)
        elif kind in {4, 5, 6}:
            return self._number()
        elif kind == 7:
            self._skip(8)
        elif kind == 8:
            self._skip(self._varint())
        elif kind in {9, 10}:
            self._list(depth)
        elif kind == 12:
            return self.struct(depth + 1)
        else:
            raise ValueError(f"a page's head has a value of kind {kind}")
        return None

    def _list(self, depth: int) -> None:
        if depth > _DEEPEST:
            raise ValueError("a page's head is nested too deeply")
        head = self._byte()
        for _ in range(self._varint() if head >> 4 == 15 else head >> 4):
            self._value(head & 15, depth + 1, in_list=True)

    def _skip(self, count: int) -> None:
        self.at += count
        if self.at > len(self._data):
            raise IndexError

    def _byte(self) -> int:
        self.at += 1
        return self._data[self.at - 1]

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
            if shift > 63:
                raise ValueError("a page's head has a number of more than 64 bits")

    def _number(self) -> int:
        value = self._varint()
        return value >> 1 ^ -(value & 1)
