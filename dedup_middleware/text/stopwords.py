"""Stop words: the lists of stopwords-iso for Chinese and English, or a set of the user's own.

From the English list names, codes of countries, abbreviations and nouns such as computer and fire
are left out, as they are what a page is about. Of both lists the words that turn a sentence round
(not, before, 没有) are left out, see :mod:`dedup_middleware.text.clauses`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import Final

import attrs

from dedup_middleware.text.characters import word_lists
from dedup_middleware.text.clauses import polarity
from dedup_middleware.text.normalize import normalize

LANGUAGES: Final = ("zh", "en")
DEFAULT: Final = "zh,en"
MONTHS: Final = frozenset(word_lists()["months"])
_GERMAN: Final = "zwei drei vier fünf sechs sieben acht neun".split()
_SPANISH: Final = "dos tres cuatro seis ocho".split()
_GREEK: Final = "δια τρια τετρα πεντα εξα επτα εφτα οκτα οχτα εννια".split()
#: names of months, and numerals of several parts that are one word: neunhundert, δεκατρία
_COMPOUNDS: Final = MONTHS.union(
    word_lists()["compounds"],
    (f"{one}{much}" for one in _GERMAN for much in ("hundert", "tausend")),
    (f"{one}cient{end}" for one in _SPANISH for end in ("os", "as")),
    (f"{one}κόσι{end}" for one in _GREEK for end in ("οι", "εσ", "α", "ουσ")),
)
#: numerals written as words, which no shipped list leaves out
NUMBER_WORDS: Final = _COMPOUNDS.union(word_lists()["numbers"])
#: the same in Chinese, where they are parts of names too, so that alone they are no numerals
_HAN_NUMBERS: Final = frozenset("二三四五六七八九十百千万两")


@attrs.frozen
class StopWords:
    """A set of words in normal form, and a name that says which."""

    words: frozenset[str]
    name: str


@cache
def _shipped(language: str) -> frozenset[str]:
    path = files("dedup_middleware.text") / "data" / f"stopwords-{language}.txt"
    words = _folded(path.read_text("utf-8").splitlines()) - polarity().kept
    return frozenset(word for word in words if not _is_value(word))


def stop_words(choice: str | Iterable[str]) -> StopWords:
    """Read the choice of stop words.

    :param choice: languages of the shipped lists, divided by commas (`"zh,en"`); `""` for none; or
        any other iterable: the words themselves.
    :raises ValueError: no list is shipped for a language.
    :raises TypeError: a stop word is no string.
    """
    if isinstance(choice, str):
        names, words = [], set[str]()
        for language in filter(None, map(str.strip, choice.split(","))):
            if language not in LANGUAGES:
                raise ValueError(
                    f"stop_words={choice!r}: no list for {language!r}; choose from "
                    f"{', '.join(LANGUAGES)}, or give a set of words"
                )
            words |= _shipped(language)
            names.append(f"{language}{len(_shipped(language))}")
        return StopWords(frozenset(words), "-".join(names) or "all")
    own = frozenset(choice)
    for word in own:
        if not isinstance(word, str):
            raise TypeError(f"stop_words holds {word!r}: every stop word must be a string")
    digest = hashlib.blake2b("\n".join(sorted(own)).encode("utf-8", "surrogatepass"), digest_size=4)
    return StopWords(_folded(own), f"own{len(own)}.{digest.hexdigest()}" if own else "all")


def _is_value(word: str) -> bool:
    """Whether a word may distinguish two things: a numeral, or a Latin letter as in vitamin C.

    >>> [word for word in ("a", "c", "7", "eight", "the") if _is_value(word)]
    ['c', '7', 'eight']
    """
    if word in NUMBER_WORDS or word in _HAN_NUMBERS or word.isdecimal():
        return True
    return len(word) == 1 and "b" <= word <= "z" and word != "i"


def _folded(words: Iterable[str]) -> frozenset[str]:
    return frozenset(filter(None, map(normalize, words)))
