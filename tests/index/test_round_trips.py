"""Round trips as counted by the index, by a proxy on the way to the server, and by the server."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import attrs
import pytest

from dedup_middleware.base.options import Options
from dedup_middleware.core.deduplicator import Deduplicator
from dedup_middleware.index.base import Index
from dedup_middleware.index.memory.index import MemoryIndex
from dedup_middleware.index.opening import open_index
from dedup_middleware.index.sqlite.index import SQLiteIndex
from dedup_middleware.model.buckets import BucketKey
from dedup_middleware.model.claims import Candidates, Claimed
from dedup_middleware.model.documents import DUPLICATE, NEW, Document
from dedup_middleware.model.records import State
from tests.index.harness import PARAMETERS, bucket_keys_of, entry
from tests.index.proxy import Proxy
from tests.index.redis_use import LEASE, opened
from tests.servers import RedisServer
from tests.texts import article, english

DISTANCE = 12
PAGES = 50


def unlike(number: int) -> tuple[BucketKey, ...]:
    """The buckets of a page without neighbours."""
    return bucket_keys_of(
        number, number * 0x9E3779B97F4A7C15 % (1 << 64), (number << 40, (number + 7) << 50)
    )


def watched(index: Index) -> list[None]:
    """Return a list that from now on gets an element for each round trip."""
    trips: list[None] = []
    index.watch_round_trips(lambda: trips.append(None))
    return trips


async def store(index: Index, places: Sequence[tuple[BucketKey, ...]]) -> None:
    """Propose pages at the same time, then commit them at the same time: two calls a page."""
    made = await asyncio.gather(*[index.propose(entry(one), DISTANCE, LEASE) for one in places])
    claims = [one.claim for one in made if isinstance(one, Claimed)]
    assert len(claims) == len(places)
    assert all(await asyncio.gather(*[index.commit(claim) for claim in claims]))


def scripts(server: RedisServer) -> int:
    """Scripts that the server has run: each call, or a few calls of the same kind, is one."""
    with server.client() as client:
        run = client.info("commandstats")
    return sum(run[f"cmdstat_{name}"]["calls"] for name in ("evalsha", "eval"))


async def test_pages_at_the_same_time_share_round_trips(redis_server: RedisServer) -> None:
    """50 pages one by one take a round trip for each call, 50 at once a few; what passes on the
    way to the server and what the server has run agree with the stats."""
    async with Proxy(redis_server.port) as proxy:
        index = await opened(proxy.url, namespace="trips", timeout=10.0)
        for number in (1, 2):  # the scripts are known from now on, and the second connection
            await store(index, [unlike(number)])
        await asyncio.gather(*[index.read_buckets(unlike(number)) for number in range(80)])
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
        await index.read_buckets(unlike(2))
        assert len(trips) == 1
        proxy.cut_at_answer = True
        await index.read_buckets(unlike(2))
        assert len(trips) == 3
        await index.close()


async def test_nothing_sent_is_no_round_trip(redis_server: RedisServer) -> None:
    """While no connection can be had nothing is counted."""
    async with Proxy(redis_server.port) as proxy:
        index = await opened(proxy.url, namespace="trips-none", timeout=10.0, retries=0)
    trips = watched(index)
    outcome = await asyncio.gather(index.read_buckets(unlike(1)), return_exceptions=True)
    assert isinstance(outcome[0], Exception)
    trips.clear()  # the connection may have broken in the first call only
    outcome = await asyncio.gather(index.read_buckets(unlike(1)), return_exceptions=True)
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
    copy gets the page as stored."""
    index = SQLiteIndex(str(tmp_path / "index.db"))
    await index.open(PARAMETERS)
    made = await index.propose(entry(unlike(1)), DISTANCE, LEASE)
    assert isinstance(made, Claimed)
    claim = made.claim
    trips = watched(index)
    copy, stored = await asyncio.gather(
        index.propose(entry(unlike(1)), DISTANCE, LEASE), index.commit(claim)
    )
    assert stored
    assert isinstance(copy, Candidates)
    assert copy.pages.states.tolist() == [State.COMMITTED]
    assert len(trips) == 1
    await index.close()


async def test_memory_has_no_round_trips() -> None:
    """An index in memory counts none."""
    index = MemoryIndex()
    await index.open(PARAMETERS)
    trips = watched(index)
    await store(index, [unlike(1), unlike(2)])
    assert trips == []
    await index.close()


NOTICE = "气象台今天发布预报，最高气温{}度，最低气温{}度，东北风三级，请市民注意出行安全。"


def notice(number: int, degrees: int, words: str) -> Document:
    """A bulletin on one template; the text of an article makes it long enough to compare."""
    text = words + NOTICE.format(degrees, degrees - 9) + words[::-1]
    return Document(key=f"https://{number}.example.com/", text=text)


@pytest.mark.parametrize("window", [0.0, 1e6], ids=["for-ever", "window"])
@pytest.mark.parametrize("kind", ["redis", "sqlite"])
async def test_round_trips_by_kind_of_page(
    kind: str, window: float, tmp_path: Path, redis_server: RedisServer
) -> None:
    """A page that is nothing like a stored one takes one round trip and its commit, a copy or an
    edited copy one, a page with a different one as its candidate two and its commit; with a
    window or without."""
    url = redis_server.url if kind == "redis" else f"sqlite:{tmp_path / 'index.db'}"
    options = Options(index_url=url, window=window, hash_key="2", bands=8)
    if kind == "redis":
        options = attrs.evolve(options, namespace=f"kinds-{window:g}")
    index = open_index(options)
    trips: list[None] = []
    taken: dict[str, int] = {}
    async with Deduplicator(options, index=index) as dedup:
        for number in (90, 90, 91):  # kernels, connections, and when pages expire
            verdict = await dedup.decide(notice(number, number, article(number)))
            await dedup.commit(verdict)
        index.watch_round_trips(lambda: trips.append(None))
        words = article(1)
        pages = {
            "unlike any": (
                Document(key="https://0.example.com/", text=english(5)),
                NEW,
                "nothing-alike",
            ),
            "template alone": (notice(1, 21, words), NEW, "too-little-in-common"),
            "exact copy": (notice(2, 21, words), DUPLICATE, "exact-copy"),
            "edited copy": (notice(3, 21, words[:150] + "又讯" + words[150:]), DUPLICATE, None),
            "other figures": (notice(4, 33, words), NEW, "other-figures"),
            "like two": (notice(5, 14, words), NEW, "other-figures"),
        }
        for name, (document, outcome, reason) in pages.items():
            trips.clear()
            verdict = await dedup.decide(document)
            assert verdict.outcome == outcome
            assert verdict.reason == (reason or "near-duplicate")
            if verdict.claim is not None:
                assert await dedup.commit(verdict)
            taken[name] = len(trips)
    assert taken == {
        "unlike any": 2,
        "template alone": 3,
        "exact copy": 1,
        "edited copy": 1,
        "other figures": 3,
        "like two": 3,
    }


@pytest.mark.parametrize("kind", ["redis", "sqlite"])
async def test_many_pages_of_one_template_at_once(
    kind: str, tmp_path: Path, redis_server: RedisServer
) -> None:
    """Of bulletins on one template that come together all are stored, in far fewer round trips than
    there are pages; of copies among them one each."""
    url = redis_server.url if kind == "redis" else f"sqlite:{tmp_path / 'index.db'}"
    options = Options(index_url=url, hash_key="1", timeout=30)
    if kind == "redis":
        options = attrs.evolve(options, namespace="burst")
    index = open_index(options)
    trips: list[None] = []
    async with Deduplicator(options, index=index) as dedup:
        assert await dedup.commit(await dedup.decide(notice(1, 10, article(1))))
        index.watch_round_trips(lambda: trips.append(None))

        async def one(number: int, degrees: int) -> bool:
            verdict = await dedup.decide(notice(number, degrees, article(1)))
            return verdict.claim is not None and await dedup.commit(verdict)

        stored = await asyncio.gather(*[one(100 + n, 11 + n % 40) for n in range(60)])
        assert sum(stored) == 40
        assert len(trips) < 40
