from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from dedup_middleware.signature.hamming import distances, nearest, within, within_many
from tests.signature import oracles

QUERY = 0x0123456789ABCDEF
# Around the steps of 8 and 64 codes, and the tile of 2,048.
SIZES = [0, 1, 7, 8, 9, 63, 64, 65, 127, 128, 129, 200, 2047, 2048, 2049, 5000]


@given(oracles.codes(), oracles.words, st.integers(0, 64))
@example(np.zeros(200, dtype=np.uint64), 0, 0)
@example(np.zeros(200, dtype=np.uint64), oracles.WORD, 64)
def test_within_equals_the_plain_scan(
    fingerprints: NDArray[np.uint64], query: int, distance: int
) -> None:
    """All positions within the distance are found, in ascending order, and no other."""
    found = within(fingerprints, query, distance)
    assert found.dtype == np.int64
    assert found.tolist() == oracles.within(fingerprints, query, distance)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("distance", [0, 1, 2, 3, 4, 7, 20, 32, 63, 64])
def test_within_at_every_size_and_distance(size: int, distance: int) -> None:
    """Blocks, tails and both ways to look at a block (up to three bits, and beyond) agree."""
    fingerprints = oracles.random_codes(size, size)
    near = oracles.flipped(np.full(size // 5, QUERY, dtype=np.uint64), min(distance, 63), 1)
    fingerprints[: near.size * 5 : 5][: near.size] = near
    assert within(fingerprints, QUERY, distance).tolist() == oracles.within(
        fingerprints, QUERY, distance
    )


def test_every_lane_of_a_block_is_seen() -> None:
    """A lone hit is found wherever it stands, with its bits flipped anywhere."""
    for position in range(150):
        fingerprints = np.full(150, ~np.uint64(QUERY), dtype=np.uint64)
        fingerprints[position] = oracles.flipped(np.array([QUERY], dtype=np.uint64), 3, position)[0]
        assert within(fingerprints, QUERY, 3).tolist() == [position]
        assert within(fingerprints, QUERY, 2).tolist() == []
        assert nearest(fingerprints, QUERY) == (position, 3)


def test_more_hits_than_first_room() -> None:
    """The list of hits grows as far as it must."""
    fingerprints = np.full(10_000, QUERY, dtype=np.uint64)
    assert within(fingerprints, QUERY, 0).tolist() == list(range(10_000))


@given(oracles.codes(), oracles.words)
def test_distances_equal_bitwise_count(fingerprints: NDArray[np.uint64], query: int) -> None:
    """Each 64-bit code has its own distance, in a byte."""
    found = distances(fingerprints, query)
    assert found.dtype == np.uint8
    assert found.tolist() == oracles.hamming(fingerprints, query).tolist()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("width", [1, 2, 3, 8, 16])
def test_distances_of_longer_codes(size: int, width: int) -> None:
    """Codes of 64 to 1,024 bits have the sum over their words; the nearest is the first minimum."""
    rows = oracles.random_codes(size * width, size).reshape(size, width)
    query = oracles.random_codes(width, 99)
    expected = np.bitwise_count(rows ^ query).sum(axis=1)
    found = distances(rows, query)
    assert found.dtype == np.uint16
    assert found.tolist() == expected.tolist()
    if size:
        assert nearest(rows, query) == (int(expected.argmin()), int(expected.min()))


@given(oracles.codes().filter(len), oracles.words)
@example(np.full(130, oracles.WORD, dtype=np.uint64), 0)
def test_nearest_is_the_first_minimum(fingerprints: NDArray[np.uint64], query: int) -> None:
    """Ties go to the lowest position."""
    expected = oracles.hamming(fingerprints, query)
    assert nearest(fingerprints, query) == (int(expected.argmin()), int(expected.min()))


@pytest.mark.parametrize("size", SIZES)
def test_nearest_at_every_size(size: int) -> None:
    """Blocks and tails agree on the nearest."""
    fingerprints = oracles.random_codes(size, size + 1)
    if not size:
        with pytest.raises(ValueError, match="empty"):
            nearest(fingerprints, QUERY)
        return
    expected = oracles.hamming(fingerprints, QUERY)
    assert nearest(fingerprints, QUERY) == (int(expected.argmin()), int(expected.min()))


def plain_pairs(
    fingerprints: NDArray[np.uint64], queries: NDArray[np.uint64], distance: int
) -> list[tuple[int, int]]:
    """What as many single scans find."""
    return [
        (q, found)
        for q, query in enumerate(queries.tolist())
        for found in oracles.within(fingerprints, query, distance)
    ]


@given(oracles.codes(), oracles.codes(20), st.integers(0, 64))
def test_many_queries_equal_one_at_a_time(
    fingerprints: NDArray[np.uint64], queries: NDArray[np.uint64], distance: int
) -> None:
    """A pass for many queries gives the pairs of as many scans, in their order."""
    owners, found = within_many(fingerprints, queries, distance)
    pairs = list(zip(owners.tolist(), found.tolist(), strict=True))
    assert pairs == plain_pairs(fingerprints, queries, distance)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("distance", [3, 26])
def test_many_queries_over_tiles(size: int, distance: int) -> None:
    """The order stays that of the queries when the fingerprints span several tiles."""
    fingerprints = oracles.random_codes(size, size)
    queries = np.concatenate([fingerprints[::50], oracles.random_codes(3, 5)])
    owners, found = within_many(fingerprints, queries, distance)
    pairs = list(zip(owners.tolist(), found.tolist(), strict=True))
    assert pairs == plain_pairs(fingerprints, queries, distance)


def test_awkward_arrays_give_the_same_result() -> None:
    """Strided, reversed, read-only and unaligned arrays are read like any other."""
    fingerprints = oracles.clustered(150, 4)
    query = int(fingerprints[0])
    for view in oracles.awkward_views(fingerprints):
        assert within(view, query, 20).tolist() == within(fingerprints, query, 20).tolist()
        assert distances(view, query).tolist() == distances(fingerprints, query).tolist()
        assert nearest(view, query) == nearest(fingerprints, query)
        assert (
            within_many(view, view[:3], 20)[1].size
            == within_many(fingerprints, fingerprints[:3], 20)[1].size
        )


def test_columns_of_records_are_codes() -> None:
    """Rows of a wider array are codes without a copy by the caller."""
    wide = oracles.random_codes(60, 1).reshape(10, 6)
    expected = np.bitwise_count(wide[:, :2] ^ wide[0, :2]).sum(axis=1)
    assert distances(wide[:, :2], wide[0, :2]).tolist() == expected.tolist()


def test_numpy_integers_are_queries() -> None:
    """A uint64 or any other NumPy integer is as good as an int."""
    fingerprints = np.array([5, 1 << 63], dtype=np.uint64)
    assert within(fingerprints, np.uint64(1 << 63), 0).tolist() == [1]
    assert within(fingerprints, 5, np.int32(0)).tolist() == [0]
    assert distances(fingerprints, np.uint64(1 << 63)).tolist() == [3, 0]


@pytest.mark.parametrize("bad", oracles.bad_vectors(np.uint64))
def test_other_fingerprints_are_refused(bad: Any) -> None:
    """Anything but a vector of uint64 raises an error that names the argument."""
    with pytest.raises((TypeError, ValueError), match="fingerprints must"):
        within(bad, 0, 3)
    with pytest.raises((TypeError, ValueError), match="fingerprints must"):
        within_many(bad, np.zeros(1, dtype=np.uint64), 3)
    with pytest.raises((TypeError, ValueError), match="queries must"):
        within_many(np.zeros(1, dtype=np.uint64), bad, 3)


@pytest.mark.parametrize(
    "bad",
    [
        np.zeros((2, 2, 2), dtype=np.uint64),
        np.zeros((2, 0), dtype=np.uint64),
        np.zeros((), dtype=np.uint64),
        np.zeros(2, dtype=np.float64),
        [1],
    ],
)
def test_other_codes_are_refused(bad: Any) -> None:
    """Codes have one dimension, or two with at least one word."""
    with pytest.raises((TypeError, ValueError), match="fingerprints must"):
        distances(bad, 0)
    with pytest.raises((TypeError, ValueError), match="fingerprints must"):
        nearest(bad, 0)


@pytest.mark.parametrize("query", [-1, 1 << 64, 1.0, "1", None, True, np.float64(1)])
def test_other_queries_are_refused(query: Any) -> None:
    """A query is an unsigned 64-bit integer; nothing is wrapped or rounded."""
    fingerprints = np.zeros(3, dtype=np.uint64)
    for search in (distances, nearest):
        with pytest.raises((TypeError, ValueError), match="query must"):
            search(fingerprints, query)
    with pytest.raises((TypeError, ValueError), match="query must"):
        within(fingerprints, query, 3)


@pytest.mark.parametrize("query", [0, np.zeros(3, dtype=np.uint64), np.zeros(2, dtype=np.int64)])
def test_query_of_longer_codes_has_their_width(query: Any) -> None:
    """A long code is compared with a code of the same width."""
    rows = np.zeros((4, 2), dtype=np.uint64)
    for search in (distances, nearest):
        with pytest.raises((TypeError, ValueError), match="query must"):
            search(rows, query)


def test_widest_code() -> None:
    """Distances fit their 16 bits: wider codes are refused."""
    with pytest.raises(ValueError, match="65,535 bits"):
        distances(np.zeros((1, 1024), dtype=np.uint64), np.zeros(1024, dtype=np.uint64))


@pytest.mark.parametrize("distance", [-1, 65, 3.0, "3", None, True])
def test_other_distances_are_refused(distance: Any) -> None:
    """A distance is an integer from 0 to 64."""
    fingerprints = np.zeros(3, dtype=np.uint64)
    with pytest.raises((TypeError, ValueError), match="distance must"):
        within(fingerprints, 0, distance)
    with pytest.raises((TypeError, ValueError), match="distance must"):
        within_many(fingerprints, fingerprints, distance)
