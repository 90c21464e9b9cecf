"""The sample site as a crawler meets it: what leads to which page, and in which order."""

from __future__ import annotations

from collections import Counter
from contextlib import AbstractContextManager
from unittest.mock import Mock, patch
from urllib.parse import urljoin
from xml.etree import ElementTree

import pytest
from protego import Protego

from crawler.sample_site import SampleSite
from crawler.sample_site.outlets import OUTLETS
from crawler.sample_site.stories import COPIES, Story
from tests.crawler.sample_site_client import (
    LINKS,
    MAP,
    ask,
    entries,
    first_copy,
    fronts,
    printed,
    reachable,
    selector,
)


@pytest.fixture(scope="module")
def graph(site: SampleSite) -> dict[str, list[str]]:
    """Every page of the site with the addresses it links to, by address."""
    found: dict[str, list[str]] = {}
    for page in site.pages():
        url = site.urls[page.outlet] + page.path
        reply = ask(url)
        if reply.status == 302:
            found[url] = [reply.headers["Location"]]
            continue
        links = selector(page.outlet, reply.body).css(LINKS).getall()
        found[url] = [urljoin(url, link) for link in links if not link.startswith("#")]
    return found


def test_all_links_lead_somewhere(site: SampleSite, graph: dict[str, list[str]]) -> None:
    """Every link of every page is a page of the site or a Disallow'd one; none leaves it."""
    known = {site.urls[page.outlet] + page.path for page in site.pages()}
    linked = {link for links in graph.values() for link in links}
    assert linked - known == set()


def test_robots_forbids_one_page(site: SampleSite) -> None:
    """robots.txt of every outlet has one Disallow and one Sitemap; one linked page is forbidden."""
    forbidden = []
    for outlet in OUTLETS:
        reply = ask(site.urls[outlet.name] + "/robots.txt")
        assert reply.headers["Content-Type"] == "text/plain"
        text = reply.body.decode()
        assert text.count("Disallow:") == 1
        assert text.count("Sitemap:") == 1
        rules = Protego.parse(text)
        forbidden += [
            page
            for page in site.pages()
            if page.outlet == outlet.name
            and not rules.can_fetch(site.urls[outlet.name] + page.path, "any")
        ]
    assert [page.kind for page in forbidden] == ["disallowed"]


def test_links_feeds_and_sitemaps_are_each_needed(
    site: SampleSite, graph: dict[str, list[str]], stories: dict[str, Story]
) -> None:
    """All articles are found, some of them by links, a feed or a sitemap alone."""
    by_links = reachable(graph, fronts(site))
    feeds, maps = set(), set()
    for outlet in OUTLETS:
        in_feed, in_map = entries(site, outlet.name)
        feeds |= reachable(graph, list(in_feed))
        maps |= reachable(graph, list(in_map))
    assert {outlet.feed for outlet in OUTLETS} == {"rss", "atom", None}
    wanted = {site.urls[story.outlet] + story.path for story in stories.values()}
    assert wanted <= by_links | feeds | maps
    feed_only = {site.urls[s.outlet] + s.path for s in stories.values() if s.via == "feed"}
    map_only = {site.urls[s.outlet] + s.path for s in stories.values() if s.via == "sitemap"}
    assert len(feed_only) >= 3
    assert len(map_only) >= 2
    assert not feed_only & (by_links | maps)
    assert not map_only & (by_links | feeds)
    linked_only = {
        site.urls[page.outlet] + page.path for page in site.pages() if page.kind == "tracking"
    }
    direct = set().union(*(part for outlet in OUTLETS for part in entries(site, outlet.name)))
    assert linked_only <= by_links
    assert not linked_only & direct


def test_lists_have_more_than_one_page(site: SampleSite, graph: dict[str, list[str]]) -> None:
    """Every outlet links its sections, and the long lists go on behind a link."""
    lists = [page for page in site.pages() if page.kind == "list"]
    per_outlet = Counter(page.outlet for page in lists)
    assert all(per_outlet[outlet.name] >= len(outlet.sections) for outlet in OUTLETS)
    assert sum(per_outlet.values()) > sum(len(outlet.sections) for outlet in OUTLETS)
    found = reachable(graph, fronts(site))
    assert {site.urls[page.outlet] + page.path for page in lists} <= found


def test_news_sitemap_names_title_and_date(site: SampleSite) -> None:
    """The traditional outlet's sitemap index leads to a news sitemap with titles and dates."""
    namespace = "{http://www.google.com/schemas/sitemap-news/0.9}"
    tree = ElementTree.fromstring(ask(site.urls["minbao"] + "/sitemap-news.xml").body)
    titles = [title.text for title in tree.iter(f"{namespace}title")]
    assert len(titles) == len(tree.findall(f"{MAP}url")) >= 6
    assert "山上的小學有座天文台 全校十九人輪流當台長" in titles
    assert all(
        (date.text or "").startswith("2026-03")
        for date in tree.iter(f"{namespace}publication_date")
    )


def test_copies_are_found_only_on_the_page_they_copy(
    site: SampleSite, graph: dict[str, list[str]], stories: dict[str, Story]
) -> None:
    """Without its original, no copy can be found by links, feeds or sitemaps."""
    starts = fronts(site)
    for outlet in OUTLETS:
        for part in entries(site, outlet.name):
            starts += part
    everything = reachable(graph, starts)
    at: dict[str, set[str]] = {}
    for page in site.pages():
        at.setdefault(page.address, set()).add(site.urls[page.outlet] + page.path)
    names = {page.outlet + page.path: page.address for page in site.pages()}
    for story in stories.values():
        if story.kind in COPIES and story.source:
            copy = site.urls[story.outlet] + story.path
            # Under all its addresses, the one with a tracking parameter too.
            original = frozenset(at[names[story.source]])
            assert copy in everything
            assert copy not in reachable(graph, starts, without=original), story.id


def test_a_copy_follows_its_original_at_a_distance() -> None:
    """Right after its original a copy waits for the rest of the lag; later, not at all."""
    with SampleSite(lag=10) as site, held_back(site) as wait:
        copy, original = first_copy(site)
        ask(original)
        assert ask(copy).status == 200
        (rest,) = wait.call_args.args
        assert 0 < rest <= 10
        answered = site._order._answered
        answered.update({story: at - 10 for story, at in answered.items()})
        assert ask(copy).status == 200
        wait.assert_called_with(0)


def test_a_copy_without_its_original_is_not_held_back() -> None:
    """A copy that is requested alone is answered at once."""
    with SampleSite(lag=10) as site, held_back(site) as wait:
        copy, _ = first_copy(site)
        assert ask(copy).status == 200
        wait.assert_not_called()


def held_back(site: SampleSite) -> AbstractContextManager[Mock]:
    """Records for how many seconds answers would wait; they wait for none."""
    return patch.object(site._order._released, "wait")


def test_addresses_and_texts_stay_the_same_between_runs() -> None:
    """Two runs have other ports, but the same canonical addresses and the same texts."""
    with SampleSite(lag=0) as one, SampleSite(lag=0) as other:
        assert one.pages() == other.pages()
        assert not set(one.urls.values()) & set(other.urls.values())
        for outlet in OUTLETS:
            page = next(p for p in one.pages() if (p.outlet, p.kind) == (outlet.name, "original"))
            text = printed(one, outlet.name, page.path)
            assert text.paragraphs
            assert text == printed(other, outlet.name, page.path)
