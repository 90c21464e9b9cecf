"""What of a text is compared: character references are decoded, links to other pages and lines
that say nothing of its subject left out.

Texts that an extractor took out of a page often hold them: feeds and JSON-LD escape HTML once
more, and a list of headlines under "Read also" stays below the article.
"""

from __future__ import annotations

import html
import re
from typing import Final

from dedup_middleware.text.pagelines import (
    AGENCIES,
    BEGINNINGS,
    BUTTONS,
    NUMBERED,
    is_page_line,
    reserves_rights,
)
from dedup_middleware.text.suspects import make_table, suspects

_REFERENCE: Final = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
_MOST_CHARS: Final = 200_000  # of a text that is looked at: a tenth of a second at worst
_MOST_ESCAPED: Final = 2  # times that a text may be escaped
# What stands before links to other pages, in lower case and without a colon.
_LABELS: Final = frozenset(
    """
    read also | also read | read more | read next | see also | related | related articles |
    related stories | related news | related links | related coverage | related content |
    related posts | related topics | more on this story | more on this topic | more stories |
    you may also like | you might also like | recommended reading | recommended for you |
    don't miss | most read | 相关阅读 | 相关新闻 | 相关报道 | 相关链接 | 相关文章 | 相关推荐 |
    延伸阅读 | 推荐阅读 | 更多阅读 | 更多新闻 | 热门推荐 | 猜你喜欢 | 相關閱讀 | 相關新聞 |
    相關報導 | 相關文章 | 延伸閱讀 | 推薦閱讀 | 更多新聞 | 関連記事 | 関連ニュース |
    あわせて読みたい | おすすめ記事 | 관련기사 | 관련 기사 | 관련 뉴스 | читайте также |
    читайте ещё | читайте еще | смотрите также | по теме | ещё по теме | еще по теме |
    материалы по теме | другие новости | читайте також | дивіться також | lesen sie auch |
    auch interessant | mehr zum thema | weitere artikel | lesen sie mehr |
    das könnte sie auch interessieren | lire aussi | à lire aussi | à lire également |
    voir aussi | sur le même sujet | lea también | lee también | le puede interesar |
    te puede interesar | noticias relacionadas | ver también | leggi anche |
    articoli correlati | potrebbe interessarti | leia também | leia mais | veja também |
    notícias relacionadas | czytaj także | czytaj też | czytaj więcej | przeczytaj także |
    zobacz także | zobacz też | lees ook | lees meer | läs också | läs även | läs mer |
    les også | læs også | lue myös | čtěte také | citește și | διαβάστε επίσης |
    ilgili haberler | baca juga | xem thêm | اقرأ أيضا | اقرأ أيضاً | קראו גם |
    อ่านเพิ่มเติม | อ่านต่อ | ข่าวที่เกี่ยวข้อง | यह भी पढ़ें | ये भी पढ़ें
    """.replace("\n    ", " ")
    .strip()
    .split(" | ")
)
_MORE: Final = re.compile(  # More Great Lakeside Stories
    r"more (?:great |top )?(?:[\w’']{1,20} ){0,2}(?:stories|coverage|news|articles)"
)
_LONGEST_LABEL: Final = max(map(len, _LABELS))
_TABLE: Final = make_table(BEGINNINGS, NUMBERED, {*_LABELS, *BUTTONS, "more stories"}, AGENCIES)
_LONGEST_SUSPECT: Final = max(_LONGEST_LABEL, *map(len, BUTTONS))
_LONGEST_HEADLINE: Final = 140
_MOST_HEADLINES: Final = 12
_MOST_SHARE: Final = 0.5  # of a text that may be links
_LEAST_SUBJECT: Final = 0.75  # of a text that must be lines about its subject
# A Russian sentence that says which agency or paper reported what stands before it, and no more.
_ABOUT: Final = "б этом"
_SOURCE: Final = (
    r"тасс|итар-тасс|риа новости|интерфакс|лента\.ру|lenta\.ru|газета\.ru|рбк|регнум|regnum|росбалт"
    r"|коммерсантъ?|ведомости|известия|российская газета|газета|агентство|издание|reuters|рейтер"
    r"|the associated press|associated press|ap|afp|франс пресс|france[ -]presse|bloomberg"
)
_REPORTED: Final = re.compile(
    r"(?:(?<=[.!?»\"”])[ \t]|^)об этом (?:сообща[ею]т|сообщил[аио]?|переда[её]т|пишет|говорится в)"
    r"(?: (?:ия|иа|агентств[оа]|корреспондент|газета|издание|сообщении))?"
    rf" [«\"“]?(?:{_SOURCE})[»\"”]?"
    r"(?: со ссылкой на (?:пресс-службу|(?:свой |собственный )?источник|источники))?"
    r"\.(?=\s|$)",
    re.IGNORECASE | re.MULTILINE,
)
# An invitation to read the rest, behind the dots of a text that was cut.
_MORE_OF_IT: Final = re.compile(
    r"(?:\.{3,}|…|[\[(](?:\.{3}|…)[\])])\s*(?:read more|continue reading|weiterlesen"
    r"|lire la suite|leer más|seguir leyendo|leggi tutto|continua a leggere|leia mais|читать далее"
    r"|читать полностью|подробнее|阅读全文|查看全文|閱讀全文)[\s.…»›→>\])]*\Z",
    re.IGNORECASE,
)
_LONGEST_MORE: Final = 48  # characters of it
_SENTENCE_END: Final = re.compile(r"[.。．।॥።။։][\"'”’»)]?$")


def relevant(text: str) -> str:
    """The part of a text that is compared; a text of more than 200,000 characters is all of it.

    >>> relevant("Fares rise by 4&#37; from April on.\\nRead also:\\nFerry is late")
    'Fares rise by 4% from April on.'
    """
    if len(text) > _MOST_CHARS:
        return text
    if "&" in text:
        for _ in range(_MOST_ESCAPED):
            text = _REFERENCE.sub(lambda found: html.unescape(found[0]), text)
    if _ABOUT in text:
        text = _without_reports(text)
    more = _MORE_OF_IT.search(text, max(0, len(text) - _LONGEST_MORE))
    if more is not None and more.start() >= _MOST_SHARE * len(text):
        text = text[: more.start()]
    return _without_lines(text) if "\n" in text else text


def _without_reports(text: str) -> str:
    """The text without sentences that name nothing but who reported it; as it is if that were more
    than half of it.

    >>> _without_reports("Мост закрыт до мая. Об этом сообщает ТАСС. Объезд найден.")
    'Мост закрыт до мая. Объезд найден.'
    """
    found = _REPORTED.sub("", text)
    return found if len(found) >= _MOST_SHARE * len(text) else text


def _without_lines(text: str) -> str:
    """The text without lines that say nothing of its subject, without those of the form `Read also:
    headline`, and without the headlines below a label on a line of its own at its end; as it is if
    that were more than half of it. Lines of the first kind stay if they are more than a quarter: in
    a gallery the pictures are the subject.

    A headline is a short line that is no sentence: it has no full stop at its end.
    """
    looked_at = suspects(text, _TABLE, _LONGEST_SUSPECT)
    if not looked_at:
        return text
    lines = text.split("\n")
    page_lines = {place for place in looked_at if is_page_line(lines[place])}
    kept = lines
    if page_lines:
        kept = [line for place, line in enumerate(lines) if place not in page_lines]
        # A long notice of rights makes no gallery of a short page.
        of_page = sum(len(line) for line in lines if not reserves_rights(line))
        if sum(map(len, kept)) < _LEAST_SUBJECT * of_page:
            kept = lines
    if any(_is_link(lines[place]) for place in looked_at):
        kept = [line for line in kept if not _is_link(line)]
    for count, line in enumerate(reversed(kept[-_MOST_HEADLINES - 1 :]), 1):
        stripped = line.strip()
        if line and not _is_headline(stripped):
            break
        if _is_label(stripped.rstrip(":：").rstrip()):
            kept = kept[:-count]
            break
    if len(kept) == len(lines):
        return text
    found = "\n".join(kept).rstrip()
    return found if len(found) >= _MOST_SHARE * len(text) else text


def _is_link(line: str) -> bool:
    """Whether a line is a label and a headline: `Read also: Ferry is late again`."""
    if len(line) > _LONGEST_LABEL + _LONGEST_HEADLINE or (":" not in line and "：" not in line):
        return False
    line = line.strip()
    colon = max(line.find(":", 0, _LONGEST_LABEL + 1), line.find("：", 0, _LONGEST_LABEL + 1))
    return (
        colon > 0 and _is_label(line[:colon].rstrip()) and _is_headline(line[colon + 1 :].strip())
    )


def _is_label(text: str) -> bool:
    lower = text.lower()
    if len(text) > _LONGEST_LABEL:
        return False
    return lower in _LABELS or (lower.startswith("more ") and _MORE.fullmatch(lower) is not None)


def _is_headline(text: str) -> bool:
    return 0 < len(text) <= _LONGEST_HEADLINE and _SENTENCE_END.search(text) is None
