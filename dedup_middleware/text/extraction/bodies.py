"""The extractors behind `extract`: markup in, raw body out, one paragraph a line, never raising."""

import logging
import re
from configparser import ConfigParser
from functools import cache

from resiliparse.extract.html2text import extract_plain_text

_HIDDEN = re.compile(r"<!--|<(script|style|noscript|template|svg)\b", re.IGNORECASE)
_BLOCK = re.compile(
    r"</?(?:p|div|br|li|tr|td|h[1-6]|section|article|blockquote|table|ul|ol)\b", re.IGNORECASE
)
_TAG = re.compile(r"<[a-zA-Z/!?][^<>]*>?")
# A line of a page without a tree counts as body from this length on: navigation is shorter.
_FLAT_LINE = 40

logging.getLogger("trafilatura").addHandler(logging.NullHandler())


def thorough_body(html: str, url: str | None) -> str:
    """Body by trafilatura in its fast mode without comments, resiliparse where it finds nothing.

    Only for pages whose shape is ordinary: the time is not bounded otherwise.
    """
    import trafilatura  # heavy: 0.3 s

    try:
        text: str | None = trafilatura.extract(
            html, url=url, fast=True, include_comments=False, deduplicate=False, config=_config()
        )
    except Exception:
        # Any fault of the library on one page must not stop a crawl.
        text = None
    return text or quick_body(html)


def quick_body(html: str) -> str:
    """Body by resiliparse."""
    return str(extract_plain_text(html, main_content=True, alt_texts=False, list_bullets=False))


def flat_body(html: str) -> str:
    """Long lines of the page, found without a tree, in time linear in the page."""
    lines = _TAG.sub("", _BLOCK.sub("\n<p", _without_hidden(html))).split("\n")
    return "\n".join(line for line in map(str.strip, lines) if len(line) >= _FLAT_LINE)


def _without_hidden(html: str) -> str:
    """The page without comments, scripts and styles."""
    kept, position = [], 0
    while (found := _HIDDEN.search(html, position)) is not None:
        kept.append(html[position : found.start()])
        end = "-->" if found[1] is None else f"</{found[1]}"
        position = html.find(end, found.end())
        if position < 0:
            break
    else:
        kept.append(html[position:])
    return "".join(kept)


@cache
def _config() -> ConfigParser:
    """trafilatura's own defaults, untouched by its environment."""
    from trafilatura.settings import use_config

    config: ConfigParser = use_config()
    return config
