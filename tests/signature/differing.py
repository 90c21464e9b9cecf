"""Differences of sketches of figures and of clauses, as the rule's kernel counts them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.signature.comparison import CLAUSE_BYTES, FIGURE_BYTES, differing_places

_NO_FIGURES = np.zeros(FIGURE_BYTES, np.uint8)
_NO_CLAUSES = np.zeros(CLAUSE_BYTES, np.uint8)
_END = FIGURE_BYTES + CLAUSE_BYTES


def differing_figures(query: NDArray[np.uint8], sketches: NDArray[np.uint8]) -> list[int]:
    """Of the sketch of a page, uint8[48], and of each of n others, uint8[n, 48]."""
    records = np.zeros((len(sketches), _END), np.uint8)
    records[:, :FIGURE_BYTES] = sketches
    places, _ = differing_places(records, query, 0, _NO_CLAUSES, FIGURE_BYTES)
    found: list[int] = places.tolist()
    return found


def turned_clauses(query: NDArray[np.uint8], sketches: NDArray[np.uint8]) -> NDArray[np.int64]:
    """In how many parts a page, uint8[36], and each of n others, uint8[n, 36], have the same
    clauses, one of which says the opposite, int64[n]."""
    records = np.zeros((len(sketches), _END), np.uint8)
    records[:, FIGURE_BYTES:] = sketches
    _, turned = differing_places(records, _NO_FIGURES, 0, query, FIGURE_BYTES)
    return turned
