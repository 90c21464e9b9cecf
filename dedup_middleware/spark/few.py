"""Tables of the result of few pages, which this process makes: Java takes longer to plan them.

They are those that :class:`.Steps` makes on Spark, row for row.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dedup_middleware.base.options import Options
from dedup_middleware.core.judge import is_dropped
from dedup_middleware.model.documents import EMPTY, REVISIT
from dedup_middleware.spark.columns import words
from dedup_middleware.spark.verdicts import MATCHES

#: the host of an address, as Java and Python read it
HOST = r"^[A-Za-z][A-Za-z0-9+.-]*://(?:[^/?#@]*@)?\[?((?<=\[)[^/?#\]]+|[^/?#:\[\]]+)"
_HOST = re.compile(HOST)
DUPLICATES = pa.schema(
    [
        ("order", pa.int64()),
        ("key", pa.string()),
        ("match", pa.int64()),
        ("match_key", pa.string()),
        *(field for field in MATCHES if field.name not in ("order", "match")),
    ]
)
CLUSTERS = pa.schema(
    [
        ("cluster", pa.int64()),
        ("order", pa.int64()),
        ("stored", pa.string()),
        ("stored_host", pa.string()),
        ("kind", pa.string()),
        ("key", pa.string()),
        ("host", pa.string()),
        ("reason", pa.string()),
        ("similarity", pa.float64()),
    ]
)


def duplicates(
    matches: Sequence[Path], pages: Sequence[Path], names: Sequence[str], options: Options
) -> Any:
    """Dropped pages with their matches, a table of :data:`DUPLICATES`.

    :param matches: files of :data:`.MATCHES`
    :param pages: files of all pages, with their orders, keys and sizes in columns of these names
    """
    every = _read(pages, names).rename_columns(["order", "key", "size"])
    every = every.filter(pa.compute.is_valid(every.column("key")))  # rejected rows have none
    every = every.sort_by("order").combine_chunks()
    orders = words(every.column("order"))
    found = _read(matches, MATCHES.names).cast(MATCHES)
    if not is_dropped(REVISIT, options):
        found = found.filter(pa.compute.not_equal(found.column("outcome"), REVISIT))
    for name, own in (("order", "key"), ("match", "match_key")):
        keys = every.column("key").take(_rows(orders, found.column(name)))
        found = found.append_column(own, keys)
    tables = [found.select(DUPLICATES.names).cast(DUPLICATES)]
    if is_dropped(EMPTY, options):
        empty = every.filter(pa.compute.equal(every.column("size"), 0)).select(["order", "key"])
        for name, value in (("outcome", EMPTY), ("reason", "no-text")):
            empty = empty.append_column(name, pa.array([value] * len(empty), pa.string()))
        tables.append(_filled(empty, DUPLICATES))
    return pa.concat_tables(tables)


def clusters(duplicates: Sequence[Path]) -> Any:
    """Kept pages, each with all that were dropped for it, a table of :data:`CLUSTERS`.

    :param duplicates: files of :data:`DUPLICATES`
    """
    names = {"match": "cluster", "match_key": "stored", "outcome": "kind", "order": "order",
             "key": "key", "reason": "reason", "similarity": "similarity"}  # fmt: skip
    found = _read(duplicates, list(names))
    found = found.filter(pa.compute.is_valid(found.column("match")))
    found = found.rename_columns(list(names.values()))
    _, firsts = np.unique(words(found.column("cluster")), return_index=True)
    kept = found.select(["cluster", "stored"]).take(pa.array(firsts))
    kept = kept.append_column("order", kept.column("cluster"))
    kept = kept.append_column("key", kept.column("stored"))
    kept = kept.append_column("kind", pa.array(["kept"] * len(kept), pa.string()))
    every = pa.concat_tables([_filled(kept, CLUSTERS), _filled(found, CLUSTERS)])
    for name, own in (("stored", "stored_host"), ("key", "host")):
        hosts = pa.array([_host(key) for key in every.column(name).to_pylist()], pa.string())
        every = every.set_column(CLUSTERS.get_field_index(own), own, hosts)
    return every


def _read(files: Sequence[Path], columns: Sequence[str]) -> Any:
    return pa.concat_tables(pq.read_table(file, columns=list(columns)) for file in files)


def _rows(orders: NDArray[np.int64], wanted: Any) -> Any:
    """Rows of pages by their orders, all of which are there."""
    return pa.array(np.searchsorted(orders, words(wanted)))


def _filled(table: Any, schema: Any) -> Any:
    """A table with all columns of a schema; those that it lacks are empty."""
    columns = [
        table.column(field.name)
        if field.name in table.column_names
        else pa.nulls(len(table), field.type)
        for field in schema
    ]
    return pa.table(columns, names=schema.names).cast(schema)


def _host(key: str | None) -> str:
    found = _HOST.match(key or "")
    return found[1].lower() if found else ""
