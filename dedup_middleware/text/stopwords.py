"""Stop words, the lists of stopwords-iso for Chinese and English; and what other words are.

From the English list names, codes of countries, abbreviations and nouns such as computer and fire
are left out, as they are what a page is about. Of both lists the words that turn a sentence round
(not, before, 没有) are left out, see :mod:`dedup_middleware.text.clauses`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.text.characters import word_lists
from dedup_middleware.text.clauses import NAME, NUMBER, STOP, polarity
from dedup_middleware.text.normalize import normalize

_LANGUAGES: Final = ("zh", "en")
MONTHS: Final = frozenset(word_lists()["months"])
#: names of months, and numerals written as words, which no shipped list leaves out
NUMBER_WORDS: Final = MONTHS.union(word_lists()["compounds"], word_lists()["numbers"])
#: numerals in Chinese, where they are parts of names too, so that alone they are no numerals
_HAN_NUMBERS: Final = frozenset("二三四五六七八九十百千万两")


@cache
def stop_words() -> Mapping[str, frozenset[str]]:
    """The stop words of each language, in normal form."""
    return {language: _read(language) for language in _LANGUAGES}


def _read(language: str) -> frozenset[str]:
    path = files("dedup_middleware.text") / "data" / f"stopwords-{language}.txt"
    words = {normalize(line) for line in path.read_text("utf-8").splitlines()} - polarity().kept
    return frozenset(word for word in words if word and not _is_value(word))


@cache
def kinds_of_words(*, stops: bool) -> tuple[NDArray[np.str_], NDArray[np.uint64]]:
    """All words that a shingler looks up, and what each is, see :mod:`.clauses`.

    :param stops: with the stop words.
    """
    shipped = polarity()
    kinds = {word: 2 * value for word, value in {**shipped.words, **shipped.own}.items()}
    # Months are left to the figures: those of two date lines turn nothing round.
    kinds = dict.fromkeys(NUMBER_WORDS - MONTHS, 2 * NAME) | kinds
    for words in stop_words().values() if stops else ():
        kinds.update({word: kinds.get(word, 0) | STOP for word in words})
    kinds.update({word: kinds.get(word, 0) | NUMBER for word in NUMBER_WORDS})
    return np.array(list(kinds)), np.array(list(kinds.values()), np.uint64)


def _is_value(word: str) -> bool:
    """Whether a word may distinguish two things: a numeral, or a Latin letter as in vitamin C.

    >>> [word for word in ("a", "c", "7", "eight", "the") if _is_value(word)]
    ['c', '7', 'eight']
    """
    if word in NUMBER_WORDS or word in _HAN_NUMBERS or word.isdecimal():
        return True
    return len(word) == 1 and "b" <= word <= "z" and word != "i"
