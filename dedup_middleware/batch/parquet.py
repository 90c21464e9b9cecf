"""Rows of Parquet files, by pyarrow.

The files are of strangers, so what a file would take in memory is looked at before it is unpacked
(see :mod:`..parquetpages`): memory is that of the longest values that a file holds, not of what its
rows make of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from dedup_middleware.batch.rows import LONGEST_LINE, BatchError, Row
from dedup_middleware.parquetpages import BYTE_ARRAY, read_groups

_ROWS: Final = 1024  # in memory at once
_FEWER_ROWS: Final = 16  # the same, of a group with long texts
_LONG: Final = 1 << 28  # bytes of a group's texts from which on they are long
# Pages of other programs are of 1 MB, and of one value if that is longer.
_LARGEST_PAGE: Final = LONGEST_LINE
# Values in the lists of a group: a million, or 64 for each byte that they take in the file.
_VALUES: Final = 1 << 20
_VALUES_A_BYTE: Final = 64


def read_parquet(path: Path) -> Iterator[Row]:
    """Rows with their columns as fields.

    :raises BatchError: pyarrow is missing, or the file is damaged, or would take too much memory
    """
    try:
        parquet = import_module("pyarrow.parquet")
        pyarrow = import_module("pyarrow")
    except ImportError:
        raise BatchError(
            f"{path}: reading Parquet needs pyarrow: pip install 'dedup-middleware[parquet]'"
        ) from None
    faults = (pyarrow.ArrowException, OSError, ValueError, MemoryError, RecursionError)
    try:
        with parquet.ParquetFile(path) as file:
            total = max(1, file.metadata.num_rows)
        groups, texts = _check(path)
        with parquet.ParquetFile(
            path, read_dictionary=sorted(texts), pre_buffer=False, buffer_size=1 << 20
        ) as file:
            size = path.stat().st_size
            number = 0
            for group, rows in enumerate(groups):
                for batch in file.iter_batches(batch_size=rows, row_groups=[group]):
                    # A damaged file may name values that its dictionary does not have.
                    batch.validate(full=True)
                    for fields in _fields(batch, pyarrow):
                        number += 1
                        yield Row(number, fields, done=size * number // total)
    except faults as error:
        raise BatchError(f"{path} can't be read: {error}") from error


def _check(path: Path) -> tuple[list[int], set[int]]:
    """How many rows of each group are read at once, and which columns have dictionaries of texts.

    :raises ValueError: a part of the file would take too much memory
    """
    at_once = []
    dictionaries: set[int] = set()
    with path.open("rb") as raw:
        groups = read_groups(raw)
    for group in groups:
        texts = 0
        for place, chunk in enumerate(group.chunks):
            if chunk.largest > _LARGEST_PAGE:
                raise ValueError(
                    f"a part of the column {chunk.name} takes {chunk.largest:,} bytes in memory, "
                    f"more than the {_LARGEST_PAGE:,} allowed: write it in shorter values"
                )
            # Values of lists, beyond one a row.
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
    """Rows of a batch as dictionaries."""
    columns = [_values(column, pyarrow.types) for column in batch.columns]
    names = batch.schema.names
    for row in zip(*columns, strict=True):
        yield dict(zip(names, row, strict=True))


def _values(array: Any, types: Any) -> list[Any]:
    """Values of an array; those that are one value of a dictionary are one object."""
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
    found: list[Any] = array.to_pylist()
    return found
