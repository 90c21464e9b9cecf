"""Candidate pairs from the sorted records of buckets.

A block is what one task compares: the records of one bucket, or two chunks of a split bucket.
Records of a block are sorted by the order of their pages. Pages that share several blocks pair only
in the lowest of them, as in 周游, 贾创辉 (大规模文本去重研究, 现代计算机 2019(6)), so each record
lists the lower blocks of its page.
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
from dedup_middleware.model.buckets import FIRST_SIMHASH, KEY_TABLE, LAST_SIMHASH
from dedup_middleware.model.records import BAND_SUFFIX_BITS
from dedup_middleware.signature._vector import bits_lacking, near_words, trailing_zeros

BAND_KEY = 1 << 62  # marks keys of band records; keys without it are SimHash buckets
PROBE, SECOND, SPLIT, SIGNED = 1, 2, 4, 8  # flags of a record; SPLIT: its block has two chunks
NUMBER_SHIFT = 8  # the bits above the flags number the probes
NOTHING = -1  # padding of the rows of ``lower``
LAST_RANK = 64  # rank of the key table, the last of the tables of band records
BITS = 1024  # of a sieve, see :func:`.make_sieve`
HOST, COUNT, FIRST = 0, 1, 2  # words of a sieve: host, number of different shingles, filter
WORDS = FIRST + BITS // 64

_HALF = 8  # words of a filter tested at once; the first ones rule out most pairs
_BLOCK = np.uint64(0xFFFF)
_BIT, _LANES = np.uint64(1), np.uint64(0xFF)
_OWN, _PROBED, _BANDS = 0, 1 << 8, 2 << 8  # ranks of block kinds, lowest first
_CROWDED = 3 << 8  # added to the rank of a crowded block


@attrs.frozen(eq=False)
class Blocks:
    """Records of whole blocks, block by block, in the order of their pages.

    ``starts`` int64[b + 1]: block i has the records ``starts[i]:starts[i + 1]``; ``tables``
    int64[b]; ``split`` int64[b], 1 for two chunks, whose records pair only with those of the other
    chunk. ``orders`` and ``lasts`` int64[n]: orders of the page and of its last exact copy;
    ``simhashes`` uint64[n]; ``flags`` int64[n]: a PROBE finds others and is not found, SECOND is in
    the second chunk, SIGNED has a SimHash and records in its tables; the bits from NUMBER_SHIFT on
    number the probes. ``crowded`` int64[n]: mask of the tables in which the page's key is crowded.
    ``lower`` int64[n, w], padded with NOTHING: bucket keys of the page that may rank lower than
    this record, first probes, then those in tables of band records, by rank. ``sieves`` uint64[n,
    WORDS], see :func:`.make_sieve`.
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
    """Yield the pairs that have to be judged, in parts: rows of pages and rows of their candidates.

    A candidate precedes the page or one of its exact copies. In SimHash tables records pair within
    ``distance`` bits. Pages pair in the lowest block that they share: SimHash tables come first,
    then probes, bands, and the key; crowded blocks, in which a page may have more candidates than
    are compared, come last. Pages of an index have negative orders and are only candidates.

    :param most: largest number of candidates of a page in a whole block, and in a block of two
        chunks: the earliest ones, including those that sieves rule out
    :param limit: see :func:`.limit_of`
    :param capacity: pairs in a part; more if one page may have more
    """
    capacity = max(capacity, *most)
    cursor = np.zeros(2, np.int64)  # block and record to continue with
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
    """The 16 bits of a SimHash that name its bucket in a table."""
    return simhash >> np.uint64(48 - 16 * (table - FIRST_SIMHASH)) & _BLOCK


@subkernel
def _is_simhash(table: Any) -> Any:
    return FIRST_SIMHASH <= table <= LAST_SIMHASH


@subkernel
def _rank(kind: Any, number: Any, crowded: Any, table: Any) -> Any:
    """The rank of a block; ``number``: its place among the blocks of its kind."""
    return kind + number + (_CROWDED if crowded >> table & 1 else 0)


@subkernel
def _band_number(table: Any) -> Any:
    """The place of a table among those of band records; the key table comes last."""
    return LAST_RANK if table == KEY_TABLE else table


@subkernel
def _current(flags: Any, table: Any, crowded: Any) -> Any:
    """Return the rank of the block in which a record with these flags pairs with another."""
    if flags & PROBE:
        return _rank(_PROBED, flags >> NUMBER_SHIFT, crowded, table)
    if _is_simhash(table):
        return _rank(_OWN, table, crowded, table)
    return _rank(_BANDS, _band_number(table), crowded, table)


@subkernel
def _probes(row: Any) -> Any:
    """Return the number of probes at the start of a row of ``lower``."""
    count = 0
    while count < row.size and row[count] >= 0 and _is_simhash(row[count] >> TABLE_SHIFT):
        count += 1
    return count


@subkernel
def _is_lowest(
    other: Any, differing: Any, near: Any, near_probed: Any, mine: Any, theirs: Any, crowded: Any,
    current: Any,
) -> Any:  # fmt: skip
    """Whether two pages of one block share no block of a lower rank.

    :param other: the candidate's SimHash; ``theirs`` is its row of ``lower``, ``crowded`` its mask
    :param near: whether the SimHashes are close enough to pair; ``near_probed``: to pair by a probe
    :param mine: the page's row of ``lower``
    """
    first = _probes(mine)
    if near:
        for table in range(FIRST_SIMHASH, LAST_SIMHASH + 1):
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
            if _rank(_BANDS, _band_number(table), crowded, table) < current:
                return False
            i += 1
            j += 1
            continue
        ahead = _band_number(table) <= _band_number(its)
        behind = _band_number(its) <= _band_number(table)
        i += ahead
        j += behind
    return True


@subkernel
def _may_match(sieves: Any, own: Any, other: Any, limit: Any) -> Any:
    """Whether a pair must be judged, as its sieves do not rule it out. They never rule out pages of
    one host, since text that several of them share does not count (see
    :mod:`dedup_middleware.methods.content`), nor candidates without a sieve."""
    if sieves[other, COUNT] == 0:
        return True
    count = np.float64(sieves[own, COUNT])
    # The estimate for a short page is less certain: allow three standard deviations.
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
        # Testing sieves first is cheaper than finding the lowest block. In blocks in which a page
        # may have more candidates than are counted, they are tested last.
        all_counted = end - begin <= most
        first = cursor[1] if block == cursor[0] else 0
        for i in range(begin + first, end):
            if found + most > len(page):
                cursor[0], cursor[1] = block, i - begin
                return found
            if orders[i] < 0:
                continue
            # A probe's bucket has one bit flipped, so its SimHash may differ in one bit more.
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
    """Return the tables in which each of n rows is a candidate of its owner: masks int64[n].

    :param owners: int64[n], the row of the page whose candidate each row is; the mask of a row that
        is its own owner is 0
    :param starts: int64[n + 1]; row i has the bucket keys ``places[starts[i]:starts[i + 1]]``, and
        those of an owner include its probes
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
