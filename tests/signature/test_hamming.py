from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from dedup_middleware.signature.hamming import within
from tests.signature import oracles

QUERY = 0x0123456789ABCDEF
# Around the steps of 8 and 64 codes, and many of them.
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
def test_within_at_every_size_and_distance(size: int) -> None:
    """At any size the results are those of a plain scan, for distances up to three and beyond."""
    for distance in (0, 1, 2, 3, 4, 7, 20, 32, 63, 64):
        codes = oracles.random_codes(size, size)
        near = oracles.flipped(np.full(size // 5, QUERY, dtype=np.uint64), min(distance, 63), 1)
        codes[: near.size * 5 : 5][: near.size] = near
        found = within(codes, QUERY, distance).tolist()
        assert found == oracles.within(codes, QUERY, distance), distance


def test_every_lane_of_a_block_is_seen() -> None:
    """A lone hit is found at any position, with its bits flipped anywhere."""
    for position in range(150):
        fingerprints = np.full(150, ~np.uint64(QUERY), dtype=np.uint64)
        fingerprints[position] = oracles.flipped(np.array([QUERY], dtype=np.uint64), 3, position)[0]
        assert within(fingerprints, QUERY, 3).tolist() == [position]
        assert within(fingerprints, QUERY, 2).tolist() == []


def test_more_hits_than_first_room() -> None:
    """More hits are found than the first array of results can hold."""
    fingerprints = np.full(10_000, QUERY, dtype=np.uint64)
    assert within(fingerprints, QUERY, 0).tolist() == list(range(10_000))


def test_awkward_arrays_give_the_same_result() -> None:
    """Strided, reversed, read-only and unaligned arrays are read like any other."""
    fingerprints = oracles.clustered(150, 4)
    query = int(fingerprints[0])
    for view in oracles.awkward_views(fingerprints):
        assert within(view, query, 20).tolist() == within(fingerprints, query, 20).tolist()


def test_numpy_integers_are_queries() -> None:
    """NumPy integers are accepted as query and as distance."""
    fingerprints = np.array([5, 1 << 63], dtype=np.uint64)
    assert within(fingerprints, np.uint64(1 << 63), 0).tolist() == [1]
    assert within(fingerprints, 5, np.int32(0)).tolist() == [0]


@pytest.mark.parametrize("bad", oracles.bad_vectors(np.uint64))
def test_other_fingerprints_are_refused(bad: Any) -> None:
    """Anything but a vector of uint64 raises an error that names the argument."""
    with pytest.raises((TypeError, ValueError), match="fingerprints must"):
        within(bad, 0, 3)


@pytest.mark.parametrize("query", [-1, 1 << 64, 1.0, "1", None, True, np.float64(1)])
def test_other_queries_are_refused(query: Any) -> None:
    """A query is an unsigned 64-bit integer; nothing is wrapped or rounded."""
    fingerprints = np.zeros(3, dtype=np.uint64)
    with pytest.raises((TypeError, ValueError), match="query must"):
        within(fingerprints, query, 3)


@pytest.mark.parametrize("distance", [-1, 65, 3.0, "3", None, True])
def test_other_distances_are_refused(distance: Any) -> None:
    """A distance is an integer from 0 to 64."""
    fingerprints = np.zeros(3, dtype=np.uint64)
    with pytest.raises((TypeError, ValueError), match="distance must"):
        within(fingerprints, 0, distance)
