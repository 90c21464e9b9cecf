"""Recognises lines that say nothing of a page's subject: adverts, buttons, addresses, credits.

An extractor leaves some of them between the paragraphs of an article, and they differ from site to
site, so they are left out of the comparison. Only whole lines of a few forms are meant; other
captions, standfirsts and sources are compared.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from dedup_middleware.text.characters import Beginnings, word_lists
from dedup_middleware.text.chineselines import is_chinese_line, is_chinese_notice
from dedup_middleware.text.credits import (
    AGENCIES,
    CREDIT,
    CREDIT_ENDS,
    CREDITING,
    DOMAIN,
    is_agency_credit,
    is_byline,
    is_caption,
    is_names,
)
from dedup_middleware.text.englishlines import BEGINNINGS as ENGLISH
from dedup_middleware.text.englishlines import is_contact, is_english_line
from dedup_middleware.text.foreignlines import BEGINNINGS as FOREIGN
from dedup_middleware.text.foreignlines import is_foreign_line
from dedup_middleware.text.pageforms import (
    COUNTER,
    COUNTERS,
    FORMS,
    INVITATIONS,
    NUMBERED,
    invites,
)
from dedup_middleware.text.patterns import compiled_late

_LONGEST: Final = 160  # most characters of such a line, and of one that is a Chinese sentence
_LONGEST_SENTENCE: Final = 40
LONGEST: Final = 320  # most characters of a line that reserves rights
_SENTENCE_ENDS: Final = ("。", "。”")
# Characters that may stand before such a line.
OPENING: Final = "([（【▲△"
AROUND: Final = "()[]（）【】▲△.。!！:：…»›→↓> "
AROUND_ENGLISH: Final = AROUND + "—–_"
BUTTONS: Final = frozenset(word_lists()["buttons"])
_NO_CREDITS: Final = frozenset(word_lists()["no-credits"])

_ADDRESS: Final = re.compile(
    r"https?://\S+|www\.\S+|[\w.+-]+@[\w-]+\.[\w.-]+|@\w{2,30}|(?:[\w-]+\.){1,3}com/\S+", re.ASCII
)
_LINKS: Final = frozenset(word_lists()["page-links"])
PAGE_ROWS: Final = frozenset(word_lists()["page-rows"]) | _LINKS
# of several, also without names
_TOPICS: Final = frozenset(("tags", "topics", "filed under", "теги", "метки", "ключевые слова"))
_HASHTAGS: Final = re.compile(r"(?:#[\w-]{2,40}[,; ]*){1,16}")
# What stands between parts of a line, and between sentences.
_BETWEEN: Final = re.compile(r" ?[|•·›»] ?")
_SENTENCES: Final = re.compile(r"(?<=[.!]) +")
_SENTENCES_OR_QUESTIONS: Final = re.compile(r"(?<=[.!?]) +")
_SECTION: Final = re.compile(r"[A-Z][\w&'’-]*(?: (?:[A-Z][\w'’-]*|&|and|of)){0,3}")
_SECTIONS: Final = frozenset(("&", *word_lists()["sections"]))
_PAPERS: Final = frozenset(word_lists()["papers"])
_NO_PAPERS: Final = frozenset("bad good fake no old sad great".split())
_MOST_PARTS: Final = 8
_MOST_CAPITALS: Final = 3  # words of a credit in capitals
_LEAST_HEADLINE: Final = 3  # words
_LONGEST_VALUE, _LONGEST_WITHOUT_CAPITALS = 60, 16  # a longer one may be a sentence
# A line that reserves rights, without numerals other than years.
_RIGHTS: Final = re.compile(
    r"(?:this (?:\w+ ){0,2}(?:document|article|material|story|content|work) "
    r"(?:is (?:subject to|protected by) copyright|is available only for"
    r"|may not be (?:published|reproduced|copied))"
    r"|(?:(?:copyright|[©ⓒ]|™ ?(?:& ?)?©) ?[^!?]{1,100}?\.? ?)?all rights reserved"
    r"|no part of this (?:publication|article|book|story|(?:web)?site|page|report|document|work"
    r"|material|content|text|issue|magazine|newspaper|transcript|post) may be"
    r"|reproduction (?:in whole or in part|without permission)"
    r"|alle rechte vorbehalten|tous droits réservés|todos los derechos reservados"
    r"|tutti i diritti riservati|todos os direitos reservados|все права (?:\w+ ){0,3}защищены"
    r"|(?:[©ⓒ] ?(?:[^!?]{1,60}?\. )?)?(?:перепечатка|при (?:использовании|цитировании|перепечатке))"
    r" (?:\w+ ){0,3}(?:материалов|материала)\b)"
)
# How to cite a page; and the caption of a picture, with its credit.
_CITATION: Final = re.compile(r"citation: .{1,160} retrieved .{1,24} from.{0,160}")
# Lines that begin with digits: the number of a picture in a series, the length of a video with its
# source, and counters.
_NUMBERS: Final = compiled_late(
    rf"\d{{1,3}} of \d{{1,3}} ?\||\d\d:\d\d - source: [^\W\d]{{2,9}}(?: news)?|{COUNTERS}"
)
LONGEST_NUMBERS: Final = 60  # most characters of such a line
# The words behind the beginning of a line that reserves rights; with other words it is news.
_PERMITTED: Final = re.compile(
    r"permission|permitted|consent|licen[cs]e|copyright|©|reproduc|rewritten|redistribut|prohibited"
    r"|forbidden|non-?commercial|genehmigung|autorisation|autorización|ссылк|разрешени|согласи"
)
_RULED: Final = re.compile(r"\b(?:courts?|judges?|ruled|lawmakers|gericht|tribunal|суд|суда)\b")
_YEAR: Final = re.compile(r"\b(?:19|20)\d\d\b")


def _words_of(forms: Iterable[str]) -> tuple[str, ...]:
    return tuple(word.replace("_", " ") for words in forms for word in words.split())


# The first characters rule out most patterns for most lines, which saves a microsecond each.
_NOTICES_BEGIN: Final = Beginnings(word_lists()["rights-lines"])
_BYLINES_BEGIN: Final = Beginnings(word_lists()["byline-starts"])
_CHINESE_NOTICES: Final = Beginnings(word_lists()["chinese-notices"])
# "An hour ago" counts in a line of several parts only: alone it is the end of a wrapped sentence.
_FORMS_BEGIN: Final = Beginnings((*BUTTONS, *_words_of(words for words, _ in FORMS), "an hour"))
#: beginnings of all forms except buttons, numbers in a gallery, and Chinese rows
BEGINNINGS: Final = (
    *_words_of(words for words, _ in FORMS if words != NUMBERED),
    *word_lists()["rights-lines"],
    *word_lists()["byline-starts"],
    *word_lists()["chinese-notices"],
    *ENGLISH,
    *FOREIGN,
)
_FORM: Final = compiled_late("|".join(form for _, form in FORMS))
_INVITATION: Final = compiled_late("|".join(form for _, form in INVITATIONS))


def is_page_row(line: str) -> bool:
    """Whether a line is the label of who made the page, or of where it is from, with names; or of
    another page, with a headline.

    >>> lines = "Source: Valley Gazette", "Next article: Ferry is late"
    >>> [is_page_row(line) for line in lines]
    [True, True]
    >>> lines = "Source: unwashed lettuce", "Editor: Never!", "Genre: News", "Next: Ferry is late"
    >>> [is_page_row(line) for line in lines]
    [False, False, False, False]
    """
    label, _, value = line.strip().replace("：", ":").partition(":")
    label = label.rstrip().lower()
    lists = label in _TOPICS and "," in value
    longest = _LONGEST_VALUE if lists or value != value.lower() else _LONGEST_WITHOUT_CAPITALS
    is_value = 0 < len(value) <= longest and not any(map(str.isdigit, DOMAIN.sub("", value)))
    says = value.endswith((".", "!", "?", *_SENTENCE_ENDS))  # as in an interview
    if not is_value or says or label not in PAGE_ROWS:
        return False
    if label in _LINKS:
        return len(value.split()) >= _LEAST_HEADLINE
    return lists or is_names(value)


def _is_status(credited: str) -> bool:
    """Whether what stands behind the label of a credit does not name anyone.

    >>> [_is_status(credited) for credited in (" Accepted", " Ja", " Ann Shepherd")]
    [True, True, False]
    """
    words = re.findall(r"[^\W\d_]+", credited.lower())
    return bool(words) and _NO_CREDITS.issuperset(words)


def _reserves(lower: str) -> bool:
    """Whether a line, in lower case, reserves rights and has no numerals other than years.

    >>> _reserves("all rights reserved. no part may be reproduced."), _reserves("all rights are 3")
    (True, False)
    >>> _reserves("all rights reserved for heirs, the court ruled")
    False
    """
    found = _RIGHTS.match(lower)
    if found is None or any(map(str.isdigit, _YEAR.sub("", lower))):
        return False
    rest = lower[found.end() :].strip(AROUND)
    return not rest or bool(_PERMITTED.search(rest) and not _RULED.search(rest))


def is_joined(line: str) -> bool:
    """Whether a line has several parts, all about the page: lines that stand side by side, with the
    names of sections or agencies (at least one part is none), or sentences.

    >>> is_joined("Home | News | Courts"), is_joined("Lake Press • 2 min read"), is_joined("A | B")
    (True, True, False)
    >>> is_joined("Already a subscriber? Log in. All rights reserved.")
    True
    """
    parts = _BETWEEN.split(line.strip().strip(AROUND + "|•·›»"))
    if len(parts) == 1:
        text = line.strip()
        some = [_SENTENCES.split(text)] if ". " in text or "! " in text else []
        some += [_SENTENCES_OR_QUESTIONS.split(text)] if "? " in text else []
        return any(len(p) <= _MOST_PARTS and all(map(_is_single, p)) for p in some)
    if parts[0] in ("Home", "HOME"):
        return len(parts) <= _MOST_PARTS and all(
            _SECTION.fullmatch(part) or _is_single(part) for part in parts[1:]
        )
    rest = [p for p in parts if not _is_single(p)]
    by_agency = any(part.lower().endswith(AGENCIES) for part in parts)
    return (
        1 < len(parts) <= _MOST_PARTS
        and len(rest) < len(parts)
        and all(_is_section(part, by_agency) for part in rest)
    )


def _is_section(part: str, by_agency: bool) -> bool:
    """Whether a part of a line is a section or a paper, or next to an agency the name of a person.

    >>> [_is_section(part, False) for part in ("Arts & Culture", "Lake Press", "Guilty")]
    [True, True, False]
    """
    words = part.lower().split()
    if _SECTION.fullmatch(part) is None:
        return False
    is_paper = len(words) > 1 and words[-1] in _PAPERS and words[0] not in _NO_PAPERS
    return is_paper or (by_agency and len(words) > 1) or _SECTIONS.issuperset(words)


def _is_by(text: str) -> bool:
    """Whether a line says only who wrote the page, or how to write to them."""
    return is_byline(text.rstrip(AROUND)) or ("@" in text and is_contact(text))


def _has_form(text: str) -> bool:
    """Whether a line is a heading, a button, a credit, an invitation or the like."""
    lower = text.lower()
    match = _FORM().fullmatch(lower)
    if match is None:
        return lower in BUTTONS
    credit = CREDIT.match(text)
    # In a line of capitals a sentence looks like names.
    named = credit is None or (
        is_names(credit[1])
        and not _is_status(credit[1])
        and not (text.isupper() and len(credit[1].split()) > _MOST_CAPITALS)
    )
    return lower in BUTTONS or (named and invites(text, match))


def reserves_rights(line: str) -> bool:
    """Whether a line says only that the page may not be copied.

    >>> reserves_rights("All rights reserved."), reserves_rights("All rights are lost")
    (True, False)
    """
    text = line.strip().lower()
    return len(line) <= LONGEST and (_reserves(text) or _is_chinese_notice(text))


def is_english_source(line: str) -> bool:
    """Whether a line says where an English report is from (see `englishlines`).

    >>> is_english_source("(With inputs from agencies)")
    True
    >>> is_english_source("With inputs from agencies it grew")
    False
    """
    return len(line) <= LONGEST and is_english_line(line.strip(AROUND_ENGLISH))


def is_button(line: str) -> bool:
    """Whether a line about the page is a button or an invitation: no subject of any page.

    >>> [is_button(line) for line in ("Share this story", "Photo: Ann Shepherd")]
    [True, False]
    """
    lower = line.strip().strip(AROUND).lower()
    some = _BETWEEN.split(lower) if _BETWEEN.search(lower) else _SENTENCES.split(lower)
    parts = (part.strip(AROUND) for part in some)
    return all(part in BUTTONS or _INVITATION().fullmatch(part) for part in parts)


def is_counter(line: str) -> bool:
    """Whether a line says only how often a page was read, or how long ago it was made.

    >>> [is_counter(line) for line in ("88 views · 3 days ago", "(Views: 88)", "88 views of it")]
    [True, True, False]
    """
    lower = line.strip().strip(AROUND).lower()
    return len(line) <= _LONGEST and COUNTER().fullmatch(lower) is not None


def _is_chinese(lower: str) -> bool:
    """Whether a line, in lower case, is one of those of `chineselines`."""
    return not lower.isascii() and (_is_chinese_notice(lower) or is_chinese_line(lower))


def _is_chinese_notice(lower: str) -> bool:
    text = lower.lstrip(AROUND) if lower[:1] in OPENING else lower
    return text in _CHINESE_NOTICES and is_chinese_notice(text)


def _is_notice(lower: str) -> bool:
    """Whether a line, in lower case, reserves rights or says how to cite the page."""
    return _reserves(lower) or _CITATION.fullmatch(lower) is not None


def is_page_line(line: str) -> bool:
    """Whether a line, or each of its sentences and parts, says nothing of what a page is about.

    Callers check only the lines that `suspects` finds: a new form must be added there too.

    >>> [is_page_line(line) for line in ("Share this story", "Photo: Ann Shepherd", "Share prices")]
    [True, True, False]
    """
    return len(line) <= LONGEST and (_is_single(line) or is_joined(line))


def _is_single(line: str) -> bool:
    text = line.strip()
    lower = text.lower()
    credited = ")" in text[-CREDIT_ENDS:] or lower.endswith(AGENCIES)
    credited = credited or (": " in lower and CREDITING.search(lower) is not None)
    if (
        (lower in _NOTICES_BEGIN and _is_notice(lower))
        or (credited and is_caption(text, lower))
        or ("0" <= text[:1] <= "9" and len(text) <= LONGEST_NUMBERS and _NUMBERS().fullmatch(lower))
        or _is_chinese(lower)
        or (text[:1] == "#" and _HASHTAGS.fullmatch(text))
        or is_english_source(text)
        or is_foreign_line(text)
    ):
        return True
    if len(line) > _LONGEST or (len(line) > _LONGEST_SENTENCE and line.endswith(_SENTENCE_ENDS)):
        return False
    if text[:1] in OPENING:
        text = text.strip(AROUND)
        lower = text.lower()
    if (lower in _FORMS_BEGIN and _has_form(text.rstrip(AROUND))) or (
        (lower in _BYLINES_BEGIN or "@" in text or "contributed" in text) and _is_by(text)
    ):
        return True
    if lower.endswith(AGENCIES):
        return is_agency_credit(text)
    return " " not in text and text.isascii() and _ADDRESS.fullmatch(text) is not None
