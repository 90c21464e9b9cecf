from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dedup_middleware.signature.hamming import within
from research.four_tables import FourTables
from tests.signature import oracles


def filled(fingerprints: NDArray[np.uint64], chunk: int | None = None) -> FourTables:
    """Tables that got the fingerprints at once, or in pieces."""
    tables = FourTables()
    step = chunk or max(1, fingerprints.size)
    for start in range(0, fingerprints.size, step):
        tables.add(fingerprints[start : start + step])
    return tables


def test_number_of_probes() -> None:
    """Three of 64 bits give 1 + 64 + 2,016 + 41,664 = 43,745 probes."""
    assert oracles.differences(3).size == len(set(oracles.differences(3).tolist())) == 43_745


def test_the_searches_agree_bit_for_bit() -> None:
    """Query expansion, table expansion, linear scan and four tables find the same positions."""
    masks = oracles.differences(3)
    fingerprints = oracles.clustered(60, 11)
    tables = filled(fingerprints)
    grown = filled(fingerprints, chunk=7)
    queries = [*fingerprints[:12].tolist(), *oracles.random_codes(3, 5).tolist(), 0, oracles.WORD]
    hits = 0
    for query in queries:
        expected = oracles.query_expansion(fingerprints, query, masks)
        assert oracles.within(fingerprints, query, 3) == expected
        assert within(fingerprints, query, 3).tolist() == expected
        assert tables.query(query).tolist() == expected
        assert grown.query(query).tolist() == expected
        hits += len(expected)
    # The neighbours of each fingerprint are many: a few queries are enough here.
    for query in queries[::7]:
        expected = oracles.query_expansion(fingerprints, query, masks)
        assert oracles.table_expansion(fingerprints, query, masks) == expected
    assert hits > 12


@settings(max_examples=40)
@given(oracles.codes(60), st.integers(1, 40), oracles.words, st.integers(0, 3))
def test_equals_the_linear_scan(
    fingerprints: NDArray[np.uint64], chunk: int, query: int, distance: int
) -> None:
    """Whatever is stored and in whatever pieces, up to three bits nothing is missed or added."""
    tables = filled(fingerprints, chunk)
    assert len(tables) == fingerprints.size
    for wanted in (query, *fingerprints[:5].tolist()):
        found = tables.query(wanted, distance)
        assert found.dtype == np.int64
        assert found.tolist() == oracles.within(fingerprints, wanted, distance)


@pytest.mark.parametrize("chunk", [1, 64, 1000, None])
def test_growing_by_pieces_equals_adding_at_once(chunk: int | None) -> None:
    """Buckets that fill up, move and are laid out anew keep every fingerprint."""
    fingerprints = oracles.clustered(4000, 3)
    tables = filled(fingerprints, chunk)
    for query in fingerprints[::97].tolist():
        assert tables.query(query).tolist() == oracles.within(fingerprints, query, 3)


def test_flood_into_one_bucket() -> None:
    """Fingerprints crafted into one bucket are all kept and found, in order."""
    crafted = np.arange(5000, dtype=np.uint64) | np.uint64(0xABCD << 48)
    tables = filled(crafted, chunk=50)
    for query in (0xABCD << 48, 0xABCD << 48 | 4999, 0xABCE << 48):
        assert tables.query(query).tolist() == oracles.within(crafted, query, 3)


def test_equal_fingerprints_are_all_found() -> None:
    """One fingerprint stored often is reported once for each position."""
    same = np.full(1000, 0x1234_5678_9ABC_DEF0, dtype=np.uint64)
    tables = filled(same, chunk=33)
    assert tables.query(0x1234_5678_9ABC_DEF1).tolist() == list(range(1000))
    assert tables.query(0x1234_5678_9ABC_DEFF, distance=3).tolist() == []


def test_positions_found_through_different_tables_ascend() -> None:
    """Hits of all four tables come as one ascending list without repetition."""
    query = 0
    # Each leaves exactly one block alone, the last table first.
    one = [0x0001_0001_0001_0000, 0x0001_0001_0000_0001, 0x0001_0000_0001_0001, 0x0001_0001_0001]
    fingerprints = np.array([*one, 0, *one[::-1], 1], dtype=np.uint64)
    assert filled(fingerprints).query(query).tolist() == list(range(10))


def test_beyond_three_bits_a_block_must_be_shared() -> None:
    """A larger distance finds those, and only those, that share a block with the query."""
    fingerprints = oracles.clustered(2000, 8)
    tables = filled(fingerprints)
    for query in fingerprints[:20].tolist():
        differing = fingerprints ^ np.uint64(query)
        shares = np.zeros(fingerprints.size, dtype=bool)
        for block in range(4):
            shares |= (differing >> np.uint64(16 * block)) & np.uint64(0xFFFF) == 0
        expected = np.flatnonzero(shares & (np.bitwise_count(differing) <= 22))
        assert tables.query(query, distance=22).tolist() == expected.tolist()


@pytest.mark.parametrize("distance", [0, 1, 2, 3, 30])
def test_many_queries_equal_one_at_a_time(distance: int) -> None:
    """A batch gives the pairs of as many single queries, in their order."""
    fingerprints = oracles.clustered(3000, 2)
    tables = filled(fingerprints)
    queries = np.concatenate([fingerprints[::31], oracles.random_codes(20, 77)])
    owners, found = tables.query_many(queries, distance)
    expected = [
        (number, position)
        for number, query in enumerate(queries.tolist())
        for position in tables.query(query, distance).tolist()
    ]
    assert list(zip(owners.tolist(), found.tolist(), strict=True)) == expected


def test_empty_tables_and_empty_batches() -> None:
    """Nothing stored or asked is nothing found."""
    tables = FourTables()
    assert len(tables) == 0
    assert tables.query(0).tolist() == []
    assert [part.tolist() for part in tables.query_many(np.array([1, 2], dtype=np.uint64))] == [
        [],
        [],
    ]
    tables.add(np.empty(0, dtype=np.uint64))
    assert len(tables) == 0
    tables.add(np.array([9], dtype=np.uint64))
    assert [part.tolist() for part in tables.query_many(np.empty(0, dtype=np.uint64))] == [[], []]
    assert tables.query(9).tolist() == [0]


def test_a_result_belongs_to_the_caller() -> None:
    """Changing a result changes neither the tables nor the next result."""
    tables = filled(np.array([1, 2], dtype=np.uint64))
    tables.query(1)[:] = 99
    assert tables.query(1).tolist() == [0, 1]


def test_memory_stays_in_proportion() -> None:
    """Pieces cost at most about twice the bytes of 48 for fingerprints and positions."""
    empty = FourTables().nbytes
    fingerprints = oracles.random_codes(60_000, 1)
    for chunk in (None, 100):
        assert (filled(fingerprints, chunk).nbytes - empty) / fingerprints.size < 160


def test_threads_may_query_together() -> None:
    """Queries without the interpreter lock give each thread its own results."""
    fingerprints = oracles.clustered(3000, 6)
    tables = filled(fingerprints)
    queries = fingerprints[::11].tolist()
    expected = [oracles.within(fingerprints, query, 3) for query in queries]
    wrong: list[int] = []

    def work() -> None:
        for _ in range(20):
            found = [tables.query(query).tolist() for query in queries]
            wrong.extend(q for q, f, e in zip(queries, found, expected, strict=True) if f != e)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_awkward_arrays_are_stored_alike() -> None:
    """Strided, reversed, read-only and unaligned arrays are read like any other."""
    fingerprints = oracles.clustered(100, 4)
    expected = filled(fingerprints).query_many(fingerprints)
    for view in oracles.awkward_views(fingerprints):
        found = filled(view).query_many(view)
        assert found[0].tolist() == expected[0].tolist()
        assert found[1].tolist() == expected[1].tolist()


@pytest.mark.parametrize("bad", oracles.bad_vectors(np.uint64))
def test_other_fingerprints_are_refused(bad: Any) -> None:
    """Anything but a vector of uint64 raises an error and leaves the tables as they were."""
    tables = filled(np.array([5], dtype=np.uint64))
    with pytest.raises((TypeError, ValueError), match="fingerprints must"):
        tables.add(bad)
    with pytest.raises((TypeError, ValueError), match="fingerprints must"):
        tables.query_many(bad)
    assert len(tables) == 1
    assert tables.query(5).tolist() == [0]


@pytest.mark.parametrize("fingerprint", [-1, 1 << 64, 1.0, "1", None, True])
def test_other_queries_are_refused(fingerprint: Any) -> None:
    """A query is an unsigned 64-bit integer."""
    with pytest.raises((TypeError, ValueError), match="fingerprint must"):
        FourTables().query(fingerprint)


@pytest.mark.parametrize("distance", [-1, 65, 3.0, None])
def test_other_distances_are_refused(distance: Any) -> None:
    """A distance is an integer from 0 to 64."""
    with pytest.raises((TypeError, ValueError), match="distance must"):
        FourTables().query(0, distance)
    with pytest.raises((TypeError, ValueError), match="distance must"):
        FourTables().query_many(np.zeros(1, dtype=np.uint64), distance)
