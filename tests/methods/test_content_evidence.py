"""The default rule by evidence: what makes a page a duplicate, and what keeps it."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from typing import Any

import pytest

from dedup_middleware import Deduplicator, Document, Options, Verdict
from dedup_middleware.core.fingerprinter import Fingerprinter
from dedup_middleware.signature import evidence
from dedup_middleware.text.wording import NO_NEWS
from tests.texts import NOUNS, WORDS, article, sentences

ARTICLE = sentences(1, 40)


async def verdict(
    stored: str, new: str, titles: tuple[str, str] = ("", ""), **options: Any
) -> Verdict:
    """What becomes of a page on another host than the stored one."""
    chosen = Options(**{"index_url": "memory:", "hash_key": "1", **options})
    async with Deduplicator(chosen) as dedup:
        first = Document(key="https://one.example/1", text=stored, title=titles[0])
        await dedup.commit(await dedup.decide(first))
        return await dedup.decide(Document(key="https://two.example/2", text=new, title=titles[1]))


@pytest.mark.parametrize("share", [2, 4, 8, 16])
async def test_excerpts_are_found(share: int) -> None:
    """A part of a page up to sixteen times its length, word for word."""
    page = sentences(share, 16 * 12)
    part = page[20 : 20 + len(page) // share]
    found = await verdict(" ".join(page), " ".join(part))
    assert (found.outcome, found.reason) == ("duplicate", "near-duplicate")
    assert found.match is not None
    assert found.match.similarity == 1.0
    assert "anchor" in found.match.tables


async def test_a_page_of_symbols_is_held_by_an_equal_one_only() -> None:
    """The words between its symbols say nothing of them."""
    rng = random.Random(5)
    board = "".join(rng.choices("♔♕♖♗♘♙ ", k=300))
    advert = "Follow us for more stories like this one, and download the app today."
    stored = " ".join(ARTICLE) + " " + advert
    assert (await verdict(stored, f"{board}\n{advert}")).outcome == "new"
    assert (await verdict(f"{board}\n{advert}", f"{board}\n{advert}")).outcome == "duplicate"


@pytest.mark.parametrize("place", [2, 20, len(ARTICLE)])
async def test_addresses_in_sentences_are_words_and_numerals(place: int) -> None:
    """A copy with the e-mail address of its own site has a few new words; with another number in
    a URL it has another numeral, and stays."""

    def page(address: str) -> str:
        line = f"Readers find the plans of the harbour wall at {address} for a week."
        return " ".join([*ARTICLE[:place], line, *ARTICLE[place:]])

    mail = await verdict(page("plans@one.example"), page("editor@two.example"))
    assert (mail.outcome, mail.reason) == ("duplicate", "near-duplicate")
    url = "https://{}.example/plans/{}"
    found = await verdict(page(url.format("one", 55321)), page(url.format("two", 55321)))
    assert (found.outcome, found.reason) == ("duplicate", "near-duplicate")
    found = await verdict(page(url.format("one", 55321)), page(url.format("one", 99102)))
    assert (found.outcome, found.reason) == ("new", "other-figures")


async def test_words_said_again_and_again_count_little() -> None:
    """A sentence of its own before a thousand emoji that a stored page has too."""
    emoji = "😀" * 1000
    page = f"The ferry to the upper bank was stopped by the mayor. {emoji}"
    assert (await verdict(" ".join(ARTICLE) + emoji, page)).outcome == "new"


async def test_a_paragraph_of_its_own_is_kept() -> None:
    """Three new sentences in forty: dropping the page would lose them."""
    new = [*ARTICLE[:20], *sentences(2, 3), *ARTICLE[20:]]
    found = await verdict(" ".join(ARTICLE), " ".join(new))
    assert (found.outcome, found.reason) == ("new", "too-little-in-common")


async def test_the_longer_version_is_kept() -> None:
    """The fuller report after the flash is new, and the flash after it is not."""
    flash = " ".join(ARTICLE[:8])
    assert (await verdict(flash, " ".join(ARTICLE))).outcome == "new"
    assert (await verdict(" ".join(ARTICLE), flash)).outcome == "duplicate"


async def test_scattered_edits_are_found() -> None:
    """A word in fifteen replaced, and the sentences in another order."""
    words = " ".join(ARTICLE).split(" ")
    for i in range(7, len(words), 15):
        end = words[i][-1:].strip("abcdefghijklmnopqrstuvwxyz")
        words[i] = "replaced" + "abcdefghijklmnopqrstuvwxyz"[i // 15 % 26] + end
    text = " ".join(words)
    assert (await verdict(" ".join(ARTICLE), text)).outcome == "duplicate"
    moved = [*ARTICLE[25:], *ARTICLE[:25]]
    assert (await verdict(" ".join(ARTICLE), " ".join(moved))).outcome == "duplicate"


async def test_a_tail_ends_the_page() -> None:
    """A line of editors behind the text is no news; as long a row in front of its last words is."""
    page, line = " ".join(ARTICLE[:15]).split(), "quartz velvet lantern orchid thimble saffron"
    behind, inside = [*page[:-4], line], [*page[:-10], line, *page[-4:]]
    assert (await verdict(" ".join(page), " ".join(behind))).reason == "near-duplicate"
    assert (await verdict(" ".join(page), " ".join(inside))).reason == "too-little-in-common"


@pytest.mark.parametrize("place", [0, 40])
@pytest.mark.parametrize(("words", "outcome"), [(17, "duplicate"), (24, "new")])
async def test_a_sentence_in_front_or_behind_is_kept(place: int, words: int, outcome: str) -> None:
    """A disclaimer at the edge of a page is no news; a new sentence that is longer is."""
    sentence = " ".join(sentences(4, 3)).split(" ")[:words]
    text = " ".join([*ARTICLE[:place], *sentence, *ARTICLE[place:]])
    assert (await verdict(" ".join(ARTICLE), text)).outcome == outcome


@pytest.mark.parametrize(("first", "words"), [(6, 10), (-12, 12)])
@pytest.mark.parametrize("key", ["1", "3", "6"])
async def test_a_sentence_behind_the_beginning_or_at_the_end_is_news(
    first: int, words: int, key: str
) -> None:
    """In place of words of a page that begins as the stored one does, or of its last ones."""
    page = " ".join(ARTICLE[:17]).split(" ")
    new = [*page[:first], *" ".join(sentences(4, 3)).split(" ")[:words]]
    new += page[first + words :] if first > 0 else []
    found = await verdict(" ".join(page), " ".join(new), hash_key=key)
    assert (found.outcome, found.reason) == ("new", "too-little-in-common")


async def test_thresholds_say_how_many_words_in_a_row() -> None:
    """Ten new words in a row: allowed by `balanced` on a long page, not by `strict`."""
    new = [*ARTICLE[:20], *(" ".join(sentences(3, 2)).split(" ")[:10]), *ARTICLE[20:]]
    text = " ".join(new)
    assert (await verdict(" ".join(ARTICLE), text)).outcome == "duplicate"
    kept = await verdict(" ".join(ARTICLE), text, preset="strict")
    assert (kept.outcome, kept.reason) == ("new", "too-little-in-common")
    assert kept.nearest is not None
    assert 0.8 <= kept.nearest.similarity < 0.9


@pytest.mark.parametrize(("words", "outcome"), [(13, "duplicate"), (18, "new")])
async def test_a_report_with_the_same_figures_may_be_written_anew(words: int, outcome: str) -> None:
    """Thirteen new words in a row are allowed if a page has many numerals, all of them stored."""
    told = [f"{line[:-1]} with {n + 100} tons." for n, line in enumerate(ARTICLE)]
    between = " ".join(sentences(3, 3)).split(" ")[:words]
    plain, figures = [
        await verdict(" ".join(text), " ".join([*text[:20], *between, *text[20:]]))
        for text in (ARTICLE, told)
    ]
    assert plain.outcome == "new"
    assert figures.outcome == outcome


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("1.5 billion dollars", "2.5 billion dollars"),
        ("about 6-3/16 percent", "about 6-1/4 percent"),
        ("eight cents", "five cents"),
        ("on April 24", "on April 26"),
        ("第三次会议", "第四次会议"),
    ],
)
async def test_another_numeral_is_another_page(old: str, new: str) -> None:
    """In digits or in words, fractions, dates and ordinals."""
    pages = [" ".join([*ARTICLE[:9], f"They agreed {one}.", *ARTICLE[9:18]]) for one in (old, new)]
    found = await verdict(*pages)
    assert (found.outcome, found.reason) == ("new", "other-figures")


PORT = (
    "Озёрск, 3 марта. Объём перевозок зерна через паромную переправу Верхнего Бора вырос за год на "
    "15,5 процента и достиг 1 200 000 тонн, сообщили журналистам в порту. По словам начальника "
    "порта, на ремонт двух причалов потратили 350 млн рублей, ещё 40 млн рублей выделила область. "
    "Сейчас паром перевозит около 12 300 машин в месяц, в прошлом году было 9,8 тыс. Новая баржа "
    "длиной 85 м придёт из Низинска к осени. Её стоимость составила 5 миллионов долларов, деньги "
    "заняли в местном банке на семь лет под 4 процента годовых. Жители посёлка просят оставить "
    "ночной рейс, который отменили в январе из-за льда. Глава посёлка обещала обсудить расписание "
    "с перевозчиком до конца недели. Кроме того, в порту построят навес на 200 мест и буфет."
)


async def test_numbers_in_the_style_of_another_desk() -> None:
    """A copy that writes each number otherwise is a copy; another number or unit, or fell for rose,
    makes another page."""
    styled = PORT
    for old, new in (
        ("15,5 процента", "15.5%"),
        ("1 200 000", "1,2 млн"),
        ("350 млн", "350 миллионов"),
        ("9,8 тыс.", "9,8 тысячи."),
        ("85 м ", "85 метров "),
        ("5 миллионов долларов", "$5 млн"),
        ("4 процента", "4 %"),
    ):
        assert old in styled
        styled = styled.replace(old, new)
    assert (await verdict(PORT, styled)).outcome == "duplicate"
    for old, new, reason in (
        ("350 млн", "530 млн", "other-figures"),
        ("4 процента", "4 рубля", "other-figures"),
        ("двух причалов", "трёх причалов", "other-figures"),
        ("вырос", "упал", "turned-round"),
    ):
        assert (await verdict(PORT, PORT.replace(old, new))).reason == reason


async def test_a_stamp_with_counts_is_no_news() -> None:
    """Comments and minutes to read, on a line with a time, before a page."""
    stamp = "By the desk | 14 May 2031, 9:05 am | 12 comments | 5 min read"
    text = " ".join(ARTICLE)
    assert (await verdict(text, f"{stamp}\n{text}")).outcome == "duplicate"
    assert (await verdict(text, f"{stamp.replace('9:05 am', '')}\n{text}")).outcome == "new"


@pytest.mark.parametrize(
    ("words", "is_known", "outcome"),
    [
        (14, True, "duplicate"),
        (28, True, "new"),
        (22, False, "new"),
    ],
)
async def test_words_that_a_page_says_elsewhere_count_half(
    words: int, is_known: bool, outcome: str
) -> None:
    """A clause of words that the page has in other sentences too, and one of words of its own."""
    pool = [f"{one}{other}" for one in NOUNS[:40] for other in WORDS]
    said = random.Random(1).sample(pool, 400)
    lines = [" ".join(said[i : i + 8]) + "." for i in range(0, 320, 8)]
    clause = " ".join((said[:150:5] if is_known else said[320:])[:words]) + "."
    page = [*lines[:20], clause, *lines[20:]]
    assert (await verdict(" ".join(lines), " ".join(page))).outcome == outcome


async def test_a_page_of_few_words_says_its_news_by_their_order() -> None:
    """Of made-up notices of 60 sentences of the same 80 words none with nine others is lost."""
    for seed in range(10):
        page, other = article(seed, 60), article(seed + 100, 9)
        cut = page.index("。", len(page) // 2) + 1
        assert (await verdict(page, page[:cut] + other + page[cut:])).outcome == "new"


async def test_a_numeral_that_stands_elsewhere_too() -> None:
    """It replaces another one, although the stored page has it in another place."""
    old = [*ARTICLE[:9], "The bridge cost 40 crowns.", *ARTICLE[9:18], "Seats for 70 passengers."]
    new = [*old[:9], "The bridge cost 70 crowns.", *old[10:]]
    found = await verdict(" ".join(old + ARTICLE[18:22]), " ".join(new + ARTICLE[18:22]))
    assert (found.outcome, found.reason) == ("new", "other-figures")


async def test_time_stamps_and_years_of_dates_are_no_news() -> None:
    """A line that says when the page was made, and the year that an agency adds to a date."""
    page = " ".join(["On May 7 the ferry stopped.", *ARTICLE[:20]])
    stamped = f"Published 2031-05-09 10:22:08 {page}"
    assert (await verdict(page, stamped)).outcome == "duplicate"
    report = article(1, 12)
    plain, dated, later = (f"{year}5月7日渡轮停航。{report}" for year in ("", "2031年", "2032年"))
    assert (await verdict(plain, dated)).outcome == "duplicate"
    assert (await verdict(dated, later)).outcome == "new"


NOTICE = "Quarterly dividend eight cents against eight cents prior, pay April 24, record April 3."


async def test_titles_of_short_notices() -> None:
    """The same few words under the title of another company are another notice."""
    titles = ("Lantern Works sets quarterly dividend", "Ferrymoor Mills sets quarterly dividend")
    found = await verdict(NOTICE, NOTICE, titles)
    assert (found.outcome, found.reason) == ("new", "other-title")
    assert (await verdict(NOTICE, NOTICE, (titles[0], titles[0]))).outcome == "duplicate"
    assert (await verdict(NOTICE, NOTICE)).outcome == "duplicate"


ANNOUNCED = (
    "At the counters of every bookshop and tobacconist in town, tomorrow's edition of the Harbour "
    "Gazette carries a leading article under the headline"
)
LEADER = f"{ANNOUNCED} Statutes follow practice. " + " ".join(sentences(5, 12)) + " " + ARTICLE[0]


@pytest.mark.slow
@pytest.mark.parametrize("titled", [True, False])
async def test_a_short_notice_of_another_subject(titled: bool) -> None:
    """Two words at the end of a notice, and its title, are other ones than in a long page that
    begins with the same sentence: it is stored, whatever the filter takes for held by mistake."""
    text = f"{ANNOUNCED} Honest labour."
    titles = ("Statutes follow practice", "Honest labour") if titled else ("", "")
    for key in range(1, 60):
        async with Deduplicator(Options(index_url="memory:", hash_key=f"{key:x}")) as dedup:
            first = Document(key="https://one.example/1", text=LEADER, title=titles[0])
            await dedup.commit(await dedup.decide(first))
            new = Document(key="https://two.example/2", text=text, title=titles[1])
            assert (await dedup.decide(new)).outcome == "new"


async def test_a_short_page_whose_title_names_what_is_new() -> None:
    """On a template of 24 to 60 words, one new word that is in the title too makes another page;
    under the same title it is an edit, and so is a new word that the title does not have."""
    text = " ".join(sentences(7, 5)) + " The collected speeches to {} are sold in all bookshops."
    stored, new = text.format("gardeners"), text.format("locksmiths")
    titles = ("Speeches to gardeners published", "Speeches to locksmiths published")
    found = await verdict(stored, new, titles)
    assert (found.outcome, found.reason) == ("new", "other-title")
    assert (await verdict(stored, new, (titles[0], titles[0]))).outcome == "duplicate"
    assert (await verdict(stored, new, ("Speeches", "Collected speeches"))).outcome == "duplicate"


async def test_one_sentence_of_a_page_under_another_title() -> None:
    """A sentence that a page says word for word is a copy, whatever its title."""
    title = "What the Gazette will say tomorrow"
    found = await verdict(LEADER, f"{ANNOUNCED} Statutes follow practice.", ("Leader", title))
    assert (found.outcome, found.reason) == ("duplicate", "near-duplicate")


async def test_names_on_short_pages() -> None:
    """A product that differs in the name of a team."""
    text = (
        "Home shirt of the coming season with the crest of {} on the left, made of light cloth "
        "that dries quickly, with a round collar and two stripes along the sleeves, in all sizes."
    )
    found = await verdict(text.format("Ferrymoor Rovers"), text.format("Millstream United"))
    assert found.outcome == "new"


async def test_a_chinese_name_on_a_page_of_many_numerals() -> None:
    """Another person at one place, but not a mention more of one whom both pages name."""
    towns = "北滨 南港 东湖 西岭 中洲 上庄 下坊 前桥 后沟 左屯 右旗 新埠".split()
    lines = [f"{town}昨天运来{30 + i}箱苹果和{70 + i}筐鸭梨。" for i, town in enumerate(towns)]
    named = [f"市场负责人{{}}说，{town}的货物明天送到。" for town in ("沙坪", "石桥")]
    page = "".join([*lines[:6], named[0], *lines[6:], named[1]])
    names = ["林诗婷", "何伟国", "邓小平", "周文斌"]
    kept = [
        (await verdict(page.format(one, "王磊"), page.format(other, "王磊"))).reason
        for one, other in itertools.permutations(names, 2)
    ]
    assert kept.count("other-figures") >= 10, kept
    without = page.format("", "王磊")  # a name that is put in replaces nothing
    put_in = [(await verdict(without, page.format(one, "王磊"))).reason for one in names]
    assert put_in.count("near-duplicate") >= 3, put_in
    edited = page.replace("市场负责人{}说", "{}说", 1)
    found = await verdict(page.format(names[0], names[0]), edited.format(names[0], names[0]))
    assert found.reason == "near-duplicate"
    found = await verdict(page.replace("{}", "", 1).format("王磊"), page.format("王磊", "王磊"))
    assert found.reason == "near-duplicate"


async def test_negation_is_another_page() -> None:
    """One word that says the opposite."""
    pages = [
        " ".join([*ARTICLE[:9], f"The council did{no} approve the bridge.", *ARTICLE[9:18]])
        for no in ("", " not")
    ]
    found = await verdict(*pages)
    assert (found.outcome, found.reason) == ("new", "turned-round")


@pytest.mark.parametrize("words", ["ox", "涨跌平", "bcdefg", WORDS[:11]])
async def test_texts_of_few_words(words: Sequence[str]) -> None:
    """The same few words in another order are another page, and an equal text is a copy."""
    rng = random.Random(1)
    async with Deduplicator(Options(index_url="memory:", hash_key="1")) as dedup:
        for number in range(200):
            text = " ".join(rng.choices(words, k=round(20 * 100 ** rng.random())))
            found = await dedup.decide(Document(key=f"https://one.example/{number}", text=text))
            assert found.outcome == "new"
            await dedup.commit(found)
            copy = Document(key=f"https://two.example/{number}", text=text)
            assert (await dedup.decide(copy)).reason == "exact-copy"


@pytest.mark.parametrize("rows", [2, 3, 8])
async def test_tables_of_few_values(rows: int) -> None:
    """Tables of the same labels with another "yes" or "no" here and there are no copies."""
    rng, labels = random.Random(2), [f"feature{chr(97 + i)}" for i in range(24)]
    async with Deduplicator(Options(index_url="memory:", hash_key="1")) as dedup:
        for number in range(100):
            cells = [(label, rng.choice(["yes", "no"])) for _ in range(rows) for label in labels]
            text = " ".join(f"{label} {value}" for label, value in cells)
            found = await dedup.decide(Document(key=f"https://one.example/{number}", text=text))
            assert found.outcome == "new"
            await dedup.commit(found)


async def test_measures() -> None:
    """With `jaccard` an excerpt is kept; with `novelty` a long page may say no more than a short
    one."""
    page = " ".join(ARTICLE)
    part = " ".join(ARTICLE[:20])
    assert (await verdict(page, part, measure="jaccard")).outcome == "new"
    long = sentences(5, 200)
    edited = [
        one.replace(" ", " inserted ", 1) if i % 6 == 5 else one for i, one in enumerate(long)
    ]
    stored, new = " ".join(long), " ".join(edited)
    assert (await verdict(stored, new)).outcome == "duplicate"
    assert (await verdict(stored, new, measure="novelty")).outcome == "new"


def test_date_lines_and_editors_are_no_new_words() -> None:
    """Another agency, another reporter and another editor do not use up the limit of the lead."""
    fingerprint = Fingerprinter(Options(index_url="memory:"), 5)
    body = "市政府昨天宣布新的渡船将于春季开航，居民可以在码头购买船票，儿童和老人免费乘坐。"
    first = f"湖边社北滨3月4日电(记者张三)\n{body}\n【编辑:李四】"
    second = f"湖滨新闻网南港3月4日电(王五 赵六)\n{body}\n(责任编辑:钱七)"
    stored, new = (fingerprint(Document(key="", text=text)) for text in (first, second))
    found = evidence.examine(new.wording, [stored.payload])[0]
    assert (found[evidence.NEW], found[evidence.NEW_FRAME]) == (0, 0)


@pytest.mark.parametrize(
    "line",
    [
        "南港影院三月放映3月4日电影新片", "码头月台将在3月4日电车通行",
        "化工厂爆炸，4月3日电厂停电", "湖边公司4月3日讯飞发布", "校对错误致百万册教材召回",
        "Bishop strangled inside the old cathedral cellar, 12 nuns poisoned -",
    ],
)  # fmt: skip
def test_news_is_no_date_line(line: str) -> None:
    """All words of a headline are read, whatever stands behind a day in it."""
    fingerprint = Fingerprinter(Options(index_url="memory:"), 5)
    page = fingerprint(Document(key="", text=f"{line}\n湖边社北滨的居民买船票。\n{line}"))
    assert NO_NEWS not in page.wording.word_hashes


def test_a_sentence_before_a_date_line_is_read() -> None:
    """A date line begins behind the last full stop or comma of its line."""
    fingerprint = Fingerprinter(Options(index_url="memory:"), 5)
    sent, news = "湖边社北滨3月4日电(记者张三) ", "昨晚长江大桥坍塌三十人死亡。"
    counts = [
        int((page.wording.word_hashes == NO_NEWS).sum())
        for page in (
            fingerprint(Document(key="", text=f"{before}{sent}居民在码头买船票。"))
            for before in ("", news)
        )
    ]
    assert counts[0] == counts[1] > 0
