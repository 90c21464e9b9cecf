"""What each message of a decision on a cluster costs a master: processor time, bytes, memory.

``python -m benchmarks.cluster_costs [--out FILE]``: the only master of a cluster with one shard
gets calls of one script, built by the index's own functions. The number of calls in an exchange, of
tables and buckets in a call, and of records in a bucket varies; the cost of each follows by least
squares. Buckets of a large index are imitated by long values in fewer buckets, at least 64 MB in
total, so that they do not fit into the processor's cache. Processor time is the server's (``INFO
CPU``, user and system) less that of an idle server; other work on the machine slows it down, but
increases it only through the shared cache. Bytes are the server's ``total_net_input_bytes`` and
``total_net_output_bytes``.

``benchmarks/cluster_costs.json`` has the latest measurement.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import random
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from benchmarks.index_size import pages_of
from dedup_middleware.base.options import Options
from dedup_middleware.index.cluster.index import ClusterIndex
from dedup_middleware.index.cluster.shards import Announced, Reserved, text_of
from dedup_middleware.index.cluster.spread import GROUPS, field_of, group_hash, groups_of
from dedup_middleware.index.cluster.visits import Visit
from dedup_middleware.index.opening import open_index
from dedup_middleware.index.pages import Pages
from dedup_middleware.index.parameters import RECORD, RecordLayout
from dedup_middleware.methods.choose import choose_method
from dedup_middleware.model.buckets import (
    BUCKET_LIMIT,
    FIRST_BAND_TABLE,
    SIMHASH_TABLES,
    BucketKeys,
)
from dedup_middleware.model.claims import Claim
from dedup_middleware.model.records import BAND_RECORD, SIMHASH_RECORD, State
from tests.servers import RedisServer, running_cluster

FILE = Path(__file__).with_name("cluster_costs.json")
LENGTHS = (0, 2, 15, 150, 1_500, 15_000, 60_000)  # numbers of records in a bucket
FULL = -1  # index in the lists of costs for a full bucket
_BANDS = range(FIRST_BAND_TABLE, FIRST_BAND_TABLE + 8)
_FILLED = 64 << 20  # bytes
_ROUNDS = 3
_ENOUGH = 0.1  # seconds of the server's processor time per round
_PATIENCE = 20.0  # seconds by the clock per round, at most
_IDLE = 2.0
_SUFFIX = 0x0A0B0C  # of the first record of each bucket
_PAGES = 20_000  # rows read
_LEASE = 600.0
# Calls in an exchange, hashes and buckets in a call.
_SHAPES = ((1, 1, 1), (4, 1, 1), (16, 1, 1), (8, 2, 8), (8, 1, 16), (8, 2, 16), (1, 2, 64))


@attrs.frozen
class Cost:
    """A master's processor time in us, and the bytes that a client sends and receives."""

    cpu: float = 0.0
    sent: float = 0.0
    received: float = 0.0

    @classmethod
    def of(cls, values: NDArray[np.float64]) -> Cost:
        """Make costs from an array; negative values are noise and become 0."""
        return cls(*(round(max(0.0, float(one)), 3) for one in values))

    def array(self) -> NDArray[np.float64]:
        """Return the three costs as float64[3]."""
        return np.array([self.cpu, self.sent, self.received])


@attrs.frozen
class Costs:
    """The costs of all kinds of messages, and of memory.

    :param exchange: cost of a pipeline to a master, whatever it contains
    :param call: of a call of ``visit.lua`` in it
    :param hash: of each hash of buckets that the call names
    :param items: of a bucket, by operation ("read", "announce", and "wide ..." for SimHash tables):
        a list for ``LENGTHS`` records, last for a full bucket; one without records is a new field
    :param hit: extra cost of a bucket with a record that has the suffix searched for
    :param homes: for each other script the cost of a call, and of a page in the call
    :param page_bytes: memory of a page's row and text
    :param factor: memory of a bucket per byte of its records, for all ``LENGTHS`` but 0
    :param load: bytes of memory that a server loads from its file per second of processor time
    """

    exchange: Cost
    call: Cost
    hash: Cost
    items: dict[str, list[Cost]]
    hit: Cost
    homes: dict[str, tuple[Cost, Cost]]
    page_bytes: float
    factor: list[float]
    load: float

    def dump(self) -> str:
        """Return the costs as JSON."""
        return json.dumps(attrs.asdict(self), indent=1)

    @classmethod
    def read(cls, text: str) -> Costs:
        """Parse costs from JSON."""
        raw = json.loads(text)
        for name in ("exchange", "call", "hash", "hit"):
            raw[name] = Cost(**raw[name])
        raw["items"] = {k: [Cost(**one) for one in v] for k, v in raw["items"].items()}
        raw["homes"] = {k: (Cost(**v[0]), Cost(**v[1])) for k, v in raw["homes"].items()}
        return cls(**raw)


def measured() -> Costs:
    """Return the latest measurement."""
    return Costs.read(FILE.read_text(encoding="utf-8"))


class Master:
    """The only master of a cluster, and measurements of calls to it."""

    def __init__(self, server: RedisServer, index: ClusterIndex) -> None:
        self.server = server
        self.index = index
        self.client = server.client(socket_timeout=600)  # one of the calls saves all data
        self._idle = np.zeros(3)
        self._ids = itertools.count(1 << 30)

    def counters(self) -> NDArray[np.float64]:
        """Return processor time in us, and bytes received and sent by the server so far."""
        info: Any = self.client.info("all")
        cpu = 1e6 * (info["used_cpu_user"] + info["used_cpu_sys"])
        net = info["total_net_input_bytes"], info["total_net_output_bytes"]
        return np.array([cpu, *net], float)

    async def rest(self) -> None:
        """Measure what the idle server takes."""
        before, began = self.counters(), time.perf_counter()
        await asyncio.sleep(_IDLE)
        self._idle = (self.counters() - before) / (time.perf_counter() - began)

    async def cost(self, exchange: Callable[[], Awaitable[Any]]) -> NDArray[np.float64]:
        """Return the cost of an exchange, the median of several rounds."""
        await exchange()
        rounds = []
        for _ in range(_ROUNDS):
            before, began, count, step = self.counters(), time.perf_counter(), 0, 4
            asking = self.counters() - before  # cost of reading the counters
            before = self.counters()
            while True:
                for _ in range(step):
                    await exchange()
                count += step
                step *= 2  # reading the counters takes as long as many short exchanges
                took = time.perf_counter() - began
                spent = self.counters() - before - asking - self._idle * took
                if spent[0] > _ENOUGH * 1e6 or took > _PATIENCE:
                    break
                before += asking
            rounds.append(spent / count)
        return np.median(rounds, axis=0)

    async def visits(
        self,
        tables: Sequence[int],
        prefixes: int,
        calls: int,
        items: int,
        *,
        announced: bool = False,
        hits: bool = False,
    ) -> NDArray[np.float64]:
        """Return the cost of an exchange with calls of ``visit.lua``.

        :param prefixes: number of prefixes that buckets are drawn from
        :param items: buckets in each call
        :param hits: whether each bucket has a record with the suffix
        """

        def call() -> Any:
            words = np.empty(2 * items, np.uint64)
            drawn = np.array(random.sample(range(prefixes), items), np.uint64)
            words[::2] = np.resize(np.array(tables, np.uint64), items) << np.uint64(16) | drawn
            words[1::2] = [_SUFFIX if hits else random.getrandbits(24) for _ in range(items)]
            written, page_ids = [items * announced], [next(self._ids)]
            return Visit(self.index, [BucketKeys(words)], written, page_ids, [0], 0).calls[0]

        return await self.cost(lambda: self.index.together([call() for _ in range(calls)], ()))

    def empty(self) -> None:
        """Remove all buckets."""
        for group in GROUPS:
            self.client.delete(self.index.spread.prefix(0) + group_hash(group))

    def fill(self, tables: Sequence[int], records: int) -> int:
        """Write buckets of ``records`` records; return how many prefixes of each table have one."""
        width = SIMHASH_RECORD if tables[0] in SIMHASH_TABLES else BAND_RECORD
        size = records * width
        if not size:
            return 1 << 16
        prefixes = int(min(1 << 16, max(64, _FILLED // (size * len(tables)))))
        rng = np.random.default_rng(records)

        def bucket() -> bytes:
            random_bytes = rng.bytes(size)
            return random_bytes[:5] + _SUFFIX.to_bytes(3, "little") + random_bytes[8:]

        for table in tables:
            (group,) = groups_of(np.array([table])).tolist()
            name = self.index.spread.prefix(0) + group_hash(group)
            step = max(1, min(prefixes, (1 << 24) // size))
            for start in range(0, prefixes, step):
                some = range(start, min(prefixes, start + step))
                self.client.hset(
                    name, mapping={field_of(table << 16 | at): bucket() for at in some}
                )
        return prefixes


def _solved(rows: list[list[float]], costs: list[NDArray[np.float64]]) -> list[Cost]:
    """Solve by least squares, each row weighted by the inverse of its cost."""
    left, right = np.array(rows, float), np.array(costs)
    found = []
    for column in right.T:
        weight = 1 / np.maximum(column, 1e-9)
        found.append(np.linalg.lstsq(left * weight[:, None], column * weight, rcond=None)[0])
    return [Cost.of(one) for one in np.array(found).T]


async def _visit_costs(master: Master, say: Callable[[str], None]) -> dict[str, Any]:
    prefixes = master.fill(_BANDS, LENGTHS[1])
    rows, costs = [], []
    for calls, count, items in _SHAPES:
        tables = _BANDS[: 4 * count]  # four of each hash
        costs.append(await master.visits(tables, prefixes, calls, items, announced=False))
        rows.append([1, calls, calls * count, calls * items])
    exchange, call, hash_, _ = _solved(rows, costs)
    twice = [await master.visits(_BANDS, prefixes, 8, 64, hits=hits) for hits in (False, True)]
    hit = Cost.of((twice[1] - twice[0]) / (8 * 64))
    say(f"a hit {hit}")
    master.empty()
    say(f"exchange {exchange}, call {call}, hash {hash_}")
    items_: dict[str, list[Cost]] = {}
    factor = []
    for kind, tables in (("", _BANDS[:4]), ("wide ", SIMHASH_TABLES)):
        width = SIMHASH_RECORD if kind else BAND_RECORD
        for records in (*LENGTHS, BUCKET_LIMIT // width):
            before = master.client.info("memory")["used_memory"]
            prefixes = master.fill(tables, records)
            after = master.client.info("memory")["used_memory"]
            if not kind and records in LENGTHS[1:]:
                own = prefixes * len(tables) * records * width
                factor.append(round((after - before) / own, 3))
            calls, count = (4, 32) if records < 1_500 else (2, 8)
            for what in ("read", "announce"):
                announced = what == "announce"
                cost = await master.visits(tables, prefixes, calls, count, announced=announced)
                cost -= exchange.array() + calls * (call.array() + hash_.array())
                items_.setdefault(kind + what, []).append(Cost.of(cost / (calls * count)))
                say(f"{kind}{what}, {records} records: {items_[kind + what][-1]}")
            master.empty()
    parts = {"exchange": exchange, "call": call, "hash": hash_, "hit": hit}
    return {**parts, "items": items_, "factor": factor}


class Homes:
    """Exchanges that write and read page records on the master.

    :param pages: rows and texts to write; the index has as many pages, which are read
    """

    def __init__(self, index: ClusterIndex, pages: Pages) -> None:
        self._index = index
        self._stored = len(pages)
        rows = index.record.pack(pages.content)
        pending = State.PENDING.to_bytes(4, "little")
        self._rows = [rows[i].tobytes() + pending for i in range(1_000)]
        self._texts = [text_of(pages.addresses[i] or b"", pages.payloads[i]) for i in range(1_000)]
        self._ids: Iterator[int] = iter(())

    async def begin(self) -> None:
        """Reserve ids for all exchanges."""
        count = 4_000_000
        keys = (b"counters", b"generations")
        call = self._index.script_call("reserve", 0, keys, count, 0, self._index.spread.last)
        ((first, _),), _ = await self._index.together([call], ())
        self._ids = iter(range(first, first + count))

    async def reserve(self) -> None:
        """Reserve ids for 64 pages."""
        self._index.drop_ids()
        await self._index.take_ids(1)

    async def create(self, count: int) -> list[Claim]:
        """Announce pages on their home shard."""
        announced = [
            Announced(
                Reserved(next(self._ids), 0),
                random.getrandbits(64),
                random.choice(self._rows),
                random.choice(self._texts),
            )
            for _ in range(count)
        ]
        _, calls = self._index.creating(announced, _LEASE)
        (reply,), _ = await self._index.together(calls, ())
        assert reply == b"1" * count
        return [one.claim for one in announced]

    async def look(self, count: int) -> None:
        """Read some page records."""
        page_ids = random.sample(range(1, self._stored + 1), count)
        await self._index.look(np.array(page_ids, np.uint64))

    async def commit(self, count: int) -> None:
        """Announce and commit pages."""
        claims = await self.create(count)
        assert all(await asyncio.gather(*map(self._index.commit, claims)))

    async def release(self, count: int) -> None:
        """Announce pages and release them, one call each."""
        await self._index.withdraw(await self.create(count))


async def _home_costs(
    master: Master, pages: Pages, exchange: Cost, say: Callable[[str], None]
) -> dict[str, tuple[Cost, Cost]]:
    """Return for each script on page records the cost of a call, and of a page in it."""
    homes = Homes(master.index, pages)
    await homes.begin()
    base = exchange.array()
    found = {"reserve": (Cost.of(await master.cost(homes.reserve) - base), Cost())}
    counts = (1, 8, 64)
    creating: list[NDArray[np.float64]] = []
    for name in ("create", "look", "commit", "release"):
        work = getattr(homes, name)
        costs = [await master.cost(lambda n=n, work=work: work(n)) - base for n in counts]
        if name == "create":
            creating = costs
        elif name in ("commit", "release"):
            costs = [cost - base - one for cost, one in zip(costs, creating, strict=True)]
        if name == "release":  # release takes a call per page
            (call,) = _solved([[n] for n in counts], costs)
            found[name] = call, Cost()
        else:
            call, page = _solved([[1, n] for n in counts], costs)
            found[name] = call, page
        say(f"{name}: a call {found[name][0]}, a page {found[name][1]}")
    return found


async def _load_rate(master: Master) -> float:
    """Return the bytes of memory that the server loads from its file per CPU second."""
    master.client.save()
    used = float(master.client.info("memory")["used_memory"])
    master.server.stop()
    master.server.start()
    spent = 0.0
    while master.client.info("persistence")["loading"]:
        await asyncio.sleep(0.1)
    spent = master.counters()[0]
    return round(used / (spent * 1e-6))


async def measure(say: Callable[[str], None]) -> Costs:
    """Measure everything; takes about ten minutes on a busy machine."""
    options = Options()
    method = choose_method(options)
    record = RecordLayout(method.fields, text=True)
    with tempfile.TemporaryDirectory() as folder, running_cluster(Path(folder), 1) as servers:
        url = f"redis+cluster://127.0.0.1:{servers[0].port}"
        index = open_index(Options(index_url=url, shards=1, timeout=600.0))
        assert isinstance(index, ClusterIndex)
        await index.open({RECORD: record.parameter})
        index.reads_whole = False  # as a large index does
        master = Master(servers[0], index)
        await master.rest()
        visits = await _visit_costs(master, say)
        (pages,) = pages_of(options, _PAGES)
        before = master.client.info("memory")["used_memory"]
        no_buckets = np.empty(0, np.uint64), np.zeros(len(pages) + 1, np.int64)
        await index.load(attrs.evolve(pages, bucket_keys=no_buckets[0], starts=no_buckets[1]))
        page_bytes = (master.client.info("memory")["used_memory"] - before) / len(pages)
        homes = await _home_costs(master, pages, visits["exchange"], say)
        master.fill(_BANDS[:2], LENGTHS[3])
        load = await _load_rate(master)
        say(f"page {page_bytes:.0f} B, loads {load / 1e6:.0f} MB in a second of processor time")
        await index.close()
    return Costs(**visits, homes=homes, page_bytes=round(page_bytes), load=load)


def table(costs: Costs) -> Table:
    """Return a table of the costs."""
    shown = Table(title="A master's processor time, us; bytes that the client sends and receives")
    for name in ("", *(f"{n:,}" for n in LENGTHS), "full"):
        shown.add_column(name, justify="right" if name else "left")
    for kind, every in costs.items.items():
        shown.add_row(kind, *(f"{one.cpu:.1f}" for one in every))
    for name, cost in (
        ("exchange", costs.exchange),
        ("call", costs.call),
        ("hash", costs.hash),
        ("hit", costs.hit),
    ):
        shown.add_row(name, f"{cost.cpu:.1f}", f"{cost.sent:.0f} B", f"{cost.received:.0f} B")
    for name, pair in costs.homes.items():
        for what, cost in zip(("call", "page"), pair, strict=True):
            row = f"{cost.cpu:.1f}", f"{cost.sent:.0f} B", f"{cost.received:.0f} B"
            shown.add_row(f"{name}, {what}", *row)
    shown.add_row("bytes a bucket's byte", *(f"{one:.2f}" for one in costs.factor))
    return shown


def main() -> None:
    """Measure, print, and write the file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("build/benchmarks/cluster_costs.json"))
    arguments = parser.parse_args()
    console = Console(width=140)
    costs = asyncio.run(measure(console.print))
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(costs.dump() + "\n", encoding="utf-8")
    console.print(table(costs))


if __name__ == "__main__":
    main()
