"""The experiments of two papers, repeated on any documents.

**LI**: 李洪奇 et al.: 基于字集特征向量的网页消重改进算法, 计算机工程与应用 2017,53(2):53-57. Of 500
sample pages 250 are copied unchanged and 250 edited; these and 500 other pages are compared with
every sample. Accuracy is the share of the others that match no sample, recall the share of copies
that match their own.

**ZHOU**: 周游, 贾创辉: 大规模文本去重研究, 现代计算机 2019(6). Five classes of 2000 documents with
500 known near-duplicates among them; each document is compared with those before it.

Neither paper states how much was edited. Here :data:`LI_EDITS` and :data:`ZHOU_EDITS` define it; in
LI at most a tenth of a page is in edited sentences (:func:`li_edit`).
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

import attrs

from dedup_middleware.base.options import Options
from dedup_middleware.evaluation.comparers import METHOD_NAMES, Comparer
from dedup_middleware.evaluation.corpus import InputError, SourceDocument
from dedup_middleware.evaluation.edits import edit, split_sentences
from dedup_middleware.evaluation.stream import Arrival, Truth, timed
from dedup_middleware.model.documents import Document
from research.comparing import decide, duplicates, gather, load

_FIRST: Final = ("first-sentences", 0.05)
#: the paper's edits, used in turn: kind and intensity; it often changed first sentences, so they
#: have three turns to one of any other kind
LI_EDITS: Final = (
    ("sentence-order", 0.2),
    ("characters-inserted", 0.01),
    ("words-inserted", 0.01),
    ("sentences-inserted", 0.05),
    _FIRST,
    ("characters-deleted", 0.01),
    ("words-deleted", 0.01),
    ("sentences-deleted", 0.05),
    _FIRST,
    ("characters-changed", 0.01),
    ("words-changed", 0.01),
    ("sentences-changed", 0.05),
    _FIRST,
)
ZHOU_EDITS: Final = (
    ("words-changed", 0.02),
    ("words-deleted", 0.02),
    ("sentence-order", 0.1),
    ("sentences-deleted", 0.05),
    ("agency-note", 0.3),
    ("advert-after", 0.05),
)
LI_SIZES: Final = tuple(range(50, 1001, 50))
#: the paper's table: accuracy and recall in per cent, on its own pages
LI_PUBLISHED: Final = {
    "md5": (99.9, 50.0),
    "charset": (99.9, 99.8),
    "machine-code": (99.9, 99.8),
    "structure-tree": (99.9, 92.6),
    "feature-string": (99.4, 96.4),
}
#: edited copies found of 250, and other pages flagged of 500, read from a scan of the paper
LI_PUBLISHED_COUNTS: Final = {
    "md5": (0, 0),
    "charset": (249, 0),
    "machine-code": (249, 0),
    "structure-tree": (213, 0),
    "feature-string": (232, 3),
}
#: the methods of the paper first
LI_METHODS: Final = (*LI_PUBLISHED, *(name for name in METHOD_NAMES if name not in LI_PUBLISHED))
ZHOU_METHODS: Final = (
    "content",
    "jaccard",
    "simhash",
    "luogang",
    "luogang:zero_sets=False",
    "weighted-simhash",
    *(f"weighted-simhash:{factor}=False" for factor in ("tf", "idf", "length", "title")),
    "weighted-simhash:tf=False idf=False length=False title=False",
)

LIGHT: Final = 0.1  # largest share of a page in edited sentences
DRAWS: Final = 25
_STRIDE: Final = 100_003  # between the seeds of two draws
_SENTENCES: Final = 10

Progress = Callable[[str], None]


@attrs.frozen
class LiRow:
    """One row of the paper's table; shares in per cent, processor seconds for all comparisons."""

    method: str
    identical: int
    edited: int
    copies: int
    flagged: int
    others: int
    seconds: float

    @property
    def accuracy(self) -> float:
        """Share of the other pages that match no sample, in per cent."""
        return 100 * (1 - self.flagged / self.others)

    @property
    def recall(self) -> float:
        """Share of the copies, unchanged or edited, that are found, in per cent."""
        return 100 * (self.identical + self.edited) / self.copies


@attrs.frozen
class LiPages:
    """The pages of the experiment; copy i is of sample i."""

    samples: tuple[Document, ...]
    copies: tuple[Document, ...]
    others: tuple[Document, ...]

    def part(self, samples: int) -> LiPages:
        """Return the experiment with fewer samples; half of their copies are unchanged."""
        half, unchanged = len(self.copies) // 2, samples // 2
        places = [*range(unchanged), *range(half, half + samples - unchanged)]
        return LiPages(
            tuple(self.samples[i] for i in places),
            tuple(self.copies[i] for i in places),
            self.others[:samples],
        )


def _is_article(text: str, min_chars: int) -> bool:
    return len(text) >= min_chars and len(split_sentences(text)) >= _SENTENCES


def touched(before: str, after: str) -> float:
    """Return the share of a text, in characters, in sentences that the edited text lacks.

    >>> touched("一二三。四五六七八九。", "四五六七八九。")
    0.36363636363636365
    """
    kept = {sentence for sentence, _ in split_sentences(after)}
    lost = sum(len(s) for s, _ in split_sentences(before) if s not in kept)
    return lost / len(before) if before else 0.0


def light_edit(text: str, kind: str, intensity: float, seed: int) -> str:
    """Return an edited copy in which at most a tenth of the text is in edited sentences.

    A share of the sentences may be much more of the text if one of them is long, so the draw is
    repeated; if none is light enough, the lightest is used.
    """
    draws = range(DRAWS) if kind.startswith("sentences-") else range(1)
    lightest, best = text, 2.0
    for i in draws:
        edited = edit(text, kind, intensity, seed + _STRIDE * i)
        share = touched(text, edited)
        if share < best:
            lightest, best = edited, share
        if best <= LIGHT:
            break
    return lightest


def li_edit(text: str, turn: int, seed: int) -> str:
    """Return a copy with the edit at ``turn`` in :data:`LI_EDITS`, modulo their number.

    First sentences can't be redrawn: if they exceed a tenth of the text, the next edit is used.
    """
    start = turn % len(LI_EDITS)
    for kind, intensity in (*LI_EDITS[start:], *LI_EDITS[:start]):
        edited = light_edit(text, kind, intensity, seed)
        if (kind, intensity) != _FIRST or touched(text, edited) <= LIGHT:
            break
    return edited


def li_pages(
    documents: Sequence[Document], size: int = 500, min_chars: int = 400, seed: int = 1
) -> LiPages:
    """Draw the pages: ``size`` samples, as many copies, the second half edited, and as many others.

    The paper took whole articles, so short documents are left out: one of a few sentences is a
    large part of the page, and a page that differs in a large part is no near-duplicate.

    :param min_chars: least characters of a page; it also needs ten sentences
    :raises InputError: too few documents
    """
    distinct = {d.text: d for d in documents if _is_article(d.text or "", min_chars)}
    if len(distinct) < 2 * size:
        raise InputError(
            f"{len(distinct)} different documents of at least {min_chars} characters and "
            f"{_SENTENCES} sentences: give {2 * size}, or lower --size or --min-chars"
        )
    drawn = list(distinct.values())
    random.Random(seed).shuffle(drawn)
    samples, others = drawn[:size], drawn[size : 2 * size]
    copies = []
    for i, sample in enumerate(samples):
        text = sample.text or ""
        if i >= size // 2:
            text = li_edit(text, i, seed + i)
        copies.append(attrs.evolve(sample, key=f"{sample.key}#copy", text=text))
    return LiPages(tuple(samples), tuple(copies), tuple(others))


def li(
    pages: LiPages, comparers: Mapping[str, Comparer], progress: Progress | None = None
) -> list[LiRow]:
    """Compute the paper's table for some methods."""
    rows = []
    for name, comparer in comparers.items():
        if progress is not None:
            progress(name)
        first = comparer.sign(pages.samples[0])
        duplicates(comparer, first, gather(comparer, [first]))
        started = time.process_time()
        samples = gather(comparer, [comparer.sign(page) for page in pages.samples])
        # All pairs, as in the paper, each judged alone: what other samples share has no influence.
        found = [
            bool(duplicates(comparer, comparer.sign(page), samples)[i])
            for i, page in enumerate(pages.copies)
        ]
        flagged = sum(
            bool(duplicates(comparer, comparer.sign(page), samples).any()) for page in pages.others
        )
        half = len(found) // 2
        rows.append(
            LiRow(
                name,
                sum(found[:half]),
                sum(found[half:]),
                len(found),
                flagged,
                len(pages.others),
                time.process_time() - started,
            )
        )
    return rows


def li_sizes(
    pages: LiPages,
    comparers: Mapping[str, Comparer],
    sizes: Sequence[int] = LI_SIZES,
    progress: Progress | None = None,
    whole: Sequence[LiRow] = (),
) -> list[dict[str, float | str]]:
    """Return accuracy and recall in per cent, and processor seconds, by number of pages (samples
    and their copies together).

    :param whole: the rows for all pages, if known
    """
    table: list[dict[str, float | str]] = []
    for size in sizes:
        if size > 2 * len(pages.samples):
            continue

        def describe(name: str, size: int = size) -> None:
            if progress is not None:
                progress(f"{name}, {size} pages")

        known = whole and size == 2 * len(pages.samples)
        rows = whole if known else li(pages.part(size // 2), comparers, describe)
        table += [
            {
                "method": row.method,
                "pages": size,
                "accuracy_percent": row.accuracy,
                "recall_percent": row.recall,
                "seconds": row.seconds,
            }
            for row in rows
        ]
    return table


@attrs.frozen
class ZhouRow:
    """One row of the table: precision and recall for planted near-duplicates, and processor seconds
    for the whole stream."""

    method: str
    documents: int
    planted: int
    dropped: int
    right: int
    found: int
    seconds: float

    @property
    def precision(self) -> float:
        """Share of the dropped documents that are near-duplicates."""
        return self.right / self.dropped if self.dropped else 0.0

    @property
    def recall(self) -> float:
        """Share of the planted near-duplicates that are dropped."""
        return self.found / self.planted if self.planted else 0.0

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall."""
        both = self.precision + self.recall
        return 2 * self.precision * self.recall / both if both else 0.0


def zhou_documents(
    documents: Sequence[SourceDocument],
    classes: int = 5,
    size: int = 2000,
    planted: int = 500,
    seed: int = 1,
) -> list[Arrival]:
    """Draw the documents: ``classes`` times ``size``, ``planted`` of them edited copies of others.

    Classes are the largest categories of the documents, or all if there are fewer. Documents
    without categories are cut into ``classes`` slices of equal length in the given order, so that
    the same files and seed give the same classes. A copy comes after its original.

    :raises InputError: too few documents
    """
    by_category: dict[str, list[Document]] = {}
    unnamed = [source.document for source in documents if not source.category]
    for i in range(classes if unnamed else 0):
        first, last = (len(unnamed) * place // classes for place in (i, i + 1))
        by_category[f"slice {i + 1}"] = unnamed[first:last]
    for source in documents:
        if source.category:
            by_category.setdefault(source.category, []).append(source.document)
    largest = sorted(by_category.items(), key=lambda entry: (-len(entry[1]), entry[0]))[:classes]
    rng = random.Random(seed)
    share = planted // len(largest)
    arrivals: list[Arrival] = []
    for category, members in largest:
        distinct = list({d.text: d for d in members if d.text}.values())
        wanted = size - share
        if len(distinct) < max(wanted, share):
            raise InputError(
                f"class {category!r} has {len(distinct)} different documents: give {wanted}, "
                f"or lower --size"
            )
        rng.shuffle(distinct)
        originals = distinct[:wanted]
        arrivals += [Arrival(d, d.key) for d in originals]
        for i, original in enumerate(originals[:share]):
            kind, intensity = ZHOU_EDITS[i % len(ZHOU_EDITS)]
            text = edit(original.text or "", kind, intensity, seed + i)
            copy = attrs.evolve(original, key=f"{original.key}#{kind}", text=text)
            arrivals.append(Arrival(copy, original.key))
    rng.shuffle(arrivals)
    # If a copy is drawn before its original, the two are exchanged.
    seen: dict[str, int] = {}
    for i, arrival in enumerate(arrivals):
        first = seen.setdefault(arrival.story, i)
        if first != i and arrival.document.key == arrival.story:
            arrivals[first], arrivals[i] = arrival, arrivals[first]
    return arrivals


def zhou(
    arrivals: Sequence[Arrival],
    comparers: Mapping[str, Comparer],
    options: Options,
    progress: Progress | None = None,
) -> list[ZhouRow]:
    """Compute the table for some methods; natural duplicates (see :mod:`.stream`) are right."""
    copies = {a.document.key for a in arrivals if a.document.key != a.story}
    truth = Truth(arrivals)
    rows = []
    for name, comparer in comparers.items():
        if progress is not None:
            progress(name)
        load(comparer, arrivals, options)
        decisions, seconds = timed(partial(decide, comparer, arrivals, options))
        result = truth.score(decisions, name, "arrival", 1, seconds)
        found = sum(d.match is not None and d.arrival.document.key in copies for d in decisions)
        rows.append(
            ZhouRow(name, len(arrivals), len(copies), result.dropped, result.right, found, seconds)
        )
    return rows
