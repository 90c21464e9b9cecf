"""A Redis Cluster: a namespace lives in one slot, wherever that is."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import redis

from dedup_middleware.base.errors import IndexUnavailableError
from dedup_middleware.base.options import Options
from dedup_middleware.index.cluster.index import ClusterIndex
from dedup_middleware.index.redis.index import RedisIndex
from dedup_middleware.model.claims import Claim
from dedup_middleware.model.records import State
from tests.index.claiming import BUCKET_KEYS, entered
from tests.index.harness import PARAMETERS, entry
from tests.index.redis_use import LEASE, RIGHTS
from tests.servers import (
    RedisServer,
    cluster_port,
    knows_all_slots,
    running_cluster,
    running_redis,
)


@pytest.fixture
def masters(tmp_path: Path) -> Iterator[list[RedisServer]]:
    """Three masters that share all slots."""
    with running_cluster(tmp_path, 3) as servers:
        yield servers


def _knows(client: redis.Redis, port: int) -> bool:
    nodes = client.execute_command("CLUSTER NODES")
    return "slave" in nodes.get(f"127.0.0.1:{port}", {}).get("flags", "")


@pytest.mark.parametrize("namespace", ["dedup", "news", "a"])
async def test_any_node_leads_to_the_namespace(masters: list[RedisServer], namespace: str) -> None:
    """Clients may name any node; all find the same index, and all its keys are on one node."""
    clients = [RedisIndex(Options(index_url=server.url, namespace=namespace)) for server in masters]
    stored = [await client.open(PARAMETERS) for client in clients]
    assert stored[0] == stored[1] == stored[2]
    claims = []
    for client in clients:
        claims.append(await entered(client, entry(BUCKET_KEYS), LEASE))
    assert await clients[0].renew(claims, LEASE) == [True] * 3
    for client, claim in zip(clients, reversed(claims), strict=True):
        assert await client.commit(claim)
    assert [await client.count() for client in clients] == [3] * 3
    assert await clients[1].forget([claims[0].page_id]) == 1
    assert await clients[2].compact() == len(BUCKET_KEYS)
    sizes = []
    for server in masters:
        with server.client() as admin:
            sizes.append(admin.dbsize())
    assert sorted(sizes)[:2] == [0, 0]
    for client in clients:
        await client.close()


async def test_namespace_that_moves(masters: list[RedisServer]) -> None:
    """When the slot is moved to another node, work goes on there."""
    index = RedisIndex(Options(index_url=masters[0].url, retries=20))
    await index.open(PARAMETERS)
    claim = await entered(index, entry(BUCKET_KEYS), LEASE)
    clients = [server.client() for server in masters]
    slot = clients[0].execute_command("CLUSTER KEYSLOT", "{dedup}")
    source = next(client for client in clients if client.dbsize())
    target = next(client for client in clients if client is not source)
    ids = {client: client.execute_command("CLUSTER MYID").decode() for client in (source, target)}
    target.execute_command("CLUSTER SETSLOT", slot, "IMPORTING", ids[source])
    source.execute_command("CLUSTER SETSLOT", slot, "MIGRATING", ids[target])
    port = masters[clients.index(target)].port
    work = asyncio.ensure_future(index.commit(claim))
    for key in list(source.scan_iter()):
        source.migrate("127.0.0.1", port, key, 0, 5000)
        await asyncio.sleep(0.005)
    for client in (target, source):
        client.execute_command("CLUSTER SETSLOT", slot, "NODE", ids[target])
    assert await work
    assert await index.count() == 1
    assert source.dbsize() == 0
    found = await index.fetch(np.array([claim.page_id], np.uint64))
    assert found.states.tolist() == [State.COMMITTED]
    for client in clients:
        client.close()
    await index.close()


async def test_node_of_the_address_goes_down(masters: list[RedisServer]) -> None:
    """Once the namespace was found, every running node leads to where it has moved."""
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(server.client()) for server in masters]
        slot = clients[0].execute_command("CLUSTER KEYSLOT", "{dedup}")
        holder = sum(slot >= bound for bound in (5461, 10923))
        target, address = (holder + 1) % 3, (holder + 2) % 3
        index = RedisIndex(Options(index_url=masters[address].url, timeout=1))
        await index.open(PARAMETERS)
        ids = [client.execute_command("CLUSTER MYID").decode() for client in clients]
        clients[target].execute_command("CLUSTER SETSLOT", slot, "IMPORTING", ids[holder])
        for key in list(clients[holder].scan_iter()):
            clients[holder].migrate("127.0.0.1", masters[target].port, key, 0, 5000)
        for client in (clients[target], clients[holder]):
            client.execute_command("CLUSTER SETSLOT", slot, "NODE", ids[target])
        masters[address].kill()
        assert isinstance(await entered(index, entry(BUCKET_KEYS), LEASE), Claim)
        assert clients[holder].dbsize() == 0
        await index.close()


async def test_rights_in_a_cluster(masters: list[RedisServer]) -> None:
    """Finding the node of a namespace needs two more rights."""
    rights = [*RIGHTS.split(), "+cluster|slots", "+command"]
    for server in masters:
        with server.client() as admin:
            admin.execute_command("ACL", "SETUSER", "crawler", "on", ">pw", "~{dedup}*", *rights)
    for server in masters:
        url = f"redis://crawler:pw@127.0.0.1:{server.port}/0"
        index = RedisIndex(Options(index_url=url))
        await index.open(PARAMETERS)
        assert await index.count() == 0
        await index.close()


@pytest.fixture
def replica(tmp_path: Path, masters: list[RedisServer]) -> Iterator[RedisServer]:
    """A replica of the node that holds the default namespace, quick to take its place."""
    (tmp_path / "replica").mkdir()
    with (
        running_redis(
            tmp_path / "replica", "--cluster-enabled", "yes", port=cluster_port()
        ) as server,
        contextlib.ExitStack() as stack,
    ):
        admin = stack.enter_context(server.client())
        admins = [stack.enter_context(master.client()) for master in masters]
        for one in (admin, *admins):
            one.config_set("cluster-node-timeout", 1500)
        admin.execute_command("CLUSTER MEET", "127.0.0.1", masters[0].port)
        holder = admins[_holder(masters)].execute_command("CLUSTER MYID").decode()
        deadline = time.monotonic() + 300
        while True:
            assert time.monotonic() < deadline
            with contextlib.suppress(redis.ResponseError):  # it has not heard of the node yet
                admin.execute_command("CLUSTER REPLICATE", holder)
                break
            time.sleep(0.1)
        while admin.info("replication").get("master_link_status") != "up" or not all(
            knows_all_slots(one) and _knows(one, server.port) for one in (admin, *admins)
        ):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        yield server


def _holder(masters: list[RedisServer]) -> int:
    """Which of the masters holds the default namespace."""
    with masters[0].client() as client:
        slot = client.execute_command("CLUSTER KEYSLOT", "{dedup}")
    return sum(slot >= bound for bound in (5461, 10923))


@pytest.mark.parametrize("how", ["asked", "killed"])
@pytest.mark.parametrize("address", ["holder", "other"])
async def test_replica_takes_over(
    masters: list[RedisServer], replica: RedisServer, how: str, address: str
) -> None:
    """When the node of the namespace is replaced by its replica, on request or because it died,
    work goes on there with what was stored; whichever node the address names."""
    holder = _holder(masters)
    named = masters[holder if address == "holder" else (holder + 1) % 3]
    index = RedisIndex(Options(index_url=named.url, timeout=1, retries=40))
    await index.open(PARAMETERS)
    stored, held = [await _claim(index) for _ in range(2)]
    assert await index.commit(stored)
    masters[holder].await_replica("{dedup}:written-before")
    if how == "asked":
        await _ask_to_take_over(replica)
    else:
        masters[holder].kill()
    assert await index.commit(held)
    assert await index.count() == 2
    numbers = np.array([stored.page_id, held.page_id], np.uint64)
    assert (await index.fetch(numbers)).states.tolist() == [State.COMMITTED] * 2
    assert (await _claim(index)).page_id > held.page_id
    with replica.client() as other:
        assert other.info("replication")["role"] == "master"
    await index.close()


async def _ask_to_take_over(replica: RedisServer) -> None:
    deadline = time.monotonic() + 300
    with replica.client() as client:
        asked = 0.0
        while client.info("replication")["role"] != "master":
            assert time.monotonic() < deadline
            # A master that has not yet heard of its replica lets the request pass unanswered,
            # and the replica gives it up after five seconds.
            if time.monotonic() > asked + 6:
                client.execute_command("CLUSTER FAILOVER")
                asked = time.monotonic()
            await asyncio.sleep(0.05)


async def _claim(index: RedisIndex) -> Claim:
    return await entered(index, entry(BUCKET_KEYS), LEASE)


async def test_missing_right_is_named(masters: list[RedisServer]) -> None:
    """A missing right is named, also one that only a script needs, such as that for the line at the
    start of a crawl."""
    rights = [*RIGHTS.split(), "+cluster|slots", "+command", "+hsetnx", "+strlen"]
    for server in masters:
        with server.client() as admin:
            admin.execute_command("ACL", "SETUSER", "crawler", "on", ">pw", "~{dedup:*}*", *rights)
    url = f"redis+cluster://crawler:pw@127.0.0.1:{masters[0].port}"
    async with ClusterIndex(Options(index_url=url)) as index:
        await index.open(PARAMETERS)
        with pytest.raises(IndexUnavailableError, match=r"lacks a right \(\+hlen\): grant"):
            await index.stats()


async def test_a_cluster_that_was_emptied_is_told_of_once(
    masters: list[RedisServer], caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged once, not once for each part."""
    async with ClusterIndex(Options(index_url=f"redis+cluster://{masters[0].url[8:-2]}")) as index:
        await index.open(PARAMETERS)
        for server in masters:
            with server.client() as admin:
                admin.flushall()
        assert await index.count() == 0
    assert len([line for line in caplog.messages if "was emptied" in line]) == 1
