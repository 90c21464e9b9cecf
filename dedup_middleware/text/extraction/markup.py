# ruff: noqa: PLR0912, PLR0915 - one state machine; in parts it would hand a dozen variables around
# ruff: noqa: PLR1714, SIM109 - compiled comparisons; a set would be built at each of them
"""One pass over the bytes of a page: its text in blocks, and the boxes that contain them.

It reads trees that a parser has serialised (see `blocks.well_formed`), and pages that no parser may
get. For the latter a stack of the open elements follows the rules of HTML that decide where
text belongs: what a start tag closes, what an end tag may close, what hides its content. The work
is linear in the page, and the stack has `MAX_DEPTH` entries as in browsers; deeper elements count
as part of the last one.
"""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base.jit import kernel, subkernel
from dedup_middleware.base.kerneltypes import I64, I64_2, R8, U8, Tuple

MAX_DEPTH: Final = 512
MAX_CONTAINERS: Final = 50_000
MAX_BLOCKS: Final = 100_000
# A tag with more bytes than this behind its name has attributes.
LEAST_ATTRIBUTES: Final = 3

HEADINGS: Final = ("h1", "h2", "h3", "h4", "h5", "h6")
BOXES: Final = (
    *("body", "div", "section", "article", "main", "table", "tr", "td", "th", "ul", "ol"),
    *("menu", "dl", "li", "dd", "form", "center", "blockquote", "header", "details"),
    *("fieldset", "nav", "footer", "aside", "noscript", "figcaption"),
)
# Elements that readers do not see, and in which there is no markup.
RAW: Final = ("script", "style", "textarea", "title", "iframe", "noembed", "noframes", "xmp")
_KINDS: Final = (
    BOXES,
    # Lines: a block of their own without being a box.
    ("p", *HEADINGS, "pre", "dt", "address", "summary", "legend"),
    ("br", "hr"),
    ("a",),
    (
        # What readers do not see as text, or not as part of the text.
        *("svg", "template", "object", "applet", "select", "option", "button", "audio", "video"),
        *("canvas", "map", "picture", "math", "dialog", "rt", "rp"),
    ),
    RAW,
    # Only ends the elements that are open inside.
    ("ruby",),
)
TAGS: Final = ("", *(name for names in _KINDS for name in names))
_BOX, _LINE, _BREAK, _LINK, _UNSEEN, _RAW = 1, 2, 3, 4, 5, 6
_KIND: Final = np.array([0, *(k for k, names in enumerate(_KINDS, 1) for _ in names)], np.uint8)
_ID: Final = {name: number for number, name in enumerate(TAGS)}
_P, _LI, _UL, _OL = _ID["p"], _ID["li"], _ID["ul"], _ID["ol"]
_DD, _DT, _DL = _ID["dd"], _ID["dt"], _ID["dl"]
_TABLE, _TR, _TD, _TH = _ID["table"], _ID["tr"], _ID["td"], _ID["th"]
_BODY, _OPTION, _BUTTON, _A = _ID["body"], _ID["option"], _ID["button"], _ID["a"]
_RUBY, _RT, _RP = _ID["ruby"], _ID["rt"], _ID["rp"]
_H1, _H6 = _ID["h1"], _ID["h6"]
_SCRIPT, _STYLE, _TITLE = _ID["script"], _ID["style"], _ID["title"]
_COMMENT: Final = 0


# Keys stay small: the compiler may assume that 64-bit arithmetic never overflows.
_BASE: Final = 257
_MASK: Final = 0xFFFFFFFF
_SLOTS: Final = 1024
_LONGEST_NAME: Final = 10
_STEP: Final = 64
_LONGEST_ENTITY: Final = 8


def slots(names: tuple[str, ...]) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Hash table from the key of a name to its number among the names; 0 for an unknown name."""
    keys = np.zeros(_SLOTS, np.int64)
    numbers = np.zeros(_SLOTS, np.uint8)
    for number, name in enumerate(names[1:], 1):
        key = 0
        for byte in name.encode():
            key = (key * _BASE + byte) & _MASK
        slot = (key ^ key >> 10) % _SLOTS
        while numbers[slot]:
            slot = (slot + 1) % _SLOTS
        keys[slot], numbers[slot] = key, number
    return keys, numbers


_KEYS, _NUMBERS = slots(TAGS)


@subkernel
def _is_letter(byte: int) -> bool:
    return 97 <= byte <= 122 or 65 <= byte <= 90


@subkernel
def is_space(byte: int) -> bool:
    """Whether a byte is white space of HTML."""
    return byte == 32 or byte == 10 or byte == 9 or byte == 13 or byte == 12


@subkernel
def find(data: Any, start: int, wanted: int) -> int:
    """Position of the first such byte from `start` on, or the size of the page."""
    position = start
    size: int = data.size
    while position + _STEP <= size:
        # Without an exit, the inner loop is compiled into one comparison of 64 bytes.
        found = 0
        for place in range(_STEP):
            found |= data[np.uint64(position + place)] == wanted
        if found:
            break
        position += _STEP
    while position < size and data[np.uint64(position)] != wanted:
        position += 1
    return position


@subkernel
def comment_end(data: Any, start: int) -> int:
    """Position behind a comment whose "<!--" begins here, or -1."""
    size = data.size
    position = start + 4
    while True:
        position = find(data, position, 62)
        if position >= size:
            return -1
        if data[position - 1] == 45 and data[position - 2] == 45:
            return position + 1
        if (
            position >= start + 7
            and data[position - 1] == 33
            and data[position - 2] == 45
            and data[position - 3] == 45
        ):
            return position + 1
        position += 1


@subkernel
def name_at(data: Any, start: int, keys: Any, numbers: Any) -> tuple[int, int]:
    """Number of the tag name that starts here in a table of `slots` (0: unknown), and its end."""
    key = np.int64(0)
    position = start
    while position < data.size:
        byte = data[position]
        if byte == 62 or byte == 47 or is_space(byte):
            break
        if 65 <= byte <= 90:
            byte += 32
        key = (key * _BASE + byte) & _MASK
        position += 1
    if position - start <= _LONGEST_NAME:
        slot = (key ^ key >> 10) % _SLOTS
        while numbers[slot]:
            if keys[slot] == key:
                return np.int64(numbers[slot]), position
            slot = (slot + 1) % _SLOTS
    return 0, position


@subkernel
def _entity_rest(data: Any, start: int) -> int:
    """Bytes of an entity behind its "&", which is just before ``start``; 0 if it is none."""
    for length in range(_LONGEST_ENTITY):
        if start + length >= data.size:
            break
        byte = data[start + length]
        if byte == 59:
            return length + 1
        if not (_is_letter(byte) or byte == 35 or 48 <= byte <= 57):
            break
    return 0


@subkernel
def _tag_end(data: Any, start: int, exhausted: Any) -> int:
    """Position of the ">" that ends a tag, or the size of the page. Quotes open after "=" only."""
    position = start
    size: int = data.size
    while position < size:
        byte = data[position]
        if byte == 62:
            return position
        position += 1
        if byte != 61:
            continue
        while position < size and data[position] <= 32:
            position += 1
        if position < size and (data[position] == 34 or data[position] == 39):
            quote = data[position]
            # Once a closing quote was not found, there is none further on: one search a page.
            if not exhausted[quote]:
                closing = position + 1
                while closing < size and data[closing] != quote:
                    closing += 1
                if closing < size:
                    position = closing
                else:
                    exhausted[quote] = True
            position += 1
    return size


@subkernel
def _raw_end(data: Any, start: int, tag: int) -> int:
    """Position of the end tag of an element without markup inside, or -1."""
    position = start
    while position + 2 < data.size:
        if data[position] == 60 and data[position + 1] == 47:
            found, _ = name_at(data, position + 2, _KEYS, _NUMBERS)
            if found == tag:
                return position
        position += 1
    return -1


@subkernel
def _open_place(stack: Any, depth: int, tag: int, other: int, wall: int, wall2: int) -> int:
    """Stack position of the innermost element of either kind that no wall hides, or -1.

    Tables and their cells are walls for everything except the parts of tables.
    """
    in_table = tag == _TD or tag == _TR or tag == _TABLE
    for place in range(depth - 1, -1, -1):
        open_tag = stack[place, 0]
        if open_tag == tag or open_tag == other:
            return place
        if open_tag == wall or open_tag == wall2:
            return -1
        if open_tag == _TABLE or (not in_table and (open_tag == _TD or open_tag == _TH)):
            return -1
    return -1


@subkernel
def _closed_by(stack: Any, depth: int, tag: int) -> int:
    """Lowest position on the stack that a start tag closes; ``depth`` if it closes nothing."""
    place = -1
    if tag == _LI:
        place = _open_place(stack, depth, _LI, _LI, _UL, _OL)
    elif tag == _DD or tag == _DT:
        place = _open_place(stack, depth, _DD, _DT, _DL, _DL)
    elif tag == _TD or tag == _TH:
        place = _open_place(stack, depth, _TD, _TH, _TR, _TABLE)
    elif tag == _TR:
        place = _open_place(stack, depth, _TR, _TR, _TABLE, _TABLE)
    elif tag == _OPTION or tag == _BUTTON:
        place = _open_place(stack, depth, tag, tag, tag, tag)
    elif tag == _RT or tag == _RP:
        place = _open_place(stack, depth, _RT, _RP, _RUBY, _RUBY)
    elif _H1 <= tag <= _H6 and depth and _H1 <= stack[depth - 1, 0] <= _H6:
        place = depth - 1
    if place < 0 and _KIND[tag] <= _LINE:
        place = _open_place(stack, depth, _P, _P, _P, _P)
    return place if place >= 0 else depth


@kernel(Tuple((U8, I64_2, I64_2, I64))(R8))
def read_markup(data: Any) -> Any:
    """Split a page into blocks and containers: ``data`` is its markup, uint8[n] of UTF-8.

    Returns ``text`` uint8 (the blocks in document order, each ended by a line feed, white space
    squeezed, entities as they are), ``blocks`` int64[b, 3] (container, tag, bytes inside links),
    ``containers`` int64[c, 5] (parent, tag, last container inside, begin and end of its attributes;
    0 is the page) and ``title`` int64[2] (begin and end of the title). Tags are indexes into
    `TAGS`. A paragraph with attributes is a container too.
    """
    size = data.size
    text = np.empty(size + 2, np.uint8)
    blocks = np.empty((min(MAX_BLOCKS, size // 2 + 2), 3), np.int64)
    containers = np.zeros((min(MAX_CONTAINERS, size // 3 + 1), 5), np.int64)
    title = np.zeros(2, np.int64)
    # Open elements: tag, container of its own or -1, whether it is an active link.
    stack = np.zeros((MAX_DEPTH, 3), np.int64)
    exhausted = np.zeros(64, np.bool_)
    endless = np.zeros(_KIND.size, np.bool_)
    containers[0, 0] = -1
    containers[0, 1] = _BODY
    n_blocks, n_containers, depth = 0, 1, 0
    current, unseen, links = 0, 0, 0
    end, begin, linked = 0, 0, 0
    position = 0
    while position <= size and n_blocks < blocks.shape[0]:
        if position == size:
            # The page ends: close all.
            pop_to, tag, kind, self_closed, after, is_end = 0, _BODY, _BREAK, True, size + 1, True
            attributes = size
        else:
            byte = data[position]
            if byte != 60:
                position += 1
                if unseen:
                    continue
                if byte <= 32:
                    if end == begin or text[end - 1] == 32:
                        continue
                    byte = np.uint8(32)
                text[end] = byte
                end += 1
                if links:
                    linked += 1
                    if byte == 38:
                        linked -= _entity_rest(data, position)
                continue
            following = data[position + 1] if position + 1 < size else np.uint8(32)
            is_end = following == 47
            if is_end and position + 2 < size and _is_letter(data[position + 2]):
                tag, attributes = name_at(data, position + 2, _KEYS, _NUMBERS)
            elif _is_letter(following):
                tag, attributes = name_at(data, position + 1, _KEYS, _NUMBERS)
            elif following == 33 or following == 63 or is_end:
                after = -1
                if position + 3 < size and data[position + 2] == 45 and data[position + 3] == 45:
                    if not endless[_COMMENT]:
                        after = comment_end(data, position)
                        endless[_COMMENT] = after < 0
                    # A comment without an end hides nothing.
                    position = after if after >= 0 else position + 4
                    continue
                position = _tag_end(data, position + 2, exhausted) + 1
                continue
            else:
                # A "<" in the text.
                if not unseen:
                    text[end] = byte
                    end += 1
                position += 1
                continue
            after = _tag_end(data, attributes, exhausted)
            kind = _KIND[tag]
            self_closed = after < size and data[after - 1] == 47
            attributes_end = min(after, size)
            after = min(after + 1, size)
            pop_to = depth
            if kind == _RAW:
                if not is_end:
                    finish = -1 if endless[tag] else _raw_end(data, after, tag)
                    if finish < 0:
                        endless[tag] = True
                        # An unclosed script hides the rest of the page, any other element nothing.
                        finish = size if tag == _SCRIPT or tag == _STYLE else after
                    elif tag == _TITLE and title[1] == 0:
                        title[0], title[1] = after, finish
                    after = finish
                position = after
                continue
            if kind == 0:
                position = after
                continue
            if is_end:
                if tag == _BODY:
                    position = after
                    continue
                other = tag
                if _H1 <= tag <= _H6 and depth and _H1 <= stack[depth - 1, 0] <= _H6:
                    other = stack[depth - 1, 0]
                place = _open_place(stack, depth, tag, other, 0, 0)
                if place >= 0 and kind == _LINK:
                    # A link around boxes that are still open ends without closing them.
                    links -= stack[place, 2]
                    stack[place, 2] = 0
                    if place == depth - 1:
                        depth -= 1
                    position = after
                    continue
                if place >= 0:
                    pop_to = place
            elif kind == _LINK:
                for place in range(depth):
                    links -= stack[place, 2]
                    stack[place, 2] = 0
            else:
                pop_to = _closed_by(stack, depth, tag)
        # Blocks end where a box or a line opens or closes, and at breaks.
        breaks = not is_end or pop_to < depth or kind == _BREAK or tag == _P
        still_unseen = unseen
        for place in range(pop_to if unseen else depth, depth):
            if _KIND[stack[place, 0]] == _UNSEEN:
                still_unseen -= 1
        if breaks and kind <= _BREAK and end > begin and not still_unseen:
            if text[end - 1] == 32:
                end -= 1
            blocks[n_blocks, 0] = current
            innermost = _BODY
            for place in range(depth - 1, -1, -1):
                if _KIND[stack[place, 0]] <= _LINE:
                    innermost = stack[place, 0]
                    break
            blocks[n_blocks, 1] = innermost
            blocks[n_blocks, 2] = linked
            n_blocks += 1
            text[end] = 10
            end += 1
            begin, linked = end, 0
        relink = False
        while depth > pop_to:
            depth -= 1
            tag_open = stack[depth, 0]
            if _KIND[tag_open] == _UNSEEN:
                unseen -= 1
            if stack[depth, 2]:
                links -= 1
                relink = not is_end
            if stack[depth, 1] >= 0:
                containers[stack[depth, 1], 2] = n_containers - 1
                current = containers[stack[depth, 1], 0]
        if relink and depth < MAX_DEPTH:
            # A link goes on behind the paragraph that a box in it has closed.
            stack[depth, 0], stack[depth, 1], stack[depth, 2] = _A, -1, 1
            depth += 1
            links += 1
        if not is_end and not self_closed and kind != _BREAK and depth < MAX_DEPTH:
            own = -1
            has_attributes = attributes_end - attributes > LEAST_ATTRIBUTES
            if (
                (kind == _BOX or (tag == _P and has_attributes))
                and not unseen
                and n_containers < containers.shape[0]
            ):
                own = n_containers
                containers[own, 0] = current
                containers[own, 1] = tag
                containers[own, 2] = own
                containers[own, 3] = attributes
                containers[own, 4] = attributes_end
                n_containers += 1
                current = own
            active = 1 if kind == _LINK and not unseen else 0
            stack[depth, 0], stack[depth, 1], stack[depth, 2] = tag, own, active
            depth += 1
            links += active
            if kind == _UNSEEN:
                unseen += 1
        position = after
    containers[0, 2] = n_containers - 1
    return text[:end], blocks[:n_blocks], containers[:n_containers], title
