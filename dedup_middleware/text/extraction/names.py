"""What the class and the id of an element say about its part on the page.

Authors of templates name the same things alike everywhere. The vocabulary overlaps with that of
readability and trafilatura; it is matched by words and substrings, which costs a tenth of one
regular expression of all alternatives.
"""

import re
from functools import lru_cache

# Flags of a container; FURNITURE and COMMENT are inherited by what is inside.
FURNITURE = 1
COMMENT = 2
BODY_NAME = 4
ARTICLE = 8

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


@lru_cache(maxsize=4096)
def flags_of(name: str) -> int:
    """Flags for a class and an id, joined by a space."""
    name = name[:_LONGEST]
    words = [word.lower() for word in _WORD.findall(name)]
    lowered = name.lower()
    flags = 0 if _BODY.search(lowered) is None else BODY_NAME
    for word in words:
        if word in _FURNITURE_WORDS or word.startswith(_FURNITURE_STARTS):
            flags |= FURNITURE
        elif word in _COMMENT_WORDS or word.startswith(_COMMENT_STARTS):
            flags |= COMMENT
    if not flags & FURNITURE and _PAIRS.search(lowered) is not None:
        flags |= FURNITURE
    # Page builders call every box of a page a widget.
    return flags & ~FURNITURE if "elementor" in words else flags
