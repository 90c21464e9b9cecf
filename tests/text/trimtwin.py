"""The plain twin of `trim.trimmed`: regular expressions and lists in place of a state machine."""

import re
from collections import Counter
from typing import NamedTuple

from dedup_middleware.text.extraction import markup, trim

FORMATTING = frozenset("b big code em font i nobr s small span strike strong tt u".split())
VOIDS = frozenset(
    "area base basefont bgsound col frame input keygen link param source track wbr".split()
)
BREAKOUTS = frozenset("br embed hr img meta".split())
BOXED = frozenset({*markup.BOXES, "p"})
KNOWN = BOXED | {*markup.TAGS, "option", "optgroup", "svg", "math", "plaintext"}

_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
SPACE = " \t\n\r\f"
TEXT = re.compile(r"(?:[^<]|<(?![a-zA-Z/!?]))+")
COMMENT = re.compile(r"<!--(?:-?>|.*?(?:--!?>))", re.DOTALL)
BOGUS = re.compile(r"<(?:[!?]|/(?![a-zA-Z]))[^>]*>")
OPENING = re.compile(r"<(/?)([a-zA-Z][^ \t\n\r\f/>]*)")
ATTRIBUTE = re.compile(
    r"""[^ \t\n\r\f/>][^ \t\n\r\f/>=]*"""
    r"""(?:[ \t\n\r\f]*=[ \t\n\r\f]*("[^"]*"|'[^']*'|(?!["' \t\n\r\f])[^ \t\n\r\f>]*))?"""
)


class Trimmed(NamedTuple):
    """What is left of a page, and what was counted on the way."""

    verdict: int
    page: str = ""
    attributes: tuple[str, ...] = ()
    title: tuple[int, int] = (0, 0)
    body: tuple[int, int] = (0, 0)
    tags: int = 0
    options: int = 0
    work: int = 0
    deepest: int = 0


class _EndlessError(Exception):
    """A tag, a comment or a raw element has no end."""


def _attributes(html: str, position: int) -> tuple[bool, int]:
    """Whether a slash ends the tag whose attributes begin here, and the place of its ">"."""
    while True:
        start = position
        while position < len(html) and html[position] in SPACE + "/":
            position += 1
        if position == len(html):
            raise _EndlessError
        if html[position] == ">":
            return position > start and html[position - 1] == "/", position
        match = ATTRIBUTE.match(html, position)
        assert match is not None
        position = match.end()
        if match[1] is None and re.match(r"[ \t\n\r\f]*=", html[position:]):
            raise _EndlessError  # a quote that is never closed
        if match[1] == "" and position == len(html):
            raise _EndlessError


def _script_end(html: str, position: int) -> int:
    """Where the end tag of a script begins, by the states of the standard's tokeniser."""
    step = re.compile(r"<!--|-->|<(/?)script(?=[ \t\n\r\f/>])", re.IGNORECASE)
    commented, inner = False, False
    while (match := step.search(html, position)) is not None:
        position = match.end()
        if match[0] == "<!--":
            # The hyphens may be those of "-->" too.
            commented, position = True, match.start() + 2
        elif match[0] == "-->":
            commented, inner = False, False
        elif match[1] and not inner:
            return match.start()
        elif commented:
            inner = not match[1]
    raise _EndlessError


def _raw_end(html: str, position: int, name: str) -> int:
    if name == "script":
        return _script_end(html, position)
    match = re.compile(rf"</{name}(?=[ \t\n\r\f/>])", re.IGNORECASE).search(html, position)
    if match is None:
        raise _EndlessError
    return match.start()


def trimmed(html: str) -> Trimmed:
    """The same as `trim.trimmed`; places are of characters, and no count is too high."""
    try:
        return _trimmed(html)
    except _EndlessError:
        return Trimmed(trim.ENDLESS)


def _trimmed(html: str) -> Trimmed:  # noqa: PLR0912 - one state machine
    out = ""
    title = body = (0, 0)
    opened: list[str] = []
    named: list[str] = []
    formats = Counter[str]()
    tags = options = work = deepest = position = 0
    while position < len(html):
        if (match := TEXT.match(html, position)) is not None:
            for char in match[0]:
                if char not in SPACE or out[-1:] not in tuple(SPACE):
                    out += "&lt;" if char == "<" else char
            position = match.end()
            continue
        if html.startswith("</>", position):
            position += 3
            continue
        if (opening := OPENING.match(html, position)) is None:
            is_comment = html.startswith("<!--", position)
            if (match := (COMMENT if is_comment else BOGUS).match(html, position)) is None:
                raise _EndlessError
            is_doctype = html[position : position + 3].lower() == "<!d"
            if is_doctype and not out.strip(SPACE) and len(match[0]) <= 1_000:
                out += match[0]
            position = match.end()
            continue
        written = opening[2]
        name = written.translate(_LOWER)
        if name == "plaintext":
            return Trimmed(trim.TOO_MUCH)
        is_orphan = name in FORMATTING and opening[1] and not formats[name]
        if name in FORMATTING:
            formats[name] += 0 if is_orphan else -1 if opening[1] else 1
            name = written = "span"
        closed, last = _attributes(html, opening.end())
        position = last + 1
        tags += 1
        work += len(opened)
        if is_orphan:
            continue
        if opening[1]:
            out += f"</{written}>"
            if opened and opened[-1] == name:
                opened.pop()
            continue
        out += f"<{written}"
        is_more = name == "body" and body[1] > 0
        if name == "body" and not body[1]:
            body = (opening.end(), last)
        if name in BOXED and last - opening.end() > markup.LEAST_ATTRIBUTES and not is_more:
            one, two, three, four = (len(named) // 26**digit % 26 for digit in (3, 2, 1, 0))
            out += f" y{chr(97 + one)}{chr(97 + two)} z{chr(97 + three)}{chr(97 + four)}"
            named.append(html[opening.end() : last])
        out += ">"
        foreign = "svg" in opened or "math" in opened
        if name in markup.RAW and not (foreign and closed):
            end = _raw_end(html, position, name)
            if name == "title" and not title[1] and not foreign:
                title = (position, end)
            position = end
            continue
        options += name in ("option", "optgroup")
        if name in BREAKOUTS or (name in VOIDS and not foreign):
            continue
        loose = foreign or name in ("svg", "math") or name not in KNOWN | VOIDS
        if closed and loose and name != "span":
            out += f"</{written}>"
            tags += 1
        else:
            opened.append(name)
            deepest = max(deepest, len(opened))
    return Trimmed(trim.FINE, out, tuple(named), title, body, tags, options, work, deepest)
