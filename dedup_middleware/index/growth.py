"""What a bucket was when it was read, and what has changed since.

A bucket only grows, but for maintenance that rewrites it. Page numbers are never given twice, so
a bucket's length and its last bytes together tell whether it is still what was read: even when
one was rewritten and has grown back to the same length, or when a server has lost its last
second and other pages have taken the place.
"""

from __future__ import annotations

from collections.abc import Sequence

from dedup_middleware.index.base import Entry, Reading
from dedup_middleware.index.tables import Slot

GUARD = 16  # bytes at the end of a bucket that serve as its version: at least one whole record
_GUARD_MASK = (1 << 8 * GUARD) - 1

# None: unchanged. Otherwise the new bytes, and whether they are the whole (rewritten) bucket.
Change = tuple[bytes, bool] | None


def version(data: bytes | bytearray) -> int:
    """Version of a bucket: its last bytes as a number."""
    return int.from_bytes(data[-GUARD:], "little")


def first_reading(slots: Sequence[Slot], data: Sequence[bytes]) -> Reading:
    """A reading of whole buckets; its versions are in the data itself."""
    return Reading(tuple(slots), tuple(data), tuple(map(len, data)))


def reading_of_generations(
    slots: Sequence[Slot], data: Sequence[Sequence[bytes]], generation: int
) -> Reading:
    """A reading of the buckets of all live generations.

    Lengths and versions are those of the newest generation alone: older ones are not written any
    more, so that nothing can be missed in them.

    :param data: for each slot its buckets, oldest first
    """
    newest = [buckets[-1] for buckets in data]
    return Reading(
        tuple(slots),
        tuple(map(b"".join, data)),
        tuple(map(len, newest)),
        tuple(generation << 8 * GUARD | version(raw) for raw in newest),
    )


def generation_of(reading: Reading) -> int:
    """The newest generation when the reading was made."""
    return reading.versions[0] >> 8 * GUARD if reading.versions else 0


def guards(reading: Reading) -> list[bytes]:
    """The last bytes of every bucket, as they were read.

    >>> guards(Reading((), (b"123",), (3,)))
    [b'123']
    """
    if not reading.versions:
        return [raw[-GUARD:] for raw in reading.data]
    return [
        (version & _GUARD_MASK).to_bytes(GUARD, "little")[: min(GUARD, length)]
        for version, length in zip(reading.versions, reading.lengths, strict=True)
    ]


def change(bucket: bytes | bytearray, length: int, guard: bytes) -> Change:
    """Compare a bucket as it is now with its length and its last bytes as they were.

    >>> change(b"12345678", 8, b"12345678") is None
    True
    >>> change(b"12345678abcdefgh", 8, b"12345678")
    (b'abcdefgh', False)
    >>> change(b"abcdefgh", 8, b"12345678")
    (b'abcdefgh', True)
    """
    if bucket[length - len(guard) : length] != guard:
        return bytes(bucket), True
    return (bytes(bucket[length:]), False) if len(bucket) > length else None


def changes(reading: Reading, buckets: Sequence[bytes | bytearray]) -> list[Change]:
    """Compare every bucket of a reading with what it is now."""
    return list(map(change, buckets, reading.lengths, guards(reading)))


def grown(reading: Reading, changes: Sequence[Change]) -> Reading | None:
    """The reading brought up to date; None if nothing has changed."""
    if not any(changes):
        return None
    data, lengths, versions = [], [], []
    generation = generation_of(reading) << 8 * GUARD
    for found, length, guard in zip(changes, reading.lengths, guards(reading), strict=True):
        raw, rewritten = found or (b"", False)
        data.append(raw)
        lengths.append(len(raw) if rewritten else length + len(raw))
        versions.append(generation | version(raw if rewritten else guard + raw))
    return Reading(reading.slots, tuple(data), tuple(lengths), tuple(versions))


def check_slots(entry: Entry, reading: Reading) -> None:
    """Refuse a claim of slots that nobody has read: it would not be atomic.

    :raises ValueError: names the first such bucket
    """
    if entry.slots == reading.slots:
        return
    known = {slot.bucket for slot in reading.slots}
    for slot in entry.slots:
        if slot.bucket not in known:
            raise ValueError(f"bucket {slot.bucket:#x} of the entry is not in the reading")
