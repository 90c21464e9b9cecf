"""Measures the share of edited copies that a method finds, by edit, intensity and page length."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final

import attrs

from dedup_middleware.evaluation.comparers import Comparer
from dedup_middleware.evaluation.edits import KINDS, edit
from dedup_middleware.model.documents import Document

INTENSITIES: Final = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5)
#: least lengths in characters; a page belongs to the largest one that it reaches
LENGTHS: Final = (100, 300, 800)


@attrs.frozen
class SurfaceCell:
    """Share of edited copies that are near-duplicates of their originals.

    ``length`` is the least number of characters of the pages; ``recall`` is None if the edit
    changed no page of this length.
    """

    kind: str
    intensity: float
    length: int
    pages: int
    recall: float | None


def length_class(text: str, lengths: Sequence[int] = LENGTHS) -> int | None:
    """Return the largest bound that a text reaches, None if it reaches none.

    >>> length_class("x" * 350), length_class("x")
    (300, None)
    """
    return max((bound for bound in lengths if len(text) >= bound), default=None)


def surface(
    documents: Sequence[Document],
    comparer: Comparer,
    *,
    kinds: Sequence[str] = tuple(KINDS),
    intensities: Sequence[float] = INTENSITIES,
    lengths: Sequence[int] = LENGTHS,
    per_cell: int = 50,
    seed: int = 1,
    progress: Callable[[int], None] | None = None,
) -> list[SurfaceCell]:
    """Edit pages and test whether each copy is a near-duplicate of its page.

    Copies that the edit did not change are not counted.

    :param per_cell: pages of each length
    """
    classes: dict[int, list[Document]] = {bound: [] for bound in lengths}
    for document in documents:
        bound = length_class(document.text or "", lengths)
        if bound is not None and len(classes[bound]) < per_cell:
            classes[bound].append(document)
    cells = []
    for bound, pages in classes.items():
        originals = [(page, comparer.sign(page)) for page in pages]
        for kind in kinds:
            for intensity in intensities:
                found = changed = 0
                for i, (page, signed) in enumerate(originals):
                    text = edit(page.text or "", kind, intensity, seed + i)
                    if text == page.text:
                        continue
                    changed += 1
                    copy = attrs.evolve(page, key=f"{page.key}#copy", text=text)
                    found += comparer.compare(comparer.sign(copy), signed).duplicate
                recall = found / changed if changed else None
                cells.append(SurfaceCell(kind, intensity, bound, changed, recall))
                if progress is not None:
                    progress(1)
    return cells


_KANA: Final = {"HIRAGANA", "KATAKANA"}
_OTHER_NAMES: Final = {"CJK": "Han", "HANGUL": "Hangul (Korean)"}


def script_of(text: str) -> str:
    """Return the script of most letters of a text; a tenth of kana makes it Japanese.

    >>> script_of("Привет, world!"), script_of("これは本です。"), script_of("这是一本书。")
    ('Cyrillic', 'Japanese', 'Han')
    """
    letters = Counter(
        unicodedata.name(character, "?").split()[0] for character in text if character.isalpha()
    )
    if not letters:
        return "none"
    if sum(letters[kana] for kana in _KANA) * 10 >= letters.total():
        return "Japanese"
    most = letters.most_common(1)[0][0]
    return _OTHER_NAMES.get(most, most.capitalize())


@attrs.frozen
class ScriptCell:
    """Share of the ``pages`` of a script judged near-duplicates of an edited copy.

    ``kind`` is a kind of edit, or :data:`NEXT_PAGE` for the share judged near-duplicates of the
    next page of the script, which is another page.
    """

    script: str
    kind: str
    pages: int
    share: float | None


NEXT_PAGE: Final = "next-page"


def by_script(
    documents: Sequence[Document],
    comparer: Comparer,
    *,
    intensity: float = 0.02,
    least: int = 400,
    per_script: int = 40,
    seed: int = 1,
    progress: Callable[[int], None] | None = None,
) -> list[ScriptCell]:
    """Edit pages of every script, and compare each with its copy and with another page.

    :param least: least characters of a page
    :param per_script: most pages of each script
    """
    groups: dict[str, list[Document]] = {}
    for document in documents:
        text = document.text or ""
        if len(text) >= least:
            groups.setdefault(script_of(text), []).append(document)
    cells = []
    for script, group in sorted(groups.items()):
        pages = group[:per_script]
        for cell in surface(
            pages,
            comparer,
            intensities=(intensity,),
            lengths=(least,),
            per_cell=per_script,
            seed=seed,
            progress=progress,
        ):
            cells.append(ScriptCell(script, cell.kind, cell.pages, cell.recall))
        signed = [comparer.sign(page) for page in pages]
        others = [comparer.compare(one, other).duplicate for one, other in pairwise(signed)]
        share = sum(others) / len(others) if others else None
        cells.append(ScriptCell(script, NEXT_PAGE, len(others), share))
    return cells
