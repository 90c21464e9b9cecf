from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedup_middleware.signature.minhash import MinHasher, band_recall, bands
from tests.signature import oracles


@given(
    minima=st.lists(oracles.halves, min_size=1, max_size=64),
    count=st.integers(1, 8),
    rows=st.integers(1, 8),
)
def test_equals_the_plain_hash(minima: list[int], count: int, rows: int) -> None:
    """Each band hashes its own rows; minima beyond the last band don't matter."""
    minhash = np.array(minima, dtype=np.uint32)
    if count * rows > len(minima):
        with pytest.raises(ValueError, match=f"need {count * rows} minima"):
            bands(minhash, count, rows)
    else:
        found = bands(minhash, count, rows)
        assert found.dtype == np.uint64
        assert found.tolist() == oracles.bands(minima, count, rows)


def test_equal_minima_in_two_bands_differ() -> None:
    """The number of a band enters its hash, so tables may share their buckets."""
    assert len(set(bands(np.zeros(40, dtype=np.uint32), 10, 4).tolist())) == 10


def test_one_minimum_changes_one_band_entirely() -> None:
    """A changed minimum flips about half of the 64 bits of its band and no other band."""
    flips = []
    for seed in range(200):
        minhash = np.random.default_rng(seed).integers(0, 1 << 32, 128, dtype=np.uint32)
        changed = minhash.copy()
        changed[17] ^= np.uint32(1)
        differing = np.bitwise_count(bands(minhash, 32, 4) ^ bands(changed, 32, 4))
        assert np.flatnonzero(differing).tolist() == [17 // 4]
        flips.append(int(differing.max()))
    assert np.mean(flips) == pytest.approx(32, abs=2)


def test_prefixes_spread_evenly() -> None:
    """The 16-bit prefixes that name buckets fill a table like random numbers."""
    hasher = MinHasher(16)
    prefixes = {
        int(bands(hasher.of_features(np.array([i], np.uint64)), 1, 4)[0]) >> 48 for i in range(4000)
    }
    # Random prefixes would leave 3,880 +- 11 distinct ones.
    assert 3820 < len(prefixes) < 3940


@given(st.integers(1, 30), st.integers(1, 10), st.floats(0, 1))
def test_recall_is_a_probability(count: int, rows: int, jaccard: float) -> None:
    """Recall follows 1 - (1 - J**R)**B and grows with the number of bands."""
    found = band_recall(jaccard, count, rows)
    assert found == pytest.approx(1 - (1 - jaccard**rows) ** count)
    assert 0 <= found <= band_recall(jaccard, count + 1, rows) <= 1


def test_recall_matches_what_bands_find() -> None:
    """Pairs of Jaccard 0.6 share a band as often as the formula says."""
    hasher = MinHasher(32)
    shared = 0
    for i in range(600):
        drawn = np.random.default_rng(i).integers(0, 1 << 32, 125, dtype=np.uint64)
        a, b = hasher.of_features(drawn[:100]), hasher.of_features(drawn[25:])
        shared += bool((bands(a, 8, 4) == bands(b, 8, 4)).any())
    assert shared / 600 == pytest.approx(band_recall(0.6, 8, 4), abs=0.06)
