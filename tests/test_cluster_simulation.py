"""The simulation of a cluster: work is conserved, and its small cases are known."""

from __future__ import annotations

from pathlib import Path

import attrs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from redis.crc import key_slot

from benchmarks import cluster_forecast
from benchmarks.cluster import Place
from benchmarks.cluster_costs import LENGTHS, Cost, Costs, measured
from benchmarks.cluster_forecast import (
    TARGET,
    after_outage,
    at_target,
    in_full,
    least_masters,
    page_bytes,
    recovery,
)
from benchmarks.cluster_simulation import Simulation
from benchmarks.cluster_traffic import (
    NEW,
    PREFIXES,
    Layout,
    Prices,
    Scenario,
    Traffic,
    at_length,
    near_by_chance,
    owners,
)
from dedup_middleware.base.options import Options
from dedup_middleware.model.buckets import BUCKET_LIMIT, SIMHASH_TABLES
from dedup_middleware.model.records import BAND_RECORD, SIMHASH_RECORD
from tests.servers import running_redis

COSTS = measured()
ONLY_NEW = (1.0, 0.0, 0.0)
MIXES = st.sampled_from([ONLY_NEW, (0.0, 1.0, 0.0), (0.0, 0.0, 1.0), (0.7, 0.2, 0.1)])


def flat(cpu: float) -> Costs:
    """Costs where each bucket takes ``cpu`` us, whatever is done with it, and nothing else costs
    anything."""
    none = Cost()
    items = {kind: [Cost(cpu)] * len(every) for kind, every in COSTS.items.items()}
    homes = dict.fromkeys(COSTS.homes, (none, none))
    free = {"exchange": none, "call": none, "hash": none, "hit": none}
    return attrs.evolve(COSTS, items=items, homes=homes, **free)


@settings(deadline=None, max_examples=15)
@given(
    masters=st.integers(1, 8),
    shards=st.sampled_from([8, 64]),
    mix=MIXES,
    rate=st.sampled_from([0.0, 50.0, 500.0]),
    pages=st.sampled_from([1e4, 1e8, 1e10]),
)
def test_work_is_conserved(
    masters: int, shards: int, mix: tuple[float, float, float], rate: float, pages: float
) -> None:
    """Masters do the work that exchanges ask for, none is busy for longer than it has time, and a
    page takes at least two journeys."""
    scenario = Scenario(masters, shards, pages, processes=2, rate=rate, in_flight=20, mix=mix)
    outcome = Simulation(scenario, COSTS, 60).run()
    assert outcome.busy.sum() <= outcome.asked + 1e-9
    # What is on its way at the end is that of two processes with two batches and commits each.
    assert outcome.asked - outcome.busy.sum() <= 0.5 * outcome.asked
    assert (outcome.latencies >= 2 * scenario.latency).all()
    assert outcome.decisions >= 60
    assert len(outcome.arrivals) == len(outcome.latencies)


def test_one_page_at_a_time_takes_the_sum_of_its_services() -> None:
    """One master, one client, no network: a page takes as long as its buckets."""
    scenario = Scenario(
        1, 8, 0, rate=0, in_flight=1, mix=ONLY_NEW, latency=0, client_cpu=0,
        master_link=1e18, client_link=1e18,
    )  # fmt: skip
    outcome = Simulation(scenario, flat(1_000.0), 50).run()
    buckets = len(Layout().tables)
    # All are announced, and the key, the bands and the anchors of two tables are read before.
    assert (outcome.latencies >= (buckets + 3) * 1e-3 - 1e-9).all()
    assert (outcome.latencies <= (2 * buckets - len(SIMHASH_TABLES)) * 1e-3 + 1e-9).all()
    assert outcome.busy.sum() == pytest.approx(outcome.latencies.sum())
    assert outcome.seconds == pytest.approx(outcome.latencies.sum())


def test_calls_of_one_shard_cost_what_was_measured() -> None:
    """All buckets of a page that are announced in one call: the call, two hashes, its buckets."""
    scenario = Scenario(1, 1, PREFIXES * LENGTHS[2], layout=Layout(bands=2, anchors=0))
    traffic = Traffic(scenario, COSTS, np.random.default_rng(1))
    load = traffic.visits([NEW], first=None, announced=True)
    per_bucket = 3 * COSTS.items["announce"][2].cpu + 4 * COSTS.items["wide announce"][2].cpu
    wanted = COSTS.call.cpu + 2 * COSTS.hash.cpu + per_bucket
    assert load.costs[0, 0] == pytest.approx(wanted)


@settings(deadline=None)
@given(st.floats(0, 2e5), st.floats(0, 2e5))
def test_longer_buckets_never_cost_less_to_send(one: float, other: float) -> None:
    """Bytes of a SimHash bucket's reply grow with it until it is full; then the newest are sent."""
    limit = BUCKET_LIMIT // SIMHASH_RECORD
    shorter, longer = sorted((one, other))
    received = [at_length(COSTS.items["wide read"], n, limit)[2] for n in (shorter, longer)]
    if longer < limit:
        assert received[0] <= received[1] + 1
    else:
        assert received[1] < 20_000


@pytest.mark.parametrize("records", LENGTHS)
def test_measured_lengths_cost_what_was_measured(records: int) -> None:
    """Buckets of a measured length have the measured cost; others are interpolated."""
    every = COSTS.items["announce"]
    found = at_length(every, records, BUCKET_LIMIT // BAND_RECORD)
    assert found.tolist() == pytest.approx(every[LENGTHS.index(records)].array().tolist())


@given(st.integers(1, 128), st.sampled_from([64, 256, 1024]))
def test_shards_lie_where_their_slots_are(masters: int, shards: int) -> None:
    """Each shard has one master, that of the slot of its tag; or all have equally many."""
    where = owners(Scenario(masters, shards))
    assert where.min() >= 0
    assert where.max() < masters
    slot = key_slot(b"{dedup:5}leases")
    assert where[5] * 16384 // masters <= slot < (where[5] + 1) * 16384 // masters
    counts = np.bincount(owners(Scenario(masters, shards, balanced=True)), minlength=masters)
    assert counts.max() - counts.min() <= 1


def test_pages_met_by_chance() -> None:
    """The share of chance candidates in a bucket is that among random SimHashes."""
    rng = np.random.default_rng(1)
    bits = np.bitwise_count(rng.integers(0, 1 << 48, 200_000, np.uint64))
    for distance in (16, 20):
        assert np.mean(bits <= distance) == pytest.approx(near_by_chance(distance), rel=0.1)
    prices = Prices(COSTS, Layout(), 1e9, 12)
    assert prices.met[list(SIMHASH_TABLES)].sum() == pytest.approx(22, abs=1)


def test_a_master_that_is_away_holds_up_its_pages() -> None:
    """Pages wait for a master that is away, and some time later the queues are as before."""
    scenario = Scenario(3, 24, 1e5, processes=3, rate=50.0, balanced=True)
    waited, meanwhile = after_outage(scenario, COSTS, 1.5)
    assert 0 <= waited < 3
    assert meanwhile < 0.5
    away = attrs.evolve(scenario, outage=(0, 0.2, 1.0))
    outcome = Simulation(away, COSTS, 100).run()
    assert outcome.latencies.max() > 0.5


@pytest.mark.slow
def test_load_of_the_busiest_master() -> None:
    """At the rate that is found the busiest master is at work for 70 % of the time."""
    scenario, outcome, rate = at_target(Scenario(2, 16, 1e8, balanced=True), COSTS, 400)
    again = Simulation(scenario, COSTS, 1_500, seed=2).run()
    assert scenario.rate * scenario.processes == pytest.approx(rate, rel=0.1)
    assert again.busiest == pytest.approx(TARGET, rel=0.15)
    assert outcome.decisions >= 400


def test_memory_and_recovery() -> None:
    """Records fill their buckets only up to the limit; a larger master takes longer to load."""
    assert in_full(Layout())["SimHash"] == PREFIXES * 95_325
    at = [page_bytes(COSTS, Layout(), pages) for pages in (1e9, 1e10, 1e12)]
    assert at[0] > at[1] > at[2] > COSTS.page_bytes
    assert least_masters(COSTS, Layout(), 1e10) > least_masters(COSTS, Layout(), 1e9)
    few, many = (recovery(COSTS, Scenario(masters, 64, 1e9)) for masters in (8, 32))
    assert few.reload == pytest.approx(4 * many.reload)
    assert few.resync > few.reload
    assert few.failover == many.failover


@pytest.mark.slow
def test_table_of_the_forecast(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row for each size and number of masters, here a small one."""
    for name, value in (("SIZES", (1e9,)), ("MASTERS", (2, 4)), ("_SIMULATED", 60)):
        monkeypatch.setattr(cluster_forecast, name, value)
    table = cluster_forecast.forecast(COSTS)
    masters, rates = (list(table.columns[i].cells) for i in (1, 2))
    assert masters == ["2", "4"]
    assert 1.5 < int(str(rates[1])) / int(str(rates[0])) < 2.7


def test_costs_are_read_as_written() -> None:
    """The file of costs is complete."""
    assert Costs.read(COSTS.dump()) == COSTS
    assert all(len(every) == len(LENGTHS) + 1 for every in COSTS.items.values())


def test_the_validation_counts_microseconds(tmp_path: Path) -> None:
    """The validation measures in microseconds, like the simulated costs."""
    from benchmarks import cluster_validation  # it loads datasketch, and that SciPy

    with running_redis(tmp_path) as server:
        place = Place("one", [server], Options(index_url=server.url))
        before = place.cpu()[0]
        seen = cluster_validation._Watch(place)._now()[0, 0]
        assert before <= seen <= place.cpu()[0]
