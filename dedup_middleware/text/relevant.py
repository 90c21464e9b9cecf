"""Prepares a text for comparison: decodes it, and removes lines that say nothing of its subject.

Texts that an extractor took out of a page often have character references and links to other pages:
feeds and JSON-LD escape HTML once more, and a list of headlines under "Read also" stays below the
article.
"""

from __future__ import annotations

import html
import itertools
import re
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Final

from dedup_middleware.text.characters import word_lists
from dedup_middleware.text.chineselines import is_row, maker_of, without_maker
from dedup_middleware.text.datelines import LONGEST_HEADLINE
from dedup_middleware.text.edgelines import edge_lines, is_list_label
from dedup_middleware.text.foreignlines import is_foreign_notice
from dedup_middleware.text.pagelines import (
    is_button,
    is_counter,
    is_english_source,
    is_page_line,
    is_page_row,
    reserves_rights,
)
from dedup_middleware.text.spellings import in_one_spelling
from dedup_middleware.text.suspects import LABELS, LONGEST_LABEL, suspects

_REFERENCE: Final = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")


def _listed_words(name: str) -> str:
    return rf"(?i:{'|'.join(map(re.escape, word_lists()[name]))})(?!\w)"


# A date line behind a headline: `CORK, Ireland, April 3 (Agency) - `, `CORK (Reuters) - `. A town
# alone, or with any other word behind it, is compared: LOST and FOUND may stand there, too.
_MONTH: Final = "(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]{0,6}"
_ON_DAY: Final = rf", {_MONTH}\.? \d{{1,2}}(?:, \d{{4}})?"
_BY_ANY: Final = r"(?: \([A-Z][^()\d\n]{1,30}\)| /[A-Z][^/\d\n]{1,30}/)?"
_BY_WIRE: Final = (
    rf" (?:\({_listed_words('wires')}[^()\d\n]{{0,20}}\)"
    rf"|/{_listed_words('wires')}[^/\d\n]{{0,20}}/)"
)
_DATE_LINE: Final = re.compile(
    rf"\s*(?!(?:{_listed_words('no-towns')}|[A-Z]+ED\b))[A-Z][A-Z.' -]{{2,30}}(?=,| [(/])"
    rf"(?:(?:, {_listed_words('lands')}){{1,2}}(?:{_ON_DAY})?{_BY_ANY}|{_ON_DAY}{_BY_ANY}"
    rf"|(?:, [A-Z][\w.]{{1,15}}(?: [A-Z]\w+)?){{0,2}}(?:{_ON_DAY})?{_BY_WIRE})"
    r" ?(?:--|[-–—]) (?=[^\n]{80})"
)
# The same with an agency in brackets, also behind nothing, in other scripts, and with the reporter.
_WIRE_LINE: Final = re.compile(
    r"\s*(?:(?:[A-ZÀ-Ž][\w.'’ -]{2,24}(?:, \d{1,2}\.? \w{3,9}\.?(?: \d{4})?)? )?"
    r"\((?:AFP|AP|APA|dpa|EFE|Europa Press|ANSA|Lusa|LUSA|PAP|AA|DHA|İHA|Reuters|KNA|epd)\)[.,]?"
    r" ?[-–—:] ?(?:[A-Z ]{3,20}, \d{1,2} [A-Z]{3} - )?"
    r"|[\[(][가-힣]{2,6}(?:[·, ]{1,2}[가-힣]{2,6})?=[가-힣]{2,8}[)\]] ?"
    r"(?:[가-힣]{2,4}(?:[·, ]{1,2}[가-힣]{2,4})* ?(?:기자|특파원) ?= ?)?"
    r"|【[^】\d\n]{0,12}(?:共同|時事|ロイター)】|[\u0621-\u064a ]{2,24}"
    r"\((?:د ب أ|أ ف ب|أ ش أ|رويترز|وكالات)\) ?[-–—:] )(?=[^\n]{40})"
)
# Sources that begin a text with a number or a day, where `datelines` expects another form:
# `ВЛАДИВОСТОК, 3 апреля, PrimaMedia.`, `(Казань, 3 апреля, «Имя», Анна Рекова).`, 36氪获悉，
_RUSSIAN_DAY: Final = (
    r"\d{1,2} (?:января|февраля|марта|апреля|мая|июня|июля|августа|сентября|октября|ноября"
    r"|декабря|(?:янв|февр?|мар|апр|июн|июл|авг|сент?|окт|нояб?|дек)\.)"
    r"(?: 20\d\d(?: года)?)?(?:[,.]| [-–—]) (?:ИА )?"
)
_RUSSIAN_WIRE: Final = (
    r"(?:РИА Новости|ТАСС|ИТАР-ТАСС|ИНТЕРФАКС|REGNUM|РЕГНУМ|ПРАЙМ|РБК"
    r"|[A-Za-z][A-Za-z-]{1,20}\.ru|[A-ZА-ЯЁ0-9-]{3,16}(?:\.RU|\.РУ))"
)
# A quoted or foreign name without a town, or before another name, begins news: a match, a firm.
_RUSSIAN_LINE: Final = re.compile(
    rf"\s*\(?(?:[А-ЯЁ][\w-]+(?: [А-ЯЁ][\w-]+)?[,.] {_RUSSIAN_DAY}"
    rf"(?:«[^»\d\n]{{2,24}}»|/[^/\d\n]{{3,30}}/|{_RUSSIAN_WIRE}|[A-Z][A-Za-z-]{{2,20}})"
    rf"|{_RUSSIAN_DAY}{_RUSSIAN_WIRE})"
    r"(?:, [А-ЯЁ][а-яё-]+ [А-ЯЁ][а-яё-]+)?\)?(?:\.|(?: [-–—])) (?!«)(?=[^\n]{40})"
)
_CHINESE_LINE: Final = re.compile(
    r"\s*(?:36氪(?:获悉|讯|消息)?[，,：:]|IT之家 ?\d{1,2} ?月 ?\d{1,2} ?日(?:消息|讯)，"
    r"|格隆汇\d{1,2}月\d{1,2}日[丨｜|]"
    r"|(?:新浪|搜狐|网易|腾讯|凤凰)[\u4e00-\u9fff]{2}讯 ?(?:北京时间)?\d{1,2}月\d{1,2}日"
    r"(?:[凌清早上中下午晚晨]{1,2}间?)?(?:消息)?[，,：:]?)"
)
_NUMBERED_LINES: Final = (_RUSSIAN_LINE, _CHINESE_LINE)
# Each of the lines above begins with one of these characters.
_MAY_BEGIN: Final = re.compile(r"\s*[A-ZÀ-ŽА-ЯЁ\d([【\u0621-\u064a格新搜网腾凤]")
_BEHIND_HEADLINE: Final = (_DATE_LINE, _WIRE_LINE, *_NUMBERED_LINES)
_WIRES_BEGIN: Final = ("(", "[", "【")  # without a headline a town before an agency is compared
_MOST_CHARS: Final = 200_000  # of a text that is examined, which takes a second at worst
_MOST_ESCAPED: Final = 2  # most times that a text is unescaped
_MORE: Final = re.compile(  # More Great Lakeside Stories
    r"more (?:great |top )?(?:[\w’']{1,20} ){0,2}(?:stories|coverage|news|articles)"
)
_BRACKETS: Final = {"【": "】", "[": "]"}
_MOST_HEADLINES: Final = 12
_MOST_SHARE: Final = 0.5  # largest share of a text that is left out
_LEAST_WRAPPED: Final = 40  # characters of a line behind which a sentence may go on
_LEAST_LISTED: Final = 3  # lines with the same label and different names that are a list
_LEAST_SUBJECT: Final = 0.75  # least share of lines about the subject
# The latter; lines about the page, which count as such or not; of the former the counts of readers
# and the rows on who made it.
_OF_SUBJECT, _COUNTED, _UNCOUNTED, _COUNTER, _UNCOUNTED_COUNTER, _ROW = range(6)
# Russian and Ukrainian clauses on which medium or body reported something, and nothing else.


def _any_of(name: str) -> str:
    # Grouped by their first two letters, which rule out most words of a text.
    words = sorted(map(re.escape, word_lists()[name]))
    parts = (
        f"{first}(?:{'|'.join(word[2:] for word in some)})"
        for first, some in itertools.groupby(words, key=lambda word: word[:2])
    )
    return "|".join(parts).replace("е", "[её]")


# Not followed by who was told: сообщили полиции, сообщили в полицию, в управление.
_TOLD: Final = (
    r"(?! (?:в|во|на|у) (?:[а-яёіїєґ-]*ние|[а-яёіїєґ-]+(?=[ .,])(?<![еиіїхм])(?<!ой|ей))(?=[ .,])"
    r"|(?! журнал[іи]стам) [а-яёіїєґ-]{2,}(?:ии|ії|[рт]е|[рдт]і|[ую]|[ая]м)(?=[ .,]))"
)
# Names of media, or of bodies that exist everywhere, only: a place or a firm may be news.
_QUOTED: Final = r"[^«»\"“”.\n]{0,40}[»\"”]"
_WHO: Final = (
    rf"(?:(?:{_any_of('papers')})\w*(?:-канал\w*)? [«\"“]{_QUOTED}"
    rf"|[«\"“][^«»\"“”.\n]{{0,30}}\b(?i:{_any_of('paper-names')}){_QUOTED}"
    rf"|[«\"“]?(?i:{_any_of('media')})[»\"”]?|(?:{_any_of('bodies')})\w*"
    rf"|(?:{_any_of('tellers')})\w*(?:-канал\w*)?|(?:{_any_of('acronyms')})"
    r"|прес{1,2}-?служб\w*(?: [а-яёіїєґ]{4,}){0,2}|в|во|на|со|с|по|у|із|з)(?=[ .,])"
)
# A region or a town, if the page names it elsewhere, too (see `without_attributions`).
_PLACE: Final = (
    r"(?:(?:по )?[А-ЯЁ][а-яё-]{2,}[сц]к(?:ой|ого|ому) "
    r"(?:област|кра[юя]|район|округ|республик)[а-я]*"
    r"|по (?:городу )?[А-ЯЁ][а-яё-]{3,}|России)(?=[ .,])"
)
# The stem of its name: of Омской Омск, of Пермскому Перм, of Башкирии Башкири.
_STEM: Final = re.compile(
    r"(?<= )([А-ЯЁ](?:[а-яё-]{3,}?(?=[сц]ко)|[а-яё-]{1,2}[сц]к(?=о)))\w+ (?=обл|кра|рай|окр|респ)"
    r"|по (?:городу )?([А-ЯЁ][а-яё-]{2,})[а-яё](?![а-яё-]| (?:обл|кра|рай|окр|респ))"
)
_SOURCE: Final = rf"{_WHO}(?: (?:{_WHO}|{_PLACE})){{0,9}}"
# The group has the negation of a denial.
_TELLS: Final = (
    rf"(?:(?:(не )?(?:{_any_of('agency-tells')}|{_any_of('telling')}){_TOLD}"
    rf"|(опроверг\w*|отрица\w+|спрост\w+)) {_SOURCE})"
)
_GOES_ON: Final = ', (?=[а-яёіїєґ«"])'
#: patterns by the beginnings of each: capitals begin sentences
_ATTRIBUTIONS: Final = tuple(
    (cue, cue + form)
    for cues, form in (
        (
            ("Об этом ", "Про це ", "Такие данные "),
            rf"(?:(?:{_SOURCE} )?{_TELLS}|{_SOURCE} (не )?(?:{_any_of('telling')}))"
            r"\.(?: |(?=\n)|$)",
        ),
        ((", ", " — "), rf"(?:[—–-] )?{_TELLS}(?=\.(?:\s|$)|, )"),
        (("Как ", "Як "), rf"(?:{_SOURCE} )?{_TELLS}{_GOES_ON}"),
        (("По данным ", "По информации ", "За даними "), rf"{_SOURCE}{_GOES_ON}"),
    )
    for cue in cues
)
# On first use: all of them take a tenth of a second, and most crawls need none.
_compiled: Final[Callable[[str], re.Pattern[str]]] = cache(re.compile)
# An invitation to read the rest, behind the dots of a cut text.
_MORE_OF_IT: Final = re.compile(
    r"(?:\.{3,}|…|[\[(](?:\.{3}|…)[\])])\s*(?:read more|continue reading|weiterlesen"
    r"|lire la suite|leer más|seguir leyendo|leggi tutto|continua a leggere|leia mais|читать далее"
    r"|читать полностью|подробнее|阅读全文|查看全文|閱讀全文)[\s.…»›→>\])]*\Z",
    re.IGNORECASE,
)
_END_MARKS: Final = tuple(blank + mark for blank in " \n" for mark in ("-30-", "-0-"))  # of a wire
_LONGEST_MORE: Final = 48  # characters of it
_SENTENCE_END: Final = re.compile(r"[.。．।॥።။։][\"'”’»)]?$")

#: characters of a title that are read; in HTML, bytes. Each word of a title is looked for in the
#: text, so a text in the field of the title would take minutes.
LONGEST_TITLE: Final = 4_000


def relevant_title(title: str) -> str:
    """The part of a title that is compared, of its first ``LONGEST_TITLE`` characters."""
    return relevant(title[:LONGEST_TITLE])


def relevant(text: str) -> str:
    """The part of a text that is compared; all of a text of more than 200,000 characters.

    >>> relevant("Fares rise by 4&#37; from April on.\\nRead also:\\nFerry is late")
    'Fares rise by 4% from April on.'
    """
    if len(text) > _MOST_CHARS:
        return text
    if "&" in text:
        for _ in range(_MOST_ESCAPED):
            text = _REFERENCE.sub(lambda found: html.unescape(found[0]), text)
    text = in_one_spelling(text)
    if "о" in text:  # the only cost for texts in other alphabets
        text = without_attributions(text)
    end = text[-_LONGEST_MORE:]
    if "..." in end or "…" in end:
        more = _MORE_OF_IT.search(text, max(0, len(text) - _LONGEST_MORE))
        if more is not None and more.start() >= _MOST_SHARE * len(text):
            text = text[: more.start()]
    if text.endswith(_END_MARKS):
        text = text[: text.rindex("-", 0, -1)].rstrip()
    if "\n" in text:
        text = _without_lines(text)
        headline = text.find("\n", 0, LONGEST_HEADLINE + 1)
        if headline > 0 and text[headline - 1] not in ".!?":
            text = _without_date_line(text, headline)
    return without_maker(_without_date_line(text, 0))


def _without_date_line(text: str, place: int) -> str:
    """Remove the date line at a place: the end of the headline, or the beginning of the text."""
    if _MAY_BEGIN.match(text, place) is None:
        return text
    begin = (_WIRE_LINE,) if text[:1] in _WIRES_BEGIN else ()
    for pattern in _BEHIND_HEADLINE if place else (*begin, *_NUMBERED_LINES):
        found = pattern.match(text, place)
        if found is not None:
            blank = len(found[0]) - len(found[0].lstrip())
            return text[: place + blank] + text[found.end() :]
    return text


def without_attributions(text: str) -> str:
    """Remove the clauses on which medium or body reported something, unless they are more than half
    of the text. A denial (не сообщили в мэрии, опровергли) keeps its negation, and a clause that is
    the only one to name a place stays."""
    found, places = text, set[str]()
    for cue, form in _ATTRIBUTIONS:
        if cue in found:
            found = _compiled(form).sub(lambda match: _what_stays(match, places), found)
    fits = len(found) >= _MOST_SHARE * len(text) and all(place in found for place in places)
    return found if fits else text


def _what_stays(match: re.Match[str], places: set[str]) -> str:
    said = match[0]
    named = {found[1] or found[2] for found in _STEM.finditer(said)}
    if any(match.string.count(place) == said.count(place) for place in named - places):
        return said
    places |= named
    denied = match.lastindex is not None
    return denied * (" не" if said[0] in " ," else "не ")


def _without_lines(text: str) -> str:
    """Remove lines about the page (see `_page_lines`), lines of the form `Read also: headline`, and
    the headlines (short lines without a full stop) at the end below a label on its own line; unless
    they are more than half of the text."""
    looked_at, said = suspects(text)
    if not said:
        return text
    lines = text.split("\n")
    edges = edge_lines(lines, said)
    if not (looked_at or edges):
        return text
    page_lines = _page_lines(lines, looked_at, edges)
    kept = lines
    if page_lines:
        kept = [line for place, line in enumerate(lines) if place not in page_lines]
    if any(is_link(lines[place]) for place in looked_at):
        kept = [line for line in kept if not is_link(line)]
    links = 0
    for count, line in enumerate(reversed(kept[-_MOST_HEADLINES - 1 :]), 1):
        stripped = line.strip()
        label = stripped.rstrip(":：.… ")
        if _is_label(label) or is_list_label(label.lower()):
            links = count  # above it may be another list
        elif line and not _is_headline(stripped):
            break
    kept = kept[: len(kept) - links]
    if len(kept) == len(lines):
        return text
    found = "\n".join(kept).rstrip()
    return found if len(found) >= _MOST_SHARE * len(text) else text


def _page_lines(lines: list[str], looked_at: list[int], edges: set[int]) -> set[int]:
    """The places of lines that say nothing of the subject; none if they are more than a quarter: in
    a gallery the pictures are the subject. Makers, counters and rows stay where they are data."""
    # What stands below a label goes with it.
    kinds = {place: _UNCOUNTED for place in edges if not is_list_label(lines[place].lower())}
    kinds |= {
        place: kind
        for place in looked_at
        if (kind := _kind_of(lines[place])) and not _goes_on(lines, place)
    }
    if not kinds:  # as of most texts
        return set()
    found = set(kinds)
    if len(found) >= _LEAST_LISTED:
        found -= _listed(lines, found)
    counters = {place for place in found if kinds[place] in (_COUNTER, _UNCOUNTED_COUNTER)}
    if counters and _are_data(lines, found, counters):
        found -= counters
    rows = {place for place in found if kinds[place] == _ROW}
    if rows:
        found -= rows if _are_data(lines, found, rows) else _among_facts(lines, found, rows)
    # Neither a long notice of rights nor buttons and invitations make a short page a gallery.
    sizes = {place: len(lines[place]) for place in found}
    counted = sum(n for p, n in sizes.items() if kinds[p] not in (_UNCOUNTED, _UNCOUNTED_COUNTER))
    size = sum(map(len, lines)) - sum(sizes.values())
    return found if size >= _LEAST_SUBJECT * (size + counted) else set()


@lru_cache(maxsize=4096)  # the pages of a site have the same lines
def _kind_of(line: str) -> int:
    """`_OF_SUBJECT` for a line about the subject, else what it is."""
    if not is_page_line(line):
        return _ROW if is_page_row(line) else _OF_SUBJECT
    from_site = reserves_rights(line) or is_button(line) or is_english_source(line)
    uncounted = from_site or is_row(line.lower()) or is_foreign_notice(line)
    if is_counter(line):
        return _UNCOUNTED_COUNTER if uncounted else _COUNTER
    return _UNCOUNTED if uncounted else _COUNTED


def _goes_on(lines: list[str], place: int) -> bool:
    """Whether a line goes on a wrapped sentence.

    >>> _goes_on(["The harbour was bought on Friday by a group led", "by Ann Shepherd."], 1)
    True
    """
    line, before = lines[place].strip(), lines[place - 1].rstrip() if place else ""
    behind = lines[place + 1].lstrip() if place + 1 < len(lines) else ""
    return (
        line[:1].islower()
        and (line.endswith((".", ",")) or behind[:1].islower())
        and len(before) >= _LEAST_WRAPPED
        and (before[-1].isalpha() or before[-1] == ",")
    )


def _listed(lines: list[str], places: set[int]) -> set[int]:
    """Lines of lists of who made what (作者：...): several lines with the same label."""
    by_maker: dict[str, set[int]] = {}
    for place in places:
        maker = maker_of(lines[place])
        if maker is not None:
            by_maker.setdefault(maker, set()).add(place)
    lists = (
        same
        for same in by_maker.values()
        if len({lines[place].strip() for place in same}) >= _LEAST_LISTED
    )
    return set().union(*lists)


def _are_data(lines: list[str], page_lines: set[int], rows: set[int]) -> bool:
    """Whether counters, or rows on who made something, are what a page is about: one is between
    paragraphs or behind a label, or they are in several places before or behind the paragraphs, as
    in a ranking."""
    places: list[int] = []  # for each group of adjacent rows, the paragraphs before it
    paragraphs, apart, labelled = 0, True, False
    for place, line in enumerate(lines):
        if place in rows:
            if apart:
                places.append(-1 if labelled else paragraphs)
            apart = False
        elif place not in page_lines and line.strip():
            paragraphs += not _is_headline(line.strip())
            apart, labelled = True, line.rstrip().endswith((":", "："))
    return len(set(places)) < len(places) or not {0, paragraphs}.issuperset(places)


def _among_facts(lines: list[str], page_lines: set[int], rows: set[int]) -> set[int]:
    """Rows on who made something in a list that has rows on other things, as in a catalogue."""
    found: set[int] = set()
    listed: set[int] = set()
    are_facts, value = False, 0
    for place, line in enumerate([*lines, "."]):
        if place in rows:
            listed.add(place)
        elif place not in page_lines and line.strip():
            if _is_fact(line) and not is_link(line):
                are_facts, value = True, _value_of(lines, place)
            elif not value or not _is_value(line):  # a fact may have several values
                found |= listed if are_facts else set()
                listed, are_facts, value = set(), False, 0
    return found


def _value_of(lines: list[str], label: int) -> int:
    """The place of the value of a label on a line of its own (`Binding:`); 0 if there is none."""
    if not lines[label].rstrip().endswith((":", "：")):
        return 0
    value = next((i for i in range(label + 1, len(lines)) if lines[i].strip()), 0)
    return value if value and _is_value(lines[value]) else 0


def _is_value(line: str) -> bool:
    return _is_headline(line.strip()) and ":" not in line and "：" not in line


def _is_fact(line: str) -> bool:
    """Whether a line is a label and a value, and no sentence: `Binding: cloth`."""
    colon = line.replace("：", ":").find(":", 1, LONGEST_LABEL + 1)
    return colon > 0 and _is_headline(line.strip())


def is_link(line: str) -> bool:
    """Whether a line is a label and a headline: `Read also: Ferry is late again`, or with a bar."""
    if len(line) > LONGEST_LABEL + LONGEST_HEADLINE:
        return False
    line = line.strip().replace(" | ", ": ", 1)
    if line[:1] in _BRACKETS:  # 【関連記事】...
        line = line[1:].replace(_BRACKETS[line[0]], ":", 1)
    colon = max(line.find(":", 0, LONGEST_LABEL + 1), line.find("：", 0, LONGEST_LABEL + 1))
    return (
        colon > 0 and _is_label(line[:colon].rstrip()) and _is_headline(line[colon + 1 :].strip())
    )


def _is_label(text: str) -> bool:
    if len(text) > LONGEST_LABEL:
        return False
    lower = text.lower()
    return lower in LABELS or (lower.startswith("more ") and _MORE.fullmatch(lower) is not None)


def _is_headline(text: str) -> bool:
    return 0 < len(text) <= LONGEST_HEADLINE and _SENTENCE_END.search(text, len(text) - 2) is None
