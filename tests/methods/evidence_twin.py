"""The rule by evidence in NumPy, slowly: what the kernel has to give."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.methods.base import (
    COMMON,
    CONTAINED,
    EXACT,
    LONG,
    OTHER_FIGURES,
    OTHER_TITLE,
    SAME_HOST,
    TOO_LITTLE,
    TOO_SHORT,
    TURNED,
    Judgement,
)
from dedup_middleware.methods.content import ContentByEvidence, is_exact
from dedup_middleware.model.fingerprint import Fingerprint
from dedup_middleware.signature import evidence

_REASONS = (
    EXACT, TOO_SHORT, TOO_LITTLE, OTHER_FIGURES, TURNED, OTHER_TITLE, COMMON, OTHER_FIGURES
)  # fmt: skip


def similarity_of(
    found: NDArray[np.int64], words: int, numerals: int, measure: str = "containment"
) -> NDArray[np.float64]:
    """The largest threshold at which the new words of a page are few and scattered enough.

    1 where nothing is new; at a similarity of s a page is a duplicate by every threshold up to s.

    :param found: int64[n, 14], what `examine` returns
    """
    counted = max(1, min(words, LONG) if measure == "novelty" else words)
    is_report = counted >= 250 and numerals >= 8
    share = (1.25 if is_report else 1.0) * counted
    row = min(13.5 if is_report else 12, max(4, 0.04 * share))
    new, frame = found[:, evidence.NEW] / 2, found[:, evidence.NEW_FRAME] / 2
    used = np.maximum.reduce(
        [
            new / (0.12 * share),
            (new + frame) / (0.16 * share),
            found[:, evidence.LONGEST] / 2 / row,
            frame / 16,
            frame / max(4, 0.1 * counted),
            found[:, evidence.LONGEST_OF_ALL] / 2 / 16,
        ]
    )
    return np.asarray(np.maximum(0.0, 1.0 - (1.0 - 0.8) * used), np.float64)


def weigh(
    method: ContentByEvidence,
    page: Fingerprint,
    candidates: NDArray[np.void],
    found: NDArray[np.int64],
    figures: NDArray[np.int64],
    turned: NDArray[np.int64],
    compared: int,
) -> Judgement:
    """Judge a page by what was counted of each candidate."""
    wording = page.wording
    exact = is_exact(page, candidates)
    mistaken = found[:, evidence.FALSE_POSITIVES] / 1e6
    share = found[:, evidence.COMMON] / max(1, compared)
    share = np.clip((share - mistaken) / np.maximum(1e-6, 1.0 - mistaken), 0.0, 1.0)
    share[exact] = 1.0
    spread = np.sqrt(mistaken * compared) / np.maximum(1e-6, 1.0 - mistaken)
    sizes = candidates["size"].astype(np.int64)
    shared = np.minimum(np.rint(share * page.size).astype(np.int64), sizes)
    held = (sizes >= method.min_features) & (page.size > sizes) & ~exact
    held &= share * page.size + spread >= 0.97 * sizes
    held &= share * page.size - 2 * spread >= 0.8 * sizes
    jaccard = shared / np.maximum(1, page.size + sizes - shared)
    # Words that are said again and again make a page no longer.
    words = min(wording.words, 2 * (page.size + wording.words - len(wording.order)))
    similarity = similarity_of(found, words, wording.numerals, method.measure)
    lacking = (1.0 - share) / (1.0 - (0.8 if words < 60 else 0.7))
    similarity = np.minimum(similarity, np.maximum(0.0, 1.0 - (1.0 - 0.8) * lacking))
    if method.measure == "jaccard":
        similarity = np.minimum(similarity, jaccard)
    if wording.words < 24:
        similarity[(sizes >= 58) & (found[:, evidence.COMMON] < compared)] = 0.0
    similarity[exact] = 1.0
    changed = found[:, evidence.NEW_VALUES] > 0
    if wording.numerals > 8:
        changed |= found[:, evidence.LOOSE_VALUES] > 0
    is_full = page.size - sizes <= found[:, evidence.NEW_FRAME] / 2
    changed |= found[:, evidence.RENAMED] + is_full > 3
    changed |= found[:, evidence.OTHER_SUBJECT] > 2
    lacking, longer = found[:, evidence.OTHER_WORD], abs(page.size - sizes)
    says_other = ((longer == 0) & (lacking > 0) | (longer == 1) & (lacking > 3)) & (words >= 60)
    neighbours, titled = _same_host(page, candidates)
    changed |= neighbours & (found[:, evidence.PUT_IN] > 0)
    title_differs = found[:, evidence.NEW_TITLE] > 0.25 * len(wording.title)
    titles = candidates["title"]
    is_other_subject = (titles != page.title) & (found[:, evidence.NEW_SUBJECT] > 0)
    is_other_subject &= page.title != 0
    strict = (similarity >= SAME_HOST) & (page.size >= LONG) & ~exact
    inner, outer = found[:, evidence.NEW] > 0, found[:, evidence.NEW_FRAME] > 0
    more = abs(sizes - page.size)
    shorter = np.minimum(page.size, sizes)
    slot = np.where(shorter < 64, 4, 1)
    replaced = (more == 0) | ((more <= slot) & (sizes - shared >= 3))
    template = (inner | outer) & replaced & (shorter < LONG)
    template |= outer & ~inner & (more <= 4) & (sizes > shared) & (shorter < LONG)
    columns = (
        exact & ~title_differs & ~(titled & (page.size < LONG)),
        (sizes < method.min_features) | (page.size < method.min_features),
        similarity < method.threshold,
        changed | (figures > 0),
        (turned > 0) | (found[:, evidence.EXCHANGED] > 0),
        title_differs | is_other_subject | (titled & ~strict),
        neighbours & template,
        says_other,
    )
    reasons = [
        next((reason for holds, reason in zip(row, _REASONS, strict=True) if holds), CONTAINED)
        for row in zip(*(column.tolist() for column in columns), strict=True)
    ]
    if np.count_nonzero(neighbours) >= 3:
        _leave_out_common(method.threshold, reasons, similarity, neighbours)
    duplicate = np.array([reason in (EXACT, CONTAINED) for reason in reasons], np.bool_)
    held &= (figures == 0) & (turned == 0) & (found[:, evidence.EXCHANGED] == 0)
    return Judgement(duplicate, similarity, jaccard, tuple(reasons), shared, figures, held)


def _leave_out_common(
    threshold: float,
    reasons: list[str],
    similarity: NDArray[np.float64],
    neighbours: NDArray[np.bool_],
) -> None:
    """Keep what is alike only in what three other pages of the host say too."""
    duplicates = (EXACT, CONTAINED)
    rows = [row for row in np.flatnonzero(neighbours) if reasons[row] not in duplicates]
    others = similarity[rows].tolist()
    if len(others) < 3:
        return
    common = sorted(others, reverse=True)[3 - 1]
    for row, reason in enumerate(reasons):
        rest = (similarity[row] - common) / max(1e-9, 1.0 - common)
        if reason == CONTAINED and rest < threshold:
            reasons[row] = COMMON


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
