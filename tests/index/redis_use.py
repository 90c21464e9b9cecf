"""Shortcuts to use a Redis index in a test."""

from __future__ import annotations

import pytest

from dedup_middleware.base.errors import DedupError, IndexRefusedError
from dedup_middleware.base.options import Options
from dedup_middleware.index.base import Index
from dedup_middleware.index.redis.index import RedisIndex
from dedup_middleware.model.buckets import BucketKey
from dedup_middleware.model.claims import Candidates, Claim, Claimed
from tests.index.claiming import BUCKET_KEYS, entered
from tests.index.harness import PARAMETERS, entry

LEASE = 60.0

# The smallest set of rights; docs/redis.md lists the same.
RIGHTS = (
    "+evalsha +eval +get +set +append +getrange +setrange +exists "
    "+hget +hmget +hset +hdel +hkeys +hgetall +time"
)


async def opened(url: str, **options: object) -> RedisIndex:
    """An open index with quick timeouts."""
    chosen = {"timeout": 1.0, "retries": 2, **options}
    index = RedisIndex(Options(index_url=url, **chosen))  # type: ignore[arg-type]
    await index.open(PARAMETERS)
    return index


async def claimed(index: Index, bucket_keys=BUCKET_KEYS) -> Claim:
    """Claim a page, whatever the buckets hold now."""
    return await entered(index, entry(bucket_keys), LEASE)


async def refusal(url: str, kind: type[DedupError] = IndexRefusedError, **options: object) -> str:
    """Return the message with which an index refuses to be opened."""
    index = RedisIndex(Options(index_url=url, **options))  # type: ignore[arg-type]
    try:
        with pytest.raises(kind) as caught:
            await index.open(PARAMETERS)
    finally:
        await index.close()
    return str(caught.value)


DISTANCE = 12


async def proposed(
    index: Index, bucket_keys: tuple[BucketKey, ...], **more: object
) -> Claimed | Candidates:
    """Propose a page with an address, and return the reply."""
    page = entry(bucket_keys, address=f"https://a/{bucket_keys[0].suffix}")
    return await index.propose(page, DISTANCE, LEASE, **more)  # type: ignore[arg-type]


async def stored(index: Index, bucket_keys: tuple[BucketKey, ...]) -> int:
    """Propose and commit a page, and return its id."""
    made = await proposed(index, bucket_keys)
    assert isinstance(made, Claimed)
    assert await index.commit(made.claim)
    return made.claim.page_id
