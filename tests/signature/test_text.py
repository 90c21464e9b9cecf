"""Text to signatures in one kernel, against the steps that it joins."""

from __future__ import annotations

import functools

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dedup_middleware.model.fingerprint import Wording
from dedup_middleware.signature.evidence import MOST, make_evidence
from dedup_middleware.signature.minhash import EMPTY, MinHasher, bands, sketch
from dedup_middleware.signature.simhash import simhash
from dedup_middleware.signature.text import TextSigner
from dedup_middleware.text.shingle import Shingler
from tests.signature.differing import clause_sketch, figure_sketch
from tests.text.oracles import hash_word, texts

made = functools.cache(Shingler)


@settings(deadline=None, max_examples=300)
@given(
    texts,
    st.sampled_from([64, 128, 512, 600]),
    st.integers(0, 8),
    st.sampled_from(["jieba", "fmm", "words", "char"]),
    st.integers(1, 4),
)
@example("a b " * 300 + "c d e f g", 512, 8, "words", 3)
@example("共3人，第4次。" * 70, 128, 8, "jieba", 2)
@example(" ".join(str(n % 700) for n in range(3000)), 1024, 8, "words", 2)
@example("", 512, 8, "jieba", 3)
def test_one_kernel_gives_what_each_signature_alone_gives(
    text: str, num_perm: int, number: int, segmenter: str, width: int
) -> None:
    """Whatever the text and the parameters, all numbers equal those of `Shingler` and the
    function of each signature give, however often a shingle occurs."""
    shingler = made(segmenter=segmenter, width=width, hash_key=9)
    shingles = shingler(text)
    found = TextSigner(shingler, num_perm, number, 3)(text)
    assert (found.size, found.exact) == (shingles.features.size, shingles.exact)
    signed = simhash(shingles.features, shingles.counts)
    if signed is not None:
        assert found.simhash == signed.value
        assert found.sums.tolist() == signed.sums.tolist()
    minhash = MinHasher(num_perm).of_features(shingles.features)
    assert found.minhash.tolist() == minhash.tolist()
    assert found.sketch.tolist() == sketch(minhash).tolist()
    assert found.bands.tolist() == (bands(minhash, number, 3).tolist() if number else [])
    assert found.figures.tolist() == figure_sketch(shingles.places).tolist()
    assert found.clauses.tolist() == clause_sketch(shingles.clauses).tolist()


@settings(deadline=None, max_examples=100)
@given(texts, st.integers(0, 40))
@example(" ".join(f"w{n}" for n in range(9000)), 2)
@example("共3人，第4次。" * 70, 2)
@example("", 2)
def test_without_all_minima_bands_are_the_same(text: str, number: int) -> None:
    """Only the minima of the bands are made then, and the evidence of a page without a title."""
    whole, part = (TextSigner(made(), 512, number, 3, whole=whole)(text) for whole in (True, False))
    assert part.bands.tolist() == whole.bands.tolist()
    assert (part.size, part.exact, part.simhash) == (whole.size, whole.exact, whole.simhash)
    assert part.order.tolist() == whole.order.tolist()
    assert part.minhash[: 3 * number].tolist() == whole.minhash[: 3 * number].tolist()
    wording = Wording(
        part.order, part.words, part.values, part.positions, part.sorts, part.values[:0],
        part.word_hashes,
    )  # fmt: skip
    is_long = len(part.order) > MOST or len(part.values) > MOST
    assert part.evidence.tobytes() == (b"" if is_long else make_evidence(wording))
    assert not len(whole.evidence)


def test_text_without_shingles() -> None:
    """It has the minima of the empty set."""
    found = TextSigner(made())("")
    assert found.size == 0
    assert set(found.minhash.tolist()) == {EMPTY}


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
    with pytest.raises(ValueError, match=r"needs 64, 128, 256 or at least 512 minima, got 100"):
        TextSigner(made(), 100, 1, 1)


@pytest.mark.parametrize(
    "text", ["", "。", "the", "A ferry sank on 4 March", "渔船早归，e\u0301t\u00e9"]
)
def test_words_are_the_hashes_of_the_tokens(text: str) -> None:
    """A title's words are compared with those of a text, so both have the same hashes."""
    shingler = Shingler(hash_key=7)
    expected = {hash_word(token, shingler._keys) for token in shingler.tokens(text)}
    assert shingler.words(text).tolist() == sorted(expected)
    assert expected <= {*shingler.words(text, is_title=True).tolist()}
    of_text = TextSigner(shingler, whole=False)(text).word_hashes.tolist()
    assert {*of_text} - {0} <= expected
