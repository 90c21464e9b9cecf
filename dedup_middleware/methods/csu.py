"""The patent's pipeline: shingles, sample, min-wise fingerprint, classes, SIMD comparison.

龙军, 张祖平, 袁鑫攀, 罗跃逸: patent CN102024065, 基于SIMD优化的网页去重并行方法 (2011).

1. Title and body, segmented by forward maximum matching, without stop words, become shingles of
   w tokens (:mod:`.csu_shingles`).
2. About n of them are sampled and hashed to M min-wise values of 16 bits, 8 of which fill one
   SIMD register (:mod:`.csu_fingerprint`).
3. Pages that have a value in common form a class; only inside a class pages are compared.
4. The comparison counts the equal values (:mod:`.csu_simd`): similarity = equal / M.

The patent names neither n nor the threshold, and calls pages of one class alike. Ours: n = 1024,
so that nearly all pages are compared by all of their shingles; half of the values must agree;
and because eight values tell Jaccard indexes of 0.6 and 0.8 apart badly, the Jaccard index of all
shingles, estimated from 512 more minima, must be at least 0.7.
"""

from __future__ import annotations

from typing import ClassVar

import attrs
import numpy as np
from numpy.typing import NDArray

from dedup_middleware.methods import parameters
from dedup_middleware.methods.csu_fingerprint import (
    POSITION_BITS,
    fingerprint,
    verification_sketch,
)
from dedup_middleware.methods.csu_shingles import HASH, POSITION, page_shingles, sample
from dedup_middleware.methods.reading import Reading, Signature, SignatureMethod


def class_keys(
    values: NDArray[np.uint16], any_position: bool = False
) -> tuple[tuple[int, int], ...]:
    """The classes of a fingerprint: pages are in one class when they share one of these keys.

    Values at different positions come from different permutations, so an equal value at another
    position, which the patent's text allows (``any_position``), is chance.
    """
    pairs = {
        (0 if any_position else j, value << 64 - POSITION_BITS)
        for j, value in enumerate(values.tolist())
    }
    return tuple(sorted(pairs))


@attrs.frozen
class Csu(SignatureMethod):
    """Equal positions of two min-wise fingerprints, verified by the Jaccard index.

    The similarity is equal / M for pages whose estimated Jaccard index is at least ``verify``, and
    0 for others. Payload: M values ``<u2``, then the sketch, 8 words ``<u8``.

    :param threshold: share of the positions that must be equal
    :param verify: Jaccard index of the shingles that a duplicate must have; 0: no verification
    :param positions: M, 7 to 10
    :param width: tokens in a shingle, 2 to 4
    :param samples: n, shingles that are sampled, about
    :param sampling: ``hash``, or the patent's ``position``
    :param any_position: pages with equal values at different positions are in one class too
    :param hash_key: key of all hashes
    """

    name: ClassVar[str] = "csu"
    used_to_compare: ClassVar[frozenset[str]] = frozenset({"threshold", "verify"})
    segmenter: ClassVar[str | None] = "fmm"
    threshold: float = attrs.field(default=0.5, validator=parameters.share)
    verify: float = attrs.field(default=0.7, validator=parameters.share)
    positions: int = attrs.field(default=8, validator=parameters.whole(7, 10, " positions"))
    width: int = attrs.field(default=3, validator=parameters.whole(2, 4, " tokens"))
    samples: int = attrs.field(default=1024, validator=parameters.whole(1, 1 << 30, " shingles"))
    sampling: str = attrs.field(default=HASH, validator=parameters.one_of(HASH, POSITION))
    any_position: bool = False
    hash_key: int = attrs.field(default=0, validator=parameters.hash_key, repr=False)

    def sign(self, reading: Reading) -> Signature | None:
        """See :class:`.SignatureMethod`; None for a page without tokens."""
        shingles = page_shingles(reading.title_tokens, reading.tokens, self.width, self.hash_key)
        if not len(shingles):
            return None
        values = fingerprint(sample(shingles, self.samples, self.sampling), self.positions)
        sketch = verification_sketch(shingles)
        payload = values.astype("<u2").tobytes() + sketch.astype("<u8").tobytes()
        return Signature(class_keys(values, self.any_position), payload)

    def compare(self, a: Signature, b: Signature) -> float:
        """See :class:`.SignatureMethod`."""
        from dedup_middleware.methods.csu_simd import equal_positions
        from dedup_middleware.signature.sketch import jaccard

        pair = np.frombuffer(a.payload + b.payload, np.uint8).reshape(2, -1)
        values = np.ascontiguousarray(pair[:, : 2 * self.positions]).view("<u2")
        sketches = np.ascontiguousarray(pair[:, 2 * self.positions :]).view("<u8")
        if jaccard(sketches[0].astype(np.uint64), sketches[1].astype(np.uint64)) < self.verify:
            return 0.0
        return int(equal_positions(values[:1].astype(np.uint16), values[1])[0]) / self.positions
