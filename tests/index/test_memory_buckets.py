"""The buckets of the memory index do what a dictionary of byte strings does."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from dedup_middleware.index.memory.arrays import MOST, NO_IDS, Buckets, Look
from dedup_middleware.index.scan import neighbours
from dedup_middleware.model.buckets import (
    BUCKET_LIMIT,
    FIRST_BAND_TABLE,
    NON_SIMHASH_TABLES,
    Neighbours,
    Slot,
    Slots,
    record,
)
from dedup_middleware.model.records import BAND_RECORD, NUMBER_MASK, SIMHASH_RECORD

# Few buckets, so that they fill; heads of ones, so that matches across two records would show.
narrow = st.builds(
    lambda table, bucket, head: Slot(table << 16 | bucket, head),
    st.sampled_from((0, 1, 6, 7, 40)),
    st.integers(0, 2),
    st.sampled_from((0, 0x010101, 0x010102, 0xFFFFFF)),
)
wide = st.builds(
    lambda table, bucket, head: Slot(table << 16 | bucket, head),
    st.sampled_from((2, 3, 4, 5)),
    st.integers(0, 1),
    st.integers(0, 20).map(lambda bits: (1 << bits) - 1) | st.integers(0, (1 << 48) - 1),
)
pages = st.lists(
    st.tuples(
        st.lists(narrow | wide, max_size=9, unique_by=lambda slot: slot.bucket).map(tuple),
        st.lists(narrow | wide, max_size=3).map(tuple),
    ),
    max_size=80,
)


def enter(buckets: Buckets, words: NDArray[np.uint64], number: int) -> int:
    """Enter a page whatever is stored; returns the records left out of full buckets."""
    look = Look()
    everything = (NUMBER_MASK, NO_IDS[1])
    assert buckets.propose(words, len(words) // 2, 0, number, everything, look)
    assert look.count == 0
    return look.counts()[2]


class Model:
    """The same in a dictionary, scanned by the kernel that all indexes share."""

    def __init__(self) -> None:
        self.held: dict[int, bytes] = defaultdict(bytes)

    def near(self, slots: tuple[Slot, ...], distance: int) -> Neighbours:
        """Neighbours of a page."""
        return neighbours(slots, [self.held[slot.bucket] for slot in slots], distance)

    def enter(self, slots: tuple[Slot, ...], number: int) -> None:
        """Give a page its records."""
        for slot in slots:
            self.held[slot.bucket] += record(slot, number)


def same(buckets: Buckets, model: Model) -> None:
    """Both hold the same."""
    held = {bucket: raw for bucket, raw in model.held.items() if raw}
    assert {name: buckets.get(name) for name in buckets.names()} == held
    assert buckets.names() == sorted(held)
    assert len(buckets) == len(held)
    assert buckets.nbytes == sum(map(len, held.values()))


@given(pages, st.integers(0, 64), st.sampled_from((1, 0x0101010101, (1 << 40) - 200)))
def test_proposals_are_those_of_a_dictionary(
    proposed: list[tuple[tuple[Slot, ...], tuple[Slot, ...]]], distance: int, first: int
) -> None:
    """A page gets the same candidates; without any in a narrow table it is entered, and only
    then. Candidates that are known are left out."""
    buckets, model = Buckets(), Model()
    look = Look()
    for number, (slots, probes) in enumerate(proposed, first):
        expected = model.near((*slots, *probes), distance)
        words = Slots.of((*slots, *probes)).words
        is_narrow = (expected.tables & np.uint64(NON_SIMHASH_TABLES)) != 0
        look.begin()
        entered = buckets.propose(words, len(slots), distance, number, NO_IDS, look)
        assert entered == (not is_narrow.any())
        np.testing.assert_array_equal(look.numbers, expected.numbers)
        np.testing.assert_array_equal(look.tables, expected.tables)
        if entered:
            assert look.counts()[2] == 0
            model.enter(slots, number)
            continue
        # All but one of those that block it are known: that one does, and none does without it.
        blocking = expected.numbers[is_narrow]
        for last in (blocking[-1], None):
            known = blocking if last is None else blocking[:-1]
            look.begin()
            entered = buckets.propose(words, len(slots), distance, number, (0, known), look)
            assert entered == (last is None)
            keep = ~np.isin(expected.numbers, known)
            np.testing.assert_array_equal(look.numbers, expected.numbers[keep])
        model.enter(slots, number)
    same(buckets, model)


@given(st.lists(st.lists(narrow | wide, unique_by=lambda slot: slot.bucket).map(tuple)))
def test_entering_is_that_of_a_dictionary(entered: list[tuple[Slot, ...]]) -> None:
    """Pages that are entered whatever stands there get a record in each bucket."""
    buckets, model = Buckets(), Model()
    for number, slots in enumerate(entered, 1):
        assert enter(buckets, Slots.of(slots).words, number) == 0
        model.enter(slots, number)
    same(buckets, model)


@given(
    st.lists(st.tuples(st.integers(0, 3 << 16), st.binary(max_size=3000), st.booleans())),
)
def test_bytes_are_put_and_added(written: list[tuple[int, bytes, bool]]) -> None:
    """Any bytes can be put into a bucket in place of others, or behind them."""
    buckets, model = Buckets(), Model()
    for bucket, data, anew in written:
        if anew:
            buckets.put(bucket, data)
            model.held[bucket] = data
        else:
            assert buckets.extend([bucket], data, [0, len(data)], 1) == 0
            model.held[bucket] += data
    same(buckets, model)


def test_buckets_that_grow_move_and_stay_whole() -> None:
    """20,000 pages in few buckets: what was entered first is still found."""
    buckets, model = Buckets(), Model()
    for number in range(1, 20_001):
        slots = (
            Slot(6 << 16 | number % 7, number),
            Slot(7 << 16 | number % 4001, number),
            Slot(2 << 16 | number % 5, number * 0x9E3779B97F4A % (1 << 48)),
        )
        assert enter(buckets, Slots.of(slots).words, number) == 0
        model.enter(slots, number)
    same(buckets, model)


def test_full_buckets_take_no_more() -> None:
    """A bucket takes whole records up to its limit; those left out are counted."""
    for slot, width in (
        (Slot(FIRST_BAND_TABLE << 16, 5), BAND_RECORD),
        (Slot(2 << 16, 5), SIMHASH_RECORD),
    ):
        buckets = Buckets()
        fits = BUCKET_LIMIT // width
        data = b"".join(record(slot, number) for number in range(1, fits + 4))
        assert buckets.extend([slot.bucket], data, [0, len(data)], width) == 3
        assert buckets.get(slot.bucket) == data[: fits * width]
        other = Slot(slot.bucket, 0xFFFFFF)
        words = Slots.of((other, Slot(9 << 16, 1))).words
        assert enter(buckets, words, 7) == 1
        look = Look()
        alone = Slots.of((Slot(slot.bucket, 1 << 20),)).words
        assert buckets.propose(alone, 1, 0, 8, NO_IDS, look)
        assert look.counts()[2] == 1
        assert buckets.get(slot.bucket) == data[: fits * width]
        assert buckets.get(9 << 16) == record(Slot(9 << 16, 1), 7)


def test_more_candidates_than_are_returned() -> None:
    """Beyond the most candidates of one look the answer says so, and nothing is entered."""
    buckets, slot, look = Buckets(), Slot(FIRST_BAND_TABLE << 16, 5), Look()
    words = Slots.of((slot,)).words
    for number in range(1, MOST + 1):
        enter(buckets, words, number)
    assert not buckets.propose(words, 1, 0, 9999, NO_IDS, look)
    assert len(look.numbers) == MOST
    assert not look.is_cut
    enter(buckets, words, MOST + 1)
    look.begin()
    assert not buckets.propose(words, 1, 0, 9999, NO_IDS, look)
    assert look.is_cut
    assert look.numbers.tolist() == list(range(1, MOST + 1))
    assert buckets.nbytes == (MOST + 1) * BAND_RECORD
    # Candidates of the SimHash tables block nothing, however many there are.
    wide = Slots.of((Slot(2 << 16, 5),)).words
    for number in range(1, MOST + 2):
        enter(buckets, wide, number)
    look.begin()
    assert buckets.propose(wide, 1, 0, 9999, NO_IDS, look)
    assert look.is_cut


def test_looks_at_several_generations_add_up() -> None:
    """What older buckets hold is gathered, and blocks the claim of a page in the newest ones."""
    slot, far = Slot(FIRST_BAND_TABLE << 16, 5), Slot(2 << 16, 0)
    words = Slots.of((slot, far)).words
    older, newest, look = Buckets(), Buckets(), Look()
    enter(older, words, 3)
    older.put(far.bucket, older.get(far.bucket) + b"odd")
    enter(newest, Slots.of((far,)).words, 8)
    older.look(words, 0, NO_IDS, look)
    assert not newest.propose(words, 2, 0, 9, NO_IDS, look)
    assert look.numbers.tolist() == [3, 8]
    assert look.tables.tolist() == [1 << FIRST_BAND_TABLE | 1 << 2, 1 << 2]
    assert look.counts()[1] == 3
    look.begin()
    known = (0, np.array([3], np.uint64))
    older.look(words, 0, known, look)
    assert newest.propose(words, 2, 0, 9, known, look)
    assert look.numbers.tolist() == [8]
    assert newest.get(slot.bucket) == record(slot, 9)
    assert older.get(slot.bucket) == record(slot, 3)


def test_bytes_of_no_record() -> None:
    """Bytes behind the last whole record are counted, hide nothing, and make way for a record."""
    for slot in (Slot(FIRST_BAND_TABLE << 16, 5), Slot(2 << 16, 5)):
        buckets, look = Buckets(), Look()
        words = Slots.of((slot,)).words
        buckets.put(slot.bucket, record(slot, 1) + b"odd")
        assert buckets.propose(words, 1, 0, 2, (1, NO_IDS[1]), look)
        assert look.counts()[1] == 3
        assert buckets.get(slot.bucket) == record(slot, 1) + record(slot, 2)
        assert buckets.nbytes == 2 * slot.width
        buckets.put(slot.bucket, b"odd")
        assert buckets.extend([slot.bucket], record(slot, 4), [0, slot.width], slot.width) == 0
        assert buckets.get(slot.bucket) == record(slot, 4)
        assert len(buckets) == 1
