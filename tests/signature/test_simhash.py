from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dedup_middleware.signature.simhash import SimHash, simhash
from tests.signature import oracles


def value_of(sums: list[int]) -> int:
    """The number whose bits say which sums are positive."""
    return sum(1 << p for p, total in enumerate(sums) if total > 0)


def test_the_lectures_example_from_features() -> None:
    """Weighted features with the lecture's signs at six bits give the same bits."""
    wanted = [13, 108, -22, -5, -32, 55]
    # A feature with one bit a place, and one with all bits that makes each sum twice the wanted.
    features = [1 << (5 - place) for place in range(6)] + [oracles.WORD]
    weights = [total + 40 for total in wanted]
    weights.append(sum(weights) - 80)
    signed = simhash(np.array(features, dtype=np.uint64), np.array(weights, dtype=np.uint32))
    assert signed is not None
    assert signed.sums[5::-1].tolist() == [2 * s for s in wanted]
    assert f"{signed.value:06b}" == "110001"


@given(st.lists(oracles.words, min_size=1, max_size=80))
@example([0])
@example([oracles.WORD] * 511)
@example(list(range(256)))
def test_counts_equal_the_plain_sums(features: list[int]) -> None:
    """Without weights each feature counts once, also beyond 255 of them."""
    signed = simhash(np.array(features, dtype=np.uint64))
    assert signed is not None
    assert signed.sums.dtype == np.int64
    assert signed.sums.tolist() == oracles.sums(features, [1] * len(features))
    assert signed.value == value_of(signed.sums.tolist())


@given(st.lists(st.tuples(oracles.words, oracles.halves), min_size=1, max_size=80))
def test_weights_equal_the_plain_sums(pairs: list[tuple[int, int]]) -> None:
    """Weights up to 2**32 - 1 are summed without loss; no weight at all is no SimHash."""
    features, weights = [f for f, _ in pairs], [w for _, w in pairs]
    signed = simhash(np.array(features, dtype=np.uint64), np.array(weights, dtype=np.uint32))
    if not any(weights):
        assert signed is None
        return
    assert signed is not None
    assert signed.sums.tolist() == oracles.sums(features, weights)
    assert signed.value == value_of(signed.sums.tolist())


@given(
    st.lists(st.tuples(oracles.words, st.integers(0, 1 << 20)), min_size=1, max_size=40),
    st.integers(-300, 300),
)
def test_float_weights_keep_their_proportions(pairs: list[tuple[int, int]], exponent: int) -> None:
    """Float weights give the value of the integers they stand for, however small or large."""
    features = np.array([f for f, _ in pairs], dtype=np.uint64)
    whole = np.array([w for _, w in pairs], dtype=np.uint32)
    exact = simhash(features, whole)
    scaled = simhash(features, np.ldexp(whole.astype(np.float64), exponent))
    if exact is None:
        assert scaled is None
    else:
        assert scaled is not None
        assert scaled.value == exact.value


def test_no_features_have_no_simhash() -> None:
    """A page without features is not all zeros or all ones: it has no SimHash."""
    nothing = np.empty(0, dtype=np.uint64)
    assert simhash(nothing) is None
    assert simhash(nothing, np.empty(0, dtype=np.uint32)) is None
    assert simhash(nothing, np.empty(0, dtype=np.float64)) is None
    assert simhash(np.array([5], dtype=np.uint64), np.zeros(1)) is None


def test_similar_pages_have_close_simhashes() -> None:
    """Dropping one feature in 400 moves few bits, other features about 32."""
    features = oracles.random_codes(400, 1)
    base, edited = simhash(features), simhash(features[1:])
    other = simhash(oracles.random_codes(400, 2))
    assert base is not None
    assert edited is not None
    assert other is not None
    assert (base.value ^ edited.value).bit_count() <= 6
    assert 16 <= (base.value ^ other.value).bit_count() <= 48


@given(
    st.lists(st.integers(-(1 << 62), 1 << 62), min_size=64, max_size=64),
    st.integers(0, 3),
    st.integers(0, 16),
)
def test_volatile_bits_have_the_smallest_sums(sums: list[int], block: int, n: int) -> None:
    """The positions lie in the block's 16 bits, by margin and then by position."""
    signed = SimHash(value=value_of(sums), sums=np.array(sums, dtype=np.int64))
    low = 48 - 16 * block
    expected = sorted(range(low, low + 16), key=lambda p: (abs(sums[p]), p))[:n]
    assert signed.volatile(block, n) == tuple(expected)


def test_block_is_the_prefix_of_its_table() -> None:
    """Flipping a volatile bit of block i changes the prefix of the value rotated by 16*i only."""
    signed = simhash(oracles.random_codes(50, 7))
    assert signed is not None
    for block in range(4):
        (position,) = signed.volatile(block, 1)
        changed = signed.value ^ 1 << position
        for table in range(4):
            shift = 16 * table
            before, after = (
                (v << shift | v >> (64 - shift)) & oracles.WORD for v in (signed.value, changed)
            )
            assert (before >> 48 != after >> 48) == (table == block)


@pytest.mark.parametrize(
    "bad",
    [
        np.ones(2),
        np.ones(2, dtype=np.uint32),
        np.array([-1.0]),
        np.array([np.nan]),
        np.array([np.inf]),
    ],
)
def test_other_weights_are_refused(bad: Any) -> None:
    """Weights that are negative, not finite or of another number are an error."""
    with pytest.raises(ValueError, match="weights must"):
        simhash(np.array([5], dtype=np.uint64), bad)
