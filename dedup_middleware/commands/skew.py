"""How evenly the buckets of an index are filled."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from dedup_middleware.index.base import Index
from dedup_middleware.index.tables import Slot, table_name

_LARGEST = 10
_EVERY = 1000


@attrs.frozen
class Skew:
    """Records in the buckets of an index.

    ``largest`` is the number in the fullest bucket. ``met`` is the mean number of records in the
    bucket of a record, itself left out: what a decision has to look at in each table. ``skew`` is
    ``met`` over what it were if all 65,536 buckets of each table were alike (1: no skew).
    ``fullest`` names the fullest buckets: table, prefix, records.
    """

    records: int
    largest: int
    met: float
    skew: float
    fullest: tuple[tuple[str, str, int], ...]


async def measure(index: Index, progress: Callable[[float], None]) -> Skew:
    """Read all buckets of an index.

    :param progress: called with the number of buckets read
    """
    records: dict[int, int] = {}
    squares = 0
    fullest: list[tuple[int, int]] = []
    largest = seen = 0
    async for bucket, raw in index.buckets():
        seen += 1
        slot = Slot(bucket, 0)
        number = len(raw) // slot.width
        records[slot.table] = records.get(slot.table, 0) + number
        squares += number * (number - 1)
        largest = max(largest, number)
        fullest.append((number, bucket))
        if len(fullest) > 50 * _LARGEST:
            fullest = sorted(fullest, reverse=True)[:_LARGEST]
        if seen % _EVERY == 0:
            progress(seen)
    progress(seen)
    total = sum(records.values())
    even = sum(number * max(number - 1, 0) / 65536 for number in records.values())
    return Skew(
        records=total,
        largest=largest,
        met=round(squares / max(1, total), 3),
        skew=round(squares / even, 3) if even else 1.0,
        fullest=tuple(
            (table_name(bucket >> 16), f"{bucket & 0xFFFF:04x}", number)
            for number, bucket in sorted(fullest, reverse=True)[:_LARGEST]
        ),
    )
