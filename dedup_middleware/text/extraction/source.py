"""Clean the markup of a page and look at its shape before any parser sees it.

Parsers and extractors have inputs that cost them the square of the page: attributes of one tag are
compared with each other, siblings and ancestors are walked again from every node. `survey` finds
those inputs in one linear pass, so that `extract` can choose a way whose time is bounded.
"""

import re

import attrs

# Bytes, or characters, of a page that are looked at; the rest is cut off.
MAX_SIZE = 4_000_000
# More tags than this get no extractor that may take their square.
MAX_TAGS = 20_000
# More tags, or more attributes in one tag, get no tree at all.
MAX_TREE_TAGS = 200_000
MAX_ATTRIBUTES = 1_000

_LONG_TAG = 4_096
# Quotes open after "=" only, as in the standard: a stray quote must not swallow the page. No part
# can fail once "<a" is seen, so the pattern never goes back.
_TAG = re.compile(r"""<[a-zA-Z](?:[^>=]+|=\s*(?:"[^"]*"|'[^']*')?){0,4000}""")
_ATTRIBUTE = re.compile(r"""[^\s=>"'/]+(?:\s*=\s*(?:"[^"]*"|'[^']*'|[^\s>"']+))?""")
_CONTROL = re.compile("[\x00-\x08\x0e-\x1a\x1c-\x1f\ufffd]")
_MARKUP = re.compile(r"<[a-zA-Z!?/]")
_CDATA = "<![CDATA["
_BINARY_SHARE = 0.1


@attrs.frozen
class Survey:
    """Shape of a page: its tags, and the attributes of its fullest tag when that is a long one."""

    tags: int
    attributes: int

    @property
    def is_ordinary(self) -> bool:
        """Whether any extractor is safe on the page."""
        return self.has_tree and self.tags <= MAX_TAGS

    @property
    def has_tree(self) -> bool:
        """Whether a parser and one walk over its tree are safe on the page."""
        return self.tags <= MAX_TREE_TAGS and self.attributes <= MAX_ATTRIBUTES


def clean(text: str) -> str:
    """Markup that every parser takes: cut to `MAX_SIZE`, no NUL, no lone surrogate."""
    return cleaned(text)[0]


def cleaned(text: str) -> tuple[str, bytes]:
    """The same and its UTF-8, which it takes to know."""
    text = text[:MAX_SIZE]
    try:
        data = text.encode("utf-8")
    except UnicodeEncodeError:
        # Pairs of surrogates are one character each; lone ones become U+FFFD.
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        data = text.encode("utf-8")
    if b"\x00" in data:
        text, data = text.replace("\x00", ""), data.replace(b"\x00", b"")
    if text[:64].lstrip().startswith("<?xml"):
        text = _with_cdata_escaped(text)
        data = text.encode("utf-8")
    return text, data


def _with_cdata_escaped(text: str) -> str:
    """XML without CDATA sections, which parsers of HTML take for comments."""
    first, *rest = text.split(_CDATA)
    parts = [first]
    for part in rest:
        inner, end, after = part.partition("]]>")
        parts.append(inner.replace("&", "&amp;").replace("<", "&lt;") + after if end else part)
    return "".join(parts)


def is_binary(text: str) -> bool:
    """Whether the text is no text: many control characters or undecodable bytes at its start."""
    head = text[:4096]
    return len(_CONTROL.findall(head)) > len(head) * _BINARY_SHARE


def is_markup(text: str) -> bool:
    """Whether the text holds any tag."""
    return _MARKUP.search(text) is not None


def survey(html: str) -> Survey:
    """Count tags, and attributes of long ones, in time linear in the page."""
    attributes = 0
    for tag in _TAG.findall(html):
        if len(tag) > _LONG_TAG:
            attributes = max(attributes, len(_ATTRIBUTE.findall(tag)))
    return Survey(html.count("<"), attributes)
