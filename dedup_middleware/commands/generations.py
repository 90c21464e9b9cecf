"""The generations of an index that forgets: which are alive, and how many pages each has."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import numpy as np

from dedup_middleware.index.base import Index
from dedup_middleware.index.records import State
from dedup_middleware.index.window import LIVE, Window


@attrs.frozen
class Generation:
    """A span of time whose pages expire together.

    ``since`` and ``until`` bound it, ``expires`` is when its pages are forgotten, all in seconds
    since 1970. ``pages`` were stored in it; None: not counted.
    """

    since: float
    until: float
    expires: float
    pages: int | None = None


def generations(window: float, now: float) -> tuple[Generation, ...]:
    """The live generations, the oldest first; none without a window.

    :param window: seconds for which a page is remembered
    :param now: seconds since 1970

    >>> [(one.since, one.until, one.expires) for one in generations(200.0, 1050.0)]
    [(800.0, 900.0, 1100.0), (900.0, 1000.0, 1200.0), (1000.0, 1100.0, 1300.0)]
    """
    if not window:
        return ()
    divided = Window(window)
    span = divided.span_ms / 1000
    return tuple(
        Generation(number * span, (number + 1) * span, (number + LIVE) * span)
        for number in divided.at(now).live
    )


async def count_pages(
    index: Index, live: tuple[Generation, ...], progress: Callable[[float], None]
) -> tuple[Generation, ...]:
    """The generations with the numbers of their pages, by the time at which each was stored.

    A page is entered before it is stored, so one that was on its way at the turn of two
    generations counts in the later one.

    :param progress: called with the number of pages read
    """
    if not live:
        return live
    bounds = [one.since for one in live[1:]]
    counts = np.zeros(len(live), np.int64)
    seen = 0
    async for pages in index.pages():
        times = pages.times[pages.states == State.COMMITTED]
        places = np.searchsorted(bounds, times, side="right")
        counts += np.bincount(places, minlength=len(live))
        seen += len(pages)
        progress(seen)
    return tuple(
        attrs.evolve(one, pages=number) for one, number in zip(live, counts.tolist(), strict=True)
    )
