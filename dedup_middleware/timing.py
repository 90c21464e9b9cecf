"""How long things take: percentiles without keeping every value."""

from __future__ import annotations

import math
from collections import Counter

_GROWTH = math.log(1.1)
_SMALLEST = 1e-6  # seconds


class Histogram:
    """Seconds in buckets that each are a tenth wider than the one before.

    A percentile is the upper end of its bucket, so at most a tenth too large.

    >>> histogram = Histogram()
    >>> for milliseconds in range(1, 101):
    ...     histogram.add(milliseconds / 1000)
    >>> 0.095 <= histogram.percentile(95) <= 0.095 * 1.1
    True
    """

    def __init__(self) -> None:
        self._buckets: Counter[int] = Counter()
        self.count = 0

    def add(self, seconds: float) -> None:
        """One more value."""
        bucket = math.ceil(math.log(seconds / _SMALLEST) / _GROWTH) if seconds > _SMALLEST else 0
        self._buckets[bucket] += 1
        self.count += 1

    def percentile(self, share: float) -> float:
        """Seconds that ``share`` percent of the values do not exceed, 0 without any value."""
        wanted = math.ceil(self.count * share / 100)
        seen = 0
        for bucket in sorted(self._buckets):
            seen += self._buckets[bucket]
            if seen >= wanted:
                return _SMALLEST * math.exp(bucket * _GROWTH)
        return 0.0
