"""A table in parts, of each of which a worker of Spark on this machine makes something.

Parts and what is made of them are files: Java moves the number of a part alone. A worker that dies
ends the job, as it does in any step where Spark runs on one machine.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from dedup_middleware.spark.columns import words

Work = Callable[[Any], Iterator[Any]]
_DONE = pa.schema([("part", pa.int64())])


@attrs.frozen
class Parts:
    """What makes use of the workers of Spark.

    :param folder: of this machine, for the files
    """

    session: SparkSession
    folder: Path

    def __call__(self, work: Work, table: Any, schema: Any) -> Any:
        """What a function makes of a table that is cut into one part for each core.

        :param work: a table to batches of ``schema``
        :param table: sorted by its column ``page``; a page is in one part
        """
        cuts = cuts_of(words(table.column("page")), self.session.sparkContext.defaultParallelism)
        count = len(cuts) - 1
        if not count:
            return schema.empty_table()
        folder = tempfile.mkdtemp(dir=self.folder)
        for number, (start, stop) in enumerate(pairwise(cuts)):
            _write(
                _given(folder, number), table.slice(start, stop - start).to_batches(), table.schema
            )
        task = _task(folder, work, schema)
        numbers = self.session.range(0, count, 1, count)
        numbers.mapInArrow(task, from_arrow_schema(_DONE)).collect()
        return pa.concat_tables(_read(_made(folder, number)) for number in range(count))


def cuts_of(pages: NDArray[np.int64], count: int) -> list[int]:
    """Where to cut sorted rows into some parts of about one size, so that no page is in two.

    >>> cuts_of(np.array([5, 5, 5, 7, 8]), 2), cuts_of(np.array([], int), 2)
    ([0, 3, 5], [0])
    """
    wanted = [len(pages) * i // count for i in range(1, count)] if len(pages) else []
    cuts = np.searchsorted(pages, pages[wanted], "right")
    return sorted({0, *cuts.tolist(), len(pages)})


def _given(folder: str, number: int) -> str:
    return f"{folder}/given-{number}.arrow"


def _made(folder: str, number: int) -> str:
    return f"{folder}/made-{number}.arrow"


def _write(path: str, batches: Iterable[Any], schema: Any) -> None:
    with pa.ipc.new_file(path, schema) as file:
        for batch in batches:
            file.write_batch(batch)


def _read(path: str) -> Any:
    """A table that stays in its file."""
    return pa.ipc.open_file(pa.memory_map(path)).read_all()


def _task(folder: str, work: Work, schema: Any) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """A function for ``mapInArrow`` over the numbers of parts."""

    def run(batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                _write(_made(folder, number), work(_read(_given(folder, number))), schema)
            yield batch.rename_columns(_DONE.names)

    return run
