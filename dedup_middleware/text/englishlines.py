"""Recognises lines that say where an English report is from: wires, reprints, news rooms, authors.

They stand below a reprint (`This story was originally published by ...`), differ from site to site,
and may be long. Each has a fixed wording, in which only names, days and addresses vary.
"""

from __future__ import annotations

import re
from typing import Final

from dedup_middleware.text.characters import word_lists

_NAME: Final = r"[^\W\d_a-zа-яё][\w.'’-]*"
_NAMES: Final = rf"(?:the )?{_NAME}(?:,?(?: (?:and|of|for|in|at|de))?(?: the)? {_NAME}){{0,7}}"
_DAY: Final = r"(?:[A-Z]\w+day,? )?(?:[A-Z]\w+\.? \d{1,2},? \d{4}|\d{1,2} [A-Z]\w+\.? \d{4})"
_TIME: Final = r"\d{1,2}[:.]\d\d(?: ?[AaPp]\.?[Mm]\.?)?(?: [A-Z]{1,4})?"
_WIRE: Final = (
    rf"(?:Reuters|AFP|AP|AAP|PA|DPA|{_NAME}(?: {_NAME}){{0,3}} (?:Press|Agency|News|Wire))"
)
_URL: Final = r"(?:https?://|www\.)\S+"
_SITE: Final = rf"(?:{_NAMES}|(?:[\w-]+\.){{1,3}}[a-z]{{2,8}}\S*)"
_PIECE: Final = r"(?:story|article|report|piece|post|column|copy)"
_FEED: Final = r"(?:syndicated|agency|wire|news)(?: (?:agency|news))? feed"
_ORIGINAL: Final = r"(?:\. Read the original(?: (?:article|story))?(?: here)?)?"
_MADE: Final = r"(?:edited|published|generated|sourced|auto-?(?:generated|published))"
#: beginnings of the lines, for `suspects`; _ is a space
BEGINNINGS: Final = (
    "this except only with support follow listen view logo photo published updated get_ have got_ "
    "source ap_ more for_m bbc reuters agence associated read see_ continue via latest subscribe "
    "sign log_ register join already to_c to_r rate do_y home"
)
_LINES: Final = re.compile(
    # an unedited feed
    rf"(?:Except for the headline, )?[Tt]his {_PIECE} (?:has|is|was) (?:not )?(?:been )?{_MADE}\b"
    rf"[^\d]{{0,90}}\b{_FEED}\b(?: without [^\d.]{{1,60}})?(?:\. Only [^\d.]{{1,60}})?"
    rf"|Only the headline [^\d;]{{1,120}}; the rest of the content is [^\d]{{1,30}} {_FEED}"
    rf"|With (?:additional )?(?:[Ii]nputs?|[Ff]iles|[Rr]eporting) (?:from|by) (?:agencies|{_NAMES})"
    rf"|With (?:{_WIRE}(?:, | and )){{0,3}}{_WIRE}|[Vv]ia {_NAMES}"
    # where it was published first
    rf"|This {_PIECE}(?: (?:by|from) {_NAMES})? (?:(?:was|is|has been) )?"
    r"(?:(?:first|originally) (?:published|appeared)|re-?published)"
    rf"(?: (?:by|in|on|at|from|with permission from) {_NAMES})?(?: under an? [A-Z][^.\d]{{1,40}})?"
    rf"(?:,?(?: on)? {_DAY}(?:,? (?:at )?{_TIME})?)?(?:: {_URL}|{_ORIGINAL})"
    # with the title of the original
    rf"|This {_PIECE} originally appeared on {_NAMES}: [A-Z][^\n]{{1,140}}"
    r"|This is a (?:breaking|developing)(?: news)? story\b[^.\d]{0,30}[.,;] (?:[Pp]lease )?"
    r"(?:[Cc]heck|[Cc]ome) back (?:\w+ )?for (?:\w+ )?(?:updates|details|information)"
    # agencies and news rooms
    rf"|(?:Reuters|(?:Agence France-Presse|Associated Press|BBC (?:News|Sport)),?) in {_NAMES}"
    rf"|BBC (?:News|Sport), {_NAMES}"
    rf"|{_NAMES}, The (?:Associated|Canadian) Press"
    rf"|SOURCE {_NAMES}"
    rf"|(?:(?:More|For more|AP) [^.!?\d]{{1,50}}"
    r"|View (?:source version|original content)[^\d]{0,50}"
    rf"|Logo|Photo|Follow [^.!?\d]{{1,60}} at)(?: [-–])?:? {_URL}(?: and {_URL})?"
    rf"|(?:Published|Updated):? {_TIME},? (?:on )?(?:{_DAY}|[A-Z]\w+\.? \d{{1,2}})"
    r"|This article is more than (?:\d{1,2}|an?|one) (?:months?|years?) old"
    # the rest of the text, and who may read it
    r"|(?:Read|See|View) (?:the )?(?:(?:full|whole|entire|original|rest of the) )?"
    rf"{_PIECE}(?: (?:here|(?:at|on|in|from) {_SITE}))?"
    rf"|(?:Continue reading|Read (?:more|on|it))(?: (?:at|on|in)(?: the source)?:? {_SITE})"
    rf"|(?:More|Latest)(?: (?:stories|news|articles))? (?:from|by|in) {_NAMES}"
    r"|(?:Subscribe|Sign (?:up|in)|Log in|Register|Join)\b[^.!?]{0,60}\b"
    rf"(?:to|and) (?:read|continue reading|keep reading|access|unlock)\b[^.!?]{{0,40}}\b{_PIECE}s?"
    r"|Already (?:a (?:subscriber|member)|registered|subscribed|have an account)\?"
    r"(?: (?:Log|Sign) in(?: here)?)?"
    rf"|This is a preview|This {_PIECE} is (?:(?:only )?for subscribers|for subscribers only)"
    rf"|To (?:continue reading|read (?:the rest of )?this {_PIECE}),? (?:please )?"
    r"(?:subscribe|register|log in|sign (?:in|up))\b[^.!?\d]{0,40}"
    r"|Rate this (?:recipe|article|story|page)[ ★☆]*(?:\(\d{1,6}\)?)?"
    # how to write to the news room, and how to pay for it
    r"|(?:Listen to [^.\d]{1,60} on Sounds and follow BBC [^.\d]{1,80}"
    r"|Follow BBC [^.\d]{1,80}\. (?:Send|Share) your story ideas (?:to|via) .{1,90})"
    r"|(?:Do you have|Have|Got) an? (?:\w+ )?(?:tip|story|question)(?: \w+){0,3}\? "
    r"[^.?!\d]{1,50}@\S+"
    r"|Support (?:local|our|independent) journalism(?:\.|,|:| by)? "
    r"(?:[Ss]ubscrib|[Dd]onat|[Bb]ecom)\w+\b[^.\d]{0,80}"
)
_BEGINNING: Final = 2
_BEGIN: Final = frozenset(word[:_BEGINNING].replace("_", " ") for word in BEGINNINGS.split())
ENDINGS: Final = (", the canadian press", ", the associated press")
# How to contact an author: behind the names nothing else may stand; and before it who that is.
_CONTACT: Final = re.compile(r"(?:E-?mail|Follow|Contact|Reach) \D*@\D*(?:[(\d][\d() .-]{5,15})?")
_MOST_CONTACT: Final = 12  # most words of such a line
_CONTACTING: Final = frozenset(word_lists()["contacting"])
_ROLE: Final = re.compile(
    rf"{_NAME}(?: {_NAME}){{1,3}} (?:(?:covers|writes about|reports on)\b"
    r"|is (?:an?|the) (?:[\w-]+ ){0,4}"
    r"(?:reporter|writer|editor|journalist|columnist|correspondent))"
    r"[^.!?\d]{0,120}\. (?=(?:She|He|They|You|Reach|E-?mail|Follow|Contact)\b)"
)


def is_contact(text: str) -> bool:
    """Whether a line consists of names, addresses, and words that say how to write to somebody,
    behind a sentence that says what they write about.

    >>> is_contact("Email Ann Shepherd at ann@lake.example or follow her @annshepherd.")
    True
    >>> is_contact("Ann Shepherd covers schools for the Gazette. Reach her at ann@lake.example.")
    True
    >>> is_contact("Contact ann@lake.example before the vote")
    False
    """
    role = _ROLE.match(text)
    rest = text[role.end() :] if role else text
    words = [part.strip(".,!;:()") for part in rest.split()]
    return (
        (role or _CONTACT.fullmatch(text)) is not None
        and len(words) <= _MOST_CONTACT
        and all(
            not word[:1].islower() or "@" in word or word.lower() in _CONTACTING for word in words
        )
    )


def is_english_line(text: str) -> bool:
    """Whether a line, without brackets and full stop around it, says where a report is from.

    >>> is_english_line("This story was originally published by the Lakeside Gazette")
    True
    >>> is_english_line("This story was first published in 1931 and still sells")
    False
    """
    lower = text[-max(map(len, ENDINGS)) :].lower()
    begins = text[:_BEGINNING].lower() in _BEGIN or lower.endswith(ENDINGS)
    return begins and _LINES.fullmatch(text) is not None
