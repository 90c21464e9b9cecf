"""I-Match: the terms of a page that are rare elsewhere, hashed as one string.

網頁排重演算法, a survey of fingerprint rules (2009): keep the 70 % of the terms with the largest
IDF, in falling order. A. Chowdhury et al.: Collection statistics for fast duplicate document
detection, ACM TOIS 20(2), 2002. One more rare word changes the string; so, after A. Kołcz,
A. Chowdhury, J. Alspector: Improved robustness of signature-based near-replica detection via
lexicon randomization, KDD 2004, further strings are made with lexicons that lack a random part of
all terms, and one equal string of any lexicon is enough.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar, Final

import attrs
import numpy as np
from numpy.typing import NDArray

from dedup_middleware.fingerprint import keyed_hash
from dedup_middleware.methods import parameters
from dedup_middleware.methods.csu_shingles import mix64
from dedup_middleware.methods.digests import DIGEST_BYTES, digest_key, md5
from dedup_middleware.methods.frequencies import DocumentFrequencies, background
from dedup_middleware.methods.reading import Reading, Signature, SignatureMethod

NO_STRING: Final = bytes(DIGEST_BYTES)  # a lexicon that has none of the page's terms


def by_rarity(terms: Sequence[str], frequencies: DocumentFrequencies) -> list[str]:
    """The distinct terms by falling IDF, ties in the order of code points."""
    distinct = sorted(set(terms))
    order = np.argsort(-frequencies.idf(distinct), kind="stable")
    return [distinct[i] for i in order.tolist()]


def rarest(ordered: Sequence[str], share: float) -> Sequence[str]:
    """The first ``share`` of the terms, rounded up, at least one of them.

    >>> rarest(["a", "b", "c", "d"], 0.7)
    ['a', 'b', 'c']
    """
    # A hair less, so that 0.7 * 10 does not become 8.
    return ordered[: max(1, math.ceil(share * len(ordered) - 1e-9))]


def in_lexicon(hashes: NDArray[np.uint64], lexicon: int, dropped: float) -> NDArray[np.bool_]:
    """Which terms a lexicon knows; lexicon 0 knows all, others lack ``dropped`` of all terms.

    :param hashes: keyed 64-bit hashes of the terms
    """
    if lexicon == 0:
        return np.ones(len(hashes), np.bool_)
    drawn = mix64(hashes + np.uint64(lexicon)) >> np.uint64(11)
    return np.asarray(drawn >= np.uint64(dropped * (1 << 53)), np.bool_)


def lexicon_digests(
    ordered: Sequence[str], hash_key: int, lexicons: int, dropped: float, share: float
) -> list[bytes]:
    """MD5 of the string of each lexicon, that of the whole lexicon first.

    :param ordered: the page's terms by falling IDF
    :param lexicons: K, randomised lexicons beside the whole one
    """
    hashes = np.fromiter((keyed_hash(t, hash_key) for t in ordered), np.uint64, len(ordered))
    digests = []
    for lexicon in range(lexicons + 1):
        known = np.flatnonzero(in_lexicon(hashes, lexicon, dropped)).tolist()
        kept = rarest([ordered[i] for i in known], share)
        digests.append(md5(" ".join(kept)) if kept else NO_STRING)
    return digests


@attrs.frozen
class Idf(SignatureMethod):
    """Whether a lexicon gives two pages the same string; similarity 1 or 0.

    Lexicon k is group k. Payload: for each lexicon the MD5 of its string, 16 bytes, which stands
    for the string in the second comparison; zeros where the lexicon knows no term of the page.

    :param share: part of the terms that is kept, those with the largest IDF
    :param lexicons: K, randomised lexicons beside the whole one
    :param dropped: part of all terms that a randomised lexicon lacks
    :param frequencies: table of document frequencies; None: :func:`.background`
    :param hash_key: key of the look-up and of the lexicons
    """

    name: ClassVar[str] = "idf"
    threshold: float = attrs.field(default=1.0, validator=parameters.share)
    share: float = attrs.field(default=0.7, validator=parameters.between(0.01, 1.0))
    lexicons: int = attrs.field(default=10, validator=parameters.whole(0, 32, " lexicons"))
    dropped: float = attrs.field(default=0.33, validator=parameters.between(0.0, 0.99))
    frequencies: DocumentFrequencies | None = attrs.field(default=None, repr=False)
    hash_key: int = attrs.field(default=0, validator=parameters.hash_key, repr=False)

    def sign(self, reading: Reading) -> Signature | None:
        """See :class:`.SignatureMethod`; None for a page without tokens."""
        if not reading.tokens:
            return None
        table = background() if self.frequencies is None else self.frequencies
        ordered = by_rarity(reading.tokens, table)
        digests = lexicon_digests(ordered, self.hash_key, self.lexicons, self.dropped, self.share)
        keys = (
            (lexicon, digest_key(digest, self.hash_key))
            for lexicon, digest in enumerate(digests)
            if digest != NO_STRING
        )
        return Signature(tuple(keys), b"".join(digests))

    def compare(self, a: Signature, b: Signature) -> float:
        """See :class:`.SignatureMethod`."""
        for i in range(0, len(a.payload), DIGEST_BYTES):
            digest = a.payload[i : i + DIGEST_BYTES]
            if digest != NO_STRING and digest == b.payload[i : i + DIGEST_BYTES]:
                return 1.0
        return 0.0
