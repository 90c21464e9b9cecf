"""What has changed between two versions of a page."""

from __future__ import annotations

import re
from collections import Counter

import attrs

# A word of letters and digits, or one Chinese character or kana.
_CJK = r"\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_WORD = re.compile(rf"[{_CJK}]|[^\W_{_CJK}]+")
_FIGURE = re.compile(r"\d+(?:[.,:/-]\d+)*%?")
MOST_FIGURES = 20  # of each version that are kept


@attrs.frozen
class Change:
    """How a page differs from its last version.

    ``added`` and ``removed`` count words, wherever they are; a Chinese character counts as one.
    ``old_figures`` and ``new_figures`` are the numbers, written in digits, that only one of the two
    has, in the order of the text.
    """

    added: int
    removed: int
    old_figures: tuple[str, ...] = ()
    new_figures: tuple[str, ...] = ()


def compare_versions(old: str, new: str) -> Change:
    """The change from one text to another.

    >>> compare_versions("Cod costs 4 crowns.", "Cod costs 7.50 crowns today.")
    Change(added=3, removed=1, old_figures=('4',), new_figures=('7.50',))
    """
    # Sets of words in linear time: an alignment would hold up the thread of the journal.
    before, after = Counter(_WORD.findall(old)), Counter(_WORD.findall(new))
    old_figures, new_figures = Counter(_FIGURE.findall(old)), Counter(_FIGURE.findall(new))
    return Change(
        added=(after - before).total(),
        removed=(before - after).total(),
        old_figures=tuple((old_figures - new_figures).elements())[:MOST_FIGURES],
        new_figures=tuple((new_figures - old_figures).elements())[:MOST_FIGURES],
    )
