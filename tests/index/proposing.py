"""Pages that are proposed to an index."""

from __future__ import annotations

from dedup_middleware.index.base import Index
from dedup_middleware.model.buckets import BucketKey
from dedup_middleware.model.claims import Candidates, Claimed
from tests.index.harness import entry
from tests.index.redis_use import LEASE

DISTANCE = 12


async def proposed(
    index: Index, bucket_keys: tuple[BucketKey, ...], **more: object
) -> Claimed | Candidates:
    """What an index answers to a page with an address."""
    page = entry(bucket_keys, address=f"https://a/{bucket_keys[0].suffix}")
    return await index.propose(page, DISTANCE, LEASE, **more)  # type: ignore[arg-type]


async def stored(index: Index, bucket_keys: tuple[BucketKey, ...]) -> int:
    """Number of a page that is proposed and committed."""
    made = await proposed(index, bucket_keys)
    assert isinstance(made, Claimed)
    assert await index.commit(made.claim)
    return made.claim.page_id
