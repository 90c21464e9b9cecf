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
        "ОЗЕРСК, 4 октября, ИА Озерный край. ", "Озерськ, 4 жовтня (Вісті). ",
    ],
)  # fmt: skip
async def test_date_lines_that_end_with_a_stop(line: str) -> None:
    """Their day is no numeral of the report, and an agency behind it is no news."""
    assert (await verdict(report(), line + report())).outcome == "duplicate"


@pytest.mark.parametrize(
    "line",
    [
        "Озерск, 4 октября. 15 лодок ищут. ",
        "Пропали они в Озерске, 4 октября. ",
        "Озерск, 4 октября, 15 лодок ищут. ",
        "Пропали они в Озерске, 4 октября (среда). ",
    ],
)
async def test_a_sentence_with_a_day_is_no_date_line(line: str) -> None:
    """Numerals behind the day are read, and so is the day behind more than the name of a town."""
    assert (await verdict(report(), line + report())).outcome == "new"


@pytest.mark.parametrize(
    "line", ["Озерск. 12 травмированных. ", "Озерск. 5 берез упало. ", "Озерск, 3 маршрута. "]
)
async def test_a_word_that_begins_like_a_month_is_none(line: str) -> None:
    """The number before it is no day, but news."""
    assert (await verdict(report(), line + report())).reason == "other-figures"


@pytest.mark.parametrize(
    ("sentence", "names"),
    [
        (" Германия передает {} комплексы для защиты городов с воздуха.", ("Украине", "Израилю")),
        (" Германия, как и Франция, передает {} комплексы с ракетами.", ("Украине", "Израилю")),
        (" Пишет {} о спасении известный актер и просит наград.", ("Путину", "Собянину")),
        (" О спасении сообщает {} на своей странице в сети.", ("Собянин", "Беглов")),
    ],
)  # fmt: skip
async def test_who_is_told_or_given_something_is_no_credit(
    sentence: str, names: tuple[str, str]
) -> None:
    """Only behind a comma and before no dative do these verbs tell whose report it is."""
    one, other = (report() + sentence.format(name) for name in names)
    assert (await verdict(one, other)).reason == "other-figures"


async def test_other_and_friend_are_no_second() -> None:
    """Russian words that are written like Ukrainian ordinals add no figure to a copy."""
    copy = report().replace("помощи больницы", "помощи другого врача")
    assert (await verdict(report(), copy)).outcome == "duplicate"


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


@pytest.mark.parametrize(
    ("one", "other", "reason"),
    [
        ("86 процентів", "86%", "near-duplicate"),
        ("86 процентів", "86", "other-figures"),
        ("86 метрів", "86 м", "near-duplicate"),
        ("86 місяців", "86 тижнів", "other-figures"),
        ("86 літрів", "86 гектарів", "other-figures"),
    ],
)
async def test_ukrainian_units(one: str, other: str, reason: str) -> None:
    """Units with і are read as a whole."""
    text = UKRAINIAN.format(count="сто", month="травні") + " На ремонт моста піде {} каменю."
    assert (await verdict(text.format(one), text.format(other))).reason == reason


@pytest.mark.parametrize(
    "told",
    [
        ", сообщила пресс-служба регионального управления МЧС", ", передает Telegram-канал «Берег»",
        ". Об этом говорится на сайте областной прокуратуры",
        ", пишет газета «Вести» со ссылкой на МЧС",
    ],
)  # fmt: skip
async def test_another_medium_tells_the_report(told: str) -> None:
    """Which medium or body told it is no news, nor is another one in its place."""
    assert (await verdict(report(), report(told))).outcome == "duplicate"
    assert (await verdict(report(", сообщает пресс-служба заповедника"), report(told))).is_duplicate


@pytest.mark.parametrize(
    "told",
    [
        ", сообщила пресс-служба и показала на снимках вторую лодку без людей",
        ". Об этом говорится в записке мэра, который подал в отставку",
        ", передает на берег второй рыбак",
    ],
)  # fmt: skip
async def test_a_statement_in_such_a_clause_is_news(told: str) -> None:
    """A clause with another word is compared as a whole."""
    assert (await verdict(report(), report(told))).outcome == "new"


async def test_a_negation_changes_the_case_of_other_words() -> None:
    """Повреждения обнаружены has the words of повреждений не обнаружено."""
    other = report().replace("Повреждения лодки не обнаружены", "Повреждение лодки обнаружено")
    assert (await verdict(report(), other)).reason == "turned-round"
