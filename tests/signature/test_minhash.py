"""MinHash, its bands and sketches: as datasketch and plain Python compute them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from datasketch import MinHash
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dedup_middleware.signature.minhash import (
    EMPTY,
    MinHasher,
    band_recall,
    bands,
    bits_each,
    jaccards,
    sketch,
)
from tests.signature import oracles


def datasketch_minima(features: list[int], num_perm: int, seed: int) -> list[int]:
    """The minima datasketch itself computes of the low halves of the features."""
    minhash = MinHash(num_perm=num_perm, seed=seed, scheme="affine32", hashfunc=int)
    minhash.update_batch([feature & 0xFFFFFFFF for feature in features])
    minima: list[int] = minhash.hashvalues.tolist()
    return minima


@settings(deadline=None)
@given(
    features=st.lists(oracles.words | oracles.halves, max_size=120),
    num_perm=st.integers(1, 1024),
    seed=st.integers(0, (1 << 32) - 1),
)
@example(features=[], num_perm=512, seed=1)
@example(features=[0], num_perm=64, seed=1)
@example(features=[EMPTY], num_perm=65, seed=0)
def test_equals_datasketch(features: list[int], num_perm: int, seed: int) -> None:
    """Of the low halves of the features every minimum is datasketch's, whatever K and the seed
    are."""
    found = MinHasher(num_perm, seed).of_features(np.array(features, dtype=np.uint64))
    assert found.dtype == np.uint32
    assert found.tolist() == datasketch_minima(features, num_perm, seed)


def test_large_set_equals_datasketch() -> None:
    """A set of 30,000 elements has datasketch's minima too."""
    features = oracles.random_codes(30_000, 5)
    assert MinHasher(256).of_features(features).tolist() == datasketch_minima(
        features.tolist(), 256, 1
    )


def test_empty_set_has_the_sentinel() -> None:
    """No element leaves all minima at 2**32 - 1, as datasketch does."""
    minima = MinHasher(100).of_features(np.empty(0, np.uint64))
    assert minima.tolist() == [EMPTY] * 100


def test_agreement_estimates_jaccard() -> None:
    """The share of equal minima lies near the Jaccard similarity of the sets."""
    hasher = MinHasher(1024)
    features = oracles.random_codes(3_000, 3)
    one, other = hasher.of_features(features[:2000]), hasher.of_features(features[1000:])
    share = float(np.mean(one == other))
    assert share == pytest.approx(1 / 3, abs=0.06)


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


EACH = [(64, 8), (128, 4), (256, 2), (512, 1), (1024, 1)]


@pytest.mark.parametrize(("num_perm", "bits"), EACH)
@given(seed=st.integers(0, 1 << 32))
def test_equals_the_plain_sketch(num_perm: int, bits: int, seed: int) -> None:
    """Every number of minima fills 512 bits as documented."""
    minhash = np.random.default_rng(seed).integers(0, 1 << 32, num_perm, dtype=np.uint32)
    found = sketch(minhash)
    assert found.dtype == np.uint64
    assert found.tolist() == oracles.sketch(minhash.tolist(), bits)
    assert bits_each(num_perm) == bits


@pytest.mark.parametrize("num_perm", [0, 1, 32, 100, 511])
def test_too_few_minima_are_refused(num_perm: int) -> None:
    """Numbers of minima that can't fill 512 bits evenly are named in the error."""
    with pytest.raises(ValueError, match=f"got {num_perm}"):
        sketch(np.zeros(num_perm, dtype=np.uint32))


def test_bits_of_different_permutations_are_independent() -> None:
    """Disjoint sets agree in half of the bits: the raw low bits would agree in all or none."""
    hasher = MinHasher(512)
    shares = []
    raw = []
    for i in range(60):
        a = hasher.of_features(np.array([2 * i], np.uint64))
        b = hasher.of_features(np.array([1_000_003 + i], np.uint64))
        shares.append(1 - np.bitwise_count(sketch(a) ^ sketch(b)).sum() / 512)
        raw.append(np.mean((a & 1) == (b & 1)))
    assert set(raw) == {0.0, 1.0}
    assert np.mean(shares) == pytest.approx(0.5, abs=0.01)
    assert 0.35 < min(shares) < max(shares) < 0.65


@pytest.mark.parametrize(("num_perm", "bits"), EACH)
@pytest.mark.parametrize("similarity", [0.25, 0.5, 0.8, 0.95])
def test_estimate_lies_near_the_similarity(num_perm: int, bits: int, similarity: float) -> None:
    """Mean and spread over many pairs fit an estimator free of bias, for every b."""
    hasher = MinHasher(num_perm)
    shared = round(2 * 400 * similarity / (1 + similarity))
    estimates = []
    for i in range(80):
        drawn = np.random.default_rng(i).integers(0, 1 << 32, 800 - shared, dtype=np.uint64)
        a, b = (sketch(hasher.of_features(part)) for part in (drawn[:400], drawn[-400:]))
        estimates.append(jaccards(a, b[np.newaxis], bits)[0])
    exact = shared / (800 - shared)
    chance = 2.0**-bits
    agreement = chance + (1 - chance) * exact
    groups = min(num_perm, 512)
    error = np.sqrt(agreement * (1 - agreement) / groups) / (1 - chance)
    assert np.mean(estimates) == pytest.approx(exact, abs=4 * error / np.sqrt(80))
    assert np.std(estimates) == pytest.approx(error, rel=0.4)


def plain_jaccard(a: list[int], b: list[int], bits: int) -> float:
    """The estimate, group by group."""
    x = sum((p ^ q) << (64 * i) for i, (p, q) in enumerate(zip(a, b, strict=True)))
    groups = 512 // bits
    equal = sum(not x >> (i * bits) & ((1 << bits) - 1) for i in range(groups))
    chance = 2.0**-bits
    return max(0.0, (equal / groups - chance) / (1 - chance))


@given(
    a=st.lists(oracles.words, min_size=8, max_size=8),
    flips=st.lists(st.integers(0, 511), max_size=40),
    bits=st.sampled_from([1, 2, 4, 8]),
)
def test_equals_the_plain_estimate(a: list[int], flips: list[int], bits: int) -> None:
    """A batch gives the estimates of the plain twin, in 0..1, 1 for equal sketches."""
    b = list(a)
    for flip in flips:
        b[flip // 64] ^= 1 << flip % 64
    x, y = np.array(a, dtype=np.uint64), np.array(b, dtype=np.uint64)
    expected = plain_jaccard(a, b, bits)
    assert jaccards(x, np.stack([y, x, ~x]), bits).tolist() == pytest.approx([expected, 1, 0])


def test_empty_batch() -> None:
    """No sketch, no estimate."""
    assert jaccards(np.zeros(8, dtype=np.uint64), np.zeros((0, 8), dtype=np.uint64)).tolist() == []


@pytest.mark.parametrize("bits", [0, 3, 16, -1, "1", None, []])
def test_other_widths_are_refused(bits: Any) -> None:
    """b is 1, 2, 4 or 8."""
    good = np.zeros(8, dtype=np.uint64)
    with pytest.raises(ValueError, match="bits must be"):
        jaccards(good, good[np.newaxis], bits)


def test_columns_of_records_are_sketches() -> None:
    """A column of records, which is strided and unaligned, is read like any other array."""
    a, b = oracles.random_codes(8, 1), oracles.random_codes(8, 2)
    records = np.zeros(5, [("pad", np.uint8), ("sketch", "<u8", (8,))])
    records["sketch"] = b
    for count in (1, 5):
        expected = jaccards(a, b[np.newaxis]).tolist() * count
        assert jaccards(a, records["sketch"][:count]).tolist() == expected


@pytest.mark.parametrize(("words", "columns"), [(7, 8), (8, 7), (9, 9)])
def test_other_sketches_are_refused(words: int, columns: int) -> None:
    """Sketches have eight words."""
    with pytest.raises(ValueError, match="have 8 words"):
        jaccards(np.zeros(words, np.uint64), np.zeros((2, columns), np.uint64))
