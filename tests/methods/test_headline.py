"""A headline that another site puts above the text."""

from __future__ import annotations

import numpy as np
import pytest

from dedup_middleware.text.datelines import HEADLINE
from dedup_middleware.text.shingle import Shingler
from tests.methods.test_content_evidence import verdict
from tests.methods.test_one_host import on_host

ENGLISH = (
    "The footbridge over the Alder at Castle Lane will stay closed until the autumn, after divers "
    "found cracks in two of its piers. Engineers had hoped to reopen it before the holidays, but "
    "the county says that steel for the repair comes later than promised.\n"
    "Walkers are sent round by the weir, which takes a quarter of an hour longer. A shuttle boat "
    "was considered and rejected because the current is too strong in spring. Shops near the "
    "bridge complain that fewer customers come, and ask for signs at the car park."
)
RUSSIAN = (
    "Пешеходный мост через Ольховку останется закрытым до осени, поскольку водолазы нашли трещины "
    "в двух опорах. Инженеры надеялись открыть проход до каникул, однако сталь для ремонта "
    "поступит позже, чем обещал завод.\n"
    "Пешеходов направляют в обход через плотину, дорога занимает на четверть часа больше. От лодки "
    "отказались, так как весной течение слишком сильное. Владельцы магазинов у моста жалуются, что "
    "покупателей стало меньше, и просят поставить указатели возле стоянки."
)
CHINESE = (
    "白杨河上的城墙巷人行桥将关闭到秋天，因为潜水员在两个桥墩上发现了裂缝。工程师原本希望在假期前恢复通行，"
    "但是维修用的钢材比承诺的时间晚到。\n"
    "行人需要绕道水坝，路程多花一刻钟。曾经考虑安排渡船，由于春季水流太急而放弃。桥头的商店抱怨顾客减少，"
    "要求在停车场设立指示牌。"
)
PAGES = [
    (ENGLISH, "Divers' discovery keeps riverside shopkeepers waiting all summer long"),
    (RUSSIAN, "Торговцы набережной пострадали из-за долгого ожидания поставщиков металла"),
    (CHINESE, "材料迟到 沿岸商户苦等整个夏季开放"),
]


@pytest.mark.parametrize(("text", "headline"), PAGES)
async def test_a_headline_above_the_text_says_nothing_new(text: str, headline: str) -> None:
    """On another site it may have more words than lead and tail otherwise may, on the same site it
    may be all that tells two pages apart; as a sentence it is content."""
    assert (await verdict(text, f"{headline}\n{text}")).outcome == "duplicate"
    assert (await on_host(text, f"{headline}\n{text}", "")).outcome == "new"
    assert (await verdict(text, f"{headline}.\n{text}")).outcome == "new"


@pytest.mark.parametrize(
    "headline", ["Divers cost riverside shopkeepers 40,000 a week", "Now Mayor Ann Kerr pays"]
)
async def test_numerals_and_names_of_a_headline_are_compared(headline: str) -> None:
    """One that the stored page lacks makes another page."""
    assert (await verdict(ENGLISH, f"{headline}\n{ENGLISH}")).outcome == "new"


LONG = "a line of more than eighty columns, as a paragraph has that is not wrapped by hand " * 3


@pytest.mark.parametrize(
    ("line", "text", "is_headline"),
    [
        ("ferry is late", LONG, True),
        ("ferry is late", f"by our staff\n{LONG}", True),
        ("ferry is late?", LONG, True),
        ("ferry is late.", LONG, False),
        ("渡船晚点。", LONG, False),
        ("ferry " * 24, LONG * 9, False),
        (LONG[:83], LONG[:90], False),  # a quarter of the page at most
        ("the ferry is late as the fog", f"{LONG[:64]}\n" * 9, False),
        ("渡船今晨晚点", "雾" * 41, True),
        ("渡船今晨晚点", "雾" * 40, False),
    ],
)
def test_first_lines_that_are_headlines(line: str, text: str, is_headline: bool) -> None:
    """They are short, end without a full stop, and lines that are not wrapped follow them."""
    shingler = Shingler(keeps_stop_words=True)
    marks = shingler(f"{line}\n{text}").begins & HEADLINE
    assert np.count_nonzero(marks) == is_headline * len(shingler.tokens(line))
    assert not marks[len(shingler.tokens(line)) :].any()


def test_a_page_of_one_line_has_no_headline() -> None:
    """Nor has one that begins with an empty line."""
    for text in (LONG, f"\n{LONG}", ""):
        assert not (Shingler()(text).begins & HEADLINE).any()
