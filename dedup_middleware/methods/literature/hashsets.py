"""Methods whose signature is a set of 64-bit hashes; the share of common members decides.

The tree of a body's structure, feature strings, and segments of a page.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterable
from itertools import pairwise
from typing import ClassVar, Final

import attrs
import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base.settingfields import one_of, whole
from dedup_middleware.methods.literature.base import KeyedMethod, MethodInput, share
from dedup_middleware.methods.literature.digests import digest_key, md5
from dedup_middleware.model.fingerprint import Signature
from dedup_middleware.model.keys import keyed_hash
from dedup_middleware.text.normalize import normalize

# Of a set with more than ``limit`` members the smallest are kept. They are a random sample that is
# the same for equal sets and estimates the Jaccard index (bottom-k sketch; A. Broder: On the
# resemblance and containment of documents, 1997). Smaller sets give it exactly.

LIMIT = 256  # members kept
KEYS = 16  # members used as keys: at a Jaccard index of 1/3, 98 of 100 pairs share one


def smallest(hashes: Iterable[int], limit: int = LIMIT) -> NDArray[np.uint64]:
    """Return the smallest distinct hashes, ascending, at most ``limit``.

    >>> smallest([5, 3, 5, 9], 2).tolist()
    [3, 5]
    """
    return np.unique(np.fromiter(hashes, np.uint64))[:limit]


def set_signature(hashes: Iterable[int], keys_kept: int = KEYS) -> Signature:
    """Return the signature of a set: its ``keys_kept`` smallest members as keys; payload: the 256
    smallest, ``<u8``, ascending."""
    kept = smallest(hashes)
    keys = tuple((0, int(value)) for value in kept[:keys_kept])
    return Signature(keys, kept.astype("<u8").tobytes())


def members(signature: Signature) -> NDArray[np.uint64]:
    """Return the members that :func:`set_signature` kept.

    :raises ValueError: bytes that it did not write; a repeated member would count as common
    """
    found = np.frombuffer(signature.payload, "<u8")
    if np.any(found[1:] <= found[:-1]):
        raise ValueError("a set has each of its members once, in ascending order")
    return found


def jaccard(a: NDArray[np.uint64], b: NDArray[np.uint64], limit: int = LIMIT) -> float:
    """Return the Jaccard index of two sets from what :func:`smallest` kept; 0 for empty sets."""
    both = np.sort(np.concatenate((a, b)))
    if not len(both):
        return 0.0
    # A set has a member only once, so two equal neighbours are a common member.
    again = both[1:] == both[:-1]
    union = len(both) - int(np.count_nonzero(again))
    if union > limit and (len(a) >= limit or len(b) >= limit):
        # Beyond the limit, a member may be missing on one side only because it was cut off.
        end = int(np.flatnonzero(~again)[limit - 1])
        again, union = again[:end], limit
    return int(np.count_nonzero(again)) / union


# Paragraphs and sentences of a text.

_CLOSING: Final = "”’」』)）\\]】》\"'"
# A Latin full stop ends a sentence only before white space, so not in 3.5.
_SENTENCE: Final = re.compile(
    rf"(?s:.)*?(?:(?:[。！？!?]|\.(?=\s|$))[。！？!?.]*[{_CLOSING}]*|\n+|\Z)"
)
FULL_STOP: Final = re.compile(r"。|\.(?=\s|$)")


def sentences(text: str) -> list[str]:
    """Return the sentences of a text with their end marks, stripped of white space.

    >>> sentences("一共3.5吨。真的？是。")
    ['一共3.5吨。', '真的？', '是。']
    """
    return [sentence for found in _SENTENCE.findall(text) if (sentence := found.strip())]


def without_space(text: str) -> str:
    """Remove the white space of a text, so that reprints with other line breaks agree."""
    return "".join(text.split())


def bare(text: str) -> str:
    """Normalise a text and remove its white space."""
    return without_space(normalize(text))


def letters(text: str) -> str:
    """Return only the letters, digits and ideographs of a text."""
    return "".join(filter(str.isalnum, text))


# Baselines of the paper on character sets.
#
# 李洪奇 et al.: 基于字集特征向量的网页消重改进算法, 计算机工程与应用 2017,53(2):53-57, doi
# 10.3778/j.issn.1002-8331.1503-0340: MD5 of the body, the tree of the body's structure, and the
# feature strings of 吴平博, 陈群秀, 马亮: 基于特征串的大规模中文网页快速去重算法研究, 中文信息学报
# 2003,17(2):28-35.

BY_PARAGRAPH: Final = "paragraph"
BY_SENTENCE: Final = "sentence"


@attrs.frozen(kw_only=True)
class HashSetMethod(KeyedMethod):
    """A method that compares sets of hashes (:func:`set_signature`) by their common members."""

    reads_tokens: ClassVar[bool] = False
    keys_kept: ClassVar[int] = KEYS
    threshold: float = share(0.5)

    @abstractmethod
    def hashes(self, text: str) -> list[int]:
        """Return the keyed hashes of a body; an empty list if it has nothing to compare."""

    def sign(self, page: MethodInput) -> Signature | None:
        hashes = self.hashes(page.text)
        return set_signature(hashes, self.keys_kept) if hashes else None

    def compare(self, a: Signature, b: Signature) -> float:
        """Return Dice's coefficient, computed from the Jaccard index: 2 J / (1 + J)."""
        value = jaccard(members(a), members(b))
        return 2 * value / (1 + value)


def structure_leaves(text: str, leaves: str = BY_PARAGRAPH) -> list[bytes]:
    """Return the leaves of the tree (正文结构树): MD5s of first and last sentences of paragraphs.

    A paragraph is a line. A single sentence is both first and last.

    :param leaves: ``paragraph``: one leaf for both sentences; ``sentence``: one for each sentence
    """
    found = []
    for paragraph in normalize(text).splitlines():
        parts = [without_space(sentence) for sentence in sentences(paragraph)]
        if not parts:
            continue
        ends = parts if len(parts) == 1 else [parts[0], parts[-1]]
        # Sentences have no white space, so it separates them.
        found += [md5(end) for end in ends] if leaves == BY_SENTENCE else [md5("\n".join(ends))]
    return found


@attrs.frozen(kw_only=True)
class StructureTree(HashSetMethod):
    """Share of leaves that two trees have in common.

    :param leaves: one per ``paragraph``, or per first and last ``sentence``
    """

    name: ClassVar[str] = "structure-tree"
    leaves: str = attrs.field(default=BY_PARAGRAPH, validator=one_of(BY_PARAGRAPH, BY_SENTENCE))

    def hashes(self, text: str) -> list[int]:
        leaves = structure_leaves(text, self.leaves)
        return [digest_key(leaf, self.hash_key) for leaf in leaves]


def feature_strings(text: str, radius: int = 5) -> list[str]:
    """Return the letters around each full stop (特征串): ``radius`` before and ``radius`` after it.
    The end of the text counts as a full stop, so that every text has a feature string (ours).

    >>> feature_strings("今天天气很好。我们出去走走。", 2)
    ['很好。我们', '走走。']
    """
    parts = [letters(part) for part in FULL_STOP.split(normalize(text))]
    if parts and not parts[-1]:
        parts.pop()
    everything = "".join(parts)
    strings = []
    end = 0
    for part in parts:
        end += len(part)
        strings.append(
            everything[max(0, end - radius) : end] + "。" + everything[end : end + radius]
        )
    return [string for string in strings if string != "。"]


@attrs.frozen(kw_only=True)
class FeatureString(HashSetMethod):
    """Share of feature strings that two pages have in common.

    :param radius: letters on each side of a full stop
    """

    name: ClassVar[str] = "feature-string"
    radius: int = attrs.field(default=5, validator=whole(1, 1000, " characters"))

    def hashes(self, text: str) -> list[int]:
        strings = feature_strings(text, self.radius)
        return [keyed_hash(string, self.hash_key) for string in strings]


# Segment signatures (網頁排重演算法, a survey of fingerprint rules, 2009): a page is cut into n
# pieces, and m equal pieces make a duplicate. Ours: cuts between sentences, comparison as sets.


def segments(text: str, count: int) -> list[str]:
    """Cut a text into ``count`` pieces, normalised and without white space.

    Sentences are distributed evenly in order. If they are too few, the longest piece is halved
    until there are enough; a text with fewer characters gives fewer pieces.

    >>> segments("一二。三四。五。", 2), segments("一二三四", 2)
    (['一二。', '三四。五。'], ['一二', '三四'])
    """
    pieces = [without_space(sentence) for sentence in sentences(normalize(text))]
    if len(pieces) >= count:
        bounds = [i * len(pieces) // count for i in range(count + 1)]
        return ["".join(pieces[a:b]) for a, b in pairwise(bounds)]
    while pieces and len(pieces) < count:
        longest = max(range(len(pieces)), key=lambda i: len(pieces[i]))
        piece = pieces[longest]
        if len(piece) == 1:
            break
        half = (len(piece) + 1) // 2
        pieces[longest : longest + 1] = [piece[:half], piece[half:]]
    return pieces


@attrs.frozen(kw_only=True)
class Segments(HashSetMethod):
    """Equal segments of two pages, compared as sets: similarity = equal / n.

    If both pages have fewer different segments, n is the larger number. All segments are keys.

    :param threshold: m / n; the default is 5 of 8
    :param count: n, segments per page
    """

    name: ClassVar[str] = "segments"
    keys_kept: ClassVar[int] = LIMIT
    threshold: float = share(5 / 8)
    count: int = attrs.field(default=8, validator=whole(1, 64, " segments"))

    def hashes(self, text: str) -> list[int]:
        return [keyed_hash(part, self.hash_key) for part in segments(text, self.count)]

    def compare(self, a: Signature, b: Signature) -> float:
        """Return the share of equal segments, relative to the page with more segments."""
        first, second = members(a), members(b)
        return len(np.intersect1d(first, second)) / max(len(first), len(second))
