"""Where figures and names stand."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dedup_middleware.text import shingle
from dedup_middleware.text.characters import (
    CLASS_MASK,
    EMOJI,
    NUMERAL,
    REGIONAL,
    SEPARATES,
    SYMBOL,
    fold_text,
)
from dedup_middleware.text.figures import find_figures
from dedup_middleware.text.hashing import FIGURE_START, TEXT_BASE, TEXT_START, constants
from dedup_middleware.text.places import (
    DIVIDERS,
    FREE,
    NAMES,
    REACH,
    SECONDS,
    SYMBOLS,
    WIDE,
    WIDTH,
)
from dedup_middleware.text.shingle import Shingler
from tests.text.oracles import MASK, characters, mix, texts

KEYS = constants(0, 3)
_ROW_KEYS = (0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93)


made = functools.cache(Shingler)


@pytest.fixture
def shingler() -> Shingler:
    """One without a dictionary, which figures do not need."""
    return made(segmenter="char", keeps_stop_words=True)


def side(codes: list[int], flags: list[int], i: int, step: int) -> list[int]:
    """Twin: the letters from i on, outwards, with a numeral as one letter."""
    letters: list[int] = []
    left, numeral = WIDTH, False
    for place in range(i, i + step * REACH, step):
        if not 0 <= place < len(codes) or left <= 0:
            break
        if flags[place] & SYMBOL == NUMERAL:
            if not numeral:
                letters.append(0x110000)
                left -= WIDE
            numeral = True
        elif not flags[place] & SEPARATES:
            letters.append(codes[place])
            left -= WIDE if codes[place] >= 0x2E80 else 1
            numeral = False
    return letters


def date_line(text: str, rows: list[list[int]]) -> set[int]:
    """Twin: the rows that are part of a date line."""
    found: set[int] = set()
    for i, row in enumerate(rows):
        behind = text[row[4] + 1 : row[4] + 3]
        word = behind[1:] if behind[:1] == " " else behind[:1]
        if text[row[4] : row[4] + 1] == "日" and word and word in "电電讯訊":
            found.add(i)
            for before, unit in ((i - 1, "月"), (i - 2, "年")):
                if before < 0 or rows[before][4] + 1 != rows[before + 1][3]:
                    break
                if text[rows[before][4]] != unit:
                    break
                found.add(before)
    return found


def plain_places(text: str) -> list[int]:
    """Twin: the entries of all figures and runs of symbols of a text, two each."""
    folded, flagged = fold_text(text, characters())
    rows = find_figures(folded, flagged).tolist()
    codes, flags = folded.tolist(), flagged.tolist()
    for *_, first, last in rows:
        for i in range(first, last):
            flags[i] |= 0 if flags[i] & SEPARATES else NUMERAL
    left_out = date_line("".join(map(chr, codes)), rows)
    spans = [row[3:] for row in rows]
    for i in range(len(rows) - 1):
        if rows[i][3] > rows[i + 1][3]:  # a month behind its day
            spans[i], spans[i + 1] = rows[i + 1][3:], rows[i][3:]
    entries = []
    for i, (mantissa, exponent, kind, *_) in enumerate(rows):
        first, last = spans[i]
        if i in left_out:
            continue
        unit = mix((exponent * 4 + kind % 4 + (kind >> 2 << 32) + _ROW_KEYS[1]) & MASK)
        figure = mix((int(KEYS[FIGURE_START]) + mantissa * _ROW_KEYS[0] + unit) & MASK)
        place = place_hash(codes, flags, first, last)
        entries.append((place >> 32) * SYMBOLS >> 32 << 8 | figure >> 56)
        entries.append(second_entry(place, figure >> 48))
    for first, last in symbol_runs(codes, flags, rows):
        value = int(KEYS[TEXT_START])
        for i in range(first, last):
            if is_symbol(flags[i]):
                value = mix((value + codes[i]) & MASK)
        around = [*side(codes, flags, first - 1, -1), *side(codes, flags, last, 1)]
        if around:
            place = place_hash(codes, flags, first, last)
            entries.append((SYMBOLS | place >> 52) << 8 | value >> 56)
            entries.append(second_entry(place, value >> 48))
    return sorted(entries)


def place_hash(codes: list[int], flags: list[int], first: int, last: int) -> int:
    """Twin: the hash of the letters on both sides."""
    value = int(KEYS[FIGURE_START])
    for letter in [*side(codes, flags, first - 1, -1), 0x110001, *side(codes, flags, last, 1)]:
        value = (value * int(KEYS[TEXT_BASE]) + letter) & MASK
    return mix(value)


def second_entry(place: int, value: int) -> int:
    """Twin: an entry of other bits."""
    return min((SECONDS + (place >> 35) % 2**14) << 8 | value & 0xFF, FREE - 1)


def is_symbol(flags: int) -> bool:
    """Twin: a symbol, an emoji or half a flag."""
    return flags & SYMBOL == SYMBOL or flags & CLASS_MASK in (EMOJI, REGIONAL)


def symbol_runs(codes: list[int], flags: list[int], rows: list[list[int]]) -> list[tuple[int, int]]:
    """Twin: where the runs of symbols stand that have a place."""
    found, i, row = [], 0, 0
    blank = frozenset(map(ord, " \t\n\v\f\r\x1c\x1d\x1e\x1f\x85\u2028"))
    while i < len(codes):
        if not is_symbol(flags[i]):
            i += 1
            continue
        while row < len(rows) and rows[row][4] <= i:
            row += 1
        if row < len(rows) and rows[row][3] <= i:
            i += 1
            continue
        end = i
        while end < len(codes) and (is_symbol(flags[end]) or codes[end] in blank):
            end += 1
        while codes[end - 1] in blank:
            end -= 1
        run = [code for code in codes[i:end] if code not in blank]
        before = "".join(map(chr, codes[:i])).replace("\r", "\n").rpartition("\n")[2]
        bullet = len(run) == 1 and is_bullet(run[0]) and {*map(ord, before)} <= blank
        if not bullet and not {*run} <= {*map(ord, DIVIDERS)}:
            found.append((i, end))
        i = end
    return found


def is_bullet(code: int) -> bool:
    """Twin: what usually marks the items of a list."""
    blocks = ((0x2190, 0x2200), (0x25A0, 0x2600), (0x2794, 0x27C0), (0x2B00, 0x2B60))
    return any(a <= code < b for a, b in blocks) or chr(code) in "★☆※✦✧✱✲✳✴✵✶✷✸✹✺✻✼✽"


DATED = st.sampled_from(
    ["2020年3月2日电", "3月2日 讯", "5日電", "2日", "年", "3 April 2020", "1,000"]
)
SIGNED = st.text("-−–$€¥<>≤=+|~© \n\r★☆▲■☀🌞🇫🇷⠓\ue0015a度元c°%", max_size=8)


@settings(deadline=None, max_examples=500)
@given(st.lists(st.one_of(texts, DATED, SIGNED), max_size=6).map("".join))
def test_places_like_the_twin(text: str) -> None:
    """Any string gives the entries that the plain twin gives."""
    found = made(segmenter="char", keeps_stop_words=True)(text).places
    assert found.dtype == np.uint32
    assert sorted(found.tolist()) == plain_places(text)


def places_of(shingler: Shingler, text: str) -> set[int]:
    """The places of all figures."""
    return {entry >> 8 for entry in firsts(shingler, text)}


def firsts(shingler: Shingler, text: str) -> list[int]:
    """The first entry of each figure."""
    return [entry for entry in shingler(text).places.tolist() if entry >> 8 < NAMES]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("最高气温31度", "最高气温 28 度"),
        ("最高气温31度", "最高气温二十八度"),
        ("共收到1,250件", "共收到９８０件"),
        ("会议于10:30开始", "会议于11:45开始"),
        ("2020年4月3日出版", "2021年11月30日出版"),
        ("rose to 5 percent of all", "rose to 12 percent of all"),
        ("on April 3, 2020 in town", "on May 30, 2021 in town"),
        ("습도는 45퍼센트이다", "습도는 60퍼센트이다"),
        ("температура 21 градус", "температура 7 градус"),
        ("อุณหภูมิ ๓๑ องศา", "อุณหภูมิ ๒๘ องศา"),
        ("بلغت 31 درجة", "بلغت ٢٨ درجة"),
    ],
)
def test_other_values_stand_in_the_same_places(shingler: Shingler, one: str, other: str) -> None:
    """The value of a figure and how it is written do not change its place."""
    assert places_of(shingler, one) == places_of(shingler, other)
    assert set(shingler(one).places) != set(shingler(other).places)


def test_a_word_makes_another_place(shingler: Shingler) -> None:
    """Figures of different things have different places."""
    assert not places_of(shingler, "最高气温31度") & places_of(shingler, "最低气温31度以上")
    assert not places_of(shingler, "rose to 5 percent") & places_of(shingler, "fell by 5 percent")


def test_a_place_reaches_only_so_far(shingler: Shingler) -> None:
    """An edit elsewhere leaves the place alone, and white space without end is not searched."""
    assert places_of(shingler, "昨天最高气温31度以下") == places_of(
        shingler, "今天最高气温31度以下"
    )
    gap = " " * REACH
    assert places_of(shingler, f"甲{gap}31") == places_of(shingler, f"乙{gap}31")


@pytest.mark.parametrize("line", ["2020年3月2日电", "3月2日讯", "2日 电", "三月二日電", "2日訊"])
def test_date_lines_have_no_place(shingler: Shingler, line: str) -> None:
    """When an agency sent its report says nothing of the report."""
    assert len(firsts(shingler, f"新华社北京{line} 记者 今天有5人")) == 1
    assert shingler(f"新华社北京{line}").figures.size > 0


def test_a_date_without_a_date_line_counts(shingler: Shingler) -> None:
    """The same date in the text itself has places."""
    assert len(firsts(shingler, "将于2020年3月2日出版")) == 3
    assert len(firsts(shingler, "2019年底，3月2日电")) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("文章全文（上）见报", "文章全文（下）见报"),
        ("系列报道（一）见报", "系列报道（二）见报"),
        ("今年上半年销量", "今年下半年销量"),
        ("本月上旬销量", "本月下旬销量"),
        ("小说上册出版", "小说下册出版"),
        ("比赛上半场结束", "比赛下半场结束"),
        ("赛季前半段结束", "赛季后半段结束"),
    ],
)
def test_parts_stand_in_the_same_places(shingler: Shingler, one: str, other: str) -> None:
    """What numbers a part without a numeral is a figure."""
    assert places_of(shingler, one) == places_of(shingler, other) != set()
    assert set(firsts(shingler, one)) != set(firsts(shingler, other))


@pytest.mark.slow
def test_a_changed_figure_is_hard_to_miss(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under each of 1,000 keys one of the two entries tells a changed figure; the first alone
    does not under about one in 256."""
    # The text has no listed words, and a table of them for each key would take most of the time.
    no_words = np.zeros(8, np.uint64)
    monkeypatch.setattr(shingle, "_kinds_in_texts", lambda *_, **__: no_words)
    first = 0
    for key in range(1000):
        shingler = Shingler(segmenter="char", keeps_stop_words=True, hash_key=key)
        one, other = (shingler(f"昨天最高气温{n}度以下") for n in (31, 32))
        differing = {int(entry) for entry in one.places} - {int(entry) for entry in other.places}
        assert differing
        first += any(entry >> 8 < NAMES for entry in differing)
    assert 985 < first < 1000
