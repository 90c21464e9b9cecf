"""Records of blocks to pairs of pages."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from dedup_middleware.spark.blocks import blocks_of, whole_blocks
from dedup_middleware.spark.pairing import PROBE, SECOND, Blocks, pairs

Pair = tuple[int, int, int]
WIDE, NARROW = 3, 7  # tables


def block_of(simhash: int, table: int) -> int:
    """The 16 bits that a table of SimHashes begins with."""
    return simhash >> 48 - 16 * (table - 2) & 0xFFFF


def twin(blocks: Blocks, distance: int, most: tuple[int, int]) -> list[Pair]:
    """The same, one record after the other."""
    found = []
    for block, table in enumerate(blocks.tables.tolist()):
        rows = range(*blocks.starts[block : block + 2].tolist())
        limit = most[int(blocks.split[block])]
        for i in rows:
            own, probe = int(blocks.simhashes[i]), int(blocks.flags[i]) & PROBE
            mine: list[Pair] = []
            for j in rows:
                other = int(blocks.simhashes[j])
                same = {t for t in range(2, 6) if block_of(own, t) == block_of(other, t)}
                near = table == NARROW or (own ^ other).bit_count() - probe <= distance
                first = table == NARROW or probe or min(same, default=table) == table
                apart = not blocks.split[block] or (blocks.flags[i] ^ blocks.flags[j]) & SECOND
                before = blocks.orders[j] < blocks.lasts[i] and blocks.orders[i] >= 0
                findable = not blocks.flags[j] & PROBE and blocks.orders[i] != blocks.orders[j]
                if near and first and apart and before and findable:
                    tables = {table} if table == NARROW or probe else same
                    mask = sum(1 << t for t in tables)
                    mine.append((int(blocks.orders[i]), int(blocks.orders[j]), mask))
            found += mine[:limit]
    return found


@st.composite
def some_blocks(draw: st.DrawFn) -> Blocks:
    """Blocks of a few records whose SimHashes have blocks in common."""
    counts = draw(st.lists(st.integers(2, 8), min_size=1, max_size=4))
    tables = [draw(st.sampled_from((WIDE, NARROW))) for _ in counts]
    split = [draw(st.integers(0, 1)) for _ in counts]
    orders, lasts, simhashes, flags = [], [], [], []
    for count, table in zip(counts, tables, strict=True):
        for order in sorted(draw(st.lists(st.integers(-5, 30), min_size=count, max_size=count))):
            orders.append(order)
            lasts.append(order + draw(st.sampled_from((0, 0, 6))))
            flag = draw(st.sampled_from((0, SECOND))) | draw(st.sampled_from((0, 0, PROBE)))
            flags.append(flag if table == WIDE else flag & SECOND)
            words = [draw(st.integers(0, 3)) for _ in range(4)]
            # All records of a bucket begin alike, but for the bit that a probe has flipped.
            words[1] = 9 ^ bool(flags[-1] & PROBE)
            value = sum(word << 48 - 16 * i for i, word in enumerate(words))
            simhashes.append(value if table == WIDE else 0)
    starts = np.append(0, np.cumsum(counts))
    return Blocks(
        starts.astype(np.int64), np.array(tables), np.array(split), np.array(orders),
        np.array(lasts), np.array(simhashes, np.uint64), np.array(flags),
    )  # fmt: skip


@given(some_blocks(), st.integers(0, 6), st.tuples(st.integers(1, 5), st.integers(1, 5)))
def test_pairs_equal_a_plain_loop(blocks: Blocks, distance: int, most: tuple[int, int]) -> None:
    """Whatever the blocks are, and however small the room for pairs is."""
    found: list[Pair] = []
    at = (0, 0)
    while at[0] < len(blocks.tables):
        *columns, at = pairs(blocks, distance, most, max(most), at)
        found += zip(*(column.tolist() for column in columns), strict=True)
    assert found == twin(blocks, distance, most)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=1), st.integers(1, 5))
def test_a_block_is_never_cut(keys: list[tuple[int, int]], size: int) -> None:
    """Batches of any size give each block once and whole; blocks of one record are left out."""
    rows = [(key, block, i, i, 0, 0) for i, (key, block) in enumerate(sorted(keys))]
    names = ["key", "block", "order", "last", "simhash", "flags"]
    batches = pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows])
    wholes = list(whole_blocks(batches.to_batches(max_chunksize=size)))
    seen = [
        (int(k), int(b)) for one in wholes for k, b in zip(one["key"], one["block"], strict=True)
    ]
    assert seen == sorted(keys)
    counts = [count for one in wholes for count in np.diff(blocks_of(one).starts).tolist()]
    assert counts == [n for n in map(keys.count, sorted(set(keys))) if n > 1]
