"""Rows of Parquet files, by pyarrow."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from dedup_middleware.batch.rows import BatchError, Row

_ROWS = 1024  # in memory at once


def read_parquet(path: Path) -> Iterator[Row]:
    """Rows with their columns as fields.

    :raises BatchError: pyarrow is missing, or the file is damaged
    """
    try:
        parquet = import_module("pyarrow.parquet")
        pyarrow = import_module("pyarrow")
    except ImportError:
        raise BatchError(
            f"{path}: reading Parquet needs pyarrow: pip install 'dedup-middleware[parquet]'"
        ) from None
    try:
        with parquet.ParquetFile(path) as file:
            total = max(1, file.metadata.num_rows)
            size = path.stat().st_size
            number = 0
            for batch in file.iter_batches(batch_size=_ROWS):
                for fields in batch.to_pylist():
                    number += 1
                    yield Row(number, fields, done=size * number // total)
    except pyarrow.ArrowException as error:
        raise BatchError(f"{path} can't be read: {error}") from error
