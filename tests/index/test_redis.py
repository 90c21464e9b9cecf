"""What only the Redis index has: connections, retries, rights, clear refusals, small memory."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import numpy as np
import pytest
import redis

from dedup_middleware.base.errors import IndexRefusedError, IndexUnavailableError
from dedup_middleware.base.options import Options
from dedup_middleware.index.opening import open_index
from dedup_middleware.index.parameters import SCHEMA
from dedup_middleware.index.redis.index import RedisIndex
from dedup_middleware.index.redis.scripts import EPOCH
from dedup_middleware.index.verification import verify
from dedup_middleware.model.buckets import record
from dedup_middleware.model.claims import (
    EVERYTHING,
    NOTHING_KNOWN,
    Candidates,
    Claim,
    Claimed,
    Known,
)
from dedup_middleware.model.records import State
from tests.index.bulk import some_pages
from tests.index.claiming import BUCKET_KEYS, entered, met, states, unlike
from tests.index.harness import PARAMETERS, ClusterHarness, RedisHarness, entry
from tests.index.proxy import Proxy
from tests.index.redis_use import LEASE, claimed, opened, refusal
from tests.servers import RedisServer, free_port, running_redis


@pytest.fixture
async def proxied(redis_server: RedisServer) -> AsyncIterator[tuple[Proxy, RedisHarness]]:
    """A way to the server that can be cut at will."""
    harness = RedisHarness(redis_server)
    async with Proxy(redis_server.port) as proxy:
        yield proxy, harness
    await harness.close()


async def test_keys_stay_in_the_namespace(redis_server: RedisServer) -> None:
    """Every key begins with the namespace in braces, so all are in one slot of a cluster."""
    harness = RedisHarness(redis_server)
    before = set(harness.admin.keys())
    index = await harness.client()
    await index.commit(await claimed(index))
    await claimed(index)
    assert all(key.startswith(harness.prefix) for key in set(harness.admin.keys()) - before)
    await harness.close()


async def test_damaged_counter_of_pages(
    redis_server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    """A damaged counter counts as 0 with a warning; crawls go on, and `verify` counts the pages."""
    harness = RedisHarness(redis_server)
    index = await harness.client()
    for raw in (b"3\xf1", b"", b"nan", b"9" * 40):
        assert await index.commit(await claimed(index))
        harness.admin.set(harness.prefix + b"committed", raw)
        caplog.clear()
        assert await index.count() == 0
        assert ("committed" in caplog.text) == bool(raw)
    assert await index.commit(await claimed(index))
    found = await verify(index)
    assert (found.committed, await index.count()) == (5, 1)
    assert found.counters == ("committed: the counter says 1, there are 5",)
    await harness.close()


@pytest.mark.parametrize("raw", [b"3\xf1", b"", b"-7", b"9" * 40])
async def test_damaged_counter_when_pages_go_or_come(raw: bytes, redis_server: RedisServer) -> None:
    """Pages are still forgotten and loaded; the counter starts from 0 and is never below."""
    harness = RedisHarness(redis_server)
    index = await harness.client()
    claims = [await claimed(index) for _ in range(2)]
    for claim in claims:
        assert await index.commit(claim)
    harness.admin.set(harness.prefix + b"committed", raw)
    assert await index.forget([claims[0].page_id]) == 1
    assert await index.count() == 0
    harness.admin.set(harness.prefix + b"committed", raw)
    assert await index.load(some_pages(3)) == 3
    assert await index.count() == 3
    assert (await verify(index)).committed == 4
    await harness.close()


async def test_namespaces_do_not_see_each_other(redis_server: RedisServer) -> None:
    """Two namespaces on one server are two indexes."""
    one, two = RedisHarness(redis_server), RedisHarness(redis_server)
    await (await one.client()).commit(await claimed(await one.client()))
    other = await two.client()
    assert set(await other.read_buckets(BUCKET_KEYS)) == {b""}
    assert await other.count() == 0
    await one.close()
    await two.close()


async def test_concurrent_calls_share_round_trips(redis_server: RedisServer) -> None:
    """Calls made at the same time are sent as few batches, not one by one."""
    harness = RedisHarness(redis_server)
    async with Proxy(redis_server.port) as proxy:
        index = await opened(proxy.url, namespace=harness.options.namespace)
        writes = proxy.received
        await asyncio.gather(*(index.read_buckets(BUCKET_KEYS) for _ in range(64)))
        assert proxy.received - writes <= 3
        await index.close()
    await harness.close()


@pytest.mark.parametrize("protocol", [2, 3])
async def test_both_protocols(redis_server: RedisServer, protocol: int) -> None:
    """RESP2 and RESP3 give the same results."""
    namespace = f"protocol-{protocol}"
    index = await opened(f"{redis_server.url}?protocol={protocol}", namespace=namespace)
    claim = await claimed(index)
    assert await index.renew([claim], LEASE) == [True]
    assert await index.commit(claim)
    assert (await index.stats()).committed == 1
    await index.close()


async def test_lost_answer_to_a_claim(proxied: tuple[Proxy, RedisHarness]) -> None:
    """A claim whose reply got lost is sent again and gets the id that it has already, whatever
    pages are known: there is one page, not two."""
    proxy, harness = proxied
    index = await opened(proxy.url, namespace=harness.options.namespace)
    page = entry(BUCKET_KEYS)
    for count in (1, 2, 3):
        both = np.array([1, 2], np.uint64)
        judged = Known(await index.fetch(both), wanted=both[:1])
        known = (NOTHING_KNOWN, EVERYTHING, judged)[count - 1]
        proxy.cut_at_answer = True
        made = await index.propose(page, 0, LEASE, known=known)
        assert isinstance(made, Claimed)
        assert made.claim.page_id == count
        assert (await index.stats()).pending == count
        assert proxy.connections >= count + 1
    for bucket_key, raw in zip(BUCKET_KEYS, await index.read_buckets(BUCKET_KEYS), strict=True):
        assert raw == b"".join(record(bucket_key, number) for number in (1, 2, 3))
    assert made.candidates.pages.page_ids.tolist() == [1]
    assert await index.commit(made.claim)
    await index.close()


async def test_lost_answer_to_a_commit(proxied: tuple[Proxy, RedisHarness]) -> None:
    """A commit whose reply got lost still returns True, and is counted once."""
    proxy, harness = proxied
    index = await opened(proxy.url, namespace=harness.options.namespace)
    claim = await claimed(index)
    proxy.cut_at_answer = True
    assert await index.commit(claim)
    assert await index.count() == 1
    assert await states(index, claim.page_id) == [State.COMMITTED]
    await index.close()


async def test_lost_answer_and_lost_writes(proxied: tuple[Proxy, RedisHarness]) -> None:
    """A commit that is sent again returns False if the server has lost the claim meanwhile and
    given its page id to another page."""
    proxy, harness = proxied
    parameters = {**PARAMETERS, "hash_key": "00"}
    index = RedisIndex(
        Options(index_url=proxy.url, namespace=harness.options.namespace, timeout=1.0)
    )
    await index.open(parameters)
    claim = await entered(index, entry(BUCKET_KEYS, size=1))
    harness.admin.delete(*harness.admin.keys("{" + harness.options.namespace + "}*"))
    other = await harness.client(parameters)
    taken = await entered(other, entry(BUCKET_KEYS, size=2))
    assert taken.page_id == claim.page_id
    assert await other.commit(taken)
    proxy.cut_at_answer = True
    assert not await index.commit(claim)
    assert await other.count() == 1
    await index.close()


async def test_cut_connections_are_made_anew(proxied: tuple[Proxy, RedisHarness]) -> None:
    """Calls in flight survive a cut; all of them get their answer."""
    proxy, harness = proxied
    index = await opened(proxy.url, namespace=harness.options.namespace)
    for _ in range(5):
        work = asyncio.gather(*(index.read_buckets(BUCKET_KEYS) for _ in range(200)))
        await asyncio.sleep(0.002)
        proxy.cut()
        assert len(await work) == 200
    await index.close()


async def test_half_open_connection(proxied: tuple[Proxy, RedisHarness]) -> None:
    """A call over a connection without replies fails after the timeout; later calls work."""
    proxy, harness = proxied
    index = await opened(proxy.url, namespace=harness.options.namespace, timeout=0.8, retries=1)
    proxy.swallow_answers = True
    with pytest.raises(IndexUnavailableError, match=r"within 0\.8 seconds"):
        await index.count()
    proxy.swallow_answers = False
    assert await index.count() == 0
    await index.close()


async def test_no_server_there() -> None:
    """The error on a server that is down at start names the setting and the address."""
    port = free_port()
    index = RedisIndex(Options(index_url=f"redis://127.0.0.1:{port}/0", retries=1))
    with pytest.raises(IndexUnavailableError) as caught:
        await index.open(PARAMETERS)
    assert f"DEDUP_INDEX_URL=redis://127.0.0.1:{port}/0" in str(caught.value)
    await index.close()


async def test_no_redis_server() -> None:
    """A server that speaks another protocol is refused, and the error says what to correct."""
    handlers: list[asyncio.Task[None] | None] = []

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        handlers.append(asyncio.current_task())
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n" * 20)
        with contextlib.suppress(OSError):
            await reader.read()
        writer.transport.abort()
        await asyncio.sleep(0)

    async with await asyncio.start_server(greet, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        index = RedisIndex(Options(index_url=f"redis://127.0.0.1:{port}", retries=0))
        with pytest.raises(IndexRefusedError, match=r"not that of a Redis server.*correct host"):
            await index.open(PARAMETERS)
        await index.close()
        await asyncio.gather(*(one for one in handlers if one is not None))


async def test_forgotten_scripts_are_sent_again(own_server: RedisServer) -> None:
    """After a flush of scripts each is sent in full once, and the caller does not notice."""
    index = await opened(own_server.url, retries=0)
    await index.commit(await claimed(index))
    with own_server.client() as admin:
        admin.script_flush()
    await asyncio.gather(*(states(index, 1) for _ in range(10)))
    assert await index.commit(await claimed(index))
    await index.close()


async def test_server_killed_and_restarted(tmp_path: Path) -> None:
    """With an append-only file, all that the server confirmed is there after a crash."""
    with running_redis(tmp_path, "--appendonly", "yes", "--appendfsync", "always") as server:
        index = await opened(server.url, retries=10)
        stored, held = await claimed(index), await claimed(index)
        await index.commit(stored)
        server.kill()
        work = asyncio.ensure_future(index.commit(held))
        await asyncio.sleep(0.1)
        server.start(wait=False)
        assert await work
        assert await states(index, stored.page_id, held.page_id) == [State.COMMITTED] * 2
        assert await index.count() == 2
        await index.close()


async def test_server_that_lost_its_data(own_server: RedisServer) -> None:
    """An index whose server came back empty goes on: old claims are gone, new ones work."""
    index = await opened(own_server.url, retries=10)
    stored = await index.open(PARAMETERS)
    old = await claimed(index)
    found = await met(index, entry(BUCKET_KEYS))
    own_server.kill()
    own_server.start()
    assert not await index.commit(old)
    made = await index.propose(entry(BUCKET_KEYS), 0, LEASE, known=Known(found.pages))
    assert isinstance(made, Claimed)
    assert made.claim.page_id == old.page_id
    assert await index.commit(made.claim)
    assert await index.open(PARAMETERS) == stored
    await index.close()


async def test_emptied_server(own_server: RedisServer) -> None:
    """Data removed under an open connection: the index is set up again before a claim."""
    index = await opened(own_server.url)
    stored = await index.open(PARAMETERS)
    await claimed(index)
    with own_server.client() as admin:
        admin.flushall()
    assert isinstance(await claimed(index), Claim)
    other = await opened(own_server.url)
    assert await other.open(PARAMETERS) == stored
    await other.close()
    await index.close()


async def test_lost_last_second_is_noticed(own_server: RedisServer) -> None:
    """A page that got its id after a loss is not taken for the one that was judged under it."""
    index = await opened(own_server.url)
    lost = await entered(index, entry(BUCKET_KEYS))
    found = await met(index, entry(BUCKET_KEYS))
    with own_server.client() as admin:
        admin.flushall()
    another = await entered(index, unlike(entry(BUCKET_KEYS)))
    assert another.page_id == lost.page_id
    blocked = await index.propose(entry(BUCKET_KEYS), 0, LEASE, known=Known(found.pages))
    assert isinstance(blocked, Candidates)
    assert blocked.near.page_ids.tolist() == [another.page_id]
    known = Known(blocked.pages)
    assert isinstance(await index.propose(entry(BUCKET_KEYS), 0, LEASE, known=known), Claimed)
    await index.close()


async def test_frozen_server(own_server: RedisServer) -> None:
    """A server that stops replying is given up in time, and used again when it is back."""
    index = await opened(own_server.url, timeout=0.8, retries=1)
    os.kill(own_server.pid, signal.SIGSTOP)
    with pytest.raises(IndexUnavailableError):
        await index.read_buckets(BUCKET_KEYS)
    os.kill(own_server.pid, signal.SIGCONT)
    assert isinstance(await claimed(index), Claim)
    await index.close()


async def test_busy_server(own_server: RedisServer) -> None:
    """While another script blocks the server, calls wait for it and are tried again."""
    index = await opened(own_server.url, timeout=5, retries=6)
    loop = asyncio.get_running_loop()
    with own_server.client() as admin, own_server.client() as killer:
        admin.config_set("lua-time-limit", 50)  # the name that Redis 6 knows, too
        script = loop.run_in_executor(None, _swallow, admin.eval, "while true do end", 0)
        while not _is_busy(killer):
            await asyncio.sleep(0.01)
        work = asyncio.ensure_future(index.count())
        await asyncio.sleep(0.2)
        killer.script_kill()
        assert await work == 0
        await script
    await index.close()


def _is_busy(client: redis.Redis) -> bool:
    """Whether the server answers that a script runs for longer than it should."""
    try:
        client.ping()
    except redis.ResponseError:
        return True
    return False


def _swallow(work: Callable[..., object], *arguments: object) -> None:
    with pytest.raises(redis.ResponseError):
        work(*arguments)


async def test_server_without_memory(own_server: RedisServer) -> None:
    """A full server refuses claims as a whole; what is stored can still be committed."""
    index = await opened(own_server.url, retries=0)
    held, given_back, slow = [await claimed(index) for _ in range(3)]
    with own_server.client() as admin:
        admin.config_set("maxmemory", 1)
        with pytest.raises(IndexUnavailableError, match="out of memory"):
            await claimed(index)
        assert await index.commit(held)
        assert await index.release(given_back)
        assert await index.renew([slow], LEASE) == [True]
        lengths = list(map(len, await index.read_buckets(BUCKET_KEYS)))
        assert lengths == [3 * bucket_key.width for bucket_key in BUCKET_KEYS]
        admin.config_set("maxmemory", 0)
    assert (await claimed(index)).page_id == 4
    assert await index.count() == 1
    await index.close()


async def test_replica(own_server: RedisServer) -> None:
    """The error on a server that became a replica says so; after its promotion work goes on."""
    index = await opened(own_server.url, retries=1)
    claim = await claimed(index)
    with own_server.client() as admin:
        admin.replicaof("127.0.0.1", free_port())
        with pytest.raises(IndexUnavailableError, match="replica"):
            await index.commit(claim)
        admin.replicaof("NO", "ONE")
    assert await index.commit(claim)
    await index.close()


async def test_foreign_keys(redis_server: RedisServer) -> None:
    """Keys of another program under the namespace are refused, with the way out."""
    harness = RedisHarness(redis_server)
    harness.admin.hset(harness.prefix + b"schema", "a", "b")
    message = await refusal(redis_server.url, namespace=harness.options.namespace)
    assert "another program" in message
    assert "DEDUP_NAMESPACE" in message
    await harness.close()


async def test_part_of_an_index(redis_server: RedisServer) -> None:
    """An index that has lost its schema is not taken for a new one."""
    harness = RedisHarness(redis_server)
    await (await harness.client()).read_buckets(BUCKET_KEYS)
    harness.admin.delete(harness.prefix + b"schema")
    assert "parts of the index are gone" in await refusal(
        redis_server.url, namespace=harness.options.namespace
    )
    await harness.close()


@pytest.mark.parametrize("schema", [str(SCHEMA - 2), str(SCHEMA - 1), str(SCHEMA + 1)])
async def test_other_schema(redis_server: RedisServer, schema: str) -> None:
    """An index of another schema is refused by name, with the way out, and left as it is."""
    harness = RedisHarness(redis_server)
    await harness.client()
    harness.admin.set(harness.prefix + b"schema", schema)
    message = await refusal(redis_server.url, namespace=harness.options.namespace)
    assert f"has schema '{schema}'" in message
    assert f"knows schema {SCHEMA}" in message
    assert "another index (DEDUP_NAMESPACE or DEDUP_INDEX_URL)" in message
    assert harness.admin.get(harness.prefix + b"schema") == schema.encode()
    await harness.close()


@pytest.mark.parametrize("kind", ["redis", "cluster"])
async def test_schema_is_raised_below_a_running_client(
    kind: str, request: pytest.FixtureRequest
) -> None:
    """A newer version may take over an index with another schema and epoch. Clients of this version
    then read and write no more pages, and say why; the error is not a refusal, so items pass."""
    harness: ClusterHarness | RedisHarness
    if kind == "redis":
        harness = RedisHarness(request.getfixturevalue("redis_server"))
    else:
        harness = ClusterHarness(request.getfixturevalue("cluster_masters"))
    index = await harness.client()
    claim = await claimed(index)
    await index.commit(claim)
    prefixes = harness.prefixes() if isinstance(harness, ClusterHarness) else [harness.prefix]
    names = [prefix + b"counters" for prefix in prefixes]
    for prefix, name in zip(prefixes, names, strict=True):
        harness.admin.set(prefix + b"schema", SCHEMA + 1)
        harness.admin.set(name, harness.admin.get(name)[:-EPOCH] + b"new".ljust(EPOCH))
    before = list(map(harness.admin.get, names))
    for call in (index.propose(entry(BUCKET_KEYS), 0, LEASE), index.forget([claim.page_id])):
        with pytest.raises(IndexUnavailableError, match=f"has schema '{SCHEMA + 1}', this version"):
            await call
    assert list(map(harness.admin.get, names)) == before
    await harness.close()


async def test_unix_socket(tmp_path: Path) -> None:
    """A server on a Unix socket can be used."""
    path = tmp_path / "redis.sock"
    with running_redis(tmp_path, "--unixsocket", str(path)):
        index = open_index(Options(index_url=f"unix://{path}?db=3"))
        await index.open(PARAMETERS)
        assert isinstance(await claimed(index), Claim)
        await index.close()


async def test_leaked_claim_ends_with_its_lease(redis_server: RedisServer) -> None:
    """The claim of a dead process ends with its lease, by the server's own clock."""
    harness = RedisHarness(redis_server)
    index = await harness.client()
    outcome = await entered(index, entry(BUCKET_KEYS), 600.0)
    assert await states(index, outcome.page_id) == [State.PENDING]
    harness.advance(599.8)
    await asyncio.sleep(0.25)
    assert await states(index, outcome.page_id) == [State.RELEASED]
    assert not await index.commit(outcome)
    await harness.close()


@pytest.mark.parametrize("evidence", ["filter", "sketch"])
async def test_ids_beyond_all_chunks_are_those_of_no_page(
    redis_server: RedisServer, evidence: str
) -> None:
    """A damaged record may name such a page id: it has 5 bytes, the number of a chunk 4."""
    index = await opened(redis_server.url, namespace="beyond", evidence=evidence)
    try:
        assert await states(index, (1 << 40) - 1, 1 << 63) == [State.FREE, State.FREE]
        assert await index.addresses([(1 << 40) - 1]) == [None]
    finally:
        await index.close()
