"""Several calls of a walk under way at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import aclosing
from typing import Any

import pytest

from dedup_middleware.index.redis.upkeep import in_order


class Server:
    """Answers each call with its number, later ones sooner; counts the calls under way."""

    def __init__(self, *, broken: int = -1, stuck: int = 99) -> None:
        self.broken = broken
        self.stuck = stuck  # the first call that gets no answer
        self.now = self.most = self.cancelled = 0

    async def answer(self, number: int) -> int:
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            await asyncio.sleep(0.001 * (9 - number % 10) if number < self.stuck else 1000)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.now -= 1
        if number == self.broken:
            raise ConnectionError(number)
        return number

    async def calls(self, count: int) -> AsyncIterator[Coroutine[Any, Any, int]]:
        for number in range(count):
            yield self.answer(number)


@pytest.mark.parametrize("ahead", [1, 3, 50])
async def test_answers_come_in_order(ahead: int) -> None:
    """Answers come in the order of the calls, no more of which are under way than allowed."""
    server = Server()
    assert [one async for one in in_order(server.calls(25), ahead)] == list(range(25))
    assert server.most == min(ahead, 25)


async def test_a_walk_that_is_left_leaves_no_call_behind() -> None:
    """Whoever breaks off ends the calls under way."""
    server = Server(stuck=1)
    async with aclosing(in_order(server.calls(25), 4)) as answers:
        async for _ in answers:
            break
    await asyncio.sleep(0)
    assert server.now == 0
    assert server.cancelled == 3


async def test_an_error_ends_the_walk() -> None:
    """An error comes in its turn, after the answers before it, and ends the calls under way."""
    server = Server(broken=5)
    seen: list[int] = []

    async def walk() -> None:
        async for one in in_order(server.calls(25), 4):
            seen.append(one)

    with pytest.raises(ConnectionError):
        await walk()
    assert seen == [0, 1, 2, 3, 4]
    await asyncio.sleep(0.02)
    assert server.now == 0
