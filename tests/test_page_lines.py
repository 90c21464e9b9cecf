"""Lines of a page that say when it was made: they are no news, and figures of other lines are."""

# Date lines have dashes and letters of other scripts.
from __future__ import annotations

from typing import Final

import pytest

from dedup_middleware.model.documents import NEW
from tests.test_meaning import ENGLISH
from tests.test_verdict import verdict_of

REPORT: Final = ENGLISH.format(
    "Carpenters from the village rebuilt the wooden stairs beside the chapel and painted the "
    "railing before the guests arrived."
)
BOILERPLATE: Final = [
    ("Published: 4 March 2031\n", ""),
    ("Posted on March 4, 2031 by the desk\n", ""),
    ("By Ann Shepherd, Staff Writer | March 4, 2031 | Updated 10:25 a.m.\n", ""),
    ("Опубликовано: 04.03.2031\n", ""),
    ("Озёрск. 4 марта. ИНТЕРФАКС - ", ""),
    ("ОЗЁРСК, 4 мар — РИА Новости. ", ""),
    ("Seestadt (nna), 4. März - ", ""),
    ("Laguna, 4 mar (NNA).- ", ""),
    ("LAGUNA, 4 (NOTICIAS DEL LAGO) ", ""),
    ("(NNA) - LAGO, 04 MAR - ", ""),
    ("Lagoa, 04 mar 2031 (Nna) - ", ""),
    ("4 March 2031 – ", ""),
    ("4 марта 2031, 10:25. ", ""),
    ("Mis à jour le 4 mars 2031 à 10:25\n", ""),
    ("4 de marzo de 2031, 10:25\n", ""),
    ("4 de marzo de 2031 - ", ""),
    ("", "\nRead also:\nFerry is late for 3 days\nNew bridge opens in 2033"),
    ("", "\nЧитайте также: Паром опоздал на 3 дня"),
    ("发布时间：2031-03-04\n", ""),
    ("", "\nCopyright 2031 The Lakeside Press. All rights reserved."),
    ("", "\n© 2029-2031 Lakeside Herald"),
    ("", "\n25 comments"),
    ("5 min read\n", ""),
    ("Reading time: 4 minutes\n", ""),
    ("24 likes 13 shares\n", ""),
    ("Posted 2 hours ago\n", ""),
    ("Tuesday, 4 March 2031\n", ""),
    ("March 4, 2031\n", ""),
    ("04.03.2031\n", ""),
    ("", "\nTel. 0555 013 422"),
    ("", "\n+1 (555) 013-4223"),
    ("字数：320\n", ""),
    ("2031年3月4日 星期二\n", ""),
    ("来源：云泊晚报 2031年3月4日\n", ""),
    ("", "\n联系电话：0555-013422"),
    ("", "\n点赞 24 评论 13"),
    ("2031年3月4日 10時25分\n", ""),
    ("24いいね 13シェア\n", ""),
    ("조회수 1234\n", ""),
    ("Время чтения: 5 минут\n", ""),
    ("4 марта 2031\n", ""),
    ("5 Min. Lesezeit\n", ""),
    ("Temps de lecture : 5 minutes\n", ""),
    ("4 de marzo de 2031\n", ""),
    ("4 مارس 2031\n", ""),
    ("זמן קריאה: 5 דקות\n", ""),
    ("4 मार्च 2031\n", ""),
    ("อ่าน 5 นาที\n", ""),
    ("1234 lượt xem\n", ""),
    ("Okuma süresi: 5 dakika\n", ""),
    ("Χρόνος ανάγνωσης: 5 λεπτά\n", ""),
]


@pytest.mark.parametrize(("before", "behind"), BOILERPLATE)
@pytest.mark.parametrize("turned", [False, True])
async def test_when_a_page_was_made_is_no_news(before: str, behind: str, *, turned: bool) -> None:
    """A line with the day of publication, a date line, a year of copyright, a count of comments."""
    one, other = REPORT, before + REPORT + behind
    verdict = await (verdict_of(other, one) if turned else verdict_of(one, other))
    assert verdict.is_duplicate


@pytest.mark.parametrize(
    ("before", "behind"),
    [
        ("Updated toll: 77 dead\n", ""),
        ("5 miners\n", ""),
        ("Shares 24 EUR\n", ""),
        ("24 % like it\n", ""),
        ("Read 5 pages\n", ""),
        ("March 4\n", ""),
        ("Tickets 24\n", ""),
        ("", "\nTunnel 0555 013 422"),
        ("", "\n字数考试：320"),
        ("", "\n电话费 320"),
        ("", "\n热线电缆长 320"),
        ("", "\n조회수 목표 1234"),
        ("Updated for 2031: 650 EUR a ton\n", ""),
        ("The fair opens on 4 March 2031\n", ""),
        ("Озёрск. 4 человека утонули - ", ""),
        ("Laguna, 4 dead (all of one family) were found. ", ""),
        ("4 марта 2031, 10:25 минут шёл паром. ", ""),
        ("4 of 31 ferries - the old ones - sank. ", ""),
        ("", "\nRead also what the mayor said of 3 ferries."),
        ("", "\nSee also\nThree ferries sank. The mayor said that 2033 will be better."),
        ("", "\n25 comments were read out at the meeting"),
    ],
)
async def test_figures_of_other_lines_are_news(before: str, behind: str) -> None:
    """A number or a date that such a line says of something else makes another page."""
    verdict = await verdict_of(REPORT, before + REPORT + behind)
    # Whatever the added words in front of a page are, they may be too many.
    reasons = ["other-figures", "too-little-in-common"] if before else ["other-figures"]
    assert verdict.outcome == NEW
    assert verdict.reason in reasons


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("88 views", "412 views"),
        ("1.2K likes · 3 days ago", "1.3K likes · 5 days ago"),
        ("Posted 2 hours ago", "Posted 3 weeks ago"),
        ("Просмотров: 340", "Просмотров: 1204"),
        ("阅读 1024", "阅读 2048"),
    ],
)
async def test_another_count_of_readers_is_no_news(one: str, other: str) -> None:
    """Counters of readers change from hour to hour, on one host too."""
    assert (await verdict_of(f"{REPORT}\n{one}", f"{REPORT}\n{other}")).is_duplicate
    assert (await verdict_of(f"{one}\n{REPORT}", f"{other}\n{REPORT}")).is_duplicate


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("4 replies", "5 replies"),
        ("12 comments", "13 comments"),
        ("500 shares", "300 shares"),
        ("Reading: 7 pm", "Reading: 8 pm"),
    ],
)
async def test_another_count_of_replies_is_news(one: str, other: str) -> None:
    """With it a thread has grown, and what is counted in other words may be the subject."""
    verdict = await verdict_of(f"{REPORT}\n{one}", f"{REPORT}\n{other}")
    assert verdict.reason == "other-figures"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("{}\n3 days ago\n{}", "{}\n9 days ago\n{}"),
        ("{}\nViews 1,204,000\nLikes 33,000\n{}", "{}\nViews 4,870,000\nLikes 91,000\n{}"),
        (
            "The whale\n88 likes\nThe tower\n41 likes\n{} {}",
            "The whale\n41 likes\nThe tower\n88 likes\n{} {}",
        ),
        ("{} {}\nLast eruption:\n3 months ago", "{} {}\nLast eruption:\n9 months ago"),
        (
            "5 minutes ago\n{}\n3 hours ago\n{}\n4 hours ago",
            "2 minutes ago\n{}\n3 hours ago\n{}\n4 hours ago",
        ),
    ],
)
async def test_counters_and_ages_among_the_paragraphs_are_news(one: str, other: str) -> None:
    """Among paragraphs, in a ranking, or behind a label, they are content of the page."""
    half = REPORT.index(". ", len(REPORT) // 2) + 1
    parts = REPORT[:half], REPORT[half:].strip()
    verdict = await verdict_of(one.format(*parts), other.format(*parts))
    assert verdict.outcome == NEW
