"""Sizes that all indexes agree on, and the record that a slot gets."""

from __future__ import annotations

from dedup_middleware.index.records import narrow_record, wide_record
from dedup_middleware.index.tables import Slot

# A bucket takes no more records beyond this many bytes: 65,536 wide ones, what honest pages fill
# at 4 * 10^9. It bounds a decision's time under a flood of pages crafted into one prefix; such a
# page is still found by its other tables.
BUCKET_LIMIT = 1 << 20

# Longer addresses are cut: they only name a page in a verdict, the key table identifies it.
ADDRESS_LIMIT = 4096


def record(slot: Slot, number: int) -> bytes:
    """The record of page ``number`` in the bucket of ``slot``."""
    return (wide_record if slot.wide else narrow_record)(slot.head, number)


def cut_address(address: str) -> bytes:
    """An address as stored: UTF-8, at most ADDRESS_LIMIT bytes, never half a character.

    >>> cut_address("https://a/1")
    b'https://a/1'
    """
    raw = address.encode("utf-8", "replace")
    if len(raw) <= ADDRESS_LIMIT:
        return raw
    return raw[:ADDRESS_LIMIT].decode("utf-8", "ignore").encode()
