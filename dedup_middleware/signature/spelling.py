"""Tells another spelling of a word from another word by the evidence of a stored page.

A filter holds no letters. But the words that differ from a new one by one typing error are some
hundreds, and the filter shows for each whether the stored page has it where the page has the new
one. Of three shingles all are held by mistake for one word in 4,096, so another word is taken for
another spelling about once in eight cases.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Collection, Mapping
from functools import cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base.jit import kernel, subkernel
from dedup_middleware.base.kerneltypes import R8, R64, RI64, boolean, uint64
from dedup_middleware.model.fingerprint import Wording
from dedup_middleware.signature.exchanged import TRIPLE
from dedup_middleware.signature.held import filter_bytes, joined, mark_common, shingles_around
from dedup_middleware.signature.ribbon import Filter, holds
from dedup_middleware.text.capitals import CAPITAL
from dedup_middleware.text.characters import word_lists
from dedup_middleware.text.clauses import RESTYLED
from dedup_middleware.text.hashing import hash_words, mix

_SHORTEST: Final = 4  # letters: another letter in a shorter word makes another word
_SHORTEST_SLIP: Final = 3  # letters: letters of shorter words are neither left out nor exchanged
_SHORTEST_HANGUL: Final = 2  # syllables
_LONGEST: Final = 40
_HANGUL, _LAST_HANGUL = 0xAC00, 0xD7A3
_VOWELS, _FINALS = 21, 28  # of a Hangul syllable, which is (initial * 21 + vowel) * 28 + final
_INITIALS: Final = 19
_IDEOGRAPHS: Final = range(0x3400, 0xA000)
_LATIN: Final = 0x250  # code points below it are Latin letters
# Grave, acute, circumflex, tilde, diaeresis, and the marks of voice.
_ACCENTS: Final = "\u0300\u0301\u0302\u0303\u0308\u3099\u309a"
_LONG_KANA: Final = "ー"  # foreign words are written with it or without
_PAIRS: Final = ("ßss", "äae", "öoe", "üue")  # one letter and two that replace it
# Letters that may be missing in a page; and how many others of a page are tried at most, as among
# very many spellings the stored page seems to have some.
_ALPHABETS: Final = (
    "abcdefghijklmnopqrstuvwxyz",
    "абвгдежзийклмнопрстуфхцчшщъыьэюя",
    "αβγδεζηθικλμνξοπρστυφχψωσ",
    _LONG_KANA,
)
_MOST_LETTERS: Final = 64
_ONE: Final = np.uint64(1)


def _script(letter: str) -> int:
    """A number for the script of a letter."""
    code = ord(letter)
    return 0 if code < _LATIN or code >> 8 == 0x1E else code >> 8


def _accents(letter: str) -> list[str]:
    """A letter with other accents or none; a kana with another mark of voice or none."""
    base = unicodedata.normalize("NFD", letter)[0]
    found = [unicodedata.normalize("NFC", base + mark) for mark in _ACCENTS]
    return [base, *(one for one in found if len(one) == 1)]


def _syllables(syllable: str) -> list[str]:
    """The Hangul syllables that differ from one in its initial, its vowel or its final."""
    code = ord(syllable) - _HANGUL
    initial, vowel, final = code // _FINALS // _VOWELS, code // _FINALS % _VOWELS, code % _FINALS
    codes = [(i * _VOWELS + vowel) * _FINALS + final for i in range(_INITIALS)]
    codes += [(initial * _VOWELS + i) * _FINALS + final for i in range(_VOWELS)]
    codes += [(initial * _VOWELS + vowel) * _FINALS + i for i in range(_FINALS)]
    return [chr(_HANGUL + one) for one in codes]


def spellings(word: str, letters: Collection[str]) -> list[str]:
    """Return the words that differ from a word by one typing error: a letter that was left out,
    inserted or replaced, or two that changed places (F. J. Damerau, CACM 7(3), 1964); in Hangul by
    one part of a syllable. So do words with ss for ß, or ae for ä.

    :param letters: letters that may be inserted, or replace others in words of their script;
        accents are always replaced
    :returns: for a word of three letters, none that leaves a letter out or replaces it; for a
        shorter one (in Hangul, one syllable) only ss for ß and other accents; none for a word with
        an ideograph, or without a letter

    >>> sorted(spellings("word", "s"))[:6]
    ['ord', 'owrd', 'sord', 'sword', 'wod', 'wodr']
    """
    codes = [ord(letter) for letter in word]
    is_hangul = all(_HANGUL <= code <= _LAST_HANGUL for code in codes)
    shortest = _SHORTEST_HANGUL if is_hangul else _SHORTEST_SLIP
    if len(word) > _LONGEST or any(code in _IDEOGRAPHS for code in codes):
        return []
    if not any(letter.isalpha() for letter in word):
        return []
    cuts = [(word[:i], word[i:]) for i in range(len(word) + 1)]
    found = set()
    for pair in _PAIRS:
        one, two = pair[0], pair[1:]
        found |= {left + two + right[1:] for left, right in cuts if right[:1] == one}
        found |= {left + one + right[2:] for left, right in cuts if right[:2] == two}
    for left, right in cuts[:-1]:
        found |= {left + other + right[1:] for other in _accents(right[0])}
    if len(word) < shortest:
        return sorted(found - {word})
    scripts = {_script(letter) for letter in word}
    others = [] if is_hangul else [one for one in letters if _script(one) in scripts]
    found |= {left + right[1] + right[0] + right[2:] for left, right in cuts[:-2]}
    is_long = is_hangul or len(word) >= _SHORTEST
    for left, right in cuts:
        found |= {left + other + right for other in others}
        if right and is_long:
            instead = _syllables(right[0]) if is_hangul else others
            found.add(left + right[1:])
            found |= {left + other + right[1:] for other in instead}
    return sorted(found - {word})


@subkernel
def _holds_instead(words: Any, seeds: Any, other: Any, place: Any, said: Any, instead: Any) -> Any:
    """Whether the other page holds all shingles with the word at a place if another one is there;
    also those that it seems to hold as they are, because one in sixteen is a false positive."""
    base, start = seeds[0], seeds[1]
    for first in range(max(0, place - TRIPLE + 1), min(place, words.size - TRIPLE) + 1):
        value = np.uint64(0)
        for word in range(first, first + TRIPLE):
            value = value * base + (instead if words[word] == said else words[word])
        if not holds(other, mix(value ^ start)):
            return False
    return True


@kernel(boolean(R64, R64, R64, R8, RI64, uint64, R64))
def _holds_any(
    order: Any, words: Any, seeds: Any, data: Any, ends: Any, said: Any, others: Any
) -> Any:
    """Whether one of `others` may be what the stored page has wherever it lacks `said`."""
    other = Filter(data, np.uint64(ends[0]) + _ONE, filter_bytes(data, ends[0], ends[1]))
    common = np.empty(order.size, np.uint8)
    mark_common(order, other, np.int64(0), common)
    places, count = np.empty(words.size, np.int64), 0
    for place in range(words.size):
        held, around = shingles_around(common, place, TRIPLE)
        if words[place] == said and held < around:
            places[count] = place
            count += 1
    for k in range(others.size):
        found = 0
        while found < count and _holds_instead(words, seeds, other, places[found], said, others[k]):
            found += 1
        if count and found == count:
            return True
    return False


@cache
def _groups() -> Mapping[str, frozenset[str]]:
    """For each word of the list `styles` those that may stand for it."""
    found: dict[str, frozenset[str]] = {}
    for group in " ".join(word_lists()["styles"]).split(" | "):
        words = frozenset(group.split())
        found.update({word: found.get(word, frozenset()) | words for word in words})
    return found


class OtherWords:
    """Tells whether a word of a page says something else than the word that it replaces.

    Another spelling does not, nor does a word that editors put in its place (`said`, `reported`).
    Words with ideographs, and those of pages without a capital letter in a script that has them,
    are never other words, because they may be names, which are abridged in many ways.

    :param wording: of the new page
    """

    def __init__(self, wording: Wording) -> None:
        self._wording, self._words = wording, wording.tokens()
        # Not isalpha(): vowels are marks in the scripts of India.
        letters = Counter(letter for word in self._words for letter in word)
        common = (one for one, _ in letters.most_common(_MOST_LETTERS) if not one.isdecimal())
        self._letters = frozenset("".join(_ALPHABETS)).union(common)
        self._hashes: dict[int, NDArray[np.uint64] | None] = {}

    def __call__(self, evidence: bytes, places: int) -> bool:
        """Return whether the word says something else than the stored page.

        :param evidence: of the stored page, which is not sampled
        :param places: of the word, from :func:`~.exchanged.count_of_other_word`. There are several
            if all shingles that the stored page lacks have more than one word in common
        """
        first, bits = divmod(places, 1 << TRIPLE)
        return not any(
            self._may_be_same(evidence, place)
            for place in range(first, min(first + TRIPLE, len(self._words)))
            if bits >> place - first & 1
        )

    def _may_be_same(self, evidence: bytes, place: int) -> bool:
        """Whether the word at a place may say what the stored page says there."""
        if place not in self._hashes:
            self._hashes[place] = self._others(place)
        others, wording = self._hashes[place], self._wording
        return others is None or bool(
            _holds_any(
                wording.order, wording.word_hashes, wording.seeds, *joined([evidence]),
                wording.word_hashes[place], others,
            )
        )  # fmt: skip

    def _others(self, place: int) -> NDArray[np.uint64] | None:
        """Hashes of the words that may stand for the one at a place; None if any may."""
        word, begins = self._words[place], self._wording.begins
        capitals = begins & CAPITAL
        if any(ord(letter) in _IDEOGRAPHS for letter in word):
            return None
        if word.upper() != word and not capitals.any():
            return None
        # A title, an initial, or a first name: words of three letters have no mark of a capital.
        if len(word) < _SHORTEST and capitals[place + 1 : place + 2].any():
            return None
        if capitals[max(0, place - 1) : place].any() and word in word_lists()["behind-names"]:
            return None
        others = spellings(word, self._letters)
        if begins[place] & RESTYLED:
            others += sorted(_groups()[word] - {word})
        return hash_words(np.array(others or [""]), self._wording.seeds[2:4])
