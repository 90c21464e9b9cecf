"""Who stands beside a page, asked of buckets that are at hand: without an array for each of them.

Most buckets hold nothing like the page. A search for three bytes says so faster than any kernel
can be called.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np

from dedup_middleware.index.layout import FULL_BUCKET
from dedup_middleware.index.records import NARROW, NUMBER_BITS, NUMBER_MASK, REMAINDER_BITS, WIDE
from dedup_middleware.index.tables import NOBODY, SIMHASH_TABLES, Neighbours, Slot, Slots

_FIRST_WIDE = SIMHASH_TABLES[0] << 16
_BEHIND_WIDE = (SIMHASH_TABLES[-1] + 1) << 16
_NUMBER = NUMBER_BITS // 8
_REMAINDER = REMAINDER_BITS // 8
_MANY = 64  # neighbours from which on the kernel finds them faster
_FEW = 24 * WIDE  # bytes of SimHash records up to which a loop beats the kernel


def beside(
    slots: Sequence[Slot], held: Sequence[bytes | bytearray | None], distance: int
) -> Neighbours | None:
    """The same as :func:`.scan.neighbours`; None if there are bytes that are no record.

    :param held: of each slot the bucket, None if there is none
    :param distance: largest Hamming distance of SimHashes, 0..64
    """
    masks: dict[int, int] = {}
    wide: list[int] = []
    size = full = 0
    buckets, heads = Slots.of(slots).numbers()
    for i, raw in enumerate(held):
        if not raw:
            continue
        full += len(raw) > FULL_BUCKET
        bucket = buckets[i]
        if _FIRST_WIDE <= bucket < _BEHIND_WIDE:
            wide.append(i)
            size += len(raw)
            continue
        if len(raw) % NARROW:
            return None
        wanted = heads[i].to_bytes(_REMAINDER, "little")
        place = raw.find(wanted, _NUMBER)
        while place >= 0:
            if place % NARROW == _NUMBER:
                number = int.from_bytes(raw[place - _NUMBER : place], "little")
                masks[number] = masks.get(number, 0) | 1 << (bucket >> 16)
            if len(masks) > _MANY:
                return _scanned(slots, held, distance)
            place = raw.find(wanted, place + 1)
    if wide:
        found = [held[i] or b"" for i in wide]
        if size > _FEW:
            whole = _add_scanned([slots[i] for i in wide], found, distance, masks)
        else:
            places = [(1 << (buckets[i] >> 16), heads[i]) for i in wide]
            whole = _add_few(places, found, distance, masks)
        if not whole:
            return None
    if not masks:
        return attrs.evolve(NOBODY, full=full) if full else NOBODY
    numbers = sorted(masks)
    tables = [masks[number] for number in numbers]
    return Neighbours(np.array(numbers, np.uint64), np.array(tables, np.uint64), full=full)


def _add_few(
    places: Sequence[tuple[int, int]],  # table as one bit, head
    held: Sequence[bytes | bytearray],
    distance: int,
    masks: dict[int, int],
) -> bool:
    for (table, head), raw in zip(places, held, strict=True):
        if len(raw) % WIDE:
            return False
        for at in range(0, len(raw), WIDE):
            record = int.from_bytes(raw[at : at + WIDE], "little")
            if int.bit_count(record >> NUMBER_BITS ^ head) <= distance:
                number = record & NUMBER_MASK
                masks[number] = masks.get(number, 0) | table
    return True


def _scanned(
    slots: Sequence[Slot], held: Sequence[bytes | bytearray | None], distance: int
) -> Neighbours | None:
    from dedup_middleware.index.scan import neighbours  # numba stays lazy

    found = neighbours(slots, [bytes(raw or b"") for raw in held], distance)
    return None if found.corrupt else found


def _add_scanned(
    slots: Sequence[Slot], held: Sequence[bytes | bytearray], distance: int, masks: dict[int, int]
) -> bool:
    found = _scanned(slots, held, distance)
    if found is None:
        return False
    for number, tables in zip(found.numbers.tolist(), found.tables.tolist(), strict=True):
        masks[number] = masks.get(number, 0) | tables
    return True
