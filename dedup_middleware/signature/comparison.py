"""One page against the records of others: sketches, numerals and clauses compared in one call."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base import kerneltypes as types
from dedup_middleware.base.jit import kernel
from dedup_middleware.base.kerneltypes import F64, I64, R8, R8_2, R64
from dedup_middleware.signature._vector import differing_groups
from dedup_middleware.signature.clauses import CLAUSE_BYTES, turned
from dedup_middleware.signature.figures import conflicts
from dedup_middleware.signature.sketch import estimate, lowest_bits

_Places = tuple[NDArray[np.int64], NDArray[np.int64]]
_Compared = tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]


def compare(
    records: NDArray[np.uint8],
    figures: NDArray[np.uint8],
    figures_at: int,
    clauses: NDArray[np.uint8],
    clauses_at: int,
    sketch: NDArray[np.uint64],
    sketch_at: int,
    bits: int,
) -> _Compared:
    """Compare a page with rows of bytes, as :func:`.sketch.jaccards` and :func:`differing_places`.

    :param sketch: uint64[8] of the page; theirs begin at byte ``sketch_at``, little-endian
    :param bits: b of all sketches, 1, 2, 4 or 8
    :returns: Jaccard indexes float64[n], and what :func:`differing_places` returns
    :raises ValueError: another b
    """
    lowest = lowest_bits(bits)
    return _compare(
        records, figures, figures_at, clauses, clauses_at, sketch, sketch_at, bits, lowest
    )


@kernel(types.Tuple((I64, I64))(R8_2, R8, types.uint64, R8, types.uint64))
def differing_places(
    records: NDArray[np.uint8],
    figures: NDArray[np.uint8],
    figures_at: Any,
    clauses: NDArray[np.uint8],
    clauses_at: Any,
) -> _Places:
    """Compare a page with rows of bytes as :func:`.figures.conflicts` and :func:`.clauses.turned`.

    :param records: uint8[n, m], a row for each of the others
    :param figures: uint8[48] of the page; theirs begin at byte ``figures_at``
    :param clauses: uint8[36] of the page; theirs begin at byte ``clauses_at``
    :returns: places with other figures int64[n], and parts with a clause that says the opposite
        int64[n]
    """
    count = np.uint64(records.shape[0])
    places, opposites = np.empty(count, np.int64), np.empty(count, np.int64)
    for row in range(count):
        places[row] = conflicts(figures, records[row, figures_at : figures_at + np.uint64(48)])
        opposites[row] = turned(
            clauses, records[row, clauses_at : clauses_at + np.uint64(CLAUSE_BYTES)]
        )
    return places, opposites


@kernel(
    types.Tuple((F64, I64, I64))(
        R8_2, R8, types.uint64, R8, types.uint64, R64, types.uint64, types.int64, types.uint64
    )
)
def _compare(
    records: Any,
    figures: Any,
    figures_at: Any,
    clauses: Any,
    clauses_at: Any,
    sketch: Any,
    sketch_at: Any,
    bits: Any,
    lowest: Any,
) -> _Compared:
    count = np.uint64(records.shape[0])
    jaccards = np.empty(count, np.float64)
    # In a loop of its own, which keeps the vectors of the page in registers.
    for row in range(count):
        theirs = row * np.uint64(records.shape[1]) + sketch_at
        jaccards[row] = estimate(differing_groups(records, theirs, sketch, bits, lowest), bits)
    places, opposites = differing_places(records, figures, figures_at, clauses, clauses_at)
    return jaccards, places, opposites
