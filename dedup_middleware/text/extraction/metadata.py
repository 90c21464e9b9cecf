"""Title and language of a page, by regular expressions that are linear in the page."""

import re
from html import unescape

# Titles and meta data stand in the head; some pages put long scripts before them.
_HEAD = 300_000
_META = re.compile(r"<meta\s[^<>]{1,4000}>", re.IGNORECASE)
_PROPERTY = re.compile(r"""(?:property|name)\s*=\s*["']?([\w:.-]+)""", re.IGNORECASE)
_CONTENT = re.compile(r"""content\s*=\s*(?:"([^"]*)"|'([^']*)')""", re.IGNORECASE)
_TITLE = re.compile(r"<title[^<>]{0,500}>([^<]{0,2000})", re.IGNORECASE)
_HEADING = re.compile(r"<h1(?:\s[^<>]{0,2000})?>(.{0,2000}?)</h1", re.IGNORECASE | re.DOTALL)
_TAG = re.compile(r"<[^<>]*>")
_LANGUAGE = re.compile(
    r"""<html\s[^<>]{0,2000}?\blang\s*=\s*["']?([A-Za-z]{2,3}(?:-\w+)*)""", re.IGNORECASE
)
_SITE_SUFFIX = re.compile(r"\s*(?:[_|｜–—»«]+|\s[-·:]\s|-{2,}|(?<=[\u3400-\u9fff])-)\s*")


def title(html: str) -> str:
    """Headline of the page: the heading that the page title holds, OpenGraph, or the page title."""
    head = html[:_HEAD]
    found = _TITLE.search(head)
    page_title = _flat(found[1]) if found else ""
    for heading in _HEADING.findall(html[: _HEAD * 3]):
        text = _flat(_TAG.sub("", heading))
        if text and len(text) >= 4 and text in page_title:
            return text
    if social := _flat(_meta(head, "og:title")):
        return _without_site(social)
    return _without_site(page_title)


def language(html: str) -> str:
    """Language tag that the page declares in ``<html lang>``, or an empty string."""
    found = _LANGUAGE.search(html[:_HEAD])
    return found[1] if found else ""


def _meta(head: str, name: str) -> str:
    """Content of the first meta element of that name."""
    for element in _META.findall(head):
        key = _PROPERTY.search(element)
        if key is not None and key[1].lower() == name:
            content = _CONTENT.search(element)
            if content is not None:
                return content[1] if content[1] is not None else content[2]
    return ""


def _without_site(text: str) -> str:
    """The page title without the names of section and site behind it."""
    first = _SITE_SUFFIX.split(text, maxsplit=1)[0]
    # A short first part is the site itself, or a word of the headline.
    return first if len(first) * 3 >= len(text) or len(first) >= 12 else text


def _flat(text: str) -> str:
    """One line of plain text."""
    return " ".join(unescape(text).split())
