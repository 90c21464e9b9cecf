"""Reads a page for the spider: metadata, body, links, and whether it is an article."""

from __future__ import annotations

import re
from typing import Any

import attrs
from parsel import Selector

from crawler.discovery import Link, feeds, is_front, links, names_an_article, names_an_index
from crawler.metadata import Metadata, find_date, read_metadata, stated_title
from dedup_middleware.text.decode import decode
from dedup_middleware.text.extract import clean, extract, is_ordinary

# An unmarked page counts as an article if its lines of at least PROSE_LINE characters have
# PROSE letters together; headlines in lists are shorter. A Chinese letter counts twice.
PROSE = 150
PROSE_LINE = 25
# Headlines have no full stop, so a Chinese line with a full stop may be shorter.
_SENTENCE_ENDS = "。！？；"
_IDEOGRAPH = re.compile("[\u3400-\u9fff\uf900-\ufaff]")
# More <article> elements than this are teasers.
MAX_TEASERS = 3
# A page with more tags is not parsed to a tree.
_MAX_TAGS = 200_000

_NO_TEXT = frozenset({"script", "style", "noscript", "template", "title"})


@attrs.frozen
class ReadPage:
    """A parsed page; ``text`` is empty unless it is an article."""

    html: str = attrs.field(repr=False)
    is_article: bool
    title: str
    text: str
    metadata: Metadata
    links: tuple[Link, ...]
    feeds: tuple[str, ...]


def read_page(
    body: bytes, url: str, *, charset: str | None = None, listed: bool = False
) -> ReadPage:
    """Decode a page, parse it, and extract its body if it is an article.

    :param charset: from the Content-Type header, if any
    :param listed: whether a feed or news sitemap lists the page, or it is known to be an article

    Takes 10 to 40 ms: call it in a thread.
    """
    html = clean(decode(body, charset).text)
    # Crafted pages can make a parser quadratic: neither links nor metadata are read from them.
    tree = Selector(text=html if is_ordinary(html, _MAX_TAGS) else "", type="html").root
    metadata = read_metadata(tree, url)
    title = text = ""
    is_article = listed or names_an_article(url) or (metadata.is_article and not is_front(url))
    if is_article or _may_be_article(tree, url):
        page = extract(html, url=url)
        title, text = page.title, page.text
        is_article = is_article or prose(text) >= PROSE
    if is_article and metadata.published is None and is_ordinary(html):
        metadata = attrs.evolve(metadata, published=find_date(html, url))
    return ReadPage(
        html=html,
        is_article=is_article,
        title=metadata.title or title or stated_title(tree) or "",
        text=text if is_article else "",
        metadata=metadata,
        links=tuple(links(tree, url)),
        feeds=tuple(feeds(tree, url)),
    )


def _may_be_article(tree: Any, url: str) -> bool:
    """Whether a page that is not marked as an article may be one, by its text outside links."""
    if names_an_index(url) or sum(1 for _ in tree.iter("article")) > MAX_TEASERS:
        return False
    return text_outside_links(tree) >= PROSE


def prose(text: str) -> int:
    r"""Return the number of letters of a body in lines long enough to be sentences.

    >>> prose("Council to repair the bridge\nHome\nAbout us")
    28
    >>> prose("市政府今日宣布修复东门外的旧石桥。")
    33
    """
    return sum(_letters(line) for line in map(str.strip, text.splitlines()) if _is_prose(line))


def _is_prose(line: str) -> bool:
    if len(line) >= PROSE_LINE:
        return True
    return _letters(line) >= PROSE_LINE and any(mark in line for mark in _SENTENCE_ENDS)


def _letters(line: str) -> int:
    return len(line) + len(_IDEOGRAPH.findall(line))


def text_outside_links(tree: Any) -> int:
    """Return the number of characters of a page outside links and code."""
    count = 0
    for element in tree.iter():
        if element.tag not in _NO_TEXT and isinstance(element.tag, str):
            count += len((element.text or "").strip())
        # The tail of an element is text of its parent.
        count += len((element.tail or "").strip())
    for anchor in tree.iter("a"):
        count -= sum(len(part.strip()) for part in anchor.itertext())
    return count
