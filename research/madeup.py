"""Generates documents and labelled pairs from invented words and known edits.

Each category has words of its own besides the common ones, and every document has some that no
other has, so documents of one category are similar but distinct. The same seed gives the same
documents on every machine.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from dedup_middleware.evaluation.edits import edit
from dedup_middleware.evaluation.stream import COPIES, OTHERS
from dedup_middleware.methods.literature.charset import level_1

CATEGORIES: Final = 5
_COMMON: Final = 400  # words that all documents use
_SPECIAL: Final = 150  # words of a category
_OWN: Final = 25  # words of a document
_MEASURES: Final = "人 吨 件 亩 公里 万元".split()

Line = Mapping[str, Any]


class _Dice:
    """Random choices from ``random()`` only, which is stable across versions."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed).random
        self._characters = level_1()

    def below(self, n: int) -> int:
        """Return a number from 0 to n - 1."""
        return int(self.random() * n)

    def some(self, choices: Sequence[str], count: int) -> list[str]:
        """Return ``count`` of some strings, with replacement."""
        draw, n = self.random, len(choices)
        return [choices[int(draw() * n)] for _ in range(count)]

    def words(self, count: int) -> list[str]:
        """Return invented words of two characters."""
        return ["".join(self.some(self._characters, 2)) for _ in range(count)]


def _sentence(dice: _Dice, words: Sequence[str]) -> str:
    chosen = dice.some(words, 9 + dice.below(6))
    if dice.below(5) < 2:
        (measure,) = dice.some(_MEASURES, 1)
        chosen.insert(4, f"{1 + dice.below(9000)}{measure}")
    return f"{''.join(chosen[:6])}，{''.join(chosen[6:])}。"


def documents(count: int, seed: int = 1) -> Iterator[Line]:
    """Yield lines of a file of documents, 12 to 40 sentences each, all different."""
    dice = _Dice(seed)
    common = dice.words(_COMMON)
    special = [dice.words(_SPECIAL) for _ in range(CATEGORIES)]
    for i in range(count):
        category = i % CATEGORIES
        own = dice.words(_OWN)
        words = [*common[: 100 + dice.below(300)], *special[category], *own * 6]
        lines = [_sentence(dice, words) for _ in range(12 + dice.below(29))]
        text = "".join(line + "\n" * (n % 4 == 3) for n, line in enumerate(lines))
        yield {
            "key": f"https://example.org/{i}",
            "title": "".join(own[:3]),
            "text": text,
            "category": f"category {category}",
        }


def pairs(count: int, seed: int = 1) -> Iterator[Line]:
    """Yield lines of labelled pairs: light edits, copies, other figures, other documents."""
    lines = list(documents(2 * count, seed))
    # The next document of the same category is CATEGORIES further on.
    for i, line in enumerate(lines[:count]):
        text, other = line["text"], lines[i + CATEGORIES]
        kind, intensity = COPIES[i % len(COPIES)]
        yield _pair(f"{kind}-{i}", 1, kind, line, edit(text, kind, intensity, seed + i))
        kind, intensity = OTHERS[i % len(OTHERS)]
        changed = edit(text, kind, intensity, seed + i)
        if changed != text:
            yield _pair(f"{kind}-{i}", 0, kind, line, changed)
        yield _pair(f"other-{i}", 0, "other", line, other["text"], other["title"])
        if i % 10 == 0:
            yield _pair(f"copy-{i}", 1, "copy", line, text)


def _pair(
    key: str, label: int, kind: str, line: Line, text: str, title: str | None = None
) -> dict[str, Any]:
    return {
        "pair_id": key,
        "label": label,
        "type": kind,
        "a_title": line["title"],
        "a_text": line["text"],
        "b_title": line["title"] if title is None else title,
        "b_text": text,
    }


def write(path: Path, lines: Iterable[Line]) -> Path:
    """Write JSON lines."""
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    return path
