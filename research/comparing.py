"""Applies methods to many documents: a stream without a crawl, and one against all others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base.options import Options
from dedup_middleware.core.fingerprinter import Fingerprinter
from dedup_middleware.evaluation import stream
from dedup_middleware.evaluation.comparers import Comparer, SignatureComparer, options_for
from dedup_middleware.evaluation.stream import Arrival, Decision, Progress
from dedup_middleware.methods.choose import choose_method
from dedup_middleware.methods.content import Content
from dedup_middleware.model.documents import Document


def gather(comparer: Comparer, stored: Sequence[Any]) -> tuple[int, Any]:
    """Return the number of signed documents, and their signatures in the form that the method
    compares at once."""
    if not isinstance(comparer, SignatureComparer):
        return len(stored), tuple(stored)
    payloads = [b"" if one is None else one.payload for one in stored]
    return len(stored), comparer.method.gather(payloads)


def duplicates(comparer: Comparer, new: Any, gathered: tuple[int, Any]) -> NDArray[np.bool_]:
    """Return which of the gathered documents the new one is a near-duplicate of, bool[n]."""
    count, signatures = gathered
    if not isinstance(comparer, SignatureComparer):
        return np.array([comparer.compare(new, one).duplicate for one in signatures], np.bool_)
    if new is None:
        return np.zeros(count, np.bool_)
    return comparer.method.similarities(new, signatures) >= comparer.threshold


class _Kept:
    """The documents kept so far, found through the usual tables."""

    def __init__(self, options: Options) -> None:
        content = options_for(options, Content.name)
        self._places: dict[Any, list[int]] = {}
        self._fingerprinter = Fingerprinter(content)
        self._method = choose_method(content)

    def places(self, document: Document) -> list[Any]:
        """Return the buckets in which a document is searched for and entered."""
        # Without the first bucket key, that of the document key, which does not depend on content.
        return [
            (bucket_key.bucket, None if bucket_key.is_simhash else bucket_key.suffix)
            for bucket_key in self._method.bucket_keys(self._fingerprinter(document))[1:]
        ]

    def candidates(self, places: Iterable[Any]) -> list[int]:
        """Return the numbers of the kept documents in these buckets, ascending."""
        return sorted({n for place in places for n in self._places.get(place, ())})

    def add(self, places: Iterable[Any], number: int) -> None:
        """Keep a document."""
        for place in places:
            self._places.setdefault(place, []).append(number)


def compare_stream(
    comparer: Comparer,
    arrivals: Iterable[Arrival],
    options: Options,
    progress: Progress = lambda _: None,
) -> list[Decision]:
    """De-duplicate a stream with a method that is not available in a crawl.

    Each document is compared with the usual candidates among those kept, and dropped for the most
    similar one that makes it a duplicate, the oldest of equals.
    """
    kept = _Kept(options)
    signatures: list[Any] = []
    keys: list[str] = []
    decisions = []
    for arrival in arrivals:
        signed = comparer.sign(arrival.document)
        places = [] if signed is None else kept.places(arrival.document)
        best: tuple[float, int] | None = None
        for number in kept.candidates(places):
            compared = comparer.compare(signed, signatures[number])
            if compared.duplicate and (best is None or compared.similarity > best[0]):
                best = (compared.similarity, number)
        if best is None:
            kept.add(places, len(keys))
            signatures.append(signed)
            keys.append(arrival.document.key)
        decisions.append(Decision(arrival, None if best is None else keys[best[1]]))
        progress(1)
    return decisions


def decide(
    comparer: Comparer,
    arrivals: Sequence[Arrival],
    options: Options,
    progress: Progress = lambda _: None,
) -> list[Decision]:
    """De-duplicate a stream with the real deduplicator and an in-memory index, or with
    :func:`compare_stream` if the method is not available in a crawl."""
    if comparer.options is None:
        return compare_stream(comparer, arrivals, options, progress)
    memory = attrs.evolve(comparer.options, index_url="memory:")
    return stream.deduplicate(memory, arrivals, progress)


def load(comparer: Comparer, arrivals: Sequence[Arrival], options: Options) -> None:
    """Load what a method loads on first use, before measuring."""
    if comparer.options is not None:
        stream.load(attrs.evolve(comparer.options, index_url="memory:"), arrivals)
    else:
        compare_stream(comparer, arrivals[:1], options)
