"""One page against what the tables hold: candidates, their satellites, a ruling."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import attrs
import numpy as np
from numpy.typing import NDArray

from dedup_middleware.fingerprint import Fingerprint, Match, is_content_key
from dedup_middleware.flood import Count, FloodAlarm
from dedup_middleware.index.base import Claim, Entry, Index, Proposal, Reading
from dedup_middleware.index.batching import forget_outcome
from dedup_middleware.index.records import Satellites, State
from dedup_middleware.index.tables import KEY_TABLE, NOBODY, Neighbours, Slot
from dedup_middleware.methods.base import Judgement, Method
from dedup_middleware.methods.content import EXACT

MAX_CANDIDATES = 2048
UNCHANGED = "unchanged"
FIRST = "nothing-alike"
CHANGED = "changed"
_KEY_BIT = 1 << KEY_TABLE
_PENDING, _COMMITTED = int(State.PENDING), int(State.COMMITTED)


@attrs.frozen
class Ruling:
    """What the stored pages say of a new one.

    ``match``: the stored page that makes it a duplicate, or None. ``same_key``: it is the page
    itself. ``pending``: numbers of like pages on their way to storage, to be awaited. ``nearest``:
    the most similar stored page that does not make a new page a duplicate, named if its address is
    at hand. ``earlier``: page ids of stored pages with the same key that say something else.
    """

    reason: str
    match: Match | None = None
    same_key: bool = False
    pending: frozenset[int] = frozenset()
    nearest: Match | None = None
    earlier: tuple[int, ...] = ()


NOTHING_ALIKE = Ruling(FIRST)


@attrs.frozen
class Judge:
    """Finds and judges the neighbours of pages in one index by one method."""

    index: Index
    method: Method
    count: Count
    flood: FloodAlarm = attrs.field(
        default=attrs.Factory(lambda self: FloodAlarm(self.count), takes_self=True)
    )

    async def propose(
        self, page: Fingerprint, entry: Entry, lease: float
    ) -> tuple[Search, Ruling, Claim | None]:
        """Claim the place of a page if nothing is like it, else say what is.

        Most pages stand beside nobody, and what stands beside the others comes with the answer:
        one round trip for either.

        :returns: the neighbours as far as they are known, what they say, and the claim if the
            page is new
        """
        probes = self.method.probes(page)
        distance = self.method.scan_distance
        proposal = await self.index.propose(entry, distance, lease, probes)
        search = Search(self, page, entry.slots, probes)
        if proposal.claim is not None and proposal.near is NOBODY:
            return search, NOTHING_ALIKE, proposal.claim
        search.take(proposal)
        if proposal.claim is None:
            if not proposal.whole:
                await search.read()
            return search, await search.rule(), None
        try:
            ruling = await search.rule()
        except BaseException:
            # Nobody else knows of the claim, which would keep its place until the lease ends.
            forget_outcome(asyncio.ensure_future(self.index.release(proposal.claim)))
            raise
        if ruling.match is None and not ruling.pending:
            return search, ruling, proposal.claim
        # It stands beside a like page in the SimHash tables alone, and must not keep its place.
        await self.index.release(proposal.claim)
        return search, ruling, None


class Search:
    """The neighbours of one page, as far as they are known."""

    def __init__(
        self, judge: Judge, page: Fingerprint, slots: Sequence[Slot], probes: tuple[Slot, ...]
    ) -> None:
        self._judge = judge
        self._page = page
        self.slots = slots
        self._probes = probes
        self.reading: Reading | None = None  # what a claim can be made of
        self._found = NOBODY
        self._satellites: Satellites | None = None  # good for one ruling
        self._addresses: dict[int, str | None] = {}
        self._flooded = False

    def take(self, proposal: Proposal) -> None:
        """Take in what a proposal says of the neighbours."""
        self._add(proposal.near)
        self._satellites = proposal.satellites
        self._addresses.update(proposal.addresses)
        self.reading = proposal.reading

    async def read(self) -> None:
        """Read the tables around the page."""
        self.extend(await self._judge.index.read((*self.slots, *self._probes)))

    def extend(self, reading: Reading) -> None:
        """Take in what a reading holds beyond the former one."""
        from dedup_middleware.index.scan import neighbours  # numba stays lazy

        self.reading = reading
        self._add(neighbours(reading.slots, reading.data, self._judge.method.scan_distance))

    def _add(self, found: Neighbours) -> None:
        if found.corrupt:
            self._judge.count("corrupt/bytes", found.corrupt)
        if found.full:
            self._ring(f"{found.full} full buckets")
        if not len(found):
            return
        if not len(self._found):
            self._found = found
            return
        tables: dict[int, int] = {}
        for known in (self._found, found):
            for number, mask in zip(known.numbers.tolist(), known.tables.tolist(), strict=True):
                tables[number] = tables.get(number, 0) | mask
        numbers = np.fromiter(tables.keys(), np.uint64, len(tables))
        self._found = Neighbours(numbers, np.fromiter(tables.values(), np.uint64, len(tables)))

    def _ring(self, met: str) -> None:
        """Once a page, however often it is judged."""
        if not self._flooded:
            self._flooded = True
            self._judge.flood.ring(self._page.key, met)

    def _candidates(self) -> Neighbours:
        numbers, tables = self._found.numbers, self._found.tables
        if len(numbers) <= MAX_CANDIDATES:
            return self._found
        # A flood into one bucket must not cost more than this: those that most tables know.
        self._judge.count("candidates/cut", 1)
        self._ring(f"{len(numbers)} candidates")
        # The page itself is never cut: whoever floods a bucket must not hide an earlier version.
        others = (tables & np.uint64(_KEY_BIT)) == 0
        order = np.lexsort((numbers, -np.bitwise_count(tables).astype(np.int64), others))
        best = np.sort(order[:MAX_CANDIDATES])
        return Neighbours(numbers[best], tables[best])

    async def rule(self) -> Ruling:
        """Judge all neighbours by their state at this moment."""
        found = self._candidates()
        if not len(found):
            return NOTHING_ALIKE
        satellites = await self._fetch(found.numbers)
        self._judge.count("candidates", len(found))
        payloads: Sequence[bytes] = ()
        if self._judge.method.keeps_payload:
            payloads = await self._judge.index.payloads(found.numbers.tolist())
        ruling = self._weigh(found, satellites, payloads)
        if ruling.match is None:
            return ruling
        number = ruling.match.number
        if ruling.same_key or number in self._addresses:
            return ruling
        (self._addresses[number],) = await self._judge.index.addresses([number])
        match = attrs.evolve(ruling.match, key=self._addresses[number])
        return attrs.evolve(ruling, match=match)

    async def _fetch(self, numbers: NDArray[np.uint64]) -> Satellites:
        """Satellites of this moment: those that came with the proposal count once."""
        given, self._satellites = self._satellites, None
        if given is not None and (
            given.numbers is numbers or np.array_equal(given.numbers, numbers)
        ):
            return given
        return await self._judge.index.fetch(numbers)

    def _weigh(
        self, found: Neighbours, satellites: Satellites, payloads: Sequence[bytes]
    ) -> Ruling:
        # Lists: most pages have one or two candidates, fewer than pay for a call of NumPy.
        judged = self._judge.method.judge(self._page, satellites.content, payloads)
        duplicate = judged.duplicate.tolist()
        states = satellites.states.tolist()
        same_key = self._same_key(found, satellites)
        similarity = judged.similarity.tolist()
        known = [i for i, state in enumerate(states) if state == _COMMITTED]
        stored = [i for i in known if duplicate[i]]
        if stored:
            # The page itself before others, then the most similar, of these an exact copy, then
            # the oldest.
            reasons = judged.reasons
            best = min(
                stored, key=lambda i: (not same_key[i], -similarity[i], reasons[i] != EXACT, i)
            )
            key = self._page.key if same_key[best] else None
            return Ruling(
                UNCHANGED if same_key[best] else judged.reasons[best],
                match=self._match(best, found, satellites, judged, key),
                same_key=same_key[best],
            )
        # A page of the same key is awaited whatever it says: one claim a key at a time.
        waiting = [
            i
            for i, state in enumerate(states)
            if state == _PENDING and (duplicate[i] or same_key[i])
        ]
        if waiting:
            numbers = frozenset(int(satellites.numbers[i]) for i in waiting)
            return Ruling("pending", pending=numbers)
        earlier = tuple([int(satellites.numbers[i]) for i in known if same_key[i]])
        if earlier:
            return Ruling(CHANGED, earlier=earlier)
        if not known:
            return NOTHING_ALIKE
        best = max(known, key=similarity.__getitem__)
        nearest = self._match(best, found, satellites, judged, None)
        return Ruling(judged.reasons[best], nearest=nearest)

    def _same_key(self, found: Neighbours, satellites: Satellites) -> list[bool]:
        if is_content_key(self._page.key):
            return [False] * len(found)
        keys, own = satellites.content["key"].tolist(), self._page.key_hash
        return [
            key == own and tables & _KEY_BIT != 0
            for key, tables in zip(keys, found.tables.tolist(), strict=True)
        ]

    def _match(
        self,
        i: int,
        found: Neighbours,
        satellites: Satellites,
        judged: Judgement,
        key: str | None,
    ) -> Match:
        number, own = int(satellites.numbers[i]), self._page.simhash
        name = self._judge.method.table_name
        return Match(
            key=self._addresses.get(number) if key is None else key,
            number=number,
            similarity=float(judged.similarity[i]),
            jaccard=float(judged.jaccard[i]),
            distance=None
            if own is None
            else int.bit_count(int(satellites.content["simhash"][i]) ^ own),
            tables=tuple([name(table) for table in _bits(int(found.tables[i]))]),
            shared=None if judged.shared is None else int(judged.shared[i]),
            figures=None if judged.figures is None else int(judged.figures[i]),
            rule=judged.reasons[i],
        )


def _bits(mask: int) -> list[int]:
    """Positions of the one bits, ascending.

    >>> _bits(0b100101)
    [0, 2, 5]
    """
    positions = []
    while mask:
        lowest = mask & -mask
        positions.append(lowest.bit_length() - 1)
        mask ^= lowest
    return positions
