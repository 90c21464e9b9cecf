"""Take from a body what depends on the page around it."""

import re

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


def _key(line: str) -> str:
    """Letters and digits of a line."""
    return _NOT_WORD.sub("", line).casefold()
