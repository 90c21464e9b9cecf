"""Words that say who reported something are no news, and a change of what is said is one."""

from __future__ import annotations

import functools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dedup_middleware import Deduplicator, Document, Options, Verdict
from dedup_middleware.core.fingerprinter import Fingerprinter
from dedup_middleware.signature.evidence import COMMON, LONGEST, NEW, NEW_FRAME, UNSAID, examine
from dedup_middleware.text.attribution import ATTRIBUTION
from dedup_middleware.text.polarity import polarity
from dedup_middleware.text.shingle import Shingler
from dedup_middleware.text.stopwords import stop_words
from dedup_middleware.text.wording import SAID, SPEAKS
from tests.text.attributiontwin import FIGURE, FILLS, SAYS, marks

made = functools.cache(lambda: Shingler(segmenter="words"))
# Words of which each is one token of text with spaces, and no stop word; by what the twin calls it.
WORDS = {
    SAYS: ("spokesman", "told", "сообщил"),
    FILLS: ("telephone", "интервью", "monday"),
    FIGURE: ("17", "2031"),
    "negation": ("не", "not"),
    "number": ("eight", "zwölf"),
    "": ("harbour", "ferries", "Мост", "pilot"),
}
CLAUSES = st.lists(
    st.lists(st.sampled_from([*WORDS]), min_size=1, max_size=30), min_size=1, max_size=4
)


@settings(deadline=None)
@given(CLAUSES, st.data())
def test_the_kernel_is_its_twin(clauses: list[list[str]], data: st.DataObject) -> None:
    """Marks of any words in any order; a clause begins behind a full stop."""
    texts = [[data.draw(st.sampled_from(WORDS[one])) for one in clause] for clause in clauses]
    text = "Harbour ferries. " + ". ".join(" ".join(clause) for clause in texts) + "."
    found = made()(text).words.tolist()[2:]
    wanted = [mark for clause in clauses for mark in marks(clause, [False] * len(clause))]
    assert [word & SAID for word in found] == [mark & SAID for mark in wanted]
    for word, mark in zip(found, wanted, strict=True):
        assert mark & SAID or word & SPEAKS == mark & SPEAKS


def marked(text: str) -> dict[str, int]:
    """The mark of each word of a Chinese text."""
    shingler = Shingler()
    words = shingler(text).words.tolist()
    return dict(zip(shingler.tokens(text), (one & (SAID | SPEAKS) for one in words), strict=True))


def test_lists() -> None:
    """No listed word denies or negates, none is a numeral written as a word."""
    assert not {"否认", "否認", "拒绝", "denied", "refused", "опроверг"} & {*ATTRIBUTION}
    words = polarity().words
    assert not [word for word in ATTRIBUTION if words.get(word, 0) == 1]


def test_an_occasion_and_who_held_it() -> None:
    """All words up to the name of who speaks."""
    found = marked("堤坝照旧。记者在今日举行的湖北滨海事务委员会新闻发布会上获悉，渡船停航。")
    said = {word for word, mark in found.items() if mark & SAID}
    assert {"记者", "今日", "举行", "发布会", "上", "获悉", "湖北"} <= said
    assert not {"堤坝", "照旧", "渡船", "停航"} & said


def test_a_verb_that_is_a_stop_word() -> None:
    """说 and 称 are left out of the words; who stands before them speaks."""
    found = marked("堤坝照旧。船长说渡船停航。")
    assert stop_words("zh").words >= {"说", "称"}
    assert (found["船长"], found["渡船"]) == (SPEAKS, 0)


BODY = (
    "从四月起，北滨至南港的渡船改为每小时一班，票价维持不变。码头东侧的候船厅正在翻修，预计"
    "夏天完工，届时旅客可以从新的天桥直接登船。市交通部门还计划更换两艘旧船，新船采用电力驱动，"
    "噪声更低。沿岸居民对夜间航班表示欢迎，商户则希望增加周末班次。港口水域去年疏浚之后，大型"
    "货轮也能停靠，渔民因此担心渔场受到影响。专家建议在航道两侧设置浮标，并且限制船速。"
)
REPORT = f"北滨市港务局局长孙立军说，{BODY}孙立军说，疏浚工程由海事大学监督，监测数据向公众开放。"


async def verdict(stored: str, new: str) -> Verdict:
    """The verdict on a page, with one other page stored."""
    async with Deduplicator(Options(index_url="memory:", hash_key="1")) as pages:
        first = await pages.decide(Document("https://one.example/1", "", stored))
        await pages.commit(first)
        return await pages.decide(Document("https://two.example/1", "", new))


def rewritten(report: str) -> str:
    """The report with attribution in it."""
    parts = report.split("。")
    for place, words in (
        (1, "记者从新闻发布会上获悉，"),
        (2, "孙立军在接受记者采访时表示，"),
        (3, "据介绍，"),
        (4, "孙立军向记者透露，"),
        (5, "发言人孙立军指出，"),
        (6, "新闻发布会上，孙立军强调，"),
    ):
        parts[place] = words + parts[place]
    return "。".join(parts)


async def test_a_report_with_attribution_is_a_copy() -> None:
    """Who told it to whom, six times."""
    found = await verdict(REPORT, rewritten(REPORT))
    assert (found.outcome, found.reason) == ("duplicate", "near-duplicate")


def counted(stored: str, new: str) -> list[int]:
    """New words, those of the longest passage, and shingles that are missing."""
    fingerprint = Fingerprinter(Options(index_url="memory:"), 1)
    one, other = (fingerprint(Document("", "", text)) for text in (stored, new))
    found = examine(other.wording, [one.payload])[0]
    missing = len(other.wording.order) - found[COMMON] - found[UNSAID]
    return [int(found[NEW] + found[NEW_FRAME]), int(found[LONGEST]), int(missing)]


def test_attribution_adds_no_new_words() -> None:
    """Neither words nor passages; of the shingles only those miss at whose seam no word is new."""
    new, longest, missing = counted(REPORT, rewritten(REPORT))
    assert (new, longest) == (0, 0)
    assert missing <= 6


@pytest.mark.parametrize(
    ("attribution", "other"),
    [
        ("孙立军向记者透露，", "孙立军向记者否认，"),
        ("孙立军向记者透露，", "孙立军没有向记者透露，"),
        ("孙立军向记者透露，", "孙立军向记者透露，造船厂将于明年裁员并且关闭分厂，工会反对，"),
        ("孙立军向记者透露，", "造船厂工会主席向记者透露，"),
    ],
)
def test_what_else_is_said_counts(attribution: str, other: str) -> None:
    """A denial, a negation, a statement and another office are new words."""
    plain = rewritten(REPORT)
    changed = plain.replace(attribution, other, 1)
    assert changed != plain
    assert counted(REPORT, changed)[0] > counted(REPORT, plain)[0]


@pytest.mark.parametrize(
    ("before", "behind", "reason"),
    [
        ("港务局发言人孙立军表示", "港务局发言人陈国强表示", "other-figures"),
        ("有3名记者采访了船长", "有5名记者采访了船长", "other-figures"),
        ("孙立军向记者表示会公布", "孙立军向记者表示不会公布", "turned-round"),
        ("武汉的发言人表示同意", "杭州的发言人表示同意", "turned-round"),
    ],
)
async def test_another_fact_in_a_clause_of_attribution(
    before: str, behind: str, reason: str
) -> None:
    """Another speaker, number, city and a negation are found by their places and clauses."""
    found = await verdict(f"{BODY}{before}。{BODY[:60]}", f"{BODY}{behind}。{BODY[:60]}")
    assert (found.outcome, found.reason) == ("new", reason)


def test_before_a_longer_statement_attribution_counts() -> None:
    """One word of it in a row of a dozen belongs to that row."""
    statement = "造船厂将于明年裁员并且关闭两座分厂，工会反对这个决定，准备罢工"
    parts = REPORT.split("。")
    rows = []
    for said in ("船长们", "记者"):
        parts[3] = f"{said}{statement}"
        rows.append(counted(REPORT, "。".join(parts))[1])
    assert rows[1] >= rows[0] >= 20


def test_russian() -> None:
    """Verbs and the words around them."""
    shingler = made()
    text = "Об этом сообщили в пресс-службе порта."
    found = dict(zip(shingler.tokens(text), shingler(text).words.tolist(), strict=True))
    assert all(found[word] & SAID for word in ("об", "этом", "сообщили", "в", "пресс", "службе"))
    assert not found["порта"] & SAID
