"""The text blocks of a page and the containers they stand in, as short lists.

`markup` reads the page; here its tables become blocks and flags, so that the choice of a body
(`quick`) looks at numbers and strings only.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from html import unescape
from typing import NamedTuple

import attrs
import numpy as np

from dedup_middleware.text.extraction import markup
from dedup_middleware.text.extraction.names import (
    ARTICLE,
    BODY_NAME,
    COMMENT,
    FIXED,
    FURNITURE,
    flags_of,
)

HEADINGS = frozenset(markup.HEADINGS)
_P = markup.TAGS.index("p")
_BODY = markup.TAGS.index("body")

_FIXED_TAGS = frozenset({"nav", "footer"})
_FURNITURE_TAGS = frozenset({"aside", "menu", "noscript"})
_NEVER_FURNITURE = frozenset({"body", "article", "main"})
_FURNITURE_ROLES = frozenset(
    {"navigation", "banner", "contentinfo", "dialog", "complementary", "search"}
)
_ATTRIBUTE = re.compile(
    r"""([^\s=>"'/]+)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+)))?""", re.IGNORECASE
)
# Bytes of a title.
_TITLE_SIZE = 4_000
# Most tags have one attribute.
_NAME_ALONE = re.compile(rb"""\s*(?:class|id)=["']([^"'&]*)["']\s*""")
# Tags with more bytes of attributes have no names that matter.
_ATTRIBUTES_SIZE = 1_000


class Block(NamedTuple):
    """A run of text without a break: the paragraph, list item or table cell of a page.

    ``weight`` is its length in UTF-8 bytes, which is about the same for one statement in any
    language; ``link`` the share of it inside links; ``container`` an index into `Blocks`.
    """

    text: str
    weight: int
    link: float
    container: int
    tag: str


@attrs.define
class Blocks:
    """Blocks in document order, and containers in document order, each before what it holds.

    ``parent``, ``flags`` and ``last`` run in parallel: parent of the container (-1 for the root),
    its flags, and the last container inside it. ``title`` is the content of the title element,
    ``body`` the attributes of the body element.
    """

    blocks: list[Block]
    parent: list[int]
    flags: list[int]
    last: list[int]
    title: str = ""
    body: str = ""


def ancestors(page: Blocks, container: int) -> Iterator[int]:
    """The containers around a container, itself first."""
    while container >= 0:
        yield container
        container = page.parent[container]


def read(html: str) -> Blocks:
    """Blocks and containers of a page."""
    data = html.encode("utf-8")
    text, rows, boxes, title = markup.read_markup(np.frombuffer(data, np.uint8))
    parent, tags, last, starts, ends = boxes.T.tolist()
    flags = [
        _flags(markup.TAGS[tag], data[start:end] if end - start <= _ATTRIBUTES_SIZE else b"")
        for tag, start, end in zip(tags, starts, ends, strict=True)
    ]
    # A paragraph is a box of its own only when its name says so.
    boxed = list(range(len(parent)))
    for index, tag in enumerate(tags):
        if tag == _P and not flags[index] & (FURNITURE | COMMENT):
            boxed[index] = boxed[parent[index]]
            flags[index] = 0
    lines = text.tobytes().decode("utf-8", "replace").split("\n")
    blocks: list[Block] = []
    for line, container, tag, linked in zip(lines, *rows.T.tolist(), strict=False):
        plain, weight = _squeezed(line)
        if weight:
            share = min(1.0, linked / weight) if linked else 0.0
            blocks.append(Block(plain, weight, share, boxed[container], markup.TAGS[tag]))
    start, end = title.tolist()
    # An element that is never closed holds the page.
    name = data[start : min(end, start + _TITLE_SIZE)].decode("utf-8", "replace").split("<", 1)[0]
    name = " ".join(unescape(name).split())
    body = ""
    if len(tags) > 1 and tags[1] == _BODY:
        body = data[starts[1] : ends[1]].decode("utf-8", "replace")
    return Blocks(blocks, parent, flags, last, name, body)


def _squeezed(line: str) -> tuple[str, int]:
    """A line of `markup.read_markup` as plain text, and its weight."""
    if "&" in line:
        line = " ".join(unescape(line).split())
        return line, len(line.encode("utf-8", "replace"))
    if line.isascii():
        # The white space of ASCII is squeezed already.
        return line, len(line)
    line = " ".join(line.split())
    return line, len(line.encode("utf-8"))


@lru_cache(maxsize=4096)
def _flags(tag: str, attributes: bytes) -> int:
    """Flags of a container by its tag and attributes."""
    flags = FURNITURE if tag in _FURNITURE_TAGS else ARTICLE if tag == "article" else 0
    if tag in _FIXED_TAGS:
        flags = FIXED
    named = 0
    if (simple := _NAME_ALONE.fullmatch(attributes)) is not None:
        named, attributes = flags_of(simple[1].decode("utf-8", "replace")), b""
    for found in _ATTRIBUTE.finditer(attributes.decode("utf-8", "replace")):
        key = found[1].lower()
        value = found[2] or found[3] or found[4] or ""
        if key in ("class", "id"):
            named |= flags_of(value)
        elif key == "style":
            if "none" in value and "display:none" in value.replace(" ", ""):
                flags |= FIXED
        elif (
            key == "hidden"
            or (key == "aria-hidden" and value == "true")
            or (key == "role" and value in _FURNITURE_ROLES)
        ):
            flags |= FIXED
        elif key == "itemprop" and value == "articleBody":
            flags |= BODY_NAME
    if tag in _NEVER_FURNITURE:
        # Sites put the kind of the whole page into the class of its body element.
        named &= 0 if tag == "body" else ~(FURNITURE | COMMENT)
    return flags | named
