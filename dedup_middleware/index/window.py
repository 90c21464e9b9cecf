"""Expiry by generations.

A window of time is cut into spans. Every page is entered under the generation of its time, which
is part of the names of its buckets. Only the newest generation is written; all live ones are
read; whole generations expire, without work for single pages.
"""

from __future__ import annotations

import attrs

LIVE = 3  # generations that are read; a page lives for one window, and up to half of one more


@attrs.frozen
class Window:
    """How long pages are remembered; 0 seconds: for ever, in one generation without end."""

    seconds: float = 0.0

    @property
    def span(self) -> float:
        """Seconds of one generation."""
        return self.seconds / (LIVE - 1)

    @property
    def span_ms(self) -> int:
        """The same in whole milliseconds; 0 without a window."""
        return max(1, round(self.span * 1000)) if self.seconds else 0

    def at(self, now: float) -> Moment:
        """What a moment means for the index."""
        if not self.seconds:
            return Moment(now, range(1))
        return self.of_generation(int(now * 1000) // self.span_ms, now)

    def of_generation(self, generation: int, now: float = 0.0) -> Moment:
        """A moment of a generation."""
        return Moment(now, range(max(0, generation - LIVE + 1), generation + 1))


@attrs.frozen
class Moment:
    """A moment and the generations that are alive then; without a window there is only 0."""

    now: float
    live: range

    @property
    def generation(self) -> int:
        """The newest generation, the one that is written."""
        return self.live[-1]

    @property
    def oldest(self) -> int:
        """The oldest generation that is read."""
        return self.live[0]


def window_parameter(seconds: float) -> dict[str, str]:
    """The window as a parameter of the index, so that all who use it agree on it.

    >>> window_parameter(2_592_000.0), window_parameter(1_234_567.0)
    ({'window': '2.592e+06'}, {'window': '1234567.0'})
    """
    short = f"{seconds:g}"
    return {"window": short if float(short) == seconds else repr(seconds)} if seconds else {}
