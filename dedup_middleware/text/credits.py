"""Recognises who made a page or its pictures: bylines, credits, captions with their source.

Names can be anything, so a line counts only if its words outside the fixed wording look like names:
those of five or more letters have a capital or belong to a list.
"""

from __future__ import annotations

import re
from typing import Final

from dedup_middleware.text.characters import word_lists
from dedup_middleware.text.patterns import compiled_late

#: pattern of a day with its year, in lower case or not
DAY: Final = (
    r"(?:\w+\.? \d{1,2}, \d{4}|\d{1,2}\.? (?:de )?\w+\.? (?:de )?\d{4}"
    r"|\d{1,4}[-./]\d{1,2}[-./]\d{1,4})"
)
# A site, its page in a network, or a name such as РИА56: of the source of a page or a picture.
DOMAIN: Final = re.compile(
    r"\b(?i:[\w-]{1,20}\.(?:ru|рф|ру|su|by|kz|com|net|org|io|me|info)\b(?:/[\w.-]{1,30})?)"
    r"|\b[А-ЯЁ]{2,6}\d{1,3}\b"
)
# Parts of a credit that are ignored: a quoted name, and an agency behind a slash.
_QUOTED: Final = re.compile(r"«[^«»]{1,30}(?:»|$)|(?<=[^\W\d_])/[a-z]{2,5}\b")
#: pattern of who is credited; it is shorter than a caption
CREDITED: Final = rf"(?:[^.!?\d]|{DOMAIN.pattern}){{1,40}}"
_MOST_WORDS: Final = 8  # most words of the credit of an agency
#: ends of credits, in lower case
AGENCIES: Final = word_lists()["picture-agencies"]
# The credit of a picture names somebody: with other words of five or more letters it is a caption.
CREDIT: Final = re.compile(
    r"(?:(?:(?:main|featured|cover) )?(?:image|photo|picture|video|credit|crédit|foto|bild|фото"
    r"|видео|иллюстрация|коллаж|скриншот)[^:]{0,12}:|© (?!\d)"
    r"|(?:image|photo|picture|video)s? (?:credits?|source|copyright|courtesy of|by)\b)(.+)",
    re.IGNORECASE,
)
_NO_NAMES: Final = frozenset(word_lists()["picture-names"])
_BETWEEN: Final = frozenset(word_lists()["between-names"])
# Words that say where something is, so that they stand between the names of a headline, too (Mord
# in Berlin); in a credit they need a slash, or the name of an agency, a channel or the like.
_WHERE: Final = frozenset(("in", "im", "zum", "zur", "vom", "на", "в"))
# Bylines: names behind a word for authors, or before "contributed".
NAME: Final = r"[^\W\d_a-zа-яё][\w.'’-]*"
_AND: Final = "and|und|et|y|e|и|de|von|van|der|staff|writers?|reporters?|journalists?"


def _names(most: int, between: str = f"{_AND}|in|of|at|for|the", *, least: int = 1) -> str:
    # Only one way to match a line: with two for each comma the time would double with each.
    return rf"{NAME}(?:[,;]?(?: (?:{between})){{0,2}} {NAME}){{{least - 1},{most - 1}}}"


_NAMES: Final = _names(9)
_WROTE: Final = (
    r"(?:[Aa]dditional |[Mm]edically )?"
    r"(?:[Rr]eport(?:ing|ed)|[Rr]eviewed|[Ff]act[ -][Cc]hecked|[Ww]riting|[Ee]dit(?:ing|ed)"
    r"|[Cc]ompiled|[Cc]urated|[Tt]ranslated|[Pp]hotographs) by"
)
_AUTHORS: Final = compiled_late(
    rf"{_WROTE} {_NAMES}(?:[;,]? (?:and |with )?{_WROTE} {_NAMES})*"
    rf"|(?:(?:Story|Written|Posted|Words|Text) by|Автор:|Текст:) {_names(7, _AND)}(?: staff)?"
    # One name alone may be another thing: By Train, Von Hamburg.
    rf"|(?:[Bb]y {_names(7, _AND, least=2)}|BY {_names(3, _AND, least=2)})(?: staff)?"
    rf"|[Bb]y (?:{NAME} staff|(?i:{'|'.join(AGENCIES)}))|Von {_names(4, _AND, least=2)}"
    rf"|(?:The )?{_names(24)},? contributed (?:reporting|to this (?:report|story|article))"
    rf"(?: from {_NAMES})?"
)
_LONGEST_CAPTION: Final = 80  # most characters of a caption without a day
_CAPTION: Final = re.compile(
    rf"\D{{0,{_LONGEST_CAPTION}}}"
    r"\((?:image|photo|picture|pic|foto|bild|фото|credit)s?(?: credit)?\s*:[^()\d]{1,60}\)\W{0,3}"
)
# A longer caption must have a day and the credit of an agency: without a day "(AFP/Reuters)" is
# also the source of a report. Any numeral but the day is news.
_WIRES: Final = rf"(?:/| via )(?:{'|'.join(AGENCIES).replace('/', '')})(?:, file)?"
#: pattern of what stands before who is credited behind a caption
CREDITING: Final = re.compile(r"(?:(?:photo )?credit|photo|picture|image|foto|фото): ")
_WIRE: Final = rf"[^().\d]{{1,60}}{_WIRES}"
_WIRE_CAPTION: Final = re.compile(
    r"(?P<said>[^()]{1,280})\((?:(?:ap |file )?(?:photos?|video)(?:/| by |, )(?P<by>[^()\d]{1,60})"
    rf"|(?P<brackets>{_WIRE}))\)\W{{0,3}}"
    rf"|(?P<told>.{{1,280}}[.!?”\"’)]) ?{CREDITING.pattern}(?P<credit>[^.!?\d]{{2,60}})"
    # Check the end first, or each quotation mark of a line would be tried.
    rf"|(?=.*{_WIRES}\Z)(?P<dated>.{{1,280}}[.!?”\"’)]) ?{_WIRE}"
)
CREDIT_ENDS: Final = 4  # most characters from the bracket behind a caption's credit on
_JOINED: Final = re.compile(r"[/|©]|\bvia\b")


def is_names(words: str) -> bool:
    """Whether all words are capitalised, belong to names of agencies, or are small words between
    names; at least one is a name, unless there is no word.

    >>> [is_names(f" {name}") for name in ("Ann Shepherd/picture alliance", "The man was hit")]
    [True, False]
    """
    rest = re.findall(r"[^\W\d_]+", _QUOTED.sub("", DOMAIN.sub("", words)))
    others = [word for word in rest if word not in _BETWEEN]
    is_agency = "/" in words or any(word.lower() in _NO_NAMES for word in others)
    if not is_agency and not _WHERE.isdisjoint(rest):
        return False
    return all(not word.islower() or word in _NO_NAMES for word in others) and (
        bool(others) or not rest
    )


def is_byline(text: str) -> bool:
    """Whether a line, without a full stop, says only who wrote the page.

    >>> lines = "Reporting by Ann Shepherd; editing by Bob Stone", "By then it was over"
    >>> [is_byline(line) for line in lines]
    [True, False]
    """
    return _AUTHORS().fullmatch(text) is not None


def is_caption(text: str, lower: str) -> bool:
    """Whether a line is a caption that ends with its credit; `lower` is the line in lower case.

    >>> lines = "On March 4, 2031 (Ann/Reuters)", "He left. (AP)", "He left. Credit: a spy there"
    >>> [is_caption(line, line.lower()) for line in lines]
    [True, False, False]
    """
    if _CAPTION.fullmatch(lower):
        return True
    found = _WIRE_CAPTION.fullmatch(lower)
    # In a line of capitals names can't be recognised.
    if found is None or len(text) != len(lower) or text.isupper():
        return False
    named = (text[slice(*found.span(name))] for name in ("by", "credit") if found[name])
    if not all(map(is_names, named)):
        return False
    said = found["said"] or found["told"] or found["dated"]
    rest, days = re.subn(DAY, "", said)
    needs_day = found["brackets"] or found["dated"] or len(said) > _LONGEST_CAPTION
    return bool(days or not needs_day) and not any(map(str.isdigit, rest))


def is_agency_credit(text: str) -> bool:
    """Whether a short line that ends with an agency is the credit of a picture.

    >>> [is_agency_credit(line) for line in ("Ann Shepherd/Reuters", "It was told to Reuters")]
    [True, False]
    """
    return len(text.split()) <= _MOST_WORDS and _JOINED.search(text) is not None
