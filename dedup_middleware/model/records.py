"""Binary layout of an index: bucket records and page records.

A **bucket** is an append-only byte string of records of one width, each ``page id (5) | suffix``.
The first 16 bits of a hash, its prefix, name the bucket; the suffix holds the bits that follow:

* *SimHash records* (the four SimHash tables), 11 bytes: the remaining 48 bits of the rotated
  SimHash, so prefix and suffix together are the whole value
* *band records* (all other tables), 8 bytes: the next 24 bits of the 64-bit hash, so equal prefix
  and suffix mean 40 equal bits

All integers are little-endian. A **page record** is enough to judge a page without its text.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

import attrs
import numpy as np
from numpy.typing import NDArray

PAGE_ID_BITS = 40
PAGE_ID_MASK = (1 << PAGE_ID_BITS) - 1
BAND_SUFFIX_BITS = 24
SIMHASH_SUFFIX_BITS = 48
PAGE_ID_BYTES = PAGE_ID_BITS // 8
BAND_SUFFIX_BYTES = BAND_SUFFIX_BITS // 8
SIMHASH_SUFFIX_BYTES = SIMHASH_SUFFIX_BITS // 8
SIMHASH_RECORD = PAGE_ID_BYTES + SIMHASH_SUFFIX_BYTES
BAND_RECORD = PAGE_ID_BYTES + BAND_SUFFIX_BYTES


class State(IntEnum):
    """State of a page in the index."""

    FREE = 0  # no such page
    PENDING = 1  # claimed: on its way to storage, under a lease
    COMMITTED = 2  # stored
    RELEASED = 3  # not stored after all, or forgotten


# The fields of a page record that are computed from the page; an index may keep only some.
CONTENT = np.dtype(
    [
        ("size", "<u4"),  # distinct shingles
        ("host", "<u2"),  # keyed hash of the host in the document key, 0: none
        ("title", "<u2"),  # keyed hash of the title's letters, 0: no title
        ("simhash", "<u8"),
        ("exact", "<u8"),  # keyed hash of the normalised text
        ("key", "<u8"),  # keyed hash of the document key
        ("figures", "u1", (48,)),  # places of numerals and names, see signature/comparison.py
        ("clauses", "u1", (36,)),  # negations and opposites, see signature/comparison.py
        ("sketch", "<u8", (8,)),
    ]
)


@attrs.frozen(eq=False)
class PageRecords:
    """Page records, in the order in which they were requested.

    ``page_ids``: uint64[n]; ``content``: CONTENT[n]; ``states``: uint8[n] of :class:`State`,
    RELEASED also for a pending page whose lease has run out; ``times``: uint32[n], time of the
    commit in seconds since 1970, 0 if not committed. Leases and times go by the index's own clock.
    """

    page_ids: NDArray[np.uint64]
    content: NDArray[np.void]
    states: NDArray[np.uint8]
    times: NDArray[np.uint32] = attrs.field()

    @times.default
    def _no_times(self) -> NDArray[np.uint32]:
        return np.zeros(len(self.page_ids), np.uint32)

    def __len__(self) -> int:
        return len(self.page_ids)

    @property
    def alive(self) -> NDArray[np.bool_]:
        """Which pages are pending or committed."""
        alive: NDArray[np.bool_] = (self.states == State.PENDING) | (self.states == State.COMMITTED)
        return alive


NO_PAGES = PageRecords(np.empty(0, np.uint64), np.empty(0, CONTENT), np.empty(0, np.uint8))


def chosen(pages: PageRecords, which: NDArray[np.bool_ | np.intp] | slice) -> PageRecords:
    """Select page records by a mask, by positions or by a slice."""
    return PageRecords(
        pages.page_ids[which], pages.content[which], pages.states[which], pages.times[which]
    )


def joined(parts: Sequence[PageRecords]) -> PageRecords:
    """Concatenate page records."""
    return PageRecords(
        np.concatenate([np.empty(0, np.uint64), *(part.page_ids for part in parts)]),
        np.concatenate([np.empty(0, CONTENT), *(part.content for part in parts)]),
        np.concatenate([np.empty(0, np.uint8), *(part.states for part in parts)]),
        np.concatenate([np.empty(0, np.uint32), *(part.times for part in parts)]),
    )


def split_stamps(stamps: NDArray[np.uint32]) -> tuple[NDArray[np.uint8], NDArray[np.uint32]]:
    """Split stamps of pages into states and times.

    A stamp is the commit time of a committed page in seconds, else its :class:`State`; no page was
    committed in 1970.

    >>> states, times = split_stamps(np.array([0, 1, 3, 1_700_000_000], np.uint32))
    >>> states.tolist(), times.tolist()
    ([0, 1, 3, 2], [0, 0, 0, 1700000000])
    """
    committed = stamps > State.RELEASED
    states = np.where(committed, np.uint32(State.COMMITTED), stamps).astype(np.uint8)
    return states, np.where(committed, stamps, np.uint32(0)).astype(np.uint32)


def joined_records(generations: Sequence[bytes], width: int) -> bytes:
    """Join the generations of a bucket, the oldest first.

    An incomplete last record is cut off from all but the newest, so that records stay aligned.

    >>> joined_records([b"1234567890", b"abcdefgh", b"xyz"], BAND_RECORD)
    b'12345678abcdefghxyz'
    """
    if len(generations) == 1:
        return generations[0]
    older = [raw[: len(raw) - len(raw) % width] for raw in generations[:-1]]
    return b"".join((*older, generations[-1]))


def page_ids_of(raw: bytes | bytearray, width: int) -> NDArray[np.uint64]:
    """Page ids of the records in a bucket; an incomplete last record is ignored.

    >>> page_ids_of(bytes.fromhex("0700000000aabbcc0800000000aabbccff"), BAND_RECORD)
    array([7, 8], dtype=uint64)
    """
    return _part_of(raw, width, 0, PAGE_ID_BYTES)


def suffixes_of(raw: bytes | bytearray, width: int) -> NDArray[np.uint64]:
    """Suffixes of the records in a bucket; an incomplete last record is ignored.

    >>> hex(suffixes_of(bytes.fromhex("0700000000aabbcc"), BAND_RECORD)[0])
    '0xccbbaa'
    """
    return _part_of(raw, width, PAGE_ID_BYTES, width)


def _part_of(raw: bytes | bytearray, width: int, start: int, stop: int) -> NDArray[np.uint64]:
    records = np.frombuffer(raw, np.uint8, count=len(raw) // width * width).reshape(-1, width)
    words = np.zeros((len(records), 8), np.uint8)
    words[:, : stop - start] = records[:, start:stop]
    return words.view("<u8").ravel()
