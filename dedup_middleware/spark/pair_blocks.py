"""Pages to blocks, and blocks to pairs, on all machines.

Keys of blocks are the buckets of the four SimHash tables (prefix-coded blocks: 周游, 贾创辉:
大规模文本去重研究, 现代计算机 2019(6)) and the 40-bit keys of the other tables, which are all
that an index compares there. Keys are counted in two stages, salted and then whole, so that no
task counts a hot one alone; a hot key is split into chunks, and each pair of chunks is a block, so
that no task holds a whole hot list. Only numbers are moved here: of a page, its SimHash and its
sieve, and the keys that decide whether a pair has a lower block in common. What a method judges by
follows for candidates alone, and pages that can't be duplicates of each other are no candidates
(:func:`.make_sieve`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql.pandas.types import from_arrow_schema

from dedup_middleware.index.pages import TABLE_SHIFT, starts_of
from dedup_middleware.model.buckets import KEY_TABLE, SIMHASH_TABLES
from dedup_middleware.model.records import BAND_SUFFIX_BITS
from dedup_middleware.spark.columns import fixed, matrix, numbers, words
from dedup_middleware.spark.job_settings import Job
from dedup_middleware.spark.pairing import (
    BAND_KEY,
    NOTHING,
    NUMBER_SHIFT,
    PROBE,
    SECOND,
    SIGNED,
    SPLIT,
    WORDS,
    Blocks,
    pairs,
)

PAIRS = pa.schema({"page": "int64", "candidate": "int64"})
_SALTS = 10
_MOST_PAIRS = 1 << 16
_FIRST, _LAST = SIMHASH_TABLES[0], SIMHASH_TABLES[-1]
_LOWER, _SIEVE = "lower", "sieve"
_OF_PAGE = ("order", "last", "simhash", "crowded", _SIEVE)  # columns of a record from its page
_PLACES = "array<bigint>"


def _is_simhash(bucket_key: Column) -> Column:
    table = F.shiftright(bucket_key, TABLE_SHIFT)
    return (table >= _FIRST) & (table <= _LAST)


def _bucket(bucket_key: Column) -> Column:
    return F.shiftright(bucket_key, BAND_SUFFIX_BITS)


def _key(bucket_key: Column) -> Column:
    band_key = bucket_key.bitwiseOR(F.lit(BAND_KEY))
    return F.when(_is_simhash(bucket_key), _bucket(bucket_key)).otherwise(band_key).alias("key")


def table_bit(bucket_key: Column) -> Column:
    """The mask of a bucket key's table."""
    table = F.shiftright(bucket_key, TABLE_SHIFT).cast("int")
    return F.call_function("shiftleft", F.lit(1).cast("bigint"), table)


def _is_key(bucket_key: Column) -> Column:
    return F.shiftright(bucket_key, TABLE_SHIFT) == KEY_TABLE


def _probes() -> Column:
    return F.coalesce("probes", F.array().cast(_PLACES))


def searched() -> Column:
    """The bucket keys in which a page searches for others."""
    return F.concat("slots", _probes())


def keyed(pages: DataFrame) -> DataFrame:
    """Records (order, bucket_key, bucket, key) of pages, to be counted.

    :param pages: with columns order, slots and probes
    """
    bucket_key = F.col("bucket_key")
    every = pages.select("order", F.explode(searched()).alias("bucket_key"))
    return every.select(
        "order", "bucket_key", _bucket(bucket_key).alias("bucket"), _key(bucket_key)
    )


def records(pages: DataFrame) -> DataFrame:
    """Records (key, order, last, simhash, crowded, sieve, flags, lower) of pages, see
    :class:`.Blocks`.

    :param pages: with columns order, last, simhash, crowded, sieve, slots and probes
    """
    # The lowest first: SimHash tables, of which a page is in all or in none, bands, and the key.
    ascending = F.array_sort("slots")
    slots = F.concat(
        F.filter(ascending, lambda one: ~_is_key(one)), F.filter(ascending, _is_key)
    ).alias("slots")
    base = pages.select(*_OF_PAGE, slots, _probes().alias("probes"))
    signed = _is_simhash(F.col("slots")[0])
    of_simhashes = F.when(signed, len(SIMHASH_TABLES)).otherwise(0).alias("of_simhashes")
    flags = F.when(signed, SIGNED).otherwise(0).alias("flags")
    base = base.select("*", of_simhashes, flags)
    bucket_key, number = F.col("bucket_key"), F.col("number")

    def bands(count: Column) -> Column:
        """The probes, and some of the bucket keys in tables of band records."""
        return F.concat("probes", F.slice("slots", F.col("of_simhashes") + 1, count))

    def of(kind: str, flags: Column, lower: Column) -> DataFrame:
        exploded = base.where(F.size(kind) > 0).select(
            "*", F.posexplode(kind).alias("number", "bucket_key")
        )
        own = flags.cast("bigint").alias("flags")
        return exploded.select(_key(bucket_key), *_OF_PAGE, own, lower.alias("lower"))

    every = bands(F.size("slots"))
    lower = (
        F.when(F.col("crowded").bitwiseAND(table_bit(bucket_key)) != 0, every)
        .when(number < F.col("of_simhashes"), F.array().cast(_PLACES))
        .otherwise(bands(number - F.col("of_simhashes")))
    )
    probing = F.col("flags").bitwiseOR(F.lit(PROBE)).bitwiseOR(F.shiftleft(number, NUMBER_SHIFT))
    return of("slots", F.col("flags"), lower).union(of("probes", probing, every))


def hot_keys(found: DataFrame, hot: int) -> dict[int, int]:
    """Keys with more than ``hot`` records, and the number of their records.

    Buckets are counted first, of which there are few; keys only in hot ones.
    """
    buckets = _counted(found, "bucket", hot)
    if not buckets:
        return {}
    names = numbers(found.sparkSession, bucket=buckets)
    within = found.join(F.broadcast(names), "bucket", "left_semi")
    return _counted(within, "key", hot)


def _counted(found: DataFrame, column: str, hot: int) -> dict[int, int]:
    salt = F.pmod(F.col("order"), F.lit(_SALTS)).alias("salt")
    first = found.groupBy(column, salt).agg(F.count("*").alias("n"))
    second = first.groupBy(column).agg(F.sum("n").alias("n")).where(F.col("n") > hot)
    return {int(row[0]): int(row[1]) for row in second.collect()}


def with_crowded(pages: DataFrame, counts: dict[int, int]) -> DataFrame:
    """Pages with ``crowded``, the mask of the tables in which their key is one of ``counts``."""
    if not counts:
        return pages.withColumn("crowded", F.lit(0).cast("bigint"))
    names = numbers(pages.sparkSession, key=counts)
    own = pages.select("order", F.explode("slots").alias("bucket_key"))
    own = own.select("order", "bucket_key", _key(F.col("bucket_key")))
    met = own.join(F.broadcast(names), "key", "left_semi")
    masks = met.groupBy("order").agg(F.bit_or(table_bit(F.col("bucket_key"))).alias("crowded"))
    return pages.join(masks, "order", "left").fillna(0, "crowded")


def chunked(found: DataFrame, hot: dict[int, int], limit: int) -> DataFrame:
    """Records with the ``block`` they go to within their key; those of hot keys go to several.

    Chunks a <= b are paired in block ``a * chunks + b``; where they are equal, a chunk with itself.
    """
    if not hot:
        return found.withColumn("block", F.lit(0))
    # Two chunks are in memory at once.
    chunks = [-(-2 * count // limit) for count in hot.values()]
    names = numbers(found.sparkSession, key=hot, chunks=chunks)
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
        .bitwiseOR(F.when(F.col("place.split"), F.lit(SPLIT)).otherwise(F.lit(0)))
    )
    return split.select("key", *_OF_PAGE, flags.alias("flags"), "lower", "place.block")


def candidate_pairs(
    pages: DataFrame, job: Job, distance: int, limit: float, partitions: int
) -> DataFrame:
    """Pages with their candidates (page, candidate), each pair once: from its lowest common block.

    A key is crowded when a page may have more candidates under it than are compared. Such ones
    come behind all others, so that a pair they leave out is found where it can be.

    :param pages: with columns order, last, simhash, sieve, slots and probes
    :param distance: largest Hamming distance of SimHashes
    :param limit: see :func:`.limit_of`
    """
    counts = hot_keys(keyed(pages), min(job.hot, job.most))
    hot = {key: count for key, count in counts.items() if count > job.hot}
    placed = chunked(records(with_crowded(pages, counts)), hot, job.hot)
    blocks = placed.repartition(partitions, "key", "block").sortWithinPartitions(
        "key", "block", "order"
    )
    chunks = -(-2 * max(hot.values(), default=0) // job.hot)
    most = (job.most, max(1, job.most // max(1, chunks)))
    return blocks.mapInArrow(_finder(distance, most, limit), from_arrow_schema(PAIRS))


def _finder(
    distance: int, most: tuple[int, int], limit: float
) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """A function for ``mapInArrow`` over sorted records."""

    def work(batches: Iterable[Any]) -> Iterator[Any]:
        for columns in whole_blocks(batches):
            blocks = blocks_of(columns)
            at = (0, 0)
            while at[0] < len(blocks.tables):
                room = max(_MOST_PAIRS, most[0])
                page, candidate, at = pairs(blocks, distance, most, limit, room, at)
                orders = [pa.array(blocks.orders[rows]) for rows in (page, candidate)]
                yield pa.RecordBatch.from_arrays(orders, schema=PAIRS)

    return work


def whole_blocks(batches: Iterable[Any]) -> Iterator[dict[str, NDArray[np.int64]]]:
    """Columns of sorted batches, cut so that no block is in two of them; see :class:`.Blocks`."""
    kept: dict[str, NDArray[np.int64]] | None = None
    for batch in batches:
        single = [name for name in batch.schema.names if name not in (_LOWER, _SIEVE)]
        columns = {name: words(batch.column(name)) for name in single}
        columns[_LOWER] = matrix(batch.column(_LOWER), NOTHING)
        columns[_SIEVE] = fixed(batch.column(_SIEVE), WORDS)
        if kept is not None:
            width = max(kept[_LOWER].shape[1], columns[_LOWER].shape[1])
            for part in (kept, columns):
                more = ((0, 0), (0, width - part[_LOWER].shape[1]))
                part[_LOWER] = np.pad(part[_LOWER], more, constant_values=NOTHING)
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
    starts = starts_of(counts[many])
    keys, flags = own["key"][starts[:-1]], own["flags"][starts[:-1]]
    of_bands = keys >= BAND_KEY
    tables = np.where(of_bands, (keys & ~np.int64(BAND_KEY)) >> TABLE_SHIFT, keys >> 16)
    return Blocks(
        starts,
        tables,
        np.where(flags & SPLIT != 0, 1, 0),
        own["order"],
        own["last"],
        own["simhash"].view(np.uint64),
        own["flags"],
        own["crowded"],
        own[_LOWER],
        own[_SIEVE].view(np.uint64),
    )
