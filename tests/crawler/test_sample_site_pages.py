"""The pages of the sample site: statuses, encodings, headers, markup."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest

from crawler.sample_site import SampleSite
from crawler.sample_site.outlets import OUTLETS
from crawler.sample_site.stories import Story
from tests.crawler.sample_site_client import (
    LINKS,
    ask,
    selector,
)


def test_pages_answer_as_the_manifest_says(site: SampleSite) -> None:
    """Every page has the status of its kind and the Content-Type of its outlet."""
    statuses = {"error": 500, "missing": 404, "redirect": 302}
    types = {outlet.name: outlet.content_type for outlet in OUTLETS}
    for page in site.pages():
        reply = ask(site.urls[page.outlet] + page.path)
        assert reply.status == statuses.get(page.kind, 200), page
        if page.kind != "redirect":
            assert reply.headers["Content-Type"] == types[page.outlet]


def test_portal_is_really_gbk(site: SampleSite, stories: dict[str, Story]) -> None:
    """Pages of the old portal decode as GBK alone, though they say gb2312 and no header helps."""
    narrow = 0
    for story in stories.values():
        if story.outlet != "portal":
            continue
        reply = ask(site.urls["portal"] + story.path)
        assert reply.headers["Content-Type"] == "text/html"
        assert b"charset=gb2312" in reply.body
        assert story.title in reply.body.decode("gbk")
        with pytest.raises(UnicodeDecodeError):
            reply.body.decode("utf-8")
        try:
            reply.body.decode("gb2312")
        except UnicodeDecodeError:
            narrow += 1
    assert narrow >= 1


def test_traditional_outlet_is_big5(site: SampleSite, stories: dict[str, Story]) -> None:
    """Pages of the traditional outlet are Big5, which the meta element alone tells."""
    for story in stories.values():
        if story.outlet != "minbao":
            continue
        reply = ask(site.urls["minbao"] + story.path)
        assert reply.headers["Content-Type"] == "text/html"
        assert b"charset=big5" in reply.body
        assert story.paragraphs[0] in reply.body.decode("big5")
        with pytest.raises(UnicodeDecodeError):
            reply.body.decode("utf-8")


def test_aggregator_tells_its_charset_in_the_header_alone(site: SampleSite) -> None:
    """The aggregator sends UTF-8 and has no meta charset."""
    reply = ask(site.urls["hui"] + "/a/202603/5001.html")
    assert reply.headers["Content-Type"] == "text/html;charset=utf-8"
    assert b"charset=" not in reply.body


def test_every_article_has_a_canonical_address(site: SampleSite) -> None:
    """rel=canonical is the stable address of the manifest, on an invented host."""
    for page in site.pages():
        if page.kind in {"error", "missing", "redirect", "disallowed"}:
            continue
        reply = ask(site.urls[page.outlet] + page.path)
        canonical = selector(page.outlet, reply.body).css('link[rel="canonical"]::attr(href)')
        assert canonical.getall() == [page.address]
        assert (urlsplit(page.address).hostname or "").endswith(".example")


def test_a_tracking_address_has_the_canonical_address_of_the_article(site: SampleSite) -> None:
    """The article under its second address is the same page, byte for byte."""
    (tracking,) = [page for page in site.pages() if page.kind == "tracking"]
    path = tracking.path.partition("?")[0]
    assert (tracking.outlet, path) in {(p.outlet, p.path) for p in site.pages() if p.stored}
    second = ask(site.urls[tracking.outlet] + tracking.path)
    assert second.body == ask(site.urls[tracking.outlet] + path).body


def test_structured_data(site: SampleSite) -> None:
    """Two outlets carry JSON-LD, four OpenGraph; both name the canonical address."""
    with_json, with_graph = set(), set()
    for page in site.pages():
        if page.kind == "original":
            tree = selector(page.outlet, ask(site.urls[page.outlet] + page.path).body)
            if data := tree.css('script[type="application/ld+json"]::text').get():
                assert page.address in data
                with_json.add(page.outlet)
            if url := tree.css('meta[property="og:url"]::attr(content)').get():
                assert url == page.address
                with_graph.add(page.outlet)
    assert with_json == {"chenbao", "gazette"}
    assert with_graph == {"chenbao", "gazette", "minbao", "hui"}


def test_pages_have_the_noise_of_real_ones(site: SampleSite) -> None:
    """Articles stand between navigation, related links, an advert, comments and a footer."""
    for outlet in OUTLETS:
        page = next(p for p in site.pages() if (p.outlet, p.kind) == (outlet.name, "original"))
        tree = selector(outlet.name, ask(site.urls[outlet.name] + page.path).body)
        words = tree.xpath("string(//body)").get("").lower()
        for section, label in outlet.sections:
            assert f"{site.urls[outlet.name]}/{section}/" in tree.css(LINKS).getall()
            assert label.lower() in words
        noise = ("广告", "廣告", "汇览网 版权所有", "advert")
        assert any(word in words for word in noise)
        related = [link for link in tree.css(LINKS).getall() if link.startswith("http")]
        assert len(related) > len(outlet.sections) + 3
        assert any(word in words for word in ("评论", "留言", "跟帖", "comments"))


def test_conditional_and_head_requests(site: SampleSite) -> None:
    """An unchanged page is answered with 304 and no body; HEAD sends the headers alone."""
    url = site.urls["gazette"] + "/local/harbour-dredging-plan"
    full = ask(url)
    assert full.headers["Last-Modified"].endswith("GMT")
    again = ask(url, headers={"If-None-Match": full.headers["ETag"]})
    assert (again.status, again.body) == (304, b"")
    assert ask(url, headers={"If-None-Match": '"other"'}).status == 200
    head = ask(url, method="HEAD")
    assert (head.status, head.body) == (200, b"")
    assert head.headers["Content-Length"] == str(len(full.body))
