"""Extracts title, body text and description from HTML.

Fingerprints are made of the body, so it must not depend on the page around it: a toolbar taken for
a body makes all pages of a site alike, and a list of related links makes two reprints differ. The
package's own rules read the tree that a parser makes of the page; trafilatura decides where they
are unsure, and the page's own JSON-LD where they find nothing. `docs/decisions.md` has the measured
F1 and time of these ways.

On some pages trafilatura's time is quadratic: it compares the attributes of a tag with each other,
and walks siblings and ancestors again from every node. `is_ordinary` finds such pages in one linear
pass; they are left to the package's own rules, whose time is bounded.
"""

from __future__ import annotations

import hashlib
import logging
import re
import threading
from html import unescape
from typing import Final, Literal

import attrs

from dedup_middleware.text.decode import decode
from dedup_middleware.text.extraction import blocks, metadata, quick
from dedup_middleware.text.extraction.cleanup import is_prose, tidy, vetted
from dedup_middleware.text.extraction.metadata import article_body

# Characters of a page that are read; the rest is only compared as a whole (`Page.rest`).
MAX_SIZE = 4_000_000
# Embedded pictures and fonts, which are left out of a page that is longer.
_EMBEDDED = re.compile(r"(\bdata:[\w.+/;=-]{0,100},)[^\s\"'<>()\\\x80-\U0010ffff]{1000,}")
# With more tags, or more attributes in one tag, no extractor is used whose time may be quadratic.
MAX_TAGS = 20_000
MAX_ATTRIBUTES = 1_000

_LONG_TAG = 4_096
# Quotes open after "=" only, as in the standard: a stray quote must not swallow the page. No part
# can fail once "<a" has matched, so the pattern never backtracks.
_START_TAG = re.compile(r"""<[a-zA-Z](?:[^>=]+|=\s*(?:"[^"]*"|'[^']*')?){0,4000}""")
_ANY_ATTRIBUTE = re.compile(r"""[^\s=>"'/]+(?:\s*=\s*(?:"[^"]*"|'[^']*'|[^\s>"']+))?""")
_CONTROL = re.compile("[\x00-\x08\x0e-\x1a\x1c-\x1f\ufffd]")
_MARKUP = re.compile(r"<[a-zA-Z!?/]")
_CDATA = "<![CDATA["
_BINARY_SHARE = 0.1


def clean(text: str) -> str:
    """Make markup that every parser accepts: cut to `MAX_SIZE`, no NULs or lone surrogates."""
    return cleaned(text)[0]


def cleaned(text: str) -> tuple[str, bytes]:
    """The result of :func:`clean`, and its UTF-8 bytes."""
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
    """Escape the CDATA sections of XML, which HTML parsers would take for comments."""
    first, *rest = text.split(_CDATA)
    parts = [first]
    for part in rest:
        inner, end, after = part.partition("]]>")
        parts.append(inner.replace("&", "&amp;").replace("<", "&lt;") + after if end else part)
    return "".join(parts)


def is_binary(text: str) -> bool:
    """Whether a text begins with many control characters or undecodable bytes."""
    head = text[:4096]
    return len(_CONTROL.findall(head)) > len(head) * _BINARY_SHARE


def is_markup(text: str) -> bool:
    """Whether a text has any tag."""
    return _MARKUP.search(text) is not None


def is_ordinary(html: str, most_tags: int = MAX_TAGS) -> bool:
    """Whether any extractor is safe on a page, by its tags and the attributes of long ones."""
    return html.count("<") <= most_tags and not any(
        len(_ANY_ATTRIBUTE.findall(tag)) > MAX_ATTRIBUTES
        for tag in _START_TAG.findall(html)
        if len(tag) > _LONG_TAG
    )


HEAD: Final = 1 << 16  # first bytes or characters of a page, which are searched for metadata
# A tag ends at the next "<" at the latest, so the search takes time linear in the page.
_META: Final = re.compile(r"<meta\b([^<>]{0,4096})>", re.I)
_ATTRIBUTE: Final = re.compile(r"""([a-z:-]+)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""", re.I)


def meta_description(page: bytes | str, charset: str | None = None) -> str:
    """Content of ``<meta name="description">`` in HTML, empty if there is none; never raises.

    :param charset: of the Content-Type header, if known

    >>> meta_description('<meta content="A &amp; B" name="Description">')
    'A & B'
    """
    head = page[:HEAD]
    text = decode(head, charset).text if isinstance(head, bytes) else head
    for tag in _META.finditer(text):
        found = {
            name.lower(): double or single or bare
            for name, double, single, bare in _ATTRIBUTE.findall(tag[1])
        }
        if found.get("name", "").lower() == "description" and "content" in found:
            return " ".join(unescape(found["content"]).split())
    return ""


Mode = Literal["balanced", "fast", "best"]
MODES: tuple[Mode, ...] = ("balanced", "fast", "best")

logger = logging.getLogger(__name__)
_trafilatura_log = logging.getLogger("trafilatura")
_LETTER = re.compile(r"\w")
_SAMPLE = (
    "<!doctype html><html><head><title>Title</title></head><body><!-- note --><article>"
    + "<p>A paragraph of some words &amp; a <a href='/1'>link</a>, which ends here.</p>" * 20
    + "</article><script>0</script></body></html>"
)


@attrs.frozen
class Page:
    """Title and body of a page.

    ``text`` has one paragraph a line and is empty if the page has no body. ``charset`` is the
    Python codec of the bytes (empty for ``str`` input); ``extractor`` names the extractor that
    found the body. ``rest`` is a digest of the unread part of a page that is too long, else "".
    """

    title: str
    text: str
    charset: str = ""
    extractor: str = ""
    rest: str = ""


def extract(
    html: bytes | str,
    *,
    charset: str | None = None,
    url: str | None = None,
    extractor: Mode = "balanced",
) -> Page:
    """Find title and body of a page in HTML, XHTML, XML or plain text.

    No input raises: a page without a body has the text ``""``. Input beyond `MAX_SIZE` is not read.

    :param charset: the one of the Content-Type header; it may be missing or wrong
    :param url: address of the page, for trafilatura
    :param extractor: treatment of doubtful pages, about one article in fifteen and one forum page
        in four: ``fast`` uses only the package's own rules, ``balanced`` adds trafilatura, ``best``
        lets it compare its result with those of its slower algorithms
    :raises ValueError: ``extractor`` is unknown
    """
    if extractor not in MODES:
        raise ValueError(f"extractor={extractor!r} is unknown; use one of {', '.join(MODES)}")
    codec = ""
    if isinstance(html, bytes):
        decoded = decode(html, charset)
        html, codec = decoded.text, decoded.charset
    if len(html) > MAX_SIZE:
        html = _EMBEDDED.sub(r"\1", html)
    page = _read(html, codec, url, extractor)
    rest = (page.rest + html[MAX_SIZE:]).encode("utf-8", "surrogatepass")
    return attrs.evolve(page, rest=hashlib.sha256(rest).hexdigest()) if rest else page


def _read(html: str, codec: str, url: str | None, extractor: Mode) -> Page:
    html, data = cleaned(html)
    if is_binary(html):
        return Page("", "", codec, "none")
    if not is_markup(html):
        return _page(html, "", codec, "plain")
    page = quick.without_consent(blocks.read(data))
    title = metadata.title(html, page)
    found = quick.find_body(page, title=title, thread=metadata.is_thread(data, page))
    text, used = found.text, "quick"
    if not text and (stated := _stated(html)):
        text, used = stated, "json-ld"
    elif not found.sure and extractor != "fast" and is_ordinary(html):
        body = thorough_body(html, url=url, comments=found.discussion, fast=extractor != "best")
        if body := vetted(body, page):
            text, used = body, "thorough"
    rest = html if page.is_cut else ""
    return _page(text, title, codec, used, rest)


def warm() -> None:
    """Compile the kernels that :func:`extract` calls, or load them from the cache."""
    extract(_SAMPLE, extractor="fast")  # trafilatura would take .3 s, and has no kernels


_warned: set[str] = set()
_warning = threading.Lock()  # pages are read in several threads


def _warn_once(why: str) -> None:
    with _warning:
        if why in _warned:
            return
        _warned.add(why)
    logger.warning(
        "trafilatura can't be imported, so that pages in doubt get no second opinion: %s", why
    )


#: one page at a time for trafilatura: several threads crashed crawls by a segmentation fault (lxml
#: 6.1.3), and it holds the interpreter lock most of the time anyway
_reading = threading.Lock()


def thorough_body(html: str, *, url: str | None, comments: bool, fast: bool = True) -> str:
    """The body that trafilatura finds; empty if it finds none or fails.

    Only for pages of ordinary shape: its time is not bounded otherwise. ``deduplicate`` stays off,
    as it would keep text from page to page. ``fast`` leaves out its slower algorithms.
    """
    with _reading:
        try:
            import trafilatura  # here, not above: it takes 0.3 s
        except ImportError as error:
            _warn_once(str(error))
            return ""
        if _trafilatura_log.level == logging.NOTSET:
            # It logs every page without a body as an error; set the level to see them.
            _trafilatura_log.setLevel(logging.CRITICAL)
        try:
            text: str | None = trafilatura.extract(
                html, url=url, fast=fast, include_comments=comments, deduplicate=False
            )
        except Exception:  # no page may stop a crawl
            return ""
        return text or ""


def _stated(html: str) -> str:
    """The body that a page states in JSON-LD, if it is prose; some sites put markup there."""
    body = clean(article_body(html))
    if is_markup(body):
        lines = [block.text for block in blocks.read(body).blocks]
    else:
        lines = [" ".join(line.split()) for line in unescape(body).splitlines() if line.strip()]
    return "\n".join(lines) if is_prose(lines) else ""


def _page(text: str, title: str, charset: str, extractor: str, rest: str = "") -> Page:
    text = tidy(text, title)
    if not _LETTER.search(text):
        text, extractor = "", "none"
    return Page(title, text, charset, extractor, rest)
