"""Other spellings of a word are told from other words."""

from __future__ import annotations

import pickle
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedup_middleware.base.options import Options
from dedup_middleware.core.fingerprinter import Fingerprinter
from dedup_middleware.model.documents import Document
from dedup_middleware.model.fingerprint import Wording
from dedup_middleware.signature.spelling import OtherWords, spellings
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


@given(st.text(LETTERS, min_size=3, max_size=3), st.text(LETTERS, min_size=2, max_size=4))
def test_short_words(word: str, other: str) -> None:
    """In a word of three letters two may change places, or one more may be there."""
    is_longer, is_turned = len(other) == 4, sorted(word) == sorted(other)
    expected = distance(word, other) == 1 and (is_longer or is_turned)
    assert (other in spellings(word, LETTERS)) == expected


@pytest.mark.parametrize("word", ["可决", "東京都庁", "2031", "x" * 50, "we"])
def test_words_without_other_spellings(word: str) -> None:
    """Numerals, ideographs, and too short and too long words have none."""
    assert [one for one in spellings(word, "abc可決") if one.isascii()] == []


def changed(old: str, new: str, key: int, text: str = LEVY) -> tuple[Wording, bytes, int]:
    """Wording of the report with another word, evidence of the report, place of the word."""
    fingerprint = Fingerprinter(Options(hash_key=f"{key:x}"))
    stored = fingerprint(Document(key="1", text=text))
    page = fingerprint(Document(key="2", text=re.sub(rf"\b{old}\b", new, text))).wording
    return page, stored.evidence, page.tokens().index(new.lower()) << 3 | 1


def is_other(page: Wording, evidence: bytes, places: int) -> bool:
    """Whether the word at the places says something else."""
    return OtherWords(page)(evidence, places)


@pytest.mark.parametrize(
    ("old", "new"), [("inspectors", "inspecters"), ("yellow", "yelow"), ("rubbish", "rubbihs")]
)
@pytest.mark.parametrize("key", range(1, 9))
def test_slips_are_spellings(old: str, new: str, key: int) -> None:
    """A slip is one whatever the key of the hashes, and so is its correction."""
    assert not is_other(*changed(old, new, key))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("welcomed", "rejected"),
        ("ferries", "tankers"),
        ("sells", "steals"),
        ("yellow", "finance"),  # these are in the list of words that stand for others
        ("rubbish", "privatised"),
        ("inspectors", "accident"),
    ],
)
def test_other_words(old: str, new: str) -> None:
    """Another word is taken for a spelling about once in eight cases, also one that stands for
    others."""
    found = [is_other(*changed(old, new, key)) for key in range(1, 25)]
    assert found.count(True) >= 16


@pytest.mark.parametrize(
    ("old", "new"),
    [("fire", "blaze"), ("baptised", "baptized"), ("catalogue", "catalog"), ("mum", "mom")],
)
def test_words_that_editors_exchange(old: str, new: str) -> None:
    """Words of one group of the list, and letters that the page lacks, in both directions."""
    text = LEVY.replace("yellow", old)
    for one, other in ((old, new), (new, old)):
        for key in range(1, 9):
            assert not is_other(*changed(one, other, key, text.replace(old, one)))


@pytest.mark.parametrize(
    ("old", "new", "other"),
    [
        ("sgt Smith", "col Smith", False),
        ("Smith jr", "Smith sr", False),
        ("Smith sank", "Smith met", True),
    ],
)
def test_short_words_beside_names(old: str, new: str, other: bool) -> None:
    """A title, an initial or a particle may be exchanged; a short word behind a name is mostly
    none."""
    text = LEVY.replace("yellow", old)
    old, new = (" ".join(set(one.split()) - {"Smith"}) for one in (old, new))
    found = [is_other(*changed(old, new, key, text)) for key in range(1, 9)]
    assert found.count(True) >= 6 if other else not any(found)


@pytest.mark.parametrize("times", [0, 200])
def test_pages_whose_words_are_not_compared(times: int) -> None:
    """Bytes of short pages and of very long ones don't have the words."""
    text = "Rain fell all day." + "".join(f" Word{i} and other{i}. {LEVY}" for i in range(times))
    page = Fingerprinter(Options())(Document(key="1", text=text)).wording
    assert page.words < 60 or len(page.order) > 8193
    assert not page.tokens()
    assert not Wording.from_bytes(page.to_bytes()).tokens()


@given(st.text(max_size=300), st.integers(0, 9))
def test_tokens_are_the_words_that_are_hashed(text: str, key: int) -> None:
    """Each token has the hash that the wording has, unless it is a numeral in words or a word of a
    date line; and the bytes of a wording keep the tokens."""
    fingerprint = Fingerprinter(Options(hash_key=f"{key:x}"))
    page = fingerprint(Document(key="1", text=f"{LEVY}\n{text}")).wording
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
