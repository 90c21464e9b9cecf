"""Server time and memory of a decision: one master against clusters of 1, 3 and 6.

``python -m benchmarks.cluster PAGES DECIDED``: into each index so many made-up pages are loaded;
then new pages and exact copies are decided, a hundred at a time, by one process. All servers run on
this machine, so the clock says nothing; what counts is the processor time of the servers (``INFO
CPU``, user and system), in sum and of the busiest master, less what they take when idle, and the
memory that the pages take (``used_memory``). All are measured in one run and take turns.
"""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs
import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.fingerprints import exact_copies, fresh
from dedup_middleware.base.options import Options
from dedup_middleware.index.base import Index
from dedup_middleware.index.opening import open_index
from dedup_middleware.model.claims import NOTHING_KNOWN, Claimed, Entry, Known
from dedup_middleware.model.records import CONTENT, NO_PAGES, joined
from tests.servers import RedisServer, running_cluster, running_redis

_PARAMETERS = {"bands": "8"}
_PART = 20_000  # pages loaded at a time
_ROUNDS = 2
_IDLE = 2.0  # seconds
_IN_FLIGHT = 100  # pages under way: Scrapy's CONCURRENT_ITEMS
_DISTANCE, _LEASE = 12, 60.0


@attrs.frozen
class Place:
    """An index and the servers that hold it."""

    name: str
    servers: Sequence[RedisServer]
    options: Options

    def cpu(self) -> list[float]:
        """Seconds of processor time of each server so far."""
        return [_info(one, "used_cpu_user") + _info(one, "used_cpu_sys") for one in self.servers]

    async def idle(self) -> list[float]:
        """Processor time of each server in a second without calls."""
        before = self.cpu()
        await asyncio.sleep(_IDLE)
        return [(b - a) / _IDLE for a, b in zip(before, self.cpu(), strict=True)]

    def memory(self) -> float:
        """Bytes of all servers."""
        return sum(_info(one, "used_memory") for one in self.servers)


def _info(server: RedisServer, name: str) -> float:
    with server.client() as client:
        found: dict[str, float] = client.info()
        return float(found[name])


@contextlib.contextmanager
def places(folder: Path) -> Iterator[list[Place]]:
    """One server, and clusters of 1, 3 and 6 masters."""
    with contextlib.ExitStack() as stack:
        (folder / "one").mkdir()
        one = stack.enter_context(running_redis(folder / "one"))
        made = [Place("one server", [one], Options(index_url=one.url))]
        for masters, shards in ((1, 8), (3, 8), (6, 8), (6, 64)):
            own = folder / f"{masters}-{shards}"
            own.mkdir()
            servers = stack.enter_context(running_cluster(own, masters))
            url = f"redis+cluster://127.0.0.1:{servers[0].port}"
            options = Options(index_url=url, shards=shards)
            made.append(Place(f"{masters} masters, {shards} shards", servers, options))
        yield made


async def decide(index: Index, entry: Entry) -> bool:
    """Whether no stored page has the sketch of this one; it is stored then."""
    own = np.frombuffer(entry.content, CONTENT)["sketch"]
    judged = NO_PAGES
    while True:
        known = Known(judged) if len(judged) else NOTHING_KNOWN
        made = await index.propose(entry, _DISTANCE, _LEASE, known=known)
        found = made.candidates if isinstance(made, Claimed) else made
        pages = found.pages
        if len(found.missing):
            pages = joined([pages, await index.fetch(found.missing)])
        is_copy = bool((pages.content["sketch"] == own).all(axis=1).any())
        if isinstance(made, Claimed):
            await (index.release if is_copy else index.commit)(made.claim)
        if is_copy or isinstance(made, Claimed):
            return not is_copy
        judged = joined([judged, pages])


async def _decide(index: Index, entries: Sequence[Entry]) -> int:
    queue = iter(entries)

    async def worker() -> int:
        return sum([await decide(index, entry) for entry in queue])

    return sum(await asyncio.gather(*(worker() for _ in range(_IN_FLIGHT))))


async def measure(size: int, decided: int) -> Table:
    """The table of all places.

    :param size: pages in each index
    :param decided: pages of a kind in a round
    """
    table = Table(title=f"us of the servers' time a page, with {size} pages in the index")
    for name in ("", "new", "of the busiest", "copy", "of the busiest", "bytes a page"):
        table.add_column(name, justify="left" if not name else "right")
    with tempfile.TemporaryDirectory() as folder, places(Path(folder)) as made:
        indexes = [open_index(place.options) for place in made]
        before = [place.memory() for place in made]
        for index in indexes:
            await index.open(_PARAMETERS)
            for start in range(0, size, _PART):
                await index.load(fresh(min(_PART, size - start), 1_000 + start).pages())
        bytes_ = [(p.memory() - b) / size for p, b in zip(made, before, strict=True)]
        taken: dict[tuple[str, str], list[tuple[float, float]]] = {}
        for turn in range(_ROUNDS):
            new = fresh(decided, 10_000_000 + turn * decided)
            stored = fresh(min(size, _PART), 1_000)
            which = [(i * 7919 + turn) % len(stored) for i in range(decided)]
            for kind, pages in (("new", new), ("copy", exact_copies(stored, which, turn))):
                for place, index in zip(made, indexes, strict=True):
                    entries = pages.entries()
                    idle = await place.idle()
                    start_, began = place.cpu(), time.perf_counter()
                    stored_now = await _decide(index, entries)
                    took = time.perf_counter() - began
                    assert stored_now == (len(entries) if kind == "new" else 0)
                    after = place.cpu()
                    spent = [
                        b - a - rest * took for a, b, rest in zip(start_, after, idle, strict=True)
                    ]
                    micro = 1e6 / len(entries)
                    taken.setdefault((place.name, kind), []).append(
                        (sum(spent) * micro, max(spent) * micro)
                    )
        for place, index, size_ in zip(made, indexes, bytes_, strict=True):
            cells = []
            for kind in ("new", "copy"):
                every = taken[place.name, kind]
                cells += [f"{statistics.median(column):.0f}" for column in zip(*every, strict=True)]
            table.add_row(place.name, *cells, f"{size_:.0f}")
            await index.close()
    return table


if __name__ == "__main__":
    Console().print(
        asyncio.run(
            measure(*(list(map(int, sys.argv[1:])) + [100_000, 4_000][len(sys.argv) - 1 :]))
        )
    )
