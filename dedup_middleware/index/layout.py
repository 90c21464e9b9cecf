"""Limits common to all indexes, and the bytes of bucket records."""

from __future__ import annotations

from dedup_middleware.index.records import NARROW, NUMBER_BITS, WIDE
from dedup_middleware.index.tables import SIMHASH_TABLES, Slot

# A bucket takes no more records beyond this many bytes: 95,325 wide ones, what honest pages fill
# at 6 * 10^9. It bounds a decision's time under a flood of pages crafted into one prefix; such a
# page is still found by its other tables.
BUCKET_LIMIT = 1 << 20
FULL_BUCKET = BUCKET_LIMIT - WIDE  # beyond these bytes a bucket takes no more wide records

PAYLOAD_LIMIT = 1 << 16  # bytes

# Longer addresses are cut: they only name a page in a verdict, the key table identifies it.
ADDRESS_LIMIT = 4096


_FIRST_WIDE = SIMHASH_TABLES[0] << 16
_BEHIND_WIDE = (SIMHASH_TABLES[-1] + 1) << 16


def record(slot: Slot, number: int) -> bytes:
    """The record of page ``number`` in the bucket of ``slot``."""
    return record_of(slot.bucket, slot.head, number)


def record_of(bucket: int, head: int, number: int) -> bytes:
    """The same for a slot given as numbers."""
    wide = _FIRST_WIDE <= bucket < _BEHIND_WIDE
    return (head << NUMBER_BITS | number).to_bytes(WIDE if wide else NARROW, "little")


def head(slot: Slot) -> bytes:
    """The suffix in a record: 6 bytes in a SimHash record, 3 in a band record."""
    wide = _FIRST_WIDE <= slot.bucket < _BEHIND_WIDE
    return slot.head.to_bytes(6 if wide else 3, "little")


def cut_address(address: str) -> bytes:
    """An address as stored: UTF-8, at most ADDRESS_LIMIT bytes, never half a character.

    >>> cut_address("https://a/1")
    b'https://a/1'
    """
    raw = address.encode("utf-8", "replace")
    if len(raw) <= ADDRESS_LIMIT:
        return raw
    return raw[:ADDRESS_LIMIT].decode("utf-8", "ignore").encode()
