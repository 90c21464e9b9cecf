"""Query expansion, four tables and a linear scan."""

from __future__ import annotations

import numpy as np
import pytest

from research import expansion
from tests.signature import oracles


@pytest.mark.parametrize("way", expansion.WAYS)
def test_every_way_finds_all_within_three_bits(way: str) -> None:
    """Positions ascending, equal fingerprints each for itself, and no other."""
    base = oracles.clustered(300, 7)
    fingerprints = np.concatenate([base, base[:40]])
    search, size = expansion.WAYS[way](fingerprints)
    assert size >= fingerprints.nbytes
    for query in [*fingerprints[::29].tolist(), 0, oracles.WORD]:
        assert search(query).tolist() == oracles.within(fingerprints, query, 3)


def test_number_of_probes() -> None:
    """Three of 64 bits give 1 + 64 + 2,016 + 41,664 = 43,745 numbers, each once."""
    assert set(expansion.masks().tolist()) == set(oracles.differences(3).tolist())


def test_queries_have_neighbours() -> None:
    """Each second query has a fingerprint at exactly three bits."""
    fingerprints, queries = expansion.drawn(500, 20, seed=3)
    nearest = [int(oracles.hamming(fingerprints, query).min()) for query in queries]
    assert nearest[::2] == [3] * 10
    assert min(nearest[1::2]) > 3


def test_another_result_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Times of ways that find different fingerprints are not shown."""
    wrong = {**expansion.WAYS, "none": lambda _: (lambda _: np.empty(0, np.int64), 0)}
    monkeypatch.setattr(expansion, "WAYS", wrong)
    with pytest.raises(AssertionError, match="none finds other fingerprints"):
        expansion.measure(200, 4)
