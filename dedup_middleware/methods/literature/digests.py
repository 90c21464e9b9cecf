"""Methods whose signature is a digest: pages are duplicates if a digest is equal.

MD5 of the body (a baseline of the paper on character sets), and four methods of a survey of
fingerprint rules (網頁排重演算法, 2009): text profiles, feature lists, keyword rules and I-Match.
"""

from __future__ import annotations

import hashlib
import math
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import ClassVar, Final

import attrs
import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base.settingfields import between, one_of, whole
from dedup_middleware.methods.literature.base import KeyedMethod, MethodInput, share
from dedup_middleware.methods.literature.frequencies import DocumentFrequencies, background
from dedup_middleware.model.fingerprint import Signature
from dedup_middleware.model.keys import keyed_hash
from dedup_middleware.text.hashing import mixed

DIGEST_BYTES = 16


def md5(text: str) -> bytes:
    """Return the MD5 of a text in UTF-8, 16 bytes; lone surrogates are allowed."""
    data = text.encode("utf-8", "surrogatepass")
    return hashlib.md5(data, usedforsecurity=False).digest()


def digest_key(digest: bytes, hash_key: int) -> int:
    """Return a keyed 64-bit hash of a digest, so that outsiders can't craft pages for a bucket."""
    return keyed_hash(digest.hex(), hash_key)


def digest_signature(digest: bytes, hash_key: int, rest: bytes = b"") -> Signature:
    """Return a signature with one key in group 0; payload: the digest (16 bytes), then ``rest``."""
    return Signature(((0, digest_key(digest, hash_key)),), digest + rest)


@attrs.frozen(kw_only=True)
class DigestMethod(KeyedMethod):
    """A method with one 16-byte digest: similarity 1 if it is equal, else 0."""

    threshold: float = share(1.0)

    def compare(self, a: Signature, b: Signature) -> float:
        """Return 1.0 if the first 16 bytes of the payloads are equal, else 0.0."""
        return float(a.payload[:DIGEST_BYTES] == b.payload[:DIGEST_BYTES])


@attrs.frozen(kw_only=True)
class TextDigestMethod(DigestMethod):
    """A method that takes the MD5 of a text derived from a page."""

    @abstractmethod
    def hashed(self, page: MethodInput) -> str:
        """Return the text to hash; "" if the page has nothing to compare."""

    def sign(self, page: MethodInput) -> Signature | None:
        """Return a signature with one key, in group 0; payload: the MD5."""
        text = self.hashed(page)
        return digest_signature(md5(text), self.hash_key) if text else None


@attrs.frozen(kw_only=True)
class Md5(TextDigestMethod):
    """MD5 of the body as it is."""

    name: ClassVar[str] = "md5"
    reads_tokens: ClassVar[bool] = False

    def hashed(self, page: MethodInput) -> str:
        return page.text if page.text.strip() else ""


# Fuzzy feature vector and MD5, in the style of Apache Nutch's TextProfileSignature. Counts are
# rounded down to multiples of a quantum, so that a few added words change few of them; words below
# the quantum are left out.


def quantum(most: int, rate: float = 0.01) -> int:
    """Return the quantum round(rate * most), at least 1, and 2 if the largest count is above 1.

    >>> quantum(1), quantum(2), quantum(249), quantum(250)
    (1, 2, 2, 3)
    """
    # As Java's Math.round: halves are rounded up.
    return max(math.floor(rate * most + 0.5), 2 if most > 1 else 1)


def text_profile(tokens: Iterable[str], rate: float = 0.01) -> list[tuple[str, int]]:
    """Return words with quantised counts, by falling count, then by code point.

    >>> text_profile("a b a c a c b b b d".split())
    [('b', 4), ('a', 2), ('c', 2)]
    """
    counts = Counter(tokens)
    step = quantum(max(counts.values(), default=0), rate)
    profile = [(word, count - count % step) for word, count in counts.items() if count >= step]
    return sorted(profile, key=lambda entry: (-entry[1], entry[0]))


@attrs.frozen(kw_only=True)
class TextProfile(TextDigestMethod):
    """MD5 of the text profile, one line ``word count`` per word.

    :param rate: quantum as a share of the largest count
    """

    name: ClassVar[str] = "text-profile"
    rate: float = share(0.01)

    def hashed(self, page: MethodInput) -> str:
        profile = text_profile(page.tokens, self.rate)
        return "\n".join(f"{word} {count}" for word, count in profile)


# Rules over the description, the keywords and their weights. Des is the page's description, or else
# the first 512 bytes of its text; T are its N = 10 heaviest keywords, W their weights; the distance
# D of two lists of weights is ``|Wi - Wj|**2 / (|Wi|**2 + |Wj|**2)``. Two pages are duplicates if
#
# * R1: md5(Des) is equal,
# * R2: md5(T in order of weight) is equal,
# * R3: md5(T sorted) is equal,
# * R4: R2 holds and D < a,
# * R5: R3 holds and D < a.
#
# Ours: the weights tf * idf, ties in code point order.

RULES: Final = ("R1", "R2", "R3", "R4", "R5")
DESCRIPTION_BYTES: Final = 512
_SORTED: Final = ("R3", "R5")
_WEIGHED: Final = ("R4", "R5")


def cut_bytes(text: str, limit: int) -> str:
    """Return the longest prefix of a text of at most ``limit`` bytes in UTF-8.

    >>> cut_bytes("a排重", 6)
    'a排'
    """
    # Each character has at least one byte, so this prefix suffices.
    data = text[: limit + 1].encode("utf-8", "surrogatepass")
    end = min(limit, len(data))
    while end < len(data) and data[end] & 0xC0 == 0x80:
        end -= 1
    return data[:end].decode("utf-8", "surrogatepass")


def description(page: MethodInput) -> str:
    """Return Des: the page's description, or else the first 512 bytes of its text."""
    return page.description.strip() or cut_bytes(page.text.strip(), DESCRIPTION_BYTES)


def keywords(
    tokens: Sequence[str], frequencies: DocumentFrequencies, count: int
) -> list[tuple[str, float]]:
    """Return T and W: the ``count`` heaviest terms and their weights tf * idf, heaviest first."""
    terms = Counter(tokens)
    idf = frequencies.idf(list(terms)).tolist()
    weighed = [(term, tf * rarity) for (term, tf), rarity in zip(terms.items(), idf, strict=True)]
    return sorted(weighed, key=lambda entry: (-entry[1], entry[0]))[:count]


def weight_distance(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """Return the distance D of two lists of weights, 0 if they are equal.

    >>> weight_distance(np.array([3.0, 1.0]), np.array([1.0, 1.0]))
    0.3333333333333333
    """
    total = float(a @ a + b @ b)
    difference = a - b
    return float(difference @ difference) / total if total else 0.0


@attrs.frozen(kw_only=True)
class Rules(DigestMethod):
    """One of the five rules; similarity 1 if it holds, else 0.

    Payload: the MD5, 16 bytes; for R4 and R5 also the weights, ``<f4`` each, in the order in which
    their keywords were hashed.

    :param rule: ``R1`` to ``R5``
    :param keyword_count: N
    :param distance: a, for R4 and R5
    """

    name: ClassVar[str] = "rules"
    used_to_compare: ClassVar[frozenset[str]] = frozenset({"threshold", "distance"})
    reads_frequencies: ClassVar[bool] = True
    rule: str = attrs.field(default="R5", validator=one_of(*RULES))
    keyword_count: int = attrs.field(default=10, validator=whole(1, 1000, " keywords"))
    distance: float = share(0.1)

    def sign(self, page: MethodInput) -> Signature | None:
        """Return the signature; None without text (R1) or without tokens (other rules)."""
        if self.rule == "R1":
            des = description(page)
            return digest_signature(md5(des), self.hash_key) if des else None
        if not page.tokens:
            return None
        found = keywords(page.tokens, background(), self.keyword_count)
        if self.rule in _SORTED:
            found.sort()
        weights = b""
        if self.rule in _WEIGHED:
            weights = np.array([weight for _, weight in found], "<f4").tobytes()
        return digest_signature(md5("\n".join(t for t, _ in found)), self.hash_key, weights)

    def compare(self, a: Signature, b: Signature) -> float:
        same = super().compare(a, b)
        if not same or self.rule not in _WEIGHED:
            return same
        first, second = (
            np.frombuffer(s.payload, "<f4", offset=DIGEST_BYTES).astype(np.float64) for s in (a, b)
        )
        return float(weight_distance(first, second) < self.distance)


def feature_list(tokens: Sequence[str]) -> list[str]:
    """Return the distinct words by falling frequency, ties in code point order."""
    counts = Counter(tokens)
    return sorted(counts, key=lambda word: (-counts[word], word))


@attrs.frozen(kw_only=True)
class FeatureList(TextDigestMethod):
    """MD5 of the feature list, one word per line."""

    name: ClassVar[str] = "feature-list"

    def hashed(self, page: MethodInput) -> str:
        return "\n".join(feature_list(page.tokens))


# I-Match: the page's terms that are rare elsewhere, the 70 % with the largest IDF in falling order,
# hashed as one string (A. Chowdhury et al.: Collection statistics for fast duplicate document
# detection, ACM TOIS 20(2), 2002), and more strings with lexicons that lack a random part of all
# terms (A. Kołcz, A. Chowdhury, J. Alspector: Improved robustness of signature-based near-replica
# detection via lexicon randomization, KDD 2004).

NO_STRING: Final = bytes(DIGEST_BYTES)  # digest if a lexicon lacks all terms of the page


def by_rarity(terms: Sequence[str], frequencies: DocumentFrequencies) -> list[str]:
    """Return the distinct terms by falling IDF, ties in code point order."""
    distinct = sorted(set(terms))
    order = np.argsort(-frequencies.idf(distinct), kind="stable")
    return [distinct[i] for i in order.tolist()]


def rarest(ordered: Sequence[str], share: float) -> Sequence[str]:
    """Return the first ``share`` of the terms, rounded up, at least one.

    >>> rarest(["a", "b", "c", "d"], 0.7)
    ['a', 'b', 'c']
    """
    # A small tolerance, so that 0.7 * 10 does not become 8.
    return ordered[: max(1, math.ceil(share * len(ordered) - 1e-9))]


def in_lexicon(hashes: NDArray[np.uint64], lexicon: int, dropped: float) -> NDArray[np.bool_]:
    """Return which terms a lexicon has; lexicon 0 has all, others lack ``dropped`` of them."""
    if lexicon == 0:
        return np.ones(len(hashes), np.bool_)
    drawn = mixed(hashes + np.uint64(lexicon)) >> np.uint64(11)
    return np.asarray(drawn >= np.uint64(dropped * (1 << 53)), np.bool_)


def lexicon_digests(
    ordered: Sequence[str], hash_key: int, lexicons: int, dropped: float, share: float
) -> list[bytes]:
    """Return the MD5 of each lexicon's string, that of the full lexicon first.

    :param ordered: the page's terms by falling IDF
    :param lexicons: K, number of randomised lexicons besides the full one
    """
    hashes = np.fromiter((keyed_hash(t, hash_key) for t in ordered), np.uint64, len(ordered))
    digests = []
    for lexicon in range(lexicons + 1):
        known = np.flatnonzero(in_lexicon(hashes, lexicon, dropped)).tolist()
        kept = rarest([ordered[i] for i in known], share)
        digests.append(md5(" ".join(kept)) if kept else NO_STRING)
    return digests


@attrs.frozen(kw_only=True)
class Idf(DigestMethod):
    """I-Match: similarity 1 if some lexicon gives both pages the same string, else 0.

    Lexicon k is group k. Payload: for each lexicon the MD5 of its string, 16 bytes; zeros if the
    lexicon has no term of the page.

    :param share: share of terms that are kept, those with the largest IDF
    :param lexicons: K, number of randomised lexicons besides the full one
    :param dropped: share of all terms that a randomised lexicon lacks
    """

    name: ClassVar[str] = "idf"
    reads_frequencies: ClassVar[bool] = True
    share: float = attrs.field(default=0.7, validator=between(0.01, 1.0))
    lexicons: int = attrs.field(default=10, validator=whole(0, 32, " lexicons"))
    dropped: float = attrs.field(default=0.33, validator=between(0.0, 0.99))

    def sign(self, page: MethodInput) -> Signature | None:
        if not page.tokens:
            return None
        ordered = by_rarity(page.tokens, background())
        digests = lexicon_digests(ordered, self.hash_key, self.lexicons, self.dropped, self.share)
        keys = (
            (lexicon, digest_key(digest, self.hash_key))
            for lexicon, digest in enumerate(digests)
            if digest != NO_STRING
        )
        return Signature(tuple(keys), b"".join(digests))

    def compare(self, a: Signature, b: Signature) -> float:
        for i in range(0, len(a.payload), DIGEST_BYTES):
            digest = a.payload[i : i + DIGEST_BYTES]
            if digest != NO_STRING and digest == b.payload[i : i + DIGEST_BYTES]:
                return 1.0
        return 0.0
