"""Weighted SimHash: words count by how much they say.

周游, 贾创辉: 大规模文本去重研究, 现代计算机 2019(6). The paper improves the weight of a word but
does not print the formula. Ours:

    w = (1 + ln tf) * idf * length factor * title factor

with idf = 1 + ln((N + 1) / (df + 1)), length factor = 1 + ln(min(characters, 8)), because longer
words mean less things, and title factor = ``title_boost`` for the words of the title, 1 for
others. Each factor can be switched off.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import ClassVar, Final

import attrs
import numpy as np
from numpy.typing import NDArray

from dedup_middleware.fingerprint import keyed_hash
from dedup_middleware.methods import parameters
from dedup_middleware.methods.blocks import WITHIN_3_BITS, hamming_similarity, simhash_signature
from dedup_middleware.methods.frequencies import DocumentFrequencies, background
from dedup_middleware.methods.reading import Reading, Signature, SignatureMethod

LONGEST: Final = 8  # characters; longer words are no rarer in meaning


def tf_factor(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """``1 + ln tf`` of words that occur ``tf`` times."""
    return np.asarray(1.0 + np.log(counts), np.float64)


def length_factor(words: Collection[str]) -> NDArray[np.float64]:
    """``1 + ln(min(characters, 8))`` of each word."""
    lengths = np.fromiter(
        (min(max(len(word), 1), LONGEST) for word in words), np.float64, len(words)
    )
    return np.asarray(1.0 + np.log(lengths), np.float64)


def title_factor(
    words: Collection[str], title: Collection[str], boost: float
) -> NDArray[np.float64]:
    """``boost`` for words of the title, 1 for others."""
    known = frozenset(title)
    factors = (boost if word in known else 1.0 for word in words)
    return np.fromiter(factors, np.float64, len(words))


@attrs.frozen
class WeightedSimHash(SignatureMethod):
    """SimHash of the words of a page, each with the weight above; a duplicate within 3 bits.

    Keys and payload: see :mod:`.blocks`. With a threshold below the default the four tables no
    longer find every page.

    :param tf: weigh by frequency in the page; off: each word once
    :param idf: weigh by rarity
    :param length: weigh by length
    :param title: weigh by occurrence in the title
    :param title_boost: weight of a word of the title
    :param frequencies: table for ``idf``; None: :func:`.background`
    :param hash_key: key of the feature hashes
    """

    name: ClassVar[str] = "weighted-simhash"
    is_simhash: ClassVar[bool] = True
    threshold: float = attrs.field(default=WITHIN_3_BITS, validator=parameters.share)
    tf: bool = True
    idf: bool = True
    length: bool = True
    title: bool = True
    title_boost: float = attrs.field(default=2.0, validator=parameters.between(1.0, 100.0))
    frequencies: DocumentFrequencies | None = attrs.field(default=None, repr=False)
    hash_key: int = attrs.field(default=0, validator=parameters.hash_key, repr=False)

    def weights(self, counts: Mapping[str, int], title: Collection[str]) -> NDArray[np.float64]:
        """Weight of each word, in the order of ``counts``.

        :param counts: how often each word occurs
        :param title: words of the title
        """
        words = list(counts)
        weights = np.ones(len(words), np.float64)
        if self.tf:
            weights *= tf_factor(np.fromiter(counts.values(), np.int64, len(words)))
        if self.idf:
            table = background() if self.frequencies is None else self.frequencies
            weights *= table.idf(words)
        if self.length:
            weights *= length_factor(words)
        if self.title:
            weights *= title_factor(words, title, self.title_boost)
        return weights

    def sign(self, reading: Reading) -> Signature | None:
        """See :class:`.SignatureMethod`; None for a page without tokens."""
        from dedup_middleware.signature.simhash import simhash

        counts = Counter(reading.tokens)
        hashes = (keyed_hash(word, self.hash_key) for word in counts)
        features = np.fromiter(hashes, np.uint64, len(counts))
        signed = simhash(features, self.weights(counts, reading.title_tokens))
        return None if signed is None else simhash_signature(signed.value)

    def compare(self, a: Signature, b: Signature) -> float:
        """See :class:`.SignatureMethod`: ``sim(A, B) = 1 - hamming / 64``."""
        return hamming_similarity(a, b)
