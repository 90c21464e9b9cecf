"""The method ``content``: the default rule by evidence, and the rule by sketches.

docs/how-it-decides.md has what the rules are for, and their limits; :mod:`.content_rule` applies
them.

**By evidence**, ``DEDUP_EVIDENCE=filter``: a page is dropped if a stored page says what it says,
word for word. The evidence of a stored page tells which words of the new page it holds (see
:mod:`dedup_middleware.signature.evidence`). The others must be few and scattered, and no numeral,
name or negation may differ. At another threshold t the limits grow and shrink with 1 - t; the
**similarity** of two pages is the largest threshold at which they hold. With the measure `jaccard`
the stored page must also say little more than the new one, and with `novelty` the new words of a
long page are limited as if it had 128 words.

**By sketches**, ``DEDUP_EVIDENCE=sketch``: similarity is estimated from 512 bits a page, of the
Jaccard index J of two sketches and the numbers of shingles a (new) and b (stored):
|A and B| = J (a + b) / (1 + J).

* **containment** = |A and B| / a, the share of the *new* page's shingles that the stored page
  holds, so that nothing that was only in the new page is lost;
* **novelty** is the same, but from 128 shingles on what a page may have of its own no longer grows
  with its size;
* **jaccard** = J: an excerpt of a stored page is kept too.

The standard error of an estimate is taken off first. Below 128 shingles the part that may be a
page's own shrinks with the size.

With both, pages differ that have another figure or name in one place, or a clause that says the
opposite. On one host a page under another title must be held to 95 %, one of fewer than 128
shingles is new even if its text is the same, and what three stored pages of the host hold too is no
evidence: that is what a site writes on all of its pages. This can only keep a page. With evidence a
title is another one only if it has a word that the stored page has neither in its text nor in its
title, or as many words as that one.
"""

from __future__ import annotations

from typing import ClassVar, Final

import attrs
import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base.options import MEASURES
from dedup_middleware.methods.base import (
    CONTAINED_CODE,
    LONG,
    OTHER_TITLE_CODE,
    REASONS,
    SAME_HOST,
    Judgement,
    Method,
    Payloads,
    Records,
    probe_bucket_keys,
)
from dedup_middleware.model.buckets import BucketKey, BucketKeys
from dedup_middleware.model.fingerprint import NO_WORDING, Fingerprint
from dedup_middleware.model.records import CONTENT

_OFFSETS: Final = {name: field[1] for name, field in (CONTENT.fields or {}).items()}
_FIGURES_AT, _CLAUSES_AT = _OFFSETS["figures"], _OFFSETS["clauses"]
# A second headline for a story has at least so many words, of which one in so many is new; the same
# of a report with so many numerals. A cut of a story has at most that share of its size.
_HEADLINE, _NEW = 6, 4
_HEADLINE_OF_REPORT, _NEW_OF_REPORT, _FIGURES = 8, 3, 8
_CUT: Final = 0.9
_DISTINCT: Final = 0.9  # share of distinct shingles; of a page with fewer each counts once


def is_exact(page: Fingerprint, candidates: Records) -> NDArray[np.bool_]:
    """Which candidates have the same normalised text: equal hash of text and figures, and size."""
    same = candidates["exact"] == np.uint64(page.exact)
    return np.asarray(same & (candidates["size"] == np.uint32(page.size)), np.bool_)


def required(threshold: float, size: int, measure: str = "containment") -> float:
    """Similarity that a page of ``size`` shingles needs to be a duplicate.

    >>> required(0.8, 1000), required(0.8, 64), round(required(0.8, 1280, "novelty"), 3)
    (0.8, 0.9, 0.98)
    """
    share = min(1.0, size / LONG)
    if measure == "novelty" and size > LONG:
        share = LONG / size
    return 1.0 - (1.0 - threshold) * share


def _compared(page: Fingerprint, candidates: Records) -> tuple[NDArray[np.int64], ...]:
    """Places with other figures, and parts with a clause that says the opposite, of each."""
    from dedup_middleware.signature.comparison import differing_places

    records = candidates.view(np.uint8).reshape(len(candidates), CONTENT.itemsize)
    return differing_places(records, page.figures, _FIGURES_AT, page.clauses, _CLAUSES_AT)


def _reasons(codes: NDArray[np.int64]) -> tuple[str, ...]:
    return tuple([REASONS[code] for code in codes.tolist()])


@attrs.frozen
class Content(Method):
    """Similarity of the new page to a stored one, unless figures took each other's place.

    :param measure: ``containment``, ``jaccard`` or ``novelty``
    """

    name: ClassVar[str] = "content"
    settles_exact: ClassVar[bool] = True
    threshold: float
    scan_distance: int
    min_features: int
    sketch_bits: int = 1  # bits that the sketch holds of each minimum
    measure: str = "containment"

    def judge(self, page: Fingerprint, candidates: Records, payloads: Payloads = ()) -> Judgement:  # noqa: ARG002
        from dedup_middleware.methods.content_rule import decide_by_sketch
        from dedup_middleware.signature.minhash import jaccards

        candidates = np.ascontiguousarray(candidates)
        estimates = jaccards(page.sketch, candidates["sketch"], self.sketch_bits)
        figures, turned = _compared(page, candidates)
        similarity, jaccard, shared, codes = decide_by_sketch(
            candidates, estimates, figures, turned, page.size, page.host, page.title, page.exact,
            page.key_hash, required(self.threshold, page.size, self.measure),
            required(max(self.threshold, SAME_HOST), page.size, self.measure), self.min_features,
            self.sketch_bits, self.measure == "jaccard",
        )  # fmt: skip
        duplicate = codes <= CONTAINED_CODE
        return Judgement(duplicate, similarity, jaccard, _reasons(codes), shared, figures, turned)

    def bucket_key_array(self, page: Fingerprint) -> BucketKeys:
        if page.simhash is None or page.size < self.min_features:
            return BucketKeys.of(self.bucket_keys(page))
        from dedup_middleware.methods.content_rule import whole_page  # numba stays lazy

        return BucketKeys(whole_page(page.key_hash, page.simhash, page.bands, page.anchors))

    def probes(self, page: Fingerprint) -> tuple[BucketKey, ...]:
        """Further buckets to look into: those of the SimHash with volatile bits flipped."""
        if not page.volatile or page.simhash is None or self.is_short(page):
            return ()
        return probe_bucket_keys(page.simhash, page.volatile)


@attrs.frozen
class ContentByEvidence(Content):
    """The method ``content`` with ``DEDUP_EVIDENCE=filter``."""

    keeps_payload: ClassVar[bool] = True
    fields: ClassVar[tuple[str, ...]] = tuple(n for n in CONTENT.names or () if n != "sketch")

    def judge(self, page: Fingerprint, candidates: Records, payloads: Payloads = ()) -> Judgement:
        """Judge a page against candidates by this rule.

        :param payloads: the evidence of each; one without evidence can only be an exact copy
        """
        from dedup_middleware.signature.evidence import COLUMNS, COMMON, examine
        from dedup_middleware.signature.titles import NEW_IN_TEXT, NEW_IN_TITLE, compare_title
        from dedup_middleware.text.wording import SHORT

        count, wording = len(candidates), page.wording
        candidates = np.ascontiguousarray(candidates)
        figures, turned = _compared(page, candidates)
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
                NO_WORDING, order=distinct, words=words, word_hashes=np.zeros(words, np.uint64)
            )
            compared = len(distinct)
            found[:, COMMON] = examine(once, payloads)[:, COMMON]
        places = self._retitled(page, candidates, 2 * found[:, COMMON] > compared)
        if not len(places):
            return self.weigh(page, candidates, found, figures, turned, compared)
        new = compare_title(wording, [payloads[place] for place in places.tolist()])
        candidates = candidates.copy()
        second = self._are_second(page, candidates["size"][places], new)
        # A title that says nothing new is no other title, nor is a second one for a story.
        candidates["title"][places[(new[:, NEW_IN_TITLE] == 0) | second]] = page.title
        judged = self.weigh(page, candidates, found, figures, turned, compared)
        if wording.words < SHORT:  # the words of its title are compared by `examine`
            return judged
        other = (new[:, NEW_IN_TITLE] > 0) & (new[:, NEW_IN_TEXT] > 0) & ~second
        return self._keep_other_subject(places[other], judged)

    @staticmethod
    def _retitled(
        page: Fingerprint, candidates: Records, alike: NDArray[np.bool_]
    ) -> NDArray[np.intp]:
        """Places of the candidates that are pages of the same host under another title."""
        if not page.host or not page.title or not len(page.wording.headline):
            return np.empty(0, np.intp)
        titles = candidates["title"]
        alike = alike & (candidates["host"] == page.host) & (candidates["key"] != page.key_hash)
        return np.flatnonzero(alike & (titles != page.title) & (titles != 0))

    @staticmethod
    def _are_second(
        page: Fingerprint, sizes: NDArray[np.uint32], new: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Whether the title of a page may be a second headline for the story of each candidate.

        Few of its words are new, and none of them stands where the other page says something else;
        in a report with many numerals, all of which must be held, one may. Pages on a template are
        as long as each other, and so are their titles.

        :param sizes: of the candidates; ``new`` is what
            :func:`~dedup_middleware.signature.titles.compare_title` gives
        """
        from dedup_middleware.signature.titles import AS_LONG, NEW_IN_TITLE, REPLACED
        from dedup_middleware.text.wording import SHORT

        wording = page.wording
        words, found = len(wording.headline), new[:, NEW_IN_TITLE]
        few = (_NEW * found <= words) & (new[:, REPLACED] == 0) & (words >= _HEADLINE)
        if words >= _HEADLINE_OF_REPORT and wording.numerals >= _FIGURES:
            few |= (_NEW_OF_REPORT * found <= words) & (new[:, REPLACED] <= 1)
        edited = (new[:, AS_LONG] == 0) & (page.size >= LONG)
        few &= ((page.size <= _CUT * sizes) | edited) & (wording.words >= SHORT)
        return np.asarray(few, np.bool_)

    @staticmethod
    def _keep_other_subject(others: NDArray[np.intp], judged: Judgement) -> Judgement:
        """Keep a page that says anew what its title names, and that `others` do not say."""
        reasons, duplicate = list(judged.reasons), judged.duplicate.copy()
        for place in others.tolist():
            if reasons[place] == REASONS[CONTAINED_CODE]:
                reasons[place], duplicate[place] = REASONS[OTHER_TITLE_CODE], False
        return attrs.evolve(judged, duplicate=duplicate, reasons=tuple(reasons))

    @staticmethod
    def _are_equal(page: Fingerprint, candidates: Records) -> bool:
        """Whether all candidates have the text of a page, and nothing else is checked: their
        evidence says nothing then."""
        if page.size < LONG or len(page.wording.title):
            return False
        exact, sizes = candidates["exact"].tolist(), candidates["size"].tolist()
        return bool(exact == [page.exact] * len(exact) and sizes == [page.size] * len(sizes))

    def weigh(
        self,
        page: Fingerprint,
        candidates: Records,
        found: NDArray[np.int64],
        figures: NDArray[np.int64],
        turned: NDArray[np.int64],
        compared: int,
    ) -> Judgement:
        """Judge a page by what was counted of each candidate.

        :param candidates: CONTENT[n], contiguous
        :param found: int64[n, 13] of :func:`~dedup_middleware.signature.evidence.examine`
        :param figures, turned: int64[n] of
            :func:`~dedup_middleware.signature.comparison.differing_places`
        :param compared: shingles of the page, each once where many are repeated, among which
            common ones were counted
        """
        from dedup_middleware.methods.content_rule import decide_by_evidence

        wording = page.wording
        similarity, jaccard, shared, codes, held = decide_by_evidence(
            candidates, found, figures, turned, page.size, len(wording.order), compared,
            wording.words, wording.numerals, len(wording.title), page.host, page.title, page.exact,
            page.key_hash, self.threshold, self.min_features, MEASURES.index(self.measure),
        )  # fmt: skip
        duplicate, reasons = codes <= CONTAINED_CODE, _reasons(codes)
        is_held = held.view(np.bool_)
        return Judgement(duplicate, similarity, jaccard, reasons, shared, figures, turned, is_held)
