"""Verdicts: in many languages, on short and empty pages, and what they say of themselves."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dedup_middleware import Deduplicator, Document, Options
from dedup_middleware.core.fingerprinter import Fingerprinter
from dedup_middleware.model.documents import NEW, Verdict, as_dict
from dedup_middleware.signature.evidence import NEW_VALUES, examine
from dedup_middleware.text.extract import MAX_SIZE
from dedup_middleware.text.extraction.markup import MAX_BLOCKS
from tests.languages import FIGURES, OTHER_FIGURES, REPORTS
from tests.texts import article, english

# With a fixed key: names are distinguished by 8 bits, and one in 256 keys confuses two of them.
OPTIONS = Options(index_url="memory:", hash_key="5eed")
LANGUAGES = pytest.mark.parametrize(("report", "other"), REPORTS.values(), ids=REPORTS)


async def verdicts(stored: Document, *pages: Document, options: Options = OPTIONS) -> list[Verdict]:
    """Store a page, then decide others; none of them is stored."""
    decided = []
    async with Deduplicator(options) as dedup:
        assert await dedup.commit(await dedup.decide(stored))
        for new in pages:
            verdict = await dedup.decide(new)
            decided.append(verdict)
            if verdict.claim is not None:
                await dedup.release(verdict)
    return decided


async def verdict_of(stored: str, new: str) -> Verdict:
    """What is decided of a text when another one is stored."""
    (decided,) = await verdicts(
        Document(key="https://one.example/1", text=stored),
        Document(key="https://two.example/2", text=new),
    )
    return decided


@LANGUAGES
async def test_reprint_with_a_note(report: str, other: str) -> None:
    """A reprint with a few words in front and behind is a near-duplicate in every language."""
    text = report.format(*FIGURES)
    verdict = await verdict_of(text, f"[agency] {text} (edited)")
    assert verdict.is_duplicate
    assert verdict.reason == "near-duplicate"


@LANGUAGES
async def test_same_words_with_other_figures(report: str, other: str) -> None:
    """The same report of another day, with one other figure in its place, is another page."""
    verdict = await verdict_of(report.format(*FIGURES), report.format(*OTHER_FIGURES))
    assert (verdict.outcome, verdict.reason) == (NEW, "other-figures")


@LANGUAGES
async def test_figures_in_other_digits(report: str, other: str) -> None:
    """Full-width digits say the same."""
    wide = [figure.translate(_WIDE) for figure in FIGURES]
    verdict = await verdict_of(report.format(*FIGURES), report.format(*wide))
    assert verdict.reason == "exact-copy"


_WIDE = {ord(str(digit)): 0xFF10 + digit for digit in range(10)}


NOTICE = (
    "湖滨市体育馆昨晚举行了乒乓球公开赛的颁奖仪式。{}获得了冠军，奖杯由去年的得主颁发。"
    "比赛从早晨一直打到傍晚，看台上坐满了附近学校的学生。裁判长说，这是球馆翻新以后的第一场"
    "正式比赛，灯光和地板都令人满意。组织者感谢了送水送饭的志愿者，并邀请大家下个赛季再来。"
    "散场以后渡口加开了几班船，住在对岸的观众也能按时回家。茶馆的老板把比赛的照片贴在门口，"
    "过路的人都停下来看。"
)


@pytest.mark.parametrize(
    ("one", "other"), [("林诗婷", "何伟国"), ("王磊", "邓小平"), ("爱因斯坦", "李强")]
)
async def test_same_words_with_another_name(one: str, other: str) -> None:
    """The same notice with another winner is another page."""
    verdict = await verdict_of(NOTICE.format(one), NOTICE.format(other))
    assert (verdict.outcome, verdict.reason) == (NEW, "other-figures")


@pytest.mark.parametrize(
    ("credit", "reason"),
    [
        ("（记者 {}）", "exact-copy"),
        ("责任编辑：{}", "exact-copy"),
        ("文/{}", "exact-copy"),
        ("（{}）", "near-duplicate"),
        ("{} 摄", "near-duplicate"),
    ],
)
async def test_another_credit_is_no_other_page(credit: str, reason: str) -> None:
    """The editor of a reprint does not change its content; a row with a label is not compared."""
    text = NOTICE.format("林诗婷")
    verdict = await verdict_of(text + credit.format("王磊"), text + credit.format("何伟国"))
    assert (verdict.is_duplicate, verdict.reason) == (True, reason)


async def test_one_edited_mention_of_a_name_is_no_other_page() -> None:
    """A name that both pages have elsewhere too was abridged or misspelt in one place."""
    text = NOTICE.format("林诗婷") + "{}说，她想先休息几天。"
    verdict = await verdict_of(text.format("林诗婷"), text.format("林婷"))
    assert (verdict.is_duplicate, verdict.reason) == (True, "near-duplicate")


@pytest.mark.parametrize(
    ("one", "other"),
    [("（上）", "（下）"), ("（一）", "（二）"), ("上篇", "下篇"), ("上集", "下集")],
)
async def test_parts_of_a_series_are_different_pages(one: str, other: str) -> None:
    """Announcements of the parts of one series differ in what numbers them."""
    text = "湖滨日报明天将刊登长篇报道《渡口的老船工》" + "{}。" + NOTICE.format("林诗婷")
    verdict = await verdict_of(text.format(one), text.format(other))
    assert (verdict.outcome, verdict.reason) == (NEW, "other-figures")


@LANGUAGES
async def test_other_report(report: str, other: str) -> None:
    """Two reports in one language have little in common."""
    verdict = await verdict_of(report.format(*FIGURES), other)
    assert verdict.outcome == NEW
    assert verdict.reason in {"nothing-alike", "too-little-in-common"}


@LANGUAGES
async def test_both_reports_on_one_page(report: str, other: str) -> None:
    """A page that holds the stored one and says as much again is new."""
    text = report.format(*FIGURES)
    assert (await verdict_of(text, f"{text}\n{other}")).outcome == NEW


@pytest.mark.parametrize(
    "line",
    [
        "Photo: the bridge",
        "写真：港の橋",
        "사진: 다리",
        "Фото: мост",
        "صورة: الجسر",
        "ภาพ: สะพาน",
        "图：大桥",
    ],
)
async def test_short_pages_need_the_same_text_under_the_same_title(line: str) -> None:
    """A caption is too short to compare; its title belongs to it."""
    found = await verdicts(
        Document(key="https://one.example/1", title="A", text=line),
        Document(key="https://two.example/1", title="A", text=line + "!"),
        Document(key="https://two.example/2", title="B", text=line),
        Document(key="https://two.example/3", title="A", text=line + " x"),
    )
    assert [v.is_duplicate for v in found] == [True, False, False]
    assert found[0].reason == "exact-copy"


@pytest.mark.parametrize("text", ["", " \n\t", "。！？…", "\u200b\ufeff", "🙂"])
async def test_pages_without_words_are_never_duplicates(text: str) -> None:
    """They have no content to compare, so they are not indexed; emoji are words of their own."""
    first, second = (Document(key=f"https://one.example/{n}", text=text) for n in (1, 2))
    async with Deduplicator(OPTIONS) as dedup:
        assert await dedup.commit(await dedup.decide(first))
        verdict = await dedup.decide(second)
    assert verdict.outcome == ("duplicate" if text == "🙂" else "empty")


@pytest.mark.parametrize("beginning", [article(1), "one two three " * 8])
async def test_a_page_of_which_a_part_is_compared_is_a_copy_of_an_equal_text_alone(
    beginning: str,
) -> None:
    """What lies beyond DEDUP_MAX_CHARS may be anything, so no other text is known to hold it."""
    options = Options(index_url="memory:", hash_key="5eed", max_chars=len(beginning))
    stored = f"{beginning} {article(2)}"
    texts = (f"{beginning} {article(3)}", f"{beginning}\n\n{article(2)}", f"{stored} More.")
    other, equal, longer = await verdicts(
        Document(key="https://one.example/1", text=stored),
        *[Document(key=f"https://two.example/{i}", text=text) for i, text in enumerate(texts)],
        options=options,
    )
    assert (other.outcome, longer.outcome) == (NEW, NEW)
    assert (equal.is_duplicate, equal.reason) == (True, "exact-copy")


def _long(middle: str, behind: int) -> str:
    """A page with something long between an introduction and a report."""
    report = f"<article><p>{article(behind)}</p></article>"
    return f"<title>News</title><body><p>{article(1)}</p>{middle}{report}</body>"


@pytest.mark.parametrize(
    "middle",
    [
        pytest.param(f"<script>x = '{'s' * MAX_SIZE}'</script>", id="script"),
        pytest.param(f"<img src='data:image/png;base64,{'A' * MAX_SIZE}'>", id="picture"),
        pytest.param("<br>cell" * MAX_BLOCKS, id="blocks", marks=pytest.mark.slow),
    ],
)
async def test_what_is_not_read_of_a_long_page_is_not_taken_for_stored(middle: str) -> None:
    """Of what is beyond the limits of the extraction only an equal page is a copy."""
    one, same, other = (_long(middle, behind) for behind in (2, 2, 3))
    equal, different, encoded = await verdicts(
        Document(key="https://one.example/1", html=one),
        Document(key="https://two.example/1", html=same),
        Document(key="https://two.example/2", html=other),
        Document(key="https://one.example/1", html=other.encode()),
    )
    assert (equal.is_duplicate, equal.reason) == (True, "exact-copy")
    assert (different.outcome, encoded.outcome) == (NEW, NEW)


async def test_pictures_in_a_long_page_do_not_hide_its_text() -> None:
    """They are left out first, so that a copy with other pictures is found."""
    one, two = (_long(f"<img src='data:image/png;base64,{c * MAX_SIZE}'>", 2) for c in "AB")
    (copy,) = await verdicts(
        Document(key="https://one.example/1", html=one),
        Document(key="https://two.example/1", html=two),
    )
    assert copy.is_duplicate


async def test_a_verdict_explains_itself() -> None:
    """The verdict has all details of the match, as plain values."""
    text = article(3, 40)
    (verdict,) = await verdicts(
        Document(key="https://one.example/1", text=text),
        Document(key="https://two.example/2", text="本报讯 " + text),
    )
    match = verdict.match
    assert match is not None
    size = verdict.fingerprint.size if verdict.fingerprint else 0
    assert match.shared is not None
    assert size - 12 <= match.shared <= size
    assert (match.figures, match.rule) == (0, "near-duplicate")
    reported = json.loads(json.dumps(as_dict(verdict)))
    assert reported == {
        "outcome": "duplicate",
        "reason": "near-duplicate",
        "match": "https://one.example/1",
        "similarity": round(match.similarity, 4),
        "jaccard": round(match.jaccard, 4),
        "distance": match.distance,
        "shared": match.shared,
        "figures": 0,
        "tables": list(match.tables),
        "rule": "near-duplicate",
        "nearest": None,
        "earlier": [],
        "previous": None,
        "supersedes": [],
    }
    assert match.tables


async def test_a_revisit_names_the_rule_too() -> None:
    """The reason says that the page is unchanged, the rule how that was seen."""
    document = Document(key="https://one.example/1", text=article(3))
    (verdict,) = await verdicts(document, document)
    assert verdict.reason == "unchanged"
    assert verdict.match is not None
    assert verdict.match.rule == "exact-copy"


async def test_a_new_page_has_no_match_to_explain() -> None:
    """Its verdict has the same fields."""
    (verdict,) = await verdicts(
        Document(key="https://one.example/1", text=article(3)),
        Document(key="https://one.example/2", text=article(4)),
    )
    reported = as_dict(verdict)
    assert reported["outcome"] == "new"
    assert reported["tables"] == []
    assert all(
        reported[name] is None for name in ("match", "similarity", "shared", "figures", "rule")
    )


async def test_a_new_page_says_what_came_nearest() -> None:
    """Why it is no duplicate of the most similar page is given as for a match."""
    text = article(3, 40) + "气温{}度。"
    (verdict,) = await verdicts(
        Document(key="https://one.example/1", text=text.format(31)),
        Document(key="https://two.example/2", text=text.format(28)),
    )
    assert (verdict.outcome, verdict.reason, verdict.match) == (NEW, "other-figures", None)
    assert verdict.nearest is not None
    assert verdict.nearest.figures == 1
    reported = as_dict(verdict)["nearest"]
    assert reported["rule"] == "other-figures"
    assert reported["similarity"] > 0.9
    assert reported["match"] in {None, "https://one.example/1"}


@pytest.mark.slow
async def test_probes_find_what_bands_and_blocks_miss() -> None:
    """Without bands, pages whose SimHashes have no equal block are found by flipped bits."""
    found = []
    for probes in (0, 16):
        options = Options(
            index_url="memory:", evidence="sketch", bands=0, probes=probes, hash_key="1"
        )
        number = 0
        for seed in range(12):
            text = article(seed, 30)
            (verdict,) = await verdicts(
                Document(key="https://one.example/1", text=text),
                Document(key="https://two.example/2", text=text[:-70] + article(seed + 50, 1)),
                options=options,
            )
            number += verdict.is_duplicate
        found.append(number)
    assert found[0] < found[1]


def test_no_title_is_an_empty_one() -> None:
    """Callers that have no title or description need not leave the field out."""
    document = Document("https://one.example/1", text="a", title=None, description=None)
    assert (document.title, document.description) == ("", "")


@pytest.mark.parametrize(
    ("field", "value", "wanted"),
    [
        ("key", None, "a str"),
        ("title", b"A title", "a str"),
        ("text", 5, "a str or None"),
        ("html", bytearray(b"<p>"), "a str, bytes or None"),
        ("charset", 1252, "a str or None"),
        ("description", ["one"], "a str"),
    ],
)
def test_fields_of_other_types_are_refused(field: str, value: Any, wanted: str) -> None:
    """A document names the field, and what to give; nothing fails later, from inside."""
    with pytest.raises(TypeError, match=rf"Document\({field}=...\) is of type \w+: give {wanted}$"):
        Document(**{"key": "https://one.example/1", field: value})


@pytest.mark.parametrize(
    ("word", "other", "mark"), [("imposed", "proposed", "CORRECTED - "), ("征收", "提议", "更正：")]
)
async def test_correction_of_a_word(word: str, other: str, mark: str) -> None:
    """A page marked as a correction is kept, though it corrects one word; its copies are not."""
    body = article(7) if "征" in word else english(7)
    one, two = (f"{body[:300]} {said} {body[300:]}" for said in (word, other))
    headline, corrected = "Harbour dues", f"{mark}Harbour dues"
    wrong = Document("https://one.example/1", title=headline, text=one)
    async with Deduplicator(OPTIONS) as dedup:

        async def decide(host: str, title: str, text: str) -> Verdict:
            return await dedup.decide(Document(f"https://{host}.example/2", title=title, text=text))

        assert await dedup.commit(await dedup.decide(wrong))
        assert (await decide("two", headline, two)).reason == "near-duplicate"
        assert (await decide("three", corrected, one)).reason == "exact-copy"
        verdict = await decide("four", corrected, two)
        assert (verdict.outcome, verdict.reason) == (NEW, "other-figures")
        assert await dedup.commit(verdict)
        assert (await decide("five", corrected, f"[agency] {two}")).reason == "near-duplicate"
        assert (await decide("six", f"{mark}Dues", f"[agency] {two}")).reason == "near-duplicate"
        assert (await decide("seven", headline, f"[agency] {two}")).reason == "near-duplicate"


def test_marks_are_hardly_ever_taken_for_held() -> None:
    """A single value would be, by one stored page in 256."""
    read = Fingerprinter(OPTIONS, 5)
    for seed in range(1000):
        text = english(seed, 40)
        stored = read(Document("https://one.example/1", title="Harbour dues", text=text))
        marked = Document("https://two.example/1", title="CORRECTED - Dues", text=f"[x] {text}")
        assert examine(read(marked).wording, [stored.evidence])[0, NEW_VALUES] > 0


FORECAST = {
    "northern valleys": "thunderstorms are likely to develop after sunset with gusty squalls",
    "eastern coast": "morning fog is going to lift before noon over sheltered harbours",
    "western islands": "wet snow may fall above the tree line and melt quickly",
    "southern plains": "skies will be mostly clear through a mild and breezy evening",
    "central highlands": "thick cloud will bring steady rain and slippery mountain roads",
}


async def test_two_regions_that_exchange_their_weather() -> None:
    """Nearly all sequences of words are stored, but of each region something else is said. The same
    forecast that begins with another region is a copy."""

    def page(weather: dict[str, str]) -> str:
        return " ".join(f"In the {region} {sky}." for region, sky in weather.items())

    one, two = "northern valleys", "western islands"
    other = {**FORECAST, one: FORECAST[two], two: FORECAST[one]}
    verdict = await verdict_of(page(FORECAST), page(other))
    assert (verdict.outcome, verdict.reason) == (NEW, "turned-round")
    verdict = await verdict_of(
        page(FORECAST), page(dict([*FORECAST.items()][1:] + [*FORECAST.items()][:1]))
    )
    assert verdict.is_duplicate
