"""Finds the addresses of a site's articles in links, feeds and sitemaps.

Pure functions of text and bytes; hostile input yields fewer addresses, never an exception.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from io import BytesIO
from ipaddress import ip_address
from itertools import islice
from typing import Any
from urllib.parse import SplitResult, urldefrag, urljoin, urlsplit

import attrs
from lxml import etree
from scrapy.utils.gz import gunzip
from scrapy.utils.sitemap import Sitemap
from w3lib.html import strip_html5_whitespace
from w3lib.url import safe_url_string

# Most addresses taken from one page, feed or sitemap; a crafted one may list millions.
MAX_LINKS = 3_000
MAX_ENTRIES = 1_000
MAX_SITEMAPS = 20
# Bytes read of a decompressed sitemap.
MAX_XML = 20 * 1024 * 1024
# Bytes read of a robots.txt, as many as large search engines read.
MAX_ROBOTS = 500 * 1024
MAX_ADDRESS = 2_000

FEED_TYPES = ("application/rss+xml", "application/atom+xml", "application/rdf+xml")

_NOT_PAGES = re.compile(
    r"\.(?:jpe?g|png|gif|webp|avif|bmp|svgz?|ico|tiff?|mp[34]|m4[av]|avi|mov|wmv|flv|webm|ogg|wav"
    r"|m3u8?|ts|pdf|docx?|xlsx?|pptx?|zip|rar|7z|t?gz|bz2|apk|exe|dmg|iso|css|m?js|json|woff2?|ttf"
    r"|eot|swf|csv|ics)$",
    re.IGNORECASE,
)
# Typical addresses of articles; almost all contain a date or a long number.
_ARTICLE_PATHS = re.compile(
    r"""
      /(?:19|20)\d\d[-/_]?[01]?\d(?:[-/_]?[0-3]?\d)?/.*[^/]     # /2024/05/06/title
    | [/_-](?:[a-z]{1,2})?(?:19|20)\d{6}[_-]?\w+                # /t20240506_123.htm
    | /[a-z_-]*\d{5,}[a-z]?(?:\.\w{3,5})?/?$                    # /1234567.html, /content_123456
    | /(?:article|articles|story|detail|doc|archives)/[^/]+     # /article/some-title
    | /[a-z0-9]+(?:-[a-z0-9]+){3,}(?:\.\w{3,5})?/?$             # /mayor-opens-new-bridge
    """,
    re.IGNORECASE | re.VERBOSE,
)
_INDEX_PATH = re.compile(r"/(?:index|list|default|home|page)[-_/]?\d*(?:\.\w{3,5})?/?$|^/?$", re.I)
_SITEMAP_LINE = re.compile(rb"^[ \t]*sitemap[ \t]*:[ \t]*(\S+)", re.I | re.M)
# One short word without a file ending: /sport/
_SECTION_PATH = re.compile(r"/[a-z]{1,20}(?:-[a-z]{1,20})?/?", re.I)


@attrs.frozen
class Link:
    """A link of a page: its absolute address without fragment, and whether it is ``nofollow``."""

    url: str
    nofollow: bool = False


@attrs.frozen
class SitemapContent:
    """The entries of a sitemap: other sitemaps, pages, and pages marked as news."""

    sitemaps: tuple[str, ...] = ()
    pages: tuple[str, ...] = ()
    news: tuple[str, ...] = ()


def split(url: str) -> SplitResult | None:
    """Split an http(s) address with a host and a valid port; return ``None`` for anything else."""
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises if the port is invalid
    except ValueError:
        return None
    usable = parts.scheme in {"http", "https"} and bool(parts.hostname)
    return parts if usable and len(url) <= MAX_ADDRESS else None


def absolute(base: str, reference: str) -> str | None:
    """Resolve a reference on a page to an http(s) address without fragment, or else ``None``.

    >>> absolute("https://a.example/x/", " ../y?b=2&a=1#top ")
    'https://a.example/y?b=2&a=1'
    >>> absolute("https://a.example/", "mailto:desk@a.example")
    """
    reference = strip_html5_whitespace(reference)
    if not reference or reference.startswith("#") or len(reference) > MAX_ADDRESS:
        return None
    try:
        joined = safe_url_string(urldefrag(urljoin(base, reference)).url)
        return joined if split(joined) else None
    except ValueError:
        return None


def links(tree: Any, url: str) -> list[Link]:
    """Return the distinct links of a page in document order, at most :data:`MAX_LINKS`.

    :param tree: the page as an lxml element
    :param url: address of the page; ``<base href>`` takes precedence
    """
    base = base_address(tree, url)
    found: dict[str, Link] = {}
    for anchor in tree.iter("a", "area"):
        address = absolute(base, anchor.get("href") or "")
        if address is None or address in found:
            continue
        nofollow = "nofollow" in (anchor.get("rel") or "").lower().split()
        found[address] = Link(address, nofollow)
        if len(found) >= MAX_LINKS:
            break
    return list(found.values())


def base_address(tree: Any, url: str) -> str:
    """Return the base address of relative references; an unusable ``<base>`` is ignored."""
    for element in tree.iter("base"):
        if href := element.get("href"):
            return absolute(url, href) or url
    return url


def feeds(tree: Any, url: str) -> list[str]:
    """Return the addresses of RSS and Atom feeds that a page announces, without comment feeds."""
    base = base_address(tree, url)
    found: dict[str, None] = {}
    for element in tree.iter("link"):
        rel = (element.get("rel") or "").lower().split()
        kind = (element.get("type") or "").partition(";")[0].strip().lower()
        if "alternate" in rel and kind in FEED_TYPES:
            address = absolute(base, element.get("href") or "")
            if address and "comment" not in address.lower():
                found[address] = None
    return list(found)[:MAX_SITEMAPS]


def feed_entries(body: bytes, url: str) -> list[str]:
    """Return the article addresses of an RSS or Atom feed, the first :data:`MAX_ENTRIES`."""
    references: list[str] = []
    try:
        for _, element in etree.iterparse(BytesIO(body), recover=True, resolve_entities=False):
            if _local_name(element) in {"item", "entry"}:
                references += filter(None, [_entry_link(element)])
                # Free parsed entries, which would accumulate.
                element.clear()
            if len(references) >= MAX_ENTRIES:
                break
    except etree.XMLSyntaxError:
        # Truncated, or not XML: keep what has been parsed.
        pass
    addresses = (absolute(url, reference) for reference in references)
    return list(dict.fromkeys(address for address in addresses if address))


def _entry_link(entry: Any) -> str | None:
    """Return an entry's article address: ``<link>``, or else a ``<guid>`` that is one."""
    guid = None
    for child in entry:
        name = _local_name(child)
        if name == "link" and (child.get("rel") or "alternate") == "alternate":
            if link := child.get("href") or (child.text or "").strip():
                return str(link)
        elif name == "guid" and (child.text or "").strip().startswith(("http://", "https://")):
            guid = str(child.text).strip()
    return guid


def _local_name(element: Any) -> str:
    """Return a tag without its namespace; empty for comments and the like."""
    return element.tag.rpartition("}")[2].lower() if isinstance(element.tag, str) else ""


def robots_sitemaps(body: bytes, url: str) -> list[str]:
    """Return the addresses in the first ``Sitemap:`` lines of a robots.txt."""
    lines = islice(_SITEMAP_LINE.finditer(body[:MAX_ROBOTS]), MAX_SITEMAPS)
    found = (absolute(url, line[1].decode("utf-8", "replace")) for line in lines)
    return list(dict.fromkeys(address for address in found if address))


def sitemap(body: bytes, url: str) -> SitemapContent:
    """Parse a sitemap or a sitemap index, gzipped or plain, newest entries first.

    At most :data:`MAX_SITEMAPS` other sitemaps are returned, news sitemaps first, or at most
    :data:`MAX_ENTRIES` pages and as many marked as news: the archive of a large site has millions.
    """
    try:
        if body[:2] == b"\x1f\x8b":
            body = gunzip(body, max_size=MAX_XML)
        parsed = Sitemap(body[:MAX_XML])
        # Ten times what is kept suffices to find the newest; the rest is not parsed.
        entries = _take(parsed, MAX_ENTRIES * 10)
    except Exception:  # gzip and lxml raise many kinds of errors on other content
        return SitemapContent()
    entries.sort(key=lambda entry: entry.get("lastmod") or "", reverse=True)
    if parsed.type == "sitemapindex":
        entries.sort(key=lambda entry: "news" not in entry["loc"].lower())
        return SitemapContent(sitemaps=_locations(entries, url)[:MAX_SITEMAPS])
    if parsed.type != "urlset":
        return SitemapContent()
    return SitemapContent(
        pages=_locations((entry for entry in entries if "news" not in entry), url)[:MAX_ENTRIES],
        news=_locations((entry for entry in entries if "news" in entry), url)[:MAX_ENTRIES],
    )


def _take(entries: Iterable[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    taken: list[dict[str, Any]] = []
    iterator: Iterator[dict[str, Any]] = iter(entries)
    try:
        for entry in iterator:
            taken.append(entry)
            if len(taken) >= count:
                break
    except SyntaxError:
        # lxml.etree.XMLSyntaxError, of a truncated file: keep what has been parsed.
        pass
    return taken


def _locations(entries: Iterable[dict[str, Any]], url: str) -> tuple[str, ...]:
    addresses = (absolute(url, entry["loc"]) for entry in entries)
    return tuple(dict.fromkeys(address for address in addresses if address))


def names_a_page(url: str) -> bool:
    """Whether an address may be that of an HTML page, by its ending.

    >>> names_a_page("https://a.example/photo.JPG"), names_a_page("https://a.example/1.shtml")
    (False, True)
    """
    return _NOT_PAGES.search(urlsplit(url).path) is None


def names_an_article(url: str) -> bool:
    """Whether an address looks like an article's: a date, a long number, or a long slug.

    >>> names_an_article("https://a.example/2024/05/06/bridge.html")
    True
    >>> names_an_article("https://a.example/sport/index_2.html")
    False
    """
    path = urlsplit(url).path
    return _ARTICLE_PATHS.search(path) is not None and _INDEX_PATH.search(path) is None


def is_front(url: str) -> bool:
    """Whether an address is that of a front page."""
    parts = urlsplit(url)
    return parts.path in {"", "/"} and not parts.query


def names_an_index(url: str) -> bool:
    """Whether an address looks like that of a front page, a section or a list.

    >>> names_an_index("https://a.example/sport/"), names_an_index("https://a.example/x/list_2.htm")
    (True, True)
    >>> names_an_index("https://a.example/mayor-opens-new-bridge")
    False
    """
    path = urlsplit(url).path
    return _INDEX_PATH.search(path) is not None or _SECTION_PATH.fullmatch(path) is not None


@attrs.frozen
class Sites:
    """The sites that a crawl stays on: hosts with their subdomains, and a port if given."""

    hosts: tuple[tuple[str, int | None], ...]

    @classmethod
    def of(cls, addresses: Iterable[str]) -> Sites:
        """Return the sites of start addresses; a leading ``www.`` means the whole domain."""
        hosts = [_site(parts) for parts in map(split, addresses) if parts]
        return cls(tuple(dict.fromkeys((host.removeprefix("www."), port) for host, port in hosts)))

    def index(self, url: str) -> int | None:
        """Return the position of the site of an address, or ``None`` if it is on no site."""
        parts = split(url)
        if parts is None:
            return None
        host, port = _site(parts)
        for position, (own, own_port) in enumerate(self.hosts):
            if port == own_port and (host == own or _is_subdomain(host, own)):
                return position
        return None


def _site(parts: SplitResult) -> tuple[str, int | None]:
    host = (parts.hostname or "").rstrip(".")
    return host, None if parts.port in {80, 443} else parts.port


def _is_subdomain(host: str, domain: str) -> bool:
    if not host.endswith("." + domain):
        return False
    try:
        ip_address(domain)
    except ValueError:
        return True
    return False
