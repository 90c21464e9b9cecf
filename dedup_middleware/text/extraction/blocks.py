"""Blocks of text in a parsed page, and what the names of the boxes around them tell of them.

Authors of templates use the same names everywhere. The vocabulary overlaps with that of readability
and trafilatura; it is matched by words and substrings, which costs a tenth of one regular
expression with all alternatives.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from html import unescape
from typing import Any, NamedTuple

import attrs
import numpy as np

from dedup_middleware.text.characters import word_lists
from dedup_middleware.text.extraction import markup, trim
from dedup_middleware.text.relevant import LONGEST_TITLE

# Flags of a container; everything in furniture or comments has theirs too. FURNITURE is known
# mostly by its name, FIXED by its tag or role, or by being hidden. A CAPTION is furniture as well,
# and so is a box that is named META and nothing else, or CONSENT (to cookies). A PANEL is one of
# several tabs.
FURNITURE = 1
COMMENT = 2
BODY_NAME = 4
ARTICLE = 8
FIXED = 16
CAPTION = 32
PANEL = 64
META = 128
CONSENT = 256

# Characters of a name that are examined.
_NAME_SIZE = 300
_WORD = re.compile(r"[a-z]+|[A-Z][a-z]*")
_FURNITURE_WORDS = frozenset(word_lists()["furniture"])
_FURNITURE_STARTS = word_lists()["furniture-starts"]
_CONSENT_STARTS = word_lists()["consent-starts"]
_PAIRS = re.compile(
    r"(?:most|next|also|read|more|side|tag|source|user|screen|post|publish|pub)[-_]"
    r"(?:read|viewed|on|from|stories|news|next|more|post|like|bar|list|info|reader|date|time)\b"
    r"|search[-_](?:bar|box|form)(?![a-z])"
)
# Names that tell the state or the look of a box, next to its own name (`post has-profile`, `reply
# topic-author`, `comment comment-author-ann`, `answer overflow-hidden`), and parts of adverts on
# sites that consist of them: `ad-details`.
_STATE = re.compile(
    r"(?<!\S)(?:(?:has|no|with|without)[-_]\S*|comment-author-\S*|(?:topic-author|bypostauthor"
    r"|(?:\w+:)?overflow(?:-[xy])?-hidden)(?!\S))"
    r"|\bad(?:vert)?[-_]+(?=(?:attribute|description|detail|feature|param|price|propert|spec)\w*\b)",
    re.IGNORECASE,
)
_COMMENT_WORDS = frozenset({"comment", "reply", "replies"})
_COMMENT_STARTS = ("comments", "commentl", "disqus", "livefyre", "pinglun", "guestbook", "respond")
_BODY_BOX = re.compile(
    r"(?:article|art|post|entry|story|news|text|detail|blog|page|content)[-_]{0,2}"
    r"(?:body|content|text|entry|detail|con|main)\b"
    r"|body-?(?:text|copy)|content-?main|main-?text"
    r"|fulltext|field--?(?:name-)?body|wpb_text_column|article__container|single-(?:post|content)"
    r"|trs_editor|rich_media_content|post_inner|endtext|artibody"
)
_BODY_BOX_PART = re.compile("con|body|text|main|entry|detail|single-|editor|_inner")

# Boxes with facts about the page, not about what it describes.
_PAGE_META = re.compile(r"(?:article|blog|entry|news|post|story)[-_]{0,2}meta(?![a-z])")
_PANEL = re.compile(r"(?:tab-?pane|tabs?[-_]{1,2}panel)(?!l?s)|\bwc-tab\b")

HEADINGS = frozenset(markup.HEADINGS)
_P = markup.TAGS.index("p")
_BODY = markup.TAGS.index("body")

_FIXED_TAGS = frozenset({"nav", "footer"})
_FURNITURE_TAGS = frozenset({"aside", "menu", "noscript"})
_NEVER_FURNITURE = frozenset({"body", "article", "main"})
_FURNITURE_ROLES = frozenset(
    {"navigation", "banner", "contentinfo", "dialog", "complementary", "search"}
)
_ATTRIBUTE = re.compile(r"""([^\s=>"'/]+)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+)))?""")
# All character references that a parser writes, in the order in which they are decoded.
_WRITTEN = (("&nbsp;", "\u00a0"), ("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&"))
# Most tags have one attribute.
_NAME_ALONE = re.compile(rb"""\s*(?:class|id)=["']([^"'&]*)["']\s*""")
# Names in tags with more bytes of attributes are ignored.
_ATTRIBUTES_SIZE = 1_000


class Block(NamedTuple):
    """A run of text without a break: the paragraph, list item or table cell of a page.

    ``weight`` is its length in UTF-8 bytes, which is similar for the same statement in any
    language; ``link`` the share of it inside links; ``container`` an index into `Blocks`.
    """

    text: str
    weight: int
    link: float
    container: int
    tag: str


@attrs.define
class Blocks:
    """The blocks of a page and the containers around them, both in document order.

    ``parent`` and ``last`` have for each container its parent (-1 for the root) and the last
    container inside it; ``flags`` computes its flags. ``title`` is the content of the title
    element, ``body`` the attributes of the body element. ``is_cut``: as many
    blocks were read as are allowed, so there may be more.
    """

    blocks: list[Block]
    parent: list[int]
    flags: Callable[[int], int]
    last: list[int]
    title: str = ""
    body: str = ""
    is_cut: bool = False


def ancestors(page: Blocks, container: int) -> Iterator[int]:
    """A container and all containers around it, innermost first."""
    while container >= 0:
        yield container
        container = page.parent[container]


def well_formed(page: bytes) -> bytes | None:
    """Parse a page in UTF-8 with lexbor and serialise its tree; None if the parser fails.

    Call it only on output of `trim.trimmed`: neither time nor memory is bounded otherwise. Visiting
    the nodes from Python would cost many times as much as serialising them.
    """
    from resiliparse.parse.html import HTMLTree  # here, not above: not every process parses pages

    try:
        tree: Any = HTMLTree.parse(page.decode("utf-8"))
        return str(tree).encode("utf-8")
    except BaseException as error:  # no page may stop a crawl
        # A panic of its Rust code is not an Exception.
        if isinstance(error, Exception) or type(error).__name__ == "PanicException":
            return None
        raise


def read(html: str | bytes) -> Blocks:
    """Blocks and containers of a page; a parser is used where that is safe (see `trim`).

    ``html`` is the page or its UTF-8.
    """
    data = html if isinstance(html, bytes) else html.encode("utf-8")
    verdict, rest, places, spans = trim.trimmed(np.frombuffer(data, np.uint8))
    whole = well_formed(rest.tobytes()) if verdict == trim.FINE else None
    if whole is None:
        return read_directly(data)

    def attributes(written: bytes) -> bytes:
        number = trim.reference(written)
        if not 0 <= number < len(places):
            return b""
        start, end = places[number]
        return data[start:end]

    page = read_directly(whole, attributes)
    (start, end), (first, last) = spans.tolist()
    page.title = _title(data[start:end])
    page.body = data[first:last].decode("utf-8", "replace")
    return page


def read_directly(data: bytes, attributes: Callable[[bytes], bytes] | None = None) -> Blocks:
    """Blocks and containers of UTF-8 markup in one pass: for what a parser wrote, or must not see.

    ``attributes`` turns the parser's attributes into those of the page.
    """
    text, rows, boxes, title = markup.read_markup(np.frombuffer(data, np.uint8))
    parent, tags, last, starts, ends = boxes.T.tolist()

    @cache
    def flags(index: int) -> int:  # of a container; most are never needed
        own = data[starts[index] : ends[index]]
        own = own if attributes is None else attributes(own)
        found = _flags(markup.TAGS[tags[index]], own if len(own) <= _ATTRIBUTES_SIZE else b"")
        # A paragraph is a box of its own only when its name says so.
        return 0 if tags[index] == _P and not found & (FURNITURE | COMMENT) else found

    whole = text.tobytes().decode("utf-8", "replace")
    is_parsed = attributes is not None
    if is_parsed and "&" in whole:
        for entity, character in _WRITTEN:
            whole = whole.replace(entity, character)
    blocks: list[Block] = []
    for line, box, tag, linked in zip(whole.split("\n"), *rows.T.tolist(), strict=False):
        if not is_parsed and "&" in line:
            plain = " ".join(unescape(line).split())
            weight = len(plain.encode("utf-8", "replace"))
        elif line.isascii():
            # ASCII white space is squeezed already.
            plain, weight = line, len(line)
        else:
            plain = " ".join(line.split())
            weight = len(plain.encode("utf-8"))
        if weight:
            container = box
            while tags[container] == _P and not flags(container):
                container = parent[container]
            share = min(1.0, linked / weight) if linked else 0.0
            blocks.append(Block(plain, weight, share, container, markup.TAGS[tag]))
    start, end = title.tolist()
    body = ""
    if len(tags) > 1 and tags[1] == _BODY:
        body = data[starts[1] : ends[1]].decode("utf-8", "replace")
    is_cut = len(rows) == markup.MAX_BLOCKS
    return Blocks(blocks, parent, flags, last, _title(data[start:end]), body, is_cut)


def _title(content: bytes) -> str:
    """Content of a title element as one line; an unclosed element holds the whole page."""
    name = content[:LONGEST_TITLE].decode("utf-8", "replace").split("<", 1)[0]
    return " ".join(unescape(name).split())


@lru_cache(maxsize=4096)
def _flags(tag: str, attributes: bytes) -> int:
    """Flags of a container, from its tag and attributes."""
    flags = FURNITURE if tag in _FURNITURE_TAGS else ARTICLE if tag == "article" else 0
    if tag in _FIXED_TAGS:
        flags = FIXED
    elif tag == "figcaption":
        flags = FURNITURE | CAPTION
    named, hidden, region, labelled = 0, False, False, False
    if (simple := _NAME_ALONE.fullmatch(attributes)) is not None:
        named, attributes = flags_of(simple[1].decode("utf-8", "replace")), b""
    for found in _ATTRIBUTE.finditer(attributes.decode("utf-8", "replace")):
        key = found[1].lower()
        value = found[2] or found[3] or found[4] or ""
        if key in ("class", "id"):
            named |= flags_of(value)
        elif key == "style":
            hidden |= "none" in value and "display:none" in value.replace(" ", "")
        elif key == "hidden" or (key == "aria-hidden" and value == "true"):
            hidden = True
        elif key == "role":
            region = value == "region"
            flags |= PANEL if value == "tabpanel" else 0
            flags |= FIXED if value in _FURNITURE_ROLES else 0
        elif key == "aria-labelledby":
            labelled = True
        elif key == "itemprop" and value == "articleBody":
            flags |= BODY_NAME
    # Tabs, and parts of an accordion (labelled by their buttons), are hidden until they are opened.
    opened = (flags | named) & PANEL or (region and labelled)
    flags |= FIXED if hidden and not opened else 0
    if tag in _NEVER_FURNITURE:
        # Sites put the kind of the whole page into the class of its body element.
        named &= 0 if tag == "body" else ~(FURNITURE | COMMENT)
    return flags | named


@lru_cache(maxsize=4096)
def flags_of(name: str) -> int:
    """Flags told by the value of a class or an id."""
    name = name[:_NAME_SIZE]
    words = _WORD.findall(name)
    flags = 0
    for word in words:
        flags |= _word_flags(word)
    lowered = name.lower()
    # A pattern is searched only where a necessary part of it is found.
    if _BODY_BOX_PART.search(lowered) is not None and _BODY_BOX.search(lowered) is not None:
        flags |= BODY_NAME
    if "tab" in lowered and _PANEL.search(lowered) is not None:
        flags |= PANEL
    if ("-" in lowered or "_" in lowered) and not flags & FURNITURE:
        flags |= FURNITURE if _PAIRS.search(lowered) is not None else 0
    if flags & META and _PAGE_META.search(lowered) is not None:
        flags |= FURNITURE
    if flags & (FURNITURE | META):
        if (own := _STATE.sub("", name).strip()) and own != name.strip():
            stated = flags_of(own)
            # `comment-author-info clearfix` is no comment, but a part of one.
            if not flags & COMMENT or stated & COMMENT:
                return stated
        flags = flags & ~META if flags & FURNITURE else flags | FURNITURE
    # Page builders call every box of a page a widget.
    return flags & ~FURNITURE if flags and "elementor" in lowered else flags


@lru_cache(maxsize=8192)
def _word_flags(word: str) -> int:
    """Flags told by one word of a name."""
    word = word.lower()
    if word == "meta":
        return META
    if word.startswith(_CONSENT_STARTS):
        return FURNITURE | CONSENT
    if word in _FURNITURE_WORDS or word.startswith(_FURNITURE_STARTS):
        return FURNITURE
    if word in _COMMENT_WORDS or word.startswith(_COMMENT_STARTS):
        return COMMENT
    return 0
