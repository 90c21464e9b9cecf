"""Calls made at the same time run together."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from dedup_middleware.index.batching import Batcher


class Work:
    """Doubles numbers, remembers the batches; each takes until it is let go on."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.proceed = asyncio.Event()
        self.proceed.set()

    async def run(self, calls: list[int]) -> Sequence[int | Exception]:
        self.batches.append(calls)
        await self.proceed.wait()
        if 13 in calls:
            raise OSError("all of them")
        return [ValueError("this one") if call == 0 else 2 * call for call in calls]


async def test_calls_of_one_turn_are_one_batch() -> None:
    """What is submitted before the loop turns goes together, up to the limit."""
    work = Work()
    batcher = Batcher(work.run, 3)
    assert await asyncio.gather(*(batcher.submit(n) for n in range(1, 6))) == [2, 4, 6, 8, 10]
    assert work.batches == [[1, 2, 3], [4, 5]]


async def test_calls_gather_while_a_batch_is_under_way() -> None:
    """The next batch holds everything that came in the meantime."""
    work = Work()
    batcher = Batcher(work.run, 100)
    work.proceed.clear()
    first = batcher.submit(1)
    await asyncio.sleep(0)
    others = [batcher.submit(n) for n in (2, 3, 4)]
    work.proceed.set()
    assert await asyncio.gather(first, *others) == [2, 4, 6, 8]
    assert work.batches == [[1], [2, 3, 4]]


async def test_errors_reach_their_callers() -> None:
    """An error of one call is its own, an error of the batch is everybody's."""
    batcher = Batcher(Work().run, 100)
    outcome = await asyncio.gather(*map(batcher.submit, (0, 1)), return_exceptions=True)
    assert isinstance(outcome[0], ValueError)
    assert outcome[1] == 2
    outcome = await asyncio.gather(*map(batcher.submit, (1, 13)), return_exceptions=True)
    assert [type(error) for error in outcome] == [OSError, OSError]
    assert await batcher.submit(5) == 10


async def test_cancelled_calls() -> None:
    """A call cancelled before its batch never runs; one cancelled later is undone."""
    work, undone = Work(), []
    batcher = Batcher(work.run, 100)
    work.proceed.clear()
    running = batcher.submit(1, undone.append)
    await asyncio.sleep(0)
    waiting = batcher.submit(2, undone.append)
    running.cancel()
    waiting.cancel()
    work.proceed.set()
    await batcher.join()
    assert work.batches == [[1]]
    assert undone == [2]


async def test_join_waits_for_everything() -> None:
    """After joining nothing is under way, not even what was submitted last."""
    work = Work()
    batcher = Batcher(work.run, 1)
    futures = [batcher.submit(n) for n in range(1, 4)]
    await batcher.join()
    assert [future.result() for future in futures] == [2, 4, 6]


async def test_batcher_that_is_cancelled() -> None:
    """When the task of a batch is cancelled, so are its callers: nobody waits for ever."""
    work = Work()
    batcher = Batcher(work.run, 100)
    work.proceed.clear()
    future = batcher.submit(1)
    await asyncio.sleep(0)
    assert batcher._task is not None
    batcher._task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await future


async def test_call_made_when_a_batch_has_just_ended() -> None:
    """A caller that submits again from the callback of its answer is served."""
    work = Work()
    batcher = Batcher(work.run, 100)
    again: list[asyncio.Future[int]] = []
    first = batcher.submit(1)
    first.add_done_callback(lambda _: again.append(batcher.submit(2)))
    assert await first == 2
    await asyncio.sleep(0)
    assert await asyncio.wait_for(again[0], 1) == 4
