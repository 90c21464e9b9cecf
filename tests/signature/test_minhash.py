from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dedup_middleware.signature.minhash import EMPTY, MinHasher
from tests.signature import oracles


def datasketch_minima(features: list[int], num_perm: int, seed: int) -> list[int]:
    """The minima datasketch itself computes of the low halves of the features."""
    from datasketch import MinHash  # it loads SciPy, which each process that collects would do

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
