from __future__ import annotations

import functools
from collections.abc import Iterator
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dedup_middleware.text import figures
from dedup_middleware.text.figures import canonical
from dedup_middleware.text.shingle import Shingler
from tests.text.oracles import characters, texts

# Each new one reads and checks its tables.
made = functools.cache(Shingler)
DIGITS = "零一二三四五六七八九"


@pytest.fixture(scope="module", autouse=True)
def characters_read_once() -> Iterator[None]:
    """`canonical` reads and checks the table of characters in each call."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(figures, "load_characters", lambda *_: characters())
        yield


def in_chinese(number: int) -> str:
    """A number below 10**12 as Chinese writes it."""
    if number < 10_000:
        text, zero = "", False
        for unit, power in (("千", 1000), ("百", 100), ("十", 10), ("", 1)):
            digit = number // power % 10
            if digit:
                text += "零" * (zero and bool(text)) + DIGITS[digit] + unit
            zero = not digit
        return text
    name, size = ("亿", 10**8) if number >= 10**8 else ("万", 10**4)
    high, low = divmod(number, size)
    gap = "零" if 0 < low < size // 10 else ""
    return in_chinese(high) + name + gap + (in_chinese(low) if low else "")


@settings(deadline=None, max_examples=500)
@given(st.integers(20, 10**12 - 1))
def test_chinese_numbers(number: int) -> None:
    """A number written in Chinese characters is the same figure as in digits."""
    assert canonical(f"共{in_chinese(number)}元") == [f"{number} CNY"]


@settings(deadline=None, max_examples=500)
@given(st.integers(0, 10**12), st.integers(0, 999))
def test_arabic_numbers(whole: int, part: int) -> None:
    """Separators of thousands, full-width digits and trailing zeros don't change a figure."""
    value = Decimal(f"{whole}.{part:03}").normalize()
    expected = [f"{value:f}"]
    for text in (f"{whole}.{part:03}0", f"{whole:,}.{part:03}0", f"{whole:,}.{part:03}00"):
        assert canonical(text) == canonical(text.translate(_WIDE)) == expected


@settings(deadline=None, max_examples=500)
@given(st.integers(1000, 10**12), st.integers(0, 99))
def test_points_between_thousands(whole: int, part: int) -> None:
    """In most languages of Europe points separate thousands, and a comma begins the fraction."""
    text = f"{whole:,}".replace(",", ".")
    assert canonical(text) == canonical(text.translate(_WIDE)) == [str(whole)]
    value = Decimal(f"{whole}.{part:02}")
    expected = [f"{value.normalize():f}" if part else str(whole)]
    assert canonical(f"{text},{part:02}") == expected


_WIDE = {ord(str(digit)): 0xFF10 + digit for digit in range(10)}


@pytest.mark.parametrize(
    ("text", "figures"),
    [
        ("三百二十一", ["321"]),
        ("三成", ["30%"]),
        ("近9成的人", ["90%"]),
        ("下降九成三。", ["93%"]),
        ("七成五以上", ["75%"]),
        ("近8成6", ["80%", "6"]),
        ("三成二手房", ["30%"]),
        ("八成一线城市", ["80%"]),
        ("十成三", ["100%"]),
        ("三成员", []),
        ("七成立大会", []),
        ("零下6摄氏度", ["-6 °C"]),
        ("15至27℃", ["15 °C", "27 °C"]),
        ("25-45%", ["25%", "45%"]),
        ("1000-3300米", ["1000 m", "3300 m"]),
        ("10万-20万元", ["100000 CNY", "200000 CNY"]),
        ("2小时32分", ["2 h", "32 min"]),
        ("打了2小时，得32分", ["2 h", "32"]),
        ("五点八级", ["5.8"]),
        ("六家企业", ["6"]),
        ("两万三千", ["23000"]),
        ("二〇二〇", ["2020"]),
        ("3.2万", ["32000"]),
        ("3.2 万", ["32000"]),
        ("1亿2000万", ["120000000"]),
        ("3万5千", ["35000"]),
        ("三万五", ["35000"]),
        ("5百万", ["5000000"]),
        ("壹仟贰佰元", ["1200 CNY"]),
        ("百分之五", ["5%"]),
        ("百分之三点五", ["3.5%"]),
        ("百分之百", ["100%"]),
        ("千分之三", ["3‰"]),
        ("5 percent, 5 per cent, 5％", ["5%"]),
        ("%5, (%5), -%5", ["5%", "-5%"]),
        ("٪٥ و ٥٪", ["5%"]),
        ("a%20b and 5%-10%", ["20", "5%", "10%"]),
        (".5, (.5), 0.5", ["0.5"]),
        ("-.5; $.25; .5 million", ["-0.5", "0.25 USD", "500000"]),
        ("v1.10.3 foo.5 ...7 end. 8", ["1", "10", "3", "5", "7", "8"]),
        ("三点五万", ["35000"]),
        ("1.5 million and 2 bn", ["1500000", "2000000000"]),
        ("$3mn and 4 tn", ["3000000 USD", "4000000000000"]),
        ("3.50 = 3.5", ["3.5"]),
        ("3.000 = 3,000 = 3000", ["3000"]),
        ("1.234.567 = 1234567", ["1234567"]),
        ("1.234,50 and 12.345.678,9 Euro", ["1234.5", "12345678.9 EUR"]),
        ("0.125 and 00.125", ["0.125"]),
        ("3.125% and 3.125 percent", ["3.125%"]),
        ("1.234 lakh, 2.345 crore, 3.456 milhões", ["1.234", "2.345", "3.456"]),
        ("1.234 billion, 1.234 млн, 1.234万", ["1234000000", "1234000", "12340"]),
        ("2020.123.456", ["2020", "123", "456"]),
        ("1.234.56 and 1.234.5678", ["1", "234", "56", "5678"]),
        ("1,234.567", ["1234.567"]),
        ("10:30", ["10", "30"]),
        ("第三 星期二 周四 礼拜五", ["3", "2", "4", "5"]),
        ("三人 五年 十分钟", ["3", "5", "10 min"]),
        ("三分之一", ["3", "1"]),
        ("九八年", ["98"]),
        ("007", ["7"]),
        ("1,23 and 12,3456", ["1.23", "12", "3456"]),
        ("1,2,3 and 5,10.5", ["1", "2", "3", "5", "10.5"]),
        ("4月12,15日", ["4", "12", "15"]),
        ("рост 15,5 процента и 15.5 %", ["15.5%"]),
        ("1 200 000 рублей, 1200000 руб. и 1,2 млн рублей", ["1200000 RUB"]),
        ("около 12 300 человек", ["12300"]),
        ("about 12 300 people", ["12", "300"]),
        ("1 234 567 890 123 рублей", ["1234567890123 RUB"]),
        ("1 234 567 890 123 456 рублей", ["1", "234", "567", "890", "123", "456 RUB"]),
        ("1 20 000 рублей и 1 2000 рублей", ["1", "20", "0 RUB", "2000 RUB"]),
        ("5 тыс. тонн, 5 тысяч тонн", ["5000 t"]),
        ("2 миллиона долларов, $2 млн", ["2000000 USD"]),
        ("1.5 billion, 1.5 bln", ["1500000000"]),
        ("123456789012345678901", ["123456789012345678", "901"]),
        ("٣ और १२", ["3", "12"]),
        ("九千九百九十九万亿亿亿亿", ["9999000000000000"]),
        ("（一）【二】[三]〔四〕", ["1", "2", "3", "4"]),
        ("（上）（中）（下）", ["上", "中", "下"]),
        ("上半年 下半场 前半月 后半段", ["上", "下", "前", "后"]),
        ("上旬中旬下旬", ["上", "中", "下"]),
        ("上篇和下篇，上集，下册", ["上", "下"]),
        ("", []),
    ],
)
def test_known_figures(text: str, figures: list[str]) -> None:
    """Numerals of many forms have one canonical form each."""
    assert canonical(text) == figures


@pytest.mark.parametrize(
    "text",
    ["一些一样一个一般", "十分重要", "万一", "统一进一步", "三三两两", "四周", "千方百计",
     "五角大楼", "陆军和大陆人", "百姓千万不要", "一五一十", "五一", "may", "a million",
     "上下中前后", "（上海）", "（之上）", "中篇小说", "中集", "前篇", "后旬", "上半身", "中半年",
     "上", "(上"],
)  # fmt: skip
def test_words_are_no_figures(text: str) -> None:
    """Numerals inside words and idioms don't count."""
    assert canonical(text) == []


@pytest.mark.parametrize(
    "date",
    ["2020年4月3日", "２０２０年４月３日", "二〇二〇年四月三日", "2020-04-03", "2020/4/3",
     "2020.4.3", "2020.04.03", "April 3, 2020", "3 April 2020", "the 3rd of April 2020",
     "Apr. 3, 2020"],
)  # fmt: skip
def test_dates(date: str) -> None:
    """A date gives the same three figures in every form."""
    assert set(canonical(date)) == {"2020", "4", "3"}
    shingler = made(segmenter="char", keeps_stop_words=True)
    assert set(shingler(date).figures) == set(shingler("2020-4-3").figures)


@settings(deadline=None, max_examples=500)
@given(texts)
def test_any_text(text: str) -> None:
    """Any string has figures; they are distinct, and as many as there are hashes."""
    figures = canonical(text)
    hashes = made(segmenter="char", keeps_stop_words=True)(text).figures.tolist()
    assert len(set(figures)) == len(figures) == len(hashes) == len(set(hashes))


@pytest.mark.parametrize("part", ["万", "千百", "壹", "〇万", "十", "一", "1亿", "5万千", "三点"])
def test_a_million_characters_of_numerals(part: str) -> None:
    """They are read once, not once for each of them, which would take a quarter of an hour."""
    text = part * (1_000_000 // len(part))
    assert made(segmenter="char", keeps_stop_words=True)(text).features.size > 0


def test_unit_matters() -> None:
    """Five and five percent are different figures."""
    shingler = made(segmenter="char", keeps_stop_words=True)
    assert shingler("5").figures.tolist() != shingler("5%").figures.tolist()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$3m", ["3000000 USD"]),
        ("£20k and €1.5b", ["20000 GBP", "1500000000 EUR"]),
        ("3m of cloth", ["3"]),
        ("5,5 Prozent", ["5.5%"]),
        ("10 pour cent", ["10%"]),
        ("10 por ciento", ["10%"]),
        ("10 per cento", ["10%"]),
        ("10 proc. więcej", ["10%"]),
        ("48,3 millions d’euros", ["48300000 EUR"]),
        ("48,3 M€", ["48300000 EUR"]),
        ("48,3 milioni di euro", ["48300000 EUR"]),
        ("1,2 Mrd. Euro", ["1200000000 EUR"]),
        ("8 mld. De bank", ["8000000000"]),
        ("3 de km 5", ["3", "5"]),
        ("60 mph", ["60 miles"]),
        ("100千米", ["100 km"]),
        ("3千元", ["3000 CNY"]),
    ],
)
def test_what_desks_write_otherwise(text: str, expected: list[str]) -> None:
    """The same amount is the same figure in the style of either desk."""
    assert canonical(text) == expected
