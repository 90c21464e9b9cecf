"""How many of the pages that are alike the tables find, by their parameters alone."""

from __future__ import annotations

import math

_BITS = 16  # of a SimHash that must be equal in one of the four tables
_TABLES = 4


def band_recall(jaccard: float, bands: int, rows: int) -> float:
    """Chance that two sets share at least one band of MinHash.

    ``1 - (1 - J^r)^b``, Leskovec, Rajaraman and Ullman, Mining of Massive Datasets, chapter 3.4.

    >>> round(band_recall(0.8, 8, 3), 3)
    0.997
    """
    return 1.0 - (1.0 - jaccard**rows) ** bands


def simhash_recall(jaccard: float) -> float:
    """Chance that two SimHashes share at least one of their four 16-bit blocks.

    A bit differs with probability angle / pi (Charikar 2002); two sets of one size with Jaccard
    index J have the cosine ``2 J / (1 + J)`` between them. The bits are taken as independent.

    >>> round(simhash_recall(1.0), 3), round(simhash_recall(0.8), 3)
    (1.0, 0.259)
    """
    angle = math.acos(min(1.0, 2.0 * jaccard / (1.0 + jaccard)))
    equal = (1.0 - angle / math.pi) ** _BITS
    return 1.0 - (1.0 - equal) ** _TABLES
