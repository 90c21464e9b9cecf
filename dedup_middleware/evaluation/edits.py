"""Edits of a text as pages on the web differ: made by a seed, so that every run gives the same.

    >>> edit("一句话。两句话。", "truncation", 0.5, seed=1)
    '一句话。'

Every kind takes an intensity from 0, the text itself, to 1. It is the share of the units of the
text (sentences, words, letters) that the edit touches, rounded up, unless :data:`KINDS` gives
otherwise. The same text, kind, intensity and seed give the same result in every process, on every
machine and with every version of Python. What is inserted is made up (:class:`Material`).

A **sentence** ends with its full stop, question or exclamation mark and the quotation marks
behind it, or at the end of a line. A **word** is a run of letters and digits; in Chinese and
Japanese, which need a dictionary to find words, it is two ideographs, which most words are. A
**letter** is a character of a word.

Numerals are no letters, and words with numerals are neither deleted nor replaced: a page with
other figures is another page, which is what ``figures-changed`` makes.
"""

from __future__ import annotations

import json
import math
import random
import re
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from importlib.resources import files
from typing import Any, Final

import attrs


@attrs.frozen
class Material:
    """What is inserted into texts of one script, all of it made up; ``{}`` is a number in it."""

    letters: str
    words: Sequence[str]
    between: str  # two words
    sentences: Sequence[str]
    adverts: Sequence[str]
    headers: Sequence[str]  # what an agency or outlet puts around a text
    footers: Sequence[str]
    stamps: Sequence[str]  # lines with a time


def _read_material() -> tuple[Material, Material, Mapping[str, str]]:
    """What is made up for Chinese and for other texts, and traditional forms by simplified ones."""
    file = files("dedup_middleware.evaluation") / "data" / "material.json"
    made_up: dict[str, Any] = json.loads(file.read_text("utf-8"))
    forms = zip(made_up["simplified"], made_up["traditional"], strict=True)
    return Material(**made_up["chinese"]), Material(**made_up["latin"]), dict(forms)


# Simplified characters with one traditional form only: 发, 后, 里, 面 and their like are left out.
CHINESE, LATIN, TRADITIONAL = _read_material()


_HAN: Final = "\u3400-\u4dbf\u4e00-\u9fff"
_NUMERALS: Final = "零〇一二三四五六七八九十百千万亿两"
_WORD: Final = re.compile(f"[{_HAN}]{{1,2}}|[^\\W_{_HAN}]+")
_LETTER: Final = re.compile(f"[^\\W\\d_{_NUMERALS}]")
_NUMERAL: Final = re.compile(f"[\\d{_NUMERALS}]")
_IDEOGRAPH: Final = re.compile(f"[{_HAN}]")
# A sentence, and the white space behind it.
_SENTENCE: Final = re.compile(
    "((?:[^。！？!?.।॥۔؟\\n]|\\.(?!\\s|$))*(?:[。！？!?.।॥۔؟]+[”’」』）\"')]*|(?=\\n)|$))(\\s*)"
)
_NUMBER: Final = re.compile(r"\d+")


class _Dice:
    """Random choices that never change; of :mod:`random` only ``random()`` promises that."""

    def __init__(self, kind: str, seed: int) -> None:
        digest = blake2b(f"{kind}/{seed}".encode(), digest_size=8).digest()
        self._random = random.Random(int.from_bytes(digest, "little")).random

    def below(self, n: int) -> int:
        """A number from 0 to n - 1."""
        return int(self._random() * n)

    def pick(self, choices: Sequence[str]) -> str:
        """One of some strings."""
        return choices[self.below(len(choices))]

    def order(self, n: int) -> list[int]:
        """The numbers below n in random order."""
        numbers = list(range(n))
        for i in range(n - 1, 0, -1):
            j = self.below(i + 1)
            numbers[i], numbers[j] = numbers[j], numbers[i]
        return numbers

    def some(self, n: int, share: float) -> list[int]:
        """A share of the numbers below n, rounded up, ascending."""
        return sorted(self.order(n)[: count_of(n, share)])


_Edit = Callable[[str, float, _Dice], str]


def count_of(n: int, share: float) -> int:
    """A share of n things, rounded up.

    >>> count_of(10, 0.31), count_of(10, 0.3), count_of(0, 1.0)
    (4, 3, 0)
    """
    # A hair less, so that 0.1 * 30 does not become 4.
    return min(n, math.ceil(n * share - 1e-9))


def split_sentences(text: str) -> list[tuple[str, str]]:
    """The sentences of a text, each with the white space behind it; they add up to the text.

    >>> split_sentences("One. Two!\\nThree")
    [('One.', ' '), ('Two!', '\\n'), ('Three', '')]
    """
    return [(m[1], m[2]) for m in _SENTENCE.finditer(text) if m[0]]


def split_words(text: str) -> list[str]:
    """The text cut into words (odd places) and what is between them (even places).

    >>> split_words("a b。")
    ['', 'a', ' ', 'b', '。']
    """
    parts, end = [], 0
    for match in _WORD.finditer(text):
        parts += [text[end : match.start()], match[0]]
        end = match.end()
    return [*parts, text[end:]]


def _material(text: str) -> Material:
    return CHINESE if _IDEOGRAPH.search(text) else LATIN


def _join(sentences: Sequence[tuple[str, str]]) -> str:
    return "".join(sentence + gap for sentence, gap in sentences)


def _sentence_order(text: str, intensity: float, dice: _Dice) -> str:
    sentences = split_sentences(text)
    places = [i for i, (sentence, _) in enumerate(sentences) if sentence]
    # One sentence alone can't move.
    chosen = [places[i] for i in dice.some(len(places), max(intensity, 2 / max(len(places), 2)))]
    moved = [sentences[i][0] for i in chosen]
    # Rotated after shuffling, so that distinct sentences do move.
    order = dice.order(len(moved))
    for place, source in zip(order, order[1:] + order[:1], strict=True):
        sentences[chosen[place]] = (moved[source], sentences[chosen[place]][1])
    return _join(sentences)


def _sentences_inserted(text: str, intensity: float, dice: _Dice) -> str:
    sentences, material = split_sentences(text), _material(text)
    for place in reversed(dice.some(len(sentences), intensity)):
        sentences.insert(place, (dice.pick(material.sentences), ""))
    return _join(sentences)


def _sentences_deleted(text: str, intensity: float, dice: _Dice) -> str:
    sentences = split_sentences(text)
    gone = set(dice.some(len(sentences), intensity))
    return _join([s for i, s in enumerate(sentences) if i not in gone])


def _sentences_changed(text: str, intensity: float, dice: _Dice) -> str:
    """Half of the words of the chosen sentences are replaced."""
    sentences, material = split_sentences(text), _material(text)
    for i in dice.some(len(sentences), intensity):
        sentence, gap = sentences[i]
        sentences[i] = (_replace_words(sentence, 0.5, dice, material), gap)
    return _join(sentences)


def _first_sentences(text: str, intensity: float, dice: _Dice) -> str:
    sentences, material = split_sentences(text), _material(text)
    for i in range(count_of(len(sentences), intensity)):
        sentences[i] = (dice.pick(material.sentences).rstrip(), sentences[i][1])
    return _join(sentences)


def _other(dice: _Dice, choices: Sequence[str], old: str) -> str:
    """One of some strings, but not ``old``."""
    i = dice.below(len(choices))
    return choices[i] if choices[i] != old else choices[(i + 1) % len(choices)]


def _each_word(text: str, share: float, dice: _Dice, change: Callable[[str], str]) -> str:
    """A text with a share of its words changed, those with a numeral left out."""
    parts = split_words(text)
    places = [i for i in range(1, len(parts), 2) if not _NUMERAL.search(parts[i])]
    for i in dice.some(len(places), share):
        parts[places[i]] = change(parts[places[i]])
    return "".join(parts)


def _replace_words(text: str, share: float, dice: _Dice, material: Material) -> str:
    return _each_word(text, share, dice, lambda word: _other(dice, material.words, word))


def _words_inserted(text: str, intensity: float, dice: _Dice) -> str:
    material = _material(text)
    return _each_word(
        text, intensity, dice, lambda word: dice.pick(material.words) + material.between + word
    )


def _each_letter(units: re.Pattern[str], change: Callable[[str, str, _Dice], str]) -> _Edit:
    """What changes a share of the letters that a pattern finds.

    :param change: is given the letter, and letters of the script to choose from
    """

    def make(text: str, intensity: float, dice: _Dice) -> str:
        places = [m.start() for m in units.finditer(text)]
        characters, letters = list(text), _material(text).letters
        for i in dice.some(len(places), intensity):
            characters[places[i]] = change(characters[places[i]], letters, dice)
        return "".join(characters)

    return make


def _advert(text: str, intensity: float, dice: _Dice) -> str:
    """Adverts as long as a share of the text, at least one."""
    adverts = _material(text).adverts
    block = ""
    while len(block) < max(1, intensity * len(text)):
        block += dice.pick(adverts)
    return block


def _advert_inside(text: str, intensity: float, dice: _Dice) -> str:
    sentences = split_sentences(text)
    middle = (len(sentences) + 1) // 2
    block = _advert(text, intensity, dice)
    return f"{_join(sentences[:middle])}\n{block}\n{_join(sentences[middle:])}"


def _numbered(template: str, dice: _Dice) -> str:
    while "{}" in template:
        template = template.replace("{}", str(10 + dice.below(2)), 1)
    return template


def _agency_note(text: str, intensity: float, dice: _Dice) -> str:
    material = _material(text)
    notes = [*material.headers, *material.footers]
    chosen = dice.some(len(notes), intensity)
    header = "".join(_numbered(notes[i], dice) for i in chosen if i < len(material.headers))
    footer = "".join(notes[i] for i in chosen if i >= len(material.headers))
    return header + text + footer


def _timestamps(text: str, intensity: float, dice: _Dice) -> str:
    stamps = _material(text).stamps
    chosen = dice.some(len(stamps), intensity)
    return "".join(_numbered(stamps[i], dice) for i in chosen) + text


def _figures_changed(text: str, intensity: float, dice: _Dice) -> str:
    found = list(_NUMBER.finditer(text))
    for i in reversed(dice.some(len(found), intensity)):
        first, last = found[i].span()
        digit = str((int(text[last - 1]) + 1 + dice.below(9)) % 10)
        text = text[:first] + text[first : last - 1] + digit + text[last:]
    return text


_ASCII: Final = re.compile("[!-~]")
_SIMPLIFIED_LETTER: Final = re.compile(f"[{''.join(TRADITIONAL)}]")

#: what makes each kind, and what it does
_EDITS: Final[dict[str, tuple[_Edit, str]]] = {
    "sentence-order": (
        _sentence_order,
        "sentences change places; paragraphs stay (at least two sentences move)",
    ),
    "characters-inserted": (
        _each_letter(_LETTER, lambda c, letters, dice: dice.pick(letters) + c),
        "a character before some letters",
    ),
    "characters-deleted": (_each_letter(_LETTER, lambda *_: ""), "some letters are missing"),
    "characters-changed": (
        _each_letter(_LETTER, lambda c, letters, dice: _other(dice, letters, c)),
        "another character in place of some letters",
    ),
    "words-inserted": (_words_inserted, "a word before some words"),
    "words-deleted": (
        lambda text, share, dice: _each_word(text, share, dice, lambda _: ""),
        "some words are missing",
    ),
    "words-changed": (
        lambda text, share, dice: _replace_words(text, share, dice, _material(text)),
        "another word in place of some words",
    ),
    "sentences-inserted": (_sentences_inserted, "a sentence before some sentences"),
    "sentences-deleted": (_sentences_deleted, "some sentences are missing"),
    "sentences-changed": (_sentences_changed, "half of the words of some sentences are replaced"),
    "first-sentences": (_first_sentences, "other sentences in place of the first ones"),
    "advert-before": (
        lambda text, share, dice: f"{_advert(text, share, dice)}\n{text}",
        "adverts before the text, as long as the share of it",
    ),
    "advert-inside": (_advert_inside, "adverts in the middle, as long as the share of the text"),
    "advert-after": (
        lambda text, share, dice: f"{text}\n{_advert(text, share, dice)}",
        "adverts behind the text, as long as the share of it",
    ),
    "agency-note": (_agency_note, "some of the notes of an agency before and behind the text"),
    "timestamps": (_timestamps, "some lines with times before the text"),
    "full-width": (
        _each_letter(_ASCII, lambda c, *_: chr(ord(c) + 0xFEE0)),
        "some ASCII characters in full width",
    ),
    "traditional": (
        _each_letter(_SIMPLIFIED_LETTER, lambda c, *_: TRADITIONAL[c]),
        "some of ninety common simplified characters in traditional form",
    ),
    "truncation": (
        lambda text, share, _: text[: len(text) - count_of(len(text), share)],
        "the end is missing, a share of the characters",
    ),
    "figures-changed": (
        _figures_changed,
        "another last digit in some numbers: a different page, not a near-duplicate",
    ),
}
KINDS: Final = {kind: meaning for kind, (_, meaning) in _EDITS.items()}
#: kinds that make another page of it, which must not be taken for the first one
OTHER_PAGE: Final = frozenset({"figures-changed"})


def edit(text: str, kind: str, intensity: float, seed: int) -> str:
    """An edited copy of a text.

    :param kind: one of :data:`KINDS`
    :param intensity: 0 (the text itself) to 1
    :param seed: any whole number; each gives another copy
    :raises ValueError: no such kind, or an intensity outside 0 to 1
    """
    if kind not in _EDITS:
        raise ValueError(f"kind={kind!r} is unknown: use one of {', '.join(_EDITS)}")
    if not 0.0 <= intensity <= 1.0:
        raise ValueError(f"intensity={intensity!r} can't be used: use a number from 0 to 1")
    if intensity == 0 or not text:
        return text
    make, _ = _EDITS[kind]
    return make(text, intensity, _Dice(kind, seed))
