"""The index in the memory of one process; it ends with the process."""

from __future__ import annotations

import asyncio
import itertools
import secrets
import time
from collections.abc import AsyncIterator, Callable, Sequence
from io import FileIO
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.index.base import Index, Progress
from dedup_middleware.index.memory.texts import Texts
from dedup_middleware.index.pages import Living, Pages, compacted, records_of
from dedup_middleware.index.parameters import (
    Moment,
    Parameters,
    Window,
    agree,
    complete,
    layout_of,
    missing,
)
from dedup_middleware.model.buckets import BucketKey, BucketKeys, cut_address, width_of
from dedup_middleware.model.claims import (
    NO_CANDIDATES,
    NOTHING_KNOWN,
    Candidates,
    Claim,
    Claimed,
    Entry,
    IndexStats,
    Known,
    Proposed,
    Seen,
    Wanted,
)
from dedup_middleware.model.records import CONTENT, NO_PAGES, PageRecords, State, joined_records

if TYPE_CHECKING:
    from dedup_middleware.index.memory.arrays import Buckets, Hits, Ids

_FIRST_ROOM = 1024  # initial capacity for page records
_NAMED = 8  # maximum candidates whose addresses are returned with a proposal
_PENDING = int(State.PENDING)
_CHUNK = 5_000  # pages or buckets processed before other tasks get their turn


class MemoryIndex(Index):
    """Buckets and page records in arrays.

    Decisions await nothing, so each is atomic under an event loop; loads, compaction and iteration
    let other tasks run in between.

    :param window: seconds for which a page is remembered, 0: for ever
    :param clock: returns seconds; monotonic
    :param wall: returns seconds since 1970; read once, commit times are derived with ``clock``
    :param files: files for addresses and payloads, see :class:`.Texts`, which the caller closes;
        None: they are held in memory
    """

    def __init__(
        self,
        *,
        window: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        files: tuple[FileIO, FileIO] | None = None,
    ) -> None:
        self.overflow = 0
        self._clock = clock
        self._epoch = wall() - clock()
        self._parameters: dict[str, str] = {}
        self._buckets: dict[int, Buckets] = {}  # by generation
        self._hits: Hits | None = None
        # Page ids are never reused, so one token for all claims suffices.
        self._token = secrets.randbits(64)
        self._content = np.zeros(_FIRST_ROOM, CONTENT)
        self._states = np.zeros(_FIRST_ROOM, np.uint8)
        self._times = np.zeros(_FIRST_ROOM, np.uint32)
        addresses, payloads = files or (None, None)
        self._addresses = Texts(addresses)
        self._payloads = Texts(payloads)
        self._leases: dict[int, float] = {}  # end of the lease, by page id
        self._last = 0  # the last page id issued
        self._forgotten = 0  # pages up to this id have expired; their rows are gone
        self._window = Window(window)
        self._first: dict[int, int] = {}  # first page id of each generation

    async def open(self, parameters: Parameters) -> dict[str, str]:
        wanted = self._with_own(parameters)
        if not self._parameters:
            self.record = layout_of(wanted, "memory:")
            self._content = np.zeros(_FIRST_ROOM, self.record.dtype)
            self._parameters = complete(wanted)
        return agree(self._parameters, wanted, "memory:")

    def warm(self) -> None:
        from dedup_middleware.index.memory import bucket_kernels

        super().warm()
        bucket_kernels.warm()

    async def attach(self) -> dict[str, str]:
        if not self._parameters:
            raise missing("memory:")
        return dict(self._parameters)

    async def close(self) -> None:
        """Do nothing: there are no connections or files to close."""

    async def read_buckets(self, bucket_keys: Sequence[BucketKey]) -> list[bytes]:
        live = self._turn().live
        return [
            joined_records([self._bucket(one, bucket_key.bucket) for one in live], bucket_key.width)
            for bucket_key in bucket_keys
        ]

    def _bucket(self, generation: int, bucket: int) -> bytes:
        buckets = self._buckets.get(generation)
        return b"" if buckets is None else buckets.get(bucket)

    def _newest(self, generation: int) -> Buckets:
        """The buckets of a generation, created if missing."""
        found = self._buckets.get(generation)
        if found is None:
            from dedup_middleware.index.memory.arrays import Buckets  # numba stays lazy

            found = self._buckets[generation] = Buckets()
        return found

    def _turn(self) -> Moment:
        """The present moment; drops generations that have expired by now."""
        moment = self._window.at(self._clock())
        if self._window.seconds and moment.generation not in self._first:
            self._first[moment.generation] = self._last + 1
            self._drop([one for one in self._first if one < moment.oldest])
        return moment

    def _drop(self, dead: list[int]) -> None:
        if not dead:
            return
        for one in dead:
            del self._first[one]
        oldest = min(self._first)
        self._buckets = {k: v for k, v in self._buckets.items() if k >= oldest}
        first = self._first[oldest]
        rows = first - 1 - self._forgotten
        self._content = self._content[rows:].copy()
        self._states = self._states[rows:].copy()
        self._times = self._times[rows:].copy()
        self._content[0], self._states[0], self._times[0] = 0, State.FREE, 0
        self._forgotten = first - 1
        self._addresses.remove_before(first)
        self._payloads.remove_before(first)
        self._leases = {k: v for k, v in self._leases.items() if k >= first}

    async def look(self, page_ids: NDArray[np.uint64], *, texts: Wanted = Wanted.ALL) -> Seen:
        self._turn()
        ids = page_ids.tolist() if texts else []
        kept = [self._payloads.get(one) or b"" for one in ids] if texts is Wanted.ALL else []
        return Seen(self._fetch(page_ids), self._named(ids), kept)

    def _fetch(self, wanted: NDArray[np.uint64]) -> PageRecords:
        if len(wanted) == 1:  # the common case, made faster with fewer NumPy calls
            page_id = int(wanted[0])
            row = page_id - self._forgotten
            if self._leases:
                self._is_leased(page_id)
            at = slice(row, row + 1) if 0 < row <= self._last - self._forgotten else slice(0, 1)
            content = self._content[at]
            content = content.copy() if content.dtype is CONTENT else self.record.unpack(content)
            return PageRecords(wanted, content, self._states[at].copy(), self._times[at].copy())
        # Ids up to _forgotten underflow to very large rows (or 0); row 0 is FREE.
        rows = wanted - np.uint64(self._forgotten)
        rows[rows > np.uint64(self._last - self._forgotten)] = 0
        if self._leases:
            for page_id in wanted.tolist():
                if page_id in self._leases:
                    self._is_leased(page_id)
        content = self._content[rows]
        if content.dtype is not CONTENT:
            content = self.record.unpack(content)
        return PageRecords(wanted, content, self._states[rows], self._times[rows])

    def _named(self, page_ids: Sequence[int]) -> list[str | None]:
        found = map(self._addresses.get, page_ids)
        return [None if raw is None else raw.decode("utf-8", "replace") for raw in found]

    async def _propose_one(self, page: Proposed) -> Claimed | Candidates:
        from dedup_middleware.index.memory.arrays import NO_IDS, Hits  # numba stays lazy

        entry, known = page.entry, page.known
        words = BucketKeys.of(entry.bucket_keys).words
        places = len(words) // 2
        if page.probes:
            words = np.concatenate([words, BucketKeys.of(page.probes).words])
        ids = NO_IDS if known is NOTHING_KNOWN else self._ids(known)
        if self._hits is None:
            self._hits = Hits()
        hits = self._hits
        hits.begin()
        generation, until = 0, self._clock() + page.lease
        if self._window.seconds:
            moment = self._turn()
            generation = moment.generation
            for one in moment.live[:-1]:
                if one in self._buckets:
                    self._buckets[one].look(words, page.distance, ids, hits)
        newest = self._newest(generation)
        is_claimed = newest.propose(words, places, page.distance, self._last + 1, ids, hits)
        self._report_scanned(hits.scanned)
        candidates = NO_CANDIDATES
        if hits.count or hits.has_counts:
            near = hits.neighbours()
            named = near.page_ids[:_NAMED].tolist()
            addresses = dict(zip(named, self._named(named), strict=True))
            records = self._fetch(near.page_ids)
            payloads: dict[int, bytes] = {}
            if self._payloads:
                every = near.page_ids.tolist()
                payloads = {page_id: self._payloads.get(page_id) or b"" for page_id in every}
            candidates = Candidates(near, records, addresses, payloads, more=hits.is_cut)
        if not is_claimed:
            return candidates
        self.overflow += hits.left_out
        return Claimed(self._claimed(entry, self._issue(1), until), candidates)

    def _ids(self, known: Known) -> Ids:
        if not len(known.pages):
            return known.upto, NO_PAGES.page_ids
        return known.upto, known.still(self._fetch(known.pages.page_ids))

    def _claimed(self, entry: Entry, page_id: int, until: float) -> Claim:
        """Store content, address, payload and lease of a page whose records are written."""
        row = page_id - self._forgotten
        size = self.record.itemsize
        self._content.view(np.uint8).data[row * size : (row + 1) * size] = self.record.pack_one(
            entry.content
        )
        self._states[row] = _PENDING
        if entry.address and self.record.text:
            self._addresses[page_id] = cut_address(entry.address)
        if entry.payload:
            self._payloads[page_id] = entry.payload
        self._leases[page_id] = until
        return Claim(page_id, self._token)

    async def _load(self, pages: Pages) -> None:
        for start in range(0, len(pages), _CHUNK):
            self._load_some(pages.part(start, start + _CHUNK))
            await asyncio.sleep(0)

    def _load_some(self, pages: Pages) -> None:
        buckets = self._newest(self._turn().generation)
        first = self._last + 1
        self._issue(len(pages))
        rows = slice(first - self._forgotten, self._last + 1 - self._forgotten)
        now = np.uint32(self._clock() + self._epoch)
        self._content[rows] = self.record.pack(pages.content)
        self._states[rows] = State.COMMITTED
        self._times[rows] = np.where(pages.times, pages.times, now)
        if self.record.text:
            _enter(self._addresses, pages.addresses, first)
        _enter(self._payloads, pages.payloads, first)
        page_ids = np.arange(first, self._last + 1, dtype=np.uint64)
        for some in records_of(pages, page_ids):
            self.overflow += buckets.extend(some.buckets, some.data, some.cuts, some.width)

    async def expiring(self, page_id: int) -> bool:
        oldest = self._turn().oldest
        later = (first for generation, first in self._first.items() if generation > oldest)
        return page_id < min(later, default=1)

    async def commit(self, claim: Claim) -> bool:
        return self._end(claim, State.COMMITTED)

    async def release(self, claim: Claim) -> bool:
        return self._end(claim, State.RELEASED)

    async def renew(self, claims: Sequence[Claim], lease: float) -> list[bool]:
        results = []
        for claim in claims:
            alive = self._is_leased(claim.page_id) and claim.token == self._token
            if alive:
                self._leases[claim.page_id] = self._clock() + lease
            results.append(alive)
        return results

    async def count(self) -> int:
        self._turn()
        return int(np.count_nonzero(self._states == State.COMMITTED))

    async def pages(self) -> AsyncIterator[PageRecords]:
        self._turn()
        every = np.arange(self._forgotten + 1, self._last + 1, dtype=np.uint64)
        yield await self.fetch(every)

    async def buckets(self) -> AsyncIterator[tuple[int, bytes]]:
        self._turn()
        live = range(0)
        every = sorted({name for one in self._buckets.values() for name in one.names()})
        for i, bucket in enumerate(every):
            if not i % _CHUNK:
                live = self._turn().live
            raw = joined_records([self._bucket(one, bucket) for one in live], width_of(bucket))
            if raw:
                yield bucket, raw

    async def page_ids(self) -> range:
        self._turn()
        return range(self._forgotten + 1, self._last + 1)

    async def forget(self, page_ids: Sequence[int]) -> int:
        self._turn()
        wanted = np.unique(np.asarray(page_ids, np.uint64))
        known = (wanted > np.uint64(self._forgotten)) & (wanted <= np.uint64(self._last))
        found = (wanted[known] - np.uint64(self._forgotten)).astype(np.int64)
        found = found[self._states[found] == State.COMMITTED]
        self._states[found] = State.RELEASED
        self._times[found] = 0
        return len(found)

    async def compact(self, progress: Progress = lambda *_: None) -> int:
        living, seen, removed = Living(self._last), 0, 0
        async for pages in self.pages():
            living.add(pages)
        for buckets in list(self._buckets.values()):
            for width, group in itertools.groupby(buckets.names(), width_of):
                names = list(group)
                for start in range(0, len(names), _CHUNK):
                    part = names[start : start + _CHUNK]
                    data = [buckets.get(name) for name in part]
                    for at, left, gone in compacted(data, living, width):
                        buckets.put(part[at], left)
                        removed += gone
                    seen += len(part)
                    progress("buckets", seen)
                    await asyncio.sleep(0)
        for texts in (self._addresses, self._payloads):
            for page_id in living.without(texts):
                texts.remove(page_id)
        return removed

    async def stats(self) -> IndexStats:
        """Statistics of the index; ``bytes`` counts stored data, without Python's overhead."""
        self._turn()
        for page_id in list(self._leases):
            self._is_leased(page_id)
        counts = np.bincount(self._states, minlength=4)
        return IndexStats(
            committed=int(counts[State.COMMITTED]),
            pending=int(counts[State.PENDING]),
            released=int(counts[State.RELEASED]),
            buckets=sum(map(len, self._buckets.values())),
            bytes=sum(one.nbytes for one in self._buckets.values())
            + (self.record.itemsize + 5) * (self._last - self._forgotten)
            + self._addresses.nbytes
            + self._payloads.nbytes,
            corrupt=self.corrupt,
            overflow=self.overflow,
            parameters=dict(self._parameters),
        )

    def _issue(self, count: int) -> int:
        """Issue ``count`` page ids; returns the last one."""
        rows = self._last + count - self._forgotten + 1
        if rows > len(self._times):  # the array that grows last: an interrupt may come in between
            # Unused rows read as FREE, and take no physical memory until they are written.
            for name in ("_content", "_states", "_times"):
                old = getattr(self, name)
                larger = np.zeros(max(2 * len(old), rows), old.dtype)
                larger[: len(old)] = old
                setattr(self, name, larger)
        self._last += count
        return self._last

    def _is_leased(self, page_id: int) -> bool:
        """Whether a page has a live lease; an expired one is removed and the page released."""
        until = self._leases.get(page_id)
        if until is not None and until <= self._clock():
            del self._leases[page_id]
            self._states[page_id - self._forgotten] = State.RELEASED
            return False
        return until is not None

    def _end(self, claim: Claim, state: State) -> bool:
        if not self._is_leased(claim.page_id) or claim.token != self._token:
            return False
        del self._leases[claim.page_id]
        row = claim.page_id - self._forgotten
        self._states[row] = state
        if state is State.COMMITTED:
            self._times[row] = int(self._clock() + self._epoch)
        return True


def _enter(texts: Texts, raws: Sequence[bytes | None], first: int) -> None:
    for page_id, raw in enumerate(raws, first):
        if raw:
            texts[page_id] = raw
