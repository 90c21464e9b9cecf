"""Character references are decoded, and links to other pages are not compared."""

from __future__ import annotations

import html
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedup_middleware.text.relevant import relevant

ARTICLE = (
    "The ferry sank on Monday in the harbour of the old town, where it was built 40 years ago.\n"
    "The mayor said: nobody was on board, and the insurance pays for a new one.\n"
    "Until then the island is reached by the bridge, or by those who can swim so far."
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("&quot;Fares&quot; rise&nbsp;by 4&#37; &amp; more", '"Fares" rise\xa0by 4% & more'),
        ("&amp;quot;Fares&amp;quot;", '"Fares"'),
        ("fish & chips; R&D; a&b=c&copy=2", "fish & chips; R&D; a&b=c&copy=2"),
        ("&unknown; &#99999999; &;", "&unknown; &#99999999; &;"),
        ("&#xD800;&#0;", "\ufffd\ufffd"),
    ],
)
def test_references_are_decoded(text: str, expected: str) -> None:
    """Those with a semicolon, also if the text was escaped twice; what is none stays."""
    assert relevant(text) == expected


@given(st.text(max_size=200).filter(lambda text: html.unescape(text) == text))
def test_escaped_text_reads_like_the_text(text: str) -> None:
    """What a feed escapes twice is the same text, but for one that shows how references look."""
    assert relevant(html.escape(html.escape(text))) == relevant(html.unescape(html.escape(text)))


@pytest.mark.parametrize(
    "links",
    [
        "Read also:\nFerry is late\n\nWho built the bridge?",
        "More Great Lakeside Stories\nFerry is late",
        "RELATED STORIES\r\nMr. Potter on the ferry\r\n",
        "相关阅读：\n渡轮晚点三小时\n新桥通车",
        "Читайте также\nПаром опоздал",
        "Read also: Ferry is late",
        "More on this story\nFerry is late\nRelated topics\nHarbour council",
        "You may also like...\nFerry is late",
        "Read or Share this story: https://lake.example/2x3D",
        "相关新闻：渡轮晚点三小时",
        "Похожие новости\nПаром опоздал на три часа",
        "Новости партнёров\nПаром опоздал на три часа",
        "\n".join(["See also", *["Ferry is late"] * 12]),
    ],
)
def test_links_are_left_out(links: str) -> None:
    """A label at the end with headlines below it, and a label with a headline on one line."""
    assert relevant(f"{ARTICLE}\n{links}") == ARTICLE


@pytest.mark.parametrize(
    "line",
    [
        "DO NOT DRINK WATER FROM THE LAKE",
        "FERRY SINKS OFF THE OLD PIER",
        " * 기본 JDK 기능 외 더 (의존성 없음)",
    ],
)
def test_lines_in_capitals_are_compared(line: str) -> None:
    """Most of those between paragraphs are headings of what follows, or warnings."""
    first, rest = ARTICLE.split("\n", 1)
    text = f"{first}\n\n{line}\n\n{rest}"
    assert relevant(text) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Fares rise by 4.5 per cent on Monday", "Fares rise by 4.5% on Monday"),
        ("Fares rise by 4 percent.", "Fares rise by 4%."),
        ("It leaves at 6.30am.", "It leaves at 6:30 a.m.."),
        ("It leaves at 6.30am, and at 7.45pm.", "It leaves at 6:30 a.m., and at 7:45 p.m.."),
        (
            "It leaves at 6am and 11pm, not at A5pm.",
            "It leaves at 6 a.m. and 11 p.m., not at A5 p.m..",
        ),
        ("At 6.31am, not at 7.30am", "At 6:31 a.m., not at 7:30 a.m."),
        ("At 6.31 a.m. or 12.07 pm", "At 6:31 a.m. or 12:07 p.m."),
        ("At 6.3 am, 6.75 pm or 1.204 am", "At 6.3 am, 6.75 pm or 1.204 am"),
        ("Gegen 6.40 Uhr, bis 16.05 Uhr.", "Gegen 6:40 Uhr, bis 16:05 Uhr."),
        ("dalle 8.30 alle 9.15", "dalle 8:30 alle 9:15"),
        ("om 6.40 uur, a las 6.40, saat 06.40", "om 6:40 uur, a las 6:40, saat 06:40"),
        (", ".join(["um 6.40 Uhr"] * 8), ", ".join(["um 6:40 Uhr"] * 8)),
        (", ".join(["um 6.40 Uhr"] * 9), ", ".join(["um 6.40 Uhr"] * 9)),
        ("Fiyatlar yüzde 12 arttı", "Fiyatlar %12 arttı"),
        (
            "It is 23 km (14 miles) away, a 5-mile (about 8 km) walk",
            "It is 23 km away, a 5-mile walk",
        ),
        ("1.5 million acres (600,000 hectares) at 25C (77F)", "1.5 million acres at 25C"),
        ("90 kg (80 kilograms), 8.1 m (7.9 metres)", "90 kg (80 kilograms), 8.1 m (7.9 metres)"),
        ("31 °C (19 C), 12 tons (about 3 tons)", "31 °C (19 C), 12 tons (about 3 tons)"),
        *(
            (f"It is 5 {one} (9 {other}) long", f"It is 5 {one} (9 {other}) long")
            for spellings in (
                ("km", "kms", "kilometer", "kilometres"),
                ("inch", "inches"),
                ("foot", "feet", "ft"),
                ("litre", "liters"),
                ("kg", "kilogram", "kilogrammes"),
                ("degrees Celsius", "Celsius", "C", "°C"),
                ("lb", "lbs", "pounds"),
                ("mile", "miles"),
            )
            for one in spellings
            for other in spellings
        ),
        (
            "He ran 5 km (and 3 miles), then 10 (6 miles)",
            "He ran 5 km (and 3 miles), then 10 (6 miles)",
        ),
        (
            "6.75 Uhr, 6.4.20 Uhr, alle 3.1, alle 3.400",
            "6.75 Uhr, 6.4.20 Uhr, alle 3.1, alle 3.400",
        ),
        (
            "4 percentage points, a per cent, 6.30ampere",
            "4 percentage points, a per cent, 6.30ampere",
        ),
    ],
)
def test_percentages_and_times_of_day_are_read_in_one_style(text: str, expected: str) -> None:
    """What papers of another country write with other signs."""
    assert relevant(text) == expected


def test_a_link_inside_is_left_out() -> None:
    """Sites put such a line between paragraphs."""
    first, rest = ARTICLE.split("\n", 1)
    assert relevant(f"{first}\nLesen Sie auch: Fähre kam zu spät\n{rest}") == ARTICLE


@pytest.mark.parametrize(
    "text",
    [
        f"{ARTICLE}\nRead also what the mayor said.",
        f"{ARTICLE}\nMore of the old news\nFerry is late",
        f"{ARTICLE}\nRead also: the mayor said that nobody was on board.",
        f"{ARTICLE}\nSee also\nThe mayor said that nobody was on board.",
        f"{ARTICLE}\nSee also\nनाव सोमवार को डूब गई।",
        f"See also\nFerry is late\n{ARTICLE}",
        "\n".join([ARTICLE, "See also", *["Ferry is late"] * 13]),
        "Read also:\nFerry is late\nWho built the bridge?",
        "相关阅读",
        "",
    ],
)
def test_sentences_are_no_links(text: str) -> None:
    """Sentences, long lists and what is before the article stay, and so does a page of links."""
    assert relevant(text) == text


def test_a_very_long_text_is_left_as_it_is() -> None:
    """Looking at it would take too long."""
    text = "&amp;" * 40_000
    assert relevant(text) == "&" * 40_000
    assert relevant(text + "&") == text + "&"


@pytest.mark.parametrize(
    ("text", "compared"),
    [
        (
            "Мост закрыт до мая. Об этом сообщает ТАСС. Объезд найден.",
            "Мост закрыт до мая. Объезд найден.",
        ),
        ("Мост закрыт, сообщает ТАСС. Объезд найден.", "Мост закрыт. Объезд найден."),
        (
            "Мост закрыт до мая в 8.30 и открыт в 16.40.",
            "Мост закрыт до мая в 8:30 и открыт в 16:40.",
        ),
        ("Мост открыт с 8.00 до 20.00, лодка ждет.", "Мост открыт с 8:00 до 20:00, лодка ждет."),
        (
            "По мосту провезли 4,8 млн т зерна, 12 тыс. чел. и 9 млрд руб., это 7 процентов.",
            "По мосту провезли 4,8 миллионов тонн зерна, 12 тысяч человек и 9 миллиардов рублей, "
            "это 7 %.",
        ),
        (
            "Мост строят с 2029 г. Он стоит 5 тыс. руб. Откроют его в 2031 году.",
            "Мост строят с 2029 года. Он стоит 5 тысяч рублей. Откроют его в 2031 года.",
        ),
        (
            "Под мостом 12 кв. метров льда, рядом 3 тыс. кв. м снега и 8 кв. км воды.",
            "Под мостом 12 квадратных метра льда, рядом 3 тысяч квадратных метра снега и "
            "8 квадратных километров воды.",
        ),
        ("The bridge is closed until May ... Read more »", "The bridge is closed until May "),
        (
            "Мост закрыт, люди и машины стоят у реки уже третий день.\nЧитать далее »",
            "Мост закрыт, люди и машины стоят у реки уже третий день.",
        ),
    ],
)
def test_what_a_site_says_of_its_source_and_of_the_rest(text: str, compared: str) -> None:
    """A sentence that names an agency and nothing else, and an invitation to read the rest."""
    assert relevant(text) == compared


@pytest.mark.parametrize(
    "text",
    [
        "Мост закрыт до мая, объезд найден. Об этом сообщает ТАСС со ссылкой на мэра города.",
        "Мост закрыт до мая, объезд найден. Об этом сообщил мэр.",
        "Около двух миллионов т. е. много, 5 г соли, 3 тысячелетия, 7 процентного раствора.",
        "Срок сдвинут к 12.10.2031, мост закрыт, в 2.500 домах нет света.",
        "... Read more",
        "The minister wants ... more",
    ],
)
def test_what_says_more_is_compared(text: str) -> None:
    """With another word a sentence names a source of its own."""
    assert relevant(text) == text


@pytest.mark.parametrize(
    "line",
    [
        "Если вы нашли мину, звоните на номер 112",
        "Если вы заметили мужчину в синей куртке, звоните на номер 8 912 345-67-89",
        "Если вы хотите вернуть деньги за рейс, напишите нам до пятницы",
        "Есть новость? Мэр ушел, сказал нам сторож",
        "Свидетельство о регистрации газеты № ФС 77-12345 отозвано судом",
    ],
)
def test_lines_of_news_are_compared(line: str) -> None:
    """They begin as lines of sites do, and ask the reader for nothing that a site wants."""
    text = "Мост закрыт до мая, объезд найден, паром ждет машины весь день.\n" * 6 + line
    assert relevant(text) == text


@pytest.mark.parametrize(
    "line",
    [
        "Если вы стали свидетелем аварии, пришлите нам фото +7 900 123-45-67",
        "Нашли ошибку? Выделите ее и нажмите Ctrl+Enter",
        "Свидетельство о регистрации СМИ ЭЛ № ФС 77-12345 выдано Роскомнадзором.",
    ],
)
def test_lines_of_sites_are_not_compared(line: str) -> None:
    """What a site asks its readers for, and its licence."""
    text = "Мост закрыт до мая, объезд найден, паром ждет машины весь день.\n" * 6
    assert relevant(text + line) == text.rstrip("\n")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("88 views\n{0}\n{1}\n3 likes\n2h ago", "{0}\n{1}"),
        ("Fares\nBy Ann Shepherd\n3 days ago\n{0}\n{1}", "Fares\n{0}\n{1}"),
        ("{0}\n88 views\n{1}\n88 views", "{0}\n88 views\n{1}\n88 views"),
        (
            "The ferry\n88 views\nThe bus\n41 views\n{0}",
            "The ferry\n88 views\nThe bus\n41 views\n{0}",
        ),
        ("Last flood:\n3 days ago\n{0}\n{1}", "Last flood:\n3 days ago\n{0}\n{1}"),
        ("{0}\n{1}\n٨٨ views", "{0}\n{1}\n٨٨ views"),
    ],
)
def test_counters_are_left_out_at_one_place_before_and_behind_the_paragraphs(
    text: str, expected: str
) -> None:
    """Elsewhere they may be the subject; `suspects` knows no digits of other scripts."""
    parts = [f"{ARTICLE} More.".replace("\n", " "), "The boats wait at the old pier."]
    assert relevant(text.format(*parts)) == expected.format(*parts)


def test_chinese_counters_do_not_make_a_short_page_a_gallery() -> None:
    """As other Chinese rows don't."""
    sentence = "这款餐椅结构结实，坐感舒适，适合各种家庭使用。"
    assert relevant(f"浏览次数：1340\n{sentence}") == sentence


@pytest.mark.parametrize(
    "line", ["CORK, Ireland, April 3 (Agency) - ", "CORK, Ireland — ", "NEW CORK, Texas (AP) — "]
)
def test_a_date_line_behind_a_headline_is_left_out(line: str) -> None:
    """Behind a sentence it may be an item of a digest, and stays."""
    assert relevant(f"Ferry is late\n\n{line}{ARTICLE}") == f"Ferry is late\n\n{ARTICLE}"
    assert relevant(f"It is late.\n{line}{ARTICLE}") == f"It is late.\n{line}{ARTICLE}"
    assert relevant(f"A cat\n\nLOST — {ARTICLE}") == f"A cat\n\nLOST — {ARTICLE}"


@pytest.mark.parametrize(
    "line",
    [
        "ОЗЕРСК, 3 апреля, PrimaMedia. ",
        "(Озерск, 3 апреля, «Озёрные вести», Анна Рекова). ",
        "Озерск-на-Реке, 3 апреля 2031. OZ24.RU. ",
        "3 апреля. Interfax-Russia.ru - ",
        "36氪获悉，",
        "格隆汇4月3日丨",
        "新浪财经讯 4月3日，",
    ],
)
def test_a_source_with_a_number_is_left_out(line: str) -> None:
    """At the beginning, behind a headline, and behind the time at which the page was made, which is
    compared: it may be that of an event."""
    text = ARTICLE.replace("\n", " ")
    assert relevant(line + text) == text
    assert relevant(f"Паром опоздал\n{line}{text}") == f"Паром опоздал\n{text}"
    assert relevant(f"13:47, 3 апреля\n{line}{text}") == f"13:47, 3 апреля\n{text}"


@pytest.mark.parametrize(
    "line",
    [
        "3 мая, «Заря» – «Маяк» сыграют вничью. ",
        "3 мая. «Заря» – чемпион озера. ",
        "3 мая. ОФК – Маяк: ничья. ",
        "Озерск, 3 мая. «Заря» – «Маяк», ничья. ",
        "Озерск, 3 мая, ОФК – Маяк: ничья. ",
        "12 человек. «Икар» – таков итог. ",
        "12 лодок, OZ24 – и ни одного причала. ",
        "Озерск, 12 лодок, «Икар» – и ни одного причала. ",
    ],
)
def test_a_numeral_before_a_name_is_no_source(line: str) -> None:
    """Without a month, without a town before a quoted name, or before another quoted name."""
    text = ARTICLE.replace("\n", " ")
    assert relevant(line + text) == line + text
    assert relevant(f"Паром опоздал\n{line}{text}") == f"Паром опоздал\n{line}{text}"


@pytest.mark.parametrize(
    "line",
    [
        "LOST (Cat) - ",
        "FOUND (Cat) - ",
        "LOST, Cat - ",
        "LOST, April 3 - ",
        "CLOSED, Friday - ",
        "OPEN, Friday, April 3 - ",
        "SHUT, April 3 - ",
        "CANCELLED, Saturday (Stage) - ",
    ],
)
def test_other_words_in_capitals_are_no_town(line: str) -> None:
    """A town has its country or an agency behind it, or a day and is not what happened that day."""
    text = f"Notice\n\n{line}{ARTICLE}"
    assert relevant(text) == text


@pytest.mark.parametrize(
    "line",
    [
        "CORK, April 3 - ",
        "CORK (Reuters) - ",
        "CORK, Old Lake (AP) -- ",
        "NEW CORK, N.Y., April 3, 2031 /PRNewswire/ -- ",
        "CORK, South Africa — ",
        "CORK, Mass. (Lake News) — ",
    ],
)
def test_a_town_with_its_country_a_day_or_an_agency_is_left_out(line: str) -> None:
    """The date lines that wires use."""
    assert relevant(f"Ferry is late\n\n{line}{ARTICLE}") == f"Ferry is late\n\n{ARTICLE}"


@pytest.mark.parametrize("mark", [" -30-", "\n-0-", "   -30-"])
def test_the_end_mark_of_a_wire_is_left_out(mark: str) -> None:
    """Not a numeral in dashes."""
    assert relevant(ARTICLE + mark) == ARTICLE
    assert relevant(f"{ARTICLE} -4-") == f"{ARTICLE} -4-"


def test_a_text_of_blanks_takes_no_long_time() -> None:
    """A mark is looked for at the end alone."""
    text = f"x{' ' * 190_000}y-"
    started = time.perf_counter()
    assert relevant(text) == text
    assert time.perf_counter() - started < 1


@pytest.mark.parametrize(
    "line", ["Озерск, 3 апреля. Пожар. ", "3 апреля, Анна Рекова. ", "36氪员工说，", "新浪财经讯，"]
)
def test_other_beginnings_are_compared(line: str) -> None:
    """A sentence of one word behind a day, a name, or a source without a number."""
    assert relevant(line + ARTICLE) == line + ARTICLE


@pytest.mark.parametrize(
    "line", ["Barley | 3 March 2031 | Elland Road", "Ann | Bob", "He left. She stayed.",
             "Register to vote by 4 May", "Home advantage counts. They won."],
)  # fmt: skip
def test_lines_with_parts_on_the_subject_are_compared(line: str) -> None:
    """A row of a table, and two sentences."""
    assert relevant(f"{ARTICLE}\n{line}") == f"{ARTICLE}\n{line}"


@pytest.mark.parametrize("line", ["by Ann Shepherd.", "share.", "comment."])
def test_the_end_of_a_wrapped_sentence_is_kept(line: str) -> None:
    """It says something, although alone it would be a byline, a button or a source."""
    wrapped = (
        f"{ARTICLE}\nThe mill was sold on Monday to owners who were paid for it or led\n{line}"
    )
    assert relevant(f"{wrapped}\n{ARTICLE}") == f"{wrapped}\n{ARTICLE}"
    assert relevant(f"{ARTICLE}\n{line}\n{ARTICLE}") == f"{ARTICLE}\n{ARTICLE}"


def test_a_line_within_a_wrapped_sentence_is_kept() -> None:
    """It has no full stop, but the next line goes on with a small letter."""
    begin = "The mill was sold on Monday to owners who were led for ten years"
    text = f"{begin}\nby Ann Shepherd\nand by her brother.\n{ARTICLE}"
    assert relevant(text) == text
    assert relevant(f"{begin}\nby Ann Shepherd\n{ARTICLE}") == f"{begin}\n{ARTICLE}"


def test_one_name_behind_by_is_compared() -> None:
    """A heading looks like a byline."""
    for line in ("By Train", "By Train.", "BY TRAIN", "Von Hamburg"):
        assert relevant(f"{ARTICLE}\n{line}\n{ARTICLE}") == f"{ARTICLE}\n{line}\n{ARTICLE}"
    for line in ("By Ann Shepherd", "BY ANN SHEPHERD", "By Lakeside staff", "By Reuters"):
        assert relevant(f"{ARTICLE}\n{line}\n{ARTICLE}") == f"{ARTICLE}\n{ARTICLE}"
