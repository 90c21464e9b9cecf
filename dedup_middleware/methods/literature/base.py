"""The interface of methods from the literature, and how a crawl decides by them.

Each method is a frozen class without state: ``sign`` turns a page into a signature, ``compare``
returns the similarity of two signatures. In a crawl (:class:`BySignature`) each group of keys is a
table of the index, and a page is a duplicate if the similarity reaches the method's threshold.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import attrs
import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base.settingfields import between, whole
from dedup_middleware.methods.base import Judgement, Method, Payloads, Records
from dedup_middleware.model.buckets import (
    FIRST_BAND_TABLE,
    KEY_TABLE,
    BucketKey,
    hash_bucket_key,
    simhash_bucket_keys,
)
from dedup_middleware.model.fingerprint import Fingerprint, Signature
from dedup_middleware.signature.minhash import jaccards
from dedup_middleware.signature.simhash import BITS as SIMHASH_BITS

TOO_DIFFERENT = "too-different"
NO_SIGNATURE = "no-signature"


def share(default: float) -> Any:
    """Declare a parameter from 0 to 1."""
    return attrs.field(default=default, validator=between(0.0, 1.0))


@attrs.frozen(eq=False)
class MethodInput:
    """The parts of a page that a method may use.

    :param text: body text, cut to ``DEDUP_MAX_CHARS``
    :param tokens: body text segmented and normalised, without stop words
    :param title_tokens: tokens of the title
    :param description: summary given by the page itself (meta description), if any
    """

    title: str
    text: str = attrs.field(repr=False)
    tokens: tuple[str, ...] = attrs.field(repr=False)
    title_tokens: tuple[str, ...] = attrs.field(default=(), repr=False)
    description: str = attrs.field(default="", repr=False)


class SignatureMethod(ABC):
    """A method that compares signatures; its parameters are its attributes."""

    name: ClassVar[str]
    #: segmenter prescribed by the source; None: any
    segmenter: ClassVar[str | None] = None
    #: whether it uses tokens; if not, it gets none
    reads_tokens: ClassVar[bool] = True
    #: whether its signatures are single SimHashes, whose tables can be scanned
    is_simhash: ClassVar[bool] = False
    #: whether it weighs terms by :func:`.background`
    reads_frequencies: ClassVar[bool] = False
    #: attributes that affect only ``compare``, not whether signatures can be compared
    used_to_compare: ClassVar[frozenset[str]] = frozenset({"threshold"})
    #: similarity from which a page is a duplicate
    threshold: float

    @property
    def has_keys(self) -> bool:
        """Whether signatures have keys; if not, the usual candidates are compared."""
        return True

    @abstractmethod
    def sign(self, page: MethodInput) -> Signature | None:
        """Return the signature of a page; None if it has nothing to compare: it matches no page."""

    @abstractmethod
    def compare(self, a: Signature, b: Signature) -> float:
        """Return the similarity of two pages from 0 to 1; symmetric."""

    def gather(self, payloads: Sequence[bytes]) -> Any:
        """Prepare the payloads of many pages for ``similarities``."""
        return tuple(payloads)

    def similarities(self, own: Signature, gathered: Any) -> NDArray[np.float64]:
        """Return the similarity of a page to each gathered one, as by ``compare``.

        It is 0 for an empty payload and for bytes that this method did not write, so a damaged
        index can't make a page a duplicate.
        """
        return np.array([self._similarity(own, payload) for payload in gathered], np.float64)

    def _similarity(self, own: Signature, payload: bytes) -> float:
        try:
            return self.compare(own, Signature((), payload)) if payload else 0.0
        except (ValueError, IndexError):
            return 0.0


@attrs.frozen(kw_only=True)
class KeyedMethod(SignatureMethod):
    """A method whose hashes are keyed."""

    hash_key: int = attrs.field(default=0, validator=whole(0, (1 << 64) - 1), repr=False)


def signature_bucket_keys(signature: Signature) -> tuple[BucketKey, ...]:
    """Return the bucket keys of a signature; group g is the table of band g.

    If two keys of a group fall into one bucket by chance, the first is used.
    """
    by_bucket: dict[int, BucketKey] = {}
    for group, value in signature.keys:
        bucket_key = hash_bucket_key(FIRST_BAND_TABLE + group, value)
        by_bucket.setdefault(bucket_key.bucket, bucket_key)
    return tuple(by_bucket.values())


@attrs.frozen
class BySignature(Method):
    """Decides by the similarity of two signatures and the method's threshold.

    Candidates are pages that share a key; for a SimHash, pages within the distance in the four
    tables; for a method without keys, the usual candidates (:meth:`.Method.bucket_keys`).

    :param method: the method from the literature; its hash key does not matter here
    :param common_distance: largest Hamming distance in bits of the usual candidates
    """

    keeps_payload: ClassVar[bool] = True
    method: SignatureMethod
    common_distance: int
    min_features: int
    sketch_bits: int = 1  # bits of the sketch per minimum

    @property
    def name(self) -> str:  # type: ignore[override]
        return self.method.name

    @property
    def scan_distance(self) -> int:  # type: ignore[override]
        """Largest distance of candidates: for SimHashes the one that decides."""
        if self.method.is_simhash:
            return round(SIMHASH_BITS * (1 - self.method.threshold))
        return self.common_distance

    @property
    def threshold(self) -> float:  # type: ignore[override]
        return self.method.threshold

    def bucket_keys(self, page: Fingerprint) -> tuple[BucketKey, ...]:
        """Return the bucket key of the document key, then those of the signature, if any."""
        signature = page.signature
        if signature is None:
            return (hash_bucket_key(KEY_TABLE, page.key_hash),)
        if not self.method.has_keys:
            return super().bucket_keys(page)
        own = hash_bucket_key(KEY_TABLE, page.key_hash)
        if self.method.is_simhash and page.simhash is not None:
            return (own, *simhash_bucket_keys(page.simhash))
        return (own, *signature_bucket_keys(signature))

    def table_name(self, table: int) -> str:
        """Return the name of a table; tables of key groups are named after the method.

        >>> from dedup_middleware.methods.literature.digests import Md5

        >>> method = BySignature(Md5(), 22, 8)
        >>> [method.table_name(table) for table in (0, 10)]
        ['key', 'md5/0']
        """
        if table < FIRST_BAND_TABLE or not self.method.has_keys:
            return super().table_name(table)
        return f"{self.name}/{table - FIRST_BAND_TABLE}"

    def judge(self, page: Fingerprint, candidates: Records, payloads: Payloads = ()) -> Judgement:
        similarity = (
            np.zeros(len(payloads), np.float64)
            if page.signature is None
            else self.method.similarities(page.signature, self.method.gather(payloads))
        )
        known = np.array([bool(payload) for payload in payloads], np.bool_)
        known &= page.signature is not None
        duplicate = known & (similarity >= self.method.threshold)
        reasons = tuple(
            self.name if duplicate[i] else TOO_DIFFERENT if known[i] else NO_SIGNATURE
            for i in range(len(candidates))
        )
        jaccard = jaccards(page.sketch, candidates["sketch"], self.sketch_bits)
        return Judgement(duplicate, similarity, jaccard, reasons)
