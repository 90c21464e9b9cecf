"""Recognises lines about a page at its beginning and end by their vocabulary.

Sites word their imprints, offers and notices in ever new ways, so a fixed wording finds only those
that somebody has seen. Their vocabulary is small: such a line has words that are said of pages only
(subscribe, newsletter, перепечатка) and hardly any word that is said of other things. Lines between
the paragraphs are none of them: there they may be news about a paper.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain
from typing import Final

from dedup_middleware.text.characters import word_lists

_MOST_LINES: Final = 8  # lines looked at before the first paragraph, and behind the last one
_PARAGRAPH: Final = 100  # characters; a longer line about the subject is a paragraph
_LONGEST: Final = 320  # characters of a line about the page
_FEW_WORDS: Final = 12  # in a line of so many words one of those said of pages only is enough
_MOST_OTHER: Final = 4  # of so many words one may be said of other things
_MOST_CAPITALS: Final = 0.6  # share of words with a capital above which names can't be told
_SHORT: Final = 2  # letters of words that say nothing
_WORD: Final = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_MOST_OF_LABEL: Final = 6  # words of a label above a list of headlines


def _any_of(*names: str) -> re.Pattern[str]:
    """Pattern of the words of lists, in which a star stands for any ending."""
    words = sorted(word for name in names for word in word_lists()[name])
    return re.compile("|".join(re.escape(word).replace(r"\*", r"\w*") for word in words))


_OF_PAGES: Final = _any_of("of-pages")
_ALSO_OF_PAGES: Final = _any_of("also-of-pages")
_ANYWHERE: Final = _any_of("may-be-said")
_LISTS: Final = _any_of("of-lists")
_IN_LABELS: Final = _any_of("of-lists", "in-labels")


def edge_lines(lines: Sequence[str]) -> set[int]:
    """The places of lines about the page before the first paragraph and behind the last one.

    >>> text = "Ferries stopped on Monday, since ice had broken the two old piers " * 2
    >>> edge_lines(["Subscribe today for $1 a month", text, "Posted in News | 4 Comments"])
    {0, 2}
    """
    places = range(len(lines))
    return set(chain(_from_edge(lines, places), _from_edge(lines, reversed(places))))


def _from_edge(lines: Sequence[str], places: Iterable[int]) -> Iterable[int]:
    looked_at = 0
    for place in places:
        line = lines[place].strip()
        if not line:
            continue
        looked_at += 1
        if looked_at > _MOST_LINES:
            return
        if _is_about_page(line) and not _is_wrapped(lines, place):
            yield place
        elif len(line) > _PARAGRAPH:
            return


def _is_about_page(line: str) -> bool:
    # What stands below a label goes with it.
    return len(line) <= _LONGEST and says_page(line) and not is_list_label(line.lower())


def _is_wrapped(lines: Sequence[str], place: int) -> bool:
    """Whether a sentence goes on at the beginning or the end of a line."""
    return any(line.strip()[:1].islower() for line in lines[place : place + 2])


@lru_cache(maxsize=4096)  # the pages of a site have the same lines
def says_page(line: str) -> bool:
    """Whether nearly all words of a line are said of pages.

    >>> says_page("Posted in City Life | Permalink | 4 Comments")
    True
    >>> says_page("Readers of the newsletter bought 4 ferries")
    False
    """
    words = _WORD.findall(line)
    capitals = sum(word[0].isupper() for word in words)
    has_names = capitals <= _MOST_CAPITALS * len(words)
    only = also = other = names = 0
    for place, word in enumerate(words):
        lower = word.lower()
        if _OF_PAGES.fullmatch(lower):
            only += 1
        elif _ALSO_OF_PAGES.fullmatch(lower):
            also += 1
        elif len(word) <= _SHORT or _ANYWHERE.fullmatch(lower):
            continue
        elif place and word[0].isupper():
            names += 1
        else:
            other += 1
    other += 0 if has_names or only > 1 else names
    needed = 1 if len(words) <= _FEW_WORDS else 2
    return only >= needed and _MOST_OTHER * other <= only + also + other


def is_list_label(lower: str) -> bool:
    """Whether a line, in lower case, announces a list of other pages, with no other word.

    >>> is_list_label("most read in news"), is_list_label("most ferries in news")
    (True, False)
    """
    words = _WORD.findall(lower)
    return (
        1 < len(words) <= _MOST_OF_LABEL
        and all(_IN_LABELS.fullmatch(word) for word in words)
        and any(_LISTS.fullmatch(word) for word in words)
    )
