"""A page in, its title and body out: whatever template, encoding or trap it comes in."""

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dedup_middleware.text import extract as module
from dedup_middleware.text.extract import MODES, Mode, Page, extract
from dedup_middleware.text.extraction import blocks, metadata

TITLE = "滨河新区图书馆下月开放夜间阅览室"
PARAGRAPHS = [
    "记者昨天从滨河新区管理委员会获悉，位于文化广场北侧的新图书馆将从下月一日起开放夜间阅览室，"
    "开放时间为每天十八时至二十二时。",
    "据介绍，夜间阅览室设有二百四十个座位，分为普通阅览区、自习区和儿童阅览区，"
    "读者凭身份证或者借书证就可以入馆，不需要另外预约。",
    "图书馆馆长表示，过去半年里有许多上班族来信反映白天没有时间借书，"
    "因此馆方调整了排班，并且增加了十二名工作人员和八名志愿者。",
    "公交公司同时宣布，从下月起三路和十五路的末班车将推迟到二十二时三十分，"
    "方便读者在闭馆之后乘车回家。",
]
ENGLISH_TITLE = "Harbour library opens its reading room at night"
ENGLISH = [
    "The new library on the north side of the square will open a reading room at night from the "
    "first of next month, the district council said on Tuesday.",
    "The room has two hundred and forty seats in three areas, one of them for children, and "
    "readers will need nothing but a library card or proof of identity to get in.",
    "The librarian said that many people who work by day had written in the past six months to ask "
    "for later hours, so twelve members of staff and eight volunteers were added.",
]
MENU = "".join(
    f'<li><a href="/{i}">{word}</a></li>'
    for i, word in enumerate("首页 要闻 国内 国际 财经 体育 娱乐 科技 汽车 房产 教育".split())
)
RELATED = "".join(
    f'<li><a href="/r{i}">{text}</a></li>'
    for i, text in enumerate(["新区地铁六号线开始试运行", "秋季蔬菜价格总体平稳", "周末气温回升"])
)
COMMENTS = "".join(
    f'<div class="item">网友{i}：这个消息很好，希望其他图书馆也能延长开放的时间，'
    "感谢工作人员的付出。</div>"
    for i in range(4)
)


def modern(title: str, paragraphs: list[str]) -> str:
    """Semantic tags, JSON-LD, share buttons, aside, comments."""
    body = "".join(f"<p>{p}</p>\n" for p in paragraphs)
    return (
        f'<!DOCTYPE html><html lang="zh-CN"><head><title>{title}_晨光新闻网</title>'
        "<script>var tpl = '<p>not text</p>';</script><style>p{margin:0}</style></head><body>"
        f"<header><nav><ul>{MENU}</ul></nav></header><main><article><h1>{title}</h1>"
        '<div class="meta">2021-03-04 10:20 来源：晨光新闻网</div>'
        f'<div class="article-content">{body}</div><div class="share"><a href="#">微信</a></div>'
        f'</article><aside><ul>{RELATED}</ul></aside><section class="comments">{COMMENTS}</section>'
        "</main><footer>版权所有 晨光新闻网 未经授权不得转载</footer></body></html>"
    )


def table(title: str, paragraphs: list[str]) -> str:
    """Layout tables, fonts, line breaks for paragraphs."""
    body = "<br><br>　　".join(paragraphs)
    return (
        f"<HTML><HEAD><TITLE>{title} - 江河在线</TITLE></HEAD><BODY><TABLE><TR><TD>{MENU}</TD></TR>"
        f"</TABLE><TABLE><TR><TD><UL>{RELATED}</UL></TD><TD><CENTER><B>{title}</B></CENTER><HR>"
        f"<FONT size=3>　　{body}</FONT></TD></TR></TABLE>"
        "<CENTER>江河在线 版权所有</CENTER></BODY></HTML>"
    )


def soup(title: str, paragraphs: list[str]) -> str:
    """Nested divs, no paragraphs, comments next to the text, nothing closed at the end."""
    body = "".join(f"<div>{p}</div>\n" for p in paragraphs)
    return (
        f'<html><head><title>{title}|山水网</title></head><body><div id="wrap"><div class="hd">'
        f'<ul class="nav">{MENU}</ul></div><div class="left"><h2>{title}</h2><div id="zoom">{body}'
        f'</div><div class="list"><h4>推荐</h4><ul>{RELATED}</ul></div>'
        f'<div class="comments">{COMMENTS}</div></div>'
    )


TEMPLATES = [modern, table, soup]


@pytest.mark.parametrize("template", TEMPLATES)
@pytest.mark.parametrize("mode", MODES)
def test_body_and_title_in_any_template(template: object, mode: module.Mode) -> None:
    """The same article has the same body in three templates and by every extractor."""
    assert callable(template)
    page = extract(template(TITLE, PARAGRAPHS), extractor=mode)
    assert page.text.split("\n") == PARAGRAPHS
    assert page.title == TITLE


@pytest.mark.parametrize("codec", ["utf-8", "gbk", "gb18030", "utf-16"])
def test_body_does_not_depend_on_the_encoding(codec: str) -> None:
    """Bytes give the body of the text, with an honest header, a wrong one and none."""
    data = soup(TITLE, PARAGRAPHS).encode(codec)
    for charset in (codec, "iso-8859-1", None):
        assert extract(data, charset=charset).text.split("\n") == PARAGRAPHS


def test_charset_is_reported() -> None:
    """The page names the codec that read it, and none for text."""
    assert extract(modern(TITLE, PARAGRAPHS).encode("gbk"), charset="gb2312").charset == "gb18030"
    assert extract(modern(TITLE, PARAGRAPHS)).charset == ""


def test_english_page() -> None:
    """An English article comes out whole."""
    page = extract(modern(ENGLISH_TITLE, ENGLISH).replace("zh-CN", "en"))
    assert page.text.split("\n") == ENGLISH
    assert page.title == ENGLISH_TITLE


def test_forum_thread_keeps_its_posts() -> None:
    """On a page that says it is a thread the comments are the body."""
    posts = "".join(f'<div class="comment"><p>{p}</p></div>' for p in ENGLISH)
    html = f"<title>Library hours - City forum</title><body><div>{posts}</div></body>"
    assert extract(html).text.split("\n") == ENGLISH


def test_hidden_text_is_no_body() -> None:
    """Text that readers do not see stays out: scripts, comments, hidden blocks."""
    hidden = (
        "这段文字不应该出现在正文里面，因为浏览器并不会把它显示出来给读者看，它只是模板的一部分。"
    )
    html = modern(TITLE, PARAGRAPHS).replace(
        "<p>",
        f"<script>{hidden}</script><!-- {hidden} --><div style='display: none'>{hidden}</div>"
        f"<div hidden>{hidden}</div><template>{hidden}</template><p>",
        1,
    )
    assert extract(html).text.split("\n") == PARAGRAPHS


def test_article_inside_noscript() -> None:
    """Pages that draw their article by script and repeat it for readers without one have a body."""
    body = "".join(f"<p>{p}</p>" for p in ENGLISH)
    html = f'<body><div id="app"></div><noscript>{body}</noscript></body>'
    assert extract(html).text.split("\n") == ENGLISH


def with_json_ld(data: object, rest: str = '<div id="app"></div>') -> str:
    """A page that a script fills in, and what it says of itself."""
    stated = json.dumps(data, ensure_ascii=False)
    return f'<head><script type="application/ld+json">{stated}</script></head><body>{rest}</body>'


@pytest.mark.parametrize("join", ["\n", "\n\n", "<br>", "&nbsp;<p>"])
def test_body_of_a_page_that_a_script_fills_in(join: str) -> None:
    """Without a body in the markup that of the JSON-LD is taken, wherever it is."""
    stated = {
        "@graph": [{"articleBody": "Short."}, {"mainEntity": {"articleBody": join.join(ENGLISH)}}]
    }
    page = extract(with_json_ld(stated))
    assert [line for line in page.text.split("\n") if line] == ENGLISH
    assert page.extractor == "json-ld"


def test_markup_comes_before_json_ld() -> None:
    """A body in the markup is the body, whatever the page says of itself."""
    markup = "".join(f"<p>{p}</p>" for p in PARAGRAPHS)
    page = extract(with_json_ld({"articleBody": "\n".join(ENGLISH)}, markup))
    assert page.text.split("\n") == PARAGRAPHS


@pytest.mark.parametrize(
    "data",
    [
        {"articleBody": "Home | News | Sport | Login"},
        {"articleBody": 7},
        {"articleBody": ["\ud83d"]},
        {"articleBody": "\ud83d"},
        [[]],
        "articleBody",
    ],
)
def test_json_ld_without_a_body(data: object) -> None:
    """What does not read like a body is none."""
    assert extract(with_json_ld(data)).text == ""


@pytest.mark.parametrize(
    "script",
    [
        '{"articleBody": "' + "It rained all day in the north. " * 9,
        '{"articleBody":' + "[" * 100_000,
        '{"articleBody":' + '{"a":' * 100_000 + "1" + "}" * 100_001,
        " " * 3_000_000 + '{"articleBody": "' + "It rained all day in the north. " * 9 + '"}',
    ],
)
def test_broken_json_ld(script: str) -> None:
    """Neither an error nor a body."""
    html = f'<script type="application/ld+json">{script}</script>'
    assert extract(html + "<p>").text == ""
    assert extract('<script type="application/ld+json">' * 20_000 + script).text == ""


@pytest.mark.parametrize(
    "html",
    [
        "",
        "   \n ",
        "<html></html>",
        b"",
        b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 8,
        b"\x00" * 500,
        "<script>alert(1)",
        "<",
        "<!--",
        "<p>...</p>",
    ],
)
def test_hopeless_input_has_no_body(html: bytes | str) -> None:
    """Empty, binary and scripted pages have the text "" and raise nothing."""
    assert extract(html).text == ""


def test_plain_text_is_its_own_body() -> None:
    """A text without any markup is the body, paragraph by paragraph."""
    page = extract("\n\n".join(PARAGRAPHS))
    assert page.text.split("\n") == PARAGRAPHS
    assert page.extractor == "plain"


def test_xml_with_cdata_and_entities() -> None:
    """XML gives its text; entities of its own are never expanded."""
    bomb = "".join(f'<!ENTITY a{i} "{f"&a{i - 1};" * 10}">' for i in range(1, 10))
    html = (
        f'<?xml version="1.0"?><!DOCTYPE doc [<!ENTITY a0 "ha">{bomb}]><doc>'
        f"<para><![CDATA[{ENGLISH[0]} 1 < 2 & 3]]></para><para>{ENGLISH[1]}</para>"
        f"<para>{ENGLISH[2]} &a9;</para></doc>"
    )
    text = extract(html).text
    assert f"{ENGLISH[0]} 1 < 2 & 3" in text
    assert ENGLISH[1] in text
    assert len(text) < 1_000


def test_surrogates_and_nuls() -> None:
    """Lone surrogates and NULs do not stop the body; pairs become their character."""
    html = (
        modern(TITLE, PARAGRAPHS)
        .replace("获悉", "获\x00悉")
        .replace("据介绍", "\ud83d\ude00\udc00据")
    )
    text = extract(html).text
    assert "获悉" in text
    assert "\U0001f600\ufffd据" in text
    text.encode("utf-8")


def test_long_pages_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """What lies behind the limit is not looked at; what lies before it is the page."""
    html = modern(TITLE, PARAGRAPHS)
    monkeypatch.setattr(module, "MAX_SIZE", html.index(PARAGRAPHS[2]))
    assert extract(html).text.split("\n") == PARAGRAPHS[:2]


def test_pictures_alone_are_left_out_of_long_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chinese behind the word is text, which has no white space either."""
    monkeypatch.setattr("dedup_middleware.text.extract.MAX_SIZE", 9_000)
    said = "".join(PARAGRAPHS * 8)
    page = f"<p>{said}</p><img src='data:image/png;base64,{'A' * 9_000}'><p>data:{said[:9]},{said}"
    found = extract(page)
    assert (found.text.count(said), found.rest) == (2, "")


def test_captions_are_the_text_of_a_gallery() -> None:
    """Where they outweigh the paragraphs they are read; else they are no part of the report."""
    figures = [f"<figure><img><figcaption>{p}</figcaption></figure>" for p in ENGLISH]
    gallery = f"<body><p>{PARAGRAPHS[0]}</p>{''.join(figures)}</body>"
    assert extract(gallery).text.split("\n") == [PARAGRAPHS[0], *ENGLISH]
    report = "".join(f"<p>{p}</p>" for p in PARAGRAPHS * 3)
    assert ENGLISH[0] not in extract(f"<body>{report}{figures[0]}</body>").text


@pytest.mark.parametrize("name", ["sidebar", "related", "story"])
def test_text_next_to_a_gallery_is_read(name: str) -> None:
    """Also in a box named like furniture: where it is all that differs, it would be lost."""
    captions = "".join(
        f"<figure><figcaption>{n} {p}</figcaption></figure>" for n in range(5) for p in ENGLISH
    )
    text = "".join(f"<p>{p}</p>" for p in PARAGRAPHS)
    page = f"<body>{captions}<div class={name}>{text}</div></body>"
    assert PARAGRAPHS[-1] in extract(page, extractor="fast").text


def test_paragraphs_that_are_marked_as_headings_are_read() -> None:
    """Headings at the end belong to boxes below the text, unless they are whole sentences."""
    headings = "".join(f"<h4>{p}</h4>" for p in ENGLISH)
    page = f"<body><p>{PARAGRAPHS[0]}</p>{headings}<h4>Other news of today</h4></body>"
    assert extract(page).text.split("\n") == [PARAGRAPHS[0], *ENGLISH]


def test_unknown_extractor_is_an_error() -> None:
    """The message names the argument, the value and the choice."""
    with pytest.raises(ValueError, match="extractor='quick' is unknown; use one of balanced"):
        extract("<p>x</p>", extractor="quick")  # type: ignore[arg-type]


def test_doubtful_pages_alone_reach_the_slow_extractor(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clear page and the mode ``fast`` never call it, a page of scattered text does."""
    calls: list[str] = []

    answer = "What the other library found is a whole sentence, as long as any in the report."

    def spy(html: str, **_: object) -> str:
        calls.append(html)
        return answer

    monkeypatch.setattr(module, "thorough_body", spy)
    scattered = "".join(f"<div><div><span>{p}</span></div></div>" for p in ENGLISH)
    doubtful = f"<body><div>{scattered}</div><div>{scattered}</div></body>"
    assert extract(modern(TITLE, PARAGRAPHS)).extractor == "quick"
    assert extract(doubtful, extractor="fast").extractor == "quick"
    assert not calls
    assert extract(doubtful) == Page("", answer, "", "thorough")
    assert len(calls) == 1


@pytest.mark.parametrize(("mode", "fast"), [("balanced", True), ("best", False)])
def test_best_takes_the_slow_algorithms(
    mode: Mode, fast: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In doubt ``balanced`` takes the fast result, ``best`` the thorough one."""
    asked: list[object] = []

    def spy(html: str, **options: object) -> str:
        asked.append(options["fast"])
        return ""

    monkeypatch.setattr(module, "thorough_body", spy)
    scattered = "".join(f"<div><div><span>{p}</span></div></div>" for p in ENGLISH)
    extract(f"<body><div>{scattered}</div><div>{scattered}</div></body>", extractor=mode)
    assert asked == [fast]


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "Home\nNews\nSport\nLog in",
        f"{'Home News Sport Log in ' * 100}{ENGLISH[0]}",
        "Copyright © 2020 Harbour Times. All rights reserved. No copying without permission.",
    ],
)
def test_what_is_no_text_is_not_believed(answer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Menus, notices and the words of the whole page in one line are no body of any page."""
    monkeypatch.setattr(module, "thorough_body", lambda *_, **__: answer)
    scattered = "".join(f"<div><div><span>{p}</span></div></div>" for p in ENGLISH)
    page = extract(f"<body><div>{scattered}</div><div>{scattered}</div></body>")
    assert page.extractor == "quick"
    assert "Log in" not in page.text


def test_without_trafilatura(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Where trafilatura can't be imported, no page is lost to that; it is said once, with why.

    Pages in doubt that are read at the same time say it once, too.
    """
    monkeypatch.setitem(sys.modules, "trafilatura", None)
    module._warned.clear()
    # A slow log: the others arrive while the first one writes.
    monkeypatch.setattr(caplog.handler, "filter", lambda _: time.sleep(0.2) or True)
    with ThreadPoolExecutor(4) as threads:
        reading = [
            threads.submit(module.thorough_body, "<p>text</p>", url=None, comments=False)
            for _ in range(4)
        ]
    assert [one.result() for one in reading] == [""] * 4
    assert module.thorough_body("<p>text</p>", url=None, comments=False) == ""
    (said,) = caplog.messages
    assert "trafilatura can't be imported" in said


class _Slow(set[str]):
    """Lets other threads run between a look into it and what is added after it."""

    def __contains__(self, what: object) -> bool:
        found = super().__contains__(what)
        time.sleep(0.05)
        return found


def test_threads_that_warn_at_the_same_time(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One of them does."""
    monkeypatch.setattr(module, "_warned", _Slow())
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(module._warn_once, ["no such module"] * 4))
    assert len(caplog.messages) == 1


def test_trafilatura_reads_one_page_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its XPath objects are those of all threads: used at the same time they ended the process."""
    import trafilatura

    inside = []

    def reading(*_: object, **__: object) -> str:
        inside.append(1)
        time.sleep(0.02)
        together.append(len(inside))
        inside.pop()
        return "text"

    together: list[int] = []
    monkeypatch.setattr(trafilatura, "extract", reading)
    with ThreadPoolExecutor(4) as threads:
        found = [
            threads.submit(module.thorough_body, "<p>text</p>", url=None, comments=False)
            for _ in range(8)
        ]
    assert [one.result() for one in found] == ["text"] * 8
    assert together == [1] * 8


def test_a_failing_library_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """When trafilatura raises, the page keeps the body of our own rules."""
    import trafilatura

    def broken(*_: object, **__: object) -> str:
        raise RuntimeError("out of order")

    monkeypatch.setattr(trafilatura, "extract", broken)
    scattered = "".join(f"<div><div><span>{p}</span></div></div>" for p in ENGLISH)
    page = extract(f"<body><div>{scattered}</div><div>{scattered}</div></body>")
    assert page.extractor == "quick"
    assert ENGLISH[0] in page.text


def test_doubtful_pages_do_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """A page without a body is no news: the library's errors about it stay out of the log."""
    extract("<body><div><a href='/'>one</a></div><p>a</p></body>")
    assert not caplog.records


def test_extraction_does_not_remember() -> None:
    """A page has one body however often it came and whatever came before, in any thread."""
    pages = [template(TITLE, PARAGRAPHS) for template in TEMPLATES]
    pages += [template(ENGLISH_TITLE, ENGLISH) for template in TEMPLATES]
    pages += [f"<body><div>{'<div><p>' + '</p></div><div><p>'.join(ENGLISH)}</p></div></body>"]
    first = [extract(page) for page in pages]
    with ThreadPoolExecutor(4) as pool:
        rounds = list(pool.map(extract, pages * 6))
    assert rounds == first * 6


@settings(max_examples=150, deadline=None)
@given(st.text(alphabet="<>/=\"'!-& apdivscript\x00\ud800一。\n", max_size=300))
def test_never_raises_on_broken_markup(html: str) -> None:
    """Any heap of markup characters gives a page whose text can be stored."""
    page = extract(html, extractor="fast")
    page.text.encode("utf-8")
    page.title.encode("utf-8")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("发布时间：2021年3月4日 作者：佚名 字体：[大 中 小]", "[关闭窗口] [打印本页]"),
        ("2021-03-04 10:20", "（责任编辑：本站）"),
        ("来源：晨光新闻网", "上一篇：新区地铁六号线开始试运行"),
        ("Published: 4 March 2021", "Share this article"),
    ],
)
def test_notes_around_the_body_are_left_out(before: str, after: str) -> None:
    """Date, source and tools of an outlet do not make its reprint another text."""
    html = table(TITLE, [before, *PARAGRAPHS, after])
    assert extract(html).text.split("\n") == PARAGRAPHS


@pytest.mark.parametrize(
    ("page_title", "headline"),
    [
        (f"{TITLE}_新闻频道_晨光网", TITLE),
        (f"{TITLE} - 江河在线", TITLE),
        ("Bridge closed until May | The Harbour Times", "Bridge closed until May"),
        (
            "Works - and what they mean for the harbour",
            "Works - and what they mean for the harbour",
        ),
        ("晨光网", "晨光网"),
    ],
)
def test_title_without_the_site(page_title: str, headline: str) -> None:
    """Names of section and site go from the page title; a dash inside a headline stays."""
    assert extract(f"<title>{page_title}</title><p>{PARAGRAPHS[0]}</p>").title == headline


def test_titles_of_boxes_below_the_body_are_left_out() -> None:
    """Boxes of links under an article leave no titles behind; a signature stays."""
    link = f"<p><a href='/'>{TITLE}</a></p>"
    boxes = "".join(f"<p>{name}</p>{link}" for name in ("要闻", "公司", "行业", "推荐"))
    html = modern(TITLE, PARAGRAPHS)
    end = f"{PARAGRAPHS[-1]}</p>\n"
    assert extract(html.replace(end, end + boxes)).text.split("\n") == PARAGRAPHS
    signed = extract(html.replace(end, f"{end}<p>图书馆管理处</p>")).text.split("\n")
    assert signed == [*PARAGRAPHS, "图书馆管理处"]


WORDS = ("DiscussionForumPosting", "QAPage", "schema.org/Question", "schema.org/Answer", "postbit")


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.sampled_from([*WORDS, *(w[:-1] for w in WORDS), "x" * 61, "Q", "g/", "é"])),
    st.integers(0, 70),
)
def test_a_forum_thread_is_known_by_the_words_of_its_markup(parts: list[str], shift: int) -> None:
    """Types of schema.org and the name of a post are found wherever they stand, nothing else is."""
    data = ("-" * shift + "".join(parts)).encode()
    page = blocks.read("<p>x")
    assert metadata.is_thread(data, page) is any(word.encode() in data for word in WORDS)


def _posts(name: str) -> str:
    boxes = "".join(f"<div class='{name}'><p>{text}</p></div>" for text in ENGLISH)
    return f"<title>Repairs - Club forum</title><div class=page>{boxes}</div>"


@pytest.mark.parametrize(
    "name",
    [
        "post has-profile bg1",
        "reply odd topic-author",
        "comment byuser comment-author-ann bypostauthor",
        "answer overflow-hidden",
        "with-sidebar answer",
    ],
)
def test_the_state_of_a_post_makes_it_no_furniture(name: str) -> None:
    """Forum software says in the name of a post what it shows, and who wrote it."""
    assert extract(_posts(name), extractor="fast").text.split("\n") == ENGLISH


@pytest.mark.parametrize("name", ["has-profile", "topic-author"])
def test_a_box_with_no_other_name_is_what_that_name_says(name: str) -> None:
    """The name of the profile beside a post may be nothing but such a word."""
    page = _posts("post").replace("</p></div>", f"</p><div class={name}>Ann</div></div>")
    assert extract(page, extractor="fast").text.split("\n") == ENGLISH


@pytest.mark.parametrize("prefix", ["ad", "advert", "vip-ad", "item"])
def test_the_parts_of_a_classified_advert_are_read(prefix: str) -> None:
    """A name like `ad-details` is that of the page's content on a site of adverts."""
    page = (
        f"<title>{ENGLISH_TITLE}</title><h1>{ENGLISH_TITLE}</h1><div class={prefix}-details><ul>"
        f"<li>Mileage: 92,000 km</li></ul></div><div class={prefix}-description>"
        f"<p>{ENGLISH[0]}</p><p>{ENGLISH[1]}</p></div>"
    )
    assert extract(page, extractor="fast").text.startswith("Mileage: 92,000 km\n")


@pytest.mark.parametrize("state", ["", "hidden", 'aria-hidden="true"', 'style="display: none"'])
@pytest.mark.parametrize("name", ['role="tabpanel"', 'class="tab-pane"', 'class="wc-tab"'])
def test_all_tabs_are_read(name: str, state: str) -> None:
    """Two products may differ in the tab with the details alone, which is hidden at first."""
    first = "".join(f"<p>{text}</p>" for text in ENGLISH)
    second = "<p>It holds 1.7 litres.</p><table><tr><td>Weight<td>900 g</table>"
    page = f"<body><div><div {name}>{first}</div><div {name} {state}>{second}</div></div></body>"
    read = extract(page, extractor="fast").text.split("\n")
    assert read == [*ENGLISH, "It holds 1.7 litres.", "Weight: 900 g"]


@pytest.mark.parametrize(
    ("rows", "lines"),
    [
        (
            "<dl><dt>Weight<dd>900 g<dt>Use:<dd>dry<dd>wet</dl>",
            ["Weight: 900 g", "Use: dry", "wet"],
        ),
        (
            "<table><tr><th>Weight<td>900 g<tr><td>Use：<td>dry</table>",
            ["Weight: 900 g", "Use: dry"],
        ),
        ("<table><tr><th>A<th>B<tr><td>1<td>2<td>3</table>", ["A", "B", "1", "2", "3"]),
        ("<table><tr><td>It is dry.<td>Yes<tr><td>Use<td></table>", ["It is dry.", "Yes", "Use"]),
        ("<table><tr><td>Weight<tr><td>Use</table>", ["Weight", "Use"]),
    ],
)
def test_a_value_stands_behind_its_label(rows: str, lines: list[str]) -> None:
    """So do terms and their descriptions, and the two cells of a row: `Weight: 900 g`."""
    text = "".join(f"<p>{paragraph}</p>" for paragraph in ENGLISH)
    read = extract(f"<body><main>{rows}{text}</main></body>", extractor="fast").text.split("\n")
    assert read == [*lines, *ENGLISH]


@pytest.mark.parametrize("state", ["hidden", 'aria-hidden="true"', 'style="display: none"'])
@pytest.mark.parametrize(("label", "is_read"), [("aria-labelledby=b2", True), ("id=notice", False)])
def test_parts_of_an_accordion_are_read(label: str, is_read: bool, state: str) -> None:
    """Each is a region that its button labels; a hidden region without one is left out."""
    text = "".join(f"<p>{p}</p>" for p in ENGLISH)
    other = "The seal of the lid is not part of the guarantee, and can be ordered from the shop."
    page = f"<body><main>{text}<div role=region {label} {state}><p>{other}</p></div></main></body>"
    read = extract(page, extractor="fast").text.split("\n")
    assert read == [*ENGLISH, *[other] * is_read]


@pytest.mark.parametrize(
    ("rows", "are_read"),
    [
        ("<li>Location: Ludlow</li><li>Salary: 31,000</li><li>Hours: 38</li>", True),
        ("<dt>Where<dd>Old Hall<dt>When<dd>7.30 pm<dt>Price<dd>12 pounds", True),
        ("<li>Views: 1,834</li><li>Likes: 12</li><li>Posted: 3 days ago</li>", False),
        ("<li>By Ann Shepherd</li><li>4 March 2031</li><li>Reading time: 5 min</li>", False),
        ("<li>Author: <a href=/a>Ann</a></li><li>In: <a href=/b>Trade</a></li><li>Tags: x</li>", 0),
    ],
)
@pytest.mark.parametrize("name", ["meta", "job-meta", "meta author"])
def test_rows_of_facts_are_read_in_a_box_that_is_named_meta(
    rows: str, are_read: bool, name: str
) -> None:
    """Adverts for jobs and pages of events name so what differs between two of them."""
    text = "".join(f"<p>{p}</p>" for p in ENGLISH)
    page = f"<body><article><ul class='{name}'>{rows}</ul>{text}</article></body>"
    read = extract(page, extractor="fast").text
    assert (read != "\n".join(ENGLISH)) is bool(are_read and name != "meta author")


@pytest.mark.parametrize("name", ["search_box_main", "SearchBox search-form", "top search-bar"])
def test_the_labels_of_a_search_form_are_not_read(name: str) -> None:
    """Forums put them above the first post of each thread."""
    form = f"<div id='{name}'><label>Search in:</label><br><label>Messages, titles</label></div>"
    posts = _posts("post").replace("<p>", f"{form}<p>", 1)
    assert extract(posts, extractor="fast").text.split("\n") == ENGLISH


@pytest.mark.parametrize("name", ["post-meta", "entry-meta", "entry_meta clearfix", "articleMeta"])
def test_counters_of_a_page_are_not_read(name: str) -> None:
    """Two copies of a report differ in such rows, not in what they say."""
    rows = "<li>Views: 1,834</li><li>Section: Trade</li><li>Reading time: 5 min</li>"
    text = "".join(f"<p>{p}</p>" for p in ENGLISH)
    page = f"<body><article><ul class='{name}'>{rows}</ul>{text}</article></body>"
    assert extract(page, extractor="fast").text == "\n".join(ENGLISH)


def test_the_box_about_the_author_of_a_post_is_not_read() -> None:
    """The name of a post states its author; a part of the post that is named so shows them."""
    box = "<div class='comment-author-info clearfix'>Ann, gardener</div>"
    page = _posts("comment comment-author-ann").replace("<p>", f"{box}<p>")
    assert extract(page, extractor="fast").text.split("\n") == ENGLISH


@pytest.mark.parametrize("name", ['role="tabpanel"', 'class="tab-pane"'])
def test_a_report_inside_a_tab_is_read_without_what_is_next_to_it(name: str) -> None:
    """A tab may hold all of a page."""
    text = "".join(f"<p>{p}</p>" for p in ENGLISH)
    other = "The weather of the week in our valley, told by those who have to work outside in it."
    other = f"<p>{other}</p>" * 2
    tabs = f"<div class='article-body'>{text}</div><div>{other}</div></div><div {name}>{other}"
    page = f"<body><div><div {name}>{tabs}</div></div></body>"
    assert extract(page, extractor="fast").text.split("\n") == ENGLISH


@pytest.mark.parametrize("name", ["tab-panels", "tabs__panels", "tab-panes"])
def test_the_box_around_all_tabs_is_none_of_them(name: str) -> None:
    """What is next to it is no tab."""
    text = "".join(f"<p>{p}</p>" for p in ENGLISH)
    other = "<p>The weather of the week in our valley, told by those who have to work in it.</p>"
    page = f"<body><div><div class={name}><div>{text}</div></div><div>{other}</div></div></body>"
    assert extract(page, extractor="fast").text.split("\n") == ENGLISH


def test_lists_around_the_sentence_of_a_short_page_are_read() -> None:
    """The definitions of a dictionary are no sentences; the example is one."""
    page = (
        "<title>tarn | Words</title><div><h1>tarn</h1><ol><li>a small lake in the hills</li>"
        "<li>a bog</li></ol><p>We ate our bread beside the tarn.</p></div>"
    )
    read = ["a small lake in the hills", "a bog", "We ate our bread beside the tarn."]
    assert extract(page, extractor="fast").text.split("\n") == read


CONSENT = [
    "We value your privacy. We and our partners store and access information on a device, such as "
    "cookies, and process personal data for personalised advertising and content.",
    "You may click to consent to this processing as described above, or change your preferences "
    "before you consent or refuse to, and withdraw your consent later at any time.",
]


@pytest.mark.parametrize("box", ["class=cookies", "id=consent-banner role=dialog"])
@pytest.mark.parametrize("extractor", MODES)
def test_a_request_for_consent_is_no_text(box: str, extractor: Mode) -> None:
    """Pages of several sites that have no other prose would be copies of each other."""
    asked = f"<div {box}>{''.join(f'<p>{p}</p>' for p in CONSENT)}</div>"
    pictures = '<img src="/1.jpg" alt="The old mill"><img src="/2.jpg" alt="The mill pond">'
    assert extract(f"<body>{asked}{pictures}</body>", extractor=extractor).text == ""
    stated = with_json_ld({"@type": "NewsArticle", "articleBody": " ".join(ENGLISH)}, asked)
    assert extract(stated, extractor=extractor).text == " ".join(ENGLISH)


@pytest.mark.parametrize("page", ["<h1>Oat cookies</h1>{}", "<div class=entry-content>{}</div>"])
def test_a_post_about_cookies_is_text(page: str) -> None:
    """Blogs name the box of a post after its topics."""
    text = page.format("".join(f"<p>{p}</p>" for p in ENGLISH))
    html = f"<body><div class='post tag-cookies'>{text}</div></body>"
    assert extract(html).text.endswith("\n".join(ENGLISH))
