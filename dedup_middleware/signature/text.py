"""From text to signatures in one kernel.

Two calls, one for the shingles and one for the signatures, would hand six arrays to Python and
back. That costs as much as a tenth of the page.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from dedup_middleware.signature._jit import (
    I64,
    R8,
    R32,
    R32_2,
    R64,
    RF64,
    U8,
    U32,
    U64,
    Word,
    kernel,
)
from dedup_middleware.signature.clauses import CLAUSE_BYTES
from dedup_middleware.signature.figures import FIGURE_BYTES
from dedup_middleware.signature.minhash import MinHasher
from dedup_middleware.signature.page import check_bands, sign_into
from dedup_middleware.signature.simhash import BITS
from dedup_middleware.signature.sketch import WORDS, bits_each
from dedup_middleware.text.shingle import read_text

if TYPE_CHECKING:
    from dedup_middleware.text.shingle import Shingler


class SignedText(NamedTuple):
    """What `TextSigner` gives; shapes as in `page.Signatures`.

    ``size`` counts the distinct shingles and ``exact`` is the hash of the normalised text;
    ``simhash`` and its ``sums`` say nothing where ``size`` is 0.
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


class TextSigner:
    """Turns a text into its signatures: those of ``PageSigner`` of the shingles of a ``Shingler``.

    :param shingler: how texts are read
    :param num_perm: minima K; ``bits_each`` says which numbers a sketch can be made of
    :param bands: number B of bands
    :param rows: minima R a band
    :raises ValueError: a number out of bounds, or fewer minima than B*R
    """

    __slots__ = ("_bands", "_num_perm", "_rest", "_room", "_shingler")

    def __init__(
        self, shingler: Shingler, num_perm: int = 512, bands: int = 8, rows: int = 3
    ) -> None:
        check_bands(num_perm, bands, rows)
        padded = MinHasher(num_perm).padded
        self._shingler = shingler
        self._num_perm = num_perm
        self._bands = bands
        self._room = padded.shape[1]
        self._rest: tuple[Any, ...] = (*shingler.tables, padded, bits_each(num_perm), rows)

    def __call__(self, text: str) -> SignedText:
        """The signatures of any string; none raises."""
        sums, minhash = np.empty(BITS, np.int64), np.empty(self._room, np.uint32)
        sketch, bands = np.empty(WORDS, np.uint64), np.empty(self._bands, np.uint64)
        figures, clauses = np.empty(FIGURE_BYTES, np.uint8), np.empty(CLAUSE_BYTES, np.uint8)
        made: tuple[Any, ...] = (sums, minhash, sketch, bands, figures, clauses)
        raw = self._shingler.code_points(text)
        ready, size, exact, value = _sign_text(raw, False, *self._rest, *made)
        if not ready:
            raw = self._shingler.code_points(text, composed=True)
            _, size, exact, value = _sign_text(raw, True, *self._rest, *made)
        if self._room != self._num_perm:
            minhash = minhash[: self._num_perm]
        return SignedText(size, exact, value, sums, minhash, sketch, bands, figures, clauses)


_TABLES = (R32, R32, types.int64, types.int64, R64, R8, R64, RF64, R64, R64)
_RESULT = types.Tuple((types.boolean, types.int64, types.uint64, types.uint64))


@kernel(
    _RESULT(
        R32, types.boolean, *_TABLES, R32_2, types.int64, types.int64, I64, U32, U64, U64, U8, U8
    )
)
def _sign_text(
    raw: NDArray[np.uint32],
    composed: bool,
    table: NDArray[np.uint32],
    expansions: NDArray[np.uint32],
    mode: int,
    width: int,
    roots: NDArray[np.uint64],
    hints: NDArray[np.uint8],
    nodes: NDArray[np.uint64],
    values: NDArray[np.float64],
    stops: NDArray[np.uint64],
    keys: NDArray[np.uint64],
    padded: NDArray[np.uint32],
    bits: int,
    rows: int,
    sums: NDArray[np.int64],
    minima: NDArray[np.uint32],
    sketch: NDArray[np.uint64],
    banded: NDArray[np.uint64],
    figures: NDArray[np.uint8],
    turns: NDArray[np.uint8],
) -> tuple[bool, int, Word, Word]:
    ready, features, counts, _, places, clauses, _, exact = read_text(
        raw, composed, table, expansions, mode, width, roots, hints, nodes, values, stops, keys
    )
    value = np.uint64(0)
    if ready:
        made = (sums, minima, sketch, banded, figures, turns)
        value = sign_into(features, counts, places, clauses, padded, bits, rows, *made)
    return ready, features.size, exact, value
