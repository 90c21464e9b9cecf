"""Concurrent calls of one process share round trips and transactions."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, TypeVar

_Call = TypeVar("_Call")
_Answer = TypeVar("_Answer")

# Answers of a batch, in its order; an exception is raised in the caller it belongs to.
Run = Callable[[list[_Call]], Awaitable[Sequence["_Answer | Exception"]]]

_Waiting = tuple[_Call, "asyncio.Future[_Answer]", Callable[[_Answer], None] | None]


class Batcher(Generic[_Call, _Answer]):
    """Collects calls while the batch before them is under way, then runs them as one.

    Nobody waits for a batch to fill: the first call of an idle batcher starts at once, together
    with all others made in the same turn of the event loop.

    :param run: carries out a batch; an exception of its own goes to every caller in the batch
    :param limit: the most calls in a batch
    """

    def __init__(self, run: Run[_Call, _Answer], limit: int) -> None:
        self._run = run
        self._limit = limit
        self._waiting: deque[_Waiting[_Call, _Answer]] = deque()
        self._task: asyncio.Task[None] | None = None

    def submit(
        self, call: _Call, undo: Callable[[_Answer], None] | None = None
    ) -> asyncio.Future[_Answer]:
        """Add a call to the next batch.

        :param undo: called with the answer if whoever waited for it is gone by then. Cancelling
            a future does not call back a command that is under way, and a claim nobody knows of
            would hold its page until the lease ends.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[_Answer] = loop.create_future()
        self._waiting.append((call, future, undo))
        if self._task is None:
            self._task = loop.create_task(self._drain())
        return future

    async def join(self) -> None:
        """Wait until nothing is under way."""
        while self._task is not None:
            await asyncio.wait([self._task])

    async def _drain(self) -> None:
        try:
            while self._waiting:
                size = min(self._limit, len(self._waiting))
                batch = [self._waiting.popleft() for _ in range(size)]
                # A caller that has gone away before its call began needs no answer.
                batch = [one for one in batch if not one[1].cancelled()]
                try:
                    answers = await self._run([call for call, _, _ in batch]) if batch else ()
                except Exception as error:
                    answers = [error] * len(batch)
                except BaseException:
                    for _, future, _ in batch:
                        future.cancel()
                    raise
                for (_, future, undo), answer in zip(batch, answers, strict=True):
                    _settle(future, answer, undo)
        finally:
            self._task = None


def forget_outcome(future: asyncio.Future[Any]) -> None:
    """Mark an exception as seen: for calls whose outcome interests nobody."""
    future.add_done_callback(lambda done: None if done.cancelled() else done.exception())


def _settle(
    future: asyncio.Future[_Answer],
    answer: _Answer | Exception,
    undo: Callable[[_Answer], None] | None,
) -> None:
    if future.cancelled():
        if undo is not None and not isinstance(answer, Exception):
            undo(answer)
    elif isinstance(answer, Exception):
        future.set_exception(answer)
    else:
        future.set_result(answer)
