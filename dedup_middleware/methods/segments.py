"""Segment signatures: a page is cut into n pieces, each is signed, m equal ones decide.

網頁排重演算法, a survey of fingerprint rules (2009). It cuts by position, where one character more
at the front changes every piece. Ours: cuts are made between sentences where there are enough of
them, and the signatures are compared as sets.
"""

from __future__ import annotations

from itertools import pairwise
from typing import ClassVar

import attrs
import numpy as np

from dedup_middleware.fingerprint import keyed_hash
from dedup_middleware.methods import parameters
from dedup_middleware.methods.reading import Reading, Signature, SignatureMethod
from dedup_middleware.methods.sentences import sentences, without_space
from dedup_middleware.text.normalize import normalize


def segments(text: str, count: int) -> list[str]:
    """A text in ``count`` pieces, in normal form and without white space.

    Sentences are dealt out evenly in their order. Are there too few, the longest piece is halved
    until there are enough; a text of fewer characters gives fewer pieces.

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


@attrs.frozen
class Segments(SignatureMethod):
    """Equal segments of two pages, compared as sets: similarity = equal / n.

    A page with fewer than n different segments is compared by those it has. Payload: the distinct
    signatures, ``<u8`` each, ascending; they are the keys too.

    :param threshold: m / n; the default is 5 of 8
    :param count: n, segments of a page
    :param hash_key: key of the signatures
    """

    name: ClassVar[str] = "segments"
    reads_tokens: ClassVar[bool] = False
    threshold: float = attrs.field(default=5 / 8, validator=parameters.share)
    count: int = attrs.field(default=8, validator=parameters.whole(1, 64, " segments"))
    hash_key: int = attrs.field(default=0, validator=parameters.hash_key, repr=False)

    def sign(self, reading: Reading) -> Signature | None:
        """See :class:`.SignatureMethod`; None for a page of white space."""
        signed = {keyed_hash(part, self.hash_key) for part in segments(reading.text, self.count)}
        if not signed:
            return None
        ordered = sorted(signed)
        return Signature(tuple((0, value) for value in ordered), np.array(ordered, "<u8").tobytes())

    def compare(self, a: Signature, b: Signature) -> float:
        """See :class:`.SignatureMethod`."""
        first, second = (set(np.frombuffer(s.payload, "<u8").tolist()) for s in (a, b))
        return len(first & second) / max(len(first), len(second))
