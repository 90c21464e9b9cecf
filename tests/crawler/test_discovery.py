"""Links, feeds, sitemaps and the sites of a crawl."""

from __future__ import annotations

import gzip
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from parsel import Selector

from crawler.discovery import (
    MAX_ENTRIES,
    MAX_LINKS,
    MAX_SITEMAPS,
    Link,
    Sites,
    absolute,
    feed_entries,
    feeds,
    links,
    names_a_page,
    names_an_article,
    names_an_index,
    robots_sitemaps,
    sitemap,
)

URL = "https://daily.example/news/"
NEWS = 'xmlns:news="http://www.google.com/schemas/sitemap-news/0.9"'
MAPS = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'


def tree_of(html: str) -> object:
    """The page as the spider parses it."""
    return Selector(text=html, type="html").root


def test_links_are_absolute_distinct_and_in_order() -> None:
    """Relative, base-relative and repeated references give each address once, no fragment."""
    html = """<base href="/a/"><a href="1.html#top">x</a><a href='//cdn.example/2'>y</a>
    <a href="1.html">again</a><area href="../3"><a href="javascript:void(0)">no</a>
    <a href="mailto:x@daily.example">no</a><a>no</a><a href="#">no</a>"""
    assert [link.url for link in links(tree_of(html), URL)] == [
        "https://daily.example/a/1.html",
        "https://cdn.example/2",
        "https://daily.example/3",
    ]


def test_nofollow_is_reported() -> None:
    """A link with rel=nofollow among other values is marked."""
    html = '<a rel="sponsored NoFollow" href="/ad">x</a><a rel="author" href="/b">y</a>'
    assert links(tree_of(html), URL) == [
        Link("https://daily.example/ad", nofollow=True),
        Link("https://daily.example/b"),
    ]


def test_links_of_one_page_are_bounded() -> None:
    """A page of many links gives the first ones only."""
    html = "".join(f'<a href="/{i}">x</a>' for i in range(MAX_LINKS + 50))
    found = links(tree_of(html), URL)
    assert len(found) == MAX_LINKS
    assert found[-1].url == f"https://daily.example/{MAX_LINKS - 1}"


@pytest.mark.parametrize(
    "reference",
    ["http://[::1", "http://a:99999999/", "", "   ", "data:text/html,x", "a" * 5000, "ftp://a/b"],
)
def test_unusable_references_are_left_out(reference: str) -> None:
    """What is no http(s) address gives none and raises nothing."""
    assert absolute(URL, reference) is None


@given(st.text(max_size=80))
def test_absolute_never_raises(reference: str) -> None:
    """Any text in an href gives an http(s) address or none."""
    found = absolute(URL, reference)
    assert found is None or found.startswith(("http://", "https://"))


def test_feeds_are_the_announced_ones_without_comments() -> None:
    """Only <link rel=alternate> of a feed type counts, comment feeds don't."""
    html = """<link rel="alternate" type="application/rss+xml" href="/rss">
    <link rel="ALTERNATE" type="application/atom+xml; charset=utf-8" href="https://f.example/atom">
    <link rel="alternate" type="application/rss+xml" href="/comments/feed">
    <link rel="alternate" hreflang="de" href="/de"><link rel="stylesheet" href="/a.css">"""
    assert feeds(tree_of(html), URL) == ["https://daily.example/rss", "https://f.example/atom"]


def test_rss_entries() -> None:
    """RSS items give their link, or a guid that is an address; other encodings decode."""
    body = """<?xml version="1.0" encoding="gbk"?><rss version="2.0"><channel>
    <link>https://daily.example/</link>
    <item><title>春天</title><link> https://daily.example/1 </link></item>
    <item><guid isPermaLink="true">https://daily.example/2</guid></item>
    <item><guid isPermaLink="false">tag:3</guid></item>
    <item><link>/4</link></item></channel></rss>""".encode("gbk")
    assert feed_entries(body, URL) == [
        "https://daily.example/1",
        "https://daily.example/2",
        "https://daily.example/4",
    ]


def test_atom_entries() -> None:
    """Atom entries give the alternate link, not the one to edit or to attachments."""
    body = b"""<feed xmlns="http://www.w3.org/2005/Atom"><link href="https://daily.example/"/>
    <entry><link rel="edit" href="/edit"/><link rel="alternate" href="/1"/></entry>
    <entry><source><link href="/elsewhere"/></source><link href="/2"/></entry></feed>"""
    assert feed_entries(body, URL) == ["https://daily.example/1", "https://daily.example/2"]


def test_broken_feed_gives_what_came_before() -> None:
    """A feed that is cut off gives the complete entries."""
    body = b"<rss><channel><item><link>/1</link></item><item><link>/2</li"
    assert feed_entries(body, URL)[0] == "https://daily.example/1"


@pytest.mark.parametrize("body", [b"", b"no xml", b"<html><body>404</body></html>", b"\x00\xff"])
def test_what_is_no_feed_or_sitemap_gives_nothing(body: bytes) -> None:
    """Error pages and rubbish in place of XML raise nothing."""
    assert feed_entries(body, URL) == []
    content = sitemap(body, URL)
    assert (content.sitemaps, content.pages, content.news) == ((), (), ())


def test_robots_sitemaps() -> None:
    """Sitemap lines count in any case and position; a bad one does not hide the next."""
    body = (
        b"User-agent: *\nDisallow: /x\n SITEMAP : /a.xml\nSitemap: http://[x\nsitemap:/b.xml.gz\n"
    )
    assert robots_sitemaps(body, "https://daily.example/robots.txt") == [
        "https://daily.example/a.xml",
        "https://daily.example/b.xml.gz",
    ]


def test_news_sitemap_newest_first() -> None:
    """Entries with a news element are news, others pages; both are sorted by lastmod."""
    body = f"""<urlset {MAPS} {NEWS}>
    <url><loc>/old</loc><lastmod>2024-01-01</lastmod></url>
    <url><loc>https://daily.example/new</loc><lastmod>2024-05-06</lastmod></url>
    <url><loc>/n</loc><news:news><news:title>t</news:title></news:news></url></urlset>"""
    content = sitemap(body.encode(), URL)
    assert content.pages == ("https://daily.example/new", "https://daily.example/old")
    assert content.news == ("https://daily.example/n",)


def test_sitemap_index_is_bounded_news_first() -> None:
    """An index gives a bounded number of sitemaps, the news one before the archive."""
    rows = "".join(f"<sitemap><loc>/archive-{i}.xml</loc></sitemap>" for i in range(60))
    body = f"<sitemapindex {MAPS}>{rows}<sitemap><loc>/news.xml</loc></sitemap></sitemapindex>"
    content = sitemap(gzip.compress(body.encode()), URL)
    assert len(content.sitemaps) == MAX_SITEMAPS
    assert content.sitemaps[0] == "https://daily.example/news.xml"


def test_hostile_xml_is_bounded() -> None:
    """A gzip bomb, nested entities and a million entries end quickly and small."""
    bomb = gzip.compress(b"<urlset>" + b" " * 100_000_000 + b"<url><loc>/1</loc></url></urlset>")
    assert sitemap(bomb, URL).pages == ()
    entities = "".join(f'<!ENTITY a{i} "{f"&a{i - 1};" * 10 if i else "ha"}">' for i in range(12))
    laughs = f"<!DOCTYPE x [{entities}]><urlset><url><loc>/&a11;</loc></url></urlset>"
    started = time.monotonic()
    assert all(len(page) < 100 for page in sitemap(laughs.encode(), URL).pages)
    many = b"<rss>" + b"".join(b"<item><link>/%d</link></item>" % i for i in range(200_000))
    assert len(feed_entries(many, URL)) == MAX_ENTRIES
    # Expanded, the entities alone would be 2 TB.
    assert time.monotonic() - started < 30


@pytest.mark.parametrize(
    "path",
    [
        "/2024/05/06/bridge.html",
        "/2024-05/06/c_1129.htm",
        "/n1/2024/0506/c1001-402.html",
        "/t20240506_771.shtml",
        "/news/20240506/20101.htm",
        "/article/7K2L",
        "/local/mayor-opens-new-river-bridge",
        "/a/202405/5001.html",
        "/1234567.html",
    ],
)
def test_article_addresses(path: str) -> None:
    """Dates, long numbers and long slugs name articles."""
    assert names_an_article("https://daily.example" + path)


@pytest.mark.parametrize(
    "path", ["/", "", "/sport/", "/about", "/x/index_2.html", "/x/list_3.htm", "/page/12345"]
)
def test_list_addresses(path: str) -> None:
    """Fronts, sections and list pages look like lists and not like articles."""
    assert names_an_index("https://daily.example" + path)
    assert not names_an_article("https://daily.example" + path)


def test_files_are_no_pages() -> None:
    """Images, documents and archives are recognised by their ending."""
    assert not names_a_page("https://daily.example/report.PDF?download=1")
    assert names_a_page("https://daily.example/report.pdf.html")


def test_sites_hold_subdomains_and_ports() -> None:
    """A host includes its subdomains; www. the whole domain; a port must be the same."""
    sites = Sites.of(["https://www.one.example/", "http://127.0.0.1:8000/", "https://two.example"])
    assert sites.index("http://m.one.example/x") == 0
    assert sites.index("https://one.example:443/x") == 0
    assert sites.index("http://127.0.0.1:8000/y") == 1
    assert sites.index("https://two.example./") == 2
    for url in (
        "https://notone.example/",
        "https://one.example:8443/",
        "http://127.0.0.1:8001/",
        "http://8.127.0.0.1:8000/",
        "https://one.example.evil.example/",
        "https://one.example@evil.example/",
        "http://[bad",
    ):
        assert sites.index(url) is None, url
