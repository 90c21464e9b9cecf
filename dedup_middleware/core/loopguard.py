"""Which process and event loop a deduplicator belongs to."""

from __future__ import annotations

import asyncio
import os

from dedup_middleware.base.errors import DedupError


class LoopGuard:
    """Refuses calls in a forked process, or in another event loop than the one that is used.

    Processes that share a connection read each other's replies. A loop is not woken by callbacks of
    another one, and connections and tasks of a loop that has ended do not work any more.
    """

    def __init__(self) -> None:
        self._used: tuple[int, asyncio.AbstractEventLoop] | None = None  # process and loop

    @property
    def is_forked(self) -> bool:
        """Whether this process was forked from the one that is used."""
        return self._used is not None and self._used[0] != os.getpid()

    @property
    def has_ended(self) -> bool:
        """Whether the event loop that is used has been closed, in this process."""
        return self._used is not None and not self.is_forked and self._used[1].is_closed()

    def check(self) -> None:
        """Take the running loop as the one that is used, unless another one is.

        :raises DedupError: the call is refused
        """
        if self.is_forked:
            raise DedupError(
                "this Deduplicator was opened before its process was forked; fork first, and open "
                "one in each process"
            )
        loop = asyncio.get_running_loop()
        if self._used is not None:
            if self._used[1] is loop:
                return
            if self.has_ended:
                raise DedupError(
                    "the event loop that this Deduplicator was used in has ended, as at the end of "
                    "asyncio.run(): make all calls in one, or close it at the end of each and open "
                    "it in the next one"
                )
            if self._used[1].is_running():
                raise DedupError(
                    "this Deduplicator is used in another event loop, which is running; open one "
                    "for each thread, or send its calls there with "
                    "asyncio.run_coroutine_threadsafe"
                )
        self._used = os.getpid(), loop
