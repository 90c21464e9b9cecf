"""Headline, body and forum threads, as a page's meta tags and JSON-LD declare them."""

from __future__ import annotations

import json
import re
from html import unescape
from typing import Any, Final

import numpy as np

from dedup_middleware.base.jit import kernel
from dedup_middleware.base.kerneltypes import R8, boolean, int64
from dedup_middleware.text.extraction.blocks import Blocks

_TYPE: Final = "application/ld+json"
# Limits of the search: scripts of a page, characters of a script, values in it.
_SCRIPTS: Final = 20
_SIZE: Final = 1_000_000
_VALUES: Final = 10_000


def article_body(html: str) -> str:
    """The longest ``articleBody`` in the JSON-LD of a page, verbatim; "" if there is none.

    >>> page = '<script type="application/ld+json">{"articleBody": "It rained."}</script>'
    >>> article_body(page)
    'It rained.'
    """
    found = ""
    position = 0
    for _ in range(_SCRIPTS):
        position = html.find(_TYPE, position)
        start = html.find(">", position) + 1 if position >= 0 else 0
        end = html.find("</script", start) if start else -1
        if end < 0:
            break
        if end - start <= _SIZE and "articleBody" in html[start:end]:
            found = max(found, _longest(html[start:end]), key=len)
        position = end
    return found


def _longest(script: str) -> str:
    try:
        values: list[Any] = [json.loads(script, strict=False)]
    except (ValueError, RecursionError):
        return ""
    found = ""
    for _ in range(_VALUES):
        if not values:
            break
        value = values.pop()
        if isinstance(value, dict):
            body = value.get("articleBody")
            if isinstance(body, str) and len(body) > len(found):
                found = body
            values.extend(value.values())
        elif isinstance(value, list):
            values.extend(value)
    return found


# First characters that are searched for metadata, before which some pages have long scripts.
_HEAD = 300_000
_META = re.compile(r"<meta\s[^<>]{1,4000}>", re.IGNORECASE)
# Characters of a meta element, and of its part that is searched for a name.
_META_SIZE = 4_000
_METAS = 8
_PROPERTY = re.compile(r"""(?:property|name)\s*=\s*["']?([\w:.-]+)""", re.IGNORECASE)
_CONTENT = re.compile(r"""content\s*=\s*(?:"([^"]*)"|'([^']*)')""", re.IGNORECASE)
# Least characters of a headline; a shorter heading is that of a section.
_HEADING = 4
_THREAD_TITLE = re.compile(
    r"\bforums?\b|\bbbs\b|discuz|phpbb|vbulletin|论坛|論壇|贴吧|问答|掲示板", re.IGNORECASE
)
_THREAD_BODY = re.compile(r"\b(?:forum|thread|topic|viewthread|question)", re.IGNORECASE)
# Words, and the positions of two bytes that are rare together, which are searched for first:
# Python's own search takes five times as long.
_THREAD_TYPES: Final = {
    b"DiscussionForumPosting": (0, 10),
    b"QAPage": (0, 2),
    b"schema.org/Question": (10, 11),
    b"schema.org/Answer": (10, 11),
    b"postbit": (3, 4),  # a post of MyBB and vBulletin
}
_STEP: Final = 64
_SITE_SUFFIX = re.compile(r"\s*(?:[_|｜–—»«]+|\s[-·:]\s|-{2,}|(?<=[\u3400-\u9fff])-)\s*")


def title(html: str, page: Blocks) -> str:
    """The headline: the heading in the page title, else OpenGraph's, else the page title."""
    for block in page.blocks:
        if block.tag == "h1" and len(block.text) >= _HEADING and block.text in page.title:
            return block.text
    if social := " ".join(unescape(_meta(html[:_HEAD], "og:title")).split()):
        return _without_site(social)
    return _without_site(page.title)


def is_thread(data: bytes, page: Blocks) -> bool:
    """Whether a page, in UTF-8, declares itself a forum thread: comments are its content."""
    if _THREAD_TITLE.search(page.title) is not None or _THREAD_BODY.search(page.body) is not None:
        return True
    markup = np.frombuffer(data, np.uint8)
    return any(
        _holds(markup, np.frombuffer(word, np.uint8), *places)
        for word, places in _THREAD_TYPES.items()
    )


@kernel(boolean(R8, R8, int64, int64))
def _holds(data: Any, word: Any, first: Any, second: Any) -> bool:
    """Whether uint8[n] has a word; the bytes at two positions of it are compared first."""
    one, two = word[first], word[second]
    last = data.size - word.size
    start = 0
    while start <= last:
        stop = min(start + _STEP, last + 1)
        found = False
        for place in range(start, stop):
            found |= (data[np.uint64(place + first)] == one) & (
                data[np.uint64(place + second)] == two
            )
        if found:
            for place in range(start, stop):
                length = 0
                while length < word.size and data[place + length] == word[length]:
                    length += 1
                if length == word.size:
                    return True
        start = stop
    return False


def _meta(head: str, name: str) -> str:
    """Content of the first meta element of that name."""
    place = 0
    for _ in range(_METAS):
        place = head.find(name, place)
        if place < 0:
            break
        start = head.rfind("<", max(0, place - _META_SIZE), place)
        place += len(name)
        element = _META.match(head, start) if start >= 0 else None
        key = _PROPERTY.search(element[0]) if element else None
        if element is not None and key is not None and key[1].lower() == name:
            content = _CONTENT.search(element[0])
            if content is not None:
                return content[1] if content[1] is not None else content[2]
    return ""


def _without_site(text: str) -> str:
    """The page title without the names of section and site at its end."""
    cuts = list(_SITE_SUFFIX.finditer(text))[-4:]
    end = len(text)
    for cut in reversed(cuts):
        # The name of a site is short, and no longer than the headline before it.
        if end - cut.end() > 24 or cut.start() < max(6, end - cut.end()):
            break
        end = cut.start()
    return text[:end]
