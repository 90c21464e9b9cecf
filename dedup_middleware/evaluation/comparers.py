"""Every method behind one face: two documents in, similarity and verdict out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
from numpy.typing import NDArray

from dedup_middleware.errors import OptionsError
from dedup_middleware.fingerprint import Document, Fingerprint, Fingerprinter
from dedup_middleware.methods.base import Method, content_record
from dedup_middleware.methods.choose import choose_method
from dedup_middleware.methods.content import Content
from dedup_middleware.methods.reading import Reading, Signature, SignatureMethod
from dedup_middleware.methods.simhash import SimHashMethod
from dedup_middleware.options import Options

if TYPE_CHECKING:
    from dedup_middleware.text.shingle import Shingler

SMALLEST_THRESHOLD = 0.05
_STEPS = 95  # thresholds from 0.05 to 1 in hundredths


@attrs.frozen
class Comparison:
    """What a method says of a new document, given a stored one.

    ``similarity`` 0 to 1; ``reason`` names the rule that decided.
    """

    similarity: float
    duplicate: bool
    reason: str


class Comparer(ABC):
    """Compares two documents; ``sign`` once a document, ``compare`` once a pair."""

    name: str
    threshold: float

    @abstractmethod
    def sign(self, document: Document) -> Any:
        """What the method keeps of a document."""

    @abstractmethod
    def compare(self, new: Any, stored: Any) -> Comparison:
        """Whether the new document is a near-duplicate of the stored one."""

    @abstractmethod
    def score(self, new: Any, stored: Any) -> float:
        """The largest threshold at which the new document is a duplicate; 0: at none."""

    def flags(self, new: Any, stored: Sequence[Any]) -> NDArray[np.bool_]:
        """Of which of n stored documents the new one is a near-duplicate, bool[n]."""
        return np.array([self.compare(new, other).duplicate for other in stored], np.bool_)


class MethodComparer(Comparer):
    """A method that judges by what an index keeps of a page."""

    def __init__(self, method: Method, fingerprinter: Fingerprinter) -> None:
        self.name = method.name
        self._method = method
        self._fingerprinter = fingerprinter

    def sign(self, document: Document) -> Fingerprint:
        """See :class:`Comparer`."""
        return self._fingerprinter(document)

    def compare(self, new: Fingerprint, stored: Fingerprint) -> Comparison:
        """See :class:`Comparer`."""
        return _judged(self._method, new, stored)

    def flags(self, new: Fingerprint, stored: Sequence[Fingerprint]) -> NDArray[np.bool_]:
        """See :class:`Comparer`; all at once, as in a crawl."""
        said = np.zeros(len(stored), np.bool_)
        places = [i for i, page in enumerate(stored) if not page.is_empty]
        if places and not new.is_empty:
            records = np.concatenate([content_record(stored[i]) for i in places])
            said[places] = self._method.judge(new, records).duplicate
        return said


def _judged(method: Method, new: Fingerprint, stored: Fingerprint) -> Comparison:
    if new.is_empty or stored.is_empty:
        return Comparison(0.0, False, "no-text")
    judged = method.judge(new, content_record(stored))
    return Comparison(float(judged.similarity[0]), bool(judged.duplicate[0]), judged.reasons[0])


class ContentComparer(MethodComparer):
    """The default rule. Its score is searched, since more than the similarity decides."""

    def __init__(self, method: Content, fingerprinter: Fingerprinter) -> None:
        super().__init__(method, fingerprinter)
        self.threshold = method.threshold
        self._scale = [round(SMALLEST_THRESHOLD + i / 100, 2) for i in range(_STEPS + 1)]
        self._methods = [attrs.evolve(method, threshold=t) for t in self._scale]

    def score(self, new: Fingerprint, stored: Fingerprint) -> float:
        """See :class:`Comparer`; in hundredths."""
        # Sorted: first the thresholds at which it is a duplicate, then those at which it is not.
        place = bisect_right(
            self._methods, 0, key=lambda method: int(not _judged(method, new, stored).duplicate)
        )
        return self._scale[place - 1] if place else 0.0


class SimHashComparer(MethodComparer):
    """The Hamming distance of SimHashes; the threshold is ``1 - k / 64``."""

    def __init__(self, method: SimHashMethod, fingerprinter: Fingerprinter) -> None:
        super().__init__(method, fingerprinter)
        self.threshold = 1 - method.distance / 64
        self._any = attrs.evolve(method, distance=64)

    def score(self, new: Fingerprint, stored: Fingerprint) -> float:
        """See :class:`Comparer`."""
        judged = _judged(self._any, new, stored)
        return judged.similarity if judged.duplicate else 0.0


class SymmetricComparer(Comparer):
    """A method in which only the similarity decides, the same in both directions."""

    @abstractmethod
    def similarity(self, a: Any, b: Any) -> float:
        """Similarity from 0 to 1."""

    def compare(self, new: Any, stored: Any) -> Comparison:
        """See :class:`Comparer`."""
        value = self.similarity(new, stored)
        duplicate = value >= self.threshold
        return Comparison(value, duplicate, self.name if duplicate else "too-different")

    def score(self, new: Any, stored: Any) -> float:
        """See :class:`Comparer`."""
        return self.similarity(new, stored)


class Readers:
    """Turns documents into what the methods of the literature read of them."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._shinglers: dict[str, Shingler] = {}

    def _shingler(self, segmenter: str) -> Shingler:
        from dedup_middleware.text.shingle import Shingler

        options = self._options
        if segmenter not in self._shinglers:
            self._shinglers[segmenter] = Shingler(
                segmenter=segmenter,
                width=options.shingle_width,
                max_chars=options.max_chars,
                user_dictionary=Path(options.user_dictionary) if options.user_dictionary else None,
                traditional=options.fold_traditional,
            )
        return self._shinglers[segmenter]

    def read(self, document: Document, segmenter: str | None) -> Reading:
        """The reading of a document.

        :param segmenter: None: the one of the options
        """
        shingler = self._shingler(segmenter or self._options.segmenter)
        text = document.text or ""
        shingles = shingler(text)
        return Reading(
            title=document.title,
            text=text[: self._options.max_chars],
            tokens=tuple(shingler.tokens(text)),
            features=shingles.features,
            counts=shingles.counts,
            title_tokens=tuple(shingler.tokens(document.title)),
        )


class SignatureComparer(SymmetricComparer):
    """A method of the literature that compares signatures."""

    def __init__(self, method: SignatureMethod, readers: Readers) -> None:
        self.name = method.name
        self.threshold = method.threshold
        self._method = method
        self._readers = readers

    def sign(self, document: Document) -> Signature | None:
        """See :class:`Comparer`; None for a document with nothing to compare."""
        return self._method.sign(self._readers.read(document, self._method.segmenter))

    def similarity(self, a: Signature | None, b: Signature | None) -> float:
        """See :class:`SymmetricComparer`; 0 if there is nothing to compare."""
        return 0.0 if a is None or b is None else self._method.compare(a, b)


class JaccardComparer(SymmetricComparer):
    """Exact Jaccard index of the sets of shingles: what others estimate."""

    name = "jaccard"

    def __init__(self, readers: Readers, threshold: float = 0.8) -> None:
        self.threshold = threshold
        self._readers = readers

    def sign(self, document: Document) -> NDArray[np.uint64]:
        """The distinct shingles, uint64[n], ascending."""
        return np.sort(self._readers.read(document, None).features)

    def similarity(self, a: NDArray[np.uint64], b: NDArray[np.uint64]) -> float:
        """See :class:`SymmetricComparer`."""
        shared = len(np.intersect1d(a, b, assume_unique=True))
        union = len(a) + len(b) - shared
        return shared / union if union else 0.0


class MinHashComparer(SymmetricComparer):
    """Share of equal minima of 128, as most MinHash tools decide."""

    name = "minhash"

    def __init__(self, readers: Readers, threshold: float = 0.8, num_perm: int = 128) -> None:
        from dedup_middleware.signature.minhash import MinHasher

        self.threshold = threshold
        self._readers = readers
        self._hasher = MinHasher(num_perm)

    def sign(self, document: Document) -> NDArray[np.uint32] | None:
        """The minima, uint32[K]; None without a shingle."""
        features = self._readers.read(document, None).features
        return self._hasher.of_features(features) if len(features) else None

    def similarity(self, a: NDArray[np.uint32] | None, b: NDArray[np.uint32] | None) -> float:
        """See :class:`SymmetricComparer`."""
        return 0.0 if a is None or b is None else float(np.mean(a == b))


def literature() -> tuple[SignatureMethod, ...]:
    """Every method of the literature with its own defaults."""
    from dedup_middleware.methods.charset import CharacterSet, MachineCode
    from dedup_middleware.methods.csu import Csu
    from dedup_middleware.methods.idf import Idf
    from dedup_middleware.methods.luogang import Luogang
    from dedup_middleware.methods.projection import RandomProjection
    from dedup_middleware.methods.rules import FeatureList, Rules
    from dedup_middleware.methods.segments import Segments
    from dedup_middleware.methods.structure import FeatureString, Md5, StructureTree
    from dedup_middleware.methods.textprofile import TextProfile
    from dedup_middleware.methods.weighted import WeightedSimHash

    return (
        Csu(), CharacterSet(), MachineCode(), StructureTree(), FeatureString(), Md5(), Luogang(),
        WeightedSimHash(), Segments(), Rules(), FeatureList(), RandomProjection(), TextProfile(),
        Idf(),
    )  # fmt: skip


def methods_available(options: Options, names: Iterable[str] = ()) -> dict[str, Comparer]:
    """The methods by name, the default rule first.

    :param options: thresholds and features of ``content`` and ``simhash``, features of the others
    :param names: those wanted; none: all
    :raises OptionsError: a name that no method has
    """
    content = attrs.evolve(options, method=Content.name)
    simhash = attrs.evolve(options, method=SimHashMethod.name)
    fingerprinter, readers = Fingerprinter(content), Readers(options)
    rule, nearest = choose_method(content), choose_method(simhash)
    assert isinstance(rule, Content)
    assert isinstance(nearest, SimHashMethod)
    every: list[Comparer] = [
        ContentComparer(rule, fingerprinter),
        SimHashComparer(nearest, fingerprinter),
        JaccardComparer(readers),
        MinHashComparer(readers),
        *(SignatureComparer(method, readers) for method in literature()),
    ]
    known = {comparer.name: comparer for comparer in every}
    wanted = list(names)
    for name in wanted:
        if name not in known:
            raise OptionsError("method", name, f"use one of {', '.join(known)}")
    return {name: known[name] for name in wanted or known}
