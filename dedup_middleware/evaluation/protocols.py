"""The experiments of two papers, repeated on any documents.

**LI**: 李洪奇 et al.: 基于字集特征向量的网页消重改进算法, 计算机工程与应用 2017,53(2):53-57. 500
sample pages; 250 of them copied unchanged, 250 edited, and 500 other pages, each compared with
every sample. Accuracy is the share of the others that are like no sample, recall the share of the
copies that are like their own.

**ZHOU**: 周游, 贾创辉: 大规模文本去重研究, 现代计算机 2019(6). Five classes of 2000 documents
with 500 near-duplicates known among them; each document meets those before it.

Neither paper says how much was edited. Here :data:`LI_EDITS` and :data:`ZHOU_EDITS` do.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import attrs

from dedup_middleware.evaluation.comparers import Comparer, Readers, SignatureComparer
from dedup_middleware.evaluation.corpus import InputError, SourceDocument
from dedup_middleware.evaluation.edits import edit, split_sentences
from dedup_middleware.evaluation.stream import Arrival, Truth, compare_stream, timed
from dedup_middleware.fingerprint import Document
from dedup_middleware.options import Options

#: the paper's edits: kind and intensity, in turn
LI_EDITS: Final = (
    ("sentence-order", 0.2),
    ("characters-inserted", 0.01),
    ("characters-deleted", 0.01),
    ("characters-changed", 0.01),
    ("words-inserted", 0.01),
    ("words-deleted", 0.01),
    ("words-changed", 0.01),
    ("sentences-inserted", 0.05),
    ("sentences-deleted", 0.05),
    ("sentences-changed", 0.05),
    ("first-sentences", 0.05),
)
ZHOU_EDITS: Final = (
    ("words-changed", 0.02),
    ("words-deleted", 0.02),
    ("sentence-order", 0.1),
    ("sentences-deleted", 0.05),
    ("agency-note", 0.3),
    ("advert-after", 0.05),
)
LI_METHODS: Final = (
    "md5",
    "charset",
    "machine-code",
    "structure-tree",
    "feature-string",
    "content",
)
LI_TIMES: Final = (50, 100, 200, 500, 1000)

_SENTENCES: Final = 10

Progress = Callable[[str], None]


@attrs.frozen
class LiRow:
    """One line of the paper's table; shares in percent, seconds for all comparisons."""

    method: str
    identical: int
    edited: int
    copies: int
    flagged: int
    others: int
    seconds: float

    @property
    def accuracy(self) -> float:
        """Share of the other pages that are like no sample, in percent."""
        return 100 * (1 - self.flagged / self.others)

    @property
    def recall(self) -> float:
        """Share of the copies, unchanged or edited, that are found, in percent."""
        return 100 * (self.identical + self.edited) / self.copies


@attrs.frozen
class LiPages:
    """The pages of the experiment; copy i is of sample i."""

    samples: tuple[Document, ...]
    copies: tuple[Document, ...]
    others: tuple[Document, ...]


def _is_article(text: str, min_chars: int) -> bool:
    return len(text) >= min_chars and len(split_sentences(text)) >= _SENTENCES


def li_pages(
    documents: Sequence[Document], size: int = 500, min_chars: int = 400, seed: int = 1
) -> LiPages:
    """Draw the pages: ``size`` samples, as many copies of which the second half is edited, and
    as many others.

    The paper took whole articles, so short documents are left out: of a few sentences one is a
    large part, and a page of which a large part is another is no near-duplicate.

    :param min_chars: characters of a page, at least; it has ten sentences too
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
            kind, intensity = LI_EDITS[i % len(LI_EDITS)]
            text = edit(text, kind, intensity, seed + i)
        copies.append(attrs.evolve(sample, key=f"{sample.key}#copy", text=text))
    return LiPages(tuple(samples), tuple(copies), tuple(others))


def li(
    pages: LiPages, comparers: Mapping[str, Comparer], progress: Progress | None = None
) -> list[LiRow]:
    """The paper's table for some methods."""
    rows = []
    for name, comparer in comparers.items():
        if progress is not None:
            progress(name)
        comparer.compare(comparer.sign(pages.samples[0]), comparer.sign(pages.samples[0]))
        started = time.perf_counter()
        samples = [comparer.sign(page) for page in pages.samples]
        found = [
            bool(comparer.flags(comparer.sign(page), samples)[i])
            for i, page in enumerate(pages.copies)
        ]
        flagged = sum(
            bool(comparer.flags(comparer.sign(page), samples).any()) for page in pages.others
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
                time.perf_counter() - started,
            )
        )
    return rows


def li_times(
    documents: Sequence[Document],
    comparers: Mapping[str, Comparer],
    sizes: Sequence[int] = LI_TIMES,
    progress: Progress | None = None,
) -> list[dict[str, float | str]]:
    """Seconds to sign n pages and to compare each with all before it."""
    table: list[dict[str, float | str]] = []
    for name, comparer in comparers.items():
        row: dict[str, float | str] = {"method": name}
        for size in sizes:
            if size > len(documents):
                continue
            if progress is not None:
                progress(f"{name}, {size} pages")
            started = time.perf_counter()
            signed = []
            for document in documents[:size]:
                signed.append(comparer.sign(document))
                comparer.flags(signed[-1], signed[:-1])
            row[str(size)] = time.perf_counter() - started
        table.append(row)
    return table


@attrs.frozen
class ZhouRow:
    """One line of the table: precision and recall of the planted near-duplicates."""

    method: str
    documents: int
    planted: int
    dropped: int
    right: int
    found: int
    seconds: float

    @property
    def precision(self) -> float:
        """Share of the dropped documents that were near-duplicates."""
        return self.right / self.dropped if self.dropped else 0.0

    @property
    def recall(self) -> float:
        """Share of the planted near-duplicates that were dropped."""
        return self.found / self.planted if self.planted else 0.0

    @property
    def f1(self) -> float:
        """Harmonic mean of the two."""
        both = self.precision + self.recall
        return 2 * self.precision * self.recall / both if both else 0.0


def zhou_documents(
    documents: Sequence[SourceDocument],
    classes: int = 5,
    size: int = 2000,
    planted: int = 500,
    seed: int = 1,
) -> list[Arrival]:
    """The documents: ``classes`` times ``size``, ``planted`` of them edited copies of others.

    Classes are the documents' categories, the largest ones; of fewer categories all are taken.
    A copy comes somewhere behind its original.

    :raises InputError: too few documents
    """
    by_category: dict[str, list[Document]] = {}
    for source in documents:
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
    # The original first: of the two, the one that came first by lot is exchanged for it.
    seen: dict[str, int] = {}
    for i, arrival in enumerate(arrivals):
        first = seen.setdefault(arrival.story, i)
        if first != i and arrival.document.key == arrival.story:
            arrivals[first], arrivals[i] = arrival, arrivals[first]
    return arrivals


def weight_ablation(options: Options) -> dict[str, Comparer]:
    """Weighted SimHash, whole and with each factor of its weight left out."""
    from dedup_middleware.methods.weighted import WeightedSimHash

    readers = Readers(options)
    whole = WeightedSimHash()
    variants = {
        whole.name: whole,
        f"{whole.name} without tf": attrs.evolve(whole, tf=False),
        f"{whole.name} without idf": attrs.evolve(whole, idf=False),
        f"{whole.name} without length": attrs.evolve(whole, length=False),
        f"{whole.name} without title": attrs.evolve(whole, title=False),
    }
    return {name: SignatureComparer(method, readers) for name, method in variants.items()}


def zhou(
    arrivals: Sequence[Arrival],
    comparers: Mapping[str, Comparer],
    options: Options,
    progress: Progress | None = None,
) -> list[ZhouRow]:
    """The table for some methods; natural duplicates (see :mod:`.stream`) are right as well."""
    copies = {a.document.key for a in arrivals if a.document.key != a.story}
    truth = Truth(arrivals)
    rows = []
    for name, comparer in comparers.items():
        if progress is not None:
            progress(name)
        decisions, seconds = timed(lambda c=comparer: compare_stream(c, arrivals, options))  # type: ignore[misc]
        result = truth.score(decisions, name, "arrival", 1, seconds)
        found = sum(d.match is not None and d.arrival.document.key in copies for d in decisions)
        rows.append(
            ZhouRow(name, len(arrivals), len(copies), result.dropped, result.right, found, seconds)
        )
    return rows
