"""The index of one process, gone when it ends."""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncIterator, Callable, Sequence

import attrs
import numpy as np
from numpy.typing import NDArray

from dedup_middleware.index.base import Claim, Entry, Index, Parameters, Reading
from dedup_middleware.index.compaction import Living, compacted
from dedup_middleware.index.growth import (
    changes,
    check_slots,
    first_reading,
    generation_of,
    grown,
    reading_of_generations,
)
from dedup_middleware.index.layout import BUCKET_LIMIT, cut_address, record
from dedup_middleware.index.parameters import agree, complete, missing
from dedup_middleware.index.records import CONTENT, Satellites, State
from dedup_middleware.index.stats import IndexStats
from dedup_middleware.index.tables import SIMHASH_TABLES, Slot
from dedup_middleware.index.window import Moment, Window, window_parameter

_FIRST_ROOM = 1024  # satellites
_GENERATION = 24  # bits of a bucket's number below its generation


@attrs.define
class _Lease:
    token: int
    until: float


class MemoryIndex(Index):
    """Buckets in a dictionary, satellites in arrays.

    No method waits for anything, so each is atomic under an event loop.

    :param window: seconds that a page is remembered, 0: for ever
    :param clock: seconds, never going back
    """

    def __init__(self, *, window: float = 0.0, clock: Callable[[], float] = time.monotonic) -> None:
        self.corrupt = 0
        self.overflow = 0
        self._clock = clock
        self._parameters: dict[str, str] = {}
        self._buckets: dict[int, bytearray] = {}
        self._content = np.zeros(_FIRST_ROOM, CONTENT)
        self._states = np.zeros(_FIRST_ROOM, np.uint8)
        self._addresses: dict[int, bytes] = {}
        self._leases: dict[int, _Lease] = {}
        self._last = 0  # page number
        self._forgotten = 0  # pages below it have expired; their rows are gone
        self._window = Window(window)
        self._first: dict[int, int] = {}  # first page number of each generation

    async def open(self, parameters: Parameters) -> dict[str, str]:
        """Agree on the parameters; see :meth:`.Index.open`."""
        wanted = {**parameters, **window_parameter(self._window.seconds)}
        if not self._parameters:
            self._parameters = complete(wanted)
        return agree(self._parameters, wanted, "memory:")

    async def attach(self) -> dict[str, str]:
        """Its parameters; see :meth:`.Index.attach`."""
        if not self._parameters:
            raise missing("memory:")
        return dict(self._parameters)

    async def close(self) -> None:
        """Nothing to give back."""

    async def read(self, slots: Sequence[Slot]) -> Reading:
        """The buckets of all ``slots`` as they are now."""
        return self._read(slots, self._turn())

    def _read(self, slots: Sequence[Slot], moment: Moment) -> Reading:
        buckets = self._buckets
        if not self._window.seconds:
            return first_reading(slots, [bytes(buckets.get(slot.bucket, b"")) for slot in slots])
        data = [
            [bytes(buckets.get(one << _GENERATION | slot.bucket, b"")) for one in moment.live]
            for slot in slots
        ]
        return reading_of_generations(slots, data, moment.generation)

    def _turn(self) -> Moment:
        """This moment; generations that have expired by now are dropped."""
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
        self._buckets = {k: v for k, v in self._buckets.items() if k >> _GENERATION >= oldest}
        first = self._first[oldest]
        rows = first - 1 - self._forgotten
        self._content = self._content[rows:].copy()
        self._states = self._states[rows:].copy()
        self._content[0], self._states[0] = 0, State.FREE
        self._forgotten = first - 1
        self._addresses = {k: v for k, v in self._addresses.items() if k >= first}
        self._leases = {k: v for k, v in self._leases.items() if k >= first}

    async def fetch(self, numbers: NDArray[np.uint64]) -> Satellites:
        """Satellites of pages; one that does not exist has state FREE."""
        wanted = np.asarray(numbers, np.uint64)
        self._turn()
        known = (wanted > np.uint64(self._forgotten)) & (wanted <= np.uint64(self._last))
        rows = np.where(known, wanted - np.uint64(self._forgotten), np.uint64(0)).astype(np.int64)
        if self._leases:
            for number in set(wanted.tolist()) & self._leases.keys():
                self._lease(number)
        return Satellites(wanted, self._content[rows], self._states[rows])

    async def addresses(self, numbers: Sequence[int]) -> list[str | None]:
        """Addresses of pages, None where none is kept."""
        found = [self._addresses.get(int(number)) for number in numbers]
        return [None if raw is None else raw.decode() for raw in found]

    async def claim(self, entry: Entry, reading: Reading, lease: float) -> Claim | Reading:
        """Take the place of a page; see :meth:`.Index.claim`."""
        check_slots(entry, reading)
        moment = self._turn()
        if moment.generation != generation_of(reading):
            return self._read(reading.slots, moment)
        buckets, base = self._buckets, moment.generation << _GENERATION
        now = [buckets.get(base | slot.bucket, b"") for slot in reading.slots]
        newer = grown(reading, changes(reading, now))
        if newer is not None:
            return newer
        number = self._next()
        row = number - self._forgotten
        for slot in entry.slots:
            raw = record(slot, number)
            bucket = buckets.get(base | slot.bucket)
            if bucket is None:
                buckets[base | slot.bucket] = bytearray(raw)
            elif len(bucket) + len(raw) > BUCKET_LIMIT:
                self.overflow += 1
            else:
                bucket += raw
        self._content[row] = np.frombuffer(entry.content, CONTENT)[0]
        self._states[row] = State.PENDING
        if entry.address:
            self._addresses[number] = cut_address(entry.address)
        token = secrets.randbits(64)
        self._leases[number] = _Lease(token, moment.now + lease)
        return Claim(number, token)

    async def expiring(self, numbers: Sequence[int]) -> list[bool]:
        """Whether pages are of the oldest live generation; see :meth:`.Index.expiring`."""
        oldest = self._turn().oldest
        later = [first for generation, first in self._first.items() if generation > oldest]
        return [bool(self._window.seconds) and n < min(later, default=1) for n in numbers]

    async def commit(self, claim: Claim) -> bool:
        """The page is stored. False: the lease had run out or the claim is gone."""
        return self._end(claim, State.COMMITTED)

    async def release(self, claim: Claim) -> bool:
        """The page was not stored. False: nothing to release."""
        return self._end(claim, State.RELEASED)

    async def renew(self, claims: Sequence[Claim], lease: float) -> list[bool]:
        """Extend leases by ``lease`` seconds from now. False: that one had run out."""
        answers = []
        for claim in claims:
            found = self._lease(claim.number)
            alive = found is not None and found.token == claim.token
            if found is not None and alive:
                found.until = self._clock() + lease
            answers.append(alive)
        return answers

    async def count(self) -> int:
        """Number of committed pages."""
        self._turn()
        return int(np.count_nonzero(self._states == State.COMMITTED))

    async def pages(self) -> AsyncIterator[Satellites]:
        """All pages; see :meth:`.Index.pages`."""
        self._turn()
        every = np.arange(self._forgotten + 1, self._last + 1, dtype=np.uint64)
        yield await self.fetch(every)

    async def forget(self, numbers: Sequence[int]) -> int:
        """Let committed pages read as released; see :meth:`.Index.forget`."""
        self._turn()
        rows = {n - self._forgotten for n in numbers if self._forgotten < n <= self._last}
        found = [row for row in rows if self._states[row] == State.COMMITTED]
        self._states[found] = State.RELEASED
        return len(found)

    async def compact(self) -> int:
        """Take records of pages that are gone out of all buckets."""
        living, removed = Living(self._last), 0
        async for pages in self.pages():
            living.add(pages)
        for bucket, raw in list(self._buckets.items()):
            better = compacted(raw, living, wide=(bucket >> 16 & 0xFF) in SIMHASH_TABLES)
            if better is not None:
                removed += better[1]
                self._buckets[bucket] = bytearray(better[0])
                if not better[0]:
                    del self._buckets[bucket]
        return removed

    async def stats(self) -> IndexStats:
        """State of the index; its bytes are those of the records, without Python's own."""
        self._turn()
        for number in list(self._leases):
            self._lease(number)
        counts = np.bincount(self._states, minlength=4)
        return IndexStats(
            committed=int(counts[State.COMMITTED]),
            pending=int(counts[State.PENDING]),
            released=int(counts[State.RELEASED]),
            buckets=sum(map(bool, self._buckets.values())),
            bytes=sum(map(len, self._buckets.values()))
            + (CONTENT.itemsize + 1) * (self._last - self._forgotten)
            + sum(map(len, self._addresses.values())),
            corrupt=self.corrupt,
            overflow=self.overflow,
            parameters=dict(self._parameters),
        )

    def _next(self) -> int:
        self._last += 1
        if self._last - self._forgotten == len(self._states):
            # np.resize would repeat the old rows; room that is not used yet must read as FREE.
            for name in ("_content", "_states"):
                old = getattr(self, name)
                setattr(self, name, np.concatenate([old, np.zeros(len(old), old.dtype)]))
        return self._last

    def _lease(self, number: int) -> _Lease | None:
        """The live lease of a page; one that has run out is ended for good."""
        found = self._leases.get(number)
        if found is not None and found.until <= self._clock():
            del self._leases[number]
            self._states[number - self._forgotten] = State.RELEASED
            return None
        return found

    def _end(self, claim: Claim, state: State) -> bool:
        found = self._lease(claim.number)
        if found is None or found.token != claim.token:
            return False
        del self._leases[claim.number]
        self._states[claim.number - self._forgotten] = state
        return True
