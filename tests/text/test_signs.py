"""What belongs to the value of a numeral besides its digits."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dedup_middleware.text.characters import fold_text
from dedup_middleware.text.figures import canonical, find_figures
from dedup_middleware.text.signs import (
    CELSIUS,
    COMPARISON_SHIFT,
    COMPARISONS,
    DEGREE,
    NAMES,
    SIGN,
    UNIT_SHIFT,
    UNITS,
)
from tests.text.oracles import characters

_LATIN = {
    word: name
    for name, _, words, _, _ in UNITS[: CELSIUS - 1]
    for word in words.split()
    if word not in {"us", "hk", "nt", "a", "au", "c", "ca", "s", "sg"}
}
_COUNTRIES = {
    "us": "USD", "hk": "HKD", "nt": "TWD", "a": "AUD", "au": "AUD", "c": "CAD", "ca": "CAD",
    "s": "SGD", "sg": "SGD",
}  # fmt: skip
_SYMBOLS = {symbol: name for name, symbol, *_ in UNITS if symbol}
_IDEOGRAPHS = {word: name for name, *_, words in UNITS for word in words.split()}
_MEASURES = {
    word: name
    for name, _, latin, cyrillic, _ in UNITS[DEGREE:]
    for word in f"{latin} {cyrillic}".split()
}
_WIDE = "[\u2e80-\U0010ffff]"


def unit_behind(rest: str) -> tuple[str, int]:
    """Twin: the unit at the beginning of what follows a number, and its length."""
    degree = re.match(" ?°(?: ?([cf])(?![a-z]))?", rest)
    if degree:
        return "°" + (degree[1] or "").upper(), degree.end()
    word = re.match("(?: |-(?=[a-z]))?(?:metric (?=[a-z]))?([ap]\\.m(?![a-z])|[a-z]+|[а-я]+)", rest)
    if word:
        found = {**_MEASURES, **_LATIN}.get(word[1].replace(".", ""))
        return (found, word.end()) if found else ("", 0)
    begin = int(rest[:1] == " ")
    for size in (1, 2, 3):
        found = _IDEOGRAPHS.get(rest[begin : begin + size])
        if found and len(rest) >= begin + size:
            return found, begin + size
    symbol = rest[begin : begin + 1]
    if symbol in _SYMBOLS and not rest[begin + 1 : begin + 2].isdigit():
        return _SYMBOLS[symbol], begin + 1
    return "", 0


def unit_before(rest: str) -> tuple[str, int]:
    """Twin: the unit at the end of the text before a number, and its length."""
    word = re.search("(?<![a-z])([a-z]+) ?$", rest)
    if word:
        found = _LATIN.get(word[1], "")
        return found, len(rest) - word.start() if found else 0
    symbol = re.search("([a-z]*)([" + "".join(_SYMBOLS) + "]) ?$", rest)
    if not symbol:
        return "", 0
    country = _COUNTRIES.get(symbol[1])
    begin = symbol.start() if country else symbol.start(2)
    return country or _SYMBOLS[symbol[2]], len(rest) - begin


def is_sign(before: str, *, unit: bool) -> bool:
    """Twin: whether a hyphen behind `before` is a minus sign."""
    last = before[-1:]
    if last in ("", " "):
        return re.search("[0-9] $", before) is None
    if not re.match("[\\w]", last):
        return last not in "-‐‑–—._%)]}/\\&#‰°】〕」』”*@"
    return unit and re.match(_WIDE, last) is not None and last not in "度元"


def plain_signs(before: str, behind: str) -> tuple[int, int, int]:
    """Twin: kind, and how much before and behind a number belongs to it."""
    unit, after = unit_behind(behind)
    begin = len(before)
    has_unit = bool(unit) or behind[:1] in tuple("%‰度℃元")
    sign = before[-1:] in ("-", "–") and is_sign(before[:-1], unit=has_unit)
    begin -= sign
    found, size = unit_before(before[:begin])
    unit = unit or found
    begin -= size
    if not sign and size and before[begin - 1 : begin] in ("-", "–"):
        sign = is_sign(before[: begin - 1], unit=True)
        begin -= sign
    compared = re.search(f"(?<![-={COMPARISONS}])([{COMPARISONS}]) ?$", before[:begin])
    if compared and re.search("<[a-z.]+> ?$", before[:begin]):
        compared = None  # the symbol of a share
    comparison = COMPARISONS.index(compared[1]) + 1 if compared else 0
    if compared:
        begin = compared.start()
    kind = SIGN * sign | comparison << COMPARISON_SHIFT | NAMES.index(unit) << UNIT_SHIFT
    return kind, len(before) - begin, after


_BEFORE = st.lists(
    st.sampled_from(
        [*"-–<>≤≥≠=$€¥£ ,(温元度%/", "us", "hk$", "eur ", "a", "yuan", "rmb", "km ", "день "]
    ),
    max_size=5,
).map("".join)
_BEHIND = st.lists(
    st.sampled_from(
        [
            *(
                *" °cf$€%度元美日-,",
                "dollars",
                "euros",
                "美元",
                "新台币",
                "eur",
                "cents",
                "metric ",
            ),
            *(
                "am",
                "a.m.",
                "p.m",
                "p.",
                "m.",
                "tons",
                "km",
                "天",
                "个小时",
                "公里",
                "часа",
                "км",
                "килограммов",
                "分钟",
            ),
        ]
    ),
    max_size=4,
).map("".join)


# What may stand before a percent sign that belongs to the number behind it.
LEADING = " ([{-–+±~<>≤≥=≈\"'“”"


def is_scaled(text: str, at: int) -> bool:
    """Whether a letter multiplies the amount of money that has its only digit there."""
    money = text[:at][-1:] in {*"$€£¥₹₽₩"}
    return money and re.match(r"[kmb](?![^\W\d_])", text[at + 1 :]) is not None


@settings(deadline=None, max_examples=1000)
@example("%", "")
@example("$", "m.")
@given(_BEFORE, _BEHIND)
def test_signs_like_the_twin(before: str, behind: str) -> None:
    """Any text around a number gives the same as the plain twin."""
    before = before.replace("\ue000", "")
    codes, flags = fold_text(f"{before}7{behind}", characters())
    ((mantissa, _, kind, first, last),) = find_figures(codes, flags).tolist()
    percent = before.endswith("%") and (len(before) == 1 or chr(codes[len(before) - 2]) in LEADING)
    scaled = is_scaled("".join(map(chr, codes)), len(before))
    wanted, size, more = plain_signs(before[:-1] if percent else before, behind[scaled:])
    size += percent  # %7 is 7 %
    more += scaled  # $7m is 7 million
    assert mantissa == 7
    assert kind >> 2 == wanted >> 2
    assert (first, last) == (len(before) - size, len(before) + 1 + more)


@pytest.mark.parametrize(
    ("text", "figures"),
    [
        ("it was -20 degrees", ["-20"]),
        ("it was −20 °C", ["-20 °C"]),
        ("68 °F, 68°", ["68 °F", "68 °"]),
        ("up 5 %, down -5 %", ["5%", "-5%"]),
        ("($5) ($-5) (-$5)", ["5 USD", "-5 USD"]),
        ("US$5, USD 5, 5 dollars, 5美元", ["5 USD"]),
        ("HK$5 C$5 A$5", ["5 HKD", "5 CAD", "5 AUD"]),
        ("€5, 5 €, EUR 5, 5 euros, 5欧元", ["5 EUR"]),
        ("￥5 = 5元 = 人民币5元 = RMB 5", ["5 CNY"]),
        ("5亿美元", ["500000000 USD"]),
        ("50 > 40, 50 < 40", ["50", "> 40", "< 40"]),
        ("≤ 40 ≥40 ≠ 40", ["≤ 40", "≥ 40", "≠ 40"]),
        ("-> 40, >> 40, >= 40", ["40"]),
        ("Corbin <CRB.N> 40, b> 41, <> 42, <c d> 43", ["40", "> 41", "42", "> 43"]),
        ("3-5 COVID-19 2024-01-02 5% -10%", ["3", "5", "19", "2024", "1", "2", "5%", "-10%"]),
        ("气温-5℃ 歼-20 5元-10元", ["-5 °C", "20", "5 CNY", "10 CNY"]),
        ("5 km, 5km, 5 kilometres, 5公里, 5 километров, a 5-km walk", ["5 km"]),
        ("5 tonnes, 5 metric tons, 5吨 but 5 tons of 5 kilos", ["5 t", "5 kg"]),
        ("3 days, 3天, 三天, 3 weeks, 三周, 三小时", ["3 days", "3 weeks", "3 h"]),
        ("8 am, 8 a.m., 8am, 8 a.m, 8 p.m. and 8 p.more", ["8 a.m.", "8 p.m.", "8"]),
        ("day 3, 5 министров, 2006 года, 一天", ["3", "5", "2006"]),
    ],
)
def test_known_signs(text: str, figures: list[str]) -> None:
    """A value is the same in all of its forms, and a hyphen that joins is no sign."""
    assert canonical(text) == figures
