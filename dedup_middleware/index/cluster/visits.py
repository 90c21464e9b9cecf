"""Calls that read buckets of many pages on all shards, or add records to them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
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
from dedup_middleware.model.records import BAND_SUFFIX_BITS, SIMHASH_SUFFIX_BITS

_WIDE, _ANCHOR = 1, 2
_GROUP = np.dtype([("kind", "u1"), ("items", "<u2"), ("fields", "<u2")])
_BYTES = np.arange(8)


@attrs.frozen(eq=False)
class _Columns:
    """Items in the order in which ``visit.lua`` takes them: by shard, table and bucket.

    ``groups``: first item of each table of each shard, and behind the last one; ``fields``: the
    same for different fields; ``sizes``: bytes of the suffixes before each item.
    """

    shards: NDArray[np.int64]
    tables: NDArray[np.int64]
    groups: NDArray[np.int64]
    fields: NDArray[np.int64]
    heads: NDArray[np.void]
    names: NDArray[np.uint16]
    places: NDArray[np.uint16]
    ids: NDArray[np.uint8]
    suffixes: bytes
    sizes: NDArray[np.int64]

    @classmethod
    def of(
        cls,
        buckets: NDArray[np.uint64],
        suffixes: NDArray[np.uint64],
        page_ids: NDArray[np.uint64],
        shards: NDArray[np.int64],
    ) -> _Columns:
        """Columns of items that are in this order already."""
        tables = (buckets >> np.uint64(16)).astype(np.int64)
        is_first = np.diff(shards * 256 + tables, prepend=-1) != 0
        is_new = is_first | (np.diff(buckets, prepend=~buckets[:1]) != 0)
        starts = np.flatnonzero(is_first)
        groups = np.append(starts, len(buckets))
        number = np.cumsum(is_new)  # of different fields, up to each item
        firsts = number[starts] - 1
        fields = np.append(firsts, number[-1])
        heads = np.zeros(len(starts), _GROUP)
        wide = np.isin(tables, SIMHASH_TABLES)
        kinds = _WIDE * wide + _ANCHOR * np.isin(tables, ANCHOR_TABLES)
        heads["kind"], heads["items"], heads["fields"] = (
            kinds[starts],
            np.diff(groups),
            np.diff(fields),
        )
        widths = np.where(wide, SIMHASH_SUFFIX_BITS // 8, BAND_SUFFIX_BITS // 8)
        return cls(
            shards[starts],
            tables[starts],
            groups,
            fields,
            heads,
            buckets[is_new].astype(">u2"),
            (number - np.repeat(firsts, np.diff(groups))).astype("<u2"),
            _bytes(page_ids)[:, :5],
            _bytes(suffixes)[widths[:, None] > _BYTES].tobytes(),
            np.append(0, np.cumsum(widths)),
        )

    def calls(self, *, writes: bool) -> Iterator[tuple[int, slice, list[bytes], list[int]]]:
        """Of each shard its items, the arguments of its call, and its tables.

        :param writes: whether any item is written
        """
        borders = np.flatnonzero(np.diff(self.shards, prepend=-1, append=-1)).tolist()
        for start, stop in pairwise(borders):
            items = slice(int(self.groups[start]), int(self.groups[stop]))
            fields = slice(int(self.fields[start]), int(self.fields[stop]))
            arguments = [
                self.heads[start:stop].tobytes(),
                self.names[fields].tobytes(),
                self.places[items].tobytes(),
                self.ids[items].tobytes() if writes else b"",
                self.suffixes[int(self.sizes[items.start]) : int(self.sizes[items.stop])],
            ]
            yield int(self.shards[start]), items, arguments, self.tables[start:stop].tolist()


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
    tables: Sequence[int] | None = None,
    returns: bool = True,
) -> Visit:
    """Calls that visit all buckets of some pages, the pages in the same order on every shard.

    :param generations: generations to read, the oldest first
    :param newest: the one that is written
    :param tables: tables to visit; None: all
    :param returns: whether the calls return what they find
    """
    every = [BucketKeys.of(keys).words for keys in pages.keys]
    counts = np.array([len(one) // 2 for one in every], np.int64)
    words = np.concatenate([np.empty(0, np.uint64), *every])
    owners = np.repeat(np.arange(len(every)), counts)
    positions = np.arange(len(owners)) - (np.cumsum(counts) - counts)[owners]
    written = positions < np.array(pages.written, np.int64)[owners]
    page_ids = np.where(written, np.array(pages.page_ids, np.uint64)[owners], np.uint64(0))
    shards = index.spread.of_buckets(words[::2])
    order = np.lexsort((words[::2], shards))  # stable: pages stay in their order
    if tables is not None:
        order = order[np.isin((words[::2] >> np.uint64(16))[order], tables)]
    if not len(order):
        return Visit(pages.keys, owners, positions, [], [])
    columns = _Columns.of(words[::2][order], words[1::2][order], page_ids[order], shards[order])
    ends = [end_of(one) for one in generations] if index.window else [b""]
    place = generations.index(newest) + 1 if index.window else 1
    parts, calls = [], []
    for shard, items, arguments, held in columns.calls(writes=any(pages.written)):
        names = [hash_of(b"", table, end) for table in held for end in ends]
        keys = (b"counters", *names)
        calls.append(
            index.script_call("visit", shard, keys, len(ends), place, int(returns), *arguments)
        )
        parts.append(order[items])
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
