"""Plain Python twin of `keptwords.with_rows`."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.text.characters import (
    BLOCK,
    CLASS_MASK,
    EXTEND,
    NUMERAL,
    SEPARATES,
    SYMBOL,
    word_classes,
)
from dedup_middleware.text.hashing import TEXT_BASE, TEXT_START
from tests.text.oracles import MASK, mix

REACH = 90  # characters on each side of a colon


def _flags(letter: str) -> int:
    return int(word_classes()[ord(letter)])


def _is_letter(letter: str) -> bool:
    return not _flags(letter) & SEPARATES or _flags(letter) & (BLOCK | CLASS_MASK) == EXTEND


def _is_part(part: str) -> bool:
    if re.search("[:@]", part) or any(_flags(one) & SYMBOL == NUMERAL for one in part):
        return False
    size = sum(3 if one >= "\u2e80" else 1 for one in part if _is_letter(one))
    return 0 < size <= 30 and part[-1] not in ".!?。।؟"


def row_clauses(text: str, keys: NDArray[np.uint64]) -> list[list[int]]:
    """Words and turn of the clauses of the rows of a text in normal form."""

    def hashed(part: str) -> int:
        found = int(keys[TEXT_START])
        for letter in filter(_is_letter, part):
            found = (found * int(keys[TEXT_BASE]) + ord(letter)) & MASK
        return mix(found)

    found = list[list[int]]()
    for match in re.finditer("(?<=.):(?!/)", text, re.DOTALL):
        colon = match.start()
        first = max(text.rfind("\n", 0, colon) + 1, colon - REACH)
        rest = text[colon + 1 : colon + REACH]
        letter = next((i for i, one in enumerate(rest) if _is_letter(one)), len(rest))
        end = rest.find("\n", letter)
        last = colon + 1 + (len(rest) if end < 0 else end)
        label, value = text[first:colon], text[colon + 1 : last]
        if text[last : last + 1] in ("", "\n") and _is_part(label) and _is_part(value):
            words, turn = hashed(label), hashed(value)
            found += [words, turn], [mix(words), turn]
    return found
