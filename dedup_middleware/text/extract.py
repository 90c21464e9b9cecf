"""From a page to its title and body.

The body is what fingerprints are made of, so it must not depend on the page around it: a toolbar
taken for a body makes all pages of a site alike, a related-links list taken along makes two
reprints differ. Our own rules read the page in one pass; where they are unsure they ask
trafilatura. `docs/decisions.md` has the measured F1 and time of both ways.
"""

import re
from typing import Literal

import attrs

from dedup_middleware.text.decode import decode
from dedup_middleware.text.extraction import blocks, metadata, quick, source
from dedup_middleware.text.extraction.bodies import thorough_body
from dedup_middleware.text.extraction.cleanup import tidy, vetted

Mode = Literal["balanced", "fast", "best"]
MODES: tuple[Mode, ...] = ("balanced", "fast", "best")

_LETTER = re.compile(r"\w")


@attrs.frozen
class Page:
    """Title and body of a page.

    ``text`` has one paragraph a line and is empty when the page has no body. ``charset`` is the
    Python codec of the bytes (empty for ``str`` input); ``extractor`` names what found the body.
    """

    title: str
    text: str
    charset: str = ""
    extractor: str = ""
    language: str = ""


def extract(
    html: bytes | str,
    *,
    charset: str | None = None,
    url: str | None = None,
    extractor: Mode = "balanced",
) -> Page:
    """Find title and body of a page in HTML, XHTML, XML or plain text.

    ``extractor`` is how to go about doubtful pages, about one article in fifteen and one forum page
    in four: ``fast`` leaves them to our own rules, ``balanced`` asks trafilatura, ``best`` lets it
    compare its answer with those of its slower algorithms. ``charset`` is the one of the
    Content-Type header; it may be missing or wrong. ``url`` is for extractors that
    look at it. No input raises: a page without a body has the text ``""``. Input longer than
    `source.MAX_SIZE` is cut there, not refused.

    Raises `ValueError` for an unknown ``extractor``.
    """
    if extractor not in MODES:
        raise ValueError(f"extractor={extractor!r} is unknown; use one of {', '.join(MODES)}")
    codec = ""
    if isinstance(html, bytes):
        decoded = decode(html[: source.MAX_SIZE], charset)
        html, codec = decoded.text, decoded.charset
    html = source.clean(html)
    if source.is_binary(html):
        return Page("", "", codec, "none")
    if not source.is_markup(html):
        return _page(html, "", codec, "plain", "")
    page = blocks.read(html)
    title = metadata.title(html, page)
    text, used = _body(html, page, title, extractor, url)
    return _page(text, title, codec, used, metadata.language(html))


def _page(text: str, title: str, charset: str, extractor: str, language: str) -> Page:
    """The page with its body tidied up."""
    text = tidy(text, title)
    if not _LETTER.search(text):
        text, extractor = "", "none"
    return Page(title, text, charset, extractor, language)


def _body(
    html: str, page: blocks.Blocks, title: str, mode: Mode, url: str | None
) -> tuple[str, str]:
    """Raw body of a page and the name of what found it."""
    found = quick.find_body(page, title=title, thread=metadata.is_thread(html, page))
    if found.sure or mode == "fast" or not source.survey(html).is_ordinary:
        return found.text, "quick"
    text = thorough_body(html, url=url, comments=found.discussion, fast=mode != "best")
    text = vetted(text, page)
    return (text, "thorough") if text else (found.text, "quick")
