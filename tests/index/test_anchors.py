"""Anchors: a page has several in one table, and anchors that many pages share are ignored."""

from __future__ import annotations

import numpy as np

from dedup_middleware.index.base import Index
from dedup_middleware.methods.content_rule import whole_page
from dedup_middleware.model.buckets import (
    ANCHOR_TABLES,
    COMMON_ANCHOR,
    BucketKeys,
    anchor_bucket_keys,
    hash_bucket_key,
    simhash_bucket_keys,
)
from dedup_middleware.model.claims import Candidates, Claimed, Entry, Known
from dedup_middleware.model.records import CONTENT
from tests.index.harness import payloads

_MASK = (1 << 64) - 1


def entry(number: int, anchors: tuple[int, ...], payload: bytes = b"") -> Entry:
    """A page that shares nothing with others but its anchors."""
    spread = number * 0x9E3779B97F4A7C15 & _MASK
    content = np.zeros(1, CONTENT)
    content["size"], content["key"], content["exact"] = 100, spread, spread
    bucket_keys = (
        hash_bucket_key(0, spread),
        *simhash_bucket_keys(spread),
        *anchor_bucket_keys(anchors),
    )
    return Entry(bucket_keys, content.tobytes(), f"https://a/{number}", payload)


async def store(index: Index, page: Entry) -> Claimed:
    """Propose and commit a page that nothing blocks."""
    made = await index.propose(page, 3, 60.0)
    assert isinstance(made, Claimed)
    assert await index.commit(made.claim)
    return made


async def test_an_anchor_finds_a_page_and_its_evidence(index: Index) -> None:
    """The candidate comes with its address and its payload, in the same answer."""
    stored = await store(index, entry(1, (5 << 60, 7 << 50), b"evidence of 1"))
    made = await index.propose(entry(2, (9 << 60, 7 << 50), b"of 2"), 3, 60.0)
    assert isinstance(made, Candidates)
    number = stored.claim.page_id
    assert made.near.page_ids.tolist() == [number]
    assert made.near.tables.tolist() == [1 << ANCHOR_TABLES[0]]
    assert made.addresses == {number: "https://a/1"}
    assert made.payloads == {number: b"evidence of 1"}
    assert await payloads(index, [number]) == [b"evidence of 1"]


async def test_evidence_of_any_length_comes_with_a_candidate(index: Index) -> None:
    """It comes as it was stored, whatever is stored behind it, also where a chunk of texts ends."""
    numbers = {}
    for i, size in enumerate([1, 319, 320, 321, 3000, 30_000, 400, 17_000, 320, 1], 1):
        payload = bytes([i]) * size
        numbers[i] = (await store(index, entry(i, (i << 50,), payload))).claim.page_id, payload
    for i, (number, payload) in numbers.items():
        made = await index.propose(entry(100 + i, (i << 50,), b"own"), 3, 60.0)
        assert isinstance(made, Candidates)
        assert made.addresses == {number: f"https://a/{i}"}
        assert made.payloads == {number: payload}


async def test_common_anchors_are_ignored(index: Index) -> None:
    """An anchor that many pages have blocks no claim, and gets no more records."""
    shared = 11 << 55
    bucket_key = anchor_bucket_keys((shared,))
    for number in range(1, COMMON_ANCHOR + 1):
        made = await index.propose(entry(number, ()), 3, 60.0)
        assert isinstance(made, Claimed)
        await index.commit(made.claim)
    for number in range(100, 100 + COMMON_ANCHOR + 5):
        page = entry(number, (shared,))
        made = await index.propose(page, 3, 60.0)
        for _ in range(3):
            if isinstance(made, Claimed):
                break
            made = await index.propose(page, 3, 60.0, known=Known(made.pages))
        assert isinstance(made, Claimed)
        await index.commit(made.claim)
        (raw,) = await index.read_buckets(bucket_key)
        assert len(raw) == 8 * min(number - 99, COMMON_ANCHOR)
    last = await index.propose(entry(999, (shared,)), 3, 60.0)
    assert isinstance(last, Claimed)
    assert len(last.candidates.near) == 0
    near = (await index.candidates(bucket_key, 3)).near
    assert len(near) == 0


def test_the_kernel_places_anchors_like_the_plain_function() -> None:
    """Of two anchors in one bucket the first has it."""
    rng = np.random.default_rng(1)
    anchors = rng.integers(0, 1 << 64, 40, np.uint64, endpoint=False)
    anchors[7] = anchors[3] ^ np.uint64(1)
    bands = rng.integers(0, 1 << 64, 8, np.uint64, endpoint=False)
    words = whole_page(5, 7, bands, anchors)
    assert tuple(BucketKeys(words))[13:] == anchor_bucket_keys(anchors.tolist())
    assert len(anchor_bucket_keys(anchors.tolist())) == 39
