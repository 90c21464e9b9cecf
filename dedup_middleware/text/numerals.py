"""Kernels that read one numeral: Arabic digits, Chinese numerals, words, and their multipliers.

Between digits a comma separates groups of three (1,000), and is a decimal comma before one or two
digits (15,5), unless more numbers follow (1,2,3) or an ideograph does (12,15日). A space separates
groups of three next to a word in Cyrillic letters (1 200 000 рублей).

A number is a pair (mantissa, exponent), meaning mantissa * 10**exponent. All kernels read
normalised code points, in which full-width digits and those of other scripts are ASCII.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base.jit import subkernel
from dedup_middleware.text.characters import (
    FIRST_WIDE,
    Codes,
    by_code_point,
    code_set,
    of_code_point,
    word_lists,
)

_NEW_LINE, _POINT, _COMMA, _HYPHEN, _KILO = map(ord, "\n.,-千")
# Behind these characters, or white space, a point and a digit begin a fraction: $.5, -.5, (.5.
_BEFORE_POINT: Final = code_set("([{-–+±~<>≤≥=≈$€£¥₹₽₩/%")
_WRAPPED: Final = 40  # least characters of a wrapped line
_LONGEST_ROW: Final = 16  # most characters of a number in groups: trillions
MAX_DIGITS: Final = 18  # longer runs of digits count as several figures
LONGEST_RUN: Final = 64  # Chinese digits and units; longer runs count as several figures, too
_LIMIT: Final = 10**10  # largest number that 亿 may multiply, so that none overflows
_BASE: Final = 0x100000001B3  # of the hashes of words
_KEY: Final = (1 << 63) - 1  # bits of a hash that are kept


def pack(word: str) -> int:
    """Pack a word into one number, by which `search` finds it."""
    value = 0
    for letter in word:
        value = (value + ord(letter)) * _BASE
    return value & _KEY


@subkernel
def add_letter(value: np.uint64, code: int | np.uint32) -> np.uint64:
    """Extend the hash of a word by one letter; the hash of the empty word is 0."""
    return (value + np.uint64(code)) * np.uint64(_BASE)


@subkernel
def packed(value: np.uint64) -> int:
    """The number of `pack` for the word with this hash."""
    return np.int64(value & np.uint64(_KEY))


def sorted_table(values: dict[int, int]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Ascending keys and their values, for `search`."""
    keys = np.array(sorted(values), np.int64)
    return keys, np.array([values[key] for key in keys.tolist()], np.int64)


MONTHS: Final = {
    pack(name): number for number in range(1, 13) for name in word_lists()[f"month-{number}"]
}
_MONTH_WORDS, _MONTH_NUMBERS = sorted_table(MONTHS)
# Letters that multiply an amount of money directly behind it.
_SCALE_LETTERS, _SCALE_POWERS = np.array(list(map(ord, "kmb"))), np.array([3, 6, 9])
_MONEY: Final = code_set("$€£¥₹₽₩")
_FIRST_CYRILLIC: Final = ord("а")
_LETTERS: Final = 12  # most letters of a word that is read
_SCALE_WORDS, _SCALE_EXPONENTS = sorted_table(
    {pack(word): power for power in (3, 6, 9, 12) for word in word_lists()[f"scale-{power}"]}
)
PERCENT_WORDS, PER, CENT = (  # words for percent, and its parts where it is two words: per cent
    np.array(list(map(pack, word_lists()[name]))) for name in ("percent", "per", "cent")
)
OF: Final = pack("of")
# Multipliers that are not read, up to a letter with an accent; a fraction stands before them.
OTHER_SCALES: Final = np.array(
    list(map(pack, "lakh lakhs crore crores mil millones milh bilh trilh".split()))
)
_TENTHS: Final = {
    word: int(10 * float(name[len("number-") :]))
    for name, words in word_lists().items()
    if name.startswith("number-")
    for word in words
}
#: numerals that are one word: eight, восьми, drei; without one, which is often an article
NUMERALS: Final = frozenset(word for word, value in _TENTHS.items() if value > 10)
#: numbers that are one word in most languages
SMALL: Final = (*range(2, 21), *range(30, 101, 10))
_SPELT, _NUMBERS = sorted_table({pack(word): value for word, value in _TENTHS.items()})
_HUNDRED_WORD: Final = pack("hundred")
# Digits, then units with their power of ten. Formal ones (壹, 拾) only begin a numeral in front of
# a formal unit: 陆 and 伍 are words and names.
_DIGITS: Final = dict(zip("〇零一二三四五六七八九两兩", (0, *range(10), 2, 2), strict=True))
_FORMAL: Final = dict(zip("壹贰叁肆伍陆柒捌玖貳參陸", (*range(1, 10), 2, 3, 6), strict=True))
_METRIC: Final = code_set("米克瓦伏安帕焦卡赫")  # units before which 千 is kilo
_UNITS: Final = {"十": 1, "百": 2, "千": 3, "万": 4, "萬": 4, "亿": 8, "億": 8}
_FORMAL_UNITS: Final = {"拾": 1, "佰": 2, "仟": 3}


def _values() -> dict[int, int]:
    # digit d: d; formal digit d: 10 + d; unit 10**e: -e; formal unit: -10 - e
    values = {ord(character): value for character, value in _DIGITS.items()}
    values.update((ord(character), 10 + value) for character, value in _FORMAL.items())
    values.update((ord(character), -power) for character, power in _UNITS.items())
    values.update((ord(character), -10 - power) for character, power in _FORMAL_UNITS.items())
    return values


_NOTHING: Final = 100
_VALUES: Final = by_code_point(_values(), np.int8, _NOTHING)


@subkernel
def at(codes: Codes, i: int) -> int:
    """The code point at i, 0 outside of the text; a line break or a tab counts as a space. Texts
    are wrapped anywhere, so `May` and `31` belong together across the end of a line."""
    code = np.int64(codes[i]) if 0 <= i < codes.size else 0
    return 32 if 9 <= code <= 13 else code


@subkernel
def is_wrap(codes: Codes, i: int) -> bool:
    """Whether a line ends at i inside a sentence, as in texts of a fixed width: it has at least
    40 characters, and no space begins the next line. Headings, lists and bylines are shorter."""
    if codes[i] != _NEW_LINE or i < _WRAPPED or at(codes, i + 1) == 32:
        return False
    long = True
    for k in range(i - _WRAPPED, i):
        long = long and codes[k] != _NEW_LINE
    return long


@subkernel
def among(code: int, members: NDArray[np.uint32] | NDArray[np.int64]) -> bool:
    """Whether a number is among a few members."""
    found = False
    for member in members:
        found = found or member == code
    return found


@subkernel
def chinese_digit(code: int) -> int:
    """The value of a Chinese digit, 0 to 9; -1 for any other character."""
    value = of_code_point(_VALUES, code)
    return value % 10 if 0 <= value < 20 else -1


@subkernel
def chinese_unit(code: int) -> int:
    """The power of ten of 十 百 千 万 亿; 0 for any other character."""
    value = of_code_point(_VALUES, code)
    return -value % 10 if value < 0 else 0


@subkernel
def is_formal(code: int) -> bool:
    """Whether a character is a formal numeral of accounts: 壹 to 玖, 拾, 佰, 仟."""
    value = of_code_point(_VALUES, code)
    return value <= -10 or 10 <= value < 20


@subkernel
def is_digit(codes: Codes, i: int) -> bool:
    """Whether there is an ASCII digit at i, which may lie outside of the text."""
    return 0 <= i < codes.size and 48 <= codes[i] <= 57


@subkernel
def is_letter(codes: Codes, i: int) -> bool:
    """Whether there is a lower-case ASCII letter at i, which may lie outside of the text."""
    return 0 <= i < codes.size and 97 <= codes[i] <= 122


@subkernel
def is_cyrillic(codes: Codes, i: int) -> bool:
    """Whether there is one of the letters а to џ at i, which may lie outside of the text."""
    return _FIRST_CYRILLIC <= at(codes, i) < _FIRST_CYRILLIC + 48


@subkernel
def _are_digits(codes: Codes, first: int, last: int) -> bool:
    """Whether the characters from `first` to `last` - 1 are digits, and the next one is not."""
    some = first < last
    for i in range(first, last):
        some = some and is_digit(codes, i)
    return some and not is_digit(codes, last)


@subkernel
def _spaced_end(codes: Codes, first: int) -> int:
    """End of a number whose groups of three digits are separated by spaces; 0 if it is not one."""
    end = first
    while is_digit(codes, end) and end - first < 4:
        end += 1
    head, longest = end, end + _LONGEST_ROW
    while at(codes, end) == 32 and codes[end] == 32 and _are_digits(codes, end + 1, end + 4):
        end += 4
        if end > longest:  # a table; don't search for its end from each of its numbers
            return 0
    row = at(codes, first - 1) == 32 and is_digit(codes, first - 2)
    if end == head or head - first > 3 or row:
        return 0
    before = at(codes, first - 1) == 32 and is_cyrillic(codes, first - 2)
    return end if before or (at(codes, end) == 32 and is_cyrillic(codes, end + 1)) else 0


@subkernel
def _point_end(codes: Codes, first: int, point: int) -> int:
    """End of a fraction behind a decimal point; 0 if there is none."""
    after_point = first > 1 and codes[first - 1] == _POINT and is_digit(codes, first - 2)
    if at(codes, point) != _POINT or not is_digit(codes, point + 1) or after_point:
        return 0
    end = point + 1
    while is_digit(codes, end):
        end += 1
    return 0 if at(codes, end) == _POINT and is_digit(codes, end + 1) else end


@subkernel
def _decimal_end(codes: Codes, first: int, comma: int) -> int:
    """End of a fraction of one or two digits behind a decimal comma; 0 if there is none."""
    if at(codes, comma) != _COMMA or not is_digit(codes, comma + 1):
        return 0
    end = comma + 2 if not is_digit(codes, comma + 2) else comma + 3
    if is_digit(codes, end) or at(codes, end) >= FIRST_WIDE:
        return 0
    listed = at(codes, end) in (_COMMA, _POINT) and is_digit(codes, end + 1)
    listed = listed or (at(codes, first - 1) in (_COMMA, _POINT) and is_digit(codes, first - 2))
    return 0 if listed else end


@subkernel
def with_points(codes: Codes, first: int) -> tuple[int, int, int]:
    """Read a number whose thousands are separated by points, as in German and Spanish (1.234.567 or
    1.234,50): mantissa, exponent, end; end is 0 if there is none at `first`."""
    last, begins = first, at(codes, first - 1) in (_COMMA, _POINT) and is_digit(codes, first - 2)
    while is_digit(codes, last) and last - first < 4:
        last += 1
    end = last
    while at(codes, end) == _POINT and _are_digits(codes, end + 1, end + 4) and end < first + 24:
        end += 4
    is_more = at(codes, end) == _POINT and is_digit(codes, end + 1)
    if end == last or last > first + 3 or codes[first] == 48 or begins or is_more:
        return 0, 0, 0
    stop = _decimal_end(codes, first, end)
    mantissa, digits = 0, 0
    for i in range(first, max(end, stop)):
        if is_digit(codes, i) and digits < MAX_DIGITS:
            mantissa = mantissa * 10 + np.int64(codes[i]) - 48
            digits += 1
    return mantissa, end + 1 - stop if stop else 0, max(end, stop)


@subkernel
def is_led_by_point(codes: Codes, i: int) -> bool:
    """Whether the digit at i begins a fraction without a leading zero: .5 is 0.5."""
    if at(codes, i - 1) != _POINT:
        return False
    before = at(codes, i - 2)
    return before in (0, 32) or among(before, _BEFORE_POINT)


@subkernel
def arabic(codes: Codes, i: int) -> tuple[int, int, int]:
    """Read the number that starts with the digit at i: mantissa, exponent, end.

    Thousands are separated in groups of three. A point and digits are a fraction, unless there are
    two points: 2020.4.3 is three numbers.
    """
    first, mantissa, digits = i, 0, 0
    grouped, led = False, is_led_by_point(codes, i)
    spaced = 0 if led else _spaced_end(codes, i)
    while i < codes.size and digits < MAX_DIGITS:
        if is_digit(codes, i):
            mantissa = mantissa * 10 + np.int64(codes[i]) - 48
            digits += 1
            i += 1
        elif i < spaced:
            i += 1
        elif codes[i] == 44 and (grouped or i - first <= 3) and not led:
            three = is_digit(codes, i + 1) and is_digit(codes, i + 2) and is_digit(codes, i + 3)
            if not three or is_digit(codes, i + 4):
                break
            grouped = True
            i += 1
        else:
            break
    if led:
        return mantissa, -digits, i
    exponent, end = 0, _point_end(codes, first, i)
    if end == 0 and not grouped:
        end = _decimal_end(codes, first, i)
    for place in range(i + 1, end):
        if digits < MAX_DIGITS:
            mantissa = mantissa * 10 + np.int64(codes[place]) - 48
            digits += 1
            exponent -= 1
    return mantissa, exponent, max(i, end)


@subkernel
def run_end(codes: Codes, i: int) -> int:
    """End of the run of Chinese digits and units that begins at i, `LONGEST_RUN` at most: a text
    of nothing else would be read once for each of its characters."""
    most = min(i + LONGEST_RUN, codes.size)
    while i < most and (chinese_digit(codes[i]) >= 0 or chinese_unit(codes[i]) > 0):
        i += 1
    return i


@subkernel
def positional(codes: Codes, first: int, last: int) -> int:
    """The value of a row of Chinese digits (二〇二〇); -1 if there is a unit or too many digits."""
    if last - first > MAX_DIGITS:
        return -1
    value = 0
    for i in range(first, last):
        digit = chinese_digit(codes[i])
        if digit < 0:
            return -1
        value = value * 10 + digit
    return value


@subkernel
def chinese(codes: Codes, first: int, last: int) -> tuple[int, int]:
    """The value of Chinese digits with units (两万三千), -1 if they are no number; and its end. A
    last digit right after 百, 千 or 万 counts tens, hundreds or thousands: 三万五 is 35000."""
    total, section, digit, unit = 0, 0, -1, 0
    i = first
    while i < last:
        value = chinese_digit(codes[i])
        power = chinese_unit(codes[i])
        if value >= 0:
            if digit > 0:  # 三四百, 一五一十: about, or an idiom
                return -1, last
            if value == 0:
                unit = 0
            digit = value
        elif power < 4:
            if digit <= 0 and power > 1:
                break
            section += (1 if digit < 0 else digit) * 10**power
            digit, unit = -1, power
        else:
            section += digit if digit > 0 else 0
            if section == 0 and (total == 0 or power == 4):
                break
            if power == 8 and total > _LIMIT:
                break
            total = (total + section) * 10**8 if power == 8 else total + section * 10**4
            section, digit, unit = 0, -1, power
        i += 1
    if i == first:
        return -1, first
    if digit > 0 and unit > 1:
        digit *= 10 ** (unit - 1)
    return total + section + (digit if digit > 0 else 0), i


@subkernel
def chinese_scale(codes: Codes, i: int) -> tuple[int, int]:
    """The total power of ten of the units from i on (百万 is 6), and their end."""
    power = 0
    begin = i
    if i + 1 < codes.size and at(codes, i) == 32 and chinese_unit(codes[i + 1]) >= 4:
        i += 1
    while i < codes.size and chinese_unit(codes[i]) > 0 and power < MAX_DIGITS:
        if power == 0 and codes[i] == _KILO and among(at(codes, i + 1), _METRIC):  # 100千米
            break
        power += chinese_unit(codes[i])
        i += 1
    return power, (i if power else begin)


@subkernel
def word_after(codes: Codes, i: int) -> tuple[int, int]:
    """The word of Latin or Cyrillic letters that starts at i, packed, and its end; the word is 0
    if there is none, or if it is too long."""
    value, first, cyrillic = np.uint64(0), i, is_cyrillic(codes, i)
    while is_cyrillic(codes, i) if cyrillic else is_letter(codes, i):
        value = add_letter(value, codes[i])
        i += 1
        if i - first > _LETTERS:
            return 0, i
    return packed(value), i


@subkernel
def word_before(codes: Codes, end: int) -> tuple[int, int]:
    """The word of Latin letters that ends at `end`, packed, and its begin; 0 and `end` if there
    is none, or if it is too long."""
    begin, value = end, np.uint64(0)
    while is_letter(codes, begin - 1):
        begin -= 1
        if end - begin > _LETTERS:
            return 0, end
    for i in range(begin, end):
        value = add_letter(value, codes[i])
    return packed(value), begin


@subkernel
def search(word: int, words: NDArray[np.int64], values: NDArray[np.int64]) -> int:
    """The value of a word in a sorted table, found by bisection; 0 if it is not there."""
    low, high = 0, words.size
    while low < high:
        middle = (low + high) >> 1
        if words[middle] < word:
            low = middle + 1
        else:
            high = middle
    return np.int64(values[low]) if low < words.size and words[low] == word else np.int64(0)


@subkernel
def spelt(codes: Codes, first: int, last: int) -> int:
    """Tenths of a numeral of one word (eight, восьми, полтора) in any alphabet; 0 if none."""
    value = np.uint64(0)
    for i in range(first, last):
        value = add_letter(value, codes[i])
    return search(packed(value), _SPELT, _NUMBERS)


@subkernel
def spelt_number(codes: Codes, first: int, last: int) -> tuple[int, int, int]:
    """Read the number whose first word is codes[first:last]: mantissa, exponent, end; 0 if it is
    none. Up to four words are read: twenty-one, two hundred, двадцать два миллиона. A million is
    1,000,000."""
    value = spelt(codes, first, last)
    if value == 0:
        power, end = scale_after(codes, first)
        return np.int64(power > 0), power, end
    if 200 <= value < 1000 and value % 100 == 0 and at(codes, last) in (32, _HYPHEN):
        one, end = word_after(codes, last + 1)
        more = search(one, _SPELT, _NUMBERS) if one else 0
        if 0 < more < 100:
            value, last = value + more, end
    word, end = word_after(codes, last + 1)
    if at(codes, last) == 32 and word == _HUNDRED_WORD:
        value, last = 100 * value, end
    power, end = scale_after(codes, last + 1)
    if at(codes, last) in (32, _HYPHEN) and power:
        return value, power - 1, end
    return value, -1, last


@subkernel
def month(packed: int) -> int:
    """1 to 12 for the English name of a month or its abbreviation, else 0."""
    return search(packed, _MONTH_WORDS, _MONTH_NUMBERS)


@subkernel
def scale_after(codes: Codes, i: int) -> tuple[int, int]:
    """The power of ten of the word at i (thousand, тыс., Mio.), 0 if there is none; and its end."""
    word, end = word_after(codes, i)
    short = at(codes, end) == _POINT and at(codes, end + 1) == 32 and end - i <= 4
    cyrillic = is_cyrillic(codes, i) and is_cyrillic(codes, end + 2)
    short = short and (cyrillic or (is_letter(codes, i) and is_letter(codes, end + 2)))
    return search(word, _SCALE_WORDS, _SCALE_EXPONENTS), (end + 1 if short else end)


@subkernel
def scale_letter(codes: Codes, first: int, end: int) -> tuple[int, int]:
    """The power of ten of the letter at `end` behind an amount of money that begins at `first`, or
    before a currency ($3m, £20k, 3 M€), and its end; the power is 0 if there is none."""
    letter = end + 1 if at(codes, end) == 32 and among(at(codes, end + 2), _MONEY) else end
    power = 0
    for place in range(_SCALE_LETTERS.size):
        power = _SCALE_POWERS[place] if at(codes, letter) == _SCALE_LETTERS[place] else power
    if power == 0 or is_letter(codes, letter + 1):
        return 0, end
    begin = first - 1 if at(codes, first - 1) == _POINT else first
    paid = among(at(codes, begin - 1), _MONEY) or among(at(codes, letter + 1), _MONEY)
    return (power, letter + 1) if paid else (0, end)
