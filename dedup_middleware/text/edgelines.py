"""Recognises lines about a page at its beginning and end by their vocabulary.

Each site words its imprint, offers and notices in its own way, so lists of whole sentences miss
most of them. But their vocabulary is small: such a line has words that are used of pages only
(subscribe, newsletter, перепечатка) and hardly any others. Lines between paragraphs are left alone,
because there they may be news about a paper.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence, Set
from typing import Final

from dedup_middleware.text.characters import word_lists

_MOST_LINES: Final = 8  # lines looked at before the first paragraph, and behind the last one
_PARAGRAPH: Final = 100  # characters; a longer line about the subject is a paragraph
_LONGEST: Final = 320  # characters of a line about the page
_PRICES: Final = frozenset("$€£¥₽%")  # signs of offers, which may be what a page is about
_FEW_WORDS: Final = 12  # in a line of so many words one of those said of pages only is enough
_MOST_OTHER: Final = 4  # of so many words one may be said of other things
_MOST_CAPITALS: Final = 0.6  # share of words with a capital above which names can't be told
_SHORT: Final = 2  # letters of words that say nothing
FIRST_IDEOGRAPH: Final = "\u2e80"  # Chinese rows are known by their parts, see `chineselines`
_WORD: Final = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_LONGEST_LABEL, _MOST_OF_LABEL = 60, 6  # characters and words of a label above a list of headlines


class _Words:
    """Words of lists, in which a star stands for any ending."""

    def __init__(self, *names: str) -> None:
        words = [word for name in names for word in word_lists()[name]]
        self._whole = frozenset(word for word in words if word[-1] != "*")
        begins: dict[str, list[str]] = {}
        for word in words:
            if word[-1] == "*":
                begins.setdefault(word[:_SHORT], []).append(word[:-1])
        self._begins = {first: tuple(some) for first, some in begins.items()}

    def __contains__(self, word: str) -> bool:
        begins = self._begins.get(word[:_SHORT])
        return word in self._whole or (begins is not None and word.startswith(begins))


_OF_PAGES: Final = _Words("of-pages")
_ALSO_OF_PAGES: Final = _Words("also-of-pages")
_ANYWHERE: Final = _Words("may-be-said")
_LISTS: Final = _Words("of-lists")
#: each line about the page, and each label, has one of these words
SAID: Final = word_lists()["of-pages"] + word_lists()["of-lists"]
_IN_LABELS: Final = _Words("of-lists", "in-labels")


def edge_lines(lines: Sequence[str], said: Set[int]) -> set[int]:
    """The places of lines about the page before the first paragraph and behind the last one, and of
    labels above lists of other pages. `said` has the places of lines with a word in `SAID`.

    >>> text = "Ferries stopped on Monday, since ice had broken the two old piers " * 2
    >>> lines = ["Subscribe to the newsletter", text, "Posted in News | 4 Comments"]
    >>> edge_lines(lines, {0, 2})
    {0, 2}
    """
    places = range(len(lines))
    return {*_from_edge(lines, said, places), *_from_edge(lines, said, reversed(places))}


def _from_edge(lines: Sequence[str], said: Set[int], places: Iterable[int]) -> Iterable[int]:
    looked_at = 0
    for place in places:
        line = lines[place].strip()
        if not line:
            continue
        looked_at += 1
        if looked_at > _MOST_LINES:
            return
        is_about_page = (
            place in said
            and len(line) <= _LONGEST
            and line[0] < FIRST_IDEOGRAPH
            and _PRICES.isdisjoint(line)
            and not _is_wrapped(lines, place)
            and (says_page(line) or is_list_label(line.lower()))
        )
        if is_about_page:
            yield place
        elif len(line) > _PARAGRAPH:
            return


def _is_wrapped(lines: Sequence[str], place: int) -> bool:
    """Whether a sentence goes on at the beginning or the end of a line."""
    return any(line.lstrip()[:1].islower() for line in lines[place : place + 2])


def says_page(line: str) -> bool:
    """Whether nearly all words of a line are said of pages.

    >>> says_page("Posted in City Life | Permalink | 4 Comments")
    True
    >>> says_page("Readers of the newsletter bought 4 ferries")
    False
    """
    words = _WORD.findall(line)
    lower = [word.lower() for word in words]
    only = sum(word in _OF_PAGES for word in lower)
    if only < (1 if len(words) <= _FEW_WORDS else 2):
        return False
    also = other = names = 0
    for place, word in enumerate(lower):
        if word in _OF_PAGES or len(word) <= _SHORT or word in _ANYWHERE:
            continue
        if word in _ALSO_OF_PAGES:
            also += 1
        elif place and words[place][0].isupper():
            names += 1
        else:
            other += 1
    capitals = sum(word[0].isupper() for word in words)
    has_names = only > 1 or capitals <= _MOST_CAPITALS * len(words)
    other += 0 if has_names else names
    return _MOST_OTHER * other <= only + also + other


def is_list_label(lower: str) -> bool:
    """Whether a line, in lower case, announces a list of other pages, with no other word.

    >>> is_list_label("most read in news"), is_list_label("most ferries in news")
    (True, False)
    """
    if len(lower) > _LONGEST_LABEL:
        return False
    words = _WORD.findall(lower)
    return (
        1 < len(words) <= _MOST_OF_LABEL
        and all(word in _IN_LABELS for word in words)
        and any(word in _LISTS for word in words)
    )
