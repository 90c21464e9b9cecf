"""Lines at the edges of a page are known by their vocabulary; news with its words is kept."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedup_middleware.text.edgelines import edge_lines, is_list_label, says_page
from dedup_middleware.text.relevant import relevant
from tests.text.test_relevant import ARTICLE as LINES

ARTICLE = LINES.replace("\n", " ")  # one paragraph
ABOUT_THE_PAGE = """
Support local journalism. Subscribe today.
Do you have a story to share? WhatsApp us on 000 000 0000.
Posted in City Life | Permalink | 4 Comments »
Click to share on Facebook (Opens in new window)
Copyright © 2031 by Lake Press. All Rights Reserved.
This material is reprinted with permission.
При полной или частичной перепечатке материалов ссылка на «Озёрные вести» обязательна.
Если вы заметили ошибку в тексте, выделите ее мышью и нажмите
Газета зарегистрирована. Адрес редакции: ул. Озёрная, 40. Тираж 14 600 экз.
Скачайте приложение «Озерск» в RuStore и будьте в курсе событий
[ Напечатать ] [ Отправить по e-mail ]
Распечатать, обсудить на форуме
""".strip().split("\n")
OF_THE_SUBJECT = """
The constitution was amended on Monday.
The newsletter, Vision, will be published every three months
Readers can subscribe to the issue in the spring
Facebook Lost Subscribers After Privacy Case
The comments of the mayor were not published
He posted a profit of 4 million
Редакция газеты сгорела в среду
Комментарий губернатора опубликует газета
Подписание договора перенесли на 4 мая
Тираж лотереи разыграли 3 апреля
Council members call for local support today
Ferry
Download the app for Android 9 and later
YouTube, Instagram down for users in Kenya
Газета «Копейка», тираж 150 000
""".strip().split("\n")


@pytest.mark.parametrize("line", ABOUT_THE_PAGE)
def test_lines_of_pages_are_known_by_their_vocabulary(line: str) -> None:
    """Before the first paragraph and behind the last one; between paragraphs they are compared."""
    assert says_page(line)
    assert relevant(f"{line}\n{ARTICLE}") == ARTICLE
    assert relevant(f"{ARTICLE}\n{line}") == ARTICLE
    between = f"{ARTICLE}\n{line}\n{ARTICLE}"
    assert _edges(*between.split("\n")) == set()


@pytest.mark.parametrize("line", OF_THE_SUBJECT)
def test_news_with_words_of_pages_is_compared(line: str) -> None:
    """One word of another kind in four is enough."""
    assert not says_page(line)
    assert relevant(f"{ARTICLE}\n{line}") == f"{ARTICLE}\n{line}"


def test_an_offer_is_compared() -> None:
    """Its price may be all in which two pages differ."""
    offer = "Subscribe today for $1 a month."
    assert says_page(offer)
    assert relevant(f"{ARTICLE}\n{offer}") == f"{ARTICLE}\n{offer}"


def test_a_part_of_a_wrapped_sentence_is_no_line_of_the_page() -> None:
    """A line that goes on in small letters, or the one behind it."""
    lines = ["Bond holders may by permission subscribe", "to all of the 40 ferries.", ""]
    assert _edges(ARTICLE, *lines) == set()
    assert _edges(ARTICLE, "Ferries sank, and may", "subscribe here") == set()


@pytest.mark.parametrize(
    "label",
    ["Trending Stories", "Most read in News", "Новости smi2.ru", "Это может быть интересно"],
)
def test_a_list_of_headlines_is_left_out_with_its_label(label: str) -> None:
    """Of any such words; not if they announce something else, or sentences follow."""
    assert is_list_label(label.lower())
    assert relevant(f"{ARTICLE}\n{label}\nFerry is late\nWho built the bridge?") == ARTICLE
    sentence = f"{ARTICLE}\n{label}\nThe ferry is late."
    assert relevant(sentence) == sentence
    assert not is_list_label(f"{label} ferry".lower())
    headline = f"{label}: the ferry sank\n{ARTICLE}"  # the page's own
    assert relevant(headline) == headline


@given(st.lists(st.text(max_size=120), max_size=24))
def test_any_lines_are_read(lines: list[str]) -> None:
    """The places are those of lines that are not blank."""
    assert all(lines[place].strip() for place in _edges(*lines))


def _edges(*lines: str) -> set[int]:
    return edge_lines(lines, set(range(len(lines))))
