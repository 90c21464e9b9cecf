"""Calls made at the same time run together."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

import pytest

from dedup_middleware.index.batching import Batcher


class Work:
    """Doubles numbers and keeps the batches; each batch takes until the test lets it end."""

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
    """Calls submitted before the event loop turns are one batch, up to the limit."""
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


async def test_second_lane_opens_for_a_crowd() -> None:
    """While a batch is under way another begins only for enough calls; fewer wait for its end."""
    work = Work()
    batcher = Batcher(work.run, 100, lanes=2, crowd=3)
    work.proceed.clear()
    first = batcher.submit(1)
    await asyncio.sleep(0)
    others = [batcher.submit(n) for n in (2, 3)]
    for _ in range(3):
        await asyncio.sleep(0)
    assert work.batches == [[1]]
    others.append(batcher.submit(4))
    for _ in range(3):
        await asyncio.sleep(0)
    assert work.batches == [[1], [2, 3, 4]]
    others.append(batcher.submit(5))
    work.proceed.set()
    assert await asyncio.gather(first, *others) == [2, 4, 6, 8, 10]
    assert work.batches == [[1], [2, 3, 4], [5]]


async def test_errors_reach_their_callers() -> None:
    """An error of one call reaches its caller, an error of the batch all callers."""
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
    """After ``join`` no call is under way, not even the one that was submitted last."""
    work = Work()
    batcher = Batcher(work.run, 1)
    futures = [batcher.submit(n) for n in range(1, 4)]
    await batcher.join()
    assert [future.result() for future in futures] == [2, 4, 6]


async def test_caller_cancelled_as_its_result_comes() -> None:
    """The result is there, but the caller is cancelled before it can go on: the call is undone."""
    undone: list[int] = []

    async def run(calls: list[int]) -> Iterator[int]:
        def results() -> Iterator[int]:
            yield 2 * calls[0]
            caller.cancel()  # just behind the result

        return results()

    batcher: Batcher[int, int] = Batcher(run, 4)
    caller = asyncio.ensure_future(batcher.result(1, undone.append))
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert undone == [2]


async def test_batcher_that_is_cancelled() -> None:
    """When the task of a batch is cancelled, so are its callers: none waits for ever."""
    work = Work()
    batcher = Batcher(work.run, 100)
    work.proceed.clear()
    future = batcher.submit(1)
    await asyncio.sleep(0)
    assert batcher._tasks
    next(iter(batcher._tasks)).cancel()
    with pytest.raises(asyncio.CancelledError):
        await future


async def test_call_made_when_a_batch_has_just_ended() -> None:
    """A caller that submits again from the callback of its result is served."""
    work = Work()
    batcher = Batcher(work.run, 100)
    again: list[asyncio.Future[int]] = []
    first = batcher.submit(1)
    first.add_done_callback(lambda _: again.append(batcher.submit(2)))
    assert await first == 2
    await asyncio.sleep(0)
    assert await asyncio.wait_for(again[0], 60) == 4


async def test_two_batches_at_a_time() -> None:
    """With two lanes a second batch starts while the first one is under way, a third one does not;
    it begins as soon as one of them has its results."""
    work = Work()
    batcher = Batcher(work.run, 100, lanes=2)
    work.proceed.clear()
    futures = [batcher.submit(1), batcher.submit(2)]
    await asyncio.sleep(0)
    futures.append(batcher.submit(3))
    await asyncio.sleep(0)
    futures += [batcher.submit(4), batcher.submit(5)]
    await asyncio.sleep(0)
    assert work.batches == [[1, 2], [3]]
    work.proceed.set()
    assert await asyncio.gather(*futures) == [2, 4, 6, 8, 10]
    assert work.batches == [[1, 2], [3], [4, 5]]
    await batcher.join()


async def test_more_than_a_batch_takes_both_lanes() -> None:
    """Calls that do not fit into the first batch go with the second one at once."""
    work = Work()
    batcher = Batcher(work.run, 2, lanes=2)
    work.proceed.clear()
    futures = [batcher.submit(n) for n in range(1, 6)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert work.batches == [[1, 2], [3, 4]]
    work.proceed.set()
    assert await asyncio.gather(*futures) == [2, 4, 6, 8, 10]


async def test_answers_are_worked_out_in_portions() -> None:
    """Callers of the first portion go on before the results of the next one are computed; what they
    submit starts in the meantime."""
    events: list[str] = []

    async def run(calls: list[int]) -> Iterator[int]:
        events.append(f"run {calls}")

        def answers() -> Iterator[int]:
            for call in calls:
                events.append(f"answer {call}")
                yield call

        return answers()

    batcher = Batcher(run, 100, portion=2)

    async def caller(number: int) -> None:
        await batcher.submit(number)
        events.append(f"result {number}")
        if number == 1:
            await batcher.submit(9)

    await asyncio.gather(*(caller(number) for number in (1, 2, 3)))
    assert events.index("result 1") < events.index("answer 3")
    assert events.index("run [9]") < events.index("result 3")
    await batcher.join()


async def test_error_half_way_reaches_the_rest() -> None:
    """Results computed before an error are returned; all other callers get the error."""

    async def run(calls: list[int]) -> Iterator[int]:
        return (10 // call for call in calls)

    batcher = Batcher(run, 100, portion=1)
    outcome = await asyncio.gather(*map(batcher.submit, (5, 2, 0, 1)), return_exceptions=True)
    assert outcome[:2] == [2, 5]
    assert [type(error) for error in outcome[2:]] == [ZeroDivisionError, ZeroDivisionError]
    assert await batcher.submit(1) == 10
