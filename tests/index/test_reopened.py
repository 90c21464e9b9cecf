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
    addresses = {"memory": "memory:", "sqlite": f"sqlite:{tmp_path / 'pages.db'}"}
    url = addresses.get(kind, redis_server.url)
    dedup = Deduplicator(
        Options(index_url=url, namespace=namespace_for(url, "reopened"), lease=1.0)
    )

    async def store(seed: int) -> None:
        async with dedup:
            verdict = await dedup.decide(
                Document(f"https://one.example/{seed}", text=english(seed))
            )
            assert verdict.outcome == NEW
            copy = Document(f"https://two.example/{seed}", text=english(seed))
            waiting = asyncio.create_task(dedup.decide(copy))
            await asyncio.wait([waiting], timeout=2.0)  # longer than a lease
            assert not waiting.done()
            assert await dedup.commit(verdict)
            assert (await waiting).is_duplicate
            for earlier in range(seed):
                text = english(earlier)
                assert (
                    await dedup.decide(Document("https://three.example/", text=text))
                ).is_duplicate

    for seed in range(3):
        asyncio.run(store(seed))
