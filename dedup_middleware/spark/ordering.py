"""Pages in the order of a job, from the files that Spark's workers have written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dedup_middleware.spark.columns import words

_ROWS = 1024  # pages in memory at once
_MOST_RUNS = 4  # of a file, on average: its pages before a run are read as well


@attrs.frozen
class Run:
    """Rows of one file that follow each other in the order of the job.

    ``first`` and ``last``: the orders of the rows ``start`` to ``stop - 1``
    """

    first: int
    last: int
    file: Path
    start: int
    stop: int


def ordered_runs(files: Sequence[Path], order: str) -> list[Run] | None:
    """All rows of some files, by ascending order; None: they can't be read so in few passes.

    :param order: name of the column
    """
    found: list[Run] = []
    for path in files:
        with pq.ParquetFile(path) as file:
            orders = words(file.read([order]).column(0))
        cuts = [0, *(np.flatnonzero(np.diff(orders) <= 0) + 1).tolist(), len(orders)]
        found += [
            Run(int(orders[start]), int(orders[stop - 1]), path, start, stop)
            for start, stop in pairwise(cuts)
            if start < stop
        ]
    found.sort(key=lambda run: run.first)
    overlap = any(one.last >= other.first for one, other in pairwise(found))
    return None if overlap or len(found) > _MOST_RUNS * len(files) else found


@attrs.frozen
class Source:
    """The pages of a job by ascending order.

    :param names: by those of :data:`.alone.EVERY`, the names of columns in the files
    """

    runs: Sequence[Run]
    names: Mapping[str, str]

    def chosen(self, orders: NDArray[np.int64], columns: Sequence[str]) -> Iterator[Any]:
        """Batches, none of them empty, with some pages that are there.

        :param orders: of the pages, ascending
        """
        for batch in self.batches(columns):
            # Both ascend: of the wanted pages, those of this batch.
            own = words(batch.column("order"))
            start, stop = np.searchsorted(orders, (own[0], own[-1] + 1))
            if start < stop:
                yield batch.take(pa.array(np.searchsorted(own, orders[start:stop])))

    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        """Batches of Arrow with the columns, by their own names."""
        stored = [self.names[column] for column in columns]
        for run in self.runs:
            for batch in _rows_of(run, stored):
                yield batch.select(stored).rename_columns(list(columns))


def _rows_of(run: Run, columns: list[str]) -> Iterator[Any]:
    # Without a buffer all pages of a row group would be in memory together.
    with pq.ParquetFile(run.file, buffer_size=1 << 20) as file:
        at = 0
        for group in range(file.num_row_groups):
            count = file.metadata.row_group(group).num_rows
            if at + count <= run.start:
                at += count
                continue
            for batch in file.iter_batches(
                _ROWS, row_groups=[group], columns=columns, use_threads=False
            ):
                low, high = max(0, run.start - at), min(batch.num_rows, run.stop - at)
                if low < high:
                    yield batch.slice(low, high - low)
                at += batch.num_rows
                if at >= run.stop:
                    return
