"""Recognises headlines of pages that correct another one: "CORRECTED - ...", 更正：...

A correction may differ from what it corrects in one word that no rule has (imposed, proposed), so
only the editor's mark shows that it is a different page.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache

from dedup_middleware.text.characters import word_lists

_LONGEST = 200  # characters of a headline that are searched
_OPENS, _CLOSES, _PARTS = r"(\[{【〔「『<（［｛", r")\]}】〕」』>）］｝", r":|/\-–—：｜／－"


@cache
def _marks() -> tuple[re.Pattern[str], re.Pattern[str], re.Pattern[str]]:
    """Patterns of the mark of a correction, a word on its own between ends of the headline,
    brackets, colons and dashes: at the beginning, behind a sign, or a Chinese notice at the end.
    Ideographs need no end before the next word: 更正公告. There are three because a search is fast
    only if the pattern begins with a sign or a letter."""
    marks = "|".join(sorted(map(re.escape, word_lists()["corrections"]), key=len, reverse=True))
    end = (
        rf"(?=\s*(?:[.!]*$|[{_CLOSES}{_PARTS}]))|(?<=[\u4e00-\u9fff])(?=[后後版稿]|公告|启事|啟事)"
    )
    part = rf"\s*(?:{marks})(?:{end})"
    return (
        re.compile(part),
        re.compile(rf"[{_OPENS}{_PARTS}]{part}"),
        re.compile("更正(?:公告|启事|啟事)$"),
    )


def says_correction(headline: str) -> bool:
    """Whether a headline has the mark of a correction.

    >>> says_correction("CORRECTED - Council proposes a levy"), says_correction("更正：渡口停航")
    (True, True)
    >>> says_correction("Correction officers elect a chair")
    False
    """
    beginning, behind_sign, notice = _marks()
    # NFKC takes 50 us for a Chinese line, so full-width signs are listed above instead.
    folded = unicodedata.normalize("NFC", headline[:_LONGEST]).lower()
    return bool(beginning.match(folded) or behind_sign.search(folded) or notice.search(folded))
