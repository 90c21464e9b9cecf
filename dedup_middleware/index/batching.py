"""Batches concurrent calls, so that they share round trips and transactions."""

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

# Carries out a batch and returns a result for each call, in order. An exception is raised in the
# caller; a future is awaited by the caller alone, while the batch counts as done.
Run = Callable[[list[_Call]], Awaitable[Iterable["_Result | Exception | asyncio.Future[_Result]"]]]

_Waiting = tuple[_Call, "asyncio.Future[_Result]", Callable[[_Result], None] | None]


@attrs.define(eq=False)
class Batcher(Generic[_Call, _Result]):
    """Collects calls while earlier batches are in flight, then runs them as one batch.

    No call waits for a batch to fill: an idle batcher starts a batch at once with all calls made in
    the same iteration of the event loop.

    :param run: carries out a batch; an exception that it raises goes to every caller in the batch
    :param limit: maximum number of calls in a batch
    :param lanes: maximum number of batches in flight; with more than one they may be reordered
    :param crowd: minimum number of waiting calls to start a batch while another is in flight; few
        large batches cost less than many small ones
    :param portion: number of results delivered before control returns to the event loop, so that
        their callers can submit new calls while an iterator from ``run`` computes the rest
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
    _joins: int = attrs.field(
        init=False, default=0
    )  # a batch from before the last one counts no more
    # Id of the process that made the first call since creation or the last join.
    _process: int = attrs.field(init=False, default=0)

    def submit(
        self, call: _Call, undo: Callable[[_Result], None] | None = None
    ) -> asyncio.Future[_Result]:
        """Add a call to the next batch.

        :param undo: called with the result if the caller was cancelled meanwhile. Cancelling does
            not stop a command already sent, and a claim that no caller knows would block its page
            until the lease ends.
        :raises IndexUnavailableError: this process was forked from the one that made the first
            call: on a shared connection each would read the other's replies
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
        """Await the result of a call; ``undo`` is also called if the caller is cancelled in the
        same event loop iteration in which the result arrives."""
        future = self.submit(call, undo)
        try:
            return await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled() and future.exception() is None:
                undo(future.result())
            raise

    async def join(self) -> None:
        """Wait until no batch is in flight; call it before connections are closed."""
        await ended(self._tasks)
        # An event loop that ends may cancel a batch before its first step.
        self._under_way, self._is_starting = 0, False
        self._joins += 1
        for _, future, _ in self._waiting:
            if not future.get_loop().is_closed():
                future.cancel()
        self._waiting.clear()
        self._process = 0  # another process may open new connections from now on

    def _start(self) -> None:
        """Schedule a batch for the next event loop iteration, if a lane is free."""
        wanted = self._crowd if self._under_way else 1
        if len(self._waiting) >= wanted and not self._is_starting and self._under_way < self._lanes:
            self._is_starting = True
            self._under_way += 1
            task = asyncio.get_running_loop().create_task(self._serve())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _serve(self) -> None:
        self._is_starting = False
        size = min(self._limit, len(self._waiting))
        batch = [self._waiting.popleft() for _ in range(size)]
        self._start()
        # Callers cancelled before their batch began need no reply.
        batch = [one for one in batch if not one[1].cancelled()]
        served, joins = 0, self._joins
        try:
            try:
                results = await self._run([call for call, _, _ in batch]) if batch else ()
            finally:
                if joins == self._joins:
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


async def ended(tasks: set[asyncio.Task[None]]) -> None:
    """Wait until a set of tasks is empty. Those of a closed event loop, which never end, are taken
    out."""
    while tasks:
        tasks -= {task for task in tasks if task.get_loop().is_closed()}
        if tasks:
            await asyncio.wait(tasks)


async def stop(task: asyncio.Task[None] | None) -> None:
    """Cancel a task and wait for its end; the caller's own cancellation still propagates. A task of
    a closed event loop never ends."""
    if task is not None and not task.done() and not task.get_loop().is_closed():
        task.cancel()
        await asyncio.wait([task])


def forget_outcome(future: asyncio.Future[Any]) -> None:
    """Retrieve a future's exception, so that asyncio does not log it as never retrieved."""
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
