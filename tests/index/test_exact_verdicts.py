"""Verdicts are the same whether or not an exact copy settles a page."""

from __future__ import annotations

import random

import pytest

from dedup_middleware.base.options import Options
from dedup_middleware.core.deduplicator import Deduplicator
from dedup_middleware.index.base import Index
from dedup_middleware.index.memory.index import MemoryIndex
from dedup_middleware.model.documents import Document, Verdict
from tests.index.harness import RedisHarness
from tests.servers import RedisServer
from tests.texts import article


def stream(seed: int, count: int) -> list[Document]:
    """Pages of a few texts, many of them exact copies: hosts, titles and keys repeat."""
    rng = random.Random(seed)
    documents = []
    for _ in range(count):
        text = article(rng.randrange(6))
        if rng.random() < 0.4:
            at = rng.randrange(len(text) // 2)
            text = text[:at] + rng.choice(["增补一句话", "12", ""]) + text[at + rng.randrange(40) :]
        if rng.random() < 0.15:
            text = text[: rng.choice([12, 40, 90])]
        key = f"https://{rng.choice('abc')}.example/{rng.randrange(count)}"
        documents.append(Document(key=key, text=text, title=rng.choice(["", "甲", "乙"])))
    return documents


async def decided(index: Index, options: Options, documents: list[Document]) -> list[Verdict]:
    """Verdicts one after the other; one new page in five is given back, the others are stored."""
    verdicts = []
    async with Deduplicator(options, index=index) as dedup:
        for i, document in enumerate(documents):
            verdict = await dedup.decide(document)
            verdicts.append(verdict)
            if verdict.claim is not None and i % 5 == 0:
                await dedup.release(verdict)
            elif verdict.claim is not None:
                assert await dedup.commit(verdict)
    return verdicts


@pytest.mark.parametrize("seed", range(3))
async def test_verdicts_are_those_of_an_index_that_looks_into_everything(
    seed: int, redis_server: RedisServer
) -> None:
    """Outcome, reason, match and all further fields are the same on Redis, where exact copies
    settle pages, and in memory, where all tables are looked into."""
    documents = stream(seed, 150)
    options = Options(hash_key="1", pending_wait=0.1)
    plain = await decided(MemoryIndex(), options, documents)
    harness = RedisHarness(redis_server)
    found = await decided(harness.connect(), options, documents)
    assert [str(one) for one in found] == [str(one) for one in plain]
    assert [one.match for one in found] == [one.match for one in plain]
    assert sum(one.reason == "exact-copy" for one in found) > 10
    harness.admin.close()
