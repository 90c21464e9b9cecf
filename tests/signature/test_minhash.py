from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from datasketch import LeanMinHash, MinHash
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dedup_middleware.signature.minhash import EMPTY, MinHasher, low32
from tests.signature import oracles


def datasketch_minima(hashes: list[int], num_perm: int, seed: int) -> list[int]:
    """The minima datasketch itself computes."""
    minhash = MinHash(num_perm=num_perm, seed=seed, scheme="affine32", hashfunc=int)
    minhash.update_batch(hashes)
    minima: list[int] = minhash.hashvalues.tolist()
    return minima


@settings(deadline=None)
@given(
    hashes=st.lists(oracles.halves, max_size=120),
    num_perm=st.integers(1, 1024),
    seed=st.integers(0, (1 << 32) - 1),
)
@example(hashes=[], num_perm=512, seed=1)
@example(hashes=[0], num_perm=64, seed=1)
@example(hashes=[EMPTY], num_perm=65, seed=0)
def test_equals_datasketch(hashes: list[int], num_perm: int, seed: int) -> None:
    """For the same 32-bit hashes every minimum is datasketch's, whatever K and the seed are."""
    found = MinHasher(num_perm, seed)(np.array(hashes, dtype=np.uint32))
    assert found.dtype == np.uint32
    assert found.tolist() == datasketch_minima(hashes, num_perm, seed)


def test_large_set_equals_datasketch() -> None:
    """A set of 30,000 elements has datasketch's minima too."""
    hashes = np.random.default_rng(5).integers(0, 1 << 32, 30_000, dtype=np.uint32)
    assert MinHasher(256)(hashes).tolist() == datasketch_minima(hashes.tolist(), 256, 1)


def test_empty_set_has_the_sentinel() -> None:
    """No element leaves all minima at 2**32 - 1, as datasketch does."""
    minima = MinHasher(100)(np.empty(0, dtype=np.uint32))
    assert minima.tolist() == [EMPTY] * 100


@given(st.lists(oracles.words, max_size=50))
def test_features_take_their_low_half(features: list[int]) -> None:
    """A 64-bit feature is hashed by its low 32 bits, in one pass or in two."""
    values = np.array(features, dtype=np.uint64)
    hasher = MinHasher(64)
    assert low32(values).tolist() == [feature & 0xFFFFFFFF for feature in features]
    assert hasher.of_features(values).tolist() == hasher(low32(values)).tolist()


@settings(deadline=None)
@given(
    st.lists(st.lists(oracles.halves, max_size=20), max_size=8), st.sampled_from([1, 64, 100, 128])
)
def test_many_sets_at_once_equal_one_by_one(sets: list[list[int]], num_perm: int) -> None:
    """A row for each set, empty ones included."""
    hasher = MinHasher(num_perm)
    hashes = np.array([h for one in sets for h in one], dtype=np.uint32)
    offsets = np.cumsum([0, *map(len, sets)], dtype=np.int64)
    found = hasher.flat(hashes, offsets)
    assert found.shape == (len(sets), num_perm)
    assert found.tolist() == [hasher(np.array(one, dtype=np.uint32)).tolist() for one in sets]


@pytest.mark.parametrize("offsets", [[], [0], [0, 4], [1, 3], [0, 2, 1, 3], [-1, 3], [0, 4, 3]])
def test_offsets_that_do_not_fit_are_refused(offsets: list[int]) -> None:
    """Offsets run from 0 to the number of hashes without a step back."""
    with pytest.raises(ValueError, match="offsets must ascend"):
        MinHasher(64).flat(np.zeros(3, dtype=np.uint32), np.array(offsets, dtype=np.int64))


def test_agreement_estimates_jaccard() -> None:
    """The share of equal minima lies near the Jaccard similarity of the sets."""
    hasher = MinHasher(1024)
    hashes = np.random.default_rng(3).integers(0, 1 << 32, 3_000, dtype=np.uint32)
    share = float(np.mean(hasher(hashes[:2000]) == hasher(hashes[1000:])))
    assert share == pytest.approx(1 / 3, abs=0.06)


def test_exchange_with_datasketch() -> None:
    """Minima survive the way to MinHash and LeanMinHash and back, and compare there."""
    hasher = MinHasher(128, seed=9)
    minima = hasher(np.arange(50, dtype=np.uint32))
    theirs, lean = hasher.to_datasketch(minima), hasher.to_lean(minima)
    assert hasher.from_datasketch(theirs).tolist() == minima.tolist()
    assert hasher.from_datasketch(lean).tolist() == minima.tolist()
    buffer = bytearray(lean.bytesize())
    lean.serialize(buffer)
    assert hasher.from_datasketch(LeanMinHash.deserialize(buffer)).tolist() == minima.tolist()
    assert theirs.jaccard(lean) == 1.0


def test_exchanged_minhash_can_be_updated() -> None:
    """A converted MinHash goes on with the same permutations as one of datasketch's own."""
    hasher = MinHasher(32, seed=4)
    converted = hasher.to_datasketch(hasher(np.array([1, 2], dtype=np.uint32)))
    converted.hashfunc = int
    converted.update(3)
    assert converted.hashvalues.tolist() == datasketch_minima([1, 2, 3], 32, 4)


@pytest.mark.parametrize(
    "foreign",
    [
        MinHash(num_perm=64, scheme="affine32"),
        MinHash(num_perm=128, seed=2, scheme="affine32"),
        MinHash(num_perm=128, scheme="affine64"),
        MinHash(num_perm=128, scheme="legacy"),
    ],
)
def test_foreign_minhash_is_refused(foreign: MinHash) -> None:
    """Minima of another K, seed or scheme can't be compared and are not taken."""
    with pytest.raises(ValueError, match="can't be compared"):
        MinHasher(128).from_datasketch(foreign)


def test_conversion_needs_the_hashers_number_of_minima() -> None:
    """Minima of another K are refused on the way out as well."""
    with pytest.raises(ValueError, match=r"minhash must have shape \(128,\)"):
        MinHasher(128).to_datasketch(np.zeros(64, dtype=np.uint32))


def test_awkward_arrays_give_the_same_minima() -> None:
    """Strided, reversed, read-only and unaligned arrays are read like any other."""
    hashes = np.random.default_rng(1).integers(0, 1 << 32, 99, dtype=np.uint32)
    hasher = MinHasher(128)
    for view in oracles.awkward_views(hashes):
        assert hasher(view).tolist() == hasher(hashes).tolist()


@pytest.mark.parametrize("bad", oracles.bad_vectors(np.uint32))
def test_other_input_is_refused(bad: Any) -> None:
    """Anything but a vector of uint32 raises an error that names the argument."""
    with pytest.raises((TypeError, ValueError), match="hashes32 must"):
        MinHasher(64)(bad)


@pytest.mark.parametrize("bad", oracles.bad_vectors(np.uint64))
def test_other_features_are_refused(bad: Any) -> None:
    """Anything but a vector of uint64 raises an error that names the argument."""
    with pytest.raises((TypeError, ValueError), match="features must"):
        MinHasher(64).of_features(bad)
    with pytest.raises((TypeError, ValueError), match="features must"):
        low32(bad)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"num_perm": 0}, "num_perm"),
        ({"num_perm": 1 << 20}, "num_perm"),
        ({"num_perm": 12.0}, "num_perm"),
        ({"num_perm": True}, "num_perm"),
        ({"seed": -1}, "seed"),
        ({"seed": 1 << 32}, "seed"),
    ],
)
def test_bad_parameters_are_named(arguments: dict[str, Any], name: str) -> None:
    """A number of permutations or a seed out of bounds is named in the error."""
    with pytest.raises((TypeError, ValueError), match=f"{name} must"):
        MinHasher(**arguments)
