"""Signs, comparisons, currencies and units, which belong to the value of a numeral.

-20 is not 20, $5 is not 5 EUR, and > 40 is not < 40, although no letter differs. So a figure is a
number with

* its **sign**: a hyphen, minus sign or en dash directly before it or its currency, unless that
  joins it to something (3-5, COVID-19, 2024-01-02). Behind an ideograph it counts only if a unit
  follows the number (气温-5℃, but 歼-20);
* its **comparison**: a single < > ≤ ≥ ≠ before it;
* its **unit**: a currency, before or behind it, as a symbol, a code or a word ($5 = US$5 = USD 5 =
  5 dollars = 5美元), °C and °F, a measure behind it (3 days, 5 km = 5公里), or the half of the day
  (8 am, 8 p.m.). A unit is the same in all its forms. Years are no unit: 2020年 is a date.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base.jit import subkernel
from dedup_middleware.text.characters import FIRST_WIDE, SEPARATES, SYMBOL, Codes, Flags, code_set
from dedup_middleware.text.numerals import (
    add_letter,
    among,
    at,
    chinese_digit,
    chinese_unit,
    is_cyrillic,
    is_digit,
    is_letter,
    pack,
    packed,
    search,
    sorted_table,
    word_after,
    word_before,
)

# The lowest two bits of the kind of a figure.
PLAIN, PERCENT, PERMILLE, PART = 0, 1, 2, 3
KIND: Final = 3
COMPARISONS: Final = "<>≤≥≠"


def _units() -> tuple[tuple[str, ...], ...]:
    text = (files("dedup_middleware.text") / "data" / "units.txt").read_text("utf-8")
    lines = (line for line in text.splitlines() if line[:1] != "#")
    return tuple(tuple(map(str.strip, line.split("|"))) for line in lines)


#: name, symbol, Latin words, Cyrillic words and ideographs of each unit; currencies, degrees, then
#: measures
UNITS: Final = _units()
NAMES: Final = ("", *(unit[0] for unit in UNITS))
CELSIUS, FAHRENHEIT, DEGREE, MINUTES, HOURS = map(NAMES.index, ("°C", "°F", "°", "min", "h"))
# Kind of a figure: 2 bits as above, one of the sign, three of the comparison, then the unit.
SIGN: Final = 4
COMPARISON_SHIFT: Final = 3
UNIT_SHIFT: Final = 6
_BEFORE_SYMBOL: Final = ("us", "hk", "nt", "a", "au", "c", "ca", "s", "sg")


def _table(*columns: int, only: Callable[[str], bool] = bool) -> tuple[NDArray[np.int64], ...]:
    """The table of the words in some columns of `UNITS`."""
    return sorted_table(
        {
            pack(word): number
            for number, unit in enumerate(UNITS, 1)
            for column in columns
            for word in unit[column].split()
            if only(word)
        }
    )


_SYMBOL_KEYS, _SYMBOL_UNITS = _table(1)
_WORD_KEYS, _WORD_UNITS = _table(2, 3, only=lambda word: word not in _BEFORE_SYMBOL)
_COUNTRY_KEYS, _COUNTRY_UNITS = _table(2, only=_BEFORE_SYMBOL.__contains__)
_IDEOGRAPH_KEYS, _IDEOGRAPH_UNITS = _table(4)
_IDEOGRAPHS: Final = code_set("".join({word[0] for unit in UNITS for word in unit[4].split()}))
_COMPARES: Final = np.array(list(map(ord, COMPARISONS)), np.int64)
_ARROWS: Final = code_set(COMPARISONS + "-=")
# Behind these characters a hyphen joins or separates.
_JOINS: Final = code_set("-‐‑–—._%)]}/\\&#‰°】〕」』”*@")
_SIGNED: Final = code_set("%‰度℃元")
_BELOW, _ZERO = map(ord, "下零")
_HYPHEN, _EN_DASH, _SPACE, _DOT, _DEGREE_SIGN, _C, _F, _M, _APOSTROPHE, _LESS, _GREATER = map(
    ord, "-– .°cfm'<>"
)
_METRIC, _A, _P, _AM, _PM, _DE, _DI, _D = map(pack, "metric a p am pm de di d".split())


@subkernel
def _degree(codes: Codes, i: int) -> tuple[int, int]:
    """The unit of the degree sign at i, and its end."""
    letter = i + 2 if at(codes, i + 1) == _SPACE else i + 1
    scale = at(codes, letter)
    if scale not in (_C, _F) or is_letter(codes, letter + 1):
        return DEGREE, i + 1
    return CELSIUS if scale == _C else FAHRENHEIT, letter + 1


@subkernel
def ideograph_unit(codes: Codes, i: int) -> tuple[int, int]:
    """The unit of one to three ideographs at i, and their number; 0 if there is none."""
    word, unit, size = np.uint64(0), 0, 0
    if not among(at(codes, i), _IDEOGRAPHS):  # faster than three searches
        return 0, 1
    while unit == 0 and size < 3:
        word = add_letter(word, at(codes, i + size))
        size += 1
        unit = search(packed(word), _IDEOGRAPH_KEYS, _IDEOGRAPH_UNITS)
    return unit, size


@subkernel
def _symbol_unit(code: int) -> int:
    """The unit of a symbol such as $; 0 if it is none."""
    return search(packed(add_letter(np.uint64(0), code)), _SYMBOL_KEYS, _SYMBOL_UNITS)


@subkernel
def _half(codes: Codes, word: int, end: int) -> tuple[int, int]:
    """Read the m of "a.m" or "p.m": am or pm and its end; the word 0 if more letters follow."""
    if is_letter(codes, end + 2):
        return 0, end
    return _AM if word == _A else _PM, end + 2


@subkernel
def _unit_behind(codes: Codes, flags: Flags, last: int) -> tuple[int, int]:
    """The unit behind a number that ends at `last`, and its end; 0 and `last` if there is none."""
    i = last + 1 if at(codes, last) in (_SPACE, _HYPHEN) else last
    if i > last and at(codes, last) == _HYPHEN and not is_letter(codes, i):
        return 0, last
    code, unit, end = at(codes, i), 0, last
    if code == _DEGREE_SIGN:
        unit, end = _degree(codes, i)
    elif is_letter(codes, i) or is_cyrillic(codes, i):
        word, end = word_after(codes, i)
        if word == _METRIC and at(codes, end) == _SPACE and is_letter(codes, end + 1):
            word, end = word_after(codes, end + 1)
        if word in (_DE, _DI, _D) and at(codes, end) in (_SPACE, _APOSTROPHE):  # millions d'euros
            word, end = word_after(codes, end + 1)
            of = search(word, _WORD_KEYS, _WORD_UNITS)
            word = word if of < CELSIUS else 0
        if word in (_A, _P) and at(codes, end) == _DOT and at(codes, end + 1) == _M:
            word, end = _half(codes, word, end)
        unit = search(word, _WORD_KEYS, _WORD_UNITS)
    elif code >= FIRST_WIDE:
        unit, size = ideograph_unit(codes, i)
        end = i + size
        if i > last and unit > DEGREE and chinese_digit(codes[last - 1]) >= 0:  # 星期二 周四
            unit = 0
    elif code and flags[i] & SYMBOL == SYMBOL and not is_digit(codes, i + 1):
        unit, end = _symbol_unit(code), i + 1
    return unit, end if unit else last


@subkernel
def _unit_before(codes: Codes, flags: Flags, first: int) -> tuple[int, int]:
    """The unit before a number that begins at `first`, and its begin; (0, first) if none."""
    i = first - 2 if at(codes, first - 1) == _SPACE else first - 1
    code = at(codes, i)
    if is_letter(codes, i):
        word, begin = word_before(codes, i + 1)
        unit = search(word, _WORD_KEYS, _WORD_UNITS)
        unit = unit if unit < CELSIUS else 0  # "day 3" is no length of time
        return unit, begin if unit else first
    if not code or flags[i] & SYMBOL != SYMBOL:
        return 0, first
    unit = _symbol_unit(code)
    if unit and is_letter(codes, i - 1):
        word, begin = word_before(codes, i)
        country = search(word, _COUNTRY_KEYS, _COUNTRY_UNITS)
        unit, i = (country, begin) if country else (unit, i)
    return unit, i if unit else first


@subkernel
def _is_sign(codes: Codes, flags: Flags, i: int, unit: bool) -> bool:
    """Whether the hyphen at i is a minus sign; `unit`: whether the number has a unit behind it."""
    before = at(codes, i - 1)
    if before == 0:
        return True
    if before == _SPACE:
        return not is_digit(codes, i - 2)
    if flags[i - 1] & SEPARATES:
        return not among(before, _JOINS)
    ends = among(before, _SIGNED) or chinese_unit(before) > 0  # 5元-10元, 5万-10万元
    return unit and before >= FIRST_WIDE and not ends


@subkernel
def _closes(codes: Codes, i: int) -> bool:
    """Whether the > at i ends brackets around a word, as Reuters writes the symbol of a share."""
    first = i - 1
    while is_letter(codes, first) or at(codes, first) == _DOT:
        first -= 1
    return codes[i] == _GREATER and first < i - 1 and at(codes, first) == _LESS


@subkernel
def signs(codes: Codes, flags: Flags, first: int, last: int) -> tuple[int, int, int]:
    """Sign, comparison and unit of the number codes[first:last], as bits of its kind; and begin and
    end of the number with them."""
    unit, end = _unit_behind(codes, flags, last)
    behind = unit != 0 or among(at(codes, last), _SIGNED)
    begin, hyphen = first, at(codes, first - 1)
    sign = (hyphen in (_HYPHEN, _EN_DASH)) and _is_sign(codes, flags, first - 1, behind)
    begin -= 1 if sign else 0
    if hyphen == _BELOW and at(codes, first - 2) == _ZERO and unit in (CELSIUS, DEGREE, 0):
        sign, begin = True, first - 2  # 零下6℃
    if unit == 0:
        unit, begin = _unit_before(codes, flags, begin)
    else:
        _, begin = _unit_before(codes, flags, begin)  # US$5 USD
    hyphen = at(codes, begin - 1)
    if not sign and begin < first and hyphen in (_HYPHEN, _EN_DASH):
        sign = _is_sign(codes, flags, begin - 1, True)
        begin -= 1 if sign else 0
    i = begin - 2 if at(codes, begin - 1) == _SPACE else begin - 1
    comparison = 0
    if i >= 0 and flags[i] & SYMBOL == SYMBOL:
        for place in range(_COMPARES.size):
            comparison = place + 1 if _COMPARES[place] == codes[i] else comparison
    if comparison:
        # An arrow, the marks of a quotation, or the end of <ABC.N>.
        if among(at(codes, i - 1), _ARROWS) or _closes(codes, i):
            comparison = 0
        else:
            begin = i
    kind = (SIGN if sign else 0) | comparison << COMPARISON_SHIFT | unit << UNIT_SHIFT
    return kind, begin, end


def render(kind: int, number: str) -> str:
    """A number with its sign, comparison and unit in readable form."""
    comparison, unit = kind >> COMPARISON_SHIFT & 7, kind >> UNIT_SHIFT
    compared = COMPARISONS[comparison - 1] + " " if comparison else ""
    signed = "-" if kind & SIGN else ""
    return f"{compared}{signed}{number} {NAMES[unit]}".rstrip()
