"""A deduplicator that is opened once more after it was closed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from dedup_middleware import Deduplicator, Document, Options
from dedup_middleware.model.documents import NEW
from tests.servers import RedisServer, namespace_for
from tests.texts import english


@pytest.mark.parametrize("kind", ["memory", "sqlite", "redis"])
def test_one_for_several_event_loops(kind: str, tmp_path: Path, redis_server: RedisServer) -> None:
    """It decides as at first: pages of before are found, a like page waits for one on its way, and
    leases are extended."""
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
