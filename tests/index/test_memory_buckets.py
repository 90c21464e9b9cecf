"""The buckets of the memory index do what a dictionary of byte strings does."""

from __future__ import annotations

import os
import tracemalloc
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from dedup_middleware.index.memory import bucket_kernels as kernels
from dedup_middleware.index.memory.arrays import END, MOST, NO_IDS, Buckets, Hits, _Memory
from dedup_middleware.index.memory.index import MemoryIndex
from dedup_middleware.index.scan import neighbours
from dedup_middleware.model.buckets import (
    BUCKET_LIMIT,
    FIRST_BAND_TABLE,
    NON_SIMHASH_TABLES,
    BucketKey,
    BucketKeys,
    Neighbours,
    record,
)
from dedup_middleware.model.claims import Claimed, Entry
from dedup_middleware.model.records import BAND_RECORD, CONTENT, PAGE_ID_MASK, SIMHASH_RECORD

# Few buckets, so that they fill; heads of ones, so that matches across two records would show.
narrow = st.builds(
    lambda table, bucket, suffix: BucketKey(table << 16 | bucket, suffix),
    st.sampled_from((0, 1, 6, 7, 40)),
    st.integers(0, 2),
    st.sampled_from((0, 0x010101, 0x010102, 0xFFFFFF)),
)
wide = st.builds(
    lambda table, bucket, suffix: BucketKey(table << 16 | bucket, suffix),
    st.sampled_from((2, 3, 4, 5)),
    st.integers(0, 1),
    st.integers(0, 20).map(lambda bits: (1 << bits) - 1) | st.integers(0, (1 << 48) - 1),
)
pages = st.lists(
    st.tuples(
        st.lists(narrow | wide, max_size=9, unique_by=lambda bucket_key: bucket_key.bucket).map(
            tuple
        ),
        st.lists(narrow | wide, max_size=3).map(tuple),
    ),
    max_size=80,
)


def enter(buckets: Buckets, words: NDArray[np.uint64], number: int) -> int:
    """Enter a page whatever is stored; returns the records left out of full buckets."""
    hits = Hits()
    everything = (PAGE_ID_MASK, NO_IDS[1])
    assert buckets.propose(words, len(words) // 2, 0, number, everything, hits)
    assert hits.count == 0
    return hits.left_out


class Model:
    """The same buckets in a dictionary, scanned by the kernel that all indexes share."""

    def __init__(self) -> None:
        self.held: dict[int, bytes] = defaultdict(bytes)

    def near(self, bucket_keys: tuple[BucketKey, ...], distance: int) -> Neighbours:
        """Neighbours of a page."""
        return neighbours(
            bucket_keys, [self.held[bucket_key.bucket] for bucket_key in bucket_keys], distance
        )

    def enter(self, bucket_keys: tuple[BucketKey, ...], number: int) -> None:
        """Give a page its records."""
        for bucket_key in bucket_keys:
            self.held[bucket_key.bucket] += record(bucket_key, number)


def same(buckets: Buckets, model: Model) -> None:
    """Check that both hold the same."""
    held = {bucket: raw for bucket, raw in model.held.items() if raw}
    assert {name: buckets.get(name) for name in buckets.names()} == held
    assert buckets.names() == sorted(held)
    assert len(buckets) == len(held)
    assert buckets.nbytes == sum(map(len, held.values()))


@given(pages, st.integers(0, 64), st.sampled_from((1, 0x0101010101, (1 << 40) - 200)))
def test_proposals_are_those_of_a_dictionary(
    proposed: list[tuple[tuple[BucketKey, ...], tuple[BucketKey, ...]]], distance: int, first: int
) -> None:
    """A page gets the same candidates; without any in a table of band records it is entered,
    and only then. Candidates that are known are left out."""
    buckets, model = Buckets(), Model()
    hits = Hits()
    for number, (bucket_keys, probes) in enumerate(proposed, first):
        expected = model.near((*bucket_keys, *probes), distance)
        words = BucketKeys.of((*bucket_keys, *probes)).words
        is_narrow = (expected.tables & np.uint64(NON_SIMHASH_TABLES)) != 0
        hits.begin()
        entered = buckets.propose(words, len(bucket_keys), distance, number, NO_IDS, hits)
        assert entered == (not is_narrow.any())
        np.testing.assert_array_equal(hits.neighbours().page_ids, expected.page_ids)
        np.testing.assert_array_equal(hits.neighbours().tables, expected.tables)
        if entered:
            assert hits.left_out == 0
            model.enter(bucket_keys, number)
            continue
        # If all blocking pages but one are known, that one blocks; if all are known, none does.
        blocking = expected.page_ids[is_narrow]
        for last in (blocking[-1], None):
            known = blocking if last is None else blocking[:-1]
            hits.begin()
            entered = buckets.propose(words, len(bucket_keys), distance, number, (0, known), hits)
            assert entered == (last is None)
            keep = ~np.isin(expected.page_ids, known)
            np.testing.assert_array_equal(hits.neighbours().page_ids, expected.page_ids[keep])
        model.enter(bucket_keys, number)
    same(buckets, model)


@given(st.lists(st.lists(narrow | wide, unique_by=lambda bucket_key: bucket_key.bucket).map(tuple)))
def test_entering_is_that_of_a_dictionary(entered: list[tuple[BucketKey, ...]]) -> None:
    """Pages that are entered regardless of other records get a record in each bucket."""
    buckets, model = Buckets(), Model()
    for number, bucket_keys in enumerate(entered, 1):
        assert enter(buckets, BucketKeys.of(bucket_keys).words, number) == 0
        model.enter(bucket_keys, number)
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
        bucket_keys = (
            BucketKey(6 << 16 | number % 7, number),
            BucketKey(7 << 16 | number % 4001, number),
            BucketKey(2 << 16 | number % 5, number * 0x9E3779B97F4A % (1 << 48)),
        )
        assert enter(buckets, BucketKeys.of(bucket_keys).words, number) == 0
        model.enter(bucket_keys, number)
    same(buckets, model)


def test_growth_makes_no_array_of_all_buckets() -> None:
    """Half a million buckets are laid out anew, some at a time: less than 8 bytes a bucket."""
    buckets, count = Buckets(), 1 << 19
    data = bytes(8) * count
    assert buckets.extend(list(range(count)), data, list(range(0, 8 * count + 1, 8)), 8) == 0
    words = BucketKeys.of((BucketKey(40 << 16, 5),)).words  # a table that the array lacks
    tracemalloc.start()
    try:
        enter(buckets, words, 7)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 * count
    assert len(buckets) == count + 1
    assert buckets.get(count - 1) == bytes(8)


@pytest.mark.parametrize(
    ("error", "times"),
    [(KeyboardInterrupt, (30,)), (KeyboardInterrupt, (30, 40)), (MemoryError, (30,))],
)
def test_growth_that_is_interrupted_loses_nothing(
    monkeypatch: pytest.MonkeyPatch, error: type[BaseException], times: tuple[int, ...]
) -> None:
    """Where growth is interrupted after some buckets have moved, all hold what they held, also if
    Ctrl-C is pressed again."""
    buckets, model = Buckets(), Model()
    count, size = 1 << 12, 1024  # several huge pages, which are given back meanwhile
    data = bytes(range(256)) * (count * size // 256)
    buckets.extend(list(range(count)), data, list(range(0, len(data) + 1, size)), BAND_RECORD)
    model.held.update({n: data[n * size : (n + 1) * size] for n in range(count)})
    release, calls = _Memory.release, [0]

    def interrupted(memory: _Memory, first: int, end: int) -> None:
        release(memory, first, end)
        calls[0] += 1
        if calls[0] in times:
            raise error

    monkeypatch.setattr(_Memory, "release", interrupted)
    with pytest.raises(error):
        enter(buckets, BucketKeys.of((BucketKey(40 << 16, 5),)).words, 7)
    same(buckets, model)
    assert calls[0] > times[-1]


@pytest.mark.slow
def test_buckets_take_little_more_than_their_records() -> None:
    """What buckets have left is used again: at no time they take more than 1.7 times their records.
    Where they doubled and left their words behind it was 2.7 times."""
    buckets, rng = Buckets(), np.random.default_rng(1)
    tables = np.array([0, 2, 3, 4, 5, *[6, 7, 8, 9] * 3, 10, 11], np.uint64) << np.uint64(16)
    words = np.zeros(2 * len(tables), np.uint64)
    heads = 16 << 16
    most = 0.0
    for number in range(1, 60_001):
        # A sixteenth of the prefixes, so that there are as many records a bucket as of 10^6 pages.
        words[::2] = tables + rng.integers(0, 1 << 12, len(tables)).astype(np.uint64)
        words[1::2] = rng.integers(0, 1 << 24, len(tables)).astype(np.uint64)
        assert enter(buckets, words, number) == 0
        if number > 20_000:
            most = max(most, (int(buckets._store[END]) - heads) * 8 / buckets.nbytes)
    assert most < 1.7


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux")
def test_growth_gives_back_what_was_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Laying out 64 MB of buckets anew takes at most 16 MB more memory than they take."""
    buckets, count, size = Buckets(), 1 << 13, 8192
    data = bytes(range(256)) * (count * size // 256)
    cuts = list(range(0, len(data) + 1, size))
    buckets.extend(list(range(count)), data, cuts, BAND_RECORD)
    most = [0]
    lay_out = kernels.lay_out

    def watched(*arguments: Any) -> None:
        lay_out(*arguments)
        most[0] = max(most[0], _resident())

    monkeypatch.setattr(kernels, "lay_out", watched)
    before = _resident()
    enter(buckets, BucketKeys.of((BucketKey(40 << 16, 5),)).words, 7)
    assert 0 < most[0] < before + (16 << 20)
    assert buckets.get(count - 1) == data[-size:]


def _resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_full_buckets_take_no_more() -> None:
    """A bucket takes whole records up to its limit; those left out are counted."""
    for bucket_key, width in (
        (BucketKey(FIRST_BAND_TABLE << 16, 5), BAND_RECORD),
        (BucketKey(2 << 16, 5), SIMHASH_RECORD),
    ):
        buckets = Buckets()
        fits = BUCKET_LIMIT // width
        data = b"".join(record(bucket_key, number) for number in range(1, fits + 4))
        assert buckets.extend([bucket_key.bucket], data, [0, len(data)], width) == 3
        assert buckets.get(bucket_key.bucket) == data[: fits * width]
        other = BucketKey(bucket_key.bucket, 0xFFFFFF)
        words = BucketKeys.of((other, BucketKey(9 << 16, 1))).words
        assert enter(buckets, words, 7) == 1
        hits = Hits()
        alone = BucketKeys.of((BucketKey(bucket_key.bucket, 1 << 20),)).words
        assert buckets.propose(alone, 1, 0, 8, NO_IDS, hits)
        assert hits.left_out == 1
        assert buckets.get(bucket_key.bucket) == data[: fits * width]
        assert buckets.get(9 << 16) == record(BucketKey(9 << 16, 1), 7)


def test_more_candidates_than_are_returned() -> None:
    """If there are more candidates than are returned, `is_cut` says so, and nothing is written."""
    buckets, bucket_key, hits = Buckets(), BucketKey(FIRST_BAND_TABLE << 16, 5), Hits()
    words = BucketKeys.of((bucket_key,)).words
    for number in range(1, MOST + 1):
        enter(buckets, words, number)
    assert not buckets.propose(words, 1, 0, 9999, NO_IDS, hits)
    assert len(hits.neighbours().page_ids) == MOST
    assert not hits.is_cut
    enter(buckets, words, MOST + 1)
    hits.begin()
    assert not buckets.propose(words, 1, 0, 9999, NO_IDS, hits)
    assert hits.is_cut
    assert hits.neighbours().page_ids.tolist() == list(range(1, MOST + 1))
    assert buckets.nbytes == (MOST + 1) * BAND_RECORD
    # Candidates of the SimHash tables block nothing, however many there are.
    wide = BucketKeys.of((BucketKey(2 << 16, 5),)).words
    for number in range(1, MOST + 2):
        enter(buckets, wide, number)
    hits.begin()
    assert buckets.propose(wide, 1, 0, 9999, NO_IDS, hits)
    assert hits.is_cut


def test_looks_at_several_generations_add_up() -> None:
    """What older buckets hold is gathered, and blocks the claim of a page in the newest ones."""
    bucket_key, far = BucketKey(FIRST_BAND_TABLE << 16, 5), BucketKey(2 << 16, 0)
    words = BucketKeys.of((bucket_key, far)).words
    older, newest, hits = Buckets(), Buckets(), Hits()
    enter(older, words, 3)
    older.put(far.bucket, older.get(far.bucket) + b"odd")
    enter(newest, BucketKeys.of((far,)).words, 8)
    older.look(words, 0, NO_IDS, hits)
    assert not newest.propose(words, 2, 0, 9, NO_IDS, hits)
    assert hits.neighbours().page_ids.tolist() == [3, 8]
    assert hits.neighbours().tables.tolist() == [1 << FIRST_BAND_TABLE | 1 << 2, 1 << 2]
    assert hits.neighbours().corrupt == 3
    hits.begin()
    known = (0, np.array([3], np.uint64))
    older.look(words, 0, known, hits)
    assert newest.propose(words, 2, 0, 9, known, hits)
    assert hits.neighbours().page_ids.tolist() == [8]
    assert newest.get(bucket_key.bucket) == record(bucket_key, 9)
    assert older.get(bucket_key.bucket) == record(bucket_key, 3)


def test_bytes_of_no_record() -> None:
    """Bytes behind the last whole record are counted, hide nothing, and make way for a record."""
    for bucket_key in (BucketKey(FIRST_BAND_TABLE << 16, 5), BucketKey(2 << 16, 5)):
        buckets, hits = Buckets(), Hits()
        words = BucketKeys.of((bucket_key,)).words
        buckets.put(bucket_key.bucket, record(bucket_key, 1) + b"odd")
        assert buckets.propose(words, 1, 0, 2, (1, NO_IDS[1]), hits)
        assert hits.neighbours().corrupt == 3
        assert buckets.get(bucket_key.bucket) == record(bucket_key, 1) + record(bucket_key, 2)
        assert buckets.nbytes == 2 * bucket_key.width
        buckets.put(bucket_key.bucket, b"odd")
        assert (
            buckets.extend(
                [bucket_key.bucket], record(bucket_key, 4), [0, bucket_key.width], bucket_key.width
            )
            == 0
        )
        assert buckets.get(bucket_key.bucket) == record(bucket_key, 4)
        assert len(buckets) == 1


async def test_growth_of_page_records_that_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """After one failure for lack of memory, the next page is claimed and committed as before."""
    index = MemoryIndex()
    await index.open({"method": "content"})

    async def enter_page(number: int) -> None:
        page = Entry((BucketKey(number, 5),), bytes(CONTENT.itemsize), None)
        made = await index.propose(page, 0, 60.0)
        assert isinstance(made, Claimed)
        assert await index.commit(made.claim)

    for number in range(1023):
        await enter_page(number)
    zeros = np.zeros

    def short(shape: Any, dtype: Any = float) -> NDArray[Any]:
        if dtype == np.uint32:
            raise MemoryError
        return zeros(shape, dtype)

    with monkeypatch.context() as patch:
        patch.setattr(np, "zeros", short)
        with pytest.raises(MemoryError):
            await enter_page(1023)
    for number in range(2000, 2010):
        await enter_page(number)
    assert await index.count() == 1033
