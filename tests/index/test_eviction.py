"""A server that evicts keys, against the advice of docs/redis.md."""

from __future__ import annotations

from pathlib import Path

import pytest
import redis

from dedup_middleware import Deduplicator, Document, Options
from dedup_middleware.base.errors import IndexRefusedError
from tests.servers import running_redis
from tests.texts import article

CRAWLS, PAGES = 6, 32


def evict(client: redis.Redis) -> None:
    """Fill the memory with other keys, each of which takes the place of some key."""
    used = client.info()["used_memory"]
    client.config_set("maxmemory", used + 50_000)
    for number in range(60):
        client.set(f"other/{number}", b"x" * 10_000)


@pytest.mark.slow
async def test_what_is_evicted_makes_nothing_a_duplicate(tmp_path: Path) -> None:
    """Whatever keys go, a page is dropped only if its text was stored; a crawl that begins later
    goes on, or is refused where the rest is of no use."""
    stored: set[int] = set()
    dropped = 0
    with running_redis(tmp_path, "--maxmemory-policy", "allkeys-random") as server:
        options = Options(index_url=server.url, retries=0, pending_wait=0.1)
        with server.client() as client:
            for crawl in range(CRAWLS):
                dedup = Deduplicator(options)
                try:
                    await dedup.open()
                except IndexRefusedError:
                    client.config_set("maxmemory", 0)
                    client.flushall()
                    await dedup.open()
                for number in range(PAGES):
                    if number == PAGES // 2:
                        evict(client)
                    seed = number // 2 + 8 * crawl
                    page = Document(f"https://{number}.example/{seed}", text=article(seed))
                    verdict = await dedup.decide(page)
                    if verdict.is_duplicate or verdict.is_revisit:
                        assert seed in stored
                        dropped += 1
                    else:
                        stored.add(seed)
                        await dedup.commit(verdict)
                await dedup.close()
            assert client.info()["evicted_keys"] > 50
    assert dropped
