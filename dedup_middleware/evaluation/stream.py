"""Measures methods on a stream: each document, as it arrives, against those kept so far.

A drop is **right** if a kept document reports the same event, otherwise a **loss**; a document kept
although its story is kept already is an **extra** copy. A loss is final and an extra copy only
costs space, so the cost is ``extras + 10 * losses``.

Stories are known for planted documents (:func:`planted`) and labelled ones. Natural duplicates have
no label: their drop is right too if the matching document holds 95 % of their shingles, counted
exactly, and all their figures.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import attrs

from dedup_middleware.base.options import Options
from dedup_middleware.core.deduplicator import Deduplicator
from dedup_middleware.evaluation.edits import edit
from dedup_middleware.model.documents import Document
from dedup_middleware.text.shingle import Shingler

LOSS_COST: Final = 10
ORDERS: Final = ("arrival", "reversed", "shuffled")
HELD: Final = 0.95  # share of a natural duplicate's shingles that the kept document has
#: kind and intensity of edits for planted copies, which leave the story the same
COPIES: Final = (
    ("agency-note", 0.3),
    ("timestamps", 0.3),
    ("characters-changed", 0.005),
    ("words-changed", 0.01),
    ("words-deleted", 0.02),
    ("sentence-order", 0.1),
    ("full-width", 1.0),
    ("truncation", 0.1),
)
#: kind and intensity of edits for planted documents that are different pages
OTHERS: Final = (("figures-changed", 0.5),)

Progress = Callable[[int], None]


@attrs.frozen
class Arrival:
    """A document of the stream; documents with the same ``story`` are copies."""

    document: Document
    story: str


@attrs.frozen
class Decision:
    """The decision on a document: the key of the kept document it was dropped for, or None.

    ``number`` is the page id of the kept document, its own or that of the match, if there is one.
    """

    arrival: Arrival
    match: str | None
    number: int | None = None


@attrs.frozen
class StreamResult:
    """The result of a method on a stream."""

    method: str
    order: str
    workers: int
    documents: int
    dropped: int
    right: int
    losses: int
    extras: int
    seconds: float  # of processor time for one worker, by the clock for several
    lost: tuple[tuple[str, str], ...] = attrs.field(repr=False)  # keys of losses and their matches

    @property
    def cost(self) -> int:
        """Extra copies plus ten times the losses."""
        return self.extras + LOSS_COST * self.losses


def planted(documents: Sequence[Document], share: float, seed: int) -> list[Arrival]:
    """Return a stream in which an edited copy follows a share of the documents; a quarter of the
    copies have other figures, and so are different pages."""
    rng = random.Random(seed)
    later: list[tuple[float, int, Arrival]] = []
    for i, document in enumerate(documents):
        later.append((i, 0, Arrival(document, document.key)))
        if rng.random() >= share:
            continue
        other = rng.random() < 0.25
        kinds = OTHERS if other else COPIES
        kind, intensity = kinds[int(rng.random() * len(kinds))]
        text = edit(document.text or "", kind, intensity, seed + i)
        place = i + rng.random() * (len(documents) - i)
        if other and text == document.text:
            continue  # it has no figure to change
        key = f"{document.key}#{kind}"
        story = key if other else document.key
        later.append((place, 1, Arrival(attrs.evolve(document, key=key, text=text), story)))
    return [arrival for _, _, arrival in sorted(later, key=lambda entry: entry[:2])]


def reordered(arrivals: Sequence[Arrival], order: str, seed: int = 1) -> list[Arrival]:
    """Return the stream in one of :data:`ORDERS`."""
    if order not in ORDERS:
        raise ValueError(f"order={order!r} is unknown: use one of {', '.join(ORDERS)}")
    result = list(arrivals)
    if order == "shuffled":
        random.Random(seed).shuffle(result)
    return result[::-1] if order == "reversed" else result


def deduplicate(
    options: Options, arrivals: Iterable[Arrival], progress: Progress = lambda _: None
) -> list[Decision]:
    """Pass a stream through the real :class:`.Deduplicator`."""

    async def work() -> list[Decision]:
        decisions = []
        async with Deduplicator(options) as dedup:
            for arrival in arrivals:
                verdict = await dedup.decide(arrival.document)
                match, number = None, None
                if verdict.is_duplicate and verdict.match is not None:
                    number = verdict.match.number
                    match = verdict.match.key or f"page {number}"
                else:
                    await dedup.commit(verdict)
                    if verdict.claim is not None:
                        number = dedup.page_id_of(verdict.claim)
                decisions.append(Decision(arrival, match, number))
                progress(1)
        return decisions

    return asyncio.run(work())


def with_own_index(options: Options, url: str) -> Options:
    """Return the options with an index for one measurement: its namespace, which only Redis has,
    and the index that a crawl moves away from belong to the index of the crawl."""
    return attrs.evolve(
        options, index_url=url, namespace="dedup", former_index_url="", former_namespace=""
    )


@contextmanager
def worker_pool(workers: int, options: Options) -> Iterator[ProcessPoolExecutor]:
    """Start processes for :func:`deduplicate_in_pool`, and load their kernels."""
    memory = attrs.evolve(with_own_index(options, "memory:"), journal="off")
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        list(pool.map(deduplicate, [memory] * workers, [()] * workers))
        yield pool


def deduplicate_in_pool(
    pool: ProcessPoolExecutor,
    options: Options,
    arrivals: Sequence[Arrival],
    workers: int,
    folder: Path,
) -> list[Decision]:
    """De-duplicate a stream in several processes that share one SQLite index."""
    shared = with_own_index(options, f"sqlite:{folder / 'stream.db'}")
    shared = attrs.evolve(shared, journal="off")
    parts = [arrivals[i::workers] for i in range(workers)]
    results = list(pool.map(deduplicate, [shared] * workers, parts))
    return [decision for result in results for decision in result]


def load(options: Options, arrivals: Sequence[Arrival]) -> None:
    """De-duplicate one document under two keys: what a method loads first is not to be measured."""
    keyed = (attrs.evolve(first.document, key=key) for first in arrivals[:1] for key in "ab")
    deduplicate(options, [Arrival(document, "") for document in keyed])


class Truth:
    """Counts right drops, losses and extra copies."""

    def __init__(self, arrivals: Iterable[Arrival]) -> None:
        self._arrivals = {arrival.document.key: arrival for arrival in arrivals}
        self._shingler = Shingler()

    def holds(self, stored: Document, new: Document) -> bool:
        """Whether a stored document has 95 % of another's shingles and all its figures."""
        a, b = self._shingler(new.text or ""), self._shingler(stored.text or "")
        if not set(a.figures.tolist()) <= set(b.figures.tolist()):
            return False
        shared = len(set(a.features.tolist()) & set(b.features.tolist()))
        return shared >= HELD * len(a.features)

    def score(
        self, decisions: Sequence[Decision], method: str, order: str, workers: int, seconds: float
    ) -> StreamResult:
        """Return the counts for the decisions of one method on a stream."""
        kept = [d.arrival.story for d in decisions if d.match is None]
        stories = set(kept)
        # By page id, too: an index may cut keys, or keep none.
        numbered = {d.number: d.arrival for d in decisions if d.match is None}
        numbered.pop(None, None)
        dropped = [(d, d.match) for d in decisions if d.match is not None]
        lost = [
            (drop.arrival.document.key, match)
            for drop, match in dropped
            if drop.arrival.story not in stories
            and not self.holds(
                (numbered.get(drop.number) or self._arrivals[match]).document, drop.arrival.document
            )
        ]
        return StreamResult(
            method, order, workers, len(decisions), len(dropped), len(dropped) - len(lost),
            len(lost), len(kept) - len(stories), seconds, tuple(lost),
        )  # fmt: skip


def timed(
    work: Callable[[], list[Decision]], clock: Callable[[], float] = time.process_time
) -> tuple[list[Decision], float]:
    """Return the result of ``work`` and the seconds it took, by default of processor time."""
    started = clock()
    return work(), clock() - started
