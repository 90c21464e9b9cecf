"""One page against what the tables hold: candidates, their satellites, a ruling."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import numpy as np
from numpy.typing import NDArray

from dedup_middleware.fingerprint import Fingerprint, Match, is_content_key
from dedup_middleware.index.base import Index, Reading
from dedup_middleware.index.records import Satellites, State
from dedup_middleware.index.tables import KEY_TABLE, Neighbours, Slot, table_name
from dedup_middleware.methods.base import Judgement, Method

MAX_CANDIDATES = 2048
UNCHANGED = "unchanged"
FIRST = "nothing-alike"
CHANGED = "changed"
_KEY_BIT = np.uint64(1 << KEY_TABLE)

Count = Callable[[str, float], None]


@attrs.frozen
class Ruling:
    """What the stored pages say of a new one.

    ``match``: the stored page that makes it a duplicate, or None. ``same_key``: it is the page
    itself. ``pending``: numbers of like pages on their way to storage, to be awaited.
    """

    reason: str
    match: Match | None = None
    same_key: bool = False
    pending: frozenset[int] = frozenset()


@attrs.frozen
class Judge:
    """Finds and judges the neighbours of pages in one index by one method."""

    index: Index
    method: Method
    count: Count

    async def search(self, page: Fingerprint) -> Search:
        """Read the tables around a page."""
        slots = self.method.slots(page)
        reading = await self.index.read(slots)
        search = Search(self, page, slots, reading)
        search.extend(reading)
        return search


class Search:
    """The neighbours of one page, as far as they are known."""

    def __init__(
        self, judge: Judge, page: Fingerprint, slots: tuple[Slot, ...], reading: Reading
    ) -> None:
        self._judge = judge
        self._page = page
        self.slots = slots
        self.reading = reading
        self._tables: dict[int, int] = {}

    def extend(self, reading: Reading) -> None:
        """Take in what a reading holds beyond the former one."""
        from dedup_middleware.index.scan import neighbours  # numba stays lazy

        self.reading = reading
        found = neighbours(reading.slots, reading.data, self._judge.method.scan_distance)
        if found.corrupt:
            self._judge.count("corrupt/bytes", found.corrupt)
        for number, tables in zip(found.numbers.tolist(), found.tables.tolist(), strict=True):
            self._tables[number] = self._tables.get(number, 0) | tables

    def _candidates(self) -> Neighbours:
        numbers = np.fromiter(self._tables.keys(), np.uint64, len(self._tables))
        tables = np.fromiter(self._tables.values(), np.uint64, len(self._tables))
        if len(numbers) > MAX_CANDIDATES:
            # A flood into one bucket must not cost more than this: those that most tables know.
            self._judge.count("candidates/cut", 1)
            order = np.lexsort((numbers, -np.bitwise_count(tables).astype(np.int64)))
            best = np.sort(order[:MAX_CANDIDATES])
            numbers, tables = numbers[best], tables[best]
        return Neighbours(numbers, tables)

    async def rule(self) -> Ruling:
        """Judge all neighbours by their state at this moment."""
        found = self._candidates()
        if not len(found):
            return Ruling(FIRST)
        satellites = await self._judge.index.fetch(found.numbers)
        self._judge.count("candidates", len(found))
        ruling = self._weigh(found, satellites)
        if ruling.match is None:
            return ruling
        return attrs.evolve(ruling, match=await self._named(ruling.match, ruling.same_key))

    async def _named(self, match: Match, same_key: bool) -> Match:
        """The match with the address of the stored page."""
        if same_key:
            return attrs.evolve(match, key=self._page.key)
        (address,) = await self._judge.index.addresses([match.number])
        return attrs.evolve(match, key=address)

    def _weigh(self, found: Neighbours, satellites: Satellites) -> Ruling:
        judged = self._judge.method.judge(self._page, satellites.content)
        committed = satellites.states == State.COMMITTED
        pending = satellites.states == State.PENDING
        same_key = self._same_key(found, satellites)
        stored = np.flatnonzero(committed & judged.duplicate)
        if len(stored):
            best = _best(stored, judged, same_key)
            return Ruling(
                UNCHANGED if same_key[best] else judged.reasons[best],
                match=self._match(best, found, satellites, judged),
                same_key=bool(same_key[best]),
            )
        # A page of the same key is awaited whatever it says: one claim a key at a time.
        waiting = np.flatnonzero(pending & (judged.duplicate | same_key))
        if len(waiting):
            numbers = frozenset(int(n) for n in satellites.numbers[waiting])
            return Ruling("pending", pending=numbers)
        if np.any(committed & same_key):
            return Ruling(CHANGED)
        known = np.flatnonzero(committed)
        if not len(known):
            return Ruling(FIRST)
        return Ruling(judged.reasons[int(known[np.argmax(judged.similarity[known])])])

    def _same_key(self, found: Neighbours, satellites: Satellites) -> NDArray[np.bool_]:
        if is_content_key(self._page.key):
            return np.zeros(len(found), np.bool_)
        same = satellites.content["key"] == np.uint64(self._page.key_hash)
        return np.asarray(same & ((found.tables & _KEY_BIT) != 0), np.bool_)

    def _match(self, i: int, found: Neighbours, satellites: Satellites, judged: Judgement) -> Match:
        simhash = int(satellites.content["simhash"][i])
        own = self._page.simhash
        tables = int(found.tables[i])
        return Match(
            key=None,
            number=int(satellites.numbers[i]),
            similarity=float(judged.similarity[i]),
            jaccard=float(judged.jaccard[i]),
            distance=None if own is None else int.bit_count(simhash ^ own),
            tables=tuple(table_name(t) for t in range(64) if tables >> t & 1),
        )


def _best(stored: NDArray[np.intp], judged: Judgement, same_key: NDArray[np.bool_]) -> int:
    """The page itself before others, then the most similar, then the oldest."""
    order = np.lexsort((stored, -judged.similarity[stored], ~same_key[stored]))
    return int(stored[order[0]])
