"""The kernel names every line that is left out, and few of the others."""

from __future__ import annotations

import textwrap

from hypothesis import given
from hypothesis import strategies as st

from dedup_middleware.text import relevant
from dedup_middleware.text.pagelines import BUTTONS, PAGE_ROWS, is_page_line, is_page_row
from dedup_middleware.text.suspects import LABELS as LINKS
from dedup_middleware.text.suspects import suspects
from tests.text.test_pagelines import ABOUT_THE_PAGE, OF_THE_SUBJECT
from tests.texts import article, english

LINES = [*ABOUT_THE_PAGE, *OF_THE_SUBJECT]
LABELS = sorted(LINKS | PAGE_ROWS)
_ends = st.text(alphabet=" \t\r\u3000\xa0()[]【】▲.。!：:…—»x7", max_size=3)


def _found(text: str) -> list[int]:
    return suspects(text)[0]


@given(
    st.lists(
        st.tuples(
            _ends,
            st.sampled_from([*LINES, *LABELS]) | st.text(max_size=20),
            st.sampled_from([str, str.upper, str.title, str.lower]),
            st.sampled_from(["", ": Ferry is late", "：渡轮晚点", " 3 of 7", " Getty Images"]),
            _ends,
        ),
        max_size=6,
    )
)
def test_all_lines_that_are_left_out_are_looked_at(
    parts: list[tuple[str, str, object, str, str]],
) -> None:
    """In any case of their letters, with anything around them."""
    text = "\n".join(a + case(line) + b + c for a, line, case, b, c in parts)  # type: ignore[operator]
    lines = text.split("\n")
    found = _found(text)
    assert found == sorted(set(found))
    for place, line in enumerate(lines):
        left_out = is_page_line(line) or is_page_row(line) or relevant.is_link(line)
        label = relevant._is_label(line.strip().rstrip(":：").rstrip())
        assert place in found or not (left_out or label), line


def test_each_label_and_form_is_looked_at() -> None:
    """None depends on what hypothesis draws."""
    known = [line for line in [*LINES, *LABELS, *BUTTONS] if is_page_line(line)]
    credited = "THE FERRY WAS SUNK. CREDIT: THE COMMANDER Ann Shepherd"
    assert is_page_line(credited)
    for line in [*known, credited, *LABELS, *(f"{label}: x" for label in LABELS)]:
        assert _found(line) == [0], line


def test_few_lines_of_articles_are_looked_at() -> None:
    """Else it would take as long as asking of each line."""
    lines = [english(number) for number in range(200)] + [article(number) for number in range(200)]
    assert len(_found("\n".join(lines))) < len(lines) / 10


def test_few_wrapped_lines_are_looked_at() -> None:
    """A wrapped line may begin with any word, but few begin like a line about the page."""
    wrapped = [line for number in range(200) for line in textwrap.wrap(english(number), 70)]
    cut = [article(number)[i : i + 60] for number in range(200) for i in range(0, 240, 60)]
    for lines in (wrapped, cut):
        assert len(_found("\n".join(lines))) < len(lines) / 20
