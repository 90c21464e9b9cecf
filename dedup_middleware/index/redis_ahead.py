"""Several calls of a long walk under way at the same time."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Coroutine
from typing import Any, TypeVar

from dedup_middleware.index.batching import forget_outcome

_T = TypeVar("_T")


async def in_order(calls: AsyncIterator[Coroutine[Any, Any, _T]], ahead: int) -> AsyncIterator[_T]:
    """Results of calls, in their order; while one is worked on, the next ones are under way.

    A server carries out what one client has sent in one go before it turns to others, so ``ahead``
    times the time of a call is how long it may keep them waiting.

    :param ahead: the most calls under way
    """
    waiting: deque[asyncio.Task[_T]] = deque()
    loop = asyncio.get_running_loop()
    try:
        async for call in calls:
            waiting.append(loop.create_task(call))
            if len(waiting) >= ahead:
                yield await waiting.popleft()
        while waiting:
            yield await waiting.popleft()
    finally:
        for one in waiting:
            forget_outcome(one)
            one.cancel()
