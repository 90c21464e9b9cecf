"""Words that reverse a sentence's meaning: negations, and alternatives such as before and after.

They are no stop words in any shipped list, and each has a **polarity**, a small number:

    0             none
    NOT           a negation
    SO            in the place of a negation, with the opposite sense: all, always, 有
    NAME          one of many words of which each excludes all others: occupations, goods
    SOME, MUST    in the place of a negation, each with a sense of its own: some, 部分; must, 必须
    ALTERNATIVES and above
                  one of several words that exclude each other: before and after, red and blue;
                  those of a class follow one another

Five more, above all others, say where a name stands that is in no list. They count only in the
scripts of :mod:`dedup_middleware.text.scriptclauses`:

    TITLE, PERSON the next word, the next two are a name: company, mayor
    GIVEN         a given name, which another name follows
    BODY          what the same word says before it is a name: city, bank
    SURNAME       a surname

What the numbers are for is said in :mod:`dedup_middleware.text.clauses`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from itertools import accumulate
from typing import Final

import attrs
import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base.jit import subkernel
from dedup_middleware.text.numerals import look_up, perfect_hash

NOT, SO, NAME, SOME, MUST, ALTERNATIVES = 1, 2, 3, 4, 5, 6
MOST: Final = 256  # no polarity is as large
BODY, SURNAME, GIVEN, PERSON, TITLE = range(MOST - 5, MOST)
#: languages whose words count in their own texts alone, and what stands before them in the table:
#: most of them are words of another language too
MARKS: Final = {"ja": "\ue001", "vi": "\ue002"}
_WORDS: Final = 1 << 10  # of 64 bits, one for each code point below 2**16
_SINGLE: Final = dict(
    zip(
        "not so name some must body surname given person title kept".split(),
        (NOT, SO, NAME, SOME, MUST, BODY, SURNAME, GIVEN, PERSON, TITLE, 0),
        strict=True,
    )
)


@attrs.frozen
class Polarity:
    """The shipped list.

    Attributes:
        words: the polarity of each word in normal form, without words that have none.
        own: the same of the languages of `MARKS`, each word behind the mark of its language.
        kept: all words that are no stop words, those without a polarity included.
        classes: the first polarity of each class of alternatives, ascending.
    """

    words: Mapping[str, int]
    own: Mapping[str, int]
    kept: frozenset[str]
    classes: tuple[int, ...]


@cache
def polarity() -> Polarity:
    """Read the shipped list.

    Raises:
        ValueError: a word is in two classes.
    """
    text = (files("dedup_middleware.text") / "data" / "polarity.txt").read_text("utf-8")
    lines = [line.split(" ", 2) for line in text.splitlines() if line and line[0] != "#"]
    sides = dict[str, int]()
    for _, name, members in lines:
        if name not in _SINGLE:
            sides[name] = max(sides.get(name, 0), members.count(" | ") + 1)
    firsts = dict(zip(sides, accumulate(sides.values(), initial=ALTERNATIVES), strict=False))
    words, own, kept = dict[str, int](), dict[str, int](), set[str]()
    for language, name, members in lines:
        for side, group in enumerate(members.split(" | ")):
            value = _SINGLE[name] if name in _SINGLE else firsts[name] + side
            for listed in group.split(" "):
                word = listed.strip("()").replace("_", " ")
                table = own if language in MARKS else words
                if table.setdefault(MARKS.get(language, "") + word, value) != value:
                    raise ValueError(f"{word} is in two classes, one of them {name}")
                if word == listed and name != "name" and table is words:
                    kept.add(word)
    return Polarity(
        {word: value for word, value in words.items() if value},
        own,
        frozenset(kept),
        tuple(firsts.values()),
    )


def _ideographs() -> dict[int, int]:
    """The ideographs that are words with a polarity."""
    found = polarity().words.items()
    return {
        ord(word): value for word, value in found if len(word) == 1 and "\u4e00" <= word < "\uac00"
    }


_MULTIPLIER, _CODES, _VALUES = perfect_hash(_ideographs())


def _bitmap(codes: Iterable[int]) -> NDArray[np.uint64]:
    """A bit for each code point below 2**16 that is one of `codes`, and a word of zeros."""
    bits = np.zeros(_WORDS + 1, np.uint64)
    for code in codes:
        bits[code >> 6] |= np.uint64(1 << (code & 63))
    return bits


_BITS: Final = _bitmap(_ideographs())


@subkernel
def has_polarity(code: np.uint32) -> np.uint8:
    """1 for an ideograph that has a polarity, else 0; the bits take less memory than the table."""
    word = _BITS[min(np.uint64(code) >> np.uint64(6), np.uint64(_WORDS))]
    return np.uint8(word >> (np.uint64(code) & np.uint64(63)) & np.uint64(1))


@subkernel
def polarity_of(code: np.uint32) -> np.uint64:
    """The polarity of an ideograph; 0 for any other code point."""
    return np.uint64(look_up(np.int64(code), _MULTIPLIER, _CODES, _VALUES, 0))
