"""The bytes an index keeps: bucket records and satellites.

A **bucket** is an append-only byte string of records of one width.

* *wide* records (the four SimHash tables), 16 bytes: ``simhash (8) | page number (8)``
* *narrow* records (key, exact and band tables), 8 bytes: ``page number (5) | remainder (3)``,
  where the remainder is the 24 bits of the 64-bit hash that follow the 16-bit prefix, so that
  equal prefix and equal remainder mean 40 equal bits.

All integers are little-endian. A **satellite** is what is known of one page: enough to judge it
without its text.
"""

from __future__ import annotations

from enum import IntEnum

import attrs
import numpy as np
from numpy.typing import NDArray

WIDE = 16
NARROW = 8
NUMBER_BITS = 40
NUMBER_MASK = (1 << NUMBER_BITS) - 1
REMAINDER_BITS = 24

WIDE_RECORD = np.dtype([("simhash", "<u8"), ("number", "<u8")])
NARROW_RECORD = np.dtype("<u8")


class State(IntEnum):
    """Life of a page in the index."""

    FREE = 0  # no such page
    PENDING = 1  # claimed: on its way to storage, under a lease
    COMMITTED = 2  # stored
    RELEASED = 3  # given back: not stored after all


# What the page itself says; an index stores these bytes as they are.
CONTENT = np.dtype(
    [
        ("size", "<u4"),  # distinct shingles
        ("figure_count", "<u2"),  # distinct numerals
        ("flags", "<u2"),  # reserved, 0
        ("simhash", "<u8"),
        ("exact", "<u8"),  # keyed hash of the normalised text
        ("key", "<u8"),  # keyed hash of the document key
        ("figures", "<u8", (2,)),
        ("sketch", "<u8", (8,)),
    ]
)


@attrs.frozen(eq=False)
class Satellites:
    """Satellites of some pages, in the order asked for.

    ``numbers``: uint64[n]; ``content``: CONTENT[n]; ``states``: uint8[n] of :class:`State`, where
    a pending page whose lease has run out by the index's own clock is given as RELEASED.
    """

    numbers: NDArray[np.uint64]
    content: NDArray[np.void]
    states: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.numbers)


def wide_record(simhash: int, number: int) -> bytes:
    """One record of a SimHash table."""
    return simhash.to_bytes(8, "little") + number.to_bytes(8, "little")


def narrow_record(remainder: int, number: int) -> bytes:
    """One record of a key, exact or band table."""
    return number.to_bytes(5, "little") + remainder.to_bytes(3, "little")
