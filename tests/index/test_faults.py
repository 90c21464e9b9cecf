"""Faults of the store below the index: what it lost, what it can't write, what is not its own."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dedup_middleware.base.errors import IndexUnavailableError
from dedup_middleware.base.options import Options
from dedup_middleware.index.redis.index import RedisIndex
from dedup_middleware.index.sqlite.index import SQLiteIndex
from dedup_middleware.model.claims import Candidates, Claim, Known
from dedup_middleware.model.records import State
from dedup_middleware.plugin.acting import Dropped
from tests.index.claiming import BUCKET_KEYS, entered, met, states, unlike
from tests.index.harness import PARAMETERS, entry
from tests.index.proxy import Proxy
from tests.index.redis_use import LEASE, claimed, opened
from tests.servers import RedisServer, running_redis
from tests.test_pipeline import Crawl, item, make_crawler

KEEPS_ALL = ["--appendonly", "yes", "--appendfsync", "always"]


async def test_server_without_its_last_second(tmp_path: Path) -> None:
    """A server restarts from an append-only file without its end: the claim in it is refused, and
    the page that gets its id blocks pages that know the lost one."""
    arguments = ["--appendonly", "yes", "--appendfsync", "always", "--aof-use-rdb-preamble", "no"]
    with running_redis(tmp_path, *arguments) as server:
        index = await opened(server.url, retries=20)
        known = await claimed(index)
        assert await index.commit(known)
        file = max(tmp_path.rglob("*.aof"), key=lambda path: path.stat().st_size)
        size = file.stat().st_size
        lost = await claimed(index)
        before = await met(index, entry(BUCKET_KEYS))
        assert before.near.page_ids.tolist() == [known.page_id, lost.page_id]
        server.kill()
        with file.open("r+b") as log:
            log.truncate(size)
        server.start()
        assert not await index.commit(lost)
        # Another page gets the id, and is not taken for the one that was judged.
        another = await entered(index, unlike(entry(BUCKET_KEYS)))
        assert another.page_id == lost.page_id
        blocked = await index.propose(entry(BUCKET_KEYS), 0, LEASE, known=Known(before.pages))
        assert isinstance(blocked, Candidates)
        assert blocked.near.page_ids.tolist() == [another.page_id]
        assert await states(index, known.page_id) == [State.COMMITTED]
        assert isinstance(await claimed(index), Claim)
        await index.close()


async def test_full_disk(tmp_path: Path) -> None:
    """A file that can't grow refuses claims with a clear message; when space is free again the
    index goes on, and nothing of a refused claim is in it."""
    index = SQLiteIndex(str(tmp_path / "index.db"))
    await index.open(PARAMETERS)
    stored = await claimed(index)
    assert await index.commit(stored)
    db = index._db
    assert db is not None

    def limit(pages: int) -> None:
        db.execute(f"PRAGMA max_page_count = {pages}")

    await index._in_thread(lambda: limit(1))  # or the size of the file, if that is larger
    made: list[Claim] = []
    with pytest.raises(IndexUnavailableError, match="the disk is full") as caught:
        await _claim_often(index, made)
    assert "DEDUP_INDEX_URL=sqlite:" in str(caught.value)
    await index._in_thread(lambda: limit(1_000_000))
    assert await index.count() == 1
    assert (await index.stats()).pending == len(made)
    assert await index.commit(await claimed(index))
    await index.close()


async def _claim_often(index: SQLiteIndex, made: list[Claim]) -> None:
    for _ in range(10_000):
        made.append(await claimed(index))


async def test_too_few_replicas(own_server: RedisServer) -> None:
    """A master that has lost its replicas refuses writes with a clear message, and is used again
    when they are back."""
    index = await opened(own_server.url, retries=1)
    assert await index.commit(await claimed(index))
    with own_server.client() as admin:
        admin.config_set("min-replicas-to-write", 1)
        with pytest.raises(IndexUnavailableError, match="too few replicas to accept writes"):
            await claimed(index)
        assert await index.count() == 1
        admin.config_set("min-replicas-to-write", 0)
    assert await index.commit(await claimed(index))
    assert await index.count() == 2
    await index.close()


async def test_server_that_loads_its_data(tmp_path: Path) -> None:
    """While a server loads its data it refuses calls; calls with enough retries get their reply as
    soon as it is ready."""
    slow = ["--key-load-delay", "6000", "--rdbcompression", "no"]
    with running_redis(tmp_path, *slow) as server:
        index = await opened(server.url)
        assert await index.commit(await claimed(index))
        with server.client() as admin:
            # A server that loads its data serves clients every two megabytes.
            admin.mset({f"other-{n}": "x" * 100_000 for n in range(300)})
            admin.save()
        server.kill()
        server.start()
        hasty, patient = await _clients(server.url)
        with pytest.raises(IndexUnavailableError, match="still loading its data"):
            await hasty.open(PARAMETERS)
        await patient.open(PARAMETERS)
        assert [await client.count() for client in (index, patient)] == [1, 1]
        for client in (index, hasty, patient):
            await client.close()


async def _clients(url: str) -> tuple[RedisIndex, RedisIndex]:
    return (
        RedisIndex(Options(index_url=url, retries=0)),
        RedisIndex(Options(index_url=url, retries=30)),
    )


async def test_second_for_each_reply(redis_server: RedisServer) -> None:
    """A server a second away costs time and nothing else: pages share its replies, copies that
    come together are kept apart, and no call fails."""
    async with Proxy(redis_server.port) as proxy:
        crawl = await crawling(proxy.url, namespace="slow")
        proxy.delay = 1.0
        pages = [item(f"{host}/{n}", n) for n in range(5) for host in "ab"]
        results = await asyncio.gather(*map(crawl.item, pages))
        assert sum(isinstance(result, dict) for result in results) == 5
        assert crawl.stat("duplicate") == 5
        assert crawl.stat("error/index") == 0
        assert crawl.stat("unchecked") == 0
        assert proxy.received < 40
        proxy.delay = 0.0
        await crawl.pipeline.close_spider()


async def crawling(url: str, *, namespace: str = "dedup", **settings: object) -> Crawl:
    """A crawl on an index."""
    crawl = Crawl(make_crawler(DEDUP_INDEX_URL=url, DEDUP_NAMESPACE=namespace, **settings))
    await crawl.pipeline.open_spider()
    return crawl


Fault = Callable[[RedisServer], contextlib.AbstractContextManager[None]]


@contextlib.contextmanager
def killed(server: RedisServer) -> Iterator[None]:
    """The server is killed, and comes back with its data."""
    server.kill()
    yield
    server.start()


def configured(name: str, value: str | int, after: str | int) -> Fault:
    """The server has a setting that keeps it from working."""

    @contextlib.contextmanager
    def fault(server: RedisServer) -> Iterator[None]:
        with server.client() as admin:
            admin.config_set(name, value)
            yield
            admin.config_set(name, after)

    return fault


@contextlib.contextmanager
def made_a_replica(server: RedisServer) -> Iterator[None]:
    """The server follows another one, which does not exist."""
    with server.client() as admin:
        admin.execute_command("REPLICAOF", "127.0.0.1", "1")
        yield
        admin.execute_command("REPLICAOF", "NO", "ONE")


@contextlib.contextmanager
def locked_out(server: RedisServer) -> Iterator[None]:
    """The server requires a password that the crawl does not have."""
    with server.client() as admin:
        admin.config_set("requirepass", "other")
        admin.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        yield
        admin.config_set("requirepass", "")


async def test_lasting_fault_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A crawl that is locked out for seconds and tries several times logs that in one line, and at
    its end how many times more it was refused."""
    with running_redis(tmp_path) as server:
        crawl = await crawling(server.url, DEDUP_TIMEOUT=0.5, DEDUP_RETRIES=0)
        caplog.set_level(logging.INFO)
        with locked_out(server):
            for number in range(40):
                await crawl.item(item(f"a/{number}", number))
                await asyncio.sleep(0.1)
            refusals = int(crawl.stat("error/index"))
            lines = [line for line in caplog.messages if line.startswith("The index")]
            assert refusals >= 3
            # Where a call was under way the first line is of another fault, the cut connection.
            lasting = [line for line in lines if "Connection closed by server" not in line]
            assert len(lasting) == 1
            assert len(lines) - len(lasting) <= 1
            await crawl.pipeline.close_spider()
        assert "more times in" in caplog.text


async def test_end_of_a_lasting_fault(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """When the index is back, one line has the number of further refusals; the end of the crawl
    does not repeat it."""
    with running_redis(tmp_path) as server:
        crawl = await crawling(server.url, DEDUP_TIMEOUT=0.5, DEDUP_RETRIES=0)
        caplog.set_level(logging.INFO)
        with locked_out(server):
            for number in range(1000):
                await crawl.item(item(f"a/{number}", number))
                if crawl.stat("error/index") >= 4:
                    break
                await asyncio.sleep(0.1)
        for number in range(1000, 2000):
            await crawl.item(item(f"a/{number}", number))
            if crawl.stat("new"):
                break
            await asyncio.sleep(0.1)
        (back,) = (one for one in caplog.messages if one.startswith("The index can be used again"))
        assert re.search(r"\(meanwhile \d more times in \d+ s: ", back)
        told = caplog.messages.index(back)
        await crawl.pipeline.close_spider()
        assert not [one for one in caplog.messages[told + 1 :] if "more times in" in one]


FAULTS: dict[str, Fault] = {
    "killed": killed,
    "frozen": RedisServer.frozen,
    "out of memory": configured("maxmemory", 1, 0),
    "too few replicas": configured("min-replicas-to-write", 1, 0),
    "read-only": made_a_replica,
    "locked out": locked_out,
}


@pytest.mark.parametrize("on_error", ["keep", "drop"])
@pytest.mark.parametrize("fault", FAULTS)
async def test_fault_in_the_middle_of_a_crawl(tmp_path: Path, fault: str, on_error: str) -> None:
    """While the index can't be used, pages are kept or dropped by the policy and none of them
    fails; what was stored then is entered as soon as the index is back, and what was dropped is
    not."""
    with running_redis(tmp_path, *KEEPS_ALL) as server:
        crawl = await crawling(
            server.url,
            DEDUP_ON_ERROR=on_error,
            DEDUP_TIMEOUT=0.5,
            DEDUP_RETRIES=0,
            # A frozen server may carry out a claim after its caller has given up.
            DEDUP_LEASE=1,
        )
        assert isinstance(await crawl.item(item("a/1", 1)), dict)
        with FAULTS[fault](server):
            during = await crawl.item(item("a/2", 2))
        assert isinstance(during, dict if on_error == "keep" else Dropped)
        assert crawl.stat("unchecked") == 1
        assert crawl.stat("error/index") >= 1
        kept = on_error == "keep"
        assert crawl.stat("unchecked/remembered") == kept
        stored = 1 + kept
        for number in range(3, 100):
            await asyncio.sleep(0.1)
            before = crawl.stat("new")
            stored += isinstance(await crawl.item(item(f"a/{number}", number)), dict)
            if crawl.stat("new") > before:  # the pause after an error is over
                break
        deadline = time.monotonic() + 60
        while crawl.stat("committed") < stored and time.monotonic() < deadline:
            await asyncio.sleep(0.05)
        assert crawl.stat("committed") == stored
        copies = [await crawl.item(item(f"b/{n}", n)) for n in (1, 2)]
        assert isinstance(copies[0], Dropped)
        assert isinstance(copies[1], Dropped if kept else dict)
        assert crawl.stat("error/internal") == 0
        await crawl.pipeline.close_spider()
