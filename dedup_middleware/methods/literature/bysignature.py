"""The methods of the literature in a crawl: their keys are tables, their comparison decides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import attrs
import numpy as np
from numpy.typing import NDArray

from dedup_middleware.methods.base import Judgement, Method
from dedup_middleware.methods.literature.base import SignatureMethod
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
        """The name of the method."""
        return self.method.name

    @property
    def scan_distance(self) -> int:  # type: ignore[override]
        """Beyond the distance that decides, candidates of a SimHash are of no use."""
        if self.method.is_simhash:
            return round(_BITS * (1 - self.method.threshold))
        return self.common_distance

    @property
    def threshold(self) -> float:  # type: ignore[override]
        """That of the method."""
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

    def judge(
        self, page: Fingerprint, candidates: NDArray[np.void], payloads: Sequence[bytes] = ()
    ) -> Judgement:
        """Judge a page against candidates by this rule."""
        from dedup_middleware.signature.sketch import jaccards

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
