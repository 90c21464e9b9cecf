"""Computes all signatures of a text in one kernel.

With separate kernels for shingles and signatures, passing six arrays through Python would take a
tenth of the time of a page.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base import kerneltypes as types
from dedup_middleware.base.jit import kernel
from dedup_middleware.base.kerneltypes import I32, I64, R8, R32, R32_2, R64, RF64, U8, U32, U64
from dedup_middleware.signature._vector import MINIMA
from dedup_middleware.signature.comparison import (
    CLAUSE_BYTES,
    ENTRIES,
    FIGURE_BYTES,
    fill_clauses,
    fill_figures,
)
from dedup_middleware.signature.evidence import MOST, fill_evidence
from dedup_middleware.signature.minhash import (
    WORDS,
    MinHasher,
    bits_each,
    check_bands,
    fill_bands,
    fill_minima,
    fill_sketch,
)
from dedup_middleware.signature.simhash import BITS, centred, sum_bits
from dedup_middleware.text.shingle import Shingler, read_text

NO_SKETCH: Final = 0  # bits of each minimum if no sketch is made


class SignedText(NamedTuple):
    """The signatures of a text.

    ``size`` counts the distinct shingles and ``exact`` is the hash of the normalised text;
    ``simhash`` and its ``sums``, int64[64], are meaningless if ``size`` is 0. ``minhash`` to
    ``clauses`` are as in :class:`.Fingerprint`, ``words`` to ``begins`` as in :class:`.Shingles`.
    Without all minima, ``minhash`` has at least those of the bands, ``sketch`` is meaningless, and
    ``evidence`` uint8[n] is that of the page without a title, empty if the page has more than
    ``MOST`` values or shingles. With all minima, ``evidence`` is empty.
    """

    size: int
    exact: int
    simhash: int
    sums: NDArray[np.int64]
    minhash: NDArray[np.uint32]
    sketch: NDArray[np.uint64]
    bands: NDArray[np.uint64]
    figures: NDArray[np.uint8]
    clauses: NDArray[np.uint8]
    words: int
    order: NDArray[np.uint64]
    values: NDArray[np.uint64]
    positions: NDArray[np.int32]
    sorts: NDArray[np.uint8]
    anchors: NDArray[np.uint64]
    word_hashes: NDArray[np.uint64]
    begins: NDArray[np.uint8]
    evidence: NDArray[np.uint8]


class TextSigner:
    """Computes the signatures of a text.

    They equal those of ``MinHasher``, ``simhash``, ``sketch`` and ``bands`` for the shingles of the
    text.

    :param num_perm: minima K; :func:`.bits_each` has the numbers of which a sketch can be made
    :param whole: make all minima and the sketch; else only the minima of the bands, and evidence
    :raises ValueError: fewer minima than B*R
    """

    __slots__ = ("_bands", "_no_sketch", "_num_perm", "_padded", "_rest", "_shingler")

    def __init__(
        self,
        shingler: Shingler,
        num_perm: int = 512,
        bands: int = 8,
        rows: int = 3,
        *,
        whole: bool = True,
    ) -> None:
        check_bands(bands, rows, num_perm)
        padded, bits = MinHasher(num_perm).padded, bits_each(num_perm)
        if not whole:
            needed = -(-bands * rows // MINIMA) * MINIMA
            padded, bits = np.ascontiguousarray(padded[:, :needed]), NO_SKETCH
            num_perm = needed
        self._shingler = shingler
        self._no_sketch = None if whole else np.zeros(WORDS, np.uint64)
        self._num_perm = num_perm
        self._bands = bands
        self._padded = padded.shape[1]
        self._rest: tuple[Any, ...] = (*shingler.tables, padded, bits, rows)

    def __call__(self, text: str) -> SignedText:
        """Compute the signatures of any string; never raises."""
        sums, minhash = np.empty(BITS, np.int64), np.empty(self._padded, np.uint32)
        sketch = np.empty(WORDS, np.uint64) if self._no_sketch is None else self._no_sketch
        bands = np.empty(self._bands, np.uint64)
        figures, clauses = np.empty(FIGURE_BYTES, np.uint8), np.empty(CLAUSE_BYTES, np.uint8)
        made: tuple[Any, ...] = (sums, minhash, sketch, bands, figures, clauses)
        size, exact, value, *rest = self._shingler.read(text, _sign_text, *self._rest, *made)
        if self._padded != self._num_perm:
            minhash = minhash[: self._num_perm]
        return SignedText(size, exact, value, sums, minhash, sketch, bands, figures, clauses, *rest)


_TABLES = (R32, R32, types.int64, types.int64, R64, R8, R64, RF64, R64, R64)
_COUNTS = (types.boolean, types.int64, types.uint64, types.uint64, types.int64)
_RESULT = types.Tuple((*_COUNTS, U64, U64, I32, U8, U64, U64, U8, U8))
_NUMBERS = (types.int64, types.int64)
_ARGUMENTS = (R32, types.boolean, *_TABLES, R32_2, *_NUMBERS, I64, U32, U64, U64, U8, U8)


# No check of the arrays: all are made here and by Shingler.
@kernel(_RESULT(*_ARGUMENTS), check=False)
def _sign_text(
    raw: Any, composed: Any, table: Any, expansions: Any, mode: Any, width: Any, roots: Any,
    hints: Any, nodes: Any, values: Any, stops: Any, keys: Any, padded: Any, bits: Any, rows: Any,
    sums: Any, minima: Any, sketch: Any, banded: Any, figures: Any, turns: Any,
) -> tuple[Any, ...]:  # fmt: skip
    read = read_text(
        raw, composed, table, expansions, mode, width, roots, hints, nodes, values, stops, keys
    )
    ready, features, counts, _, places, clauses, words, exact = read[:8]
    order, numerals, positions, sorts, anchors, word_hashes, begins = read[8:]
    value, evidence = np.uint64(0), figures[:0]
    if ready:
        fill_minima(features, padded, minima)
        if bits != NO_SKETCH:
            fill_sketch(minima, bits, sketch)
        fill_bands(minima, rows, banded)
        fill_figures(places, np.empty(ENTRIES, np.uint32), figures)
        fill_clauses(clauses, turns)
        sum_bits(features, np.empty(BITS, np.uint8), sums)
        # Nearly all shingles occur once, and counting bits is much faster than adding weights.
        total = np.int64(features.size)
        for i in range(np.uint64(features.size)):
            more = np.int64(counts[i]) - 1
            total += more
            if more:
                for p in range(np.uint64(BITS)):
                    sums[p] += more * np.int64(features[i] >> p & np.uint64(1))
        value = centred(sums, total)
        if bits == NO_SKETCH and order.size <= MOST and numerals.size <= MOST:
            evidence = fill_evidence(order, numerals, sorts, order[:0])
    return (
        ready, features.size, exact, value, words, order, numerals, positions, sorts, anchors,
        word_hashes, begins, evidence,
    )  # fmt: skip
