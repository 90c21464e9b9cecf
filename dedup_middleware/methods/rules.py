"""Rules over the description, the keywords and their weights.

網頁排重演算法, a survey of fingerprint rules (2009). Des is the page's description, else the first
512 bytes of its text; T are its N = 10 heaviest keywords, W their weights; D is the distance of
two lists of weights, ``|Wi - Wj|**2 / (|Wi|**2 + |Wj|**2)``. Two pages are duplicates if

* R1: md5(Des) is equal,
* R2: md5(T in order of weight) is equal,
* R3: md5(T sorted) is equal,
* R4: R2 holds and D < a,
* R5: R3 holds and D < a.

The survey does not say how keywords are weighed. Ours: tf * idf, ties in the order of code points.
Its first rule, MD5 of the list of all features by frequency, is :class:`FeatureList`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import ClassVar, Final

import attrs
import numpy as np
from numpy.typing import NDArray

from dedup_middleware.methods import parameters
from dedup_middleware.methods.digests import DIGEST_BYTES, digest_signature, md5, same_digest
from dedup_middleware.methods.frequencies import DocumentFrequencies, background
from dedup_middleware.methods.reading import Reading, Signature, SignatureMethod

RULES: Final = ("R1", "R2", "R3", "R4", "R5")
DESCRIPTION_BYTES: Final = 512
_SORTED: Final = ("R3", "R5")
_WEIGHED: Final = ("R4", "R5")


def cut_bytes(text: str, limit: int) -> str:
    """The longest beginning of a text that has at most ``limit`` bytes in UTF-8.

    >>> cut_bytes("a排重", 6)
    'a排'
    """
    # No character has less than a byte, so this much is enough and the rest need not be encoded.
    data = text[: limit + 1].encode("utf-8", "surrogatepass")
    end = min(limit, len(data))
    while end < len(data) and data[end] & 0xC0 == 0x80:
        end -= 1
    return data[:end].decode("utf-8", "surrogatepass")


def description(reading: Reading) -> str:
    """Des: the page's description, else the first 512 bytes of its text, cut at a character."""
    return reading.description.strip() or cut_bytes(reading.text.strip(), DESCRIPTION_BYTES)


def keywords(
    tokens: Sequence[str], frequencies: DocumentFrequencies, count: int
) -> list[tuple[str, float]]:
    """T and W: the ``count`` heaviest terms with their weights tf * idf, heaviest first."""
    terms = Counter(tokens)
    idf = frequencies.idf(list(terms)).tolist()
    weighed = [(term, tf * rarity) for (term, tf), rarity in zip(terms.items(), idf, strict=True)]
    return sorted(weighed, key=lambda entry: (-entry[1], entry[0]))[:count]


def weight_distance(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """D of two lists of weights, 0 for equal ones.

    >>> weight_distance(np.array([3.0, 1.0]), np.array([1.0, 1.0]))
    0.3333333333333333
    """
    total = float(a @ a + b @ b)
    difference = a - b
    return float(difference @ difference) / total if total else 0.0


@attrs.frozen
class Rules(SignatureMethod):
    """One of the five rules; similarity 1 if it holds, else 0.

    Payload: the MD5, 16 bytes; for R4 and R5 then the weights, ``<f4`` each, in the order in which
    the keywords were hashed.

    :param rule: ``R1`` to ``R5``
    :param keyword_count: N
    :param distance: a, for R4 and R5
    :param frequencies: table for the weights; None: :func:`.background`
    :param hash_key: key of the look-up
    """

    name: ClassVar[str] = "rules"
    used_to_compare: ClassVar[frozenset[str]] = frozenset({"threshold", "distance"})
    threshold: float = attrs.field(default=1.0, validator=parameters.share)
    rule: str = attrs.field(default="R5", validator=parameters.one_of(*RULES))
    keyword_count: int = attrs.field(default=10, validator=parameters.whole(1, 1000, " keywords"))
    distance: float = attrs.field(default=0.1, validator=parameters.share)
    frequencies: DocumentFrequencies | None = attrs.field(default=None, repr=False)
    hash_key: int = attrs.field(default=0, validator=parameters.hash_key, repr=False)

    def sign(self, reading: Reading) -> Signature | None:
        """See :class:`.SignatureMethod`; None for a page without text (R1) or tokens (others)."""
        if self.rule == "R1":
            des = description(reading)
            return digest_signature(md5(des), self.hash_key) if des else None
        if not reading.tokens:
            return None
        table = background() if self.frequencies is None else self.frequencies
        found = keywords(reading.tokens, table, self.keyword_count)
        if self.rule in _SORTED:
            found.sort()
        weights = b""
        if self.rule in _WEIGHED:
            weights = np.array([weight for _, weight in found], "<f4").tobytes()
        return digest_signature(md5("\n".join(t for t, _ in found)), self.hash_key, weights)

    def compare(self, a: Signature, b: Signature) -> float:
        """See :class:`.SignatureMethod`."""
        if not same_digest(a, b) or self.rule not in _WEIGHED:
            return same_digest(a, b)
        first, second = (
            np.frombuffer(s.payload, "<f4", offset=DIGEST_BYTES).astype(np.float64) for s in (a, b)
        )
        return float(weight_distance(first, second) < self.distance)


def feature_list(tokens: Sequence[str]) -> list[str]:
    """The distinct words by falling frequency, ties in the order of code points."""
    counts = Counter(tokens)
    return sorted(counts, key=lambda word: (-counts[word], word))


@attrs.frozen
class FeatureList(SignatureMethod):
    """MD5 of the feature list. Payload: the digest, 16 bytes. Similarity 1 or 0.

    :param hash_key: key of the look-up
    """

    name: ClassVar[str] = "feature-list"
    threshold: float = attrs.field(default=1.0, validator=parameters.share)
    hash_key: int = attrs.field(default=0, validator=parameters.hash_key, repr=False)

    def sign(self, reading: Reading) -> Signature | None:
        """See :class:`.SignatureMethod`; None for a page without tokens."""
        if not reading.tokens:
            return None
        return digest_signature(md5("\n".join(feature_list(reading.tokens))), self.hash_key)

    def compare(self, a: Signature, b: Signature) -> float:
        """See :class:`.SignatureMethod`."""
        return same_digest(a, b)
