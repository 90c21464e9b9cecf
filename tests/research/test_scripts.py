"""Edited copies are found in every script, and other pages are not taken for copies."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from dedup_middleware import Document, Options
from dedup_middleware.evaluation.comparers import methods_available
from research.__main__ import main
from research.surface import NEXT_PAGE, by_script, script_of
from tests.evaluation.lines import rows

# Of each script: its name, some letters, what separates words, and what ends a sentence.
SCRIPTS = (
    ("Latin", "aeioubdgklmnprst", " ", ". "),
    ("Cyrillic", "аеиоубдгклмнпрст", " ", ". "),
    ("Greek", "αειουβδγκλμνπρστ", " ", ". "),
    ("Hebrew", "אבגדהוזחטיכלמנסע", " ", ". "),
    ("Arabic", "ابتثجحدذرزسشصضعق", " ", "۔ "),
    ("Devanagari", "कखगघचछजटडतथदपबमय", " ", "। "),
    ("Thai", "กขคงจชซดตถทนบปผม", "", "\n"),
    ("Hangul (Korean)", "가나다라마바사아자차카타파하거너", " ", ". "),
    # Each kana is a word, and of a few words any order has the same shingles by chance.
    (
        "Japanese",
        "あいうえおかきくけこさしすせそたちつてとなにぬねのはひふへほまみむめもやゆよらりるれろ",
        "",
        "。",
    ),
)
KINDS = ("words-changed", "words-deleted", "sentence-order", "full-width", "timestamps")


def page(script: int, seed: int) -> str:
    """A made-up page of about 900 letters with some numbers."""
    _, letters, between, stop = SCRIPTS[script]
    rng = random.Random(f"{script}/{seed}")
    words = ["".join(rng.choices(letters, k=rng.randrange(2, 6))) for _ in range(300)]
    sentences: list[str] = []
    while sum(map(len, sentences)) < 900:
        number = f"{between}{rng.randrange(10, 900)}" if rng.random() < 0.3 else ""
        sentences.append(between.join(rng.choices(words, k=rng.randrange(7, 16))) + number)
    return stop.join(sentences) + stop


@pytest.mark.slow
@pytest.mark.parametrize("script", range(len(SCRIPTS)))
def test_light_edits_are_found(script: int) -> None:
    """Of each kind nine in ten; no copy with other figures, and no other page."""
    documents = [Document(key=f"{i}", text=page(script, i)) for i in range(12)]
    content = methods_available(Options(), ["content"])["content"]
    cells = {cell.kind: cell for cell in by_script(documents, content)}
    assert {cell.script for cell in cells.values()} == {SCRIPTS[script][0]}
    for kind in KINDS:
        assert (cells[kind].share or 0) >= 0.9, kind
    assert cells["figures-changed"].share == 0
    assert (cells[NEXT_PAGE].pages, cells[NEXT_PAGE].share) == (11, 0)


def test_the_script_is_that_of_most_letters() -> None:
    """Digits and signs have none."""
    assert script_of("12:30, 5 %") == "none"
    assert script_of("Ж" * 3 + "ab") == "Cyrillic"


def test_the_command_prints_a_column_for_each_script(tmp_path: Path) -> None:
    """One row for each kind of edit, and one with the number of pages."""
    file = tmp_path / "pages.jsonl"
    lines = [{"url": f"u{i}", "text": page(i % 3, i)} for i in range(6)]
    file.write_text("\n".join(json.dumps(line) for line in lines), encoding="utf-8")
    assert main(["scripts", str(file), "--out", str(tmp_path / "out"), "--no-plots"]) == 0
    table = rows(tmp_path / "out", "scripts-content")
    assert list(table[0]) == ["kind", "Cyrillic", "Greek", "Latin"]
    assert table[0] == {"kind": "pages", "Cyrillic": "2", "Greek": "2", "Latin": "2"}
    assert len(table) == 22
