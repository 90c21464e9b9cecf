"""Fingerprint of a page: the values by which pages are compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, cast

import attrs
import numpy as np
from numpy.typing import NDArray

_WORDS = 5  # lowest sort of a value that is a word


@attrs.frozen(eq=False, slots=False)  # with slots it takes twice as long to make
class Wording:
    """The words of a page in order, as hashes, to be compared with the evidence of stored pages.

    ``order``: uint64[n] shingles; ``words``: number of words; ``values``: uint64[v] numerals and,
    for a short page, words; ``positions``: int32[v] word index of each value, ascending; ``sorts``:
    uint8[v] sort of each value (below 5 a numeral, see ``text/stamps.py``; 5 and 6 a word, see
    ``text/wording.py``); ``title``: uint64[t] title words of a short page; ``headline``: uint64[h]
    title words of any page with a host, ascending; ``titled``: number of words in that title modulo
    8, with stop words and repetitions; ``word_hashes``: uint64[words], 0 for a word that says who
    reported something, and when; ``begins``: uint8[words] flags: a clause or line begins here (1),
    the word has a capital letter (2), editors use it in place of others (4), it belongs to a
    Chinese name (8), it is in a headline above the text (16); ``seeds``: uint64, base and start of
    shingle hashes, start and base of word hashes, then hashes of small numbers and of negations;
    ``tokens``: a function that returns the words as text, which is seldom needed, or none of them
    if no rule compares them. ``begins`` and ``seeds`` may be empty.
    """

    order: NDArray[np.uint64]
    words: int
    values: NDArray[np.uint64]
    positions: NDArray[np.int32]
    sorts: NDArray[np.uint8]
    title: NDArray[np.uint64]
    word_hashes: NDArray[np.uint64]
    headline: NDArray[np.uint64] = attrs.field(factory=lambda: np.empty(0, np.uint64))
    titled: int = 0
    begins: NDArray[np.uint8] = attrs.field(factory=lambda: np.empty(0, np.uint8))
    seeds: NDArray[np.uint64] = attrs.field(factory=lambda: np.empty(0, np.uint64))
    tokens: Callable[[], Sequence[str]] = attrs.field(default=tuple, repr=False)

    @property
    def numerals(self) -> int:
        """Number of values that are numerals."""
        return int(np.count_nonzero(self.sorts < _WORDS))

    def to_bytes(self) -> bytes:
        """Pack the wording, little-endian, for :meth:`from_bytes`."""
        arrays = [getattr(self, name) for name in _LAYOUT]
        sizes = np.array((self.words, self.titled, *map(len, arrays)), "<i8")
        letters = "\n".join(self.tokens()).encode("utf-8", "surrogatepass")
        return b"".join((sizes.tobytes(), *(array.tobytes() for array in arrays), letters))

    def __reduce__(self) -> tuple[Any, ...]:
        # The function that returns the words holds the tables of the segmenter.
        return Wording.from_bytes, (self.to_bytes(),)

    @classmethod
    def from_bytes(cls, raw: bytes) -> Wording:
        """Unpack the bytes of :meth:`to_bytes`; no bytes give an empty wording.

        :raises ValueError: the bytes are not those of a wording
        """
        if not raw:
            return NO_WORDING
        words, titled, *counts = np.frombuffer(raw, "<i8", 2 + len(_LAYOUT)).tolist()
        at = 8 * (2 + len(_LAYOUT))
        parts: dict[str, NDArray[Any]] = {}
        for (name, kind), count in zip(_LAYOUT.items(), counts, strict=True):
            if count < 0:
                raise ValueError(f"the bytes of a wording have {count} values of {name}")
            parts[name] = np.frombuffer(raw, kind, count, at).copy()
            at += count * parts[name].itemsize
        return cls(words=words, titled=titled, **parts, tokens=partial(_split, raw[at:]))


def _split(letters: bytes) -> Sequence[str]:
    return letters.decode("utf-8", "surrogatepass").split("\n") if letters else ()


# Arrays of a wording and their types, in the order of its bytes.
_LAYOUT: Final = {
    "order": "<u8", "values": "<u8", "title": "<u8", "headline": "<u8", "word_hashes": "<u8",
    "seeds": "<u8", "positions": "<i4", "sorts": "u1", "begins": "u1",
}  # fmt: skip
_NOTHING = np.empty(0, np.uint64)
NO_WORDING = Wording(
    words=0, titled=0, tokens=tuple, **{name: np.empty(0, kind) for name, kind in _LAYOUT.items()}
)


@attrs.frozen(eq=False)
class Signature:
    """What an index keeps of a page for one method.

    :param keys: pairs (group, 64-bit value); pages that share a pair are candidates of each other.
        Values must vary in their high bits, which name the bucket. A page without keys has only the
        candidates that all methods have in common.
    :param payload: data for the comparison, little-endian; the method documents its layout
    """

    keys: tuple[tuple[int, int], ...]
    payload: bytes = attrs.field(repr=False)


@attrs.frozen(eq=False, slots=False)  # with slots it takes twice as long to make
class Fingerprint:
    """The values by which a page is compared; fingerprints of equal parameters are comparable.

    ``simhash`` is None for a page without features. Shapes: ``minhash`` uint32[K], ``sketch``
    uint64[8], ``bands`` uint64[B], ``figures`` uint8[48], ``clauses`` uint8[36]. ``size`` counts
    the distinct shingles; ``exact`` and ``key_hash`` are keyed 64-bit hashes of the normalised text
    (with the title if it is very short) and of the key, ``host`` and ``title`` keyed 16-bit hashes
    of the host and of the title's letters, 0 if there is none. ``signature`` is set if
    ``DEDUP_METHOD`` names a method of the literature and the page has something that it compares;
    if that method is a SimHash, ``simhash`` is its value. With ``DEDUP_EVIDENCE=filter``,
    ``evidence`` is compared with the ``wording`` of later pages, and ``anchors`` uint64[a] are
    hashes of some clauses. ``volatile`` are the SimHash bits to flip in further probes
    (``DEDUP_PROBES``).

    ``minhash`` and ``sketch`` may be given as functions (without arguments, and of the minima) that
    are called on first access: an index with evidence keeps neither.
    """

    key: str
    key_hash: int
    exact: int
    size: int
    simhash: int | None
    _minhash: NDArray[np.uint32] | Callable[[], NDArray[np.uint32]] = attrs.field(repr=False)
    _sketch: NDArray[np.uint64] | Callable[[NDArray[np.uint32]], NDArray[np.uint64]] = attrs.field(
        repr=False
    )
    bands: NDArray[np.uint64] = attrs.field(repr=False)
    figures: NDArray[np.uint8] = attrs.field(repr=False)
    clauses: NDArray[np.uint8] = attrs.field(repr=False)
    host: int = 0
    title: int = 0
    volatile: tuple[int, ...] = ()
    signature: Signature | None = attrs.field(default=None, repr=False)
    wording: Wording = attrs.field(default=NO_WORDING, repr=False)
    evidence: bytes = attrs.field(default=b"", repr=False)
    anchors: NDArray[np.uint64] = attrs.field(default=_NOTHING, repr=False)

    @property
    def minhash(self) -> NDArray[np.uint32]:
        """The minima, uint32[K]."""
        if callable(self._minhash):
            object.__setattr__(self, "_minhash", self._minhash())
        return cast("NDArray[np.uint32]", self._minhash)

    @property
    def sketch(self) -> NDArray[np.uint64]:
        """The sketch of the minima, uint64[8]."""
        if callable(self._sketch):
            object.__setattr__(self, "_sketch", self._sketch(self.minhash))
        return cast("NDArray[np.uint64]", self._sketch)

    @property
    def payload(self) -> bytes:
        """The bytes that an index keeps of the page in addition to its CONTENT record."""
        return self.evidence if self.signature is None else self.signature.payload

    @property
    def is_empty(self) -> bool:
        """Whether the page has no shingle, so that it can't be compared."""
        return self.size == 0
