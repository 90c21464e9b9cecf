"""Neighbours of a page in buckets that were read, for few small buckets.

Most buckets hold nothing like the page. Searching them for three bytes is faster than calling a
kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

import numpy as np

from dedup_middleware.model.buckets import (
    ANCHOR_TABLES,
    COMMON_ANCHOR,
    FULL_BUCKET,
    NO_NEIGHBOURS,
    NON_SIMHASH_TABLES,
    SIMHASH_TABLES,
    BucketKey,
    BucketKeys,
    Neighbours,
)
from dedup_middleware.model.records import (
    BAND_RECORD,
    BAND_SUFFIX_BITS,
    PAGE_ID_BITS,
    PAGE_ID_MASK,
    SIMHASH_RECORD,
)

_FIRST_SIMHASH = SIMHASH_TABLES[0] << 16
_BEHIND_SIMHASH = (SIMHASH_TABLES[-1] + 1) << 16
_FIRST_ANCHOR = ANCHOR_TABLES[0] << 16
_BEHIND_ANCHORS = (ANCHOR_TABLES[-1] + 1) << 16
_PAGE_ID = PAGE_ID_BITS // 8
_SUFFIX = BAND_SUFFIX_BITS // 8
_MANY = 64  # neighbours from which on the kernel finds them faster
_FEW = (
    24 * SIMHASH_RECORD
)  # bytes of SimHash records up to which a loop beats a call of the kernel (9 us)


def unknown_neighbours(
    bucket_keys: Sequence[BucketKey],
    held: Sequence[Sequence[bytes | None]],
    distance: int,
    known: AbstractSet[int] = frozenset(),
    upto: int = 0,
) -> tuple[Neighbours, bool]:
    """Neighbours as :func:`.scan.neighbours` finds them, without the pages that are known.

    Also returns whether any of them was found in a band, key or exact table.

    :param held: of each bucket key its bucket in every generation, None where there is none
    :param distance: largest Hamming distance of SimHashes, 0..64
    :param known: ids of pages to leave out; ``upto``: so are all up to this one
    """
    masks: dict[int, int] = {}
    simhash_buckets: list[tuple[int, bytes]] = []  # place of the bucket key, bucket
    size = full = corrupt = scanned = 0
    buckets, suffixes = BucketKeys.of(bucket_keys).columns()
    for i, generations in enumerate(held):
        bucket = buckets[i]
        for raw in generations:
            if not raw:
                continue
            full += len(raw) > FULL_BUCKET
            if _FIRST_SIMHASH <= bucket < _BEHIND_SIMHASH:
                simhash_buckets.append((i, raw))
                size += len(raw)
                continue
            corrupt += len(raw) % BAND_RECORD
            if not is_common(bucket, suffixes[i], raw):
                _add_equal(1 << (bucket >> 16), suffixes[i], raw, masks)
            if len(masks) > _MANY:
                flat = [(bucket_keys[j], one) for j, some in enumerate(held) for one in some if one]
                left = _left(_scanned(flat, distance), known, upto)
                return left, bool((left.tables & np.uint64(NON_SIMHASH_TABLES)).any())
    if size > _FEW:
        found = _scanned([(bucket_keys[i], raw) for i, raw in simhash_buckets], distance)
        corrupt += found.corrupt
        scanned = found.scanned
        for page_id, tables in zip(found.page_ids.tolist(), found.tables.tolist(), strict=True):
            masks[page_id] = masks.get(page_id, 0) | tables
    else:
        for i, raw in simhash_buckets:
            corrupt += len(raw) % SIMHASH_RECORD
            _add_near(1 << (buckets[i] >> 16), suffixes[i], raw, distance, masks)
    if upto or known:
        masks = {n: mask for n, mask in masks.items() if n > upto and n not in known}
    if not (masks or full or corrupt or scanned):
        return NO_NEIGHBOURS, False
    page_ids = sorted(masks)
    tables = [masks[page_id] for page_id in page_ids]
    near = Neighbours(
        np.array(page_ids, np.uint64), np.array(tables, np.uint64), corrupt, full, scanned
    )
    return near, any([mask & NON_SIMHASH_TABLES for mask in tables])  # noqa: C419 - faster for one or two


def is_common(bucket: int, suffix: int, raw: bytes) -> bool:
    """Whether so many pages have this suffix in the bucket of an anchor that it is ignored."""
    if not _FIRST_ANCHOR <= bucket < _BEHIND_ANCHORS:
        return False
    wanted, pages = suffix.to_bytes(_SUFFIX, "little"), 0
    place = raw.find(wanted, _PAGE_ID)
    while place >= 0 and pages < COMMON_ANCHOR:
        pages += place % BAND_RECORD == _PAGE_ID
        place = raw.find(wanted, place + 1)
    return pages >= COMMON_ANCHOR


def _add_equal(table: int, suffix: int, raw: bytes, masks: dict[int, int]) -> None:
    """Add the pages of a bucket whose record has this suffix; of many not all."""
    wanted = suffix.to_bytes(_SUFFIX, "little")
    place = raw.find(wanted, _PAGE_ID)
    while place >= 0 and len(masks) <= _MANY:
        if place % BAND_RECORD == _PAGE_ID:
            page_id = int.from_bytes(raw[place - _PAGE_ID : place], "little")
            masks[page_id] = masks.get(page_id, 0) | table
        place = raw.find(wanted, place + 1)


def _add_near(table: int, suffix: int, raw: bytes, distance: int, masks: dict[int, int]) -> None:
    """Add the pages of a SimHash bucket within a distance."""
    for at in range(0, len(raw) - SIMHASH_RECORD + 1, SIMHASH_RECORD):
        record = int.from_bytes(raw[at : at + SIMHASH_RECORD], "little")
        if int.bit_count(record >> PAGE_ID_BITS ^ suffix) <= distance:
            page_id = record & PAGE_ID_MASK
            masks[page_id] = masks.get(page_id, 0) | table


def _scanned(held: Sequence[tuple[BucketKey, bytes]], distance: int) -> Neighbours:
    from dedup_middleware.index.scan import neighbours  # numba stays lazy

    return neighbours([bucket_key for bucket_key, _ in held], [raw for _, raw in held], distance)


def _left(near: Neighbours, known: AbstractSet[int], upto: int) -> Neighbours:
    """The candidates that are not known."""
    keep = near.page_ids > np.uint64(upto)
    if known:
        keep &= ~np.isin(near.page_ids, np.fromiter(known, np.uint64, len(known)))
    return Neighbours(near.page_ids[keep], near.tables[keep], near.corrupt, near.full, near.scanned)
