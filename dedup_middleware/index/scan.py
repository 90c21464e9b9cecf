"""Who stands beside a page: all buckets of a reading scanned by one kernel.

Most buckets are short, so that what a scan costs is the number of calls, not the bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import types
from numpy.typing import NDArray

from dedup_middleware.index.records import NUMBER_BITS, NUMBER_MASK
from dedup_middleware.index.tables import SIMHASH_TABLES, Neighbours, Slot
from dedup_middleware.signature._jit import I64, R64, RI64, U64, kernel
from dedup_middleware.signature._vector import popcount

_MASK = np.uint64(NUMBER_MASK)
_SHIFT = np.uint64(NUMBER_BITS)
_FIRST_WIDE, _LAST_WIDE = SIMHASH_TABLES[0], SIMHASH_TABLES[-1]
_EMPTY = np.empty(0, np.uint64)
_FEW = 64  # hits up to which a dictionary beats NumPy


def neighbours(slots: Sequence[Slot], data: Sequence[bytes], distance: int) -> Neighbours:
    """Scan what was read from the buckets of ``slots``.

    Wide records survive within ``distance`` bits of the SimHash, narrow ones when the remainder
    is equal. Bytes behind the last whole record are counted as corrupt and skipped.

    :param data: bytes of each bucket, in the order of ``slots``
    :param distance: largest Hamming distance, 0..64
    """
    corrupt = 0
    parts: list[bytes] = []
    rows: list[tuple[int, int]] = []  # words of a bucket, its table
    heads: list[int] = []
    for slot, raw in zip(slots, data, strict=True):
        if not raw:
            continue
        table = slot.bucket >> 16
        odd = len(raw) % (16 if _FIRST_WIDE <= table <= _LAST_WIDE else 8)
        if odd:
            corrupt += odd
            raw = raw[:-odd]  # noqa: PLW2901
        parts.append(raw)
        rows.append((len(raw) >> 3, table))
        heads.append(slot.head)
    if not parts:
        return Neighbours(_EMPTY, _EMPTY, corrupt)
    words = np.frombuffer(b"".join(parts), np.uint64)
    numbers = np.empty(len(words), np.uint64)
    tables = np.empty(len(words), np.int64)
    found = _scan(words, np.array(rows, np.int64).ravel(), _words(heads), distance, numbers, tables)
    if found == 0:
        return Neighbours(_EMPTY, _EMPTY, corrupt)
    if found <= _FEW:
        masks: dict[int, int] = {}
        for number, table in zip(numbers[:found].tolist(), tables[:found].tolist(), strict=True):
            masks[number] = masks.get(number, 0) | 1 << table
        unique = sorted(masks)
        return Neighbours(_words(unique), _words([masks[n] for n in unique]), corrupt)
    known, inverse = np.unique(numbers[:found], return_inverse=True)
    union = np.zeros(len(known), np.uint64)
    np.bitwise_or.at(union, inverse, np.uint64(1) << tables[:found].astype(np.uint64))
    return Neighbours(known, union, corrupt)


def _words(values: list[int]) -> NDArray[np.uint64]:
    return np.array(values, np.uint64)


@kernel(types.int64(R64, RI64, R64, types.int64, U64, I64))
def _scan(words: Any, rows: Any, heads: Any, distance: Any, numbers: Any, tables: Any) -> Any:
    found = 0
    at = 0
    for i in range(len(heads)):
        end = at + rows[2 * i]
        table = rows[2 * i + 1]
        if _FIRST_WIDE <= table <= _LAST_WIDE:
            while at < end:
                if popcount(words[at] ^ heads[i]) <= distance:
                    numbers[found] = words[at + 1] & _MASK
                    tables[found] = table
                    found += 1
                at += 2
        else:
            while at < end:
                if words[at] >> _SHIFT == heads[i]:
                    numbers[found] = words[at] & _MASK
                    tables[found] = table
                    found += 1
                at += 1
    return found
