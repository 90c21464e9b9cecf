# ruff: noqa: PLR0911, PLR0912, PLR0915 - one state machine; parts would share a dozen variables
# ruff: noqa: PLR1714 - compiled comparisons; a set would be built at each of them
"""Remove what the parser does not need for the text of a page; refuse pages that cost too much.

Half of a page is scripts, styles, comments and attributes that are not read: they are left out.
What costs a parser more than its length is replaced or limited:

* Formatting (``<b>``, ``<font>``) is reopened in every paragraph until it is closed, so that 37 KB
  can become 2 GB. It is passed on as ``<span>``, which is not reopened.
* Lexbor keeps values of attributes and comments among the texts, and copies a text that goes on
  behind them, so that 430 KB can take 530 MB. Attributes are passed on as numbers in names.
* At each tag the parser walks the open elements, and at each option those of its menu: both are
  counted, and a page with too many of them is refused.

Every tag that the parser gets was counted here, whatever state the parser is in: content that is
raw in one place of a tree and markup in another is never passed on.
"""

import re
from typing import Any, Final

import numpy as np

from dedup_middleware.base.jit import kernel, subkernel
from dedup_middleware.base.kerneltypes import I32_2, I64_2, R8, U8, Tuple, int64
from dedup_middleware.text.extraction import markup
from dedup_middleware.text.extraction.markup import comment_end, find, is_space, name_at

# Limits: tags of a page and "<" in its text; open elements, at once and summed over its tags;
# options of its menus. On 863 real pages up to 9,186 tags, 325 open, 266,731 in all, 433 options.
MAX_TAGS: Final = 30_000
MAX_OPEN: Final = 4_000
MAX_WORK: Final = 4_000_000
MAX_OPTIONS: Final = 1_000
_MAX_DOCTYPE: Final = 1_000

# Verdicts: fine; too much of something; a comment, a tag or a script without an end.
FINE, TOO_MUCH, ENDLESS = 0, 1, 2

_BOXED, _KNOWN, _RAW, _VOID, _BREAKOUT, _FORMAT, _OPTION, _FOREIGN, _PLAINTEXT = range(1, 10)
_FORMATTING: Final = (
    *("b", "big", "code", "em", "font", "i", "nobr", "s", "small", "strike", "strong", "tt", "u"),
    "span",
)
# Void elements; the second group ends SVG and MathML, the first are open elements there.
_VOIDS: Final = (
    *("area", "base", "basefont", "bgsound", "col", "frame", "input", "keygen", "link", "param"),
    *("source", "track", "wbr"),
)
_BREAKOUTS: Final = ("br", "embed", "hr", "img", "meta")
_KINDS: Final = {
    **dict.fromkeys((*markup.BOXES, "p"), _BOXED),
    **dict.fromkeys(markup.RAW, _RAW),
    **dict.fromkeys(_VOIDS, _VOID),
    **dict.fromkeys(_BREAKOUTS, _BREAKOUT),
    **dict.fromkeys(_FORMATTING, _FORMAT),
    **dict.fromkeys(("option", "optgroup"), _OPTION),
    **dict.fromkeys(("svg", "math"), _FOREIGN),
    "plaintext": _PLAINTEXT,
}
_NAMES: Final = ("", *_KINDS, *(name for name in markup.TAGS[1:] if name not in _KINDS))
_KIND: Final = np.array([0, *(_KINDS.get(name, _KNOWN) for name in _NAMES[1:])], np.uint8)
_KEYS, _NUMBERS = markup.slots(_NAMES)
_SCRIPT, _TITLE, _BODY = (_NAMES.index(name) for name in ("script", "title", "body"))
_MARK: Final = np.frombuffer(b"&lt;", np.uint8)
_SPAN: Final = np.frombuffer(b"span", np.uint8)

# The attributes of a box are passed on as their number: two names of three letters, without values.
_LETTERS: Final = 26
_PAIRS: Final = _LETTERS * _LETTERS
# lexbor writes an attribute without a value in full only since resiliparse 2.
_REFERENCE: Final = re.compile(rb' y([a-z]{2})(?:="")? z([a-z]{2})(?:="")?')


@subkernel
def _is_name(data: Any, start: int, other: int, length: int) -> bool:
    """Whether the names at two positions are equal, ignoring case."""
    for place in range(length):
        one, two = data[start + place], data[other + place]
        if one != two and (one | 32 != two | 32 or not 97 <= one | 32 <= 122):
            return False
    return True


@subkernel
def _raw_end(data: Any, start: int, name: int, length: int, is_script: bool) -> int:
    """Position of the end tag of an element without markup inside, or the size of the page.

    A script may contain another one inside a comment, as the standard says ("script data escaped").
    """
    size: int = data.size
    position = start
    # Begin of the comment in a script, and whether the next end tag ends a script inside it.
    comment, inner = -1, False
    while True:
        found = find(data, position, 60)
        if comment >= 0:
            # A comment ends with "-->", whose hyphens may be those of its start.
            place = max(position, comment)
            closing = -1
            while place + 2 < size and place + 2 < found + 3:
                if data[place] == 45 and data[place + 1] == 45 and data[place + 2] == 62:
                    closing = place + 3
                    break
                place += 1
            if closing >= 0 and closing <= found:
                comment, inner, position = -1, False, closing
                continue
        if found + 2 + length >= size:
            return size
        position = found + 1
        if is_script and comment < 0 and data[position] == 33:
            if data[position + 1] == 45 and data[position + 2] == 45:
                comment = position + 1
                position = comment
            continue
        is_end = data[position] == 47
        behind = position + is_end + length
        if (is_end or comment >= 0) and _is_name(data, position + is_end, name, length):
            after = data[behind]
            if is_space(after) or after == 47 or after == 62:
                if is_end and not inner:
                    return found
                inner = not is_end


def reference(attributes: bytes) -> int:
    """The number that a parser has written in place of attributes; -1 if there is none.

    >>> reference(b' yaa="" zbc=""')
    28
    >>> reference(b" yaa zbc")
    28
    """
    number = -1
    if (written := _REFERENCE.fullmatch(attributes)) is not None:
        number = 0
        for letter in written[1] + written[2]:
            number = number * _LETTERS + letter - 97
    return number


@kernel(Tuple((int64, U8, I32_2, I64_2))(R8))
def trimmed(data: Any) -> Any:
    """Leave out what a parser does not need: ``data`` is a page, uint8[n] of UTF-8.

    Returns ``verdict`` (`FINE`, or why no parser may get the page), ``page`` uint8 (the rest of the
    page, empty if it is refused), ``attributes`` int32[a, 2] (begin and end of the attributes of
    boxes, by their number; see `reference`) and ``spans`` int64[2, 2], begin and end of the title
    and of the attributes of the body element.
    """
    size = data.size
    # The largest growth is that of "<", which becomes "&lt;".
    out = np.empty(size * 4 + 64, np.uint8)
    spans = np.zeros((2, 2), np.int64)
    attributes = np.empty((MAX_TAGS + 1, 2), np.int32)
    # Open elements: where their names start and end, and their kind; open formatting by its name.
    opened = np.empty((MAX_OPEN, 3), np.int32)
    formats = np.zeros(_KIND.size, np.int32)
    out[0] = 0
    nothing = out[:0]
    tags, options, work, depth, foreign = 0, 0, 0, 0, 0
    end, position, named = 0, 0, 0
    while position < size:
        byte = data[position]
        if byte != 60:
            position += 1
            if is_space(byte) and end and is_space(out[end - 1]):
                continue
            out[end] = byte
            end += 1
            continue
        following = data[position + 1] if position + 1 < size else np.uint8(32)
        is_end = following == 47
        start = position + 2 if is_end else position + 1
        first = data[start] | 32 if start < size else np.uint8(32)
        if first < 97 or first > 122:
            if not is_end and following != 33 and following != 63:
                # A "<" in the text: with the text behind a comment it might make a tag.
                for place in range(_MARK.size):
                    out[end] = _MARK[place]
                    end += 1
                tags += 1
                position += 1
                continue
            if is_end and start < size and data[start] == 62:
                position += 3
                continue
            is_comment = (
                following == 33
                and position + 3 < size
                and data[position + 2] == 45
                and data[position + 3] == 45
            )
            after = comment_end(data, position) if is_comment else find(data, start, 62) + 1
            if after < 0 or after > size:
                return ENDLESS, nothing, attributes, spans
            if (
                # Only white space may precede a declaration.
                end == is_space(out[0])
                and after - position <= _MAX_DOCTYPE
                and not is_comment
                and following == 33
                and data[position + 2] | 32 == 100
            ):
                for place in range(position, after):
                    out[end] = data[place]
                    end += 1
            position = after
            continue
        number, stop = name_at(data, start, _KEYS, _NUMBERS)
        kind = _KIND[number]
        if kind == _PLAINTEXT:
            return TOO_MUCH, nothing, attributes, spans
        is_orphan = kind == _FORMAT and is_end and not formats[number]
        if kind == _FORMAT and not is_orphan:
            formats[number] += -1 if is_end else 1
        tag = end
        out[end] = 60
        end += 1
        if is_end:
            out[end] = 47
            end += 1
        if kind == _FORMAT:
            for place in range(_SPAN.size):
                out[end] = _SPAN[place]
                end += 1
        else:
            for place in range(start, stop):
                out[end] = data[place]
                end += 1
        # The attributes.
        position = stop
        closed = False
        while True:
            closed = False
            while position < size and (is_space(data[position]) or data[position] == 47):
                closed = data[position] == 47
                position += 1
            if position >= size:
                return ENDLESS, nothing, attributes, spans
            if data[position] == 62:
                break
            position += 1
            while position < size:
                byte = data[position]
                if byte == 62 or byte == 47 or byte == 61 or is_space(byte):
                    break
                position += 1
            value = position
            while value < size and is_space(data[value]):
                value += 1
            if value < size and data[value] == 61:
                value += 1
                while value < size and is_space(data[value]):
                    value += 1
                if value >= size:
                    return ENDLESS, nothing, attributes, spans
                quote = data[value]
                if quote == 34 or quote == 39:
                    position = find(data, value + 1, quote) + 1
                    if position > size:
                        return ENDLESS, nothing, attributes, spans
                else:
                    position = value
                    while position < size and data[position] != 62:
                        if is_space(data[position]):
                            break
                        position += 1
        is_first = number == _BODY and not is_end and not spans[1, 1]
        if is_first:
            spans[1, 0], spans[1, 1] = stop, position
        is_named = kind == _BOXED and not is_end and (is_first or number != _BODY)
        if is_named and position - stop > markup.LEAST_ATTRIBUTES:
            attributes[named, 0], attributes[named, 1] = stop, position
            for part in range(2):
                digits = named // _PAIRS if part == 0 else named % _PAIRS
                out[end], out[end + 1] = 32, 121 + part
                out[end + 2] = 97 + digits // _LETTERS
                out[end + 3] = 97 + digits % _LETTERS
                end += 4
            named += 1
        out[end] = 62
        end += 1
        position += 1
        tags += 1
        work += depth
        if is_orphan:
            # It would end a span that replaces another element.
            end = tag
        elif is_end and depth and opened[depth - 1, 2] == kind:
            other = opened[depth - 1, 0]
            is_same = kind == _FORMAT or (
                opened[depth - 1, 1] - other == stop - start
                and _is_name(data, other, start, stop - start)
            )
            depth -= is_same
            foreign -= is_same and kind == _FOREIGN
        if not is_end and kind == _RAW and not (foreign and closed):
            after = _raw_end(data, position, start, stop - start, number == _SCRIPT)
            if after >= size:
                return ENDLESS, nothing, attributes, spans
            if number == _TITLE and not spans[0, 1] and not foreign:
                spans[0, 0], spans[0, 1] = position, after
            position = after
        elif not is_end:
            is_void = kind == _BREAKOUT or (kind == _VOID and not foreign)
            is_loose = foreign or kind == 0 or kind == _FOREIGN
            if closed and is_loose and not is_void and kind != _FORMAT:
                # Elements without rules in HTML may as well be closed at once.
                length = stop - start
                out[end], out[end + 1] = 60, 47
                for place in range(length):
                    out[end + 2 + place] = out[tag + 1 + place]
                end += length + 3
                out[end - 1] = 62
                tags += 1
            elif not is_void:
                if depth == MAX_OPEN:
                    return TOO_MUCH, nothing, attributes, spans
                opened[depth, 0], opened[depth, 1], opened[depth, 2] = start, stop, kind
                depth += 1
                if kind == _FOREIGN:
                    foreign += 1
            options += kind == _OPTION
        if tags > MAX_TAGS or work > MAX_WORK or options > MAX_OPTIONS:
            return TOO_MUCH, nothing, attributes, spans
    if tags > MAX_TAGS:
        return TOO_MUCH, nothing, attributes, spans
    return FINE, out[:end], attributes[:named], spans
