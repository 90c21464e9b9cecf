"""What pages say about themselves, honest and hostile ones."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from parsel import Selector

from crawler.metadata import (
    MAX_FIELD,
    Metadata,
    find_date,
    iso_date,
    read_metadata,
    stated_title,
    trusted_key,
)

URL = "https://www.daily.example/2024/05/06/bridge.html?from=home"


def read(html: str) -> Metadata:
    """Metadata of a page served at URL."""
    return read_metadata(Selector(text=html, type="html").root, URL)


def ld(value: object) -> str:
    """A JSON-LD block."""
    return f'<script type="application/ld+json">{json.dumps(value)}</script>'


def test_json_ld_goes_before_opengraph() -> None:
    """Every field of a NewsArticle is read, also inside @graph, and wins over <meta>."""
    article = {
        "@type": ["ReportageNewsArticle"],
        "headline": "  Bridge   opens ",
        "datePublished": "2024-05-06T08:30:00+08:00",
        "author": [{"@type": "Person", "name": "A. Writer"}, {"name": "B. Writer"}],
        "publisher": {"name": "The Daily"},
        "inLanguage": "en_GB",
    }
    html = (
        '<html lang="de"><meta property="og:title" content="Other - Daily">'
        '<meta property="article:published_time" content="2020-01-01">'
        + ld({"@graph": [{"@type": "WebSite", "name": "x"}, article]})
    )
    assert read(html) == Metadata(
        title="Bridge opens",
        published="2024-05-06T08:30:00+08:00",
        author="A. Writer, B. Writer",
        site="The Daily",
        language="en-GB",
        canonical=None,
        is_article=True,
    )


def test_opengraph_and_meta_without_json_ld() -> None:
    """OpenGraph, plain <meta>, <html lang> and <link rel=canonical> fill the fields."""
    html = """<html lang="zh-CN"><head><meta property="og:type" content="article">
    <meta property="og:title" content="大桥通车"><meta property="og:site_name" content="晨报">
    <meta name="Author" content="记者甲"><meta name="publishdate" content="2024年5月6日 08:30">
    <link rel="canonical" href="/2024/05/06/bridge.html"></head>"""
    assert read(html) == Metadata(
        title="大桥通车",
        published="2024-05-06T08:30:00",
        author="记者甲",
        site="晨报",
        language="zh-CN",
        canonical="https://www.daily.example/2024/05/06/bridge.html",
        is_article=True,
    )


def test_description_is_that_of_the_page() -> None:
    """The meta description, not that of OpenGraph, which platforms fill in."""
    html = '<meta property="og:description" content="x"><meta name="Description" content=" A\n b ">'
    assert read(html).description == "A b"
    assert read('<meta property="og:description" content="x">').description is None


def test_a_broken_json_ld_block_does_not_hide_the_next() -> None:
    """Rubbish in one block leaves the others readable."""
    html = '<script type="application/ld+json">{"@type": </script>' + ld(
        {"@type": "NewsArticle", "headline": "Second"}
    )
    assert read(html).title == "Second"


def test_a_page_that_says_nothing() -> None:
    """No metadata gives empty fields, and the <title> is the last resort for a title."""
    html = "<title> Bridge \n opens </title><p>x"
    assert read(html) == Metadata()
    assert stated_title(Selector(text=html, type="html").root) == "Bridge opens"


def test_time_element_gives_the_date() -> None:
    """The first <time datetime> that is a date is the date of a page without <meta>."""
    html = '<time datetime="PT5M">5 min</time><time datetime="2024-05-06">6 May</time>'
    assert read(html).published == "2024-05-06"


def test_profile_addresses_are_no_authors() -> None:
    """article:author is often the address of a profile; that is no name."""
    html = '<meta property="article:author" content="https://social.example/daily">'
    assert read(html).author is None


@pytest.mark.parametrize(
    "block",
    [
        "[" * 100_000,
        '{"@type": "NewsArticle", "headline": {"a": []}, "author": [[1]], "datePublished": 5}',
        '{"@type": {"x": 1}}',
        '"NewsArticle"',
        '{"@type": "NewsArticle", "author": {"name": ["x"]}, "publisher": 7, "inLanguage": {}}',
        '{"@type": "NewsArticle", "datePublished": "2024-99-99T99:99:99+99:99"}',
        "//" + "<!-- " * 10_000,
    ],
)
def test_hostile_json_ld_raises_nothing(block: str) -> None:
    """Wrong types, endless nesting and impossible dates leave the fields empty."""
    metadata = read(f'<script type="application/ld+json">{block}</script>')
    assert (metadata.title, metadata.author, metadata.published) == (None, None, None)


def test_half_a_character_loses_no_page() -> None:
    """A headline that was cut within an emoji can be stored; else the page would be in no row."""
    block = ld({"@type": "NewsArticle", "headline": "Bridge \ud83d", "author": "Li \ud83d\x00"})
    metadata = read(block)
    assert (metadata.title, metadata.author) == ("Bridge \ufffd", "Li \ufffd")


def test_long_fields_are_cut() -> None:
    """A title of megabytes does not get into an item."""
    title = read(f'<meta property="og:title" content="{"a b " * 500_000}">').title
    assert title is not None
    assert len(title) <= MAX_FIELD


@given(st.text(max_size=60))
def test_iso_date_never_raises(value: str) -> None:
    """Any text gives a date between 1990 and next year, or none."""
    found = iso_date(value)
    assert found is None or found[:4].isdigit()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2024-05-06T08:30:00Z", "2024-05-06T08:30:00+00:00"),
        ("2024-05-06T08:30:00.123-0500", "2024-05-06T08:30:00-05:00"),
        ("2024/5/6 8:30", "2024-05-06T08:30:00"),
        ("2024.05.06", "2024-05-06"),
        ("Mon, 06 May 2024 08:30:00 GMT", "2024-05-06T08:30:00+00:00"),
        ("0001-01-01", None),
        ("9999-01-01", None),
        ("yesterday", None),
    ],
)
def test_dates(value: str, expected: str | None) -> None:
    """The forms that pages use become ISO 8601; dates no page of the web can have, nothing."""
    assert iso_date(value) == expected


def test_find_date_reads_the_page() -> None:
    """A page that states its date only in its body still has one; an empty one has none."""
    html = '<html><body><h1>Bridge</h1><span class="date">2024-05-06 08:30</span><p>x</body></html>'
    assert find_date(html, "https://daily.example/x") == "2024-05-06"
    assert find_date("", "https://daily.example/x") is None


@pytest.mark.parametrize(
    ("url", "canonical", "key"),
    [
        # A tracking parameter goes; http and https are the same host.
        ("https://daily.com/1?utm_source=a", "https://daily.com/1", "https://daily.com/1"),
        ("http://daily.com/1", "https://daily.com/1", "https://daily.com/1"),
        ("https://DAILY.com:443/1?a=1", "http://daily.com./1", "http://daily.com./1"),
        # Another host's address is not to be had, be it a subdomain of the same site.
        ("https://evil.com/1", "https://daily.com/1", "https://evil.com/1"),
        ("https://m.daily.com/1", "https://www.daily.com/1", "https://m.daily.com/1"),
        ("https://www.daily.com/1", "https://daily.com/1", "https://www.daily.com/1"),
        # Nor that of a neighbour on a hosting site.
        ("https://a.github.io/1", "https://b.github.io/1", "https://a.github.io/1"),
        ("https://a.wordpress.com/1", "https://b.wordpress.com/1", "https://a.wordpress.com/1"),
        ("https://a.substack.com/1", "https://b.substack.com/1", "https://a.substack.com/1"),
        ("https://a.medium.com/1", "https://medium.com/b/1", "https://a.medium.com/1"),
        ("https://a.tumblr.com/1", "https://www.tumblr.com/1", "https://a.tumblr.com/1"),
        ("https://daily.com/1", "https://daily.com:8443/1", "https://daily.com/1"),
        ("http://127.0.0.1:1/1", "http://127.0.0.1:2/1", "http://127.0.0.1:1/1"),
        # All pages of some sites name the front page.
        ("https://daily.com/1", "https://daily.com/", "https://daily.com/1"),
        # Without one, the page's own address in canonical form.
        ("https://daily.com/1?b=2&a=1#top", None, "https://daily.com/1?a=1&b=2"),
    ],
)
def test_canonical_address_is_trusted_on_its_own_host(
    url: str, canonical: str | None, key: str
) -> None:
    """A page can name a canonical address of its own host, no other."""
    assert trusted_key(url, canonical) == key


def test_any_host_is_trusted_on_the_sample_site() -> None:
    """The sample site is on loopback; its canonical host is another one by design."""
    key = trusted_key("http://127.0.0.1:4000/1?x=1", "https://www.daily.example/1", any_host=True)
    assert key == "https://www.daily.example/1"
