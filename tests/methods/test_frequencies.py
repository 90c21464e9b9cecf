"""Document frequencies, I-Match and its lexicons."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedup_middleware.methods.literature import digests
from dedup_middleware.methods.literature.digests import (
    Idf,
    by_rarity,
    in_lexicon,
    lexicon_digests,
    rarest,
)
from dedup_middleware.methods.literature.frequencies import (
    background,
    parse_idf,
)
from dedup_middleware.model.keys import keyed_hash
from tests.methods.inputs import frequencies, is_duplicate, method_input, page, share_key, table_of

token_lists = st.lists(st.lists(st.sampled_from("abcdefgh灯塔"), max_size=8), max_size=12)


@given(token_lists)
def test_frequencies_count_documents_not_occurrences(documents: list[list[str]]) -> None:
    """A term counts once a document, however often it occurs there."""
    table = table_of(documents)
    terms = list("abcdefgh灯塔z")
    assert table.documents == len(documents)
    assert table.document_frequencies(terms).tolist() == [
        sum(term in document for document in documents) for term in terms
    ]


def test_idf_of_common_rare_and_unknown_terms() -> None:
    """1 + ln((N + 1) / (df + 1)): 1 for terms of every document, most for unknown ones."""
    table = table_of([["的", "灯塔"], ["的"], ["的"]])
    assert table.idf(["的", "灯塔", "码头"]).tolist() == pytest.approx(
        [1.0, 1 + math.log(2), 1 + math.log(4)]
    )


def test_background_knows_chinese() -> None:
    """The table of jieba has 270,000 terms; function words are common in it, names rare."""
    table = background()
    assert len(table) > 250_000
    common, rare, unknown = table.idf(["的", "灯塔", "zzzzzz"]).tolist()
    assert common < 2 < rare < unknown


def test_malformed_idf_line_is_named() -> None:
    """The error says which line is wrong."""
    with pytest.raises(ValueError, match=r"line 2: '灯塔' is not `term idf`"):
        parse_idf(["的 0.5", "灯塔"])
    with pytest.raises(ValueError, match="no line"):
        parse_idf([])


def test_terms_in_order_of_rarity() -> None:
    """Distinct terms by falling IDF, ties by code point."""
    table = table_of([["b", "a", "c"], ["b", "a"], ["b"]])
    assert by_rarity(["b", "a", "c", "z", "y", "b"], table) == ["y", "z", "c", "a", "b"]


@pytest.mark.parametrize(("terms", "kept"), [(1, 1), (2, 2), (3, 3), (10, 7), (20, 14), (21, 15)])
def test_seventy_percent_are_kept(terms: int, kept: int) -> None:
    """The share is rounded up, without the error of 0.7 in binary."""
    assert len(rarest([str(i) for i in range(terms)], 0.7)) == kept


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table of made-up pages."""
    table = frequencies()
    monkeypatch.setattr(digests, "background", lambda: table)


def test_order_and_frequency_of_words_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    """The string depends on which terms a page has, and of those on the rare ones."""
    table = table_of([["的", "了"]] * 50 + [["灯塔", "码头", "桥梁", "果园"]])
    monkeypatch.setattr(digests, "background", lambda: table)
    method = Idf(lexicons=0)
    a = method.sign(method_input("灯塔码头桥梁果园的"))
    b = method.sign(method_input("果园灯塔灯塔桥梁码头了"))
    c = method.sign(method_input("展厅灯塔灯塔桥梁码头了"))
    assert a is not None
    assert b is not None
    assert c is not None
    assert is_duplicate(method, a, b)
    assert not is_duplicate(method, a, c)


def test_randomised_lexicons_lack_their_share() -> None:
    """Each lexicon lacks a third of all terms, another one each; the first lacks none."""
    hashes = np.array([keyed_hash(str(i), 0) for i in range(20_000)], np.uint64)
    known = [in_lexicon(hashes, lexicon, 0.33) for lexicon in range(4)]
    assert known[0].all()
    for lexicon in known[1:]:
        assert lexicon.mean() == pytest.approx(0.67, abs=0.02)
    assert (known[1] & known[2]).mean() == pytest.approx(0.67**2, abs=0.02)


@pytest.mark.usefixtures("made_up")
def test_randomised_lexicons_raise_recall() -> None:
    """One rare word more hides the page from the whole lexicon, and from each randomised one
    unless that lacks the word: with ten a third lacks it."""
    found = dict.fromkeys((0, 10), 0)
    for seed in range(40):
        words = method_input(page(seed)).tokens
        for lexicons in found:
            method = Idf(lexicons=lexicons)
            texts = (" ".join(words), " ".join([*words, f"x{seed}x"]))
            a, b = (method.sign(method_input(text)) for text in texts)
            assert a is not None
            assert b is not None
            found[lexicons] += is_duplicate(method, a, b) and share_key(a, b)
    assert found[0] == 0
    assert found[10] >= 36


@pytest.mark.usefixtures("made_up")
def test_digest_of_each_lexicon() -> None:
    """K + 1 digests; a lexicon that knows none of the terms has no string and no key."""
    found = lexicon_digests(["灯塔"], 0, 20, 0.5, 0.7)
    assert len(found) == 21
    empty = [digest for digest in found if digest == bytes(16)]
    assert 3 < len(empty) < 18
    signature = Idf(lexicons=20, dropped=0.5).sign(method_input("灯塔"))
    assert signature is not None
    assert len(signature.keys) == 21 - len(empty)


@pytest.mark.usefixtures("made_up")
def test_missing_strings_are_not_equal() -> None:
    """Two pages of which a lexicon knows nothing are not duplicates for that."""
    method = Idf(lexicons=20, dropped=0.9)
    a, b = method.sign(method_input("灯塔")), method.sign(method_input("码头"))
    assert a is not None
    assert b is not None
    assert method.compare(a, b) == 0.0
