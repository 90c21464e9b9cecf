"""Which process and event loop a deduplicator belongs to."""

from __future__ import annotations

import asyncio
import os

from dedup_middleware.base.errors import DedupError


class LoopGuard:
    """Refuses calls in a forked process, or in an event loop next to the one that is used.

    Processes that share a connection take each other's replies. A loop is not woken by what another
    one does.
    """

    def __init__(self) -> None:
        self._used: tuple[int, asyncio.AbstractEventLoop] | None = None  # process and loop

    @property
    def is_forked(self) -> bool:
        """Whether this process was forked from the one that is used."""
        return self._used is not None and self._used[0] != os.getpid()

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
            if self._used[1].is_running():
                raise DedupError(
                    "this Deduplicator is used in another event loop, which is running; open one "
                    "for each thread, or send its calls there with "
                    "asyncio.run_coroutine_threadsafe"
                )
        self._used = os.getpid(), loop
