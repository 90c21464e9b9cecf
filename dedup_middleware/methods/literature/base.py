"""What a method of the literature reads of a page, what it keeps, and what it returns.

Every such method is a frozen class without state: ``sign`` turns a page into a signature,
``compare`` gives the similarity of two signatures.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import attrs
import numpy as np
from numpy.typing import NDArray

from dedup_middleware.model.fingerprint import Signature


@attrs.frozen(eq=False)
class MethodInput:
    """What a method may use of a page.

    :param title: title of the page
    :param text: its body text, cut to ``DEDUP_MAX_CHARS``
    :param tokens: body text segmented, normalised, without stop words
    :param title_tokens: the title, treated like ``tokens``
    :param description: the page's own summary (meta description), if it has one
    """

    title: str
    text: str = attrs.field(repr=False)
    tokens: tuple[str, ...] = attrs.field(repr=False)
    title_tokens: tuple[str, ...] = attrs.field(default=(), repr=False)
    description: str = attrs.field(default="", repr=False)


class SignatureMethod(ABC):
    """A method that compares signatures; its parameters are its fields."""

    name: ClassVar[str]
    #: segmenter that the source prescribes; None: any
    segmenter: ClassVar[str | None] = None
    #: whether it uses tokens; if not, its input has none
    reads_tokens: ClassVar[bool] = True
    #: whether a signature is one SimHash, so that its tables can be scanned
    is_simhash: ClassVar[bool] = False
    #: fields that only ``compare`` uses: signatures made with other values can be compared
    used_to_compare: ClassVar[frozenset[str]] = frozenset({"threshold"})
    #: similarity from which on a page is a duplicate
    threshold: float

    @property
    def has_keys(self) -> bool:
        """Whether signatures have keys; if not, the common candidates are compared."""
        return True

    @abstractmethod
    def sign(self, page: MethodInput) -> Signature | None:
        """Signature of a page, None if it has nothing to compare: it then equals no page."""

    @abstractmethod
    def compare(self, a: Signature, b: Signature) -> float:
        """Similarity of two pages from 0 to 1, symmetric."""

    def gather(self, payloads: Sequence[bytes]) -> Any:
        """Payloads of many pages in the form that ``similarities`` reads."""
        return tuple(payloads)

    def similarities(self, own: Signature, gathered: Any) -> NDArray[np.float64]:
        """Similarity of a page with each of those gathered, as ``compare`` gives it.

        It is 0 for an empty payload, and for bytes that this method did not write: a damaged
        index loses no page.
        """
        return np.array([self._similarity(own, payload) for payload in gathered], np.float64)

    def _similarity(self, own: Signature, payload: bytes) -> float:
        try:
            return self.compare(own, Signature((), payload)) if payload else 0.0
        except (ValueError, IndexError):
            return 0.0
