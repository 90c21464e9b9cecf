"""Claims that the suite of every index uses, and states of pages."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.index.base import Index
from dedup_middleware.model.claims import EVERYTHING, Candidates, Claim, Claimed, Entry
from dedup_middleware.model.records import CONTENT
from tests.index.harness import bucket_keys_of, entry

LEASE = 1000.0
BUCKET_KEYS = bucket_keys_of(1, 0x0123_4567_89AB_CDEF, (5 << 40, 6 << 50))


async def entered(index: Index, page: Entry, lease: float = LEASE) -> Claim:
    """A claim on the place of a page, whatever is stored there."""
    made = await index.propose(page, 0, lease, known=EVERYTHING)
    assert isinstance(made, Claimed)
    return made.claim


def unlike(page: Entry) -> Entry:
    """A page with the same places and other content."""
    content = np.frombuffer(page.content, CONTENT).copy()
    content["sketch"] += np.uint64(1)
    return Entry(page.bucket_keys, content.tobytes(), page.address)


async def claimed(index: Index, bucket_keys=BUCKET_KEYS, **fields) -> Claim:
    """A claim on a page with these bucket keys, however full its buckets are."""
    return await entered(index, entry(bucket_keys, **fields))


def candidates_of(made: Claimed | Candidates) -> Candidates:
    """The candidates in a reply, whether the page was claimed or not."""
    return made.candidates if isinstance(made, Claimed) else made


def missing(found: Candidates) -> NDArray[np.uint64]:
    """The ids of candidates without a page record, ascending."""
    return np.setdiff1d(found.near.page_ids, found.pages.page_ids)


async def met(index: Index, page: Entry) -> Candidates:
    """The candidates that block a page."""
    made = await index.propose(page, 0, LEASE)
    assert isinstance(made, Candidates)
    return made


async def states(index: Index, *numbers: int) -> list[int]:
    """States of pages."""
    return (await index.fetch(np.array(numbers, np.uint64))).states.tolist()
