"""All signatures of a page in one kernel: a call costs about as much as the sketch itself."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from dedup_middleware.signature import _inputs
from dedup_middleware.signature._jit import (
    I64,
    R32,
    R32_2,
    R64,
    R64_2,
    REFUSED,
    U8,
    U32,
    U64,
    Word,
    allocating,
    kernel,
)
from dedup_middleware.signature._vector import add_weights
from dedup_middleware.signature.bands import fill_bands
from dedup_middleware.signature.clauses import CLAUSE_BYTES, fill_clauses
from dedup_middleware.signature.figures import ENTRIES, FIGURE_BYTES, fill_figures
from dedup_middleware.signature.minhash import MinHasher, fill_minima, mix32
from dedup_middleware.signature.simhash import BITS, SimHash, centred, sum_bits
from dedup_middleware.signature.sketch import WORDS, bits_each, fill_sketch


class Signatures(NamedTuple):
    """What `PageSigner` gives.

    ``simhash`` is None without features. Shapes: ``minhash`` uint32[K], ``sketch`` uint64[8],
    ``bands`` uint64[B], ``figures`` and ``clauses`` uint8[48].
    """

    simhash: SimHash | None
    minhash: NDArray[np.uint32]
    sketch: NDArray[np.uint64]
    bands: NDArray[np.uint64]
    figures: NDArray[np.uint8]
    clauses: NDArray[np.uint8]


def check_bands(num_perm: int, bands: int, rows: int) -> None:
    """Refuse bands that the minima are too few for.

    :raises ValueError: a number out of bounds, or fewer minima than bands * rows
    """
    _inputs.count(bands, "bands", 0, 1 << 16)
    _inputs.count(rows, "rows", 1, 1 << 16)
    if bands * rows > num_perm:
        raise ValueError(
            f"bands={bands} of rows={rows} need {bands * rows} minima, the MinHash has "
            f"{num_perm}: lower one of them or raise num_perm"
        )


class PageSigner:
    """Turns the features of a page into its signatures.

    They equal those of ``MinHasher``, ``simhash``, ``sketch``, ``bands``, ``figure_sketch`` and
    ``clause_sketch``.

    :param num_perm: minima K; ``bits_each`` says which numbers a sketch can be made of
    :param bands: number B of bands
    :param rows: minima R a band
    :raises ValueError: a number out of bounds, or fewer minima than B*R
    """

    __slots__ = ("_bands", "_bits", "_num_perm", "_padded", "_rows")

    def __init__(self, num_perm: int = 512, bands: int = 8, rows: int = 3) -> None:
        check_bands(num_perm, bands, rows)
        self._padded = MinHasher(num_perm).padded
        self._num_perm = num_perm
        self._bits = bits_each(num_perm)
        self._bands = bands
        self._rows = rows

    def __call__(
        self,
        features: NDArray[np.uint64],
        counts: NDArray[np.uint32],
        places: NDArray[np.uint32],
        clauses: NDArray[np.uint64],
    ) -> Signatures:
        """The signatures of a page.

        :param features: distinct hashes of its shingles
        :param counts: how often each occurs, at least once; their weight in the SimHash
        :param places: its figures, see ``figure_sketch``
        :param clauses: see ``clause_sketch``
        :raises TypeError: arrays of other dtypes
        :raises ValueError: shapes that differ
        """
        if len(features) != len(counts):
            raise ValueError(
                f"counts must have one entry a feature: got {len(counts)} for {len(features)}"
            )
        if clauses.shape[1:] != (2,):
            raise ValueError(f"clauses must have shape (n, 2), got shape {clauses.shape}")
        rest = (self._padded, self._num_perm, self._bits, self._bands, self._rows)
        try:
            made = _sign(features, counts, places, clauses, *rest)
        except REFUSED:
            made = _sign(
                _inputs.vector(features, np.uint64, "features"),
                _inputs.vector(counts, np.uint32, "counts"),
                _inputs.vector(places, np.uint32, "places"),
                _inputs.rows(clauses, np.uint64, 2, "clauses"),
                *rest,
            )
        signed = SimHash(made[0], made[1]) if len(features) else None
        return Signatures(signed, *made[2:])


@allocating
def sign_into(
    features: NDArray[np.uint64],
    counts: NDArray[np.uint32],
    places: NDArray[np.uint32],
    clauses: NDArray[np.uint64],
    padded: NDArray[np.uint32],
    bits: int,
    rows: int,
    sums: NDArray[np.int64],
    minima: NDArray[np.uint32],
    sketch: NDArray[np.uint64],
    banded: NDArray[np.uint64],
    figures: NDArray[np.uint8],
    turns: NDArray[np.uint8],
) -> Word:
    """Write all signatures of a page, its SimHash returned; `minima` has room for the padding."""
    mixed = np.empty(features.size, np.uint32)
    for i in range(np.uint64(features.size)):
        mixed[i] = mix32(np.uint32(features[i]))
    fill_minima(mixed, padded, minima)
    fill_sketch(minima, bits, sketch)
    fill_bands(minima, rows, banded)
    fill_figures(places, np.empty(ENTRIES, np.uint32), figures)
    fill_clauses(clauses, turns)
    sum_bits(features, np.empty(BITS, np.uint8), sums)
    # Nearly all shingles occur once, and counting bits is much faster than adding weights.
    total, repeated = np.int64(features.size), np.uint64(0)
    again, weights = np.empty(features.size, np.uint64), np.empty(features.size, np.uint32)
    for i in range(np.uint64(features.size)):
        again[repeated], weights[repeated] = features[i], counts[i] - np.uint32(1)
        total += np.int64(counts[i]) - 1
        repeated += np.uint64(counts[i] > 1)
    if repeated:
        more = np.empty(BITS, np.int64)
        add_weights(again[:repeated], weights[:repeated], more)
        for p in range(np.uint64(BITS)):
            sums[p] += more[p]
    return centred(sums, total)


_RESULT = types.Tuple((types.uint64, I64, U32, U64, U64, U8, U8))


@kernel(_RESULT(R64, R32, R32, R64_2, R32_2, types.int64, types.int64, types.int64, types.int64))
def _sign(
    features: NDArray[np.uint64],
    counts: NDArray[np.uint32],
    places: NDArray[np.uint32],
    clauses: NDArray[np.uint64],
    padded: NDArray[np.uint32],
    num_perm: int,
    bits: int,
    bands: int,
    rows: int,
) -> tuple[
    int,
    NDArray[np.int64],
    NDArray[np.uint32],
    NDArray[np.uint64],
    NDArray[np.uint64],
    NDArray[np.uint8],
    NDArray[np.uint8],
]:
    sums, minima = np.empty(BITS, np.int64), np.empty(padded.shape[1], np.uint32)
    sketch, banded = np.empty(WORDS, np.uint64), np.empty(bands, np.uint64)
    figures, turns = np.empty(FIGURE_BYTES, np.uint8), np.empty(CLAUSE_BYTES, np.uint8)
    made = (sums, minima, sketch, banded, figures, turns)
    value = sign_into(features, counts, places, clauses, padded, bits, rows, *made)
    return value, sums, minima[:num_perm], sketch, banded, figures, turns
