"""Figures: the numerals of a text in canonical form.

Pages made on one template differ only in their figures, so figures decide between them. The same
number must look the same however it is written:

    1,000 = 1000 = １０００    三百二十一 = 321    两万三千 = 2.3万 = 23000    二〇二〇 = 2020
    1,000 = 1.000    1.234.567,50 = 1,234,567.5    .5 = 0.5    3.50 = 3,50 = 3.5
    百分之五 = 5% = %5 = 5 percent = 5 процентов
    1.5 million = 1.5 mln = 1,5 млн = 1500000 = 1 500 000 рублей
    2020年4月3日 = 2020-04-03 = 2020/4/3 = 2020.4.3 = April 3, 2020    (the figures 2020, 4, 3)

A sign, a comparison and a unit before or behind a number belong to the figure, see
:mod:`dedup_middleware.text.signs`.

Five characters number the parts of something without a numeral (`PARTS`): 上, 中, 下, 前, 后. All
are words of their own as well, so they count only

- 上, 中 and 下 in brackets (（上）) and before 旬;
- 上 and 下 before 篇, 集, 册 and 卷;
- 上, 下, 前 and 后 before 半 with 年, 场, 月, 时, 段, 程 or 期 behind it.

Chinese numerals inside words and idioms are no figures (一些, 十分, 万一, 统一, 三三两两), so these
rules are narrow on purpose:

- a numeral begins with a digit or 十; formal digits need a formal unit behind them;
- one character alone counts in brackets, （一）, after 第, 周, 星期, 礼拜 or 分之, and before
  `MEASURES` and units (一 only before 月, 日 or 号, as 一个 is an article; 十分 only as 十分钟 or
  十分之);
- digits without a unit count from four on, or three with a zero among them, or two before 年;
- 点 is a decimal point only after 分之 and before 万, 亿, 倍, 元 and 个百分点.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base.jit import allocating_subkernel, kernel, subkernel
from dedup_middleware.base.kerneltypes import I64_2, U8, U32
from dedup_middleware.text import numerals
from dedup_middleware.text.capitals import OPENING
from dedup_middleware.text.characters import (
    NUMERAL,
    SYMBOL,
    Codes,
    Flags,
    Hashes,
    Places,
    code_set,
    fold_text,
    load_characters,
    word_lists,
)
from dedup_middleware.text.datelines import mark_dates
from dedup_middleware.text.hashing import FIGURE_START, mix
from dedup_middleware.text.numerals import among, at
from dedup_middleware.text.places import NamedText, locate
from dedup_middleware.text.signs import (
    CELSIUS,
    HOURS,
    KIND,
    MINUTES,
    PART,
    PERCENT,
    PERMILLE,
    PLAIN,
    SIGN,
    UNIT_SHIFT,
    ideograph_unit,
    signs,
)
from dedup_middleware.text.signs import render as with_signs
from dedup_middleware.text.stamps import DATED

MEASURES: Final = "".join(word_lists()["measures"])
PARTS: Final = "上中下前后"
_UPPER, _MIDDLE, _LOWER, _FRONT, _BACK = map(ord, PARTS)
_NUMBERED: Final = np.array(list(map(ord, PARTS)), np.int64)  # in the order of `PARTS`
_HALF, _DECADE = map(ord, "半旬")
_EMOJI, _EMOJI_SIZE = 0x1F000, 0xB00  # range of the emoji that count as words
_CLOSING: Final = code_set(")]}】〕〗")
_VOLUMES: Final = code_set("篇集册卷")
_HALVES: Final = code_set("年场月时段程期")
_FRACTION_ENDS: Final = "万亿倍元%级米吨公度"
_SUFFIXES: Final = ("", "%", "‰")
_AFTER: Final = code_set(MEASURES)
_ENDS: Final = code_set(_FRACTION_ENDS)
# Code points of the rules below; ord() of a string is slow to compile.
_OF, _PART, _ORDINAL, _PERIOD, _STAR, _PRAY = map(ord, "之分第期星拜")
_WEEK, _WEEK_TRADITIONAL, _RITE, _RITE_TRADITIONAL = map(ord, "周週礼禮")
_NUMBER, _NUMBER_TRADITIONAL, _CLOCK, _CLOCK_TRADITIONAL = map(ord, "号號钟鐘")
_PAIR, _PAIR_TRADITIONAL, _PIECE, _POINT = map(ord, "两兩个点")
_ONE, _FOUR, _TEN, _HUNDRED, _THOUSAND = map(ord, "一四十百千")
_DAY, _MONTH, _YEAR, _TENTH, _MINUTE = map(ord, "日月年成分")
# Behind 成 they make another word of it: 三成员, 七成立.
_OTHER_WORD: Final = code_set("立功为員员绩績长長果本就熟都年交型品效人分色套语份")
# Behind the digit of hundredths (九成三以上); other ideographs make a word of it (三成二手房).
_BEHIND_SHARE: Final = code_set("以的左多强")
_IDEOGRAPHS: Final = (0x3400, 0xA000)
_RANGES: Final = code_set("至到~-")
_PERCENT_SIGNS: Final = code_set("%٪")
_PERMILLE_SIGNS: Final = code_set("‰؉")
# Behind these characters, or white space, a percent sign belongs to the number behind it: -%5, (%5.
_BEFORE_PERCENT: Final = code_set("([{-–+±~<>≤≥=≈\"'“”")
_LARGEST: Final = 12  # power of ten of a further section; larger ones do not fit into 64 bits
_K1: Final = np.uint64(0x9E3779B97F4A7C15)
_K2: Final = np.uint64(0xD6E8FEB86659FD93)


@subkernel
def _is_bracketed(codes: Codes, i: int) -> bool:
    """Whether the character at i is in brackets."""
    return among(at(codes, i - 1), OPENING) and among(at(codes, i + 1), _CLOSING)


@subkernel
def _part_number(codes: Codes, i: int) -> int:
    """The position in `PARTS`, from 1 on, of the character at i if it numbers a part; else 0."""
    code = np.int64(codes[i])
    number = 0
    for part in range(_NUMBERED.size):
        number = part + 1 if _NUMBERED[part] == code else number
    if number == 0:
        return 0
    after = at(codes, i + 1)
    counts = number <= 3 and (after == _DECADE or _is_bracketed(codes, i))
    counts = counts or (number in (1, 3) and among(after, _VOLUMES))
    half = number != 2 and after == _HALF and among(at(codes, i + 2), _HALVES)
    return number if counts or half else 0


@allocating_subkernel
def _candidates(codes: Codes, flags: Flags) -> Places:
    """Indexes at which a figure or a run of symbols may begin: of numerals, `PARTS` and symbols."""
    where = np.empty(codes.size + codes.size // 4 + 1, np.int32)
    some = where[codes.size :].view(np.uint8)
    for i in range(np.uint64(codes.size)):
        code = codes[i]
        part = (code == _UPPER) | (code == _LOWER) | (code == _MIDDLE)
        part |= (code == _FRONT) | (code == _BACK)
        part |= code - np.uint32(_EMOJI) < np.uint32(_EMOJI_SIZE)
        some[i] = ((flags[i] & np.uint8(NUMERAL)) != 0) | part
    capacity = np.uint64(0)
    for i in range(np.uint64(codes.size)):
        where[capacity] = i  # overwritten unless counted: avoids a branch
        capacity += np.uint64(some[i])
    return where[:capacity]


@subkernel
def _after_parts(codes: Codes, i: int) -> bool:
    """Whether 分之 stands before position i."""
    return at(codes, i - 1) == _OF and at(codes, i - 2) == _PART


@subkernel
def _is_ordinal(codes: Codes, i: int) -> bool:
    """Whether 第, 周, 星期, 礼拜 or 分之 precedes position i."""
    before, earlier = at(codes, i - 1), at(codes, i - 2)
    week = before == _PRAY and earlier in (_RITE, _RITE_TRADITIONAL)
    week = week or (before == _PERIOD and earlier == _STAR)
    return before in (_ORDINAL, _WEEK, _WEEK_TRADITIONAL) or week or _after_parts(codes, i)


@subkernel
def _are_tenths(codes: Codes, last: int) -> bool:
    """Whether 成 behind a number that ends at `last` means tenths: 三成 is 30%."""
    return at(codes, last) == _TENTH and not among(at(codes, last + 1), _OTHER_WORD)


@subkernel
def _hundredths(codes: Codes, i: int) -> int:
    """The digit behind 成 at i, 0 if none: 九成三 is 93%."""
    digit, after = numerals.chinese_digit(at(codes, i + 1)), at(codes, i + 2)
    ends = not _IDEOGRAPHS[0] <= after < _IDEOGRAPHS[1] or among(after, _BEHIND_SHARE)
    return max(0, digit) if ends else 0


@subkernel
def _single_counts(codes: Codes, i: int) -> bool:
    """Whether a single Chinese numeral at i, which is no formal one, is a figure."""
    code, after = np.int64(codes[i]), at(codes, i + 1)
    if code == _ONE:
        counts = after in (_MONTH, _DAY, _NUMBER, _NUMBER_TRADITIONAL)
    elif code == _TEN and after == _PART:
        counts = at(codes, i + 2) in (_CLOCK, _CLOCK_TRADITIONAL, _OF)
    elif code == _FOUR and after in (_WEEK, _WEEK_TRADITIONAL):  # 四周: all around
        counts = False
    else:
        counts = among(after, _AFTER) or ideograph_unit(codes, i + 1)[0] > 0
        counts = counts or _are_tenths(codes, i + 1)
    return counts or _is_ordinal(codes, i) or _is_bracketed(codes, i)


@subkernel
def _digits_count(codes: Codes, first: int, last: int) -> bool:
    """Whether a row of several Chinese digits without a unit is a figure."""
    zero, pair = False, False
    for i in range(first, last):
        zero = zero or numerals.chinese_digit(codes[i]) == 0
        pair = pair or codes[i] == _PAIR or codes[i] == _PAIR_TRADITIONAL
    size = last - first
    enough = size >= 4 or (size == 3 and zero) or (size == 2 and at(codes, last) == _YEAR)
    return enough and not pair  # 三三两两


@subkernel
def _fraction(codes: Codes, first: int, last: int) -> tuple[int, int, int]:
    """Read a Chinese number with 点 (三点五万): mantissa, exponent, end; end -1 if none."""
    end = last + 1
    while end < codes.size and numerals.chinese_digit(codes[end]) >= 0:
        end += 1
    exact = _after_parts(codes, first)
    exact = exact or among(at(codes, end), _ENDS)
    exact = exact or (at(codes, end) == _PIECE and at(codes, end + 1) == _HUNDRED)
    if end == last + 1 or not exact:
        return 0, 0, -1
    whole = numerals.positional(codes, first, last)
    if whole < 0:
        whole, stop = numerals.chinese(codes, first, last)
        if stop != last:
            return 0, 0, -1
    part = numerals.positional(codes, last + 1, end)
    exponent = last + 1 - end
    if part < 0 or whole > 10**6 or exponent < -9:
        return 0, 0, -1
    return whole * 10**-exponent + part, exponent, end


@subkernel
def _begins(codes: Codes, i: int) -> bool:
    """Whether a Chinese numeral may begin at i."""
    if numerals.is_formal(codes[i]):
        return i + 1 < codes.size and numerals.chinese_unit(codes[i + 1]) > 0
    return numerals.chinese_digit(codes[i]) >= 0 or numerals.chinese_unit(codes[i]) == 1


@subkernel
def _read_chinese(codes: Codes, i: int) -> tuple[bool, int, int, int]:
    """Read the Chinese numeral at i: whether it is a figure, mantissa, exponent, end."""
    if codes[i] == _HUNDRED and _after_parts(codes, i):  # 百分之百
        return True, 100, 0, i + 1
    if not _begins(codes, i):
        return False, 0, 0, i + 1
    last = numerals.run_end(codes, i)
    if at(codes, last) == _POINT:
        mantissa, exponent, end = _fraction(codes, i, last)
        if end > 0:
            power, end = numerals.chinese_scale(codes, end)
            return True, mantissa, exponent + power, end
    value, end = numerals.positional(codes, i, last), last
    if last - i == 1:
        value = 10 if value < 0 else value
        counts = _single_counts(codes, i)
    elif value >= 0:
        counts = _digits_count(codes, i, last)
    else:
        value, end = numerals.chinese(codes, i, last)
        counts = value >= 0 and end - i > 1
    return counts, value, 0, (end if end > i else i + 1)


@subkernel
def _more_sections(codes: Codes, value: int, power: int, i: int) -> tuple[int, int]:
    """Add the further parts of 1亿2000万 or 3万5千 to `value`; return it and the end."""
    while power > 0 and i < codes.size:
        if numerals.is_digit(codes, i):
            part, exponent, end = numerals.arabic(codes, i)
            if exponent < 0:
                break
        else:
            end = i + 1
            part = numerals.chinese_digit(codes[i])
        smaller, end = numerals.chinese_scale(codes, end)
        if part < 0 or smaller == 0 or smaller >= power or part >= 10**4 or smaller > _LARGEST:
            break
        value += part * 10**smaller
        power, i = smaller, end
    return value, i


@subkernel
def _read_arabic(codes: Codes, i: int) -> tuple[int, int, int]:
    """Read the number in ASCII digits at i and its multiplier: mantissa, exponent, end. A point
    before three digits separates thousands, but not before a multiplier or a percent sign: 1.234
    billion, 3.125 %."""
    mantissa, exponent, end = numerals.arabic(codes, i)
    power, end = numerals.chinese_scale(codes, end)
    if power > 0:
        scale = exponent + power
        if scale >= 0 and mantissa < 10**6 and scale <= 12:
            value, end = _more_sections(codes, mantissa * 10**scale, power, end)
            return value, 0, end
        return mantissa, scale, end
    begin = end + 1 if at(codes, end) in (32, 45) else end
    power, stop = numerals.scale_after(codes, begin)
    if power == 0:
        power, stop = numerals.scale_letter(codes, i, end)
    if power > 0:
        return mantissa, exponent + power, stop
    thousands, fraction, stop = numerals.with_points(codes, i)
    if stop == end:
        scaled = among(numerals.word_after(codes, begin)[0], numerals.OTHER_SCALES)
        stop = 0 if scaled or _kind(codes, i, end) != PLAIN else stop
    return (thousands, fraction, stop) if stop else (mantissa, exponent, end)


@subkernel
def _percent_before(codes: Codes, first: int) -> bool:
    """Whether a percent sign before a number belongs to it, as in Turkish and Arabic: %5. A sign
    that ends another number or a word belongs to that: a%20b, 5%."""
    if not among(at(codes, first - 1), _PERCENT_SIGNS):
        return False
    before = at(codes, first - 2)
    return before in (0, 32) or among(before, _BEFORE_PERCENT)


@subkernel
def _kind(codes: Codes, first: int, last: int) -> int:
    """PERCENT or PERMILLE if that is written before or behind the number, else PLAIN."""
    if _after_parts(codes, first):
        whole = at(codes, first - 3)
        if whole == _HUNDRED:
            return PERCENT
        if whole == _THOUSAND:
            return PERMILLE
    i = last + 1 if at(codes, last) == 32 else last
    if among(at(codes, i), _PERCENT_SIGNS) or _percent_before(codes, first):
        return PERCENT
    if among(at(codes, i), _PERMILLE_SIGNS):
        return PERMILLE
    word, end = numerals.word_after(codes, i)
    percent = word != 0 and among(word, numerals.PERCENT_WORDS)
    if word != 0 and among(word, numerals.PER) and at(codes, end) == 32:
        word, end = numerals.word_after(codes, end + 1)
        percent = word != 0 and among(word, numerals.CENT)
    return PERCENT if percent else PLAIN


@subkernel
def _month_beside(codes: Codes, first: int, last: int) -> tuple[int, int, int]:
    """The month next to a number (April 3, 3rd of April), or 0, and begin and end of its name."""
    i = first
    while i > 0 and first - i < 3 and at(codes, i - 1) in (32, 44, 46):
        i -= 1
    word, begin = numerals.word_before(codes, i)
    found = numerals.month(word) if i < first else 0
    if found:
        return found, begin, i
    word, i = numerals.word_after(codes, last)  # st, nd, rd, th
    if i - last > 2 or at(codes, i) != 32 or numerals.is_cyrillic(codes, last):
        return 0, i, i
    word, end = numerals.word_after(codes, i + 1)
    if word == numerals.OF and at(codes, end) == 32:
        i = end
        word, end = numerals.word_after(codes, end + 1)
    return numerals.month(word), i + 1, end


@subkernel
def _reduce(mantissa: int, exponent: int) -> tuple[int, int]:
    if mantissa == 0:
        return 0, 0
    while mantissa % 10 == 0:
        mantissa //= 10
        exponent += 1
    return mantissa, exponent


@subkernel
def _complete(codes: Codes, rows: NDArray[np.int64], row: int) -> None:
    """Read what stands behind a figure together with the one before it: the unit of a range is that
    of both (15至27℃), and 分 behind hours is minutes (2小时32分)."""
    kind, before = rows[row, 2], rows[row - 1, 2]
    between, end = rows[row - 1, 4], rows[row, 4]
    if kind == PLAIN and before >> UNIT_SHIFT == HOURS and between == rows[row, 3]:
        minutes = at(codes, end) == _MINUTE
        rows[row, 2] = MINUTES << UNIT_SHIFT if minutes else kind
        rows[row, 4] += minutes
    ranges = between + 1 == rows[row, 3] and among(at(codes, between), _RANGES)
    latin = numerals.is_letter(codes, end - 1) and kind >> UNIT_SHIFT != CELSIUS
    if ranges and before == PLAIN and kind & SIGN == 0 and not latin:
        rows[row - 1, 2] = kind


@subkernel
def _write_figures(codes: Codes, flags: Flags, where: Places, rows: NDArray[np.int64]) -> int:
    count, i, done = 0, 0, 0
    for candidate in range(where.size):
        if where[candidate] < done:
            continue
        i = np.int64(where[candidate])
        if flags[i] & SYMBOL != NUMERAL:
            part = _part_number(codes, i)
            if part:
                rows[count, 0], rows[count, 1], rows[count, 2] = part, 0, PART
                rows[count, 3], rows[count, 4] = i, i + 1
                count += 1
            continue
        first = i
        if numerals.is_digit(codes, i):
            counts = True
            first -= 1 if numerals.is_led_by_point(codes, i) else 0
            mantissa, exponent, i = _read_arabic(codes, i)
            named, begin, end = _month_beside(codes, first, i)
            if named:
                rows[count, 0], rows[count, 1] = _reduce(named, 0)
                rows[count, 2] = PLAIN
                rows[count, 3], rows[count, 4] = begin, end
                count += 1
        else:
            counts, mantissa, exponent, i = _read_chinese(codes, i)
        if counts:
            rows[count, 0], rows[count, 1] = _reduce(mantissa, exponent)
            begin = first - 1 if _percent_before(codes, first) else first  # -%5
            kind, begin, end = signs(codes, flags, begin, i)
            share = _kind(codes, first, i)
            if kind == 0 and 0 < mantissa <= 10 and exponent == 0 and _are_tenths(codes, i):
                more = _hundredths(codes, i) if mantissa < 10 else 0
                share, end = PERCENT, i + 1 + (more > 0)
                rows[count, 0], rows[count, 1] = _reduce(10 * mantissa + more, 0)
            rows[count, 2] = share | kind
            rows[count, 3], rows[count, 4] = max(begin, done), end
            if count:
                _complete(codes, rows, count)
            i = rows[count, 4]
            count += 1
        done = i
    return count


@allocating_subkernel
def _read_figures(codes: Codes, flags: Flags, where: Places) -> NDArray[np.int64]:
    """The rows of `find_figures` that begin at the indexes `where`."""
    rows = np.empty((2 * where.size, 5), np.int64)
    return rows[: _write_figures(codes, flags, where, rows)]


@kernel(I64_2(U32, U8))
def find_figures(codes: Codes, flags: Flags) -> NDArray[np.int64]:
    """All figures in text order: rows of mantissa (without trailing zeros), exponent, kind,
    begin and end, signs and units included. A month's name comes before the number next to it."""
    return _read_figures(codes, flags, _candidates(codes, flags))


@subkernel
def _hash_figure(mantissa: int, exponent: int, kind: int, keys: Hashes) -> np.uint64:
    signed = np.uint64(kind)
    unit = np.uint64(exponent) * np.uint64(4) + (signed & np.uint64(KIND))
    unit += (signed >> np.uint64(2)) << np.uint64(32)
    return mix(keys[FIGURE_START] + np.uint64(mantissa) * _K1 + mix(unit + _K2))


@subkernel
def hash_spelt(
    codes: Codes, flags: Flags, first: int, last: int, keys: Hashes
) -> tuple[np.uint64, int]:
    """Hash of the figure whose first word is codes[first:last] (eight million dollars), as of the
    same figure in digits, and its end; 0 if the word is no numeral."""
    mantissa, exponent, end = numerals.spelt_number(codes, first, last)
    if mantissa == 0:
        return np.uint64(0), first
    share = _kind(codes, first, end)
    kind, _, stop = signs(codes, flags, first, end)
    mantissa, exponent = _reduce(mantissa, exponent)
    return _hash_figure(mantissa, exponent, share | kind, keys), max(end, stop)


@allocating_subkernel
def hash_figures(text: NamedText) -> tuple[NDArray[np.uint32], Hashes, Places, Flags, int]:
    """Hash the figures of a text. Returns the entries of figures, symbols and names (see `locate`);
    for each figure in text order its hash, its begin and end, and its sort (`YEAR`, `DATED`,
    `STAMP` or another one of `stamps`); and the end of the date line that begins the text. The
    flags of names of months are changed."""
    codes, flags = text.codes, text.flags
    where = _candidates(codes, flags)
    rows = _read_figures(codes, flags, where)
    hashes, kinds = np.empty(rows.shape[0], np.uint64), np.empty(rows.shape[0], np.uint8)
    spans = np.empty((rows.shape[0], 2), np.int32)
    for row in range(rows.shape[0]):
        hashes[row] = _hash_figure(rows[row, 0], rows[row, 1], rows[row, 2], text.keys)
        kinds[row], spans[row, 0], spans[row, 1] = DATED, rows[row, 3], rows[row, 4]
    entries = locate(text, where, rows, hashes, kinds)
    line = mark_dates(codes, rows, hashes, kinds)
    return entries, hashes, spans, kinds, line


def render(rows: NDArray[np.int64]) -> list[str]:
    """Distinct figures in readable form, in order of first occurrence."""
    return list(
        dict.fromkeys(
            PARTS[mantissa - 1]
            if kind == PART
            else with_signs(kind, f"{Decimal(mantissa).scaleb(exponent):f}{_SUFFIXES[kind & KIND]}")
            for mantissa, exponent, kind, _, _ in rows.tolist()
        )
    )


def canonical(text: str) -> list[str]:
    """The distinct figures of `text` in readable form: `["2020", "4", "3", "3.5%"]`."""
    codes, flags = fold_text(text, load_characters({}, ""))
    return render(find_figures(codes, flags))
