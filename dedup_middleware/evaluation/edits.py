"""Seeded edits of a text that imitate how copies of pages differ on the web.

    >>> edit("一句话。两句话。", "truncation", 0.5, seed=1)
    '一句话。'

Every kind takes an intensity from 0 (the text itself) to 1: the share of the text's units
(sentences, words, letters) that are edited, rounded up, unless :data:`KINDS` says otherwise. The
same text, kind, intensity and seed give the same result in every process, on every machine and with
every version of Python. Inserted text is made up (:class:`Material`).

A **sentence** ends with its full stop, question or exclamation mark and any quotation marks after
it, or at the end of a line. A **word** is a run of letters and digits; in Chinese and Japanese,
where finding words needs a dictionary, it is two ideographs, the most frequent length. A **letter**
is a character of a word.

Numerals are not letters, and edits of words leave words with numerals as they are: a page with
other figures is another page. ``figures-changed`` makes such pages.
"""

from __future__ import annotations

import json
import math
import random
import re
from collections.abc import Callable, Sequence
from hashlib import blake2b
from importlib.resources import files
from typing import Any, Final

import attrs


@attrs.frozen
class Material:
    """Made-up text to insert into texts of one script; ``{}`` stands for a number."""

    letters: str
    words: Sequence[str]
    between: str  # separator of two words
    sentences: Sequence[str]
    adverts: Sequence[str]
    headers: Sequence[str]  # put around a text by agencies or outlets
    footers: Sequence[str]
    stamps: Sequence[str]  # lines with a time


_FILE: Final = files("dedup_middleware.evaluation") / "data" / "material.json"
_MADE_UP: Final[dict[str, Any]] = json.loads(_FILE.read_text("utf-8"))
CHINESE, LATIN = Material(**_MADE_UP["chinese"]), Material(**_MADE_UP["latin"])
# Only characters with a single traditional form: 发, 后, 里, 面 and their like are left out.
TRADITIONAL = dict(zip(_MADE_UP["simplified"], _MADE_UP["traditional"], strict=True))

_HAN: Final = "\u3400-\u4dbf\u4e00-\u9fff"
_NUMERALS: Final = "零〇一二三四五六七八九十百千万亿两"
_WORD: Final = re.compile(f"[{_HAN}]{{1,2}}|[^\\W_{_HAN}]+")
_LETTER: Final = re.compile(f"[^\\W\\d_{_NUMERALS}]")
_NUMERAL: Final = re.compile(f"[\\d{_NUMERALS}]")
_IDEOGRAPH: Final = re.compile(f"[{_HAN}]")
# A sentence, and the white space after it.
_SENTENCE: Final = re.compile(
    "((?:[^。！？!?.।॥۔؟\\n]|\\.(?!\\s|$))*(?:[。！？!?.।॥۔؟]+[”’」』）\"')]*|(?=\\n)|$))(\\s*)"
)
_NUMBER: Final = re.compile(r"\d+")


class _Dice:
    """Stable random choices; of :mod:`random` only ``random()`` promises to be stable."""

    def __init__(self, kind: str, seed: int) -> None:
        digest = blake2b(f"{kind}/{seed}".encode(), digest_size=8).digest()
        self._random = random.Random(int.from_bytes(digest, "little")).random

    def below(self, n: int) -> int:
        """Return a number from 0 to n - 1."""
        return int(self._random() * n)

    def pick(self, choices: Sequence[str]) -> str:
        """Return one of some strings."""
        return choices[self.below(len(choices))]

    def other(self, choices: Sequence[str], old: str) -> str:
        """Return one of some strings other than ``old``."""
        i = self.below(len(choices))
        return choices[i] if choices[i] != old else choices[(i + 1) % len(choices)]

    def order(self, n: int) -> list[int]:
        """Return the numbers below n in random order."""
        numbers = list(range(n))
        for i in range(n - 1, 0, -1):
            j = self.below(i + 1)
            numbers[i], numbers[j] = numbers[j], numbers[i]
        return numbers

    def some(self, n: int, share: float) -> list[int]:
        """Return a share of the numbers below n, rounded up, ascending."""
        return sorted(self.order(n)[: count_of(n, share)])


_Edit = Callable[[str, float, _Dice], str]


def count_of(n: int, share: float) -> int:
    """Return a share of n, rounded up.

    >>> count_of(10, 0.31), count_of(10, 0.3), count_of(0, 1.0)
    (4, 3, 0)
    """
    # A small tolerance, so that 0.1 * 30 does not become 4.
    return min(n, math.ceil(n * share - 1e-9))


def split_sentences(text: str) -> list[tuple[str, str]]:
    """Split a text into sentences, each with the white space after it; joined they are the text.

    >>> split_sentences("One. Two!\\nThree")
    [('One.', ' '), ('Two!', '\\n'), ('Three', '')]
    """
    return [(m[1], m[2]) for m in _SENTENCE.finditer(text) if m[0]]


def split_words(text: str) -> list[str]:
    """Split a text into words (odd indices) and what is between them (even indices).

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
    # At least two, as a single sentence can't move.
    chosen = [places[i] for i in dice.some(len(places), max(intensity, 2 / max(len(places), 2)))]
    moved = [sentences[i][0] for i in chosen]
    # Each takes the place of the one before it in a shuffled order, so none stays where it was.
    order = dice.order(len(moved))
    for place, source in zip(order, order[1:] + order[:1], strict=True):
        sentences[chosen[place]] = (moved[source], sentences[chosen[place]][1])
    return _join(sentences)


def _sentences_inserted(text: str, intensity: float, dice: _Dice) -> str:
    sentences = split_sentences(text)
    for place in reversed(dice.some(len(sentences), intensity)):
        sentences.insert(place, (dice.pick(_material(text).sentences), ""))
    return _join(sentences)


def _sentences_deleted(text: str, intensity: float, dice: _Dice) -> str:
    sentences = split_sentences(text)
    gone = set(dice.some(len(sentences), intensity))
    return _join([s for i, s in enumerate(sentences) if i not in gone])


def _sentences_changed(text: str, intensity: float, dice: _Dice) -> str:
    """Replace half of the words in the chosen sentences."""
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


def _each_word(text: str, share: float, dice: _Dice, change: Callable[[str], str]) -> str:
    """Change a share of the words that have no numeral."""
    parts = split_words(text)
    places = [i for i in range(1, len(parts), 2) if not _NUMERAL.search(parts[i])]
    for i in dice.some(len(places), share):
        parts[places[i]] = change(parts[places[i]])
    return "".join(parts)


def _replace_words(text: str, share: float, dice: _Dice, material: Material) -> str:
    return _each_word(text, share, dice, lambda word: dice.other(material.words, word))


def _words_inserted(text: str, intensity: float, dice: _Dice) -> str:
    words, between = _material(text).words, _material(text).between
    return _each_word(text, intensity, dice, lambda word: dice.pick(words) + between + word)


def _each_letter(units: re.Pattern[str], change: Callable[[str, str, _Dice], str]) -> _Edit:
    """Return an edit that applies ``change`` to a share of the characters that match ``units``.
    ``change`` gets the character, letters of the text's script, and the dice."""

    def make(text: str, intensity: float, dice: _Dice) -> str:
        places = [m.start() for m in units.finditer(text)]
        characters, letters = list(text), _material(text).letters
        for i in dice.some(len(places), intensity):
            characters[places[i]] = change(characters[places[i]], letters, dice)
        return "".join(characters)

    return make


def _advert(text: str, intensity: float, dice: _Dice) -> str:
    """Return adverts, at least one, that together are as long as a share of the text."""
    adverts = _material(text).adverts
    block = ""
    while len(block) < max(1, intensity * len(text)):
        block += dice.pick(adverts)
    return block


def _advert_inside(text: str, intensity: float, dice: _Dice) -> str:
    sentences, block = split_sentences(text), _advert(text, intensity, dice)
    middle = (len(sentences) + 1) // 2
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

#: by kind: the edit, and its description
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
        _each_letter(_LETTER, lambda c, letters, dice: dice.other(letters, c)),
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
        "adverts after the text, as long as the share of it",
    ),
    "agency-note": (_agency_note, "some of the notes of an agency before and after the text"),
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
#: kinds that make a different page, not a duplicate
OTHER_PAGE: Final = frozenset({"figures-changed"})


def edit(text: str, kind: str, intensity: float, seed: int) -> str:
    """Return an edited copy of a text.

    :param kind: one of :data:`KINDS`
    :param intensity: 0 (the text itself) to 1
    :param seed: any integer; each gives another copy
    :raises ValueError: an unknown kind, or an intensity outside 0 to 1
    """
    if kind not in _EDITS:
        raise ValueError(f"kind={kind!r} is unknown: use one of {', '.join(_EDITS)}")
    if not 0.0 <= intensity <= 1.0:
        raise ValueError(f"intensity={intensity!r} can't be used: use a number from 0 to 1")
    if intensity == 0 or not text:
        return text
    make, _ = _EDITS[kind]
    return make(text, intensity, _Dice(kind, seed))
