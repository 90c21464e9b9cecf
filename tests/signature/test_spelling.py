"""Other spellings of a word are told from other words."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedup_middleware.base.options import Options
from dedup_middleware.core.fingerprinter import Fingerprinter
from dedup_middleware.model.documents import Document
from dedup_middleware.model.fingerprint import Wording
from dedup_middleware.signature.spelling import is_other_word, spellings
from dedup_middleware.text.hashing import hash_words
from tests.texts import LEVY

LETTERS = "bcdfg"  # no e: ae is also written for ä


def distance(one: str, other: str) -> int:
    """Damerau's distance, with transpositions of adjacent letters (optimal string alignment)."""
    rows = [list(range(len(other) + 1))]
    for i, letter in enumerate(one, 1):
        row = [i]
        for k, of_other in enumerate(other, 1):
            least = min(rows[-1][k] + 1, row[-1] + 1, rows[-1][k - 1] + (letter != of_other))
            if i > 1 and k > 1 and letter == other[k - 2] and one[i - 2] == of_other:
                least = min(least, rows[-2][k - 2] + 1)
            row.append(least)
        rows.append(row)
    return rows[-1][-1]


@given(st.text(LETTERS, min_size=4, max_size=9), st.text(LETTERS, min_size=3, max_size=10))
def test_all_words_at_distance_one(word: str, other: str) -> None:
    """The spellings of a word are the words at Damerau's distance 1."""
    found = spellings(word, LETTERS)
    assert len(found) == len(set(found))
    assert all(distance(word, one) == 1 for one in found)
    found = [one for one in found if one.isascii()]  # others have an accent more
    assert (other in found) == (distance(word, other) == 1)


@pytest.mark.parametrize(
    ("word", "other"),
    [
        ("straße", "strasse"),
        ("daß", "dass"),
        ("maerz", "märz"),
        ("골키퍼", "골키버"),  # one consonant of a syllable
        ("की", "का"),
        ("εγγυηση", "εγγύηση"),
        ("ポンフ", "ポンプ"),
        ("цветов", "цветок"),
    ],
)
def test_spellings_of_many_scripts(word: str, other: str) -> None:
    """Letters come from the page; in Hangul, part of a syllable may differ."""
    is_longer = word != "की"
    assert (other in spellings(word, set(other))) == is_longer


@pytest.mark.parametrize("word", ["可决", "東京都庁", "2031", "x" * 50, "war"])
def test_words_without_other_spellings(word: str) -> None:
    """Numerals, ideographs, and too short and too long words have none."""
    assert [one for one in spellings(word, "abc可決") if one.isascii()] == []


def changed(old: str, new: str, key: int) -> tuple[Wording, bytes, int]:
    """Wording of the report with another word, evidence of the report, place of the word."""
    fingerprint = Fingerprinter(Options(hash_key=f"{key:x}"))
    stored = fingerprint(Document(key="1", text=LEVY))
    page = fingerprint(Document(key="2", text=LEVY.replace(old, new))).wording
    return page, stored.evidence, page.tokens().index(new.lower()) << 3 | 1


@pytest.mark.parametrize(
    ("old", "new"), [("inspectors", "inspecters"), ("yellow", "yelow"), ("rubbish", "rubbihs")]
)
@pytest.mark.parametrize("key", range(1, 9))
def test_slips_are_spellings(old: str, new: str, key: int) -> None:
    """A slip is one whatever the key of the hashes, and so is its correction."""
    assert not is_other_word(*changed(old, new, key))


@pytest.mark.parametrize(
    ("old", "new"), [("welcomed", "rejected"), ("ferries", "tankers"), ("sells", "steals")]
)
def test_other_words(old: str, new: str) -> None:
    """Another word is taken for a spelling about once in eight cases."""
    found = [is_other_word(*changed(old, new, key)) for key in range(1, 25)]
    assert found.count(True) >= 16


@given(st.text(max_size=300), st.integers(0, 9))
def test_tokens_are_the_words_that_are_hashed(text: str, key: int) -> None:
    """Each token has the hash that the wording has, unless it is a numeral in words or a word of a
    date line; and the bytes of a wording keep the tokens."""
    fingerprint = Fingerprinter(Options(hash_key=f"{key:x}"))
    page = fingerprint(Document(key="1", text=text)).wording
    if not page.words:
        return
    tokens = page.tokens()
    assert len(tokens) == page.words
    hashes = hash_words(np.array(tokens), page.seeds[2:4])
    same = (hashes == page.word_hashes) | (page.word_hashes == 0)
    assert all(same[i] or token.isalpha() for i, token in enumerate(tokens))
    again = pickle.loads(pickle.dumps(page))
    assert list(again.tokens()) == list(tokens)
    assert (again.order == page.order).all()


def test_damaged_bytes_of_a_wording() -> None:
    """A negative number of values is refused, not read as all the rest."""
    raw = bytearray(Fingerprinter(Options())(Document(key="1", text=LEVY)).wording.to_bytes())
    raw[16:24] = (-1).to_bytes(8, "little", signed=True)
    with pytest.raises(ValueError, match="-1 values of order"):
        Wording.from_bytes(bytes(raw))
