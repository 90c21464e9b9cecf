"""Clean the markup of a page and look at its shape before any parser sees it.

Parsers and extractors have inputs that cost them the square of the page: attributes of one tag are
compared with each other, paths up a deep tree are walked from every node. `survey` finds those
inputs in one linear pass, so that `extract` can choose a way whose time is bounded.
"""

import re

import attrs

# Bytes, or characters, of a page that are looked at; the rest is cut off.
MAX_SIZE = 4_000_000
# Shapes beyond these get no extractor that may take the square of them.
MAX_DEPTH = 250
MAX_TAGS = 40_000
MAX_LENGTH = 3_000_000
# Shapes beyond these get no tree at all.
MAX_TREE_DEPTH = 1_500
MAX_TREE_TAGS = 400_000
MAX_ATTRIBUTES = 1_000

# Below this many tags the depth is bounded by the count, and measuring it costs more than it saves.
_FEW_TAGS = MAX_DEPTH * 4
_LONG_TAG = 4_096
# Quotes open after "=" only, as in the standard: a stray quote must not swallow the page. No part
# can fail once "<a" is seen, so the pattern never goes back.
_TAG = re.compile(r"""<[a-zA-Z](?:[^>=]+|=\s*(?:"[^"]*"|'[^']*')?){0,2000}""")
_NAME = re.compile(r"<(/?)([a-zA-Z][a-zA-Z0-9]*)")
_ATTRIBUTE = re.compile(r"""[^\s=>"'/]+(?:\s*=\s*(?:"[^"]*"|'[^']*'|[^\s>"']+))?""")
# Void elements, and those whose end tag authors leave out.
_VOID = frozenset(
    ("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source")
    + ("track", "wbr", "p", "li", "dt", "dd", "td", "tr", "th", "option")
)
_CONTROL = re.compile("[\x00-\x08\x0e-\x1a\x1c-\x1f\ufffd]")
_MARKUP = re.compile(r"<[a-zA-Z!?/]")
_CDATA = re.compile(r"<!\[CDATA\[(.*?)\]\]>", re.DOTALL)
_BINARY_SHARE = 0.1


@attrs.frozen
class Survey:
    """Shape of a page: number of tags, bound on the depth, attributes of the fullest tag."""

    length: int
    tags: int
    depth: int
    attributes: int

    @property
    def is_ordinary(self) -> bool:
        """Whether any extractor is safe on the page."""
        return (
            self.depth <= MAX_DEPTH
            and self.tags <= MAX_TAGS
            and self.length <= MAX_LENGTH
            and self.has_tree
        )

    @property
    def has_tree(self) -> bool:
        """Whether a parser and one walk over its tree are safe on the page."""
        return (
            self.depth <= MAX_TREE_DEPTH
            and self.tags <= MAX_TREE_TAGS
            and self.attributes <= MAX_ATTRIBUTES
        )


def clean(text: str) -> str:
    """Markup that every parser takes: cut to `MAX_SIZE`, no NUL, no lone surrogate."""
    text = text[:MAX_SIZE]
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        # Pairs of surrogates are one character each; lone ones become U+FFFD.
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    text = text.replace("\x00", "")
    if "<![CDATA[" in text and text.lstrip()[:5] == "<?xml":
        text = _CDATA.sub(lambda found: found[1].replace("&", "&amp;").replace("<", "&lt;"), text)
    return text


def is_binary(text: str) -> bool:
    """Whether the text is no text: many control characters or undecodable bytes at its start."""
    head = text[:4096]
    return len(_CONTROL.findall(head)) > len(head) * _BINARY_SHARE


def is_markup(text: str) -> bool:
    """Whether the text holds any tag."""
    return _MARKUP.search(text) is not None


def survey(html: str) -> Survey:
    """Count tags, depth and attributes in time linear in the page."""
    tags = html.count("<")
    attributes = 0
    for tag in _TAG.finditer(html):
        if tag.end() - tag.start() > _LONG_TAG:
            attributes = max(attributes, len(_ATTRIBUTE.findall(tag[0])))
    depth = _depth(html) if tags > _FEW_TAGS else min(tags, MAX_DEPTH)
    return Survey(len(html), tags, depth, attributes)


def _depth(html: str) -> int:
    """Bound on the depth: opened less closed elements, at the worst point of the page."""
    depth = deepest = 0
    for closing, name in _NAME.findall(html):
        if name.lower() in _VOID:
            continue
        if closing:
            depth = max(0, depth - 1)
        else:
            depth += 1
            deepest = max(deepest, depth)
    return deepest
