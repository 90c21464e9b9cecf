"""Layout of the array of buckets, and the kernels that read and write it.

A page reads some dozen buckets at random addresses, which is bound by memory latency, so all are
prefetched before the first one is read.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dedup_middleware.base import kerneltypes as types
from dedup_middleware.base.jit import compile_all, kernel, prefetch, subkernel
from dedup_middleware.base.kerneltypes import R8, R64, RI64, U8, U64
from dedup_middleware.model.buckets import (
    ANCHOR_TABLES,
    BUCKET_LIMIT,
    COMMON_ANCHOR,
    FIRST_SIMHASH,
    FULL_BUCKET,
    LAST_SIMHASH,
)
from dedup_middleware.model.records import BAND_RECORD, PAGE_ID_BITS, PAGE_ID_MASK, SIMHASH_RECORD
from dedup_middleware.signature._vector import load_word, trailing_zeros
from dedup_middleware.signature.hamming import RECORDS, nearest_records

MOST = 256  # maximum number of candidates returned for a page
NEEDS_GROWTH = -1  # returned by a kernel if the array is full
SLACK = 8  # words after the last bucket

# The array begins with four numbers and the free lists, one per capacity. Then there is a head for
# each bucket: its first word, its length in bytes (21 bits), and its capacity (6 bits) as a step
# 0, 1, 2 ... of the sequence 4, 5, 6, 7, 8, 10, 12, 14, 16, 20 ... words.
END = np.uint64(0)  # the first unused word
BYTES = np.uint64(1)
FILLED = np.uint64(2)  # number of non-empty buckets
HEADS = np.uint64(3)
_LEFT = np.uint64(8)  # first block of each free list, 0: none; its first word links the next block
FIRST = np.uint64(72)  # the first head, aligned to a cache line
START_SHIFT = np.uint64(27)
LENGTH_SHIFT = np.uint64(6)
LENGTH = np.uint64((1 << 21) - 1)
_STEP = np.uint64(63)

_ZERO, _ONE, _TWO, _THREE = map(np.uint64, range(4))
_FOUR, _SEVEN, _EIGHT = map(np.uint64, (4, 7, 8))
_LOW8 = np.uint64(0xFF)
_S16 = np.uint64(16)
_MASK = np.uint64(PAGE_ID_MASK)
_SHIFT = np.uint64(PAGE_ID_BITS)
_PAGE_ID = np.uint64(PAGE_ID_BITS // 8)
_BAND, _SIMHASH = np.uint64(BAND_RECORD), np.uint64(SIMHASH_RECORD)
_LIMIT, _FULL = np.uint64(BUCKET_LIMIT), np.uint64(FULL_BUCKET)
_FIRST_SIMHASH, _LAST_SIMHASH = np.uint64(FIRST_SIMHASH), np.uint64(LAST_SIMHASH)
_FIRST_ANCHOR, _LAST_ANCHOR = np.uint64(ANCHOR_TABLES[0]), np.uint64(ANCHOR_TABLES[-1])
_MOST = np.uint64(MOST)
# The array ``found`` holds MOST page ids, then the tables of each (bit masks), then these counters.
_FULL_MET = np.uint64(2 * MOST)  # full buckets
_CORRUPT = np.uint64(2 * MOST + 1)  # bytes after the last whole record
_BLOCKED = np.uint64(2 * MOST + 2)  # 1: an unknown page was found among band records
LEFT_OUT = np.uint64(2 * MOST + 3)  # records not written to full buckets
_SCANNED = np.uint64(2 * MOST + 4)  # SimHash records compared
FOUND = 2 * MOST + 5
COUNT_BITS = 10  # bits of the number of candidates in a result, which is at most MOST + 1
COUNT = (1 << COUNT_BITS) - 1


@subkernel
def _words(step: Any) -> Any:
    return (_FOUR | step & _THREE) << (step >> _TWO)


@subkernel
def _step_for(length: Any) -> Any:
    step = _ZERO
    while _words(step) << _THREE < length:
        step += _ONE
    return step


@subkernel
def _has_capacity(head: Any, length: Any) -> Any:
    return head != _ZERO and length <= _words(head & _STEP) << _THREE


@subkernel
def _moved(store: Any, bucket: Any, length: Any) -> Any:
    """Move a bucket to a block for ``length`` bytes, free or new; returns its new head."""
    head = store[FIRST + bucket]
    step, start = _step_for(length), head >> START_SHIFT
    to = store[_LEFT + step]
    if to != _ZERO:
        store[_LEFT + step] = store[to]
    else:
        to = store[END]
        store[END] = to + _words(step)
    for i in range((((head >> LENGTH_SHIFT) & LENGTH) + _SEVEN) >> _THREE):
        store[to + np.uint64(i)] = store[start + np.uint64(i)]
    if head != _ZERO:
        chain = _LEFT + (head & _STEP)
        store[start] = store[chain]
        store[chain] = start
    return to << START_SHIFT | head & LENGTH << LENGTH_SHIFT | step


@subkernel
def _width(bucket: Any) -> Any:
    table = bucket >> _S16
    return _SIMHASH if _FIRST_SIMHASH <= table <= _LAST_SIMHASH else _BAND


@subkernel
def _note(found: Any, count: Any, page_id: Any, table: Any) -> Any:
    """Insert a neighbour into the sorted ``found``; returns the new number of neighbours, MOST + 1
    if there was no room."""
    at = count
    while at > _ZERO and found[at - _ONE] >= page_id:
        at -= _ONE
    bit = _ONE << table
    if at < count and found[at] == page_id:
        found[_MOST + at] |= bit
        return count
    if count == _MOST:
        return count + _ONE
    for i in range(count, at, -1):
        found[np.uint64(i)] = found[np.uint64(i) - _ONE]
        found[_MOST + np.uint64(i)] = found[_MOST + np.uint64(i) - _ONE]
    found[at] = page_id
    found[_MOST + at] = bit
    return count + _ONE


@subkernel
def _records_fit(store: Any, words: Any, places: Any) -> Any:
    """Whether the array has room for a page's records, assuming distinct buckets."""
    heads = store[HEADS]
    end = store[END]
    for i in range(np.uint64(places)):
        bucket = words[_TWO * i]
        if bucket >= heads:
            return False
        head = store[FIRST + bucket]
        length = (head >> LENGTH_SHIFT & LENGTH) + _width(bucket)
        if length <= _LIMIT and not _has_capacity(head, length):
            end += _words(_step_for(length))
    return end + np.uint64(SLACK) <= np.uint64(store.size)


@subkernel
def _is_common(store: Any, bucket: Any, suffix: Any) -> Any:
    """Whether a bucket is an anchor's, and so many pages share the suffix that it is ignored."""
    if not _FIRST_ANCHOR <= bucket >> _S16 <= _LAST_ANCHOR:
        return False
    head, pages = store[FIRST + bucket], 0
    at = head >> START_SHIFT
    for i in range((head >> LENGTH_SHIFT & LENGTH) >> _THREE):
        pages += np.int64(store[at + i] >> _SHIFT == suffix)
    return pages >= COMMON_ANCHOR


@subkernel
def _without_rest(store: Any, bucket: Any, width: Any) -> Any:
    """Cut bytes after the last whole record, as records after them could not be read; returns the
    bucket's head."""
    head = store[FIRST + bucket]
    rest = (head >> LENGTH_SHIFT & LENGTH) % width
    if rest != _ZERO:
        head -= rest << LENGTH_SHIFT
        store[FIRST + bucket] = head
        store[BYTES] -= rest
    return head


@subkernel
def _write(store: Any, raw: Any, words: Any, places: Any, page_id: Any) -> Any:
    """Write the records of a page; return how many were left out."""
    out = 0
    for i in range(np.uint64(places)):
        bucket, suffix = words[_TWO * i], words[_TWO * i + _ONE]
        if _is_common(store, bucket, suffix):
            continue
        width = _width(bucket)
        is_new = store[FIRST + bucket] >> LENGTH_SHIFT & LENGTH == _ZERO
        head = _without_rest(store, bucket, width)
        length = head >> LENGTH_SHIFT & LENGTH
        if length + width > _LIMIT:
            out += 1
            continue
        if not _has_capacity(head, length + width):
            capacity = _words(_step_for(length + width))
            if store[END] + capacity + np.uint64(SLACK) > np.uint64(store.size):
                out += 1  # two bucket keys in one bucket may need more than _records_fit assumed
                continue
            head = _moved(store, bucket, length + width)
        store[FILLED] += np.uint64(is_new)
        byte = ((head >> START_SHIFT) << _THREE) + length
        if width == _BAND and byte & _SEVEN == _ZERO:
            store[byte >> _THREE] = suffix << _SHIFT | page_id
        else:
            for j in range(_PAGE_ID):
                raw[byte + j] = np.uint8((page_id >> (_EIGHT * j)) & _LOW8)
            for j in range(width - _PAGE_ID):
                raw[byte + _PAGE_ID + j] = np.uint8((suffix >> (_EIGHT * j)) & _LOW8)
        store[FIRST + bucket] = head + (width << LENGTH_SHIFT)
        store[BYTES] += width
    return out


@subkernel
def _prefetch_all(store: Any, words: Any) -> Any:
    """Prefetch all buckets of a page; returns False if the array has no head for one of them."""
    bucket_keys = np.uint64(words.size) >> _ONE
    for i in range(bucket_keys):
        if words[_TWO * i] >= store[HEADS]:
            return False
        prefetch(store, FIRST + words[_TWO * i])
    for i in range(bucket_keys):
        prefetch(store, store[FIRST + words[_TWO * i]] >> START_SHIFT)
    return True


@subkernel
def _is_known(known: Any, upto: Any, page_id: Any) -> Any:
    if page_id <= upto:
        return True
    at, beyond = 0, known.size
    while at < beyond:
        middle = (at + beyond) >> 1
        if known[middle] < page_id:
            at = middle + 1
        else:
            beyond = middle
    return at < known.size and known[at] == page_id


@subkernel
def _equal(
    store: Any, at: Any, length: Any, suffix: Any, table: Any, known: Any, upto: Any, found: Any,
    count: Any,
) -> Any:  # fmt: skip
    """Add the unknown pages with this suffix in a bucket of band records; returns the new count."""
    for i in range(length >> _THREE):
        word = store[at + i]
        if word >> _SHIFT == suffix and not _is_known(known, upto, word & _MASK):
            found[_BLOCKED] = _ONE
            if count <= _MOST:
                count = _note(found, count, word & _MASK, table)
    return count


@subkernel
def _near(
    store: Any, at: Any, length: Any, suffix: Any, table: Any, distance: Any, known: Any,
    upto: Any, found: Any, count: Any,
) -> Any:  # fmt: skip
    """Add the unknown pages within ``distance`` in a SimHash bucket; returns the new count."""
    byte, left = at << _THREE, length // _SIMHASH
    found[_SCANNED] += left
    while left > _ZERO and count <= _MOST:
        near = nearest_records(store, byte, left, suffix, distance)
        while near != _ZERO and count <= _MOST:
            page_id = load_word(store, byte + trailing_zeros(near) * _SIMHASH) & _MASK
            near &= near - _ONE
            if not _is_known(known, upto, page_id):
                count = _note(found, count, page_id, table)
        byte += RECORDS
        left -= min(left, _EIGHT)
    return count


@subkernel
def _scan(
    store: Any, words: Any, distance: Any, known: Any, upto: Any, found: Any, count: Any
) -> Any:
    """Add all candidates in the buckets of a page; returns the new count."""
    for i in range(np.uint64(words.size) >> _ONE):
        bucket, suffix = words[_TWO * i], words[_TWO * i + _ONE]
        if bucket >= store[HEADS]:
            continue
        head = store[FIRST + bucket]
        at, length, table = head >> START_SHIFT, head >> LENGTH_SHIFT & LENGTH, bucket >> _S16
        found[_FULL_MET] += np.uint64(length > _FULL)
        found[_CORRUPT] += length % _width(bucket)
        if _is_common(store, bucket, suffix):
            continue
        if _width(bucket) == _BAND:
            count = _equal(store, at, length, suffix, table, known, upto, found, count)
        else:
            count = _near(store, at, length, suffix, table, distance, known, upto, found, count)
    return count


@subkernel
def _begun(found: Any, count: Any) -> Any:
    """Clear the counters in ``found`` if ``count`` is negative; returns the candidates so far."""
    if count >= 0:
        return np.uint64(count)
    for place in range(_FULL_MET, np.uint64(found.size)):
        found[place] = _ZERO
    return _ZERO


@kernel(types.int64(R64, R64, types.uint64, R64, types.uint64, U64, types.int64))
def look(
    store: Any, words: Any, distance: Any, known: Any, upto: Any, found: Any, count: Any
) -> Any:
    """Add the candidates of a page to those found before; returns the new count."""
    _prefetch_all(store, words)
    return np.int64(_scan(store, words, distance, known, upto, found, _begun(found, count)))


@kernel(
    types.int64(
        U64, U8, R64, types.int64, types.uint64, types.uint64, R64, types.uint64, U64, types.int64
    )
)
def propose(
    store: Any, raw: Any, words: Any, places: Any, distance: Any, page_id: Any, known: Any,
    upto: Any, found: Any, count: Any,
) -> Any:  # fmt: skip
    """Add the candidates of a page, and write its records unless it is blocked.

    Bits of the result: 0 the page is blocked; 1 a counter in `found` is above 0; then the number of
    candidates (`COUNT_BITS`) and of SimHash records compared. `NEEDS_GROWTH`: nothing was done.
    """
    if not _prefetch_all(store, words) or not _records_fit(store, words, places):
        return NEEDS_GROWTH
    met = _scan(store, words, distance, known, upto, found, _begun(found, count))
    if found[_BLOCKED] == _ZERO:
        found[LEFT_OUT] = np.uint64(_write(store, raw, words, places, page_id))
    notable = found[_FULL_MET] | found[_CORRUPT] | found[LEFT_OUT]
    result = np.int64(found[_SCANNED]) << COUNT_BITS | np.int64(met)
    return result << 2 | np.int64(notable > _ZERO) << 1 | np.int64(found[_BLOCKED])


@kernel(types.boolean(U64, U8, R64, RI64, R8, types.uint64, U64))
def extend(store: Any, raw: Any, names: Any, cuts: Any, data: Any, width: Any, counts: Any) -> Any:
    """Append records to buckets; returns False if the array is full. ``counts`` holds the buckets
    done, from which the next call resumes, and the records left out."""
    for i in range(counts[0], np.uint64(names.size)):
        bucket = names[i]
        counts[0] = i
        if bucket >= store[HEADS]:
            return False
        start, size = np.uint64(cuts[i]), np.uint64(cuts[i + _ONE] - cuts[i])
        is_new = store[FIRST + bucket] >> LENGTH_SHIFT & LENGTH == _ZERO
        head = _without_rest(store, bucket, width)
        length = head >> LENGTH_SHIFT & LENGTH
        fits = size
        if length + size > _LIMIT:
            fits = (_LIMIT - min(_LIMIT, length)) // width * width
        if fits > _ZERO:
            if not _has_capacity(head, length + fits):
                capacity = _words(_step_for(length + fits))
                if store[END] + capacity + np.uint64(SLACK) > np.uint64(store.size):
                    return False
                head = _moved(store, bucket, length + fits)
            byte = ((head >> START_SHIFT) << _THREE) + length
            for j in range(fits):
                raw[byte + j] = data[start + j]
            store[FIRST + bucket] = head + (fits << LENGTH_SHIFT)
            store[BYTES] += fits
            store[FILLED] += np.uint64(is_new)
        counts[1] += (size - fits) // width
    counts[0] = np.uint64(names.size)
    return True


@kernel(types.uint64(R64))
def capacities(store: Any) -> Any:
    """Total words of all buckets if each gets the smallest sufficient capacity."""
    words = _ZERO
    for bucket in range(store[HEADS]):
        length = store[FIRST + bucket] >> LENGTH_SHIFT & LENGTH
        if length > _ZERO:
            words += _words(_step_for(length))
    return words


@kernel(types.void(R64, U64, types.uint64, types.uint64))
def lay_out(store: Any, larger: Any, begin: Any, end: Any) -> None:
    """Copy the buckets whose first word is in ``begin:end`` to the larger array, unless they are
    there already."""
    free = larger[END]
    for bucket in range(store[HEADS]):
        head = store[FIRST + bucket]
        length, start = head >> LENGTH_SHIFT & LENGTH, head >> START_SHIFT
        if length == _ZERO or not begin <= start < end or larger[FIRST + bucket] != _ZERO:
            continue
        step = _step_for(length)
        for i in range((length + _SEVEN) >> _THREE):
            larger[free + np.uint64(i)] = store[start + np.uint64(i)]
        larger[FIRST + bucket] = free << START_SHIFT | length << LENGTH_SHIFT | step
        free += _words(step)
    larger[END] = free


def warm() -> None:
    """Compile the kernels that decisions need; ``extend``, for loading, is left out."""
    compile_all(look, propose, capacities, lay_out)
