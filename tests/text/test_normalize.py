from __future__ import annotations

import sys
import unicodedata

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dedup_middleware.text import characters, normalize
from dedup_middleware.text.characters import code_points, fold_text, load_characters, word_classes
from tests.text import generate_character_classes, oracles
from tests.text.oracles import texts


def folded(text: str) -> str:
    """The normal form by the kernel."""
    codes, _ = fold_text(text, oracles.characters())
    return codes.tobytes().decode("utf-32-le", "surrogatepass")


@pytest.mark.slow
@settings(deadline=None, max_examples=1000)
@given(texts)
def test_the_table_gives_the_normal_form(text: str) -> None:
    """The kernel's look-ups equal the definition in terms of unicodedata."""
    assert folded(text) == normalize.normalize(text)


@pytest.mark.slow
def test_every_code_point() -> None:
    """Each code point alone, and between letters, has the normal form of the definition."""
    table = load_characters({}, "").table
    context = set(np.flatnonzero(table >> characters.KIND_SHIFT == characters.CONTEXT).tolist())
    context.update(range(0x2F800, 0x2FA20))
    free = "".join(f"{chr(c)}\na{chr(c)}a" for c in range(sys.maxunicode + 1) if c not in context)
    assert folded(free) == normalize.normalize(free)
    for text in (f"a{chr(code)}a\n{chr(code)}" for code in sorted(context)):
        assert folded(text) == normalize.normalize(text)


@settings(deadline=None, max_examples=400)
@given(st.from_regex(normalize._ORDINARY, fullmatch=True))
def test_ordinary_text(text: str) -> None:
    """Text of ordinary characters has the form of the definition without its tables."""
    assert normalize.normalize(text) == normalize.compose(text).translate(normalize.special().folds)


def test_ordinary_characters() -> None:
    """So has each of these characters alone; the others are left to the tables."""
    ordinary = "".join(filter(normalize._ORDINARY.fullmatch, map(chr, range(sys.maxunicode + 1))))
    assert len(ordinary) > 21_000
    for character in ordinary:
        composed = normalize.compose(character).translate(normalize.special().folds)
        assert normalize.normalize(character) == composed


@settings(deadline=None, max_examples=400)
@given(texts)
def test_idempotent(text: str) -> None:
    """The normal form of a normal form is itself."""
    once = normalize.normalize(text)
    assert normalize.normalize(once) == once


@pytest.mark.slow
@settings(deadline=None, max_examples=400)
@given(texts)
def test_built_on_nfkc(text: str) -> None:
    """Without dropped characters, folds and long runs of marks it is NFKC of lower case."""
    special = normalize.special()
    plain = "".join(c for c in text if ord(c) not in special.dropped)[:25]
    expected = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", plain).lower())
    assert normalize.normalize(plain) == expected.translate(special.folds)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("ＡＢＣ　１２３", "abc 123"),
        ("zero\u200bwidth\ufeff soft\u00adhyphen\u202e", "zerowidth softhyphen"),
        ("e\u0301\u00c9", "éé"),
        ("ΟΔΟΣ οδός", "οδοσ οδόσ"),
        ("can’t can‘t can't", "can't can't can't"),
        ("٣ ३ ๓ ３ ③", "3 3 3 3 3"),
        ("ｶﾞ ﬁ ㎡ … ½", "ガ fi m2 ... 1⁄2"),
        ("각", "각"),
        ("a\nb\tc", "a\nb\tc"),
        ("\x00\x1b\x7f", ""),
    ],
)
def test_known_forms(before: str, after: str) -> None:
    """Width, case, composition, digits and apostrophes fold; invisible characters go."""
    assert folded(before) == normalize.normalize(before) == after


def test_marks_are_bounded() -> None:
    """Of a million combining marks, whose reordering would take an hour, thirty stay."""
    form = folded("a" + "\u0315\u0300" * 500_000)
    assert len(form) == 30  # one of the thirty marks that stay composes with the letter


def test_expansion_beyond_the_first_buffer() -> None:
    """Text made of characters with long forms needs a larger buffer and gets it."""
    assert folded("\ufdfa" * 5000) == normalize.normalize("\ufdfa") * 5000


def test_surrogates_survive() -> None:
    """Lone surrogates have code points like all else."""
    assert code_points("\ud800").tolist() == [0xD800]
    assert folded("\ud800a\udfff") == "\ud800a\udfff"


def test_word_classes_are_unicodes() -> None:
    """The shipped classes are what the generator makes of the Unicode Character Database, for
    all code points that this Python knows."""
    shipped, symbols = word_classes() & 0xF, np.zeros(0x110000, np.bool_)
    fresh = np.zeros_like(shipped)
    for first, last, name in generate_character_classes.ranges():
        if name == "symbol":
            symbols[first : last + 1] = True
        else:
            fresh[first : last + 1] = characters.CLASSES[name]
    fresh[0x20000:0x40000] = characters.SINGLE
    differ = [c for c in np.flatnonzero(shipped != fresh) if unicodedata.category(chr(c)) != "Cn"]
    assert differ == []
    flagged = word_classes() & characters.SYMBOL == characters.SYMBOL
    differ = [c for c in np.flatnonzero(flagged != symbols) if unicodedata.category(chr(c)) != "Cn"]
    assert differ == []
