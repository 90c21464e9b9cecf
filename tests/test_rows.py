"""Rows of a label and a value: another value makes another page, another author does not."""

# Letters of Chinese count as two columns.
# ruff: noqa: E501
from __future__ import annotations

import pytest

from dedup_middleware.model.documents import NEW
from dedup_middleware.text.extract import extract
from tests.test_verdict import verdict_of

JOB = (
    "We look for a reliable person who plans the work of nine colleagues in the warehouse, checks "
    "incoming goods and makes sure that orders leave the building in time. We offer a pension, free "
    "parking and a canteen, and train the right person for the fork lift. Please send a letter "
    "and your certificates through our website or by post."
)
FLAT = (
    "Die Wohnung liegt in einem ruhigen Hinterhaus und wurde im Frühjahr frisch gestrichen. Küche mit "
    "Herd und Spüle ist vorhanden, das Bad hat ein Fenster. Im Keller gibt es einen Abstellraum und "
    "Platz für Fahrräder. Supermarkt und Haltestelle sind zu Fuß zu erreichen."
)
CHAIR = (
    "这款餐椅结构结实，坐感舒适，适合各种家庭使用。椅面经过打磨处理，光滑不刺手，日常清洁只需用湿布擦拭即可。"
    "靠背采用弧形设计，久坐也不会累。整装发货，收到就能用。如有质量问题可以退换，运费由商家承担。"
)
DRIVER = (
    "В транспортную компанию требуется ответственный водитель без вредных привычек. Нужно перевозить "
    "продукты по области и помогать при разгрузке. Мы предлагаем официальное оформление, оплату "
    "проезда и обеды. Опыт работы желателен, но мы готовы обучить новичков."
)
CLERK = (
    "물류 창고에서 상품을 분류하고 포장할 직원을 모집합니다. 경험이 없어도 선배들이 친절하게 가르쳐 드립니다. "
    "식사와 작업복을 무료로 제공하며 통근 버스를 운영합니다. 성실하고 책임감이 있는 분을 환영합니다."
)


@pytest.mark.parametrize(
    ("text", "one", "other"),
    [
        (JOB, "Location: Ludlow\nHours: full time", "Location: Hereford\nHours: full time"),
        (JOB, "Location: Ludlow\nHours: late shift", "Location: Ludlow\nHours: early shift"),
        (JOB, "Location:\nLudlow\nHours:\nfull time", "Location:\nHereford\nHours:\nfull time"),
        (FLAT, "Ortsteil: Gohlis\nHeizung: Gas", "Ortsteil: Plagwitz\nHeizung: Gas"),
        (FLAT, "Haustiere: erlaubt\nHeizung: Gas", "Haustiere: verboten\nHeizung: Gas"),
        (CHAIR, "产地：佛山\n材质：榉木", "产地：赣州\n材质：榉木"),
        (CHAIR, "产地：佛山\n材质：榉木", "产地：佛山\n材质：橡木"),
        (DRIVER, "График: сменный\nГород: Кострома", "График: сменный\nГород: Вологда"),
        (CLERK, "근무지: 원주\n고용: 정규직", "근무지: 춘천\n고용: 정규직"),
    ],
)
async def test_another_value_makes_another_page(text: str, one: str, other: str) -> None:
    """So does a town, a word or a name behind the same label, also on the next line."""
    verdict = await verdict_of(f"{one}\n{text}", f"{other}\n{text}")
    assert (verdict.outcome, verdict.reason) == (NEW, "turned-round")


@pytest.mark.parametrize(
    ("text", "one", "other"),
    [
        (JOB, "Location: Ludlow\nHours: full time", "Based in: Ludlow\nHours: full time"),
        (JOB, "Location: Ludlow\nHours: full time", "Location – Ludlow\nHours – full time"),
        (JOB, "Location : Ludlow\nHours : full time", "Location:\nLudlow\nHours:\nfull time"),
        (JOB, "Author: Jane Holloway", "Author: Peter Quill"),
        (JOB, "Lakeside\nEdited by: Jane Holloway", "Lakeside\nEdited by: Peter Quill"),
        (JOB, "Author: Ann Lee\nSource: Gazette", "Author: Jo Quill\nSource: Courier"),
        (FLAT, "Quelle: Talbote", "Quelle: Hafenkurier"),
        (FLAT, "Rubrik: Wohnen", "Rubrik: Immobilien"),
        (JOB, "Category: Work", "Category: News"),
        (JOB, "Section: Work\nTags: Pay, Kent", "Section: News\nTags: Depot"),
        (CHAIR, "栏目：家居", "栏目：生活"),
        (CHAIR, "产地：佛山\n作者：何佳宁", "产地：佛山\n作者：秦立新"),
        (CHAIR, "产地：佛山\n来源：河谷晚报", "产地：佛山\n来源：海港商报"),
        (DRIVER, "Город: Кострома\nАвтор: Жанна Холодова", "Город: Кострома\nАвтор: Пётр Квасов"),
        (DRIVER, "Источник: РИА56", "По материалам: ОЗЕРСК24"),
        (DRIVER, "Теги: порт, новая вахта", "Ключевые слова: паром, зарплата на борту"),
        (CLERK, "출처: 골짜기신문", "출처: 항구일보"),
    ],
)
async def test_another_label_or_author_makes_no_other_page(text: str, one: str, other: str) -> None:
    """Nor does a source, the section of a site, or a row that is written in another way."""
    assert (await verdict_of(f"{one}\n{text}", f"{other}\n{text}")).is_duplicate


@pytest.mark.parametrize(
    ("text", "one", "other"),
    [
        (JOB, "Title: Reeds\nAuthor: Jane Holloway", "Title: Reeds\nAuthor: Peter Quill"),
        (JOB, "River: Tarn\n\nSource: Lake Imber", "River: Tarn\n\nSource: Lake Orrin"),
        (FLAT, "Von: Ulm\nNach: Bonn", "Von: Kiel\nNach: Bonn"),
        (DRIVER, "Город: Кострома\nКатегория: Б", "Город: Кострома\nКатегория: Д"),
        (DRIVER, "Источник: 12 вольт", "Источник: 24 вольта"),
        (FLAT, "Modell: Fink\nQuelle: Akku", "Modell: Fink\nQuelle: Netz"),
        (CLERK, "근무지: 원주\n출처: 골짜기신문", "근무지: 원주\n출처: 항구일보"),
    ],
)
async def test_an_author_or_source_among_facts_is_one(text: str, one: str, other: str) -> None:
    """As in a catalogue or a timetable."""
    assert (await verdict_of(f"{one}\n{text}", f"{other}\n{text}")).outcome == NEW
    assert (await verdict_of(f"{text}\n{one}", f"{text}\n{other}")).outcome == NEW


def _catalogue(label: str, value: str) -> str:
    rows = f"<dt>Title<dd>The reeds<dt>{label}<dd>{value}<dt>Binding<dd>cloth"
    page = f"<body><main><h1>Entry</h1><dl>{rows}</dl><p>{JOB.replace('. ', '.</p><p>')}</main>"
    return extract(page, extractor="fast").text


@pytest.mark.parametrize(
    ("label", "one", "other"),
    [
        ("Published", "March 4, 2031", "June 9, 1987"),
        ("Views", "1,204,000", "4,870,000"),
        ("Photo", "Olga Renn", "Ida Brandt"),
        ("Related", "Lake Imber", "Mill Orrin"),
        ("Author", "Jane Holloway", "Peter Quill"),
    ],
)
async def test_no_row_of_a_table_becomes_a_line_about_the_page(
    label: str, one: str, other: str
) -> None:
    """Though the same line in a text would be left out."""
    assert (await verdict_of(_catalogue(label, one), _catalogue(label, other))).outcome == NEW


@pytest.mark.parametrize(
    ("text", "one", "other"),
    [
        (JOB, "Next article: Ferry is late", "Next article: Mill burns down"),
        (
            JOB,
            "Previous post: Ferry is late\nNext post: Rain until May",
            "Next post: Mill burns down",
        ),
        (JOB, "Copyright: Valley Gazette", "Copyright: Harbour Courier"),
        (JOB, "Photo: Jane Holloway", "Photo: Peter Quill"),
        (JOB, "Contact the newsroom: Jane Holloway", "Contact the newsroom: Peter Quill"),
        (FLAT, "Abgelegt unter: Arbeit", "Abgelegt unter: Leben"),
        (CHAIR, "上一篇：渡船又晚点", "上一篇：老磨坊起火"),
        (DRIVER, "Рубрика: Работа", "Рубрика: Общество"),
        (CLERK, "다음 기사: 배가 늦었다", "다음 기사: 방앗간 화재"),
    ],
)
async def test_rows_of_a_site_make_no_other_page(text: str, one: str, other: str) -> None:
    """At the head or the foot."""
    assert (await verdict_of(f"{one}\n{text}", f"{other}\n{text}")).is_duplicate
    assert (await verdict_of(f"{text}\n{one}", f"{text}\n{other}")).is_duplicate


@pytest.mark.parametrize(
    ("text", "one", "other"),
    [
        (JOB, "Title:\nReeds\nAuthor:\nAnn Lee", "Title:\nReeds\nAuthor:\nJo Quill"),
        (JOB, "Title:\nReeds\nBirds\nAuthor:\nAnn Lee", "Title:\nReeds\nBirds\nAuthor:\nJo Quill"),
        (JOB, "Title: Reeds\nGenre:\nCrime", "Title: Reeds\nGenre:\nRomance"),
        (JOB, "Line:\nRed\nNext: Ludlow", "Line:\nRed\nNext: Hereford"),
        (JOB, "Topics:\nBees\nWasps", "Topics:\nAnts\nWasps"),
        (JOB, "Topic: Bees", "Topic: Mills"),
        (JOB, "Topic: Politics", "Topic: Science"),
        (JOB, "Subject:\nHealth", "Subject:\nTechnology"),
        (FLAT, "Thema: Wohnen", "Thema: Politik"),
        (DRIVER, "Тема: здоровье", "Тема: экономика"),
        (CHAIR, "主题：科技", "主题：文化"),
        (CLERK, "주제: 경제", "주제: 문화"),
        (JOB, "Genre: News", "Genre: Interview"),
        (JOB, "Section:\nWoodwind", "Section:\nBrass"),
        (JOB, "Source:\nNew hall opens in Ludlow", "Source:\nOld mill burns in Kent"),
        (JOB, "Next: Fry in hot oil", "Next: Bake at low heat"),
        (JOB, "Next: Stow on the Wold", "Next: Bourton on the Water"),
        (FLAT, "Siguiente: San Juan del Río", "Siguiente: Puerto de la Cruz"),
        (DRIVER, "Далее: Танцы до утра", "Далее: Чай и пироги"),
        (JOB, "Previous: Head of Sales", "Previous: Head of the Laboratory"),
        (JOB, "Coming next: The Silent Harbour", "Coming next: A Winter in Oslo"),
        (JOB, "Credits:\nfour", "Credits:\nsix"),
        (JOB, "Picture:\nThe Silent Harbour", "Picture:\nA Winter in Oslo"),
        (JOB, "Categorised: safe", "Categorised: rare"),
        (JOB, "Genre: Jazz", "Genre: Blues"),
        (JOB, "Previous: Ludlow\nNext: Hereford", "Previous: Church Stretton\nNext: Leominster"),
        (CHAIR, "材质：\n榉木\n主题：\n家居", "材质：\n榉木\n主题：\n生活"),
        (DRIVER, "Комментарии: 12", "Комментарии: 340"),
    ],
)
async def test_other_rows_are_facts(text: str, one: str, other: str) -> None:
    """Labels on lines of their own, the topic of a talk or a lesson, the next stop, step or film,
    and counted comments."""
    assert (await verdict_of(f"{one}\n{text}", f"{other}\n{text}")).outcome == NEW
    assert (await verdict_of(f"{text}\n{one}", f"{text}\n{other}")).outcome == NEW
