"""Every kind of index takes over from every other, and windows pass meanwhile."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from dedup_middleware import Deduplicator, Options
from dedup_middleware.index.opening import open_index
from dedup_middleware.model.documents import DUPLICATE, NEW, REVISIT
from tests.index.harness import ClusterHarness, Harness
from tests.index.windows import REDIS, Windows, in_time
from tests.moving import outcome
from tests.outages import page, stored
from tests.servers import RedisServer
from tests.texts import article

OPTIONS = Options(pending_wait=5.0)
_names = itertools.count()


Places = dict[str, dict[str, Any]]


@pytest.fixture
def places(tmp_path: Path, redis_server: RedisServer, cluster_masters: list[RedisServer]) -> Places:
    """An index of each kind that stays, as options."""
    hosts = ",".join(f"127.0.0.1:{one.port}" for one in cluster_masters)
    return {
        "memory": {"index_url": "memory:"},
        "sqlite": {"index_url": f"sqlite:{tmp_path / 'index.db'}"},
        "redis": {"index_url": redis_server.url, "namespace": f"former-{next(_names)}"},
        "cluster": {
            "index_url": f"redis+cluster://{hosts}",
            "namespace": f"former-{next(_names)}",
            "shards": 8,
        },
        "other shards": {
            "index_url": f"redis+cluster://{hosts}",
            "namespace": f"former-{next(_names)}",
            "shards": 4,
        },
    }


KINDS = ("memory", "sqlite", "redis", "cluster", "other shards")
MOVES = [(one, other) for one in KINDS[1:4] for other in KINDS if one != other]


@pytest.mark.services
@pytest.mark.parametrize(("former", "now"), MOVES)
async def test_every_kind_of_index_follows_every_other(
    places: Places, former: str, now: str
) -> None:
    """Old pages are found, changed ones replaced, new ones stored once; then the former index is
    left out, and what was seen again is known."""
    old = Options(**places[former], pending_wait=5.0)
    moving = Options(
        **places[now],
        former_index_url=old.index_url,
        former_namespace="" if former == "sqlite" else old.namespace,
        pending_wait=5.0,
    )
    async with Deduplicator(old) as dedup:
        for n in range(6):
            await stored(dedup, page(f"a/{n}", article(n)))
    index = open_index(moving)
    async with Deduplicator(moving, index=index) as dedup:
        copies = [page(f"b/{n}", "本报讯 " + article(n)) for n in range(4)]
        assert await asyncio.gather(*(outcome(dedup, one) for one in copies)) == [DUPLICATE] * 4
        assert await outcome(dedup, page("a/4", article(44))) == NEW
        assert await outcome(dedup, page("b/4", article(4))) == NEW
        new = [page(f"c/{n % 3}-{n}", article(100 + n % 3)) for n in range(12)]
        found = await asyncio.gather(*(outcome(dedup, one) for one in new))
        assert Counter(found) == {NEW: 3, DUPLICATE: 9}
        assert await index.count() == 4 + 2 + 3
        if now == "memory":
            return
    async with Deduplicator(Options(**places[now], pending_wait=5.0)) as dedup:
        copies = [page(f"d/{n}", article(n)) for n in range(4)]
        assert [await outcome(dedup, one) for one in copies] == [DUPLICATE] * 4
        assert await outcome(dedup, page("d/5", article(5))) == NEW
    async with Deduplicator(old) as dedup:
        assert await outcome(dedup, page("a/5", article(5))) == REVISIT
        assert await outcome(dedup, page("a/4", article(4))) == NEW  # was forgotten there


@pytest.mark.services
async def test_window_passes(
    tmp_path: Path, redis_server: RedisServer, cluster_masters: list[RedisServer]
) -> None:
    """Pages of one master expire there while the crawl moves to a cluster; what was seen again
    lives on in that."""

    async def scenario(before: Harness) -> None:
        cluster = ClusterHarness(cluster_masters, before.window)
        former, now = before.connect(), cluster.connect()
        async with Deduplicator(OPTIONS, index=former) as dedup:
            await stored(dedup, page("a/1", article(1)))
            await stored(dedup, page("a/2", article(2)))
        try:
            async with Deduplicator(OPTIONS, index=now, former=before.connect()) as dedup:
                await before.pass_time(before.window / 2)
                assert await outcome(dedup, page("b/1", article(1))) == DUPLICATE
                await before.pass_time(before.window)
                assert await outcome(dedup, page("c/1", article(1))) == DUPLICATE
                assert await outcome(dedup, page("c/2", article(2))) == NEW
        finally:
            await cluster.close()

    await in_time(scenario)(Windows(REDIS, tmp_path, [redis_server]))
