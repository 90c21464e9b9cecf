"""The default rule: a page is dropped if a stored page says what it says, word for word.

The evidence of a stored page tells which words of the new page it holds (see
:mod:`dedup_middleware.signature.evidence`). The others are new words. The page is a duplicate if

* all of its numerals are in the stored page, and none stands in the same place as another one; on a
  page of more than eight numerals none replaces a word or two, on one of fewer than 60 words no
  name is new;
* its new words are few: at the threshold of 0.8 at most 12 % of the words between lead and tail,
  and 18 % of all;
* they are scattered: no passage of mostly new words is longer than 4 % of the page, nor than 12
  words (4 words are always allowed), so that no paragraph of its own is lost;
* at most 20 of them are in the lead and the tail, the first 16 and last 10 words, in which agencies
  and editors are named;
* no clause says the opposite (see :mod:`dedup_middleware.text.clauses`);
* of the shingles of a page of fewer than 60 words 65 % are common, and a page that says the same
  words again and again counts as one of twice its distinct shingles;
* a page of fewer than 24 words has a title that the stored page's title does not contradict.

How much longer the stored page is does not matter, so an excerpt is found. Nothing that a longer
page says in addition is lost either: the new page is the longer one then, and has new words.

At another threshold t these limits grow and shrink with 1 - t; the **similarity** of two pages is
the largest threshold at which they hold. With the measure `jaccard` the stored page must also say
little more than the new one, and with `novelty` the new words of a long page are limited as if it
had 128 words. Pages of one host have more in common than what they report, see
:mod:`dedup_middleware.methods.content`: under another title the threshold is 0.95, and what three
other pages of the host say too does not count.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

import attrs
import numpy as np
from numpy.typing import NDArray

from dedup_middleware.methods.base import Judgement
from dedup_middleware.methods.content import (
    CLAUSES_AT,
    COMMON,
    CONTAINED,
    EXACT,
    FIGURES_AT,
    LONG,
    OTHER_FIGURES,
    OTHER_TITLE,
    SAME_HOST,
    TOO_LITTLE,
    TOO_SHORT,
    TURNED,
    Content,
    is_exact,
)
from dedup_middleware.model.buckets import Slots
from dedup_middleware.model.fingerprint import Fingerprint
from dedup_middleware.model.records import CONTENT
from dedup_middleware.signature import evidence_columns as evidence

_FIELDS: Final = tuple(name for name in CONTENT.names or () if name != "sketch")
_SHARE_OF_SHORT: Final = 0.65  # of its shingles that must be common
_SHORT: Final = 60  # words; on so short a page a false positive covers a large part
_DEFAULT: Final = 0.8  # the threshold at which the limits below hold
_BODY, _ALL, _ROW = 0.12, 0.18, 0.04  # shares of new words
_ROW_LEAST, _ROW_MOST, _FRAME_MOST = 4, 12, 20  # new words
# In the order in which the rules are applied.
_REASONS: Final = (EXACT, TOO_SHORT, TOO_LITTLE, OTHER_FIGURES, TURNED, OTHER_TITLE)
_TITLE: Final = 0.25  # share of the words of the title that may be other ones
_PLACED: Final = 8  # numerals whose places are surely known, see signature/figures.py
# Shares of a stored page's shingles that a page holding it must have, by the estimate with one
# standard deviation added and with two taken off.
_HELD, _SURELY_HELD = 0.97, 0.8
_SIBLINGS: Final = 3  # pages of a host that show what all of its pages say


def similarity_of(
    found: NDArray[np.int64], words: int, measure: str = "containment"
) -> NDArray[np.float64]:
    """The largest threshold at which the new words of a page are few and scattered enough.

    1 where nothing is new; at a similarity of s a page is a duplicate by every threshold up to s.

    :param found: int64[n, 8], what :func:`~dedup_middleware.signature.evidence.examine` returns
    :param words: of the page

    >>> new = np.array([[0, 0, 0, 0, 0, 0, 0, 0], [0, 10, 5, 0, 0, 0, 0, 0]])
    >>> similarity_of(new, 200).round(3), similarity_of(new, 2000, "novelty").round(3)
    (array([1.   , 0.875]), array([1.   , 0.805]))
    """
    counted = max(1, min(words, LONG) if measure == "novelty" else words)
    row = min(_ROW_MOST, max(_ROW_LEAST, _ROW * counted))
    new, frame = found[:, evidence.NEW], found[:, evidence.NEW_FRAME]
    used = np.maximum.reduce(
        [
            new / (_BODY * counted),
            (new + frame) / (_ALL * counted),
            found[:, evidence.LONGEST] / row,
            frame / _FRAME_MOST,
        ]
    )
    return np.asarray(np.maximum(0.0, 1.0 - (1.0 - _DEFAULT) * used), np.float64)


@attrs.frozen
class ContentByEvidence(Content):
    """The method ``content`` with ``DEDUP_EVIDENCE=filter``."""

    keeps_payload: ClassVar[bool] = True
    fields: ClassVar[tuple[str, ...]] = _FIELDS

    def judge(
        self, page: Fingerprint, candidates: NDArray[np.void], payloads: Sequence[bytes] = ()
    ) -> Judgement:
        """Judge a page against candidates by this rule.

        :param payloads: the evidence of each; one without evidence can only be an exact copy
        """
        from dedup_middleware.signature.comparison import differing_places
        from dedup_middleware.signature.evidence import examine

        count, wording = len(candidates), page.wording
        candidates = np.ascontiguousarray(candidates)
        records = candidates.view(np.uint8).reshape(count, CONTENT.itemsize)
        figures, turned = differing_places(
            records, page.figures, FIGURES_AT, page.clauses, CLAUSES_AT
        )
        found = examine(wording, payloads if len(payloads) else [b""] * count)
        exact = is_exact(page, candidates)
        mistaken = found[:, evidence.FALSE_POSITIVES] / 1e6
        share = found[:, evidence.COMMON] / max(1, len(wording.order))
        share = np.clip((share - mistaken) / np.maximum(1e-6, 1.0 - mistaken), 0.0, 1.0)
        share[exact] = 1.0
        spread = np.sqrt(mistaken * len(wording.order)) / np.maximum(1e-6, 1.0 - mistaken)
        sizes = candidates["size"].astype(np.int64)
        shared = np.minimum(np.rint(share * page.size).astype(np.int64), sizes)
        held = (sizes >= self.min_features) & (page.size > sizes) & ~exact
        held &= share * page.size + spread >= _HELD * sizes
        held &= share * page.size - 2 * spread >= _SURELY_HELD * sizes
        jaccard = shared / np.maximum(1, page.size + sizes - shared)
        # Words that are said again and again make a page no longer.
        words = min(wording.words, 2 * (page.size + wording.words - len(wording.order)))
        similarity = similarity_of(found, words, self.measure)
        if words < _SHORT:
            lacking = (1.0 - share) / (1.0 - _SHARE_OF_SHORT)
            similarity = np.minimum(similarity, np.maximum(0.0, 1.0 - (1.0 - _DEFAULT) * lacking))
        if self.measure == "jaccard":
            similarity = np.minimum(similarity, jaccard)
        similarity[exact] = 1.0
        changed = found[:, evidence.NEW_VALUES] > 0
        if wording.numerals > _PLACED:
            changed |= found[:, evidence.LOOSE_VALUES] > 0
        neighbours, titled = _same_host(page, candidates)
        title_differs = found[:, evidence.NEW_TITLE] > _TITLE * len(wording.title)
        strict = (similarity >= SAME_HOST) & (page.size >= LONG) & ~exact
        columns = (
            exact & ~title_differs & ~(titled & (page.size < LONG)),
            (sizes < self.min_features) | (page.size < self.min_features),
            similarity < self.threshold,
            changed | (figures > 0),
            turned > 0,
            title_differs | (titled & ~strict),
        )
        reasons = [
            next((reason for holds, reason in zip(row, _REASONS, strict=True) if holds), CONTAINED)
            for row in zip(*(column.tolist() for column in columns), strict=True)
        ]
        if np.count_nonzero(neighbours) >= _SIBLINGS:
            self._leave_out_common(reasons, similarity, neighbours)
        duplicate = np.array([reason in (EXACT, CONTAINED) for reason in reasons], np.bool_)
        held &= (figures == 0) & (turned == 0)
        return Judgement(
            duplicate, similarity, jaccard, tuple(reasons), shared, figures, turned, held
        )

    def _leave_out_common(
        self, reasons: list[str], similarity: NDArray[np.float64], neighbours: NDArray[np.bool_]
    ) -> None:
        """Keep what is alike only in what three other pages of the host say too."""
        duplicates = (EXACT, CONTAINED)
        rows = [row for row in np.flatnonzero(neighbours) if reasons[row] not in duplicates]
        others = similarity[rows].tolist()
        if len(others) < _SIBLINGS:
            return
        common = sorted(others, reverse=True)[_SIBLINGS - 1]
        for row, reason in enumerate(reasons):
            rest = (similarity[row] - common) / max(1e-9, 1.0 - common)
            if reason == CONTAINED and rest < self.threshold:
                reasons[row] = COMMON

    def places(self, page: Fingerprint) -> Slots:
        """Slots of a page: those of ``content``, then its anchors."""
        if page.simhash is None or page.size < self.min_features:
            return Slots.of(self.slots(page))
        from dedup_middleware.methods.placing import whole_page  # numba stays lazy

        return Slots(whole_page(page.key_hash, page.simhash, page.bands, page.anchors))


def _same_host(
    page: Fingerprint, candidates: NDArray[np.void]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which candidates are other pages of the host, and which of these have another title."""
    if not page.host:
        none = np.zeros(len(candidates), np.bool_)
        return none, none
    other = (candidates["host"] == page.host) & (candidates["key"] != np.uint64(page.key_hash))
    titles = candidates["title"]
    titled = other & (titles != 0) & (titles != page.title) & bool(page.title)
    return np.asarray(other, np.bool_), np.asarray(titled, np.bool_)
