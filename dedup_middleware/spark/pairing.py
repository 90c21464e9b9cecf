"""Pairs of pages from the sorted records of buckets.

A block is what one task compares: the records of one bucket, or the two chunks of a bucket that
was split. Records of a block are sorted by the order of their pages. Pages that have several
blocks in common are a pair in the lowest of them alone, as in 周游, 贾创辉 (大规模文本去重研究,
现代计算机 2019(6)); so each record says what else of its page is lower.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base import kerneltypes as types
from dedup_middleware.base.jit import kernel, subkernel
from dedup_middleware.base.kerneltypes import I64, R8, R64, R64_2, RI64, RI64_2
from dedup_middleware.index.pages import TABLE_SHIFT
from dedup_middleware.model.buckets import KEY_TABLE, SIMHASH_TABLES
from dedup_middleware.model.records import BAND_SUFFIX_BITS
from dedup_middleware.signature._vector import bits_lacking, near_words, trailing_zeros

BAND_KEY = 1 << 62  # tells keys of band records from names of buckets
PROBE, SECOND = 1, 2  # flags of a record
SPLIT, SIGNED, NUMBER_SHIFT = 4, 8, 8
NOTHING = -1  # what fills the rows of ``lower``
LAST_RANK = 64  # of the tables of band records that of the keys comes last
BITS = 1024  # of a sieve, see :func:`.make_sieve`
HOST, COUNT, FIRST = 0, 1, 2  # words of a sieve: host, different shingles, and from here on bits
WORDS = FIRST + BITS // 64

_HALF = 8  # words of a sieve, which tell most pairs apart
_BLOCK = np.uint64(0xFFFF)
_BIT, _LANES = np.uint64(1), np.uint64(0xFF)
_FIRST_WIDE, _LAST_WIDE = SIMHASH_TABLES[0], SIMHASH_TABLES[-1]
_OWN, _PROBED, _NARROW = 0, 1 << 8, 2 << 8  # kinds of blocks, the lowest first
_CROWDED = 3 << 8  # comes on top


@attrs.frozen(eq=False)
class Blocks:
    """Records of some whole blocks, block by block, sorted by order.

    ``starts`` int64[b + 1]: records of block i are ``starts[i]:starts[i + 1]``; ``tables`` int64[b]
    and ``split`` int64[b], 1 for two chunks, which are compared with each other only. ``orders``
    and ``lasts`` int64[n]: of the page and of its last exact copy; ``simhashes`` uint64[n];
    ``flags`` int64[n]: PROBE looks for others and is not found itself, SECOND is of the second
    chunk, SIGNED has a SimHash and records in its tables; from NUMBER_SHIFT on the number of a
    probe. ``crowded`` int64[n]: mask of the tables in which the page has a crowded key.
    ``lower`` int64[n, w], filled up with NOTHING: of the places of the page, its probes and then
    those in tables of band records, the lowest first, as far as they can be lower than this one.
    ``sieves`` uint64[n, WORDS], see :func:`.make_sieve`.
    """

    starts: NDArray[np.int64]
    tables: NDArray[np.int64]
    split: NDArray[np.int64]
    orders: NDArray[np.int64]
    lasts: NDArray[np.int64]
    simhashes: NDArray[np.uint64]
    flags: NDArray[np.int64]
    crowded: NDArray[np.int64]
    lower: NDArray[np.int64]
    sieves: NDArray[np.uint64]


def pairs(
    blocks: Blocks, distance: int, most: tuple[int, int], limit: float, capacity: int = 1 << 16
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """The pairs of some blocks that have to be judged, in parts: rows of pages and of their
    candidates.

    A candidate comes before the page or before one of its exact copies. Records of SimHash tables
    pair within ``distance`` bits. Pages pair in the lowest block that they have in common: SimHash
    tables come first, then the probes, then bands, then the key; and crowded ones, where a page
    may have more candidates than are looked at, come behind all others. Pages below 0 are those of
    an index and pair with no other one.

    :param most: candidates of a page in one block, at the most, the earliest ones, whatever their
        sieves say; and the same for a block of two chunks
    :param limit: see :func:`.limit_of`
    :param capacity: pairs in a part, at the most, or those of one page
    """
    capacity = max(capacity, *most)
    cursor = np.zeros(2, np.int64)  # the block and the record in it to go on with
    while cursor[0] < len(blocks.tables):
        page, candidate = np.empty(capacity, np.int64), np.empty(capacity, np.int64)
        found = _pairs(
            blocks.starts, blocks.tables, blocks.split, blocks.orders, blocks.lasts,
            blocks.simhashes, blocks.flags, blocks.crowded, blocks.lower, blocks.sieves, distance,
            *most, limit, cursor, page, candidate,
        )  # fmt: skip
        yield page[:found], candidate[:found]


@subkernel
def _block(simhash: Any, table: Any) -> Any:
    """The 16 bits that a table begins with."""
    return simhash >> np.uint64(48 - 16 * (table - _FIRST_WIDE)) & _BLOCK


@subkernel
def _is_simhash(table: Any) -> Any:
    return _FIRST_WIDE <= table <= _LAST_WIDE


@subkernel
def _rank(kind: Any, number: Any, crowded: Any, table: Any) -> Any:
    """Which of two blocks is lower: a number."""
    return kind + number + (_CROWDED if crowded >> table & 1 else 0)


@subkernel
def _narrow_number(table: Any) -> Any:
    return LAST_RANK if table == KEY_TABLE else table


@subkernel
def _current(flags: Any, table: Any, crowded: Any) -> Any:
    """The rank of the block that pairs a record with these flags with another."""
    if flags & PROBE:
        return _rank(_PROBED, flags >> NUMBER_SHIFT, crowded, table)
    if _is_simhash(table):
        return _rank(_OWN, table, crowded, table)
    return _rank(_NARROW, _narrow_number(table), crowded, table)


@subkernel
def _probes(row: Any) -> Any:
    """How many probes a row of ``lower`` begins with."""
    count = 0
    while count < row.size and row[count] >= 0 and _is_simhash(row[count] >> TABLE_SHIFT):
        count += 1
    return count


@subkernel
def _is_lowest(
    other: Any, differing: Any, near: Any, near_probed: Any, mine: Any, theirs: Any, crowded: Any,
    current: Any,
) -> Any:  # fmt: skip
    """Whether two pages of one block have no block of a lower rank in common.

    :param other: SimHash of the candidate; ``theirs`` its row of ``lower``, ``crowded`` its mask
    :param near: whether the two may pair by their own SimHashes, ``near_probed`` by a probe
    :param mine: the page's row of ``lower``
    """
    first = _probes(mine)
    if near:
        for table in range(_FIRST_WIDE, _LAST_WIDE + 1):
            rank = _rank(_OWN, table, crowded, table)
            if _block(differing, table) == 0 and rank < current:
                return False
    if near_probed:
        for i in range(first):
            table = mine[i] >> TABLE_SHIFT
            prefix = np.uint64(mine[i] >> BAND_SUFFIX_BITS) & _BLOCK
            rank = _rank(_PROBED, i, crowded, table)
            if _block(other, table) == prefix and rank < current:
                return False
    # Both rows are sorted by rank.
    i, j = first, _probes(theirs)
    while i < mine.size and j < theirs.size and mine[i] >= 0 and theirs[j] >= 0:
        table, its = mine[i] >> TABLE_SHIFT, theirs[j] >> TABLE_SHIFT
        if mine[i] == theirs[j]:
            if _rank(_NARROW, _narrow_number(table), crowded, table) < current:
                return False
            i += 1
            j += 1
            continue
        ahead = _narrow_number(table) <= _narrow_number(its)
        behind = _narrow_number(its) <= _narrow_number(table)
        i += ahead
        j += behind
    return True


@subkernel
def _may_match(sieves: Any, own: Any, other: Any, limit: Any) -> Any:
    """Whether a pair has to be judged.

    Pages of one host always are, since what several pages of a host have in common does not count
    (see :mod:`dedup_middleware.methods.content`), and so are pages without a sieve.
    """
    if sieves[other, COUNT] == 0:
        return True
    count = np.float64(sieves[own, COUNT])
    # Evidence of a short page is less sure: three standard deviations of what it reports.
    most = limit * count + 0.5 * np.sqrt(count)
    lacking = np.uint64(0)
    for half in range(FIRST, WORDS, _HALF):
        lacking += bits_lacking(
            sieves, np.uint64(own * WORDS + half), np.uint64(other * WORDS + half)
        )
        if np.float64(lacking) > most:
            return sieves[own, HOST] == sieves[other, HOST] and sieves[own, HOST] != 0
    return True


@kernel(
    types.int64(
        RI64, RI64, RI64, RI64, RI64, R64, RI64, RI64, RI64_2, R64_2, types.int64, types.int64,
        types.int64, types.float64, I64, I64, I64,
    )
)  # fmt: skip
def _pairs(
    starts: Any, tables: Any, split: Any, orders: Any, lasts: Any, simhashes: Any, flags: Any,
    crowded: Any, lower: Any, sieves: Any, distance: Any, of_whole: Any, of_split: Any, limit: Any,
    cursor: Any, page: Any, candidate: Any,
) -> Any:  # fmt: skip
    found, bound = 0, np.uint64(distance)
    for block in range(cursor[0], len(tables)):
        begin, end = starts[block], starts[block + 1]
        table = tables[block]
        of_simhashes = _is_simhash(table)
        most = of_split if split[block] else of_whole
        # Sieves leave out most pairs for less than their lowest block takes. They come last where
        # a page may have more candidates than are counted.
        all_counted = end - begin <= most
        first = cursor[1] if block == cursor[0] else 0
        for i in range(begin + first, end):
            if found + most > len(page):
                cursor[0], cursor[1] = block, i - begin
                return found
            if orders[i] < 0:
                continue
            # The flipped bit of a probe is in the name of the bucket.
            probed = flags[i] & PROBE != 0
            mine, at = 0, begin
            while at < end and orders[at] < lasts[i] and mine < most:
                lanes = np.uint64(min(8, end - at))
                left = _LANES
                if of_simhashes:
                    reach = bound + _BIT if probed else bound
                    left = near_words(simhashes, np.uint64(at), lanes, simhashes[i], reach)
                left &= (_BIT << lanes) - _BIT
                while left and mine < most:
                    j = at + np.int64(trailing_zeros(left))
                    left &= left - _BIT
                    if orders[j] >= lasts[i]:
                        break
                    apart = not split[block] or (flags[i] ^ flags[j]) & SECOND != 0
                    if orders[j] == orders[i] or flags[j] & PROBE or not apart:
                        continue
                    if all_counted and not _may_match(sieves, i, j, limit):
                        continue
                    signed = flags[i] & flags[j] & SIGNED != 0
                    place, query = np.uint64(j), simhashes[i]
                    near = near_words(simhashes, place, _BIT, query, bound) != 0
                    near_probed = near_words(simhashes, place, _BIT, query, bound + _BIT) != 0
                    if not _is_lowest(
                        simhashes[j], simhashes[i] ^ simhashes[j], signed and near,
                        signed and near_probed, lower[i], lower[j], crowded[j],
                        _current(flags[i], table, crowded[j]),
                    ):  # fmt: skip
                        continue
                    mine += 1
                    if all_counted or _may_match(sieves, i, j, limit):
                        page[found] = i
                        candidate[found] = j
                        found += 1
                at += 8
    cursor[0], cursor[1] = len(tables), 0
    return found


def common_tables(
    owners: NDArray[np.int64],
    starts: NDArray[np.int64],
    places: NDArray[np.int64],
    simhashes: NDArray[np.uint64],
    distance: int,
) -> NDArray[np.int64]:
    """Of n rows of pages, the tables in which each is a candidate of its owner: masks int64[n].

    :param owners: int64[n], the row of the page whose candidate it is; a row of its own gets 0
    :param starts: int64[n + 1]; the places of row i are ``places[starts[i]:starts[i + 1]]``, those
        of an owner with its probes
    :param simhashes: uint64[n]
    :param distance: largest Hamming distance of SimHashes
    """
    masks = np.zeros(len(owners), np.int64)
    bits = np.bitwise_count(simhashes[owners] ^ simhashes)
    _common_tables(owners, starts, places, simhashes, bits, distance, masks)
    return masks


@kernel(types.void(RI64, RI64, RI64, R64, R8, types.int64, I64))
def _common_tables(
    owners: Any, starts: Any, places: Any, simhashes: Any, bits: Any, distance: Any, masks: Any
) -> None:
    for row in range(len(owners)):
        owner = owners[row]
        if owner == row:
            continue
        for i in range(starts[owner], starts[owner + 1]):
            table = places[i] >> TABLE_SHIFT
            for j in range(starts[row], starts[row + 1]):
                if places[j] >> TABLE_SHIFT != table:
                    continue
                if _is_simhash(table):
                    prefix = np.uint64(places[i] >> BAND_SUFFIX_BITS) & _BLOCK
                    probe = prefix != _block(simhashes[owner], table)
                    met = _block(simhashes[row], table) == prefix
                    met = met and np.int64(bits[row]) - probe <= distance
                else:
                    met = places[i] == places[j]
                if met:
                    masks[row] |= 1 << table
