"""Sketches of figures and of clauses alone, and their differences, as the kernels make them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.base import compiled
from dedup_middleware.base.jit import kernel
from dedup_middleware.base.kerneltypes import R32, R64_2, U8, Signature
from dedup_middleware.signature.comparison import (
    CLAUSE_BYTES,
    ENTRIES,
    FIGURE_BYTES,
    differing_places,
    fill_clauses,
    fill_figures,
)

_F = TypeVar("_F", bound=Callable[..., Any])
_NO_FIGURES = np.zeros(FIGURE_BYTES, np.uint8)
_NO_CLAUSES = np.zeros(CLAUSE_BYTES, np.uint8)
_END = FIGURE_BYTES + CLAUSE_BYTES


# An installation has no kernels of the tests: their parts are functions of Python there.
def _declared(signature: Signature) -> Callable[[_F], _F]:
    return (lambda function: function) if compiled.kernels() else kernel(signature)


@_declared(U8(R64_2))
def clause_sketch(clauses: NDArray[np.uint64]) -> NDArray[np.uint8]:
    """The sums of each part, uint8[36]: two bytes, little-endian, of words, and one of turns.

    :param clauses: words and turn of each, uint64[n, 2], any order
    """
    out = np.empty(CLAUSE_BYTES, np.uint8)
    fill_clauses(clauses, out)
    return out


@_declared(U8(R32))
def figure_sketch(entries: NDArray[np.uint32]) -> NDArray[np.uint8]:
    """The 16 smallest distinct entries, ascending, little-endian, uint8[48]; 0xFF where free.

    :param entries: numbers below 2**24 - 1, any order, repetition allowed
    """
    out = np.empty(FIGURE_BYTES, np.uint8)
    fill_figures(entries, np.empty(ENTRIES, np.uint32), out)
    return out


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
