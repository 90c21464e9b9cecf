"""Export of pages that were renewed by pages with another SimHash."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dedup_middleware.index.base import Index
from dedup_middleware.model.buckets import simhash_bucket_keys
from dedup_middleware.model.claims import Entry
from dedup_middleware.model.records import CONTENT
from dedup_middleware.tools.portable.portable import export_index
from tests.index.claiming import LEASE, entered
from tests.index.harness import Harness, MemoryHarness, bucket_keys_of
from tests.index.windows import in_time

SIMHASH = 0x0123_4567_89AB_CDEF
PLACES = bucket_keys_of(1, SIMHASH, (5 << 40, 6 << 50))
HIT = bucket_keys_of(9, SIMHASH ^ 1 << 20 ^ 1 << 40, (5 << 40, 6 << 50))


def stored() -> Entry:
    """A page whose content names its key and its SimHash."""
    content = np.zeros(1, CONTENT)
    content["size"], content["simhash"] = 9, SIMHASH
    content["key"] = (PLACES[0].bucket & 0xFFFF) << 48 | PLACES[0].suffix << 24
    return Entry(PLACES, content.tobytes(), "https://a/1")


async def renewed(index: Index) -> None:
    """Enter a page, and enter it anew for another one."""
    claim = await entered(index, stored(), LEASE)
    assert await index.commit(claim)
    assert await index.refresh(claim.page_id, HIT)


@in_time
async def test_a_renewed_page_keeps_its_simhash(harness: Harness) -> None:
    """Otherwise SimHashes near its own would not find it, and the export would fail."""
    index = await harness.client()
    await renewed(index)
    near = await index.candidates(simhash_bucket_keys(SIMHASH), 0)
    assert len(near.near) == 2


async def test_export(tmp_path: Path) -> None:
    """A renewed page is exported, as any other."""
    harness = MemoryHarness(200.0)
    index = await harness.client()
    await renewed(index)
    exported = await export_index(index, tmp_path / "pages.parquet")
    assert exported.pages == 2
