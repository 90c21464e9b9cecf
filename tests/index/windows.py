"""Stores whose pages expire, and tests that are not hurt by a machine that is busy.

The clocks of the memory and the SQLite index are moved by the test; that of a Redis server is real.
A scenario whose own steps took longer than a generation may have failed for no fault of the index,
so it is done again with longer ones. What fails in time fails at once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import attrs

from tests.index.harness import (
    ClusterHarness,
    Harness,
    MemoryHarness,
    RedisHarness,
    SQLiteHarness,
)
from tests.servers import RedisServer

MEMORY, SQLITE, REDIS, CLUSTER = ("memory", "sqlite", "redis", "cluster")
_REPORTED = (1000.0,)
_REAL = (1.5, 6.0, 24.0)
_START = 0.05  # seconds into a generation at which a scenario begins

Scenario = Callable[[Harness], Awaitable[None]]


@attrs.frozen
class Windows:
    """Makes stores of one kind with a window of two spans, at the beginning of a span."""

    kind: str
    folder: Path
    servers: Sequence[RedisServer] = ()

    @property
    def spans(self) -> tuple[float, ...]:
        """Seconds of a generation, to be tried one after the other."""
        return _REAL if self.kind in (REDIS, CLUSTER) else _REPORTED

    async def make(self, span: float) -> Harness:
        """A fresh store."""
        window = 2 * span
        if self.kind == MEMORY:
            return MemoryHarness(window)
        if self.kind == SQLITE:
            return SQLiteHarness(self.folder / "index.db", window)
        harness: Harness
        if self.kind == CLUSTER:
            harness = ClusterHarness(self.servers, window)
        else:
            harness = RedisHarness(self.servers[0], window)
        await asyncio.sleep(-time.time() % span + _START)
        return harness


def in_time(scenario: Scenario) -> Callable[[Windows], Awaitable[None]]:
    """A test of a scenario, with the fixture `windows`."""

    async def test(windows: Windows) -> None:
        for span in windows.spans:
            harness = await windows.make(span)
            # Not the time of day of now: a busy machine wakes a sleeping process late.
            began = time.time() // span * span
            try:
                await scenario(harness)
                return
            except Exception:
                slept = (
                    harness.slept if isinstance(harness, (RedisHarness, ClusterHarness)) else 0.0
                )
                is_late = time.time() - began - slept >= span
                if not is_late or span == windows.spans[-1]:
                    raise
            finally:
                await harness.close()

    test.__name__ = test.__qualname__ = scenario.__name__
    test.__doc__, test.__module__ = scenario.__doc__, scenario.__module__
    return test
