"""What the class and the id of an element say about its part on the page.

Authors of templates name the same things alike everywhere. The vocabulary overlaps with that of
readability and trafilatura; it is matched by words and substrings, which costs a tenth of one
regular expression of all alternatives.
"""

import re
from functools import lru_cache

# Flags of a container. What is inside furniture or comments belongs to them too. FURNITURE is named
# so by its author, FIXED says so by its tag, its role or by being hidden.
FURNITURE = 1
COMMENT = 2
BODY_NAME = 4
ARTICLE = 8
FIXED = 16

_LONGEST = 300
_WORD = re.compile(r"[a-z]+|[A-Z][a-z]*")
_FURNITURE_WORDS = frozenset(
    """
    ad ads adv gg banner banners dfp nav subnav menu submenu tool tools pager rail foot share shares
    sharing shared follow tag tags keywords author authors byline meta timestamp hot rank ranking
    vote votes rating slide slides slider caption icon icons btn button buttons modal popup overlay
    tooltip login signup player editor disclaimer statement trending noprint hidden hide viewport
    promo promos widget copyright weixin weibo visually userinfo pubdate taglist tuijian xiangguan
    """.split()
)
# Beginnings of words, for their plurals and for compounds written as one.
_FURNITURE_STARTS = (
    *("advert", "sponsor", "outbrain", "taboola", "criteo", "breadcrumb", "crumb", "paginat"),
    *("masthead", "sidebar", "footer", "newsletter", "subscri", "cookie", "consent", "addthis"),
    *("bdshare", "related", "recommend", "popular", "suggest", "lightbox", "carousel", "gallery"),
    *("attachment", "profile", "syndication", "sharebar", "sharebox", "toolba", "toolbo", "topbar"),
    *("navi", "navb", "hotnews", "hotlist", "teaser", "social", "qrcode"),
)
_PAIRS = re.compile(
    r"(?:most|next|also|read|more|side|tag|source|user|screen|post|publish|pub)[-_]"
    r"(?:read|viewed|on|from|stories|news|next|more|post|like|bar|list|info|reader|date|time)\b"
)
_COMMENT_WORDS = frozenset({"comment", "reply", "replies"})
_COMMENT_STARTS = ("comments", "commentl", "disqus", "livefyre", "pinglun", "guestbook", "respond")
_BODY = re.compile(
    r"(?:article|art|post|entry|story|news|text|detail|blog|page|content)[-_]{0,2}"
    r"(?:body|content|text|entry|detail|con|main)\b"
    r"|body-?(?:text|copy)|content-?main|main-?text"
    r"|fulltext|field--?(?:name-)?body|wpb_text_column|article__container|single-(?:post|content)"
    r"|trs_editor|rich_media_content|post_inner|endtext|artibody"
)
_BODY_PART = re.compile("con|body|text|main|entry|detail|single-|editor|_inner")


@lru_cache(maxsize=4096)
def flags_of(name: str) -> int:
    """Flags for the value of a class or an id."""
    name = name[:_LONGEST]
    words = _WORD.findall(name)
    flags = 0
    for word in words:
        flags |= _word_flags(word)
    lowered = name.lower()
    # A pattern is searched only where a part that it can't do without is found.
    if _BODY_PART.search(lowered) is not None and _BODY.search(lowered) is not None:
        flags |= BODY_NAME
    if ("-" in lowered or "_" in lowered) and not flags & FURNITURE:
        flags |= FURNITURE if _PAIRS.search(lowered) is not None else 0
    # Page builders call every box of a page a widget.
    return flags & ~FURNITURE if flags and "elementor" in lowered else flags


@lru_cache(maxsize=8192)
def _word_flags(word: str) -> int:
    """Flags for one word of a name."""
    word = word.lower()
    if word in _FURNITURE_WORDS or word.startswith(_FURNITURE_STARTS):
        return FURNITURE
    if word in _COMMENT_WORDS or word.startswith(_COMMENT_STARTS):
        return COMMENT
    return 0
