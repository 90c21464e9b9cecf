"""Kernels that find the candidates of pages in buckets that were read.

One call scans all buckets: most are short, so the call overhead dominates.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base import kerneltypes as types
from dedup_middleware.base.jit import compile_all, kernel, subkernel
from dedup_middleware.base.kerneltypes import I64, R8, R64, RI64, U64
from dedup_middleware.model.buckets import (
    ANCHOR_TABLES,
    COMMON_ANCHOR,
    FIRST_SIMHASH,
    FULL_BUCKET,
    LAST_SIMHASH,
    BucketKey,
    Neighbours,
)
from dedup_middleware.model.records import BAND_RECORD, PAGE_ID_BITS, PAGE_ID_MASK, SIMHASH_RECORD
from dedup_middleware.signature._vector import load_word, trailing_zeros
from dedup_middleware.signature.hamming import RECORDS, nearest_records

_MASK = np.uint64(PAGE_ID_MASK)
_SHIFT = np.uint64(PAGE_ID_BITS)
_FIRST_ANCHOR, _LAST_ANCHOR = ANCHOR_TABLES[0], ANCHOR_TABLES[-1]
_SIMHASH = np.uint64(SIMHASH_RECORD)
_PADDING = bytes(8)
_EMPTY = np.empty(0, np.uint64)
PLACE = 6  # bytes of a hit among band records: page id (5), number of the bucket key (1)
_NEW, _NO_ROW = -2, -1
_ONE, _EIGHT = np.uint64(1), np.uint64(8)
_FEW = 64  # number of hits up to which a dictionary beats NumPy


def neighbours(
    bucket_keys: Sequence[BucketKey], data: Sequence[bytes], distance: int
) -> Neighbours:
    """Find the neighbours of a page in its buckets.

    SimHash records match within ``distance`` bits, other records if the suffix is equal, except
    anchors shared by too many pages. Bytes after the last whole record are counted as corrupt.

    :param data: bytes of each bucket, in the order of ``bucket_keys``
    :param distance: largest Hamming distance, 0..64
    """
    corrupt = full = scanned = 0
    parts: list[bytes] = []
    rows: list[tuple[int, int, int]] = []  # of each bucket: records, table, 64-bit words
    suffixes: list[int] = []
    for bucket_key, raw in zip(bucket_keys, data, strict=True):
        if not raw:
            continue
        table = bucket_key.bucket >> 16
        of_simhashes = FIRST_SIMHASH <= table <= LAST_SIMHASH
        count, odd = divmod(len(raw), SIMHASH_RECORD if of_simhashes else BAND_RECORD)
        corrupt += odd
        full += len(raw) > FULL_BUCKET
        scanned += count if of_simhashes else 0
        parts.append(raw)
        parts.append(_PADDING[: -len(raw) & 7])  # each bucket begins at a whole word
        rows.append((count, table, (len(raw) + 7) >> 3))
        suffixes.append(bucket_key.suffix)
    if not parts:
        return Neighbours(_EMPTY, _EMPTY, corrupt, full, scanned)
    words = np.frombuffer(b"".join(parts), np.uint64)
    page_ids = np.empty(len(words), np.uint64)
    tables = np.empty(len(words), np.int64)
    wanted, layout = np.array(suffixes, np.uint64), np.array(rows, np.int64).ravel()
    found = _scan(words, layout, wanted, distance, page_ids, tables)
    if found == 0:
        return Neighbours(_EMPTY, _EMPTY, corrupt, full, scanned)
    if found <= _FEW:
        masks: dict[int, int] = {}
        for page_id, table in zip(page_ids[:found].tolist(), tables[:found].tolist(), strict=True):
            masks[page_id] = masks.get(page_id, 0) | 1 << table
        ids = sorted(masks)
        union = np.array([masks[page_id] for page_id in ids], np.uint64)
        return Neighbours(np.array(ids, np.uint64), union, corrupt, full, scanned)
    known, inverse = np.unique(page_ids[:found], return_inverse=True)
    union = np.zeros(len(known), np.uint64)
    np.bitwise_or.at(union, inverse, np.uint64(1) << tables[:found].astype(np.uint64))
    return Neighbours(known, union, corrupt, full, scanned)


@kernel(types.int64(R64, RI64, R64, types.int64, U64, I64))
def _scan(words: Any, rows: Any, suffixes: Any, distance: Any, page_ids: Any, tables: Any) -> Any:
    found, bound = 0, np.uint64(distance)
    at = np.uint64(0)
    for i in range(len(suffixes)):
        count = rows[3 * i]
        table = rows[3 * i + 1]
        suffix = suffixes[i]
        if FIRST_SIMHASH <= table <= LAST_SIMHASH:
            byte = at << np.uint64(3)
            for first in range(0, count, 8):
                near = nearest_records(words, byte, np.uint64(count - first), suffix, bound)
                while near:
                    record = byte + trailing_zeros(near) * _SIMHASH
                    page_ids[found] = load_word(words, record) & _MASK
                    tables[found] = table
                    found += 1
                    near &= near - _ONE
                byte += RECORDS
        else:
            first = found
            for j in range(count):
                word = words[at + np.uint64(j)]
                if word >> _SHIFT == suffix:
                    page_ids[found] = word & _MASK
                    tables[found] = table
                    found += 1
            if _FIRST_ANCHOR <= table <= _LAST_ANCHOR and found - first >= COMMON_ANCHOR:
                found = first
        at += np.uint64(rows[3 * i + 2])
    return found


class ScanHits(NamedTuple):
    """Candidates of several pages.

    Page i has ``page_ids`` (ascending) and ``tables`` (bit masks) ``starts[i]:starts[i + 1]``.
    Candidates with a row in the server's reply (found by a band record, or requested) are repeated
    at ``row_starts[i]:row_starts[i + 1]`` of ``met`` (ids, ascending) and ``rows`` (index of the
    row in the reply). ``scanned`` is the number of SimHash records compared.
    """

    page_ids: NDArray[np.uint64]
    tables: NDArray[np.uint64]
    starts: list[int]
    met: NDArray[np.uint64]
    rows: NDArray[np.int64]
    row_starts: list[int]
    scanned: int


def scan_answers(
    own: NDArray[np.uint64],
    simhash_buckets: Sequence[bytes],
    suffixes: NDArray[np.uint64],
    simhash_counts: NDArray[np.int64],
    places: Sequence[bytes],
    tables: NDArray[np.uint64],
    counts: NDArray[np.int64],
    distance: int,
) -> ScanHits:
    """Gather the candidates of several pages from a reply of ``propose.lua``.

    :param own: for each page its id, 0 if it was not claimed
    :param simhash_buckets: bytes of the SimHash buckets of all pages
    :param suffixes: for each SimHash bucket the suffix searched for, and its table as one bit
    :param simhash_counts: for each page its number of SimHash buckets
    :param places: for each page its hits among band records, ``PLACE`` bytes each: page id, and
        number of the bucket key counted from 1, or 0 for a page whose row was only requested
    :param tables: for each bucket key of all pages its table, as one bit
    :param counts: for each page its number of bucket keys
    """
    lengths = np.fromiter(map(len, simhash_buckets), np.int64, len(simhash_buckets))
    data = np.frombuffer(b"".join(simhash_buckets), np.uint8)
    raw = np.frombuffer(b"".join(places), np.uint8)
    met_counts = np.fromiter(map(len, places), np.int64, len(places)) // PLACE
    capacity = len(data) // SIMHASH_RECORD + len(raw) // PLACE
    found = np.empty((5, capacity), np.uint64)
    page_ids, masks, met = found[0], found[1], found[2]
    marks, rows = found[3].view(np.int64), found[4].view(np.int64)
    starts, row_starts = np.zeros((2, len(own) + 1), np.int64)
    scanned = _gather(
        data, lengths, own, suffixes, simhash_counts, raw, met_counts, tables, counts, distance,
        page_ids, masks, marks, starts, met, rows, row_starts,
    )  # fmt: skip
    return ScanHits(page_ids, masks, starts.tolist(), met, rows, row_starts.tolist(), scanned)


@subkernel
def _enter(
    page_ids: Any, masks: Any, marks: Any, first: Any, end: Any, page_id: Any, bit: Any
) -> Any:
    """Add a hit to the sorted candidates ``first:end``, with the mark ``_NEW`` if the page is new;
    returns its position."""
    at, beyond = first, end
    while at < beyond:
        middle = (at + beyond) >> 1
        if page_ids[middle] < page_id:
            at = middle + 1
        else:
            beyond = middle
    if at < end and page_ids[at] == page_id:
        masks[at] |= bit
        return at
    for i in range(end, at, -1):
        page_ids[i], masks[i], marks[i] = page_ids[i - 1], masks[i - 1], marks[i - 1]
    page_ids[at], masks[at], marks[at] = page_id, bit, _NEW
    return at


@kernel(
    types.int64(
        R8, RI64, R64, R64, RI64, R8, RI64, R64, RI64, types.int64,
        U64, U64, I64, I64, U64, I64, I64,
    )
)  # fmt: skip
def _gather(
    data: Any, lengths: Any, own: Any, suffixes: Any, simhash_counts: Any, raw: Any,
    met_counts: Any, tables: Any, counts: Any, distance: Any,
    page_ids: Any, masks: Any, marks: Any, starts: Any, met: Any, rows: Any, row_starts: Any,
) -> Any:  # fmt: skip
    """Fill the arrays of :class:`ScanHits`, and ``marks`` with the row of each candidate or
    ``_NO_ROW``; returns the number of SimHash records compared."""
    end = row = bucket = bucket_key = place = last_row = scanned = 0
    byte, bound = np.uint64(0), np.uint64(distance)
    for page in range(len(own)):
        first = end
        mine = own[page]
        for _ in range(met_counts[page]):
            page_id = np.uint64(0)
            for i in range(PLACE - 2, -1, -1):
                page_id = page_id << _EIGHT | np.uint64(raw[place + i])
            mark = np.int64(raw[place + PLACE - 1])
            bit = np.uint64(0)  # the page was requested, not found
            if mark > 0:
                bit = tables[bucket_key + mark - 1]
            at = _enter(page_ids, masks, marks, first, end, page_id, bit)
            if marks[at] == _NEW:
                marks[at] = row
                row += 1
                end += 1
            place += PLACE
        for _ in range(simhash_counts[page]):
            suffix, bit = suffixes[2 * bucket], suffixes[2 * bucket + 1]
            start, left = byte, lengths[bucket] // SIMHASH_RECORD
            scanned += left
            while left > 0:
                near = nearest_records(data, start, np.uint64(left), suffix, bound)
                while near:
                    page_id = load_word(data, start + trailing_zeros(near) * _SIMHASH) & _MASK
                    near &= near - _ONE
                    # A retried call finds the page's own record and later ones.
                    if mine == 0 or page_id < mine:
                        at = _enter(page_ids, masks, marks, first, end, page_id, bit)
                        if marks[at] == _NEW:
                            marks[at] = _NO_ROW
                            end += 1
                start += RECORDS
                left -= 8
            byte += np.uint64(lengths[bucket])
            bucket += 1
        bucket_key += counts[page]
        starts[page + 1] = end
        for i in range(first, end):
            if marks[i] >= 0:
                met[last_row], rows[last_row] = page_ids[i], marks[i]
                last_row += 1
        row_starts[page + 1] = last_row
    return scanned


def warm(*, replies: bool = False) -> None:
    """Compile the kernel that scans buckets, and with ``replies`` the one for Redis replies."""
    compile_all(_scan, *([_gather] if replies else []))
