"""Who stands beside a page: all buckets of a reading scanned by one kernel.

Most buckets are short, so that what a scan costs is the number of calls, not the bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import types
from numpy.typing import NDArray

from dedup_middleware.index.layout import FULL_BUCKET
from dedup_middleware.index.records import (
    NARROW,
    NUMBER_BITS,
    NUMBER_MASK,
    WIDE,
    WIDE_REMAINDER_BITS,
)
from dedup_middleware.index.tables import SIMHASH_TABLES, Neighbours, Slot
from dedup_middleware.signature._jit import I64, R64, RI64, U64, inlined, kernel
from dedup_middleware.signature._vector import popcount

_MASK = np.uint64(NUMBER_MASK)
_SHIFT = np.uint64(NUMBER_BITS)
_FIRST_WIDE, _LAST_WIDE = SIMHASH_TABLES[0], SIMHASH_TABLES[-1]
_MASK48 = np.uint64((1 << WIDE_REMAINDER_BITS) - 1)
_NUMBER = np.uint64(NUMBER_BITS // 8)
_WIDE = np.uint64(WIDE)
_PADDING = bytes(8)
_EMPTY = np.empty(0, np.uint64)
_FEW = 64  # hits up to which a dictionary beats NumPy


def neighbours(slots: Sequence[Slot], data: Sequence[bytes], distance: int) -> Neighbours:
    """Scan what was read from the buckets of ``slots``.

    Wide records survive within ``distance`` bits of the SimHash, narrow ones when the remainder
    is equal. Bytes behind the last whole record are counted as corrupt and skipped.

    :param data: bytes of each bucket, in the order of ``slots``
    :param distance: largest Hamming distance, 0..64
    """
    corrupt = full = 0
    parts: list[bytes] = []
    rows: list[tuple[int, int, int]] = []  # records of a bucket, its table, its words
    heads: list[int] = []
    for slot, raw in zip(slots, data, strict=True):
        if not raw:
            continue
        table = slot.bucket >> 16
        wide = _FIRST_WIDE <= table <= _LAST_WIDE
        count, odd = divmod(len(raw), WIDE if wide else NARROW)
        corrupt += odd
        full += len(raw) > FULL_BUCKET
        parts.append(raw)
        # Every bucket begins with a word of its own.
        parts.append(_PADDING[: -len(raw) & 7])
        rows.append((count, table, (len(raw) + 7) >> 3))
        heads.append(slot.head)
    if not parts:
        return Neighbours(_EMPTY, _EMPTY, corrupt, full)
    parts.append(_PADDING)  # the last record is read by whole words
    words = np.frombuffer(b"".join(parts), np.uint64)
    numbers = np.empty(len(words), np.uint64)
    tables = np.empty(len(words), np.int64)
    found = _scan(words, np.array(rows, np.int64).ravel(), _words(heads), distance, numbers, tables)
    if found == 0:
        return Neighbours(_EMPTY, _EMPTY, corrupt, full)
    if found <= _FEW:
        masks: dict[int, int] = {}
        for number, table in zip(numbers[:found].tolist(), tables[:found].tolist(), strict=True):
            masks[number] = masks.get(number, 0) | 1 << table
        unique = sorted(masks)
        return Neighbours(_words(unique), _words([masks[n] for n in unique]), corrupt, full)
    known, inverse = np.unique(numbers[:found], return_inverse=True)
    union = np.zeros(len(known), np.uint64)
    np.bitwise_or.at(union, inverse, np.uint64(1) << tables[:found].astype(np.uint64))
    return Neighbours(known, union, corrupt, full)


def _words(values: list[int]) -> NDArray[np.uint64]:
    return np.array(values, np.uint64)


@inlined
def _word(words: Any, byte: Any) -> Any:
    """The eight bytes that begin at any byte."""
    at = byte >> np.uint64(3)
    bits = (byte & np.uint64(7)) << np.uint64(3)
    # In two steps: a shift by 64 is not defined.
    return words[at] >> bits | (words[at + np.uint64(1)] << np.uint64(1)) << (np.uint64(63) - bits)


@kernel(types.int64(R64, RI64, R64, types.int64, U64, I64))
def _scan(words: Any, rows: Any, heads: Any, distance: Any, numbers: Any, tables: Any) -> Any:
    found = 0
    at = np.uint64(0)
    for i in range(len(heads)):
        count = rows[3 * i]
        table = rows[3 * i + 1]
        head = heads[i]
        if _FIRST_WIDE <= table <= _LAST_WIDE:
            byte = at << np.uint64(3)
            for _ in range(count):
                if popcount((_word(words, byte + _NUMBER) ^ head) & _MASK48) <= distance:
                    numbers[found] = _word(words, byte) & _MASK
                    tables[found] = table
                    found += 1
                byte += _WIDE
        else:
            for j in range(count):
                word = words[at + np.uint64(j)]
                if word >> _SHIFT == head:
                    numbers[found] = word & _MASK
                    tables[found] = table
                    found += 1
        at += np.uint64(rows[3 * i + 2])
    return found


def scan_answers(
    answers: Sequence[bytes], heads: NDArray[np.uint64], distance: int
) -> tuple[list[int], list[int]]:
    """Scan the wide buckets in the answers of ``propose.lua``, those of many pages in one call.

    :param heads: of every wide bucket, what is compared with its records
    :returns: page numbers found, and of each the wide bucket, counted through all answers
    """
    lengths = np.fromiter(map(len, answers), np.int64, len(answers)) + 7 >> 3
    padded = [part for raw in answers for part in (raw, _PADDING[: -len(raw) & 7])]
    words = np.frombuffer(b"".join((*padded, _PADDING)), np.uint64)
    numbers = np.empty(len(words), np.uint64)
    buckets = np.empty(len(words), np.int64)
    starts = np.cumsum(lengths) - lengths
    found = _scan_answers(words, starts, heads, distance, numbers, buckets)
    return numbers[:found].tolist(), buckets[:found].tolist()


@kernel(types.int64(R64, RI64, R64, types.int64, U64, I64))
def _scan_answers(
    words: Any, starts: Any, heads: Any, distance: Any, numbers: Any, buckets: Any
) -> Any:
    found = 0
    bucket = 0
    for i in range(len(starts)):
        start = np.uint64(starts[i])
        own = words[start] & _MASK
        count = words[start] >> _SHIFT & np.uint64(0xFF)
        byte = (start + np.uint64(1) + count) << np.uint64(3)
        for part in range(count):
            length = words[start + np.uint64(1) + np.uint64(part)]
            end = byte + length
            head = heads[bucket]
            for _ in range(length // _WIDE):
                if popcount((_word(words, byte + _NUMBER) ^ head) & _MASK48) <= distance:
                    number = _word(words, byte) & _MASK
                    # A repeated call meets its own record and later ones.
                    if own == 0 or number < own:
                        numbers[found] = number
                        buckets[found] = bucket
                        found += 1
                byte += _WIDE
            byte = end
            bucket += 1
    return found
