"""Records of blocks to pairs of pages."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedup_middleware.index.pairing import (
    NOTHING,
    NUMBER_SHIFT,
    PROBE,
    SECOND,
    SIGNED,
    WORDS,
    Blocks,
    common_tables,
    pairs,
)
from dedup_middleware.model.buckets import KEY_TABLE, SIMHASH_TABLES
from dedup_middleware.spark.columns import NO_SIEVE
from dedup_middleware.spark.pair_blocks import blocks_of, whole_blocks

Rank = tuple[bool, str, int]  # crowded ones last, then by kind and number
SIMHASH_RECORD, BANDS = 3, (6, 7, 8)  # tables


def block_of(simhash: int, table: int) -> int:
    """The 16 bits that a table of SimHashes begins with."""
    return simhash >> 48 - 16 * (table - 2) & 0xFFFF


def place(table: int, prefix: int, rest: int = 0) -> int:
    """A place as a number."""
    return table << 40 | prefix << 24 | rest


def narrow_rank(table: int) -> int:
    """Of the tables of band records that of the keys comes last."""
    return 99 if table == KEY_TABLE else table


def is_crowded(mask: int, table: int) -> bool:
    """Whether a page has a crowded key there."""
    return bool(mask >> table & 1)


def common_blocks(blocks: Blocks, i: int, j: int, distance: int) -> set[Rank]:
    """Blocks that two pages have in common, as far as their records tell."""
    own, other = int(blocks.simhashes[i]), int(blocks.simhashes[j])
    mask = int(blocks.crowded[j])
    mine = [n for n in blocks.lower[i].tolist() if n != NOTHING]
    theirs = {n for n in blocks.lower[j].tolist() if n != NOTHING and n >> 40 not in SIMHASH_TABLES}
    probes = [n for n in mine if n >> 40 in SIMHASH_TABLES]
    found: set[Rank] = set()
    if blocks.flags[i] & blocks.flags[j] & SIGNED:
        bits = (own ^ other).bit_count()
        for table in SIMHASH_TABLES:
            if bits <= distance and block_of(own, table) == block_of(other, table):
                found.add((is_crowded(mask, table), "a own", table))
        for number, probe in enumerate(probes):
            table = probe >> 40
            if bits - 1 <= distance and probe >> 24 & 0xFFFF == block_of(other, table):
                found.add((is_crowded(mask, table), "b probe", number))
    for one in set(mine) & theirs:
        table = one >> 40
        found.add((is_crowded(mask, table), "c narrow", narrow_rank(table)))
    return found


def rank_of(blocks: Blocks, i: int, j: int, table: int) -> Rank:
    """The rank of the block in which the record of a page meets another one."""
    crowded, flags = is_crowded(int(blocks.crowded[j]), table), int(blocks.flags[i])
    if flags & PROBE:
        return crowded, "b probe", flags >> NUMBER_SHIFT
    if table in SIMHASH_TABLES:
        return crowded, "a own", table
    return crowded, "c narrow", narrow_rank(table)


def may_match(blocks: Blocks, i: int, j: int, limit: float) -> bool:
    """Whether the sieves of two pages, both of host 0, leave them to be judged."""
    own, other = blocks.sieves[i].tolist(), blocks.sieves[j].tolist()
    lacking = sum((a & ~b).bit_count() for a, b in zip(own[2:], other[2:], strict=True))
    return not other[1] or lacking <= limit * own[1] + 0.5 * own[1] ** 0.5


def twin(
    blocks: Blocks, distance: int, most: tuple[int, int], limit: float
) -> list[tuple[int, int]]:
    """The same, one record after the other."""
    found = []
    for block, table in enumerate(blocks.tables.tolist()):
        rows = range(*blocks.starts[block : block + 2].tolist())
        counted = most[int(blocks.split[block])]
        for i in rows:
            own, probe = int(blocks.simhashes[i]), int(blocks.flags[i]) & PROBE
            mine: list[tuple[int, int]] = []
            for j in rows:
                other = int(blocks.simhashes[j])
                near = table != SIMHASH_RECORD or (own ^ other).bit_count() - probe <= distance
                apart = not blocks.split[block] or (blocks.flags[i] ^ blocks.flags[j]) & SECOND
                before = blocks.orders[j] < blocks.lasts[i] and blocks.orders[i] >= 0
                findable = not blocks.flags[j] & PROBE and blocks.orders[i] != blocks.orders[j]
                if near and apart and before and findable:
                    here = rank_of(blocks, i, j, table)
                    if all(one >= here for one in common_blocks(blocks, i, j, distance)):
                        mine.append((i, j))
            # A candidate that a sieve leaves out counts as one that was compared.
            found += [pair for pair in mine[:counted] if may_match(blocks, *pair, limit)]
    return found


@st.composite
def some_blocks(draw: st.DrawFn) -> Blocks:
    """Blocks of a few records that have much in common."""
    counts = draw(st.lists(st.integers(2, 8), min_size=1, max_size=4))
    tables = [draw(st.sampled_from((SIMHASH_RECORD, KEY_TABLE, *BANDS))) for _ in counts]
    split = [draw(st.integers(0, 1)) for _ in counts]
    masks = st.sets(st.sampled_from((*SIMHASH_TABLES, *BANDS, KEY_TABLE)), max_size=3)
    orders, lasts, simhashes, flags, crowded, lower = [], [], [], [], [], []
    for count, table in zip(counts, tables, strict=True):
        for order in sorted(draw(st.lists(st.integers(-5, 30), min_size=count, max_size=count))):
            orders.append(order)
            lasts.append(order + draw(st.sampled_from((0, 0, 6))))
            flag = draw(st.sampled_from((0, SECOND)))
            if table == SIMHASH_RECORD:
                probe = draw(st.sampled_from((0, 0, PROBE)))
                flag |= (
                    SIGNED | probe | draw(st.integers(0, 3)) << NUMBER_SHIFT if probe else SIGNED
                )
            else:
                flag |= draw(st.sampled_from((0, SIGNED, SIGNED)))
            flags.append(flag)
            words = [draw(st.integers(0, 3)) for _ in range(4)]
            # All records of a bucket begin alike, but for the bit that a probe has flipped.
            words[1] = (
                9 ^ bool(flag & PROBE) if table == SIMHASH_RECORD else draw(st.integers(8, 9))
            )
            simhashes.append(sum(word << 48 - 16 * i for i, word in enumerate(words)))
            crowded.append(sum(1 << one for one in draw(masks)))
            probes = draw(st.lists(st.tuples(st.integers(2, 5), st.integers(0, 3)), max_size=2))
            narrow = draw(st.sets(st.sampled_from((*BANDS, KEY_TABLE))))
            row = [place(*one) for one in probes]
            for one in sorted(narrow, key=narrow_rank):
                row.append(place(one, 0, draw(st.integers(0, 1))))
            lower.append(row + [NOTHING] * (7 - len(row)))
    # Bits of the first half of a sieve, and of the second.
    drawn = st.lists(st.sampled_from((0, 1, 15, 1 << 60)), min_size=2, max_size=2)
    sieves = np.zeros((len(orders), WORDS), np.uint64)
    for row in sieves:
        row[[2, WORDS - 1]] = draw(drawn)
        row[1] = np.bitwise_count(row[2:]).sum()
    starts = np.append(0, np.cumsum(counts))
    return Blocks(
        starts.astype(np.int64), np.array(tables), np.array(split), np.array(orders),
        np.array(lasts), np.array(simhashes, np.uint64), np.array(flags), np.array(crowded),
        np.array(lower), sieves,
    )  # fmt: skip


@pytest.mark.slow
@given(
    some_blocks(), st.integers(0, 6), st.tuples(st.integers(1, 5), st.integers(1, 9)),
    st.sampled_from((0.0, 0.5, 2.0)),
)  # fmt: skip
def test_pairs_equal_a_plain_loop(
    blocks: Blocks, distance: int, most: tuple[int, int], limit: float
) -> None:
    """Pages pair in the lowest block they have in common, however few pairs fit."""
    found: list[tuple[int, int]] = []
    for columns in pairs(blocks, distance, most, limit, max(most)):
        found += zip(*(column.tolist() for column in columns), strict=True)
    assert found == twin(blocks, distance, most, limit)


@given(st.lists(st.tuples(
    st.integers(0, 3), st.lists(st.integers(0, 3), min_size=4, max_size=4),
    st.sets(st.tuples(st.sampled_from((0, 2, 3, 4, 5, 6, 7)), st.integers(0, 3))),
), min_size=1, max_size=12), st.integers(0, 4))  # fmt: skip
def test_tables_in_common_equal_a_plain_loop(
    rows: list[tuple[int, list[int], set[tuple[int, int]]]], distance: int
) -> None:
    """Of each candidate all tables that it and the page have in common, probes among them."""
    rows = sorted(rows, key=lambda row: row[0])
    simhashes = [sum(word << 48 - 16 * i for i, word in enumerate(words)) for _, words, _ in rows]
    owners = [next(i for i, row in enumerate(rows) if row[0] == page) for page, _, _ in rows]
    places = []
    for i, (_, words, drawn) in enumerate(rows):
        # A candidate has the buckets of its SimHash; an owner has probes, one bit away.
        flips = {(t, words[t - 2] ^ 1) for t, _ in drawn if t in SIMHASH_TABLES}
        own = {(t, words[t - 2]) for t in SIMHASH_TABLES}
        narrow = {(t, n) for t, n in drawn if t not in SIMHASH_TABLES}
        places.append(
            sorted(place(*one) for one in own | narrow | (flips if owners[i] == i else set()))
        )
    expected = []
    for i, owner in enumerate(owners):
        bits = (simhashes[i] ^ simhashes[owner]).bit_count()
        mask = 0
        for one in places[i] if i != owner else ():
            table, prefix = one >> 40, one >> 24 & 0xFFFF
            if table not in SIMHASH_TABLES:
                mask |= (one in places[owner]) << table
                continue
            probe = prefix != block_of(simhashes[owner], table)
            mask |= (one in places[owner] and bits - probe <= distance) << table
        expected.append(mask)
    starts = np.append(0, np.cumsum([len(one) for one in places]))
    flat = np.array([n for one in places for n in one], np.int64)
    masks = common_tables(np.array(owners), starts, flat, np.array(simhashes, np.uint64), distance)
    assert masks.tolist() == expected


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=1), st.integers(1, 5))
def test_a_block_is_never_cut(keys: list[tuple[int, int]], size: int) -> None:
    """Batches of any size give each block once and whole; blocks of one record are left out."""
    rows = [
        (key, block, i, i, 0, 0, 0, [7] * key, NO_SIEVE)
        for i, (key, block) in enumerate(sorted(keys))
    ]
    names = ["key", "block", "order", "last", "simhash", "flags", "crowded", "lower", "sieve"]
    batches = pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows])
    wholes = list(whole_blocks(batches.to_batches(max_chunksize=size)))
    seen = [
        (int(k), int(b)) for one in wholes for k, b in zip(one["key"], one["block"], strict=True)
    ]
    assert seen == sorted(keys)
    counts = [count for one in wholes for count in np.diff(blocks_of(one).starts).tolist()]
    assert counts == [n for n in map(keys.count, sorted(set(keys))) if n > 1]
