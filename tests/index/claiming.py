"""Claims on a page of every index's suite, and states of pages."""

from __future__ import annotations

import numpy as np

from dedup_middleware.index.base import Claim, Index
from tests.index.harness import entry, slots_of

LEASE = 1000.0
SLOTS = slots_of(1, 0x0123_4567_89AB_CDEF, (5 << 40, 6 << 50))


async def claimed(index: Index, slots=SLOTS, **fields) -> Claim:
    """A claim on whatever the buckets hold now."""
    outcome = await index.claim(entry(slots, **fields), await index.read(slots), LEASE)
    assert isinstance(outcome, Claim)
    return outcome


async def states(index: Index, *numbers: int) -> list[int]:
    """States of pages."""
    return (await index.fetch(np.array(numbers, np.uint64))).states.tolist()
