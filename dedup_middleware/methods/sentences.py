"""Paragraphs and sentences of a text."""

from __future__ import annotations

import re
from typing import Final

from dedup_middleware.text.normalize import normalize

_CLOSING: Final = "”’」』)）\\]】》\"'"
# A full stop of Latin script ends a sentence only in front of white space: 3.5 has none.
_END: Final = re.compile(rf"(?:[。！？!?]|\.(?=\s|$))[。！？!?.]*[{_CLOSING}]*|\n+")
FULL_STOP: Final = re.compile(r"。|\.(?=\s|$)")


def paragraphs(text: str) -> list[str]:
    """The lines of a text that say something, without white space around them."""
    return [line.strip() for line in text.splitlines() if line.strip()]


def sentences(text: str) -> list[str]:
    """The sentences of a text with their end marks, without white space around them.

    >>> sentences("一共3.5吨。真的？是。")
    ['一共3.5吨。', '真的？', '是。']
    """
    found = []
    start = 0
    for end in _END.finditer(text):
        found.append(text[start : end.end()].strip())
        start = end.end()
    found.append(text[start:].strip())
    return [sentence for sentence in found if sentence]


def without_space(text: str) -> str:
    """A text without its white space, so that reprints with other breaks agree."""
    return "".join(text.split())


def bare(text: str) -> str:
    """Normal form of a text without white space."""
    return without_space(normalize(text))


def letters(text: str) -> str:
    """The letters, digits and ideographs of a text, nothing else."""
    return "".join(filter(str.isalnum, text))
