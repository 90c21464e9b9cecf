"""Groups pages into blocks and finds the candidate pairs in each, distributed over all machines.

The key of a block is a bucket of one of the four SimHash tables (prefix-coded blocks: 周游, 贾创辉:
大规模文本去重研究, 现代计算机 2019(6)) or a 40-bit key of another table, of which an index compares
no more bits. A hot key is split into chunks and each pair of chunks is a block, so that no task
holds all its records. Only numbers are shuffled: a page's SimHash, its sieve, and the keys that
decide whether a pair shares a lower block. The columns that a method judges are joined to the
pairs later.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql.pandas.types import from_arrow_schema

from dedup_middleware.index import pairing
from dedup_middleware.index.pages import TABLE_SHIFT, starts_of
from dedup_middleware.model.buckets import (
    FIRST_SIMHASH,
    KEY_TABLE,
    LAST_SIMHASH,
    SIMHASH_TABLES,
)
from dedup_middleware.model.records import BAND_SUFFIX_BITS
from dedup_middleware.spark.columns import fixed, matrix, numbers, whole_groups, words
from dedup_middleware.spark.stages import Job

PAIRS = pa.schema({"page": "int64", "candidate": "int64"})
_LOWER, _SIEVE = "lower", "sieve"
_OF_PAGE = ("order", "last", "simhash", "crowded", _SIEVE)  # columns of a page in its records

# SQL expressions.
_TABLE = f"shiftright(bucket_key, {TABLE_SHIFT})"
_BUCKET = f"shiftright(bucket_key, {BAND_SUFFIX_BITS})"
_KEY = (
    f"if({_TABLE} BETWEEN {FIRST_SIMHASH} AND {LAST_SIMHASH}, "
    f"{_BUCKET}, bucket_key | {pairing.BAND_KEY}L) AS key"
)
_PROBES = "coalesce(probes, CAST(array() AS array<bigint>))"
#: all bucket keys where a page looks for candidates
SEARCHED = f"concat(slots, {_PROBES})"


def table_bit(bucket_key: str) -> str:
    """Return an SQL expression for the mask of a bucket key's table."""
    return f"shiftleft(1L, CAST(shiftright({bucket_key}, {TABLE_SHIFT}) AS int))"


def keyed(pages: DataFrame) -> DataFrame:
    """Return records (order, bucket_key, bucket, key) of pages, for counting keys."""
    every = pages.selectExpr("order", f"explode({SEARCHED}) AS bucket_key")
    return every.selectExpr("order", "bucket_key", f"{_BUCKET} AS bucket", _KEY)


def records(pages: DataFrame) -> DataFrame:
    """Return records (key, order, last, simhash, crowded, sieve, flags, lower), described at
    :class:`.Blocks`, of pages (order, last, simhash, crowded, sieve, slots, probes)."""
    # Sorted by rank: SimHash tables, of which a page is in all or none, then bands, then key.
    is_key = f"shiftright(one, {TABLE_SHIFT}) = {KEY_TABLE}"
    ascending = (f"filter(array_sort(slots), one -> {what})" for what in (f"NOT {is_key}", is_key))
    base = pages.selectExpr(
        *_OF_PAGE, f"concat({', '.join(ascending)}) AS slots", f"{_PROBES} AS probes"
    )
    signed = f"shiftright(slots[0], {TABLE_SHIFT}) BETWEEN {FIRST_SIMHASH} AND {LAST_SIMHASH}"
    base = base.selectExpr(
        "*", f"if({signed}, {len(SIMHASH_TABLES)}, 0) AS of_simhashes",
        f"if({signed}, {pairing.SIGNED}, 0) AS flags",
    )  # fmt: skip

    def bands(count: str) -> str:
        return f"concat(probes, slice(slots, of_simhashes + 1, {count}))"

    def of(kind: str, flags: str, lower: str) -> DataFrame:
        exploded = base.where(f"size({kind}) > 0").selectExpr(
            "*", f"posexplode({kind}) AS (number, bucket_key)"
        )
        return exploded.selectExpr(
            _KEY, *_OF_PAGE, f"CAST({flags} AS bigint) AS flags", f"{lower} AS lower"
        )

    every = bands("size(slots)")
    lower = (
        f"CASE WHEN crowded & {table_bit('bucket_key')} <> 0 THEN {every}"
        " WHEN number < of_simhashes THEN CAST(array() AS array<bigint>)"
        f" ELSE {bands('number - of_simhashes')} END"
    )
    probing = f"flags | {pairing.PROBE} | shiftleft(number, {pairing.NUMBER_SHIFT})"
    return of("slots", "flags", lower).union(of("probes", probing, every))


def hot_keys(found: DataFrame, hot: int) -> dict[int, int]:
    """Return the keys with more than ``hot`` records, and their numbers of records. The few buckets
    are counted first, then only the keys in hot ones."""
    buckets = _counted(found, "bucket", hot)
    if not buckets:
        return {}
    names = numbers(found.sparkSession, bucket=buckets)
    within = found.join(F.broadcast(names), "bucket", "left_semi")
    return _counted(within, "key", hot)


def _counted(found: DataFrame, column: str, hot: int) -> dict[int, int]:
    # Each task counts its own records first, so no task gets all records of a hot key.
    counts = found.groupBy(column).count().where(F.col("count") > hot)
    return {int(row[0]): int(row[1]) for row in counts.collect()}


def with_crowded(pages: DataFrame, counts: dict[int, int]) -> DataFrame:
    """Add ``crowded``, the mask of the tables in which a page's key is one of ``counts``."""
    if not counts:
        return pages.withColumn("crowded", F.lit(0).cast("bigint"))
    names = numbers(pages.sparkSession, key=counts)
    own = pages.selectExpr("order", "explode(slots) AS bucket_key")
    own = own.selectExpr("order", "bucket_key", _KEY)
    met = own.join(F.broadcast(names), "key", "left_semi")
    masks = met.groupBy("order").agg(F.expr(f"bit_or({table_bit('bucket_key')})").alias("crowded"))
    return pages.join(masks, "order", "left").fillna(0, "crowded")


def chunked(found: DataFrame, hot: dict[int, int], limit: int) -> DataFrame:
    """Add the column ``block``, a number within the key; records of hot keys go to several blocks.

    The block of chunks a <= b is ``a * chunks + b``; if a = b, the chunk is compared with itself.
    """
    if not hot:
        return found.withColumn("block", F.lit(0))
    chunks = [chunks_of(count, limit) for count in hot.values()]
    names = numbers(found.sparkSession, key=hot, chunks=chunks)
    others = (
        "transform(sequence(0L, chunks - 1), other -> struct("
        "least(own, other) * chunks + greatest(own, other) AS block, "
        f"if(own > other, {pairing.SECOND}, 0) | if(own <> other, {pairing.SPLIT}, 0) AS flags))"
    )
    split = (
        found.join(F.broadcast(names), "key", "left")
        .withColumn("chunks", F.expr("coalesce(chunks, 1L)"))
        .withColumn("own", F.expr("CAST(pmod(hash(order), chunks) AS bigint)"))
        .withColumn("place", F.expr(f"explode({others})"))
    )
    return split.selectExpr(
        "key", *_OF_PAGE, "flags | place.flags AS flags", "lower", "place.block"
    )


def candidate_pairs(
    pages: DataFrame, job: Job, distance: int, limit: float, partitions: int
) -> DataFrame:
    """Return candidate pairs (page, candidate), each from the lowest block that they share, or once
    for each key of that block's table that they share.

    A key is crowded if pages may have more candidates under it than are compared. Crowded blocks
    rank after all others, so that a pair left out there can still be found in another block.

    :param pages: with columns order, last, simhash, sieve, slots and probes
    :param limit: see :func:`.limit_of`
    """
    counts = hot_keys(keyed(pages), min(job.hot, job.most))
    hot = {key: count for key, count in counts.items() if count > job.hot}
    placed = chunked(records(with_crowded(pages, counts)), hot, job.hot)
    blocks = placed.repartition(partitions, "key", "block").sortWithinPartitions(
        "key", "block", "order"
    )
    shares = {key: max(1, job.most // chunks_of(count, job.hot)) for key, count in hot.items()}
    find = partial(_found, distance=distance, most=job.most, shares=shares, limit=limit)
    return blocks.mapInArrow(find, from_arrow_schema(PAIRS))


def chunks_of(count: int, limit: int) -> int:
    """Return the number of chunks of a hot key with ``count`` records; a task holds two at once."""
    return -(-2 * count // limit)


def _found(
    batches: Iterable[Any], distance: int, most: int, shares: Mapping[int, int], limit: float
) -> Iterator[Any]:
    """Find the pairs in sorted records; for ``mapInArrow``.

    :param most: largest number of candidates of a page under a key
    :param shares: the same in one block of each hot key, which is in several
    """
    for columns in whole_blocks(batches):
        for share, some in _by_share(columns, shares):
            blocks = blocks_of(some)
            for found in pairing.pairs(blocks, distance, (most, share), limit):
                orders = [pa.array(blocks.orders[rows]) for rows in found]
                yield pa.RecordBatch.from_arrays(orders, schema=PAIRS)


def _by_share(
    columns: dict[str, NDArray[np.int64]], shares: Mapping[int, int]
) -> Iterator[tuple[int, dict[str, NDArray[np.int64]]]]:
    """Split records by the shares of their keys; keys that are not hot have any."""
    keys, places = np.unique(columns["key"], return_inverse=True)
    own = np.array([shares.get(key, 0) for key in keys.tolist()], np.int64)[places]
    found = np.unique(own).tolist()
    for share in found:
        some = columns
        if len(found) > 1:
            some = {name: values[own == share] for name, values in columns.items()}
        yield share, some


def whole_blocks(batches: Iterable[Any]) -> Iterator[dict[str, NDArray[np.int64]]]:
    """Yield the columns of sorted batches, cut between blocks; see :class:`.Blocks`."""
    for rows in whole_groups(batches, "key", "block"):
        single = [name for name in rows.schema.names if name not in (_LOWER, _SIEVE)]
        yield {
            **{name: words(rows.column(name)) for name in single},
            _LOWER: matrix(rows.column(_LOWER)),
            _SIEVE: fixed(rows.column(_SIEVE), pairing.WORDS),
        }


def blocks_of(columns: dict[str, NDArray[np.int64]]) -> pairing.Blocks:
    """Group records into blocks; blocks of a single record are left out."""
    key, block = columns["key"], columns["block"]
    new = np.ones(len(key), np.bool_)
    new[1:] = (key[1:] != key[:-1]) | (block[1:] != block[:-1])
    counts = np.diff(np.append(np.flatnonzero(new), len(key)))
    many = counts > 1
    rows = np.repeat(many, counts)
    own = {name: np.ascontiguousarray(values[rows]) for name, values in columns.items()}
    starts = starts_of(counts[many])
    keys, flags = own["key"][starts[:-1]], own["flags"][starts[:-1]]
    of_bands = keys >= pairing.BAND_KEY
    tables = np.where(of_bands, (keys & ~np.int64(pairing.BAND_KEY)) >> TABLE_SHIFT, keys >> 16)
    return pairing.Blocks(
        starts,
        tables,
        np.where(flags & pairing.SPLIT != 0, 1, 0),
        own["order"],
        own["last"],
        own["simhash"].view(np.uint64),
        own["flags"],
        own["crowded"],
        own[_LOWER],
        own[_SIEVE].view(np.uint64),
    )
