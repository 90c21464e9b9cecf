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

GUARD = 16  # bytes at the end of a bucket that serve as its version: the widest record

# None: unchanged. Otherwise the new bytes, and whether they are the whole (rewritten) bucket.
Change = tuple[bytes, bool] | None


def version(data: bytes | bytearray) -> int:
    """Version of a bucket: its last bytes as a number."""
    return int.from_bytes(data[-GUARD:], "little")


def first_reading(slots: Sequence[Slot], data: Sequence[bytes]) -> Reading:
    """A reading of whole buckets."""
    return Reading(
        tuple(slots), tuple(data), tuple(map(len, data)), tuple(version(raw) for raw in data)
    )


def expectation(length: int, version: int) -> tuple[int, bytes]:
    """Offset of a bucket's last bytes, and these bytes, as they were read.

    >>> expectation(24, version(bytes(range(24))))[0]
    8
    """
    size = min(GUARD, length)
    return length - size, version.to_bytes(GUARD, "little")[:size]


def expectations(reading: Reading) -> list[tuple[int, bytes]]:
    """Expected end of every bucket of a reading."""
    versions = reading.versions or (0,) * len(reading.slots)
    return [expectation(*pair) for pair in zip(reading.lengths, versions, strict=True)]


def change(bucket: bytes | bytearray, offset: int, guard: bytes) -> Change:
    """Compare a bucket as it is now with what was expected at its end.

    >>> change(b"12345678", 0, b"12345678") is None
    True
    >>> change(b"12345678abcdefgh", 0, b"12345678")
    (b'abcdefgh', False)
    >>> change(b"abcdefgh", 0, b"12345678")
    (b'abcdefgh', True)
    """
    end = offset + len(guard)
    if bucket[offset:end] != guard:
        return bytes(bucket), True
    return (bytes(bucket[end:]), False) if len(bucket) > end else None


def grown(reading: Reading, changes: Sequence[Change]) -> Reading | None:
    """The reading brought up to date; None if nothing has changed."""
    if not any(changes):
        return None
    data, lengths, versions = [], [], []
    for found, length, (_, guard), old in zip(
        changes,
        reading.lengths,
        expectations(reading),
        reading.versions or (0,) * len(reading.slots),
        strict=True,
    ):
        raw, rewritten = found or (b"", False)
        data.append(raw)
        lengths.append(len(raw) if rewritten else length + len(raw))
        versions.append(version(raw if rewritten else guard + raw) if found else old)
    return Reading(reading.slots, tuple(data), tuple(lengths), tuple(versions))


def check_slots(entry: Entry, reading: Reading) -> None:
    """Refuse a claim of slots that nobody has read: it would not be atomic.

    :raises ValueError: names the first such bucket
    """
    known = {slot.bucket for slot in reading.slots}
    for slot in entry.slots:
        if slot.bucket not in known:
            raise ValueError(f"bucket {slot.bucket:#x} of the entry is not in the reading")
