"""What the exchanges of a simulated cluster ask of its masters, from what each message costs.

Buckets are drawn at random; their shards lie on masters by the slots of their hash tags.
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
