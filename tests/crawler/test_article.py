"""Reading a page once: body, metadata, links, article or not."""

from __future__ import annotations

import time
from unittest.mock import patch

import pytest

from crawler import article
from crawler.article import prose, read_page

BODY = """<p>The bridge over the river was opened on Monday after two years of work.</p>
<p>It is twelve hundred metres long and carries a tram line beside the road.</p>
<p>Residents of the northern bank had waited for it since the ferry was given up.</p>
<p>The mayor said that the costs had stayed within what the council had allowed.</p>"""
NAVIGATION = "".join(f'<li><a href="/s{i}/">Section {i}</a></li>' for i in range(30))
NEUTRAL = "https://daily.example/p/one"


def page(body: str, head: str = "") -> bytes:
    """An HTML page."""
    return f"<html><head>{head}</head><body><ul>{NAVIGATION}</ul>{body}</body></html>".encode()


@pytest.mark.parametrize(
    ("html", "url", "listed"),
    [
        (page(f"<article><h1>Bridge</h1>{BODY}</article>"), NEUTRAL, False),
        (page("", '<meta property="og:type" content="article">'), NEUTRAL, False),
        (page("<p>A caption.</p>"), NEUTRAL, True),
        (page(""), "https://daily.example/2024/05/06/empty.html", False),
        (
            page("", '<script type="application/ld+json">{"@type":"NewsArticle"}</script>'),
            NEUTRAL,
            False,
        ),
    ],
)
def test_articles(html: bytes, url: str, listed: bool) -> None:
    """Prose, metadata, a feed or the address make an article, short and empty ones included."""
    assert read_page(html, url, listed=listed).is_article


@pytest.mark.parametrize(
    ("html", "url"),
    [
        (page(""), NEUTRAL),
        (page(BODY), "https://daily.example/"),
        (page(BODY), "https://daily.example/sport/"),
        (page(f"<article>{BODY}</article>" * 5), NEUTRAL),
        (page(BODY, '<meta property="og:type" content="article">'), "https://daily.example/"),
    ],
)
def test_lists(html: bytes, url: str) -> None:
    """Navigation alone, fronts, sections and pages of teasers are no articles and have no text."""
    read = read_page(html, url)
    assert not read.is_article
    assert read.text == ""
    assert len(read.links) == 30


def test_gbk_page_without_a_charset() -> None:
    """A page in GBK that does not say so has readable text, title and date."""
    html = """<title>大桥通车</title><h1>大桥通车</h1><div class="date">2024-05-06 来源：晨报</div>
    <p>这座跨江大桥历时两年建成，全长一千二百米，星期一上午正式通车，方便两岸居民出行。</p>
    <p>北岸的居民自从渡轮停航以后，一直要绕行三十公里才能到达对岸的医院和学校。</p>
    <p>市长在通车仪式上表示，工程总造价没有超出预算，明年还将开通一条电车线路。</p>
    <p>据交通部门介绍，大桥设计使用年限为一百年，桥面为双向六车道，两侧设有人行道。</p>"""
    read = read_page(html.encode("gbk"), NEUTRAL)
    assert read.is_article
    assert "跨江大桥历时两年建成" in read.text
    assert read.title == "大桥通车"
    assert read.metadata.published == "2024-05-06"


@pytest.mark.parametrize("url", [NEUTRAL, "https://daily.example/2024/05/06/x.html"])
def test_a_page_is_extracted_at_most_once(url: str) -> None:
    """However an article is recognised, its body is extracted a single time."""
    with patch.object(article, "extract", wraps=article.extract) as extract:
        assert read_page(page(BODY), url).text
    assert extract.call_count == 1


def test_hostile_pages_are_read_in_bounded_time() -> None:
    """Pages made to cost a parser the square of their size, or its stack, end soon and empty."""
    started = time.monotonic()
    for html in (
        b"<p " + b" ".join(b"a%d=1" % i for i in range(60_000)) + b">",
        b"<div>" * 200_000,
        b'<base href="http://[::1"><a href="http://[bad">x</a>',
        bytes(range(256)) * 2_000,
        b"\x00" * 10_000,
    ):
        assert read_page(html, NEUTRAL).links == ()
    # The attributes alone take minutes in an unguarded parser.
    assert time.monotonic() - started < 60


def test_prose_counts_long_lines_only() -> None:
    """Headlines are not sentences."""
    assert prose("Bridge opens\nMayor resigns\n") == 0
    assert prose("x" * 40 + "\nshort\n" + "y" * 30) == 70
