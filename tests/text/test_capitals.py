"""Names with capital letters: which are found, and which say who made the page."""

from __future__ import annotations

import functools

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dedup_middleware.text.places import NAMES, SECONDS, SINGLES
from dedup_middleware.text.shingle import Shingler
from tests.languages import REPORTS
from tests.signature.differing import differing_figures, figure_sketch
from tests.text.nametwins import fold, plain_names, runs
from tests.text.oracles import texts

made = functools.cache(Shingler)
REPORT = (
    "the harbour council said on the last day of the year that {} would open the new bridge. "
    "most of the shops near the gate were closed, and the ferries stayed away until the evening. "
)

WORDS = st.sampled_from(
    (
        *("John", "Smith", "Éva", "Łódź", "Анна", "Ωμέγα", "ＴＯＭ", "Ｊane", "O'Neill", "McKay"),
        *("NATO", "U.S.", "J.", "B", "Mr.", "April", "the", "said", "met", "in", "by", "and"),
        *("By", "Photo:", "reporting", "Editing", "source", "von", "und", "(", ")", "“", "”", ","),
        *(
            ".",
            ";",
            "/",
            "-",
            "\n",
            "3",
            "2020",
            "市长",
            "王磊",
            "说",
            "\u00ad",
            "…",
            "ﬁn",
            "İzmir",
        ),
    )
)
GAPS = st.sampled_from((" ", " ", " ", "", "-", ". "))


def entries_of(text: str, segmenter: str = "jieba") -> list[int]:
    """The entries of the names of a text."""
    found = made(segmenter=segmenter)(text).places.tolist()
    return sorted(e for e in found if NAMES <= e >> 8 < SECONDS)


def differ(one: str, other: str) -> int:
    """In how many places two texts have other figures or names."""
    a, b = (figure_sketch(made()(text).places) for text in (one, other))
    return differing_figures(a, b[None])[0]


def names_of(text: str) -> list[str]:
    """The names that count."""
    page = fold(text)
    return [page.text[name.begin : name.end] for name in runs(page) if name.counts]


@pytest.mark.slow
@settings(deadline=None, max_examples=500)
@given(
    st.lists(st.tuples(WORDS, GAPS), max_size=14).map(
        lambda parts: "".join(a + b for a, b in parts)
    ),
    st.integers(0, 30),
    st.sampled_from([" and so on", " und die"]),
)
def test_names_like_the_twin(text: str, more: int, words: str) -> None:
    """Any text gives the entries that the plain twin gives, be there many other words or few."""
    text += words * more
    assert entries_of(text) == plain_names(text)


@settings(deadline=None, max_examples=100)
@given(
    st.lists(st.tuples(WORDS, GAPS), max_size=140).map(
        lambda parts: "".join(a + b for a, b in parts)
    )
)
def test_pages_with_many_names_like_the_twin(text: str) -> None:
    """So does a page on which so many words have capitals that single ones do not count."""
    text += " and so on" * 200
    assert entries_of(text) == plain_names(text)


@settings(deadline=None, max_examples=300)
@given(texts)
@example("中\U0002f800Ab and so on, Cd\U0002f81a ef")
@example("x C++ł中")
def test_any_string_like_the_twin(text: str) -> None:
    """So does any string."""
    assert entries_of(text) == plain_names(text)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("yesterday John Smith met Angela Merkel", ["john smith", "angela merkel"]),
        ("the mayor of Leeds, Ann Lee,", ["leeds", "ann lee"]),
        ("it began. London was quiet", []),
        ("it began. John Smith was quiet", ["john smith"]),
        ("he said: “We know of", []),
        ("a talk with Mr. Smith and J. K. Rowling", ["mr. smith", "j. k. rowling"]),
        ("the talks between NATO and the", []),
        ("the talks between UN and the", ["un"]),
        ("it ended. UN talks began", []),
        ("the NATO chief Jens Berg", ["jens berg"]),
        ("a man from Jean-Pierre’s town", ["jean-pierre's"]),
        ("президент принял Анну Петрову", ["анну петрову"]),
        ("a talk on April 3 with", []),
    ],
)
def test_known_names(text: str, found: list[str]) -> None:
    """Capitals inside a sentence make a name, capitals at its beginning alone do not."""
    text = f"the news of the day was that {text} for a while, and so on and so forth"
    names = [name for name in names_of(text) if name != "april"]
    assert len(entries_of(text)) == len(found)
    assert found in (names, [])


@pytest.mark.parametrize(
    ("one", "other"),
    [("John Smith", "Peter Brown"), ("Leeds", "York"), ("Ann Lee-Potter", "Tom Fox-Miller"),
     ("Манчестер", "Лион"), ("Müller", "Özdemir"), ("US", "UK"), ("U.S.", "UN"), ("LA", "NY"),
     ("FBI", "CIA"), ("US Treasury", "US Senate")],
)  # fmt: skip
def test_another_name_is_told(one: str, other: str) -> None:
    """Two pages that differ in a person or a town alone have other names."""
    assert differ(REPORT.format(one), REPORT.format(other)) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("John Smith", "Jon Smith"),
        ("John Smith", "John Smlth"),
        ("John Smith", "ohn Smith"),
        ("John Smith", "John"),
        ("John Smith", "Mr John Smith"),
        ("John Smith", "the mayor"),
        ("John Smith", "JOHN SMITH"),
        ("NATO", "ATO"),
        ("US", "U.S."),
        ("US", "United States"),
        ("Müller", "Mu\u0308ller"),
        ("Müller", "Mül\u00adler"),
        ("John Smith", "Ｊｏｈｎ Ｓｍｉｔｈ"),
    ],
)
def test_edits_of_a_name_make_no_other_one(one: str, other: str) -> None:
    """A wrong or missing letter, a word more or less, and another writing change no name."""
    assert differ(REPORT.format(one), REPORT.format(other)) == 0


@pytest.mark.parametrize(
    "credit",
    [
        "By John Smith", "reporting by John Smith", "Photo: John Smith", "photo by John Smith",
        "(John Smith/Getty)", "Editing by John Smith and Ann Lee", "Von Hans Schmidt",
        "Reporting by John Smith; Editing by Ann Lee", "Source: Lake Herald",
    ],
)  # fmt: skip
def test_credits_have_no_place(credit: str) -> None:
    """Who wrote, edited or photographed says nothing of the report."""
    report = REPORT.format("a lady") * 2
    assert entries_of(f"{report}\n{credit}\n{report}") == []
    assert entries_of(f"{credit} \n{report}") == []


def test_longer_names_come_first() -> None:
    """Names of several words lie below those of one, so that they are kept before them."""
    low, high = entries_of(REPORT.format("John Smith of Leeds"))
    assert low >> 8 < SINGLES <= high >> 8


@pytest.mark.parametrize("language", REPORTS)
def test_capitals_make_no_other_page(language: str) -> None:
    """A page in capitals, in small letters or with a heading in title case has no other names."""
    text = REPORTS[language][0].format(14, 320, 2.5)
    title = "the harbour council closes the old bridge for a year\n"
    for other in (text.upper(), text.lower(), text.title()):
        assert differ(text, other) == differ(other, text) == 0
    assert differ(title + text, title.title() + text) == 0
    assert differ(title + text, title.capitalize() + text) == 0


def test_pages_near_the_line_are_alike() -> None:
    """Of two copies one of which has just too many capitals, none has other names."""
    text = " ".join([REPORT.format("John Smith of Leeds and Ann Lee of York")] * 2)
    capitals = "".join(f" Ab{chr(97 + i % 26)}" for i in range(40))
    changed = text.replace("John", "Peter").replace("York", "Lyon")
    assert entries_of(text + capitals) == []
    assert differ(text, changed) > 0
    assert differ(text, changed + capitals) == 0


def test_german_names_have_several_words() -> None:
    """German writes nouns with capitals, so of them only persons and the like are compared."""
    text = (
        "Der Rat hat am Montag mit {} über die Brücke am Hafen und den Bau der Schule gesprochen. "
        "Die Kosten sind hoch und das Dach ist alt, sagte der Leiter des Amtes für {} und mehr."
    )
    one, other = text.format("Helene Brandt", "Bau"), text.format("Sabine Winkler", "Bau")
    assert differ(one, other) == 1
    assert differ(one, text.format("Helene Brandt", "Wohnen")) == 0
    assert differ(f"{one} Großer Rat tagt.", f"{one} Kleiner Markt tagt.") == 0


def test_rows_of_a_table_have_no_place() -> None:
    """Between figures and other names alone every row has the same place, so none is one."""
    rows = ["1 Smith 20", "2 Brown 30", "3 Green 40", "4 White 50", "5 Black 60"]
    text = REPORT.format("the mayor") + "the results were {} at the end of the day"
    few, many = (entries_of(text.format(" ".join(part))) for part in (rows[:2], rows))
    assert len(few) == len(many) == 2  # the first and the last, besides the words around


def test_single_characters_have_no_names() -> None:
    """The segmenter `char` leaves no words to look at; the others find names with capitals."""
    text = REPORT.format("John Smith")
    assert entries_of(text, "char") == []
    assert entries_of(text, "words") == entries_of(text, "fmm") == entries_of(text) != []
