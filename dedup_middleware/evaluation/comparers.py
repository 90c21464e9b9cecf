"""A common interface to all methods: two documents in, similarity and verdict out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterable
from typing import Any, Final

import attrs
import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base.errors import OptionsError
from dedup_middleware.base.options import METHODS, Options
from dedup_middleware.core.fingerprinter import Fingerprinter, make_shingler, make_signer
from dedup_middleware.methods.base import Method, content_record
from dedup_middleware.methods.baselines import MinHashMethod, SimHashMethod
from dedup_middleware.methods.choose import choose_method
from dedup_middleware.methods.content import Content
from dedup_middleware.methods.literature.base import SignatureMethod
from dedup_middleware.methods.literature.registry import literature
from dedup_middleware.model.documents import Document
from dedup_middleware.model.fingerprint import Fingerprint, Signature
from dedup_middleware.text.relevant import relevant, relevant_title

_THRESHOLDS: Final = tuple(i / 100 for i in range(5, 101))


@attrs.frozen
class Comparison:
    """The verdict on a new document compared with a stored one."""

    similarity: float  # 0 to 1
    duplicate: bool
    reason: str  # the rule that decided


class Comparer(ABC):
    """Compares two documents: ``sign`` once per document, ``compare`` once per pair."""

    name: str
    threshold: float
    #: options of a crawl with this method, or None if no crawl can use it
    options: Options | None = None

    @abstractmethod
    def sign(self, document: Document) -> Any:
        """Return the signature of a document."""

    @abstractmethod
    def similarity(self, new: Any, stored: Any) -> float:
        """Return the similarity from 0 to 1; most methods decide by it alone."""

    def compare(self, new: Any, stored: Any) -> Comparison:
        """Decide whether the new document is a near-duplicate of the stored one."""
        value = self.similarity(new, stored)
        duplicate = value >= self.threshold
        return Comparison(value, duplicate, self.name if duplicate else "too-different")

    def score(self, new: Any, stored: Any) -> float:
        """Return the largest threshold at which the new document is a duplicate; 0 if none."""
        return self.similarity(new, stored)


#: a fingerprint and its page record, CONTENT[1]
SignedPage = tuple[Fingerprint, NDArray[np.void]]


class MethodComparer(Comparer):
    """Compares with a method that judges page records."""

    def __init__(self, options: Options) -> None:
        self.name = name_of(options)
        self.options = options
        self._method = method = choose_method(options)
        self.threshold = method.threshold
        self._fingerprinter = Fingerprinter(options, 0)
        # The method with each threshold to be tried; for a method that decides by similarity alone,
        # one copy whose threshold every page reaches: its similarity is the score.
        self._others: list[Method]
        if isinstance(method, Content):
            self._others = [attrs.evolve(method, threshold=value) for value in _THRESHOLDS]
        elif isinstance(method, SimHashMethod):
            self._others = [attrs.evolve(method, distance=64)]
        else:
            assert isinstance(method, MinHashMethod)
            self._others = [attrs.evolve(method, threshold=0.0)]

    def sign(self, document: Document) -> SignedPage:
        page = self._fingerprinter(document)
        return page, content_record(page)

    def similarity(self, new: SignedPage, stored: SignedPage) -> float:
        return self.compare(new, stored).similarity

    def compare(self, new: SignedPage, stored: SignedPage) -> Comparison:
        return _judged(self._method, new, stored)

    def score(self, new: SignedPage, stored: SignedPage) -> float:
        if len(self._others) == 1:
            judged = _judged(self._others[0], new, stored)
            return judged.similarity if judged.duplicate else 0.0
        # Sorted: duplicate at the lower thresholds, not at the higher ones.
        place = bisect_right(
            self._others, 0, key=lambda other: int(not _judged(other, new, stored).duplicate)
        )
        return _THRESHOLDS[place - 1] if place else 0.0


def _judged(method: Method, new: SignedPage, stored: SignedPage) -> Comparison:
    (page, _), (old, record) = new, stored
    if page.is_empty or old.is_empty:
        return Comparison(0.0, False, "no-text")
    judged = method.judge(page, record, [old.payload])
    return Comparison(float(judged.similarity[0]), bool(judged.duplicate[0]), judged.reasons[0])


class SignatureComparer(Comparer):
    """Compares by a method of the literature, which compares signatures."""

    def __init__(self, method: SignatureMethod, options: Options) -> None:
        self.name = name_of(options)
        self.threshold = method.threshold
        self.options = options
        self.method = method
        self._sign = make_signer(method, options, make_shingler(options, 0))

    def sign(self, document: Document) -> Signature | None:
        title, text = relevant_title(document.title), relevant(document.text or "")
        return self._sign(title, text, document.description)

    def similarity(self, new: Signature | None, stored: Signature | None) -> float:
        return 0.0 if new is None or stored is None else self.method.compare(new, stored)


class JaccardComparer(Comparer):
    """Computes the exact Jaccard index of the shingle sets, which other methods estimate."""

    name = "jaccard"
    threshold = 0.8

    def __init__(self, options: Options) -> None:
        self._shingler = make_shingler(options, 0)

    def sign(self, document: Document) -> NDArray[np.uint64]:
        return np.sort(self._shingler(relevant(document.text or "")).features)

    def similarity(self, new: NDArray[np.uint64], stored: NDArray[np.uint64]) -> float:
        shared = len(np.intersect1d(new, stored, assume_unique=True))
        union = len(new) + len(stored) - shared
        return shared / union if union else 0.0


#: every method with default parameters, the default method first; ``jaccard`` needs whole pages, so
#: no crawl can use it
METHOD_NAMES: Final = (METHODS[0], JaccardComparer.name, *METHODS[1:])
#: variants described by the sources
VARIANTS: Final = (
    "csu:sampling=position",
    "machine-code:encoding=gb2312",
    "structure-tree:leaves=sentence",
    "luogang:hash=enumerated",
    "luogang:hash=string",
    *(f"rules:rule=R{i}" for i in range(1, 5)),
    "idf:lexicons=0",
)


def name_of(options: Options) -> str:
    """Return the method's name with its parameters, such as ``rules:rule=R1``."""
    return f"{options.method}:{options.method_parameters}".rstrip(":")


def options_for(options: Options, name: str) -> Options:
    """Return options with another method, ``NAME`` or ``NAME:PARAMETER=VALUE ...``. The threshold
    is kept only for the same method."""
    method, _, parameters = name.partition(":")
    if method not in METHODS:
        raise OptionsError("method", method, f"use one of {', '.join(METHOD_NAMES)}")
    if method == options.method:
        given = parameters or options.method_parameters
        return attrs.evolve(options, method_parameters=given)
    return attrs.evolve(options, method=method, method_parameters=parameters, threshold=None)


def methods_available(
    options: Options, names: Iterable[str] = (), given: str = "--methods"
) -> dict[str, Comparer]:
    """Return comparers by name, in the order of ``names``.

    :param names: methods as for :func:`options_for`; if empty, `METHOD_NAMES`
    :param given: the argument with the names, for messages
    """
    return {name: _comparer(options, name, given) for name in tuple(names) or METHOD_NAMES}


def _comparer(options: Options, name: str, given: str) -> Comparer:
    if name == JaccardComparer.name:
        return JaccardComparer(options)
    try:
        options = options_for(options, name)
        signed = literature(options)
        return MethodComparer(options) if signed is None else SignatureComparer(signed, options)
    except OptionsError as error:
        is_own = error.setting == "DEDUP_METHOD_PARAMETERS" and ":" in name
        if error.setting != "method" and not is_own:
            raise
        raise OptionsError(given, name, error.fix) from None
