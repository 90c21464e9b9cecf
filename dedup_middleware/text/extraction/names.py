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
    ad ads adv gg banner banners dfp nav subnav navbar navigation menu submenu toolbar topbar tool
    tools crumb crumbs pager rail foot share shares sharing shared social follow tag tags keywords
    author authors byline meta timestamp hot rank ranking vote votes rating slide slides slider
    caption icon icons btn button buttons modal popup overlay tooltip login signup player editor
    disclaimer statement teaser teasers trending noprint hidden hide viewport promo promos widget
    copyright qrcode weixin weibo
    """.split()
)
_FURNITURE_PARTS = (
    "advert sponsor outbrain taboola criteo breadcrumb paginat masthead sidebar side-bar footer "
    "newsletter subscri cookie consent addthis bdshare related recommend popular "
    "most-read mostread more-on more-from more-stories more-news read-next read-more next-post "
    "suggest also-like tuijian xiangguan taglist tag-list lightbox screen-reader visually "
    "carousel gallery attachment userinfo user-info profile post-date pubdate publish-date "
    "source-info syndication sharebar sharebox toolbox hotnews navbox"
).split()
_COMMENT_PARTS = ("disqus", "livefyre", "pinglun", "guestbook", "respond")
_COMMENT_WORDS = frozenset(
    {"comment", "comments", "reply", "replies", "commentlist", "commentlists"}
)
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
    words = {word.lower() for word in _WORD.findall(name)}
    lowered = name.lower()
    flags = 0
    if _BODY.search(lowered) is not None:
        flags = BODY_NAME
    if not _COMMENT_WORDS.isdisjoint(words) or any(part in lowered for part in _COMMENT_PARTS):
        flags |= COMMENT
    if (not _FURNITURE_WORDS.isdisjoint(words) and "elementor" not in words) or any(
        part in lowered for part in _FURNITURE_PARTS
    ):
        flags |= FURNITURE
    return flags
