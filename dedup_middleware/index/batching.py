"""Concurrent calls of one process share round trips and transactions."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Generic, TypeVar

import attrs

from dedup_middleware.base.errors import IndexUnavailableError

_Call = TypeVar("_Call")
_Result = TypeVar("_Result")

# Results of a batch, in its order; an exception is raised in the caller it belongs to. A caller
# whose result is a future waits for that, while the batch counts as done.
Run = Callable[[list[_Call]], Awaitable[Iterable["_Result | Exception | asyncio.Future[_Result]"]]]

_Waiting = tuple[_Call, "asyncio.Future[_Result]", Callable[[_Result], None] | None]


@attrs.define(eq=False)
class Batcher(Generic[_Call, _Result]):
    """Collects calls while the batches before them are under way, then runs them as one.

    No call waits for a batch to fill: an idle batcher starts at once with all calls that are made
    in the same turn of the event loop.

    :param run: carries out a batch; an exception of its own goes to every caller in the batch
    :param limit: the most calls in a batch
    :param lanes: the most batches under way; with more than one, batches may overtake each other
    :param crowd: least number of waiting calls for another batch to begin while one is under way;
        few large batches cost less than many small ones
    :param portion: number of callers that get their results before control returns to the event
        loop, to send their next calls while an iterator of ``run`` computes the rest
    """

    _run: Run[_Call, _Result]
    _limit: int
    _lanes: int = attrs.field(default=1, kw_only=True)
    _crowd: int = attrs.field(default=1, kw_only=True)
    _portion: int = attrs.field(default=1 << 30, kw_only=True)
    _waiting: deque[_Waiting[_Call, _Result]] = attrs.field(init=False, factory=deque)
    _tasks: set[asyncio.Task[None]] = attrs.field(init=False, factory=set)
    _under_way: int = attrs.field(init=False, default=0)
    _is_starting: bool = attrs.field(init=False, default=False)
    # The one that made the first call since it was made or joined.
    _process: int = attrs.field(init=False, default=0)

    def submit(
        self, call: _Call, undo: Callable[[_Result], None] | None = None
    ) -> asyncio.Future[_Result]:
        """Add a call to the next batch.

        :param undo: called with the result if the caller was cancelled meanwhile. Cancelling does
            not stop a command that was sent, and an unknown claim would block its page until
            the lease ends.
        :raises IndexUnavailableError: the process was forked from the one that made the first call:
            on a connection that both use, each would take the other's replies
        """
        process = os.getpid()
        self._process = self._process or process
        if self._process != process:
            raise IndexUnavailableError(
                "the index was opened before this process was forked; fork first, and open it in "
                "each process"
            )
        loop = asyncio.get_running_loop()
        future: asyncio.Future[_Result] = loop.create_future()
        self._waiting.append((call, future, undo))
        self._start()
        return future

    async def result(self, call: _Call, undo: Callable[[_Result], None]) -> _Result:
        """The result of a call; undone also where its caller is cancelled in the turn of the event
        loop in which it comes."""
        future = self.submit(call, undo)
        try:
            return await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled() and future.exception() is None:
                undo(future.result())
            raise

    async def join(self) -> None:
        """Wait until nothing is under way, before connections are closed."""
        while self._tasks:
            await asyncio.wait(self._tasks)
        self._process = 0  # connections that are made from now on are of who makes them

    def _start(self) -> None:
        """Begin one more batch in the next turn of the event loop, if there is a lane for it."""
        wanted = self._crowd if self._under_way else 1
        if len(self._waiting) >= wanted and not self._is_starting and self._under_way < self._lanes:
            self._is_starting = True
            self._under_way += 1
            task = asyncio.get_running_loop().create_task(self._serve())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _serve(self) -> None:
        """Run one batch and set the results of its callers."""
        self._is_starting = False
        size = min(self._limit, len(self._waiting))
        batch = [self._waiting.popleft() for _ in range(size)]
        self._start()
        # A caller that has gone away before its call began needs no reply.
        batch = [one for one in batch if not one[1].cancelled()]
        served = 0
        try:
            try:
                results = await self._run([call for call, _, _ in batch]) if batch else ()
            finally:
                self._under_way -= 1
                self._start()
            for (_, future, undo), result in zip(batch, results, strict=True):
                _settle(future, result, undo)
                served += 1
                if served % self._portion == 0:
                    await asyncio.sleep(0)
        except Exception as error:
            for _, future, undo in batch[served:]:
                _settle(future, error, undo)
        except BaseException:
            for _, future, _ in batch[served:]:
                future.cancel()
            raise


def forget_outcome(future: asyncio.Future[Any]) -> None:
    """Mark an exception as retrieved: for calls whose outcome is not needed."""
    future.add_done_callback(lambda done: None if done.cancelled() else done.exception())


def _settle(
    future: asyncio.Future[_Result],
    result: _Result | Exception | asyncio.Future[_Result],
    undo: Callable[[_Result], None] | None,
) -> None:
    if isinstance(result, asyncio.Future):
        result.add_done_callback(lambda done: _pass_on(future, done, undo))
    elif future.cancelled():
        if undo is not None and not isinstance(result, Exception):
            undo(result)
    elif isinstance(result, Exception):
        future.set_exception(result)
    else:
        future.set_result(result)


def _pass_on(
    future: asyncio.Future[_Result],
    done: asyncio.Future[_Result],
    undo: Callable[[_Result], None] | None,
) -> None:
    if done.cancelled():
        future.cancel()
    else:
        error = done.exception()
        _settle(future, error if isinstance(error, Exception) else done.result(), undo)
