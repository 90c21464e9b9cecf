"""Calls of ``visit.lua`` and HMGET that read the buckets of many pages, or add records to them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from dedup_middleware.index.cluster.shards import ClusterShards
from dedup_middleware.index.cluster.spread import FIELD, GROUPS, group_hash, groups_of
from dedup_middleware.index.pages import bytes_of
from dedup_middleware.index.redis.link import Call
from dedup_middleware.model.buckets import (
    ANCHOR_TABLES,
    SIMHASH_TABLES,
    BucketKey,
    BucketKeys,
    Neighbours,
)
from dedup_middleware.model.records import (
    BAND_SUFFIX_BYTES,
    PAGE_ID_BYTES,
    SIMHASH_RECORD,
    SIMHASH_SUFFIX_BYTES,
)

_GROUP = np.dtype([(name, "<u2") for name in ("items", "fields", "wide", "first", "last")])
_ONLY_READ = np.uint16(1 << 15)  # flag added to the place of an item for which nothing is written
_LONG = 256  # mean bytes of buckets above which searching them by a script is cheaper
_COLUMNS = np.arange(FIELD + SIMHASH_RECORD)
_PLAIN, _PLACES, _AS_PAIRS = range(3)  # formats of the items in a call of visit.lua
_PAIRS = 1000  # maximum items sent as pairs in a call: they must fit on Lua's stack


def _joined(rows: NDArray[np.uint8], widths: NDArray[np.int64]) -> bytes:
    """Concatenate the first ``widths[i]`` bytes of each row i."""
    return rows[_COLUMNS[: rows.shape[1]] < widths[:, None]].tobytes()


class _Columns:
    """Items (bucket keys) encoded for ``visit.lua``, sorted by shard, group of tables and bucket.

    :param page_ids: the page id of each item; 0: the item is only read
    """

    def __init__(
        self,
        buckets: NDArray[np.uint64],
        suffixes: NDArray[np.uint64],
        page_ids: NDArray[np.uint64],
        shards: NDArray[np.int64],
    ) -> None:
        tables = (buckets >> np.uint64(16)).astype(np.int64)
        numbers = groups_of(tables)
        is_first = np.diff(shards * len(GROUPS) + numbers, prepend=-1) != 0
        is_new = is_first | (np.diff(buckets, prepend=~buckets[:1]) != 0)
        starts = np.flatnonzero(is_first)
        self.shards, self.numbers = shards[starts], numbers[starts]
        self.groups = np.append(starts, len(buckets))  # start of each (shard, group), and the end
        counts = np.diff(self.groups)
        number = np.cumsum(is_new)  # number of distinct fields up to each item
        firsts = number[starts] - 1
        self.fields = np.append(firsts, number[-1])  # the same among the distinct fields
        wide = np.isin(tables, SIMHASH_TABLES)
        heads = self.heads = np.zeros(len(starts), _GROUP)
        heads["items"], heads["fields"] = counts, np.diff(self.fields)
        heads["wide"] = np.add.reduceat(wide, starts, dtype=np.int64)
        # Tables ascend within a group, so the anchors are contiguous.
        heads["first"] = np.add.reduceat(tables < ANCHOR_TABLES[0], starts, dtype=np.int64) + 1
        heads["last"] = np.add.reduceat(tables <= ANCHOR_TABLES[-1], starts, dtype=np.int64)
        self.places = (number - np.repeat(firsts, counts)).astype("<u2")
        widths = np.where(wide, SIMHASH_SUFFIX_BYTES, BAND_SUFFIX_BYTES)
        raw = bytes_of(suffixes)[:, :SIMHASH_SUFFIX_BYTES]
        names = buckets.astype(">u4").view(np.uint8).reshape(-1, 4)[:, -FIELD:]
        self.names = names[is_new]
        self.writes = bool(page_ids.any())
        self.pairs = b""  # field and record of each item
        if self.writes:
            self.places[page_ids == 0] += _ONLY_READ
            raw = np.hstack((bytes_of(page_ids)[:, :PAGE_ID_BYTES], raw))
            widths = widths + PAGE_ID_BYTES
            self.pairs = _joined(np.hstack((names, raw)), widths + FIELD)
        self.records = _joined(raw, widths)
        self.sizes = np.append(0, np.cumsum(widths))  # bytes of the records before each item

    def reads(self) -> Iterator[tuple[int, int, slice, list[bytes]]]:
        """Yield shard, group, slice of items, and fields of each group of each shard."""
        places = zip(pairwise(self.groups.tolist()), pairwise(self.fields.tolist()), strict=True)
        names = self.names.tobytes()
        for shard, number, ((a, b), (c, d)) in zip(
            self.shards.tolist(), self.numbers.tolist(), places, strict=True
        ):
            fields = [names[at : at + FIELD] for at in range(c * FIELD, d * FIELD, FIELD)]
            yield shard, number, slice(a, b), fields

    def calls(self, *, pairs: bool) -> Iterator[tuple[int, slice, tuple[bytes, bytes], list[int]]]:
        """Yield shard, slice of items, (groups, data) for the script, and groups of each shard;
        with ``pairs`` items are sent as pairs where possible."""
        borders = np.flatnonzero(np.diff(self.shards, prepend=-1, append=-1)).tolist()
        for start, stop in pairwise(borders):
            items = slice(int(self.groups[start]), int(self.groups[stop]))
            fields = slice(int(self.fields[start]), int(self.fields[stop]))
            places = self.places[items]
            # Each item has its own field, and none is marked _ONLY_READ.
            is_plain = len(places) == fields.stop - fields.start and places.max() < _ONLY_READ
            first, last = int(self.sizes[items.start]), int(self.sizes[items.stop])
            if is_plain and pairs and self.writes and len(places) <= _PAIRS:
                form = _AS_PAIRS
                data = self.pairs[first + FIELD * items.start : last + FIELD * items.stop]
            else:
                form = _PLAIN if is_plain else _PLACES
                data = (
                    self.names[fields].tobytes()
                    + (b"" if is_plain else places.tobytes())
                    + self.records[first:last]
                )
            groups = bytes((form,)) + self.heads[start:stop].tobytes()
            yield int(self.shards[start]), items, (groups, data), self.numbers[start:stop].tolist()


class Visit:
    """The calls that read or write buckets, with the pages in the same order on every shard.

    :param keys: the bucket keys of each page
    :param written: for each page the number of its leading bucket keys that get a record
    :param page_ids: the id of each page; unused where no record is written
    :param generations: generations to read, the oldest first
    :param newest: the generation to write
    :param group: the group of tables to visit; None: all
    :param returns: whether the calls return what they find
    """

    def __init__(
        self,
        index: ClusterShards,
        keys: list[Sequence[BucketKey]],
        written: list[int],
        page_ids: list[int],
        generations: Sequence[int],
        newest: int,
        *,
        group: int | None = None,
        returns: bool = True,
    ) -> None:
        self.calls: list[Call] = []
        self._keys = keys
        # For each call the indices of its items among all bucket keys.
        self._parts: list[NDArray[np.int64]] = []
        # For each call that returns whole buckets: the position of each item's bucket in the reply.
        self.places: list[NDArray[np.uint16]] = []
        every = [BucketKeys.of(one).words for one in keys]
        counts = np.array([len(one) // 2 for one in every], np.int64)
        words = np.concatenate([np.empty(0, np.uint64), *every])
        # For each bucket key its page, and its position among that page's bucket keys.
        self._owners = np.repeat(np.arange(len(every)), counts)
        self._positions = np.arange(len(words) // 2) - (np.cumsum(counts) - counts)[self._owners]
        writes = self._positions < np.array(written, np.int64)[self._owners]
        own_ids = np.where(writes, np.array(page_ids, np.uint64)[self._owners], np.uint64(0))
        shards = index.spread.of_buckets(words[::2])
        groups = groups_of((words[::2] >> np.uint64(16)).astype(np.int64))
        order = np.lexsort((words[::2], groups, shards))  # stable: pages stay in their order
        if group is not None:
            order = order[groups[order] == group]
        if not len(order):
            return
        columns = _Columns(words[::2][order], words[1::2][order], own_ids[order], shards[order])
        ends = index.ends(generations)
        if index.reads_whole and not columns.writes:
            for shard, number, items, names in columns.reads():
                for end in ends:
                    key = index.spread.prefix(shard) + group_hash(number, end)
                    self.calls.append(Call(("HMGET", key, *names)))
                    self._parts.append(order[items])
                    self.places.append(columns.places[items] - np.uint16(1))  # Lua counts from 1
            return
        place = generations.index(newest) + 1
        head = bytes((len(ends), place, returns, columns.writes))
        for shard, items, (heads, data), held in columns.calls(pairs=len(ends) == 1):
            own = (b"counters", *(group_hash(one, end) for one in held for end in ends))
            self.calls.append(
                index.script_call("visit", shard, own, head + heads, data, leases=False)
            )
            self._parts.append(order[items])

    def found(self, replies: Sequence[Any], distance: int) -> list[Neighbours | None]:
        """The neighbours of each page; None if no bucket returned a record."""
        from dedup_middleware.index.scan import neighbours  # numba stays lazy

        data: dict[int, list[tuple[int, bytes]]] = {}
        flaws: dict[int, tuple[int, int]] = {}

        def take(at: int, records: bytes) -> int:
            owner = int(self._owners[at])
            data.setdefault(owner, []).append((int(self._positions[at]), records))
            return owner

        for part, places, reply in zip(self._parts, self.places, replies, strict=False):
            for at, place in zip(part.tolist(), places.tolist(), strict=True):
                if reply[place]:
                    take(at, reply[place])
        for part, reply in () if self.places else zip(self._parts, replies, strict=True):
            for head, records in zip(reply[::2], reply[1::2], strict=True):
                if isinstance(head, int):
                    take(int(part[head]), records)
                    continue
                owner = take(int(part[int.from_bytes(head[:2], "little")]), records)
                odd, full = flaws.get(owner, (0, 0))
                flaws[owner] = odd + head[2], full + head[3]
        results: list[Neighbours | None] = [None] * len(self._keys)
        for owner, every in data.items():
            keys = [self._keys[owner][position] for position, _ in every]
            near = neighbours(keys, [records for _, records in every], distance)
            if not self.places:
                odd, full = flaws.get(owner, (0, 0))
                near = attrs.evolve(near, corrupt=odd, full=full)
            results[owner] = near
        return results

    def are_short(self, replies: Sequence[Any]) -> bool:
        """Whether buckets are so short that further ones should be read as a whole."""
        if not self.places:
            return True
        sizes = [len(raw or b"") for reply in replies for raw in reply]
        return sum(sizes) <= _LONG * len(sizes)
