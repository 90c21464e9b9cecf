"""Reprints of Russian and Ukrainian reports, and reports that differ in one word."""

from __future__ import annotations

import pytest

from dedup_middleware import Deduplicator, Document, Options, Verdict

REPORT = (
    "Рыбака, пропавшего три дня назад на Светлом озере, нашли живым на острове{told}. Мужчина "
    "вышел на лодке за сетями и попал в шторм, мотор заглох, лодку перевернуло волной недалеко от "
    "берега. До острова он добрался вплавь, питался ягодами и жег костер из плавника. Дым утром "
    "заметили с вертолета лесной охраны. Врачи осмотрели спасенного и отпустили домой, от помощи "
    "больницы он отказался. Повреждения лодки не обнаружены, мотор отправят мастеру в октябре."
)


async def verdict(stored: str, new: str) -> Verdict:
    """What becomes of a text on another site than the stored one."""
    async with Deduplicator(Options(index_url="memory:", hash_key="1")) as dedup:
        await dedup.commit(await dedup.decide(Document(key="https://one.example/1", text=stored)))
        return await dedup.decide(Document(key="https://two.example/1", text=new))


def report(told: str = "") -> str:
    """The report, perhaps with who told it."""
    return REPORT.format(told=told)


async def test_two_sites_name_two_agencies() -> None:
    """Names behind the verb by which agencies are quoted are credits."""
    one, other = report(", сообщает Интерфакс"), report(", сообщает Фонтанка")
    assert (await verdict(one, other)).outcome == "duplicate"


@pytest.mark.parametrize(
    "line",
    [
        "ОЗЕРСК. 4 октября. ВЕСТИ. ", "Озерск, 4 октября. ", "Нижний Озерск. 4 октября. ",
        "ОЗЕРСЬК. 4 жовтня. ВІСТІ. ", "ОЗЕРСК, 4 октября, РИА Озерный край — ",
    ],
)  # fmt: skip
async def test_date_lines_that_end_with_a_stop(line: str) -> None:
    """Their day is no numeral of the report, and an agency behind it is no news."""
    assert (await verdict(report(), line + report())).outcome == "duplicate"


@pytest.mark.parametrize(
    "line", ["Озерск, 4 октября. 15 лодок ищут. ", "Пропали они в Озерске, 4 октября. "]
)
async def test_a_sentence_with_a_day_is_no_date_line(line: str) -> None:
    """Numerals behind the day are read, and so is the day behind more than the name of a town."""
    assert (await verdict(report(), line + report())).outcome == "new"


UKRAINIAN = (
    "Повінь на річках краю зруйнувала {count} мостів і пошкодила дороги до гірських сіл. Служби "
    "просять жителів низин не залишати авто біля води й перевірити зливову каналізацію. Громади "
    "чергують цілодобово, людей за потреби перевозять до шкіл, запас пального зроблено. "
    "Наступний підйом води очікують у {month}, гідрологи подають дані щодня, човни підготовлено."
)


@pytest.mark.parametrize(
    ("stored", "new"),
    [
        (report(), report().replace("три дня", "семеро суток")),
        (UKRAINIAN.format(count="одинадцять", month="травні"),
         UKRAINIAN.format(count="дванадцять", month="травні")),
        (UKRAINIAN.format(count="одинадцять", month="травні"),
         UKRAINIAN.format(count="одинадцять", month="червні")),
    ],
)  # fmt: skip
async def test_numerals_and_months_as_words(stored: str, new: str) -> None:
    """Collective numerals and Ukrainian numerals and months make another figure."""
    assert (await verdict(stored, new)).reason == "other-figures"


async def test_ukrainian_words_that_multiply() -> None:
    """A word with і is read as the abbreviation of it is."""
    text = UKRAINIAN + " На ремонт потрібно 86 {scale} гривень."
    pages = [
        text.format(count="сто", month="травні", scale=scale) for scale in ("млн", "мільйонів")
    ]
    assert (await verdict(*pages)).outcome == "duplicate"
