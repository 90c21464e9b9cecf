"""Recall of the tables, measured and computed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedup_middleware import Document, Fingerprinter, Options
from dedup_middleware.evaluation.edits import edit
from dedup_middleware.methods.choose import choose_method
from dedup_middleware.model.buckets import KEY_TABLE, SIMHASH_TABLES
from research.candidates import (
    JACCARDS,
    fingerprint_of,
    measure,
    proposal,
    set_pair,
    tables_that_find,
)
from tests.texts import article, english


@given(size=st.integers(10, 500), jaccard=st.floats(0, 1), seed=st.integers(0, 99))
def test_pairs_have_the_jaccard_index_asked_for(size: int, jaccard: float, seed: int) -> None:
    """As near as whole numbers of shingles allow."""
    a, b = set_pair(size, jaccard, np.random.default_rng(seed))
    assert len(np.unique(a)) == len(np.unique(b)) == size
    found = len(np.intersect1d(a, b)) / len(np.union1d(a, b))
    assert found == pytest.approx(jaccard, abs=1.2 / size)


def test_page_finds_itself_in_every_table() -> None:
    """Equal pages meet in the four SimHash tables and in all bands, unrelated ones in none."""
    options = Options()
    a, b = set_pair(300, 0.0, np.random.default_rng(1))
    method = choose_method(options)
    one, other = fingerprint_of(a, options), fingerprint_of(b, options)
    tables = tables_that_find(method, one, one)
    assert tables.bit_count() == len(SIMHASH_TABLES) + options.band_count
    assert tables_that_find(method, one, other) == 0


@pytest.mark.slow
def test_measured_recall_of_bands_is_that_of_the_formula() -> None:
    """Within the error of the sample; it rises with the Jaccard index, and all tables together
    find at least what either sort does."""
    rows = measure(Options(), jaccards=(0.5, 0.7, 0.9), pairs=300)
    for row in rows:
        error = 4 * (row.formula * (1 - row.formula) / row.pairs) ** 0.5 + 0.01
        assert row.by_bands == pytest.approx(row.formula, abs=error)
        assert row.found.value >= max(row.by_bands, row.by_simhash)
    found = [row.found.value for row in rows]
    assert found == sorted(found)


@pytest.mark.slow
def test_default_tables_find_what_they_promise() -> None:
    """Without anchors .99 of the pairs at Jaccard .8 and .95 at .7, but for the sample's error."""
    options = Options(evidence="sketch")
    rows = {row.jaccard: row for row in measure(options, jaccards=(0.7, 0.8), pairs=1000)}
    assert rows[0.8].found.high >= 0.99
    assert rows[0.8].found.value >= 0.985
    assert rows[0.7].found.value >= 0.94


@pytest.mark.parametrize("kind", ["words-changed", "words-deleted"])
def test_edits_all_over_a_page_leave_it_a_bucket(kind: str) -> None:
    """With anchors and two bands, 98 of 100 pages with an edit in 20 words share a bucket."""
    options = Options()
    make, method = Fingerprinter(options), choose_method(options)
    found = 0
    for seed in range(100):
        text = article(seed) if seed % 2 else english(seed)
        edited = edit(text, kind, 0.05, seed)
        one, other = (make(Document("https://a", text=words)) for words in (text, edited))
        places = {key for key in method.bucket_key_array(one) if key.table != KEY_TABLE}
        found += bool(places & {*method.bucket_key_array(other)})
    assert found >= 98


def test_without_bands_simhash_is_alone() -> None:
    """No band tables: what is found is found by the SimHash tables, and the formula is 0."""
    (row,) = measure(Options(bands=0), jaccards=(0.9,), pairs=50)
    assert row.found.value == row.by_simhash
    assert row.by_bands == row.formula == 0


def test_proposal_fits_the_permutations() -> None:
    """datasketch spends at most the permutations given, and more rows for higher thresholds."""
    proposals = [proposal(jaccard, 128) for jaccard in JACCARDS]
    assert all(bands * rows <= 128 for bands, rows in proposals)
    rows_of = [rows for _, rows in proposals]
    assert rows_of == sorted(rows_of)
    assert rows_of[-1] > rows_of[0]
