"""Event-driven simulation of a cluster, from the costs of its messages.

Client processes get pages, collect them into batches as
:class:`~dedup_middleware.index.batching.Batcher` does, and pass them through the exchanges of
:mod:`dedup_middleware.index.cluster.propose`. Each exchange is one pipeline to every master that it
needs, see :mod:`benchmarks.cluster_traffic`. A master is a queue with one server, whose service
time is that of the calls in the pipeline; replies queue at the network cards of master and client.
A master may be out of service for some time: messages sent to it meanwhile are served afterwards.

Not simulated: retries, generations, floods, slot migration, similar pages in flight at the same
time, and everything else that masters do (append-only file, replicas).
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Callable, Generator
from typing import Any

import attrs
import numpy as np

from benchmarks.cluster_costs import Costs
from benchmarks.cluster_traffic import EXACT, NEW, Array, Load, Scenario, Traffic
from dedup_middleware.index.cluster.index import most_buckets
from dedup_middleware.index.cluster.spread import FIRST_TABLES
from dedup_middleware.model.buckets import ANCHOR_TABLES, SIMHASH_TABLES

# As in the index: batches of proposals, ids, candidates whose records are fetched.
_BATCH, _LANES, _CROWD = 128, 2, 20
_BLOCK, _MOST = 64, 64


@attrs.define(eq=False)
class Page:
    """A page in flight."""

    kind: int
    arrived: float
    known: bool = False  # a candidate was judged to be a different page
    home: int = 0  # shard of its record, once announced


@attrs.frozen(eq=False)
class Outcome:
    """The result of a simulation.

    :param seconds: simulated time
    :param busy: seconds of work that each master has accepted
    :param sent: bytes sent by each master; ``got``: bytes received
    :param asked: seconds of work that the exchanges requested, including work not yet received
    :param arrivals: for each decision the arrival time of its page; ``latencies``: how long it took
    :param batches: number of batches of proposals
    :param held: pages that arrived while a process had its limit of pages in flight
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
        """Number of decided pages."""
        return len(self.latencies)

    @property
    def busiest(self) -> float:
        """Share of time in which the busiest master was busy."""
        return float(self.busy.max() / self.seconds)

    def latency(self, share: float) -> float:
        """Return a quantile of latencies in seconds, without the first fifth of time."""
        settled = self.latencies[self.arrivals > self.seconds / 5]
        return float(np.quantile(settled, share)) if len(settled) else 0.0


_Exchange = Generator[Load, None, None]


class _Process:
    """A client process."""

    def __init__(self) -> None:
        self.waiting: deque[Page] = deque()
        self.under_way = 0
        self.in_flight = 0
        self.free = 0.0  # time at which its processor is free
        self.link = 0.0  # time at which its network card is free
        self.ids: list[int] = []  # home shards of its reserved ids


class Simulation:
    """One simulation.

    :param pages: number of decisions after which it ends
    :param until: latest end in seconds
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
        self._asked = 0.0  # seconds of work that the exchanges requested

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
        """Yield the exchanges of a batch, which is proposed in consecutive groups."""
        most = most_buckets(self._scenario.shards) // len(self._scenario.layout.tables)
        for start in range(0, len(pages), most):
            yield from self._group(process, pages[start : start + most], again)

    def _group(self, process: _Process, pages: list[Page], again: list[Page]) -> _Exchange:
        """Yield the exchanges of a group; add pages with chance candidates to ``again``."""
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
        out = {id(page) for page in (*copies, *again)}  # also those of earlier groups
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
        """Draw the new pages with unrelated candidates outside the SimHash tables."""
        tables = self._scenario.layout.tables
        met = self.traffic.prices.met
        anchors = met[list(ANCHOR_TABLES)].mean() * (tables < 0).sum() / 2  # two per exchange
        others = tables[(tables >= 0) & ~np.isin(tables, SIMHASH_TABLES)]
        others = others[np.isin(others, FIRST_TABLES) == first]
        chance = -np.expm1(-(anchors + met[others].sum()))
        drawn = self._rng.random(len(pages)) < chance
        return [page for page, one in zip(pages, drawn, strict=True) if one and page.kind == NEW]

    def _exchange(
        self, process: _Process, load: Load, then: Callable[..., None], *arguments: Any
    ) -> None:
        """Send a pipeline to each master, and continue when all have replied."""
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
