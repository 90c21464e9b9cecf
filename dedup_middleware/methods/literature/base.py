"""What a method of the literature reads of a page, keeps and returns, and how it decides.

Every such method is a frozen class without state: ``sign`` turns a page into a signature,
``compare`` gives the similarity of two signatures. In a crawl (:class:`BySignature`) each group
of keys is a table of the index, and a page is a duplicate if the similarity reaches the threshold
of the method.
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

TOO_DIFFERENT = "too-different"
NO_SIGNATURE = "no-signature"
_BITS = 64


def share(default: float) -> Any:
    """A field from 0 to 1."""
    return attrs.field(default=default, validator=between(0.0, 1.0))


@attrs.frozen(eq=False)
class MethodInput:
    """What a method may use of a page.

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
    #: whether it weighs terms by :func:`.background`
    reads_frequencies: ClassVar[bool] = False
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


@attrs.frozen(kw_only=True)
class KeyedMethod(SignatureMethod):
    """A method whose hashes have a key."""

    hash_key: int = attrs.field(default=0, validator=whole(0, (1 << 64) - 1), repr=False)


def signature_bucket_keys(signature: Signature) -> tuple[BucketKey, ...]:
    """Places of the keys: group g is the table of band g, and one index has one method.

    Where two keys of a group share a bucket, which is chance, the first has it.
    """
    places: dict[int, BucketKey] = {}
    for group, value in signature.keys:
        bucket_key = hash_bucket_key(FIRST_BAND_TABLE + group, value)
        places.setdefault(bucket_key.bucket, bucket_key)
    return tuple(places.values())


@attrs.frozen
class BySignature(Method):
    """Similarity of two signatures, as the method computes it, against its threshold.

    Candidates are the pages that share a key; of a SimHash those within the distance in the four
    tables; and for a method without keys the common candidates (:meth:`.Method.bucket_keys`).

    :param method: the method of the literature; its hash key does not matter here
    :param common_distance: largest Hamming distance of the common candidates in bits
    """

    keeps_payload: ClassVar[bool] = True
    method: SignatureMethod
    common_distance: int
    min_features: int
    sketch_bits: int = 1  # bits that the sketch holds of each minimum

    @property
    def name(self) -> str:  # type: ignore[override]
        return self.method.name

    @property
    def scan_distance(self) -> int:  # type: ignore[override]
        """Beyond the distance that decides, candidates of a SimHash are of no use."""
        if self.method.is_simhash:
            return round(_BITS * (1 - self.method.threshold))
        return self.common_distance

    @property
    def threshold(self) -> float:  # type: ignore[override]
        return self.method.threshold

    def bucket_keys(self, page: Fingerprint) -> tuple[BucketKey, ...]:
        """The key, then the places of the signature; a page without one equals no page."""
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
        """Name of a table; a group of keys is called after the method.

        >>> from dedup_middleware.methods.literature.digests import Md5

        >>> method = BySignature(Md5(), 22, 8)
        >>> [method.table_name(table) for table in (0, 10)]
        ['key', 'md5/0']
        """
        if table < FIRST_BAND_TABLE or not self.method.has_keys:
            return super().table_name(table)
        return f"{self.name}/{table - FIRST_BAND_TABLE}"

    def judge(self, page: Fingerprint, candidates: Records, payloads: Payloads = ()) -> Judgement:
        from dedup_middleware.signature.minhash import jaccards

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
