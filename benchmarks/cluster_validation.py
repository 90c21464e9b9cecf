"""Costs of decisions for the servers of small clusters, measured and simulated side by side.

``python -m benchmarks.cluster_validation [--stored 40000] [--decided 1000]``: clusters of 1, 3 and
6 masters on this machine decide generated texts through the public interface, a hundred at a time
from one process, and new pages whose buckets are as long as those of an index of 10^9 pages. Each
figure is followed by that of :mod:`benchmarks.cluster_simulation` for the same pages, with costs
measured in the same run. Smaller indexes behave differently: a hash of up to 512 short fields is a
list, which the server searches from the start.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import attrs
import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks import cluster, shared
from benchmarks.cluster_costs import Costs, measure
from benchmarks.cluster_simulation import Outcome, Simulation
from benchmarks.cluster_traffic import Layout, Scenario, owners
from benchmarks.index_size import pages_of
from dedup_middleware import Deduplicator
from dedup_middleware.base.options import Options
from dedup_middleware.index.base import Index
from dedup_middleware.index.cluster.spread import field_of, group_hash, groups_of
from dedup_middleware.index.opening import open_index
from dedup_middleware.index.parameters import RECORD, RecordLayout
from dedup_middleware.methods.choose import choose_method
from dedup_middleware.model.buckets import ANCHOR_TABLES, SIMHASH_TABLES, BucketKeys
from dedup_middleware.model.claims import NOTHING_KNOWN, Claimed, Entry, Known
from dedup_middleware.model.records import BAND_RECORD, SIMHASH_RECORD, joined

_IN_FLIGHT = 100
_LONG = 1e9  # pages in the imitated index
_PREFIXES, _FEW = 128, 4  # prefixes per table, pages in flight: few share a bucket


def long_pages(count: int, prefixes: int, seed: int) -> list[Entry]:
    """Generate pages of the default layout with buckets among the first of each table."""
    options = Options()
    rng = np.random.default_rng(seed)
    (pages,) = pages_of(options, count)
    layout = Layout()
    entries = []
    for i in range(count):
        tables = layout.tables.copy()
        anchors = tables < 0
        tables[anchors] = rng.integers(ANCHOR_TABLES[0], ANCHOR_TABLES[-1] + 1, anchors.sum())
        words = np.empty(2 * len(tables), np.uint64)
        drawn = rng.integers(0, prefixes, len(tables))
        words[::2] = tables.astype(np.uint64) << np.uint64(16) | drawn.astype(np.uint64)
        words[1::2] = rng.integers(0, 1 << 24, len(tables), np.uint64)
        content = pages.content[i].copy()
        content["key"] = rng.integers(0, 1 << 64, dtype=np.uint64)
        address = (pages.addresses[i] or b"").decode()
        entries.append(Entry(BucketKeys(words), content.tobytes(), address, pages.payloads[i]))
    return entries


async def _enter(index: Index, entries: Sequence[Entry]) -> int:
    """Announce and commit pages as new, whatever they meet."""
    queue = iter(entries)

    async def worker() -> int:
        count = 0
        for entry in queue:
            known = NOTHING_KNOWN
            while not isinstance(
                made := await index.propose(entry, 12, 60.0, known=known), Claimed
            ):
                known = Known(joined([known.pages, made.pages]))
            count += await index.commit(made.claim)
        return count

    return sum(await asyncio.gather(*(worker() for _ in range(_FEW))))


def _lengthen(place: cluster.Place, index: Index, pages: float, prefixes: int) -> None:
    """Fill every bucket with as many records as in an index of ``pages`` pages."""
    rng = np.random.default_rng(1)
    spread = index.spread  # type: ignore[attr-defined]
    ends = [(i + 1) * 16_384 // len(place.servers) for i in range(len(place.servers))]
    where = owners(Scenario(len(ends), spread.shards, namespace=spread.namespace))
    clients = [server.client() for server in place.servers]
    for table in sorted({*Layout().tables.tolist(), *ANCHOR_TABLES} - {-1}):
        width = SIMHASH_RECORD if table in SIMHASH_TABLES else BAND_RECORD
        size = round(Layout().records(table, pages)) * width
        buckets = np.arange(prefixes, dtype=np.uint64) | np.uint64(table << 16)
        (group,) = groups_of(np.array([table])).tolist()
        for bucket, shard in zip(buckets.tolist(), spread.of_buckets(buckets), strict=True):
            name = spread.prefix(int(shard)) + group_hash(group)
            clients[where[shard]].hset(name, field_of(bucket), rng.bytes(size))


@attrs.frozen
class Compared:
    """Per page: us of all servers and of the busiest, bytes that the client sends and gets."""

    total: float
    busiest: float
    sent: float
    received: float

    @classmethod
    def of(cls, outcome: Outcome) -> Compared:
        """Return the simulated costs."""
        count = outcome.decisions
        return cls(
            1e6 * outcome.busy.sum() / count,
            1e6 * outcome.busy.max() / count,
            outcome.got.sum() / count,
            outcome.sent.sum() / count,
        )


class _Watch:
    """Measures the servers of a place."""

    def __init__(self, place: cluster.Place) -> None:
        self._place = place

    def _now(self) -> np.ndarray:
        net = []
        for server in self._place.servers:
            with server.client() as client:
                info = client.info("stats")
                net.append((info["total_net_input_bytes"], info["total_net_output_bytes"]))
        return np.column_stack([self._place.cpu(), np.array(net, float)])

    async def start(self) -> None:
        before, began = self._now(), time.perf_counter()
        await asyncio.sleep(2)
        self._idle = (self._now() - before) / (time.perf_counter() - began)
        self._before, self._began, self._client = (
            self._now(),
            time.perf_counter(),
            time.process_time(),
        )

    def stop(self, pages: int) -> tuple[Compared, float]:
        """Return the costs per page, and the client's processor seconds per page."""
        client = (time.process_time() - self._client) / pages
        took = time.perf_counter() - self._began
        spent = (self._now() - self._before - self._idle * took) / pages
        cpu, got, sent = spent.T
        return Compared(cpu.sum(), cpu.max(), got.sum(), sent.sum()), client


async def validate(costs: Costs, stored: int, decided: int) -> Table:
    """Return a table of server time per page, measured and simulated in one run."""
    table = Table(title="Measured / simulated: us of the servers, bytes of the client, a page")
    for name in (
        "masters, parts",
        "page",
        "in sum",
        "busiest",
        "sent",
        "received",
        "error of the sum",
    ):
        table.add_column(name, justify="left" if name in ("masters, parts", "page") else "right")
    sums = []
    with tempfile.TemporaryDirectory() as folder, cluster.places(Path(folder)) as made:
        for place in made[1:]:
            masters, shards = len(place.servers), place.options.shards
            found = await _decided(place, stored, decided)
            found += [await _entered(place, _LONG, decided // 10)]
            for kind, size, real, client in found:
                mix = tuple(float(kind == one) for one in shared.KINDS)
                scenario = Scenario(
                    masters,
                    shards,
                    size,
                    rate=0,
                    in_flight=_FEW if size == _LONG else _IN_FLIGHT,
                    mix=mix,
                    client_cpu=client,  # type: ignore[arg-type]
                )
                simulated = Compared.of(Simulation(scenario, costs, decided).run())
                cells = [
                    f"{a:,.0f} / {b:,.0f}"
                    for a, b in zip(attrs.astuple(real), attrs.astuple(simulated), strict=True)
                ]
                error = simulated.total / real.total - 1
                sums.append(abs(error))
                name = f"{kind}, 10^9 pages" if size == _LONG else kind
                table.add_row(f"{masters}, {shards}", name, *cells, f"{error:+.0%}")
    table.caption = f"mean of the errors, without sign: {np.mean(sums):.0%}"
    return table


_Found = tuple[str, float, Compared, float]


async def _decided(place: cluster.Place, stored: int, decided: int) -> list[_Found]:
    """Decide pages of each kind through the public interface."""
    options = attrs.evolve(place.options, hash_key=shared.HASH_KEY, namespace="dedup")
    found: list[_Found] = []
    index = open_index(options)
    async with Deduplicator(options, index=index) as dedup:
        for pages in pages_of(options, stored):
            await index.load(pages)
        for kind in shared.KINDS:
            prints = shared.fingerprints(kind, decided, 0, "filter")
            watch = _Watch(place)
            await watch.start()
            queue = iter(prints)

            async def worker(queue=queue) -> None:  # type: ignore[no-untyped-def]
                for page in queue:
                    verdict = await dedup.decide_fingerprint(page)
                    if verdict.claim is not None:
                        await dedup.commit(verdict)

            await asyncio.gather(*(worker() for _ in range(_IN_FLIGHT)))
            real, client = watch.stop(decided)
            found.append((kind, float(stored + decided), real, client))
    return found


async def _entered(place: cluster.Place, pages: float, count: int) -> _Found:
    """Enter new pages into buckets as long as those of a large index."""
    options = attrs.evolve(place.options, namespace="long", timeout=600.0)
    index = open_index(options)
    method = choose_method(options)
    record = RecordLayout(method.fields, text=True)
    await index.open({RECORD: record.parameter})
    _lengthen(place, index, pages, _PREFIXES)
    entries = long_pages(count, _PREFIXES, 1)
    watch = _Watch(place)
    await watch.start()
    assert await _enter(index, entries) == count
    real, client = watch.stop(count)
    await index.close()
    for server in place.servers:
        with server.client() as one:
            one.flushall()
    return shared.KINDS[0], pages, real, client


def main() -> None:
    """Measure, simulate, and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--stored", type=int, default=40_000)
    parser.add_argument("--decided", type=int, default=1_000)
    arguments = parser.parse_args()
    console = Console(width=150)
    costs = asyncio.run(measure(console.print))
    console.print(asyncio.run(validate(costs, arguments.stored, arguments.decided)))


if __name__ == "__main__":
    main()
