"""Calls that read buckets of many pages on all shards, or add records to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from dedup_middleware.index.cluster.shards import ClusterNamespace
from dedup_middleware.index.redis.expiry import end_of, hash_of
from dedup_middleware.index.redis.link import Call
from dedup_middleware.model.buckets import (
    ANCHOR_TABLES,
    SIMHASH_TABLES,
    BucketKey,
    BucketKeys,
    Neighbours,
)

_WRITE, _WIDE, _ANCHOR = 1, 2, 4
_ITEM = 15  # bytes
_ITEMS = 1024  # in one call, which keeps its server for about a millisecond


@attrs.frozen(eq=False)
class Visit:
    """Bucket keys of some pages, and the calls that read them.

    ``owners``: of each bucket key its page; ``positions``: its place among those of the page;
    ``parts``: of each call which bucket keys its items are.
    """

    keys: list[Sequence[BucketKey]]
    owners: NDArray[np.int64]
    positions: NDArray[np.int64]
    parts: list[NDArray[np.int64]]
    calls: list[Call]


@attrs.frozen(eq=False)
class PagesToVisit:
    """Bucket keys of some pages.

    ``written``: how many bucket keys of each page get a record, the first ones; ``page_ids``: of
    each page that gets records.
    """

    keys: list[Sequence[BucketKey]]
    written: list[int]
    page_ids: list[int]


def visit(
    index: ClusterNamespace,
    pages: PagesToVisit,
    generations: Sequence[int],
    newest: int,
    *,
    returns: bool = True,
) -> Visit:
    """Calls that visit all buckets of some pages, the pages in the same order on every shard.

    :param generations: those that are read, the oldest first
    :param newest: the one that is written
    :param returns: whether the calls return what they find
    """
    every = [BucketKeys.of(keys).words for keys in pages.keys]
    counts = np.array([len(one) // 2 for one in every], np.int64)
    words = np.concatenate([np.empty(0, np.uint64), *every])
    buckets, suffixes = words[::2], words[1::2]
    owners = np.repeat(np.arange(len(every)), counts)
    starts = np.cumsum(counts) - counts
    positions = np.arange(len(buckets)) - starts[owners]
    writes = positions < np.array(pages.written, np.int64)[owners]
    tables = (buckets >> np.uint64(16)).astype(np.int64)
    page_ids = np.array(pages.page_ids, np.uint64)[owners]
    shards = index.spread.of_buckets(buckets)
    order = np.lexsort((tables, shards))
    items = np.zeros((len(buckets), _ITEM), np.uint8)
    items[:, 1] = (
        _WRITE * writes
        + _WIDE * np.isin(tables, SIMHASH_TABLES)
        + _ANCHOR * np.isin(tables, ANCHOR_TABLES)
    )
    items[:, 2] = (buckets >> np.uint64(8)) & np.uint64(0xFF)
    items[:, 3] = buckets & np.uint64(0xFF)
    items[:, 4:9] = _bytes(page_ids)[:, :5]
    items[:, 9:15] = _bytes(suffixes)[:, :6]
    ends = [end_of(one) for one in generations] if index.window else [b""]
    place = generations.index(newest) + 1 if index.window else 1
    parts, calls = [], []
    ordered = shards[order]
    borders = np.flatnonzero(np.diff(ordered)) + 1
    for group in np.split(order, borders) if len(order) else ():
        shard = int(shards[group[0]])
        for start in range(0, len(group), _ITEMS):
            part = group[start : start + _ITEMS]
            own, groups = np.unique(tables[part], return_inverse=True)
            items[part, 0] = groups + 1
            names = [hash_of(b"", table, end) for table in own.tolist() for end in ends]
            calls.append(
                index.script_call(
                    "visit",
                    shard,
                    (b"counters", *names),
                    len(ends),
                    place,
                    int(returns),
                    items[part].tobytes(),
                )
            )
            parts.append(part)
    return Visit(pages.keys, owners, positions, parts, calls)


def found(made: Visit, replies: Sequence[Any], distance: int) -> list[Neighbours | None]:
    """What each page has met; None: nothing at all."""
    from dedup_middleware.index.scan import neighbours  # numba stays lazy

    data: dict[int, list[tuple[int, bytes]]] = {}
    flaws: dict[int, tuple[int, int]] = {}
    for part, reply in zip(made.parts, replies, strict=True):
        for head, records in zip(reply[::2], reply[1::2], strict=True):
            at = int(part[int.from_bytes(head[:2], "little")])
            owner = int(made.owners[at])
            data.setdefault(owner, []).append((int(made.positions[at]), records))
            if head[2] or head[3]:
                odd, full = flaws.get(owner, (0, 0))
                flaws[owner] = odd + head[2], full + head[3]
    results: list[Neighbours | None] = [None] * len(made.keys)
    for owner, every in data.items():
        keys = [made.keys[owner][position] for position, _ in every]
        near = neighbours(keys, [records for _, records in every], distance)
        odd, full = flaws.get(owner, (0, 0))
        results[owner] = attrs.evolve(near, corrupt=odd, full=full)
    return results


def _bytes(words: NDArray[np.uint64]) -> NDArray[np.uint8]:
    return np.ascontiguousarray(words, "<u8").view(np.uint8).reshape(-1, 8)
