"""Title and language of a page, by regular expressions that are linear in the page."""

import re
from html import unescape
from itertools import islice

# Titles and meta data stand in the head; some pages put long scripts before them.
_HEAD = 300_000
_META = re.compile(r"<meta\s[^<>]{1,4000}>", re.IGNORECASE)
_PROPERTY = re.compile(r"""(?:property|name)\s*=\s*["']?([\w:.-]+)""", re.IGNORECASE)
_CONTENT = re.compile(r"""content\s*=\s*(?:"([^"]*)"|'([^']*)')""", re.IGNORECASE)
_TITLE = re.compile(r"<title[^<>]{0,500}>([^<]{0,2000})", re.IGNORECASE)
_HEADING = re.compile(r"<h1(?:\s[^<>]{0,2000})?>", re.IGNORECASE)
_HEADING_END = re.compile(r"</h1", re.IGNORECASE)
# Headings that are looked at, and the markup in one.
_HEADINGS = 8
_HEADING_SIZE = 2_000
_TAG = re.compile(r"<[^<>]*>")
_LANGUAGE = re.compile(
    r"""<html\s[^<>]{0,2000}?\blang\s*=\s*["']?([A-Za-z]{2,3}(?:-\w+)*)""", re.IGNORECASE
)
_BODY_TAG = re.compile(r"<body\s[^<>]{0,2000}", re.IGNORECASE)
_THREAD_TITLE = re.compile(
    r"\bforums?\b|\bbbs\b|discuz|phpbb|vbulletin|论坛|論壇|贴吧|问答|掲示板", re.IGNORECASE
)
_THREAD_BODY = re.compile(r"\b(?:forum|thread|topic|viewthread|question)", re.IGNORECASE)
_THREAD_TYPES = ("DiscussionForumPosting", "QAPage", "schema.org/Question", "schema.org/Answer")
_SITE_SUFFIX = re.compile(r"\s*(?:[_|｜–—»«]+|\s[-·:]\s|-{2,}|(?<=[\u3400-\u9fff])-)\s*")


def title(html: str) -> str:
    """Headline of the page: the heading that the page title holds, OpenGraph, or the page title."""
    head = html[:_HEAD]
    found = _TITLE.search(head)
    page_title = _flat(found[1]) if found else ""
    for start in islice(_HEADING.finditer(html), _HEADINGS):
        end = _HEADING_END.search(html, start.end(), start.end() + _HEADING_SIZE)
        text = _flat(_TAG.sub("", html[start.end() : end.start()])) if end else ""
        if len(text) >= 4 and text in page_title:
            return text
    if social := _flat(_meta(head, "og:title")):
        return _without_site(social)
    return _without_site(page_title)


def language(html: str) -> str:
    """Language tag that the page declares in ``<html lang>``, or an empty string."""
    found = _LANGUAGE.search(html[:_HEAD])
    return found[1] if found else ""


def is_thread(html: str) -> bool:
    """Whether the page says that it is a forum thread, where comments are the content."""
    if any(name in html for name in _THREAD_TYPES):
        return True
    head = html[:_HEAD]
    page_title = _TITLE.search(head)
    if page_title is not None and _THREAD_TITLE.search(page_title[1]) is not None:
        return True
    body = _BODY_TAG.search(html)
    return body is not None and _THREAD_BODY.search(body[0]) is not None


def _meta(head: str, name: str) -> str:
    """Content of the first meta element of that name."""
    if name not in head:
        return ""
    for element in _META.findall(head):
        key = _PROPERTY.search(element)
        if key is not None and key[1].lower() == name:
            content = _CONTENT.search(element)
            if content is not None:
                return content[1] if content[1] is not None else content[2]
    return ""


def _without_site(text: str) -> str:
    """The page title without the names of section and site behind it."""
    cuts = list(_SITE_SUFFIX.finditer(text))[-4:]
    end = len(text)
    for cut in reversed(cuts):
        # The name of a site is short, and no longer than the headline before it.
        if end - cut.end() > 24 or cut.start() < max(6, end - cut.end()):
            break
        end = cut.start()
    return text[:end]


def _flat(text: str) -> str:
    """One line of plain text."""
    return " ".join(unescape(text).split())
