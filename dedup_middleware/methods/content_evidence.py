"""The default rule: a page is dropped if a stored page says what it says, word for word.

The evidence of a stored page tells which words of the new page it holds (see
:mod:`dedup_middleware.signature.evidence`). The others are new words. They must be few and
scattered, so that no paragraph of its own is lost, and no numeral, name or negation may differ:
docs/how-it-decides.md has the limits, which :mod:`.evidence_rule` applies.

How much longer the stored page is does not matter, so an excerpt is found. Nothing that a longer
page says in addition is lost either: the new page is the longer one then, and has new words.

At another threshold t the limits grow and shrink with 1 - t; the **similarity** of two pages is the
largest threshold at which they hold. With the measure `jaccard` the stored page must also say
little more than the new one, and with `novelty` the new words of a long page are limited as if it
had 128 words. Pages of one host have more in common than what they report, see :mod:`.content`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

import attrs
import numpy as np
from numpy.typing import NDArray

from dedup_middleware.methods.base import CONTAINED_CODE, LONG, REASONS, Judgement
from dedup_middleware.methods.content import CLAUSES_AT, FIGURES_AT, Content
from dedup_middleware.model.fingerprint import NO_WORDING, Fingerprint
from dedup_middleware.model.records import CONTENT

_FIELDS: Final = tuple(name for name in CONTENT.names or () if name != "sketch")
_DISTINCT: Final = 0.9  # share of distinct shingles; of a page with fewer each counts once
_MEASURES: Final = ("containment", "jaccard", "novelty")  # in the order of the kernel's codes


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
        from dedup_middleware.signature.evidence import COLUMNS, COMMON, examine

        count, wording = len(candidates), page.wording
        candidates = np.ascontiguousarray(candidates)
        records = candidates.view(np.uint8).reshape(count, CONTENT.itemsize)
        figures, turned = differing_places(
            records, page.figures, FIGURES_AT, page.clauses, CLAUSES_AT
        )
        compared = len(wording.order)
        if self._are_equal(page, candidates):
            found = np.zeros((count, COLUMNS), np.int64)
            return self.weigh(page, candidates, found, figures, turned, compared)
        payloads = payloads if len(payloads) else [b""] * count
        found = examine(wording, payloads)
        if page.size < _DISTINCT * compared:
            # What is said again and again must not count as often as it is said.
            distinct = np.unique(wording.order)
            words = len(distinct) + wording.words - compared
            once = attrs.evolve(
                NO_WORDING, order=distinct, words=words, word_hashes=np.zeros(words, np.uint32)
            )
            compared = len(distinct)
            found[:, COMMON] = examine(once, payloads)[:, COMMON]
        return self.weigh(page, candidates, found, figures, turned, compared)

    @staticmethod
    def _are_equal(page: Fingerprint, candidates: NDArray[np.void]) -> bool:
        """Whether all candidates have the text of a page, and nothing else is checked: their
        evidence says nothing then."""
        if page.size < LONG or len(page.wording.title):
            return False
        exact, sizes = candidates["exact"].tolist(), candidates["size"].tolist()
        return bool(exact == [page.exact] * len(exact) and sizes == [page.size] * len(sizes))

    def weigh(
        self,
        page: Fingerprint,
        candidates: NDArray[np.void],
        found: NDArray[np.int64],
        figures: NDArray[np.int64],
        turned: NDArray[np.int64],
        compared: int,
    ) -> Judgement:
        """Judge a page by what was counted of each candidate.

        :param candidates: CONTENT[n], contiguous
        :param found: int64[n, 10] of :func:`~dedup_middleware.signature.evidence.examine`
        :param figures, turned: int64[n] of
            :func:`~dedup_middleware.signature.comparison.differing_places`
        :param compared: shingles of the page, each once where many are repeated, among which
            common ones were counted
        """
        from dedup_middleware.methods.evidence_rule import decide

        count, wording = len(candidates), page.wording
        similarity, jaccard = np.empty(count), np.empty(count)
        shared, codes = np.empty(count, np.int64), np.empty(count, np.int64)
        held = np.empty(count, np.uint8)
        decide(
            candidates,
            found,
            figures,
            turned,
            similarity,
            jaccard,
            shared,
            codes,
            held,
            page.size,
            len(wording.order),
            compared,
            wording.words,
            wording.numerals,
            len(wording.title),
            page.host,
            page.title,
            page.exact,
            page.key_hash,
            self.threshold,
            self.min_features,
            _MEASURES.index(self.measure),
        )
        return Judgement(
            codes <= CONTAINED_CODE,
            similarity,
            jaccard,
            tuple([REASONS[code] for code in codes.tolist()]),
            shared,
            figures,
            turned,
            held.view(np.bool_),
        )
