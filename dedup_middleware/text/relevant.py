"""Prepares a text for comparison: decodes it, and removes lines that say nothing of its subject.

Texts that an extractor took out of a page often have character references and links to other pages:
feeds and JSON-LD escape HTML once more, and a list of headlines under "Read also" stays below the
article.
"""

from __future__ import annotations

import html
import itertools
import re
from collections.abc import Iterable
from functools import cache, lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base.jit import kernel, subkernel
from dedup_middleware.base.kerneltypes import I32, R32, int64
from dedup_middleware.text.characters import Codes, code_points, code_set, word_lists
from dedup_middleware.text.chineselines import LONGEST as LONGEST_ROW
from dedup_middleware.text.chineselines import PAIRS, SENTENCE_ENDS, TAKEN, is_row, maker_of
from dedup_middleware.text.numerals import among
from dedup_middleware.text.pagelines import (
    AGENCIES,
    AROUND,
    BEGINNINGS,
    BUTTONS,
    CREDIT_ENDS,
    LONGEST,
    LONGEST_NUMBERS,
    NUMBERED,
    OPENING,
    PAGE_ROWS,
    is_counter,
    is_page_line,
    is_page_row,
    reserves_rights,
)

# Finding the lines to examine, by their first and last characters.
# Lines are judged in Python, a microsecond each, which would take a third of a page's time for all
# of them. So one kernel finds the few suspects. It may find too many, but misses none that
# `pagelines` and this module know, except lines with the kelvin sign in place of a k, and labels
# with more than a hundred blanks: these stay.

_FORM, _NUMBERED, _LABEL, _END = 1, 2, 4, 8
_BITS: Final = 16  # bits of an index into the table
_BASE: Final = 0x9E3779B97F4A7C15
_FIRST_END: Final = 1  # start value of hashes of endings, to keep them apart from beginnings
_SHORTEST, _LONGEST_BEGINNING, _ENDING = 2, 4, 3  # characters
_LINE, _SPACE, _AT, _POINT, _SLASH, _COLON, _WIDE_COLON, _CLOSED = map(ord, "\n @./:：)")
_I, _B, _U, _T = map(ord, "ibut")  # of "contributed" and "credit:"
_BLANKS: Final = np.array(sorted(c for c in range(0x3001) if chr(c).isspace() and c > 32), np.int64)
_OPENINGS: Final = code_set(OPENING)
_AROUNDS: Final = code_set(AROUND)
_SENTENCE_ENDS: Final = code_set(SENTENCE_ENDS)
_IDEOGRAPHS: Final = (0x4E00, 0xA000)
_STOP: Final = ord("。")
_TAKEN: Final = code_set(TAKEN)
_CREDITED: Final = code_set(":/oOvV")  # one is in each caption: "photo", "video", "via"


def _pairs() -> NDArray[np.bool_]:
    """Hash table of the pairs of characters of which each Chinese line about the page has one."""
    table = np.zeros(1 << 16, np.bool_)
    for first, second in map(tuple, PAIRS):
        table[(ord(first) << 5 ^ ord(second)) % table.size] = True
    return table


_PAIRS: Final = _pairs()


def _hash(codes: Iterable[int], value: int = 0) -> int:
    for code in codes:
        value = (value + code) * _BASE & (1 << 64) - 1
    return value >> (64 - _BITS)


def _in_any_case(word: str) -> Iterable[str]:
    """All words with the lower case of a lower-case word; ASCII letters stay lower case."""
    letters = ((one,) if one.isascii() else {one, one.upper()} for one in word)
    return map("".join, itertools.product(*letters))


def _make_table() -> NDArray[np.uint8]:
    """Table, by hash, of what lines begin and end with, in lower case. Four characters of a word
    count, _ is a space; labels are whole lines, or the part before a colon."""
    kinds = [(_FORM, word.replace("_", " ")) for word in BEGINNINGS.split()]
    kinds += [(_NUMBERED, word) for word in NUMBERED.split()]
    kinds += [(_LABEL, label) for label in {*_LABELS, *BUTTONS, *PAGE_ROWS, "more stories"}]
    table = np.zeros(1 << _BITS, np.uint8)
    for kind, word in kinds:
        for one in _in_any_case(word[:_LONGEST_BEGINNING]):
            table[_hash(map(ord, one))] |= kind
    for ending in AGENCIES:
        table[_hash(map(ord, ending[-_ENDING:]), _FIRST_END)] |= _END
    return table


_LABELS: Final = frozenset(word_lists()["labels"])
_LONGEST_LABEL: Final = max(map(len, _LABELS))
_LONGEST_SUSPECT: Final = max(_LONGEST_LABEL, *map(len, BUTTONS))
_TABLE: Final = _make_table()


@subkernel
def _small(code: np.uint32) -> np.uint64:
    """An ASCII letter in lower case."""
    capital = code - np.uint32(65) < np.uint32(26)
    return np.uint64(code) + np.uint64(32 * capital)


@subkernel
def _is_blank(code: int) -> bool:
    """Whether `str.strip` removes a character."""
    return 9 <= code <= 13 or 28 <= code <= 32 or (code > 32 and among(code, _BLANKS))


@subkernel
def _kinds(raw: Codes, first: int, last: int, begin: int) -> int:
    """Kinds in the table of all prefixes of raw[first:last], hashed from the value `begin` on."""
    value, found = np.uint64(begin), 0
    for i in range(first, last):
        value = (value + _small(raw[i])) * np.uint64(_BASE)
        if i - first + 1 >= _SHORTEST:
            found |= np.int64(_TABLE[value >> np.uint64(64 - _BITS)])
    return found


@subkernel
def _has_credit(raw: Codes, first: int, last: int) -> bool:
    """Whether a line may be a caption with its credit in brackets, or begins with a number."""
    if last - first <= LONGEST_NUMBERS and raw[first] - np.uint32(48) < np.uint32(10):
        return True
    closed = False
    for i in range(max(first, last - CREDIT_ENDS), last):
        closed |= raw[i] == _CLOSED
    if closed:
        for i in range(first, last):
            if among(np.int64(raw[i]), _CREDITED):
                return True
    return False


@subkernel
def _may_be_address(raw: Codes, first: int, last: int) -> bool:
    point = False
    for i in range(first, last):
        if raw[i] >= 128 or raw[i] == _SPACE:
            return False
        point |= raw[i] == _SLASH or (raw[i] == _POINT and i + 1 < last)
    return point


@subkernel
def _may_be_row(raw: Codes, first: int, last: int, end: int) -> bool:
    """Whether a line is short, has an ideograph and a pair of `_pairs`, and no sentence unless
    it is a caption. `end` is the end of the line without surrounding characters."""
    if last - first > LONGEST_ROW or among(np.int64(raw[last - 1]), _SENTENCE_ENDS):
        return False
    ideograph, pair, stop, before = False, False, False, np.uint32(0)
    for i in range(first, last):
        code = raw[i]
        ideograph |= np.uint32(_IDEOGRAPHS[0]) <= code < np.uint32(_IDEOGRAPHS[1])
        pair |= _PAIRS[(before << np.uint32(5) ^ code) & np.uint32(_PAIRS.size - 1)]
        stop |= code == _STOP
        before = code
    return ideograph and pair and not (stop and not among(np.int64(raw[end - 1]), _TAKEN))


@subkernel
def _colon(raw: Codes, first: int, last: int) -> int:
    """Index of the first colon, or the end."""
    while first < last and raw[first] != _COLON and raw[first] != _WIDE_COLON:
        first += 1
    return first


@subkernel
def _is_suspect(raw: Codes, first: int, last: int) -> bool:
    """Whether the line raw[first:last] has to be examined."""
    while first < last and _is_blank(np.int64(raw[first])):
        first += 1
    while first < last and _is_blank(np.int64(raw[last - 1])):
        last -= 1
    if first == last or last - first > LONGEST:
        return False
    end = last
    while first < end and among(np.int64(raw[end - 1]), _AROUNDS):
        end -= 1
    credited = _has_credit(raw, first, last) or (end > first and _may_be_row(raw, first, last, end))
    if among(np.int64(raw[first]), _OPENINGS):
        last = end
        while first < last and among(np.int64(raw[first]), _AROUNDS):
            first += 1
    found = _kinds(raw, first, min(first + _LONGEST_BEGINNING, last), 0)
    longest = first + _LONGEST_SUSPECT
    digit = end > first and (raw[end - 1] - np.uint32(48) < np.uint32(10) or raw[end - 1] >= 128)
    return (
        credited
        or found & _FORM != 0
        or (found & _NUMBERED != 0 and digit)
        or (found & _LABEL != 0 and _colon(raw, first, min(end, longest + 1)) <= longest)
        or _kinds(raw, max(first, last - _ENDING), last, _FIRST_END) & _END != 0
        or _may_be_address(raw, first, last)
    )


# All arrays are made in `suspects`.
@kernel(int64(R32, I32), check=False)
def _find(raw: Codes, lines: NDArray[np.int32]) -> int:
    """Write the numbers of the lines to examine; return how many there are."""
    found, line, i = 0, 0, 0
    while i <= raw.size:
        first, names = i, False
        while i < raw.size and raw[i] != _LINE:
            names |= raw[i] == _AT
            names |= raw[i] == _COLON and i > first and _small(raw[i - 1]) == np.uint64(_T)
            if raw[i] == _U and i - first > 1:
                names |= raw[i - 1] == _B and raw[i - 2] == _I
            i += 1
        if names or _is_suspect(raw, first, i):
            lines[found] = line
            found += 1
        line += 1
        i += 1
    return found


def suspects(text: str) -> list[int]:
    """The numbers of the lines to examine, ascending."""
    lines = np.empty(text.count("\n") + 1, np.int32)
    found = _find(code_points(text), lines)
    return lines[:found].tolist()


_REFERENCE: Final = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
# Spellings of numerals that are made equal: 5 per cent is 5%, 6.30am is 6:30 a.m., в 16.40 is в
# 16:40 and 16.40 Uhr 16:40 Uhr.
_PER_CENT: Final = re.compile(r"(?<=\d) per ?cent\b")
_HAS_PER_CENT: Final = re.compile(r"per(?<=\d per) ?cent\b")  # a letter is looked for faster
# They begin with the point, which is found faster than a digit or a letter.
_INITIALS: Final = re.compile(  # U.S. is US
    r"\.(?<=[A-Z]\.)(?:(?=[A-Z]\.)(?<=\b[A-Z]\.)|(?<=\b[A-Z]\.[A-Z]\.))"
)
_POINTED: Final = re.compile(r"\.(?<=\d\.)[0-5]\d")
_CLOCK: Final = re.compile(r"\.(?<=[0-9]\.)([0-5][0-9]) ?([ap])(?:m\b|\.m\b\.?)")
_BEFORE_HOURS: Final = (
    "[ВКСвкс] около после ore alle dalle le las às saat godz\\. godzinie godziny".split()
)
_HOUR: Final = re.compile(
    r"\.(?<=\d\.)(?<![.\d]\d\d\.)(?<!\.\d\.)(?=[0-5]\d(?!\.?\d))(?:(?=\d\d ?(?:Uhr|uur|horas|h)\b)"
    + "".join(rf"|(?<=\b{word} \d\.)|(?<=\b{word} \d\d\.)" for word in _BEFORE_HOURS)
    + ")"
)
# A timetable keeps its points: 6:40 is two numerals, of which few get places.
_MOST_HOURS: Final = 8
_PER_HUNDRED: Final = re.compile(r"[Yy]üzde (?=\d)")  # Turkish
_MOST_CHARS: Final = 200_000  # of a text that is examined: a tenth of a second at worst
_MOST_ESCAPED: Final = 2  # most times that a text is unescaped
_MORE: Final = re.compile(  # More Great Lakeside Stories
    r"more (?:great |top )?(?:[\w’']{1,20} ){0,2}(?:stories|coverage|news|articles)"
)
_LONGEST_HEADLINE: Final = 140
_MOST_HEADLINES: Final = 12
_MOST_SHARE: Final = 0.5  # largest share of a text that is left out
_LEAST_LISTED: Final = 3  # lines with the same label and different names that are a list
_LEAST_SUBJECT: Final = 0.75  # least share of lines about the subject
# The latter: about the page, counted as such or not, or a row on who made it.
_OF_SUBJECT, _COUNTED, _UNCOUNTED, _ROW = range(4)
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
_SOURCE: Final = rf"{_WHO}(?: {_WHO}){{0,9}}"
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
# An invitation to read the rest, behind the dots of a cut text.
_MORE_OF_IT: Final = re.compile(
    r"(?:\.{3,}|…|[\[(](?:\.{3}|…)[\])])\s*(?:read more|continue reading|weiterlesen"
    r"|lire la suite|leer más|seguir leyendo|leggi tutto|continua a leggere|leia mais|читать далее"
    r"|читать полностью|подробнее|阅读全文|查看全文|閱讀全文)[\s.…»›→>\])]*\Z",
    re.IGNORECASE,
)
_LONGEST_MORE: Final = 48  # characters of it
_SENTENCE_END: Final = re.compile(r"[.。．।॥።။։][\"'”’»)]?$")


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
    if _HAS_PER_CENT.search(text):
        text = _PER_CENT.sub("%", text)
    if "ü" in text and "üzde " in text:
        text = _PER_HUNDRED.sub("%", text)
    text = _INITIALS.sub("", text)
    if _POINTED.search(text):
        text = _CLOCK.sub(r":\1 \2.m.", text)
        hours, times = _HOUR.subn(":", text)
        text = hours if times <= _MOST_HOURS else text
    if "о" in text:  # the only cost for texts in other alphabets
        text = without_attributions(text)
    more = _MORE_OF_IT.search(text, max(0, len(text) - _LONGEST_MORE))
    if more is not None and more.start() >= _MOST_SHARE * len(text):
        text = text[: more.start()]
    return _without_lines(text) if "\n" in text else text


def without_attributions(text: str) -> str:
    """Remove the clauses on which medium or body reported something, unless they are more than half
    of the text. A denial (не сообщили в мэрии, опровергли) keeps its negation."""
    found = text
    for cue, form in _ATTRIBUTIONS:
        if cue in found:
            found = _compiled(form).sub(_what_stays, found)
    return found if len(found) >= _MOST_SHARE * len(text) else text


@cache
def _compiled(form: str) -> re.Pattern[str]:
    # Compiled on first use: all of them take a tenth of a second, and most crawls need none.
    return re.compile(form)


def _what_stays(match: re.Match[str]) -> str:
    denied = match.lastindex is not None
    return denied * (" не" if match[0][0] in " ," else "не ")


def _without_lines(text: str) -> str:
    """Remove lines that say nothing of the subject, lines of the form `Read also: headline`, and
    the headlines (short lines without a full stop) at the end below a label on its own line; unless
    they are more than half of the text. Lines of the first kind stay if they are more than a
    quarter: in a gallery the pictures are the subject."""
    looked_at = suspects(text)
    if not looked_at:
        return text
    lines = text.split("\n")
    kinds = {place: _kind_of(lines[place]) for place in looked_at}
    page_lines = {place for place, kind in kinds.items() if kind}
    if len(page_lines) >= _LEAST_LISTED:
        page_lines -= _listed(lines, page_lines)
    counters = {place for place in page_lines if is_counter(lines[place])}
    if counters and _are_data(lines, page_lines, counters):
        page_lines -= counters
    rows = {place for place in page_lines if kinds[place] == _ROW}
    if rows:
        are_data = _are_data(lines, page_lines, rows)
        page_lines -= rows if are_data else _among_facts(lines, page_lines, rows)
    kept = lines
    if page_lines:
        kept = [line for place, line in enumerate(lines) if place not in page_lines]
        # Neither a long notice of rights nor rows of buttons make a short page a gallery.
        size = sum(map(len, kept))
        counted = sum(len(lines[place]) for place in page_lines if kinds[place] != _UNCOUNTED)
        if size < _LEAST_SUBJECT * (size + counted):
            kept = lines
    if any(is_link(lines[place]) for place in looked_at):
        kept = [line for line in kept if not is_link(line)]
    for count, line in enumerate(reversed(kept[-_MOST_HEADLINES - 1 :]), 1):
        stripped = line.strip()
        if line and not _is_headline(stripped):
            break
        if _is_label(stripped.rstrip(":：").rstrip()):
            kept = kept[:-count]
            break
    if len(kept) == len(lines):
        return text
    found = "\n".join(kept).rstrip()
    return found if len(found) >= _MOST_SHARE * len(text) else text


@lru_cache(maxsize=4096)  # the pages of a site have the same lines
def _kind_of(line: str) -> int:
    """`_OF_SUBJECT` for a line about the subject, else whether it counts towards a gallery."""
    if not is_page_line(line):
        return _ROW if is_page_row(line) else _OF_SUBJECT
    return _UNCOUNTED if reserves_rights(line) or is_row(line.lower()) else _COUNTED


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


def _are_data(lines: list[str], page_lines: set[int], counters: set[int]) -> bool:
    """Whether counters, or rows on who made something, are what a page is about: one is between
    paragraphs or behind a label, or they are in several places before or behind the paragraphs, as
    in a ranking."""
    places: list[int] = []  # for each group of adjacent counters, the paragraphs before it
    paragraphs, apart, labelled = 0, True, False
    for place, line in enumerate(lines):
        if place in counters:
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
    are_facts = False
    for place, line in enumerate([*lines, "."]):
        if place in rows:
            listed.add(place)
        elif place not in page_lines and line.strip():
            if _is_fact(line):
                are_facts = True
                continue
            found |= listed if are_facts else set()
            listed, are_facts = set(), False
    return found


def _is_fact(line: str) -> bool:
    """Whether a line is a label and a value, and no sentence: `Binding: cloth`."""
    colon = line.replace("：", ":").find(":", 1, _LONGEST_LABEL + 1)
    return colon > 0 and _is_headline(line.strip())


def is_link(line: str) -> bool:
    """Whether a line is a label and a headline: `Read also: Ferry is late again`."""
    if len(line) > _LONGEST_LABEL + _LONGEST_HEADLINE or (":" not in line and "：" not in line):
        return False
    line = line.strip()
    colon = max(line.find(":", 0, _LONGEST_LABEL + 1), line.find("：", 0, _LONGEST_LABEL + 1))
    return (
        colon > 0 and _is_label(line[:colon].rstrip()) and _is_headline(line[colon + 1 :].strip())
    )


def _is_label(text: str) -> bool:
    lower = text.lower()
    if len(text) > _LONGEST_LABEL:
        return False
    return lower in _LABELS or (lower.startswith("more ") and _MORE.fullmatch(lower) is not None)


def _is_headline(text: str) -> bool:
    return 0 < len(text) <= _LONGEST_HEADLINE and _SENTENCE_END.search(text) is None
