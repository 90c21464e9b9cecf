"""Random projection: a random vector of +1 and -1 for each token, summed up; its signs are kept.

網頁排重演算法, a survey of fingerprint rules (2009), after M. Charikar: Similarity estimation
techniques from rounding algorithms, STOC 2002. The vectors are the bits of a keyed hash of the
token, so none is kept in memory and every process has the same.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from itertools import islice, pairwise
from typing import ClassVar, Final

import attrs
import numpy as np
from numpy.typing import NDArray

from dedup_middleware.methods import parameters
from dedup_middleware.methods.reading import Reading, Signature, SignatureMethod

BITS: Final = 384
BYTES: Final = BITS // 8
WORDS: Final = BITS // 64
MOST_BLOCKS: Final = 16
_CHUNK: Final = 4096  # tokens at a time: 12 MB of sums' addends however large the page is


def token_bits(token: str, hash_key: int) -> bytes:
    """The random vector of a token, 384 bits: 1 stands for +1, 0 for -1."""
    key = hash_key.to_bytes(8, "little")
    return blake2b(token.encode("utf-8", "surrogatepass"), digest_size=BYTES, key=key).digest()


def _chunks(counts: Mapping[str, int]) -> Iterator[list[tuple[str, int]]]:
    entries = iter(counts.items())
    while chunk := list(islice(entries, _CHUNK)):
        yield chunk


def projection_sums(counts: Mapping[str, int], hash_key: int) -> NDArray[np.int64]:
    """Sum of the tokens' vectors, each as often as the token occurs, int64[384]."""
    positive = np.zeros(BITS)
    for chunk in _chunks(counts):
        raw = b"".join(token_bits(token, hash_key) for token, _ in chunk)
        bits = np.unpackbits(np.frombuffer(raw, np.uint8), bitorder="little").reshape(-1, BITS)
        # Whole numbers below 2**53: doubles add them without error, and BLAS knows doubles.
        positive += np.array([count for _, count in chunk], np.float64) @ bits.astype(np.float64)
    return 2 * positive.astype(np.int64) - sum(counts.values())


def sign_bits(sums: NDArray[np.int64]) -> bytes:
    """One bit a sum, lowest first: 1 if it is positive."""
    return np.packbits(sums > 0, bitorder="little").tobytes()


def blocks_for(threshold: float) -> int:
    """Blocks of which one is equal whenever the similarity reaches the threshold.

    >>> blocks_for(372 / 384)
    13
    """
    return BITS - math.ceil(threshold * BITS) + 1


def block_keys(signs: bytes, count: int) -> tuple[tuple[int, int], ...]:
    """The signs cut into ``count`` blocks, one group each; none if blocks would be too short.

    By the pigeonhole principle ``count`` blocks find every page that differs in less than
    ``count`` bits. More than 16 would be shorter than 24 bits, and shared by chance.
    """
    if count > MOST_BLOCKS:
        return ()
    number = int.from_bytes(signs, "little")
    bounds = [i * BITS // count for i in range(count + 1)]
    keys = []
    for i, (first, last) in enumerate(pairwise(bounds)):
        block = number >> first & (1 << last - first) - 1
        width = min(last - first, 64)
        keys.append((i, (block & (1 << width) - 1) << 64 - width))
    return tuple(keys)


@attrs.frozen
class RandomProjection(SignatureMethod):
    """Share of equal signs; similar when 372 of 384 agree.

    Payload: the signs, 48 bytes. With a threshold below 369 / 384 the keys would not find every
    page, and there are none: the common candidates are compared.

    :param hash_key: key of the vectors
    """

    name: ClassVar[str] = "random-projection"
    # The threshold sets the number of blocks, and so the keys.
    used_to_compare: ClassVar[frozenset[str]] = frozenset()
    threshold: float = attrs.field(default=372 / BITS, validator=parameters.share)
    hash_key: int = attrs.field(default=0, validator=parameters.hash_key, repr=False)

    @property
    def has_keys(self) -> bool:
        """See :class:`.SignatureMethod`: not below the threshold that 16 blocks allow."""
        return blocks_for(self.threshold) <= MOST_BLOCKS

    def sign(self, reading: Reading) -> Signature | None:
        """See :class:`.SignatureMethod`; None for a page without tokens."""
        if not reading.tokens:
            return None
        signs = sign_bits(projection_sums(Counter(reading.tokens), self.hash_key))
        return Signature(block_keys(signs, blocks_for(self.threshold)), signs)

    def compare(self, a: Signature, b: Signature) -> float:
        """See :class:`.SignatureMethod`."""
        from dedup_middleware.signature.hamming import distances

        rows = np.frombuffer(a.payload, "<u8").reshape(1, WORDS).astype(np.uint64)
        query = np.frombuffer(b.payload, "<u8").astype(np.uint64)
        return 1 - int(distances(rows, query)[0]) / BITS
