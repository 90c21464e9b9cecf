"""Sends the signal ``dedup_duplicate``, without making decisions wait for its receivers."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from dedup_middleware.journal.writer import near_match
from dedup_middleware.model.documents import DUPLICATE, REVISIT, Match, Verdict
from dedup_middleware.plugin.signals import dedup_duplicate

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)

NEAR = "near"
MAX_RUNNING = 1000  # calls of receivers, above which the next item to be announced waits
LONGEST_WAIT = 30.0  # seconds that receivers may take at the end of a crawl


def announcement(verdict: Verdict) -> tuple[str, Match] | None:
    """What is announced of a verdict: its kind and the stored page; None: nothing.

    >>> announcement(Verdict("k", "duplicate", "exact-copy", Match("m", 1, 1.0, 1.0, 0)))[0]
    'duplicate'
    >>> announcement(Verdict("k", "new", "nothing-alike"))
    """
    if verdict.outcome in (DUPLICATE, REVISIT) and verdict.match is not None:
        return verdict.outcome, verdict.match
    near = near_match(verdict)
    return None if near is None else (NEAR, near)


class Announcer:
    """Calls the receivers in tasks of their own."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._running: set[asyncio.Task[Any]] = set()

    async def send(self, item: Any, verdict: Verdict, *, dropped: bool) -> None:
        """Announce an item if it is like a stored page.

        Returns at once, except while :data:`MAX_RUNNING` earlier calls have not ended.
        """
        said = announcement(verdict)
        if said is None:
            return
        kind, match = said
        if len(self._running) >= MAX_RUNNING:
            await asyncio.wait(self._running, return_when=asyncio.FIRST_COMPLETED)
        task = asyncio.create_task(
            self._crawler.signals.send_catch_log_async(
                dedup_duplicate,
                item=item,
                verdict=verdict,
                kind=kind,
                match=match,
                dropped=dropped,
                spider=self._crawler.spider,
            )
        )
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def close(self) -> None:
        """Wait until all receivers have ended, :data:`LONGEST_WAIT` seconds at the most."""
        if not self._running:
            return
        _, late = await asyncio.wait(self._running, timeout=LONGEST_WAIT)
        for task in late:
            task.cancel()
        if late:
            logger.warning(
                "%d receivers of dedup_duplicate did not end within %g seconds of the end of the "
                "crawl and are cancelled",
                len(late),
                LONGEST_WAIT,
            )
