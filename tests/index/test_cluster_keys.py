"""Scripts of an index on a cluster touch the keys that they declare, and no others."""

from __future__ import annotations

import asyncio
import contextlib
import time

import numpy as np
import pytest

from dedup_middleware.index.cluster.index import ClusterIndex
from dedup_middleware.index.verification import verify
from dedup_middleware.model.claims import Candidates, Claimed, Known
from tests.index.bulk import some_pages
from tests.index.harness import ClusterHarness, bucket_keys_of, entry
from tests.index.monitor import Monitor, Touched, read_lines
from tests.index.redis_use import LEASE
from tests.servers import RedisServer


async def _use(index: ClusterIndex, other: ClusterIndex) -> None:
    """Use every operation of an index."""
    spread = 0x9E37_79B9_7F4A_7C15
    claims = []
    for i in range(1, 40):
        places = bucket_keys_of(i % 30 + 1, i * spread % 2**64, (i % 25 << 50, i << 40))
        page = entry(places, key=i, address=f"https://a/{i}", payload=b"more" * (i % 3))
        made = await (index, other)[i % 2].propose(page, 3, LEASE)
        if isinstance(made, Candidates):
            made = await index.propose(page, 3, LEASE, known=Known(made.pages))
        assert isinstance(made, Claimed)
        claims.append(made.claim)
    await asyncio.gather(
        *(index.propose(entry(bucket_keys_of(77, 7, (5 << 50, 5 << 40))), 3, LEASE) for _ in "abcd")
    )
    assert await index.renew(claims, LEASE) == [True] * len(claims)
    for claim in claims[:30]:
        assert await index.commit(claim)
    for claim in claims[30:]:
        assert await index.release(claim)
    await index.load(some_pages(60))
    ids = np.array([claim.page_id for claim in claims], np.uint64)
    await index.fetch(ids)
    await index.look(ids)
    await index.addresses(ids.tolist())
    await index.candidates(bucket_keys_of(3), 0, 50)
    assert await index.forget([claims[0].page_id]) == 1
    await index.forget_span(0.0, time.time() - 3600)
    await index.refresh(claims[1].page_id, bucket_keys_of(3))
    for page_id in ids.tolist():
        await index.expiring(page_id)
    assert [page async for page in index.pages()]
    assert [bucket async for bucket in index.buckets()]
    assert await index.compact() > 0
    await index.count()
    await index.stats()
    await verify(index)


@pytest.mark.parametrize("window", [0.0, 1000.0, 3.0])
async def test_scripts_touch_the_keys_that_they_declare(
    cluster_masters: list[RedisServer], window: float
) -> None:
    """Whatever an index does, each of its scripts touches only keys that are declared, and these
    lie in one slot; so servers that lock what is declared may run them side by side."""
    harness = ClusterHarness(cluster_masters, window)
    touched = Touched()
    async with contextlib.AsyncExitStack() as stack:
        monitors = [stack.enter_context(Monitor(server)) for server in cluster_masters]
        stack.push_async_callback(harness.close)
        index, other = await harness.client(), await harness.client()
        assert isinstance(index, ClusterIndex)
        assert isinstance(other, ClusterIndex)
        if window == 3.0:  # generations begin and expire
            for i in range(1, 5):
                places = bucket_keys_of(i, i << 60, (i << 50, i << 40))
                made = await index.propose(entry(places), 0, LEASE)
                if isinstance(made, Claimed):
                    await index.commit(made.claim)
                await asyncio.sleep(1.6)
        else:
            await _use(index, other)
        for monitor in monitors:
            read_lines(monitor.lines(), touched)
    assert touched.scripts > (100 if window != 3.0 else 20)
    assert touched.commands[b"hmget"] > 0
    assert not touched.wrong
    if window == 3.0:
        assert touched.commands[b"unlink"] > 0


async def test_what_is_not_declared_is_noticed(cluster_masters: list[RedisServer]) -> None:
    """A script that touches a key its call does not name fails the test above."""
    (server, *_) = cluster_masters
    with server.client() as client, Monitor(server) as monitor:
        slots = client.execute_command("CLUSTER SLOTS")
        first, last = slots[0][:2]
        own = client.execute_command("CLUSTER MYID")
        tag = next(
            name
            for name in map(str, range(10_000))
            if any(
                one[0] <= client.execute_command("CLUSTER KEYSLOT", name) <= one[1]
                and one[2][2] == own
                for one in slots
            )
        )
        assert first <= last
        client.eval(
            "redis.call('GET', KEYS[1]) return redis.call('GET', KEYS[1] .. 'x')", 1, f"{{{tag}}}a"
        )
        lines = monitor.lines()
    touched = Touched()
    read_lines(lines, touched)
    assert touched.scripts == 1
    assert len(touched.wrong) == 1
    assert f"{{{tag}}}ax" in touched.wrong.pop()
