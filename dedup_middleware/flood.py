"""A warning about pages that crowd into one bucket."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

logger = logging.getLogger(__name__)

INTERVAL = 60.0  # seconds between two messages

Count = Callable[[str, float], None]


class FloodAlarm:
    """Counts pages with more candidates than honest crawls produce, and warns once a minute.

    :param count: called with the name of a counter and what to add to it
    :param clock: seconds, monotonic
    """

    def __init__(self, count: Count, clock: Callable[[], float] = time.monotonic) -> None:
        self._count = count
        self._clock = clock
        self._since = 0  # pages since the last message
        self._quiet_until = float("-inf")

    def ring(self, key: str, met: str) -> None:
        """Count a page, and log a warning unless one was logged within the interval.

        :param key: of the page
        :param met: what the page found in its buckets, for the message
        """
        self._count("flood", 1)
        self._since += 1
        now = self._clock()
        if now < self._quiet_until:
            return
        logger.warning(
            "Flood: %s met %s, and so did %d pages before it since the last message. Pages "
            "are crafted into one place of the index, or a template fills it. No decision takes "
            "longer than it takes to read full buckets, and like pages are still found by their "
            "other tables; look at what the host of these pages publishes",
            key,
            met,
            self._since - 1,
        )
        self._since = 0
        self._quiet_until = now + INTERVAL
