"""Who stands beside whom: the records of buckets, sorted, to pairs of pages.

A block is what one task compares: the records of one bucket, or the two chunks of a bucket that
was split. Records of a block are sorted by the order of their pages.
"""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
from numba import types
from numpy.typing import NDArray

from dedup_middleware.index.tables import SIMHASH_TABLES
from dedup_middleware.signature._jit import I64, R64, RI64, inlined, kernel
from dedup_middleware.signature._vector import popcount

PROBE, SECOND = 1, 2  # flags of a record
_BLOCK = np.uint64(0xFFFF)
_FIRST_WIDE, _LAST_WIDE = SIMHASH_TABLES[0], SIMHASH_TABLES[-1]


@attrs.frozen(eq=False)
class Blocks:
    """Records of some whole blocks, block by block, sorted by order.

    ``starts`` int64[b + 1]: records of block i are ``starts[i]:starts[i + 1]``; ``tables`` int64[b]
    and ``split`` int64[b], 1 for two chunks, which are compared with each other only. ``orders``
    and ``lasts`` int64[n]: of the page and of its last exact copy; ``simhashes`` uint64[n], 0 in
    narrow tables; ``flags`` int64[n]: PROBE looks for others and is not found itself, SECOND is of
    the second chunk.
    """

    starts: NDArray[np.int64]
    tables: NDArray[np.int64]
    split: NDArray[np.int64]
    orders: NDArray[np.int64]
    lasts: NDArray[np.int64]
    simhashes: NDArray[np.uint64]
    flags: NDArray[np.int64]


def pairs(
    blocks: Blocks, distance: int, most: tuple[int, int], room: int, at: tuple[int, int]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], tuple[int, int]]:
    """The next pairs of some blocks: pages, their candidates, and masks of tables.

    A candidate comes before the page or before one of its exact copies. Records of SimHash tables
    pair within ``distance`` bits, and in the first block alone that both have in common; the mask
    tells the others. Pages below 0 are those of an index and pair with no other one.

    :param most: candidates of a page in one block, at the most, the earliest ones; and the same
        for a block of two chunks
    :param room: pairs returned at the most; at least the larger of ``most``
    :param at: block and record to go on with, (0, 0) at first
    :returns: also the next ``at``; the block is ``len(blocks.tables)`` when all is done
    """
    page = np.empty(room, np.int64)
    candidate = np.empty(room, np.int64)
    masks = np.empty(room, np.int64)
    cursor = np.array(at, np.int64)
    found = _pairs(
        blocks.starts, blocks.tables, blocks.split, blocks.orders, blocks.lasts,
        blocks.simhashes, blocks.flags, distance, *most, cursor, page, candidate, masks,
    )  # fmt: skip
    return page[:found], candidate[:found], masks[:found], (int(cursor[0]), int(cursor[1]))


@inlined
def _earlier_block(differing: Any, table: Any) -> Any:
    """Whether two SimHashes have a block in common that an earlier table begins with."""
    for other in range(_FIRST_WIDE, table):
        if differing >> np.uint64(48 - 16 * (other - _FIRST_WIDE)) & _BLOCK == 0:
            return True
    return False


@inlined
def _common_blocks(differing: Any) -> Any:
    """Mask of the SimHash tables whose block two SimHashes have in common."""
    mask = 0
    for other in range(_FIRST_WIDE, _LAST_WIDE + 1):
        if differing >> np.uint64(48 - 16 * (other - _FIRST_WIDE)) & _BLOCK == 0:
            mask |= 1 << other
    return mask


@kernel(
    types.int64(
        RI64,
        RI64,
        RI64,
        RI64,
        RI64,
        R64,
        RI64,
        types.int64,
        types.int64,
        types.int64,
        I64,
        I64,
        I64,
        I64,
    )
)
def _pairs(
    starts: Any, tables: Any, split: Any, orders: Any, lasts: Any, simhashes: Any, flags: Any,
    distance: Any, of_whole: Any, of_split: Any, cursor: Any, page: Any, candidate: Any, masks: Any,
) -> Any:  # fmt: skip
    found = 0
    for block in range(cursor[0], len(tables)):
        begin, end = starts[block], starts[block + 1]
        table = tables[block]
        wide = _FIRST_WIDE <= table <= _LAST_WIDE
        most = of_split if split[block] else of_whole
        first = cursor[1] if block == cursor[0] else 0
        for i in range(begin + first, end):
            if found + most > len(page):
                cursor[0], cursor[1] = block, i - begin
                return found
            if orders[i] < 0:
                continue
            probe = flags[i] & PROBE
            mine = 0
            for j in range(begin, end):
                if orders[j] >= lasts[i] or mine == most:
                    break
                if orders[j] == orders[i] or flags[j] & PROBE:
                    continue
                if split[block] and not (flags[i] ^ flags[j]) & SECOND:
                    continue
                mask = 1 << table
                if wide:
                    differing = simhashes[i] ^ simhashes[j]
                    # The flipped bit of a probe is in the name of the bucket.
                    if np.int64(popcount(differing)) - probe > distance:
                        continue
                    if not probe:
                        if _earlier_block(differing, table):
                            continue
                        mask = _common_blocks(differing)
                page[found] = orders[i]
                candidate[found] = orders[j]
                masks[found] = mask
                found += 1
                mine += 1
    cursor[0], cursor[1] = len(tables), 0
    return found
