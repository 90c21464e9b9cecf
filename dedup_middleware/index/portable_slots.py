"""Which slots a page has, gathered from the buckets of an index.

Buckets come table by table, and a page's records are spread over all of them. What is read is put
aside on disk, by ranges of page numbers, so that memory holds the slots of one range at a time:
one walk through the buckets is enough for any number of pages.
"""

from __future__ import annotations

from pathlib import Path

import attrs
import numpy as np
from numpy.typing import NDArray

from dedup_middleware.index.pages import TABLE_SHIFT, starts_of
from dedup_middleware.index.records import (
    NARROW,
    REMAINDER_BITS,
    WIDE,
    WIDE_REMAINDER_BITS,
    numbers_of,
    remainders_of,
)
from dedup_middleware.index.tables import SIMHASH_TABLES

RANGE = 1 << 18  # page numbers
_BYTES = 4 << 20  # of buckets taken in at once
# The hash is that of the record: 40 bits of it, or in a SimHash table all 64, rotated.
_NOTE = np.dtype([("page", "<u4"), ("table", "u1"), ("hash", "<u8")])


@attrs.frozen(eq=False)
class Places:
    """Slots of some pages.

    ``slots`` and ``starts`` as in :class:`.Pages`; ``simhashes``: uint64[n], as the SimHash tables
    know them, 0 for a page that is in none of them.
    """

    slots: NDArray[np.uint64]
    starts: NDArray[np.int64]
    simhashes: NDArray[np.uint64]


class SlotSpool:
    """Takes in buckets, gives out the slots of pages.

    :param folder: where to put notes aside
    :param wanted: bool, by page number: whose slots are asked for
    """

    def __init__(self, folder: Path, wanted: NDArray[np.bool_]) -> None:
        self._folder = folder
        self._wanted = wanted
        self._table = -1
        self._size = 0
        self._prefixes: list[int] = []
        self._parts: list[bytes] = []
        self._range = -1
        self._notes = np.empty(0, _NOTE)

    def add(self, bucket: int, raw: bytes) -> None:
        """Take in a bucket; those of a table follow each other."""
        table = bucket >> 16
        if table != self._table or self._size >= _BYTES:
            self.flush()
            self._table = table
        width = WIDE if table in SIMHASH_TABLES else NARROW
        whole = raw[: len(raw) // width * width]
        self._prefixes.append(bucket & 0xFFFF)
        self._parts.append(whole)
        self._size += len(whole)

    def flush(self) -> None:
        """Put aside what was taken in."""
        wide = self._table in SIMHASH_TABLES
        width = WIDE if wide else NARROW
        raw = b"".join(self._parts)
        counts = [len(part) // width for part in self._parts]
        prefixes = np.repeat(np.array(self._prefixes, np.uint64), counts)
        self._prefixes, self._parts, self._size = [], [], 0
        numbers = numbers_of(raw, width)
        known = np.flatnonzero(numbers < np.uint64(len(self._wanted)))
        known = known[self._wanted[numbers[known].astype(np.int64)]]
        notes = np.empty(len(known), _NOTE)
        bits = WIDE_REMAINDER_BITS if wide else REMAINDER_BITS
        notes["table"] = max(self._table, 0)
        notes["hash"] = prefixes[known] << np.uint64(bits) | remainders_of(raw, width)[known]
        ranges, notes["page"] = np.divmod(numbers[known], np.uint64(RANGE))
        order = np.argsort(ranges.astype(np.uint16), kind="stable")
        notes, ranges = notes[order], ranges[order]
        each, firsts = np.unique(ranges, return_index=True)
        ends = [*firsts.tolist(), len(notes)][1:]
        for number, first, end in zip(each.tolist(), firsts.tolist(), ends, strict=True):
            with self._file(number).open("ab") as file:
                file.write(notes[first:end].tobytes())

    def places(self, numbers: NDArray[np.uint64]) -> Places:
        """Slots of pages, all of one range."""
        number = int(numbers[0]) // RANGE if len(numbers) else self._range
        if number != self._range:
            self._notes = np.empty(0, _NOTE)  # not both in memory at once
            self._range, self._notes = number, self._read(number)
        notes = self._notes
        pages = (numbers % np.uint64(RANGE)).astype(np.uint32)
        first = np.searchsorted(notes["page"], pages, "left")
        counts = np.searchsorted(notes["page"], pages, "right") - first
        starts = starts_of(counts)
        found = notes[np.repeat(first - starts[:-1], counts) + np.arange(starts[-1])]
        wide = (found["table"] >= SIMHASH_TABLES[0]) & (found["table"] <= SIMHASH_TABLES[-1])
        hashes = np.where(wide, found["hash"] >> np.uint64(64 - TABLE_SHIFT), found["hash"])
        simhashes = np.zeros(len(numbers), np.uint64)
        of_page = np.repeat(np.arange(len(numbers)), counts)[wide]
        turn = (found["table"][wide].astype(np.uint64) - np.uint64(SIMHASH_TABLES[0])) * np.uint64(
            16
        )
        turned = found["hash"][wide]
        back = (np.uint64(64) - turn) % np.uint64(64)
        simhashes[of_page] = turned >> turn | turned << back
        slots = found["table"].astype(np.uint64) << np.uint64(TABLE_SHIFT) | hashes
        return Places(slots, starts, simhashes)

    def _file(self, number: int) -> Path:
        return self._folder / f"slots-{number}"

    def _read(self, number: int) -> NDArray[np.void]:
        file = self._file(number)
        if not file.exists():
            return np.empty(0, _NOTE)
        notes = np.fromfile(file, _NOTE)
        file.unlink()
        return notes[np.argsort(notes["page"], kind="stable")]
