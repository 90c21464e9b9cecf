"""In how many places two sketches of figures differ, as the rule's kernel counts them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.signature.comparison import compare
from dedup_middleware.signature.figures import FIGURE_BYTES
from dedup_middleware.signature.sketch import WORDS

_NO_SKETCH = np.zeros(WORDS, np.uint64)


def differing_figures(query: NDArray[np.uint8], sketches: NDArray[np.uint8]) -> list[int]:
    """Of the sketch of a page, uint8[48], and of each of n others, uint8[n, 48]."""
    records = np.zeros((len(sketches), FIGURE_BYTES + _NO_SKETCH.nbytes), np.uint8)
    records[:, :FIGURE_BYTES] = sketches
    _, places = compare(records, query, 0, _NO_SKETCH, FIGURE_BYTES, 1)
    found: list[int] = places.tolist()
    return found
