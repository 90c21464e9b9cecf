"""The method ``content``: its default rule by evidence, and its rule by sketches.

docs/how-it-decides.md says what the rules are for and what they miss; :mod:`.content_rule` has
their kernels.

**By evidence**, ``DEDUP_EVIDENCE=filter``: the evidence of a stored page shows which words of the
new page it holds (see :mod:`dedup_middleware.signature.evidence`). The limits on other words are
proportional to 1 - threshold; the **similarity** of two pages is the largest threshold whose limits
they meet.

**By sketches**, ``DEDUP_EVIDENCE=sketch``: similarity is estimated from 512 bits a page. J is the
Jaccard index of two sketches, a and b are the numbers of shingles of the new and the stored page,
and |A and B| = J (a + b) / (1 + J).

* **containment** = |A and B| / a: the share of the *new* page's shingles that the stored page holds
* **novelty**: containment, but above 128 shingles the number of new ones allowed no longer grows
* **jaccard** = J: an excerpt of a stored page, which the other two drop, is kept

The standard error of an estimate is subtracted first. Below 128 shingles the share that may be new
shrinks with the size of the page.
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
# Limits for a second headline of the same story: it has at least _HEADLINE words, of which at most
# one in _NEW is new, or _LONGER_HEADLINE words and one in _NEW_OF_LONGER. The page is a plain
# excerpt or has at least _FIGURES numerals. A shortened page has at most the share _CUT of the
# stored page's shingles.
_FIGURES, _HEADLINE, _NEW = 8, 6, 4
_LONGER_HEADLINE, _NEW_OF_LONGER = 8, 3
_CUT: Final = 0.9
_DISTINCT: Final = 0.9  # with a smaller share of distinct shingles, repeats are not counted


def is_exact(page: Fingerprint, candidates: Records) -> NDArray[np.bool_]:
    """Whether each candidate has the same normalised text: equal hash and size; bool[n]."""
    same = candidates["exact"] == np.uint64(page.exact)
    return np.asarray(same & (candidates["size"] == np.uint32(page.size)), np.bool_)


def required(threshold: float, size: int, measure: str = "containment") -> float:
    """Similarity that makes a page of ``size`` shingles a duplicate.

    >>> required(0.8, 1000), required(0.8, 64), round(required(0.8, 1280, "novelty"), 3)
    (0.8, 0.9, 0.98)
    """
    share = min(1.0, size / LONG)
    if measure == "novelty" and size > LONG:
        share = LONG / size
    return 1.0 - (1.0 - threshold) * share


def _compared(page: Fingerprint, candidates: Records) -> tuple[NDArray[np.int64], ...]:
    """Numbers of conflicting figures and of opposite clauses, for each candidate."""
    from dedup_middleware.signature.comparison import differing_places

    records = candidates.view(np.uint8).reshape(len(candidates), CONTENT.itemsize)
    return differing_places(records, page.figures, _FIGURES_AT, page.clauses, _CLAUSES_AT)


def _settle_spellings(
    page: Fingerprint, candidates: Records, payloads: Payloads, found: NDArray[np.int64]
) -> NDArray[np.bool_] | None:
    """Clear ``OTHER_WORD`` of candidates whose word the new page only spells otherwise.

    One other word in eight is taken for a spelling by chance, of one in eighty only one or two
    shingles are lacking, and names are not looked up. So a word, also a name, is another one if
    stored pages differ from each other at its place, too: their template leaves it open.

    :returns: ``alone`` of the :class:`.Judgement`
    """
    from dedup_middleware.signature.evidence import COMMON, OTHER_AT, OTHER_WORD
    from dedup_middleware.signature.exchanged import TRIPLE
    from dedup_middleware.signature.spelling import OtherWords

    replaced = found[:, OTHER_WORD] != 0
    if not replaced.any():
        return None
    lacking = len(page.wording.order) - found[:, COMMON]
    # Where the stored page seems to go on behind the word, it counts as put in: once in 256 cases.
    few = (lacking > 0) & (lacking <= TRIPLE) & (candidates["size"] == page.size)
    rows = np.flatnonzero(replaced | few)
    counts, places = found[rows, OTHER_WORD], found[rows, OTHER_AT]
    is_other, same = OtherWords(page.wording), counts <= 0
    for i in np.flatnonzero(counts > 0).tolist():
        same[i] = not is_other(payloads[rows[i]], int(places[i]))
    firsts, is_open = places >> TRIPLE, np.zeros(len(rows), np.bool_)
    # A longer or shorter version of the same report may have the word that the new page spells.
    longer = candidates["size"][rows].astype(np.int64) - page.size
    siblings = (counts != 0) & (candidates["key"][rows] != page.key_hash) & (np.abs(longer) <= 1)
    texts = candidates["simhash"][rows]
    for i in np.flatnonzero(same).tolist():
        # One shingle in sixteen is held by mistake, so the first one lacking may be the next.
        near = siblings & ((np.abs(firsts - firsts[i]) < TRIPLE) | (counts[i] == 0))
        is_open[i] = bool((texts[near] != texts[i]).any())
    found[rows[same & ~is_open], OTHER_WORD] = np.minimum(counts[same & ~is_open], 0)
    found[rows[is_open], OTHER_WORD] = np.maximum(counts[is_open], 1)
    alone = np.zeros(len(candidates), np.bool_)
    alone[rows[is_open]] = True
    return alone


def _reasons(codes: NDArray[np.int64]) -> tuple[str, ...]:
    return tuple([REASONS[code] for code in codes.tolist()])


@attrs.frozen
class Content(Method):
    """The rule by sketches: duplicate by estimated similarity, unless figures or clauses conflict.

    :param measure: ``containment``, ``jaccard`` or ``novelty``
    """

    name: ClassVar[str] = "content"
    settles_exact: ClassVar[bool] = True
    threshold: float
    scan_distance: int
    min_features: int
    sketch_bits: int = 1  # bits of each minimum in the sketch
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
        return Judgement(duplicate, similarity, jaccard, _reasons(codes), shared, figures)

    def bucket_key_array(self, page: Fingerprint) -> BucketKeys:
        if page.simhash is None or page.size < self.min_features:
            return BucketKeys.of(self.bucket_keys(page))
        from dedup_middleware.methods.content_rule import whole_page  # numba stays lazy

        return BucketKeys(whole_page(page.key_hash, page.simhash, page.bands, page.anchors))

    def probes(self, page: Fingerprint) -> tuple[BucketKey, ...]:
        """Buckets of the SimHash with one volatile bit flipped."""
        if not page.volatile or page.simhash is None or self.is_short(page):
            return ()
        return probe_bucket_keys(page.simhash, page.volatile)


@attrs.frozen
class ContentByEvidence(Content):
    """The rule by evidence, ``DEDUP_EVIDENCE=filter``."""

    keeps_payload: ClassVar[bool] = True
    fields: ClassVar[tuple[str, ...]] = tuple(n for n in CONTENT.names or () if n != "sketch")

    def judge(self, page: Fingerprint, candidates: Records, payloads: Payloads = ()) -> Judgement:
        """Judge a page against candidates by their evidence.

        :param payloads: evidence of each candidate; one without evidence can only be an exact copy
        """
        from dedup_middleware.signature.evidence import (
            COLUMNS,
            COMMON,
            examine,
        )
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
        alone = _settle_spellings(page, candidates, payloads, found)
        if page.size < _DISTINCT * compared:
            # Count distinct shingles only: a repeated passage must not count as often as it occurs.
            distinct = np.unique(wording.order)
            words = len(distinct) + wording.words - compared
            once = attrs.evolve(
                NO_WORDING, order=distinct, words=words, word_hashes=np.zeros(words, np.uint64)
            )
            compared = len(distinct)
            found[:, COMMON] = examine(once, payloads)[:, COMMON]
        retitled = self._retitled(page, candidates, 2 * found[:, COMMON] > compared)
        if not len(retitled):
            judged = self.weigh(page, candidates, found, figures, turned, compared)
            return attrs.evolve(judged, alone=alone)
        new = compare_title(wording, [payloads[i] for i in retitled.tolist()])
        candidates = candidates.copy()
        second = self._are_second(page, candidates["size"][retitled], new, found[retitled])
        # Neither a title without a new word nor a second headline of the story is another title.
        candidates["title"][retitled[(new[:, NEW_IN_TITLE] == 0) | second]] = page.title
        judged = self.weigh(page, candidates, found, figures, turned, compared)
        judged = attrs.evolve(judged, alone=alone)
        if wording.words < SHORT:  # `examine` has compared the words of its title
            return judged
        other = (new[:, NEW_IN_TITLE] > 0) & (new[:, NEW_IN_TEXT] > 0) & ~second
        return self._keep_other_subject(retitled[other], judged)

    @staticmethod
    def _retitled(
        page: Fingerprint, candidates: Records, alike: NDArray[np.bool_]
    ) -> NDArray[np.intp]:
        """Positions of similar candidates that are pages of the same host under another title."""
        if not page.host or not page.title or not len(page.wording.headline):
            return np.empty(0, np.intp)
        titles = candidates["title"]
        alike = alike & (candidates["host"] == page.host) & (candidates["key"] != page.key_hash)
        return np.flatnonzero(alike & (titles != page.title) & (titles != 0))

    @staticmethod
    def _are_second(
        page: Fingerprint,
        sizes: NDArray[np.uint32],
        new: NDArray[np.int64],
        found: NDArray[np.int64],
    ) -> NDArray[np.bool_]:
        """Whether the title may be a second headline for the story of each candidate; bool[n].

        docs/how-it-decides.md has the conditions (Text of the site). A guide or a product page has
        few numerals, and its title may name its subject in another form (kettles, kettle).

        :param sizes: shingles of the candidates
        :param new: result of :func:`~dedup_middleware.signature.titles.compare_title`
        :param found: result of :func:`~dedup_middleware.signature.evidence.examine`
        """
        from dedup_middleware.signature.evidence import COMMON, OTHER_WORD
        from dedup_middleware.signature.titles import AS_LONG, NEW_IN_TITLE, REPLACED
        from dedup_middleware.text.wording import SHORT

        wording = page.wording
        words = len(wording.headline)
        share = _NEW_OF_LONGER if words >= _LONGER_HEADLINE else _NEW
        few = (share * new[:, NEW_IN_TITLE] <= words) & (new[:, REPLACED] == 0)
        few &= words >= _HEADLINE and wording.words >= SHORT
        few &= (wording.numerals >= _FIGURES) | (found[:, COMMON] == len(wording.order))
        few &= found[:, OTHER_WORD] <= 0
        edited = (new[:, AS_LONG] == 0) & (page.size >= LONG)
        few &= (page.size <= _CUT * sizes) | edited
        return np.asarray(few, np.bool_)

    @staticmethod
    def _keep_other_subject(others: NDArray[np.intp], judged: Judgement) -> Judgement:
        """Keep a page whose text has a word of its title that the candidates at `others` lack."""
        reasons, duplicate = list(judged.reasons), judged.duplicate.copy()
        for i in others.tolist():
            if reasons[i] == REASONS[CONTAINED_CODE]:
                reasons[i], duplicate[i] = REASONS[OTHER_TITLE_CODE], False
        return attrs.evolve(judged, duplicate=duplicate, reasons=tuple(reasons))

    @staticmethod
    def _are_equal(page: Fingerprint, candidates: Records) -> bool:
        """Whether a page is long and all candidates have its text, so evidence adds nothing."""
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
        """Apply the rule to the counts of each candidate.

        :param candidates: CONTENT[n], contiguous
        :param found: int64[n, 17] of :func:`~dedup_middleware.signature.evidence.examine`
        :param figures, turned: int64[n] of
            :func:`~dedup_middleware.signature.comparison.differing_places`
        :param compared: number of shingles among which the common ones were counted: all of the
            page, or only the distinct ones if many are repeated
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
        return Judgement(duplicate, similarity, jaccard, reasons, shared, figures, is_held)
