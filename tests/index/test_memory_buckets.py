"""The buckets of the memory index do what a dictionary of byte strings does."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dedup_middleware.index.layout import BUCKET_LIMIT, record
from dedup_middleware.index.memory_buckets import MANY, MOST, ODD, Buckets
from dedup_middleware.index.records import NARROW, WIDE
from dedup_middleware.index.scan import neighbours
from dedup_middleware.index.tables import Neighbours, Slot, Slots

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
    """A page is told of the same neighbours; without any it is entered, and only then."""
    buckets, model = Buckets(), Model()
    for number, (slots, probes) in enumerate(proposed, first):
        expected = model.near((*slots, *probes), distance)
        words = Slots.of((*slots, *probes)).words
        count = buckets.propose(words, len(slots), distance, number)
        assert count == len(expected)
        if count:
            numbers, tables = buckets.found(count)
            np.testing.assert_array_equal(numbers, expected.numbers)
            np.testing.assert_array_equal(tables, expected.tables)
        else:
            assert buckets.left_out() == 0
            model.enter(slots, number)
    same(buckets, model)


@given(st.lists(st.lists(narrow | wide, unique_by=lambda slot: slot.bucket).map(tuple)))
def test_entering_is_that_of_a_dictionary(entered: list[tuple[Slot, ...]]) -> None:
    """Pages that are entered whatever stands there get a record in each bucket."""
    buckets, model = Buckets(), Model()
    for number, slots in enumerate(entered, 1):
        assert buckets.enter(Slots.of(slots).words, number) == 0
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
        assert buckets.enter(Slots.of(slots).words, number) == 0
        model.enter(slots, number)
    same(buckets, model)


def test_full_buckets_take_no_more() -> None:
    """A bucket takes whole records up to its limit; those left out are counted."""
    for slot, width in ((Slot(6 << 16, 5), NARROW), (Slot(2 << 16, 5), WIDE)):
        buckets = Buckets()
        fits = BUCKET_LIMIT // width
        data = b"".join(record(slot, number) for number in range(1, fits + 4))
        assert buckets.extend([slot.bucket], data, [0, len(data)], width) == 3
        assert buckets.get(slot.bucket) == data[: fits * width]
        other = Slot(slot.bucket, 0xFFFFFF)
        words = Slots.of((other, Slot(9 << 16, 1))).words
        assert buckets.enter(words, 7) == 1
        assert buckets.propose(Slots.of((Slot(slot.bucket, 1 << 20),)).words, 1, 0, 8) == 0
        assert buckets.left_out() == 1
        assert buckets.get(slot.bucket) == data[: fits * width]
        assert buckets.get(9 << 16) == record(Slot(9 << 16, 1), 7)


def test_more_neighbours_than_can_be_told() -> None:
    """Beyond the most neighbours that are told the answer says so, and nothing is entered."""
    buckets, slot = Buckets(), Slot(6 << 16, 5)
    for number in range(1, MOST + 1):
        buckets.enter(Slots.of((slot,)).words, number)
    assert buckets.propose(Slots.of((slot,)).words, 1, 0, 9999) == MOST
    buckets.enter(Slots.of((slot,)).words, MOST + 1)
    assert buckets.propose(Slots.of((slot,)).words, 1, 0, 9999) == MANY
    assert buckets.nbytes == (MOST + 1) * NARROW


def test_bytes_of_no_record() -> None:
    """Bytes behind the last whole record are noticed, and nothing is entered."""
    for slot in (Slot(6 << 16, 5), Slot(2 << 16, 5)):
        buckets = Buckets()
        buckets.put(slot.bucket, record(slot, 1) + b"odd")
        assert buckets.propose(Slots.of((slot,)).words, 1, 0, 2) == ODD
        assert buckets.get(slot.bucket) == record(slot, 1) + b"odd"
        assert buckets.enter(Slots.of((slot,)).words, 2) == 0
        assert buckets.get(slot.bucket) == record(slot, 1) + b"odd" + record(slot, 2)
