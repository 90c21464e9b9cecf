"""Whether a headline says that its page corrects another one: "CORRECTED - ...", 更正：...

A correction may differ from what it corrects in one word that no rule knows (imposed, proposed), so
the editor's mark is what tells them apart.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache

from dedup_middleware.text.characters import word_lists

_LONGEST = 400  # characters of a headline that are looked at
_OPENS, _CLOSES, _PARTS = r"(\[{【〔「『<", r")\]}】〕」』>", r":|/\-–—"


@cache
def _mark() -> re.Pattern[str]:
    """A word for a correction that is a part of its own, between the ends of a headline, brackets,
    colons and dashes. Ideographs need no end before the next word: 更正公告."""
    said = "|".join(sorted(map(re.escape, word_lists()["corrections"]), key=len, reverse=True))
    end = (
        rf"(?=\s*(?:[.!]*$|[{_CLOSES}{_PARTS}]))|(?<=[\u4e00-\u9fff])(?=[后後版稿]|公告|启事|啟事)"
    )
    return re.compile(rf"(?:^|[{_OPENS}{_PARTS}])\s*(?:{said})(?:{end})|更正(?:公告|启事|啟事)$")


def says_correction(headline: str) -> bool:
    """Whether a headline has the mark of a correction.

    >>> says_correction("CORRECTED - Council proposes a levy"), says_correction("更正：渡口停航")
    (True, True)
    >>> says_correction("Correction officers elect a chair")
    False
    """
    return bool(_mark().search(unicodedata.normalize("NFKC", headline[:_LONGEST]).lower()))
