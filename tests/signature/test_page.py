from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dedup_middleware.signature.bands import bands
from dedup_middleware.signature.clauses import clause_sketch
from dedup_middleware.signature.figures import figure_sketch
from dedup_middleware.signature.minhash import EMPTY, MinHasher
from dedup_middleware.signature.page import PageSigner
from dedup_middleware.signature.simhash import simhash
from dedup_middleware.signature.sketch import sketch

NO_FEATURES = np.empty(0, np.uint64)
NO_NUMBERS = np.empty(0, np.uint32)
features = st.dictionaries(
    st.integers(0, (1 << 64) - 1), st.one_of(st.just(1), st.integers(1, (1 << 32) - 1)), max_size=40
)
NO_CLAUSES = np.empty((0, 2), np.uint64)
places = st.lists(st.integers(0, (1 << 24) - 2), max_size=40)
hashes_of_clauses = st.lists(st.tuples(*[st.integers(0, (1 << 64) - 1)] * 2), max_size=20)


@settings(deadline=None, max_examples=300)
@given(
    features, places, hashes_of_clauses, st.sampled_from([128, 256, 512, 1024]), st.integers(0, 8)
)
def test_all_at_once(
    counted: dict[int, int],
    numerals: list[int],
    turns: list[tuple[int, int]],
    num_perm: int,
    number: int,
) -> None:
    """Each signature is the one that its own function gives, weights of any size included."""
    hashes = np.array(list(counted), np.uint64)
    counts = np.array(list(counted.values()), np.uint32)
    entries = np.array(numerals, np.uint32)
    clauses = np.array(turns, np.uint64).reshape(-1, 2)
    found = PageSigner(num_perm, number, 3)(hashes, counts, entries, clauses)
    minhash = MinHasher(num_perm).of_features(hashes)
    assert found.minhash.tolist() == minhash.tolist()
    assert found.sketch.tolist() == sketch(minhash).tolist()
    assert found.bands.tolist() == (bands(minhash, number, 3).tolist() if number else [])
    assert found.figures.tolist() == figure_sketch(entries).tolist()
    assert found.clauses.tolist() == clause_sketch(clauses).tolist()
    alone = simhash(hashes, counts)
    if alone is None:
        assert found.simhash is None
    else:
        assert found.simhash is not None
        assert found.simhash.value == alone.value
        assert found.simhash.sums.tolist() == alone.sums.tolist()


def test_many_features() -> None:
    """Rounds of counting and blocks of minima add up for a long page with repetitions."""
    draw = np.random.default_rng(5)
    hashes = draw.integers(0, 1 << 64, 10_000, dtype=np.uint64)
    counts = draw.integers(1, 4, hashes.size).astype(np.uint32)
    found = PageSigner()(hashes, counts, NO_NUMBERS, NO_CLAUSES)
    alone = simhash(hashes, counts)
    assert alone is not None
    assert found.simhash is not None
    assert found.simhash.sums.tolist() == alone.sums.tolist()
    assert found.minhash.tolist() == MinHasher().of_features(hashes).tolist()


def test_no_features() -> None:
    """A page without features has no SimHash, and the minima of the empty set."""
    found = PageSigner()(NO_FEATURES, NO_NUMBERS, NO_NUMBERS, NO_CLAUSES)
    assert found.simhash is None
    assert set(found.minhash.tolist()) == {EMPTY}


def test_slices_are_copied() -> None:
    """Arrays that are not contiguous give what their copies give."""
    hashes = np.arange(20, dtype=np.uint64)
    counts = np.ones(10, np.uint32)
    found = PageSigner()(hashes[::2], counts, NO_NUMBERS, NO_CLAUSES)
    assert (
        found.minhash.tolist()
        == PageSigner()(hashes[::2].copy(), counts, NO_NUMBERS, NO_CLAUSES)[1].tolist()
    )


def test_bad_arguments() -> None:
    """What can't be signed is refused by name, with what to do."""
    with pytest.raises(
        ValueError, match=r"bands=60 of rows=3 need 180 minima, the MinHash has 128"
    ):
        PageSigner(128, 60, 3)
    with pytest.raises(ValueError, match=r"needs 64, 128, 256 or at least 512 minima, got 100"):
        PageSigner(100, 1, 1)
    with pytest.raises(ValueError, match=r"one entry a feature: got 0 for 1"):
        PageSigner()(np.ones(1, np.uint64), NO_NUMBERS, NO_NUMBERS, NO_CLAUSES)
    with pytest.raises(TypeError, match=r"features must be of dtype uint64, got int64"):
        PageSigner()(np.ones(1, np.int64), np.ones(1, np.uint32), NO_NUMBERS, NO_CLAUSES)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"clauses must have shape \(n, 2\), got shape \(0, 3\)"):
        PageSigner()(NO_FEATURES, NO_NUMBERS, NO_NUMBERS, np.empty((0, 3), np.uint64))
