"""A cluster simulated event by event, from what each message costs.

Client processes get pages, gather them into batches as
:class:`~dedup_middleware.index.batching.Batcher` does, and take them through the exchanges of
:mod:`dedup_middleware.index.cluster.propose`. Each exchange is one pipeline to every master that it
needs. A master is a queue with one server, whose service time is that of the calls in the
pipeline; replies queue up at the network cards of master and client. Buckets are drawn at random,
their shards lie on masters by the slots of their hash tags. A master may be away for some time:
what is sent to it then is served afterwards.

What it leaves out: retries, generations, floods, slots on their way, like pages on their way at the
same time, and all that masters do besides (append-only file, replicas).
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Callable, Generator, Sequence
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray
from redis.crc import key_slot

from benchmarks.cluster_costs import FULL, LENGTHS, Cost, Costs
from dedup_middleware.index.cluster.index import most_buckets
from dedup_middleware.index.cluster.spread import Spread
from dedup_middleware.index.redis.scripts import SHOWN
from dedup_middleware.model.buckets import (
    ANCHOR_TABLES,
    BUCKET_LIMIT,
    FIRST_BAND_TABLE,
    KEY_TABLE,
    SIMHASH_TABLES,
)
from dedup_middleware.model.records import BAND_RECORD, BAND_SUFFIX_BITS, SIMHASH_RECORD

PREFIXES = 1 << 16  # buckets of a table
SLOTS = 16_384
# As in the index: batches of proposals, ids, candidates whose records are asked for.
_BATCH, _LANES, _CROWD = 128, 2, 20
_BLOCK, _MOST = 64, 64
_FIRST_READ = (KEY_TABLE, *ANCHOR_TABLES[:2], *range(FIRST_BAND_TABLE, FIRST_BAND_TABLE + 4))
_NO_HITS = (KEY_TABLE, *SIMHASH_TABLES)  # where copies have another key, and all is returned
NEW, EDITED, EXACT = range(3)
Array = NDArray[np.float64]


@attrs.frozen
class Layout:
    """Buckets of a page: one in the table of keys, four of SimHashes, and these."""

    bands: int = 2
    anchors: int = 15

    @property
    def tables(self) -> NDArray[np.int64]:
        """Table of each bucket; that of an anchor is -1, since it differs from page to page."""
        bands = range(FIRST_BAND_TABLE, FIRST_BAND_TABLE + self.bands)
        return np.array([KEY_TABLE, *SIMHASH_TABLES, *bands, *[-1] * self.anchors])

    def records(self, table: int, pages: float) -> float:
        """Records in a bucket, unless it is full."""
        share = self.anchors / len(ANCHOR_TABLES) if table in ANCHOR_TABLES else 1
        return pages * share / PREFIXES


@attrs.frozen
class Scenario:
    """What is simulated.

    :param pages: in the index
    :param rate: pages a second of each process; 0: it always has ``in_flight`` pages under way
    :param mix: shares of new pages, edited and exact copies
    :param hits: of these kinds the share of buckets in which the stored page is found
    :param settling: of these kinds the share that looks like an exact copy after the first read
    :param settled: whether those that are exact copies need no further read
    :param balanced: every master has equally many shards; else as their tags fall
    :param latency: seconds of a message on its way
    :param master_link: bytes a second, also ``client_link``
    :param client_cpu: seconds of a process's processor for a page
    :param outage: master, first second, and seconds for which it does not serve
    """

    masters: int
    shards: int = 64
    pages: float = 1e6
    processes: int = 1
    rate: float = 100.0
    in_flight: int = 100
    mix: tuple[float, float, float] = (0.7, 0.2, 0.1)
    hits: tuple[float, float, float] = (0.0, 0.8, 1.0)
    settling: tuple[float, float, float] = (0.0, 0.6, 1.0)
    settled: bool = True
    layout: Layout = Layout()
    distance: int = 12
    balanced: bool = False
    latency: float = 100e-6
    master_link: float = 1.25e9
    client_link: float = 1.25e9
    client_cpu: float = 250e-6
    outage: tuple[int, float, float] | None = None
    namespace: str = "dedup"


def owners(scenario: Scenario) -> NDArray[np.int64]:
    """The master of each shard; all have equally many slots, one after the other."""
    shards = range(scenario.shards)
    if scenario.balanced:
        return np.array([shard * scenario.masters // scenario.shards for shard in shards])
    spread = Spread(scenario.namespace, scenario.shards)
    ends = [(i + 1) * SLOTS // scenario.masters for i in range(scenario.masters)]
    slots = [key_slot(spread.prefix(shard)) for shard in shards]
    return np.searchsorted(np.array(ends), slots, side="right")


def near_by_chance(distance: int, bits: int = 48) -> float:
    """Share of unrelated SimHashes of one bucket that are candidates.

    >>> round(near_by_chance(12), 5)
    0.00036
    """
    ways = 1.0
    total = ways
    for i in range(distance):
        ways *= (bits - i) / (i + 1)
        total += ways
    return total / 2.0**bits


class Prices:
    """What a bucket of each table costs at one size of the index, and what it meets by chance."""

    def __init__(self, costs: Costs, layout: Layout, pages: float, distance: int) -> None:
        tables = sorted(
            {KEY_TABLE, *SIMHASH_TABLES, *ANCHOR_TABLES, *layout.tables.tolist()} - {-1}
        )
        self.read = np.zeros((tables[-1] + 1, 3))
        self.announce = np.zeros((tables[-1] + 1, 3))
        self.met = np.zeros(tables[-1] + 1)  # candidates by chance, of a bucket
        for table in tables:
            wide = table in SIMHASH_TABLES
            records = layout.records(table, pages)
            kind = "wide " if wide else ""
            limit = BUCKET_LIMIT // (SIMHASH_RECORD if wide else BAND_RECORD)
            self.read[table] = at_length(costs.items[f"{kind}read"], records, limit)
            self.announce[table] = at_length(costs.items[f"{kind}announce"], records, limit)
            seen = min(records, limit)
            if wide:
                if records >= limit:
                    seen = SHOWN // SIMHASH_RECORD
                self.met[table] = seen * near_by_chance(distance)
            else:
                self.met[table] = seen / (1 << BAND_SUFFIX_BITS)


def at_length(every: list[Cost], records: float, limit: int) -> Array:
    """Cost of a bucket of so many records: interpolated, but for one that is full."""
    if records >= limit:
        return every[FULL].array()
    columns = np.array([one.array() for one in every[:FULL]])
    found = [np.interp(records, LENGTHS, column) for column in columns.T]
    if records > LENGTHS[-1]:  # on in a straight line
        slope = (columns[-1] - columns[-2]) / (LENGTHS[-1] - LENGTHS[-2])
        found = list(columns[-1] + slope * (records - LENGTHS[-1]))
    return np.array(found)


@attrs.define(eq=False)
class Page:
    """A page on its way."""

    kind: int
    arrived: float
    known: bool = False  # it has met a page that is another one
    home: int = 0  # shard of its record, once it is announced


@attrs.define(eq=False)
class Load:
    """What one exchange asks of each master: float64[masters, 3] as in :class:`.Cost`."""

    costs: Array

    @classmethod
    def none(cls, masters: int) -> Load:
        """Nothing."""
        return cls(np.zeros((masters, 3)))

    def add(self, masters: NDArray[np.int64], costs: Array) -> None:
        """Add one cost for each of some masters, which may be named more than once."""
        for column in range(3):
            more = np.bincount(masters, costs[..., column], len(self.costs))
            self.costs[:, column] += more

    def __add__(self, other: Load) -> Load:
        return Load(self.costs + other.costs)


class Traffic:
    """The calls of exchanges, for pages whose buckets and homes are drawn at random."""

    def __init__(self, scenario: Scenario, costs: Costs, rng: np.random.Generator) -> None:
        self.prices = Prices(costs, scenario.layout, scenario.pages, scenario.distance)
        self.owners = owners(scenario)
        self._scenario = scenario
        self._costs = costs
        self._rng = rng
        self._template = scenario.layout.tables

    def visits(self, kinds: Sequence[int], *, first: bool | None, announced: bool = False) -> Load:
        """Calls of ``visit.lua``.

        :param kinds: of each page its kind
        :param first: the tables of the first read, or all others; None: all
        """
        load = Load.none(self._scenario.masters)
        tables = np.tile(self._template, (len(kinds), 1))
        drawn = self._rng.integers(ANCHOR_TABLES[0], ANCHOR_TABLES[-1] + 1, tables.shape)
        tables = np.where(tables < 0, drawn, tables).ravel()
        hits = np.repeat(np.array(self._scenario.hits)[list(kinds)], len(self._template))
        if first is not None:
            chosen = np.isin(tables, _FIRST_READ) == first
            tables, hits = tables[chosen], hits[chosen]
        if not len(tables):
            return load
        shards = self._rng.integers(self._scenario.shards, size=len(tables))
        prices = self.prices.announce if announced else self.prices.read
        load.add(self.owners[shards], prices[tables])
        found = (self._rng.random(len(tables)) < hits) & ~np.isin(tables, _NO_HITS)
        self._calls(load, shards[found], self._costs.hit)
        self._calls(load, np.unique(shards), self._costs.call)
        self._calls(load, np.unique(shards * 64 + tables) // 64, self._costs.table)
        return load

    def _calls(self, load: Load, shards: NDArray[np.int64], cost: Cost) -> None:
        load.add(self.owners[shards], np.tile(cost.array(), (len(shards), 1)))

    def at_homes(self, script: str, homes: NDArray[np.int64]) -> Load:
        """Calls of a script on the home shards of some pages, one for each shard."""
        load = Load.none(self._scenario.masters)
        if len(homes):
            call, page = self._costs.homes[script]
            self._calls(load, homes if script == "release" else np.unique(homes), call)
            self._calls(load, homes, page)
        return load

    def look(self, pages: int) -> Load:
        """Records of pages that were met."""
        return self.at_homes("look", self._rng.integers(self._scenario.shards, size=pages))

    def pipelines(self, load: Load) -> tuple[NDArray[np.int64], Array]:
        """Masters that an exchange needs, and what its pipeline costs each."""
        (needed,) = np.nonzero(load.costs.any(axis=1))
        return needed, load.costs[needed] + self._costs.exchange.array()


@attrs.frozen(eq=False)
class Outcome:
    """What happened.

    :param seconds: simulated
    :param busy: seconds of work that each master has taken in
    :param sent: bytes that each master has sent, and ``got`` those that it has received
    :param asked: seconds of work that the exchanges asked for, those not yet there included
    :param arrivals: of each decision when its page came, and ``latencies`` how long it took
    :param received: bytes of replies to all clients
    :param batches: of proposals
    :param held: pages that came while a process had all it may have under way
    """

    seconds: float
    busy: Array
    sent: Array
    got: Array
    arrivals: Array
    latencies: Array
    batches: int
    held: int
    asked: float

    @property
    def decisions(self) -> int:
        """Pages that are decided."""
        return len(self.latencies)

    @property
    def busiest(self) -> float:
        """Share of the time in which the busiest master was at work."""
        return float(self.busy.max() / self.seconds)

    def latency(self, share: float) -> float:
        """Seconds within which such a share of the pages is decided; without the first fifth."""
        settled = self.latencies[self.arrivals > self.seconds / 5]
        return float(np.quantile(settled, share)) if len(settled) else 0.0


_Exchange = Generator[Load, None, None]


class _Process:
    """A client process."""

    def __init__(self) -> None:
        self.waiting: deque[Page] = deque()
        self.under_way = 0
        self.in_flight = 0
        self.free = 0.0  # when its processor is free
        self.link = 0.0  # when its network card is free
        self.ids: list[int] = []  # home shards of the ids that it has reserved


class Simulation:
    """One run.

    :param pages: how many are decided before it ends
    :param until: second in which it ends at the latest
    """

    def __init__(
        self,
        scenario: Scenario,
        costs: Costs,
        pages: int,
        seed: int = 1,
        until: float = float("inf"),
    ) -> None:
        self._rng = np.random.default_rng(seed)
        self._scenario = scenario
        self._wanted = pages
        self._until = until
        self.traffic = Traffic(scenario, costs, self._rng)
        self._now = 0.0
        self._events: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._number = itertools.count()
        self._free = np.zeros(scenario.masters)
        self._links = np.zeros(scenario.masters)
        self._busy = np.zeros(scenario.masters)
        self._bytes = np.zeros((scenario.masters, 2))
        self._done: list[tuple[float, float]] = []
        self._batches = self._held = 0
        self._asked = 0.0  # seconds of work that the exchanges asked for

    def run(self) -> Outcome:
        """Simulate until enough pages are decided."""
        for _ in range(self._scenario.processes):
            process = _Process()
            if self._scenario.rate:
                self._at(self._rng.exponential(1 / self._scenario.rate), self._arrive, process)
            else:
                for _ in range(self._scenario.in_flight):
                    self._submit(process, self._page())
        while len(self._done) < self._wanted and self._now < self._until:
            self._now, _, work, arguments = heapq.heappop(self._events)
            work(*arguments)
        times = np.array(self._done)
        return Outcome(
            self._now,
            self._busy,
            self._bytes[:, 1],
            self._bytes[:, 0],
            times[:, 0],
            times[:, 1],
            self._batches,
            self._held,
            self._asked,
        )

    def _at(self, time: float, work: Callable[..., None], *arguments: Any) -> None:
        heapq.heappush(self._events, (time, next(self._number), work, arguments))

    def _page(self) -> Page:
        return Page(int(self._rng.choice(3, p=self._scenario.mix)), self._now)

    def _arrive(self, process: _Process) -> None:
        self._at(self._now + self._rng.exponential(1 / self._scenario.rate), self._arrive, process)
        if process.in_flight < self._scenario.in_flight:
            self._submit(process, self._page())
        else:
            self._held += 1

    def _submit(self, process: _Process, page: Page) -> None:
        process.in_flight += not page.known
        process.waiting.append(page)
        self._at(self._now, self._start, process)

    def _start(self, process: _Process) -> None:
        while process.under_way < _LANES:
            wanted = _CROWD if process.under_way else 1
            if len(process.waiting) < wanted:
                return
            count = min(_BATCH, len(process.waiting))
            pages = [process.waiting.popleft() for _ in range(count)]
            process.under_way += 1
            self._batches += 1
            began = max(self._now, process.free)
            process.free = began + count * self._scenario.client_cpu
            again: list[Page] = []
            made = self._propose(process, pages, again)
            self._at(process.free, self._go_on, process, made, pages, again)

    def _go_on(
        self, process: _Process, made: _Exchange, pages: list[Page], again: list[Page]
    ) -> None:
        load = next(made, None)
        if load is None:
            process.under_way -= 1
            self._decided(process, pages, again)
            self._start(process)
        else:
            self._exchange(process, load, self._go_on, process, made, pages, again)

    def _decided(self, process: _Process, pages: list[Page], again: list[Page]) -> None:
        anew = {id(page) for page in again}
        decided = [page for page in pages if id(page) not in anew]
        for page in again:
            page.known = True
            self._submit(process, page)
        stored = sum(page.kind == NEW for page in decided)
        self._done += [(page.arrived, self._now - page.arrived) for page in decided]
        homes = np.array([page.home for page in decided if page.kind == NEW], np.int64)
        load = self.traffic.at_homes("commit", homes)
        copies = len(decided) - stored
        self._leave(process, copies)
        if stored:
            self._exchange(process, load, self._leave, process, stored)

    def _leave(self, process: _Process, count: int) -> None:
        process.in_flight -= count
        if not self._scenario.rate:
            for _ in range(count):
                self._submit(process, self._page())

    def _propose(self, process: _Process, pages: list[Page], again: list[Page]) -> _Exchange:
        """The exchanges of a batch, which is proposed in groups, one after the other."""
        most = most_buckets(self._scenario.shards) // len(self._scenario.layout.tables)
        for start in range(0, len(pages), most):
            yield from self._group(process, pages[start : start + most], again)

    def _group(self, process: _Process, pages: list[Page], again: list[Page]) -> _Exchange:
        """The exchanges of a group; what has met another page by chance is proposed again."""
        traffic = self.traffic
        fresh = [page for page in pages if not page.known]
        copies = [page for page in fresh if page.kind != NEW]
        if fresh:
            yield traffic.visits([page.kind for page in fresh], first=True)
            strangers = self._by_chance(fresh, first=True)
            met = [*copies, *strangers]
            if met:
                settling = [self._rng.random() < self._scenario.settling[page.kind] for page in met]
                at_once = [page.kind for page, may in zip(met, settling, strict=True) if not may]
                left = [page.kind for page, may in zip(met, settling, strict=True) if may]
                if self._scenario.settled:
                    left = [kind for kind in left if kind != EXACT]
                yield traffic.look(len(met)) + traffic.visits(at_once, first=False)
                yield traffic.visits(left, first=False)
            again += strangers
        out = {id(page) for page in (*copies, *again)}  # of earlier groups as well
        new = [page for page in pages if id(page) not in out]
        if not new:
            return
        while len(process.ids) < len(new):
            home = int(self._rng.integers(self._scenario.shards))
            yield traffic.at_homes("reserve", np.array([home]))
            process.ids[:0] = [home] * _BLOCK
        for page in new:
            page.home = process.ids.pop()
        homes = np.array([page.home for page in new], np.int64)
        known = sum(page.known for page in new)
        load = traffic.visits([NEW] * len(new), first=None, announced=True)
        yield load + traffic.at_homes("create", homes) + traffic.look(known)
        met = traffic.prices.met[list(SIMHASH_TABLES)].sum()
        chance = np.minimum(self._rng.poisson(met, len(new)), _MOST).sum()
        strangers = self._by_chance([page for page in new if not page.known], first=False)
        if chance or strangers:
            yield traffic.look(int(chance) + len(strangers))
        if strangers:
            again += strangers
            spent = np.array([page.home for page in strangers], np.int64)
            yield traffic.at_homes("release", spent)

    def _by_chance(self, pages: list[Page], *, first: bool) -> list[Page]:
        """New pages that have met an unrelated one in a table other than those of SimHashes."""
        tables = self._scenario.layout.tables
        met = self.traffic.prices.met
        anchors = met[list(ANCHOR_TABLES)].mean() * (tables < 0).sum() / 2  # two tables each time
        others = tables[(tables >= 0) & ~np.isin(tables, SIMHASH_TABLES)]
        others = others[np.isin(others, _FIRST_READ) == first]
        chance = -np.expm1(-(anchors + met[others].sum()))
        drawn = self._rng.random(len(pages)) < chance
        return [page for page, one in zip(pages, drawn, strict=True) if one and page.kind == NEW]

    def _exchange(
        self, process: _Process, load: Load, then: Callable[..., None], *arguments: Any
    ) -> None:
        """Send a pipeline to each master, and go on when all have answered."""
        needed, costs = self.traffic.pipelines(load)
        if not len(needed):
            self._at(self._now, then, *arguments)
            return
        self._asked += costs[:, 0].sum() * 1e-6
        left = [len(needed)]
        for master, (cpu, sent, received) in zip(needed.tolist(), costs.tolist(), strict=True):
            there = self._now + self._scenario.latency + sent / self._scenario.client_link
            message = (process, master, cpu * 1e-6, sent, received, left, then, arguments)
            self._at(there, self._serve, *message)

    def _serve(
        self, process: _Process, master: int, cpu: float, sent: float, received: float, *rest: Any
    ) -> None:
        begin = max(self._now, self._free[master])
        away = self._scenario.outage
        if away is not None and away[0] == master and away[1] <= begin < away[1] + away[2]:
            begin = away[1] + away[2]
        self._free[master] = begin + cpu
        self._busy[master] += cpu
        self._bytes[master] += sent, received
        # Replies leave in the order in which they are made.
        left = max(self._free[master], self._links[master]) + received / self._scenario.master_link
        self._links[master] = left
        self._at(left + self._scenario.latency, self._receive, process, received, *rest)

    def _receive(
        self,
        process: _Process,
        received: float,
        left: list[int],
        then: Callable[..., None],
        arguments: tuple[Any, ...],
    ) -> None:
        process.link = max(self._now, process.link) + received / self._scenario.client_link
        left[0] -= 1
        if not left[0]:
            self._at(process.link, then, *arguments)
