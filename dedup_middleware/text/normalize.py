"""The normal form of a text, equal in duplicates whatever their encoding and typography.

In this order:

1. control, format and default-ignorable characters are dropped (zero-width spaces, byte order
   marks, soft hyphens, directional marks, variation selectors), so that they can't hide a
   duplicate; white space stays;
2. combining marks behind the first 30 in a row are dropped (the Stream-Safe Text Format of UAX
   #15), because canonical reordering is quadratic in their number;
3. NFKC, lower case, NFKC (width, ligatures, compatibility forms);
4. folds: decimal digits of all scripts become ASCII digits, apostrophes become ', the minus sign
   becomes a hyphen, a final sigma becomes a sigma, and ё becomes е, as most sites write it.

`normalize` is the reference in plain Python. Most pages need only the table of `characters`, which
has the form of every character whose form does not depend on its neighbours.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Final

import attrs

_WHITE_SPACE: Final = frozenset(map(ord, "\t\n\v\f\r\x1c\x1d\x1e\x1f\x85"))
# Default_Ignorable_Code_Point (Unicode Character Database) outside category Cf.
_IGNORABLE: Final = (
    (0x034F, 0x034F),
    (0x115F, 0x1160),
    (0x17B4, 0x17B5),
    (0x180B, 0x180F),
    (0x2065, 0x2065),
    (0x3164, 0x3164),
    (0xFE00, 0xFE0F),
    (0xFFA0, 0xFFA0),
    (0xFFF0, 0xFFF8),
    (0xE0000, 0xE0FFF),
)
_LONGEST_MARK_RUN: Final = 30
# ASCII, ideographs, their punctuation and full-width ASCII: nothing to drop, no marks.
_ORDINARY: Final = re.compile(
    "[ -~\u201c\u201d\u3001-\u3029\u4e00-\u9fd5\ufe3f\uff01-\uff5e\uffe5]*"
)


@attrs.frozen
class Special:
    """Code points that this module treats specially."""

    dropped: frozenset[int]
    folds: Mapping[int, int]
    marks: frozenset[int]


@cache
def special() -> Special:
    """Read the special code points from unicodedata, once per process."""
    dropped, marks = set[int](), set[int]()
    folds = {0x3C2: 0x3C3, 0x451: 0x435, 0x2018: 0x27, 0x2019: 0x27, 0x2BC: 0x27, 0x2212: 0x2D}
    for code in (*range(0x20000), *range(0xE0000, 0xE1000)):
        character = chr(code)
        category = unicodedata.category(character)
        if category == "Nd" and code > 0x7F:
            folds[code] = 0x30 + unicodedata.decimal(character)
        elif category in ("Mn", "Mc", "Me") and unicodedata.combining(character):
            marks.add(code)
        elif category in ("Cc", "Cf") and code not in _WHITE_SPACE:
            dropped.add(code)
    for first, last in _IGNORABLE:
        dropped.update(range(first, last + 1))
    return Special(frozenset(dropped), folds, frozenset(marks))


def _class(codes: Iterable[int]) -> str:
    # Ranges, because `re` tries single members beyond the BMP one after the other.
    ranges: list[list[int]] = []
    for code in sorted(codes):
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return "[" + "".join(f"\\U{a:08x}-\\U{b:08x}" for a, b in ranges) + "]"


@cache
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    marks = _class(special().marks)
    return (
        re.compile(_class(special().dropped) + "+"),
        re.compile(f"({marks}{{{_LONGEST_MARK_RUN}}}){marks}+"),
    )


def compose(text: str) -> str:
    """Apply steps 1 to 3 of the normal form, for text in which neighbours matter.

    :param text: any string, lone surrogates and unassigned code points included.
    """
    dropped, mark_run = _patterns()
    text = mark_run.sub(r"\1", dropped.sub("", text))
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).lower())


def normalize(text: str) -> str:
    """Bring a text into the normal form that the module defines. Never raises."""
    # Avoids the tables of `special`, which take a tenth of a second to build.
    if _ORDINARY.fullmatch(text):
        return unicodedata.normalize("NFKC", text).lower()
    return compose(text).translate(special().folds)


@cache
def _followers() -> frozenset[str]:
    """Characters that may compose with the one before them."""
    found = {chr(code) for code in range(0x1161, 0x1176)} | {
        chr(code) for code in range(0x11A8, 0x11C3)
    }
    for code in range(min(0x20000, sys.maxunicode)):
        decomposed = unicodedata.decomposition(chr(code))
        if decomposed and not decomposed.startswith("<") and " " in decomposed:
            found.add(chr(int(decomposed.split(" ")[1], 16)))
    return frozenset(found)


def needs_context(character: str) -> bool:
    """Whether the form of `character` may depend on the characters before it."""
    forms = (
        character,
        unicodedata.normalize("NFKD", character),
        unicodedata.normalize("NFKC", character),
        compose(character),
    )
    return any(
        form and (unicodedata.combining(form[0]) != 0 or form[0] in _followers()) for form in forms
    )
