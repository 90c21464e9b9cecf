"""Signatures that are a set of 64-bit hashes, bounded in size however large the page is.

Of a set with more than ``limit`` members the smallest are kept; they are a random sample that is
the same for equal sets, from which the Jaccard index is estimated (bottom-k sketch; A. Broder:
On the resemblance and containment of documents, 1997). Up to the limit it is exact.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from dedup_middleware.methods.reading import Signature

LIMIT = 256  # members kept
KEYS = 16  # members that are keys: at a Jaccard index of 1/3 one is shared in 98 of 100 pairs


def smallest(hashes: Iterable[int], limit: int = LIMIT) -> NDArray[np.uint64]:
    """The smallest distinct hashes, ascending, at most ``limit``.

    >>> smallest([5, 3, 5, 9], 2).tolist()
    [3, 5]
    """
    return np.unique(np.fromiter(hashes, np.uint64))[:limit]


def set_signature(hashes: Iterable[int]) -> Signature:
    """Keys: the 16 smallest members; payload: the 256 smallest, ``<u8`` each, ascending."""
    kept = smallest(hashes)
    keys = tuple((0, int(value)) for value in kept[:KEYS])
    return Signature(keys, kept.astype("<u8").tobytes())


def jaccard(a: NDArray[np.uint64], b: NDArray[np.uint64], limit: int = LIMIT) -> float:
    """Jaccard index of two sets from what :func:`smallest` kept of them; 0 for empty sets."""
    both = np.sort(np.concatenate((a, b)))
    if not len(both):
        return 0.0
    # Each set holds a member once, so one that follows itself is in both.
    again = both[1:] == both[:-1]
    union = len(both) - int(np.count_nonzero(again))
    if union > limit and (len(a) >= limit or len(b) >= limit):
        # Beyond the limit a member may be missing from one side only because it was cut off.
        end = int(np.flatnonzero(~again)[limit - 1])
        again, union = again[:end], limit
    return int(np.count_nonzero(again)) / union


def overlap(a: Signature, b: Signature) -> float:
    """Share of the members of both sets that the other has too: 2 J / (1 + J)."""
    value = jaccard(np.frombuffer(a.payload, "<u8"), np.frombuffer(b.payload, "<u8"))
    return 2 * value / (1 + value)
