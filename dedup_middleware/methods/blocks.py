"""Signatures that are one SimHash: four 16-bit blocks as keys, Hamming distance as comparison.

Two fingerprints that differ in at most three of 64 bits have one of four blocks in common
(G. Manku, A. Jain, A. Das Sarma: Detecting near-duplicates for web crawling, WWW 2007). The keys
are those of 周游, 贾创辉: 大规模文本去重研究, 现代计算机 2019(6): ``00A, 01B, 10C, 11D``, the
number of a block and the block.
"""

from __future__ import annotations

from typing import Final

from dedup_middleware.methods.reading import Signature

BITS: Final = 64
BLOCKS: Final = 4
BLOCK_BITS: Final = BITS // BLOCKS
#: similarity of two fingerprints that differ in three bits
WITHIN_3_BITS: Final = 1 - 3 / BITS


def blocks(simhash: int) -> tuple[int, ...]:
    """The four 16-bit blocks of a fingerprint, highest bits first.

    >>> [hex(block) for block in blocks(0x0001_0002_0003_0004)]
    ['0x1', '0x2', '0x3', '0x4']
    """
    return tuple(simhash >> BITS - BLOCK_BITS * (i + 1) & 0xFFFF for i in range(BLOCKS))


def simhash_signature(simhash: int) -> Signature:
    """Keys: block i, in the high bits, in group i; payload: the fingerprint, 8 bytes."""
    keys = enumerate(block << BITS - BLOCK_BITS for block in blocks(simhash))
    return Signature(tuple(keys), simhash.to_bytes(8, "little"))


def simhash_of(signature: Signature) -> int:
    """The fingerprint that a signature was made of."""
    return int.from_bytes(signature.payload, "little")


def hamming_similarity(a: Signature, b: Signature) -> float:
    """``1 - hamming / 64``."""
    return 1 - int.bit_count(simhash_of(a) ^ simhash_of(b)) / BITS
