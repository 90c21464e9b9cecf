"""The wording of a page: anchors of its clauses, and where its numerals and names stand."""

from __future__ import annotations

import random
import textwrap

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedup_middleware.text.characters import word_lists
from dedup_middleware.text.hashing import SHINGLE_BASE, SHINGLE_START
from dedup_middleware.text.numerals import NUMERALS
from dedup_middleware.text.shingle import Shingler
from dedup_middleware.text.stamps import DATED, STAMP, YEAR
from dedup_middleware.text.wording import FEW_CLAUSES, LEAD, MOST_ANCHORS, NAME, WORD
from tests.text.oracles import hash_word, mix
from tests.texts import WORDS

_M64 = (1 << 64) - 1
SHINGLER = Shingler()
VOCABULARY = [f"{one}{other}" for one in WORDS for other in ("ing", "ward", "ly", "man")]


def plain_anchors(clauses: list[list[str]], shingler: Shingler = SHINGLER) -> set[int]:
    """The anchors of a text of these clauses, in plain Python."""
    keys = [int(key) for key in shingler._keys]
    hashes: list[int] = []
    words: list[int] = []

    def end() -> None:
        joined = keys[SHINGLE_START]
        for word in words:
            joined = (joined * keys[SHINGLE_BASE] + word) & _M64
        hashes.append(mix(joined))
        words.clear()

    for clause in clauses:
        if len(words) >= 4:
            end()
        for token in shingler.tokens(" ".join(clause)):
            word = hash_word(token, shingler._keys)
            if len(words) >= 48:
                end()
            words.append(word)
            if len(words) >= 8 and word % 8 == 0:
                end()
    if len(words) >= (4 if hashes else 1):
        end()
    window = min(8, max(3, -(-len(hashes) // 8))) if len(hashes) > FEW_CLAUSES else 1
    least = {min(hashes[i : i + window]) for i in range(max(1, len(hashes) - window + 1))}
    chosen = {*sorted(least)[: MOST_ANCHORS - LEAD], *hashes[:LEAD]}
    return {mix(one ^ keys[SHINGLE_START]) for one in chosen}


clause = st.lists(st.sampled_from(VOCABULARY), min_size=1, max_size=70)


@given(st.lists(clause, min_size=1, max_size=30))
def test_anchors_are_those_of_the_twin(clauses: list[list[str]]) -> None:
    """Anchors are the smallest hash in each window of clauses (an eighth of them, 3 to 8) and
    the hashes of the first three clauses; of twenty clauses and fewer all. A short clause is joined
    with the next one, a long one is cut behind words chosen by their hashes."""
    text = ", ".join(" ".join(one) for one in clauses) + "."
    assert set(SHINGLER(text).anchors.tolist()) == plain_anchors(clauses)


def test_an_excerpt_shares_an_anchor() -> None:
    """Eleven whole clauses of a long page, wherever they are cut from: the last one ends where the
    excerpt does, and the first two may be one clause of the page."""
    rng = random.Random(1)
    clauses = [" ".join(rng.choices(VOCABULARY, k=rng.randrange(5, 12))) for _ in range(120)]
    page = set(SHINGLER(", ".join(clauses[:40])).anchors.tolist())
    for first in range(30):
        excerpt = SHINGLER(", ".join(clauses[first : first + 11]))
        assert page & set(excerpt.anchors.tolist())
    assert 25 < len(SHINGLER(", ".join(clauses)).anchors) < 48


def test_an_excerpt_of_a_very_long_page_shares_an_anchor() -> None:
    """Excerpts of a page of 400 clauses share one; a page of 2,000 has no more than allowed."""
    rng = random.Random(1)
    clauses = [" ".join(rng.choices(VOCABULARY, k=rng.randrange(5, 12))) for _ in range(2000)]
    page = set(SHINGLER(", ".join(clauses[:400])).anchors.tolist())
    for first in range(0, 389, 11):
        excerpt = SHINGLER(", ".join(clauses[first : first + 11]))
        assert page & set(excerpt.anchors.tolist())
    assert len(SHINGLER(", ".join(clauses)).anchors) == MOST_ANCHORS


@pytest.mark.parametrize("length", [60, 90, 150])
def test_a_lead_shares_an_anchor(length: int) -> None:
    """The beginning of a long page, cut in the middle of a sentence without punctuation."""
    rng = random.Random(length)
    for _ in range(20):
        words = rng.choices(VOCABULARY, k=700)
        lead = SHINGLER(" ".join(words)[: length * 8]).anchors.tolist()
        text = " ".join(word + "." * (rng.random() < 0.04) for word in words)
        assert set(lead) & set(SHINGLER(" ".join(words)).anchors.tolist())
        assert set(SHINGLER(text[: length * 8]).anchors.tolist()) & set(
            SHINGLER(text).anchors.tolist()
        )


@pytest.mark.parametrize("text", ["", "!?", "的", "word", "一二三", "กขค" * 300, "a" * 5000])
def test_texts_without_clauses(text: str) -> None:
    """No text raises or has more anchors than allowed."""
    assert len(SHINGLER(text).anchors) <= MOST_ANCHORS


def values(text: str) -> list[tuple[str, int]]:
    """The word and the sort of each value of a text."""
    found, tokens = SHINGLER(text), SHINGLER.tokens(text)
    return [
        (tokens[place], sort)
        for place, sort in zip(found.positions.tolist(), found.sorts.tolist(), strict=True)
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Paid 42 dollars", [("42", 0)]),
        ("eight shells against five", [("eight", 0), ("five", 0)]),
        ("in April 24 people came", [("april", 0), ("24", 0)]),
        ("the year 1987 was dry", [("year", 0), ("1987", YEAR)]),
        ("a million barrels a day", [("million", 0), ("day", 0)]),
        ("2 million barrels in 3 days", [("2", 0), ("3", 0)]),
        ("выплатил 2 миллиона рублей", [("2", 0)]),
        ("新华社3月2日电 气温15度", [("3", DATED), ("2", DATED), ("15", 0)]),
        ("LAKESIDE, April 3 (Lake Agency) -- the ferry", [("april", DATED), ("3", DATED)]),
        ("ОЗЁРСК, 3 апреля. /ОЗЁРНОЕ/. Паром", [("3", DATED), ("апреля", DATED)]),
        ("the ferry took 320 people (Lake Agency) - so", [("320", 0)]),
        ("on 3/4/2031 the ferry", [("3", 0), ("4", 0), ("2031", YEAR)]),
        (
            "updated 2031-05-07 10:22 by the desk",
            [(word, STAMP) for word in ("2031", "05", "07", "10", "22")],
        ),
        (
            "山谷日报 2031年05月07日 星期三 第12版",
            [(word, STAMP) for word in ("2031", "05", "07", "星期三", "12")],
        ),
        ("升级到12版即可", [("12", 0)]),
        ("ОЗЁРСК, 3 апр — ОЗЁРНОЕ. Паром", [("3", DATED)]),
        ("the ferry, 3 decks high, is well-known - so they say", [("3", 0)]),
        ("the ferry, of the upper bank and its 3 decks - so", [("3", 0)]),
        (
            "新华社4月3日电 湖区3日通报，新增3例",
            [("4", DATED), ("3", DATED), ("3", DATED), ("3", 0)],
        ),
        ("第一，修桥。第二，修路。", [("第一", DATED), ("第二", DATED)]),
        ("第一名和第二名", [("第一名", 0), ("第二名", 0)]),
        (
            "By the desk | April 14, 9:05 am | 12 comments\nthe ferry took 320 people",
            [
                ("april", STAMP),
                ("14", STAMP),
                ("9", STAMP),
                ("05", STAMP),
                ("12", STAMP),
                ("320", 0),
            ],
        ),
        ("the ferry left at 9:05 with 12 people.", [("9", 0), ("05", 0), ("12", 0)]),
        (
            "By the desk | March 4, 2031 | Updated 10:25 a.m.\nthe ferry took 320 people",
            [(word, STAMP) for word in ("march", "4", "2031", "10", "25")] + [("320", 0)],
        ),
        (
            "Published: 4 April 2031\nthe ferry took 320 people",
            [("april", STAMP)] * 3 + [("2031", STAMP), ("320", 0)],
        ),
        ("发布时间：2031-05-07\n渡轮", [("2031", STAMP), ("05", STAMP), ("07", STAMP)]),
        ("Опубликовано 07.05.2031\nПаром", [("07.05.2031", STAMP)] * 3),
        ("Updated toll of 2031: 77 dead\nso", [("2031", YEAR), ("77", 0)]),
        ("Updated for 2031: 5 EUR\nso", [("2031", YEAR), ("5", 0)]),
        ("Updated: 77 dead\nso", [("77", 0)]),
        ("The fair opens on 4 April 2031\nso", [("april", 0)] * 3 + [("2031", YEAR)]),
        ("Copyright 2031 The Lake. All rights reserved.", [("2031", STAMP)]),
        ("© 2029-2031 The Lake", [("2029", STAMP), ("2031", STAMP)]),
        ("the Copyright Act of 2031 says so", [("2031", YEAR)]),
        ("so\n25 comments", [("25", STAMP)]),
        ("25 comments were read out at the meeting\nso", [("25", 0)]),
        ("so\nthere were 25 comments", [("25", 0)]),
        ("25 comments were read, 3 of them twice\nso", [("25", 0), ("3", 0)]),
        ("Озёрск. 3 апреля. ОЗЁРНОЕ - Паром", [("3", DATED), ("апреля", DATED)]),
        ("Паром. 3 человека утонули - так", [("3", 0)]),
        ("the lake won 9:75 in 12 games", [("9", 0), ("75", 0), ("12", 0)]),
        ("it closed last year and opened this week", [("year", YEAR), ("week", YEAR)]),
        ("the next two weeks, a barrel a day", [("two", 0), ("day", 0)]),
        ("the second half, a quarter", [("second", 0), ("half", 0), ("quarter", 0)]),
        ("the ferry in\nApril was late", [("april", 0)]),
        ("the ferry of April\n24 was late", [("april", 0), ("24", 0)]),
        ("on 2031-05-07 the bridge opens", [("2031", YEAR), ("05", 0), ("07", 0)]),
        ("九汀热线", []),
    ],
)
def test_values(text: str, expected: list[tuple[str, int]]) -> None:
    """Numerals in digits and in words, years, date lines and time stamps."""
    assert [one for one in values(text) if one[1] < NAME] == expected


def test_names_are_values_of_short_pages_only() -> None:
    """Each word of a name in a short notice, and the other words; none in an article."""
    notice = "Tickets for the derby against Ferrymoor Rovers are sold out."
    assert [word for word, sort in values(notice) if sort == NAME] == ["ferrymoor", "rovers"]
    assert ("derby", WORD) in values(notice)
    article = " ".join(np.random.default_rng(1).choice(VOCABULARY, 80)) + ". " + notice
    assert not [one for one in values(article) if one[1] >= NAME]


def test_agencies_of_date_lines_are_no_names() -> None:
    """The agency of a date line is not a name, the person in the report is."""
    report = (
        "Паром вышел из порта вчера вечером, как всегда в это время года, и на мостике у штурвала "
        "стояла капитан Лидия Перевозчикова, которую здесь знают уже давно."
    )
    for line in ("ОЗЁРСК, 3 апр — РИА Новости.", "Озёрск. 3 апреля. Интерфакс -"):
        named = [word for word, sort in values(f"{line} {report}") if sort == NAME]
        assert not {"риа", "новости", "интерфакс"} & set(named)
        assert {"лидия", "перевозчикова"} <= set(named)


@pytest.mark.parametrize("width", [50, 64, 80])
def test_lines_may_be_wrapped_anywhere(width: int) -> None:
    """A text wrapped at a fixed width has the shingles, values, names and anchors of the text."""
    text = (
        "the ferry company of Lower Ferrymoor said on Monday that fares between Castle Quay and "
        "Upper Ferrymoor will rise by 4.5 percent from April 24, which brings in 2.5 million "
        "dollars a year. the mayor, John Potter, told the Lakeside Herald in May 2031 that 18 mln "
        "dlrs were set aside for a bridge, but nobody had seen the plans of Ann Shepherd so far."
    )
    wrapped = textwrap.fill(text, width, break_on_hyphens=False)
    one, other = SHINGLER(text), SHINGLER(wrapped)
    for name in ("features", "values", "sorts", "positions", "anchors", "places", "clauses"):
        assert getattr(one, name).tolist() == getattr(other, name).tolist(), name


def test_flags_of_words() -> None:
    """1: the word begins a clause or line, also behind a stop word; 2: it has a capital letter."""
    text = "Cranes unload timber, and barges wait\nthe pilots sleep. Ferries: none"
    shingles = SHINGLER(text)
    assert SHINGLER.tokens(text) == [
        *("cranes", "unload", "timber", "barges", "wait", "pilots", "sleep", "ferries", "none")
    ]
    assert shingles.begins.tolist() == [2, 0, 0, 1, 0, 1, 0, 3, 1]


def figure_values(text: str) -> list[int]:
    """The hashes of a text's values that are no words of a short page."""
    found = SHINGLER(text)
    return found.values[found.sorts < NAME].tolist()


@pytest.mark.parametrize(
    ("words", "digits"),
    [
        ("eight people", "8 people"),
        ("his first hundred days", "his first 100 days"),
        ("twenty-one people", "21 people"),
        ("Forty five people", "45 people"),
        ("two hundred people", "200 people"),
        ("eight million dollars", "$8,000,000"),
        ("a million barrels", "1,000,000 barrels"),
        ("eight percent of them", "8% of them"),
        ("eight cents against five cents", "8 cents against 5 cents"),
        ("a two-day visit", "a 2-day visit"),
        ("восемь человек", "8 человек"),
        ("из пяти домов", "из 5 домов"),
        ("двадцать два миллиона рублей", "22 млн рублей"),
        ("полтора миллиона рублей", "1,5 млн рублей"),
        ("п'ять будинків", "5 будинків"),
        ("acht Menschen", "8 Menschen"),
        ("vingt personnes", "20 personnes"),
        ("ثلاثة رجال", "3 رجال"),
    ],
)
def test_numerals_in_words_are_those_in_digits(words: str, digits: str) -> None:
    """The same number has one value, with its multiplier, currency, unit and percent, whether a
    site writes it in words or in digits."""
    assert figure_values(words) == figure_values(digits) != []


def test_other_numerals_in_words_are_other_values() -> None:
    """Eight is not nine, nor 80; eight million is not eight; eight dollars are not eight euros."""
    texts = ("eight", "nine", "eighty", "eight million", "eight dollars", "eight euros")
    assert len({tuple(figure_values(f"paid {text} to them")) for text in texts}) == len(texts)


@given(st.sampled_from(sorted(NUMERALS)), st.sampled_from(["{} left", "the {}", "{}"]))
def test_a_numeral_in_a_word_is_the_token_of_its_digits(word: str, template: str) -> None:
    """In shingles, anchors and the words of titles a whole number is the same token as in digits;
    its value is that of the list, read here in plain Python."""
    (number,) = (
        float(name.removeprefix("number-"))
        for name, words in word_lists().items()
        if name.startswith("number-") and word in words
    )
    digits = template.format(f"{number:g}")
    text = template.format(word)
    if number == int(number):
        assert SHINGLER(text).features.tolist() == SHINGLER(digits).features.tolist()
        for is_title in (False, True):
            one = SHINGLER.words(text, is_title=is_title)
            assert one.tolist() == SHINGLER.words(digits, is_title=is_title).tolist()
    assert figure_values(text) == figure_values(digits)
