"""Pages to blocks, and blocks to pairs, on all machines.

Keys of blocks are the buckets of the four SimHash tables (prefix-coded blocks: 周游, 贾创辉:
大规模文本去重研究, 现代计算机 2019(6)) and the 40-bit places in the other tables, which are all
that an index compares there. Keys are counted in two stages, salted and then whole, so that no
task counts a hot one alone; a hot key is split into chunks, and each pair of chunks is a block, so
that no task holds a whole hot list. Only numbers are moved here, 40 bytes a record; what a method
judges by follows for those that stand beside each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from dedup_middleware.index.pages import TABLE_SHIFT
from dedup_middleware.index.records import REMAINDER_BITS
from dedup_middleware.index.tables import SIMHASH_TABLES
from dedup_middleware.spark.columns import words
from dedup_middleware.spark.pairing import PROBE, SECOND, Blocks, pairs
from dedup_middleware.spark.settings import Job

PAIRS = pa.schema([("page", pa.int64()), ("candidate", pa.int64()), ("tables", pa.int64())])
PAIRS_DDL = "page bigint, candidate bigint, tables bigint"
_NARROW = 1 << 62  # sets keys of narrow tables apart from names of buckets
_SALTS = 10
_ROOM = 1 << 16
_FIRST, _LAST = SIMHASH_TABLES[0], SIMHASH_TABLES[-1]


def records(pages: DataFrame) -> DataFrame:
    """Records (key, bucket, order, last, simhash, flags) of pages.

    :param pages: with columns order, last, simhash, slots and probes
    """
    own = pages.select("order", "last", "simhash", F.explode("slots").alias("slot"))
    probing = pages.where(F.size("probes") > 0).select(
        "order", "last", "simhash", F.explode("probes").alias("slot")
    )
    both = own.withColumn("flags", F.lit(0)).union(probing.withColumn("flags", F.lit(PROBE)))
    table = F.shiftright("slot", TABLE_SHIFT)
    wide = (table >= _FIRST) & (table <= _LAST)
    bucket = F.shiftright("slot", REMAINDER_BITS)
    return both.select(
        F.when(wide, bucket).otherwise(F.col("slot").bitwiseOR(F.lit(_NARROW))).alias("key"),
        bucket.alias("bucket"),
        "order",
        "last",
        F.when(wide, F.col("simhash")).otherwise(F.lit(0)).alias("simhash"),
        "flags",
    )


def hot_keys(found: DataFrame, hot: int) -> dict[int, int]:
    """Keys with more than ``hot`` records, and the number of their records.

    Buckets are counted first, of which there are few; keys only in those that are hot.
    """
    buckets = _counted(found, "bucket", hot)
    if not buckets:
        return {}
    names = found.sparkSession.createDataFrame(list(buckets.items()), "bucket bigint, n bigint")
    within = found.join(F.broadcast(names.select("bucket")), "bucket", "left_semi")
    return _counted(within, "key", hot)


def _counted(found: DataFrame, column: str, hot: int) -> dict[int, int]:
    salt = F.pmod(F.col("order"), F.lit(_SALTS)).alias("salt")
    first = found.groupBy(column, salt).agg(F.count("*").alias("n"))
    second = first.groupBy(column).agg(F.sum("n").alias("n")).where(F.col("n") > hot)
    return {int(row[0]): int(row[1]) for row in second.collect()}


def chunked(found: DataFrame, hot: dict[int, int], limit: int) -> DataFrame:
    """Records with the ``block`` they go to within their key; those of hot keys go to several.

    Chunk a meets chunk b in block ``a * chunks + b`` with a <= b, and itself where both are equal.
    """
    if not hot:
        return found.withColumn("block", F.lit(0))
    # Two chunks are in memory at once.
    chunks = {key: -(-2 * count // limit) for key, count in hot.items()}
    names = found.sparkSession.createDataFrame(list(chunks.items()), "key bigint, chunks bigint")
    own = F.pmod(F.hash("order"), F.col("chunks")).cast("bigint")
    others = F.transform(
        F.sequence(F.lit(0).cast("bigint"), F.col("chunks") - 1),
        lambda other: F.struct(
            (F.least("own", other) * F.col("chunks") + F.greatest("own", other)).alias("block"),
            (F.col("own") > other).alias("second"),
            (F.col("own") != other).alias("split"),
        ),
    )
    split = (
        found.join(F.broadcast(names), "key", "left")
        .withColumn("chunks", F.coalesce("chunks", F.lit(1).cast("bigint")))
        .withColumn("own", own)
        .withColumn("place", F.explode(others))
    )
    flags = (
        F.col("flags")
        .bitwiseOR(F.when(F.col("place.second"), F.lit(SECOND)).otherwise(F.lit(0)))
        .bitwiseOR(F.when(F.col("place.split"), F.lit(_SPLIT)).otherwise(F.lit(0)))
    )
    return split.select(
        "key", "bucket", "order", "last", "simhash", flags.alias("flags"), "place.block"
    )


_SPLIT = 4  # flag of a record: its block has two chunks


def candidate_pairs(pages: DataFrame, job: Job, distance: int, partitions: int) -> DataFrame:
    """Pages with their candidates (page, candidate, tables), each pair once.

    A pair of SimHash tables comes from its lowest common block alone. Pairs of the other tables
    are put together here: to know the lowest one, each record would have to carry all places of
    its page, which is four times as much to move.

    :param pages: with columns order, last, simhash, slots and probes
    :param distance: largest Hamming distance of SimHashes
    """
    found = records(pages)
    hot = hot_keys(found, job.hot)
    placed = chunked(found, hot, job.hot).drop("bucket")
    blocks = placed.repartition(partitions, "key", "block").sortWithinPartitions(
        "key", "block", "order"
    )
    chunks = -(-2 * max(hot.values(), default=0) // job.hot)
    most = (job.most, max(1, job.most // max(1, chunks)))
    paired = blocks.mapInArrow(_finder(distance, most), PAIRS_DDL)
    return paired.groupBy("page", "candidate").agg(F.bit_or("tables").alias("tables"))


def _finder(distance: int, most: tuple[int, int]) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """A function for ``mapInArrow`` over sorted records."""

    def work(batches: Iterable[Any]) -> Iterator[Any]:
        for columns in whole_blocks(batches):
            blocks = blocks_of(columns)
            at = (0, 0)
            while at[0] < len(blocks.tables):
                *found, at = pairs(blocks, distance, most, max(_ROOM, most[0]), at)
                yield pa.RecordBatch.from_arrays([pa.array(one) for one in found], schema=PAIRS)

    return work


def whole_blocks(batches: Iterable[Any]) -> Iterator[dict[str, NDArray[np.int64]]]:
    """Columns of sorted batches, cut so that no block is in two of them."""
    kept: dict[str, NDArray[np.int64]] | None = None
    for batch in batches:
        columns = {name: words(batch.column(name)) for name in batch.schema.names}
        if kept is not None:
            columns = {name: np.concatenate((kept[name], columns[name])) for name in columns}
        first = _firsts(columns)
        last = int(first[-1]) if len(first) else 0
        if last:
            yield {name: values[:last] for name, values in columns.items()}
        kept = {name: values[last:] for name, values in columns.items()}
    if kept is not None:
        yield kept


def _firsts(columns: dict[str, NDArray[np.int64]]) -> NDArray[np.int64]:
    key, block = columns["key"], columns["block"]
    new = np.ones(len(key), np.bool_)
    new[1:] = (key[1:] != key[:-1]) | (block[1:] != block[:-1])
    return np.flatnonzero(new)


def blocks_of(columns: dict[str, NDArray[np.int64]]) -> Blocks:
    """Blocks of at least two records."""
    firsts = _firsts(columns)
    counts = np.diff(np.append(firsts, len(columns["key"])))
    many = counts > 1
    rows = np.repeat(many, counts)
    own = {name: np.ascontiguousarray(values[rows]) for name, values in columns.items()}
    starts = np.zeros(int(many.sum()) + 1, np.int64)
    np.cumsum(counts[many], out=starts[1:])
    keys, flags = own["key"][starts[:-1]], own["flags"][starts[:-1]]
    narrow = keys >= _NARROW
    tables = np.where(narrow, (keys & ~np.int64(_NARROW)) >> TABLE_SHIFT, keys >> 16)
    return Blocks(
        starts,
        tables,
        flags // _SPLIT & 1,
        own["order"],
        own["last"],
        own["simhash"].view(np.uint64),
        own["flags"],
    )
