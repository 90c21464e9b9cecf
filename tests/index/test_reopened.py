"""A deduplicator that is opened once more after it was closed."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import warnings
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from dedup_middleware import Deduplicator, Document, IndexUnavailableError, Options
from dedup_middleware.index.batching import Batcher
from dedup_middleware.index.cluster.index import ClusterIndex
from dedup_middleware.index.redis.index import RedisIndex
from dedup_middleware.model.claims import Claim
from dedup_middleware.model.documents import DUPLICATE, NEW
from tests.servers import RedisServer, namespace_for
from tests.texts import english


@pytest.mark.parametrize("kind", ["memory", "sqlite", "redis"])
def test_one_for_several_event_loops(kind: str, tmp_path: Path, redis_server: RedisServer) -> None:
    """It decides as in the first loop: pages from before are found, a like page waits for one on
    its way, and leases are extended."""
    waits: list[str] = []
    addresses = {"memory": "memory:", "sqlite": f"sqlite:{tmp_path / 'pages.db'}"}
    url = addresses.get(kind, redis_server.url)
    dedup = Deduplicator(
        Options(index_url=url, namespace=namespace_for(url, "reopened")),
        count=lambda name, _: waits.append(name) if name == "pending/wait" else None,
    )

    async def store(seed: int) -> None:
        async with dedup:
            page = Document(f"https://one.example/{seed}", text=english(seed))
            verdict = await dedup.decide(page)
            assert verdict.outcome == NEW
            waits.clear()
            copy = Document(f"https://two.example/{seed}", text=page.text)
            waiting = asyncio.create_task(dedup.decide(copy))
            while not waits and not waiting.done():
                await asyncio.sleep(0.01)
            assert not waiting.done()
            assert await dedup.commit(verdict)
            assert (await waiting).is_duplicate
            for earlier in range(seed):
                again = Document("https://three.example/", text=english(earlier))
                assert (await dedup.decide(again)).is_duplicate
            heartbeat = dedup._heartbeat
            assert heartbeat is not None
            assert not heartbeat.done()

    for seed in range(2):
        asyncio.run(store(seed))


def page(seed: int, host: str = "one") -> Document:
    """A page; that of another host is a copy."""
    return Document(f"https://{host}.example/{seed}", text=english(seed))


def cluster_url(masters: list[RedisServer]) -> str:
    """The address of an index over all masters."""
    return f"redis+cluster://127.0.0.1:{masters[0].port}"


@pytest.mark.parametrize("kind", ["memory", "sqlite", "redis", "cluster"])
def test_what_waited_in_one_event_loop_waits_in_the_next(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Pages that wait for each other do so in each loop, those that look into a former index too,
    and a loop in which nothing is decided can close what was opened."""
    url, former = f"sqlite:{tmp_path / 'pages.db'}", f"sqlite:{tmp_path / 'former.db'}"
    more: dict[str, int] = {}
    if kind == "memory":
        url = "memory:"
    elif kind == "redis":
        url = request.getfixturevalue("redis_server").url
    elif kind == "cluster":
        url, more = cluster_url(request.getfixturevalue("cluster_masters")), {"shards": 4}
    name = namespace_for(url, "loops")
    dedup = Deduplicator(
        Options(index_url=url, namespace=name, former_index_url=former, window=86_400.0, **more)
    )

    async def store(*seeds: int) -> list[str]:
        async with dedup:
            verdicts = await asyncio.gather(*(dedup.decide(page(seed)) for seed in seeds))
            assert all(await asyncio.gather(*map(dedup.commit, verdicts)))
            copies = (dedup.decide(page(seed, "two")) for seed in seeds)
            found = [one.outcome for one in await asyncio.gather(*copies)]
            assert found == [DUPLICATE] * len(seeds)
            return [one.outcome for one in verdicts]

    async def fill() -> None:
        async with Deduplicator(Options(index_url=former)) as other:
            await other.commit(await other.decide(page(99)))

    asyncio.run(fill())
    for first in (0, 6, 12):
        assert asyncio.run(store(*range(first, first + 6))) == [NEW] * 6
        assert asyncio.run(store()) == []


def test_a_master_that_is_looked_for_in_each_event_loop(
    cluster_masters: list[RedisServer],
) -> None:
    """Calls that need the master wait for one search."""
    index = RedisIndex(Options(index_url=cluster_masters[0].url, namespace="looked"))

    async def count(turns: int) -> int:
        for _ in range(turns):
            await asyncio.sleep(0)
        return await index.count()

    async def look() -> list[int]:
        await index.open({"bands": "8"})
        index._link._servers.moved()
        counts = await asyncio.gather(*map(count, range(6)))
        await index.close()
        return counts

    for _ in range(2):
        assert asyncio.run(look()) == [0] * 6


def test_ids_are_reserved_in_each_event_loop(cluster_masters: list[RedisServer]) -> None:
    """Pages that need ids wait for one reservation."""
    url = cluster_url(cluster_masters)
    index = ClusterIndex(Options(index_url=url, namespace="reserved", shards=4))

    async def take(count: int) -> int:
        for _ in range(count % 40):
            await asyncio.sleep(0)
        return len(await index.take_ids(count))

    async def reserve() -> int:
        await index.open({"bands": "8"})
        index.reserve_ahead(5)
        counts = await asyncio.gather(*map(take, range(40, 45)))
        await index.close()
        return sum(counts)

    for _ in range(3):
        assert asyncio.run(reserve()) == 210
        asyncio.run(index.close())


def test_a_sweep_of_another_event_loop(redis_server: RedisServer) -> None:
    """What was closed in its event loop, with its background tasks, can be closed in another."""
    index = RedisIndex(Options(index_url=redis_server.url, namespace="swept"), window=3600.0)

    async def use() -> None:
        await index.open({"bands": "8"})
        await index.close()

    asyncio.run(use())
    asyncio.run(index.close())


def test_claims_that_could_not_be_released(monkeypatch: pytest.MonkeyPatch) -> None:
    """They expire, as the log said: a reopened deduplicator does not extend them. It calls the
    index at once, however often that failed when it was closed."""
    dedup = Deduplicator(Options(index_url="memory:", pending_wait=0.05))
    renewed: list[Claim] = []

    async def away(_claim: Claim) -> None:
        raise IndexUnavailableError("away")

    async def renew(claims: list[Claim], _lease: float) -> None:
        renewed.extend(claims)

    async def leave() -> None:
        async with dedup:
            assert (await dedup.decide(page(1))).outcome == NEW
            monkeypatch.setattr(dedup._index, "release", away)

    async def again() -> Claim | None:
        monkeypatch.undo()
        monkeypatch.setattr(dedup._index, "renew", renew)
        async with dedup:
            verdict = await dedup.decide(page(2))
            beat = asyncio.create_task(dedup._settlement.keep_alive(0.03))
            while not renewed:
                await asyncio.sleep(0.01)
            beat.cancel()
            return verdict.claim

    asyncio.run(leave())
    claim = asyncio.run(again())
    assert {*renewed} == {claim}


@pytest.mark.parametrize("kind", ["redis", "cluster"])
def test_what_an_ended_event_loop_left_open(kind: str, request: pytest.FixtureRequest) -> None:
    """A crawl that was not closed: its background tasks ended with its loop, and what was opened
    there is closed when it is opened in the next one."""
    more: dict[str, int] = {}
    if kind == "redis":
        url = request.getfixturevalue("redis_server").url
    else:
        url, more = cluster_url(request.getfixturevalue("cluster_masters")), {"shards": 4}
    name = namespace_for(url, "left")
    dedup = Deduplicator(Options(index_url=url, namespace=name, window=86_400.0, **more))

    async def leave() -> None:
        verdict = await dedup.decide(page(1))
        assert await dedup.commit(verdict)

    async def reopen() -> None:
        async with dedup:
            assert (await dedup.decide(page(1, "two"))).outcome == DUPLICATE
            assert (await dedup.decide(page(2))).outcome == NEW

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # of connections of the first loop
        asyncio.run(leave())
        asyncio.run(reopen())
        gc.collect()


@pytest.mark.parametrize("turns", range(5))
def test_a_batch_that_was_cancelled_before_its_first_step(turns: int) -> None:
    """The next event loop runs its own batches, and not those of the ended one."""
    ran: list[int] = []

    async def run(calls: list[int]) -> list[int]:
        ran.extend(calls)
        return calls

    batcher: Batcher[int, int] = Batcher(run, 10)

    async def leave() -> None:
        for _ in range(3):
            batcher.submit(1)
        for _ in range(turns):
            await asyncio.sleep(0)

    async def again() -> int:
        await batcher.join()
        ran.clear()
        return await asyncio.wait_for(batcher.submit(2), 5)

    asyncio.run(leave())
    assert asyncio.run(again()) == 2
    assert ran == [2]


@contextlib.contextmanager
def left_in(work: Coroutine[Any, Any, None]) -> Iterator[None]:
    """Run a coroutine in an event loop, and close that without ending its other tasks."""
    loop = asyncio.new_event_loop()
    loop.run_until_complete(work)
    tasks = asyncio.all_tasks(loop)
    loop.close()
    yield
    for task in tasks:  # or pytest would report them when they are collected
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        with contextlib.suppress(RuntimeError):
            task.get_coro().close()  # type: ignore[union-attr]


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_an_event_loop_that_was_closed_with_a_call_under_way(kind: str, tmp_path: Path) -> None:
    """Its tasks never end, and are not waited for when it is opened in the next one."""
    url = "memory:" if kind == "memory" else f"sqlite:{tmp_path / 'pages.db'}"
    dedup = Deduplicator(Options(index_url=url))

    async def leave() -> None:
        assert await dedup.commit(await dedup.decide(page(1)))
        asyncio.ensure_future(dedup.decide(page(2)))  # noqa: RUF006 - see `left_in`
        await asyncio.sleep(0)

    async def reopen() -> str:
        async with dedup:
            return (await dedup.decide(page(1, "two"))).outcome

    with left_in(leave()):
        assert asyncio.run(asyncio.wait_for(reopen(), 60)) == DUPLICATE


def test_a_batch_of_a_closed_event_loop() -> None:
    """A batch that never ends, since its loop was closed, is not waited for."""

    async def run(calls: list[int]) -> list[int]:
        if calls == [1]:
            await asyncio.sleep(3600)
        return calls

    batcher: Batcher[int, int] = Batcher(run, 10)

    async def leave() -> None:
        batcher.submit(1)
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    async def again() -> int:
        await batcher.join()
        return await batcher.submit(2)

    with left_in(leave()):
        assert asyncio.run(asyncio.wait_for(again(), 60)) == 2
    assert batcher._under_way == 0
