"""SimHash of words with the feature hashes of the lecture.

罗刚: 搜索引擎开发实践, lecture 13, 文档排重; G. Manku, A. Jain, A. Das Sarma: Detecting
near-duplicates for web crawling, WWW 2007.

The lecture's own two feature hashes are here for fidelity. Both bias bits: ordinals leave the
highest bits empty and repeat themselves, the string hash of a short word is the word's few bits
repeated. The keyed hash is the default. Where the lecture shifts an ``int`` (``1 << c``), only 32
bits of the histogram are ever counted; all shifts here have 64 bits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, ClassVar, Final

import attrs
import numpy as np

from dedup_middleware.errors import OptionsError
from dedup_middleware.fingerprint import keyed_hash
from dedup_middleware.methods import parameters
from dedup_middleware.methods.blocks import (
    BITS,
    WITHIN_3_BITS,
    hamming_similarity,
    simhash_signature,
)
from dedup_middleware.methods.reading import Reading, Signature, SignatureMethod
from dedup_middleware.text.dictionary import jieba_dictionary

KEYED: Final = "keyed"
ENUMERATED: Final = "enumerated"
STRING: Final = "string"

HAN_CODES: Final = 72 * 94  # rows 16 to 87 of GB2312
BASE: Final = 6885
CODE_BITS: Final = 13  # 2**13 > 6885
_MASK: Final = (1 << BITS) - 1


def enumerated_hash(ordinal: int, features: int) -> int:
    """Hash of the feature with a number, of ``features`` there are.

    The ordinal has b = ceil(log2 n) bits and is repeated 64 / b times from the lowest bit on; the
    bits that are left over are 0.

    :raises ValueError: an ordinal out of range

    >>> hex(enumerated_hash(3, 16))
    '0x3333333333333333'
    """
    if not 0 <= ordinal < features <= 1 << BITS:
        raise ValueError(f"ordinal={ordinal} must lie in 0..{features - 1}, at most 2**64 features")
    bits = max(1, (features - 1).bit_length())
    return sum(ordinal << i * bits for i in range(BITS // bits))


def character_index(character: str) -> int | None:
    """Index of a character below 6885: ``(b0 - 176) * 94 + (b1 - 161)`` for the Han characters of
    GB2312, ``b - 9 + 6768`` for a single byte b.

    None for what the formula has no place for (ours): other rows of GB2312, characters it lacks,
    and single bytes outside 9..125.

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
    """The lecture's hash of a Chinese string; None if no character of it has an index.

    Horner's rule in base 6885 gives ``original``; then, for i from 0 to 64 / maxBit inclusive,
    ``h = (h << (maxBit & 63)) + original`` with maxBit = 13 * length, all mod 2**64. Characters
    without an index are left out, of the length too.

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
    """The words of jieba's dictionary and their ordinals: the order of the lines."""
    lines = jieba_dictionary().read_text("utf-8").splitlines()
    # A word that stands there twice has one ordinal, so that they end at the number of words.
    words = dict.fromkeys(line.split(" ", 1)[0] for line in lines)
    return {word: ordinal for ordinal, word in enumerate(words)}


def _check_vocabulary(
    instance: Any, _: attrs.Attribute[Any], value: Mapping[str, int] | None
) -> None:
    if value is None:
        return
    wrong = next((o for o in value.values() if not 0 <= o < len(value)), None)
    if wrong is not None:
        fix = f"give the {len(value)} words ordinals from 0 to {len(value) - 1}"
        raise OptionsError(f"{instance.name}.vocabulary", wrong, fix)


@attrs.frozen
class Luogang(SignatureMethod):
    """SimHash of the words of a page, each as heavy as it is frequent.

    Keys and payload: see :mod:`.blocks`. With a threshold below the default, 3 bits, the four
    tables no longer find every page.

    :param hash: ``keyed``, ``enumerated`` or ``string``
    :param vocabulary: ordinals of the features for ``enumerated``, 0 to n - 1; words it lacks are
        left out; None: jieba's dictionary
    :param hash_key: key of the ``keyed`` hash
    """

    name: ClassVar[str] = "luogang"
    is_simhash: ClassVar[bool] = True
    threshold: float = attrs.field(default=WITHIN_3_BITS, validator=parameters.share)
    hash: str = attrs.field(default=KEYED, validator=parameters.one_of(KEYED, ENUMERATED, STRING))
    vocabulary: Mapping[str, int] | None = attrs.field(
        default=None, validator=_check_vocabulary, repr=False, eq=False
    )
    hash_key: int = attrs.field(default=0, validator=parameters.hash_key, repr=False)

    def _feature_hash(self) -> Callable[[str], int | None]:
        if self.hash == STRING:
            return string_hash
        if self.hash == KEYED:
            return lambda word: keyed_hash(word, self.hash_key)
        known = dictionary_features() if self.vocabulary is None else self.vocabulary
        return lambda word: enumerated_hash(known[word], len(known)) if word in known else None

    def sign(self, reading: Reading) -> Signature | None:
        """See :class:`.SignatureMethod`; None for a page without a feature."""
        from dedup_middleware.signature.simhash import simhash

        hash_of = self._feature_hash()
        counts = Counter(reading.tokens)
        hashed = [(hash_of(word), count) for word, count in counts.items()]
        known = [(value, count) for value, count in hashed if value is not None]
        signed = simhash(
            np.array([value for value, _ in known], np.uint64),
            np.array([count for _, count in known], np.uint32),
        )
        return None if signed is None else simhash_signature(signed.value)

    def compare(self, a: Signature, b: Signature) -> float:
        """See :class:`.SignatureMethod`: ``1 - hamming / 64``."""
        return hamming_similarity(a, b)
