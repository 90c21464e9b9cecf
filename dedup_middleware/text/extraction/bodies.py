"""The slow extractor and the one for pages without a tree: markup in, raw body out."""

import logging
import re

_BLOCK = re.compile(
    r"<(?=/?(?:p|div|br|li|tr|td|h[1-6]|section|article|blockquote|table|ul|ol)\b)", re.IGNORECASE
)
_TAG = re.compile(r"<[a-zA-Z/!?][^<>]*>?")
# A line of a page without a tree counts as body from this length on: navigation is shorter.
_FLAT_LINE = 40

_log = logging.getLogger("trafilatura")


def thorough_body(html: str, *, url: str | None, comments: bool, full: bool) -> str:
    """Body by trafilatura, empty when it finds none or fails.

    ``full`` lets it try readability and justext too. Only for pages whose shape is ordinary: the
    time is not bounded otherwise. Nothing is kept from page to page: ``deduplicate`` stays off.
    """
    import trafilatura  # here, not above: it takes 0.3 s

    if _log.level == logging.NOTSET:
        # It reports every page without a body as an error; whoever wants that sets the level.
        _log.setLevel(logging.CRITICAL)
    try:
        text: str | None = trafilatura.extract(
            html, url=url, fast=not full, include_comments=comments, deduplicate=False
        )
    except Exception:  # any fault of the library on one page must not stop a crawl
        return ""
    return text or ""


def flat_body(visible: str) -> str:
    """Long lines of the page, found without a tree, in time linear in the page."""
    lines = _TAG.sub("", _BLOCK.sub("\n<", visible)).split("\n")
    return "\n".join(line for line in map(str.strip, lines) if len(line) >= _FLAT_LINE)
