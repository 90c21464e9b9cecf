"""One walk over the tree of a page: its text blocks and the containers they stand in.

The tree is thinned out in C first (scripts, hidden parts, inline markup), then walked once. The
walk keeps nothing but numbers and strings, so that the choice of a body (`quick`) looks at short
lists and never at the tree again.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import attrs
from lxml import etree

from dedup_middleware.text.extraction.names import (
    ARTICLE,
    BODY_NAME,
    COMMENT,
    FURNITURE,
    flags_of,
)

HEADINGS = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})

_SKIPPED = (
    "script style template svg iframe object embed applet select option textarea button "
    "input audio video canvas map head figcaption picture math dialog img source link meta"
).split()
_INLINE = (
    "span b i em strong u s small big font sup sub mark abbr acronym cite code q tt ins del strike "
    "time label bdi bdo wbr nobr kbd samp var dfn figure tbody thead tfoot data output"
).split()
_FURNITURE_TAGS = frozenset({"nav", "footer", "aside", "menu", "noscript"})
_CONTAINERS = (
    frozenset("div section article main td th tr table ul ol dl li dd form body center".split())
    | {"blockquote", "header", "details", "fieldset"}
    | _FURNITURE_TAGS
)
_LINES = frozenset({"p", "br", "pre", "dt", "hr", "address", "summary", "legend"}) | HEADINGS
_NEVER_FURNITURE = frozenset({"body", "article", "main"})
_FURNITURE_ROLES = frozenset(
    {"navigation", "banner", "contentinfo", "dialog", "complementary", "search"}
)


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
    its flags, and the last container inside it.
    """

    blocks: list[Block] = attrs.Factory(list)
    parent: list[int] = attrs.Factory(lambda: [-1])
    flags: list[int] = attrs.Factory(lambda: [0])
    last: list[int] = attrs.Factory(lambda: [0])


def ancestors(page: Blocks, container: int) -> Iterator[int]:
    """The containers around a container, itself first."""
    while container >= 0:
        yield container
        container = page.parent[container]


def parse(html: str) -> Any:
    """Tree of the page (at most 256 deep: libxml2 stops there), or None without any."""
    parser = etree.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True)
    try:
        return etree.fromstring(html.encode("utf-8"), parser)
    except (etree.LxmlError, ValueError):
        return None


def read(root: Any) -> Blocks:
    """Blocks and containers of a tree. The tree is changed."""
    _thin_out(root)
    page = Blocks()
    reader = _Reader(page)
    reader.visit(root, 0, "body")
    reader.flush(0, "body")
    page.last[0] = len(page.parent) - 1
    return page


def _thin_out(root: Any) -> None:
    """Remove what has no text that readers see, and inline markup but for links."""
    etree.strip_elements(root, *_SKIPPED, with_tail=False)
    etree.strip_tags(root, *_INLINE)


class _Reader:
    """State of the walk: the text of the block at hand, and how much of it is linked."""

    def __init__(self, page: Blocks) -> None:
        self.page = page
        self.text: list[str] = []
        self.linked = 0

    def flush(self, container: int, tag: str) -> None:
        """End the block at hand."""
        text = self.text
        line = " ".join("".join(text).split())
        if line:
            share = min(1.0, self.linked / len(line)) if self.linked else 0.0
            weight = len(line) if line.isascii() else len(line.encode())
            self.page.blocks.append(Block(line, weight, share, container, tag))
        text.clear()
        self.linked = 0

    def visit(self, element: Any, container: int, line_tag: str) -> None:
        """Read the content of an element; ``line_tag`` is the tag of the block it is in."""
        text = self.text
        if inner_text := element.text:
            text.append(inner_text)
        for child in element:
            tag = child.tag
            if tag == "a":
                before = len(text)
                self.visit(child, container, line_tag)
                # A block inside the link has been flushed with the share it had.
                for piece in text[before:]:
                    self.linked += len(piece)
            elif tag in _CONTAINERS:
                if text:
                    self.flush(container, line_tag)
                inner = self.open(child, tag, container)
                self.visit(child, inner, tag)
                if text:
                    self.flush(inner, tag)
                self.page.last[inner] = len(self.page.parent) - 1
            elif tag in _LINES:
                if text:
                    self.flush(container, line_tag)
                if tag != "br":
                    self.line(child, tag, container)
            else:
                self.visit(child, container, line_tag)
            if tail := child.tail:
                text.append(tail)

    def line(self, element: Any, tag: str, container: int) -> None:
        """Read a paragraph or a heading; one named like furniture is a container of its own."""
        if tag == "p" and element.attrib and _flags(element, tag) & (FURNITURE | COMMENT):
            container = self.open(element, tag, container)
        self.visit(element, container, tag)
        if self.text:
            self.flush(container, tag)

    def open(self, element: Any, tag: str, container: int) -> int:
        """A new container."""
        page = self.page
        index = len(page.parent)
        page.parent.append(container)
        page.flags.append(_flags(element, tag))
        page.last.append(index)
        return index


def _flags(element: Any, tag: str) -> int:
    """Flags of a container by its tag and attributes."""
    flags = FURNITURE if tag in _FURNITURE_TAGS else ARTICLE if tag == "article" else 0
    name = ""
    for key, value in element.items():
        if key in ("class", "id"):
            name = f"{name} {value}" if name else value
        elif key == "style":
            if "none" in value and "display:none" in value.replace(" ", ""):
                flags |= FURNITURE
        elif (
            key == "hidden"
            or (key == "aria-hidden" and value == "true")
            or (key == "role" and value in _FURNITURE_ROLES)
        ):
            flags |= FURNITURE
        elif key == "itemprop" and value == "articleBody":
            flags |= BODY_NAME
    if name:
        named = flags_of(name)
        if tag in _NEVER_FURNITURE:
            # Sites put the kind of the whole page into the class of its body element.
            named &= 0 if tag == "body" else ~(FURNITURE | COMMENT)
        flags |= named
    return flags
