"""Pages in bulk: column-wise storage, loading, and compaction of buckets."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence

import attrs
import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base.errors import IndexUnavailableError
from dedup_middleware.model.buckets import (
    ADDRESS_LIMIT,
    BUCKET_LIMIT,
    FIRST_SIMHASH,
    LAST_SIMHASH,
    PAYLOAD_LIMIT,
    BucketKey,
    BucketKeys,
    cut_address,
    width_of,
)
from dedup_middleware.model.claims import Entry
from dedup_middleware.model.records import (
    BAND_SUFFIX_BITS,
    CONTENT,
    PAGE_ID_BYTES,
    SIMHASH_SUFFIX_BITS,
    PageRecords,
    page_ids_of,
)

TABLE_SHIFT = 40  # bits of a packed bucket key below the table: prefix (16), suffix (24)
PACKED_KEY_BITS = TABLE_SHIFT + 8
MOST_BUCKET_KEYS = 255  # per page
_NO_WORDS = np.empty(0, np.uint64)


@attrs.frozen(eq=False)
class Pages:
    """n stored pages, one column per field.

    * ``content``: CONTENT[n], see :mod:`.records`
    * ``addresses``: UTF-8, None where none is stored
    * ``payloads``: other data that a method stores for a page
    * ``times``: uint32[n], seconds since 1970 at which a page was stored; 0: unknown
    * ``bucket_keys``: uint64[m], packed bucket keys of all pages in page order, each
      ``table << 40 | first 40 bits of the hash`` (so ``key >> 24`` is the bucket)
    * ``starts``: int64[n + 1], page i has ``bucket_keys[starts[i]:starts[i + 1]]``

    :raises ValueError: a column does not fit the others; the message names it
    """

    content: NDArray[np.void]
    addresses: Sequence[bytes | None]
    payloads: Sequence[bytes]
    times: NDArray[np.uint32]
    bucket_keys: NDArray[np.uint64]
    starts: NDArray[np.int64]

    def __attrs_post_init__(self) -> None:
        count = len(self.content)
        if self.content.dtype != CONTENT:
            raise ValueError(f"content has dtype {self.content.dtype}, an index keeps {CONTENT}")
        for name in ("addresses", "payloads", "times"):
            if (found := len(getattr(self, name))) != count:
                raise ValueError(f"{name} has {found} values for {count} pages; give each page one")
        starts = self.starts
        if len(starts) != count + 1 or starts[0] != 0 or starts[-1] != len(self.bucket_keys):
            raise ValueError(
                f"starts must have {count + 1} values from 0 to {len(self.bucket_keys)}, the "
                f"number of bucket keys; it has {len(starts)} from {starts[:1]} to {starts[-1:]}"
            )
        counts = np.diff(starts)
        if count and (int(counts.min()) < 0 or int(counts.max()) > MOST_BUCKET_KEYS):
            raise ValueError(
                f"starts must ascend by 0 to {MOST_BUCKET_KEYS}, the number of bucket keys of a "
                f"page; found {int(counts.min())} to {int(counts.max())}"
            )
        if len(self.bucket_keys) and int(self.bucket_keys.max()) >> PACKED_KEY_BITS:
            raise ValueError(
                f"bucket_keys holds {int(self.bucket_keys.max()):#x}, which has more than "
                f"{PACKED_KEY_BITS} bits"
            )
        of_simhashes = is_simhash(self.bucket_keys)
        keys = self.bucket_keys[of_simhashes]
        simhashes = np.repeat(self.content["simhash"], counts)[of_simhashes]
        if not np.array_equal(packed_simhash_keys(simhashes, keys >> np.uint64(TABLE_SHIFT)), keys):
            raise ValueError(
                "bucket_keys holds keys in SimHash tables that differ from the SimHashes"
            )
        _check_lengths("addresses", self.addresses, ADDRESS_LIMIT)
        _check_lengths("payloads", self.payloads, PAYLOAD_LIMIT)

    def __len__(self) -> int:
        return len(self.content)

    def part(self, start: int, stop: int) -> Pages:
        """Pages ``start`` to ``stop`` (exclusive)."""
        stop = min(stop, len(self))
        starts = self.starts[start : stop + 1]
        return Pages(
            self.content[start:stop],
            self.addresses[start:stop],
            self.payloads[start:stop],
            self.times[start:stop],
            self.bucket_keys[starts[0] : starts[-1]],
            starts - starts[0],
        )

    def chosen(self, which: NDArray[np.bool_]) -> Pages:
        """Select pages by a mask bool[n]."""
        counts = np.diff(self.starts)
        return Pages(
            self.content[which],
            [address for address, take in zip(self.addresses, which, strict=True) if take],
            [payload for payload, take in zip(self.payloads, which, strict=True) if take],
            self.times[which],
            self.bucket_keys[np.repeat(which, counts)],
            starts_of(counts[which]),
        )


def joined(parts: Sequence[Pages]) -> Pages:
    """Concatenate at least one part."""
    counts = np.concatenate([np.diff(part.starts) for part in parts])
    return Pages(
        np.concatenate([part.content for part in parts]),
        [address for part in parts for address in part.addresses],
        [payload for part in parts for payload in part.payloads],
        np.concatenate([part.times for part in parts]),
        np.concatenate([part.bucket_keys for part in parts]),
        starts_of(counts),
    )


def _check_lengths(name: str, values: Sequence[bytes | None], limit: int) -> None:
    longest = max((len(value) for value in values if value), default=0)
    if longest > limit:
        raise ValueError(f"{name} holds one of {longest} bytes: an index keeps at most {limit}")


def starts_of(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Start offsets of the values of each page, from the number of values per page.

    >>> starts_of(np.array([2, 0, 3]))
    array([0, 2, 2, 5])
    """
    starts = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=starts[1:])
    return starts


def packed_keys(bucket_keys: Iterable[Sequence[BucketKey]]) -> NDArray[np.uint64]:
    """Pack the bucket keys of pages, concatenated, as uint64: table (8 bits) | 40 bits of the hash.

    >>> hex(packed_keys([[BucketKey(7 << 16 | 0x1234, 0x56789A)]])[0])
    '0x7123456789a'
    """
    words = np.concatenate([_NO_WORDS, *(BucketKeys.of(some).words for some in bucket_keys)])
    buckets, suffixes = words[::2] << np.uint64(BAND_SUFFIX_BITS), words[1::2]
    # A SimHash suffix has 48 bits; its upper 24 are kept.
    first = suffixes >> np.uint64(SIMHASH_SUFFIX_BITS - BAND_SUFFIX_BITS)
    return np.asarray(buckets | np.where(is_simhash(buckets), first, suffixes), np.uint64)


def pages_of(entries: Sequence[Entry], times: Sequence[int] = ()) -> Pages:
    """Convert entries to columns; ``times``: see :class:`Pages`, empty: unknown."""
    return Pages(
        np.frombuffer(b"".join(entry.content for entry in entries), CONTENT),
        [cut_address(entry.address) if entry.address else None for entry in entries],
        [entry.payload for entry in entries],
        np.array(times or [0] * len(entries), np.uint32),
        packed_keys(entry.bucket_keys for entry in entries),
        starts_of(np.array([len(entry.bucket_keys) for entry in entries], np.int64)),
    )


def is_simhash(bucket_keys: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Mask of the packed bucket keys that belong to a SimHash table."""
    tables = bucket_keys >> np.uint64(TABLE_SHIFT)
    return np.asarray((tables >= FIRST_SIMHASH) & (tables <= LAST_SIMHASH), np.bool_)


def packed_simhash_keys(
    simhashes: NDArray[np.uint64], tables: NDArray[np.uint64]
) -> NDArray[np.uint64]:
    """Packed bucket keys of SimHashes in the given SimHash tables, elementwise."""
    first_bits = turned(simhashes, tables) >> np.uint64(64 - TABLE_SHIFT)
    return np.asarray(tables << np.uint64(TABLE_SHIFT) | first_bits, np.uint64)


def suffixes_of(
    bucket_keys: NDArray[np.uint64], simhashes: NDArray[np.uint64]
) -> NDArray[np.uint64]:
    """Record suffixes of packed bucket keys, given the SimHash of each key's page."""
    tables = bucket_keys >> np.uint64(TABLE_SHIFT)
    band_suffixes = bucket_keys & np.uint64((1 << BAND_SUFFIX_BITS) - 1)
    simhash_suffixes = turned(simhashes, tables) & np.uint64((1 << SIMHASH_SUFFIX_BITS) - 1)
    return np.asarray(np.where(is_simhash(bucket_keys), simhash_suffixes, band_suffixes), np.uint64)


def turned(simhashes: NDArray[np.uint64], tables: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """SimHashes rotated left for their SimHash tables; meaningless for other tables."""
    turn = (tables - np.uint64(FIRST_SIMHASH)) * np.uint64(16) % np.uint64(64)
    back = (np.uint64(64) - turn) % np.uint64(64)
    return np.asarray(simhashes << turn | simhashes >> back, np.uint64)


@attrs.frozen(eq=False)
class Records:
    """Records to append to buckets of one table.

    ``buckets``: ascending, each once; ``data``: the records of all buckets; those of bucket i are
    ``data[cuts[i]:cuts[i + 1]]``; ``width``: bytes of a record.
    """

    buckets: list[int]
    data: bytes
    cuts: list[int]
    width: int

    def __len__(self) -> int:
        return len(self.buckets)

    def part(self, start: int, stop: int) -> Records:
        """Records of buckets ``start`` to ``stop`` (exclusive)."""
        cuts = self.cuts[start : stop + 1]
        data = self.data[cuts[0] : cuts[-1]]
        return Records(self.buckets[start:stop], data, [cut - cuts[0] for cut in cuts], self.width)


def records_of(pages: Pages, page_ids: NDArray[np.uint64]) -> Iterator[Records]:
    """Yield the records of pages with the ids uint64[n], one table at a time."""
    of_page = np.repeat(np.arange(len(pages), dtype=np.int32), np.diff(pages.starts))
    tables = (pages.bucket_keys >> np.uint64(TABLE_SHIFT)).astype(np.uint8)
    for table in np.unique(tables).tolist():
        mine = np.flatnonzero(tables == table)
        bucket_keys = pages.bucket_keys[mine]
        prefixes = (bucket_keys >> np.uint64(BAND_SUFFIX_BITS)).astype(np.uint16)
        order = np.argsort(prefixes, kind="stable")  # 16 bits: NumPy uses a radix sort
        bucket_keys, prefixes, rows = bucket_keys[order], prefixes[order], of_page[mine[order]]
        width = width_of(table << 16)
        raw = np.empty((len(bucket_keys), width), np.uint8)
        raw[:, :PAGE_ID_BYTES] = bytes_of(page_ids[rows])[:, :PAGE_ID_BYTES]
        suffixes = bytes_of(suffixes_of(bucket_keys, pages.content["simhash"][rows]))
        raw[:, PAGE_ID_BYTES:] = suffixes[:, : width - PAGE_ID_BYTES]
        firsts = np.flatnonzero(np.diff(prefixes, prepend=np.uint16(~prefixes[0])))
        yield Records(
            (prefixes[firsts].astype(np.int64) | table << 16).tolist(),
            raw.tobytes(),
            [*(width * firsts).tolist(), width * len(bucket_keys)],
            width,
        )


def bytes_of(words: NDArray[np.uint64]) -> NDArray[np.uint8]:
    """View uint64[n] as uint8[n, 8], little-endian."""
    return np.ascontiguousarray(words, "<u8").view(np.uint8).reshape(-1, 8)


def fitting(length: int, records: bytes, width: int) -> bytes:
    """The leading records that still fit into a bucket of ``length`` bytes."""
    if length + len(records) <= BUCKET_LIMIT:
        return records
    return records[: max(0, BUCKET_LIMIT - length) // width * width]


BLOCK = 250_000  # pages loaded together, at about 1 KB of memory each
_LEAST, _MOST = 500, 50_000  # items in a step whose size is adapted
LEASE = 300.0  # maximum seconds between two steps of a load


@attrs.define
class Pace:
    """Adapts the number of items per step to the time that steps take.

    :param size: items in the first step
    :param seconds: target duration of a step; 0: the size is constant
    """

    size: int
    seconds: float = 0.0

    def parts(self, count: int) -> Iterator[tuple[int, int]]:
        """Yield (start, stop) of consecutive steps that cover ``count`` items."""
        start = 0
        while start < count:
            began, stop = time.perf_counter(), min(count, start + self.size)
            yield start, stop
            if self.seconds:
                spent = max(time.perf_counter() - began, 1e-6)
                wanted = int(self.size * min(2.0, self.seconds / spent))
                self.size = max(_LEAST, min(_MOST, wanted))
            start = stop


class Steps(ABC):
    """The steps of loading one block; each step is atomic and extends the lease of the load.

    :raises IndexUnavailableError: the index can't be reached, or the lease has expired
    """

    pages: Pace
    buckets: Pace

    @abstractmethod
    async def enter(self, pages: Pages) -> NDArray[np.uint64]:
        """Write the page records in state RELEASED; return their ids."""

    @abstractmethod
    async def add(self, records: Records) -> None:
        """Add records to their buckets."""

    @abstractmethod
    async def commit(self, page_ids: NDArray[np.uint64], times: NDArray[np.uint32]) -> None:
        """Make pages COMMITTED, at the times given (0: now)."""

    @abstractmethod
    async def end(self) -> None:
        """Release the lease."""


async def load(pages: Pages, begin: Callable[[], Steps]) -> None:
    """Load pages block by block; see :meth:`.Index.load`."""
    for first in range(0, len(pages), BLOCK):
        block, steps = pages.part(first, first + BLOCK), begin()
        page_ids = np.empty(len(block), np.uint64)
        for start, stop in steps.pages.parts(len(block)):
            page_ids[start:stop] = await steps.enter(block.part(start, stop))
        for records in records_of(block, page_ids):
            for start, stop in steps.buckets.parts(len(records)):
                await steps.add(records.part(start, stop))
        for start, stop in steps.pages.parts(len(block)):
            await steps.commit(page_ids[start:stop], block.times[start:stop])
        await steps.end()


def lapsed(where: str) -> IndexUnavailableError:
    """The error of a load that has lost its lease."""
    return IndexUnavailableError(
        f"loading pages into {where} was interrupted for more than {LEASE:.0f} seconds, or took "
        "longer than half of DEDUP_WINDOW: the pages that were not entered yet must be loaded again"
    )


class Living:
    """Set of the page ids whose pages are alive (pending or committed), for compaction.

    Ids above ``last`` were issued later: their state is unknown, so their records are kept.

    :param on_way: ids from this one on may not have a page record yet; their records are kept
        until :meth:`add` reports that they are dead
    """

    def __init__(self, last: int, *, on_way: int | None = None) -> None:
        self._alive = np.zeros(last + 1, np.bool_)
        if on_way is not None:
            self._alive[on_way:] = True

    def add(self, pages: PageRecords) -> bool:
        """Note the states of pages; True if any of them is alive or above ``last``."""
        wanted = pages.alive
        known = pages.page_ids < np.uint64(len(self._alive))
        self._alive[pages.page_ids[known].astype(np.int64)] = wanted[known]
        return bool((wanted | ~known).any())

    def without(self, page_ids: Iterable[int]) -> list[int]:
        """The page ids whose pages are dead."""
        every = np.fromiter(page_ids, np.uint64)
        gone: list[int] = every[~self.keep(every)].tolist()
        return gone

    def keep(self, page_ids: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Mask of the page ids whose records are kept."""
        known: NDArray[np.bool_] = page_ids < np.uint64(len(self._alive))
        kept: NDArray[np.bool_] = self._alive[np.where(known, page_ids, 0).astype(np.int64)]
        return np.logical_or(kept, ~known)


def whole_records(
    buckets: Sequence[bytes | bytearray], width: int
) -> tuple[bytes, NDArray[np.int64], NDArray[np.int64]]:
    """Concatenate buckets, without trailing bytes that form no whole record.

    :returns: the records, and for each bucket its number of records and of trailing bytes
    """
    lengths = np.fromiter(map(len, buckets), np.int64, len(buckets))
    odd = lengths % width
    if odd.any():
        ends = (lengths - odd).tolist()
        buckets = [data[:end] for data, end in zip(buckets, ends, strict=True)]
    return b"".join(buckets), lengths // width, odd


def compacted(
    buckets: Sequence[bytes | bytearray], living: Living, width: int
) -> list[tuple[int, bytes, int]]:
    """Remove from buckets the records of dead pages, and trailing bytes that are no record.

    :param buckets: all are processed in one pass, so their number is bounded by memory
    :param width: bytes of a record, the same in all buckets
    :returns: for each changed bucket its position in ``buckets``, its new bytes, and the number of
        records removed
    """
    raw, counts, odd = whole_records(buckets, width)
    keep = living.keep(page_ids_of(raw, width))
    # Number of records kept before each bucket, and in total.
    kept = np.concatenate([[0], np.cumsum(keep)])[np.concatenate([[0], np.cumsum(counts)])]
    removed = counts - np.diff(kept)
    changed = np.flatnonzero((removed > 0) | (odd > 0))
    if not len(changed):
        return []
    left = np.frombuffer(raw, np.uint8).reshape(-1, width)[keep].tobytes()
    starts, ends = (width * kept[changed]).tolist(), (width * kept[changed + 1]).tolist()
    data = [left[start:end] for start, end in zip(starts, ends, strict=True)]
    return list(zip(changed.tolist(), data, removed[changed].tolist(), strict=True))
