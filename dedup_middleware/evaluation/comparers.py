"""One interface to every method: two documents in, similarity and verdict out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterable, Sequence
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

_THRESHOLDS: Final = tuple(i / 100 for i in range(5, 101))


@attrs.frozen
class Comparison:
    """Verdict of a method on a new document, given a stored one."""

    similarity: float  # 0 to 1
    duplicate: bool
    reason: str  # names the rule that decided


class Comparer(ABC):
    """Compares two documents; ``sign`` once a document, ``compare`` once a pair."""

    name: str
    threshold: float
    #: options of a crawl that decides by the method; None: it can't
    options: Options | None = None

    @abstractmethod
    def sign(self, document: Document) -> Any:
        """What the method keeps of a document."""

    @abstractmethod
    def similarity(self, new: Any, stored: Any) -> float:
        """Similarity from 0 to 1, by which alone most methods decide."""

    def compare(self, new: Any, stored: Any) -> Comparison:
        """Whether the new document is a near-duplicate of the stored one."""
        value = self.similarity(new, stored)
        duplicate = value >= self.threshold
        return Comparison(value, duplicate, self.name if duplicate else "too-different")

    def score(self, new: Any, stored: Any) -> float:
        """The largest threshold at which the new document is a duplicate; 0: at none."""
        return self.similarity(new, stored)


#: a page, and what an index keeps of it, CONTENT[1]
SignedPage = tuple[Fingerprint, NDArray[np.void]]


class MethodComparer(Comparer):
    """A method that judges by what an index keeps of a page.

    :param others: the method with other thresholds: with each of those that are tried, or, if
        nothing but the similarity decides, with one that every page of enough shingles reaches
    """

    def __init__(self, method: Method, options: Options, others: Sequence[Method]) -> None:
        self.name = name_of(options)
        self.threshold = method.threshold
        self.options = options
        self._method = method
        self._others = others
        self._fingerprinter = Fingerprinter(options, 0)

    def sign(self, document: Document) -> SignedPage:
        """Sign a document."""
        page = self._fingerprinter(document)
        return page, content_record(page)

    def similarity(self, new: SignedPage, stored: SignedPage) -> float:
        """Similarity from 0 to 1."""
        return self.compare(new, stored).similarity

    def compare(self, new: SignedPage, stored: SignedPage) -> Comparison:
        """Whether the new document is a near-duplicate of the stored one."""
        return _judged(self._method, new, stored)

    def score(self, new: SignedPage, stored: SignedPage) -> float:
        """The largest threshold at which it is a duplicate; 0: at none."""
        if len(self._others) == 1:
            judged = _judged(self._others[0], new, stored)
            return judged.similarity if judged.duplicate else 0.0
        # First the thresholds at which it is a duplicate, then those at which it is not.
        place = bisect_right(
            self._others, 0, key=lambda one: int(not _judged(one, new, stored).duplicate)
        )
        return _THRESHOLDS[place - 1] if place else 0.0


def _judged(method: Method, new: SignedPage, stored: SignedPage) -> Comparison:
    (page, _), (old, record) = new, stored
    if page.is_empty or old.is_empty:
        return Comparison(0.0, False, "no-text")
    judged = method.judge(page, record, [old.payload])
    return Comparison(float(judged.similarity[0]), bool(judged.duplicate[0]), judged.reasons[0])


class SignatureComparer(Comparer):
    """A method of the literature that compares signatures."""

    def __init__(self, method: SignatureMethod, options: Options) -> None:
        self.name = name_of(options)
        self.threshold = method.threshold
        self.options = options
        self.method = method
        self._sign = make_signer(method, options, make_shingler(options, 0))

    def sign(self, document: Document) -> Signature | None:
        """Sign a document; None for a document with nothing to compare."""
        return self._sign(document.title, document.text or "", document.description)

    def similarity(self, new: Signature | None, stored: Signature | None) -> float:
        """Similarity from 0 to 1; 0 if there is nothing to compare."""
        return 0.0 if new is None or stored is None else self.method.compare(new, stored)


class JaccardComparer(Comparer):
    """Exact Jaccard index of the sets of shingles: what others estimate."""

    name = "jaccard"
    threshold = 0.8

    def __init__(self, options: Options) -> None:
        self._shingler = make_shingler(options, 0)

    def sign(self, document: Document) -> NDArray[np.uint64]:
        """The distinct shingles, uint64[n], ascending."""
        return np.sort(self._shingler(document.text or "").features)

    def similarity(self, new: NDArray[np.uint64], stored: NDArray[np.uint64]) -> float:
        """Similarity from 0 to 1."""
        shared = len(np.intersect1d(new, stored, assume_unique=True))
        union = len(new) + len(stored) - shared
        return shared / union if union else 0.0


#: every method with its own parameters, the default one first; ``jaccard`` is exact and needs the
#: whole pages, so it is no method of a crawl
METHOD_NAMES: Final = (METHODS[0], JaccardComparer.name, *METHODS[1:])
#: variants that the sources describe
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
    """Name of the method with the parameters that are given, such as ``rules:rule=R1``."""
    return f"{options.method}:{options.method_parameters}".rstrip(":")


def options_for(options: Options, name: str) -> Options:
    """The options with another method, ``NAME`` or ``NAME:PARAMETER=VALUE ...``; a threshold is
    only for the method that they name."""
    method, _, parameters = name.partition(":")
    if method not in METHODS:
        raise OptionsError("method", method, f"use one of {', '.join(METHOD_NAMES)}")
    if method == options.method:
        given = parameters or options.method_parameters
        return attrs.evolve(options, method_parameters=given)
    return attrs.evolve(options, method=method, method_parameters=parameters, threshold=None)


def comparer_of(options: Options) -> Comparer:
    """The method that the options name, to compare documents one by one."""
    signed = literature(options)
    if signed is not None:
        return SignatureComparer(signed, options)
    method = choose_method(options)
    others: list[Method]
    if isinstance(method, Content):
        others = [attrs.evolve(method, threshold=one) for one in _THRESHOLDS]
    elif isinstance(method, SimHashMethod):
        others = [attrs.evolve(method, distance=64)]
    else:
        assert isinstance(method, MinHashMethod)
        others = [attrs.evolve(method, threshold=0.0)]
    return MethodComparer(method, options, others)


def methods_available(
    options: Options, names: Iterable[str] = (), given: str = "--methods"
) -> dict[str, Comparer]:
    """The methods by name, the default rule first.

    :param options: how pages are read; threshold and parameters of the method that they name
    :param names: those wanted, as for :func:`options_for`; none: all with their own parameters
    :param given: the argument that names them, for messages
    """
    return {name: _comparer(options, name, given) for name in tuple(names) or METHOD_NAMES}


def _comparer(options: Options, name: str, given: str) -> Comparer:
    if name == JaccardComparer.name:
        return JaccardComparer(options)
    try:
        return comparer_of(options_for(options, name))
    except OptionsError as error:
        is_own = error.setting == "DEDUP_METHOD_PARAMETERS" and ":" in name
        if error.setting != "method" and not is_own:
            raise
        raise OptionsError(given, name, error.fix) from None
