"""The load that exchanges of a simulated cluster put on its masters, from the cost of each message.

Buckets are drawn at random; their shards are assigned to masters by the slots of their hash tags.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np
from numpy.typing import NDArray
from redis.crc import key_slot

from benchmarks.cluster_costs import FULL, LENGTHS, Cost, Costs
from dedup_middleware.index.cluster.spread import FIRST_TABLES, GROUPS, Spread, groups_of
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
# Copies have other keys, and SimHash buckets are returned without a search for hits.
_NO_HITS = (KEY_TABLE, *SIMHASH_TABLES)
NEW, EDITED, EXACT = range(3)
Array = NDArray[np.float64]


@attrs.frozen
class Layout:
    """The buckets of a page: one in the key table, four in the SimHash tables, and these."""

    bands: int = 2
    anchors: int = 15

    @property
    def tables(self) -> NDArray[np.int64]:
        """Return the table of each bucket; -1 for an anchor, whose table differs by page."""
        bands = range(FIRST_BAND_TABLE, FIRST_BAND_TABLE + self.bands)
        return np.array([KEY_TABLE, *SIMHASH_TABLES, *bands, *[-1] * self.anchors])

    def records(self, table: int, pages: float) -> float:
        """Return the number of records in a bucket if it is not limited."""
        share = self.anchors / len(ANCHOR_TABLES) if table in ANCHOR_TABLES else 1
        return pages * share / PREFIXES


@attrs.frozen
class Scenario:
    """The parameters of a simulation.

    :param pages: in the index
    :param rate: pages per second for each process; 0: it always has ``in_flight`` pages in flight
    :param mix: shares of new pages, edited copies and exact copies
    :param hits: by kind of page, the share of buckets in which the stored page is found
    :param settling: by kind, the share that looks like an exact copy after the first read
    :param settled: whether exact copies among those need no further read
    :param balanced: whether every master has equally many shards; otherwise by their hash tags
    :param latency: seconds that a message travels
    :param master_link: bytes per second, as is ``client_link``
    :param client_cpu: seconds of a process's processor per page
    :param outage: master, start in seconds, and duration of its outage
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
    """Return the master of each shard; masters have equal and consecutive slot ranges."""
    shards = range(scenario.shards)
    if scenario.balanced:
        return np.array([shard * scenario.masters // scenario.shards for shard in shards])
    spread = Spread(scenario.namespace, scenario.shards)
    ends = [(i + 1) * SLOTS // scenario.masters for i in range(scenario.masters)]
    slots = [key_slot(spread.prefix(shard)) for shard in shards]
    return np.searchsorted(np.array(ends), slots, side="right")


def near_by_chance(distance: int, bits: int = 48) -> float:
    """Return the share of unrelated SimHashes in a bucket that are candidates.

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
    """The costs and chance candidates of a bucket by table, for one size of the index."""

    def __init__(self, costs: Costs, layout: Layout, pages: float, distance: int) -> None:
        tables = sorted(
            {KEY_TABLE, *SIMHASH_TABLES, *ANCHOR_TABLES, *layout.tables.tolist()} - {-1}
        )
        self.read = np.zeros((tables[-1] + 1, 3))
        self.announce = np.zeros((tables[-1] + 1, 3))
        self.met = np.zeros(tables[-1] + 1)  # chance candidates per bucket
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
    """Return the cost of a bucket by its number of records, interpolated unless it is full."""
    if records >= limit:
        return every[FULL].array()
    columns = np.array([one.array() for one in every[:FULL]])
    found = [np.interp(records, LENGTHS, column) for column in columns.T]
    if records > LENGTHS[-1]:  # extrapolated linearly
        slope = (columns[-1] - columns[-2]) / (LENGTHS[-1] - LENGTHS[-2])
        found = list(columns[-1] + slope * (records - LENGTHS[-1]))
    return np.array(found)


@attrs.define(eq=False)
class Load:
    """The load of an exchange on each master: float64[masters, 3] as in :class:`.Cost`."""

    costs: Array

    @classmethod
    def none(cls, masters: int) -> Load:
        """Return no load."""
        return cls(np.zeros((masters, 3)))

    def add(self, masters: NDArray[np.int64], costs: Array) -> None:
        """Add costs to masters; a master may occur more than once."""
        for column in range(3):
            more = np.bincount(masters, costs[..., column], len(self.costs))
            self.costs[:, column] += more

    def __add__(self, other: Load) -> Load:
        return Load(self.costs + other.costs)


class Traffic:
    """The calls in exchanges for pages with random buckets and home shards."""

    def __init__(self, scenario: Scenario, costs: Costs, rng: np.random.Generator) -> None:
        self.prices = Prices(costs, scenario.layout, scenario.pages, scenario.distance)
        self.owners = owners(scenario)
        self._scenario = scenario
        self._costs = costs
        self._rng = rng
        self._template = scenario.layout.tables

    def visits(self, kinds: Sequence[int], *, first: bool | None, announced: bool = False) -> Load:
        """Return the load of calls of ``visit.lua``.

        :param kinds: the kind of each page
        :param first: the tables of the first read, or all others; None: all
        """
        load = Load.none(self._scenario.masters)
        tables = np.tile(self._template, (len(kinds), 1))
        drawn = self._rng.integers(ANCHOR_TABLES[0], ANCHOR_TABLES[-1] + 1, tables.shape)
        tables = np.where(tables < 0, drawn, tables).ravel()
        hits = np.repeat(np.array(self._scenario.hits)[list(kinds)], len(self._template))
        if first is not None:
            chosen = np.isin(tables, FIRST_TABLES) == first
            tables, hits = tables[chosen], hits[chosen]
        if not len(tables):
            return load
        shards = self._rng.integers(self._scenario.shards, size=len(tables))
        prices = self.prices.announce if announced else self.prices.read
        load.add(self.owners[shards], prices[tables])
        found = (self._rng.random(len(tables)) < hits) & ~np.isin(tables, _NO_HITS)
        self._calls(load, shards[found], self._costs.hit)
        self._calls(load, np.unique(shards), self._costs.call)
        hashes = np.unique(shards * len(GROUPS) + groups_of(tables)) // len(GROUPS)
        self._calls(load, hashes, self._costs.hash)
        return load

    def _calls(self, load: Load, shards: NDArray[np.int64], cost: Cost) -> None:
        load.add(self.owners[shards], np.tile(cost.array(), (len(shards), 1)))

    def at_homes(self, script: str, homes: NDArray[np.int64]) -> Load:
        """Return the load of calls at home shards: one per shard, for release one per page."""
        load = Load.none(self._scenario.masters)
        if len(homes):
            call, page = self._costs.homes[script]
            self._calls(load, homes if script == "release" else np.unique(homes), call)
            self._calls(load, homes, page)
        return load

    def look(self, pages: int) -> Load:
        """Return the load of reading the records of this many candidates."""
        return self.at_homes("look", self._rng.integers(self._scenario.shards, size=pages))

    def pipelines(self, load: Load) -> tuple[NDArray[np.int64], Array]:
        """Return the masters that an exchange needs, and the cost of its pipeline for each."""
        (needed,) = np.nonzero(load.costs.any(axis=1))
        return needed, load.costs[needed] + self._costs.exchange.array()
