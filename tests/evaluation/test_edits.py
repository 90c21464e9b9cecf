"""The edit generator: every kind does what it says, the same everywhere."""

from __future__ import annotations

import os
import subprocess
import sys
import unicodedata
from collections import Counter
from hashlib import blake2b

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dedup_middleware.evaluation.edits import (
    CHINESE,
    KINDS,
    LATIN,
    OTHER_PAGE,
    TRADITIONAL,
    count_of,
    edit,
    split_sentences,
    split_words,
)
from tests.texts import article, english

CHINESE_TEXT = "".join(
    f"{line}。第{i}段有{i * 7}人。\n" for i, line in enumerate(article(1).split("。"))
)
ENGLISH_TEXT = ". ".join(f"{english(i, 12)[:-1]} in {i * 7 + 3}" for i in range(12)) + "."
TEXTS = (CHINESE_TEXT, ENGLISH_TEXT)
NUMERALS = "0123456789零〇一二三四五六七八九十百千万亿两"
texts = pytest.mark.parametrize("text", TEXTS, ids=["chinese", "english"])
kinds = pytest.mark.parametrize("kind", KINDS)


def sentences(text: str) -> Counter[str]:
    """How often each sentence occurs."""
    return Counter(sentence for sentence, _ in split_sentences(text))


def letters(text: str) -> str:
    """The characters of words but for numerals, in order."""
    return "".join(c for c in text if c.isalnum() and c not in NUMERALS)


def is_part(part: str, whole: str) -> bool:
    """Whether the characters of one string occur in another in this order."""
    rest = iter(whole)
    return all(character in rest for character in part)


def words(text: str) -> list[str]:
    """The words of a text that have no numeral."""
    return [word for word in split_words(text)[1::2] if not set(word) & set(NUMERALS)]


@kinds
@texts
def test_intensity_0_is_the_text_itself(kind: str, text: str) -> None:
    """Nothing is touched, whatever the seed."""
    assert edit(text, kind, 0, 1) == text
    assert edit(text, kind, 0.0, 99) == text


@kinds
def test_edits_change_the_text(kind: str) -> None:
    """Every kind finds something to change in a text that has everything."""
    text = CHINESE_TEXT.replace("市政府", "国家车间") + "国家车间。" + ENGLISH_TEXT
    assert edit(text, kind, 0.5, 1) != text


@kinds
def test_same_seed_gives_the_same_copy_and_others_differ(kind: str) -> None:
    """The result depends on the seed alone; kinds in which chance has no part need none."""
    text = CHINESE_TEXT + "国家车间。" * 5 + ENGLISH_TEXT
    copies = [edit(text, kind, 0.3, seed) for seed in range(8)]
    assert copies == [edit(text, kind, 0.3, seed) for seed in range(8)]
    if kind == "truncation":
        assert len(set(copies)) == 1
    else:
        assert len(set(copies)) > 1


@texts
def test_sentence_order_keeps_the_multiset_of_sentences(text: str) -> None:
    """The same sentences in other places, and the white space where it was."""
    for intensity in (0.01, 0.3, 1.0):
        edited = edit(text, "sentence-order", intensity, 1)
        assert edited != text
        assert sentences(edited) == sentences(text)
        assert [gap for _, gap in split_sentences(edited)] == [g for _, g in split_sentences(text)]


def test_sentence_order_moves_as_many_as_asked_for() -> None:
    """The intensity is the share of the sentences that stand elsewhere, at least two."""
    text = "".join(f"第{i}句话。" for i in range(40))
    before = split_sentences(text)
    for intensity, moved in ((0.01, 2), (0.25, 10), (1.0, 40)):
        after = split_sentences(edit(text, "sentence-order", intensity, 3))
        assert sum(a != b for a, b in zip(before, after, strict=True)) == moved


@texts
def test_insertions_keep_what_was_there(text: str) -> None:
    """The copy holds the text, in order, and as much added text as the intensity says."""
    grown = edit(text, "characters-inserted", 0.1, 1)
    assert is_part(text, grown)
    assert len(grown) - len(text) == count_of(len(letters(text)), 0.1)
    grown = edit(text, "words-inserted", 0.1, 1)
    assert is_part(text, grown)
    known = set(CHINESE.words) | {word + LATIN.between for word in LATIN.words}
    assert len(grown) - len(text) >= count_of(len(words(text)), 0.1) * min(map(len, known))
    grown = edit(text, "sentences-inserted", 0.2, 1)
    added = sentences(grown) - sentences(text)
    assert added.total() == count_of(len(split_sentences(text)), 0.2)
    assert not sentences(text) - sentences(grown)
    made_up = {s.strip() for s in CHINESE.sentences + LATIN.sentences}
    assert set(added) <= made_up


@texts
def test_deletions_only_delete(text: str) -> None:
    """The text holds the copy, in order, which lacks as much as the intensity says."""
    for kind, units in (("characters", letters(text)), ("words", words(text))):
        copy = edit(text, f"{kind}-deleted", 0.2, 1)
        assert is_part(copy, text)
        if kind == "characters":
            assert len(text) - len(copy) == count_of(len(units), 0.2)
    copy = edit(text, "sentences-deleted", 0.2, 1)
    gone = sentences(text) - sentences(copy)
    assert gone.total() == count_of(len(split_sentences(text)), 0.2)
    assert not sentences(copy) - sentences(text)


@texts
def test_changes_keep_the_number_of_units(text: str) -> None:
    """Other characters, words and sentences stand in the place of as many as asked for."""
    copy = edit(text, "characters-changed", 0.1, 1)
    changed = sum(a != b for a, b in zip(text, copy, strict=True))
    assert changed == count_of(len(letters(text)), 0.1)
    before, after = (
        split_words(ENGLISH_TEXT),
        split_words(edit(ENGLISH_TEXT, "words-changed", 0.1, 1)),
    )
    changed = sum(a != b for a, b in zip(before, after, strict=True))
    assert changed == count_of(len(words(ENGLISH_TEXT)), 0.1)
    copy = edit(text, "sentences-changed", 0.2, 1)
    changed = sum(a != b for a, b in zip(split_sentences(text), split_sentences(copy), strict=True))
    assert changed == count_of(len(split_sentences(text)), 0.2)


@pytest.mark.parametrize(
    "kind",
    [
        f"{unit}-{how}"
        for unit in ("characters", "words")
        for how in ("deleted", "changed", "inserted")
    ],
)
@texts
def test_figures_are_left_alone(kind: str, text: str) -> None:
    """Letters and words change, numerals do not: other figures make another page."""
    for seed in range(20):
        copy = edit(text, kind, 0.5, seed)
        assert [c for c in copy if c in NUMERALS] == [c for c in text if c in NUMERALS]


@texts
def test_first_sentences_leave_the_rest_alone(text: str) -> None:
    """The first ones are others, the last ones the same."""
    before, after = split_sentences(text), split_sentences(edit(text, "first-sentences", 0.2, 1))
    first = count_of(len(before), 0.2)
    assert after[first:] == before[first:]
    assert all(a != b for a, b in zip(after[:first], before[:first], strict=True))


@texts
def test_adverts_stand_where_they_should(text: str) -> None:
    """Before, in or after the text, as long as the share of it."""
    before = edit(text, "advert-before", 0.3, 1)
    after = edit(text, "advert-after", 0.3, 1)
    assert before.endswith("\n" + text)
    assert after.startswith(text + "\n")
    for copy in (before, after):
        assert len(copy) - len(text) > 0.3 * len(text)
    inside = edit(text, "advert-inside", 0.3, 1)
    assert is_part(text, inside)
    assert inside[:20] == text[:20]
    assert inside[-20:] == text[-20:]
    assert any(advert in inside for advert in CHINESE.adverts + LATIN.adverts)


@texts
def test_notes_and_timestamps_go_round_the_text(text: str) -> None:
    """The text itself stays whole; with intensity 1 every note is there."""
    copy = edit(text, "agency-note", 1.0, 1)
    material = CHINESE if text is CHINESE_TEXT else LATIN
    assert text in copy
    assert copy.endswith("".join(material.footers))
    assert copy.startswith(material.headers[0])
    assert "{" not in copy
    stamped = edit(text, "timestamps", 1.0, 1)
    assert stamped.endswith(text)
    assert stamped.count("2031") == len(material.stamps)
    assert len(edit(text, "timestamps", 0.1, 1)) < len(stamped)


@texts
def test_width_and_script_variants_say_the_same(text: str) -> None:
    """Full width folds back by NFKC; traditional characters by the table."""
    wide = edit(text, "full-width", 0.5, 1)
    assert wide != text
    assert unicodedata.normalize("NFKC", wide) == unicodedata.normalize("NFKC", text)
    simplified = {traditional: simple for simple, traditional in TRADITIONAL.items()}
    source = text + "国家的车间开了门。"
    copy = edit(source, "traditional", 1.0, 1)
    assert copy != source
    assert copy.translate(str.maketrans(simplified)) == source


def test_table_of_traditional_characters_is_a_bijection() -> None:
    """No two simplified characters share a traditional one, and none is its own."""
    assert len(set(TRADITIONAL.values())) == len(TRADITIONAL)
    assert not set(TRADITIONAL) & set(TRADITIONAL.values())


@texts
def test_truncation_is_a_prefix(text: str) -> None:
    """What is left is the beginning, shorter by the intensity."""
    for intensity in (0.1, 0.5, 1.0):
        copy = edit(text, "truncation", intensity, 1)
        assert text.startswith(copy)
        assert len(copy) == len(text) - count_of(len(text), intensity)


def test_changed_figures_change_nothing_else() -> None:
    """Each number keeps its length and gets another last digit; the words stay."""
    text = "共有25人，3月4日出发，耗资1200元。"
    copy = edit(text, "figures-changed", 1.0, 1)
    changed = [(a, b) for a, b in zip(text, copy, strict=True) if a != b]
    assert len(changed) == 4
    assert all(a.isdigit() and b.isdigit() for a, b in changed)
    assert edit("没有数字。", "figures-changed", 1.0, 1) == "没有数字。"
    assert frozenset({"figures-changed"}) == OTHER_PAGE


@given(text=st.text(max_size=200), kind=st.sampled_from(list(KINDS)), intensity=st.floats(0, 1))
@settings(max_examples=300, deadline=None)
def test_any_text_can_be_edited(text: str, kind: str, intensity: float) -> None:
    """No text raises, and the same call gives the same copy."""
    assert edit(text, kind, intensity, 5) == edit(text, kind, intensity, 5)


@given(text=st.text(alphabet="ab。.!\n ”）", max_size=60))
def test_sentences_and_words_add_up_to_the_text(text: str) -> None:
    """Nothing is lost by cutting."""
    assert "".join(sentence + gap for sentence, gap in split_sentences(text)) == text
    assert "".join(split_words(text)) == text


def test_long_runs_without_an_end_take_no_time() -> None:
    """A megabyte without a full stop or with nothing else is cut in linear time."""
    for text in ("字" * 1_000_000, "。" * 1_000_000, "a." * 500_000):
        assert sum(len(s) + len(g) for s, g in split_sentences(text)) == len(text)


@pytest.mark.parametrize("intensity", [-0.1, 1.5, float("nan")])
def test_bad_intensity_is_refused(intensity: float) -> None:
    """The message names the value and the bounds."""
    with pytest.raises(ValueError, match="from 0 to 1"):
        edit("text", "truncation", intensity, 1)


def test_unknown_kind_is_refused() -> None:
    """The message lists the kinds there are."""
    with pytest.raises(ValueError, match="sentence-order"):
        edit("text", "shuffle", 0.5, 1)


def fingerprint_of_all() -> str:
    """One hash of every kind of edit of two texts."""
    copies = [edit(t, kind, i, 7) for t in TEXTS for kind in KINDS for i in (0.05, 0.5)]
    return blake2b("\0".join(copies).encode(), digest_size=8).hexdigest()


def test_copies_are_the_same_in_every_process() -> None:
    """The seed of Python's string hashes has no part in it."""
    code = "import tests.evaluation.test_edits as t; print(t.fingerprint_of_all())"
    for seed in ("1", "2"):
        result = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert result.stdout.strip() == fingerprint_of_all()


def test_copies_are_those_of_earlier_versions() -> None:
    """A seed published with a result gives the same copies for ever, in every Python."""
    text = "甲乙丙丁戊己庚辛壬癸。" * 2
    assert edit(text, "characters-deleted", 0.2, 1) == "乙丙戊庚辛壬癸。甲乙丙丁戊己庚辛壬。"
    assert edit("a b c d e f g h", "words-changed", 0.25, 1) == "goose b c lantern e f g h"
