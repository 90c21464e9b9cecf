"""Lines on where an English report is from are known by their wording; news about papers is not."""

from __future__ import annotations

import time

import pytest

from dedup_middleware.text.englishlines import is_english_line
from dedup_middleware.text.pagelines import is_page_line
from dedup_middleware.text.relevant import relevant
from dedup_middleware.text.suspects import suspects
from tests.text.test_relevant import ARTICLE

TEXT = f"{ARTICLE}\n{ARTICLE}"

FROM = """
With AFP and Lakeside Press
(via Lakeside Gazette)
Via Reuters
via the Port Lake Times
This article is more than 2 months old
Read the full story at Lakeside Daily →
Continue reading at the source: lakeside.example
Home | News | Courts
Lakeside Press • Published 6:12 p.m. CT April 8 • 2 min read
Surfing | 3 hours ago
Share this article: Facebook Twitter Email Print
Report a correction | Latest from Ludlow
This is a preview. Subscribe for £1 a week to read the whole article. Already a subscriber? Log in
Sign up for the Lakeside Morning email
The band leads the procession. Photo: Ann Shepherd
Jump to recipe · Print · Rate this recipe ★★★★☆ (127)
(This story has not been edited by Lakeside staff and is auto-generated from a syndicated feed.)
(Except for the headline, this story has not been edited by our staff and is published from a wire feed.)
This story has been published from an agency feed without modifications to the text. Only the headline has been changed.
(Only the headline of this report may have been reworked by the staff; the rest of the content is auto-generated from a syndicated feed.)
(With inputs from agencies)
With files from Lakeside News
— With files from The Lakeside Press
With additional reporting by Ann Shepherd and Bob Stone
This report by The Lakeside Press was first published Sept. 7, 2031.
This article was originally published by the Lakeside Gazette. Read the original article here.
This article originally appeared on Lakeside Gazette: Ferry is late again
This story was originally published March 3, 2031, 5:00 AM.
This article is republished from Lakeside Review under a Creative Commons license. Read the original article.
This is a developing story. Check back for updates.
Lakeside Press writers Ann Shepherd in Port Lake and Bob Stone in Ludlow, Shropshire, contributed to this report.
Lakeside Press journalist Ann Shepherd in Ludlow contributed to this report.
Edited by Ann Shepherd
Edited by Ann Shepherd | Updated Mar 3, 2031, 18:42 IST
Published 5:41 PM PDT, September 5, 2031
Published On: Mar 3, 2031
Posted Mon 3 Mar 2031, updated Tuesday, 4 Mar 2031
By Business staff
Agence France-Presse in Lima
BBC News, East Lakeside
Ann Shepherd, The Canadian Press
SOURCE Lakeside Robotics
View source version on businesswire.com: https://www.businesswire.example/news/3/en/
Logo - https://media.lake.example/3.jpg
AP hockey: https://lake.example/hub/hockey
More AP hockey: https://lake.example/hub/hockey and https://lake.example/hub/ice
Follow BBC Lakeside on Facebook, on X, or on Instagram. Send your story ideas to lake@lake.example or via WhatsApp on 0700 900 3000.
Have a news tip? Email us at news@lake.example.
Support local journalism by subscribing to the Lakeside Gazette.
Ann Shepherd covers schools for the Gazette. Reach her at ann@lake.example or 555-0142. Follow her on Twitter: @ann.
Contact reporter Ann Shepherd at ann@lake.example or 555-555-0142.
© Lakeside Press 2031.
Purchase Licensing Rights, opens new tab
after newsletter promotion
The Associated Press
This article was published more than 1 year ago
LISTEN 3 min
Listen to this article: 4 minutes
""".strip().split("\n")  # noqa: E501

OF_THE_SUBJECT = """
This story was first published in 1931 and still sells
This report was edited by the minister, who removed the feed prices
This article was originally published by the lake and nobody read it
This story was first published by the Lakeside Gazette: the mayor resigned on Friday
This story has not been told before: the ferry left without its captain
With inputs from farmers rising, the mill closed
With files from the court the lawyer left
This is a developing story of a lake that dries up
Only the headline was true
Via Roma
Via Giuseppe Garibaldi
— Via del Post
BBC News apologises to the minister
Ann Shepherd of The Associated Press was killed
Ann Shepherd, who founded the Canadian Press
Reuters in talks to sell the agency
Follow the ferry at https://lake.example/3 as it sinks
More ferries sank than in 2030: https://lake.example/3
Have a tip? Leave 10% for the waiter
Support local journalism, minister says
Ann Shepherd covers her eyes. Reach for the lake @ann is drowning in
Ann Shepherd is a reporter who was freed. She was held at the lake @ann writes
Contact Ann Shepherd, whom 3 men took at the lake, @ann
Published 5 books in September 2031
Edited by three children
By Monday staff had left the port
Posted Monday 3 Mar 2031, updated rules for ferries
This story was published more than 1 year after the flood
Listen to this man: 4 minutes are enough
""".strip().split("\n")


@pytest.mark.parametrize("line", FROM)
def test_lines_on_the_source_are_left_out(line: str) -> None:
    """Below an article and, if the line is no label, between its paragraphs."""
    assert is_page_line(line)
    assert suspects(line)[0]
    assert relevant(f"{TEXT}\n{line}") == TEXT


@pytest.mark.parametrize("line", OF_THE_SUBJECT)
def test_news_with_the_same_words_is_kept(line: str) -> None:
    """Sentences that begin with the same words."""
    assert not is_page_line(line)


def test_links_with_a_bar_are_left_out() -> None:
    """Indian papers put a bar behind the label of a link."""
    assert (
        relevant(f"{ARTICLE}\nAlso Read | Ferry is late again\nThe end.") == f"{ARTICLE}\nThe end."
    )
    assert relevant(f"{ARTICLE}\nLudlow | Ferry is late again\nThe end.").count("|") == 1


def test_long_lines_take_no_long_time() -> None:
    """No form backtracks: the longest lines of each beginning take a millisecond at most."""
    begins = "This story by A", "With files from A", "Follow BBC A", "AP A", "Ann A", "SOURCE A"
    start = time.perf_counter()
    for begin in begins:
        for rest in (" A", " and A", ", A", " at A", " the A", " a", ". "):
            is_english_line((begin + rest * 160)[:320])
    assert time.perf_counter() - start < 0.5
