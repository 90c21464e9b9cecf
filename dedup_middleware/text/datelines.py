"""Date lines: where and when a wire report was sent, and which figures of a page belong to dates.

A reprint has another date line than its original, so figures in it are marked, as those of stamps
are (see :mod:`dedup_middleware.text.stamps`), and the rules that compare pages leave them out.
Words of a date line and of the line that names the editor do not count as new.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base.jit import subkernel
from dedup_middleware.text import numerals
from dedup_middleware.text.characters import Codes, code_set, find_code, word_lists
from dedup_middleware.text.clauses import MONTHS
from dedup_middleware.text.numerals import among, at, pack, search, sorted_table
from dedup_middleware.text.places import (
    KINDS_OF_WIRE,
    NEWS,
    NEWS_TRADITIONAL,
    WIRE,
    WIRE_TRADITIONAL,
    source_word_end,
)
from dedup_middleware.text.signs import PLAIN
from dedup_middleware.text.stamps import (
    BRACKETED,
    DATED,
    FULL_STOP,
    MONTH,
    MOST_FIGURES,
    NEW_LINE,
    YEAR,
    begins_with,
    mark_stamps,
    prefixes_of,
)

_NEW_LINE: Final = np.uint32(NEW_LINE)
_COMMA, _SLASH, _OPEN, _CLOSED, _DAY, _ORDINAL = map(ord, ",/()日第")
_LONGEST_LINE: Final = 80  # characters of a date line; its figures are a day, a month and a year
_LAST_DAY: Final = 31
_LONGEST_AGENCY: Final = 20  # between slashes
_LONGEST_PLACE: Final = 40  # characters before the comma of a date line
_MOST_OF_PLACE: Final = 2  # spaces of that place if no agency follows: Нижний Новгород, 3 апреля.
_LONGEST_DAY: Final = 20  # characters from that comma to the dash
_LONGEST_DATE: Final = 32  # characters up to the dash of a text that begins with a date
_YEAR_DIGITS: Final = 4
_LISTS: Final = code_set(",:、")  # characters behind the number of an item: 第一，
_DAYS: Final = code_set("日号月")
_AGENCIES, _EDITORS = map(prefixes_of, ("agencies", "editors"))
# Whole words, because prefixes also match "3 маршрута", "5 берез" and "12 травмированных".
_RUSSIAN_MONTHS, _RUSSIAN_SORTS = sorted_table(
    {pack(word): MONTH for word in (*MONTHS, *word_lists()["russian-months"]) if "а" <= word < "ѐ"}
)
_BRACKETS: Final = code_set("(【[")
_IN_BRACKETS: Final = np.array([[*map(ord, "day ("), *[0] * 11]], np.uint32)
_LONGEST_EDITORS: Final = 24  # characters of an editor's line
_REACH: Final = 160  # first characters of a page, in which a Chinese date line is searched for
_LONGEST_HEAD: Final = 32  # characters of its line before 电
_LONGEST_PAPER: Final = 10  # characters before 讯 in a line without a day: 本报讯
_LONGEST_REPORTERS: Final = 32  # characters in brackets behind it
# What may follow 电 or 讯: before other characters they are often part of a word, 电影 or 讯息.
_BEHIND_WIRE: Final = code_set(' \n(:,[【“"0123456789记記据據题題综綜专專中国國香日近')
_CLAUSE_ENDS: Final = code_set(".!?。,;:")  # none is in a date line
HEADLINE: Final = 16  # a mark of a word, next to BEGINS, RESTYLED, CAPITAL and PERSON
LONGEST_HEADLINE: Final = 140  # characters
_MOST_OF_PAGE: Final = 4  # times a headline that a page is long at least
_NO_HEADLINE: Final = code_set(".。…,、;:")  # the line ends with none of them
# Of so many lines below it one is longer, and has more columns than the lines of wrapped text.
_LOOKED_AT, _COLUMNS = 3, 80
_WIDE: Final = 0x2E80  # characters from here on have two columns
_MOST_SPACES: Final = 6  # RIO DE JANEIRO, April 3 (Agency) -
_PAPERS: Final = code_set("报報网網育乐技经车闻线")  # 新浪体育讯
_OUR: Final = ord("本")
_NO_REPORTER: Final = code_set("0123456789,。;\0")
_DASHES: Final = code_set("-–—−")
_FIRST_YEAR, _LAST_YEAR = 1900, 2099
_BUDDHIST: Final = 543  # years by which the Thai calendar is ahead
_THAI_REACH: Final = 16  # characters around a year that may be a Thai one


@subkernel
def _is_russian_day(codes: Codes, i: int) -> bool:
    """Whether a day and a month stand behind the space at i: ` 3 апреля`."""
    digits = i + 1
    while numerals.is_digit(codes, digits) and digits <= i + 2:
        digits += 1
    spaces = at(codes, i) == 32 and digits > i + 1 and at(codes, digits) == 32
    if not spaces:
        return False
    month, _ = numerals.word_after(codes, digits + 1)
    return search(month, _RUSSIAN_MONTHS, _RUSSIAN_SORTS) == MONTH


@subkernel
def _behind_russian_day(codes: Codes, i: int) -> int:
    """End of a date line with a full stop behind the day at i; 0 without a stop. An agency may
    stand behind the stop, behind a comma, or in brackets before it (` 3 апреля (АГЕНТСТВО).`)."""
    end, first = 0, i
    for k in range(i + 1, i + 1 + _LONGEST_DAY + _LONGEST_AGENCY):
        if end and (numerals.is_digit(codes, k) or k - first > _LONGEST_AGENCY):
            return end
        agency = end == 0 and at(codes, k) == _COMMA and begins_with(codes, k + 2, _AGENCIES)
        if agency or (at(codes, k) == FULL_STOP and at(codes, k + 1) == 32):
            if end or k - first > _LONGEST_DAY + _LONGEST_AGENCY * (at(codes, k - 1) == _CLOSED):
                return k + 1 if end else 0
            end, first = k + 1, k + 1
    return end


@subkernel
def _behind_agency(codes: Codes, i: int, opened: int) -> int:
    """End of a date line whose agency is in brackets that close at i; 0 if the line does not end
    there. A dash must follow, or a day precede: `MADRID, 5 (AGENCY) `. `opened` is the place of the
    opening bracket, -1 if no place with a day precedes it."""
    behind = i + 2 if at(codes, i + 1) in (32, FULL_STOP) else i + 1
    if among(at(codes, behind), _DASHES):
        return behind + 1
    day = opened > 1 and numerals.is_digit(codes, opened - 2) and at(codes, opened - 1) == 32
    return i + 1 if day and 1 < i - opened <= _LONGEST_AGENCY else 0


@subkernel
def _behind_dash(codes: Codes, end: int) -> int:
    """End of a date line whose dash ends at `end`: there, or behind the agency that follows it."""
    stop = end
    if begins_with(codes, end + 1, _AGENCIES):
        while stop < end + _LONGEST_AGENCY and at(codes, stop) != FULL_STOP:
            stop += 1
    return stop + 1 if at(codes, stop) == FULL_STOP else end


@subkernel
def _date_line_end(codes: Codes) -> int:
    """End of the date line of a wire report, 0 if it has none: `LONDON, April 3 (Agency) -`,
    `Berlin (Agency), 3. April -`, `(AGENCY) - ROMA, 03 APR -`, `MADRID, 3 (AGENCY)`, `3 April
    2020 -`, `МОСКВА, 3 апреля. /АГЕНТСТВО/`, `МОСКВА, 3 апр - АГЕНТСТВО.`, `Москва. 3 апреля.
    АГЕНТСТВО -`, `КИЇВ. 3 квітня. АГЕНЦІЯ.`, or `Москва, 3 апреля.`"""
    slash, comma, opened, digits, reach, end = -1, -1, -1, 0, _LONGEST_DAY, 0
    digit, year, dated = False, False, numerals.is_digit(codes, 0)
    spaces, sent = 0, 0
    for i in range(min(codes.size, _LONGEST_LINE)):
        code = np.int64(codes[i])
        digits = digits + 1 if numerals.is_digit(codes, i) else 0
        digit |= digits > 0 and comma >= 0
        year |= digits == _YEAR_DIGITS
        spaces += np.int64(code == 32)
        if code == _COMMA and comma < 0 and not _is_russian_day(codes, i + 1):
            comma = i
        elif code in (_COMMA, FULL_STOP) and comma < 0 and _is_russian_day(codes, i + 1):
            comma, reach = i, _LONGEST_DAY + _LONGEST_AGENCY
            sent = _behind_russian_day(codes, i + 1) if spaces <= _MOST_OF_PLACE else 0
        dash = among(code, _DASHES) and at(codes, i - 1) == 32 and at(codes, i + 1) == 32
        if dash and dated and year and i <= _LONGEST_DATE:
            return i + 1
        if dash and digit:
            near = comma <= _LONGEST_PLACE and i - comma <= reach
            return _behind_dash(codes, i + 1) if near else max(end, sent)
        if code == _SLASH:
            if slash >= 0 and 3 < i - slash <= _LONGEST_AGENCY:
                return i + 1
            slash = -1 if numerals.is_digit(codes, i + 1) else i
        elif code == _OPEN:
            opened = i
        elif code == _CLOSED and end == 0:
            end = _behind_agency(codes, i, opened if digit and comma <= _LONGEST_PLACE else -1)
            # The place and the day may stand behind the agency.
            if at(codes, i + 1) != _COMMA and not (end and opened == 0):
                return max(sent, end)
    return max(sent, end if opened == 0 else 0)


@subkernel
def _line_begin(codes: Codes, i: int, most: int) -> int:
    """Begin of the line of the character at `i`; -1 if more than `most` characters before it."""
    first = i
    while first > 0 and codes[first - 1] != NEW_LINE and i - first <= most:
        first -= 1
    return first if i - first <= most else -1


@subkernel
def _clause_begin(codes: Codes, i: int) -> int:
    """Begin of the clause of the character at `i`, in its line."""
    while i > 0 and codes[i - 1] != NEW_LINE and not among(np.int64(codes[i - 1]), _CLAUSE_ENDS):
        i -= 1
    return i


@subkernel
def date_line(codes: Codes, line: int) -> tuple[int, int]:
    """Begin and end of the date line of a page, with the reporter in brackets behind it:
    `新华社北京4月3日电(记者张三)`, `湖畔网4月3日消息`; (0, 0) if there is none. `line` is the end
    of a date line in another script, or 0. Only its punctuation has been checked, so it is ignored
    if it has many words."""
    if line:
        spaces = 0
        for i in range(line):
            spaces += np.int64(codes[i] == 32)
        return 0, line if spaces <= _MOST_SPACES else 0
    begin, end = 0, 0  # begin: behind the last comma or sentence end of the line
    for i in range(min(codes.size, _REACH)):
        code = codes[i]
        news = code in (NEWS, NEWS_TRADITIONAL)
        if code == _DAY and source_word_end(codes, i) and _line_begin(codes, i, _LONGEST_HEAD) >= 0:
            end, begin = source_word_end(codes, i), _clause_begin(codes, i)
            for place in range(begin, i):  # only the last words: a headline may precede them
                begin = place + 1 if at(codes, place) == 32 else begin
            break
        if not news and code not in (WIRE, WIRE_TRADITIONAL):
            continue
        if i + 1 < codes.size and not among(at(codes, i + 1), _BEHIND_WIRE):
            continue
        last = i - 2 if among(at(codes, i - 1), KINDS_OF_WIRE) else i - 1
        before = at(codes, last - 1) if at(codes, last) == 32 else at(codes, last)
        first = _line_begin(codes, i, _LONGEST_HEAD if before == _DAY else _LONGEST_PAPER)
        ours = first >= 0 and at(codes, first) == _OUR and among(at(codes, first + 1), _PAPERS)
        paper = news and (ours or among(before, _PAPERS))  # 本报北京讯, 湖畔晚报讯
        if (before == _DAY or paper) and first >= 0:
            end, begin = i + 1, _clause_begin(codes, i)
            break
    if end == 0:
        return 0, 0
    opening = end + 1 if at(codes, end) == 32 else end
    if at(codes, opening) == _OPEN:
        i = opening + 1
        while i - opening <= _LONGEST_REPORTERS and not among(at(codes, i), _NO_REPORTER):
            if at(codes, i) == _CLOSED:
                return begin, i + 1
            i += 1
    return begin, end


@subkernel
def editors_line(codes: Codes) -> int:
    """Begin of the editor's line ending a Chinese page, `(责任编辑:张三)`; else the page's size."""
    for i in range(codes.size - 1, max(-1, codes.size - _LONGEST_EDITORS), -1):
        if codes[i] == NEW_LINE or among(at(codes, i), _BRACKETS):
            return i if begins_with(codes, i + 1, _EDITORS) else codes.size
    return codes.size


@subkernel
def headline_end(codes: Codes) -> int:
    """End of the first line if it is a headline above the text; else 0."""
    end = find_code(codes, _NEW_LINE, 0)
    if end > LONGEST_HEADLINE or _MOST_OF_PAGE * end > codes.size:
        return 0
    if end == 0 or among(at(codes, end - 1), _NO_HEADLINE):
        return 0
    first, last = end, end
    for _ in range(_LOOKED_AT):
        first, last = last + 1, find_code(codes, _NEW_LINE, min(last + 1, codes.size))
        columns = last - first
        for i in range(first, last):
            columns += np.int64(codes[i] >= _WIDE)
        if last - first > end and columns > _COLUMNS:
            return end
    return 0


@subkernel
def _mark_bracketed(codes: Codes, rows: NDArray[np.int64], kinds: NDArray[np.uint8]) -> None:
    """Mark a date in brackets behind a day of the week, `on Tuesday (April 2)`: like a year it may
    have been added by an editor."""
    for row in range(rows.shape[0] - 1):
        if not numerals.is_letter(codes, rows[row, 3]):  # a month, before its day
            continue
        first, last = min(rows[row, 3], rows[row + 1, 3]), max(rows[row, 4], rows[row + 1, 4])
        if last - first <= _LONGEST_DAY and begins_with(codes, first - 5, _IN_BRACKETS):
            kinds[row] = kinds[row + 1] = BRACKETED


@subkernel
def _mark_days(
    codes: Codes, rows: NDArray[np.int64], hashes: NDArray[np.uint64], kinds: NDArray[np.uint8]
) -> None:
    """Mark the day of the date line where the text repeats it, and the numbers of items: 第一，"""
    for row in range(rows.shape[0]):
        after = at(codes, rows[row, 4])
        if at(codes, rows[row, 3] - 1) == _ORDINAL and among(after, _LISTS):
            kinds[row] = DATED
        elif kinds[row] != DATED and among(after, _DAYS):
            for other in range(rows.shape[0]):
                same = kinds[other] == DATED and hashes[other] == hashes[row]
                kinds[row] = DATED if same else kinds[row]
                if rows[other, 3] > _LONGEST_LINE or same:
                    break


@subkernel
def _is_thai(codes: Codes, first: int, last: int) -> bool:
    """Whether a Thai letter is near the figure codes[first:last]."""
    found = False
    for i in range(max(0, first - _THAI_REACH), min(codes.size, last + _THAI_REACH)):
        found |= codes[i] - np.uint32(0xE00) < np.uint32(0x80)
    return found


@subkernel
def mark_dates(
    codes: Codes, rows: NDArray[np.int64], hashes: NDArray[np.uint64], kinds: NDArray[np.uint8]
) -> int:
    """Write for each figure of `figures.find_figures` that is not `DATED` yet whether it is a
    `YEAR`, in a date line (`DATED`) or in a time stamp (`STAMP`); return the end of the date line
    that begins the text, 0 if it has none."""
    for row in range(rows.shape[0]):
        exponent = rows[row, 1]
        if kinds[row] != DATED and rows[row, 2] == PLAIN and 0 <= exponent <= 3:
            number = rows[row, 0] * 10**exponent
            thai = number > _LAST_YEAR and _is_thai(codes, rows[row, 3], rows[row, 4])
            number -= _BUDDHIST if thai else 0
            kinds[row] = YEAR if _FIRST_YEAR <= number <= _LAST_YEAR else 0
    _mark_bracketed(codes, rows, kinds)
    mark_stamps(codes, rows, kinds)
    line = _date_line_end(codes)
    for row in range(rows.shape[0]):
        day = rows[row, 1] <= 1 and rows[row, 0] * 10 ** rows[row, 1] <= _LAST_DAY
        if rows[row, 3] < line and not (row < MOST_FIGURES and (day or kinds[row] == YEAR)):
            line = 0
    editors = editors_line(codes)
    for row in range(rows.shape[0]):
        if rows[row, 3] < line or rows[row, 3] > editors:  # (編輯:李明)1010105
            kinds[row] = DATED
    _mark_days(codes, rows, hashes, kinds)
    return line
