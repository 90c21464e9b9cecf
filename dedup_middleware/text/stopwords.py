"""Stop words: the lists of stopwords-iso for Chinese and English, or a set of the user's own.

Of a shipped list the words that turn a sentence round (not, before, 没有) are left out, see
:mod:`dedup_middleware.text.polarity`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import Final

import attrs

from dedup_middleware.text.normalize import normalize
from dedup_middleware.text.polarity import polarity

LANGUAGES: Final = ("zh", "en")
DEFAULT: Final = "zh,en"


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

    Args:
        choice: languages of the shipped lists, divided by commas (`"zh,en"`); `""` for none; or
            any other iterable: the words themselves.

    Raises:
        ValueError: no list is shipped for a language.
        TypeError: a stop word is no string.
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
    """Whether a word is a Latin letter that may distinguish two things, as in vitamin C.

    >>> [word for word in ("a", "c", "7", "the") if _is_value(word)]
    ['c']
    """
    return len(word) == 1 and "b" <= word <= "z" and word != "i"


def _folded(words: Iterable[str]) -> frozenset[str]:
    return frozenset(filter(None, map(normalize, words)))
