"""What the tests of the sample site share: a plain client and a reader of its pages."""

from __future__ import annotations

from http.client import HTTPConnection
from urllib.parse import urlsplit
from xml.etree import ElementTree

from attrs import frozen
from parsel import Selector
from protego import Protego

from crawler.sample_site import SampleSite
from crawler.sample_site.outlets import OUTLETS

CHARSETS = {outlet.name: outlet.charset for outlet in OUTLETS}
# Where each template prints headline and paragraphs.
TITLE = "h1"
BODY = {
    "chenbao": ".article-content p",
    "portal": "#content p",
    "gazette": ".story-body p",
    "minbao": "#story_body p",
    "hui": "#articleText p",
}
LINKS = "a::attr(href)"
FEED = "{http://www.w3.org/2005/Atom}"
MAP = "{http://www.sitemaps.org/schemas/sitemap/0.9}"


@frozen
class Reply:
    """An answer of the site."""

    status: int
    headers: dict[str, str]
    body: bytes


@frozen
class Printed:
    """Headline and paragraphs of an article as a browser shows them."""

    title: str
    paragraphs: tuple[str, ...]

    @property
    def text(self) -> str:
        return "\n".join(self.paragraphs)


def ask(url: str, method: str = "GET", headers: dict[str, str] | None = None) -> Reply:
    """Send one request; redirects are not followed."""
    parts = urlsplit(url)
    connection = HTTPConnection(parts.netloc, timeout=600)
    try:
        target = parts.path + (f"?{parts.query}" if parts.query else "")
        connection.request(method, target, headers=headers or {})
        response = connection.getresponse()
        return Reply(response.status, dict(response.getheaders()), response.read())
    finally:
        connection.close()


def selector(outlet: str, body: bytes) -> Selector:
    """The parsed page of an outlet, decoded as that outlet encodes."""
    return Selector(text=body.decode(CHARSETS[outlet]))


def printed(site: SampleSite, outlet: str, path: str) -> Printed:
    """Fetch an article and read what it prints."""
    page = selector(outlet, ask(site.urls[outlet] + path).body)
    paragraphs = (p.xpath("string()").get("").strip() for p in page.css(BODY[outlet]))
    return Printed(page.css(TITLE).xpath("string()").get("").strip(), tuple(paragraphs))


def grams(text: str) -> set[str]:
    """The distinct runs of five characters, spaces and punctuation left out."""
    letters = "".join(filter(str.isalnum, text)).lower()
    return {letters[start : start + 5] for start in range(len(letters) - 4)}


def jaccard(one: set[str], other: set[str]) -> float:
    """Shared elements over all elements."""
    return len(one & other) / len(one | other)


def reachable(
    graph: dict[str, list[str]], starts: list[str], without: frozenset[str] = frozenset()
) -> set[str]:
    """The addresses that links lead to from the starts, some pages left out."""
    seen: set[str] = set()
    waiting = list(starts)
    while waiting:
        url = waiting.pop()
        if url not in seen | without:
            seen.add(url)
            waiting += graph.get(url, [])
    return seen


def fronts(site: SampleSite) -> list[str]:
    """The addresses a crawl starts with."""
    return [url for url, _ in site.start_urls()]


def entries(site: SampleSite, outlet: str) -> tuple[set[str], set[str]]:
    """The addresses that the feed and the sitemap of an outlet list."""
    front = selector(outlet, ask(site.urls[outlet] + "/").body)
    feed: set[str] = set()
    if address := front.css('link[rel="alternate"]::attr(href)').get():
        tree = ElementTree.fromstring(ask(address).body)
        feed |= {link.text or "" for link in tree.iterfind("./channel/item/link")}
        feed |= {link.attrib["href"] for link in tree.iterfind(f"{FEED}entry/{FEED}link")}
    robots = Protego.parse(ask(site.urls[outlet] + "/robots.txt").body.decode())
    (sitemap,) = robots.sitemaps
    tree = ElementTree.fromstring(ask(sitemap).body)
    for nested in tree.iterfind(f"{MAP}sitemap/{MAP}loc"):
        tree = ElementTree.fromstring(ask(nested.text or "").body)
    return feed, {loc.text or "" for loc in tree.iterfind(f"{MAP}url/{MAP}loc")}


def first_copy(site: SampleSite) -> tuple[str, str]:
    """Addresses of a copy and of its original."""
    page = next(page for page in site.pages() if page.kind == "verbatim")
    assert page.original is not None
    outlet, _, path = page.original.partition("/")
    return site.urls[page.outlet] + page.path, f"{site.urls[outlet]}/{path}"
