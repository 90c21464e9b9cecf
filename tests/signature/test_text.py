"""Text to signatures in one kernel against the two steps that it joins."""

from __future__ import annotations

import functools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dedup_middleware.signature.page import PageSigner
from dedup_middleware.signature.text import TextSigner
from dedup_middleware.text.shingle import Shingler
from tests.text.oracles import texts

made = functools.cache(Shingler)


@settings(deadline=None, max_examples=300)
@given(
    texts,
    st.sampled_from([64, 128, 512, 600]),
    st.integers(0, 8),
    st.sampled_from(["jieba", "fmm", "words", "char"]),
    st.integers(1, 4),
)
def test_one_step_is_two(text: str, num_perm: int, bands: int, segmenter: str, width: int) -> None:
    """Whatever the text and the parameters, all numbers are those of `Shingler` and
    `PageSigner`, one after the other."""
    shingler = made(segmenter=segmenter, width=width, hash_key=9)
    shingles = shingler(text)
    wanted = PageSigner(num_perm, bands, 3)(
        shingles.features, shingles.counts, shingles.places, shingles.clauses
    )
    found = TextSigner(shingler, num_perm, bands, 3)(text)
    assert (found.size, found.exact) == (shingles.features.size, shingles.exact)
    if wanted.simhash is not None:
        assert found.simhash == wanted.simhash.value
        assert found.sums.tolist() == wanted.simhash.sums.tolist()
    assert found.minhash.tolist() == wanted.minhash.tolist()
    assert found.sketch.tolist() == wanted.sketch.tolist()
    assert found.bands.tolist() == wanted.bands.tolist()
    assert found.figures.tolist() == wanted.figures.tolist()
    assert found.clauses.tolist() == wanted.clauses.tolist()


def test_text_that_must_be_composed() -> None:
    """Marks behind their letters make the page that has them in one code point."""
    signer = TextSigner(made(segmenter="words"))
    one, other = signer("cafe\u0301 re\u0301sume\u0301 3"), signer("caf\xe9 r\xe9sum\xe9 3")
    assert one.exact == other.exact
    assert one.minhash.tolist() == other.minhash.tolist()


def test_bad_arguments() -> None:
    """Bands that the minima are too few for are refused with what to do."""
    with pytest.raises(
        ValueError, match=r"bands=60 of rows=3 need 180 minima, the MinHash has 128"
    ):
        TextSigner(made(), 128, 60, 3)
