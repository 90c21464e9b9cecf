"""Round trips: how many there are, as the index tells, as the way sees them, and the server."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from dedup_middleware.index.base import Claim, Index
from dedup_middleware.index.memory import MemoryIndex
from dedup_middleware.index.records import State
from dedup_middleware.index.sqlite import SQLiteIndex
from dedup_middleware.index.tables import Slot
from tests.index.harness import PARAMETERS, entry, slots_of
from tests.index.proxy import Proxy
from tests.index.redis_use import LEASE, opened
from tests.servers import RedisServer

DISTANCE = 12
PAGES = 50


def unlike(number: int) -> tuple[Slot, ...]:
    """The places of a page that stands beside no other one."""
    return slots_of(
        number, number * 0x9E3779B97F4A7C15 % (1 << 64), (number << 40, (number + 7) << 50)
    )


def watched(index: Index) -> list[None]:
    """From now on, an element for each round trip."""
    trips: list[None] = []
    index.watch_round_trips(lambda: trips.append(None))
    return trips


async def store(index: Index, places: Sequence[tuple[Slot, ...]]) -> None:
    """Propose pages at the same time, then commit them at the same time: two calls a page."""
    made = await asyncio.gather(*[index.propose(entry(one), DISTANCE, LEASE) for one in places])
    claims = [one.claim for one in made if isinstance(one.claim, Claim)]
    assert len(claims) == len(places)
    assert all(await asyncio.gather(*[index.commit(claim) for claim in claims]))


def scripts(server: RedisServer) -> int:
    """Scripts that the server has run: each call, or a few calls of the same kind, is one."""
    with server.client() as client:
        run = client.info("commandstats")
    return sum(run[f"cmdstat_{name}"]["calls"] for name in ("evalsha", "eval"))


async def test_pages_at_the_same_time_share_round_trips(redis_server: RedisServer) -> None:
    """50 pages one by one take a round trip for each call, 50 at once a few; what passes on the
    way to the server and what the server has run agree with what is told."""
    async with Proxy(redis_server.port) as proxy:
        index = await opened(proxy.url, namespace="trips", timeout=10.0)
        for number in (1, 2):  # the scripts are known from now on, and the second connection
            await store(index, [unlike(number)])
        await asyncio.gather(*[index.read(unlike(number)) for number in range(80)])
        trips = watched(index)
        passed, run = proxy.received, scripts(redis_server)
        for number in range(100, 100 + PAGES):
            await store(index, [unlike(number)])
        assert len(trips) == 2 * PAGES
        assert proxy.received - passed == 2 * PAGES
        assert scripts(redis_server) - run == 2 * PAGES
        trips.clear()
        passed, run = proxy.received, scripts(redis_server)
        await store(index, [unlike(number) for number in range(200, 200 + PAGES)])
        assert 2 <= len(trips) <= 2 * PAGES // 10
        assert len(trips) <= proxy.received - passed  # a large batch may come in pieces
        assert len(trips) <= scripts(redis_server) - run <= 2 * PAGES
        await index.close()


async def test_retries_are_further_round_trips(redis_server: RedisServer) -> None:
    """A call whose answer is lost is sent again, and that counts."""
    async with Proxy(redis_server.port) as proxy:
        index = await opened(proxy.url, namespace="trips-again", timeout=10.0)
        await store(index, [unlike(1)])
        trips = watched(index)
        await index.read(unlike(2))
        assert len(trips) == 1
        proxy.cut_at_answer = True
        await index.read(unlike(2))
        assert len(trips) == 3
        await index.close()


async def test_nothing_sent_is_no_round_trip(redis_server: RedisServer) -> None:
    """While no connection can be had nothing is counted."""
    async with Proxy(redis_server.port) as proxy:
        index = await opened(proxy.url, namespace="trips-none", timeout=10.0, retries=0)
    trips = watched(index)
    outcome = await asyncio.gather(index.read(unlike(1)), return_exceptions=True)
    assert isinstance(outcome[0], Exception)
    trips.clear()  # the connection may have broken in the first call only
    outcome = await asyncio.gather(index.read(unlike(1)), return_exceptions=True)
    assert isinstance(outcome[0], Exception)
    assert trips == []
    await index.close()


async def test_transactions_are_the_round_trips_of_a_file(tmp_path: Path) -> None:
    """On SQLite pages at the same time share a transaction, pages one by one have their own."""
    index = SQLiteIndex(str(tmp_path / "index.db"))
    await index.open(PARAMETERS)
    begun: list[str] = []
    db = index._db
    assert db is not None
    await index._in_thread(lambda: db.set_trace_callback(begun.append))
    trips = watched(index)
    for number in range(1, 11):
        await store(index, [unlike(number)])
    assert len(trips) == 20
    await store(index, [unlike(number) for number in range(100, 100 + PAGES)])
    assert len(trips) == 22
    assert sum(statement.startswith("BEGIN") for statement in begun) == 22
    await index.close()


async def test_a_page_is_stored_for_those_who_ask_at_the_same_time(tmp_path: Path) -> None:
    """A commit and the proposal of a copy, made at the same time, share a transaction, and the
    copy is told that the page is stored."""
    index = SQLiteIndex(str(tmp_path / "index.db"))
    await index.open(PARAMETERS)
    claim = (await index.propose(entry(unlike(1)), DISTANCE, LEASE)).claim
    assert claim is not None
    trips = watched(index)
    copy, stored = await asyncio.gather(
        index.propose(entry(unlike(1)), DISTANCE, LEASE), index.commit(claim)
    )
    assert stored
    assert copy.claim is None
    assert copy.satellites is not None
    assert copy.satellites.states.tolist() == [State.COMMITTED]
    assert len(trips) == 1
    await index.close()


async def test_memory_has_no_round_trips() -> None:
    """An index in memory tells of none."""
    index = MemoryIndex()
    await index.open(PARAMETERS)
    trips = watched(index)
    await store(index, [unlike(1), unlike(2)])
    assert trips == []
    await index.close()
