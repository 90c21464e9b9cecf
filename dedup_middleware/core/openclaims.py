"""The claims that one process holds, and waiting until one of them is settled."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet

from dedup_middleware.base.errors import IndexUnavailableError
from dedup_middleware.core.availability import FaultLog
from dedup_middleware.index.base import Index
from dedup_middleware.model.claims import Claim

logger = logging.getLogger(__name__)


class OpenClaims:
    """Claims that are neither committed nor released yet.

    :ivar waits_end: moment (``time.monotonic``) from which on no page waits for another one
    """

    def __init__(self) -> None:
        self.waits_end = math.inf
        # The event is made when a page begins to wait for the claim to be settled.
        self._claims: dict[Claim, asyncio.Event | None] = {}

    def __len__(self) -> int:
        return len(self._claims)

    def __iter__(self) -> Iterator[Claim]:
        return iter(list(self._claims))

    def add(self, claim: Claim) -> None:
        """Add a claim that the index granted."""
        self._claims.setdefault(claim, None)

    def settle(self, claim: Claim) -> None:
        """Remove a claim that was committed, released or lost."""
        event = self._claims.pop(claim, None)
        if event is not None:
            event.set()

    async def wait(self, page_ids: AbstractSet[int], seconds: float) -> None:
        """Wait until the claim of one of these pages is settled in this process, or time is up.

        :param page_ids: page ids
        """
        events = []
        for claim, event in self._claims.items():
            if claim.page_id in page_ids:
                events.append(event or asyncio.Event())
                self._claims[claim] = events[-1]
        if not events:
            await asyncio.sleep(max(seconds, 0.0))
            return
        waits = [asyncio.ensure_future(event.wait()) for event in events]
        try:
            await asyncio.wait(
                waits, timeout=max(seconds, 0.0), return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            for task in waits:
                task.cancel()


async def keep_alive(
    claims: OpenClaims,
    index: Index,
    lease: float,
    count: Callable[[str, float], None],
    faults: FaultLog,
) -> None:
    """Extend the leases of pages that take long to be stored, until the task is cancelled."""
    while True:
        await asyncio.sleep(lease / 3)
        if not len(claims):
            continue
        try:
            await index.renew(list(claims), lease)
        except IndexUnavailableError as error:
            count("error/index", 1)
            faults.warn(error, "The index can't extend leases")
        except Exception:
            # Without it the leases of all pages on their way would run out.
            count("error/internal", 1)
            logger.exception("The index can't extend leases: an error of the plugin")
