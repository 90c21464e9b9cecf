"""Where two texts differ."""

from __future__ import annotations

import re
from difflib import SequenceMatcher

import attrs

# A word of letters and digits, one Chinese character or kana, spaces, or any other character.
_PIECE = re.compile(
    r"[\u2e80-\u2fff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
    r"|[^\W_\u2e80-\u2fff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    r"\U00020000-\U0003ffff]+|\s+|."
)
LONGEST = 2000  # pieces of each text that are compared: the time grows with their product


@attrs.frozen
class Part:
    """A stretch of two texts: ``same`` is what both have, else one of the two may be empty."""

    same: bool
    a: str
    b: str


def differences(a: str, b: str) -> tuple[list[Part], bool]:
    """Two texts as stretches that are the same and stretches that differ.

    :returns: the stretches in order, and whether the ends of long texts were left out

    >>> [part.b for part in differences("雨下了3天。", "雨下了5天。")[0] if not part.same]
    ['5']
    """
    left, right = _PIECE.findall(a), _PIECE.findall(b)
    cut = max(len(left), len(right)) > LONGEST
    left, right = left[:LONGEST], right[:LONGEST]
    matcher = SequenceMatcher(None, left, right, autojunk=False)
    parts = [
        Part(tag == "equal", "".join(left[i:j]), "".join(right[k:m]))
        for tag, i, j, k, m in matcher.get_opcodes()
    ]
    return parts, cut
