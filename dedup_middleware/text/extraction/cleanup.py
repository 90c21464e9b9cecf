"""Take from a body what depends on the page around it."""

import re

from dedup_middleware.text.extraction.blocks import Blocks

_SPACE = re.compile(r"[^\S\n]+")
_NOT_WORD = re.compile(r"\W+")


def tidy(text: str, title: str) -> str:
    """Body with one paragraph a line, without empty lines and without the headline at its start."""
    lines = [_SPACE.sub(" ", line).strip() for line in text.split("\n")]
    lines = [line for line in lines if line]
    headline = _key(title)
    start = 0
    while headline and start < min(3, len(lines)) and _key(lines[start]) == headline:
        start += 1
    return "\n".join(lines[start:])


def without_links(text: str, page: Blocks) -> str:
    """The body of another extractor without the lines that are nothing but links on the page.

    Extractors that find little take the text of the whole page, its menus first.
    """
    links = {_key(block.text) for block in page.blocks if block.link > 0.8}
    return "\n".join(line for line in text.split("\n") if _key(line) not in links)


def _key(line: str) -> str:
    """Letters and digits of a line."""
    return _NOT_WORD.sub("", line).casefold()
