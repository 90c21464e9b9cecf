"""Words that reverse a sentence's meaning: negations, and opposites such as before and after.

They are no stop words in any shipped list, and each has a **polarity**, a small number:

    0             none
    NOT           a negation
    SO            stands where a negation may, and says the contrary: all, always, 有
    OPPOSITES + 2 * class + side
                  one of two opposites, such as before and after

What the numbers are for is said in :mod:`dedup_middleware.text.clauses`.
"""

# NumPy's stubs type an indexed scalar as Any.
# mypy: disable-error-code="no-any-return"
from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Final

import attrs
import numpy as np

from dedup_middleware.kernels import subkernel
from dedup_middleware.text.numerals import look_up, perfect_hash

NOT, SO, OPPOSITES = 1, 2, 4
MOST: Final = 128  # no polarity is as large
_KEPT: Final = "kept"
_SINGLE: Final = {"not": NOT, "so": SO, _KEPT: 0}


@attrs.frozen
class Polarity:
    """The shipped list.

    Attributes:
        words: the polarity of each word in normal form, without those that have none.
        kept: all words that are no stop words, those without a polarity included.
    """

    words: Mapping[str, int]
    kept: frozenset[str]


@cache
def polarity() -> Polarity:
    """Read the shipped list.

    Raises:
        ValueError: a word is in two classes.
    """
    words, kept, classes = dict[str, int](), set[str](), dict[str, int]()
    text = (files("dedup_middleware.text") / "data" / "polarity.txt").read_text("utf-8")
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        _, name, members = line.split(" ", 2)
        if name not in _SINGLE:
            classes.setdefault(name, OPPOSITES + 2 * len(classes))
        for side, group in enumerate(members.split(" | ")):
            value = _SINGLE[name] if name in _SINGLE else classes[name] + side
            for listed in group.split(" "):
                word = listed.strip("()")
                if words.setdefault(word, value) != value:
                    raise ValueError(f"{word} is in two classes, one of them {name}")
                if word == listed:
                    kept.add(word)
    return Polarity({word: value for word, value in words.items() if value}, frozenset(kept))


def _ideographs() -> dict[int, int]:
    """The ideographs that are words with a polarity."""
    found = polarity().words.items()
    return {ord(word): value for word, value in found if len(word) == 1 and word >= "\u4e00"}


_MULTIPLIER, _CODES, _VALUES = perfect_hash(_ideographs())


@subkernel
def polarity_of(code: np.uint32) -> np.uint64:
    """The polarity of an ideograph; 0 for any other code point."""
    return np.uint64(look_up(np.int64(code), _MULTIPLIER, _CODES, _VALUES, 0))
