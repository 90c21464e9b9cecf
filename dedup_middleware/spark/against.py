"""Pages of an exported index, as pages that are kept already: none is computed again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import attrs
import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql.pandas.types import from_arrow_schema

from dedup_middleware.base.errors import IndexRefusedError
from dedup_middleware.base.options import Options
from dedup_middleware.core.fingerprinter import Fingerprinter
from dedup_middleware.index.parameters import differences, hash_key_of
from dedup_middleware.spark.columns import to_binary, words
from dedup_middleware.spark.sieve import NO_SIEVE
from dedup_middleware.tools.portable.file_reader import from_arrow, read_portable, schema

_STORED = pa.schema(
    [
        ("order", pa.int64()),
        ("key_hash", pa.int64()),
        ("simhash", pa.int64()),
        ("content", pa.binary()),
        ("key", pa.string()),
        ("slots", pa.list_(pa.int64())),
        ("payload", pa.binary()),
    ]
)
_ROW = "row"


def with_key_of(options: Options, path: str) -> Options:
    """Options with the hash key of an exported index, so that its pages can be compared.

    :raises IndexRefusedError: the file is damaged or none, or was made with other parameters
    """
    parameters = read_portable(path).parameters
    own = dict(Fingerprinter(options, 0).parameters)
    theirs = {name: value for name, value in parameters.items() if name in own}
    lines = differences(theirs, own)
    if lines:
        raise IndexRefusedError(
            f"the pages of {path} can't be compared with new ones, it was made with other "
            "parameters:\n  " + "\n  ".join(lines) + "\nGive the settings of the file."
        )
    return attrs.evolve(options, hash_key=hash_key_in_use(parameters))


def hash_key_in_use(parameters: Mapping[str, str]) -> str:
    """The part of an index's key that hashes are made with: its lower 64 bits, in hexadecimal.

    >>> hash_key_in_use({"hash_key": "ffff000000000000002a"})
    '2a'
    """
    return f"{hash_key_of(parameters, 'the index'):x}"


def stored_pages(session: SparkSession, path: str) -> DataFrame:
    """Pages of an exported index, with the columns of those of the input; orders are below 0.

    :raises IndexRefusedError: the file is damaged, or none
    """
    rows = read_portable(path).rows
    names = schema().names
    table = session.read.parquet(path).select(*names, F.col("_metadata.row_index").alias(_ROW))
    found = table.mapInArrow(_with_content(rows), from_arrow_schema(_STORED))
    return found.select(
        "*",
        F.col("order").alias("last"),
        F.lit(False).alias("copied"),
        F.lit(True).alias("named"),
        F.lit(None).cast("array<bigint>").alias("probes"),
        F.lit(bytearray(NO_SIEVE)).alias("sieve"),
    )


def _with_content(rows: int) -> Callable[[Iterable[Any]], Iterator[Any]]:
    def work(batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            content = from_arrow(_as_written(batch)).content
            yield pa.RecordBatch.from_arrays(
                [
                    pa.array(words(batch.column(_ROW)) - rows),
                    pa.array(content["key"].astype(np.int64)),
                    pa.array(content["simhash"].astype(np.int64)),
                    to_binary(content),
                    batch.column("address"),
                    batch.column("slots"),
                    batch.column("payload"),
                ],
                names=_STORED.names,
            )

    return work


def _as_written(batch: Any) -> Any:
    """The batch with the types of the file: Spark has its own unit of time."""
    wanted = schema()
    columns = [batch.column(field.name).cast(field.type) for field in wanted]
    return pa.RecordBatch.from_arrays(columns, schema=wanted)
