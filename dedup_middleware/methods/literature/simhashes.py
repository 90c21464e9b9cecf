"""Methods whose signature is the signs of a sum of random vectors: SimHash and random projection.

M. Charikar: Similarity estimation techniques from rounding algorithms, STOC 2002; G. Manku, A.
Jain, A. Das Sarma: Detecting near-duplicates for web crawling, WWW 2007.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from hashlib import blake2b
from itertools import islice, pairwise
from typing import ClassVar, Final

import attrs
import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base.settingfields import between, one_of
from dedup_middleware.methods.literature.base import KeyedMethod, MethodInput, share
from dedup_middleware.methods.literature.frequencies import background
from dedup_middleware.model.fingerprint import Signature
from dedup_middleware.model.keys import keyed_hash
from dedup_middleware.signature.simhash import BITS, BLOCK_BITS, simhash
from dedup_middleware.text.trie import jieba_file

# Signatures that are one SimHash: four 16-bit blocks as keys, compared by Hamming distance. Two
# fingerprints that differ in at most three of 64 bits share one of four blocks (Manku et al.). Keys
# are those of 周游, 贾创辉: 大规模文本去重研究, 现代计算机 2019(6): ``00A, 01B, 10C, 11D``, the
# number of a block, then the block.

BLOCKS: Final = 4
#: similarity of fingerprints that differ in three bits
WITHIN_3_BITS: Final = 1 - 3 / BITS


def blocks(simhash: int) -> tuple[int, ...]:
    """Return the four 16-bit blocks of a fingerprint, highest bits first.

    >>> [hex(block) for block in blocks(0x0001_0002_0003_0004)]
    ['0x1', '0x2', '0x3', '0x4']
    """
    return tuple(simhash >> BITS - BLOCK_BITS * (i + 1) & 0xFFFF for i in range(BLOCKS))


def simhash_signature(simhash: int) -> Signature:
    """Return a signature: key i, in group i, is i followed by block i; payload: 8 bytes."""
    keys = enumerate(block << BITS - BLOCK_BITS for block in blocks(simhash))
    return Signature(tuple(keys), simhash.to_bytes(8, "little"))


def simhash_of(signature: Signature) -> int:
    """Return the fingerprint in a signature."""
    return int.from_bytes(signature.payload, "little")


def differing_bits(a: Signature, b: Signature) -> int:
    """Return the Hamming distance of two payloads.

    :raises ValueError: their lengths differ
    """
    if len(a.payload) != len(b.payload):
        raise ValueError("signs of another number can't be compared")
    return int.bit_count(int.from_bytes(a.payload, "little") ^ int.from_bytes(b.payload, "little"))


class OneSimHash(KeyedMethod):
    """A method whose signature is one SimHash (:func:`simhash_signature`).

    If the threshold allows more than 3 differing bits, the four tables may miss pages.
    """

    is_simhash: ClassVar[bool] = True

    def compare(self, a: Signature, b: Signature) -> float:
        return 1 - differing_bits(a, b) / BITS


# SimHash of words with the feature hashes of a lecture (罗刚: 搜索引擎开发实践, lecture 13,
# 文档排重). The bits of its two hashes are biased, so a keyed hash is the default.

KEYED: Final = "keyed"
ENUMERATED: Final = "enumerated"
STRING: Final = "string"

HAN_CODES: Final = 72 * 94  # rows 16 to 87 of GB2312
BASE: Final = 6885
CODE_BITS: Final = 13  # 2**13 > 6885
_MASK: Final = (1 << BITS) - 1


def enumerated_hash(ordinal: int, features: int) -> int:
    """Return the lecture's hash of feature number ``ordinal`` among ``features``.

    The value starts as the ordinal, which has b = ceil(log2 features) bits; 64 // b times it is
    shifted left by b and the ordinal added, modulo 2**64.

    :raises ValueError: an ordinal out of range

    >>> hex(enumerated_hash(3, 16))
    '0x3333333333333333'
    """
    if not 0 <= ordinal < features <= 1 << BITS:
        raise ValueError(f"ordinal={ordinal} must lie in 0..{features - 1}, at most 2**64 features")
    bits = max(1, (features - 1).bit_length())
    value = ordinal
    for _ in range(BITS // bits):
        value = (value << bits) + ordinal & _MASK
    return value


def character_index(character: str) -> int | None:
    """Return the index of a character, below 6885: ``(b0 - 176) * 94 + (b1 - 161)`` for Han
    characters of GB2312, ``b - 9 + 6768`` for a single byte b.

    None if the formula has no index for it (ours): other rows of GB2312, characters outside it, and
    single bytes outside 9..125.

    >>> character_index("啊"), character_index("阿"), character_index("A"), character_index("，")
    (0, 1, 6824, None)
    """
    code = character.encode("gb2312", "ignore")
    if len(code) == 1:
        index = code[0] - 9 + HAN_CODES
        return index if HAN_CODES <= index < BASE else None
    if len(code) == 2 and code[0] >= 176:
        return (code[0] - 176) * 94 + (code[1] - 161)
    return None


def string_hash(word: str) -> int | None:
    """Return the lecture's hash of a Chinese string; None if none of its characters has an index.

    Horner's rule in base 6885 gives ``original``; then, for i from 0 to 64 / maxBit inclusive, ``h
    = (h << (maxBit & 63)) + original`` with maxBit = 13 * length, all mod 2**64. Characters without
    an index are left out and do not count in the length.

    >>> string_hash("阿") == 1 + (1 << 13) + (1 << 26) + (1 << 39) + (1 << 52)
    True
    """
    indexes = [index for index in map(character_index, word) if index is not None]
    if not indexes:
        return None
    original = 0
    for index in indexes:
        original = original * BASE + index & _MASK
    most_bits = CODE_BITS * len(indexes)
    value = original
    for _ in range(BITS // most_bits + 1):
        value = (value << (most_bits & 63)) + original & _MASK
    return value


@lru_cache(maxsize=1)
def dictionary_features() -> Mapping[str, int]:
    """Return the words of jieba's dictionary with their ordinals in line order."""
    lines = jieba_file("dict.txt").read_text("utf-8").splitlines()
    # A repeated word has one ordinal, so ordinals end at the number of distinct words.
    words = dict.fromkeys(line.split(" ", 1)[0] for line in lines)
    return {word: ordinal for ordinal, word in enumerate(words)}


@attrs.frozen
class Luogang(OneSimHash):
    """SimHash of the words of a page, weighted by frequency.

    :param hash: ``keyed``, ``enumerated`` (without words not in jieba's dictionary) or ``string``
    :param zero_sets: a bit with balanced votes is 1, as in the lecture; else 0, as in ``simhash``
    """

    name: ClassVar[str] = "luogang"
    threshold: float = share(WITHIN_3_BITS)
    hash: str = attrs.field(default=KEYED, validator=one_of(KEYED, ENUMERATED, STRING))
    zero_sets: bool = True

    def _feature_hash(self) -> Callable[[str], int | None]:
        if self.hash == STRING:
            return string_hash
        if self.hash == KEYED:
            return lambda word: keyed_hash(word, self.hash_key)
        known = dictionary_features()
        return lambda word: enumerated_hash(known[word], len(known)) if word in known else None

    def sign(self, page: MethodInput) -> Signature | None:
        hash_of = self._feature_hash()
        counts = Counter(page.tokens)
        hashed = [(hash_of(word), count) for word, count in counts.items()]
        known = [(value, count) for value, count in hashed if value is not None]
        signed = simhash(
            np.array([value for value, _ in known], np.uint64),
            np.array([count for _, count in known], np.uint32),
        )
        if signed is None:
            return None
        balanced = np.packbits(signed.sums == 0, bitorder="little").tobytes()
        zeros = int.from_bytes(balanced, "little") if self.zero_sets else 0
        return simhash_signature(signed.value | zeros)


# Weighted SimHash: 周游, 贾创辉: 大规模文本去重研究, 现代计算机 2019(6). Ours, as the paper does
# not print its formula:
#
#     w = (1 + ln tf) * idf * length factor * title factor
#
# with idf = 1 + ln((N + 1) / (df + 1)), length factor = 1 + ln(min(characters, 8)), as longer words
# have fewer meanings, and title factor = ``title_boost`` for words of the title, 1 for others. Each
# factor can be switched off.

LONGEST: Final = 8  # characters beyond which words do not get more specific


@attrs.frozen
class WeightedSimHash(OneSimHash):
    """SimHash of the words of a page, weighted as above; a duplicate within 3 bits.

    ``tf``, ``idf``, ``length`` and ``title`` switch factors on; ``title_boost``: title factor.
    """

    name: ClassVar[str] = "weighted-simhash"
    reads_frequencies: ClassVar[bool] = True
    threshold: float = share(WITHIN_3_BITS)
    tf: bool = True
    idf: bool = True
    length: bool = True
    title: bool = True
    title_boost: float = attrs.field(default=2.0, validator=between(1.0, 100.0))

    def weights(self, counts: Mapping[str, int], title: Collection[str]) -> NDArray[np.float64]:
        """Return the weight of each counted word, in order."""
        words = list(counts)
        weights = np.ones(len(words), np.float64)
        if self.tf:
            weights *= 1.0 + np.log(np.fromiter(counts.values(), np.int64, len(words)))
        if self.idf:
            weights *= background().idf(words)
        if self.length:
            lengths = (min(max(len(word), 1), LONGEST) for word in words)
            weights *= 1.0 + np.log(np.fromiter(lengths, np.float64, len(words)))
        if self.title:
            known = frozenset(title)
            weights *= [self.title_boost if word in known else 1.0 for word in words]
        return weights

    def sign(self, page: MethodInput) -> Signature | None:
        counts = Counter(page.tokens)
        hashes = (keyed_hash(word, self.hash_key) for word in counts)
        features = np.fromiter(hashes, np.uint64, len(counts))
        signed = simhash(features, self.weights(counts, page.title_tokens))
        return None if signed is None else simhash_signature(signed.value)


# Random projection, of 網頁排重演算法, a survey of fingerprint rules (2009), after Charikar: each
# token has a random vector of +1 and -1; the signs of their sum are kept. Vectors are bits of a
# keyed hash of the token, so they need no memory and are the same in all processes.

SIGNS: Final = 384
SIGN_BYTES: Final = SIGNS // 8
MOST_BLOCKS: Final = 16
_CHUNK: Final = 4096  # tokens at a time, 12 MB of vectors for a page of any size


def token_bits(token: str, hash_key: int) -> bytes:
    """Return the random vector of a token, 384 bits: 1 means +1, 0 means -1."""
    key = hash_key.to_bytes(8, "little")
    return blake2b(token.encode("utf-8", "surrogatepass"), digest_size=SIGN_BYTES, key=key).digest()


def projection_sums(counts: Mapping[str, int], hash_key: int) -> NDArray[np.int64]:
    """Return the sum of the tokens' vectors, each times its count, int64[384]."""
    positive = np.zeros(SIGNS)
    entries = iter(counts.items())
    while chunk := list(islice(entries, _CHUNK)):
        raw = b"".join(token_bits(token, hash_key) for token, _ in chunk)
        bits = np.unpackbits(np.frombuffer(raw, np.uint8), bitorder="little").reshape(-1, SIGNS)
        # Exact: doubles hold integers below 2**53, and BLAS multiplies doubles.
        positive += np.array([count for _, count in chunk], np.float64) @ bits.astype(np.float64)
    return 2 * positive.astype(np.int64) - sum(counts.values())


def sign_bits(sums: NDArray[np.int64]) -> bytes:
    """Return one bit per sum, lowest first: 1 if it is positive."""
    return np.packbits(sums > 0, bitorder="little").tobytes()


def blocks_for(threshold: float) -> int:
    """Return the number of blocks of which one is equal if the similarity reaches the threshold.

    >>> blocks_for(372 / 384)
    13
    """
    return SIGNS - math.ceil(threshold * SIGNS) + 1


def block_keys(signs: bytes, count: int) -> tuple[tuple[int, int], ...]:
    """Cut the signs into ``count`` blocks, one group each; none if blocks would be too short.

    They find every page with fewer than ``count`` differing bits (pigeonhole principle). More than
    16 blocks would be shorter than 24 bits and shared by chance.
    """
    if count > MOST_BLOCKS:
        return ()
    number = int.from_bytes(signs, "little")
    bounds = [i * SIGNS // count for i in range(count + 1)]
    keys = []
    for i, (first, last) in enumerate(pairwise(bounds)):
        block = number >> first & (1 << last - first) - 1
        width = min(last - first, 64)
        keys.append((i, (block & (1 << width) - 1) << 64 - width))
    return tuple(keys)


@attrs.frozen
class RandomProjection(KeyedMethod):
    """Share of equal signs; by default 372 of 384 make a duplicate.

    Payload: the signs, 48 bytes. A threshold below 369 / 384 would need more than 16 blocks, so
    there are no keys, and the usual candidates are compared.
    """

    name: ClassVar[str] = "random-projection"
    # The threshold determines the number of blocks, and so the keys.
    used_to_compare: ClassVar[frozenset[str]] = frozenset()
    threshold: float = share(372 / SIGNS)

    @property
    def has_keys(self) -> bool:
        """Whether signatures have keys: not below the threshold for 16 blocks."""
        return blocks_for(self.threshold) <= MOST_BLOCKS

    def sign(self, page: MethodInput) -> Signature | None:
        if not page.tokens:
            return None
        signs = sign_bits(projection_sums(Counter(page.tokens), self.hash_key))
        return Signature(block_keys(signs, blocks_for(self.threshold)), signs)

    def compare(self, a: Signature, b: Signature) -> float:
        return 1 - differing_bits(a, b) / SIGNS
