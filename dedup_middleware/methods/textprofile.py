"""Fuzzy feature vector and MD5, in the shape of Apache Nutch's TextProfileSignature.

網頁排重演算法, a survey of fingerprint rules (2009). Counts are rounded down to multiples of a
quantum, so that a word more or less changes few of them; what is below the quantum is left out.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import ClassVar

import attrs

from dedup_middleware.methods import parameters
from dedup_middleware.methods.digests import digest_signature, md5, same_digest
from dedup_middleware.methods.reading import Reading, Signature, SignatureMethod


def quantum(most: int, rate: float = 0.01) -> int:
    """QUANT = round(rate * most), at least 2 when the most frequent word occurs more than once.

    >>> quantum(1), quantum(2), quantum(249), quantum(250)
    (1, 2, 2, 3)
    """
    # Java's Math.round: halves go up.
    return max(math.floor(rate * most + 0.5), 2 if most > 1 else 1)


def text_profile(tokens: Iterable[str], rate: float = 0.01) -> list[tuple[str, int]]:
    """Words and their quantised counts, by falling count, then by code point.

    >>> text_profile("a b a c a c b b b d".split())
    [('b', 4), ('a', 2), ('c', 2)]
    """
    counts = Counter(tokens)
    step = quantum(max(counts.values(), default=0), rate)
    profile = [(word, count - count % step) for word, count in counts.items() if count >= step]
    return sorted(profile, key=lambda entry: (-entry[1], entry[0]))


@attrs.frozen
class TextProfile(SignatureMethod):
    """MD5 of the profile, a line ``word count`` each. Payload: the digest. Similarity 1 or 0.

    :param rate: quantum as a share of the largest count
    :param hash_key: key of the look-up
    """

    name: ClassVar[str] = "text-profile"
    threshold: float = attrs.field(default=1.0, validator=parameters.share)
    rate: float = attrs.field(default=0.01, validator=parameters.share)
    hash_key: int = attrs.field(default=0, validator=parameters.hash_key, repr=False)

    def sign(self, reading: Reading) -> Signature | None:
        """See :class:`.SignatureMethod`; None for a page without tokens."""
        profile = text_profile(reading.tokens, self.rate)
        if not profile:
            return None
        lines = (f"{word} {count}" for word, count in profile)
        return digest_signature(md5("\n".join(lines)), self.hash_key)

    def compare(self, a: Signature, b: Signature) -> float:
        """See :class:`.SignatureMethod`."""
        return same_digest(a, b)
